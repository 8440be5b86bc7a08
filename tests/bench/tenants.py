"""`python -m tests.bench.tenants`: what it costs to act for several clients: a call, its resolution, a start, memory,
and another one's backend that fails.

The call goes to one backend in this process by turns with tenancy and without; the starts are of the product on stdio
with one client and with 500, in turns within one run. The faults are those of `tenant_faults`.

Exit code 0: measured, whatever the verdicts; 1: a server failed; 2: misused.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.page import Section
from tests.bench.turns import Start, compare, processor_ms, start_in_turns

SECTION = Section(
    "<!-- tenants:begin (written by python -m tests.bench.tenants; do not edit) -->",
    "<!-- tenants:end -->",
    "## Several clients behind one server",
)
MANY = 500
CALLS = 200  # in one turn
ANSWER = json.dumps({"items": [], "total": 0}).encode()


class Figure(NamedTuple):
    """A figure with its bar; `most` says whether the bar is an upper one."""

    what: str
    limit: float
    measured: float
    unit: str
    most: bool = True

    def line(self) -> str:
        kept = self.measured <= self.limit if self.most else self.measured >= self.limit
        sign = "≤" if self.most else "≥"
        return (
            f"| {self.what} | {sign} {self.limit:g} {self.unit} | {self.measured:.3f} {self.unit} "
            f"| {'pass' if kept else '**miss**'} |"
        )


def config(count: int, port: int = 9) -> dict[str, str]:
    clients = {
        f"client-{number}": {"apiBaseUrl": f"http://127.0.0.1:{port}", "apiKeyEnv": "KEY", "name": f"Client {number}"}
        for number in range(count)
    }
    return {"CLIENTS_CONFIG": json.dumps(clients), "KEY": "zrv_sk_bench"}


def resolution(seconds: float) -> list[Figure]:
    """The whole of what stands between a call's arguments and its tenant; and what an idle tenant weighs."""
    from tests.bench.exposure import spread
    from zorivest_rpc.tenants.config import build
    from zorivest_rpc.tenants.context import Contexts
    from zorivest_rpc.tenants.resolve import Resolver
    from zorivest_rpc.tenants.sources import read_variable

    environ = config(MANY)
    tenants = build("bench", read_variable(environ["CLIENTS_CONFIG"]))
    contexts = Contexts(tenants, environ)
    resolver = Resolver(contexts)
    arguments: dict[str, Any] = {"clientId": "client-250", "limit": 5, "offset": 0}
    exact, _ = spread(lambda: resolver.resolve("", None, arguments), seconds)
    spelt: dict[str, Any] = {**arguments, "clientId": " Client-251 "}
    loose, _ = spread(lambda: resolver.resolve("", None, spelt), seconds)

    async def weigh() -> float:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for id in tenants.tenants:
            context = contexts.of(id)
            context.backend()
            context.take_call()
        used = tracemalloc.get_traced_memory()[0] - before
        for id in tenants.tenants:
            await contexts.of(id).rest()
        tracemalloc.stop()
        return used / len(tenants.tenants) / 1024

    return [
        Figure(f"resolution among {MANY} clients: median", 5, exact, "µs"),
        Figure("the same of an id that is spelt otherwise", 5, loose, "µs"),
        Figure("a client that was used once and is idle", 64, asyncio.run(weigh()), "KiB"),
    ]


# --- a call


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A backend that says the least that makes a call succeed."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
            )
            await reader.readexactly(length)
            body = ANSWER
            if b"/auth/unlock" in head:
                body = b'{"session_token":"tok_x","expires_in":3600,"role":"admin"}'
            elif b"/mcp-guard/check" in head:
                body = b'{"allowed":true}'
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


class Turn(NamedTuple):
    """One turn of calls: calls a second, and processor time of this process for each, the backend's included."""

    rate: float
    busy_us: float


async def _turn(client: Any, arguments: dict[str, Any]) -> Turn:
    busy, began = time.process_time(), time.perf_counter()
    for _ in range(CALLS):
        result = await client.call("list_trades", **arguments)
        assert not result.get("isError"), result
    return Turn(CALLS / (time.perf_counter() - began), (time.process_time() - busy) / CALLS * 1e6)


