"""The rounds: every server in turn, interleaved and rotated, one JSON object per measurement."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson

from tests.bench.catalog import write_catalog
from tests.bench.loadgen import Stdio, stdio_load
from tests.bench.loadgen_http import http_load
from tests.bench.processes import allow_many_files, cores, free_port, rss_mb, start, stop, wait_port
from tests.bench.rows import CACHE, FLOOR, ROOT, SERVERS, Row, environment
from tests.bench.sessions import idle_sessions
from tests.bench.turns import fastest_quarter, order_of

__all__ = ["TESTS", "Plan", "Record", "measure"]

TESTS = {
    "A": "cold start on stdio and memory after initialize",
    "B": "echo on stdio, 1 and 64 in flight",
    "C": "tools/list on stdio",
    "D": "echo over HTTP, both eras",
    "E": "forward to a backend, on stdio and HTTP (no bar; only on request)",
    "G": "idle sessions with an open stream, and one broadcast to all",
}
FAILURES = (OSError, ValueError, LookupError, TypeError)  # what a broken server makes of a measurement
TRIES = 3
QUIET = 0.05  # the share of the server's core that other programs may take before a cell is taken again
Record = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What to measure, and how long."""

    rows: list[Row]
    tests: frozenset[str]
    rounds: int = 5
    seconds: float = 1.0
    spawns: int = 5
    connections: tuple[int, ...] = (16, 64)
    sessions: int = 2000


