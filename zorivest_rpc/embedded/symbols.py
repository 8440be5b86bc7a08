"""What an instrument's free text means: one normalised symbol, its asset class, and its multiplier.

`SPY STK (USD)` is `SPY`; `AAPL  260320C00200000` and `.AAPL260320C200` are `AAPL 260320 C 200`; `/ESH26` is `ES 03-26`.
Normalising twice changes nothing. Pure: everything that needs to know what a text trades in asks here."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple

__all__ = ["FUTURE_MULTIPLIERS", "AssetClass", "Contract", "Instrument", "parse_contract", "parse_instrument"]

AssetClass = Literal["EQUITY", "OPTION", "FUTURE", "FOREX", "CRYPTO"]

FUTURE_MULTIPLIERS = {"ES": 50, "MES": 5, "NQ": 20, "MNQ": 2, "YM": 5, "RTY": 50, "CL": 1000, "GC": 100}

# fmt: off
_CURRENCIES = frozenset({
    "USD", "EUR", "GBP", "JPY", "CHF", "AUD", "CAD", "NZD", "SEK", "NOK", "DKK", "HKD", "SGD", "CNH", "MXN", "ZAR",
    "PLN", "CZK", "HUF", "TRY", "ILS",
})
_COINS = frozenset({
    "BTC", "ETH", "SOL", "XRP", "ADA", "DOGE", "LTC", "BCH", "DOT", "AVAX", "LINK", "UNI", "USDT", "USDC", "SHIB",
    "MATIC", "XLM", "ATOM",
})
# fmt: on
_MONTH_CODES = "FGHJKMNQUVXZ"
_MONTH_NAMES = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]

_SUFFIX = re.compile(r"(?:\s+(?:STK|ETF))?(?:\s*\([A-Z]{3}\))?$")
_OPTION = re.compile(r"([A-Z][A-Z0-9./]{0,9}) +(\d{6}) *([CP]) *(\d{1,7}(?:\.\d{1,4})?)")
_OCC = re.compile(r"([A-Z][A-Z0-9.]{0,5}) *(\d{6})([CP])(\d{8})")
_DOTTED = re.compile(r"\.([A-Z][A-Z0-9]{0,5})(\d{6})([CP])(\d{1,6}(?:\.\d{1,4})?)")
_FUTURE = re.compile(r"/?([A-Z0-9]{1,4}) +(\d{2})-(\d{2})")
_FUTURE_NAME = re.compile(r"/?([A-Z0-9]{1,4}) +([A-Z]{3}) ?'?(\d{2})")
_FUTURE_CODE = re.compile(rf"(/?)([A-Z0-9]{{1,4}}?)([{_MONTH_CODES}])(\d{{2}})")
_PAIR = re.compile(r"([A-Z]{3,5})[-/.]([A-Z]{3,5})")


class Contract(NamedTuple):
    """The terms of a listed option."""

    underlying: str
    expiry: date
    right: Literal["C", "P"]
    strike: Decimal

    @property
    def symbol(self) -> str:
        """The one spelling: `AAPL 260320 C 200`."""
        return f"{self.underlying} {self.expiry:%y%m%d} {self.right} {self.strike.normalize():f}"


class Instrument(NamedTuple):
    """One tradable thing under its normalised symbol; `contract` belongs to options."""

    symbol: str
    asset_class: AssetClass
    underlying: str
    multiplier: Decimal
    contract: Contract | None = None


def parse_instrument(text: str) -> Instrument:
    """Read free text; ValueError when it is empty or an option or future whose date cannot be."""
    name = " ".join(text.upper().split())
    if match := _OCC.fullmatch(name):
        return _option(match[1], match[2], match[3], Decimal(match[4]) / 1000)
    if match := _OPTION.fullmatch(name) or _DOTTED.fullmatch(name):
        return _option(match[1], match[2], match[3], Decimal(match[4]))
    name = _SUFFIX.sub("", name).strip()
    if not name:
        raise ValueError(f'"{text}" names no instrument')
    if match := _FUTURE.fullmatch(name):
        return _future(match[1], int(match[2]), match[3])
    if (match := _FUTURE_NAME.fullmatch(name)) and match[2] in _MONTH_NAMES:
        return _future(match[1], _MONTH_NAMES.index(match[2]) + 1, match[3])
    if (match := _FUTURE_CODE.fullmatch(name)) and (match[1] or match[2] in FUTURE_MULTIPLIERS):
        return _future(match[2], _MONTH_CODES.index(match[3]) + 1, match[4])
    return _pair(name) or Instrument(name, "EQUITY", name, Decimal(1))


def parse_contract(text: str) -> Contract | None:
    """The option's terms in any of the accepted spellings, or None if the text names no option that can be."""
    try:
        return parse_instrument(text).contract
    except ValueError:
        return None


def _pair(name: str) -> Instrument | None:
    """Two currencies or coins, with a sign between them or without."""
    if match := _PAIR.fullmatch(name):
        splits = [(match[1], match[2])]
    else:
        splits = [(name[:length], name[length:]) for length in (3, 4)]
    for base, quote in splits:
        if base in _CURRENCIES and quote in _CURRENCIES:
            return Instrument(f"{base}/{quote}", "FOREX", base, Decimal(1))
        if base in _COINS and (quote in _CURRENCIES or quote in _COINS):
            return Instrument(f"{base}-{quote}", "CRYPTO", base, Decimal(1))
    return None


def _option(underlying: str, day: str, right: str, strike: Decimal) -> Instrument:
    try:
        expiry = date(2000 + int(day[:2]), int(day[2:4]), int(day[4:]))
    except ValueError:
        raise ValueError(f'"{day}" is not an expiry date (YYMMDD)') from None
    if strike <= 0:
        raise ValueError("an option needs a strike above zero")
    contract = Contract(underlying, expiry, "C" if right == "C" else "P", Decimal(f"{strike.normalize():f}"))
    return Instrument(contract.symbol, "OPTION", underlying, Decimal(100), contract)


def _future(root: str, month: int, year: str) -> Instrument:
    if not 1 <= month <= 12:
        raise ValueError(f'"{month:02}" is not a month')
    return Instrument(f"{root} {month:02}-{year}", "FUTURE", root, Decimal(FUTURE_MULTIPLIERS.get(root, 1)))
