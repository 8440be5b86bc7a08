"""A small client that speaks to the server over every transport: raw bytes out, messages sorted as they come in.

A test says what goes over the wire and waits for what comes back; nothing is validated or repaired on the way.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from importlib import import_module
from io import BytesIO
from typing import Any, Final, TypeVar

import aiohttp

from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.offer import Offer
from zorivest_rpc.mcp.protocol.revisions import BY_NAME
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport, accept_everyone
from zorivest_rpc.mcp.transports.memory import MemoryClient

__all__ = ["KINDS", "LEGACY_KINDS", "MODERN_KINDS", "PATIENCE", "Client", "Host", "HttpWire", "Post", "load_offer"]

T = TypeVar("T")
Json = Any
PATIENCE: Final = 10.0  # a bound for what should be there at once, on a machine that is busy with other things
LEGACY_KINDS: Final = ("memory", "stdio", "streamable", "sse")
MODERN_KINDS: Final = ("memory-modern", "stdio-modern", "streamable-modern")
KINDS: Final = (*LEGACY_KINDS, *MODERN_KINDS)
RICH: Final = "tests.mcp.protocol.offers:rich"
MODERN: Final = "2026-07-28"
PREFIX: Final = "io.modelcontextprotocol/"
EVERYTHING: Final[dict[str, Json]] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


def load_offer(name: str) -> Callable[[], Offer]:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]


def meta(capabilities: Json = None, version: Json = MODERN, **extra: Json) -> dict[str, Json]:
    """The `_meta` of a modern request."""
    return {
        PREFIX + "protocolVersion": version,
        PREFIX + "clientCapabilities": {} if capabilities is None else capabilities,
        PREFIX + "clientInfo": {"name": "tests", "version": "1"},
        **extra,
    }


class Client:
    """The client's end of one connection, or of one HTTP endpoint."""

    def __init__(self, kind: str, revision: str, capabilities: Json) -> None:
        self.kind = kind
        self.revision = revision
        self.capabilities = capabilities
        self.wire: Wire
        self.server: Server | None = None  # where it runs in this process
        self.answers: list[Json] = []
        self.notes: list[Json] = []
        self.questions: list[Json] = []
        self.strays: list[Json] = []  # errors without an id
        self.arrays: list[Json] = []  # answers that came as one array
        self.frames: list[bytes] = []
        self.greeting: Json = None
        self._news = asyncio.Event()
        self._ids = 1000  # apart from what tests choose themselves

    @property
    def modern(self) -> bool:
        return BY_NAME[self.revision].modern if self.revision in BY_NAME else False

    @property
    def here(self) -> Server:
        assert self.server is not None, "the server runs in another process"
        return self.server

    # --- sending

    async def send(self, message: Json, headers: Mapping[str, str] | None = None) -> None:
        """A message, or bytes that may be anything."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        await self.wire.send(data, dict(headers or {}))

    async def start(self, method: str, params: Json = None, id: Json = None, **more_meta: Json) -> Json:
        """Send a request and return its id; in the modern era with the metadata that belongs to it."""
        if id is None:
            self._ids += 1
            id = self._ids
        params = dict(params or {})
        if self.modern:
            params["_meta"] = {**meta(self.capabilities), **more_meta, **params.get("_meta", {})}
        elif more_meta:
            params["_meta"] = {**more_meta, **params.get("_meta", {})}
        await self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    async def notify(self, method: str, params: Json = None) -> None:
        await self.send({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    async def cancel(self, id: Json) -> None:
        await self.notify("notifications/cancelled", {"requestId": id})

    # --- waiting

    async def until(self, look: Callable[[], T | None]) -> T:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = look()
                if found is not None:
                    return found
                self._news.clear()
                await self._news.wait()

    async def answer(self, id: Json) -> Json:
        """The whole answer to this id, of exactly this JSON type."""

        def look() -> Json:
            for message in self.answers:
                if type(message["id"]) is type(id) and message["id"] == id:
                    return message
            return None

        return await self.until(look)

    async def ask(self, method: str, params: Json = None, id: Json = None, **more_meta: Json) -> Json:
        return await self.answer(await self.start(method, params, id, **more_meta))

    async def result(self, method: str, params: Json = None, **more_meta: Json) -> Json:
        answer = await self.ask(method, params, **more_meta)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, method: str, params: Json = None, **more_meta: Json) -> Json:
        answer = await self.ask(method, params, **more_meta)
        assert "error" in answer, answer
        return answer["error"]

    async def call(self, name: str, arguments: Json = None, **members: Json) -> Json:
        return await self.result("tools/call", {"name": name, "arguments": arguments or {}, **members})

    async def start_call(self, name: str, arguments: Json = None, id: Json = None, **more_meta: Json) -> Json:
        return await self.start("tools/call", {"name": name, "arguments": arguments or {}}, id, **more_meta)

    async def note(self, method: str, number: int = 1) -> Json:
        """The first notification of this method, or a later one."""
        return await self.until(lambda: next(iter(self.notes_of(method)[number - 1 : number]), None))

    def notes_of(self, method: str) -> list[Json]:
        return [note for note in self.notes if note["method"] == method]

    async def question(self, number: int = 1) -> Json:
        return await self.until(lambda: self.questions[number - 1] if len(self.questions) >= number else None)

    async def reply(self, question: Json, result: Json = None, error: Json = None) -> None:
        member = {"error": error} if error is not None else {"result": result}
        await self.send({"jsonrpc": "2.0", "id": question["id"], **member})

    async def stray(self, number: int = 1) -> Json:
        return await self.until(lambda: self.strays[number - 1] if len(self.strays) >= number else None)

    async def settle(self) -> None:
        """Every message sent so far has been looked at: an answer has made the way behind them."""
        if self.modern:
            await self.ask("server/discover")
        else:
            await self.ask("ping")

    # --- receiving

    def deliver(self, frame: bytes) -> None:
        self.frames.append(frame)
        value = json.loads(frame)
        if isinstance(value, list):
            self.arrays.append(value)
        for message in value if isinstance(value, list) else [value]:
            self._route(message)
        self._news.set()

    def _route(self, message: Json) -> None:
        assert message["jsonrpc"] == "2.0", message
        if "method" in message:
            (self.questions if "id" in message else self.notes).append(message)
        elif "id" in message:
            assert message["id"] is not None, message
            self.answers.append(message)
        else:
            self.strays.append(message)

    # --- opening

    async def open(self) -> None:
        """The handshake of the legacy era; the modern one has none."""
        if self.modern:
            return
        params = {
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "tests", "version": "1"},
        }
        self.greeting = await self.result("initialize", params)
        await self.notify("notifications/initialized")
        await self.wire.opened(self.revision)

    async def close(self) -> None:
        await self.wire.close()


class Wire:
    """One way to carry frames."""

    async def send(self, data: bytes, headers: dict[str, str]) -> None:
        raise NotImplementedError

    async def opened(self, revision: str) -> None:
        return

    async def close(self) -> None:
        return


class MemoryWire(Wire):
    def __init__(self, server: Server, client: Client, principal: str) -> None:
        self._memory = MemoryClient(server, principal=principal)
        self._pump = asyncio.create_task(self._receive(client))

    async def send(self, data: bytes, headers: dict[str, str]) -> None:
        self._memory.send(data)

    async def _receive(self, client: Client) -> None:
        while True:
            client.deliver(await self._memory.receive())

    async def close(self) -> None:
        self._memory.close()
        await _ended(self._pump)


class StdioWire(Wire):
    """A real process, as a client would start it."""

    def __init__(self, process: asyncio.subprocess.Process, client: Client) -> None:
        self.process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in = process.stdin
        self._pump = asyncio.create_task(self._receive(process.stdout, client))

    @classmethod
    async def spawn(cls, offer: str, options: Iterable[str], client: Client) -> StdioWire:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.mcp.protocol.serve", offer, *options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=64 << 20,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
        return cls(process, client)

    async def send(self, data: bytes, headers: dict[str, str]) -> None:
        self._in.write(data + b"\n")
        await self._in.drain()

    async def send_raw(self, data: bytes) -> None:
        self._in.write(data)
        await self._in.drain()

    async def _receive(self, out: asyncio.StreamReader, client: Client) -> None:
        async for line in out:
            client.deliver(line)

    async def close(self) -> None:
        self._in.close()
        async with asyncio.timeout(PATIENCE):
            await self._in.wait_closed()
            await self.process.wait()
        await _ended(self._pump)
        self.process._transport.close()  # type: ignore[attr-defined]


class Post:
    """What became of one POST."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, events: list[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.events = events

    @property
    def json(self) -> Json:
        return json.loads(self.body)


