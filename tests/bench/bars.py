"""The bars: what this project must reach as a ratio to a floor or a peer of the same run, and whether it did."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.bench.rows import OURS, PEERS

__all__ = ["BARS", "BEST_PEER", "Bar", "Figures", "Judgement", "Verdict", "judge", "judge_all"]

BEST_PEER = "best peer"


@dataclass(frozen=True)
class Bar:
    """One figure of ours over one figure of another row: at most, or at least, so many times."""

    what: str
    test: str
    metric: str
    reference: str  # a row's name, or BEST_PEER
    limit: float
    at_least: bool = False
    reference_metric: str = ""  # where it differs from `metric`

    @property
    def rule(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:g} × `{self.reference}`"


def _http(year: int, connections: int) -> tuple[Bar, Bar]:
    era = "2025-11-25" if year == 2025 else "2026-07-28"
    what, test = f"HTTP echo, {connections} connections, {era}: req/s", f"D.{year}.c{connections}"
    return (
        Bar(what, test, "rps", "floor", 0.9, at_least=True),
        Bar(what, test, "rps", BEST_PEER, 4.0, at_least=True),
    )


BARS: tuple[Bar, ...] = (
    Bar("cold start on stdio: spawn → `initialize`", "A.cold", "init_ms", "floor", 1.6),
    Bar("cold start: spawn → first `tools/list`", "A.cold", "list_ms", "floor", 1.7, reference_metric="init_ms"),
    Bar("cold start: spawn → first `tools/call`", "A.cold", "call_ms", "floor", 1.9, reference_metric="init_ms"),
    Bar("resident memory after `initialize`", "A.rss", "rss_mb", "floor", 1.25),
    Bar("stdio echo, 1 in flight: req/s", "B.seq", "rps", "floor", 0.75, at_least=True),
    Bar("stdio echo, 1 in flight: req/s", "B.seq", "rps", "ts1-low", 1.0, at_least=True),
    Bar("stdio echo, 64 in flight: req/s", "B.pipe64", "rps", "ts1-low", 1.5, at_least=True),
    Bar("stdio echo, 64 in flight: CPU per call", "B.pipe64", "cpu_us", "real-rs", 1.1),
    Bar("`tools/list`, 70 tools: p50", "C.list", "p50_ms", "floor", 1.0),
    *_http(2025, 16),
    *_http(2025, 64),
    *_http(2026, 16),
    *_http(2026, 64),
    Bar("idle session with an open stream: memory", "G", "kb_per_session", "floor", 1.3),
    Bar("one `list_changed` to every stream: time", "G", "broadcast_ms", "floor", 1.3),
)


class Figures:
    """The records of one run, as medians over its rounds."""

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        self.records = list(records)
        self.names: tuple[str, ...] = tuple(dict.fromkeys(record["name"] for record in self.records))

    def per_round(self, name: str, test: str, metric: str) -> dict[int, float]:
        return {
            record["round"]: record[metric]
            for record in self.records
            if record["name"] == name and record["test"] == test and record.get(metric) is not None
        }

    def median(self, name: str, test: str, metric: str) -> float | None:
        values = self.per_round(name, test, metric).values()
        return statistics.median(values) if values else None

    def problems(self, name: str, test: str) -> list[str]:
        """Why a figure of this cell cannot be trusted: the server failed, or answers were wrong."""
        kinds = (test, "stdio" if test[0] in "ABC" else "http")
        found = []
        for record in self.records:
            if record["name"] != name or record["test"] not in kinds:
                continue
            if "failed" in record:
                found.append(f"failed: {record['failed']}")
            elif record.get("errors"):
                found.append(f"{record['errors']} wrong answers: {record.get('first_error', '')}")
        return found

    def best_peer(self, bar: Bar) -> str | None:
        """The peer with the best figure in this test, if one was measured."""
        measured: list[tuple[float, str]] = [
            (value, name)
            for name in self.names
            if name in PEERS and (value := self.median(name, bar.test, bar.metric)) is not None
        ]
        if not measured:
            return None
        return max(measured)[1] if bar.at_least else min(measured)[1]


class Verdict(enum.Enum):
    PASS = "pass"
    MISS = "miss"
    INVALID = "invalid"  # the server failed or answered wrongly, so its speed means nothing
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Judgement:
    """One bar, what was measured, and the verdict."""

    bar: Bar
    row: str
    verdict: Verdict
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    ours: float | None = None
    theirs: float | None = None
    note: str = ""


def judge(bar: Bar, figures: Figures, row: str = OURS.name) -> Judgement:
    """The median of the ratios within each round against the bar, so that no figure of a quiet round is held against
    one of a busy round; the spread is that of these ratios."""
    reference = figures.best_peer(bar) if bar.reference == BEST_PEER else bar.reference
    for name in (row, reference):
        if name and (problems := figures.problems(name, bar.test)):
            return Judgement(bar, row, Verdict.INVALID, note=f"`{name}` {problems[0]}")
    their_metric = bar.reference_metric or bar.metric
    ours = figures.median(row, bar.test, bar.metric)
    theirs = figures.median(reference, bar.test, their_metric) if reference else None
    if ours is None or not theirs:
        missing = f"no figure of `{row}`" if ours is None else f"no figure of `{reference or 'any peer'}`"
        return Judgement(bar, row, Verdict.NOT_MEASURED, ours=ours, theirs=theirs, note=missing)
    mine = figures.per_round(row, bar.test, bar.metric)
    other = figures.per_round(str(reference), bar.test, their_metric)
    ratios = [mine[number] / other[number] for number in mine if other.get(number)]
    ratio = statistics.median(ratios) if ratios else ours / theirs
    reached = ratio >= bar.limit if bar.at_least else ratio <= bar.limit
    return Judgement(
        bar,
        row,
        Verdict.PASS if reached else Verdict.MISS,
        ratio=ratio,
        spread=(min(ratios), max(ratios)) if ratios else None,
        ours=ours,
        theirs=theirs,
        note=f"`{reference}`" if bar.reference == BEST_PEER else "",
    )


def judge_all(figures: Figures, row: str = OURS.name, bars: Sequence[Bar] = BARS) -> list[Judgement]:
    return [judge(bar, figures, row) for bar in bars]
