"""One tax lot: units opened together, and closed together once they are sold or covered.

Amounts are totals for the lot, so that a cut never has to divide a price; prices per unit are derived. A long lot knows
its `cost` from the start and its `received` when it is sold; a short lot is the other way round."""

from __future__ import annotations

import hashlib
from datetime import date, datetime
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax import dates
from zorivest_rpc.embedded.tax.model import DOLLAR, AcquisitionSource, CostBasisMethod, Direction, TaxFill
from zorivest_rpc.embedded.tax.money import per_unit
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Lot", "source_hash"]


class Lot(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """`wash_sale_adjustment` was taken over from washed losses; `disallowed` of its own loss went to replacements.

    `washed_quantity` counts units of a closed loss already matched, `replaced_units` counts units (shares, also behind
    an option) of this lot already used as a replacement: no share replaces two losses. Amounts are dollars, `currency`
    is what was paid in: a position is one account, one ticker and one currency."""

    lot_id: str
    account_id: str
    ticker: str
    direction: Direction
    quantity: Decimal
    multiplier: Decimal
    asset_class: AssetClass
    opened_at: datetime
    open_date: date
    cost: Decimal | None
    received: Decimal | None
    purchase: str
    linked_trade_ids: tuple[str, ...]
    closed_at: datetime | None = None
    close_date: date | None = None
    wash_sale_adjustment: Decimal = ZERO
    disallowed: Decimal = ZERO
    washed_quantity: Decimal = ZERO
    replaced_units: Decimal = ZERO
    tacked_days: int = 0
    chain_ids: tuple[str, ...] = ()
    source: AcquisitionSource = AcquisitionSource.PURCHASE
    method: CostBasisMethod | None = None
    delivered: bool = False
    pieces: int = 0
    source_hash: str = ""
    currency: str = DOLLAR

    @property
    def is_closed(self) -> bool:
        return self.close_date is not None

    @property
    def units(self) -> Decimal:
        """Shares, or the shares behind the contracts."""
        return self.quantity * self.multiplier

    @property
    def order(self) -> tuple[datetime, str, int, str]:
        """First in, first out; pieces of one purchase in the order they were cut."""
        return (self.opened_at, self.linked_trade_ids[0], len(self.lot_id), self.lot_id)

    @property
    def cost_basis(self) -> Decimal | None:
        """Per share, as bought, before any wash-sale adjustment."""
        return None if self.cost is None else per_unit(self.cost, self.units)

    @property
    def proceeds(self) -> Decimal | None:
        """Per share, as sold."""
        return None if self.received is None else per_unit(self.received, self.units)

    @property
    def total_basis(self) -> Decimal | None:
        """What the whole lot cost, with the losses it took over (§1091(d))."""
        return None if self.cost is None else self.cost + self.wash_sale_adjustment

    @property
    def gain(self) -> Decimal:
        """Gain or loss of a closed lot against its adjusted basis, before any of it is disallowed."""
        if self.cost is None or self.received is None:
            return ZERO
        return self.received - self.cost - self.wash_sale_adjustment

    @property
    def recognized(self) -> Decimal:
        """What a closed lot contributes to the return."""
        return self.gain + self.disallowed

    def gain_at(self, price: Decimal) -> Decimal:
        """Gain or loss if the whole open lot were closed at `price` per share, without commission."""
        value = price * self.units
        if self.direction is Direction.LONG:
            return value - (self.cost or ZERO) - self.wash_sale_adjustment
        return (self.received or ZERO) - value - self.wash_sale_adjustment

    @property
    def holding_start(self) -> date:
        return dates.holding_start(self.open_date, self.tacked_days)

    def holding_days(self, today: date) -> int:
        """Days held until the close, or until `today` while open, with the days taken over from washed losses."""
        return max(0, ((self.close_date or today) - self.holding_start).days)

    def is_long_term(self, today: date) -> bool:
        """More than one year (§1222); inherited always (§1223(9)), short positions never."""
        if self.direction is Direction.SHORT:
            return False
        if self.source is AcquisitionSource.INHERITANCE:
            return True
        return dates.is_long_term(self.holding_start, self.close_date or today)

    def days_to_long_term(self, today: date) -> int | None:
        """Days an open lot still has to wait; None where waiting changes nothing."""
        if self.is_closed or self.direction is Direction.SHORT:
            return None
        if self.source is AcquisitionSource.INHERITANCE:
            return 0
        return dates.days_to_long_term(self.holding_start, today)


def source_hash(execution: TaxFill) -> str:
    """The fingerprint of the fill a lot came from; a changed trade gives a changed fingerprint."""
    parts = (
        execution.exec_id,
        execution.symbol,
        str(execution.quantity.normalize()),
        str(execution.price.normalize()),
        execution.time.isoformat(),
    )
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()
