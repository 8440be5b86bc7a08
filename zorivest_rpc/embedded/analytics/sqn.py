"""The System Quality Number: how steady the edge is, as one figure and a grade."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.analytics.expectancy import LOW_SAMPLE, NO_ROUND_TRIPS
from zorivest_rpc.embedded.analytics.moments import Moments
from zorivest_rpc.embedded.analytics.r_multiples import RUnit
from zorivest_rpc.embedded.values.answers import Hint
from zorivest_rpc.embedded.values.money import ZERO, divide, exactly, ratio, root, round_to

__all__ = ["Grade", "SystemQuality", "grade_of", "sqn", "sqn_value"]

Grade = Literal["Poor", "Below average", "Average", "Good", "Excellent", "Superb", "Holy Grail", "N/A"]

_BANDS: tuple[tuple[Decimal, Grade], ...] = (
    (Decimal("1.6"), "Poor"),
    (Decimal("2.0"), "Below average"),
    (Decimal("2.5"), "Average"),
    (Decimal("3.0"), "Good"),
    (Decimal("5.0"), "Excellent"),
    (Decimal("7.0"), "Superb"),
)
_MOST_TRADES = 100
_STEP = Decimal("0.001")


class SystemQuality(msgspec.Struct, frozen=True):
    """The number, its grade, and what went into it."""

    period: str
    account_id: str | None
    sqn: Decimal
    grade: Grade
    trade_count: int
    n_used: int
    mean_r: Decimal
    std_r: Decimal | None
    r_unit: RUnit
    low_sample: bool
    hint: Hint = msgspec.UNSET


@exactly
def sqn_value(results: Moments) -> Decimal | None:
    """sqrt(min(N, 100)) * mean / deviation, or None where fewer than two results or no spread leave it undefined.

    Money does as well as R when 1R is the same for all: the unit cancels."""
    quotient = divide(results.mean, results.std_dev or ZERO)
    return None if quotient is None else root(min(results.count, _MOST_TRADES)) * quotient


def grade_of(value: Decimal | None) -> Grade:
    """The band the number falls into; its lower end belongs to it."""
    if value is None:
        return "N/A"
    return next((grade for below, grade in _BANDS if value < below), "Holy Grail")


def sqn(r_results: Moments, r_unit: RUnit, *, period: str = "all", account_id: str | None = None) -> SystemQuality:
    """The answer from the sums of the R of closed round trips (see `r_moments` and `Moments.in_units_of`)."""
    value = sqn_value(r_results)
    return SystemQuality(
        period=period,
        account_id=account_id,
        sqn=ZERO if value is None else round_to(value, _STEP),
        grade=grade_of(value),
        trade_count=r_results.count,
        n_used=min(r_results.count, _MOST_TRADES),
        mean_r=ratio(r_results.mean) or ZERO,
        std_r=ratio(r_results.std_dev),
        r_unit=r_unit,
        low_sample=r_results.count < LOW_SAMPLE,
        hint=msgspec.UNSET if r_results.count else NO_ROUND_TRIPS,
    )
