"""How an HTTP answer is put on the wire: head and body in one write, or through aiohttp's own response classes.

The short way writes to the connection's transport itself, which aiohttp offers but does not build on. An echo over 16
connections costs 79 µs of processor time that way and 127 µs the plain way (docs/benchmarks.md). The plain way uses
nothing but the public API and is kept as the fallback: `ZORIVEST_HTTP_WRITER=plain`. Both are the same to everything
above: `answer` for a whole body, `EventStream` for events. What of `mcp/` reaches below aiohttp's public interface
stands here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, error_frame

__all__ = ["EventStream", "QuietServer", "Writer"]

# What aiohttp does not promise; `make canary` tries it on the newest release.
PRIVATE_MEMBERS: Final = (
    "aiohttp.base_protocol.BaseProtocol._drain_helper",
    "aiohttp.web_server.Server._kwargs",
    "aiohttp.web_server.Server._loop",
)

_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}
_MOST_UNSENT: Final = 1 << 20  # bytes that a reader may lag behind when the next event is due; then it is dropped
JSON: Final = (("Content-Type", "application/json"),)
EVENTS: Final = (
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),
)
Headers = tuple[tuple[str, str], ...]
log: Final = logging.getLogger("zorivest_rpc")


class _Clock:
    """The Date header, made once a second."""

    __slots__ = ("line", "second")

    def __init__(self) -> None:
        self.second = 0
        self.line = b""

    def __call__(self) -> bytes:
        now = int(time.time())
        if now != self.second:
            self.second = now
            self.line = b"Date: %b\r\n" % formatdate(now, usegmt=True).encode()
        return self.line


_date: Final = _Clock()


class _Sent:
    """Stands in for aiohttp's response where the bytes are written by us: it only has to be finished."""

    __slots__ = ("_data", "body_length", "headers", "keep_alive", "status")

    def __init__(self, data: bytes, status: int, keep_alive: bool) -> None:
        self._data = data
        self.status = status
        self.keep_alive = keep_alive
        self.body_length = len(data)
        self.headers: dict[str, str] = {}

    async def prepare(self, request: web.BaseRequest) -> None:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        if self._data:
            transport.write(self._data)
            if transport.get_write_buffer_size() > _MOST_UNSENT:  # further requests wait until these answers are read
                await request.protocol._drain_helper()

    async def write_eof(self) -> None:
        return None


class Writer:
    """The two ways behind one interface."""

    def __init__(self, plain: bool = False) -> None:
        self.plain = plain
        self._heads: dict[tuple[int, Headers], bytes] = {}

    def answer(
        self, request: web.BaseRequest, status: int, body: bytes = b"", headers: Headers = JSON
    ) -> web.StreamResponse:
        if self.plain or request.version != (1, 1):
            return web.Response(status=status, body=body or None, headers=dict(headers))
        head = self._head(status, headers)
        keep = request.keep_alive
        data = b"%b%b%bContent-Length: %d\r\n\r\n%b" % (
            head,
            _date(),
            b"" if keep else b"Connection: close\r\n",
            len(body),
            b"" if request.method == "HEAD" else body,
        )
        if status in (204, 304):
            data = b"%b%b\r\n" % (head, _date())
        return _Sent(data, status, keep)  # type: ignore[return-value]

    def _head(self, status: int, headers: Headers) -> bytes:
        """Status line and fixed headers; remembered, as there are few of them. Headers with an id in are not."""
        key = (status, headers)
        head = self._heads.get(key)
        if head is None:
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
            head = b"HTTP/1.1 %d %b\r\n%b" % (status, _REASONS.get(status, b""), lines.encode("latin-1"))
            if len(self._heads) < 200:
                self._heads[key] = head
        return head

    async def open_events(self, request: web.BaseRequest, headers: Headers = EVENTS) -> EventStream:
        if self.plain or request.version != (1, 1):
            return await _PlainStream.open(request, headers)
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        head = self._head(200, headers)
        transport.write(b"%b%bTransfer-Encoding: chunked\r\n\r\n" % (head, _date()))
        return EventStream(request, transport)


