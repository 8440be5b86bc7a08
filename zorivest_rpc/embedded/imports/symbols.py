"""Symbols as brokers write them, read into one normal form.

Shares are upper case without decoration, options are `UNDERLYING YYMMDD C|P STRIKE`, futures `ROOT MM-YY`.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.drafts import AssetClass
from zorivest_rpc.embedded.imports.values import MONTHS, BadValue, parse_date, plain_text

__all__ = ["Symbol", "option", "parse_symbol", "plain"]

FUTURE_MULTIPLIERS = {
    name: Decimal(value)
    for name, value in {"ES": 50, "MES": 5, "NQ": 20, "MNQ": 2, "YM": 5, "RTY": 50, "CL": 1000, "GC": 100}.items()
}
MONTH_CODES = "FGHJKMNQUVXZ"

_U = r"(?P<u>[A-Z0-9][A-Z0-9./$^]{0,11}?)"
_STRIKE = r"\$?(?P<k>\d{1,7}(?:,\d{3})*(?:\.\d{1,4})?)"
_RIGHT = r"(?P<r>C|P|CALL|PUT)"
_OPTIONS = (
    re.compile(rf"{_U} +(?P<d>\d{{6}}) +{_RIGHT} +{_STRIKE}"),
    re.compile(rf"{_U} *(?P<d>\d{{6}})(?P<r>[CP])(?P<occ>\d{{8}})"),
    re.compile(rf"[.-]?{_U} *(?P<d>\d{{6}})(?P<r>[CP])(?P<k>\d{{1,6}}(?:\.\d{{1,4}})?)"),
    re.compile(rf"{_U} +(?P<d>\d{{1,2}}[A-Z]{{3}}\d{{2}}) +{_STRIKE} +{_RIGHT}"),
    re.compile(rf"{_U} +(?P<d>\d{{1,2}}/\d{{1,2}}/\d{{2,4}}) +{_STRIKE} +{_RIGHT}"),
    re.compile(rf"{_U} +(?P<d>\d{{1,2}}/\d{{1,2}}/\d{{2,4}}) +{_RIGHT} +{_STRIKE}"),
    re.compile(rf"{_U} +(?P<d>[A-Z]{{3}} \d{{1,2}},? '?\d{{2,4}}) +{_STRIKE} +{_RIGHT}"),
    re.compile(rf"(?P<r>CALL|PUT) +{_U} +(?P<d>\d{{1,2}}/\d{{1,2}}/\d{{2,4}}) +{_STRIKE}"),
)
_DECORATION = re.compile(r"(?:\s+(?:STK|ETF|\([A-Z]{3}\)))+$")
_HALF_OPTION = re.compile(r"\b\d{6} ?[CP]\b|\d{6}[CP]\d")
_SHAPE = re.compile(r"[A-Z0-9][A-Z0-9 ./:$&^_*+-]{0,39}")
_FUTURE_CODE = re.compile(r"/?(?P<root>[A-Z0-9]{1,4}?)(?P<m>[FGHJKMNQUVXZ])(?P<y>\d{1,2}|20\d\d)(?::[A-Z]+)?")
_FUTURE_MONTH = re.compile(r"(?P<root>[A-Z0-9]{1,4}) (?P<m>\d{2})-(?P<y>\d{2})(?: [A-Z]+)?")
_FUTURE_NAME = re.compile(r"(?P<root>[A-Z0-9]{1,4}) (?P<m>[A-Z]{3})-?'?(?P<y>\d{2})")


class Symbol(msgspec.Struct, frozen=True):
    """A normalised symbol and what follows from it."""

    text: str
    asset_class: AssetClass
    multiplier: Decimal
    underlying: str
    expiry: dt.date | None = None
    right: str | None = None
    strike: Decimal | None = None


def plain(value: Decimal) -> str:
    """A decimal without exponent or trailing zeros."""
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def option(underlying: str, expiry: dt.date, right: str, strike: Decimal) -> Symbol:
    """The option of that underlying, day, right (any word beginning with C or P) and strike."""
    letter = right.strip()[:1].upper()
    if letter not in ("C", "P"):
        raise BadValue(f"{plain_text(right, 20)!r} is neither call nor put")
    name = _DECORATION.sub("", underlying.strip().upper())
    if not _SHAPE.fullmatch(name):
        raise BadValue(f"{plain_text(underlying, 40)!r} is not a symbol")
    text = f"{name} {expiry:%y%m%d} {letter} {plain(strike)}"
    return Symbol(text, AssetClass.OPTION, Decimal(100), name, expiry, letter, strike)


@functools.lru_cache(maxsize=4096)
def parse_symbol(cell: str, asset: AssetClass | None = None, near: dt.date | None = None) -> Symbol:
    """The symbol in normal form. `asset` is the class the file states; `near` (the trade's day) decides the decade of a
    future whose year has one digit."""
    if len(cell) > 80:
        raise BadValue(f"{plain_text(cell, 40)!r} is too long for a symbol")
    text = _DECORATION.sub("", " ".join(cell.upper().split()))
    if asset in (None, AssetClass.OPTION) and (found := _as_option(text)):
        return found
    if (asset is AssetClass.FUTURE or text.startswith("/")) and (future := _as_future(text, near)):
        return future
    if (
        asset is None
        and (_FUTURE_MONTH.fullmatch(text) or _FUTURE_NAME.fullmatch(text))
        and (future := _as_future(text, near))
    ):
        return future
    text = text.removeprefix("/") if asset is AssetClass.FUTURE else text
    if not _SHAPE.fullmatch(text):
        raise BadValue(f"{plain_text(cell, 40)!r} is not a symbol" if text else "is missing")
    if asset in (None, AssetClass.OPTION) and _HALF_OPTION.search(text):
        raise BadValue(f"{plain_text(cell, 40)!r} looks like an option but is not a complete one")
    kind = asset or AssetClass.EQUITY
    multiplier = Decimal(100) if kind is AssetClass.OPTION else FUTURE_MULTIPLIERS.get(text, Decimal(1))
    if kind not in (AssetClass.OPTION, AssetClass.FUTURE):
        multiplier = Decimal(1)
    return Symbol(text, kind, multiplier, text)


def _as_option(text: str) -> Symbol | None:
    for pattern in _OPTIONS:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            strike = Decimal(parts["occ"]) / 1000 if parts.get("occ") else Decimal(parts["k"].replace(",", ""))
            day = parts["d"]
            try:
                expiry = parse_date(f"20{day}") if day.isdigit() else parse_date(day)
            except BadValue:
                return None
            return option(parts["u"], expiry, parts["r"], strike)
    return None


def _as_future(text: str, near: dt.date | None) -> Symbol | None:
    if match := _FUTURE_MONTH.fullmatch(text):
        month, year = int(match["m"]), 2000 + int(match["y"])
    elif match := _FUTURE_NAME.fullmatch(text):
        month, year = MONTHS.get(match["m"].lower(), 0), 2000 + int(match["y"])
    elif match := _FUTURE_CODE.fullmatch(text):
        month, digits = MONTH_CODES.index(match["m"]) + 1, match["y"]
        year = int(digits) if len(digits) == 4 else 2000 + int(digits)
        if len(digits) == 1:
            if near is None:
                return None
            year = near.year - near.year % 10 + int(digits)
            year += 10 if year < near.year - 1 else 0
    else:
        return None
    if not 1 <= month <= 12:
        return None
    root = match["root"]
    name = f"{root} {month:02d}-{year % 100:02d}"
    return Symbol(name, AssetClass.FUTURE, FUTURE_MULTIPLIERS.get(root, Decimal(1)), root)
