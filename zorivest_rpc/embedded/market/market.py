"""The market as this backend sees it: a question in, the first good answer of the providers or the last known one out.

The same question asked by several at the same time is asked once.
Fresh answers come from the cache. Otherwise providers are asked in order until one answers, within one overall time. If
none does, the last answer is given as stale with its age, and without one the failure says what was tried."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection

from ..analytics.excursion import SPANS, Resolution
from ..database.engine import Database
from ..errors import Invalid, NotFound, Refusal
from ..settings import JournalSettings
from ..values.symbols import Instrument
from ..vault.crypto import FieldCipher
from . import cache, connections
from .answers import refusal, render
from .bars import INTERVAL_OF, beginning, select_bars, store_bars
from .directory import search_local
from .failures import Failure, Kind
from .outbound import Outbound
from .provider import BarsAsk, Link, Provider
from .providers import ORDER, PROVIDERS, find_provider
from .providers.nasdaq import DIMENSIONS
from .shapes import Filing, Fundamental, Hit, News, ProviderBar, ProviderQuote, ticker_of

__all__ = ["Market", "require_provider"]

log = logging.getLogger("zorivest.marketdata")

PATIENCE = 20.0
"""Seconds for one question, however many providers it takes."""

STALE_DAYS = {"quote": 7, "news": 30, "search": 365, "filings": 365, "fundamentals": 365}
DEFAULT_SPANS = {
    **dict.fromkeys(("1m", "5m", "15m", "30m", "1h"), timedelta(days=5)),
    "1d": timedelta(days=365),
    "1w": timedelta(days=5 * 365),
    "1M": timedelta(days=10 * 365),
}
MOST_SEARCH = 20


class Told(msgspec.Struct, frozen=True):
    """An answer with its age."""

    value: Any
    stale: bool
    age: float


class Market:
    """Market data over one open database; made per request, all lasting state is in `outbound` and the database."""

    def __init__(self, db: Database, settings: JournalSettings, cipher: FieldCipher, outbound: Outbound) -> None:
        self._db = db
        self._settings = settings
        self._cipher = cipher
        self._outbound = outbound

    async def quote(self, ticker: str, *, use_cache: bool = True) -> dict[str, Any]:
        instrument = _instrument(ticker)
        told = await self._answer(
            "quote", instrument.symbol, ProviderQuote, instrument.symbol, instrument, use_cache=use_cache
        )
        return render(told.value, stale=told.stale, age=told.age)

    async def news(self, ticker: str | None, count: int, *, use_cache: bool = True) -> list[dict[str, Any]]:
        instrument = _instrument(ticker) if ticker else None
        subject = instrument.symbol if instrument else ""
        key = f"{subject or '*'}|{count}"
        told = await self._answer("news", key, list[News], subject, instrument, count, use_cache=use_cache)
        return _render_all(told, count)

    async def fundamentals(self, ticker: str, dimension: str, *, use_cache: bool = True) -> list[dict[str, Any]]:
        """Figures of a company's reports, every one with the period it is of."""
        symbol, kind = _instrument(ticker).underlying, dimension.upper()
        if kind not in DIMENSIONS:
            raise Invalid({"dimension": [f"must be one of {', '.join(DIMENSIONS)}"]})
        key = f"{symbol}|{kind}"
        told = await self._answer("fundamentals", key, list[Fundamental], symbol, symbol, kind, use_cache=use_cache)
        return [
            {**msgspec.structs.asdict(item), "stale": told.stale, "age_seconds": int(told.age)} for item in told.value
        ]

    async def filings(self, ticker: str, forms: frozenset[str], limit: int) -> list[dict[str, Any]]:
        symbol = _instrument(ticker).underlying
        key = f"{symbol}|{','.join(sorted(forms))}|{limit}"
        return _render_all(await self._answer("filings", key, list[Filing], symbol, symbol, forms, limit), limit)

    async def search(self, query: str) -> list[dict[str, Any]]:
        """Symbols that a provider finds, else those of the directory on this machine."""
        try:
            told = await self._answer("search", query.casefold(), list[Hit], query, query)
        except Refusal:
            told = Told([], False, 0.0)
        if not told.value:
            told = Told(await self._db.read(lambda conn: search_local(conn, query, MOST_SEARCH)), False, 0.0)
        return _render_all(told, MOST_SEARCH)

    async def bars(
        self,
        ticker: str,
        interval: str,
        start: datetime | None,
        end: datetime | None,
        limit: int,
        *,
        use_cache: bool = True,
    ) -> dict[str, Any]:
        """Bars of a span, fetched and stored, or the stored ones without a provider; the last `limit` of them."""
        instrument = _instrument(ticker)
        until = end or self._outbound.now()
        since = start or until - DEFAULT_SPANS[interval]
        if since >= until:
            raise Invalid({"start_date": ["must be before end_date"]})
        name = "now" if end is None else until.isoformat()
        told = await self._bars(instrument, interval, since, until, name, use_cache=use_cache)
        return {
            "ticker": instrument.symbol,
            "interval": interval,
            "bars": [_render_bar(bar) for bar in told.value[-limit:]],
            "stale": told.stale,
            "age_seconds": int(told.age),
        }

    async def fetch_bars(self, symbol: str, resolution: Resolution, start: datetime, end: datetime) -> int:
        """Fetch and store bars that the analysis of a holding period needs; how many. Refused if none has them."""
        span = SPANS[resolution]
        since, until = start - span, end + span
        told = await self._bars(_instrument(symbol), INTERVAL_OF[resolution], since, until, until.isoformat())
        return 0 if told.stale else len(told.value)

    async def providers(self) -> list[dict[str, Any]]:
        return [setup.describe() for setup in await self._db.read(lambda conn: connections.read_all(conn, PROVIDERS))]

    async def configure(self, name: str, values: dict[str, Any], actor: str) -> None:
        """Change a provider; keys are encrypted before they reach the database."""
        provider, now = require_provider(name), self._outbound.now()
        sealed = {
            f"encrypted_{field}" if field in ("api_key", "api_secret") else field: (
                self._cipher.encrypt(value) if field in ("api_key", "api_secret") else value
            )
            for field, value in values.items()
        }
        await self._db.write(lambda conn: connections.change(conn, provider, sealed, actor, now))

    async def disconnect(self, name: str, actor: str) -> dict[str, Any]:
        provider, now = require_provider(name), self._outbound.now()
        await self._db.write(lambda conn: connections.remove_key(conn, provider, actor, now))
        return {"status": "removed", "provider_name": provider.name, "is_enabled": False}

    async def test(self, name: str) -> dict[str, Any]:
        """Ask the provider something that proves it works; a failure is an answer, not an error."""
        provider = require_provider(name)
        setup = await self._db.read(lambda conn: connections.read_one(conn, provider))
        async with self._outbound.tests:
            started = self._outbound.clock()
            success, message = await self._test(setup)
            latency = round((self._outbound.clock() - started) * 1000, 1)
        now = self._outbound.now()
        status = "success" if success else "failed"
        await self._db.write(lambda conn: connections.stamp_test(conn, provider, status, now))
        log.info("%s: test %s, %s", provider.name, status, message)
        return {"success": success, "message": message, "latency_ms": latency, "tested_at": now}

    async def link(self, provider: Provider, patience: float = PATIENCE) -> Link:
        """A way to one provider, for questions that are not in the order of fallback; Failure if it is not usable."""
        if await self._settings.value("market.offline"):
            raise Failure(provider.name, Kind.OFFLINE, "market.offline is set")
        setup = await self._db.read(lambda conn: connections.read_one(conn, provider))
        if not setup.is_enabled and (setup.has_key or not provider.requires_key):
            raise Failure(provider.name, Kind.DISABLED, "it is switched off")
        return connections.link_to(setup, self._outbound, self._cipher, patience)

    async def _test(self, setup: connections.Setup) -> tuple[bool, str]:
        try:
            if await self._settings.value("market.offline"):
                return False, "not tried: market.offline is set"
            link = connections.link_to(setup, self._outbound, self._cipher, PATIENCE)
            proven = await setup.provider.test(link)
        except Failure as failure:
            return False, _TEST_WORDS.get(failure.kind, failure.detail)
        return (True, "connection successful") if proven else (False, "connected, unexpected response")

    async def _bars(
        self,
        instrument: Instrument,
        interval: str,
        start: datetime,
        end: datetime,
        until: str,
        *,
        use_cache: bool = True,
    ) -> Told:
        """Stored bars while they are fresh, else fetched ones, else the stored ones as stale; once for all who ask."""
        key = f"{instrument.symbol}|{interval}|{start.isoformat(timespec='minutes')}|{until}"
        question = (id(self._db), "bars", key, use_cache)
        return await self._outbound.share(
            question, lambda: self._bars_now(instrument, interval, start, end, key, use_cache)
        )

    async def _bars_now(
        self, instrument: Instrument, interval: str, start: datetime, end: datetime, key: str, use_cache: bool
    ) -> Told:
        symbol = instrument.symbol
        now = self._outbound.now()

        def read(conn: Connection) -> list[ProviderBar]:
            return select_bars(conn, symbol, interval, start, end)

        known = await self._db.read(lambda conn: cache.recall(conn, "bars", key))
        if use_cache and known is not None and known.fresh(now):
            return Told(await self._db.read(read), False, known.age(now))
        provider, found, failures = await self._first("bars", BarsAsk(instrument, interval, start, end))
        if provider is not None:
            found = [msgspec.structs.replace(bar, timestamp=beginning(bar.timestamp, interval)) for bar in found]

            def save(conn: Connection) -> None:
                count = store_bars(conn, symbol, interval, found)
                cache.remember(conn, "bars", key, provider.name, count, now)

            await self._db.write(save)
            return Told([bar for bar in found if start <= bar.timestamp < end], False, 0.0)
        held = await self._db.read(read)
        if held:
            return Told(held, True, max(0.0, (now - held[-1].timestamp).total_seconds()))
        raise refusal("bars", failures, subject=symbol)

    async def _answer(
        self, data_type: str, key: str, shape: Any, subject: str, *args: Any, use_cache: bool = True
    ) -> Told:
        """Fresh from the cache, else from the first provider that answers, else stale from the cache; once for all who
        ask at the same time."""
        question = (id(self._db), data_type, key, use_cache)
        return await self._outbound.share(
            question, lambda: self._answer_now(data_type, key, shape, subject, args, use_cache)
        )

    async def _answer_now(
        self, data_type: str, key: str, shape: Any, subject: str, args: tuple[Any, ...], use_cache: bool
    ) -> Told:
        now = self._outbound.now()
        known = await self._db.read(lambda conn: cache.recall(conn, data_type, key))
        if use_cache and known is not None and known.fresh(now):
            return Told(msgspec.json.decode(known.payload, type=shape), False, known.age(now))
        provider, value, failures = await self._first(data_type, *args)
        if provider is not None:
            name = provider.name
            await self._db.write(lambda conn: cache.remember(conn, data_type, key, name, value, now))
            return Told(value, False, 0.0)
        if known is not None and known.age(now) <= timedelta(days=STALE_DAYS[data_type]).total_seconds():
            log.info("%s %s: stale answer, %s", data_type, key, "; ".join(map(str, failures)))
            return Told(msgspec.json.decode(known.payload, type=shape), True, known.age(now))
        raise refusal(data_type, failures, subject=subject)

    async def _first(self, data_type: str, *args: Any) -> tuple[Provider | None, Any, list[Failure]]:
        """The first provider with an answer; an empty one counts only if no other provider has more to say."""
        order = ORDER[data_type]
        failures: list[Failure] = []
        if await self._settings.value("market.offline"):
            return None, None, [Failure(provider.name, Kind.OFFLINE, "market.offline is set") for provider in order]
        setups = await self._db.read(lambda conn: connections.read_all(conn, order))
        ends = self._outbound.clock() + PATIENCE
        empty: Provider | None = None
        for setup in setups:
            rest = ends - self._outbound.clock()
            try:
                if not setup.is_enabled and (setup.has_key or not setup.provider.requires_key):
                    raise Failure(setup.provider.name, Kind.DISABLED, "it is switched off")
                link = connections.link_to(setup, self._outbound, self._cipher, rest)
                if rest <= 0:
                    raise Failure(setup.provider.name, Kind.OUT_OF_TIME, "no time was left to ask it")
                value = await getattr(setup.provider, data_type)(link, *args)
                if value != []:
                    return setup.provider, value, failures
                empty = empty or setup.provider
            except Failure as failure:
                failures.append(failure)
                if failure.kind not in _QUIET:
                    log.warning("%s: %s", data_type, failure)
        return empty, [] if empty else None, failures


_TEST_WORDS = {
    Kind.BAD_KEY: "invalid API key",
    Kind.FORBIDDEN: "forbidden",
    Kind.RATE_LIMITED: "rate limit exceeded",
    Kind.TIMEOUT: "timed out",
    Kind.UNREACHABLE: "connection failed",
}
_QUIET = frozenset({Kind.NO_KEY, Kind.DISABLED, Kind.UNSUPPORTED})


def require_provider(name: str) -> Provider:
    provider = find_provider(name)
    if provider is None:
        raise NotFound("market-data provider", name[:100], "list_market_providers gives the names.")
    return provider


def _instrument(ticker: str) -> Instrument:
    try:
        return ticker_of(ticker)
    except ValueError as exc:
        raise Invalid({"ticker": [str(exc)]}) from None


def _render_all(told: Told, limit: int) -> list[dict[str, Any]]:
    return [render(item, stale=told.stale, age=told.age) for item in told.value[:limit]]


def _render_bar(bar: ProviderBar) -> dict[str, Any]:
    return msgspec.structs.asdict(bar)
