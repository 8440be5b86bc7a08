"""The words of a position: a fill, the lots and sums that fills leave, and a share split."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Episode", "Execution", "Fill", "Key", "LotUse", "OpenPart", "Sign", "SplitRatio", "Status"]

Sign = Literal[1, -1]
"""+1 buys, -1 sells."""
Key = tuple[datetime, str]
Status = Literal["open", "partial", "closed"]


class Execution(msgspec.Struct, frozen=True):
    """One fill; `fee` is commission plus all other fees of it, `slip` how much worse than the quote a unit was. All
    of its money is in `currency`."""

    exec_id: str
    account_id: str
    symbol: str
    time: datetime
    side: Sign
    quantity: Decimal
    price: Decimal
    multiplier: Decimal = Decimal(1)
    fee: Decimal = ZERO
    slip: Decimal | None = None
    currency: str = "USD"

    @property
    def key(self) -> Key:
        """Its place in history."""
        return (self.time, self.exec_id)


class SplitRatio(msgspec.Struct, frozen=True):
    """From `effective` on, `of` old shares are `to` new ones: 4 of 1 in a four-for-one, 1 of 10 in a reverse split."""

    effective: datetime
    to: Decimal
    of: Decimal


class OpenPart(msgspec.Struct, frozen=True):
    """What is still open of one entry: the quantity and the part of the fee that no exit has carried yet."""

    exec_id: str
    time: datetime
    quantity: Decimal
    price: Decimal
    multiplier: Decimal
    fee: Decimal


class LotUse(msgspec.Struct, frozen=True):
    """A lot after an exit took from it; nothing left means the lot is gone."""

    exec_id: str
    quantity_left: Decimal
    fee_left: Decimal


class Fill(msgspec.Struct, frozen=True):
    """The part of an execution that belongs to one round trip; a flip has one in each of two."""

    round_trip_id: str
    exec_id: str
    time: datetime
    role: Literal["entry", "exit"]
    quantity: Decimal
    price: Decimal
    fee: Decimal
    realized: Decimal


class Episode(msgspec.Struct, frozen=True):
    """The running sums of one round trip; of constant size however many executions it has.

    `opened_skip` is how much of the opening execution had closed the episode before (a flip). `matched_fees` are the
    fees that exits have realised: their own and the entries' in proportion; `fees` are all that were charged.
    `slippage` is the money lost against quotes, None while no fill had one."""

    id: str
    account_id: str
    symbol: str
    direction: Sign
    multiplier: Decimal
    opened_at: datetime
    opened_by: str
    opened_skip: Decimal
    last_at: datetime
    last_by: str
    entry_quantity: Decimal = ZERO
    entry_value: Decimal = ZERO
    exit_quantity: Decimal = ZERO
    exit_value: Decimal = ZERO
    gross: Decimal = ZERO
    matched_fees: Decimal = ZERO
    fees: Decimal = ZERO
    slippage: Decimal | None = None
    currency: str = "USD"

    @property
    def open_quantity(self) -> Decimal:
        """What is still held, without its sign."""
        return self.entry_quantity - self.exit_quantity

    @property
    def realized(self) -> Decimal:
        """Net result of what was closed so far."""
        return self.gross - self.matched_fees

    @property
    def status(self) -> Status:
        """Open without an exit, partial with some, closed when flat."""
        if not self.exit_quantity:
            return "open"
        return "partial" if self.open_quantity else "closed"

    @property
    def opened_key(self) -> Key:
        """The place of its first execution."""
        return (self.opened_at, self.opened_by)

    @property
    def last_key(self) -> Key:
        """The place of its latest execution."""
        return (self.last_at, self.last_by)
