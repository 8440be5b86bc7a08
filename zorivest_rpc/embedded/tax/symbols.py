"""What a normalised symbol says about tax: the option behind it, its underlying, and section 1256 contracts."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import lru_cache

import msgspec

from zorivest_rpc.embedded.tax.law import section_1256_roots
from zorivest_rpc.embedded.tax.model import AssetClass

__all__ = ["OptionTerms", "is_expired", "is_section_1256", "option_terms", "underlying"]

_OPTION = re.compile(r"(?P<root>\S+) (?P<yy>\d\d)(?P<mm>\d\d)(?P<dd>\d\d) (?P<right>[CP]) (?P<strike>\d+(?:\.\d+)?)")


class OptionTerms(msgspec.Struct, frozen=True):
    """The terms of one listed option."""

    underlying: str
    expiry: date
    is_call: bool
    strike: Decimal


@lru_cache(maxsize=4096)
def option_terms(symbol: str) -> OptionTerms | None:
    """The terms in `UNDERLYING YYMMDD C|P STRIKE`; None for anything else."""
    found = _OPTION.fullmatch(symbol)
    if found is None:
        return None
    try:
        expiry = date(2000 + int(found["yy"]), int(found["mm"]), int(found["dd"]))
    except ValueError:
        return None
    return OptionTerms(found["root"], expiry, found["right"] == "C", Decimal(found["strike"]))


def underlying(symbol: str) -> str:
    """The symbol whose lots can concern each other: the share behind an option, else the symbol itself."""
    terms = option_terms(symbol)
    return terms.underlying if terms else symbol


def is_expired(symbol: str, today: date) -> bool:
    """Whether a symbol is an option whose last day is over."""
    terms = option_terms(symbol)
    return terms is not None and terms.expiry < today


def is_section_1256(symbol: str, asset_class: AssetClass) -> bool:
    """A regulated futures contract or a listed option on a broad-based index (§1256(b))."""
    if asset_class is AssetClass.FUTURE:
        return True
    terms = option_terms(symbol)
    return terms is not None and terms.underlying in section_1256_roots()
