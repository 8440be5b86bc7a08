"""Open positions whose losses could be taken now, the largest first, with what would spoil them.

Each symbol's losing lots are sold on trial, as the books would: what recent purchases would take over is exact, and the
rest of the loss can be taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.law import replacements
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    DISCLAIMER,
    OWN_TAXABLE,
    Accounts,
    CostBasisMethod,
    Direction,
    Price,
    TaxProfile,
    WashPolicy,
)
from zorivest_rpc.embedded.tax.rates import marginal_rates
from zorivest_rpc.embedded.tax.symbols import underlying
from zorivest_rpc.embedded.tax.trial import Replacement, Sale, Trial, try_sales
from zorivest_rpc.embedded.tax.wash import can_be_washed
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = ["HarvestLot", "HarvestReport", "Opportunity", "scan_harvest"]


class HarvestLot(msgspec.Struct, frozen=True, kw_only=True):
    lot_id: str
    account_id: str
    quantity: Decimal
    total_basis: Decimal
    current_value: Decimal
    unrealized_loss: Decimal
    holding_period_days: int
    is_long_term: bool


class Opportunity(msgspec.Struct, frozen=True, kw_only=True):
    """One symbol's losses; losses are written as positive amounts.

    `disallowed_loss` is what recent purchases would take over if all the lots were sold today, `allowed_loss` what
    would count."""

    ticker: str
    lots: tuple[HarvestLot, ...]
    unrealized_loss: Decimal
    disallowed_loss: Decimal
    allowed_loss: Decimal
    holding_period: str
    short_term_loss: Decimal
    long_term_loss: Decimal
    wash_risk: bool
    wash_reason: str | None
    wash_window_end: date | None
    days_to_clear: int
    replacements: tuple[str, ...]
    price: Decimal
    price_source: str
    price_as_of: date | None
    stale: bool


class HarvestReport(msgspec.Struct, frozen=True, kw_only=True):
    opportunities: tuple[Opportunity, ...]
    total_harvestable: Decimal
    total_wash_risk: Decimal
    net_harvestable: Decimal
    estimated_tax_savings: Decimal
    skipped_tickers: tuple[str, ...]
    profile_source: str
    caution: str
    disclaimer: str = DISCLAIMER


def scan_harvest(
    lots: Iterable[Lot],
    prices: Mapping[str, Price],
    profile: TaxProfile,
    accounts: Accounts,
    *,
    today: date,
    policy: WashPolicy | None = None,
    account_id: str | None = None,
    min_loss: Decimal = Decimal(100),
    exclude_wash_risk: bool = False,
) -> HarvestReport:
    """Scan open long lots of taxable accounts."""
    rules = policy or profile.wash_policy
    held = [lot for lot in lots if not lot.is_closed]
    related: dict[str, list[Lot]] = {}
    for lot in held:
        related.setdefault(underlying(lot.ticker), []).append(lot)
    skipped: dict[str, None] = {}
    losing: dict[str, list[Lot]] = {}
    for lot in held:
        if lot.direction is Direction.SHORT or account_id not in (None, lot.account_id):
            continue
        if accounts.get(lot.account_id, OWN_TAXABLE).tax_advantaged:
            continue
        price = prices.get(lot.ticker)
        if price is None:
            skipped[lot.ticker] = None
        elif lot.gain_at(price.price) < 0:
            losing.setdefault(lot.ticker, []).append(lot)
    found: list[Opportunity] = []
    for ticker, group in losing.items():
        trial = _try(group, related[underlying(ticker)], prices[ticker], accounts, rules, today)
        opportunity = _opportunity(ticker, group, prices[ticker], trial, today)
        if opportunity.unrealized_loss >= min_loss and not (exclude_wash_risk and opportunity.wash_risk):
            found.append(opportunity)
    found.sort(key=lambda opportunity: (-opportunity.unrealized_loss, opportunity.ticker))
    total = sum((one.unrealized_loss for one in found), ZERO)
    risky = sum((one.disallowed_loss for one in found), ZERO)
    rates = marginal_rates(profile)
    return HarvestReport(
        opportunities=tuple(found),
        total_harvestable=total,
        total_wash_risk=risky,
        net_harvestable=total - risky,
        estimated_tax_savings=cents((total - risky) * (rates.ordinary + rates.state)),
        skipped_tickers=tuple(sorted(skipped)),
        profile_source=profile.source,
        caution=replacements().caution,
    )


def _try(
    group: list[Lot], related: list[Lot], price: Price, accounts: Accounts, policy: WashPolicy, today: date
) -> Trial:
    """Sell the losing lots of a symbol, by name, position after position."""
    if not any(can_be_washed(lot, accounts, policy, today) for lot in group):
        return Trial((), (), ())
    positions: dict[tuple[str, str], list[Lot]] = {}
    for lot in sorted(group, key=lambda lot: lot.order):
        positions.setdefault((lot.account_id, lot.currency), []).append(lot)
    sales = [
        Sale(
            account_id=account_id,
            ticker=group[0].ticker,
            direction=Direction.LONG,
            quantity=sum((lot.quantity for lot in own), ZERO),
            price=price.price,
            method=CostBasisMethod.SPEC_ID,
            lot_ids=tuple(lot.lot_id for lot in own),
            currency=currency,
        )
        for (account_id, currency), own in sorted(positions.items(), key=lambda item: item[0])
    ]
    return try_sales(related, sales, accounts, policy, today=today)


def _opportunity(ticker: str, group: list[Lot], price: Price, trial: Trial, today: date) -> Opportunity:
    risks = trial.replacements
    # Against the lots as held: a loss that moved into a lot of the same harvest counts with that one.
    loss = sum((lot.gain_at(price.price) for lot in group), ZERO)
    rows = tuple(_row(lot, price, today) for lot in sorted(group, key=lambda lot: lot.order))
    short = sum((row.unrealized_loss for row in rows if not row.is_long_term), ZERO)
    long = sum((row.unrealized_loss for row in rows if row.is_long_term), ZERO)
    # Two lots that lose 0.004 each show no loss, together 0.01: what is taken over is never more than what is shown.
    disallowed = min(cents(trial.recognized - loss), short + long) if trial.sold else ZERO
    kinds = {row.is_long_term for row in rows}
    return Opportunity(
        ticker=ticker,
        lots=rows,
        unrealized_loss=short + long,
        disallowed_loss=disallowed,
        allowed_loss=short + long - disallowed,
        holding_period="mixed" if len(kinds) == 2 else "long_term" if True in kinds else "short_term",
        short_term_loss=short,
        long_term_loss=long,
        wash_risk=bool(risks),
        wash_reason=_reason(risks, disallowed),
        wash_window_end=max((risk.window_end for risk in risks), default=None),
        days_to_clear=max((risk.days_to_clear for risk in risks), default=0),
        replacements=replacements().of(ticker),
        price=price.price,
        price_source=price.source,
        price_as_of=price.as_of,
        stale=price.stale,
    )


def _reason(risks: Sequence[Replacement], disallowed: Decimal) -> str | None:
    if not risks:
        return None
    latest = risks[0].lot
    return (
        f"{latest.ticker} was bought on {latest.open_date} in account {latest.account_id} ({latest.lot_id}); recent "
        f"purchases would take over {disallowed} of the loss."
    )


def _row(lot: Lot, price: Price, today: date) -> HarvestLot:
    return HarvestLot(
        lot_id=lot.lot_id,
        account_id=lot.account_id,
        quantity=lot.quantity,
        total_basis=cents(lot.total_basis or ZERO),
        current_value=cents(price.price * lot.units),
        unrealized_loss=cents(-lot.gain_at(price.price)),
        holding_period_days=lot.holding_days(today),
        is_long_term=lot.is_long_term(today),
    )
