"""What an instrument's free text means: one normalised symbol, its asset class, and its multiplier.

`SPY STK (USD)` is `SPY`; `AAPL  260320C00200000`, `.AAPL260320C200` and `AAPL 20MAR26 200 C` are `AAPL 260320 C 200`;
`/ESH26` is `ES 03-26`. Normalising twice changes nothing. Pure: everything that needs to know what a text trades in
asks here."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Literal, NamedTuple

from .futures import contract_of
from .kinds import AssetClass

__all__ = [
    "Contract",
    "Instrument",
    "option",
    "parse_contract",
    "parse_instrument",
    "strip_symbol",
]

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

_DECORATION = re.compile(r"(?:(?:\s+(?:STK|ETF))|(?:\s*\([A-Z]{3}\)))+$")
_U = r"(?P<u>[A-Z0-9][A-Z0-9./$^]{0,11}?)"
_STRIKE = r"\$?(?P<k>\d{1,7}(?:,\d{3})*(?:\.\d{1,4})?)"
_RIGHT = r"(?P<r>C|P|CALL|PUT)"
_SLASHED = r"(?P<d>\d{1,2}/\d{1,2}/(?:20)?\d{2})"
_OPTIONS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_U} *(?P<d>\d{{6}})(?P<r>[CP])(?P<occ>\d{{8}})",
        rf"{_U} +(?P<d>\d{{6}}) *{_RIGHT} *{_STRIKE}",
        rf"[.-]?{_U} *(?P<d>\d{{6}})(?P<r>[CP])(?P<k>\d{{1,6}}(?:\.\d{{1,4}})?)",
        rf"{_U} +(?P<d>\d{{1,2}}[A-Z]{{3}}\d{{2}}) +{_STRIKE} +{_RIGHT}",
        rf"{_U} +{_SLASHED} +{_STRIKE} +{_RIGHT}",
        rf"{_U} +{_SLASHED} +{_RIGHT} +{_STRIKE}",
        rf"{_U} +(?P<d>[A-Z]{{3}} \d{{1,2}},? '?(?:20)?\d{{2}}) +{_STRIKE} +{_RIGHT}",
        rf"(?P<r>CALL|PUT) +{_U} +{_SLASHED} +{_STRIKE}",
    )
)
_HALF_OPTION = re.compile(r"\b\d{6} ?[CP]\b|\d{6}[CP]\d")
_ROOT = r"(?P<root>[A-Z0-9]{1,4})"
_FUTURE_MONTH = re.compile(rf"/?{_ROOT} +(?P<m>\d{{2}})-(?P<y>\d{{2}})(?: [A-Z]+)?")
_FUTURE_NAME = re.compile(rf"/?{_ROOT} +(?P<m>[A-Z]{{3}})[ -]?'?(?P<y>\d{{2}})")
_FUTURE_CODE = re.compile(rf"(/?)(?P<root>[A-Z0-9]{{1,4}}?)(?P<m>[{_MONTH_CODES}])(?P<y>20\d\d|\d{{1,2}})(?::[A-Z]+)?")
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
    """One tradable thing under its normalised symbol; `contract` belongs to options.

    A future whose root is not in the table has the multiplier 1 and `is_multiplier_known` False: old trades of it can
    be read, a new one is refused until its multiplier is given."""

    symbol: str
    asset_class: AssetClass
    underlying: str
    multiplier: Decimal
    contract: Contract | None = None
    is_multiplier_known: bool = True


@lru_cache(maxsize=4096)
def parse_instrument(text: str, asset: AssetClass | None = None, near: date | None = None) -> Instrument:
    """Read free text; ValueError when it is empty, or an option or future that cannot be.

    `asset` is the class that a source states; `near`, the day of the trade, tells the decade of a future's one-digit
    year."""
    name = strip_symbol(text)
    if not name:
        raise ValueError(f'"{text}" names no instrument')
    if asset in (None, AssetClass.OPTION) and (found := _as_option(name)):
        return found
    if asset in (None, AssetClass.FUTURE) and (found := _as_future(name, asset is not None, near)):
        return found
    if asset in (None, AssetClass.FOREX, AssetClass.CRYPTO) and (found := _pair(name)):
        return found
    if asset in (None, AssetClass.OPTION) and _HALF_OPTION.search(name):
        raise ValueError(f'"{text}" looks like an option but is not a complete one')
    if asset is None and name[:1] == "/" and contract_of(name[1:]):
        return _future(name, name[1:])  # without the slash the symbol would be read as a share's next time
    if asset == AssetClass.FUTURE:
        name = name.removeprefix("/")
        return _future(name, name)
    return Instrument(name, asset or AssetClass.EQUITY, name, Decimal(100 if asset == AssetClass.OPTION else 1))


def strip_symbol(text: str) -> str:
    """Upper case, single spaces, and no `STK`, `ETF` or `(USD)` behind it."""
    return _DECORATION.sub("", " ".join(text.upper().split())).strip()


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
            return Instrument(f"{base}/{quote}", AssetClass.FOREX, base, Decimal(1))
        if base in _COINS and (quote in _CURRENCIES or quote in _COINS):
            return Instrument(f"{base}-{quote}", AssetClass.CRYPTO, base, Decimal(1))
    return None


def option(underlying: str, expiry: date, right: str, strike: Decimal) -> Instrument:
    """The option of that underlying, day, right (any word that begins with C or P) and strike."""
    letter = right.strip()[:1].upper()
    if letter not in ("C", "P"):
        raise ValueError(f'"{right}" is neither call nor put')
    if strike <= 0:
        raise ValueError("an option needs a strike above zero")
    name = strip_symbol(underlying)
    contract = Contract(name, expiry, "C" if letter == "C" else "P", Decimal(f"{strike.normalize():f}"))
    return Instrument(contract.symbol, AssetClass.OPTION, name, Decimal(100), contract)


def _as_option(name: str) -> Instrument | None:
    for pattern in _OPTIONS:
        if match := pattern.fullmatch(name):
            parts = match.groupdict()
            strike = Decimal(parts["occ"]) / 1000 if parts.get("occ") else Decimal(parts["k"].replace(",", ""))
            return option(parts["u"], _expiry(parts["d"]), parts["r"], strike)
    return None


def _expiry(text: str) -> date:
    """YYMMDD, 20MAR26, 3/20/2026 or MAR 20 '26."""
    try:
        if text.isdigit():
            return date(2000 + int(text[:2]), int(text[2:4]), int(text[4:]))
        if "/" in text:
            month, day, year = (int(part) for part in text.split("/"))
        elif text[0].isdigit():
            day, month, year = int(text[:-5]), _MONTH_NAMES.index(text[-5:-2]) + 1, int(text[-2:])
        else:
            name, number, last = text.replace(",", "").replace("'", "").split()
            month, day, year = _MONTH_NAMES.index(name) + 1, int(number), int(last)
        return date(2000 + year % 100, month, day)
    except ValueError:
        raise ValueError(f'"{text}" is not an expiry date') from None


