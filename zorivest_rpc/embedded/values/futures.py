"""The futures contracts people trade, by root: multiplier, tick, currency and quote unit, from `data/futures.json`.

Pure. A root that is not in the table has no default: a wrong multiplier states every profit wrongly by that factor, so
the writer of a trade asks for it. `notation` readers turn the fractions of bonds and grains into decimals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from importlib import resources

import msgspec

__all__ = [
    "SETTING",
    "FutureContract",
    "contract_of",
    "contracts",
    "parse_fraction",
    "parse_multipliers",
    "unknown_root",
]

SETTING = "futures.multipliers"
"""The setting that holds the multipliers of roots that the table lacks."""

_FRACTION = re.compile(r"(?P<sign>-?)(?P<whole>\d{1,6})['’-](?P<part>\d{1,3})")
_GIVEN = re.compile(r"(?P<root>[A-Z0-9]{1,4})\s*[=:]\s*(?P<value>\d{1,9}(?:\.\d{1,8})?)")
_THIRDS = {"0": 0, "1": 1, "2": 2, "3": 3, "5": 4, "6": 5, "7": 6, "8": 7}  # eighths of a 32nd, written as 0.125 → 1 …
_MOST_GIVEN = 100


class FutureContract(msgspec.Struct, frozen=True, kw_only=True):
    """One contract: `multiplier` is money in `currency` per whole unit of `quote`; `fraction` is the denominator of
    prices such as 110'16 (32 for bonds) or 450'2 (8 for grains), 0 where prices are decimals."""

    root: str
    name: str
    multiplier: Decimal
    tick: Decimal
    currency: str
    quote: str
    fraction: int = 0
    exchange: str = ""
    source: str = ""


class _Exchange(msgspec.Struct, frozen=True):
    name: str
    source: str
    contracts: list[FutureContract]


class _File(msgspec.Struct, frozen=True):
    exchanges: list[_Exchange]


@cache
def contracts() -> Mapping[str, FutureContract]:
    """Every contract of the table by its root."""
    data = resources.files("zorivest_rpc.embedded").joinpath("data", "futures.json").read_bytes()
    return {
        one.root: msgspec.structs.replace(one, exchange=exchange.name, source=one.source or exchange.source)
        for exchange in msgspec.json.decode(data, type=_File).exchanges
        for one in exchange.contracts
    }


def contract_of(root: str) -> FutureContract | None:
    """The contract of a root such as ES or 6E, None for one that the table lacks."""
    return contracts().get(root)


def unknown_root(root: str) -> str:
    """Why a future without a known multiplier is refused, and the ways to give one."""
    return (
        f"the multiplier of the future {root} is not known; give it in a Multiplier column, as multiplier in "
        f'create_trade, or once for all with update_settings {{"{SETTING}": "{root}=<money per point>"}}'
    )


def parse_multipliers(text: str) -> dict[str, Decimal]:
    """The multipliers of a setting such as `XYZ=25, ABC=0.5`; ValueError with what is wrong."""
    given: dict[str, Decimal] = {}
    for part in filter(None, (piece.strip().upper() for piece in re.split(r"[,;]", text))):
        match = _GIVEN.fullmatch(part)
        if match is None or not Decimal(match["value"]):
            raise ValueError(f"{part[:40]!r} is not ROOT=number, such as XYZ=25")
        given[match["root"]] = Decimal(match["value"])
    if len(given) > _MOST_GIVEN:
        raise ValueError(f"has more than {_MOST_GIVEN} roots")
    return given


def parse_fraction(cell: str, fraction: int) -> Decimal | None:
    """A price in fractions (110'165 is 110 and 16.5/32, 450'2 is 450 and 2/8), or None where the cell is no such price.

    ValueError for a fraction that the contract cannot have."""
    match = _FRACTION.fullmatch(cell.strip())
    if match is None or not fraction:
        return None
    whole, part = Decimal(match["whole"]), match["part"]
    if fraction == 8:
        if len(part) != 1 or int(part) > 7:
            raise ValueError(f"{cell!r} is no price in eighths")
        value = whole + Decimal(int(part)) / 8
    else:
        if len(part) < 2 or int(part[:2]) > 31 or part[2:] not in ("", *_THIRDS):
            raise ValueError(f"{cell!r} is no price in 32nds")
        value = whole + (Decimal(int(part[:2])) + Decimal(_THIRDS[part[2:] or "0"]) / 8) / 32
    return -value if match["sign"] else value
