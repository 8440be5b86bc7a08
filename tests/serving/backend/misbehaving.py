"""A local HTTP server that does what it is told, mostly the wrong thing, and remembers what reached it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from zorivest_rpc.serving.backend.interface import Address


class Seen(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Write = asyncio.StreamWriter
Behaviour = Callable[[Seen, Write], Awaitable[bool]]
"""Answers one request; True if the connection stays open for the next."""


def answer(value: Any = None, status: int = 200, kind: str = "application/json", **headers: str) -> Behaviour:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()

    async def behave(seen: Seen, write: Write) -> bool:
        extra = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
        write.write(head.encode() + body)
        await write.drain()
        return True

    return behave


def raw(*pieces: bytes, stays: bool = False) -> Behaviour:
    """These bytes, one piece at a time."""

    async def behave(seen: Seen, write: Write) -> bool:
        for piece in pieces:
            write.write(piece)
            await write.drain()
            await asyncio.sleep(0)
        return stays

    return behave


async def hang_up(seen: Seen, write: Write) -> bool:
    """Close without a word, after the request was read in full."""
    return False


async def reset_mid_body(seen: Seen, write: Write) -> bool:
    write.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"half":')
    await write.drain()
    sock = write.get_extra_info("socket")
    sock.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER 0: the close becomes a reset
    return False


async def never(seen: Seen, write: Write) -> bool:
    """Say nothing until the other side goes away or the server stops."""
    await asyncio.Event().wait()
    return False


async def endless(seen: Seen, write: Write) -> bool:
    """A body without a length and without an end."""
    write.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    while True:
        write.write(chunk)
        await write.drain()


class Misbehaving:
    """`script` holds the behaviours to come, in order; when it is empty `otherwise` is used."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.script: list[Behaviour] = []
        self.otherwise: Behaviour = answer({"ok": True})
        self.routes: dict[str, Behaviour] = {}
        self.open = 0
        self.accepted = 0
        self.arrived = asyncio.Event()
        self.all_gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""
        self.where: str | Address = ""

    async def start(self, tls: ssl.SSLContext | None = None, path: str | None = None) -> None:
        """On a port, or on a Unix socket at `path`."""
        if path is not None:
            self._server = await asyncio.start_unix_server(self._accept, path)
            self.url = "http://localhost"
            self.where = Address(self.url, path)
            return
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=tls)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.where = self.url

    async def stop(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def count(self, path: str) -> int:
        return sum(seen.path.partition("?")[0] == "/api/v1" + path for seen in self.seen)

    async def _accept(self, reader: asyncio.StreamReader, writer: Write) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        self.accepted += 1
        self.all_gone.clear()
        try:
            while (seen := await _read(reader)) is not None:
                self.seen.append(seen)
                self.arrived.set()
                if not await self._serve(seen, reader, writer):
                    return
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            if not self.open:
                self.all_gone.set()
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, seen: Seen, reader: asyncio.StreamReader, writer: Write) -> bool:
        behave = self.routes.get(seen.path.partition("?")[0].removeprefix("/api/v1"))
        if behave is None:
            behave = self.script.pop(0) if self.script else self.otherwise
        work = asyncio.ensure_future(behave(seen, writer))
        gone = asyncio.ensure_future(_until_gone(reader))
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
            return work.done() and not work.exception() and work.result()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.wait((work, gone))


async def _until_gone(reader: asyncio.StreamReader) -> None:
    """A client sends nothing while it waits for an answer, so the only thing to come is the end."""
    while not reader.at_eof() and reader.exception() is None:
        try:
            await reader._wait_for_data("watch")  # type: ignore[attr-defined]
        except ConnectionError:
            return


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Seen(method, path, headers, body)
