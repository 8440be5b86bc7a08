"""The REST backend across HTTP: one principal, one pool of connections, one token.

Rule 1: only what may be repeated is ever sent twice; a write whose answer is lost ends as OutcomeUnknown.
        A refusal for want of a session (401) is no second write: the first one was not done.
Rule 2: every wait has an end, and a cancelled call closes its connection.
Rule 3: nothing foreign leaves this module: each failure becomes a BackendError, BackendUnreachable or OutcomeUnknown.
Rule 4: an answer is read up to a limit and believed only if it is JSON, or was asked for raw.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from os import urandom
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
import orjson
from msgspec import UNSET

from zorivest_rpc.backend.auth import Grant, Sessions
from zorivest_rpc.backend.breaker import Breaker
from zorivest_rpc.backend.coalesce import Coalesced
from zorivest_rpc.backend.encode import encode_form, encode_query
from zorivest_rpc.backend.failures import (
    ended,
    known_to_be_down,
    no_answer,
    not_found_anywhere,
    not_json,
    too_large,
    unreachable,
    why,
)
from zorivest_rpc.backend.interface import Auth, Form, NotInline, Reply
from zorivest_rpc.backend.refusals import is_ours, refusal, session_is_gone
from zorivest_rpc.errors import BackendError, BackendUnreachable, ConfigError, ZorivestError
from zorivest_rpc.protocol.jsonrpc import Json, dumps

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

__all__ = ["DEFAULT_URL", "HttpBackend", "Limits", "Where", "normalise"]

DEFAULT_URL: Final = "http://localhost:8765"
Where: TypeAlias = str | Callable[[], Awaitable[str]]
"""The API's address, or how to find it; asked again after the address stopped answering."""

_PREFIX: Final = "/api/v1"
_AGAIN: Final = (502, 503, 504)  # where something in between speaks for a backend that is not there
_REDIRECTS: Final = {"GET": (301, 302, 303, 307, 308)}
_SAME_METHOD: Final = (307, 308)
_HOPS: Final = 3


class Limits(msgspec.Struct, frozen=True):
    """Seconds, connections, bytes and attempts."""

    locate: float = 90.0
    connect: float = 5.0
    total: float = 30.0
    connections: int = 100
    keep_alive: float = 10.0  # below any server's own, so that a connection is seldom closed under a request
    body: int = 64 * 1024 * 1024
    attempts: int = 3
    backoff: float = 0.1
    longest_backoff: float = 2.0


class _Answer(msgspec.Struct, gc=False):
    """What came back, whatever it says; `kind` is the media type alone."""

    status: int
    kind: str
    body: bytes
    retry_after: str | None
    request_id: str


class _Lost(Exception):
    """Sent, perhaps received, never answered in full."""


def _sign(headers: dict[str, str], grant: Grant | None, guard: bool) -> None:
    if guard and (grant is None or not grant.inline_guard):
        raise NotInline
    if grant is not None:
        headers["Authorization"] = grant.header


def normalise(url: str) -> str:
    """The API's root from an address with or without `/api/v1`."""
    bare = url.strip().rstrip("/").removesuffix(_PREFIX).rstrip("/")
    try:
        parts = urlsplit(bare)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ConfigError("--api-url", "must look like http://localhost:8765, with or without /api/v1")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError("--api-url", "takes no credentials, query or fragment; the key has a place of its own")
    return bare + _PREFIX


