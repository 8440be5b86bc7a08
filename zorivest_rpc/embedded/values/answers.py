"""Results as plain JSON values: money and ratios become numbers, times ISO 8601 with an offset, unset fields vanish."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

__all__ = ["Hint", "number", "to_json"]

Hint = str | msgspec.UnsetType
"""What would supply the missing data; present only in an answer over nothing."""

_EXACT_IN_A_DOUBLE = 2**53  # JSON readers keep doubles (RFC 8259, 6); orjson refuses integers above 64 bits altogether


def to_json(answer: msgspec.Struct) -> dict[str, Any]:
    """The answer as a dictionary that any JSON encoder accepts."""
    plain = _plain(msgspec.to_builtins(answer, builtin_types=(Decimal, datetime)))
    assert isinstance(plain, dict)
    return plain


def number(value: Decimal) -> int | float:
    """A whole number that every reader keeps exactly is an integer, anything else the nearest double."""
    whole = value.to_integral_value()
    return int(whole) if value == whole and abs(whole) < _EXACT_IN_A_DOUBLE else float(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return number(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
