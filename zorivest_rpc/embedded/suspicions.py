"""Mistakes that the stored numbers suggest: the latest round trips of each account, looked at by the rules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo
from decimal import Decimal, localcontext
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from .analytics.mistake_detection import TripFacts, suspect
from .period import EVER
from .results import Scope, moments, planned_risk, plans
from .tables import excursion_metrics, mistake_entries, round_trip_legs, round_trips

__all__ = ["MOST", "suspected"]

MOST = 1_000
"""How many round trips of an account are looked at, the latest of the scope."""
_BEFORE = 50  # as many as the rules compare a round trip with

_trips = round_trips.c
_HINT = "Nothing looks like a mistake here; that is no proof. Tag what you know with track_mistake."


def suspected(conn: Connection, scope: Scope) -> dict[str, Any]:
    """Proposed tags for round trips opened within the scope, newest first; tagged ones are not proposed again."""
    ids = [scope.account_id] if scope.account_id is not None else _accounts(conn)
    items: list[dict[str, Any]] = []
    examined = 0
    for account_id in ids:
        within = _within(conn, scope._replace(account_id=account_id))
        examined += len(within)
        items += _proposals(conn, account_id, within, scope.period.zone)
    items.sort(key=lambda item: (item["opened_at"], item["round_trip_id"], item["category"]), reverse=True)
    answer = {
        "period": scope.period.text,
        "account_id": scope.account_id,
        "items": items,
        "total": len(items),
        "round_trips_examined": examined,
    }
    return answer if items else answer | {"hint": _HINT}


def _accounts(conn: Connection) -> list[str]:
    return list(conn.execute(select(_trips.account_id).distinct().order_by(_trips.account_id)).scalars())


def _within(conn: Connection, scope: Scope) -> list[Mapping[Any, Any]]:
    wanted: list[ColumnElement[bool]] = [_trips.account_id == scope.account_id]
    if scope.period.start is not None:
        wanted.append(_trips.opened_at >= scope.period.start)
    if scope.period.end is not None:
        wanted.append(_trips.opened_at < scope.period.end)
    return _latest(conn, wanted, MOST)


def _latest(conn: Connection, wanted: list[ColumnElement[bool]], most: int) -> list[Mapping[Any, Any]]:
    query = select(round_trips).where(*wanted).order_by(_trips.opened_at.desc(), _trips.id.desc()).limit(most)
    return list(conn.execute(query).mappings())


def _proposals(
    conn: Connection, account_id: str, within: list[Mapping[Any, Any]], zone: tzinfo
) -> list[dict[str, Any]]:
    if not within:
        return []
    before = _latest(conn, [_trips.account_id == account_id, _trips.opened_at < within[-1]["opened_at"]], _BEFORE)
    rows = {row["id"]: row for row in (*within, *before)}
    chosen = {row["id"] for row in within}
    stops, risks = _planned(conn, list(rows))
    moved = {
        row.round_trip_id: row
        for row in conn.execute(
            select(excursion_metrics)
            .where(excursion_metrics.c.round_trip_id.in_(chosen))
            .order_by(excursion_metrics.c.computed_at)
        )
    }
    usual_loss = moments(conn, Scope(account_id, EVER)).avg_loss or None
    facts = [
        TripFacts(
            round_trip_id=row["id"],
            opened_at=row["opened_at"],
            notional=_notional(row),
            closed_at=row["closed_at"],
            pnl=row["realized_pnl"] if row["status"] == "closed" else None,
            plan_has_stop=stops.get(row["id"]),
            capture_ratio=moved[row["id"]].capture_ratio if row["id"] in moved else None,
            mfe_dollars=moved[row["id"]].mfe_dollars if row["id"] in moved else None,
            one_r=risks.get(row["id"], usual_loss),
        )
        for row in rows.values()
    ]
    tagged = _tagged(conn, chosen)
    return [
        {
            "round_trip_id": found.round_trip_id,
            "trade_exec_id": rows[found.round_trip_id]["opened_by"],
            "account_id": account_id,
            "instrument": rows[found.round_trip_id]["instrument"],
            "opened_at": rows[found.round_trip_id]["opened_at"],
            "category": found.category,
            "evidence": found.evidence,
        }
        for found in suspect(facts, zone)
        if found.round_trip_id in chosen and (found.round_trip_id, found.category) not in tagged
    ]


def _notional(row: Mapping[Any, Any]) -> Decimal:
    with localcontext(prec=60):
        value: Decimal = row["entry_value"] * row["multiplier"]
    return value


def _planned(conn: Connection, ids: list[str]) -> tuple[dict[str, bool], dict[str, Decimal]]:
    """Of round trips with a linked plan: whether it names a stop, and the money that it risks."""
    stops: dict[str, bool] = {}
    risks: dict[str, Decimal] = {}
    for row in conn.execute(plans().where(_trips.id.in_(ids))):
        risk = planned_risk(row.entry_price, row.stop_loss, row.total_quantity, row.multiplier)
        stops.setdefault(row.id, bool(row.stop_loss))
        if risk is not None:
            risks.setdefault(row.id, risk)
    return stops, risks


def _tagged(conn: Connection, ids: set[str]) -> set[tuple[str, str]]:
    legs = round_trip_legs.c
    return {
        (row.round_trip_id, row.category)
        for row in conn.execute(
            select(legs.round_trip_id, mistake_entries.c.category)
            .join(mistake_entries, mistake_entries.c.trade_id == legs.exec_id)
            .where(legs.round_trip_id.in_(ids))
        )
    }
