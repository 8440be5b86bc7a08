"""A year's gains in, the tax they cause out: ordinary brackets, stacked long-term rates, NIIT, state, carryforward.

Rule 1: the estimate is what the trading adds to the tax on everything else. Other income is `agi_estimate`.
Rule 2: taxable income is income less the standard deduction; what other income leaves of the deduction shelters gains,
ordinary ones first.
Rule 3: more gain never means less tax."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.embedded.tax import brackets
from zorivest_rpc.embedded.tax.law import StatusTable, federal, statute
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    DISCLAIMER,
    OWN_TAXABLE,
    Accounts,
    CostBasisMethod,
    FilingStatus,
    Price,
    TaxProfile,
    WashPolicy,
)
from zorivest_rpc.embedded.tax.netting import Gains, Netted, counted_lots, gains_of, net, split_by_character
from zorivest_rpc.embedded.tax.symbols import underlying
from zorivest_rpc.embedded.tax.trial import Sale, try_sales
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = [
    "AnnualEstimate",
    "BracketRow",
    "FederalEstimate",
    "RealizedGains",
    "UnrealizedEstimate",
    "annual_estimate",
    "base_income",
    "estimate_gains",
    "federal_total",
    "net_of",
    "niit",
    "other_income_tax",
    "state_tax",
    "year_gains",
]


class BracketRow(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """Dollars of gain taxed at one rate."""

    kind: str
    rate: Decimal
    start: Decimal
    end: Decimal | None
    amount: Decimal
    tax: Decimal


class RealizedGains(msgspec.Struct, frozen=True, kw_only=True):
    short_term: Decimal
    long_term: Decimal
    ordinary: Decimal
    net: Decimal
    deductible_loss: Decimal
    absorbed_loss: Decimal
    carried_in_st: Decimal
    carried_in_lt: Decimal
    carryforward_st: Decimal
    carryforward_lt: Decimal


class FederalEstimate(msgspec.Struct, frozen=True, kw_only=True):
    ordinary_increment: Decimal
    long_term: Decimal
    niit: Decimal
    total: Decimal
    bracket_breakdown: tuple[BracketRow, ...]
    marginal_rate: Decimal
    long_term_rate: Decimal
    niit_alert: bool


class UnrealizedEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Open lots as if sold today: their result as it would be booked, and the tax it would add.

    `disallowed_loss` would move into purchases that are not sold with them, such as those of an IRA."""

    short_term: Decimal
    long_term: Decimal
    net: Decimal
    disallowed_loss: Decimal
    additional_tax: Decimal
    total_with_unrealized: Decimal
    prices: dict[str, Price]
    stale_tickers: tuple[str, ...]
    skipped_tickers: tuple[str, ...]


class AnnualEstimate(msgspec.Struct, frozen=True, kw_only=True):
    tax_year: int
    filing_status: FilingStatus
    realized_gains: RealizedGains
    federal_estimate: FederalEstimate
    total_estimated_tax: Decimal
    brackets_year: int
    brackets_projected: bool
    profile_source: str
    notes: tuple[str, ...] = ()
    state_estimate: Decimal | UnsetType = UNSET
    effective_rate: Decimal | UnsetType = UNSET
    unrealized: UnrealizedEstimate | UnsetType = UNSET
    disclaimer: str = DISCLAIMER


class _Base(msgspec.Struct, frozen=True):
    """Where the gains begin: ordinary taxable income without them, and the deduction that is left for them."""

    taxable: Decimal
    unused_deduction: Decimal


def base_income(profile: TaxProfile, table: StatusTable) -> _Base:
    left = profile.agi_estimate - table.standard_deduction
    return _Base(max(ZERO, left), max(ZERO, -left))


def net_of(profile: TaxProfile, gains: Gains) -> Netted:
    """A year's results netted with what was carried into it, against the income that can absorb a net loss."""
    table = federal(profile.tax_year).of(profile.filing_status)
    income = profile.agi_estimate + gains.ordinary - table.standard_deduction
    is_bracket_known = profile.agi_estimate == 0 and profile.federal_bracket > 0
    return net(
        gains,
        profile.filing_status,
        carry_st=profile.capital_loss_carryforward,
        carry_lt=profile.capital_loss_carryforward_lt,
        income=None if is_bracket_known else income,  # a bracket without an income: some taxable income there is
    )


