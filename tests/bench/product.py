"""`python -m tests.bench.product`: the product itself beside the floor: start, list, validation, chain and forwarding.

All 68 tools are loaded and every call runs the whole pipeline. What is forwarded is one more tool, dropped into a copy
of `schemas/`, in three variants: without the guard, with the guard asked in a round trip of its own, and with the
guard's question travelling along. Its backend takes the same requests as the floor's and answers the same kilobyte.

Exit code 0: measured, whatever the verdicts; 1: a server failed or answered wrongly; 2: misused.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.bench.bars import Bar, Judgement
    from tests.bench.rows import Row

VARIANTS = {
    "product": "68 tools and the whole pipeline, the forwarding tool outside the guard",
    "product-asks": "the same with the tool behind the guard, asked in a round trip of its own",
    "product-travels": "the same with the guard's question travelling along",
}
PIPE, HTTP = "P.pipe64", "P.c{}"


# --- the servers, each a process of its own


def schemas_with_forward(directory: Path, guarded: bool) -> Path:
    """A copy of the catalogue with the tool that the load calls."""
    import shutil

    from tests.bench.catalog import ORDER_SCHEMA
    from tests.bench.rows import ROOT

    copy = directory / "schemas"
    shutil.copytree(ROOT / "schemas", copy)
    tool: dict[str, Any] = {
        "name": "forward",
        "title": "Forward",
        "description": {
            "minimal": "Post the order to the backend over HTTP and return the backend's JSON.",
            "rich": " ".join(["Post the order to the backend over HTTP and return the backend's JSON."] * 3),
        },
        "inputSchema": {**ORDER_SCHEMA, "additionalProperties": False},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
        "rest": "POST /forward",
    }
    if not guarded:
        tool |= {"guarded": False}
    (copy / "tools" / "core" / "forward.json").write_text(json.dumps(tool))
    return copy


def serve(variant: str, words: list[str]) -> int:
    """The product in front of `BENCH_BACKEND`; which key it shows decides whether the guard's question may travel."""
    from zorivest_rpc.app import Journal
    from zorivest_rpc.cli.serve import serve_http
    from zorivest_rpc.cli.stdio import fast_loop, serve_stdio
    from zorivest_rpc.config import parse

    command = "stdio" if words == ["--stdio"] else "serve"
    with tempfile.TemporaryDirectory() as data:
        key = "zrv_sk_travels" if variant == "product-travels" else "zrv_sk_asks"
        variables = {"HOME": data, "ZORIVEST_API_KEY": key, "ZORIVEST_API_URL": os.environ["BENCH_BACKEND"]}
        common = ["--data-dir", data, "--client-mode", "dynamic"]
        common += ["--backend-writer", os.environ.get("BENCH_WRITER", "direct")]
        journal = Journal(
            parse(command, common, variables), str(schemas_with_forward(Path(data), variant != "product"))
        )
        if command == "stdio":
            serve_stdio(lambda: journal.offer, journal.settings, journal.warm_up, journal.close, fast_loop)
        return serve_http(lambda: journal.offer, parse("serve", [*common, "--no-auth", *words], {"HOME": data}))


