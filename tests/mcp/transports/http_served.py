"""An HTTP server in this process with tools that wait for the test, and a client that sees every byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from zorivest_rpc.mcp.call import Call, Handler, Outcome, form, sample, say
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.offer import Offer, Resource, ResourceShelf, Template, ToolShelf
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.http import Authenticate, HttpOptions, HttpTransport, accept_everyone
from zorivest_rpc.mcp.transports.session_journal import SessionJournal
from zorivest_rpc.mcp.transports.sessions import SessionStore

LONG: Final = 20.0
MODERN: Final = "2026-07-28"
META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
BOTH: Final = "application/json, text/event-stream"


class Work:
    """The tools, and what the test knows of them: `started` and `ended` count, `go` lets the waiting ones go on."""

    def __init__(self) -> None:
        self.started = asyncio.Semaphore(0)
        self.ended = asyncio.Semaphore(0)
        self.go = asyncio.Event()
        self.steps = asyncio.Semaphore(0)
        self.cancelled = 0
        handlers: dict[str, Handler] = {
            "echo": self._echo,
            "big": self._big,
            "gate": self._gate,
            "stepping": self._stepping,
            "say_then_gate": self._say_then_gate,
            "polling": self._polling,
            "late_polling": self._late_polling,
            "late_capability": self._late_capability,
            "late_failure": self._late_failure,
            "ask": self._ask,
            "toggle": self._toggle,
        }
        tools = [(Tool(name, f"Test tool {name}.", {"type": "object"}), each) for name, each in handlers.items()]
        watched = Resource("test://watched", "watched", self._read)
        long = Template("test://long/{rest}", "long", self._read)
        self.offer = Offer("faults", "1", tools=ToolShelf(tools), resources=ResourceShelf([watched], [long]))

    async def _echo(self, call: Call) -> Outcome:
        return say(call.arguments.get("text", ""))

    async def _big(self, call: Call) -> Outcome:
        if call.arguments.get("streams"):
            call.progress(1)
        return say("b" * call.arguments["size"])

    async def _wait(self, event: asyncio.Event) -> None:
        self.started.release()
        try:
            await event.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended.release()

    async def _gate(self, call: Call) -> Outcome:
        await self._wait(self.go)
        return say("gone through")

    async def _say_then_gate(self, call: Call) -> Outcome:
        call.progress(1)
        await self._wait(self.go)
        return say("gone through")

    async def _stepping(self, call: Call) -> Outcome:
        """One progress event per step that the test allows."""
        self.started.release()
        for number in range(1, call.arguments["count"] + 1):
            await self.steps.acquire()
            call.progress(number, message="s" * call.arguments.get("size", 0))
        self.ended.release()
        return say("stepped")

    async def _polling(self, call: Call) -> Outcome:
        call.progress(1)
        call.hang_up()
        await self._wait(self.go)
        call.progress(2)
        return say("polled")

    async def _late_polling(self, call: Call) -> Outcome:
        await self._wait(self.go)
        call.hang_up()
        self.started.release()
        await self.steps.acquire()
        return say("polled late")

    async def _late_capability(self, call: Call) -> Outcome:
        await self._wait(self.go)
        call.require(sample([], 1))
        return say("can sample")

    async def _late_failure(self, call: Call) -> Outcome:
        await self._wait(self.go)
        raise RuntimeError("secret words of a failure")

    async def _ask(self, call: Call) -> Outcome:
        answer = call.need("name", form("Name?", {"name": {"type": "string"}}))
        return say(f"hello {answer['content']['name']}")

    async def _toggle(self, call: Call) -> Outcome:
        call.session.toolsets ^= {"extra"}
        outcome = say("toggled")
        outcome.after = [lambda: self.offer.announce_change("tools", call.session)]
        return outcome

    async def _read(self, call: Call) -> list[dict[str, Any]]:
        return [{"uri": call.name, "text": "watched"}]


class Event(NamedTuple):
    id: str | None
    kind: str | None
    data: str
    retry: str | None

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Reply:
    """A response whose body is read as it is wanted."""

    def __init__(self, status: int, headers: list[tuple[str, str]], reader: asyncio.StreamReader, head: bool) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.header_list = headers
        self._reader = reader
        self._chunked = self.headers.get("transfer-encoding") == "chunked"
        length = self.headers.get("content-length")
        empty = head or (status in (202, 204) and length is None)
        self._left = 0 if empty else None if length is None else int(length)
        self._held = b""
        self.ended = False

    async def _piece(self) -> bytes:
        """Some bytes of the body; b"" at its end."""
        if self.ended:
            return b""
        if self._chunked:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            data = await self._reader.readexactly(size + 2)
            self.ended = size == 0
            return data[:-2]
        if self._left is None:
            data = await self._reader.read(65536)
            self.ended = not data
            return data
        data = await self._reader.read(self._left) if self._left else b""
        self._left -= len(data)
        self.ended = not data
        return data

    async def body(self) -> bytes:
        async with asyncio.timeout(LONG):
            while piece := await self._piece():
                self._held += piece
            return self._held

    async def json(self) -> Any:
        return json.loads(await self.body())

    async def event(self) -> Event | None:
        """The next event, comments left out; None at a clean end."""
        async with asyncio.timeout(LONG):
            while True:
                while b"\n\n" not in self._held:
                    piece = await self._piece()
                    if not piece:
                        assert not self._held, self._held
                        return None
                    self._held += piece
                block, _, self._held = self._held.partition(b"\n\n")
                fields: dict[str, str] = {}
                for row in block.decode().split("\n"):
                    name, _, value = row.partition(":")
                    fields[name] = value.removeprefix(" ")
                if "data" in fields:
                    return Event(fields.get("id"), fields.get("event"), fields["data"], fields.get("retry"))

    async def events(self) -> list[Event]:
        found = []
        while (one := await self.event()) is not None:
            found.append(one)
        return found


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self, head: bool = False) -> Reply:
        async with asyncio.timeout(LONG):
            while True:
                raw = await self.reader.readuntil(b"\r\n\r\n")
                first, *rows = raw.decode("latin-1").split("\r\n")[:-2]
                assert first.startswith("HTTP/1."), first
                status = int(first.split(" ")[1])
                if status != 100:
                    break
        pairs = [(name, value.strip()) for name, _, value in (row.partition(":") for row in rows)]
        return Reply(status, pairs, self.reader, head)

    async def closed(self) -> bytes:
        """What comes until the server closes."""
        async with asyncio.timeout(LONG):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    def reset(self) -> None:
        """Vanish without a goodbye: the server sees a reset, not an end."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(Exception):
            await self.writer.wait_closed()


