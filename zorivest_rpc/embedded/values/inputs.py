"""What many routes read in the same way: identifiers, instruments, pages, and the numbers of rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from ..errors import NotFound
from .fields import MISSING, Fields
from .kinds import AssetClass
from .symbols import Instrument, parse_instrument

__all__ = ["Page", "currency", "fill_aliases", "identifier", "instrument", "page", "row_number"]

D = TypeVar("D")

_LARGEST_ROW = 2**63 - 1
_NOTHING = Instrument("", AssetClass.EQUITY, "", Decimal(1))


class Page(NamedTuple):
    """A part of a list."""

    limit: int
    offset: int

    def envelope(self, items: list[Any], total: int) -> dict[str, Any]:
        return {"items": items, "total": total, "limit": self.limit, "offset": self.offset}


def page(fields: Fields, limit: int = 50, most: int = 1000) -> Page:
    return Page(
        fields.integer("limit", limit, least=1, most=most), fields.integer("offset", 0, least=0, most=_LARGEST_ROW)
    )


def identifier(fields: Fields, name: str, default: D = MISSING, most: int = 128) -> str | D:
    """A name that can stand in a path: trimmed, without control characters, not made of dots alone."""
    value = fields.text(name, default, least=1, most=most)
    if not isinstance(value, str):
        return value
    trimmed = value.strip()
    if any(ord(char) < 32 or ord(char) == 127 for char in trimmed):
        fields.wrong(name, "must not hold control characters")
    elif trimmed in (".", ".."):
        fields.wrong(name, "must be more than dots")
    return trimmed


def instrument(fields: Fields, name: str, near: date | None = None) -> Instrument:
    """What a field's free text trades in; `near`, the day of a trade, tells the decade of a future such as ESH6."""
    text = fields.text(name, least=1, most=128)
    if not text.strip():
        return _NOTHING
    try:
        found = parse_instrument(text, None, near)
    except ValueError as exc:
        fields.wrong(name, str(exc))
        return _NOTHING
    if len(found.symbol) > 64 or len(found.underlying) > 32:
        fields.wrong(name, "is too long for a symbol; at most 32 characters and the terms of an option")
    return found


def currency(fields: Fields, name: str = "currency", default: str | None = None) -> str | None:
    """A currency code in capitals, or the default where none is given."""
    code = fields.text(name, None, least=3, most=5)
    if code is None:
        return default
    code = code.strip().upper()
    if not (code.isascii() and code.isalpha()):
        fields.wrong(name, "must be the code of a currency, such as EUR")
    return code


def row_number(kind: str, text: str) -> int:
    """The number of a row as it stands in a path; what is no such number names nothing."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _LARGEST_ROW:
        raise NotFound(kind, text[:64])
    return int(text)


def fill_aliases(body: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """The body with other spellings of a field filled in under its own name, unless that is there too."""
    result = dict(body)
    for other, name in aliases.items():
        if result.get(name) is None and result.get(other) is not None:
            result[name] = result[other]
    return result
