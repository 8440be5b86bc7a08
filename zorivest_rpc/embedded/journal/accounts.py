"""The accounts of the journal and what was in them when.

No tool can create an account, so the first trade for an unknown one brings it into being, unless the setting
`accounts.auto_create` is off. The system account stands for "no account" and cannot be changed or traded in."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, select

from ..database import audit
from ..database.exact_sums import exact_sum, join_sum
from ..database.schema.journal import accounts, balance_snapshots, round_trips, trades
from ..errors import Conflict, Forbidden, Invalid, NotFound
from ..settings import read_value
from ..values.money import cents
from .exchange import Conversion, differs
from .foreign_trips import read_foreign

__all__ = [
    "ACCOUNT_TYPES",
    "change",
    "create",
    "find",
    "list_accounts",
    "read_account",
    "record_balance",
    "require",
    "snapshots",
    "usable",
]

ACCOUNT_TYPES = ("broker", "bank", "revolving", "installment", "ira", "401k")
_TAX_ADVANTAGED = frozenset({"ira", "401k"})
_SHOWN = (
    "account_id", "name", "account_type", "institution", "currency", "is_tax_advantaged", "notes", "sub_accounts",
    "balance_source", "is_archived", "is_system", "broker_id", "is_spousal", "source", "created_at",
)  # fmt: skip

_BY_ID = select(accounts).where(accounts.c.account_id == bindparam("name"))


def find(conn: Connection, account_id: str) -> Mapping[Any, Any] | None:
    return conn.execute(_BY_ID, {"name": account_id}).mappings().one_or_none()


def require(conn: Connection, account_id: str) -> Mapping[Any, Any]:
    """The account, or 404."""
    row = find(conn, account_id)
    if row is None:
        raise NotFound("account", account_id)
    return row


def usable(
    conn: Connection,
    account_id: str,
    *,
    auto_create: bool,
    actor: str,
    kind: str = "broker",
    currency: str | None = None,
) -> None:
    """Make sure that rows may refer to the account: it exists, or it may be created under its id, in the journal's
    currency unless one is named."""
    row = find(conn, account_id)
    if row is not None:
        if row["is_system"]:
            raise Forbidden("system_account", f'"{account_id}" stands for no account; name a real one.')
        return
    if not auto_create:
        raise Invalid({"account_id": [f'"{account_id}" is unknown, and accounts.auto_create is off']})
    values = {"account_id": account_id, "name": account_id, "account_type": kind}
    create(conn, {**values, "currency": currency or read_value(conn, "journal.currency")}, actor)


def create(conn: Connection, values: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """A new account; 409 if its id is taken."""
    account_id = values.get("account_id") or str(uuid.uuid4())
    if find(conn, account_id) is not None:
        raise Conflict("duplicate_account", f'There is an account "{account_id}" already.')
    row = {
        "is_tax_advantaged": values["account_type"] in _TAX_ADVANTAGED,
        **{name: value for name, value in values.items() if value is not None},
        "account_id": account_id,
        "created_at": datetime.now(UTC),
    }
    conn.execute(accounts.insert().values(**row))
    audit.record(conn, actor, "account.create", "account", account_id)
    return _view(require(conn, account_id))


def change(conn: Connection, account_id: str, changes: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """403 for the system account."""
    row = require(conn, account_id)
    if row["is_system"]:
        raise Forbidden("system_account", "The system account cannot be changed.")
    if changes:
        conn.execute(accounts.update().where(accounts.c.account_id == account_id).values(**changes))
        audit.record(conn, actor, "account.update", "account", account_id, fields=sorted(changes))
    return _view(require(conn, account_id))


def list_accounts(conn: Connection, *, archived: bool, system: bool) -> list[dict[str, Any]]:
    """Every account with its latest balance."""
    latest = (
        select(
            balance_snapshots.c.account_id,
            balance_snapshots.c.balance,
            balance_snapshots.c.datetime,
            func.row_number()
            .over(
                partition_by=balance_snapshots.c.account_id,
                order_by=(balance_snapshots.c.datetime.desc(), balance_snapshots.c.id.desc()),
            )
            .label("place"),
        )
    ).subquery()
    query = (
        select(accounts, latest.c.balance, latest.c.datetime)
        .outerjoin(latest, and_(latest.c.account_id == accounts.c.account_id, latest.c.place == 1))
        .order_by(accounts.c.account_id)
    )
    if not archived:
        query = query.where(accounts.c.is_archived.is_(False))
    if not system:
        query = query.where(accounts.c.is_system.is_(False))
    return [
        {**_view(row), "latest_balance": row["balance"], "latest_balance_date": row["datetime"]}
        for row in conn.execute(query).mappings()
    ]


def read_account(conn: Connection, account_id: str) -> dict[str, Any]:
    """One account with its figures."""
    row = require(conn, account_id)
    closed = round_trips.c.status == "closed"
    trip = conn.execute(
        select(
            func.count().label("count"),
            func.coalesce(func.sum(case((closed, 1), else_=0)), 0).label("closed"),
            func.coalesce(func.sum(case((and_(closed, round_trips.c.realized_pnl > Decimal(0)), 1), else_=0)), 0),
        ).where(round_trips.c.account_id == account_id)
    ).one()
    count = conn.execute(select(func.count()).select_from(trades).where(trades.c.account_id == account_id)).scalar_one()
    earned, told = _sum_earnings(conn, account_id, row["currency"])
    latest = snapshots(conn, account_id, 1, 0)[0]
    return {
        **_view(row),
        "latest_balance": latest[0]["balance"] if latest else None,
        "latest_balance_date": latest[0]["datetime"] if latest else None,
        "trade_count": count,
        "round_trip_count": trip[0],
        "win_rate": round(trip[2] / trip[1], 6) if trip[1] else 0,
        "total_realized_pnl": cents(earned),
        **told,
    }


def _sum_earnings(conn: Connection, account_id: str, currency: str) -> tuple[Decimal, dict[str, Any]]:
    """What the account's round trips earned so far, in its currency, and what is said about other currencies."""
    of_account = round_trips.c.account_id == account_id
    own = exact_sum(round_trips.c.realized_pnl, round_trips.c.currency == currency)
    total = join_sum(*conn.execute(select(*own).where(of_account)).one())
    conversion = Conversion(conn, currency)
    foreign = read_foreign(conn, [of_account, differs(round_trips.c.currency, currency)], conversion)
    return total + sum((trip.converted for trip in foreign if trip.rate is not None), Decimal(0)), conversion.answer()


