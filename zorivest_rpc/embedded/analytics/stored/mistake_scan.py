"""Mistakes that the stored numbers suggest: the latest round trips of each account, looked at by the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal, localcontext
from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from ...database.schema.journal import excursion_metrics, mistake_entries, round_trip_legs, round_trips, trades
from ...journal.accounts import require
from ...journal.exchange import Conversion, own_rate
from ...journal.given_times import GivenTimes
from ...values.period import EVER
from ...values.symbols import parse_contract
from ..mistake_detection import TripFacts, suspect
from .results import Scope, moments, planned_risk, plans

__all__ = ["MOST", "propose_mistakes"]

MOST = 500
"""How many round trips of an account are looked at, the latest of the scope."""
_BEFORE = 50  # as many as the rules compare a round trip with

_trips = round_trips.c
_HINT = "Nothing looks like a mistake here; that is no proof. Tag what you know with track_mistake."


def propose_mistakes(conn: Connection, scope: Scope) -> dict[str, Any]:
    """Proposed tags for round trips opened within the scope, newest first; tagged ones are not proposed again."""
    ids = [scope.account_id] if scope.account_id is not None else _accounts(conn)
    items: list[dict[str, Any]] = []
    examined = 0
    told: dict[str, Any] = {}
    for account_id in ids:
        within = _within(conn, scope._replace(account_id=account_id))
        examined += len(within)
        found, apart = _proposals(conn, account_id, within, scope.period.zone)
        items += found
        if apart:
            told.setdefault("not_comparable", []).append({"account_id": account_id, **apart})
    items.sort(key=lambda item: (item["opened_at"], item["round_trip_id"], item["category"]), reverse=True)
    answer = {
        "period": scope.period.text,
        "account_id": scope.account_id,
        "items": items,
        "total": len(items),
        "round_trips_examined": examined,
        **told,
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
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The proposals for an account, and what could not be compared with the rest for want of a rate."""
    if not within:
        return [], {}
    before = _latest(conn, [_trips.account_id == account_id, _trips.opened_at < within[-1]["opened_at"]], _BEFORE)
    rows = {row["id"]: row for row in (*within, *before)}
    chosen = {row["id"] for row in within}
    own = require(conn, account_id)["currency"]
    usual_loss = moments(conn, Scope(account_id, EVER, own)).avg_loss or None
    conversion = Conversion(conn, own)
    rates = _rates(conn, list(rows.values()), conversion)
    rated = {key: row for key, row in rows.items() if key in rates}
    facts = _read_facts(conn, rated, chosen, rates, usual_loss)
    tagged = _read_tags(conn, chosen)
    told = conversion.answer()
    given = GivenTimes(conn, (row["opened_by"] for row in rows.values()))
    proposals = [
        {
            "round_trip_id": found.round_trip_id,
            "trade_exec_id": rows[found.round_trip_id]["opened_by"],
            "account_id": account_id,
            "instrument": rows[found.round_trip_id]["instrument"],
            "opened_at": given.of(rows[found.round_trip_id]["opened_by"], rows[found.round_trip_id]["opened_at"]),
            "category": found.category,
            "evidence": found.evidence,
        }
        for found in suspect(facts, zone)
        if found.round_trip_id in chosen and (found.round_trip_id, found.category) not in tagged
    ]
    return proposals, told if "unconverted" in told else {}


def _read_facts(
    conn: Connection,
    rows: Mapping[str, Mapping[Any, Any]],
    chosen: set[str],
    rates: Mapping[str, Decimal],
    usual_loss: Decimal | None,
) -> list[TripFacts]:
    """What the rules look at, in the account's money; `usual_loss` stands for the risk of a trip without a plan."""
    stops, risks = _read_plans(conn, list(rows))
    moved = {
        row.round_trip_id: row
        for row in conn.execute(
            select(excursion_metrics)
            .where(excursion_metrics.c.round_trip_id.in_(chosen))
            .order_by(excursion_metrics.c.computed_at)
        )
    }
    return [
        TripFacts(
            round_trip_id=row["id"],
            opened_at=row["opened_at"],
            notional=_notional(row) * rates[row["id"]],
            closed_at=row["closed_at"],
            pnl=row["realized_pnl"] if row["status"] == "closed" else None,
            plan_has_stop=stops.get(row["id"]),
            capture_ratio=moved[row["id"]].capture_ratio if row["id"] in moved else None,
            mfe_dollars=moved[row["id"]].mfe_dollars * rates[row["id"]] if row["id"] in moved else None,
            one_r=risks[row["id"]] * rates[row["id"]] if row["id"] in risks else usual_loss,
            decision=_decision(row),
        )
        for row in rows.values()
    ]


def _rates(conn: Connection, rows: Sequence[Mapping[Any, Any]], conversion: Conversion) -> dict[str, Decimal]:
    """What turns the money of round trips into that of their account on the day they were opened, where known."""
    openers = [row["opened_by"] for row in rows if row["currency"] != conversion.target]
    known = {row.exec_id: row for row in conn.execute(select(trades).where(trades.c.exec_id.in_(openers)))}
    found: dict[str, Decimal] = {}
    for row in rows:
        if row["currency"] == conversion.target:
            found[row["id"]] = Decimal(1)
            continue
        rate = conversion.rate(row["currency"], row["opened_at"], own_rate(known[row["opened_by"]]))
        conversion.note("round trips", row["currency"], row["opened_at"], rate, _notional(row))
        if rate is not None:
            found[row["id"]] = rate
    return found


def _notional(row: Mapping[Any, Any]) -> Decimal:
    with localcontext(prec=60):
        value: Decimal = row["entry_value"] * row["multiplier"]
    return value


def _decision(row: Mapping[Any, Any]) -> str | None:
    """Options on one underlying that were opened in the same minute are the legs of one structure."""
    contract = parse_contract(row["instrument"])
    return None if contract is None else f"{contract.underlying} {row['opened_at']:%Y-%m-%dT%H:%M}"


def _read_plans(conn: Connection, ids: list[str]) -> tuple[dict[str, bool], dict[str, Decimal]]:
    """Of round trips with a linked plan: whether it names a stop, and the money that it risks."""
    stops: dict[str, bool] = {}
    risks: dict[str, Decimal] = {}
    for row in conn.execute(plans().where(_trips.id.in_(ids))):
        risk = planned_risk(row.entry_price, row.stop_loss, row.total_quantity, row.multiplier)
        stops.setdefault(row.id, bool(row.stop_loss))
        if risk is not None:
            risks.setdefault(row.id, risk)
    return stops, risks


def _read_tags(conn: Connection, ids: set[str]) -> set[tuple[str, str]]:
    legs = round_trip_legs.c
    return {
        (row.round_trip_id, row.category)
        for row in conn.execute(
            select(legs.round_trip_id, mistake_entries.c.category)
            .join(mistake_entries, mistake_entries.c.trade_id == legs.exec_id)
            .where(legs.round_trip_id.in_(ids))
        )
    }