class EventStream:
    """One connection carrying events. Writing never waits; a reader that lags too far behind is cut off."""

    __slots__ = ("_closed", "_keep_alive", "_keepers", "_transport", "on_close")

    def __init__(self, request: web.BaseRequest, transport: asyncio.Transport | None) -> None:
        self._keep_alive = request.keep_alive  # nothing else of the request is needed, so that is not held
        self._transport = transport
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_close: Callable[[], None] | None = None
        self._keepers: tuple[Callable[[EventStream], object], ...] = ()

    @property
    def is_open(self) -> bool:
        return not self._closed.done()

    def call_on_close(self, work: Callable[[EventStream], object]) -> None:
        """For keepers of a list of streams; `on_close` belongs to the owner of this one.

        Methods in a tuple, not closures on the future: thousands of idle sessions keep what stands here."""
        if not self._keepers:
            self._closed.add_done_callback(self._tell_keepers)
        self._keepers += (work,)

    def _tell_keepers(self, _: asyncio.Future[None]) -> None:
        keepers, self._keepers = self._keepers, ()
        for work in keepers:
            work(self)

    def write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or self._closed.done() or transport.is_closing():
            return
        if transport.get_write_buffer_size() > _MOST_UNSENT:  # before the write: one event may be as large as it is
            self.abort()
            return
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def close(self) -> None:
        """The end of the stream; the connection may carry another request."""
        if not self._closed.done():
            self._closed.set_result(None)
            transport, self._transport = self._transport, None
            if transport is not None and not transport.is_closing():
                transport.write(b"0\r\n\r\n")
            self._notify_closed()

    def abort(self) -> None:
        """Drop the reader and what it has not read."""
        if not self._closed.done():
            self._closed.set_result(None)
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._notify_closed()

    def _notify_closed(self) -> None:
        callback, self.on_close = self.on_close, None
        if callback is not None:
            callback()

    async def hold(self) -> web.StreamResponse:
        """Hold the request until the stream ends; cancelled when the client goes."""
        try:
            await self._closed
        finally:
            if not self._closed.done():
                self._closed.set_result(None)
            self._notify_closed()
            self._transport = None
        return _Sent(b"", 200, self._keep_alive)  # type: ignore[return-value]


class _PlainStream(EventStream):
    """The same over web.StreamResponse: writes are queued and pumped by the request's own task."""

    __slots__ = ("_queue", "_queued", "_request", "_response", "_wake")

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        super().__init__(request, None)
        self._request: web.BaseRequest | None = request
        self._response: web.StreamResponse | None = response
        self._queue: list[bytes] = []
        self._queued = 0
        self._wake = asyncio.Event()

    @classmethod
    async def open(cls, request: web.BaseRequest, headers: Headers) -> _PlainStream:
        response = web.StreamResponse(headers=dict(headers))
        await response.prepare(request)
        return cls(request, response)

    def write(self, data: bytes) -> None:
        if self._closed.done():
            return
        if self._queued > _MOST_UNSENT:
            self.abort()
            return
        self._queue.append(data)
        self._queued += len(data)
        self._wake.set()

    def close(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
            self._wake.set()
            self._notify_closed()

    def abort(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        self._queue.clear()
        self._wake.set()
        if self._request is not None and self._request.transport is not None:
            self._request.transport.abort()
        self._notify_closed()

    async def hold(self) -> web.StreamResponse:
        response = self._response
        assert response is not None
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                queue, self._queue, self._queued = self._queue, [], 0
                if queue:
                    await response.write(b"".join(queue))
                if self._closed.done() and not self._queue:
                    break
            await response.write_eof()
        except ConnectionError:
            response.force_close()  # the reader went, or was dropped
        finally:
            if not self._closed.done():
                self._closed.set_result(None)
            self._notify_closed()
            self._request = self._response = None
        return response


class _QuietHandler(RequestHandler):
    """aiohttp's handler with errors that are JSON."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= 500:
            log.error("HTTP request failed", exc_info=exc)
            error = ProtocolError(INTERNAL_ERROR, "internal error; the server's log has the details")
        else:
            error = ProtocolError(INVALID_REQUEST, "this is not an HTTP request that can be read")
        if request.writer.output_size > 0:
            raise ConnectionError("part of an answer is sent already")
        response = web.Response(status=status, body=error_frame(error), content_type="application/json")
        response.force_close()
        return response


class QuietServer(web.Server):
    """aiohttp's server with that handler."""

    def __call__(self) -> RequestHandler:
        return _QuietHandler(self, loop=self._loop, **self._kwargs)