def _as_future(name: str, stated: bool, near: date | None) -> Instrument | None:
    """A month of a root. Without a slash or a source that says so, a code such as ESH26 needs a root that is known."""
    if match := _FUTURE_MONTH.fullmatch(name):
        month = int(match["m"])
        if not 1 <= month <= 12:
            raise ValueError(f'"{month:02}" is not a month')
    elif (match := _FUTURE_NAME.fullmatch(name)) and match["m"] in _MONTH_NAMES:
        month = _MONTH_NAMES.index(match["m"]) + 1
    elif (match := _FUTURE_CODE.fullmatch(name)) and (stated or match[1] or _is_listed(match["root"])):
        month = _MONTH_CODES.index(match["m"]) + 1
    else:
        return None
    root, year = match["root"], _year(match["y"], near)
    if year is None:
        return None
    return _future(f"{root} {month:02}-{year % 100:02}", root)


def _future(symbol: str, root: str) -> Instrument:
    contract = contract_of(root)
    multiplier = Decimal(1) if contract is None else contract.multiplier
    return Instrument(symbol, AssetClass.FUTURE, root, multiplier, None, contract is not None)


def _is_listed(root: str) -> bool:
    """Whether a bare code such as ESH26 names a future; one letter is too little to tell it from other names."""
    return len(root) > 1 and contract_of(root) is not None


def _year(digits: str, near: date | None) -> int | None:
    """Of one digit the year that lies at most one year before the trade; None without the day of the trade."""
    if len(digits) > 1:
        return int(digits)
    if near is None:
        return None
    year = near.year - near.year % 10 + int(digits)
    return year + 10 if year < near.year - 1 else year
