"""`python -m tests.bench.scale_tax`: tax lots and wash sales of a hundred thousand trades beside those of ten thousand.

What counts is how the processor time of the backend process grows: ten times the trades may cost at most twelve times
as much to make, one more trade may not cost more because there are many, and memory follows what is open, not what
was. Processor time, unlike the clock, hardly depends on what else the machine does.

The journals are those of the scale run, but the symbols change every fifteen weeks. Somebody who never stops washing
losses in the same share drags along ever more pieces with a basis of their own, so that the later trades make more lots
than the earlier ones; here ten times the trades are ten times the lots."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import scale
from tests.crash.lives import Life, Nursery
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.journal import trades
from zorivest_rpc.embedded.values.symbols import parse_instrument
from zorivest_rpc.embedded.vault.crypto import new_api_key

__all__ = ["ALLOWED", "Column", "measure", "report"]

ALLOWED = 12.0  # times the processor time for ten times the trades
PATIENCE = 900.0
YEAR = 2016  # the first one: both journals have the same trades in it
TICK = os.sysconf("SC_CLK_TCK")
EPOCH = 5_000  # trades between two changes of symbols


def symbol(number: int) -> str:
    """What the n-th trade trades in."""
    return f"{scale.fill(number)['instrument']}{chr(65 + number // EPOCH % 26)}"


def draft(number: int) -> trades.Draft:
    name = symbol(number)
    return scale._draft(number)._replace(instrument=name, what=parse_instrument(name))


@dataclass
class Column:
    """One journal: processor seconds of each question, lots and wash sales in it, and megabytes at the most."""

    trades: int
    seconds: dict[str, float] = field(default_factory=dict)
    lots: int = 0
    memory: dict[str, float] = field(default_factory=dict)


def _spent(pid: int) -> float:
    """Processor seconds of a process so far."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / TICK


class _Asking:
    """One backend process, its answers and what they cost it."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._line = http.client.HTTPConnection("127.0.0.1", life.port, timeout=PATIENCE)

    def close(self) -> None:
        self._line.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self._life.ask(method, path, body, self._line)
        if status not in (200, 201):
            raise RuntimeError(f"{method} {path} was answered {status}: {answer}")
        return answer

    def cost(self, job: Callable[[], Any], rounds: int = 1) -> float:
        """Processor seconds of one round."""
        before = _spent(self._life.pid)
        for _ in range(rounds):
            job()
        return (_spent(self._life.pid) - before) / rounds

    @property
    def peak(self) -> float:
        return scale._peak(self._life.pid)

    @property
    def lots(self) -> int:
        return int(self.ask("GET", "/mcp/state-summary")["counters"]["lots"])


def _more(number: int, count: int) -> dict[str, Any]:
    """A trade after the last one, in a symbol that has a history."""
    return {**scale.fill(number), "instrument": symbol(count - 1)}


def column(place: Path, count: int, rounds: int) -> Column:
    """One journal from its first question to one more trade."""
    key, directory, found = new_api_key(), DataDir(place / str(count) / "data"), Column(count)
    directory.root.parent.mkdir()
    asyncio.run(scale.load(directory, key, count, draft))
    with Nursery(directory, key) as nursery:
        life = nursery.bear()
        if not life.ready():
            raise RuntimeError("the backend did not start")
        asking = _Asking(life)
        found.memory["before"] = asking.peak
        found.seconds["first question, which makes all lots"] = asking.cost(lambda: asking.ask("GET", "/tax/lots"))
        found.memory["after"] = asking.peak
        found.lots = asking.lots
        span = {"date_range_start": f"{YEAR}-01-01", "date_range_end": f"{YEAR}-03-31"}
        asking.ask("PUT", "/settings", {"tax.include_drip_wash_detection": "false"})  # another rule, the same lots
        found.seconds["all lots made anew and compared"] = asking.cost(
            lambda: asking.ask("POST", "/tax/wash-sales", span)
        )
        if asking.lots != found.lots:
            raise RuntimeError(f"lots made twice differ: {found.lots} and {asking.lots}")
        found.seconds["wash sales of a quarter"] = asking.cost(
            lambda: asking.ask("POST", "/tax/wash-sales", span), rounds
        )
        found.seconds["year summary"] = asking.cost(
            lambda: asking.ask("GET", f"/tax/ytd-summary?tax_year={YEAR - 1}"), rounds
        )
        found.seconds["losses to harvest"] = asking.cost(lambda: asking.ask("GET", "/tax/harvest"), rounds)
        later = iter(range(count, count + rounds))
        found.seconds["one more trade and the lots of it"] = asking.cost(
            lambda: (
                asking.ask("POST", "/trades", _more(next(later), count)),
                asking.ask("GET", f"/tax/lots?ticker={symbol(count - 1)}"),
            ),
            rounds,
        )
        asking.ask("POST", "/service/graceful-shutdown")
        asking.close()
    return found


def measure(place: Path, small: int = 10_000, large: int = 100_000, rounds: int = 40) -> tuple[Column, Column]:
    """The small journal, then the large one."""
    columns = []
    for count in (small, large):
        columns.append(column(place, count, rounds))
        print(f"tax lots of {count} trades: {columns[-1].seconds}", file=sys.stderr, flush=True)
    return columns[0], columns[1]


def report(few: Column, many: Column) -> str:
    """The table, and whether the growth is allowed."""
    times = many.trades / few.trades
    lines = [
        "",
        "Tax lots and wash sales, processor time of the backend process:",
        "",
        f"| question | {few.trades:,} trades, s | {many.trades:,} trades, s | ratio |",
        "|---|---|---|---|",
    ]
    for what, seconds in few.seconds.items():
        ratio = many.seconds[what] / seconds if seconds else float("nan")
        lines.append(f"| {what} | {seconds:.3f} | {many.seconds[what]:.3f} | {ratio:.1f} |")
    making = list(few.seconds)[:2]
    worst = max(many.seconds[what] / few.seconds[what] for what in making)
    verdict = "within" if worst <= ALLOWED * times / 10 else "ABOVE"
    grown = [one.memory["after"] - one.memory["before"] for one in (few, many)]
    lines += [
        "",
        f"- {times:g} times the trades ({few.lots:,} and {many.lots:,} lots) cost {worst:.1f} times the processor time "
        f"to make, {verdict} the {ALLOWED * times / 10:g} allowed; "
        f"{statistics.mean(many.seconds[what] for what in making) / many.trades * 1e6:.0f} µs a trade.",
        f"- Making them takes {grown[0]:.0f} MB of memory with {few.trades:,} trades and {grown[1]:.0f} MB with "
        f"{many.trades:,}.",
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale_tax", description=__doc__)
    parser.add_argument("--small", type=int, default=10_000, help="trades of the small journal (default 10000)")
    parser.add_argument("--large", type=int, default=100_000, help="trades of the large journal (default 100000)")
    parser.add_argument("--rounds", type=int, default=40, help="times each small question is asked (default 40)")
    chosen = parser.parse_args(argv)
    if not 0 < chosen.small < chosen.large or chosen.rounds < 1:
        parser.error("--small must be below --large, and --rounds positive")
    with tempfile.TemporaryDirectory(prefix="zorivest-scale-tax-") as place:
        print(report(*measure(Path(place), chosen.small, chosen.large, chosen.rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
