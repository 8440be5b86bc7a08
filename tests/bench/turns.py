"""What is measured in turns on a machine that does other work too, and how far such measures can be told apart.

Other work only ever adds to a time. So each kind is measured many times, in an order that changes with every turn, and
the fastest quarter of each counts. One kind is measured as two, which differ in nothing: their ratio says what the
method is able to tell in this run.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = ["fastest_quarter", "order_of", "processor_ms", "ratio"]

Kind = TypeVar("Kind")


def order_of(kinds: Sequence[Kind], turn: int) -> list[Kind]:
    """Each kind once; over the turns each stands in each place equally often, after each of the others."""
    shifted = [*kinds[turn % len(kinds) :], *kinds[: turn % len(kinds)]]
    return shifted[::-1] if turn // len(kinds) % 2 else shifted


def fastest_quarter(taken: Sequence[float]) -> float:
    """The mean of the lowest quarter of the times; less at the mercy of one of them than the least is."""
    return statistics.fmean(sorted(taken)[: max(1, len(taken) // 4)])


def ratio(taken: Mapping[str, Sequence[float]], kind: str, reference: str) -> float:
    return fastest_quarter(taken[kind]) / fastest_quarter(taken[reference])


def processor_ms(pid: int) -> float:
    """Milliseconds that all threads of a process were on a processor until now."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e6
