"""`python -m tests.bench.scale`: the journal with a hundred thousand trades beside one with a thousand, and beside bare
SQLCipher that runs the very same statements.

Both journals run as backend processes at once and are asked in turns, so that a busy machine slows all columns alike;
what counts are the ratios. The statements of a request are recorded once, from the application itself on a copy of the
large journal, and replayed on another copy by a bare SQLCipher connection with the same settings."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from sqlalchemy import Connection, Engine, event

from tests.bench.page import SCALE
from tests.crash.lives import Life, Nursery
from tests.embedded.conftest import CHEAP, Caller
from tests.places import ROOT
from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import SETTINGS, cipher_driver
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.journal import accounts, trades
from zorivest_rpc.embedded.journal import reports as journal
from zorivest_rpc.embedded.values.symbols import parse_instrument
from zorivest_rpc.embedded.vault.crypto import new_api_key
from zorivest_rpc.embedded.vault.vault import Vault

PAGE = ROOT / "docs" / "benchmarks.md"
POSITIONS = 100
CYCLE = (("BOT", 10), ("SLD", 4), ("BOT", 4), ("SLD", 5), ("SLD", 5))  # one round trip, flat again at its end
REPORTED = 200  # one trade in so many has a report with tags
START = datetime(2016, 1, 4, 15, 0, tzinfo=UTC)
READS = {
    "list, 50 newest": "/trades?limit=50",
    "round trips, 50 newest with totals": "/round-trips?limit=50",
    "expectancy": "/analytics/expectancy?period=all",
    "SQN": "/analytics/sqn?period=all",
    "strategy breakdown": "/analytics/strategy-breakdown?period=all",
    "fees": "/fees/summary?period=all",
    "cost of free": "/analytics/cost-of-free?period=all",
}
Ask = tuple[str, str, Any, int]  # method, path, body, the status it must have
Statement = tuple[str, Any, bool]  # text, parameters, whether they are many


@dataclass
class Figures:
    """Seconds per request: of the small journal, of the large one, and of bare SQLCipher on the large one."""

    load: dict[int, float] = field(default_factory=dict)
    reads: dict[str, tuple[list[float], list[float], list[float]]] = field(default_factory=dict)
    writes: tuple[list[float], list[float], list[float]] = field(default_factory=lambda: ([], [], []))
    rows: dict[str, int] = field(default_factory=dict)  # that SQL hands to Python, per request on the large journal
    statements: int = 0
    memory: tuple[float, float] = (0.0, 0.0)
    size: float = 0.0


def fill(number: int) -> dict[str, Any]:
    """The n-th trade: a hundred positions take turns, each going through its cycle; prices wander, seeded by place."""
    position, step = number % POSITIONS, number // POSITIONS
    action, quantity = CYCLE[step % len(CYCLE)]
    return {
        "exec_id": f"N{number:07d}",
        "instrument": f"SYM{chr(65 + position // 4)}",
        "action": action,
        "quantity": quantity,
        "price": round(100 + position + random.Random(number).gauss(0, 5), 2),
        "account_id": f"A{position % 4}",
        "commission": 1,
        "fees": 0.25,
        "time": (START + timedelta(minutes=30 * number)).isoformat(),
    }


def _draft(number: int) -> trades.Draft:
    body = fill(number)
    charges = (trades.TradeFee("exchange", Decimal("0.25")),) if number % 10 == 0 else ()
    return trades.Draft(
        exec_id=body["exec_id"],
        time=datetime.fromisoformat(body["time"]),
        instrument=body["instrument"],
        what=parse_instrument(body["instrument"]),
        action=body["action"],
        account_id=body["account_id"],
        quantity=Decimal(body["quantity"]),
        price=Decimal(str(body["price"])),
        commission=Decimal(body["commission"]),
        fees=Decimal(str(body["fees"])),
        charges=charges,
    )


async def load(directory: DataDir, key: str, count: int, draft: Callable[[int], trades.Draft] = _draft) -> float:
    """A journal with so many trades, written the way an import writes them; the seconds that took."""
    backend = Embedded.create(directory, key, key_source="client", driver=cipher_driver(), kdf=CHEAP)
    await backend.open(key)

    def job(conn: Connection) -> None:
        for number in range(4):
            accounts.usable(conn, f"A{number}", auto_create=True, actor="bench")
        assert trades.insert_many(conn, map(draft, range(count))) == []

    def reports(conn: Connection) -> None:
        for number in range(0, count, REPORTED):
            tags = ["breakout" if number % (2 * REPORTED) else "pullback"]
            values = {"setup_quality": 4, "execution_quality": 3, "followed_plan": True, "emotional_state": "calm"}
            journal.add_report(conn, f"N{number:07d}", {**values, "lessons_learned": "", "tags": tags}, "bench")

    began = time.perf_counter()
    await backend.database().write(job)
    seconds = time.perf_counter() - began
    await backend.database().write(reports)
    await backend.close()
    return seconds


class Recorder:
    """The statements that the application runs while something is asked of it."""

    def __init__(self) -> None:
        self.taken: list[Statement] = []

    @contextmanager
    def listening(self) -> Iterator[None]:
        hooks: Sequence[tuple[str, Any]] = (
            ("before_cursor_execute", self._execute),
            ("commit", lambda conn: self.taken.append(("COMMIT", (), False))),
            ("rollback", lambda conn: self.taken.append(("ROLLBACK", (), False))),
        )
        for name, hook in hooks:
            event.listen(Engine, name, hook)
        try:
            yield
        finally:
            for name, hook in hooks:
                event.remove(Engine, name, hook)

    def _execute(self, conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        self.taken.append((statement, parameters, many))

    def take(self) -> list[Statement]:
        taken, self.taken = self.taken, []
        return taken


async def record(directory: DataDir, key: str, numbers: range) -> tuple[dict[str, list[Statement]], list[Any]]:
    """The statements of every read, and of every one of these trades."""
    backend, recorder = Embedded.load(directory), Recorder()
    try:
        async with TestClient(TestServer(create_app(backend))) as client:
            caller = await Caller(client).unlock(key)
            with recorder.listening():
                reads = {}
                for what, path in READS.items():
                    recorder.take()
                    await caller.get(path)
                    reads[what] = recorder.take()
                writes = []
                for number in numbers:
                    recorder.take()
                    await caller.expect(201, "POST", "/trades", fill(number))
                    writes.append(recorder.take())
    finally:
        await backend.close()
    return reads, writes


def bare(directory: DataDir, key: str) -> Any:
    """A connection with the settings of the store, and nothing else of it."""
    _, dek = Vault.load(directory).unlock(key)
    driver: Any = cipher_driver()
    raw = driver.connect(str(directory.database), isolation_level=None)
    raw.execute(f"PRAGMA key = \"x'{dek.hex()}'\"")
    for setting in SETTINGS:
        raw.execute(f"PRAGMA {setting}")
    return raw


def replay(raw: Any, statements: Sequence[Statement]) -> float:
    began = time.perf_counter()
    for text, parameters, many in statements:
        if many:
            raw.executemany(text, parameters)
        else:
            raw.execute(text, parameters).fetchall()
    return time.perf_counter() - began


def rows_of(raw: Any, statements: Sequence[Statement]) -> int:
    """How many rows the statements of a request hand over."""
    return sum(len(raw.execute(text, parameters).fetchall()) for text, parameters, _ in statements)


def _timed(life: Life, connection: Any, method: str, path: str, body: Any, wanted: int) -> float:
    began = time.perf_counter()
    status, answer = life.ask(method, path, body, connection)
    seconds = time.perf_counter() - began
    if status != wanted:
        raise RuntimeError(f"{method} {path} was answered {status}: {answer}")
    return seconds


def _keep(columns: Sequence[list[float]], times: Sequence[float]) -> None:
    for column, seconds in zip(columns, times, strict=True):
        column.append(seconds)


class Turns:
    """The three that are compared do one thing each, in an order that chance decides: who follows whom costs time."""

    def __init__(self, lives: Sequence[Life], connections: Sequence[Any], raw: Any) -> None:
        self._lives = lives
        self._connections = connections
        self._raw = raw
        self._chance = random.Random(1)

    def take(self, small: Ask, large: Ask, statements: Sequence[Statement]) -> list[float]:
        """Seconds of the small journal, the large one, and bare SQLCipher."""
        times = [0.0] * 3
        for which in self._chance.sample(range(3), 3):
            if which == 2:
                times[which] = replay(self._raw, statements)
            else:
                times[which] = _timed(self._lives[which], self._connections[which], *(small, large)[which])
        return times


def _peak(pid: int) -> float:
    """The most memory a process ever had, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def measure(place: Path, small: int, large: int, rounds: int, more: int) -> Figures:
    """Everything, on directories under `place` that are this run's own."""
    figures, key = Figures(), new_api_key()
    directories = {count: DataDir(place / str(count) / "data") for count in (small, large)}
    for count, directory in directories.items():
        directory.root.parent.mkdir()
        figures.load[count] = asyncio.run(load(directory, key, count))
        print(f"loaded {count} trades in {figures.load[count]:.1f} s", file=sys.stderr, flush=True)
    figures.size = directories[large].database.stat().st_size / 2**20
    copies = [DataDir(place / name) for name in ("recorded", "bare")]
    for copy in copies:
        shutil.copytree(directories[large].root, copy.root)
    read_statements, write_statements = asyncio.run(record(copies[0], key, range(large, large + more)))
    figures.statements = round(statistics.median(len(each) for each in write_statements))
    raw = bare(copies[1], key)
    figures.rows = {what: rows_of(raw, statements) for what, statements in read_statements.items()}
    with ExitStack() as stack:
        stack.callback(raw.close)
        lives, connections = [], []
        for directory in directories.values():
            life = stack.enter_context(Nursery(directory, key)).bear()
            if not life.ready():
                raise RuntimeError("a backend did not start")
            lives.append(life)
            connections.append(life.connect())
            stack.callback(connections[-1].close)
        turns = Turns(lives, connections, raw)
        for turn in range(rounds + 1):  # the first warms up
            for what, path in READS.items():
                times = turns.take(("GET", path, None, 200), ("GET", path, None, 200), read_statements[what])
                if turn:
                    _keep(figures.reads.setdefault(what, ([], [], [])), times)
        figures.memory = (_peak(lives[0].pid), _peak(lives[1].pid))
        for offset in range(more):
            few, many = (("POST", "/trades", fill(count + offset), 201) for count in (small, large))
            _keep(figures.writes, turns.take(few, many, write_statements[offset]))
        (held,) = raw.execute("SELECT count(*) FROM trades").fetchone()
        totals = [life.ask("GET", "/trades?limit=1")[1]["total"] for life in lives]
        if (*totals, held) != (small + more, large + more, large + more):
            raise RuntimeError(f"not everybody wrote the same: {totals}, {held}")
        for life in lives:
            life.ask("POST", "/service/graceful-shutdown")
    return figures


