"""A sale before it happens: which lots it would use, what it would cost in tax, and whether waiting helps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.embedded.tax import selection
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
)
from zorivest_rpc.embedded.tax.money import ZERO, cents, share_of
from zorivest_rpc.embedded.tax.netting import Gains, split_by_character
from zorivest_rpc.embedded.tax.rates import SaleTax, tax_on
from zorivest_rpc.embedded.tax.risk import Threat, threats
from zorivest_rpc.embedded.tax.selection import Pick

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
    lot_id: str
    quantity: Decimal
    basis: Decimal
    proceeds: Decimal
    gain_loss: Decimal
    open_date: date
    holding_period_days: int
    is_long_term: bool
    wash_risk: bool


class SaleSummary(msgspec.Struct, frozen=True, kw_only=True):
    total_proceeds: Decimal
    total_basis: Decimal
    realized_gain: Decimal
    st_gain: Decimal
    lt_gain: Decimal


class RiskyLot(msgspec.Struct, frozen=True, kw_only=True):
    """A recent purchase that would take over a loss from this sale."""

    lot_id: str
    account_id: str
    ticker: str
    open_date: date
    quantity: Decimal
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


class _Part(msgspec.Struct, frozen=True):
    pick: Pick
    basis: Decimal
    proceeds: Decimal
    is_long_term: bool

    @property
    def gain(self) -> Decimal:
        return self.proceeds - self.basis


def simulate_sale(
    lots: Sequence[Lot],
    request: SaleRequest,
    profile: TaxProfile,
    accounts: Accounts,
    *,
    today: date,
    realized: Gains | None = None,
    market_price: Price | None = None,
) -> SaleSimulation:
    """Simulate one sale on `today`; `lots` are all lots of all accounts, `realized` the year's results so far."""
    candidates = _candidates(lots, request)
    picks = selection.select(
        candidates, request.method, request.quantity, price=request.price, today=today, lot_ids=request.lot_ids
    )
    parts = [_part(pick, request.price, today) for pick in picks]
    is_taxed = not accounts.get(request.account_id, OWN_TAXABLE).tax_advantaged
    gains = Gains()
    for part in parts:
        gains += split_by_character(part.pick.lot, part.gain, today, profile)
    risks = _risks(lots, parts, profile, accounts, today) if is_taxed else []
    closing = tuple(_to_close(part, today, bool(risks)) for part in parts)
    basis, proceeds = sum((row.basis for row in closing), ZERO), sum((row.proceeds for row in closing), ZERO)
    return SaleSimulation(
        lots_to_close=closing,
        lots=closing,
        summary=SaleSummary(
            total_proceeds=proceeds,
            total_basis=basis,
            realized_gain=proceeds - basis,
            st_gain=cents(gains.short_term + gains.ordinary),
            lt_gain=cents(gains.long_term),
        ),
        estimated_tax=tax_on(profile, gains if is_taxed else Gains()),
        wash_sale_risk=WashSaleRisk(
            at_risk=bool(risks),
            affected_lots=tuple(_risky(threat, accounts) for threat in risks),
            wait_days=max((threat.days_to_clear for threat in risks), default=0),
        ),
        hold_savings=tuple(_savings(parts, profile, today)) if is_taxed else (),
        profile_source=profile.source,
        warnings=tuple(_warnings(request, candidates, is_taxed)),
        year_effect=UNSET if realized is None or not is_taxed else _year_effect(profile, realized, gains),
        market_price=market_price,
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
    return found


def _part(pick: Pick, price: Decimal, today: date) -> _Part:
    """One pick priced; for a cover, buying back is the basis and the short sale the proceeds."""
    lot = pick.lot
    value = price * pick.quantity * lot.multiplier
    opening = (lot.cost if lot.direction is Direction.LONG else lot.received) or ZERO
    opened = share_of(opening, pick.quantity, lot.quantity)
    adjustment = share_of(lot.wash_sale_adjustment, pick.quantity, lot.quantity)
    is_long_term = lot.is_long_term(today)
    if lot.direction is Direction.LONG:
        return _Part(pick, cents(opened + adjustment), cents(value), is_long_term)
    return _Part(pick, cents(value + adjustment), cents(opened), is_long_term)


def _to_close(part: _Part, today: date, at_risk: bool) -> LotToClose:
    lot = part.pick.lot
    return LotToClose(
        lot_id=lot.lot_id,
        quantity=part.pick.quantity,
        basis=part.basis,
        proceeds=part.proceeds,
        gain_loss=part.gain,
        open_date=lot.open_date,
        holding_period_days=lot.holding_days(today),
        is_long_term=part.is_long_term,
        wash_risk=at_risk and part.gain < 0,
    )


def _risks(
    lots: Sequence[Lot], parts: Sequence[_Part], profile: TaxProfile, accounts: Accounts, today: date
) -> list[Threat]:
    gone = {part.pick.lot.lot_id for part in parts if part.pick.quantity == part.pick.lot.quantity}
    held_after = [lot for lot in lots if not lot.is_closed and lot.lot_id not in gone]
    losses = [part.pick.lot for part in parts if part.gain < 0]
    return threats(losses, held_after, accounts, profile.wash_policy, today)


def _risky(threat: Threat, accounts: Accounts) -> RiskyLot:
    lot = threat.lot
    return RiskyLot(
        lot_id=lot.lot_id,
        account_id=lot.account_id,
        ticker=lot.ticker,
        open_date=lot.open_date,
        quantity=lot.quantity,
        days_remaining=threat.days_to_clear,
        is_tax_advantaged=accounts.get(lot.account_id, OWN_TAXABLE).tax_advantaged,
    )


def _savings(parts: Sequence[_Part], profile: TaxProfile, today: date) -> list[HoldSaving]:
    """For each gain that waiting would make long-term: the days, and the tax it would save."""
    savings: list[HoldSaving] = []
    for part in parts:
        days = part.pick.lot.days_to_long_term(today)
        now = split_by_character(part.pick.lot, part.gain, today, profile)
        if part.gain <= 0 or not days or now != Gains(short_term=part.gain):
            continue
        saving = tax_on(profile, now).total - tax_on(profile, Gains(long_term=part.gain)).total
        savings.append(HoldSaving(lot_id=part.pick.lot.lot_id, days=days, saving=saving))
    return savings


def _warnings(request: SaleRequest, candidates: Sequence[Lot], is_taxed: bool) -> list[str]:
    warnings = [] if is_taxed else [f"Account {request.account_id} is tax-advantaged; a sale in it is not taxed now."]
    if request.method is CostBasisMethod.AVG_COST:
        warning = selection.average_cost_warning(candidates)
        warnings += [warning] if warning else []
    return warnings


def _year_effect(profile: TaxProfile, realized: Gains, gains: Gains) -> Decimal:
    before = estimate_gains(profile, realized).total_estimated_tax
    return estimate_gains(profile, realized + gains).total_estimated_tax - before
