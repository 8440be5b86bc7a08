"""An upstream over Streamable HTTP, in both eras: posts, event streams, sessions, and what a status means.

A lost session (404, or 400 with an error of no request) is opened anew once and the request posted again: the server
has said that it did not look at it. A legacy stream that ends before its answer is taken up by GET where its events
have ids: that is no second delivery.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.gateway.errors import (
    AuthRejected,
    ConnectFailed,
    ProtocolBroken,
    RedirectRefused,
    ToolingError,
)
from zorivest_rpc.gateway.following import Follower
from zorivest_rpc.gateway.net import CONNECTIONS, Lookup, look_up, open_session
from zorivest_rpc.gateway.timing import Pace
from zorivest_rpc.gateway.upstream import ENVELOPE, FRAME_LIMIT, Happening, Talk, Upstream
from zorivest_rpc.gateway.withheld import NOTHING_WITHHELD, Withheld
from zorivest_rpc.mcp.client.caller import Answer, Identity, Note, Request
from zorivest_rpc.mcp.client.opening import Seen, TurnedAway
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.framing import EventReader
from zorivest_rpc.mcp.protocol.revisions import Era
from zorivest_rpc.retry_after import read_retry_after
from zorivest_rpc.serving.backend.failures import why
from zorivest_rpc.serving.backend.wire import SMALL, DirectAnswer, Unsent, send_directly, write_request

if TYPE_CHECKING:
    import aiohttp

    Response: TypeAlias = aiohttp.ClientResponse | DirectAnswer

__all__ = ["HttpUpstream", "StatusFailed"]

_EVENTS: Final = "text/event-stream"
_SESSION: Final = "Mcp-Session-Id"
_DELETE_SECONDS: Final = 2.0
_DRAIN_SECONDS: Final = 1.0
_RESUME_AFTER: Final = 1.0  # where the stream named no time
_SOONEST: Final = 0.1  # whatever time it named, once it has ended a few times: else the asking would never rest
_MOST_SESSION_ID: Final = 4_096
_MOST_RESUMES: Final = 3  # in a row, without a stream


class StatusFailed(ConnectFailed):
    """The server, or something before it, answered with a status that is a failure: 429, 502, 503, 504 and the like.

    `retry_after` are the seconds that it asked to be left alone for, where it said so."""

    def __init__(self, server: str, target: str, status: int, retry_after: float | None = None) -> None:
        super().__init__(server, target, f"HTTP {status}", sent=True)
        self.status = status
        self.retry_after = retry_after


class HttpUpstream(Upstream):
    """`credentials` is asked at each connect for the secret headers; `bearer` names the variable of the token."""

    mirrors = True

    def __init__(
        self,
        name: str,
        endpoint: str,
        identity: Identity,
        *,
        era: Era | None = None,
        seconds: float = 15.0,
        credentials: Callable[[], Mapping[str, str]] = dict,
        bearer: str | None = None,
        allow_private: bool = False,
        meta: Callable[[], bytes] = bytes,
        on_happening: Callable[[Happening], None] | None = None,
        withheld: Withheld = NOTHING_WITHHELD,
        lookup: Lookup = look_up,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(
            name, identity, era=era, seconds=seconds, meta=meta, on_happening=on_happening, withheld=withheld
        )
        parts = urlsplit(endpoint)
        self.target = f"{parts.scheme}://{parts.netloc}"
        self._endpoint = endpoint
        self._host = parts.hostname or ""
        self._credentials = credentials
        self._bearer = bearer
        self._allow_private = allow_private
        self._lookup = lookup
        self._pause = pause
        self._secrets: Mapping[str, str] = {}
        self._session: str | None = None
        self._last_seen = ""  # the last event id of the legacy stream of changes
        self._has_followed = False  # this session had such a stream, so a 400 to the next one means that it is lost
        self._http: aiohttp.ClientSession | None = None
        self._origin: aiohttp.ClientRequest | None = None  # how the pool knows the server
        self._path = self._lines = ""
        self._renewing = asyncio.Lock()
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._follower = Follower(self._follow_changes, self._tell_reopened, pause)
        self._pace = Pace()
        self._kept: set[Response] = set()  # whose end is waited for elsewhere
        self._away: Mapping[str, str] = {}  # the headers of the answer that turned us away

    # --- the way

    async def _start(self) -> None:
        self._secrets = dict(self._credentials())
        self._session = None
        if self._http is None or self._http.closed:
            agent = f"{self.caller.identity.name}/{self.caller.identity.version}"
            self._http = open_session(
                self.name,
                self._host,
                allow_private=self._allow_private,
                only_loopback=bool(self._secrets) and self._endpoint.lower().startswith("http:"),
                user_agent=agent,
                lookup=self._lookup,
            )

    async def close(self) -> None:
        """End the session; what it says to that is not of interest."""
        await self._follower.stop()
        await self._end_tasks()
        http, self._http = self._http, None
        if http is None:
            return
        try:
            if self._session is not None:
                with suppress(ToolingError, TimeoutError):
                    async with asyncio.timeout(_DELETE_SECONDS), self._send("DELETE", b"", self._common(), http):
                        pass
        finally:
            self._session = None
            await http.close()

    def _common(self) -> dict[str, str]:
        """The headers of a request without a message."""
        revision = self.caller.revision
        return {"MCP-Protocol-Version": revision.name} if revision.version_header else {}

    @asynccontextmanager
    async def _send(
        self, verb: str, body: bytes, headers: dict[str, str], http: aiohttp.ClientSession | None = None
    ) -> AsyncIterator[Response]:
        """One request and the head of its answer. Leaving before the end of the answer cuts the connection, which the
        modern era takes as a cancellation."""
        import aiohttp

        http = http or self._http
        if http is None:
            raise ConnectFailed(self.name, self.target, "it is not connected")
        headers.update(self._secrets)
        if self._session is not None:
            headers[_SESSION] = self._session
        try:
            response: Response | None = await self._post(http, body, headers) if verb == "POST" else None
            if response is None:
                data = BytesIO(body) if body else None  # as a file it is written piece by piece
                response = await http.request(verb, self._endpoint, data=data, headers=headers, allow_redirects=False)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as exc:
            raise ConnectFailed(self.name, self.target, why(exc)) from None
        except ValueError:  # a line end in a variable of the environment
            raise ConnectFailed(self.name, self.target, "a credential holds what no header can carry") from None
        except Unsent as exc:
            raise ConnectFailed(self.name, self.target, str(exc)) from None
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError) as exc:
            raise ConnectFailed(self.name, self.target, why(exc), sent=True) from None
        try:
            yield response
        except (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError) as exc:
            if isinstance(exc, TimeoutError):
                raise
            raise ConnectFailed(self.name, self.target, why(exc), sent=True) from None
        finally:
            if response in self._kept:
                self._kept.discard(response)
            else:
                response.release()

    async def _post(self, http: aiohttp.ClientSession, body: bytes, headers: Mapping[str, str]) -> DirectAnswer | None:
        """An ordinary request on a connection of the session's pool, at half of the cost; None if it is not one."""
        origin = self._origin
        if origin is None:
            import aiohttp
            from yarl import URL

            url = URL(self._endpoint)
            loop = asyncio.get_running_loop()
            origin = self._origin = aiohttp.ClientRequest("GET", url, headers=http.headers, loop=loop)
            self._path = url.raw_path_qs
            self._lines = "".join(f"{name}: {value}\r\n" for name, value in origin.headers.items() if name != "Accept")
        data = write_request("POST", self._path, self._lines, headers, body) if len(body) <= SMALL else None
        return None if data is None else await send_directly(http.connector, origin, data)

    # --- the opening

    async def _open(self, step: Request) -> Seen:
        async with self._send("POST", step.frame, dict(step.headers)) as response:
            self._away = response.headers
            answer = None
            if not 300 <= response.status < 400:
                with suppress(ProtocolError):
                    answer = await self._read(response, step, Talk())
            if step.method == "initialize" and answer is not None and answer.error is None:
                self._session = self._read_session(response)
            return Seen(response.status, answer)

    def _read_session(self, response: Response) -> str | None:
        found = response.headers.get(_SESSION)
        if found is not None and (len(found) > _MOST_SESSION_ID or not all("!" <= char <= "~" for char in found)):
            raise ProtocolBroken(self.name, "its session id is not visible ASCII")
        return found

    def _turned_away(self, away: TurnedAway) -> ToolingError:
        return self._status_error(away.status, self._away)

    def _status_error(self, status: int, headers: Mapping[str, str]) -> ToolingError:
        if status in (401, 403):
            return AuthRejected(self.name, status, self._bearer)
        if 300 <= status < 400:
            return RedirectRefused(self.name, origin_of(self._endpoint, headers.get("Location", "")))
        return StatusFailed(
            self.name, self.target, status, read_retry_after(headers.get("Retry-After"), headers.get("Date"))
        )

    # --- requests

    async def _exchange(self, request: Request, talk: Talk) -> Answer:
        try:
            await self._slots.acquire()
            talk.slot, talk.is_sent = self._slots, True
            for is_last in (False, True):
                session = self._session
                async with self._send("POST", request.frame, dict(request.headers)) as response:
                    status = response.status
                    if status == 404 and session is not None and not is_last:
                        pass  # the session is lost: open another one, outside of this answer
                    elif status >= 300 and (status < 400 or status in (401, 403)):
                        raise self._status_error(status, response.headers)
                    else:
                        try:
                            return await self._finish(response, request, talk)
                        except StatusFailed as failed:
                            if failed.status != 400 or session is None or is_last or not is_of_no_request(talk.refusal):
                                raise
                await self._renew(session)
                self._settle_headers(request)
            raise AssertionError("the last round returns or raises")
        except asyncio.CancelledError:
            if talk.is_sent:
                self._withdraw(request)
            raise
        finally:
            talk.leave_slot()
            self.caller.forget(request)

    async def _finish(self, response: Response, request: Request, talk: Talk) -> Answer:
        status = response.status
        try:
            answer = await self._read(response, request, talk)
        except ProtocolError as wrong:
            if status >= 400:
                raise self._status_error(status, response.headers) from None
            raise ProtocolBroken(self.name, wrong.message) from None
        if answer is not None:
            return answer
        if status >= 400:
            raise self._status_error(status, response.headers)
        if status != 200:
            raise ProtocolBroken(self.name, f"{request.method} was answered with HTTP {status} and no message")
        if response.content_type not in ("application/json", _EVENTS):
            kind = shorten(response.content_type, 80)
            raise ProtocolBroken(self.name, f"{request.method} was answered with {kind!r}, which is no JSON")
        raise ProtocolBroken(self.name, f"the answer to {request.method} has another id")

    async def _read(self, response: Response, request: Request, talk: Talk) -> Answer | None:
        """The answer that a response holds, as a body or on a stream; None if it holds none."""
        kind = response.content_type
        if kind == _EVENTS:
            return await self._read_events(response, request, talk)
        limit = FRAME_LIMIT if talk.call is None else talk.call.max_bytes + ENVELOPE
        body = await self._read_body(response, limit, talk)
        if response.status == 400:
            talk.refusal = body
        if not body or kind != "application/json":
            return None
        return self._take(self.caller.receive(body), request, talk)

    async def _read_body(self, response: Response, limit: int, talk: Talk) -> bytes:
        length = response.content_length
        if length is not None and length <= limit and "Content-Encoding" not in response.headers:
            return await response.content.read()
        size, pieces = 0, []
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > limit:
                raise self._too_large(talk, limit)
            pieces.append(piece)
        return b"".join(pieces)

    # --- event streams

    async def _read_events(self, response: Response, request: Request, talk: Talk) -> Answer | None:
        reader = EventReader(FRAME_LIMIT)
        answer = await self._follow_stream(response, reader, request, talk)
        if answer is not None:
            return answer
        if self.caller.revision.modern or not reader.last_id:
            raise ConnectFailed(self.name, self.target, "the stream ended before the answer", sent=True)
        return await self._resume(reader, request, talk)

    async def _follow_stream(
        self, response: Response, reader: EventReader, request: Request | None, talk: Talk
    ) -> Answer | None:
        """Until the answer or the end of the stream; a cut is an end."""
        import aiohttp

        try:
            async for piece in response.content.iter_any():
                began = time.perf_counter()
                try:
                    events = reader.feed(piece)
                except ProtocolError:
                    raise self._too_large(talk, FRAME_LIMIT) from None
                for event in events:
                    answer = self._take(self.caller.receive(event.data), request, talk)
                    if answer is not None:
                        self._let_end(response)
                        return answer
                ended = time.perf_counter()
                rest = self._pace.charge(ended - began, ended)
                if rest:
                    await asyncio.sleep(rest)
        except aiohttp.ClientError:
            pass
        return None

    def _let_end(self, response: Response) -> None:
        """The answer is there and the end of its stream is on its way: wait for it elsewhere, so that the connection
        can be used again."""
        if not response.content.is_eof():
            self._kept.add(response)
            self._spawn(_drain(response))

    async def _resume(self, reader: EventReader, request: Request, talk: Talk) -> Answer | None:
        failures = 0
        for turn in count(1):
            wanted = _RESUME_AFTER if reader.retry is None else reader.retry / 1000
            await self._pause(wanted if turn <= _MOST_RESUMES else max(wanted, _SOONEST))
            headers = {"Accept": _EVENTS, "Last-Event-ID": reader.last_id, **self._common()}
            try:
                async with self._send("GET", b"", headers) as response:
                    if response.status != 200 or response.content_type != _EVENTS:
                        raise ConnectFailed(self.name, self.target, "the stream cannot be taken up again", sent=True)
                    last = reader.last_id
                    answer = await self._follow_stream(response, reader, request, talk)
                    if answer is not None:
                        return answer
                    failures = failures + 1 if reader.last_id == last else 0
            except ConnectFailed as failed:
                failed.sent = True  # the request itself was
                failures += 1
                if failures > _MOST_RESUMES:
                    raise
            if failures > _MOST_RESUMES:
                raise ConnectFailed(self.name, self.target, "the stream ends again and again", sent=True)
        raise AssertionError("the last turn returns or raises")

    # --- sessions and notes

    async def _renew(self, lost: str | None) -> None:
        """One new handshake for all callers that have noticed."""
        async with self._renewing:
            if self._session == lost:
                self._session = None
                await self._shake_hands()

    def _settle_headers(self, request: Request) -> None:
        request.headers.update(self._common())
        self.caller.pending[request.id] = request

    async def _tell(self, note: Note) -> None:
        async with self._send("POST", note.frame, dict(note.headers)) as response:
            if response.status >= 300:
                raise self._status_error(response.status, response.headers)

    def _withdraw(self, request: Request) -> None:
        """A modern server sees that the stream is closed; a legacy one is told."""
        if self.caller.revision.modern or request.method == "initialize" or self._http is None:
            return
        self._spawn(self._tell(self.caller.cancel(request, "the caller withdrew it")))

    # --- changes between calls

    async def _watch(self) -> None:
        if self._wants_changes():
            await self._follower.start()
        else:
            await self._follower.stop()

    async def _prepare_to_ask(self) -> None:
        """A legacy server may ask on the stream that belongs to no call; many of them do not say whose question it is.
        Without a session nothing can be asked."""
        if self._session is not None and not self.caller.revision.modern:
            await self._follower.ensure()

    @property
    def is_following(self) -> bool:
        """Whether a stream of changes is open; `watched` says which changes were promised on it."""
        return self._follower.is_open

    async def _follow_changes(self, opened: Callable[[], None]) -> bool:
        if self.caller.revision.modern:
            return await self._listen(opened)
        session, headers = self._session, {"Accept": _EVENTS, **self._common()}
        if self._last_seen:
            headers["Last-Event-ID"] = self._last_seen
        async with self._send("GET", b"", headers) as response:
            if response.status == 200 and response.content_type == _EVENTS:
                self.watched = self._promises()
                self._has_followed = True
                opened()
                reader = EventReader(FRAME_LIMIT)
                try:
                    await self._follow_stream(response, reader, None, Talk())
                finally:
                    self._last_seen = reader.last_id
                return True
            status = response.status
        if session is not None and (status == 404 or (status == 400 and self._has_followed)):
            self._last_seen, self._has_followed = "", False
            await self._renew(session)
            return True
        return status == 429 or status >= 500  # 405: the server has no such stream

    async def _listen(self, opened: Callable[[], None]) -> bool:
        request, talk = self.caller.request("subscriptions/listen", self._filter()), Talk()
        try:
            async with self._send("POST", request.frame, dict(request.headers)) as response:
                if response.status != 200 or response.content_type != _EVENTS:
                    return response.status == 429 or response.status >= 500
                self._on_acknowledged = opened
                await self._follow_stream(response, EventReader(FRAME_LIMIT), request, talk)
                return True
        finally:
            self.caller.forget(request)


async def _drain(response: Response) -> None:
    import aiohttp

    try:
        with suppress(TimeoutError, aiohttp.ClientError, OSError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in response.content.iter_any():
                    pass
    finally:
        response.release()


def is_of_no_request(body: bytes) -> bool:
    """Whether it is a JSON-RPC error that names none of our ids: so servers refuse a session that they do not know,
    where the specification has 404. An error of a request that was looked at has its id."""
    import msgspec

    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict) and type(message.get("id")) is not int


def origin_of(endpoint: str, location: str) -> str:
    """Scheme, host and port of a redirect; of a relative one, those of the endpoint."""
    try:
        found = urlsplit(location)
        host, port = found.hostname, found.port
    except ValueError:
        return "an address that cannot be read"
    if not host:
        found = urlsplit(endpoint)
        host, port = found.hostname, found.port
    shown = f"[{host}]" if host and ":" in host else host
    return f"{found.scheme or urlsplit(endpoint).scheme}://{shown}{f':{port}' if port else ''}"
