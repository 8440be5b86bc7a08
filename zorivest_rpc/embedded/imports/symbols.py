"""Symbols as brokers write them: the journal's own reading of them, and a refusal of cells that name nothing."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Mapping
from decimal import Decimal

from zorivest_rpc.embedded.imports.values import BadValue, plain_text
from zorivest_rpc.embedded.values import symbols
from zorivest_rpc.embedded.values.futures import unknown_root
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["multiplier_of", "option", "parse_symbol", "plain"]

_SHAPE = re.compile(r"[A-Z0-9][A-Z0-9 ./:$&^_*+-]{0,39}")


def plain(value: Decimal) -> str:
    """A decimal without exponent or trailing zeros."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def option(underlying: str, expiry: dt.date, right: str, strike: Decimal) -> Instrument:
    """The option of that underlying, day, right (any word beginning with C or P) and strike."""
    if not _SHAPE.fullmatch(symbols.strip_symbol(underlying)):
        raise BadValue(f"{plain_text(underlying, 40)!r} is not a symbol")
    try:
        return symbols.option(underlying, expiry, right, strike)
    except ValueError as exc:
        raise BadValue(plain_text(str(exc), 80)) from None


@functools.lru_cache(maxsize=4096)
def parse_symbol(cell: str, asset: AssetClass | None = None, near: dt.date | None = None) -> Instrument:
    """The symbol in normal form. `asset` is the class the file states; `near` (the trade's day) decides the decade of a
    future whose year has one digit."""
    if len(cell) > 80:
        raise BadValue(f"{plain_text(cell, 40)!r} is too long for a symbol")
    if not symbols.strip_symbol(cell):
        raise BadValue("is missing")
    try:
        found = symbols.parse_instrument(cell, asset, near)
    except ValueError as exc:
        raise BadValue(plain_text(str(exc), 80)) from None
    if found.contract is None and not _SHAPE.fullmatch(found.symbol):
        raise BadValue(f"{plain_text(cell, 40)!r} is not a symbol")
    return found


def multiplier_of(symbol: Instrument, stated: Decimal | None, given: Mapping[str, Decimal]) -> Decimal:
    """Money per point of one unit: what a row states, else what the user gave for a future's root, else the table's.

    A future of which none of them knows is a `BadValue`: a guess would state its profit wrongly by that factor."""
    if stated:
        return abs(stated)
    if symbol.asset_class is not AssetClass.FUTURE:
        return symbol.multiplier
    if symbol.underlying not in given and not symbol.is_multiplier_known:
        raise BadValue(unknown_root(symbol.underlying))
    return given.get(symbol.underlying, symbol.multiplier)