class HttpBackend:
    """Made outside a loop if need be: the pool opens with the first request."""

    def __init__(
        self,
        where: Where = DEFAULT_URL,
        key: Callable[[], str | None] | None = None,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        breaker: Breaker | None = None,
    ) -> None:
        """Without `key` the backend is one that asks for no session."""
        self._where = where
        self._base = normalise(where) if isinstance(where, str) else ""
        self._find = Coalesced(self._locate)
        self._limits = limits or Limits()
        self._rng = rng
        self._sleep = sleep
        self._breaker = breaker or Breaker(clock)
        self._sessions = None if key is None else Sessions(self._unlock, key, clock=clock)
        self._http: aiohttp.ClientSession | None = None
        self._closed = False
        self._unsent: tuple[type[Exception], ...] = ()  # aiohttp's failures before anything was sent
        self._foreign: tuple[type[Exception], ...] = ()  # all its failures
        self._urls: dict[str, URL] = {}  # of the paths without values
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._ids = count(1)
        self._name = urandom(5).hex()
        self.in_flight = 0

    @property
    def base_url(self) -> str:
        return self._base

    @property
    def inline_guard(self) -> bool:
        grant = self._sessions.current if self._sessions is not None else None
        return grant is not None and grant.inline_guard

    async def unlock(self) -> Grant | None:
        """Get a session now, so that the first call need not; None where none is needed."""
        return await self._session_of(self._sessions) if self._sessions is not None else None

    async def _session_of(self, sessions: Sessions) -> Grant:
        """The backend is found first: one that is started for us makes its key in doing so."""
        if not self._base:
            await self._find.get()
        return await sessions.grant()

    def lock(self) -> None:
        """Forget the session, as after a restart of the backend; the next request unlocks again."""
        if self._sessions is not None and self._sessions.current is not None:
            self._sessions.reject(self._sessions.current)

    async def close(self) -> None:
        """For good: a request that comes later, or was only on its way to the pool, is not sent."""
        self._closed = True
        await self._find.close()
        if self._sessions is not None:
            await self._sessions.close()
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Json] | None = None,
        body: Json = UNSET,
        form: Form | None = None,
        raw: bool = False,
        auth: Auth = "needed",
        guard: bool = False,
        repeatable: bool | None = None,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Reply:
        if query:
            path = f"{path}?{encode_query(query)}"
        request_id = f"{self._name}-{next(self._ids)}"
        headers = {"X-Request-ID": request_id}
        data: bytes | None = None
        if form is not None:
            data, headers["Content-Type"] = encode_form(form)
        elif body is not UNSET:
            data, headers["Content-Type"] = dumps(body), "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        if guard:
            headers["X-MCP-Guard"] = "check"
        attempts = self._limits.attempts if (method == "GET" if repeatable is None else repeatable) else 1
        seconds = self._limits.total if timeout is None else timeout
        self.in_flight += 1
        try:
            sessions = self._sessions
            grant = sessions.at_hand() if sessions is not None and auth == "needed" and self._base else None
            if grant is None:
                grant = await self._grant(auth)
            _sign(headers, grant, guard)
            try:
                return await self._try(method, path, headers, data, raw, attempts, seconds)
            except BackendError as error:
                if grant is None or auth != "needed" or not session_is_gone(error):
                    raise
            self._forget(grant)
            _sign(headers, await self._grant(auth), guard)
            return await self._try(method, path, headers, data, raw, attempts, seconds)
        finally:
            self.in_flight -= 1

    # --- the session

    async def _grant(self, auth: Auth) -> Grant | None:
        sessions = self._sessions
        if sessions is None or auth == "none":
            return None
        return await self._session_of(sessions) if auth == "needed" else sessions.current

    def _forget(self, grant: Grant) -> None:
        if self._sessions is not None:
            self._sessions.reject(grant)

    async def _unlock(self, key: str) -> Json:
        headers = {"X-Request-ID": f"{self._name}-{next(self._ids)}", "Content-Type": "application/json"}
        data = dumps({"api_key": key})
        attempts = max(2, self._limits.attempts)  # one session more than needed does no harm
        return (await self._try("POST", "/auth/unlock", headers, data, False, attempts, self._limits.total)).value

    # --- attempts

    async def _try(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes | None,
        raw: bool,
        attempts: int,
        seconds: float,
    ) -> Reply:
        """One exchange, or several where that is allowed; `seconds` is for all of them together."""
        url = self._urls.get(path) or await self._url(path)
        time = asyncio.get_running_loop().time
        deadline, left = time() + seconds, seconds
        for attempt in range(1, attempts + 1):
            waits = self._breaker.wait()
            if waits > 0:
                raise known_to_be_down(self._base, waits)
            try:
                answer = await self._exchange(method, url, path, headers, data, left)
            except BackendUnreachable:
                self._breaker.failed()
                if attempt == attempts or self._closed:
                    self._moved()
                    raise
                url = await self._url(path) if self._moved() else url
            except _Lost as lost:
                self._breaker.failed()
                if attempt == attempts or time() >= deadline:
                    reason = f"within {seconds:g} s" if time() >= deadline else str(lost)
                    raise no_answer(self._base, method, path, reason, unknown=attempts == 1) from None
            except BaseException:
                self._breaker.gave_up()
                raise
            else:
                self._breaker.answered()
                if attempt == attempts or answer.status not in _AGAIN or is_ours(answer.kind, answer.body):
                    return self._reply(method, path, answer, raw)
            pause = min(self._limits.longest_backoff, self._limits.backoff * 2.0 ** (attempt - 1))
            await self._sleep(pause * (0.5 + self._rng() / 2))
            left = max(deadline - time(), 0.01)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _reply(self, method: str, path: str, answer: _Answer, raw: bool) -> Reply:
        status, kind, body, request_id = answer.status, answer.kind, answer.body, answer.request_id
        if not 200 <= status < 300:
            raise refusal(method, path.partition("?")[0], status, kind, body, request_id, answer.retry_after)
        if raw or not body:
            return Reply(status, None, body, kind, request_id)
        problem = "" if "json" in kind else f"{kind or 'an unnamed type'} instead of JSON"
        if not problem:
            try:
                return Reply(status, orjson.loads(body), body, kind, request_id)
            except orjson.JSONDecodeError:
                problem = "broken JSON"
        raise not_json(self._base, method, path, status, problem, request_id)

    async def _exchange(
        self, method: str, url: URL, path: str, headers: dict[str, str], data: bytes | None, seconds: float
    ) -> _Answer:
        """One answer. BackendUnreachable: nothing was sent; _Lost: nobody knows."""
        http = self._http or self._open()
        timeout = self._timeouts.get(seconds) or self._timeout(seconds)
        try:
            for _ in range(_HOPS):
                answer = await http.request(
                    method, url, data=data, headers=headers, allow_redirects=False, timeout=timeout
                )
                try:
                    status, given = answer.status, answer.headers
                    if status not in _REDIRECTS.get(method, _SAME_METHOD) or "Location" not in given:
                        body = await (answer.read() if self._is_small(answer) else self._read(answer, method, path))
                        kind = given.get("Content-Type", "").partition(";")[0].strip().lower()
                        request_id = given.get("X-Request-ID") or headers["X-Request-ID"]
                        return _Answer(status, kind, body, given.get("Retry-After"), request_id)
                    url = self._elsewhere(url, given["Location"], status)
                finally:
                    answer.release()  # what was not read to its end closes the connection
        except self._unsent as exc:
            raise unreachable(self._base, exc) from None
        except self._foreign as exc:
            raise _Lost(why(exc)) from None
        raise BackendError(310, f"{self._base} redirects in circles. Check the API URL.", code="redirects")

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        """aiohttp keeps the time of a request at no extra cost; the usual limits are made once."""
        import aiohttp

        made = aiohttp.ClientTimeout(total=seconds, connect=min(self._limits.connect, seconds))
        if len(self._timeouts) < 16:
            self._timeouts[seconds] = made
        return made

    def _is_small(self, answer: aiohttp.ClientResponse) -> bool:
        """It says its length, which is within the limit, and does not grow by unpacking."""
        length = answer.headers.get("Content-Length", "")
        return length.isdecimal() and int(length) <= self._limits.body and "Content-Encoding" not in answer.headers

    async def _read(self, answer: aiohttp.ClientResponse, method: str, path: str) -> bytes:
        """Piece by piece, up to the limit."""
        limit, size = self._limits.body, answer.content_length or 0
        chunks: list[bytes] = []
        if size <= limit:
            size = 0
            async for chunk in answer.content.iter_any():
                size += len(chunk)
                if size > limit:
                    break
                chunks.append(chunk)
        if size <= limit:
            return b"".join(chunks)
        answer.close()
        raise too_large(method, path, answer.status, limit)

    # --- where it is

    async def _url(self, path: str) -> URL:
        from yarl import URL

        base = self._base or await self._find.get()
        url = URL(base + path, encoded=True)
        if len(self._urls) < 256 and "?" not in path:
            self._urls[path] = url
        return url

    def _moved(self) -> bool:
        """Nobody listens there any more: a backend that is looked for is looked for again."""
        if isinstance(self._where, str):
            return False
        self._base = ""
        self._urls.clear()
        return True

    async def _locate(self) -> str:
        assert callable(self._where)
        try:
            async with asyncio.timeout(self._limits.locate):
                self._base = normalise(await self._where())
        except (ZorivestError, OSError) as exc:  # a TimeoutError is an OSError
            reason = str(exc) or f"nothing was found within {self._limits.locate:g} s"
            raise not_found_anywhere(reason) from None
        return self._base

    def _elsewhere(self, url: URL, location: str, status: int) -> URL:
        """Backends that insist on a slash redirect to it; nobody else gets our token."""
        from yarl import URL

        try:
            target = url.join(URL(location))
            if target.origin() == url.origin():
                return target
        except ValueError:
            pass
        raise BackendError(
            status,
            f"{self._base} redirects to another server, which is not followed. Put the final address into the API URL.",
            code="redirects",
            next="Change the API URL.",
        )

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._closed:
            raise ended(self._base)
        self._unsent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
        self._foreign = (aiohttp.ClientError, OSError)  # a time-out of the socket is an OSError
        limits = self._limits
        connector = aiohttp.TCPConnector(
            limit=limits.connections, keepalive_timeout=limits.keep_alive, ttl_dns_cache=60, force_close=False
        )
        self._http = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "application/json, */*;q=0.5", "User-Agent": "zorivest-rpc"},
            trust_env=False,
            auto_decompress=True,
        )
        # aiohttp would send a PUT or DELETE a second time when a kept connection breaks; what is repeated is said here
        self._http._retry_connection = False
        return self._http
