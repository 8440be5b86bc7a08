"""A server that speaks the frames of a page and does on purpose what a real one does seldom: refuse, vanish, forget."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web
from playwright.async_api import Page

import zorivest_rpc.devtools
from zorivest_rpc.devtools.frames import SUBPROTOCOL

STATIC = Path(zorivest_rpc.devtools.__file__).parent / "static"
KEY = "zdk_" + "t" * 32
SETTINGS: dict[str, Any] = {"log_level": "debug", "ws_mode": "lifecycle", "network_bodies": True, "actions": True}
HTML = {"content-type": "text/html; charset=utf-8"}


class FrameServer:
    """Serves pages, the collector and its endpoints on one port; keeps all frames in the order of arrival."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.ways: list[str] = []  # how each of them came
        self.pages: dict[str, str | Callable[[], str]] = {}
        self.headers: dict[str, str] = {}
        self.settings = dict(SETTINGS)
        self.sockets_allowed = True
        self.acknowledge = True
        self.stored = 0
        self.refusals = 0  # 429 to so many posts
        self.forgotten = False
        self.hits: list[str] = []
        self.live: list[web.WebSocketResponse] = []
        self.asked: list[dict[str, Any]] = []  # for a page that syncs
        self.port = 0
        self._news = asyncio.Condition()
        self.origin = ""

    # --- what a test waits for

    async def until(self, check: Callable[[], Any], seconds: float = 60) -> Any:
        async with asyncio.timeout(seconds), self._news:
            while not (value := check()):
                await self._news.wait()
            return value

    def items(self, kind: str | None = None) -> list[dict[str, Any]]:
        seen: set[tuple[int, int]] = set()
        found = []
        for frame in self.frames:
            if frame["frame"] != "events" or (id(frame["_page"]), frame["seq"]) in seen:
                continue
            found += [item for item in frame["items"] if kind in (None, item["kind"])]
        return found

    async def item(self, kind: str, **wanted: Any) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            for item in self.items(kind):
                if all(item.get(name) == value for name, value in wanted.items()):
                    return item
            return None

        try:
            found: dict[str, Any] = await self.until(find)
        except TimeoutError:
            raise AssertionError(f"no {kind} with {wanted} among {json.dumps(self.items(kind), indent=1)}") from None
        return found

    async def ask(self, q: str, type: str, params: dict[str, Any] | None = None, timeout_ms: int = 10000) -> Any:
        frame = {"frame": "query", "q": q, "type": type, "params": params or {}, "timeout_ms": timeout_ms}
        if self.live:
            await self.live[-1].send_json(frame)
        else:
            self.asked.append(frame)
            await self._tell()
        return await self.until(lambda: next((f for f in self.frames if f["frame"] == "result" and f["q"] == q), None))

    async def set(self, **settings: Any) -> None:
        self.settings |= settings
        for socket in self.live:
            await socket.send_json({"frame": "settings", **self.settings})

    # --- what it serves

    def tag(self, attributes: str = "") -> str:
        return f'<script {attributes} src="{self.origin}/devtools/collector.js?k={KEY}"></script>'

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _receive(self, frame: dict[str, Any], way: str, page: str) -> list[dict[str, Any]]:
        self.frames.append(frame | {"_page": page})
        self.ways.append(way)
        await self._tell()
        if frame["frame"] == "hello":
            return [{"frame": "welcome", "settings": self.settings, "limits": {}, "seq": self.stored}]
        if frame["frame"] == "events" and self.acknowledge:
            return [{"frame": "ack", "seq": frame["seq"]}]
        return []

    async def socket(self, request: web.Request) -> web.StreamResponse:
        self.hits.append("ws")
        if not self.sockets_allowed:
            return web.Response(status=403)
        socket = web.WebSocketResponse(protocols=(SUBPROTOCOL,))
        await socket.prepare(request)
        self.live.append(socket)
        page = ""
        async for message in socket:
            if message.type != WSMsgType.TEXT:
                break
            frame = json.loads(message.data)
            page = frame.get("page", page)
            for answer in await self._receive(frame, "ws", page):
                await socket.send_json(answer)
        self.live.remove(socket)
        await self._tell()
        return socket

    async def sync(self, request: web.Request) -> web.Response:
        self.hits.append("sync")
        cors = {"access-control-allow-origin": request.headers.get("origin", "*")}
        if self.refusals:
            self.refusals -= 1
            return web.Response(
                status=429, headers=cors | {"retry-after": "1", "access-control-expose-headers": "retry-after"}
            )
        if self.forgotten:
            self.forgotten = False
            return web.Response(status=410, headers=cors)
        body = json.loads(await request.read())
        answers = [a for frame in body["frames"] for a in await self._receive(frame, "sync", body["page"])]
        if not answers:
            with contextlib.suppress(TimeoutError):
                await self.until(lambda: self.asked, 1)
            answers, self.asked = self.asked, []
        return web.json_response({"frames": answers}, headers=cors)

    async def beacon(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        for frame in body["frames"]:
            await self._receive(frame, "beacon", body["page"])
        return web.Response(status=204)

    async def page(self, request: web.Request) -> web.Response:
        text = self.pages.get(request.path)
        if text is None:
            return web.Response(status=404, text="no such page")
        body = text if isinstance(text, str) else text()
        return web.Response(text=body.replace("COLLECTOR", self.tag()), headers=HTML | self.headers)

    async def echo(self, request: web.Request) -> web.Response:
        """Answers with what `?status=` and `?body=` say, as JSON."""
        status = int(request.query.get("status", "200"))
        await request.read()
        headers = {"set-cookie": "sid=s3cret", "x-api-key": "planted", "x-plain": "shown"}
        return web.Response(text=request.query.get("body", "{}"), status=status, headers=headers | JSON)

    async def talk(self, request: web.Request) -> web.StreamResponse:
        """A WebSocket of the page: sends `?count=` messages, then echoes."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        for number in range(int(request.query.get("count", "0"))):
            await socket.send_str(f"message {number}")
        async for message in socket:
            if message.data == "bye":
                await socket.close(code=4001, message=b"asked to")
            else:
                await socket.send_str(f"echo {message.data}")
        return socket


JSON = {"content-type": "application/json"}


async def static_file(request: web.Request) -> web.StreamResponse:
    path = STATIC / request.match_info["name"]
    return web.FileResponse(path) if path.is_file() else web.Response(status=404)


@contextlib.asynccontextmanager
async def serve() -> AsyncIterator[FrameServer]:
    server = FrameServer()
    app = web.Application()
    app.router.add_get("/devtools/ws", server.socket)
    app.router.add_post("/devtools/sync", server.sync)
    app.router.add_post("/devtools/beacon", server.beacon)
    app.router.add_get("/devtools/{name}", static_file)
    app.router.add_route("*", "/echo", server.echo)
    app.router.add_get("/talk", server.talk)
    app.router.add_route("*", "/{path:.*}", server.page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    server.port = runner.addresses[0][1]
    server.origin = f"http://127.0.0.1:{server.port}"
    try:
        yield server
    finally:
        await runner.cleanup()


PAGE = "<!doctype html><html lang=en><head><title>Shop</title>COLLECTOR</head><body>{body}</body></html>"


async def open_page(server: FrameServer, page: Page, body: str = "<h1>hello</h1>", path: str = "/shop") -> None:
    """Open a page with this body that carries the collector, and wait until it has said hello."""
    count = len(server.frames)
    server.pages[path] = PAGE.replace("{body}", body)
    await page.goto(server.origin + path)
    await server.until(lambda: any(frame["frame"] == "hello" for frame in server.frames[count:]))
