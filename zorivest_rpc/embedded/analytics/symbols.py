"""Instrument names in one spelling: what a fill was in, its asset class, its multiplier and its option terms.

Traders and brokers write the same thing in many ways (`SPY STK (USD)`, `.AAPL260320C200`, the 21-character OCC form);
matching needs exactly one. A text that fits no pattern is a plain equity symbol, never an error."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Literal

import msgspec

__all__ = ["AssetClass", "Contract", "Instrument", "parse_contract", "parse_instrument"]

AssetClass = Literal["EQUITY", "OPTION", "FUTURE", "FOREX", "CRYPTO"]

OPTION_MULTIPLIER = Decimal(100)
FUTURE_MULTIPLIERS = {
    root: Decimal(size)
    for root, size in {
        "ES": 50, "MES": 5, "NQ": 20, "MNQ": 2, "YM": 5, "RTY": 50, "CL": 1000, "GC": 100,
    }.items()
}  # fmt: skip

_CURRENCIES = frozenset(
    "USD EUR GBP JPY CHF CAD AUD NZD SEK NOK DKK PLN CZK HUF TRY ZAR MXN SGD HKD CNH ILS".split()  # noqa: SIM905
)
_COINS = frozenset("BTC ETH SOL XRP ADA DOGE LTC BCH DOT LINK AVAX MATIC XLM UNI ATOM USDC USDT".split())  # noqa: SIM905

_SUFFIX = re.compile(r"(?:\s+(?:STK|ETF))?(?:\s*\([A-Z]{3}\))?$")
_OPTION_FORMS = (
    re.compile(r"(?P<root>[A-Z][A-Z0-9./]*) (?P<date>\d{6}) (?P<right>[CP]) (?P<strike>\d+(?:\.\d+)?)"),
    re.compile(r"(?P<root>[A-Z][A-Z0-9.]{0,5}) *(?P<date>\d{6})(?P<right>[CP])(?P<mills>\d{8})"),
    re.compile(r"\.(?P<root>[A-Z][A-Z0-9/]*)(?P<date>\d{6})(?P<right>[CP])(?P<strike>\d+(?:\.\d+)?)"),
)
_FUTURE = re.compile(r"(?P<root>[A-Z0-9]{1,4}) (?P<month>0[1-9]|1[0-2])-(?P<year>\d{2})")
_PAIR = re.compile(r"(?P<base>[A-Z]{3,5})[/.\-](?P<quote>[A-Z]{3,4})")


class Contract(msgspec.Struct, frozen=True):
    """The terms of a listed option."""

    underlying: str
    expiry: date
    right: Literal["C", "P"]
    strike: Decimal

    @property
    def symbol(self) -> str:
        """The one spelling: `AAPL 260320 C 200`."""
        return f"{self.underlying} {self.expiry:%y%m%d} {self.right} {_plain(self.strike)}"


class Instrument(msgspec.Struct, frozen=True):
    """An instrument under its normalised symbol."""

    symbol: str
    asset_class: AssetClass
    multiplier: Decimal
    underlying: str
    contract: Contract | None = None


def parse_instrument(text: str) -> Instrument:
    """Whatever a user or a broker wrote, as one instrument."""
    name = " ".join(text.upper().split())
    contract = parse_contract(name)
    if contract is not None:
        return Instrument(contract.symbol, "OPTION", OPTION_MULTIPLIER, contract.underlying, contract)
    future = _FUTURE.fullmatch(name)
    if future is not None:
        root = future["root"]
        return Instrument(name, "FUTURE", FUTURE_MULTIPLIERS.get(root, Decimal(1)), root)
    symbol = _SUFFIX.sub("", name) or name
    return Instrument(symbol, _plain_class(symbol), Decimal(1), symbol)


def parse_contract(text: str) -> Contract | None:
    """The option's terms in any of the accepted spellings, or None if the text names no option."""
    name = " ".join(text.upper().split())
    for form in _OPTION_FORMS:
        found = form.fullmatch(name)
        if found is None:
            continue
        expiry = _date(found["date"])
        if expiry is None:
            return None
        groups = found.groupdict()
        strike = Decimal(groups["mills"]) / 1000 if "mills" in groups else Decimal(groups["strike"])
        return Contract(found["root"], expiry, "C" if found["right"] == "C" else "P", strike)
    return None


def _date(digits: str) -> date | None:
    try:
        return date(2000 + int(digits[:2]), int(digits[2:4]), int(digits[4:]))
    except ValueError:
        return None


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"


def _plain_class(symbol: str) -> AssetClass:
    pair = _PAIR.fullmatch(symbol)
    if pair is None:
        return "EQUITY"
    if pair["base"] in _COINS:
        return "CRYPTO"
    return "FOREX" if pair["base"] in _CURRENCIES and pair["quote"] in _CURRENCIES else "EQUITY"
