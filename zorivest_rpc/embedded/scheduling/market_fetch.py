"""Fetch steps answered by the market: what is stored, what the providers in their order say, or one provider by name.

`local` reads the database, `auto` asks as the market data routes do (fresh from the cache unless the step says
`use_cache: false`, then provider after provider, then the last known answer as stale), any other name is that provider
alone, without a cache."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from ..database.engine import Database
from ..errors import Refusal
from ..market.failures import Failure
from ..market.market import DEFAULT_SPANS, Market, require_provider
from ..market.provider import BarsAsk, Provider
from ..market.providers.nasdaq import DIMENSIONS
from ..market.shapes import INTERVALS, ticker_of
from .step import Fetched, Fetcher, FetchRequest, StepFailed
from .stored_market import LOCAL, stored_market

__all__ = ["AUTO", "market_fetch"]

AUTO = "auto"
_MOST_BARS = 5000
_MOST_NEWS = 50


def market_fetch(db: Database, market: Callable[[], Market]) -> Fetcher:
    """A fetcher over the market of one open journal; `market` is asked anew, because it is made per question."""
    stored = stored_market(db)

    async def fetch(request: FetchRequest) -> Fetched:
        if request.provider == LOCAL:
            return await stored(request)
        try:
            if request.provider == AUTO:
                return await _from_all(market(), request)
            return await _from_one(market(), require_provider(request.provider), request)
        except Failure as failure:
            raise StepFailed(str(failure)) from None
        except Refusal as refusal:
            raise StepFailed(_explain(refusal), retry=refusal.status not in (404, 422)) from None

    return fetch


async def _from_all(market: Market, request: FetchRequest) -> Fetched:
    records: list[dict[str, Any]] = []
    for ticker in _tickers(request):
        if request.data_type == "quote":
            records.append(await market.quote(_check_ticker(ticker), use_cache=request.use_cache))
        elif request.data_type == "news":
            records += await market.news(ticker, _MOST_NEWS, use_cache=request.use_cache)
        elif request.data_type == "fundamentals":
            records += await market.fundamentals(
                _check_ticker(ticker), _dimension(request), use_cache=request.use_cache
            )
        else:
            interval, since, until = _span(request)
            found = await market.bars(
                _check_ticker(ticker), interval, since, until, _MOST_BARS, use_cache=request.use_cache
            )
            own = {"ticker": found["ticker"], "interval": interval, "stale": found["stale"]}
            records += [{**own, **bar} for bar in found["bars"]]
    status = "stale" if any(record.get("stale") for record in records) else "fresh"
    return Fetched([_plain(record) for record in records], status)


async def _from_one(market: Market, provider: Provider, request: FetchRequest) -> Fetched:
    link = await market.link(provider)
    records: list[dict[str, Any]] = []
    for ticker in _tickers(request):
        instrument = ticker_of(_check_ticker(ticker)) if ticker is not None or request.data_type != "news" else None
        if request.data_type == "news":
            if provider.news is None:
                raise StepFailed(f"{provider.name} has no news.", retry=False)
            records += [msgspec.structs.asdict(item) for item in await provider.news(link, instrument, _MOST_NEWS)]
        elif request.data_type == "quote" and instrument is not None:
            if provider.quote is None:
                raise StepFailed(f"{provider.name} has no quotes.", retry=False)
            records.append(msgspec.structs.asdict(await provider.quote(link, instrument)))
        elif request.data_type == "fundamentals" and instrument is not None:
            if provider.fundamentals is None:
                raise StepFailed(f"{provider.name} has no fundamentals.", retry=False)
            found_figures = await provider.fundamentals(link, instrument.underlying, _dimension(request))
            records += [msgspec.structs.asdict(item) for item in found_figures]
        elif instrument is not None:
            if provider.bars is None:
                raise StepFailed(f"{provider.name} has no bars.", retry=False)
            interval, since, until = _span(request)
            own = {"ticker": instrument.symbol, "interval": interval}
            found = await provider.bars(link, BarsAsk(instrument, interval, since, until))
            records += [{**own, **msgspec.structs.asdict(bar)} for bar in found]
    return Fetched([_plain(record) for record in records], "fetched")


def _tickers(request: FetchRequest) -> list[str | None]:
    """What is asked about; news can do without."""
    wanted = request.criteria.get("tickers") or request.criteria.get("ticker")
    found = wanted if isinstance(wanted, list) else [wanted] if wanted else []
    if not found and request.data_type != "news":
        raise StepFailed("The criteria name no tickers.", retry=False)
    return [str(ticker) for ticker in found] or [None]


def _check_ticker(ticker: str | None) -> str:
    try:
        ticker_of(ticker or "")
    except ValueError as exc:
        raise StepFailed(f"{exc}.", retry=False) from None
    return ticker or ""


def _dimension(request: FetchRequest) -> str:
    """Which reports: of years as last restated, unless the criteria say otherwise."""
    kind = str(request.criteria.get("dimension") or "MRY").upper()
    if kind not in DIMENSIONS:
        raise StepFailed(f'"{kind}" is not a dimension; use one of {", ".join(DIMENSIONS)}.', retry=False)
    return kind


def _span(request: FetchRequest) -> tuple[str, datetime, datetime]:
    interval = str(request.criteria.get("interval") or "1d")
    if interval not in INTERVALS:
        raise StepFailed(f'"{interval}" is not an interval; use one of {", ".join(INTERVALS)}.', retry=False)
    until = _moment(request.criteria.get("until"), request.now)
    since = _moment(request.criteria.get("since"), until - DEFAULT_SPANS[interval])
    return interval, min(since, until - timedelta(minutes=1)), until


def _moment(value: Any, default: datetime) -> datetime:
    if not value:
        return default
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise StepFailed(f'"{value}" is not a date and time.', retry=False) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: float(value)
        if isinstance(value, Decimal)
        else value.isoformat()
        if isinstance(value, datetime)
        else value
        for name, value in record.items()
        if value is not None
    }


def _explain(refusal: Refusal) -> str:
    hint = refusal.extra.get("hint")
    return f"{refusal.detail} {hint}" if hint else str(refusal.detail)