def niit(status: FilingStatus, magi: Decimal, investment_income: Decimal) -> Decimal:
    """Net investment income tax (§1411): on the smaller of the income and the excess over the threshold."""
    law = statute()
    excess = max(ZERO, magi - law.niit_threshold[status.value])
    return cents(law.niit_rate * min(max(ZERO, investment_income), excess))


def state_tax(profile: TaxProfile, netted: Netted, ordinary: Decimal) -> Decimal:
    """A flat rate on what is left after netting."""
    return cents(profile.state_tax_rate * max(ZERO, netted.short_term + netted.long_term + ordinary))


# long: the lines of Form 1040's worksheets in their order, then the answer that shows them
def estimate_gains(profile: TaxProfile, gains: Gains) -> AnnualEstimate:
    """The estimate for results already summed up."""
    year = federal(profile.tax_year)
    table, status = year.of(profile.filing_status), profile.filing_status
    netted = net_of(profile, gains)
    base = base_income(profile, table)
    ordinary = netted.short_term + gains.ordinary - netted.deductible_loss
    sheltered = min(base.unused_deduction, max(ZERO, ordinary))
    level = max(ZERO, base.taxable + ordinary - sheltered)
    unspent = max(ZERO, base.unused_deduction - base.taxable - ordinary)  # deduction or ordinary loss left over
    long_taxed = max(ZERO, netted.long_term - unspent)
    ordinary_parts = brackets.slices(table.ordinary_brackets(), base.taxable, level)
    long_parts = brackets.slices(table.long_term_brackets(), level, level + long_taxed)
    rows = (*(_row("ordinary", part) for part in ordinary_parts), *(_row("long_term", part) for part in long_parts))
    increment = cents(brackets.tax_of(ordinary_parts))
    long_tax = cents(brackets.tax_of(long_parts))
    net_gain = netted.short_term + netted.long_term + gains.ordinary
    magi = profile.agi_estimate + net_gain - netted.deductible_loss
    surtax = niit(status, magi, net_gain)
    federal_tax = increment + long_tax + surtax
    state = state_tax(profile, netted, gains.ordinary)
    total = federal_tax + state
    whole_net = gains.total - profile.capital_loss_carryforward - profile.capital_loss_carryforward_lt
    return AnnualEstimate(
        tax_year=profile.tax_year,
        filing_status=status,
        realized_gains=RealizedGains(
            short_term=cents(gains.short_term),
            long_term=cents(gains.long_term),
            ordinary=cents(gains.ordinary),
            net=cents(gains.total),
            deductible_loss=cents(netted.deductible_loss),
            absorbed_loss=cents(netted.absorbed_loss),
            carried_in_st=cents(profile.capital_loss_carryforward),
            carried_in_lt=cents(profile.capital_loss_carryforward_lt),
            carryforward_st=cents(netted.carryforward_st),
            carryforward_lt=cents(netted.carryforward_lt),
        ),
        federal_estimate=FederalEstimate(
            ordinary_increment=increment,
            long_term=long_tax,
            niit=surtax,
            total=federal_tax,
            bracket_breakdown=rows,
            marginal_rate=brackets.marginal_rate(table.ordinary_brackets(), level),
            long_term_rate=brackets.marginal_rate(table.long_term_brackets(), level + long_taxed),
            niit_alert=magi >= statute().niit_alert_from * statute().niit_threshold[status.value],
        ),
        state_estimate=state if profile.state or profile.state_tax_rate else UNSET,
        total_estimated_tax=total,
        effective_rate=(total / whole_net).quantize(Decimal("0.0001")) if whole_net > 0 else UNSET,
        brackets_year=year.year,
        brackets_projected=year.year != profile.tax_year,
        profile_source=profile.source,
        notes=tuple(_notes(profile, year.year)),
    )


def _row(kind: str, part: brackets.Slice) -> BracketRow:
    return BracketRow(
        kind=kind, rate=part.rate, start=part.start, end=part.end, amount=cents(part.amount), tax=cents(part.tax)
    )


def _notes(profile: TaxProfile, table_year: int) -> Iterable[str]:
    if table_year != profile.tax_year:
        yield f"No tax tables for {profile.tax_year}; those of {table_year} were used."
    if profile.agi_estimate == 0:
        yield "The profile names no other income, so the gains are taxed from the lowest bracket up."


def federal_total(profile: TaxProfile, gains: Gains) -> Decimal:
    """The whole federal tax of the year: on other income, and what the gains add."""
    return max(ZERO, other_income_tax(profile) + estimate_gains(profile, gains).federal_estimate.total)


