"""What is measured in turns on a machine that does other work too, and how far such measures can be told apart.

Other work only ever adds to a time. So each kind is measured many times, in an order that changes with every turn, and
the fastest quarter of each counts. One kind is measured as two, which differ in nothing: their ratio says what the
method is able to tell in this run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

__all__ = ["Start", "compare", "fastest_quarter", "order_of", "processor_ms", "ratio", "start_in_turns", "usual_start"]

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


class Start(NamedTuple):
    """Milliseconds from a spawn to the first answer and to the first list, and of processor time until the list."""

    init_ms: float
    list_ms: float
    busy_ms: float


def start_in_turns(kinds: Mapping[str, Callable[[], Start]], spawns: int) -> dict[str, list[Start]]:
    """Each kind so many times."""
    taken: dict[str, list[Start]] = {kind: [] for kind in kinds}
    for turn in range(spawns):
        for kind in order_of(list(kinds), turn):
            taken[kind].append(kinds[kind]())
    return taken


def usual_start(starts: Sequence[Start]) -> Start:
    return Start(*map(fastest_quarter, zip(*starts, strict=True)))


def compare(ours: Sequence[Start], theirs: Sequence[Start]) -> Start:
    """Ours as a multiple of theirs."""
    return Start(*(mine / other for mine, other in zip(usual_start(ours), usual_start(theirs), strict=True)))
