"""Reads round trips in other currencies than an answer's, each with the rate of its own day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal, localcontext
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, select

from ..database.schema.journal import round_trips, trades
from .exchange import Conversion, own_rate

__all__ = ["ForeignTrip", "read_foreign"]

_trips = round_trips.c


class ForeignTrip(NamedTuple):
    """A round trip in another currency than its scope's; `rate` turns its money into the scope's, where it is known.

    The rate is that of the execution that came last, which is when the result was made."""

    id: str
    closed_at: datetime
    currency: str
    pnl: Decimal
    fees: Decimal
    slippage: Decimal | None
    rate: Decimal | None

    @property
    def converted(self) -> Decimal:
        """The result in the scope's currency."""
        return self.at_rate(self.pnl)

    def at_rate(self, amount: Decimal) -> Decimal:
        assert self.rate is not None  # only trips with a rate are converted
        with localcontext(prec=60):
            return amount * self.rate


_RATED = ("currency", "fx_rate", "fx_base", "asset_class", "symbol", "price")


def read_foreign(
    conn: Connection, wanted: Sequence[ColumnElement[bool]], conversion: Conversion, kind: str = "results"
) -> list[ForeignTrip]:
    """Round trips in other currencies than the conversion's, with their rates where known, in the order of closing."""
    rows = conn.execute(
        select(
            _trips.id, _trips.last_at, _trips.realized_pnl, _trips.matched_fees, _trips.slippage,
            *(trades.c[name] for name in _RATED),
        )
        .join(trades, trades.c.exec_id == _trips.last_by)
        .where(*wanted, _trips.realized_pnl.is_not(None))
        .order_by(_trips.last_at, _trips.id)
    )  # fmt: skip
    found = []
    for row in rows:
        rate = conversion.rate(row.currency, row.last_at, own_rate(row))
        conversion.note(kind, row.currency, row.last_at, rate, row.realized_pnl)
        found.append(
            ForeignTrip(row.id, row.last_at, row.currency, row.realized_pnl, row.matched_fees, row.slippage, rate)
        )
    return found
