"""Trade plans: what was intended before a trade, and what became of it.

One plan per ticker and direction may be in progress (draft or active); the database keeps that."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, select

from ..database import audit
from ..database.schema.journal import images, trade_plans
from ..errors import Conflict, Invalid, NotFound
from ..values.inputs import Page
from ..values.money import ratio
from . import accounts, trades

__all__ = ["CONVICTIONS", "STATUSES", "add", "change", "delete", "list_plans", "read_plan"]

CONVICTIONS = ("low", "medium", "high", "max")
STATUSES = ("draft", "active", "executed", "expired", "cancelled")
_IN_PROGRESS = ("draft", "active")


def add(conn: Connection, values: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """A draft; 409 while another plan for the ticker and direction is in progress."""
    if values.get("account_id") is not None:
        _require_account(conn, values["account_id"])
    _free(conn, values["ticker"], values["direction"], None)
    now = datetime.now(UTC)
    row = {**values, "risk_reward_ratio": _ratio(values), "created_at": now, "updated_at": now}
    plan_id = conn.execute(trade_plans.insert().values(**row).returning(trade_plans.c.id)).scalar_one()
    audit.record(conn, actor, "plan.create", "trade_plan", str(plan_id))
    return read_plan(conn, plan_id)


def read_plan(conn: Connection, plan_id: int) -> dict[str, Any]:
    row = conn.execute(select(trade_plans).where(trade_plans.c.id == plan_id)).mappings().first()
    if row is None:
        raise NotFound("trade plan", plan_id)
    return _view(row)


def list_plans(conn: Connection, page: Page) -> dict[str, Any]:
    """The plans, newest first."""
    total = conn.execute(select(func.count()).select_from(trade_plans)).scalar_one()
    rows = conn.execute(
        select(trade_plans).order_by(trade_plans.c.id.desc()).limit(page.limit).offset(page.offset)
    ).mappings()
    return page.envelope([_view(row) for row in rows], total)


def change(conn: Connection, plan_id: int, changes: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """Rewrite fields; a status that ends a plan notes when."""
    before = read_plan(conn, plan_id)
    if not changes:
        return before
    after: dict[str, Any] = {**before, **changes}
    if after["status"] in _IN_PROGRESS:
        _free(conn, after["ticker"], after["direction"], plan_id)
    if changes.get("linked_trade_id") is not None:
        try:
            trades.require(conn, changes["linked_trade_id"])
        except NotFound as exc:
            raise Invalid({"linked_trade_id": [str(exc.detail)]}) from None
    if changes.get("account_id") is not None:
        _require_account(conn, changes["account_id"])
    now = datetime.now(UTC)
    row = {**changes, "risk_reward_ratio": _ratio(after), "updated_at": now}
    if after["status"] == "executed" and after["linked_trade_id"] and before["executed_at"] is None:
        row["executed_at"] = now
    if after["status"] == "cancelled" and before["cancelled_at"] is None:
        row["cancelled_at"] = now
    conn.execute(trade_plans.update().where(trade_plans.c.id == plan_id).values(**row))
    audit.record(conn, actor, "plan.update", "trade_plan", str(plan_id), fields=sorted(changes))
    return read_plan(conn, plan_id)


def delete(conn: Connection, plan_id: int, actor: str) -> None:
    read_plan(conn, plan_id)
    conn.execute(images.delete().where(images.c.owner_type == "plan", images.c.owner_id == str(plan_id)))
    conn.execute(trade_plans.delete().where(trade_plans.c.id == plan_id))
    audit.record(conn, actor, "plan.delete", "trade_plan", str(plan_id))


def _require_account(conn: Connection, account_id: str) -> None:
    if accounts.find(conn, account_id) is None:
        raise Invalid({"account_id": [f'"{account_id}" is unknown']})


def _free(conn: Connection, ticker: str, direction: str, own: int | None) -> None:
    other = conn.execute(
        select(trade_plans.c.id).where(
            trade_plans.c.ticker == ticker,
            trade_plans.c.direction == direction,
            trade_plans.c.status.in_(_IN_PROGRESS),
            trade_plans.c.id != (own or 0),
        )
    ).scalar()
    if other is not None:
        raise Conflict(
            "duplicate_plan",
            f"Plan {other} for {ticker} {direction} is still in progress; finish it or change it.",
            plan_id=other,
        )


def _ratio(values: Mapping[str, Any]) -> Decimal:
    risk = abs(values["entry_price"] - values["stop_loss"])
    reward = abs(values["target_price"] - values["entry_price"])
    return ratio(reward / risk) or Decimal(0) if risk else Decimal(0)


def _view(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {**row, "warnings": _warnings(row)}


def _warnings(row: Mapping[Any, Any]) -> list[str]:
    """A level on the wrong side is probably a slip of the hand, possibly a plan; so it is told, not refused."""
    side = 1 if row["direction"] == "BOT" else -1
    entry, found = row["entry_price"], []
    if row["stop_loss"] == entry:
        found.append("the stop equals the entry, so there is no risk to measure by")
    elif side * (entry - row["stop_loss"]) < 0:
        found.append(f"the stop is {'above' if side == 1 else 'below'} the entry")
    if side * (row["target_price"] - entry) <= 0:
        found.append(f"the target is not {'above' if side == 1 else 'below'} the entry")
    return found
