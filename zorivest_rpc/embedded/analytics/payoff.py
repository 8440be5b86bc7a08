"""What a set of options and shares is worth on expiry day: its extremes and where it breaks even.

The result is a broken line over the price of the underlying, bent only at strikes; so its values at zero and at every
strike, and its slope above the last one, say everything."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.values.money import ZERO, exactly

__all__ = ["Payoff", "PayoffLeg", "payoff", "value_at"]


class PayoffLeg(msgspec.Struct, frozen=True):
    """A call, a put or shares (of any strike); `size` is quantity times multiplier, negative when sold."""

    kind: Literal["C", "P", "S"]
    strike: Decimal
    size: Decimal


class Payoff(msgspec.Struct, frozen=True):
    """Extremes and zeros. None is unlimited; a negative `max_loss` says that even the worst end gains."""

    max_profit: Decimal | None
    max_loss: Decimal | None
    breakevens: tuple[Decimal, ...]


@exactly
def value_at(legs: Sequence[PayoffLeg], cash: Decimal, underlying: Decimal) -> Decimal:
    """The result at expiry with the underlying at a price; `cash` is what opening the position brought in."""
    return cash + sum((leg.size * _worth(leg, underlying) for leg in legs), ZERO)


def _worth(leg: PayoffLeg, underlying: Decimal) -> Decimal:
    if leg.kind == "C":
        return max(ZERO, underlying - leg.strike)
    if leg.kind == "P":
        return max(ZERO, leg.strike - underlying)
    return underlying


@exactly
def payoff(legs: Sequence[PayoffLeg], cash: Decimal) -> Payoff:
    """The extremes and break-even prices of a set that expires on one day."""
    knots = sorted({ZERO, *(leg.strike for leg in legs if leg.kind != "S")})
    values = [value_at(legs, cash, knot) for knot in knots]
    slope = sum((leg.size for leg in legs if leg.kind != "P"), ZERO)
    return Payoff(
        max_profit=None if slope > 0 else max(values),
        max_loss=None if slope < 0 else -min(values),
        breakevens=_zeros(knots, values, slope),
    )


def _zeros(knots: Sequence[Decimal], values: Sequence[Decimal], slope: Decimal) -> tuple[Decimal, ...]:
    """Where the line meets zero above a price of zero; of a stretch that lies on zero its ends."""
    zeros = [knot for knot, value in zip(knots, values, strict=True) if value == 0 and knot > 0]
    segments = zip(knots, values, knots[1:], values[1:], strict=False)
    zeros += [left - low * (right - left) / (high - low) for left, low, right, high in segments if low * high < 0]
    if slope * values[-1] < 0:
        zeros.append(knots[-1] - values[-1] / slope)
    return tuple(sorted(zeros))
