"""What open lots are worth as far as the journal knows: stored bars and its own last trades, never a guess."""

from __future__ import annotations

from datetime import date, datetime

from sqlalchemy import Connection, select

from .analytics.excursion import SPANS
from .book_tables import tax_lots
from .tables import price_bars, trades
from .tax.dates import trade_date
from .tax.model import Price

__all__ = ["known_prices"]


def known_prices(conn: Connection, today: date, account_id: str | None = None) -> dict[str, Price]:
    """The latest known price of everything that is held; one of another day is stale."""
    held = select(tax_lots.c.ticker, tax_lots.c.underlying).where(tax_lots.c.is_closed.is_(False)).distinct()
    if account_id is not None:
        held = held.where(tax_lots.c.account_id == account_id)
    prices: dict[str, Price] = {}
    for ticker, underlying in conn.execute(held).all():
        found = [price for price in (_last_bar(conn, ticker), _last_trade(conn, ticker, underlying)) if price]
        if found:
            moment, price = max(found, key=lambda pair: pair[0])
            day = trade_date(moment)
            prices[ticker] = Price(price=price.price, source=price.source, stale=day < today, as_of=day)
    return prices


def _last_bar(conn: Connection, ticker: str) -> tuple[datetime, Price] | None:
    bars = price_bars.c
    row = conn.execute(
        select(bars.time, bars.resolution, bars.close).where(bars.symbol == ticker).order_by(bars.time.desc()).limit(1)
    ).first()
    if row is None:
        return None
    # a bar's close is known at its end; a daily bar of the exchange is over before that of the calendar
    span = next((span for name, span in SPANS.items() if name == row.resolution), None)
    return row.time + (span or SPANS["1d"]) / 2, Price(price=row.close, source="bar")


def _last_trade(conn: Connection, ticker: str, underlying: str) -> tuple[datetime, Price] | None:
    row = conn.execute(
        select(trades.c.time, trades.c.price)
        .where(trades.c.underlying == underlying, trades.c.symbol == ticker)
        .order_by(trades.c.time.desc(), trades.c.exec_id.desc())
        .limit(1)
    ).first()
    return None if row is None else (row.time, Price(price=row.price, source="last_trade"))
