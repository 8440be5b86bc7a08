"""The eight scenarios once more on the real toolset: what a page sends moves the lists, over stdio and HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.conformance.run import free_port
from tests.connect import PATIENCE, Client, HttpWire, StdioWire
from tests.exposure.test_scenarios import C6, CHANGED, enum_of, expect, listed, observe
from tests.places import ROOT
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport

Json = Any
KEY = "zdk_" + "k" * 32
KEYS = {"ZORIVEST_DEVTOOLS_KEY": KEY, "ZORIVEST_API_KEY": "zrv_sk_of_a_backend_that_is_away"}
OPTIONS = ("--toolsets", "devtools", "--exposure", "filter", "--api-url", "http://127.0.0.1:9")
PAGE, TAB, URL = "0123456789abcdef", "fedcba9876543210", "http://127.0.0.1:8080/shop"
NOW = 1_780_000_000_000.0


class Page:
    """A page that drops its batches off, as one does that is left."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._seq = 0

    async def send(self, *items: Json) -> None:
        hello = {"frame": "hello", "v": 1, "page": PAGE, "tab": TAB, "url": URL, "title": "Shop", "visible": True}
        async with aiohttp.ClientSession() as http:
            for start in range(0, len(items), 400):
                self._seq += 1
                events = {"frame": "events", "seq": self._seq, "dropped": 0, "items": items[start : start + 400]}
                body = json.dumps({"page": PAGE, "tab": TAB, "frames": [hello, events]})
                async with http.post(f"{self._origin}/devtools/beacon?k={KEY}", data=body) as reply:
                    assert reply.status == 204, (reply.status, await reply.text())


def log(level: str, number: int = 0) -> Json:
    return {"kind": "log", "ts": NOW + number, "level": level, "message": f"{level} {number}"}


def request(method: str, path: str, status: int) -> Json:
    answered = {"content_type": "application/json", "response_body": '{"id": 1}'}
    url = "http://127.0.0.1:8080" + path
    return {"kind": "request", "ts": NOW, "method": method, "url": url, "status": status, "duration_ms": 5} | answered


def click(number: int) -> Json:
    return {"kind": "action", "ts": NOW + number, "type": "click", "url": URL, "selectors": {"id": f"b{number}"}}


SNAPSHOT: Json = {"kind": "perf", "ts": NOW, "url": URL, "fcp": 900.0, "lcp": 1200.0, "load": 1500.0, "requests": 3}
Opened = Callable[[], Awaitable[tuple[Client, Page]]]


async def until_served(origin: str) -> None:
    async with asyncio.timeout(PATIENCE * 3), aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"{origin}/devtools/collector.js?k={KEY}") as reply:
                    if reply.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.02)


async def open_stdio(data: Path) -> tuple[Client, Page, Callable[[], Awaitable[None]]]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zorivest_rpc", "stdio", *OPTIONS, "--devtools-port", str(port)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1 << 24,
        cwd=ROOT,
        env={**os.environ, "HOME": str(data), "ZORIVEST_DATA_DIR": str(data), **KEYS},
    )
    client = Client("stdio", "2025-11-25", {})
    client.wire = StdioWire(process, client)
    await client.open()
    origin = f"http://127.0.0.1:{port}"
    await until_served(origin)
    return client, Page(origin), client.close


async def open_http(data: Path) -> tuple[Client, Page, Callable[[], Awaitable[None]]]:
    environ = {"HOME": str(data), "ZORIVEST_DATA_DIR": str(data), **KEYS}
    journal = Journal(parse("serve", [*OPTIONS, "--no-auth"], environ))
    server = Server(journal.offer)
    transport = HttpTransport(server, HttpOptions(port=0, grace=0.0), beside=journal.observing.beside())
    await transport.start()
    origin = f"http://127.0.0.1:{transport.port}"
    client = Client("streamable", "2025-11-25", {})
    client.server = server
    client.wire = HttpWire(origin + "/mcp", client)
    await client.open()

    async def close() -> None:
        await client.close()
        await transport.stop()
        await journal.close()

    return client, Page(origin), close


