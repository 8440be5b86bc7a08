"""Capital losses carried from year to year: each year's rest is the next year's starting figure (§1212(b)).

Rule 1: what a profile states for its year counts and ends the look back; nothing before it matters any more.
Rule 2: otherwise the figure follows from the results of the years before, the first year of the journal starting at
nothing. A year without results still uses up some of the loss, by its own limit and its own income."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from zorivest_rpc.embedded.tax.estimate import net_of
from zorivest_rpc.embedded.tax.model import TaxProfile
from zorivest_rpc.embedded.tax.netting import Gains
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Carryover", "carry_into", "with_carryover"]


class Carryover(msgspec.Struct, frozen=True):
    """Losses brought into a year; `source` is `profile`, `journal` (the years before) or `none`.

    `without_income` are the years whose profile names no other income, so that no deduction was used up in them."""

    short_term: Decimal = ZERO
    long_term: Decimal = ZERO
    source: str = "none"
    without_income: tuple[int, ...] = ()


def carry_into(
    year: int,
    results: Mapping[int, Gains],
    profile_of: Callable[[int], TaxProfile],
    described: Collection[int] = (),
) -> Carryover:
    """What is carried into `year`; `results` are the recognised gains of the years before it, `described` the years
    whose profile may state a figure although nothing was sold in them."""
    own = profile_of(year)
    if own.states_carryforward:
        return Carryover(own.capital_loss_carryforward, own.capital_loss_carryforward_lt, "profile")
    first = min((known for known in (*results, *described) if known < year), default=year)
    profiles: dict[int, TaxProfile] = {}
    for before in range(year - 1, first - 1, -1):
        profiles[before] = profile_of(before)
        if profiles[before].states_carryforward:
            break
    carried = Carryover()
    for before in sorted(profiles):
        carried = _go_on(carried, profiles[before], results.get(before, Gains()))
    if not (carried.short_term or carried.long_term):
        return Carryover()
    return carried


def _go_on(carried: Carryover, profile: TaxProfile, gains: Gains) -> Carryover:
    if profile.states_carryforward:
        carried = Carryover(profile.capital_loss_carryforward, profile.capital_loss_carryforward_lt)
    netted = net_of(with_carryover(profile, carried), gains)
    is_unknown = netted.deductible_loss > netted.absorbed_loss and profile.agi_estimate == 0
    without = (*carried.without_income, profile.tax_year) if is_unknown else carried.without_income
    return Carryover(netted.carryforward_st, netted.carryforward_lt, "journal", without)


def with_carryover(profile: TaxProfile, carried: Carryover) -> TaxProfile:
    """The profile with what is carried into its year."""
    return replace(
        profile, capital_loss_carryforward=carried.short_term, capital_loss_carryforward_lt=carried.long_term
    )
