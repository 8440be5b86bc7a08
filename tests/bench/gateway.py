"""`python -m tests.bench.gateway`: calls forwarded to other MCP servers, beside two proxies and beside no proxy at all.

Every call runs the whole pipeline, the guard's question to a backend included, which the peers do not have. What is
asked stands on the load generator's core, what is measured alone on the other one. The TypeScript server that is asked
directly is the very process to which calls are forwarded, in its place: what differs is what stands between. The peers'
environments are made by `python -m tests.bench.setup_peers`; a bar whose peer is not there is not measured.

Exit code 0: measured, whatever the verdicts; 1: a server failed or answered wrongly; 2: misused.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, Figures, Judgement, judge
from tests.bench.catalog import CALL_ARGUMENTS, write_catalog
from tests.bench.gateway_servers import MODULE, config, entry_http, entry_stdio, upstream_command
from tests.bench.loadgen import META, Stdio, decode, encode, is_right, stdio_load, without_collector
from tests.bench.loadgen_http import http_load
from tests.bench.page import GATEWAY
from tests.bench.processes import allow_many_files, cores, free_port, start, stop, wait_port
from tests.bench.product import _backend_process, _embedded, _microseconds
from tests.bench.report import about_run, bars_table
from tests.bench.rows import CACHE, FLOOR, PEERS, ROOT, SERVERS, Row, environment
from tests.bench.run import Plan, _Run
from tests.bench.setup_peers import FASTMCP_PYTHON, MCP_PROXY, is_ready
from tests.bench.turns import Start, processor_ms, start_in_turns, usual_start

PIPE, HTTP, TS, COLD, BROKEN = "W.pipe16", "W.c64", "W.ts16", "A.upstreams", "W.broken"
PROXIES = ("fastmcp-proxy", "mcp-proxy")
READY_SECONDS = 30.0
SEVEN = tuple(f"up{number}" for number in range(1, 8))
MOST_LIST = 1000.0  # microseconds of server time


def bars() -> list[tuple[str, Bar]]:
    """Each with the row that it judges."""
    pipe, http = "forwarded to HTTP, stdio in front, 16 in flight", "forwarded to stdio, HTTP in front, 64 in flight"
    start = "cold start with five servers that take 3 s"
    listed, busy = "cold start with them: spawn → first `tools/list`", "processor time until that list"
    direct = "forwarded to a TypeScript server over HTTP, 16 in flight"
    return [
        *(("gateway", Bar(f"{pipe}: req/s", PIPE, "rps", peer, 3.0, at_least=True)) for peer in PROXIES),
        *(("gateway", Bar(f"{http}: req/s", HTTP, "rps", peer, 3.0, at_least=True)) for peer in PROXIES),
        ("gateway-ts", Bar(f"{direct}: req/s", TS, "rps", "ts1-low", 0.5, at_least=True)),
        ("five-slow", Bar(f"{start}: spawn → `initialize`", COLD, "init_ms", "none", 1.05)),
        ("five-slow", Bar(listed, COLD, "list_ms", "none", 1.05)),
        ("five-slow", Bar(busy, COLD, "busy_ms", "none", 1.05)),
        ("one-broken", Bar("the other seven of eight, one broken: p50", BROKEN, "p50_ms", "all-well", 1.1)),
    ]


# --- one at a time


def wait_until_forwarding(server: Stdio, tool: str = "echo", modern: bool = True) -> None:
    """An upstream is found after the first answer."""
    end, id = time.monotonic() + READY_SECONDS, 100
    while time.monotonic() < end:
        id += 1
        ask(server, tool, id, modern)
        line = server.line()
        while decode(line).get("id") != id:  # a list has changed
            line = server.line()
        if is_right(decode(line), id, "echo"):
            return
        time.sleep(0.05)
    raise TimeoutError(f"no right answer within {READY_SECONDS:g} s, last {line[:300]!r}")


def ask(server: Stdio, tool: str, id: int, modern: bool = True) -> None:
    params: dict[str, Any] = {"name": tool, "arguments": CALL_ARGUMENTS}
    if modern:
        params["_meta"] = META
    os.write(server.input, encode("tools/call", params, id) + b"\n")


def latency_of(server: Stdio, tools: Sequence[str], eighth: str, seconds: float) -> dict[str, Any]:
    """Milliseconds of one call after the other, over the tools in turn. Every tenth time the eighth is called as well,
    which may be broken: up to four of its calls wait meanwhile."""
    taken: list[float] = []
    wrong, id = 0, 1_000_000
    open_: set[int] = set()
    with without_collector():
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if len(taken) % 10 == 0 and len(open_) < 4:
                id += 1
                open_.add(id)
                ask(server, eighth, id)
            id += 1
            began = time.perf_counter()
            ask(server, tools[id % len(tools)], id)
            while True:
                answer = decode(server.line())
                came = time.perf_counter()
                if answer.get("id") == id:
                    break
                open_.discard(answer.get("id"))
            taken.append((came - began) * 1000)
            wrong += not is_right(answer, id, "echo")
    while open_ and select.select([server.output], [], [], 5)[0]:
        open_.discard(decode(server.line()).get("id"))
    return {"n": len(taken), "errors": wrong, "p50_ms": statistics.median(taken)}


# --- the list, within this process


def list_time(upstream_tools: int = 500) -> float:
    """Microseconds of server time for the whole `tools/list`: 68 of ours, the two meta-tools and 500 of an upstream."""
    from zorivest_rpc.app import Journal
    from zorivest_rpc.config import parse
    from zorivest_rpc.gateway.catalogue import Offered
    from zorivest_rpc.gateway.router import Gateway
    from zorivest_rpc.mcp.client.lists import Item, Listing
    from zorivest_rpc.mcp.server import Server
    from zorivest_rpc.mcp.transports.memory import MemoryClient

    definitions = json.loads(write_catalog(CACHE).read_bytes())["tools"]

    async def measure(data: str) -> float:
        path = config(Path(data), "list", entry_http("up", "http://127.0.0.1:9/mcp", prefix=True))
        options = ["--data-dir", data, "--toolsets", "all", "--client-mode", "dynamic", "--config", str(path)]
        journal = Journal(parse("stdio", options, {}))
        gateway = journal.gateway()
        assert isinstance(gateway, Gateway)
        (member,) = gateway.members.values()
        made = [{**definitions[number % 68], "name": f"tool_{number}"} for number in range(upstream_tools)]
        listing = Listing(tuple(Item(each["name"], json.dumps(each).encode(), each) for each in made))
        member._publish(Offered(member.server, "ready", None, listing, gateway._judge(member.server, listing)))
        client = MemoryClient(Server(journal.offer))
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        client.send(encode("initialize", opening, 0))
        client.send(encode("notifications/initialized"))
        client.take_frames()
        wanted = encode("tools/list", {}, 1)

        def once() -> None:
            client.send(wanted)
            (answer,) = client.take_frames()
            if answer.count(b'"inputSchema"') < 68 + upstream_tools:
                raise ValueError(f"not the whole list: {answer[:300]!r}")

        return _microseconds({"tools/list": once})["tools/list"]

    import asyncio

    with tempfile.TemporaryDirectory() as data:
        return asyncio.run(measure(data))


# --- the run


class _GatewayRun(_Run):
    def cold(self, rows: Sequence[Row]) -> None:
        taken = start_in_turns({row.name: partial(self._start, row) for row in rows}, self.plan.spawns)
        for row in rows:
            self._keep(row, COLD, usual_start(taken[row.name])._asdict())

    def _start(self, row: Row) -> Start:
        server = self._spawn(row, self.cores.every)
        try:
            return Start(server.initialize(), _first_list(server), processor_ms(server.pid))
        finally:
            server.close()

    def on_stdio(self, test: str, rows: Sequence[Row]) -> None:
        with contextlib.ExitStack() as running:
            servers = []
            for row in rows:
                server = self._spawn(row, self.cores.server)
                running.callback(server.close)
                with self._reporting(row, test):
                    if not row.modern:
                        server.initialize()
                    wait_until_forwarding(server, modern=row.modern)
                    stdio_load(server, "echo", 16, row.warmup, warmup=1, modern=row.modern)
                    servers.append((row, server))
            for row, server in servers:
                load = partial(stdio_load, server, "echo", 16, self.plan.seconds, warmup=0, modern=row.modern)
                self._load(row, test, load)

    def over_http(self, test: str, rows: Sequence[Row], connections: int) -> None:
        with contextlib.ExitStack() as running:
            servers = []
            for row in rows:
                with self._reporting(row, test):
                    url, process = running.enter_context(self._serving(row))
                    _wait_http(url, row.modern)
                    http_load(url, "echo", connections, row.warmup, modern=row.modern, warmup=0)
                    servers.append((row, url, process.pid))
            seconds = self.plan.seconds * (connections / 16)  # a peer takes most of a second for 64 at once
            for row, url, pid in servers:
                load = partial(http_load, url, "echo", connections, seconds, modern=row.modern, pid=pid, warmup=0.1)
                self._load(row, test, load)

    def ask_directly(self, row: Row, url: str) -> None:
        with self._reporting(row, TS):
            _wait_http(url, row.modern)
            http_load(url, "echo", 16, row.warmup, modern=row.modern, warmup=0)
            self._load(row, TS, partial(http_load, url, "echo", 16, self.plan.seconds, modern=row.modern, warmup=0.1))

    def isolation(self, well: Row, broken: Row) -> None:
        """Both run at once, and take turns."""
        tools = [f"{name}__echo" for name in SEVEN]
        servers = {}
        try:
            for row in (well, broken):
                server = servers[row.name] = self._spawn(row, self.cores.server)
                for tool in tools:
                    wait_until_forwarding(server, tool)
            for row in (well, broken):
                self._load(row, BROKEN, partial(latency_of, servers[row.name], tools, "up8__echo", self.plan.seconds))
        finally:
            for server in servers.values():
                server.close()


def _first_list(server: Stdio) -> float:
    """Milliseconds from the spawn to the first list. What it holds differs with the servers; ours is whole."""
    os.write(server.input, encode("tools/list", {}, 2) + b"\n")
    line = server.line()
    taken = (time.perf_counter_ns() - server.spawned) / 1e6
    if len(decode(line)["result"]["tools"]) < 30:
        raise ValueError(f"not the answer to tools/list: {line[:300]!r}")
    return taken


def _wait_http(url: str, modern: bool) -> None:
    end = time.monotonic() + READY_SECONDS
    while True:
        try:
            figures = http_load(url, "echo", 1, 0.05, modern=modern, warmup=0)
        except (OSError, ValueError) as exc:
            figures = {"n": 0, "first_error": str(exc)}
        if figures["n"] and not figures["errors"]:
            return
        if time.monotonic() > end:
            raise TimeoutError(f"no right answer within {READY_SECONDS:g} s, last {figures.get('first_error')}")
        time.sleep(0.05)


@contextlib.contextmanager
def _behind(command: Sequence[str], catalog: Path, row: Row = FLOOR) -> Iterator[str]:
    """A server on the load generator's core, listening at the port that it is given."""
    port = free_port()
    words = [word.replace("{port}", str(port)) for word in command]
    process = start(words, environment(row, catalog), cores().client, ROOT)
    try:
        wait_port(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


class Rows:
    """What is measured, made of the addresses of what stands behind."""

    def __init__(self, directory: Path, upstream: str, mute: str, ts: str) -> None:
        core = min(cores().client)
        child = upstream_command(core)
        eight = [entry_http(name, f"{upstream}/mcp", prefix=True) for name in SEVEN]
        hanging = entry_http("up8", f"{mute}/hang", "call_timeout_secs = 1", prefix=True)
        self.pipe = [
            _front("gateway", config(directory, "http", entry_http("up", f"{upstream}/mcp"))),
            *_proxies(f"{upstream}/mcp", front="stdio"),
        ]
        self.http = [_front("gateway", config(directory, "stdio", entry_stdio("up", child))), *_proxies(*child)]
        self.ts = _front("gateway-ts", config(directory, "ts", entry_http("up", f"{ts}/mcp"))) if ts else None
        self.well = _front("all-well", config(directory, "well", *eight, entry_http("up8", f"{upstream}/mcp")))
        self.broken = _front("one-broken", config(directory, "broken", *eight, hanging))
        slow = [entry_http(f"web{number}", f"{mute}/slow") for number in range(3)]
        slow += [entry_stdio(f"child{number}", ("sleep", "60")) for number in range(2)]
        command = (sys.executable, "-m", "zorivest_rpc", "stdio", "--client-mode", "dynamic", "--data-dir")
        data = (str(directory / "data"),)
        self.cold = [
            Row("none", "the product without upstreams", (*command, *data), None),
            Row(
                "five-slow",
                "the same with three HTTP servers that take 3 s to answer and two children that do not answer",
                (*command, *data, "--config", str(config(directory, "slow", *slow))),
                None,
            ),
        ]


def _front(name: str, path: Path) -> Row:
    words = (*MODULE, "front")
    http = (*words, "http", "{port}")
    return Row(name, "this project", (*words, "stdio"), http, warmup=1.0, env={"BENCH_CONFIG": str(path)})


def _proxies(*target: str, front: str = "http") -> list[Row]:
    """The peers that are there."""
    script = str(SERVERS / "fastmcp_proxy.py")
    fast = (str(FASTMCP_PYTHON), "-W", "ignore", script)
    if front == "stdio":
        old = (str(MCP_PROXY), "--transport", "streamablehttp", *target)
    else:
        old = (str(MCP_PROXY), "--port", "{port}", "--pass-environment", "--cwd", str(ROOT), "--", *target)
    found = [
        Row("fastmcp-proxy", "FastMCP 4's proxy", (*fast, "stdio", *target), (*fast, "http", "{port}", *target)),
        Row("mcp-proxy", "`mcp-proxy` from PyPI", old, old, modern=False),
    ]
    return [row for row in found if is_ready(row.name)]


def measure(rounds: int, seconds: float, spawns: int, tests: str) -> list[dict[str, Any]]:
    allow_many_files()
    catalog = write_catalog(CACHE)
    everywhere = os.sched_getaffinity(0)
    ts_row = PEERS["ts1-low"]() if is_ready("ts1-low") else None
    with contextlib.ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        backend = stack.enter_context(_backend_process(catalog))
        upstream = stack.enter_context(_behind((*MODULE, "upstream", "http", "{port}"), catalog))
        mute = stack.enter_context(_behind((*MODULE, "mute", "{port}"), catalog))
        ts = stack.enter_context(_behind(ts_row.http or (), catalog, ts_row)) if ts_row else ""
        rows = Rows(data, upstream, mute, ts)
        stack.enter_context(_embedded(data / "data"))
        raw = stack.enter_context(open(CACHE / "gateway.jsonl", "wb"))
        run = _GatewayRun(Plan([], frozenset(), rounds, seconds, spawns), raw, catalog, backend)
        os.sched_setaffinity(0, run.cores.client)
        try:
            for number in range(1, rounds + 1):
                run.round, turn = number, (number - 1) % 3
                if "a" in tests:
                    run.cold(rows.cold)
                if "b" in tests:
                    run.on_stdio(PIPE, rows.pipe[turn:] + rows.pipe[:turn])
                if "t" in tests and ts_row is not None and rows.ts is not None:
                    forwarded, asked = (
                        partial(run.on_stdio, TS, [rows.ts]),
                        partial(run.ask_directly, ts_row, f"{ts}/mcp"),
                    )
                    for step in (forwarded, asked) if turn % 2 else (asked, forwarded):
                        step()
                if "c" in tests:
                    run.over_http(HTTP, rows.http[turn:] + rows.http[:turn], 64)
                if "e" in tests:
                    run.isolation(rows.well, rows.broken)
        finally:
            os.sched_setaffinity(0, everywhere)
        return run.records


# --- the report


def judged(records: list[dict[str, Any]]) -> list[Judgement]:
    figures = Figures(records)
    return [judge(bar, figures, row) for row, bar in bars()]


def _rates(records: list[dict[str, Any]]) -> list[str]:
    figures = Figures(records)
    lines = ["| server | test | req/s | p50 ms | processor time per call, µs |", "|---|---|---|---|---|"]
    for test in (PIPE, HTTP, TS):
        for name in figures.names:
            rate = figures.median(name, test, "rps")
            if rate is not None:
                p50, cpu = figures.median(name, test, "p50_ms"), figures.median(name, test, "cpu_us")
                lines.append(f"| {name} | {test} | {rate:,.0f} | {p50 or 0:.2f} | {f'{cpu:,.0f}' if cpu else '–'} |")
    return lines


def report(records: list[dict[str, Any]], about: dict[str, Any], list_us: float) -> str:
    """The block between the markers."""
    wrong = [record for record in records if "failed" in record or record.get("errors")]
    verdict = f"{list_us:.0f} µs | {'pass' if list_us <= MOST_LIST else '**miss**'}"
    lines = [
        f"The gateway, {about['date']}, {about['machine']}; {about['python']}, load average before the run "
        f"{about['load'][0]}; {about['rounds']} rounds, {about['seconds']:g} s per cell, {about['spawns']} spawns a "
        "round. Medians over the rounds, of starts the fastest quarter of each round; every ratio is the median of "
        "those within single rounds; compare only figures of one run. `gateway` asks a backend's guard before "
        "every call; `fastmcp-proxy` (FastMCP 4, one connected client, uvloop) and `mcp-proxy` have nothing like it. "
        "`ts1-low` is asked directly. Processor time is that of the measured process alone.",
        "",
        *bars_table(judged(records)),
        f"| server time of `tools/list`, 68 + 500 upstream tools | ≤ {MOST_LIST:g} µs | | {verdict} |",
        "",
        *_rates(records),
        "",
        *(f"- wrong: round {each['round']} `{each['name']}` {each['test']}: {each}" for each in wrong),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gateway", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per cell")
    parser.add_argument("--spawns", type=int, default=10, help="cold starts per round")
    parser.add_argument("--tests", default="abtce", help="a cold start, b stdio, t TypeScript, c HTTP, e one broken")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md", help="page to write")
    chosen = parser.parse_args(argv)
    if chosen.rounds < 1 or chosen.seconds <= 0 or chosen.spawns < 1:
        parser.error("--rounds, --seconds and --spawns must be positive")
    about = about_run([], chosen.rounds, chosen.seconds, chosen.spawns)
    list_us = list_time()
    records = measure(chosen.rounds, chosen.seconds, chosen.spawns, chosen.tests)
    block = report(records, about, list_us)
    print(block)
    if set("abtce") <= set(chosen.tests):
        GATEWAY.write(chosen.out, block)
    return int(any("failed" in record or record.get("errors") for record in records))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
