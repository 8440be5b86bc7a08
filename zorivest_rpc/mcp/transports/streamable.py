"""Streamable HTTP at one path, both eras: the session of a POST and the form of its answer.

Rule 1: JSON when nothing streams, SSE from the first notification on; the status line waits until one of both is known.
Rule 2: the end of a modern response stream cancels the request; a legacy one goes on and can be resumed.
Rule 3: every refusal is JSON with a status that the specification names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web
from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.connection import receive_batch, receive_response
from zorivest_rpc.mcp.dispatcher import Channel, Conversation, Exchange
from zorivest_rpc.mcp.protocol.framing import sse_event
from zorivest_rpc.mcp.protocol.inbound import Arrival, Way, climb, has_legacy_header, read_post, select_rows
from zorivest_rpc.mcp.protocol.jsonrpc import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    REQUEST_CANCELLED,
    SERVER_BUSY,
    UNSUPPORTED_VERSION,
    Batch,
    Id,
    Message,
    decode,
    dumps,
    error_frame,
    notification_frame,
)
from zorivest_rpc.mcp.protocol.revisions import BY_NAME
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.mcp.protocol.types import LEVELS, Cancelled, decode_params
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.answers import EVENTS, JSON, EventStream, Headers, Writer
from zorivest_rpc.mcp.transports.posts import PostChannel
from zorivest_rpc.mcp.transports.sessions import MOST_ASKED, LiveSession, SessionStore, TooManySessions
from zorivest_rpc.mcp.transports.streams import ResumePoint, Stream, read_event_id

__all__ = ["Refused", "Streamable", "with_cors"]

_MODERN_STATUS: Final = {
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
_POST_OPENING: Final = select_rows(Way.POST_OPENING)
_POST_LEGACY: Final = select_rows(Way.POST_LEGACY)
_POST_MODERN: Final = select_rows(Way.POST_MODERN)
_POST_BATCH: Final = select_rows(Way.POST_BATCH)
_MODERN_BATCH: Final = select_rows(Way.MODERN_BATCH)
_MODERN_NOTE: Final = select_rows(Way.MODERN_NOTE)
_IN_SESSION: Final = select_rows(Way.IN_SESSION)
_MOST_PRINCIPALS: Final = 1_000  # remembered while none of their requests runs
_QUIET: Final = 10.0  # seconds without a sign of life before an answer is streamed, so that it can be kept alive


class Refused(Exception):
    """An answer that is no JSON-RPC answer to a request: a status and an error without a result."""

    def __init__(self, status: int, error: ProtocolError, headers: Headers = ()) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error
        self.headers = headers


class Streamable:
    def __init__(
        self, server: Server, sessions: SessionStore, writer: Writer, keep_alive: Callable[[EventStream], None]
    ) -> None:
        self._server = server
        self._sessions = sessions
        self._writer = writer
        self._keep_alive = keep_alive
        self._request = server.dispatcher.request
        self._served = server.served
        self._modern: dict[str, Conversation] = {}  # by principal

    @property
    def conversations(self) -> list[Conversation]:
        return [live.conversation for live in self._sessions.live] + list(self._modern.values())

    # --- POST

    async def post(self, request: web.BaseRequest, body: bytes, principal: str) -> web.StreamResponse:
        headers = request.headers
        accept = _accepts(headers.get("Accept"))
        version = headers.get("MCP-Protocol-Version")
        version = version.strip(" \t") if version is not None else None
        message = decode(body)
        if type(message) is not Message:
            assert isinstance(message, Batch)
            return await self._post_batch(request, message, principal, version, accept)
        if message.method is UNSET or message.id is UNSET:
            if has_legacy_header(version):
                return self._take(request, message, principal, version)
            return self._drop_modern(request, message, version)
        arrival = read_post(self._served, message, version)
        live = None
        if arrival.is_modern:
            channel = PostChannel(None, accept[1])
            exchange = self._start_modern(request, arrival, principal, channel)
        elif arrival.method == "initialize":
            return self._open(request, arrival, principal)
        else:
            live = self._session(request, principal, version)
            channel = PostChannel(live, accept[1])
            exchange = self._start_legacy(arrival, live, channel, headers)
        return await self._answer(request, channel, exchange, accept, live, message.id)

    def _start_modern(
        self, request: web.BaseRequest, arrival: Arrival, principal: str, channel: PostChannel
    ) -> Exchange | None:
        arrival.headers, arrival.principal = request.headers, principal
        climb(arrival, _POST_MODERN)
        method, id, session = arrival.method, arrival.id, arrival.session
        assert id is not None
        assert session is not None
        if method == "subscriptions/listen" and not channel.carries_questions:
            raise Refused(406, ProtocolError(INVALID_REQUEST, "a subscription is a text/event-stream", id=id))
        conversation = self._modern_conversation(principal)
        return self._request(conversation, session, id, method, arrival.params, channel, request.headers)

    def _start_legacy(
        self, arrival: Arrival, live: LiveSession, channel: Channel, headers: RequestHeaders
    ) -> Exchange | None:
        """A request of a session, posted alone or in a batch."""
        arrival.session = session = live.session
        try:
            climb(arrival, _POST_LEGACY)
        except ProtocolError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            channel.finish(error_frame(error), error.code)  # in the form that the client accepts
            return None
        assert arrival.id is not None
        return self._request(live.conversation, session, arrival.id, arrival.method, arrival.params, channel, headers)

    async def _answer(
        self,
        request: web.BaseRequest,
        channel: PostChannel,
        exchange: Exchange | None,
        accept: tuple[bool, bool],
        live: LiveSession | None,
        id: Id | None,
    ) -> web.StreamResponse:
        """`id` is None for a batch."""
        json, events = accept
        if exchange is not None and not channel.done:
            try:
                await channel.wait(_QUIET if events else None)
            except asyncio.CancelledError:
                if live is None:
                    exchange.cancel()
                raise
        if channel.done and not channel.wants_stream and json:
            return self._whole(request, channel, live, id)
        if channel.done and channel.code and live is None and channel.code in _MODERN_STATUS:
            return self._whole(request, channel, live, id)  # a mandated status beats what was about to be streamed
        return await self._answer_by_stream(request, channel, exchange, live, id)

    def _whole(
        self, request: web.BaseRequest, channel: PostChannel, live: LiveSession | None, id: Id | None
    ) -> web.StreamResponse:
        if channel.answer is None and id is None:  # every request of the batch was cancelled
            return self._writer.answer(request, 202, headers=with_cors(request, ()))
        status = 200
        if live is None and channel.code:
            status = _MODERN_STATUS.get(channel.code, 200)
        body = channel.answer
        if body is None:  # cancelled: no answer exists, but a POST has to end with one
            body = error_frame(ProtocolError(REQUEST_CANCELLED, "the request was cancelled", id=id))
        headers = _json(request)
        if channel.code == SERVER_BUSY:
            headers = (*headers, ("Retry-After", "1"))
        return self._writer.answer(request, status, body, headers)

    async def _answer_by_stream(
        self,
        request: web.BaseRequest,
        channel: PostChannel,
        exchange: Exchange | None,
        live: LiveSession | None,
        id: Id | None,
    ) -> web.StreamResponse:
        connection = await self._writer.open_events(request, with_cors(request, EVENTS))
        self._keep_alive(connection)
        if live is not None:
            stream = live.streams.for_request(0 if id is None else id)
            stream.carry(connection, prime=live.session.revision.priming)
            channel.carry(stream)
        else:
            if exchange is not None:
                connection.on_close = exchange.cancel  # a slow reader that was dropped is a client that went
            channel.carry(connection)
        if channel.done:
            channel.finish(channel.answer, channel.code)
        elif channel.hangs_up:
            channel.hang_up()
        try:
            return await connection.hold()
        except asyncio.CancelledError:
            if live is None and exchange is not None:
                exchange.cancel()
            raise

    # --- the modern era

    def _modern_conversation(self, principal: str) -> Conversation:
        found = self._modern.get(principal)
        if found is None:
            if len(self._modern) >= _MOST_PRINCIPALS:
                self._modern = {name: each for name, each in self._modern.items() if each.running}
            found = self._modern[principal] = Conversation(Session(principal=principal))
        return found

    def _drop_modern(self, request: web.BaseRequest, message: Message, version: str | None) -> web.StreamResponse:
        climb(Arrival(message=message, version=version), _MODERN_NOTE)
        return self._writer.answer(request, 202, headers=with_cors(request, ()))

    # --- the legacy era

    def _open(self, request: web.BaseRequest, arrival: Arrival, principal: str) -> web.StreamResponse:
        named, id = request.headers.get("Mcp-Session-Id"), arrival.id
        if named is not None and arrival.problem is None:
            live = self._find(named, principal)
            arrival.session = None if live is None else live.session
        climb(arrival, _POST_OPENING)
        assert id is not None
        session = Session(principal=principal)
        session.headers = request.headers
        if (asked := sum(map(len, session.asked))) > MOST_ASKED:
            words = f"the X-MCP headers have {asked} characters and a session keeps {MOST_ASKED}; name toolsets instead"
            raise Refused(400, ProtocolError(INVALID_REQUEST, words, id=id))
        session.check("initialize", id)
        channel = PostChannel(None, False)
        self._request(Conversation(session), session, id, "initialize", arrival.params, channel, request.headers)
        headers = _json(request)
        if channel.code == 0:
            headers = (*headers, ("Mcp-Session-Id", self._sessions.mint(session)))
        return self._writer.answer(request, 200, channel.answer or b"", headers)

    def _session(self, request: web.BaseRequest, principal: str, version: str | None) -> LiveSession:
        named = request.headers.get("Mcp-Session-Id")
        if named is not None and (version is None or version in BY_NAME):
            live = self._find(named, principal)
            if live is not None:
                return live
        climb(Arrival(session_id=named, version=version), _IN_SESSION)
        raise AssertionError("a session that was not found is refused")

    def _find(self, id: str, principal: str) -> LiveSession | None:
        try:
            return self._sessions.find(id, principal)
        except TooManySessions:
            words = "too many sessions are busy; try again shortly"
            raise Refused(503, ProtocolError(SERVER_BUSY, words), (("Retry-After", "1"),)) from None

    def _take(
        self, request: web.BaseRequest, message: Message, principal: str, version: str | None
    ) -> web.StreamResponse:
        """A notification or a response of a legacy client: acknowledged, whatever it is."""
        self._accept_quietly(self._session(request, principal, version), message)
        return self._writer.answer(request, 202, headers=with_cors(request, ()))

    def _accept_quietly(self, live: LiveSession, message: Message) -> None:
        if message.is_response:
            receive_response(live.conversation, message, False)
        elif message.method == "notifications/cancelled":
            try:
                params = decode_params("notifications/cancelled", message.params)
            except ProtocolError:
                return
            if isinstance(params, Cancelled):
                live.conversation.cancel(params.request_id)

    async def _post_batch(
        self, request: web.BaseRequest, batch: Batch, principal: str, version: str | None, accept: tuple[bool, bool]
    ) -> web.StreamResponse:
        if not has_legacy_header(version):
            climb(Arrival(), _MODERN_BATCH)
        live = self._session(request, principal, version)
        climb(Arrival(session=live.session, size=len(batch.items)), _POST_BATCH)
        channel = PostChannel(live, accept[1])
        answered = False

        def done(answer: bytes | None) -> None:
            nonlocal answered
            answered = answer is not None
            channel.finish(answer, 0)

        receive_batch(batch, channel, lambda message, way: self._batch_item(live, message, way, request.headers), done)
        exchange = next(iter(live.conversation.running.values()), None)
        if not channel.done:
            return await self._answer(request, channel, exchange, accept, live, None)
        if not answered:
            return self._writer.answer(request, 202, headers=with_cors(request, ()))
        return self._writer.answer(request, 200, channel.answer or b"", _json(request))

    def _batch_item(self, live: LiveSession, message: Message, way: Channel, headers: RequestHeaders) -> None:
        if message.method is UNSET or message.id is UNSET:
            self._accept_quietly(live, message)
        else:
            self._start_legacy(read_post(self._served, message), live, way, headers)

    # --- GET and DELETE, legacy alone

    async def get(self, request: web.BaseRequest, principal: str) -> web.StreamResponse:
        headers = request.headers
        version = headers.get("MCP-Protocol-Version")
        row = BY_NAME.get(version) if version is not None else None
        if (row is not None and row.modern) or "text/event-stream" not in headers.get("Accept", ""):
            return self.not_allowed(request)
        live = self._session(request, principal, version)
        last = headers.get("Last-Event-ID")
        point = read_event_id(last) if last is not None else None
        if last is not None and point is None:
            raise ProtocolError(INVALID_REQUEST, "Last-Event-ID is not one of ours")
        stream = self._resume(live, point)
        missing = 0 if stream is None or point is None else stream.missing(point.number)
        if (stream is None or (missing and stream.is_spent)) and point is not None and point.request is not None:
            return await self._answer_lost_stream(request, point)
        fresh = stream is None
        if stream is None:
            stream = live.streams.open_standing()
            if stream is None:
                words = "too many standing streams of this session are open; close one"
                raise Refused(409, ProtocolError(INVALID_REQUEST, words))
        connection = await self._writer.open_events(request, with_cors(request, EVENTS))
        self._keep_alive(connection)
        if fresh:
            stream.carry(connection, prime=live.session.revision.priming)
        else:
            assert point is not None
            if missing and point.request is None:  # the answer to a request is still to come, or among what is kept
                self._tell_missing(live, connection, missing)
            stream.replay(point.number, connection)
        if stream.name.endswith("-"):
            connection.on_close = lambda: self._on_standing_close(live)
            live.standing.open(live.streams.tell)
        return await connection.hold()

    def _resume(self, live: LiveSession, point: ResumePoint | None) -> Stream | None:
        if point is None or point.epoch != self._server.epoch:
            return None
        return live.streams.find(point.stream)

    async def _answer_lost_stream(self, request: web.BaseRequest, point: ResumePoint) -> web.StreamResponse:
        """A stream that this process does not have: the request behind it is answered, not left waiting for ever."""
        words = "the server restarted or no longer holds this stream; the outcome is unknown, so look before repeating"
        connection = await self._writer.open_events(request, with_cors(request, EVENTS))
        connection.write(sse_event(error_frame(ProtocolError(INTERNAL_ERROR, words, id=point.request))))
        connection.close()
        return await connection.hold()

    def _tell_missing(self, live: LiveSession, connection: EventStream, missing: int) -> None:
        """Told as a log message, because the events themselves are gone: a list that changed is asked for again."""
        words = f"{missing} events before this one are no longer kept; ask again for the lists and resources you follow"
        level = live.session.log_level
        if level is None or LEVELS[level] <= LEVELS["warning"]:
            params = dumps({"level": "warning", "logger": "streams", "data": words})
            connection.write(sse_event(notification_frame("notifications/message", params)))

    def _on_standing_close(self, live: LiveSession) -> None:
        if live.streams.standing() is None:
            live.standing.write = None

    def delete(self, request: web.BaseRequest, principal: str) -> web.StreamResponse:
        version = request.headers.get("MCP-Protocol-Version")
        row = BY_NAME.get(version) if version is not None else None
        if row is not None and row.modern:
            return self.not_allowed(request)
        self._sessions.end(self._session(request, principal, version))
        return self._writer.answer(request, 204, headers=with_cors(request, ()))

    def not_allowed(self, request: web.BaseRequest) -> web.StreamResponse:
        error = ProtocolError(INVALID_REQUEST, f"{request.method} is not served here")
        allow = (("Allow", "GET, POST, DELETE, OPTIONS"),)
        return self._writer.answer(request, HTTPStatus.METHOD_NOT_ALLOWED, error_frame(error), _json(request) + allow)


def _accepts(header: str | None) -> tuple[bool, bool]:
    """(JSON, events). Lenient: a missing header and wildcards accept both."""
    if header is None or header == "application/json, text/event-stream" or "*/*" in header:
        return True, True  # the second is how nearly every client writes it
    lowered = header.lower()
    json = "application/json" in lowered or "application/*" in lowered
    events = "text/event-stream" in lowered or "text/*" in lowered
    if not json and not events:
        words = "the answer is application/json or text/event-stream; Accept names neither"
        raise Refused(406, ProtocolError(INVALID_REQUEST, words))
    return json, events


def _json(request: web.BaseRequest) -> Headers:
    return with_cors(request, JSON)


def with_cors(request: web.BaseRequest, headers: Headers) -> Headers:
    """Only for an Origin that has passed the check; never a wildcard."""
    origin = request.headers.get("Origin")
    if origin is None:
        return headers
    return (
        *headers,
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"),
        ("Vary", "Origin"),
    )
