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

import orjson
from msgspec import UNSET

from zorivest_rpc.errors import BackendError, BackendUnreachable, ConfigError, OutcomeUnknown, ZorivestError
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.retry_after import read_retry_after
from zorivest_rpc.serving.backend.auth import BackendLogins, Grant, Sessions
from zorivest_rpc.serving.backend.breaker import Breaker
from zorivest_rpc.serving.backend.coalesce import Coalesced
from zorivest_rpc.serving.backend.encode import encode_form, encode_query
from zorivest_rpc.serving.backend.failures import (
    explain_outage,
    no_answer,
    not_found_anywhere,
    not_json,
    stopping,
    too_large,
    unreachable,
)
from zorivest_rpc.serving.backend.interface import Address, Auth, NotInline, Reply, Request
from zorivest_rpc.serving.backend.limits import BackendLimits
from zorivest_rpc.serving.backend.refusals import is_ours, redact, refusal, session_is_gone
from zorivest_rpc.serving.backend.wire import Answer, AnswerTooLarge, HttpWire, Lost, Unsent

if TYPE_CHECKING:
    from yarl import URL

__all__ = ["DEFAULT_URL", "HttpBackend", "Where", "normalise"]

DEFAULT_URL: Final = "http://localhost:8765"
Where: TypeAlias = str | Address | Callable[[], Awaitable[str | Address]]
"""The API's address, or how to find it; asked again after the address stopped answering."""

_PREFIX: Final = "/api/v1"
_AGAIN: Final = (502, 503, 504)  # where something in between speaks for a backend that is not there
_REDIRECTS: Final = {"GET": (301, 302, 303, 307, 308)}
_SAME_METHOD: Final = (307, 308)
_HOPS: Final = 3
_MOVES: Final = 3  # places that one request follows a backend to
_SHORTEST_SECRET: Final = 4  # what is shorter stands in every other word
_LONGEST_ID: Final = 128


def _sign(headers: dict[str, str], grant: Grant | None, guard: bool) -> None:
    if guard and (grant is None or not grant.inline_guard):
        raise NotInline
    if grant is not None:
        headers["Authorization"] = grant.header


def _fits_a_line(words: str) -> bool:
    return words != "" and words.isascii() and words.isprintable() and " " not in words


def _stays_below(path: str) -> bool:
    """A path below the API's root: it names no other host and does not climb."""
    bare = path.partition("?")[0].lower().replace("%2e", ".")
    return bare.startswith("/") and not bare.startswith("//") and ".." not in bare.split("/")


