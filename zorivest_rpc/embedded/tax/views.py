"""Lots as a reader sees them: filtered, sorted, priced, and summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import DISCLAIMER, Direction, Price, TaxError
from zorivest_rpc.embedded.tax.money import per_unit
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = ["LotList", "LotSummary", "LotView", "list_lots", "view"]


class LotView(msgspec.Struct, frozen=True, kw_only=True):
    """One lot. A short lot shows what its sale brought in as its basis, and a negative current value."""

    lot_id: str
    ticker: str
    account_id: str
    direction: Direction
    quantity: Decimal
    cost_basis: Decimal
    total_basis: Decimal
    date_acquired: date
    open_date: date
    close_date: date | None
    proceeds: Decimal | None
    holding_period_days: int
    is_long_term: bool
    days_to_long_term: int | None
    wash_sale_adjustment: Decimal
    disallowed_loss: Decimal
    tacked_days: int
    current_price: Decimal | None
    current_value: Decimal | None
    unrealized_gain_loss: Decimal | None
    realized_gain_loss: Decimal | None
    price_source: str | None
    price_as_of: date | None
    price_stale: bool | None
    linked_trade_ids: tuple[str, ...]
    acquisition_source: str
    paid_in: str
    sync_status: str = "synced"


class LotSummary(msgspec.Struct, frozen=True, kw_only=True):
    total_lots: int
    total_basis: Decimal
    total_unrealized: Decimal
    unpriced_tickers: tuple[str, ...]
    stale_tickers: tuple[str, ...]


class LotList(msgspec.Struct, frozen=True, kw_only=True):
    lots: tuple[LotView, ...]
    summary: LotSummary
    total_count: int
    disclaimer: str = DISCLAIMER


_SORTS: dict[str, Callable[[LotView], Decimal | int]] = {
    "date_acquired": lambda lot: lot.open_date.toordinal(),
    "cost_basis": lambda lot: -lot.total_basis,
    "gain_loss": lambda lot: -(_gain(lot) or ZERO),
    "holding_period": lambda lot: -lot.holding_period_days,
}
_SORT_ALIASES = {"acquired_date": "date_acquired"}


def _gain(lot: LotView) -> Decimal | None:
    return lot.unrealized_gain_loss if lot.realized_gain_loss is None else lot.realized_gain_loss


def view(lot: Lot, price: Price | None, today: date) -> LotView:
    is_long = lot.direction is Direction.LONG
    opening = (lot.cost if is_long else lot.received) or ZERO
    closing = lot.received if is_long else lot.cost
    signed = 1 if is_long else -1
    known = None if lot.is_closed else price
    return LotView(
        lot_id=lot.lot_id,
        ticker=lot.ticker,
        account_id=lot.account_id,
        direction=lot.direction,
        quantity=lot.quantity,
        cost_basis=per_unit(opening, lot.units),
        total_basis=cents(opening + signed * lot.wash_sale_adjustment),
        date_acquired=lot.open_date,
        open_date=lot.open_date,
        close_date=lot.close_date,
        proceeds=per_unit(closing or ZERO, lot.units) if lot.is_closed else None,
        holding_period_days=lot.holding_days(today),
        is_long_term=lot.is_long_term(today),
        days_to_long_term=lot.days_to_long_term(today),
        wash_sale_adjustment=cents(lot.wash_sale_adjustment),
        disallowed_loss=cents(lot.disallowed),
        tacked_days=lot.tacked_days,
        current_price=known.price if known else None,
        current_value=cents(signed * known.price * lot.units) if known else None,
        unrealized_gain_loss=cents(lot.gain_at(known.price)) if known else None,
        realized_gain_loss=cents(lot.recognized) if lot.is_closed else None,
        price_source=known.source if known else None,
        price_as_of=known.as_of if known else None,
        price_stale=known.stale if known else None,
        linked_trade_ids=lot.linked_trade_ids,
        acquisition_source=lot.source.value,
        paid_in=lot.currency,
    )


def list_lots(
    lots: Iterable[Lot],
    prices: Mapping[str, Price],
    *,
    today: date,
    status: str = "open",
    sort_by: str = "date_acquired",
) -> LotList:
    """Lots, open, closed or all; dates ascending, everything else largest first."""
    key = _SORTS.get(_SORT_ALIASES.get(sort_by, sort_by))
    if key is None:
        raise TaxError("unknown_value", f'No sort "{sort_by}"; one of {", ".join(_SORTS)}.')
    wanted = {"open": (False,), "closed": (True,), "all": (False, True)}.get(status.lower())
    if wanted is None:
        raise TaxError("unknown_value", f'No status "{status}"; one of open, closed, all.')
    views = [view(lot, prices.get(lot.ticker), today) for lot in lots if lot.is_closed in wanted]
    views.sort(key=lambda lot: (key(lot), lot.open_date, lot.lot_id))
    still_open = [lot for lot in views if lot.close_date is None]
    return LotList(
        lots=tuple(views),
        summary=LotSummary(
            total_lots=len(views),
            total_basis=sum((lot.total_basis for lot in views), ZERO),
            total_unrealized=sum((lot.unrealized_gain_loss or ZERO for lot in still_open), ZERO),
            unpriced_tickers=tuple(sorted({lot.ticker for lot in still_open if lot.current_price is None})),
            stale_tickers=tuple(sorted({lot.ticker for lot in still_open if lot.price_stale})),
        ),
        total_count=len(views),
    )
