"""Stored price bars: what is known of the past prices of an instrument, and from whom."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ..analytics.excursion import SPANS, Bar, Resolution
from ..database.schema.journal import price_bars

__all__ = ["Stored", "available", "between", "closes_before", "covering", "last_close", "store"]

_bars = price_bars.c


class Stored(NamedTuple):
    """Bars of one resolution, oldest first, and where they came from."""

    bars: list[Bar]
    source: str


def store(conn: Connection, symbol: str, resolution: Resolution, bars: Iterable[Bar], source: str) -> int:
    """Keep bars; one that is there already is replaced. The number of bars given."""
    rows = {
        bar.time: {
            "symbol": symbol,
            "resolution": resolution,
            "time": bar.time,
            "open": bar.open,
            "high": bar.high,
            "low": bar.low,
            "close": bar.close,
            "volume": bar.volume,
            "vwap": bar.vwap,
            "source": source,
        }
        for bar in bars
    }
    if rows:
        first, last = min(rows), max(rows)
        held = conn.execute(
            select(_bars.time).where(
                _bars.symbol == symbol, _bars.resolution == resolution, _bars.time >= first, _bars.time <= last
            )
        ).scalars()
        for moment in [moment for moment in held if moment in rows]:
            conn.execute(
                price_bars.delete().where(_bars.symbol == symbol, _bars.resolution == resolution, _bars.time == moment)
            )
        conn.execute(price_bars.insert(), list(rows.values()))
    return len(rows)


def available(conn: Connection, symbol: str, start: datetime, end: datetime) -> list[Resolution]:
    """The resolutions that have a bar overlapping the window."""
    found: list[Resolution] = []
    for resolution, span in SPANS.items():
        one = select(_bars.time).where(*_window(symbol, resolution, start, end, span)).limit(1)
        if conn.execute(one).first() is not None:
            found.append(resolution)
    return found


def between(conn: Connection, symbol: str, resolution: Resolution, start: datetime, end: datetime) -> Stored:
    """The bars that overlap a window."""
    rows = (
        conn.execute(
            select(price_bars).where(*_window(symbol, resolution, start, end, SPANS[resolution])).order_by(_bars.time)
        )
        .mappings()
        .all()
    )
    sources = sorted({row["source"] for row in rows})
    return Stored([_bar(row) for row in rows], ", ".join(sources)[:64])


def covering(conn: Connection, symbol: str, moment: datetime) -> Bar | None:
    """The finest bar that holds a moment."""
    for resolution, span in SPANS.items():
        row = (
            conn.execute(
                select(price_bars)
                .where(
                    _bars.symbol == symbol,
                    _bars.resolution == resolution,
                    _bars.time <= moment,
                    _bars.time > moment - span,
                )
                .order_by(_bars.time.desc())
                .limit(1)
            )
            .mappings()
            .first()
        )
        if row is not None:
            return _bar(row)
    return None


def closes_before(conn: Connection, symbol: str, moment: datetime, count: int) -> tuple[Decimal, ...]:
    """The last daily closes that were known at a moment, oldest first."""
    rows = conn.execute(
        select(_bars.close)
        .where(_bars.symbol == symbol, _bars.resolution == "1d", _bars.time <= moment - SPANS["1d"])
        .order_by(_bars.time.desc())
        .limit(count)
    ).scalars()
    return tuple(reversed(list(rows)))


def last_close(conn: Connection, symbol: str, until: datetime, not_before: datetime) -> Decimal | None:
    """The last price that is known for a time span, from bars of any resolution."""
    return conn.execute(
        select(_bars.close)
        .where(_bars.symbol == symbol, _bars.time < until, _bars.time >= not_before)
        .order_by(_bars.time.desc())
        .limit(1)
    ).scalar()


def _window(symbol: str, resolution: Resolution, start: datetime, end: datetime, span: timedelta) -> tuple[Any, ...]:
    return (_bars.symbol == symbol, _bars.resolution == resolution, _bars.time > start - span, _bars.time <= end)


def _bar(row: Any) -> Bar:
    names = ("time", "open", "high", "low", "close", "volume", "vwap")
    return Bar(*(row[name] for name in names))