class _Run:
    def __init__(self, plan: Plan, raw: IO[bytes], catalog: Path, backend: str) -> None:
        self.plan, self.catalog, self.backend = plan, catalog, backend
        self.cores = cores()
        self.round = 0
        self.records: list[Record] = []
        self._raw = raw

    def _keep(self, row: Row, test: str, figures: Record) -> None:
        rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in figures.items()}
        record = {"round": self.round, "name": row.name, "test": test, **rounded}
        self.records.append(record)
        self._raw.write(orjson.dumps(record) + b"\n")
        self._raw.flush()
        shown = " ".join(f"{key}={value}" for key, value in rounded.items())
        print(f"round {self.round} {row.name:10s} {test:10s} {shown}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def _reporting(self, row: Row, test: str) -> Iterator[None]:
        """A server that fails is a record too, and the others go on."""
        try:
            yield
        except FAILURES as exc:
            self._keep(row, test, {"failed": f"{type(exc).__name__}: {exc}"[:300]})

    def _load(self, row: Row, test: str, measurement: Callable[[], Record]) -> None:
        """A cell under load, taken again when other programs held the server's core; wrong answers always count."""
        with self._reporting(row, test):
            tries: list[Record] = []
            while len(tries) < TRIES:
                tries.append(measurement())
                if tries[-1].get("foreign", 0) <= QUIET or tries[-1].get("errors"):
                    break
            wrong = [figures for figures in tries if figures.get("errors")]
            kept = wrong[0] if wrong else min(tries, key=lambda figures: float(figures.get("foreign", 0)))
            self._keep(row, test, {**kept, "tries": len(tries)})

    def _cell(self, row: Row, test: str, measurement: Callable[[], Record]) -> None:
        with self._reporting(row, test):
            self._keep(row, test, measurement())

    def _spawn(self, row: Row, wanted: frozenset[int]) -> Stdio:
        assert row.stdio is not None
        return Stdio(row.stdio, environment(row, self.catalog, BENCH_BACKEND=self.backend), wanted, ROOT)

    @contextlib.contextmanager
    def _serving(self, row: Row, **more: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
        assert row.http is not None
        port = free_port()
        command = [word.replace("{port}", str(port)) for word in row.http]
        variables = environment(row, self.catalog, BENCH_BACKEND=self.backend, **more)
        process = start(command, variables, self.cores.server, ROOT)
        try:
            wait_port(port, process)
            yield f"http://127.0.0.1:{port}/mcp", process
        finally:
            stop(process)

    def one_round(self, number: int) -> None:
        """Every cell for all rows before the next cell: a slow moment of the machine meets all of them."""
        self.round = number
        turn = (number - 1) % len(self.plan.rows)
        order = self.plan.rows[turn:] + self.plan.rows[:turn]
        tests = self.plan.tests
        if "A" in tests:
            self._cold_starts([row for row in order if row.stdio])
        if tests & set("BCE"):
            self._on_stdio([row for row in order if row.stdio])
        if tests & set("DE"):
            self._over_http([row for row in order if row.http])
        if "G" in tests:
            for row in order:
                if row.broadcast:
                    self._cell(row, "G", partial(self._sessions, row))

    def _cold_starts(self, order: list[Row]) -> None:
        taken: dict[str, list[tuple[float, float, float]]] = {row.name: [] for row in order}
        failed: dict[str, str] = {}
        for turn in range(self.plan.spawns):
            for row in order_of(order, turn):
                if row.name in failed:
                    continue
                try:
                    taken[row.name].append(self._cold_start(row))
                except FAILURES as exc:
                    failed[row.name] = f"{type(exc).__name__}: {exc}"[:300]
        for row in order:
            if row.name in failed:
                self._keep(row, "A.cold", {"failed": failed[row.name]})
                continue
            usual = map(fastest_quarter, zip(*taken[row.name], strict=True))
            self._keep(row, "A.cold", dict(zip(("init_ms", "list_ms", "call_ms"), usual, strict=True)))
        for row in order:
            self._cell(row, "A.rss", partial(self._memory, row))

    def _cold_start(self, row: Row) -> tuple[float, float, float]:
        server = self._spawn(row, self.cores.every)
        try:
            return server.initialize(), server.first("list", 2), server.first("echo", 3)
        finally:
            server.close()

    def _memory(self, row: Row) -> Record:
        server = self._spawn(row, self.cores.server)
        try:
            server.initialize()
            time.sleep(0.3)  # what a server loads behind its first answer counts as well
            return {"rss_mb": rss_mb(server.pid)}
        finally:
            server.close()

    def _on_stdio(self, order: list[Row]) -> None:
        seconds, tests = self.plan.seconds, self.plan.tests
        with contextlib.ExitStack() as running:
            servers: list[tuple[Row, Stdio]] = []
            for row in order:
                server = self._spawn(row, self.cores.server)
                running.callback(server.close)
                with self._reporting(row, "stdio"):
                    server.initialize()
                    stdio_load(server, "echo", 64, row.warmup)
                    servers.append((row, server))
            if "B" in tests:
                for row, server in servers:
                    self._load(row, "B.seq", partial(stdio_load, server, "echo", 1, seconds))
                for row, server in servers:
                    self._load(row, "B.pipe64", partial(stdio_load, server, "echo", 64, seconds))
            if "C" in tests:
                for row, server in servers:
                    self._load(row, "C.list", partial(stdio_load, server, "list", 1, seconds, warmup=20))
            if "E" in tests:
                for row, server in servers:
                    if row.forwards:
                        self._load(row, "E.pipe64", partial(self._forward, server, row.warmup))

    def _forward(self, server: Stdio, warmup: float) -> Record:
        stdio_load(server, "forward", 64, warmup)  # the client of the backend has a pool to fill, and maybe a JIT
        return stdio_load(server, "forward", 64, self.plan.seconds)

    def _over_http(self, order: list[Row]) -> None:
        tests, connections = self.plan.tests, self.plan.connections
        with contextlib.ExitStack() as running:
            servers: list[tuple[Row, str, int]] = []
            for row in order:
                with self._reporting(row, "http"):
                    url, process = running.enter_context(self._serving(row))
                    self._warm_http(row, url)
                    servers.append((row, url, process.pid))
            for modern in (False, True) if "D" in tests else ():
                for count in connections:
                    for row, url, pid in servers:
                        if row.modern or not modern:
                            load = partial(http_load, url, "echo", count, self.plan.seconds, modern=modern, pid=pid)
                            self._load(row, f"D.{2026 if modern else 2025}.c{count}", load)
            for count in connections if "E" in tests else ():
                for row, url, pid in servers:
                    if row.forwards:
                        load = partial(http_load, url, "forward", count, self.plan.seconds, pid=pid)
                        self._load(row, f"E.c{count}", load)

    def _warm_http(self, row: Row, url: str) -> None:
        http_load(url, "echo", 16, row.warmup, warmup=0)
        if row.modern:
            http_load(url, "echo", 16, row.warmup, modern=True, warmup=0)
        if "E" in self.plan.tests and row.forwards:
            http_load(url, "forward", 16, row.warmup, warmup=0)

    def _sessions(self, row: Row) -> Record:
        assert row.broadcast is not None
        with self._serving(row, BENCH_BROADCAST="1") as (url, process):
            return idle_sessions(url, process, self.plan.sessions, row.broadcast)


@contextlib.contextmanager
def _backend(wanted: bool, catalog: Path) -> Iterator[str]:
    """The backend of `forward`, on the client's core; only when it is going to be called."""
    if not wanted:
        yield ""
        return
    port = free_port()
    command = [sys.executable, str(SERVERS / "backend.py"), str(port)]
    process = start(command, environment(FLOOR, catalog), cores().client, ROOT)
    try:
        wait_port(port, process)
        yield f"http://127.0.0.1:{port}/"
    finally:
        stop(process)


def measure(plan: Plan, raw: IO[bytes]) -> list[Record]:
    """Run the plan; every measurement is written to `raw` as it is made, and all are returned."""
    allow_many_files()
    catalog = write_catalog(CACHE)
    everywhere = os.sched_getaffinity(0)
    with _backend("E" in plan.tests, catalog) as backend:
        run = _Run(plan, raw, catalog, backend)
        os.sched_setaffinity(0, run.cores.client)
        try:
            for number in range(1, plan.rounds + 1):
                run.one_round(number)
        finally:
            os.sched_setaffinity(0, everywhere)
        return run.records