def normalise(url: str) -> str:
    """The API's root from an address with or without `/api/v1`."""
    bare = url.strip().rstrip("/").removesuffix(_PREFIX).rstrip("/")
    if not _fits_a_line(bare):
        raise ConfigError("--api-url", "takes printable ASCII without spaces; percent-encode the rest")
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
        limits: BackendLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        breaker: Breaker | None = None,
        plain: bool = False,
        headers: Mapping[str, str] | None = None,
        sessions: Sessions | None = None,
        redirects: bool = True,
    ) -> None:
        """Without `key` the backend is one that asks for no session; `plain` sends by aiohttp's own objects alone.
        `headers` go with every request, `sessions` stands for logins of another kind, and a backend without
        `redirects` is taken at its address or not at all."""
        self._where = where
        self._wire: HttpWire | None = None
        self._address: Address | None = None
        self._base = "" if callable(where) else self._settle(where)
        self._place = 0  # counts the places where the backend was found
        self._find = Coalesced(self._locate)
        self._limits = limits or BackendLimits()
        self._rng = rng
        self._sleep = sleep
        self._breaker = breaker or Breaker(clock)
        self._headers = headers or {}
        self._follows = redirects
        self._sessions: Sessions | None = sessions
        if key is not None:
            self._sessions = BackendLogins(self.exchange_key, key, clock=clock)
        self._plain = plain
        self.closed = False
        self._urls: dict[str, URL] = {}  # of the paths without values
        self._ids = count(1)
        self._name = urandom(5).hex()
        self.in_flight = 0

    def use_sessions(self, sessions: Sessions) -> None:
        """Before the first request: logins that ask this backend themselves."""
        self._sessions = sessions

    @property
    def base_url(self) -> str:
        return f"unix:{self._address.socket}" if self._address is not None and self._address.socket else self._base

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

    @property
    def _is_found(self) -> bool:
        """Whether the backend is the embedded one, which is looked for and started by itself."""
        return callable(self._where)

    def lock(self) -> None:
        """Forget the session, as after a restart of the backend; the next request unlocks again."""
        if self._sessions is not None and self._sessions.current is not None:
            self._sessions.reject(self._sessions.current)

    async def close(self) -> None:
        """For good: a request that comes later, or was only on its way to the pool, is not sent."""
        self.closed = True
        await self._find.close()
        if self._sessions is not None:
            await self._sessions.close()
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()

    async def ask(self, request: Request) -> Reply:
        method, path, auth = request.method, request.path, request.auth
        if request.query:
            path = f"{path}?{encode_query(request.query)}"
        request_id = f"{self._name}-{next(self._ids)}"
        headers = {"X-Request-ID": request_id, **self._headers}
        data: bytes | None = None
        if request.form is not None:
            data, headers["Content-Type"] = encode_form(request.form)
        elif request.body is not UNSET:
            data, headers["Content-Type"] = dumps(request.body), "application/json"
        if request.key is not None:
            headers["Idempotency-Key"] = request.key
        if request.guard:
            headers["X-MCP-Guard"] = "check"
        attempts = self._limits.attempts if request.may_repeat else 1
        seconds = self._limits.total if request.timeout is None else request.timeout
        if request.urgent:
            self._breaker.hurry()
        self.in_flight += 1
        try:
            sessions = self._sessions
            grant = sessions.at_hand() if sessions is not None and auth == "needed" and self._base else None
            if grant is None:
                grant = await self._grant(auth)
            _sign(headers, grant, request.guard)
            try:
                return await self._try(method, path, headers, data, request.raw, attempts, seconds)
            except BackendError as error:
                if grant is None or auth != "needed" or not session_is_gone(error):
                    raise
            self._forget(grant)
            _sign(headers, await self._grant(auth), request.guard)
            return await self._try(method, path, headers, data, request.raw, attempts, seconds)
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

    async def exchange_key(self, key: str) -> Json:
        """What the backend answers to a key, which is a session token where it is one of its own."""
        headers = {
            "X-Request-ID": f"{self._name}-{next(self._ids)}",
            "Content-Type": "application/json",
            **self._headers,
        }
        data = dumps({"api_key": key})
        attempts = max(2, self._limits.attempts)  # one session more than needed does no harm
        return (await self._try("POST", "/auth/unlock", headers, data, False, attempts, self._limits.total)).value

    # --- attempts

    async def _try(  # noqa: C901 - what follows each end of an attempt, side by side
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
        failure: BackendUnreachable | OutcomeUnknown | None = None
        attempt, moves = 0, 0
        while attempt < attempts:
            attempt += 1
            place, period = self._place, self._breaker.period
            waits = self._breaker.wait()
            if waits > 0:
                raise failure or explain_outage(self.base_url, waits, found=self._is_found)
            try:
                answer = await self._exchange(method, url, path, headers, data, left)
            except BackendUnreachable as error:
                failure = error
                self._breaker.record_failure(period)
                moved = self._move(place)
                follows = moved and moves < _MOVES
                if self.closed or (attempt == attempts and not follows):
                    raise
                if moved:
                    before = time()
                    url = await self._url(path)
                    deadline += time() - before
                if follows:  # nothing was sent, so even a write goes to the process that has taken its place
                    moves, attempt = moves + 1, attempt - 1
                    continue
            except Lost as lost:
                self._breaker.record_failure(period)
                late = lost.late or time() >= deadline
                reason = f"within {seconds:g} s" if late else str(lost)
                failure = no_answer(self.base_url, method, path, reason, unknown=attempts == 1, late=late)
                if attempt == attempts or late:
                    raise failure from None
            except BaseException:
                self._breaker.gave_up()
                raise
            else:
                self._breaker.record_answer()
                final = answer.status not in _AGAIN or is_ours(answer.kind, answer.body)
                write = attempts == 1 and method != "GET"
                if write and not final and answer.status != 503:
                    reason = f"something in between says {answer.status}"
                    raise no_answer(self.base_url, method, path, reason, unknown=True)
                if attempt == attempts or final:
                    return self._reply(method, path, headers, answer, raw, write)
            await self._sleep(self._pause_after(attempt))
            left = max(deadline - time(), 0.01)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _pause_after(self, attempt: int) -> float:
        pause = min(self._limits.longest_backoff, self._limits.backoff * 2.0 ** (attempt - 1))
        return pause * (0.5 + self._rng() / 2)

    def _reply(self, method: str, path: str, sent: Mapping[str, str], answer: Answer, raw: bool, write: bool) -> Reply:
        """`write`: done twice, it is there twice."""
        request_id = sent["X-Request-ID"]
        status, kind, body, given = answer.status, answer.kind, answer.body, answer.headers
        theirs = given.get("X-Request-ID")
        if theirs and len(theirs) <= _LONGEST_ID and _fits_a_line(theirs):
            request_id = redact(theirs)
        if not 200 <= status < 300:
            retry_after = read_retry_after(given.get("Retry-After"), given.get("Date"))
            told = path.partition("?")[0]
            raise refusal(method, told, status, kind, body, request_id, retry_after, write, self._secrets_in(sent))
        if raw or not body:
            return Reply(status, None, body, kind, request_id)
        problem = "" if "json" in kind else f"{kind if _fits_a_line(kind) else 'an unknown type'} instead of JSON"
        if not problem:
            try:
                return Reply(status, orjson.loads(body), body, kind, request_id)
            except orjson.JSONDecodeError:
                problem = "broken JSON"
        raise not_json(self.base_url, method, path, status, problem, request_id, unknown=write)

    def _secrets_in(self, sent: Mapping[str, str]) -> list[str]:
        """What a backend must not repeat to a caller: the credential, and what the operator has every request carry."""
        scheme, _, credential = sent.get("Authorization", "").partition(" ")
        given = (credential or scheme, *self._headers.values())
        return [each for each in given if len(each) >= _SHORTEST_SECRET]

    async def _exchange(
        self, method: str, url: URL, path: str, headers: dict[str, str], data: bytes | None, seconds: float
    ) -> Answer:
        """One answer, following redirects on the same server. BackendUnreachable: nothing was sent; Lost: unknown."""
        wire = self._wire or self._open()
        redirects = _REDIRECTS.get(method, _SAME_METHOD)
        try:
            for _ in range(_HOPS):
                answer = await wire.send(method, url, headers, data, seconds)
                if answer.status not in redirects or "Location" not in answer.headers:
                    return answer
                if not self._follows:
                    raise self._refuse_redirect(answer.status)
                url = self._elsewhere(url, answer.headers["Location"], answer.status)
        except Unsent as unsent:
            raise unreachable(self.base_url, str(unsent), found=self._is_found) from None
        except AnswerTooLarge as answered:
            raise too_large(method, path, answered.status, self._limits.body) from None
        problem, next = f"{self.base_url} redirects in circles.", "Check the API URL."
        raise BackendError(310, f"{problem} {next}", code="redirects", next=next, problem=problem)

    def _open(self) -> HttpWire:
        if self.closed:
            raise stopping(self.base_url)
        self._wire = HttpWire(self._limits, plain=self._plain, address=self._address)
        return self._wire

    # --- where it is

    async def _url(self, path: str) -> URL:
        from yarl import URL

        if not _fits_a_line(path) or not _stays_below(path):
            raise ValueError(f"the caller has to encode {path!r}")
        base = self._base or await self._find.get()
        url = URL(base + path, encoded=True)
        if len(self._urls) < 256 and "?" not in path and base == self._base:
            self._urls[path] = url
        return url

    def _move(self, place: int) -> bool:
        """Nothing listens at this place any more: a backend that is looked for is looked for again, once for all who
        noticed."""
        if not callable(self._where):
            return False
        if place == self._place:
            self._base = ""
            self._urls.clear()
        return True

    async def _locate(self) -> str:
        assert callable(self._where)
        try:
            async with asyncio.timeout(self._limits.locate):
                self._base = self._settle(await self._where())
        except (ZorivestError, OSError) as exc:  # a TimeoutError is an OSError
            reason = str(exc) or f"nothing was found within {self._limits.locate:g} s"
            raise not_found_anywhere(reason) from None
        self._place += 1
        self._breaker.close()
        return self._base

    def _settle(self, found: str | Address) -> str:
        """Take over an address; the API's root at it."""
        base = normalise(found.url if isinstance(found, Address) else found)
        self._address = found if isinstance(found, Address) else None
        if self._wire is not None:
            self._wire.move(self._address)
        return base

    def _elsewhere(self, url: URL, location: str, status: int) -> URL:
        """Backends that insist on a slash redirect to it; no other host gets our token."""
        from yarl import URL

        try:
            target = url.join(URL(location)).with_user(None)
            if target.origin() == url.origin():
                return target
        except ValueError:
            pass
        raise self._refuse_redirect(status)

    def _refuse_redirect(self, status: int) -> BackendError:
        where = "elsewhere" if not self._follows else "to another server"
        problem = f"{self._base} redirects {where}, which is not followed."
        return BackendError(
            status,
            f"{problem} Put the final address into the API URL.",
            code="redirects",
            next="Change the API URL.",
            problem=problem,
        )
