"""What open lots are worth as far as is known: the latest of quotes, stored bars and own trades; never a guess.

Where a provider with a key is connected, a few of the largest positions are asked for anew, within seconds; a
question over many positions does not spend the provider's budget on each of them, and none waits for a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, select

from ...analytics.excursion import SPANS
from ...database.engine import Database
from ...database.schema.books import tax_lots
from ...database.schema.journal import price_bars, trades
from ...errors import Refusal
from ...journal.exchange import DOLLAR, RateBook, differs
from ...market import connections
from ...market.cache import recall
from ...market.providers import PROVIDERS
from ...market.shapes import ProviderQuote
from ...values.kinds import AssetClass
from ...values.money import ZERO
from ...values.symbols import parse_instrument
from ..dates import trade_date
from ..model import Price
from .reading import OPEN, open_lots

__all__ = ["ask_anew", "known_prices"]

MOST_QUOTES = 8
PATIENCE = 5.0  # seconds for all of them

Ask = Callable[[str], Awaitable[Any]]


class _Known(NamedTuple):
    """A price and the moment it was true."""

    moment: datetime
    price: Decimal
    source: str


async def ask_anew(db: Database, ask: Ask) -> None:
    """Have fresh quotes of what is held kept, as far as that goes quickly; what fails leaves the older price."""
    now = datetime.now(UTC)
    wanted = await db.read(lambda conn: _worth_asking(conn, now))
    if not wanted:
        return
    asked = [asyncio.ensure_future(ask(ticker)) for ticker in wanted]
    _, late = await asyncio.wait(asked, timeout=PATIENCE)
    for task in late:
        task.cancel()
    for outcome in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, Refusal | asyncio.CancelledError):
            raise outcome


def _worth_asking(conn: Connection, now: datetime) -> list[str]:
    """The symbols of the largest positions without a fresh quote; none while no provider has a key of the user's."""
    if not any(setup.usable and setup.has_key for setup in connections.read_all(conn, PROVIDERS)):
        return []
    size: dict[str, Decimal] = {}
    for lot in open_lots(conn):
        if lot.asset_class is AssetClass.EQUITY or lot.asset_class is AssetClass.MUTUAL_FUND:
            size[lot.ticker] = size.get(lot.ticker, ZERO) + (lot.cost or lot.received or ZERO)
    ranked = sorted(size, key=lambda ticker: (-size[ticker], ticker))
    kept = ((ticker, recall(conn, "quote", ticker)) for ticker in ranked[:MOST_QUOTES])
    return [ticker for ticker, quote in kept if quote is None or not quote.fresh(now)]


def known_prices(
    conn: Connection, today: date, account_id: str | None = None, ticker: str | None = None
) -> dict[str, Price]:
    """The latest known price of everything that is held, or of one symbol; one of another day is stale."""
    held = select(tax_lots.c.ticker, tax_lots.c.underlying).where(OPEN).distinct()
    if account_id is not None:
        held = held.where(tax_lots.c.account_id == account_id)
    if ticker is not None:
        held = held.where(tax_lots.c.underlying == parse_instrument(ticker).underlying, tax_lots.c.ticker == ticker)
    now = datetime.now(UTC)
    exchange, foreign = RateBook(conn), _foreign(conn)
    prices: dict[str, Price] = {}
    for symbol, underlying in conn.execute(held).all():
        known = (_quote(conn, symbol, now), _last_bar(conn, symbol), _last_trade(conn, symbol, underlying))
        found = [one for one in known if one is not None]
        if found:
            latest = max(found, key=lambda one: one.moment)
            day = trade_date(latest.moment)
            stale = day < today and latest.source != "quote"
            rate = exchange.rate(foreign.get(symbol, DOLLAR), DOLLAR, day)
            if rate is not None:
                prices[symbol] = Price(price=latest.price * rate, source=latest.source, stale=stale, as_of=day)
    return prices


def _foreign(conn: Connection) -> dict[str, str]:
    """The currency of what was ever traded in another one than dollars: that of its latest trade."""
    foreign = select(trades.c.symbol).where(differs(trades.c.currency, DOLLAR))
    query = select(trades.c.symbol, trades.c.currency).where(trades.c.symbol.in_(foreign))
    return {row.symbol: row.currency for row in conn.execute(query.order_by(trades.c.time))}


def _quote(conn: Connection, ticker: str, now: datetime) -> _Known | None:
    """The last quote that was asked for, fresh or old."""
    kept = recall(conn, "quote", ticker)
    if kept is None:
        return None
    quote = msgspec.json.decode(kept.payload, type=ProviderQuote)
    source = "quote" if kept.fresh(now) else "cached_quote"
    return _Known(kept.fetched_at if kept.fresh(now) else quote.timestamp or kept.fetched_at, quote.price, source)


def _last_bar(conn: Connection, ticker: str) -> _Known | None:
    bars = price_bars.c
    row = conn.execute(
        select(bars.time, bars.resolution, bars.close).where(bars.symbol == ticker).order_by(bars.time.desc()).limit(1)
    ).first()
    if row is None:
        return None
    # a bar's close is known at its end; a daily bar of the exchange is over before that of the calendar
    span = next((span for name, span in SPANS.items() if name == row.resolution), None)
    return _Known(row.time + (span or SPANS["1d"]) / 2, row.close, "bar")


def _last_trade(conn: Connection, ticker: str, underlying: str) -> _Known | None:
    row = conn.execute(
        select(trades.c.time, trades.c.price)
        .where(trades.c.underlying == underlying, trades.c.symbol == ticker)
        .order_by(trades.c.time.desc(), trades.c.exec_id.desc())
        .limit(1)
    ).first()
    return None if row is None else _Known(row.time, row.price, "last_trade")