class HttpWire(Wire):
    """Streamable HTTP: a POST for each frame; in the legacy era the session id, and a GET stream once it is open."""

    def __init__(self, url: str, client: Client, headers: Mapping[str, str] | None = None) -> None:
        self._client = client
        self.url = url
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        self._fixed = dict(headers or {})
        self.session_id: str | None = None
        self.version: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.streams: dict[Json, asyncio.Task[Any]] = {}  # by request id
        self.statuses: list[int] = []

    async def send(self, data: bytes, headers: dict[str, str]) -> None:
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            message = None
        head = {**self.standard(message), **headers}
        greeting = isinstance(message, dict) and message.get("method") == "initialize"
        expects_answer = isinstance(message, dict) and type(message.get("id")) in (int, str) and "method" in message
        task = asyncio.create_task(self._post(data, head))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if expects_answer and not greeting:
            self.streams[message["id"]] = task
        else:
            await task  # in order: what follows a notification on the same pipe follows it here too

    def standard(self, message: Json) -> dict[str, str]:
        """The headers that a well-behaved client of this era adds to this message."""
        given = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **self._fixed}
        params: Json = message.get("params") if isinstance(message, dict) else None
        about: Json = params.get("_meta") if isinstance(params, dict) else None
        if isinstance(about, dict) and PREFIX + "protocolVersion" in about:
            given["MCP-Protocol-Version"] = str(about[PREFIX + "protocolVersion"])
            given["Mcp-Method"] = str(message.get("method"))
            for key in ("name", "uri", "taskId"):
                if isinstance(params.get(key), str) and params[key].isascii() and params[key].isprintable():
                    given["Mcp-Name"] = params[key]
                    break
        elif self._client.modern:
            given["MCP-Protocol-Version"] = MODERN
        else:
            if self.session_id:
                given["Mcp-Session-Id"] = self.session_id
            if self.version and BY_NAME[self.version].version_header:
                given["MCP-Protocol-Version"] = self.version
        return given

    async def _post(self, data: bytes, headers: Mapping[str, str]) -> None:
        async with self.http.post(self.url, data=BytesIO(data), headers=headers) as reply:
            self.statuses.append(reply.status)
            self.session_id = reply.headers.get("Mcp-Session-Id", self.session_id)
            if reply.content_type == "text/event-stream":
                async for event in events(reply.content):
                    self._client.deliver(event)
            else:
                body = await reply.read()
                if body:
                    self._client.deliver(body)

    async def post(self, message: Json, headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None) -> Post:
        """One POST with exactly these headers besides the two types, and everything that came back."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        given = list(headers.items()) if isinstance(headers, Mapping) else list(headers or ())
        names = {name.lower() for name, _ in given}
        if "accept" not in names:
            given.append(("Accept", "application/json, text/event-stream"))
        if "content-type" not in names:
            given.append(("Content-Type", "application/json"))
        async with asyncio.timeout(PATIENCE), self.http.post(self.url, data=BytesIO(data), headers=given) as reply:
            if reply.content_type == "text/event-stream":
                found = [event async for event in events(reply.content)]
                return Post(reply.status, reply.headers, found[-1] if found else b"", found)
            body = await reply.read()
            return Post(reply.status, reply.headers, body, [])

    async def opened(self, revision: str) -> None:
        self.version = revision
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._listen(ready))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        async with asyncio.timeout(PATIENCE):
            await ready

    async def _listen(self, ready: asyncio.Future[None]) -> None:
        headers = {**self.standard(None), "Accept": "text/event-stream"}
        async with self.http.get(self.url, headers=headers) as reply:
            assert reply.status == 200, reply.status
            ready.set_result(None)
            async for event in events(reply.content):
                self._client.deliver(event)

    async def hang_up(self, id: Json) -> None:
        """Close the connection that carries the answer to this request."""
        await _ended(self.streams[id])

    async def close(self) -> None:
        for task in list(self._tasks):
            await _ended(task)
        await self.http.close()


class SseWire(Wire):
    """The pair of 2024-11-05: one stream, and POSTs that are answered on it."""

    def __init__(self, base: str, client: Client) -> None:
        self._base = base
        self._client = client
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stream = asyncio.create_task(self._receive())
        self.statuses: list[int] = []

    async def _receive(self) -> None:
        async with self.http.get(self._base + "/sse", headers={"Accept": "text/event-stream"}) as reply:
            async for event in events(reply.content):
                if self._endpoint.done():
                    self._client.deliver(event)
                else:
                    self._endpoint.set_result(event.decode())

    async def send(self, data: bytes, headers: dict[str, str]) -> None:
        async with asyncio.timeout(PATIENCE):
            url = self._base + await self._endpoint
            given = {"Content-Type": "application/json", **headers}
            async with self.http.post(url, data=BytesIO(data), headers=given) as reply:
                self.statuses.append(reply.status)
                body = await reply.read()
                if body:  # a refusal is told where it was posted
                    self._client.deliver(body)

    async def close(self) -> None:
        await _ended(self._stream)
        await self.http.close()


async def events(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The data of each event that has some."""
    held = b""
    async for part in content.iter_any():
        *whole, held = (held + part).split(b"\n\n")
        for event in whole:
            data = b"".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
            if data:
                yield data


