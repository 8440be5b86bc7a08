"""The HTTP server: what is checked before a body is read, the paths, and the life of the listening socket.

Order of checks: path, Host, Origin, credentials, method, type, size. Every answer that is not an MCP answer is JSON
too; there is no HTML here, not even for a request that is not HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.protocol.framing import SSE_COMMENT
from zorivest_rpc.mcp.protocol.jsonrpc import (
    INVALID_REQUEST,
    PARSE_ERROR,
    Json,
    dumps,
    error_frame,
)
from zorivest_rpc.mcp.protocol.session import RequestHeaders
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.answers import JSON, EventStream, Headers, QuietServer, Writer
from zorivest_rpc.mcp.transports.session_journal import SessionJournal
from zorivest_rpc.mcp.transports.sessions import SessionStore
from zorivest_rpc.mcp.transports.sse import SsePair
from zorivest_rpc.mcp.transports.streamable import Refused, Streamable, with_cors
from zorivest_rpc.mcp.transports.streams import REPLAY_BYTES

__all__ = ["Authenticate", "HttpOptions", "HttpTransport", "accept_everyone", "bearer_keys"]

log: Final = logging.getLogger("zorivest_rpc")
Authenticate: TypeAlias = Callable[[str | None], str | Awaitable[str | None] | None]
"""The Authorization header to a principal, or None where it names no principal."""
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
NOTHING_BESIDE: Final[Mapping[str, Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]]] = {}
_KEEP_ALIVE: Final = 15.0
_IDLE: Final = 75.0  # seconds that a connection may stay without a request
_OAUTH: Final = (
    *("/.well-known/oauth-", "/.well-known/openid-configuration", "/authorize", "/token", "/register", "/oauth"),
)
_HOW_TO_SEND_A_KEY: Final = "send a key as Authorization: Bearer …"
_NO_HOST: Final = frozenset("/?#@\\, \t")  # what ends or hides the host name within a URL, and is no part of one


def accept_everyone(header: str | None) -> str | None:
    """Accept every request as the same principal: no authentication."""
    return ""


def bearer_keys(keys: dict[str, str]) -> Authenticate:
    """Static keys (key -> principal). Every key is compared, in constant time, so that timing tells nothing."""
    from hmac import compare_digest

    known = [(key.encode(), principal) for key, principal in keys.items()]

    def authenticate(header: str | None) -> str | None:
        scheme, _, given = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = None
        for key, principal in known:
            if compare_digest(key, given.strip().encode("utf-8", "replace")):
                found = principal
        return found

    return authenticate


class HttpOptions(msgspec.Struct, frozen=True):
    host: str = "127.0.0.1"
    port: int = 8766
    path: str = "/mcp"
    hosts: tuple[str, ...] = LOOPBACK  # names that the Host header may carry
    origins: tuple[str, ...] = LOOPBACK  # host names that an Origin may carry
    body_limit: int = 16 * 1024 * 1024
    body_seconds: float = 60.0
    grace: float = 5.0  # for running requests at shutdown
    authorization_servers: tuple[str, ...] = ()
    plain_writer: bool = False
    session_life: float = 24 * 3600.0
    session_idle: float = 1_800.0
    most_sessions: int = 10_000
    replay_bytes: int = REPLAY_BYTES


class HttpTransport:
    def __init__(
        self,
        server: Server,
        options: HttpOptions,
        *,
        authenticate: Authenticate = accept_everyone,
        holding: Callable[[str | None], AbstractContextManager[None]] = lambda header: nullcontext(),
        sessions: SessionStore | None = None,
        facts: Callable[[], Json] = dict,
        metrics: Callable[[str], str] | None = None,
        gate: Callable[[RequestHeaders], Refused | None] = lambda headers: None,
        beside: Mapping[str, Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]] = NOTHING_BESIDE,
    ) -> None:
        """`holding` is open while a request runs, for code that needs its credentials that long and no longer.
        `metrics` are those that a principal may see; `gate` refuses messages by their headers; `beside` answers paths
        by their first part, with checks of Origin and credentials of its own."""
        self._gate = gate
        self._server = server
        self._options = options
        self._authenticate = authenticate
        self._holding = holding
        self._metrics = metrics
        self._beside = beside
        self._facts = facts
        if sessions is None:  # an empty store is false, but it is the one to use
            sessions = SessionStore(
                server.seal,
                server.announcer,
                SessionJournal(None, server.now),
                server.now,
                server.epoch,
                life=options.session_life,
                idle=options.session_idle,
                most=options.most_sessions,
                replay_bytes=options.replay_bytes,
            )
        self.sessions = sessions
        self._writer = Writer(options.plain_writer)
        self._streams: set[EventStream] = set()
        self._streamable = Streamable(server, self.sessions, self._writer, self._mind)
        self._sse = SsePair(server, self._writer, self._mind)
        self._allowed_hosts: dict[str, bool] = {}
        self._allowed_origins: dict[str, bool] = {}
        self._stopping = False
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._aiohttp: QuietServer | None = None
        self.port = options.port

    # --- life

    async def start(self, listening: socket.socket | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._aiohttp = QuietServer(
            self._handle, handler_cancellation=True, access_log=None, keepalive_timeout=_IDLE, tcp_keepalive=True
        )
        if listening is not None:
            self._listener = await loop.create_server(self._aiohttp, sock=listening, backlog=1024)
        else:
            self._listener = await loop.create_server(
                self._aiohttp, self._options.host, self._options.port, backlog=1024, reuse_address=True
            )
        self.port = self._listener.sockets[0].getsockname()[1]
        self._timer = loop.call_later(_KEEP_ALIVE, self._comment)

    async def stop(self) -> None:
        """Stop accepting, let running calls finish for a while, close the streams so that clients come back."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._listener is not None:
            self._listener.close()
        await self._server.stop([*self._streamable.conversations, *self._sse.conversations], self._options.grace)
        await asyncio.sleep(0)
        for stream in list(self._streams):
            stream.close()
        self._sse.close()
        await asyncio.sleep(0)
        if self._aiohttp is not None:
            self._aiohttp.pre_shutdown()
            await self._aiohttp.shutdown(1.0)
        if self._listener is not None:
            await self._listener.wait_closed()

    def hurry(self) -> None:
        """Do not wait for the calls that `stop` is still waiting for; they are told that the server stopped."""
        for conversation in (*self._streamable.conversations, *self._sse.conversations):
            for exchange in list(conversation.running.values()):
                if exchange.task is not None:
                    exchange.task.cancel()

    def _mind(self, stream: EventStream) -> None:
        self._streams.add(stream)
        stream.call_on_close(self._streams.discard)

    def _comment(self) -> None:
        """A sign of life on every open stream."""
        for stream in list(self._streams):
            stream.write(SSE_COMMENT)
        self.sessions.sweep()
        self._timer = asyncio.get_running_loop().call_later(_KEEP_ALIVE, self._comment)

    @property
    def open_streams(self) -> int:
        return sum(1 for stream in self._streams if stream.is_open)

    # --- one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        try:
            self._check_host(request)
            other = self._beside.get(path[1:].partition("/")[0]) if self._beside else None
            if other is not None:
                return await other(request)
            self._check_origin(request)
            if path == self._options.path:
                return await self._mcp(request)
            return await self._elsewhere(request, path)
        except Refused as refused:
            return self._refuse(request, refused.status, refused.error, refused.headers)
        except ProtocolError as error:
            return self._refuse(request, error.status, error)

    async def _mcp(self, request: web.BaseRequest) -> web.StreamResponse:
        method = request.method
        if method == "OPTIONS":
            return self._preflight(request)
        principal = await self._principal(request)
        if method == "POST":
            self._check_gate(request)
            body = await self._body(request)
            with self._holding(request.headers.get("Authorization")):
                return await self._streamable.post(request, body, principal)
        if method == "GET":
            return await self._streamable.get(request, principal)
        if method == "DELETE":
            return self._streamable.delete(request, principal)
        return self._streamable.not_allowed(request)

    async def _elsewhere(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        method = request.method
        if path == "/health" and method in ("GET", "HEAD"):
            return self._writer.answer(request, 200, dumps({"status": "ok", **self._facts()}))
        if path == "/ready" and method in ("GET", "HEAD"):
            status = 503 if self._stopping else 200
            return self._writer.answer(request, status, dumps({"ready": not self._stopping}))
        if path == "/metrics" and method in ("GET", "HEAD") and self._metrics is not None:
            principal = await self._principal(request)
            text = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)
            return self._writer.answer(request, 200, self._metrics(principal).encode(), text)
        if path.startswith("/.well-known/oauth-protected-resource") and self._options.authorization_servers:
            return self._writer.answer(request, 200, dumps(self._resource_metadata(request)))
        if path in ("/sse", "/messages", "/messages/"):
            if method == "OPTIONS":
                return self._preflight(request)
            principal = await self._principal(request)
            if path == "/sse" and method == "GET":
                with self._holding(request.headers.get("Authorization")):
                    return await self._sse.open(request, principal)
            if path != "/sse" and method == "POST":
                self._check_gate(request)
                return self._sse.post(request, await self._body(request), principal)
            allow = (("Allow", "GET, OPTIONS" if path == "/sse" else "POST, OPTIONS"),)
            raise Refused(405, ProtocolError(INVALID_REQUEST, f"{method} is not served at {path}"), allow)
        words = f"nothing is served at this path; try {self._options.path}"
        if path.startswith(_OAUTH):  # where clients look for a way to log in after a 401
            how = "no key is needed here" if self._authenticate is accept_everyone else _HOW_TO_SEND_A_KEY
            words = f"there is no OAuth here; {how}"
        raise Refused(404, ProtocolError(INVALID_REQUEST, words))

    def _refuse(
        self, request: web.BaseRequest, status: int, error: ProtocolError, headers: Headers = ()
    ) -> web.StreamResponse:
        cors = with_cors(request, ()) if self._allowed_origins.get(request.headers.get("Origin", "")) else ()
        return self._writer.answer(request, status, error_frame(error), (*JSON, *headers, *cors))

    # --- the checks

    def _check_host(self, request: web.BaseRequest) -> None:
        host = request.headers.get("Host", "")
        allowed = self._allowed_hosts.get(host)
        if allowed is None:
            allowed = not _NO_HOST.intersection(host) and _host_name("//" + host) in self._options.hosts
            _note(self._allowed_hosts, host, allowed)
        if not allowed:
            raise Refused(403, ProtocolError(INVALID_REQUEST, "this Host is not served; see --allow-host"))

    def _check_origin(self, request: web.BaseRequest) -> None:
        origin = request.headers.get("Origin")
        if origin is None:
            return
        allowed = self._allowed_origins.get(origin)
        if allowed is None:
            # an origin is ASCII (RFC 6454 6.2), and what is not could not be repeated in an answer's header
            is_web = origin.isascii() and origin.startswith(("http://", "https://"))
            allowed = is_web and _host_name(origin) in self._options.origins
            _note(self._allowed_origins, origin, allowed)
        if not allowed:
            raise Refused(403, ProtocolError(INVALID_REQUEST, "this Origin may not call; see --allow-origin"))

    def _check_gate(self, request: web.BaseRequest) -> None:
        refused = self._gate(request.headers)
        if refused is not None:
            raise refused

    async def _principal(self, request: web.BaseRequest) -> str:
        words = f"a key is needed: {_HOW_TO_SEND_A_KEY}"
        header = request.headers.get("Authorization")
        try:
            found = self._authenticate(header) if header is None or header.isascii() else None  # no key of ours is not
            if isinstance(found, Awaitable):
                found = await found
        except ToolError as refused:  # a key was sent, and this is why it is not taken
            found, words = None, refused.text
        if found is None:
            challenge = "Bearer"
            if self._options.authorization_servers:
                challenge += f' resource_metadata="{_base(request)}/.well-known/oauth-protected-resource"'
            raise Refused(401, ProtocolError(INVALID_REQUEST, words), (("WWW-Authenticate", challenge),))
        return found

    async def _body(self, request: web.BaseRequest) -> bytes:
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, ProtocolError(INVALID_REQUEST, "the body must be application/json"))
        limit = self._options.body_limit
        length = request.content_length
        if length is not None and length > limit:
            raise self._too_large(limit)
        content = request.content
        body = content.read_nowait(-1) if length is not None and content.is_eof() else None
        if body is None:
            if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
                request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await self._read(request, limit)
        if not body or body.isspace():
            raise ProtocolError(PARSE_ERROR, "the body is empty")
        return body

    async def _read(self, request: web.BaseRequest, limit: int) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._options.body_seconds):
                async for part in request.content.iter_any():
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        raise self._too_large(limit)
        except TimeoutError:
            raise Refused(408, ProtocolError(INVALID_REQUEST, "the body did not arrive in time")) from None
        except web.RequestPayloadError as exc:
            raise ProtocolError(PARSE_ERROR, f"the body cannot be read: {exc}") from None
        return b"".join(parts)

    def _too_large(self, limit: int) -> Refused:
        return Refused(413, ProtocolError(INVALID_REQUEST, f"the body is above the limit of {limit} bytes"))

    def _preflight(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = request.headers.get("Access-Control-Request-Headers", "")
        if not asked.isascii():  # names of headers are ASCII tokens (RFC 9110 5.1)
            raise Refused(403, ProtocolError(INVALID_REQUEST, "Access-Control-Request-Headers names no headers"))
        headers = (
            ("Allow", "GET, POST, DELETE, OPTIONS"),
            ("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"),
            (
                "Access-Control-Allow-Headers",
                asked
                or "Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, "
                "Mcp-Method, Mcp-Name, Mcp-Session-Id",
            ),
            ("Access-Control-Max-Age", "600"),
        )
        return self._writer.answer(request, 204, headers=with_cors(request, headers))

    def _resource_metadata(self, request: web.BaseRequest) -> Json:
        return {
            "resource": _base(request) + self._options.path,
            "authorization_servers": list(self._options.authorization_servers),
            "bearer_methods_supported": ["header"],
        }


def _base(request: web.BaseRequest) -> str:
    return f"{request.scheme}://{request.headers.get('Host', '')}"


def _host_name(url: str) -> str | None:
    """The parsed name, never a prefix of the text: `localhost.evil.example` is not localhost."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _note(seen: dict[str, bool], text: str, allowed: bool) -> None:
    if len(seen) > 100:
        seen.clear()
    seen[text] = allowed


def with_names(options: HttpOptions, hosts: Iterable[str], origins: Iterable[str]) -> HttpOptions:
    """The same options with more names allowed."""
    changed: dict[str, Any] = {"hosts": (*options.hosts, *hosts), "origins": (*options.origins, *origins)}
    return msgspec.structs.replace(options, **changed)
