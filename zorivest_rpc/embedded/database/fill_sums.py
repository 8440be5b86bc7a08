"""Fills in, beside rows of an older schema, what sums are now made from; a new database has nothing to fill in."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection, RowMapping, select

from ..values.money import price
from .schema.journal import round_trip_legs, round_trips, trades, transaction_ledger

__all__ = ["prepare"]

_THEN = ("action", "price", "multiplier", "nbbo_bid", "nbbo_ask")
"""The columns of `trades` that are read here; later ones are not there yet when this version is applied."""


def prepare(conn: Connection, now: datetime) -> None:
    """The account, time and broker of every charge, which trades have charges, and what round trips lost to quotes."""
    ledger, legs = transaction_ledger.c, round_trip_legs.c
    of_trade = (
        select(column).where(trades.c.exec_id == ledger.trade_exec_id).scalar_subquery()
        for column in (trades.c.account_id, trades.c.time, trades.c.broker)
    )
    conn.execute(transaction_ledger.update().values(dict(zip(("account_id", "time", "broker"), of_trade, strict=True))))
    itemised = select(ledger.trade_exec_id)
    conn.execute(trades.update().where(trades.c.exec_id.in_(itemised)).values(is_itemised=True))
    lost: dict[str, Decimal] = {}
    quoted = select(*(trades.c[name] for name in _THEN), legs.round_trip_id, legs.quantity.label("filled")).join(
        round_trip_legs, legs.exec_id == trades.c.exec_id
    )
    for row in conn.execute(quoted.where(trades.c.nbbo_bid.is_not(None))).mappings():
        slip = _slip(row)
        if slip is not None:
            part = price(slip * row["filled"] * row["multiplier"])
            lost[row["round_trip_id"]] = lost.get(row["round_trip_id"], Decimal(0)) + part
    for trip, slippage in lost.items():
        conn.execute(round_trips.update().where(round_trips.c.id == trip).values(slippage=slippage))


def _slip(row: RowMapping) -> Decimal | None:
    """How much worse than the quote a unit was, as this version defined it: a published migration does not follow
    later definitions. None with an empty or crossed quote."""
    bid, ask, paid = row["nbbo_bid"], row["nbbo_ask"], row["price"]
    if ask is None or not 0 < bid <= ask or not paid:
        return None
    slip: Decimal = paid - ask if row["action"] == "BOT" else bid - paid
    return slip
