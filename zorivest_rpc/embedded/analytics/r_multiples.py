"""Results in units of risk: 1R is what a plan's stop put at risk, or the average loss where there was no plan."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.analytics.moments import Moments, moments_of
from zorivest_rpc.embedded.values.money import exactly

__all__ = ["RMultiples", "RUnit", "TripResult", "r_moments", "r_multiples", "unit_of"]

RUnit = Literal["planned_risk", "mixed", "avg_loss", "avg_win", "none"]


class TripResult(msgspec.Struct, frozen=True):
    """Net result of a closed round trip, and the money its linked plan put at risk, if it had a plan with a stop."""

    pnl: Decimal
    planned_risk: Decimal | None = None


class RMultiples(msgspec.Struct, frozen=True):
    """Results in R, in their given order, and what one R was."""

    values: tuple[Decimal, ...]
    unit: RUnit


def unit_of(pnl: Moments) -> tuple[Decimal, RUnit]:
    """1R of trades without a plan: the average loss, or without losses the average win, to keep a scale."""
    if pnl.avg_loss > 0:
        return pnl.avg_loss, "avg_loss"
    if pnl.avg_win > 0:
        return pnl.avg_win, "avg_win"
    return Decimal(1), "none"


@exactly
def r_multiples(results: Iterable[TripResult]) -> RMultiples:
    """Every result in its R."""
    given = list(results)
    unit, basis = unit_of(moments_of(result.pnl for result in given))
    risks = [result.planned_risk if result.planned_risk and result.planned_risk > 0 else None for result in given]
    values = tuple(result.pnl / (risk or unit) for result, risk in zip(given, risks, strict=True))
    return RMultiples(values, _name_unit(basis, sum(risk is not None for risk in risks), len(given)))


def r_moments(pnl: Moments, planned: Moments, unplanned: Moments) -> tuple[Moments, RUnit]:
    """The sums of the R of all results, from sums alone.

    `pnl` sums all results in money, `planned` those with a planned risk already divided by it, `unplanned` the others
    in money."""
    unit, basis = unit_of(pnl)
    together = planned.plus(unplanned.in_units_of(unit))
    return together, _name_unit(basis, planned.count, together.count)


def _name_unit(basis: RUnit, planned: int, count: int) -> RUnit:
    if not planned:
        return basis
    return "planned_risk" if planned == count else "mixed"
