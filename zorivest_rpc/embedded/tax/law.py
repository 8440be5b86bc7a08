"""The figures of tax law, read from the data files beside this module; each file names its source."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import cache
from importlib import resources

import msgspec

from zorivest_rpc.embedded.tax.model import FilingStatus

__all__ = [
    "Bracket",
    "FederalYear",
    "PenaltyRate",
    "Replacements",
    "StatusTable",
    "Statute",
    "federal",
    "federal_years",
    "penalty_rates",
    "replacements",
    "section_1256_roots",
    "statute",
]


class Bracket(msgspec.Struct, frozen=True):
    """`rate` on income from `start` up to `end`; the last bracket has no end."""

    rate: Decimal
    start: Decimal
    end: Decimal | None


class StatusTable(msgspec.Struct, frozen=True):
    """One filing status in one year: lower bounds of each rate, lowest first."""

    standard_deduction: Decimal
    ordinary: dict[str, Decimal]
    long_term: dict[str, Decimal]

    def ordinary_brackets(self) -> tuple[Bracket, ...]:
        return _brackets(self.ordinary)

    def long_term_brackets(self) -> tuple[Bracket, ...]:
        return _brackets(self.long_term)


def _brackets(bounds: dict[str, Decimal]) -> tuple[Bracket, ...]:
    starts = list(bounds.values())
    ends: list[Decimal | None] = [*starts[1:], None]
    return tuple(Bracket(Decimal(rate), start, end) for (rate, start), end in zip(bounds.items(), ends, strict=True))


class FederalYear(msgspec.Struct, frozen=True):
    """The indexed figures of one tax year."""

    year: int
    source: str
    statuses: dict[str, StatusTable]

    def of(self, status: FilingStatus) -> StatusTable:
        return self.statuses[status.value]


class Statute(msgspec.Struct, frozen=True):
    """Figures the Code fixes and does not index."""

    source: str
    niit_rate: Decimal
    niit_threshold: dict[str, Decimal]
    niit_alert_from: Decimal
    capital_loss_limit: dict[str, Decimal]
    current_year_share: Decimal
    prior_year_share: Decimal
    prior_year_share_high: Decimal
    prior_year_high_agi: dict[str, Decimal]
    small_balance: Decimal


class PenaltyRate(msgspec.Struct, frozen=True):
    """The underpayment rate from a day on; `assumed` where no ruling is in the table yet."""

    start: date
    rate: Decimal
    source: str
    assumed: bool = False


class _PenaltyFile(msgspec.Struct, frozen=True):
    source: str
    rates: tuple[PenaltyRate, ...]


class Replacements(msgspec.Struct, frozen=True):
    """Families of funds that move together without being the same security."""

    source: str
    caution: str
    families: dict[str, tuple[str, ...]]

    def of(self, ticker: str) -> tuple[str, ...]:
        """The other funds of every family `ticker` belongs to, in the families' order."""
        others: dict[str, None] = {}
        for members in self.families.values():
            if ticker in members:
                others.update(dict.fromkeys(member for member in members if member != ticker))
        return tuple(others)


class _RootFile(msgspec.Struct, frozen=True):
    source: str
    roots: frozenset[str]


def _read(name: str) -> bytes:
    return resources.files("zorivest_rpc.embedded.tax").joinpath("data", name).read_bytes()


@cache
def _federal_tables() -> dict[int, FederalYear]:
    folder = resources.files("zorivest_rpc.embedded.tax").joinpath("data")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.startswith("federal_"))
    tables = [msgspec.json.decode(_read(name), type=FederalYear) for name in names]
    return {table.year: table for table in tables}


def federal_years() -> tuple[int, ...]:
    return tuple(_federal_tables())


def federal(year: int) -> FederalYear:
    """The table of `year`, or the nearest one there is: its `year` tells which."""
    tables = _federal_tables()
    return tables[min(tables, key=lambda known: (abs(known - year), known))]


@cache
def statute() -> Statute:
    return msgspec.json.decode(_read("statute.json"), type=Statute)


@cache
def penalty_rates() -> tuple[PenaltyRate, ...]:
    rates = msgspec.json.decode(_read("underpayment_rates.json"), type=_PenaltyFile).rates
    return tuple(sorted(rates, key=lambda rate: rate.start))


@cache
def replacements() -> Replacements:
    return msgspec.json.decode(_read("replacements.json"), type=Replacements)


@cache
def section_1256_roots() -> frozenset[str]:
    return msgspec.json.decode(_read("section_1256.json"), type=_RootFile).roots