def head(method: str, path: str, headers: dict[str, str | None], length: int | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    given: dict[str, str | None] = {"Host": "localhost", **headers}
    if length is not None:
        given.setdefault("Content-Length", str(length))
    lines += [f"{name}: {value}" for name, value in given.items() if value is not None]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def encoded(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message, separators=(",", ":")).encode()


def call(id: int | str, name: str, token: str | None = None, meta: dict[str, Any] | None = None, **args: Any) -> Any:
    given = dict(meta or {})
    if token is not None:
        given["progressToken"] = token
    params: dict[str, Any] = {"name": name, "arguments": args}
    if given:
        params["_meta"] = given
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def modern_call(id: int | str, name: str, token: str | None = None, **args: Any) -> Any:
    return call(id, name, token, META, **args)


def modern_headers(message: Any) -> dict[str, Any]:
    params = message["params"]
    found: dict[str, Any] = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    if "name" in params:
        found["Mcp-Name"] = params["name"]
    return found


def listen(id: int | str, *uris: str) -> Any:
    params = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": list(uris)}, "_meta": META}
    return {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}


def hello(revision: str = "2025-11-25", capabilities: Any = None) -> Any:
    params = {
        "protocolVersion": revision,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


class Served:
    def __init__(self, server: Server, transport: HttpTransport, work: Work) -> None:
        self.server = server
        self.transport = transport
        self.work = work
        self.wires: list[Wire] = []

    async def wire(self, **options: Any) -> Wire:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.transport.port, limit=1 << 26, **options)
        wire = Wire(reader, writer)
        self.wires.append(wire)
        return wire

    async def request(
        self, method: str, path: str = "/mcp", body: Any = None, wire: Wire | None = None, **headers: Any
    ) -> Reply:
        """Header names with underscores for hyphens; None leaves a default out."""
        wire = wire or await self.wire()
        given: dict[str, str | None] = {}
        data = b"" if body is None else encoded(body)
        if body is not None:
            given |= {"Content-Type": "application/json", "Accept": BOTH}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        wire.send(head(method, path, given, len(data) if body is not None else None) + data)
        return await wire.reply(method == "HEAD")

    async def post(self, body: Any, wire: Wire | None = None, **headers: Any) -> Reply:
        return await self.request("POST", body=body, wire=wire, **headers)

    async def modern(self, message: Any, wire: Wire | None = None, **headers: Any) -> Reply:
        return await self.post(message, wire, **{**modern_headers(message), **headers})

    async def open(self, revision: str = "2025-11-25", capabilities: Any = None, **headers: Any) -> str:
        """A legacy session; its id."""
        wire = await self.wire()
        reply = await self.post(hello(revision, capabilities), wire, **headers)
        assert reply.status == 200, await reply.body()
        await reply.body()
        id = reply.headers["mcp-session-id"]
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.post(done, wire, Mcp_Session_Id=id, **headers)).status == 202
        await wire.close()
        return id

    async def started(self, times: int = 1) -> None:
        async with asyncio.timeout(LONG):
            for _ in range(times):
                await self.work.started.acquire()

    async def ended(self, times: int = 1) -> None:
        async with asyncio.timeout(LONG):
            for _ in range(times):
                await self.work.ended.acquire()

    @property
    def running(self) -> int:
        """Requests that are being worked on."""
        return sum(len(each.running) for each in self.transport._streamable.conversations)


