"""Lists of the real journal while pages flood it: every one parses, and its counts are the lengths of the buffers."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from tests.devtools.stage import PageLink, click, encode, log, perf, request, socket
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.devtools.limiter import Limiter
from zorivest_rpc.devtools.visit import Visit
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient

EVENTS, LISTS = 50_000, 2_000
ALWAYS = ("errors", "logs")
NAMES = {
    "errors": "errors",
    "logs": "logs",
    "network": "network",
    "websocket_events": "ws_events",
    "websocket_status": "ws_open",
    "actions": "actions",
    "vitals": "perf",
}


def ask(client: MemoryClient, id: int, method: str, **params: Any) -> Any:
    client.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
    return next(each["result"] for frame in client.take_frames() if (each := json.loads(frame)).get("id") == id)


async def test_fifty_thousand_events_between_two_thousand_lists(tmp_path: Path) -> None:
    words = ["--toolsets", "devtools", "--exposure", "filter", "--data-dir", str(tmp_path)]
    journal = Journal(parse("stdio", words, {"HOME": str(tmp_path)}))
    client = MemoryClient(Server(journal.offer))
    about = {"name": "cline", "version": "1"}
    ask(client, 0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=about)
    (tenant,) = journal.observing.watches().keys()
    watch = journal.observing.watches().of(tenant)
    watch.limiter = Limiter(watch.now, rate=EVENTS)
    visit = Visit(watch, PageLink(), lambda seconds, work: None)
    hello = {"v": 1, "page": "a" * 16, "tab": "b" * 16, "url": "http://localhost/", "visible": True}
    visit.receive(encode({"frame": "hello", **hello}))
    random = Random(7)
    made = (
        lambda n: log(f"{n}", random.choice(("error", "info"))),
        lambda n: request(f"http://x/{n % 250}-"),
        lambda n: click(),
        lambda n: socket(random.choice(("open", "close")), f"c{n % 25}"),
        lambda n: perf(f"http://x/{n % 25}"),
    )
    for number in range(LISTS):
        items = [random.choice(made)(number) for _ in range(EVENTS // LISTS)]
        visit.receive(encode({"frame": "events", "seq": number + 1, "dropped": 0, "items": items}))
        if random.random() < 0.02:
            watch.buffers.clear(random.choice(("all", "logs", "network", "websocket", "actions", "performance")))
        tools = {tool["name"]: tool for tool in ask(client, number + 1, "tools/list")["tools"]}
        counts = watch.buffers.counts()
        lengths = {mode: counts[name] for mode, name in NAMES.items() if mode in ALWAYS or counts[name]}
        assert tools["observe"]["_meta"]["data_counts"] == lengths
        assert tools["observe"]["inputSchema"]["properties"]["what"]["enum"] == [*lengths, "page"]
        assert ("analyze" in tools, "query_dom" in tools) == (False, True)
