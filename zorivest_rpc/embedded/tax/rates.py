"""What the next dollar of gain costs: by the brackets where other income is known, else by the profile's own rate."""

from __future__ import annotations

from decimal import Decimal

import msgspec
from msgspec.structs import replace

from zorivest_rpc.embedded.tax import brackets
from zorivest_rpc.embedded.tax.estimate import base_income, estimate_gains
from zorivest_rpc.embedded.tax.law import federal
from zorivest_rpc.embedded.tax.model import TaxProfile
from zorivest_rpc.embedded.tax.netting import Gains, net
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = ["MarginalRates", "SaleTax", "marginal_rates", "tax_on"]


class MarginalRates(msgspec.Struct, frozen=True):
    """Federal rates on the next dollar, and the state's."""

    ordinary: Decimal
    long_term: Decimal
    state: Decimal


class SaleTax(msgspec.Struct, frozen=True, kw_only=True):
    """The tax one sale causes by itself; never negative."""

    federal_st: Decimal
    federal_lt: Decimal
    niit: Decimal
    state: Decimal
    total: Decimal


def _knows_bracket_only(profile: TaxProfile) -> bool:
    return profile.agi_estimate == 0 and profile.federal_bracket > 0


def _usual_long_term_rate(bracket: Decimal) -> Decimal:
    """The long-term rate that goes with an ordinary bracket nearly everywhere: 0 up to 12 %, 20 in the top one."""
    if bracket <= Decimal("0.12"):
        return ZERO
    return Decimal("0.15") if bracket < Decimal("0.37") else Decimal("0.20")


def marginal_rates(profile: TaxProfile) -> MarginalRates:
    if _knows_bracket_only(profile):
        bracket = profile.federal_bracket
        return MarginalRates(bracket, _usual_long_term_rate(bracket), profile.state_tax_rate)
    table = federal(profile.tax_year).of(profile.filing_status)
    level = base_income(profile, table).taxable
    return MarginalRates(
        brackets.marginal_rate(table.ordinary_brackets(), level),
        brackets.marginal_rate(table.long_term_brackets(), level),
        profile.state_tax_rate,
    )


def tax_on(profile: TaxProfile, gains: Gains) -> SaleTax:
    """The tax on gains that come on top of the profile's other income, taken by themselves."""
    alone = replace(profile, capital_loss_carryforward=ZERO, capital_loss_carryforward_lt=ZERO)
    estimate = estimate_gains(alone, gains)
    niit = estimate.federal_estimate.niit
    netted = net(gains, profile.filing_status)
    state = cents(profile.state_tax_rate * max(ZERO, netted.short_term + netted.long_term + gains.ordinary))
    if _knows_bracket_only(profile):
        rates = marginal_rates(profile)
        short = cents(rates.ordinary * max(ZERO, netted.short_term + gains.ordinary))
        long = cents(rates.long_term * netted.long_term)
    else:
        short = max(ZERO, estimate.federal_estimate.ordinary_increment)
        long = estimate.federal_estimate.long_term
    return SaleTax(federal_st=short, federal_lt=long, niit=niit, state=state, total=short + long + niit + state)
