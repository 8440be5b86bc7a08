"""Stored tax lots and wash sales as answers need them, found by index however many lots there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, and_, or_, select, text

from .book_tables import tax_lots, tax_wash_matches
from .symbols import parse_instrument
from .tax.lot import Lot
from .tax.wash import WashMatch

__all__ = [
    "CLOSED",
    "EDITED",
    "OPEN",
    "closed_lots",
    "held_back",
    "load",
    "open_lots",
    "parts",
    "statuses",
    "wash_chains",
    "wash_sales",
]

# Written as the partial indexes are: SQLite uses one only for the very words it was made with.
CLOSED, OPEN = text("tax_lots.is_closed"), text("NOT tax_lots.is_closed")
EDITED = text("tax_lots.is_user_modified")
_UNUSUAL = text("tax_lots.sync_status <> 'synced'")
_AT_ONCE, _RANGES = 500, 100
_lots = tax_lots.c
_matches = tax_wash_matches.c


def parts(names: Iterable[str], most: int = _AT_ONCE) -> Iterable[list[str]]:
    """Names in portions that one statement can take."""
    known = list(names)
    return (known[at : at + most] for at in range(0, len(known), most))


def load(conn: Connection, query: Select[Any]) -> list[Lot]:
    return [msgspec.json.decode(text, type=Lot) for text in conn.execute(query).scalars()]


def open_lots(
    conn: Connection, *, account_id: str | None = None, ticker: str | None = None, related_to: str | None = None
) -> list[Lot]:
    """Open lots; `related_to` a symbol are those of its underlying, in all their forms."""
    query = _filtered(select(_lots.lot).where(OPEN), account_id, ticker)
    if related_to is not None:
        query = query.where(_lots.underlying == parse_instrument(related_to).underlying)
    return load(conn, query)


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
    return load(conn, _filtered(query, account_id, ticker))


def statuses(conn: Connection) -> dict[str, str]:
    """The lots that are not simply what the trades say."""
    query = select(_lots.lot_id, _lots.sync_status).where(_UNUSUAL)
    return {row.lot_id: row.sync_status for row in conn.execute(query)}


def wash_sales(conn: Connection, *, start: date, end: date) -> list[WashMatch]:
    """Wash sales whose loss was taken from one day to another."""
    return _ordered(conn, select(_matches.id, _matches.match).where(_matches.loss_date.between(start, end)))


def wash_chains(conn: Connection, matches: Sequence[WashMatch]) -> tuple[list[WashMatch], dict[str, Lot]]:
    """Everything that became of the losses of some wash sales: their chains, whole, and every lot of those."""
    names = {match.chain_id for match in matches}
    links = [link for part in parts(names) for link in _ordered(conn, _LINKS.where(_matches.chain_id.in_(part)))]
    lots: dict[str, Lot] = {}
    for part in parts({link.loss_lot_id for link in links}):
        lots |= {lot.lot_id: lot for lot in load(conn, select(_lots.lot).where(_lots.lot_id.in_(part)))}
    for part in parts({link.replacement_lot_id for link in links}, _RANGES):
        # a lot that took over a loss, and the pieces that were cut off it since; "." comes right after "-"
        own = [or_(_lots.lot_id == name, and_(_lots.lot_id > f"{name}-", _lots.lot_id < f"{name}.")) for name in part]
        lots |= {lot.lot_id: lot for lot in load(conn, select(_lots.lot).where(or_(*own)))}
    return links, lots


def held_back(conn: Connection) -> tuple[list[WashMatch], dict[str, Lot]]:
    """The chains that lead to lots which are still open."""
    names: dict[str, None] = {}
    for lot in load(conn, select(_lots.lot).where(OPEN)):
        names.update(dict.fromkeys(lot.chain_ids))
    links = [link for part in parts(names) for link in _ordered(conn, _LINKS.where(_matches.chain_id.in_(part)))]
    return wash_chains(conn, links)


_LINKS = select(_matches.id, _matches.match)


def _ordered(conn: Connection, query: Select[Any]) -> list[WashMatch]:
    rows = conn.execute(query).all()
    return [msgspec.json.decode(row.match, type=WashMatch) for row in sorted(rows, key=lambda row: row.id)]


def _filtered(query: Select[Any], account_id: str | None, ticker: str | None) -> Select[Any]:
    if account_id is not None:
        query = query.where(_lots.account_id == account_id)
    return query if ticker is None else query.where(_lots.ticker == ticker)
