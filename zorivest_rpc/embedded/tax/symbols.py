"""What a normalised symbol says about tax: the option behind it, its underlying, and section 1256 contracts."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from zorivest_rpc.embedded.tax.law import section_1256_roots
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.symbols import Contract, parse_contract

__all__ = ["is_expired", "is_section_1256", "option_terms", "underlying"]


@lru_cache(maxsize=4096)
def option_terms(symbol: str) -> Contract | None:
    """The terms in `UNDERLYING YYMMDD C|P STRIKE`; None for anything else."""
    contract = parse_contract(symbol)
    return contract if contract is not None and contract.symbol == symbol else None


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
