"""What each past year of the journal came to, kept in memory: losses carried forward ask for all of them at once.

Nothing here is a source of truth: a year is summed up again when any of its lots was written since, or when the rules
that decide lots and their character changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

from sqlalchemy import Connection

from ..estimate import year_gains
from ..model import TaxProfile
from ..netting import Gains
from . import reading as tax_reading
from .sync import LotRules

__all__ = ["YearResults"]


class _Sum(NamedTuple):
    state: tuple[Any, ...]
    gains: Gains


class YearResults:
    """Recognised gains by year, made when they are asked for."""

    def __init__(self) -> None:
        self._known: dict[int, _Sum] = {}

    def clear(self) -> None:
        """Forget every figure; the journal is locked."""
        self._known.clear()

    def before(
        self, year: int, conn: Connection, rules: LotRules, profile_of: Callable[[int], TaxProfile]
    ) -> dict[int, Gains]:
        """The results of every year before one that closed any lot; the lots must be in step with the trades."""
        digest = rules.digest
        found: dict[int, Gains] = {}
        for past, written in tax_reading.closings_by_year(conn, year).items():
            profile = profile_of(past)
            state = (*written, digest, profile.section_475_elected, profile.section_1256_eligible)
            known = self._known.get(past)
            if known is None or known.state != state:
                lots = tax_reading.closed_lots(conn, start=date(past, 1, 1), end=date(past, 12, 31))
                known = self._known[past] = _Sum(state, year_gains(lots, profile, rules.accounts))
            found[past] = known.gains
        return found
