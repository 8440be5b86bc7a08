"""Short- and long-term results netted against each other, the yearly loss limit, and what carries forward."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.law import statute
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import OWN_TAXABLE, Accounts, FilingStatus, TaxProfile
from zorivest_rpc.embedded.tax.symbols import is_section_1256
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Gains", "Netted", "counted_lots", "gains_of", "net", "split_by_character"]

_LONG_SHARE_1256 = Decimal("0.6")


class Gains(msgspec.Struct, frozen=True):
    """Results before netting; `ordinary` holds those of a mark-to-market trader (§475(f))."""

    short_term: Decimal = ZERO
    long_term: Decimal = ZERO
    ordinary: Decimal = ZERO

    @property
    def total(self) -> Decimal:
        return self.short_term + self.long_term + self.ordinary

    def __add__(self, other: Gains) -> Gains:
        return Gains(
            self.short_term + other.short_term, self.long_term + other.long_term, self.ordinary + other.ordinary
        )

    def times(self, factor: Decimal) -> Gains:
        return Gains(self.short_term * factor, self.long_term * factor, self.ordinary * factor)


class Netted(msgspec.Struct, frozen=True, kw_only=True):
    """What is taxed, what is deducted and what is left for later years; none of these is negative.

    `absorbed_loss` is the part of the deduction that taxable income used up; the rest of it carries forward."""

    short_term: Decimal
    long_term: Decimal
    deductible_loss: Decimal
    absorbed_loss: Decimal
    carryforward_st: Decimal
    carryforward_lt: Decimal


def net(
    gains: Gains,
    status: FilingStatus,
    *,
    carry_st: Decimal = ZERO,
    carry_lt: Decimal = ZERO,
    income: Decimal | None = None,
) -> Netted:
    """Net each term with its own carryforward, then the two with each other (§1222, §1212(b)).

    A loss that is left is deducted up to 3,000 dollars, 1,500 for a separate return (§1211(b)), short-term first.
    `income` is taxable income before that deduction, below zero where deductions exceed it: only as much of the
    deduction as it covers is used up (§1212(b)(2); lines 1 to 4 of the Capital Loss Carryover Worksheet of Schedule D).
    Without it the whole deduction is."""
    short, long = gains.short_term - carry_st, gains.long_term - carry_lt
    if short < 0 < long:
        short, long = min(ZERO, short + long), max(ZERO, short + long)
    elif long < 0 < short:
        short, long = max(ZERO, short + long), min(ZERO, short + long)
    loss_st, loss_lt = max(ZERO, -short), max(ZERO, -long)
    deductible = min(statute().capital_loss_limit[status.value], loss_st + loss_lt)
    absorbed = deductible if income is None else min(deductible, max(ZERO, income))
    used_st = min(absorbed, loss_st)
    return Netted(
        short_term=max(ZERO, short),
        long_term=max(ZERO, long),
        deductible_loss=deductible,
        absorbed_loss=absorbed,
        carryforward_st=loss_st - used_st,
        carryforward_lt=loss_lt - (absorbed - used_st),
    )


def counted_lots(
    lots: Iterable[Lot],
    accounts: Accounts,
    *,
    start: date,
    end: date,
    account_id: str | None = None,
) -> list[Lot]:
    """Closed lots whose result belongs on the return: taxable accounts, closed from `start` to `end`.

    Delivered options are left out: their premium is in the shares."""
    return [
        lot
        for lot in lots
        if lot.close_date is not None
        and start <= lot.close_date <= end
        and not lot.delivered
        and account_id in (None, lot.account_id)
        and not accounts.get(lot.account_id, OWN_TAXABLE).tax_advantaged
    ]


def gains_of(lots: Iterable[Lot], profile: TaxProfile) -> Gains:
    """Recognised results of closed lots by character."""
    total = Gains()
    for lot in lots:
        total += split_by_character(lot, lot.recognized, lot.close_date or lot.open_date, profile)
    return total


def split_by_character(lot: Lot, amount: Decimal, day: date, profile: TaxProfile) -> Gains:
    """An amount from one lot as ordinary, 60/40 (§1256(a)(3)), long-term or short-term."""
    if profile.section_475_elected:
        return Gains(ordinary=amount)
    if profile.section_1256_eligible and is_section_1256(lot.ticker, lot.asset_class):
        long = amount * _LONG_SHARE_1256
        return Gains(short_term=amount - long, long_term=long)
    return Gains(long_term=amount) if lot.is_long_term(day) else Gains(short_term=amount)
