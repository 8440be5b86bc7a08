"""Which currency a trade is paid in, where it does not say so itself. Pure."""

from __future__ import annotations

import re

from .futures import contract_of

__all__ = ["currency_of", "fixed_currency", "is_currency"]

_CODE = re.compile(r"[A-Z]{3,5}")
_WRITTEN = re.compile(r"\(([A-Z]{3})\)\s*$")


def is_currency(code: str) -> bool:
    return _CODE.fullmatch(code) is not None


def fixed_currency(asset_class: str, symbol: str) -> str | None:
    """What cannot be paid in anything else: a pair is in its second currency, a known future in its contract's."""
    if asset_class in ("FOREX", "CRYPTO"):
        _, sign, quote = symbol.rpartition("/" if asset_class == "FOREX" else "-")
        return quote if sign and is_currency(quote) else None
    if asset_class == "FUTURE":
        contract = contract_of(symbol.partition(" ")[0])
        return None if contract is None else contract.currency
    return None


def currency_of(instrument: str, asset_class: str, symbol: str, usual: str) -> str:
    """The currency of a trade that names none: its fixed one, the one written behind its symbol, else `usual`."""
    fixed = fixed_currency(asset_class, symbol)
    if fixed is not None:
        return fixed
    written = _WRITTEN.search(instrument.upper())
    return written[1] if written else usual