async def until(condition: Callable[[], bool]) -> None:
    """Turns of the loop until it holds; for what has no event of its own to wait for."""
    async with asyncio.timeout(LONG):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def serving(
    *,
    authenticate: Authenticate = accept_everyone,
    now: Callable[[], float] | None = None,
    key: bytes | None = None,
    journal: Path | None = None,
    limits: Limits | None = None,
    metrics: Callable[[str], str] | None = None,
    **options: Any,
) -> AsyncIterator[Served]:
    """Wired as the command wires it, on a free port."""
    work = Work()
    stores: list[SessionStore] = []

    def remember(session: Session) -> None:
        stores[0].remember(session)

    clock: dict[str, Any] = {} if now is None else {"now": now}
    server = Server(work.offer, key=key, limits=limits, remember=remember, **clock)
    chosen = HttpOptions(port=0, **{"grace": 0.0, **options})
    book = SessionJournal(journal, server.now)
    stores.append(
        SessionStore(
            server.seal,
            server.announcer,
            book,
            server.now,
            server.epoch,
            life=chosen.session_life,
            idle=chosen.session_idle,
            most=chosen.most_sessions,
            replay_bytes=chosen.replay_bytes,
        )
    )
    transport = HttpTransport(server, chosen, authenticate=authenticate, sessions=stores[0], metrics=metrics)
    await transport.start()
    served = Served(server, transport, work)
    try:
        yield served
    finally:
        for wire in served.wires:
            wire.writer.transport.abort()
        await transport.stop()
        book.close()
        for wire in served.wires:
            await wire.close()