def report(figures: Figures, small: int, large: int, rounds: int, more: int) -> str:
    """The block that stands between the markers."""
    median = statistics.median
    lines = [
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M UTC} on {os.cpu_count()} cores, "
        f"{platform.python_implementation()} {platform.python_version()}, "
        f"load average {os.getloadavg()[0]:.1f}: read the ratios, not the milliseconds. "
        f"Medians over {rounds} rounds of reads and {more} writes, the journals and bare SQLCipher taking turns in "
        "random order; one connection, REST including JSON, sessions and routing.",
        "",
        f"| request | {small:,} trades, ms | {large:,} trades, ms | ratio | bare SQLCipher, ms | REST ÷ bare "
        "| rows into Python |",
        "|---|---|---|---|---|---|---|",
    ]
    for what, columns in figures.reads.items():
        few, many, alone = (1000 * median(column) for column in columns)
        figure = f"{few:.1f} | {many:.1f} | {many / few:.1f} | {alone:.1f} | {many / alone:.2f}"
        lines.append(f"| {what} | {figure} | {figures.rows[what]:,} |")
    few, many, alone = (1000 * median(column) for column in figures.writes)
    lines.append(f"| one more trade | {few:.1f} | {many:.1f} | {many / few:.2f} | {alone:.1f} | {many / alone:.2f} | |")
    reads = [sum(map(sum, (columns[which] for columns in figures.reads.values()))) for which in (1, 2)]
    writes = [sum(figures.writes[which]) for which in (1, 2)]
    lines += [
        "",
        f"- Throughput over REST as a share of bare SQLCipher running the same statements on {large:,} trades: "
        f"reads {reads[1] / reads[0]:.2f}, writes {writes[1] / writes[0]:.2f} "
        f"({figures.statements} statements a trade).",
        f"- {large / small:g} times the trades: one more trade costs {many / few:.2f} times as much.",
        f"- Bulk load, {large:,} trades with their round trips in one transaction: {large / figures.load[large]:,.0f} "
        f"trades/s, {figures.load[large] / figures.load[small] * small / large:.2f} times the cost per trade of "
        f"{small:,}; the encrypted file then has {figures.size:.0f} MB.",
        f"- Peak memory of the backend after all reads: {figures.memory[0]:.0f} MB with {small:,} trades, "
        f"{figures.memory[1]:.0f} MB with {large:,}.",
    ]
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> int:
    from tests.bench import scale_tax

    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description=__doc__)
    parser.add_argument("--small", type=int, default=1_000, help="trades of the small journal (default 1000)")
    parser.add_argument("--large", type=int, default=100_000, help="trades of the large journal (default 100000)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of reads (default 15)")
    parser.add_argument("--more", type=int, default=POSITIONS * len(CYCLE), help="trades written one by one")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/benchmarks.md)")
    chosen = parser.parse_args(argv)
    if min(chosen.rounds, chosen.more) < 1 or not 0 < chosen.small < chosen.large:
        parser.error("--rounds and --more must be positive, and --small below --large")
    whole = POSITIONS * len(CYCLE)
    if chosen.small % whole or chosen.large % whole:
        parser.error(f"--small and --large must be multiples of {whole}, so that both journals end flat")
    with tempfile.TemporaryDirectory(prefix="zorivest-scale-") as place:
        figures = measure(Path(place), chosen.small, chosen.large, chosen.rounds, chosen.more)
    block = report(figures, chosen.small, chosen.large, chosen.rounds, chosen.more)
    with tempfile.TemporaryDirectory(prefix="zorivest-scale-") as place:
        block += scale_tax.report(*scale_tax.measure(Path(place), max(chosen.large // 10, whole), chosen.large))
    print(block)
    SCALE.write(chosen.out, block)
    print(f"written: {chosen.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