@pytest.fixture(params=[open_stdio, open_http], ids=["stdio", "http"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    closing: list[Callable[[], Awaitable[None]]] = []

    async def make() -> tuple[Client, Page]:
        client, page, close = await request.param(tmp_path)
        closing.append(close)
        return client, page

    yield make
    for close in closing:
        await close()


async def test_1_and_2_fresh_and_network(opened: Opened) -> None:
    client, page = await opened()
    tools = await listed(client)
    assert list(tools) == ["observe", "query_dom"]
    expect(tools["observe"], ["errors", "logs", "page"], {"errors": 0, "logs": 0})
    assert "_meta" not in tools["query_dom"]
    await page.send(request("GET", "/api/a", 200), request("POST", "/api/b", 201))
    tools = await listed(client)
    assert list(tools) == ["observe", "query_dom"]
    expect(tools["observe"], ["errors", "logs", "network", "page"], {"errors": 0, "logs": 0, "network": 2})
    result = await observe(client, "network")
    assert result["structuredContent"]["total"] == 2
    tools = await listed(client)
    assert list(tools) == ["observe", "analyze", "generate", "configure", "query_dom"]
    expect(tools["generate"], ["pr_summary", "sarif", "har"], {"har": 2})
    expect(tools["analyze"], ["api", "accessibility", "changes"], {"api": 2})


async def test_3_and_4_first_observation_and_actions(opened: Opened) -> None:
    client, page = await opened()
    await listed(client)
    result = await observe(client)
    assert result["structuredContent"]["entries"] == []
    assert "isError" not in result
    assert result["_meta"]["com.zorivest/unlocked"] == ["analyze", "generate", "configure"]
    assert result["content"][-1]["text"] == "Now also listed: analyze, generate, configure."
    await client.note(CHANGED)
    tools = await listed(client)
    assert list(tools) == ["observe", "analyze", "generate", "configure", "query_dom"]
    expect(tools["analyze"], ["accessibility"], {})
    expect(tools["generate"], ["sarif"], {})
    expect(tools["configure"], C6, None)
    await client.settle()
    assert len(client.notes_of(CHANGED)) == 1
    await page.send(*(click(number) for number in range(3)))
    tools = await listed(client)
    expect(tools["observe"], ["errors", "logs", "actions", "page"], {"errors": 0, "logs": 0, "actions": 3})
    expect(tools["analyze"], ["accessibility", "changes", "timeline"], {"timeline": 3})
    expect(tools["generate"], ["reproduction", "test", "pr_summary", "sarif"], {"reproduction": 3, "test": 3})
    expect(tools["configure"], C6, None)


async def test_5_performance_and_6_configure(opened: Opened) -> None:
    client, page = await opened()
    assert "configure" not in await listed(client)
    await observe(client)
    await page.send(SNAPSHOT)
    tools = await listed(client)
    expect(tools["observe"], ["errors", "logs", "vitals", "page"], {"errors": 0, "logs": 0, "vitals": 1})
    expect(tools["analyze"], ["performance", "accessibility", "changes"], {"performance": 1})
    expect(tools["generate"], ["pr_summary", "sarif"], {})
    expect(tools["configure"], C6, None)


async def test_7_counts(opened: Opened) -> None:
    client, page = await opened()
    await listed(client)
    levels = ["error"] * 3 + ["info"] * 44
    await page.send(*(log(level, number) for number, level in enumerate(levels)))
    await page.send(*(request("GET", f"/api/{name}", 200) for name in "abcdefghijkl"))
    await page.send(*(click(number) for number in range(8)))
    modes = ["errors", "logs", "network", "actions", "page"]
    counts = {"errors": 3, "logs": 47, "network": 12, "actions": 8}
    expect((await listed(client))["observe"], modes, counts)
    await client.settle()
    told = len(client.notes_of(CHANGED))
    await page.send(log("error", 99))
    expect((await listed(client))["observe"], modes, {**counts, "errors": 4, "logs": 48})
    await page.send(*(log("info", 100 + number) for number in range(1000)))
    expect((await listed(client))["observe"], modes, {**counts, "errors": 0, "logs": 1000})
    await page.send(*(request("GET", "/api/a", 200) for _ in range(300)))
    expect((await listed(client))["observe"], modes, {**counts, "errors": 0, "logs": 1000, "network": 200})
    await client.settle()
    assert len(client.notes_of(CHANGED)) == told, "counts are never announced"


async def test_8_enum_and_what_clearing_takes_away(opened: Opened) -> None:
    client, page = await opened()
    await page.send(request("GET", "/api/a", 200))
    assert enum_of((await listed(client))["observe"]) == ["errors", "logs", "network", "page"]
    assert "isError" not in await client.call("configure", {"action": "clear"}), "hidden is not forbidden"
    await client.note(CHANGED)
    tools = await listed(client)
    assert list(tools) == ["observe", "query_dom"]
    assert enum_of(tools["observe"]) == ["errors", "logs", "page"]
