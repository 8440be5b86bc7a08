"""Results as JSON values: numbers for amounts, ISO text for dates, names for enumerations; unset fields left out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

__all__ = ["as_json"]

Json = Any


def as_json(result: msgspec.Struct) -> dict[str, Json]:
    """Any result of the engine as a JSON object."""
    plain: dict[str, Json] = _numbers(msgspec.to_builtins(result, builtin_types=(Decimal,)))
    return plain


def _numbers(value: Json) -> Json:
    if isinstance(value, Decimal):
        whole = value.to_integral_value()
        return int(whole) if value == whole else float(value)
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numbers(item) for item in value]
    return value