def record_balance(
    conn: Connection, account_id: str, balance: Decimal, moment: datetime, actor: str, source: str = "manual"
) -> tuple[dict[str, Any], bool]:
    """A snapshot, and whether it is new: an unchanged balance leaves the snapshot it repeats."""
    if require(conn, account_id)["is_system"]:
        raise Forbidden("system_account", "The system account has no balance.")
    table = balance_snapshots
    before = (
        conn.execute(
            select(table)
            .where(table.c.account_id == account_id, table.c.datetime <= moment)
            .order_by(table.c.datetime.desc(), table.c.id.desc())
            .limit(1)
        )
        .mappings()
        .one_or_none()
    )
    if before is not None and before["balance"] == balance:
        return _snapshot(before), False
    row = {"account_id": account_id, "datetime": moment, "balance": balance, "source": source}
    added = conn.execute(table.insert().values(**row).returning(table.c.id)).scalar_one()
    audit.record(conn, actor, "balance.record", "account", account_id)
    return _snapshot({**row, "id": added}), True


def snapshots(conn: Connection, account_id: str, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The balances of an account, newest first."""
    require(conn, account_id)
    table = balance_snapshots
    total = conn.execute(select(func.count()).select_from(table).where(table.c.account_id == account_id)).scalar_one()
    rows = conn.execute(
        select(table)
        .where(table.c.account_id == account_id)
        .order_by(table.c.datetime.desc(), table.c.id.desc())
        .limit(limit)
        .offset(offset)
    ).mappings()
    return [_snapshot(row) for row in rows], total


def _snapshot(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("id", "account_id", "balance", "datetime")}


def _view(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _SHOWN}
