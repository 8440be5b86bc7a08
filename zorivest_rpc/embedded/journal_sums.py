"""Fills in, beside rows of an older schema, what sums are now made from; a new database has nothing to fill in."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection, select

from .money import price
from .round_trip_store import execution_of
from .tables import round_trip_legs, round_trips, trades, transaction_ledger

__all__ = ["prepare"]

_THEN = (
    "exec_id", "account_id", "symbol", "time", "action", "quantity", "price", "multiplier", "commission", "fees",
    "nbbo_bid", "nbbo_ask",
)  # fmt: skip
"""The columns of `trades` that this version of the schema has; later ones are not there yet."""


def prepare(conn: Connection, now: datetime) -> None:
    """The account, time and broker of every charge, which trades have charges, and what round trips lost to quotes."""
    ledger, legs = transaction_ledger.c, round_trip_legs.c
    of_trade = (
        select(column).where(trades.c.exec_id == ledger.trade_exec_id).scalar_subquery()
        for column in (trades.c.account_id, trades.c.time, trades.c.broker)
    )
    conn.execute(transaction_ledger.update().values(dict(zip(("account_id", "time", "broker"), of_trade, strict=True))))
    listed = select(ledger.trade_exec_id)
    conn.execute(trades.update().where(trades.c.exec_id.in_(listed)).values(is_itemised=True))
    lost: dict[str, Decimal] = {}
    quoted = select(*(trades.c[name] for name in _THEN), legs.round_trip_id, legs.quantity.label("filled")).join(
        round_trip_legs, legs.exec_id == trades.c.exec_id
    )
    for row in conn.execute(quoted.where(trades.c.nbbo_bid.is_not(None))).mappings():
        fill = execution_of({**row, "currency": "USD"})  # its money is not looked at here
        if fill.slip is not None:
            part = price(fill.slip * row["filled"] * fill.multiplier)
            lost[row["round_trip_id"]] = lost.get(row["round_trip_id"], Decimal(0)) + part
    for trip, slippage in lost.items():
        conn.execute(round_trips.update().where(round_trips.c.id == trip).values(slippage=slippage))
