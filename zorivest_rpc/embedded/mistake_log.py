"""The mistakes that somebody tagged, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from . import audit, trades
from .analytics.mistakes import Mistake, MistakeSums, cost_of, sums_of
from .analytics.money import cents
from .inputs import Page
from .results import Scope
from .tables import mistake_entries, round_trip_legs, round_trips
from .tables import trades as trade_table

__all__ = ["add", "listed", "sums"]

_first_trip = (
    select(
        round_trip_legs.c.exec_id,
        round_trips.c.status,
        round_trips.c.realized_pnl,
        func.row_number()
        .over(partition_by=round_trip_legs.c.exec_id, order_by=(round_trips.c.opened_at, round_trips.c.opened_by))
        .label("place"),
    )
    .join(round_trips, round_trips.c.id == round_trip_legs.c.round_trip_id)
    .where(round_trip_legs.c.exec_id.in_(select(mistake_entries.c.trade_id)))
    .subquery("first_trip")
)
"""Of every execution with a mistake the round trip it belongs to; of a flip the one it closed."""

_entries = (
    select(mistake_entries, trade_table.c.time, _first_trip.c.status, _first_trip.c.realized_pnl)
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


def listed(conn: Connection, exec_id: str | None, page: Page) -> dict[str, Any]:
    """Tagged mistakes, newest first."""
    wanted: list[ColumnElement[bool]] = [] if exec_id is None else [mistake_entries.c.trade_id == exec_id]
    total = conn.execute(select(func.count()).select_from(mistake_entries).where(*wanted)).scalar_one()
    rows = conn.execute(
        _entries.where(*wanted).order_by(mistake_entries.c.id.desc()).limit(page.limit).offset(page.offset)
    ).mappings()
    return page.envelope([_view(row) for row in rows], total)


def sums(conn: Connection, scope: Scope) -> list[MistakeSums]:
    """The mistakes on executions of the scope, per category and month of the execution."""
    rows = conn.execute(_entries.where(*scope.executed())).mappings()
    zone = scope.period.zone
    return sums_of(
        Mistake(row["category"], row["time"].astimezone(zone).date(), row["estimated_cost"], _result(row))
        for row in rows
    )


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
        "notes": row["notes"],
        "auto_detected": row["auto_detected"],
        "created_at": row["created_at"],
    }
