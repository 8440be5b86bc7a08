"""The load over HTTP: a raw epoll HTTP/1.1 keep-alive client, one request in flight per connection."""

from __future__ import annotations

import select
import socket
import time
from typing import Any
from urllib.parse import urlsplit

from tests.bench.loadgen import (
    FIRST_ID,
    INITIALIZE,
    LEGACY,
    MODERN,
    READ_SIZE,
    Tally,
    decode,
    encode,
    request_around_id,
    without_collector,
)

__all__ = ["Connection", "http_load", "open_session", "payload", "request_head"]

now = time.perf_counter_ns


class Connection:
    """One keep-alive connection; `feed` gives (status, head, body) once an answer is complete."""

    __slots__ = ("address", "buffer", "head", "id", "sent", "session", "socket")

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.id, self.sent = 0, 0
        self.head, self.session = b"", ""
        self.connect()

    def connect(self) -> None:
        self.socket = socket.create_connection(self.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def feed(self, data: bytes) -> tuple[int, bytes, bytes] | None:
        buffer = self.buffer = self.buffer + data if self.buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        original, start = buffer[:end], end + 4
        head = original.lower()
        at = head.find(b"content-length:")
        if at >= 0:
            stop = head.find(b"\r\n", at)
            size = int(head[at + 15 : stop if stop > 0 else None])
            if len(buffer) < start + size:
                return None
            body, self.buffer = buffer[start : start + size], buffer[start + size :]
        elif b"chunked" in head:
            chunks = []
            while True:
                line = buffer.find(b"\r\n", start)
                if line < 0:
                    return None
                size = int(buffer[start:line], 16)
                if len(buffer) < line + 2 + size + 2:
                    return None
                chunks.append(buffer[line + 2 : line + 2 + size])
                start = line + 4 + size
                if size == 0:
                    break
            body, self.buffer = b"".join(chunks), buffer[start:]
        else:
            body, self.buffer = b"", buffer[start:]
        return int(head[9:12]), original, body

    def ask(self, request: bytes, timeout: float = 30) -> tuple[int, bytes, bytes]:
        self.socket.settimeout(timeout)
        self.socket.sendall(request)
        return self.answer()

    def answer(self) -> tuple[int, bytes, bytes]:
        while True:
            data = self.socket.recv(READ_SIZE)
            if not data:
                raise ConnectionError("the server closed the connection")
            if (answer := self.feed(data)) is not None:
                return answer


def request_head(url: str, size: int, *, version: str | None = LEGACY, session: str = "", tool: str = "") -> bytes:
    """The head of a POST; in the modern era `tool` is the one called, or empty for `tools/list`."""
    parts = urlsplit(url)
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {size}",
    ]
    if version:
        lines.append(f"MCP-Protocol-Version: {version}")
    if version == MODERN:
        lines += ["Mcp-Method: tools/call", f"Mcp-Name: {tool}"] if tool else ["Mcp-Method: tools/list"]
    if session:
        lines.append(f"Mcp-Session-Id: {session}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def payload(head: bytes, body: bytes) -> bytes:
    """The JSON-RPC message of an answer, be it JSON or an event stream."""
    if b"text/event-stream" not in head:
        return body
    events = (line[5:].strip() for line in body.splitlines() if line.startswith(b"data:") and b'"id"' in line)
    return next(events, b"")


def open_session(connection: Connection, url: str) -> str:
    """`initialize` and `initialized` on this connection; the session's id."""
    body = encode("initialize", INITIALIZE, 1)
    status, head, answer = connection.ask(request_head(url, len(body), version=None) + body)
    message = decode(payload(head, answer))
    if status != 200 or message["result"]["protocolVersion"] != LEGACY:
        raise ValueError(f"not the answer to initialize: {status} {answer[:300]!r}")
    fields = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    session = next((value.strip().decode() for name, _, value in fields if name.lower() == b"mcp-session-id"), "")
    body = encode("notifications/initialized")
    status, _, answer = connection.ask(request_head(url, len(body), session=session) + body)
    if status not in (200, 202):
        raise ValueError(f"notifications/initialized was refused: {status} {answer[:300]!r}")
    return session


class _Load:
    """A closed loop over many connections: whatever is answered is asked again."""

    def __init__(self, url: str, kind: str, connections: int, modern: bool, pid: int | None) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or 80
        self._tally = Tally(kind, pid)
        self._before, self._after = request_around_id(kind, modern)
        self._id = FIRST_ID
        self._poll = select.epoll()
        self._open: dict[int, Connection] = {}
        self.mode = ""
        size = len(self._before) + len(str(FIRST_ID)) + len(self._after)
        tool = "" if kind == "list" else kind
        for _ in range(connections):
            connection = Connection(host, port)
            session = "" if modern else open_session(connection, url)
            version = MODERN if modern else LEGACY
            connection.head = request_head(url, size, version=version, session=session, tool=tool)
            self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        connection.socket.setblocking(False)
        self._open[connection.socket.fileno()] = connection
        self._poll.register(connection.socket.fileno(), select.EPOLLIN)

    def _send(self, connection: Connection) -> None:
        self._id += 1
        connection.id, connection.sent = self._id, now()
        connection.socket.send(connection.head + self._before + b"%d" % self._id + self._after)

    def _reconnect(self, descriptor: int) -> None:
        self._tally.error("the server closed the connection")
        connection = self._open.pop(descriptor)
        self._poll.unregister(descriptor)
        connection.socket.close()
        connection.connect()
        self._watch(connection)
        self._send(connection)

    def _receive(self, descriptor: int) -> None:
        connection = self._open[descriptor]
        try:
            data = connection.socket.recv(READ_SIZE)
        except ConnectionError:
            data = b""
        if not data:
            self._reconnect(descriptor)
            return
        answer = connection.feed(data)
        if answer is None:
            return
        came = now()
        status, head, body = answer
        if not self.mode:
            self.mode = "sse" if b"text/event-stream" in head else "json"
        message = decode(payload(head, body))
        self._tally.answer(body, message, connection.id, came - connection.sent, status)
        self._send(connection)

    def run(self, seconds: float, warmup: float) -> dict[str, Any]:
        for connection in self._open.values():
            self._send(connection)
        self._until(now() + int(warmup * 1e9))
        self._tally.begin()
        self._until(self._tally.started + int(seconds * 1e9))
        return self._tally.figures(mode=self.mode)

    def _until(self, end: int) -> None:
        poll, receive = self._poll.poll, self._receive
        while now() < end:
            for descriptor, _ in poll(0.5):
                receive(descriptor)

    def close(self) -> None:
        for connection in self._open.values():
            connection.socket.close()
        self._poll.close()


def http_load(
    url: str,
    kind: str,
    connections: int,
    seconds: float = 1.0,
    *,
    modern: bool = False,
    pid: int | None = None,
    warmup: float = 0.3,
) -> dict[str, Any]:
    """Keep one request in flight on each connection; in the legacy era each connection is a session of its own."""
    load = _Load(url, kind, connections, modern, pid)
    try:
        with without_collector():
            return load.run(seconds, warmup)
    finally:
        load.close()
