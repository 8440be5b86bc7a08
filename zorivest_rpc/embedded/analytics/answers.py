"""An analytics answer as plain JSON values: money and ratios become numbers, times ISO 8601, unset fields vanish."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

__all__ = ["Hint", "to_json"]

Hint = str | msgspec.UnsetType
"""What would supply the missing data; present only in an answer over nothing."""


def to_json(answer: msgspec.Struct) -> dict[str, Any]:
    """The answer as a dictionary that any JSON encoder accepts; a Decimal becomes a float, a whole one an int."""
    plain = _numbers(msgspec.to_builtins(answer, builtin_types=(Decimal, datetime)))
    assert isinstance(plain, dict)
    return plain


def _numbers(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return value.isoformat()  # with an offset, as everywhere else
    if isinstance(value, dict):
        return {str(key): _numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers(item) for item in value]
    return value