def backend(port: int) -> None:
    """What the floor and the product forward to: bare aiohttp, the same kilobyte for both."""
    from aiohttp import web

    fills = ",".join(
        f'{{"seq":{i},"px":182.25,"qty":10,"venue":"XNAS","liq":"add","ts":"2026-01-02T14:30:{i:02}Z"}}'
        for i in range(11)
    )
    body = (
        f'{{"ok":true,"order":{{"ticker":"ACME","quantity":100,"side":"buy"}},"fills":[{fills}],"marker":"backend-1k"}}'
    )

    async def forward(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body.encode(), content_type="application/json")

    async def unlock(request: web.Request) -> web.Response:
        given = await request.json()
        travels = given["api_key"] == "zrv_sk_travels"
        return web.json_response({"session_token": "t", "role": "admin", "expires_in": 3600, "inline_guard": travels})

    async def check(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({"allowed": True})

    async def state(request: web.Request) -> web.Response:
        return web.json_response({"is_locked": False, "status": "ok"})

    app = web.Application()
    app.router.add_post("/", forward)
    app.router.add_post("/api/v1/forward", forward)
    app.router.add_post("/api/v1/auth/unlock", unlock)
    app.router.add_post("/api/v1/mcp-guard/check", check)
    for path in ("/health", "/mcp-guard/status", "/service/status"):
        app.router.add_get("/api/v1" + path, state)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


# --- what is measured within this process


def _microseconds(works: Mapping[str, Callable[[], object]], seconds: float = 0.2) -> dict[str, float]:
    """The median of one execution of each, over batches, without the collector; a full collection takes longer than
    a short measurement, so there is one before all of them."""
    import statistics
    import time

    from tests.bench.loadgen import without_collector

    now, batch, medians = time.perf_counter_ns, 20, {}
    with without_collector():
        for name, work in works.items():
            work()
            taken = []
            end = now() + int(seconds * 1e9)
            while now() < end:
                started = now()
                for _ in range(batch):
                    work()
                taken.append((now() - started) / batch / 1000)
            medians[name] = statistics.median(taken)
    return medians


def list_time() -> float:
    """Microseconds of server time for `tools/list` with every toolset: from the request's bytes to the answer's."""
    import asyncio

    from zorivest_rpc.app import Journal
    from zorivest_rpc.config import parse
    from zorivest_rpc.mcp.server import Server
    from zorivest_rpc.mcp.transports.memory import MemoryClient

    async def measure(data: str) -> float:
        client = MemoryClient(Server(Journal(parse("stdio", ["--data-dir", data, "--toolsets", "all"], {})).offer))
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        client.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}).encode())
        client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        client.take_frames()
        wanted = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}'

        def once() -> None:
            client.send(wanted)
            (answer,) = client.take_frames()
            if len(answer) < 20_000:
                raise ValueError(f"not the whole list: {answer[:300]!r}")

        return _microseconds({"tools/list": once})["tools/list"]

    with tempfile.TemporaryDirectory() as data:
        return asyncio.run(measure(data))


def validation_times() -> dict[str, float]:
    """Microseconds of one check of fitting arguments, by tool."""
    from zorivest_rpc.mcp.catalog.explain import example
    from zorivest_rpc.mcp.catalog.tool import Tool
    from zorivest_rpc.serving.catalog.load import load

    checks = {}
    for spec in load().tools:
        fitting = example(spec.input_schema, {})
        if fitting is None:
            raise ValueError(f"no example for {spec.name}")
        tool, arguments = Tool.from_checked_file(spec.name, spec.input_schema), json.loads(fitting)

        def once(tool: Tool = tool, arguments: dict[str, Any] = arguments) -> None:
            tool.check(arguments)

        checks[spec.name] = once
    return _microseconds(checks, 0.02)


