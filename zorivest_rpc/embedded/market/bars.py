"""Stored price bars: written as they are fetched, read again for excursions, fills and days without a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from ..analytics import excursion
from .shapes import INTERVALS, Bar
from .tables import market_ohlcv

__all__ = ["RESOLUTIONS", "available", "bars_for_analysis", "select_bars", "store_bars"]

RESOLUTIONS: dict[excursion.Resolution, str] = {"1min": "1m", "5min": "5m", "15min": "15m", "1d": "1d"}
"""The resolutions of the analysis and the intervals that hold them."""

_STEP = 500
_VALUES = ("open", "high", "low", "close", "adj_close", "volume", "vwap", "trade_count")


def store_bars(conn: Connection, ticker: str, interval: str, bars: Iterable[Bar]) -> int:
    """Insert bars; a provider's newer word about a bar replaces its older one. Returns how many there were."""
    if interval not in INTERVALS:
        raise ValueError(f"{interval!r} is not an interval")
    rows = {
        (bar.timestamp, bar.provider): {
            "ticker": ticker,
            "interval": interval,
            "timestamp": bar.timestamp,
            "provider": bar.provider,
            **{name: getattr(bar, name) for name in _VALUES},
        }
        for bar in bars
    }
    values: Sequence[dict[str, Any]] = list(rows.values())
    insert = sqlite_insert(market_ohlcv)
    statement = insert.on_conflict_do_update(
        index_elements=["ticker", "interval", "timestamp", "provider"],
        set_={name: insert.excluded[name] for name in _VALUES},
    )
    for start in range(0, len(values), _STEP):
        conn.execute(statement, values[start : start + _STEP])
    return len(values)


def select_bars(
    conn: Connection,
    ticker: str,
    interval: str,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    limit: int | None = None,
) -> list[Bar]:
    """Bars that begin at or after `start` and before `end`, oldest first; with a limit the last ones.

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
    query = select(table).where(*wanted, table.c.provider == provider).order_by(table.c.timestamp.desc()).limit(limit)
    return [
        Bar(timestamp=row.timestamp, provider=row.provider, **{name: getattr(row, name) for name in _VALUES})
        for row in reversed(conn.execute(query).all())
    ]


def available(conn: Connection, ticker: str, start: datetime, end: datetime) -> list[excursion.Resolution]:
    """The resolutions of which bars are stored for a span."""
    table = market_ohlcv
    found = set(
        conn.execute(
            select(table.c.interval)
            .where(table.c.ticker == ticker, table.c.timestamp >= start, table.c.timestamp < end)
            .distinct()
        ).scalars()
    )
    return [resolution for resolution, interval in RESOLUTIONS.items() if interval in found]


def bars_for_analysis(
    conn: Connection, ticker: str, resolution: excursion.Resolution, start: datetime, end: datetime
) -> tuple[list[excursion.Bar], str | None]:
    """Stored bars as excursion and execution quality read them, and the provider they came from.

    Bars that began before `start` but reach into the span belong to it."""
    span = excursion.SPANS[resolution]
    found = select_bars(conn, ticker, RESOLUTIONS[resolution], start - span, end + span)
    shown = [
        excursion.Bar(bar.timestamp, bar.open, bar.high, bar.low, bar.close, bar.volume, bar.vwap) for bar in found
    ]
    return shown, found[0].provider if found else None
