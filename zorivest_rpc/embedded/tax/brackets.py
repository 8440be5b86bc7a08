"""Federal income tax on ordinary income and on long-term gains stacked above it, bracket by bracket."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.law import Bracket, StatusTable
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = ["Slice", "long_term_tax", "marginal_rate", "ordinary_tax", "slices", "tax_of"]


class Slice(msgspec.Struct, frozen=True):
    """The part of an income range that one rate applies to; negative where the range shrinks."""

    rate: Decimal
    start: Decimal
    end: Decimal | None
    amount: Decimal

    @property
    def tax(self) -> Decimal:
        return self.rate * self.amount


def slices(brackets: Iterable[Bracket], low: Decimal, high: Decimal) -> list[Slice]:
    """Cut the range from `low` to `high` at the brackets; a range that runs down gives negative amounts."""
    if high < low:
        return [Slice(part.rate, part.start, part.end, -part.amount) for part in slices(brackets, high, low)]
    parts: list[Slice] = []
    for bracket in brackets:
        top = high if bracket.end is None else min(high, bracket.end)
        amount = top - max(low, bracket.start)
        if amount > 0:
            parts.append(Slice(bracket.rate, bracket.start, bracket.end, amount))
    return parts


def tax_of(parts: Iterable[Slice]) -> Decimal:
    return sum((part.tax for part in parts), ZERO)


def ordinary_tax(table: StatusTable, taxable: Decimal) -> Decimal:
    """The tax rate schedule (§1(j)) on ordinary taxable income, in cents."""
    return cents(tax_of(slices(table.ordinary_brackets(), ZERO, max(ZERO, taxable))))


def long_term_tax(table: StatusTable, below: Decimal, gain: Decimal) -> Decimal:
    """The tax on a net capital gain that sits on top of `below` of ordinary taxable income (§1(h)), in cents."""
    base = max(ZERO, below)
    return cents(tax_of(slices(table.long_term_brackets(), base, base + max(ZERO, gain))))


def marginal_rate(brackets: Iterable[Bracket], taxable: Decimal) -> Decimal:
    """The rate on the next dollar."""
    rate = ZERO
    for bracket in brackets:
        if taxable >= bracket.start:
            rate = bracket.rate
    return rate
