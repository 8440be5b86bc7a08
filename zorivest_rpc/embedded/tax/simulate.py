"""A sale before it happens: which lots it would use, what it would cost in tax, and whether waiting helps.

The figures are those of the books (`trial`): a loss that a recent purchase takes over is not in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.embedded.tax import dates, selection
from zorivest_rpc.embedded.tax.estimate import estimate_gains
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    DISCLAIMER,
    OWN_TAXABLE,
    Accounts,
    CostBasisMethod,
    Direction,
    Price,
    TaxError,
    TaxProfile,
    WashPolicy,
)
from zorivest_rpc.embedded.tax.netting import Gains, split_by_character
from zorivest_rpc.embedded.tax.rates import SaleTax, tax_on
from zorivest_rpc.embedded.tax.trial import Replacement, Sale, SoldLot, Trial, try_sales
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = [
    "HoldSaving",
    "LotToClose",
    "RiskyLot",
    "SaleRequest",
    "SaleSimulation",
    "SaleSummary",
    "WashSaleRisk",
    "simulate_sale",
]

_DIRECTIONS = {"sell": Direction.LONG, "cover": Direction.SHORT}


class SaleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What would be sold (or covered), where, and at what price per share."""

    ticker: str
    account_id: str
    quantity: Decimal
    price: Decimal
    action: str = "sell"
    method: CostBasisMethod = CostBasisMethod.FIFO
    lot_ids: tuple[str, ...] = ()


class LotToClose(msgspec.Struct, frozen=True, kw_only=True):
    """`gain_loss` is what would be booked: proceeds less basis, without the `disallowed_loss`."""

    lot_id: str
    quantity: Decimal
    basis: Decimal
    proceeds: Decimal
    gain_loss: Decimal
    disallowed_loss: Decimal
    open_date: date
    holding_period_days: int
    is_long_term: bool
    wash_risk: bool


class SaleSummary(msgspec.Struct, frozen=True, kw_only=True):
    """`realized_gain` counts on the return; `economic_gain` is what is won or lost, disallowed or not."""

    total_proceeds: Decimal
    total_basis: Decimal
    economic_gain: Decimal
    disallowed_loss: Decimal
    realized_gain: Decimal
    st_gain: Decimal
    lt_gain: Decimal


class RiskyLot(msgspec.Struct, frozen=True, kw_only=True):
    """A recent purchase that would take over a loss from this sale; `matched_quantity` units of the sale, of a loss of
    `disallowed_loss`."""

    lot_id: str
    account_id: str
    ticker: str
    open_date: date
    quantity: Decimal
    matched_quantity: Decimal
    disallowed_loss: Decimal
    days_remaining: int
    is_tax_advantaged: bool


class WashSaleRisk(msgspec.Struct, frozen=True, kw_only=True):
    at_risk: bool
    affected_lots: tuple[RiskyLot, ...]
    wait_days: int


class HoldSaving(msgspec.Struct, frozen=True, kw_only=True):
    lot_id: str
    days: int
    saving: Decimal


class SaleSimulation(msgspec.Struct, frozen=True, kw_only=True):
    """`estimated_tax` looks at the sale alone; `year_effect` is what it changes beside the year's other gains;
    `market_price` is what is known of the price, beside the one that was asked for."""

    lots_to_close: tuple[LotToClose, ...]
    lots: tuple[LotToClose, ...]
    summary: SaleSummary
    estimated_tax: SaleTax
    wash_sale_risk: WashSaleRisk
    hold_savings: tuple[HoldSaving, ...]
    profile_source: str
    warnings: tuple[str, ...] = ()
    year_effect: Decimal | UnsetType = UNSET
    market_price: Price | None = None
    disclaimer: str = DISCLAIMER


def simulate_sale(
    lots: Sequence[Lot],
    request: SaleRequest,
    profile: TaxProfile,
    accounts: Accounts,
    *,
    today: date,
    policy: WashPolicy | None = None,
    realized: Gains | None = None,
    market_price: Price | None = None,
) -> SaleSimulation:
    """Simulate one sale on `today`; `lots` are all lots of all accounts, `realized` the year's results so far."""
    candidates = _candidates(lots, request)
    selection.select(  # refuses what there is not, before anything is tried
        candidates, request.method, request.quantity, price=request.price, today=today, lot_ids=request.lot_ids
    )
    trial = try_sales(lots, [_sale(request, candidates)], accounts, policy or profile.wash_policy, today=today)
    is_taxed = not accounts.get(request.account_id, OWN_TAXABLE).tax_advantaged
    gains = Gains()
    for row in trial.sold:
        gains += split_by_character(row.closed, row.closed.recognized, today, profile)
    closing = tuple(_to_close(row, today) for row in trial.sold)
    risks = trial.replacements if is_taxed else ()
    return SaleSimulation(
        lots_to_close=closing,
        lots=closing,
        summary=_summary(closing, gains),
        estimated_tax=tax_on(profile, gains if is_taxed else Gains()),
        wash_sale_risk=WashSaleRisk(
            at_risk=bool(risks),
            affected_lots=tuple(_risky(one, accounts) for one in risks),
            wait_days=max((one.days_to_clear for one in risks), default=0),
        ),
        hold_savings=tuple(_savings(trial, profile, today)) if is_taxed else (),
        profile_source=profile.source,
        warnings=tuple(_warnings(request, trial, is_taxed)),
        year_effect=UNSET if realized is None or not is_taxed else _year_effect(profile, realized, gains),
        market_price=market_price,
    )


