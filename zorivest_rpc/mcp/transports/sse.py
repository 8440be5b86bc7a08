"""The HTTP+SSE pair of 2024-11-05: a GET stream that first names where to POST, and answers that travel on the stream.

The connection is the session: its end cancels everything. An endpoint belongs to the principal that opened it.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex

from aiohttp import web

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.connection import Connection
from zorivest_rpc.mcp.dispatcher import Conversation
from zorivest_rpc.mcp.protocol.framing import sse_event
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST, decode
from zorivest_rpc.mcp.protocol.session import HEADERS, Phase
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.answers import EVENTS, EventStream, Writer
from zorivest_rpc.mcp.transports.streamable import Refused, with_cors

__all__ = ["SsePair"]

_MOST = 1_000


class SsePair:
    def __init__(self, server: Server, writer: Writer, keep_alive: Callable[[EventStream], None]) -> None:
        self._server = server
        self._writer = writer
        self._keep_alive = keep_alive
        self._open: dict[str, tuple[str, Connection, EventStream]] = {}

    @property
    def conversations(self) -> list[Conversation]:
        return [connection.conversation for _, connection, _ in self._open.values()]

    async def open(self, request: web.BaseRequest, principal: str) -> web.StreamResponse:
        if len(self._open) >= _MOST:
            raise Refused(503, ProtocolError(INVALID_REQUEST, f"{_MOST} streams are open already; retry later"))
        key = token_hex(16)
        stream = await self._writer.open_events(request, with_cors(request, EVENTS))
        connection = Connection(
            self._server,
            lambda frame: stream.write(sse_event(frame, event=b"message")),
            principal=principal,
            modern=False,
        )
        connection.session.headers = request.headers
        connection.session.key = key  # what is bound to a session, as a confirmation token is, is bound to this stream
        self._open[key] = (principal, connection, stream)
        self._keep_alive(stream)
        stream.write(sse_event(b"/messages?session_id=" + key.encode(), event=b"endpoint"))
        try:
            return await stream.hold()
        finally:
            del self._open[key]
            connection.close()

    def post(self, request: web.BaseRequest, body: bytes, principal: str) -> web.StreamResponse:
        key = request.rel_url.query.get("session_id")
        if key is None:
            raise ProtocolError(INVALID_REQUEST, "session_id is missing; open GET /sse first")
        found = self._open.get(key)
        if found is None or found[0] != principal:
            raise Refused(404, ProtocolError(INVALID_REQUEST, "no such session; open GET /sse first"))
        message = decode(body)  # what is no message is refused here, where its sender looks
        session = found[1].session
        if session.phase is Phase.NEW and any(name in request.headers for name in HEADERS):
            session.headers = request.headers  # those of `initialize` count; a client may send them with the GET alone
        found[1].receive_message(message, request.headers)
        return self._writer.answer(request, 202, headers=with_cors(request, ()))

    def close(self) -> None:
        for _, _, stream in list(self._open.values()):
            stream.close()