# long: a product put together by hand around a handler that does nothing
def chain_times() -> dict[str, float]:
    """Microseconds that the layers add to a handler, when nobody has to be asked; the backend answers at once."""
    from zorivest_rpc.app import policy_of
    from zorivest_rpc.config import parse
    from zorivest_rpc.mcp.call import Call, Handler, Outcome, say
    from zorivest_rpc.mcp.protocol.revisions import LATEST_LEGACY
    from zorivest_rpc.mcp.protocol.session import Phase, Session
    from zorivest_rpc.mcp.protocol.types import Implementation
    from zorivest_rpc.serving.audience import Audience
    from zorivest_rpc.serving.backend.interface import Reply, Request
    from zorivest_rpc.serving.catalog.load import load
    from zorivest_rpc.serving.middleware.confirmation import Confirmation
    from zorivest_rpc.serving.middleware.guard import GuardLayer
    from zorivest_rpc.serving.middleware.layers import build_chain
    from zorivest_rpc.serving.middleware.metrics import Metrics

    class AtOnce:
        base_url, inline_guard = "", True

        async def ask(self, request: Request) -> Reply:
            return open_guard

    open_guard = Reply(200, {"is_locked": False, "allowed": True})
    definitions = load()
    session = Session(LATEST_LEGACY, Phase.READY, client=Implementation("claude-code", "2.1.0"))
    answer = say("x" * 200)

    async def handler(call: Call) -> Outcome:
        return answer

    def run(chained: Handler, call: Call) -> Callable[[], None]:
        def once() -> None:
            running: Any = chained(call)
            with contextlib.suppress(StopIteration):
                running.send(None)
                raise ValueError("the chain waited for something")

        return once

    with tempfile.TemporaryDirectory() as data:
        audience = Audience(definitions, policy_of(parse("stdio", ["--data-dir", data], {}), definitions))
        wire: Any = None
        taken = {}
        for name in ("list_trades", "create_trade"):
            spec = audience.specs[name]
            gated = {each.name: each for each in definitions.tools if each.confirm}
            confirmation = Confirmation(gated, audience.asks_before)
            guard = GuardLayer(lambda call: AtOnce())
            layers = {"metrics": Metrics(), "guard": guard, "confirmation": confirmation, "travelling": handler}
            chained = build_chain(spec, handler, **layers)  # type: ignore[arg-type]
            call = Call(name, {"exec_id": "a"}, session, wire, audience.view(session))
            medians = _microseconds({"chained": run(chained, call), "bare": run(handler, call)})
            taken[name] = medians["chained"] - medians["bare"]
    return taken


# --- the run


def bars() -> tuple[Bar, ...]:
    from tests.bench.bars import BEST_PEER, Bar

    start = "A.product"
    forward = [("stdio forward, 64 in flight: req/s", PIPE, 1.6)]
    forward += [(f"HTTP forward, {count} connections: req/s", HTTP.format(count), 2.2) for count in (16, 64)]
    return (
        Bar("cold start on stdio: spawn → `initialize`", start, "init_ms", "floor", 1.7),
        Bar("cold start: spawn → first `tools/list`", start, "list_ms", "floor", 1.9, reference_metric="init_ms"),
        *(Bar(what, test, "rps", "floor", 0.8, at_least=True) for what, test, _ in forward),
        *(Bar(what, test, "rps", BEST_PEER, limit, at_least=True) for what, test, limit in forward),
    )


def rows(data: str) -> tuple[Row, list[Row]]:
    """The command as an editor starts it, and the variants that forward."""
    from tests.bench.rows import Row

    command = (sys.executable, "-m", "zorivest_rpc", "stdio", "--toolsets", "all", "--data-dir", data)
    server = (sys.executable, "-m", "tests.bench.product", "--server")
    variants = [
        Row(name, about, (*server, name, "--stdio"), (*server, name, "--port", "{port}"))
        for name, about in VARIANTS.items()
    ]
    return Row("product", VARIANTS["product"], command, None), variants


@contextlib.contextmanager
def _backend_process(catalog: Path) -> Iterator[str]:
    from tests.bench.processes import cores, free_port, start, stop, wait_port
    from tests.bench.rows import FLOOR, ROOT, environment

    port = free_port()
    command = [sys.executable, "-m", "tests.bench.product", "--backend", str(port)]
    process = start(command, environment(FLOOR, catalog), cores().client, ROOT)
    try:
        wait_port(port, process)
        yield f"http://127.0.0.1:{port}/"
    finally:
        stop(process)