def _sale(request: SaleRequest, candidates: Sequence[Lot]) -> Sale:
    return Sale(
        account_id=request.account_id,
        ticker=request.ticker,
        direction=candidates[0].direction,
        quantity=request.quantity,
        price=request.price,
        method=request.method,
        lot_ids=request.lot_ids,
        currency=candidates[0].currency,
    )


def _summary(rows: Sequence[LotToClose], gains: Gains) -> SaleSummary:
    proceeds, basis = sum((row.proceeds for row in rows), ZERO), sum((row.basis for row in rows), ZERO)
    return SaleSummary(
        total_proceeds=proceeds,
        total_basis=basis,
        economic_gain=proceeds - basis,
        disallowed_loss=sum((row.disallowed_loss for row in rows), ZERO),
        realized_gain=sum((row.gain_loss for row in rows), ZERO),
        st_gain=cents(gains.short_term + gains.ordinary),
        lt_gain=cents(gains.long_term),
    )


def _candidates(lots: Sequence[Lot], request: SaleRequest) -> list[Lot]:
    direction = _DIRECTIONS.get(request.action.lower())
    if direction is None:
        raise TaxError("unknown_value", f'No action "{request.action}"; one of sell, cover.')
    if request.quantity <= 0 or request.price <= 0:
        raise TaxError("invalid_quantity", "Quantity and price must be above zero.")
    found = [
        lot
        for lot in lots
        if not lot.is_closed
        and (lot.ticker, lot.account_id, lot.direction) == (request.ticker, request.account_id, direction)
    ]
    if not found:
        raise TaxError(
            "no_open_lots",
            f"No open {direction.value} lots of {request.ticker} in account {request.account_id}; "
            "get_tax_lots shows what is open.",
        )
    return _of_one_currency(found, request)


def _of_one_currency(lots: list[Lot], request: SaleRequest) -> list[Lot]:
    """The position that a sale is of: what was paid in another currency is another position, as in the books."""
    named = [lot for lot in lots if lot.lot_id in request.lot_ids]
    currencies = sorted({lot.currency for lot in named or lots})
    if len(currencies) > 1:
        raise TaxError(
            "several_currencies",
            f"Account {request.account_id} holds {request.ticker} in {' and '.join(currencies)}, which are positions "
            "of their own; name lots of one of them (cost_basis_method SPEC_ID with lot_ids from get_tax_lots).",
        )
    return [lot for lot in lots if lot.currency == currencies[0]]


def _to_close(row: SoldLot, today: date) -> LotToClose:
    """One lot as it would be closed; for a cover, buying back is the basis and the short sale the proceeds."""
    lot = row.closed
    proceeds, basis = cents(lot.received or ZERO), cents((lot.cost or ZERO) + lot.wash_sale_adjustment)
    disallowed = cents(lot.disallowed)
    return LotToClose(
        lot_id=row.lot_id,
        quantity=lot.quantity,
        basis=basis,
        proceeds=proceeds,
        gain_loss=proceeds - basis + disallowed,
        disallowed_loss=disallowed,
        open_date=lot.open_date,
        holding_period_days=lot.holding_days(today),
        is_long_term=lot.is_long_term(today),
        wash_risk=lot.disallowed > 0,
    )


def _risky(one: Replacement, accounts: Accounts) -> RiskyLot:
    lot = one.lot
    return RiskyLot(
        lot_id=lot.lot_id,
        account_id=lot.account_id,
        ticker=lot.ticker,
        open_date=lot.open_date,
        quantity=one.quantity,
        matched_quantity=one.matched,
        disallowed_loss=cents(one.disallowed),
        days_remaining=one.days_to_clear,
        is_tax_advantaged=accounts.get(lot.account_id, OWN_TAXABLE).tax_advantaged,
    )


def _savings(trial: Trial, profile: TaxProfile, today: date) -> list[HoldSaving]:
    """For each gain that waiting would make long-term: the days, and the tax it would save."""
    savings: list[HoldSaving] = []
    for row in trial.sold:
        gain = cents(row.closed.recognized)
        now = split_by_character(row.closed, gain, today, profile)
        days = dates.days_to_long_term(row.closed.holding_start, today)
        if gain <= 0 or not days or row.closed.direction is Direction.SHORT or now != Gains(short_term=gain):
            continue
        saving = tax_on(profile, now).total - tax_on(profile, Gains(long_term=gain)).total
        savings.append(HoldSaving(lot_id=row.lot_id, days=days, saving=saving))
    return savings


def _warnings(request: SaleRequest, trial: Trial, is_taxed: bool) -> list[str]:
    taxed_later = f"Account {request.account_id} is tax-advantaged; a sale in it is not taxed now."
    return [*([] if is_taxed else [taxed_later]), *trial.warnings]


def _year_effect(profile: TaxProfile, realized: Gains, gains: Gains) -> Decimal:
    before = estimate_gains(profile, realized).total_estimated_tax
    return estimate_gains(profile, realized + gains).total_estimated_tax - before
