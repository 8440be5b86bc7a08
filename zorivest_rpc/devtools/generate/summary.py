"""What changed on a page, as Markdown for a pull request: speed, errors, failed requests, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from zorivest_rpc.devtools.entries import Artefact, Entry, Measured, Recording
from zorivest_rpc.devtools.frames import Log, Performance, Request
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["make_summary"]

MEDIA_TYPE: Final = "text/markdown"
_MOST: Final = 10  # of each list
_ROWS: Final = (
    ("Load", "load", "ms"),
    ("FCP", "fcp", "ms"),
    ("LCP", "lcp", "ms"),
    ("CLS", "cls", ""),
    ("Bytes", "bytes", "B"),
)


def make_summary(recording: Recording, arguments: Mapping[str, Json]) -> Artefact:
    measured = recording.measured[-1] if recording.measured else None
    lines = ["## What changed on the page", ""]
    lines += [*_speed(measured), "", "### Errors", ""]
    lines += [*_errors(recording, measured), "", "### Failed requests", ""]
    lines += [*_failures([entry.item for entry in recording.network]), "", "### What was recorded", ""]
    lines.append(
        f"{len(recording.logs)} log entries, {len(recording.network)} requests, {len(recording.actions)} actions,"
        f" {len(recording.ws_events)} WebSocket events, {len(recording.measured)} measured addresses."
    )
    notes = () if measured else ("No page load was measured, so the table of speeds is missing.",)
    return Artefact("\n".join(lines) + "\n", MEDIA_TYPE, notes)


def _speed(measured: Measured | None) -> Iterator[str]:
    if measured is None:
        yield "No page load was measured."
        return
    yield f"Measured: {_code(measured.url)}, {measured.documents} load{'s' * (measured.documents != 1)}."
    yield ""
    yield "| | before | after | change |"
    yield "|---|---:|---:|---:|"
    first, latest = measured.first.item, measured.latest.item
    for name, field, unit in _ROWS:
        yield _row(name, field, unit, first, latest, measured.documents > 1)
    if measured.documents < 2:
        yield ""
        yield "Only one load was measured: there is nothing to compare it with."


def _row(name: str, field: str, unit: str, first: Performance, latest: Performance, compared: bool) -> str:
    before, after = getattr(first, field), getattr(latest, field)
    if not compared:
        return f"| {name} | – | {_value(after, field, unit)} | – |"
    change = "–"
    if before is not None and after is not None:
        rounded = round(after - before, 3 if field == "cls" else 0)
        share = f" ({rounded / before:+.0%})" if before and rounded else ""
        change = "unchanged" if not rounded else f"{rounded:+g}{share}"
    return f"| {name} | {_value(before, field, unit)} | {_value(after, field, unit)} | {change} |"


def _value(value: float | None, field: str, unit: str) -> str:
    if value is None:
        return "not known"
    return f"{value:.3f}" if field == "cls" else f"{value:.0f} {unit}"


def _errors(recording: Recording, measured: Measured | None) -> Iterator[str]:
    errors = [entry for entry in recording.logs if entry.item.level == "error"]
    if measured is None or measured.documents < 2:
        yield f"{len(errors)} recorded; before and after are told once a page was loaded twice."
        yield from _list([entry.item.message for entry in errors])
        return
    mark = measured.first.number
    before, after = _messages(errors, lambda number: number <= mark), _messages(errors, lambda number: number > mark)
    new = [message for message in after if message not in before]
    gone = [message for message in before if message not in after]
    if not new and not gone:
        yield "No error is new and none is gone since the first measured load."
    if new:
        yield f"New since the first measured load ({len(new)}):"
        yield from _list(new)
    if gone:
        yield f"Gone since then ({len(gone)}):"
        yield from _list(gone)


def _messages(errors: Sequence[Entry[Log]], is_wanted: Callable[[int], bool]) -> list[str]:
    return list(dict.fromkeys(entry.item.message for entry in errors if is_wanted(entry.number)))


def _failures(requests: Sequence[Request]) -> Iterator[str]:
    failed = [request for request in requests if request.status >= 400 or request.status == 0]
    if not requests:
        yield "No request was recorded."
    elif not failed:
        yield f"None of {len(requests)}."
    else:
        yield f"{len(failed)} of {len(requests)}:"
        texts = (f"{each.method} {each.url}: {each.status or each.error or 'no answer'}" for each in failed)
        yield from _list(list(dict.fromkeys(texts)))


def _list(texts: Sequence[str]) -> Iterator[str]:
    for text in texts[:_MOST]:
        yield f"- {_code(text)}"
    if len(texts) > _MOST:
        yield f"- and {len(texts) - _MOST} more"


def _code(text: str) -> str:
    """As a code span, in which nothing is markup: page text must not become a heading, a link or a table cell."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+", " ", text).strip().replace("`", "'").replace("|", "¦")
    return f"`{line[:200]}{'…' if len(line) > 200 else ''}`" if line else "`(empty)`"
