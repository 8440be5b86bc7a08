"""What open lots are worth as far as is known here: kept quotes, stored bars, own last trades; never a guess.

Nothing is fetched for it: a tax question over many positions would spend a provider's budget on each of them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select

from .analytics.excursion import SPANS
from .book_tables import tax_lots
from .market.cache import recall
from .market.shapes import Quote
from .tables import price_bars, trades
from .tax.dates import trade_date
from .tax.model import Price
from .tax_reading import OPEN

__all__ = ["known_prices"]


class _Known(NamedTuple):
    """A price and the moment it was true."""

    moment: datetime
    price: Decimal
    source: str


def known_prices(conn: Connection, today: date, account_id: str | None = None) -> dict[str, Price]:
    """The latest known price of everything that is held; one of another day is stale."""
    held = select(tax_lots.c.ticker, tax_lots.c.underlying).where(OPEN).distinct()
    if account_id is not None:
        held = held.where(tax_lots.c.account_id == account_id)
    now = datetime.now(UTC)
    prices: dict[str, Price] = {}
    for ticker, underlying in conn.execute(held).all():
        known = (_quote(conn, ticker, now), _last_bar(conn, ticker), _last_trade(conn, ticker, underlying))
        found = [one for one in known if one is not None]
        if found:
            latest = max(found, key=lambda one: one.moment)
            day = trade_date(latest.moment)
            stale = day < today and latest.source != "quote"
            prices[ticker] = Price(price=latest.price, source=latest.source, stale=stale, as_of=day)
    return prices


def _quote(conn: Connection, ticker: str, now: datetime) -> _Known | None:
    """The last quote that was asked for, fresh or old."""
    kept = recall(conn, "quote", ticker)
    if kept is None:
        return None
    quote = msgspec.json.decode(kept.payload, type=Quote)
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
