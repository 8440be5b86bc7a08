"""Market data that is already in the database, as the source of fetch steps when no provider is asked."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, select

from ..database.engine import Database
from ..database.schema.journal import metadata
from .step import Fetched, Fetcher, FetchRequest, StepFailed

__all__ = ["LOCAL", "stored_market"]

LOCAL = "local"
_TABLES = {
    "quote": ("market_quotes", "timestamp"),
    "ohlcv": ("market_ohlcv", "timestamp"),
    "news": ("market_news", "published_at"),
    "fundamentals": ("market_fundamentals", None),
}
_MOST = 5000


def stored_market(db: Database) -> Fetcher:
    """A fetcher for the provider `local`; it refuses any other by name."""

    async def fetch(request: FetchRequest) -> Fetched:
        if request.provider != LOCAL:
            raise StepFailed(f'The market data provider "{request.provider}" is not connected.')
        return Fetched(await db.read(lambda conn: _rows(conn, request)), "stored")

    return fetch


def _rows(conn: Connection, request: FetchRequest) -> list[dict[str, Any]]:
    name, time = _TABLES[request.data_type]
    table = metadata.tables.get(name)
    if table is None:
        raise StepFailed("This journal holds no market data.", retry=False)
    statement = select(table).limit(_MOST)
    tickers = request.criteria.get("tickers") or request.criteria.get("ticker")
    if tickers and "ticker" in table.c:
        wanted = tickers if isinstance(tickers, list) else [tickers]
        statement = statement.where(table.c.ticker.in_([str(ticker).upper() for ticker in wanted]))
    if time is not None:
        statement = statement.order_by(table.c[time])
        for key, compare in (("since", "__ge__"), ("until", "__le__")):
            if request.criteria.get(key):
                statement = statement.where(getattr(table.c[time], compare)(_moment(request.criteria[key], key)))
    return [_plain(row) for row in conn.execute(statement).mappings()]


def _moment(value: Any, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        raise StepFailed(f'"{name}" is not a date and time.', retry=False) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _plain(row: Any) -> dict[str, Any]:
    return {
        name: float(value)
        if isinstance(value, Decimal)
        else value.isoformat()
        if isinstance(value, datetime)
        else value
        for name, value in row.items()
        if name != "id"
    }
