"""What is in the journal, as counts: one query, a version that changes exactly when the counts do.

The version is a digest of the content, so it survives a restart and needs no bookkeeping in any write. A later area
adds its counters to `COUNTERS`; until it exists its count is truly zero."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Any

import orjson
from sqlalchemy import Connection, Select, func, select

from .brokers.configs import brokers_configured
from .database.engine import Database
from .database.schema.books import tax_profiles
from .database.schema.journal import (
    accounts,
    images,
    mistake_entries,
    round_trip_legs,
    round_trips,
    trade_plans,
    trade_reports,
    trades,
)
from .database.schema.scheduling import policies
from .market.connections import providers_configured

__all__ = ["COUNTERS", "Summary"]

COUNTERS: dict[str, Select[int] | None] = {
    "trades": select(func.count()).select_from(trades),
    "round_trips_closed": select(func.count()).select_from(round_trips).where(round_trips.c.status == "closed"),
    "accounts": select(func.count()).select_from(accounts).where(accounts.c.is_system.is_(False)),
    # tax lots are made on demand; what they will be made of is known before: entries, and those still open
    "lots_open": select(func.count()).select_from(round_trip_legs).where(round_trip_legs.c.open_quantity > Decimal(0)),
    "lots": select(func.count()).select_from(round_trip_legs).where(round_trip_legs.c.role == "entry"),
    "tax_profiles": select(func.count()).select_from(tax_profiles),
    "mistakes": select(func.count()).select_from(mistake_entries),
    "policies": select(func.count()).select_from(policies),
    "brokers_configured": brokers_configured(),
    "providers_configured": providers_configured(),
    "images": select(func.count()).select_from(images),
    "plans": select(func.count()).select_from(trade_plans),
    "reports": select(func.count()).select_from(trade_reports),
}
_MOST_ACCOUNTS = 50


class Summary:
    """The counts of one open database; asked again only after something was written."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._seen = -1
        self._value: dict[str, Any] = {}

    async def read(self) -> dict[str, Any]:
        """`{version, counters, sets}`."""
        commits = self._db.commits  # before the query: a write during it makes the next call look again
        if commits != self._seen:
            self._value = await self._db.read(_count)
            self._seen = commits
        return self._value


def _count(conn: Connection) -> dict[str, Any]:
    named = (
        select(accounts.c.account_id)
        .where(accounts.c.is_system.is_(False))  # archived ones too: what is in them can still be asked for
        .order_by(accounts.c.account_id)
        .limit(_MOST_ACCOUNTS)
        .subquery()
    )
    columns = [query.scalar_subquery().label(name) for name, query in COUNTERS.items() if query is not None]
    # one text, because SQLite and PostgreSQL make JSON by other functions; an id has no line break in it
    ids = select(func.aggregate_strings(named.c.account_id, "\n")).scalar_subquery().label("account_ids")
    row = conn.execute(select(*columns, ids)).mappings().one()
    counters = {name: row.get(name, 0) for name in COUNTERS}
    told = row["account_ids"]
    content = {"counters": counters, "sets": {"account_ids": sorted(told.split("\n")) if told else []}}
    digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).digest()
    return {"version": int.from_bytes(digest[:6], "big"), **content}