# long: the class needs what is imported only when a run is asked for
def measure(rounds: int, seconds: float, spawns: int, peers: tuple[str, ...]) -> list[dict[str, Any]]:
    """Starts and forwarding, interleaved with the floor; the records of every round."""
    from functools import partial

    from tests.bench.catalog import write_catalog
    from tests.bench.loadgen import stdio_load
    from tests.bench.loadgen_http import http_load
    from tests.bench.processes import allow_many_files
    from tests.bench.rows import CACHE, FLOOR, PEERS
    from tests.bench.run import Plan, _Run
    from tests.bench.turns import fastest_quarter, order_of

    class Run(_Run):
        def cold(self, floor: Row, product: Row) -> None:
            taken: dict[str, list[tuple[float, float]]] = {floor.name: [], product.name: []}
            for turn in range(spawns):
                for row in order_of([floor, product], turn):
                    server = self._spawn(row, self.cores.every)
                    try:
                        taken[row.name].append((server.initialize(), server.first("list", 2)))
                    finally:
                        server.close()
            for row in (floor, product):
                init, listed = map(fastest_quarter, zip(*taken[row.name], strict=True))
                self._keep(row, "A.product", {"init_ms": init, "list_ms": listed})

        def forward_stdio(self, order: list[Row]) -> None:
            with contextlib.ExitStack() as running:
                for row in order:
                    server = self._spawn(row, self.cores.server)
                    running.callback(server.close)
                    with self._reporting(row, "stdio"):
                        server.initialize()
                        stdio_load(server, "forward", 64, row.warmup, warmup=20)
                        self._load(row, PIPE, partial(stdio_load, server, "forward", 64, seconds, warmup=0))

        def forward_http(self, order: list[Row]) -> None:
            with contextlib.ExitStack() as running:
                servers = []
                for row in order:
                    with self._reporting(row, "http"):
                        url, process = running.enter_context(self._serving(row))
                        http_load(url, "forward", 16, row.warmup, warmup=0)
                        servers.append((row, url, process.pid))
                for count in (16, 64):
                    for row, url, pid in servers:
                        load = partial(http_load, url, "forward", count, seconds, pid=pid)
                        self._load(row, HTTP.format(count), load)

    allow_many_files()
    catalog = write_catalog(CACHE)
    everywhere = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as data, _backend_process(catalog) as address:
        started, variants = rows(data)
        order = [FLOOR, *variants, *(PEERS[name]() for name in peers)]
        with _embedded(Path(data)), open(CACHE / "product.jsonl", "wb") as raw:
            run = Run(Plan(order, frozenset(), rounds, seconds, spawns), raw, catalog, address)
            os.sched_setaffinity(0, run.cores.client)
            try:
                for number in range(1, rounds + 1):
                    run.round = number
                    turn = (number - 1) % len(order)
                    run.cold(FLOOR, started)
                    run.forward_stdio(order[turn:] + order[:turn])
                    run.forward_http(order[turn:] + order[:turn])
            finally:
                os.sched_setaffinity(0, everywhere)
            return run.records


@contextlib.contextmanager
def _embedded(data: Path) -> Iterator[None]:
    """A backend of the directory that runs already, as it does for every editor window but the first."""
    import signal

    from zorivest_rpc.embedded.locate import find_or_start

    os.environ["ZORIVEST_KEYRING"] = "off"
    located = find_or_start(data)
    try:
        yield
    finally:
        os.kill(located.pid, signal.SIGTERM)


# --- the report


def _fixed_table(figures: dict[str, tuple[float, float]]) -> list[str]:
    lines = ["| figure | bar | measured | verdict |", "|---|---|---|---|"]
    for what, (limit, taken) in figures.items():
        verdict = "pass" if taken <= limit else "**miss**"
        lines.append(f"| {what} | ≤ {limit:g} µs | {taken:.1f} µs | {verdict} |")
    return lines


