"""Web pages of tenants that report to a server and answer what they are asked, everything with their tenant's mark."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.devtools.stage import click, log, perf, request, socket
from zorivest_rpc.devtools.frames import SUBPROTOCOL
from zorivest_rpc.devtools.place import find_places

__all__ = ["CALLS", "SILENT", "Page", "Pages", "keys_of", "mark", "page_id", "page_of", "place_of"]

CALLS: list[tuple[str, dict[str, Any]]] = [
    *(("observe", {"what": what}) for what in ("errors", "logs", "network", "websocket_events", "websocket_status")),
    *(("observe", {"what": what}) for what in ("actions", "vitals", "page")),
    *(("analyze", {"target": each}) for each in ("performance", "api", "accessibility", "timeline")),
    ("analyze", {"target": "changes", "checkpoint": "2000-01-01T00:00:00Z"}),
    *(("generate", {"format": each}) for each in ("reproduction", "test", "pr_summary", "sarif", "har")),
    ("configure", {"action": "load"}),
    ("configure", {"action": "noise_rule", "noise_action": "list"}),
    ("configure", {"action": "store", "store_action": "list"}),
    ("query_dom", {"selector": "p"}),
]
SILENT = {"websocket_status", "load", "noise_rule", "store"}  # these tell no text of a page


def mark(tenant: str) -> str:
    return f"book-of-{tenant}"


def page_id(tenant: str) -> str:
    return hashlib.sha256(tenant.encode()).hexdigest()[:16]


class Page:
    """A page of one tenant; `id` may be that of another tenant's page, which changes nothing."""

    def __init__(self, tenant: str, line: aiohttp.ClientWebSocketResponse, id: str | None = None) -> None:
        self.tenant = tenant
        self.id = id or page_id(tenant)
        self.line = line
        self.asked: list[str] = []
        self.acknowledged: asyncio.Queue[int] = asyncio.Queue()
        self.gone = asyncio.Event()
        self._seq = 0

    async def open(self) -> None:
        id, own = self.id, mark(self.tenant)
        hello = {"v": 1, "page": id, "tab": id, "url": f"http://{own}.localhost/", "title": own, "visible": True}
        await self.line.send_json({"frame": "hello", **hello})
        await self.report()

    async def report(self) -> None:
        own = mark(self.tenant)
        items = [
            log(own, "error"),
            request(f"http://x/{own}", response_body=own),
            socket("open", own, url=f"ws://x/{own}"),
            click(url=f"http://x/{own}"),
            perf(f"http://x/{own}", load=1.0),
        ]
        self._seq += 1
        await self.line.send_json({"frame": "events", "seq": self._seq, "dropped": 0, "items": items})

    async def listen(self) -> None:
        own = mark(self.tenant)
        async for message in self.line:
            frame = json.loads(message.data)
            if frame["frame"] == "ack":
                self.acknowledged.put_nowait(frame["seq"])
            elif frame["frame"] == "query":
                self.asked.append(frame["type"])
                about = {"url": f"http://{own}/", "title": own}
                found = {"match_count": 1, "matches": [{"tag": "p", "text": own}]}
                node = {"target": ["p"], "html": own}
                broken = {"id": own, "impact": "minor", "description": own, "help": own, "nodes": [node]}
                data = {**about, **found, "violations": [broken], "engine": "axe-core", "engine_version": "1"}
                await self.line.send_json({"frame": "result", "q": frame["q"], "ok": True, "data": data})
        self.gone.set()


@asynccontextmanager
async def page_of(origin: str, key: str, tenant: str, id: str | None = None) -> AsyncIterator[Page]:
    """A page that has said hello and whose first events have arrived."""
    async with aiohttp.ClientSession() as http:
        line = await http.ws_connect(f"{origin}/devtools/ws?k={key}", protocols=(SUBPROTOCOL,))
        page = Page(tenant, line, id)
        await page.open()
        listening = asyncio.create_task(page.listen())
        try:
            async with asyncio.timeout(20):
                assert await page.acknowledged.get() == 1
            yield page
        finally:
            listening.cancel()
            await line.close()


def keys_of(data: Path) -> dict[str, str]:
    (found,) = find_places(data)
    return found.keys


async def place_of(data: Path) -> tuple[str, dict[str, str]]:
    """Where pages find the server, and the keys of its tenants, once it has said so."""
    async with asyncio.timeout(30):
        while not (found := find_places(data)):  # noqa: ASYNC110 - a file says it
            await asyncio.sleep(0.01)
    return found[0].origin, found[0].keys


class Pages:
    """One page of each of some tenants at one server."""

    def __init__(self, origin: str, keys: dict[str, str], pages: dict[str, Page]) -> None:
        self.origin = origin
        self.keys = keys
        self.of = pages

    @classmethod
    @asynccontextmanager
    async def connect(cls, data: Path, tenants: list[str]) -> AsyncIterator[Pages]:
        origin, keys = await place_of(data)
        async with AsyncExitStack() as stack:
            pages = {each: await stack.enter_async_context(page_of(origin, keys[each], each)) for each in tenants}
            yield cls(origin, keys, pages)

    async def pretend(self, tenant: str, other: str) -> None:
        """A page with the key of one tenant that calls itself by the id of another one's page."""
        async with page_of(self.origin, self.keys[tenant], tenant, page_id(other)):
            pass
