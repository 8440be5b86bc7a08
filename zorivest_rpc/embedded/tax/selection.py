"""Which open lots a sale uses up, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.holdings import basis_per_unit
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import AcquisitionSource, CostBasisMethod, Direction, TaxError
from zorivest_rpc.embedded.tax.money import apportion
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Pick", "average", "average_cost_warning", "order", "select", "take"]


class Pick(msgspec.Struct, frozen=True):
    """`quantity` units of one lot."""

    lot: Lot
    quantity: Decimal


# Rank of (long-term, gain) in each method; within a rank the larger gain goes first for the gain methods, and the
# larger loss (or smaller gain) for the loss methods.
_RANKS: dict[CostBasisMethod, dict[tuple[bool, bool], int]] = {
    CostBasisMethod.MAX_LT_GAIN: {(True, True): 0, (False, True): 1, (False, False): 2, (True, False): 3},
    CostBasisMethod.MAX_ST_GAIN: {(False, True): 0, (True, True): 1, (True, False): 2, (False, False): 3},
    CostBasisMethod.MAX_LT_LOSS: {(True, False): 0, (False, False): 1, (False, True): 2, (True, True): 3},
    CostBasisMethod.MAX_ST_LOSS: {(False, False): 0, (True, False): 1, (True, True): 2, (False, True): 3},
}
_GAIN_FIRST = {CostBasisMethod.MAX_LT_GAIN, CostBasisMethod.MAX_ST_GAIN}


def order(
    lots: Sequence[Lot],
    method: CostBasisMethod,
    *,
    price: Decimal,
    today: date,
    lot_ids: Sequence[str] = (),
) -> list[Lot]:
    """`lots` in the order `method` uses them up when `price` is offered; ties go to the older lot."""
    oldest_first = sorted(lots, key=lambda lot: lot.order)
    if method is CostBasisMethod.SPEC_ID:
        return _pick_named(oldest_first, lot_ids)
    if method is CostBasisMethod.LIFO:
        return sorted(oldest_first, key=lambda lot: lot.order, reverse=True)
    if method is CostBasisMethod.HIFO:
        return sorted(oldest_first, key=lambda lot: -basis_per_unit(lot))
    if method in _RANKS:
        ranks, sign = _RANKS[method], -1 if method in _GAIN_FIRST else 1

        def rank(lot: Lot) -> tuple[int, Decimal]:
            gain = lot.gain_at(price) / lot.units
            return ranks[lot.is_long_term(today), gain >= 0], sign * gain

        return sorted(oldest_first, key=rank)
    return oldest_first


def _pick_named(lots: Sequence[Lot], lot_ids: Sequence[str]) -> list[Lot]:
    if not lot_ids:
        raise TaxError("lot_ids_required", "Specific identification needs lot_ids; get_tax_lots lists the open lots.")
    by_id = {lot.lot_id: lot for lot in lots}
    unknown = [lot_id for lot_id in lot_ids if lot_id not in by_id]
    if unknown:
        raise TaxError("unknown_lot", f'No open lot "{unknown[0]}" here; get_tax_lots lists the open lots.')
    return [by_id[lot_id] for lot_id in dict.fromkeys(lot_ids)]


def take(ordered: Iterable[Lot], quantity: Decimal) -> tuple[list[Pick], Decimal]:
    """Use up `quantity` from `ordered`: the picks, and what no lot was left for."""
    picks: list[Pick] = []
    for lot in ordered:
        if quantity <= 0:
            break
        used = min(quantity, lot.quantity)
        picks.append(Pick(lot, used))
        quantity -= used
    return picks, quantity


def average(lots: Sequence[Lot]) -> list[Lot]:
    """The same lots with the position's cost spread evenly over its units; the total does not change.

    Wash-sale adjustments stay where they are: they belong to particular shares."""
    total = sum((lot.cost or ZERO for lot in lots), ZERO)
    costs = apportion(total, [lot.units for lot in lots])
    return [msgspec.structs.replace(lot, cost=cost) for lot, cost in zip(lots, costs, strict=True)]


def average_cost_warning(lots: Iterable[Lot]) -> str | None:
    """Average basis is for fund shares and dividend reinvestment plans only (Reg. §1.1012-1(e))."""
    for lot in lots:
        if lot.direction is Direction.SHORT:
            return "Average cost does not exist for short positions; the oldest lots were used."
        if lot.asset_class is AssetClass.MUTUAL_FUND or lot.source is AcquisitionSource.DRIP:
            continue
        if lot.asset_class is AssetClass.EQUITY:
            return (
                f"Average cost is allowed for fund shares and reinvested dividends; check that {lot.ticker} is a fund."
            )
        return f"Average cost is not allowed for {lot.asset_class.value.lower()} lots such as {lot.ticker}."
    return None


def select(
    lots: Sequence[Lot],
    method: CostBasisMethod,
    quantity: Decimal,
    *,
    price: Decimal,
    today: date,
    lot_ids: Sequence[str] = (),
) -> list[Pick]:
    """The lots a sale of `quantity` would use up; refuses more than there is."""
    usable = lots
    if method is CostBasisMethod.AVG_COST and all(lot.direction is Direction.LONG for lot in lots):
        usable = average(sorted(lots, key=lambda lot: lot.order))
    picks, missing = take(order(usable, method, price=price, today=today, lot_ids=lot_ids), quantity)
    if missing > 0:
        raise TaxError(
            "insufficient_quantity",
            f"{quantity} asked for, {quantity - missing} open in the lots that may be used; lower the quantity.",
        )
    return picks
