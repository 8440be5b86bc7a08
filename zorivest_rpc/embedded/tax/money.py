"""Dollars inside the tax engine, and how a total is divided without losing any of it.

Inside, a total is exact to a millionth of a dollar. A total that is divided (a lot is cut, a commission is shared out)
is divided by `apportion`, whose parts always add up to the whole again, so no cut can create or lose basis. Only a
figure that leaves the engine is rounded to cents, by the `cents` of all answers; a sum of figures that are shown
together is the sum of the rounded figures."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["SMALLEST_UNIT", "apportion", "exact", "per_unit", "share_of", "units"]

_MILLIONTH = Decimal("0.000001")
SMALLEST_UNIT = Decimal("0.00000001")


def exact(amount: Decimal) -> Decimal:
    """An inner total: a millionth of a dollar, half to even."""
    return amount.quantize(_MILLIONTH, ROUND_HALF_EVEN)


def units(quantity: Decimal) -> Decimal:
    """A number of shares that came out of a division: as many places as the journal keeps."""
    return quantity.quantize(SMALLEST_UNIT, ROUND_HALF_EVEN).normalize() + 0


def per_unit(total: Decimal, units: Decimal) -> Decimal:
    """A price per share: up to six decimals, zero where there are no units."""
    return exact(total / units) if units else ZERO


def share_of(total: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    """What `part` of `whole` carries of `total`; all of it when the part is the whole."""
    return total if part == whole else exact(total * part / whole)


def apportion(total: Decimal, weights: Sequence[Decimal]) -> list[Decimal]:
    """Divide `total` by `weights`; the parts add up to `total` exactly."""
    parts: list[Decimal] = []
    left, weight_left = total, sum(weights, ZERO)
    for weight in weights:
        part = share_of(left, weight, weight_left)
        parts.append(part)
        left -= part
        weight_left -= weight
    return parts
