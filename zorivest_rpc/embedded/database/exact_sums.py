"""Exact sums of decimal columns: the database adds integers that fit 64 bits, and `joined` makes the decimal."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, case, func, type_coerce

from .columns import MONEY_PLACES

__all__ = ["SCALE", "as_integer", "exact_sum", "join_sum"]

SCALE: Final = 10**MONEY_PLACES  # money is stored as an integer of this fraction


def as_integer(column: ColumnElement[Any]) -> ColumnElement[int]:
    """The integer that a decimal column really holds."""
    return type_coerce(column, BigInteger)


def exact_sum(column: ColumnElement[Any], when: ColumnElement[bool] | None = None) -> list[ColumnElement[Any]]:
    """Two expressions whose values `joined` makes into one sum; apart, neither can leave 64 bits."""
    number = as_integer(column)
    parts: list[ColumnElement[Any]] = [number // SCALE, number % SCALE]
    if when is not None:
        parts = [case((when, part), else_=0) for part in parts]
    return [func.coalesce(func.sum(part), 0) for part in parts]


def join_sum(whole: Any, part: Any, places: int = MONEY_PLACES) -> Decimal:
    """The sum that `exact_sum` took apart, as a decimal."""
    with localcontext(prec=60):
        return Decimal(int(whole) * SCALE + int(part)).scaleb(-places)