def other_income_tax(profile: TaxProfile) -> Decimal:
    """The federal tax on other income alone."""
    table = federal(profile.tax_year).of(profile.filing_status)
    return brackets.ordinary_tax(table, base_income(profile, table).taxable)


def year_gains(
    lots: Iterable[Lot],
    profile: TaxProfile,
    accounts: Accounts,
    *,
    until: date | None = None,
    account_id: str | None = None,
) -> Gains:
    """Recognised results of the profile's year, up to `until` where given."""
    first, last = date(profile.tax_year, 1, 1), date(profile.tax_year, 12, 31)
    end = last if until is None else min(last, until)
    return gains_of(counted_lots(lots, accounts, start=first, end=end, account_id=account_id), profile)


def annual_estimate(
    lots: Iterable[Lot],
    profile: TaxProfile,
    accounts: Accounts,
    *,
    account_id: str | None = None,
    prices: Mapping[str, Price] | None = None,
    today: date | None = None,
    policy: WashPolicy | None = None,
) -> AnnualEstimate:
    """The estimate for a year's closed lots; with `prices` and `today`, open lots are shown beside it as if sold.

    `lots` then has the open ones of every account: what the others bought can take over a loss."""
    known = list(lots)
    realized = year_gains(known, profile, accounts, account_id=account_id)
    estimate = estimate_gains(profile, realized)
    if prices is None or today is None:
        return estimate
    related: dict[str, list[Lot]] = {}
    for lot in known:
        if not lot.is_closed:
            related.setdefault(underlying(lot.ticker), []).append(lot)
    asked = [
        lot
        for lots in related.values()
        for lot in lots
        if account_id in (None, lot.account_id) and not accounts.get(lot.account_id, OWN_TAXABLE).tax_advantaged
    ]
    sold = [lot for lot in asked if lot.ticker in prices]
    open_gains, disallowed = _sell(sold, related, prices, profile, accounts, policy or profile.wash_policy, today)
    whole = estimate_gains(profile, realized + open_gains).total_estimated_tax
    tickers = sorted({lot.ticker for lot in asked})
    unrealized = UnrealizedEstimate(
        short_term=cents(open_gains.short_term + open_gains.ordinary),
        long_term=cents(open_gains.long_term),
        net=cents(open_gains.total),
        disallowed_loss=cents(disallowed),
        additional_tax=whole - estimate.total_estimated_tax,
        total_with_unrealized=whole,
        prices={ticker: prices[ticker] for ticker in tickers if ticker in prices},
        stale_tickers=tuple(ticker for ticker in tickers if ticker in prices and prices[ticker].stale),
        skipped_tickers=tuple(ticker for ticker in tickers if ticker not in prices),
    )
    return msgspec.structs.replace(estimate, unrealized=unrealized)


def _sell(
    lots: Iterable[Lot],
    related: Mapping[str, list[Lot]],
    prices: Mapping[str, Price],
    profile: TaxProfile,
    accounts: Accounts,
    policy: WashPolicy,
    today: date,
) -> tuple[Gains, Decimal]:
    """What selling these lots today would bring, and the loss that the wash sale rule would disallow."""
    groups: dict[str, list[Lot]] = {}
    for lot in lots:
        groups.setdefault(underlying(lot.ticker), []).append(lot)
    gains, disallowed = Gains(), ZERO
    for group, sold in groups.items():
        trial = try_sales(related[group], _sales(sold, prices), accounts, policy, today=today)
        held = sum((lot.gain_at(prices[lot.ticker].price) for lot in sold), ZERO)
        disallowed += trial.recognized - held  # a loss that moved into a lot sold with it is not lost
        for row in trial.sold:
            gains += split_by_character(row.closed, row.closed.recognized, today, profile)
    return gains, disallowed


def _sales(lots: Iterable[Lot], prices: Mapping[str, Price]) -> list[Sale]:
    """Whole lots sold by name, position after position, the oldest position first."""
    positions: dict[tuple[str, str, str], list[Lot]] = {}
    for lot in sorted(lots, key=lambda lot: lot.order):
        positions.setdefault((lot.account_id, lot.ticker, lot.currency), []).append(lot)
    return [
        Sale(
            account_id=account_id,
            ticker=ticker,
            direction=own[0].direction,
            quantity=sum((lot.quantity for lot in own), ZERO),
            price=prices[ticker].price,
            method=CostBasisMethod.SPEC_ID,
            lot_ids=tuple(lot.lot_id for lot in own),
            currency=currency,
        )
        for (account_id, ticker, currency), own in positions.items()
    ]
