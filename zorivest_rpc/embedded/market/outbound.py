"""Every request that leaves this machine: one HTTP session, with limits on rate, time, size and where a key may go.

Rule 1: a key is in a request's headers or parameters and nowhere else. No address is logged or told, foreign texts lose
the key before they are repeated, and redirects are not followed, so that no other host is sent one.
Rule 2: whatever the other side does, the caller gets decoded data or a `Failure`."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus, urlsplit

import aiohttp
import msgspec
from yarl import URL

from zorivest_rpc.retry_after import read_retry_after

from .failures import Failure, Kind
from .limits import Limiter

__all__ = ["NO_SECRETS", "Outbound", "ProviderAnswer", "Reach", "load_addresses", "safe_address"]

log = logging.getLogger("zorivest.marketdata")

ATTEMPTS = 3
FIRST_PAUSE = 0.5
LARGEST_ANSWER = 24 * 1024 * 1024
CONNECT_SECONDS = 10.0
SHOWN = 200
TESTS_AT_ONCE = 2
LONGEST_WAIT = 86_400.0
NO_SECRETS: tuple[str, ...] = ()

_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=Decimal)
_NONE: Mapping[str, str] = MappingProxyType({})
T = TypeVar("T")


class Reach(msgspec.Struct, frozen=True):
    """How one provider may be asked: its name in limits and messages, its budget, and the secrets to keep quiet."""

    name: str
    rate_limit: int
    timeout: float
    secrets: tuple[str, ...] = NO_SECRETS
    per_second: int | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    params: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Reach({self.name})"


class ProviderAnswer(msgspec.Struct, frozen=True):
    """What came back with a status below 300, or with one that the caller asked to see."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Outbound:
    """Asks other machines. `addresses` replaces the base address of a name; `now` is the wall clock."""

    def __init__(
        self,
        addresses: Mapping[str, str] = _NONE,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        largest: int = LARGEST_ANSWER,
    ) -> None:
        self.addresses = {name: safe_address(address) for name, address in addresses.items()}
        self.clock = clock
        self.sleep = sleep
        self.now = now
        self.largest = largest
        self.limiter = Limiter(clock, sleep)
        self.tests = asyncio.Semaphore(TESTS_AT_ONCE)
        self._kept: dict[str, tuple[float, Any]] = {}
        self._flights: dict[Any, asyncio.Future[Any]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._session_loop: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def address(self, name: str, default: str) -> str:
        return self.addresses.get(name, default)

    async def share(self, question: Any, job: Callable[[], Awaitable[T]]) -> T:
        """The result of `job`, once for all who ask the same at the same time.

        One who gives up leaves the job to the others; a failure is told to all of them and not remembered."""
        flight = self._flights.get(question)
        if flight is None:
            flight = self._flights[question] = asyncio.ensure_future(job())
            flight.add_done_callback(lambda done: self._finish_flight(question, done))
        found: T = await asyncio.shield(flight)
        return found

    def _finish_flight(self, question: Any, flight: asyncio.Future[Any]) -> None:
        self._flights.pop(question, None)
        if not flight.cancelled():
            flight.exception()  # the waiting callers have it already; without this line an unread one is logged

    async def fetch_seldom(self, name: str, seconds: float, fetch: Callable[[], Awaitable[T]]) -> T:
        """Something large that changes seldom, fetched again when it is older than `seconds`."""
        known = self._kept.get(name)
        if known is not None and self.clock() - known[0] < seconds:
            value: T = known[1]
            return value
        value = await self.share(("kept", name), fetch)
        self._kept[name] = (self.clock(), value)
        return value

    async def json(
        self,
        reach: Reach,
        base: str,
        path: str,
        *,
        params: Mapping[str, str] = _NONE,
        body: Any = None,
        accept: Iterable[int] = (),
    ) -> Any:
        """The decoded answer with fractions as Decimal; a Failure for everything that is not JSON."""
        answer = await self.ask(reach, base, path, params=params, body=body, accept=accept)
        try:
            return _decoder.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, ArithmeticError):
            raise Failure(reach.name, Kind.BAD_ANSWER, "it answered with something that is not JSON") from None

    async def ask(
        self,
        reach: Reach,
        base: str,
        path: str,
        *,
        params: Mapping[str, str] = _NONE,
        body: Any = None,
        accept: Iterable[int] = (),
    ) -> ProviderAnswer:
        """One question, asked again on a timeout or a server error while the provider's time lasts."""
        accepted = frozenset(accept)
        ends = self.clock() + reach.timeout
        for attempt in range(1, ATTEMPTS + 1):
            rest = ends - self.clock()
            await self.limiter.slot(reach.name, reach.rate_limit, max(rest, 0.0), per_second=reach.per_second)
            try:
                answer = await self._once(reach, base, path, params, body)
                if answer.status < 300 or answer.status in accepted:
                    return answer
                raise self._refusal(reach, answer)
            except Failure as failure:
                again = failure.kind is Kind.TIMEOUT or (failure.status or 0) >= 500
                pause = FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
                if not again or attempt == ATTEMPTS or self.clock() + pause >= ends:
                    raise
                await self.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _once(self, reach: Reach, base: str, path: str, params: Mapping[str, str], body: Any) -> ProviderAnswer:
        started = self.clock()
        status: int | str = "no answer"
        timeout = aiohttp.ClientTimeout(total=reach.timeout, sock_connect=min(CONNECT_SECONDS, reach.timeout))
        try:
            url = URL(base.rstrip("/") + path, encoded=True).update_query({**params, **reach.params})
            async with self._open().request(
                "GET" if body is None else "POST",
                url,
                json=body,
                headers={"Accept": "application/json", **reach.headers},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                status = response.status
                data = await self._read(reach, response)
                return ProviderAnswer(response.status, dict(response.headers), data)
        except TimeoutError:
            raise Failure(reach.name, Kind.TIMEOUT, f"it did not answer within {reach.timeout:g} seconds") from None
        except (aiohttp.ClientConnectionError, OSError):
            raise Failure(reach.name, Kind.UNREACHABLE, "the connection failed") from None
        except (aiohttp.ClientError, ValueError):
            raise Failure(reach.name, Kind.BAD_ANSWER, "it did not speak proper HTTP") from None
        finally:
            log.debug("%s: %s after %.3f s", reach.name, status, self.clock() - started)

    async def _read(self, reach: Reach, response: aiohttp.ClientResponse) -> bytes:
        data = bytearray()
        async for chunk in response.content.iter_any():
            data += chunk
            if len(data) > self.largest:
                response.close()
                detail = f"its answer is larger than {self.largest} bytes"
                raise Failure(reach.name, Kind.BAD_ANSWER, detail)
        return bytes(data)

    def _refusal(self, reach: Reach, answer: ProviderAnswer) -> Failure:
        status = answer.status
        said = self._hush(_message(answer.body), reach)
        tail = f": {said}" if said else ""
        if status == 401:
            return Failure(reach.name, Kind.BAD_KEY, f"it does not accept the API key{tail}", status=status)
        if status == 403:
            return Failure(reach.name, Kind.FORBIDDEN, f"it refuses this request (403){tail}", status=status)
        if status == 404:
            return Failure(reach.name, Kind.UNKNOWN, f"it does not know this (404){tail}", status=status)
        if status == 429:
            wait = _retry_after(answer.headers, self.now())
            if wait is not None:
                self.limiter.pause(reach.name, wait)
            detail = "its rate limit is reached" + (f"; it asks to wait {wait:.0f} seconds" if wait is not None else "")
            return Failure(reach.name, Kind.RATE_LIMITED, detail, status=status, retry_after=wait)
        if 300 <= status < 400:
            return Failure(reach.name, Kind.BAD_ANSWER, f"it redirects elsewhere ({status})", status=status)
        return Failure(reach.name, Kind.BAD_ANSWER, f"it answered with status {status}{tail}", status=status)

    @staticmethod
    def _hush(text: str, reach: Reach) -> str:
        for secret in sorted(filter(None, reach.secrets), key=len, reverse=True):
            for form in {secret, quote(secret, safe=""), quote_plus(secret)}:
                text = text.replace(form, "[redacted]")
        return text

    def said(self, reach: Reach, text: object) -> str:
        """A provider's own words, short, on one line and without its key."""
        return " ".join(self._hush(str(text), reach).split())[:SHOWN]

    def _open(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._session_loop is not loop:
            self._session_loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=16, limit_per_host=4),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "zorivest-rpc"},
            )
        return self._session


