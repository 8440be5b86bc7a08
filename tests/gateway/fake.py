"""Upstreams that do what a test says: an HTTP server whose answers are functions, and bytes on a bare socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from zorivest_rpc.gateway.errors import ToolingError
from zorivest_rpc.gateway.http_client import HttpUpstream
from zorivest_rpc.gateway.upstream import Call, Happening, Result
from zorivest_rpc.mcp.client.caller import Identity

VERSION = "2026-07-28"
IDENTITY = Identity("zorivest-rpc", "1.2.3")
EVENTS = "text/event-stream"
TOOL = {"name": "echo", "description": "Echo", "inputSchema": {"type": "object", "properties": {"text": {}}}}


class Seen:
    """One request as the server got it."""

    def __init__(self, request: web.BaseRequest, body: bytes) -> None:
        self.verb = request.method
        self.headers = request.headers.copy()
        self.body = body
        self.message: Any = json.loads(body) if body else None
        self.request = request

    @property
    def method(self) -> str:
        return str(self.message.get("method", "")) if isinstance(self.message, dict) else ""

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def params(self) -> Any:
        return self.message.get("params") or {}

    def result(self, status: int = 200, headers: Any = None, **members: Any) -> web.Response:
        return web.json_response({"jsonrpc": "2.0", "id": self.id, "result": members}, status=status, headers=headers)

    def error(self, code: int, message: str = "no", status: int = 200, data: Any = None) -> web.Response:
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        return web.json_response({"jsonrpc": "2.0", "id": self.id, "error": error}, status=status)

    async def stream(self, headers: Any = None) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": EVENTS, **(headers or {})})
        await response.prepare(self.request)
        return response


Handler = Callable[[Seen], Awaitable[web.StreamResponse]]


def event(message: Any, id: str = "", retry: int | None = None) -> bytes:
    lines = [f"id: {id}"] if id else []
    lines += [f"retry: {retry}"] if retry is not None else []
    return ("\n".join([*lines, f"data: {json.dumps(message)}"]) + "\n\n").encode()


class Fake:
    """An upstream of one era; `handlers` by method (or verb, for GET and DELETE) replace what it does by itself."""

    def __init__(self, era: str = "modern", capabilities: Any = None, **handlers: Handler) -> None:
        self.era = era
        self.capabilities = {"tools": {}} if capabilities is None else capabilities
        self.seen: list[Seen] = []
        self.handlers: dict[str, Handler] = {name.replace("_", "/"): handler for name, handler in handlers.items()}
        self.sessions: list[str] = []
        self.version = "2025-11-25"
        self.tools: list[Any] = [TOOL]

    @property
    def methods(self) -> list[str]:
        return [seen.method or seen.verb for seen in self.seen]

    def of(self, method: str) -> list[Seen]:
        return [seen for seen in self.seen if (seen.method or seen.verb) == method]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(request, b"".join([piece async for piece in request.content.iter_any()]))
        self.seen.append(seen)
        handler = self.handlers.get(seen.method or seen.verb) or self.handlers.get("any")
        if handler is not None:
            return await handler(seen)
        return self.answer(seen)

    def answer(self, seen: Seen) -> web.StreamResponse:
        if seen.verb != "POST":
            return web.Response(status=405 if seen.verb == "GET" else 200)
        if "method" not in seen.message or "id" not in seen.message:
            return web.Response(status=202)
        return self.answer_modern(seen) if self.era == "modern" else self.answer_legacy(seen)

    def answer_modern(self, seen: Seen) -> web.StreamResponse:
        if seen.method == "server/discover":
            return seen.result(supportedVersions=[VERSION], capabilities=self.capabilities, resultType="complete")
        return self.serve(seen)

    def answer_legacy(self, seen: Seen) -> web.StreamResponse:
        if seen.method == "initialize":
            self.sessions.append(f"session-{len(self.sessions)}")
            info = {"name": "old", "version": "1"}
            return seen.result(
                headers={"Mcp-Session-Id": self.sessions[-1]},
                protocolVersion=self.version,
                capabilities=self.capabilities,
                serverInfo=info,
            )
        if seen.headers.get("Mcp-Session-Id") not in self.sessions:
            return web.Response(status=400)
        return self.serve(seen)

    def serve(self, seen: Seen) -> web.StreamResponse:
        if seen.method == "tools/list":
            return seen.result(tools=self.tools)
        if seen.method == "tools/call":
            return seen.result(content=[{"type": "text", "text": seen.params["arguments"].get("text", "")}])
        return seen.error(-32601, status=404 if self.era == "modern" else 200)


@asynccontextmanager
async def serving(handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The URL of a server that answers so; ended with what it has open."""
    runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def speaking(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers with given bytes, one at a time, and closes after the last answer; and what it read."""
    got: list[bytes] = []
    open_: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].partition(b":")[2])) if length else b""
                got.append(head + body)
                for byte in answers[min(len(got), len(answers)) - 1]:
                    writer.write(bytes([byte]))
                    await writer.drain()
                if len(got) >= len(answers):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", got
    finally:
        server.close()
        for writer in open_:
            writer.transport.abort()
        await server.wait_closed()


@asynccontextmanager
async def connected(
    fake: Fake, happenings: list[Happening] | None = None, **options: Any
) -> AsyncIterator[HttpUpstream]:
    """A client that has been opened to a fake upstream."""
    async with serving(fake.handle) as url:
        note = happenings.append if happenings is not None else None
        client = HttpUpstream("ops", url, IDENTITY, on_happening=note, **options)
        try:
            await client.connect()
            yield client
        finally:
            await client.close()


class Noted(list[Any]):
    """A list that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._grown = asyncio.Event()

    def append(self, item: Any) -> None:
        super().append(item)
        self._grown.set()

    async def reach(self, length: int) -> None:
        async with asyncio.timeout(20):
            while len(self) < length:
                self._grown.clear()
                await self._grown.wait()


def calling(text: str = "hi", **options: Any) -> Call:
    params = json.dumps({"name": "echo", "arguments": {"text": text}}).encode()
    return Call("tools/call", params, "echo", shown="ops__echo", **options)


def text_of(result: Result) -> str:
    return str(json.loads(bytes(result.raw))["content"][0]["text"])


def answering(status: int, body: Any = None, **headers: str) -> Any:
    async def handle(seen: Seen) -> web.StreamResponse:
        if isinstance(body, dict):
            return web.json_response({"jsonrpc": "2.0", "id": seen.id, **body}, status=status, headers=headers)
        return web.Response(status=status, body=body, headers=headers)

    return handle


def streaming(*pieces: Any, cut: bool = False) -> Any:
    async def handle(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        for piece in pieces:
            message = piece(seen) if callable(piece) else piece
            await response.write(message if isinstance(message, bytes) else event(message))
        if cut:
            assert seen.request.transport is not None
            seen.request.transport.abort()
        return response

    return handle


def done(text: str = "done") -> Any:
    return lambda seen: {"jsonrpc": "2.0", "id": seen.id, "result": {"content": [{"type": "text", "text": text}]}}


def note(method: str, **params: Any) -> Any:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


class Pauses:
    """Waits that are only noted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


async def attempt(fake: Fake, **options: Any) -> ToolingError:
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY, **options)
        try:
            with pytest.raises(ToolingError) as failed:
                await client.connect()
        finally:
            await client.close()
    return failed.value