async def _call_ratio(directory: str, rounds: int) -> Turn:
    """With tenancy as a share of without: the median of the turns that followed each other."""
    from tests.tenants.wall.stage import Client
    from zorivest_rpc.app import Journal
    from zorivest_rpc.config import parse
    from zorivest_rpc.mcp.server import Server

    backend = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = backend.sockets[0].getsockname()[1]
    journals, clients = [], []
    for several in (False, True):
        options = [] if several else ["--api-url", f"http://127.0.0.1:{port}"]
        given = config(MANY, port) if several else {"ZORIVEST_API_KEY": "zrv_sk_bench"}
        os.environ.update(given)
        journal = Journal(parse("stdio", ["--data-dir", directory, *options], {"HOME": directory, **given}))
        for name in given:
            if name != "KEY":
                os.environ.pop(name)
        client = Client(Server(journal.offer))
        await client.open()
        journals.append(journal)
        clients.append((client, {"clientId": "client-7"} if several else {}))
    ratios = []
    for client, arguments in clients:
        await _turn(client, arguments)
    for turn in range(rounds):
        rates = {}
        for index in (0, 1) if turn % 2 else (1, 0):
            rates[index] = await _turn(*clients[index])
        ratios.append(Turn(rates[1].rate / rates[0].rate, rates[0].busy_us / rates[1].busy_us))
    for client, _ in clients:
        await client.close()
    for journal in journals:
        await journal.close()
    backend.close()
    return Turn(*map(statistics.median, zip(*ratios, strict=True)))


# --- a start


def start_ratio(spawns: int) -> Start:
    """A start with 500 clients, as a multiple of one with one."""
    from tests.bench.loadgen import Stdio, encode
    from tests.bench.processes import cores
    from tests.bench.rows import FLOOR, ROOT, environment

    def start(count: int) -> Start:
        server = Stdio(command, environment(FLOOR, Path(directory), **config(count)), cores().every, ROOT)
        try:
            opened = server.initialize()
            os.write(server.input, encode("tools/list", {}, 2) + b"\n")
            tools = json.loads(server.line())["result"]["tools"]
            listed = (time.perf_counter_ns() - server.spawned) / 1e6
            assert any(tool["name"] == "list_clients" for tool in tools)
            return Start(opened, listed, processor_ms(server.pid))
        finally:
            server.close()

    with tempfile.TemporaryDirectory() as directory:
        command = (sys.executable, "-m", "zorivest_rpc", "stdio", "--data-dir", directory)
        taken = start_in_turns({"one": partial(start, 1), "many": partial(start, MANY)}, spawns)
    return compare(taken["many"], taken["one"])


def main(argv: list[str]) -> int:
    from tests.bench import embedded_tenants, tenant_faults
    from tests.bench.report import about_run
    from tests.bench.rows import FLOOR, ROOT

    parser = argparse.ArgumentParser(prog="python -m tests.bench.tenants", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per figure (default 1)")
    parser.add_argument("--rounds", type=int, default=41, help="turns of calls (default 41)")
    parser.add_argument("--spawns", type=int, default=15, help="starts of each kind (default 15)")
    parser.add_argument("--faults", type=int, default=25, help="turns of each kind of fault (default 25)")
    parser.add_argument("--print", action="store_true", dest="shown", help="print the section and write no page")
    chosen = parser.parse_args(argv)
    figures = resolution(chosen.seconds)
    with tempfile.TemporaryDirectory() as directory:
        ratio = asyncio.run(_call_ratio(directory, chosen.rounds))
        felt = tenant_faults.measure(directory, chosen.faults)
    figures.append(Figure("calls with tenancy, as a share of those without", 0.95, ratio.rate, "×", most=False))
    same = "the same by processor time, that of backend and client included"
    figures.append(Figure(same, 0.95, ratio.busy_us, "×", most=False))
    start = start_ratio(chosen.spawns)
    what = f"a start with {MANY} clients to the first list, as a multiple of one with one"
    figures.append(Figure(f"{what}: the fastest quarter of each", 1.1, start.list_ms, "×"))
    figures.append(Figure("the same by processor time", 1.1, start.busy_ms, "×"))
    two, twenty = embedded_tenants.measure()
    figures.append(Figure("memory with 20 embedded clients, two in use, as a multiple of two", 1.05, twenty / two, "×"))
    for fault, others in felt.items():
        what = f"p95 of the other clients' calls while a backend {fault}, as a multiple of that while it is well"
        figures.append(Figure(what, 1.3, others.wall, "×"))
        figures.append(Figure("the same by processor time", 1.3, others.busy, "×"))
    about = about_run((FLOOR,), chosen.rounds, chosen.seconds, chosen.spawns)
    lines = ["| figure | bar | measured | |", "|---|---|---|---|", *(figure.line() for figure in figures)]
    block = (
        f"Measured on {about['date'][:10]}.\n\n" + "\n".join(lines) + "\n"
        if "date" in about
        else "\n".join(lines) + "\n"
    )
    if chosen.shown:
        print(block)
    else:
        SECTION.write(ROOT / "docs" / "benchmarks.md", block)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