def _message(body: bytes) -> str:
    """What an error answer says for people, if it says it in one of the usual fields."""
    try:
        value = _decoder.decode(body[:65_536])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, ArithmeticError):
        return ""
    for name in ("message", "error", "Error Message", "detail", "errors", "fault"):
        found = value.get(name) if isinstance(value, dict) else None
        if isinstance(found, dict):
            found = found.get("message") or found.get("faultstring") or found.get("description")
        if isinstance(found, str) and found.strip():
            return " ".join(found.split())[:SHOWN]
    return ""


def _retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait as a 429 states them: a number, a date, or one of the reset headers in use."""
    low = {name.lower(): value.strip() for name, value in headers.items()}
    if value := low.get("retry-after"):
        try:
            return min(max(0.0, float(value)), LONGEST_WAIT)
        except ValueError:
            return read_retry_after(value, now=now.timestamp)
    for name in ("x-ratelimit-reset", "ratelimit-reset"):
        try:
            moment = float(low[name])
        except (KeyError, ValueError):
            continue
        return max(0.0, moment - now.timestamp()) if moment > 1_000_000_000 else max(0.0, moment)
    return None


def safe_address(address: str) -> str:
    """A base address that a key may be sent to: encrypted, or on this machine; ValueError otherwise."""
    parts = urlsplit(address)
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise ValueError(f"{parts.scheme}://{parts.hostname}: keys are sent over https, or to this machine, only")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("a base address has a host and a path and nothing else")
    return address.rstrip("/")


def load_addresses(path: Path) -> dict[str, str]:
    """Base addresses by name from a JSON file that its owner may put into the data directory; {} without one."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        return {name: safe_address(address) for name, address in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, ValueError) as exc:
        log.error("%s is not used: %s", path.name, exc)
        return {}