async def _ended(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task], timeout=PATIENCE)
    if not task.cancelled():
        task.exception()


class Host:
    """Starts servers of one kind and clients to them, and ends them all."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._clients: list[Client] = []
        self._transports: list[HttpTransport] = []
        self._servers: list[tuple[Server, list[MemoryClient]]] = []

    async def __call__(
        self,
        revision: str | None = None,
        *,
        offer: str = RICH,
        capabilities: Json = None,
        limits: Limits | None = None,
        now: Callable[[], float] | None = None,
        key: bytes | None = None,
        principal: str = "",
        opened: bool = True,
        page_size: int | None = None,
    ) -> Client:
        """A client of a server of its own."""
        if revision is None:
            revision = MODERN if self.kind.endswith("-modern") else "2025-11-25"
        client = Client(self.kind, revision, EVERYTHING if capabilities is None else capabilities)
        if self.kind.startswith("stdio"):
            options: list[str] = []
            if limits is not None:
                options += [f"--calls-per-client={limits.per_client}", f"--calls-per-server={limits.per_server}"]
                options += [f"--input-seconds={limits.input_seconds:.0f}"]
            client.wire = await StdioWire.spawn(offer, options, client)
        else:
            made = load_offer(offer)()
            if page_size is not None:
                made.page_size = page_size
            more: dict[str, Any] = {} if now is None else {"now": now}
            server = Server(made, limits=limits, key=key, **more)
            await self.join(client, server, principal)
        self._clients.append(client)
        if opened:
            await client.open()
        return client

    async def another(self, first: Client, principal: str = "", capabilities: Json = None, **kind: str) -> Client:
        """One more client of the server that another client uses."""
        revision = kind.get("revision", first.revision)
        client = Client(self.kind, revision, first.capabilities if capabilities is None else capabilities)
        if isinstance(first.wire, HttpWire):
            client.server = first.server
            client.wire = HttpWire(first.wire.url, client, _bearer(principal))
        else:
            await self.join(client, first.here, principal)
        self._clients.append(client)
        await client.open()
        return client

    async def join(self, client: Client, server: Server, principal: str) -> None:
        client.server = server
        if self.kind.startswith("memory"):
            client.wire = MemoryWire(server, client, principal)
            return
        transport = await self.http(server)
        base = f"http://127.0.0.1:{transport.port}"
        if self.kind == "sse":
            client.wire = SseWire(base, client)
        else:
            client.wire = HttpWire(base + "/mcp", client, _bearer(principal))

    async def http(self, server: Server, **options: Any) -> HttpTransport:
        options = {"port": 0, "grace": 0.0, **options}
        transport = HttpTransport(server, HttpOptions(**options), authenticate=by_name)
        await transport.start()
        self._transports.append(transport)
        return transport

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for client in self._clients:
            if client.server is not None and not isinstance(client.wire, HttpWire | SseWire):
                await client.server.stop(list(client.server.conversations), 0)
        for transport in self._transports:
            await transport.stop()
        for server in {client.server for client in self._clients if client.server is not None}:
            if (close := getattr(server.offer.tools, "close", None)) is not None:  # a journal, with its connections
                await close()


def by_name(header: str | None) -> str | None:
    """For tests: the principal is whatever the bearer key says."""
    return accept_everyone(header) if header is None else header.removeprefix("Bearer ")


def _bearer(principal: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {principal}"} if principal else {}
