"""Idle sessions, each with an open stream: memory of one, and the time of one `list_changed` to all of them."""

from __future__ import annotations

import select
import socket
import statistics
import subprocess
import time
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from tests.bench.catalog import CALL_ARGUMENTS
from tests.bench.loadgen import LEGACY, decode, encode, is_right
from tests.bench.loadgen_http import Connection, open_session, payload, request_head
from tests.bench.processes import rss_mb
from tests.bench.turns import processor_ms

__all__ = ["idle_sessions"]

BROADCASTS = 9
SETTLE = 0.5  # seconds until a server has finished what the last request left behind
PATIENCE = 30.0  # seconds until a stream that got nothing counts as missed


class _Streams:
    """Sessions of one server with an open GET stream each, and the connection that drives them."""

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        self._host, self._path = parts.netloc, parts.path
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._control = Connection(*self._address)
        self._session = open_session(self._control, url)
        self._streams: dict[int, socket.socket] = {}
        self._poll = select.epoll()

    def __enter__(self) -> _Streams:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in self._streams.values():
            stream.close()
        self._poll.close()
        self._control.socket.close()

    def call_echo(self, session: str = "") -> None:
        body = encode("tools/call", {"name": "echo", "arguments": CALL_ARGUMENTS}, 5)
        head = request_head(self._url, len(body), session=session or self._session)
        _, head, answer = self._control.ask(head + body)
        if not is_right(decode(payload(head, answer)), 5, "echo"):
            raise ValueError(f"not the answer to echo: {answer[:300]!r}")

    def open(self) -> None:
        """One more session: initialised, used once, then idle with its stream open."""
        session = open_session(self._control, self._url)
        self.call_echo(session)
        lines = [
            f"GET {self._path} HTTP/1.1",
            f"Host: {self._host}",
            "Accept: text/event-stream",
            f"MCP-Protocol-Version: {LEGACY}",
            *([f"Mcp-Session-Id: {session}"] if session else []),
        ]
        stream = socket.create_connection(self._address)
        stream.settimeout(20)
        stream.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        head = stream.recv(65536)
        if b" 200" not in head[:16]:
            stream.close()
            raise ValueError(f"the stream was refused: {head[:300]!r}")
        stream.setblocking(False)
        self._streams[stream.fileno()] = stream
        self._poll.register(stream.fileno(), select.EPOLLIN)

    def _trigger(self, how: str, id: int) -> bytes:
        kind, _, target = how.partition(":")
        if kind == "post":
            return request_head(f"http://{self._host}{target}", 2) + b"{}"
        body = encode("tools/call", {"name": target, "arguments": CALL_ARGUMENTS}, id)
        return request_head(self._url, len(body), session=self._session) + body

    def broadcast(self, how: str, id: int) -> tuple[float, int]:
        """Ask for one broadcast: milliseconds until the last stream had it, and how many streams had it."""
        for descriptor, _ in self._poll.poll(0):  # keep-alives are not the message
            self._streams[descriptor].recv(65536)
        request = self._trigger(how, id)
        reached: set[int] = set()
        started = time.perf_counter()
        self._control.socket.settimeout(PATIENCE)
        self._control.socket.sendall(request)
        while len(reached) < len(self._streams) and time.perf_counter() - started < PATIENCE:
            for descriptor, _ in self._poll.poll(0.2):
                data = self._streams[descriptor].recv(65536)
                if not data:
                    self._poll.unregister(descriptor)
                elif b"list_changed" in data:
                    reached.add(descriptor)
        took = (time.perf_counter() - started) * 1000
        self._control.answer()
        return took, len(reached)


def idle_sessions(url: str, process: subprocess.Popen[bytes], count: int, how: str) -> dict[str, Any]:
    """Open `count` sessions and tell all of them a few times; a stream that hears nothing is an error."""
    with _Streams(url) as streams:
        for _ in range(50):
            streams.call_echo()
        time.sleep(SETTLE)
        before = rss_mb(process.pid)
        for _ in range(count):
            streams.open()
        time.sleep(SETTLE)
        after = rss_mb(process.pid)
        busy = processor_ms(process.pid)
        told = [streams.broadcast(how, 900 + k) for k in range(BROADCASTS)]
        busy = processor_ms(process.pid) - busy
        return {
            "sessions": count,
            "kb_per_session": (after - before) * 1024 / count,
            "broadcast_ms": statistics.median(ms for ms, _ in told),
            "broadcast_busy_ms": busy / BROADCASTS,
            "broadcast_ms_each": [round(ms, 1) for ms, _ in told],
            "errors": sum(count - reached for _, reached in told),
        }
