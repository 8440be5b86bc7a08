"""The rounds: every server in turn, interleaved and rotated, one JSON object per measurement."""

from __future__ import annotations

import contextlib
import os
import statistics
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
from tests.bench.processes import (
    allow_many_files,
    cores,
    free_port,
    rss_mb,
    start,
    stop,
    wait_port,
)
from tests.bench.rows import CACHE, FLOOR, ROOT, SERVERS, Row, environment
from tests.bench.sessions import idle_sessions

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

    def _cell(self, row: Row, test: str, measurement: Callable[[], Record]) -> None:
        """One measurement; a server that fails is a record too, and the others go on."""
        try:
            figures = measurement()
        except FAILURES as exc:
            figures = {"failed": f"{type(exc).__name__}: {exc}"[:300]}
        self._keep(row, test, figures)

    def _spawn(self, row: Row, wanted: frozenset[int]) -> Stdio:
        assert row.stdio is not None
        return Stdio(row.stdio, environment(row, self.catalog, BENCH_BACKEND=self.backend), wanted, ROOT)

    @contextlib.contextmanager
    def _serving(self, row: Row, **more: str) -> Iterator[tuple[str, Any]]:
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
        self.round = number
        turn = (number - 1) % len(self.plan.rows)
        order = self.plan.rows[turn:] + self.plan.rows[:turn]
        tests = self.plan.tests
        if "A" in tests:
            self._cold_starts([row for row in order if row.stdio])
        for row in order:
            if row.stdio and tests & set("BCE"):
                self._on_stdio(row)
            if row.http and tests & set("DE"):
                self._on_http(row)
        if "G" in tests:
            for row in order:
                if row.broadcast:
                    self._cell(row, "G", partial(self._sessions, row))

    def _cold_starts(self, order: list[Row]) -> None:
        """Spawns alternate between the rows, so that a slow moment of the machine meets all of them."""
        taken: dict[str, list[tuple[float, float, float]]] = {row.name: [] for row in order}
        failed: dict[str, str] = {}
        for _ in range(self.plan.spawns):
            for row in order:
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
            medians = [statistics.median(values) for values in zip(*taken[row.name], strict=True)]
            self._keep(row, "A.cold", dict(zip(("init_ms", "list_ms", "call_ms"), medians, strict=True)))
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

    def _on_stdio(self, row: Row) -> None:
        seconds, tests = self.plan.seconds, self.plan.tests
        server = self._spawn(row, self.cores.server)
        try:
            try:
                server.initialize()
                stdio_load(server, "echo", 64, row.warmup)
            except FAILURES as exc:
                self._keep(row, "stdio", {"failed": f"{type(exc).__name__}: {exc}"[:300]})
                return
            if "B" in tests:
                self._cell(row, "B.seq", lambda: stdio_load(server, "echo", 1, seconds))
                self._cell(row, "B.pipe64", lambda: stdio_load(server, "echo", 64, seconds))
            if "C" in tests:
                self._cell(row, "C.list", lambda: stdio_load(server, "list", 1, seconds, warmup=20))
            if "E" in tests and row.forwards:
                self._cell(row, "E.pipe64", partial(self._forward, server, row.warmup))
        finally:
            server.close()

    def _forward(self, server: Stdio, warmup: float) -> Record:
        stdio_load(server, "forward", 64, warmup)  # the client of the backend has a pool to fill, and maybe a JIT
        return stdio_load(server, "forward", 64, self.plan.seconds)

    def _on_http(self, row: Row) -> None:
        try:
            with self._serving(row) as (url, process):
                self._over_http(row, url, process.pid)
        except FAILURES as exc:
            self._keep(row, "http", {"failed": f"{type(exc).__name__}: {exc}"[:300]})

    def _over_http(self, row: Row, url: str, pid: int) -> None:
        seconds, tests = self.plan.seconds, self.plan.tests

        def load(kind: str, count: int, modern: bool = False) -> Callable[[], Record]:
            return lambda: http_load(url, kind, count, seconds, modern=modern, pid=pid)

        eras = (False, True) if row.modern else (False,)
        if "D" in tests:
            for modern in eras:
                http_load(url, "echo", 16, row.warmup, modern=modern, warmup=0)
            for modern in eras:
                for count in self.plan.connections:
                    self._cell(row, f"D.{2026 if modern else 2025}.c{count}", load("echo", count, modern))
        if "E" in tests and row.forwards:
            http_load(url, "forward", 16, row.warmup, warmup=0)
            for count in self.plan.connections:
                self._cell(row, f"E.c{count}", load("forward", count))

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
