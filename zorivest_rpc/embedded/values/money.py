"""Exact money: sums that never round, and the few places where an answer is rounded.

Inside a calculation sixty digits are kept, so additions and products of prices, quantities and multipliers are exact;
only a division can round. `cents`, `price` and `ratio` round half up, once, when a figure leaves a calculation."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["ZERO", "cents", "divide", "exactly", "percent", "price", "ratio", "root", "round_to"]

P = ParamSpec("P")
T = TypeVar("T")

ZERO = Decimal(0)

_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)
_CENT = Decimal("0.01")
_MICRO = Decimal("0.000001")


def exactly(function: Callable[P, T]) -> Callable[P, T]:
    """Runs the function with sixty digits, whatever decimal context its caller has."""

    @wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        with localcontext(_EXACT):
            return function(*args, **kwargs)

    return inner


def round_to(value: Decimal, step: Decimal) -> Decimal:
    """The value at the precision of `step`, halves away from zero, never a negative zero."""
    return _EXACT.add(value.quantize(step, context=_EXACT), ZERO)


def cents(value: Decimal) -> Decimal:
    """Money as an answer shows it: two decimals."""
    return round_to(value, _CENT)


def price(value: Decimal) -> Decimal:
    """A price, or a figure stored with six decimals."""
    return round_to(value, _MICRO)


def ratio(value: Decimal | None) -> Decimal | None:
    """A ratio as an answer shows it: six decimals, and nothing where there was nothing to divide by."""
    return None if value is None else round_to(value, _MICRO)


def divide(part: Decimal | int, whole: Decimal | int) -> Decimal | None:
    """The quotient, or None where the denominator is zero."""
    return None if whole == 0 else _EXACT.divide(Decimal(part), Decimal(whole))


def percent(part: Decimal | int, whole: Decimal | int) -> Decimal | None:
    """A share in percent with two decimals, or None where the whole is zero."""
    quotient = divide(part, whole)
    return None if quotient is None else round_to(_EXACT.multiply(quotient, Decimal(100)), _CENT)


def root(value: Decimal | int) -> Decimal:
    """The square root."""
    return Decimal(value).sqrt(_EXACT)
