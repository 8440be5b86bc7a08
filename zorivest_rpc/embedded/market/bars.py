"""Bars as providers gave them: kept per provider, and handed on to the price bars that the analysis reads.

The analysis knows one bar per moment and cares for prices alone; here every provider's word is kept as it was, also at
intervals that no analysis uses, so that the same question has an answer without a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from ..analytics.excursion import Bar, Resolution
from ..database.schema.market import market_ohlcv
from . import stored_bars as price_bars
from .shapes import INTERVALS, ProviderBar

__all__ = ["INTERVAL_OF", "beginning", "select_bars", "store_bars"]

INTERVAL_OF: dict[Resolution, str] = {"1min": "1m", "5min": "5m", "15min": "15m", "1d": "1d"}
"""The resolutions of the analysis and the intervals they are here."""

_RESOLUTION_OF = {interval: resolution for resolution, interval in INTERVAL_OF.items()}
_NEW_YORK = ZoneInfo("America/New_York")
_LARGEST_VOLUME = 9 * 10**10  # what a price bar can hold

_STEP = 500
_VALUES = ("open", "high", "low", "close", "adj_close", "volume", "vwap", "trade_count")


def store_bars(conn: Connection, ticker: str, interval: str, bars: Iterable[ProviderBar]) -> int:
    """Insert bars; a provider's newer word about a bar replaces its older one. Returns how many there were."""
    if interval not in INTERVALS:
        raise ValueError(f"{interval!r} is not an interval")
    rows = {
        (begins, bar.provider): {
            "ticker": ticker,
            "interval": interval,
            "timestamp": begins,
            "provider": bar.provider,
            **{name: getattr(bar, name) for name in _VALUES},
        }
        for bar in bars
        for begins in (beginning(bar.timestamp, interval),)
    }
    values: Sequence[dict[str, Any]] = list(rows.values())
    insert = sqlite_insert(market_ohlcv)
    statement = insert.on_conflict_do_update(
        index_elements=["ticker", "interval", "timestamp", "provider"],
        set_={name: insert.excluded[name] for name in _VALUES},
    )
    for start in range(0, len(values), _STEP):
        conn.execute(statement, values[start : start + _STEP])
    _hand_on(conn, ticker, interval, values)
    return len(values)


def beginning(moment: datetime, interval: str) -> datetime:
    """When a bar begins. Providers stamp a day with its opening, with midnight in New York or in UTC; here a day, a
    week and a month begin at midnight UTC of their first day."""
    if interval not in ("1d", "1w", "1M") or moment.time() == time():
        return moment
    return datetime.combine(moment.astimezone(_NEW_YORK).date(), time(), UTC)


def _hand_on(conn: Connection, ticker: str, interval: str, rows: Sequence[dict[str, Any]]) -> None:
    resolution = _RESOLUTION_OF.get(interval)
    if resolution is None:
        return
    for provider in dict.fromkeys(row["provider"] for row in rows):
        found = [
            Bar(row["timestamp"], row["open"], row["high"], row["low"], row["close"], _volume(row), row["vwap"])
            for row in rows
            if row["provider"] == provider
        ]
        price_bars.store(conn, ticker, resolution, found, provider)


def _volume(row: dict[str, Any]) -> Decimal:
    volume: Decimal = row["volume"]
    return volume if volume < _LARGEST_VOLUME else Decimal(0)


def select_bars(
    conn: Connection,
    ticker: str,
    interval: str,
    start: datetime | None = None,
    end: datetime | None = None,
) -> list[ProviderBar]:
    """Bars that begin at or after `start` and before `end`, oldest first.

    All bars come from one provider, the one that knows most of the span: prices of two are not mixed."""
    table = market_ohlcv
    wanted = [table.c.ticker == ticker, table.c.interval == interval]
    if start is not None:
        wanted.append(table.c.timestamp >= start)
    if end is not None:
        wanted.append(table.c.timestamp < end)
    provider = conn.execute(
        select(table.c.provider)
        .where(*wanted)
        .group_by(table.c.provider)
        .order_by(func.count().desc(), func.max(table.c.timestamp).desc(), table.c.provider)
        .limit(1)
    ).scalar()
    if provider is None:
        return []
    query = select(table).where(*wanted, table.c.provider == provider).order_by(table.c.timestamp)
    return [
        ProviderBar(timestamp=row.timestamp, provider=row.provider, **{name: getattr(row, name) for name in _VALUES})
        for row in conn.execute(query)
    ]