def _shares(records: list[dict[str, Any]]) -> list[str]:
    """Every variant as a share of the floor, and the processor time of the server beside each rate."""
    from tests.bench.bars import Figures

    figures = Figures(records)
    tests = {PIPE: "stdio 64", HTTP.format(16): "HTTP 16", HTTP.format(64): "HTTP 64"}
    lines = [
        "| server | " + " | ".join(f"{what}, req/s (× floor); CPU µs" for what in tests.values()) + " |",
        "|---" * 4 + "|",
    ]
    for name in [name for name in figures.names if figures.median(name, PIPE, "rps")]:
        cells = []
        for test in tests:
            ours, floor = figures.median(name, test, "rps"), figures.median("floor", test, "rps")
            cost = figures.median(name, test, "cpu_us")
            spent = f"; {cost:.0f}" if cost is not None else ""
            cells.append(f"{ours:,.0f} ({ours / floor:.2f}){spent}" if ours and floor else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def judged(records: list[dict[str, Any]]) -> list[Judgement]:
    from tests.bench.bars import Figures, judge_all

    return judge_all(Figures(records), "product", bars())


def report(records: list[dict[str, Any]], about: dict[str, Any], fixed: dict[str, tuple[float, float]]) -> str:
    """The block between the markers."""
    from tests.bench.report import bars_table

    wrong = [record for record in records if "failed" in record or record.get("errors")]
    lines = [
        f"The product itself, {about['date']}, {about['machine']}; {about['python']}, load average before the run "
        f"{about['load'][0]}; {about['rounds']} rounds, {about['seconds']:g} s per cell, {about['spawns']} spawns a "
        "round. Medians over the rounds, of starts the fastest quarter of each round; every ratio is the median of "
        "those within single rounds; compare only figures of one run.",
        "",
        *bars_table(judged(records)),
        "",
        *_fixed_table(fixed),
        "",
        "### Forwarding, with and without the guard",
        "",
        *(f"- `{name}`: {about_it}." for name, about_it in VARIANTS.items()),
        "",
        *_shares(records),
        "",
        *(f"- wrong: round {each['round']} `{each['name']}` {each['test']}: {each}" for each in wrong),
    ]
    return "\n".join(lines).rstrip() + "\n"


def fixed_figures() -> dict[str, tuple[float, float]]:
    """What has a bar in microseconds: (bar, measured)."""
    import statistics

    checks, layers = validation_times(), chain_times()
    return {
        "`tools/list` with all toolsets, server time": (1000.0, list_time()),
        f"validation of arguments, median over {len(checks)} schemas": (5.0, statistics.median(checks.values())),
        "metrics → guard → handler, added by the layers": (10.0, layers["list_trades"]),
        "metrics → guard → confirmation → handler, added by the layers": (10.0, layers["create_trade"]),
    }


def main(argv: list[str]) -> int:
    if argv[:1] == ["--server"]:
        return serve(argv[1], argv[2:])
    if argv[:1] == ["--backend"]:
        backend(int(argv[1]))
        return 0
    import argparse

    from tests.bench.page import PRODUCT
    from tests.bench.report import about_run
    from tests.bench.rows import FLOOR, PEERS, ROOT
    from tests.bench.setup_peers import is_ready

    parser = argparse.ArgumentParser(prog="python -m tests.bench.product", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per cell")
    parser.add_argument("--spawns", type=int, default=5, help="cold starts per round")
    parser.add_argument("--peers", default="", help=f"from {','.join(PEERS)}; see tests.bench.setup_peers")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md", help="page to write")
    chosen = parser.parse_args(argv)
    peers = tuple(name for name in chosen.peers.split(",") if name)
    for name in peers:
        if name not in PEERS or not is_ready(name):
            parser.error(f"no peer {name!r} is ready; python -m tests.bench.setup_peers makes them")
    if chosen.rounds < 1 or chosen.seconds <= 0 or chosen.spawns < 1:
        parser.error("--rounds, --seconds and --spawns must be positive")
    about = about_run([FLOOR], chosen.rounds, chosen.seconds, chosen.spawns)
    fixed = fixed_figures()
    records = measure(chosen.rounds, chosen.seconds, chosen.spawns, peers)
    block = report(records, about, fixed)
    print(block)
    PRODUCT.write(chosen.out, block)
    return int(any("failed" in record or record.get("errors") for record in records))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
