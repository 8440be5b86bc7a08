"""Column types whose values survive the database unchanged: exact decimals and moments in UTC.

A decimal is stored as an integer, the value times a power of ten. Text would be exact too but neither sums nor sorts in
SQL; SQLite's own NUMERIC turns into binary floating point. Scaled integers are exact, add up with `sum()`, compare and
sort rightly, and mean the same on every database. The price: `price * quantity` in SQL multiplies the scales as well,
so products are computed in Python and stored (`trades.notional`)."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from sqlalchemy import BigInteger, DateTime, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

__all__ = ["MONEY_PLACES", "QUANTITY_PLACES", "Exact", "Moment", "Scaled", "money", "quantity"]

MONEY_PLACES = 6
"""Amounts: fifteen digits before and after the point, six of them after; an integer of 64 bits holds nine trillion."""

QUANTITY_PLACES = 8
"""Quantities and prices: the smallest unit of a coin has eight places."""

_LARGEST = 2**63 - 1


def money(value: Decimal) -> Decimal:
    """Round a computed amount to what a money column holds."""
    return value.quantize(Decimal(1).scaleb(-MONEY_PLACES), ROUND_HALF_EVEN)


def quantity(value: Decimal) -> Decimal:
    """Round a computed quantity or price to what its column holds."""
    return value.quantize(Decimal(1).scaleb(-QUANTITY_PLACES), ROUND_HALF_EVEN)


class Scaled(TypeDecorator[Decimal]):
    """A Decimal with a fixed number of places as an integer; what does not fit exactly is refused, not rounded."""

    impl = BigInteger
    cache_ok = True

    def __init__(self, places: int) -> None:
        super().__init__()
        self.places = places

    def process_bind_param(self, value: Any, dialect: Dialect) -> int | None:
        if value is None:
            return None
        if isinstance(value, float):
            raise TypeError("a float is not an exact amount; pass a Decimal")
        whole = int(Decimal(value).scaleb(self.places))
        if Decimal(whole).scaleb(-self.places) != value:  # a comparison is exact where arithmetic is rounded
            raise ValueError(f"{value} has more than {self.places} decimal places")
        if abs(whole) > _LARGEST:
            raise ValueError(f"{value} is too large to store")
        return whole

    def process_result_value(self, value: Any, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(int(value)).scaleb(-self.places)

    def coerce_compared_value(self, op: Any, value: Any) -> Any:
        return self


class Exact(TypeDecorator[Decimal]):
    """A Decimal with all its digits, as text: running totals that SQL neither sums nor sorts."""

    impl = String(80)
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:
        return None if value is None else format(value, "f")

    def process_result_value(self, value: str | None, dialect: Dialect) -> Decimal | None:
        return None if value is None else Decimal(value)


class Moment(TypeDecorator[datetime]):
    """An aware datetime, kept in UTC; a naive one is a mistake of the caller."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a datetime without a zone cannot be stored")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
