"""Stored tax lots and wash sales as answers need them, found by index however many lots there are."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, extract, func, select, text

from ...database.schema.books import tax_lots, tax_wash_matches
from ...values.symbols import parse_instrument
from ..lot import Lot
from ..symbols import is_expired
from ..wash import WashMatch
from ..washes import ChainEnds

__all__ = [
    "CLOSED",
    "OPEN",
    "chain_ends",
    "closed_lots",
    "closings_by_year",
    "load",
    "loss_lots",
    "open_lots",
    "open_tickers",
    "parts",
    "wash_sales",
]

# Written as the partial indexes are: SQLite uses one only for the very words it was made with.
CLOSED, OPEN = text("tax_lots.is_closed"), text("NOT tax_lots.is_closed")
_AT_ONCE = 500
_PERMANENT = '"is_permanent":true'  # as the stored match says it
_lots = tax_lots.c
_matches = tax_wash_matches.c


def parts(names: Iterable[str]) -> Iterable[list[str]]:
    """Names in portions that one statement can take."""
    known = list(names)
    return (known[at : at + _AT_ONCE] for at in range(0, len(known), _AT_ONCE))


def load(conn: Connection, query: Select[Any]) -> list[Lot]:
    return [msgspec.json.decode(text, type=Lot) for text in conn.execute(query).scalars()]


def open_lots(
    conn: Connection,
    *,
    account_id: str | None = None,
    ticker: str | None = None,
    related_to: str | None = None,
    alive_on: date | None = None,
) -> list[Lot]:
    """Open lots; `related_to` a symbol are those of its underlying, in all their forms, and those `alive_on` a day are
    no options that were past their last day by then."""
    query = _filter(select(_lots.lot).where(OPEN), account_id, ticker)
    if related_to is not None:
        query = query.where(_lots.underlying == parse_instrument(related_to).underlying)
    lots = load(conn, query)
    return lots if alive_on is None else [lot for lot in lots if not is_expired(lot.ticker, alive_on)]


def closed_lots(
    conn: Connection,
    *,
    start: date | None = None,
    end: date | None = None,
    account_id: str | None = None,
    ticker: str | None = None,
) -> list[Lot]:
    """Lots closed from one day to another."""
    query = select(_lots.lot).where(CLOSED)
    if start is not None:
        query = query.where(_lots.close_date >= start)
    if end is not None:
        query = query.where(_lots.close_date <= end)
    return load(conn, _filter(query, account_id, ticker))


def closings_by_year(conn: Connection, before: int) -> dict[int, tuple[int, Any]]:
    """For each year before one: how many lots were closed in it, and when the last of them was written.

    A lot that changes is written anew, so the pair changes with every result of the year."""
    year = extract("year", _lots.close_date)
    query = select(year, func.count(), func.max(_lots.materialized_at)).where(
        CLOSED, _lots.close_date < date(before, 1, 1)
    )
    return {int(row[0]): (row[1], row[2]) for row in conn.execute(query.group_by(year))}


def open_tickers(conn: Connection, end: date) -> list[str]:
    """The symbols of lots that were opened by a day and are open now."""
    return list(conn.execute(select(_lots.ticker).where(OPEN, _lots.open_date <= end).distinct()).scalars())


def wash_sales(conn: Connection, *, start: date, end: date) -> list[WashMatch]:
    """Wash sales whose loss was taken from one day to another."""
    return _read_matches(conn, select(_matches.id, _matches.match).where(_matches.loss_date.between(start, end)))


def loss_lots(conn: Connection, matches: Iterable[WashMatch]) -> dict[str, Lot]:
    """The lots whose losses were washed."""
    query = select(_lots.lot)
    names = {match.loss_lot_id for match in matches}
    return {lot.lot_id: lot for part in parts(names) for lot in load(conn, query.where(_lots.lot_id.in_(part)))}


def chain_ends(conn: Connection, matches: Iterable[WashMatch]) -> ChainEnds:
    """What became of the losses of some wash sales, without following their chains."""
    lost: set[str] = set()
    for part in parts({match.chain_id for match in matches}):
        query = select(_matches.chain_id).where(_matches.chain_id.in_(part), _matches.match.contains(_PERMANENT))
        lost |= set(conn.execute(query.distinct()).scalars())
    waiting = {name for lot in open_lots(conn) for name in lot.chain_ids}
    return ChainEnds(frozenset(waiting), frozenset(lost))


def _read_matches(conn: Connection, query: Select[Any]) -> list[WashMatch]:
    rows = conn.execute(query).all()
    return [msgspec.json.decode(row.match, type=WashMatch) for row in sorted(rows, key=lambda row: row.id)]


def _filter(query: Select[Any], account_id: str | None, ticker: str | None) -> Select[Any]:
    if account_id is not None:
        query = query.where(_lots.account_id == account_id)
    return query if ticker is None else query.where(_lots.ticker == ticker)
