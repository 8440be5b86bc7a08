"""Mistakes tagged by the user, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, select

from ...database import audit
from ...database.schema.journal import mistake_entries, round_trip_legs, round_trips
from ...database.schema.journal import trades as trade_table
from ...journal import trades
from ...journal.exchange import Conversion, own_rate
from ...values.inputs import Page
from ...values.money import cents
from ..mistakes import Mistake, MistakeSums, cost_of, sums_of
from .results import Scope

__all__ = ["add", "list_mistakes", "sums"]

_first_trip = (
    select(
        round_trip_legs.c.exec_id,
        round_trips.c.status,
        round_trips.c.realized_pnl,
        round_trips.c.last_by,
        round_trips.c.last_at,
        func.row_number()
        .over(partition_by=round_trip_legs.c.exec_id, order_by=(round_trips.c.opened_at, round_trips.c.opened_by))
        .label("place"),
    )
    .join(round_trips, round_trips.c.id == round_trip_legs.c.round_trip_id)
    .where(round_trip_legs.c.exec_id.in_(select(mistake_entries.c.trade_id)))
    .subquery("first_trip")
)
"""Of every execution with a mistake the round trip it belongs to; of a flip the one it closed."""

_RATED = ("fx_rate", "fx_base", "asset_class", "symbol", "price")


class _Rated(NamedTuple):
    """What of an execution tells its own rate."""

    currency: str
    fx_rate: Decimal | None
    fx_base: str | None
    asset_class: str
    symbol: str
    price: Decimal


_entries = (
    select(
        mistake_entries,
        trade_table.c.time,
        trade_table.c.currency,
        _first_trip.c.status,
        _first_trip.c.realized_pnl,
        _first_trip.c.last_at,
    )
    .join(trade_table, trade_table.c.exec_id == mistake_entries.c.trade_id)
    .outerjoin(_first_trip, (_first_trip.c.exec_id == mistake_entries.c.trade_id) & (_first_trip.c.place == 1))
)


def add(conn: Connection, exec_id: str, values: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """Tag a trade."""
    trades.require(conn, exec_id)
    row = {**values, "trade_id": exec_id, "auto_detected": False, "created_at": datetime.now(UTC)}
    added = conn.execute(mistake_entries.insert().values(**row).returning(mistake_entries.c.id)).scalar_one()
    audit.record(conn, actor, "mistake.track", "trade", exec_id, category=values["category"])
    found = conn.execute(_entries.where(mistake_entries.c.id == added)).mappings().one()
    return _view(found)


def list_mistakes(conn: Connection, exec_id: str | None, page: Page) -> dict[str, Any]:
    """Tagged mistakes, newest first."""
    wanted: list[ColumnElement[bool]] = [] if exec_id is None else [mistake_entries.c.trade_id == exec_id]
    total = conn.execute(select(func.count()).select_from(mistake_entries).where(*wanted)).scalar_one()
    rows = conn.execute(
        _entries.where(*wanted).order_by(mistake_entries.c.id.desc()).limit(page.limit).offset(page.offset)
    ).mappings()
    return page.envelope([_view(row) for row in rows], total)


def sums(conn: Connection, scope: Scope, conversion: Conversion) -> list[MistakeSums]:
    """The mistakes on executions of the scope, per category and month of the execution.

    What was lost, or what the author says it cost, is in the currency of the trade; an author's figure is converted at
    the rate of the trade, a result at that of the execution that closed it. A cost without a rate counts as a mistake
    whose cost is not known, and is kept apart."""
    zone = scope.period.zone
    found = []
    for row in conn.execute(_with_rates().where(*scope.executed())):
        pnl, cost = _result(row._mapping), row.estimated_cost
        if row.currency != conversion.target and (cost is not None or pnl is not None):
            # only the sign of the result counts beside a cost
            cost = _cost_abroad(row, pnl, conversion) or Decimal(0)
        found.append(Mistake(row.category, row.time.astimezone(zone).date(), cost, pnl))
    return sums_of(found)


def _with_rates() -> Select[Any]:
    """The mistakes with what rates their trade and the execution that closed its round trip bring along."""
    closing = trade_table.alias("closing")
    of_closing = (closing.c[name].label(f"closing_{name}") for name in _RATED)
    own = (trade_table.c[name] for name in _RATED)
    return _entries.add_columns(*own, *of_closing).outerjoin(closing, closing.c.exec_id == _first_trip.c.last_by)


def _cost_abroad(row: Any, pnl: Decimal | None, conversion: Conversion) -> Decimal | None:
    """What a mistake on a trade in another currency cost, where there is a rate."""
    amount, source = cost_of(row.estimated_cost, pnl)
    if not amount:
        return amount
    if source == "user":
        return conversion.take("mistakes", amount, row.currency, row.time, own_rate(row))
    last = _Rated(row.currency, *(getattr(row, f"closing_{name}") for name in _RATED))
    return conversion.take("mistakes", amount, row.currency, row.last_at, own_rate(last))


def _result(row: Mapping[Any, Any]) -> Any:
    return row["realized_pnl"] if row["status"] == "closed" else None


def _view(row: Mapping[Any, Any]) -> dict[str, Any]:
    cost, source = cost_of(row["estimated_cost"], _result(row))
    return {
        "id": row["id"],
        "trade_id": row["trade_id"],
        "category": row["category"],
        "estimated_cost": None if source == "unknown" else cents(cost),
        "cost_source": source,
        "currency": row["currency"],
        "notes": row["notes"],
        "auto_detected": row["auto_detected"],
        "created_at": row["created_at"],
    }
