"""The year so far on one page: results, wash sales, estimated tax, and the four quarterly payments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.embedded.tax.estimate import estimate_gains
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    DISCLAIMER,
    Accounts,
    EstimationMethod,
    Quarter,
    TaxError,
    TaxProfile,
)
from zorivest_rpc.embedded.tax.netting import counted_lots, gains_of
from zorivest_rpc.embedded.tax.quarterly import TaxPayment, income_by_period, quarterly_estimate
from zorivest_rpc.embedded.tax.wash import WashMatch
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = ["QuarterRow", "SymbolRow", "YearSummary", "summarize_year"]


class QuarterRow(msgspec.Struct, frozen=True, kw_only=True):
    """`paid` and `due` are cumulative, as the law counts them; `required` is the quarter's own installment."""

    quarter: Quarter
    required: Decimal
    paid: Decimal
    due: Decimal
    due_date: date
    status: str


class SymbolRow(msgspec.Struct, frozen=True, kw_only=True):
    ticker: str
    st_gains: Decimal
    lt_gains: Decimal
    total_gains: Decimal
    lot_count: int


class YearSummary(msgspec.Struct, frozen=True, kw_only=True):
    tax_year: int
    account_id: str | None
    realized_st_gain: Decimal
    realized_lt_gain: Decimal
    total_realized: Decimal
    wash_sale_adjustments: Decimal
    trades_count: int
    estimated_federal_tax: Decimal
    estimated_state_tax: Decimal
    estimated_tax: Decimal
    capital_loss_carryforward: Decimal
    quarterly_payments: tuple[QuarterRow, ...]
    profile_source: str
    by_symbol: tuple[SymbolRow, ...] | UnsetType = UNSET
    notes: tuple[str, ...] = ()
    disclaimer: str = DISCLAIMER


def summarize_year(
    lots: Iterable[Lot],
    matches: Iterable[WashMatch],
    profile: TaxProfile,
    accounts: Accounts,
    payments: Sequence[TaxPayment],
    *,
    today: date,
    account_id: str | None = None,
    group_by: str | None = None,
) -> YearSummary:
    """Totals of the profile's year up to `today`; payments always concern the taxpayer, never one account."""
    if group_by not in (None, "symbol"):
        raise TaxError("unknown_value", f'No grouping "{group_by}"; only symbol.')
    known = list(lots)
    start, end = date(profile.tax_year, 1, 1), min(today, date(profile.tax_year, 12, 31))
    closed = counted_lots(known, accounts, start=start, end=end, account_id=account_id)
    gains = gains_of(closed, profile)
    estimate = estimate_gains(profile, gains)
    short, long = cents(gains.short_term + gains.ordinary), cents(gains.long_term)
    washed = sum(
        (
            match.disallowed
            for match in matches
            if start <= match.loss_date <= end and account_id in (None, match.loss_account_id)
        ),
        ZERO,
    )
    state = ZERO if estimate.state_estimate is UNSET else estimate.state_estimate
    carried = estimate.realized_gains.carryforward_st + estimate.realized_gains.carryforward_lt
    return YearSummary(
        tax_year=profile.tax_year,
        account_id=account_id,
        realized_st_gain=short,
        realized_lt_gain=long,
        total_realized=short + long,
        wash_sale_adjustments=cents(washed),
        trades_count=len(closed),
        estimated_federal_tax=estimate.federal_estimate.total,
        estimated_state_tax=state,
        estimated_tax=estimate.total_estimated_tax,
        capital_loss_carryforward=carried,
        quarterly_payments=tuple(_quarters(known, profile, accounts, payments, today)),
        profile_source=profile.source,
        by_symbol=UNSET if group_by is None else tuple(_by_symbol(closed, profile)),
        notes=estimate.notes,
    )


def _quarters(
    lots: Sequence[Lot], profile: TaxProfile, accounts: Accounts, payments: Sequence[TaxPayment], today: date
) -> Iterable[QuarterRow]:
    income = income_by_period(lots, profile, accounts, today)
    for quarter in Quarter:
        estimate = quarterly_estimate(
            quarter, profile, income, payments, method=EstimationMethod.ANNUALIZED, today=today
        )
        yield QuarterRow(
            quarter=quarter,
            required=estimate.required,
            paid=estimate.paid,
            due=estimate.due,
            due_date=estimate.due_date,
            status=estimate.status,
        )


def _by_symbol(closed: Iterable[Lot], profile: TaxProfile) -> Iterable[SymbolRow]:
    groups: dict[str, list[Lot]] = {}
    for lot in closed:
        groups.setdefault(lot.ticker, []).append(lot)
    for ticker in sorted(groups):
        gains = gains_of(groups[ticker], profile)
        short, long = cents(gains.short_term + gains.ordinary), cents(gains.long_term)
        yield SymbolRow(
            ticker=ticker, st_gains=short, lt_gains=long, total_gains=short + long, lot_count=len(groups[ticker])
        )
