"""Options without a closing trade: after their last day, worthless ones get a closing trade at zero.

An option ended worthless if the underlying's last stored price of its last days was out of the money. In the money it
was exercised or assigned, which only the broker knows; without a stored price it is unknown. Those stay open and are
shown with a flag."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, time, timedelta

from sqlalchemy import ColumnElement, Connection, select

from ..analytics.expiration import settle_expired
from ..database.engine import Database
from ..database.schema.journal import round_trips
from ..market import stored_bars as bars
from ..values.symbols import parse_instrument
from . import trades
from .round_trips import episode_of

__all__ = ["settle", "settle_due"]

_LAST_DAYS = timedelta(days=4)  # a long weekend before the last day is still its last known price
_trips = round_trips.c


async def settle_due(db: Database) -> None:
    """Close what expired worthless; costs one indexed look while nothing is due, and a write only if there is one."""
    now = datetime.now(UTC)
    if await db.read(lambda conn: bool(_closings(conn, now))):
        await db.write(lambda conn: settle(conn, now))


def settle(conn: Connection, now: datetime) -> int:
    """Close every open option that ended worthless; how many there were."""
    drafts = _closings(conn, now)
    for draft in drafts:
        trades.insert(conn, draft, actor="backend", auto_create=False)
    return len(drafts)


def _closings(conn: Connection, now: datetime) -> list[trades.Draft]:
    """The trades at zero that are due."""
    found = []
    for row in conn.execute(select(round_trips).where(*_due(now)).order_by(_trips.id)).mappings().all():
        what = parse_instrument(row["instrument"])
        assert what.contract is not None  # only options have a last day
        end = datetime.combine(what.contract.expiry + timedelta(days=1), time(), UTC)
        price = bars.last_close(conn, what.underlying, end, end - _LAST_DAYS)
        closing = settle_expired(episode_of(row), what.contract, price, now.date()).execution
        if closing is None:
            continue
        opener = trades.require(conn, row["opened_by"])
        found.append(
            trades.Draft(
                exec_id=_name(closing.exec_id),
                time=closing.time,
                instrument=closing.symbol,
                what=what,
                action="BOT" if closing.side == 1 else "SLD",
                quantity=closing.quantity,
                price=closing.price,
                account_id=closing.account_id,
                multiplier=closing.multiplier,
                notes="Expired worthless.",
                currency=row["currency"],
                source="demo" if opener["source"] == "demo" else "expiry",
            )
        )
    return found


def _name(wanted: str) -> str:
    """An id that fits, as unlike any other as the one it stands for."""
    return wanted if len(wanted) <= 128 else f"expired-{hashlib.sha256(wanted.encode()).hexdigest()}"


def _due(now: datetime) -> tuple[ColumnElement[bool], ...]:
    return (_trips.expires_on < now.date(), _trips.expires_on.is_not(None), _trips.status != "closed")
