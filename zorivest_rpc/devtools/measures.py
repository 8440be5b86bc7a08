"""Load metrics by URL: the first document measured, the latest, and what is usual, for the 20 URLs measured last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from zorivest_rpc.devtools.entries import Entry, Measured
from zorivest_rpc.devtools.frames import Performance

__all__ = ["METRICS", "MOST_URLS", "Measures", "bare_url", "fold"]

MOST_URLS: Final = 20
_WHOLE: Final = ("requests", "bytes", "long_tasks")
METRICS: Final = ("ttfb", "fcp", "lcp", "cls", "inp", "dom_content_loaded", "load", *_WHOLE, "blocking_ms")
_MEAN_OF: Final = 4  # documents; of later ones each counts a fifth


class _Series(msgspec.Struct):
    """`before` is the baseline without `latest`: a page sends its metrics several times, and counts once."""

    first: Entry[Performance]
    latest: Entry[Performance]
    before: Performance | None
    documents: int


class Measures:
    def __init__(self, changed: Callable[[int], None]) -> None:
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._changed = changed

    def __len__(self) -> int:
        return len(self._series)

    def add(self, entry: Entry[Performance]) -> None:
        url = bare_url(entry.item.url)
        series = self._series.get(url)
        if series is None:
            self._series[url] = _Series(entry, entry, None, 1)
            gone = 0
            if len(self._series) > MOST_URLS:
                self._series.popitem(last=False)
                gone = 1
            if gone != 1:
                self._changed(1)
            return
        self._series.move_to_end(url)
        if entry.page != series.latest.page:
            series.before = fold(series.before, series.documents - 1, series.latest.item)
            series.documents += 1
        if entry.page == series.first.page:
            series.first = entry
        series.latest = entry

    def all(self) -> tuple[Measured, ...]:
        """Least recently measured first."""
        return tuple(
            Measured(url, series.first, series.latest, series.before, series.documents)
            for url, series in self._series.items()
        )

    def clear(self) -> int:
        count = len(self._series)
        self._series.clear()
        if count:
            self._changed(-count)
        return count


def fold(baseline: Performance | None, count: int, new: Performance) -> Performance:
    """The baseline with one more document: the mean of the first four, then 0.8 of the old and 0.2 of the new."""
    if baseline is None:
        return msgspec.structs.replace(new, slowest=[])
    share = 1 / (count + 1) if count < _MEAN_OF else 0.2
    values: dict[str, float | int | None] = {}
    for name in METRICS:
        old, now = getattr(baseline, name), getattr(new, name)
        if old is None or now is None:
            values[name] = now if old is None else old
        else:
            value = old + (now - old) * share
            values[name] = round(value) if name in _WHOLE else value
    return msgspec.structs.replace(new, slowest=[], **values)


def bare_url(url: str) -> str:
    """Without query and fragment."""
    return url.partition("#")[0].partition("?")[0]
