"""The taxpayer, year by year: stored profiles, and the settings that stand in where no profile was stored.

Only an admin stores a profile; the settings `tax.*` let every role say the same about the current year, and
what was said last counts. For other years without a profile the settings say who the taxpayer is and how lots are
chosen, but not the year's amounts, unless they were said in that very year. Losses carried in are those of one year:
what a setting says of them counts for the year it was said in, and for no later one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, get_type_hints

import msgspec
from sqlalchemy import Connection, select

from ...database import audit
from ...database.schema.books import tax_profiles
from ...database.schema.journal import app_defaults, settings
from ...values.fields import parse_flag
from ..dates import trade_date
from ..model import TaxProfile, parse

__all__ = ["AMOUNTS", "CHOICES", "FLAGS", "Profiles", "load", "save"]

AMOUNTS = (
    "prior_year_tax", "prior_year_agi", "agi_estimate", "withholding", "capital_loss_carryforward",
    "capital_loss_carryforward_lt",
)  # fmt: skip
CHOICES = ("filing_status", "wash_sale_method", "default_cost_basis")
FLAGS = (
    "include_drip_wash_detection", "include_spousal_accounts", "section_475_elected", "section_1256_eligible",
)  # fmt: skip
_CARRIED = ("capital_loss_carryforward", "capital_loss_carryforward_lt")
# Profiles stored before `stated` was kept hold these values whether or not they were given.
_FORMER_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_CARRIED, Decimal(0)),
    "include_spousal_accounts": False,
    "section_1256_eligible": False,
}
_STANDING = frozenset({*CHOICES, *FLAGS, "state", "state_tax_rate"})
_TYPES = get_type_hints(TaxProfile)


class Profiles:
    """Every stored profile and the settings beside them."""

    def __init__(
        self,
        stored: Mapping[int, tuple[TaxProfile, datetime]],
        said: Mapping[str, tuple[str, datetime]],
        current: int,
    ) -> None:
        self._stored = stored
        self._said = said
        self.current = current

    @property
    def years(self) -> frozenset[int]:
        """The years that have something of their own to say."""
        amounts = (moment for name, (_, moment) in self._said.items() if name not in _STANDING)
        return frozenset({*self._stored, self.current, *(trade_date(moment).year for moment in amounts)})

    def is_known(self, year: int) -> bool:
        return year in self.years

    def of(self, year: int) -> TaxProfile:
        """The profile in force for a year."""
        stored, since = self._stored.get(year, (None, None))
        said = {
            name: _parse_value(name, text)
            for name, (text, moment) in self._said.items()
            if self._is_about(name, moment, year) and (since is None or moment > since)
        }
        if stored is not None:
            return msgspec.structs.replace(stored, **said, stated=_join(stored.stated, said))
        is_default = said.keys() <= _STANDING if year != self.current else not said
        return TaxProfile(tax_year=year, is_default=is_default, stated=_join(said), **said)

    def _is_about(self, name: str, moment: datetime, year: int) -> bool:
        """Whether a setting given at a moment says something about a year."""
        is_of_that_year = trade_date(moment).year == year
        if name in _CARRIED or year != self.current:
            return is_of_that_year or (name in _STANDING and year not in self._stored)
        return True

    def standing(self) -> TaxProfile:
        """What holds for years without a profile."""
        said = {name: _parse_value(name, text) for name, (text, _) in self._said.items() if name in _STANDING}
        return TaxProfile(tax_year=self.current, is_default=True, **said)


def load(conn: Connection, now: datetime) -> Profiles:
    stored = {row.tax_year: (_read(row.profile), row.updated_at) for row in conn.execute(select(tax_profiles))}
    said: dict[str, tuple[str, datetime]] = {}
    for table in (app_defaults, settings):
        for key, value, moment in conn.execute(select(table.c.key, table.c.value, table.c.updated_at)):
            name = key.removeprefix("tax.")
            if key.startswith("tax.") and name in _TYPES:
                said[name] = (value, moment)
    return Profiles(stored, said, trade_date(now).year)


def save(conn: Connection, year: int, changes: Mapping[str, Any], actor: str) -> str:
    """Store what is said about a year on top of what was known; `created` or `updated`."""
    now = datetime.now(UTC)
    before = load(conn, now).of(year)
    after = msgspec.structs.replace(before, **changes, is_default=False, stated=_join(before.stated, changes))
    had = conn.execute(tax_profiles.delete().where(tax_profiles.c.tax_year == year)).rowcount > 0
    conn.execute(
        tax_profiles.insert().values(tax_year=year, profile=msgspec.json.encode(after).decode(), updated_at=now)
    )
    audit.record(conn, actor, "tax_profile.save", "tax_profile", str(year), fields=sorted(changes))
    return "updated" if had else "created"


def _read(text: str) -> TaxProfile:
    """A stored profile; what it holds only because it was once the default is taken as not given."""
    profile = msgspec.json.decode(text, type=TaxProfile)
    fallback = TaxProfile(tax_year=profile.tax_year)
    former = {
        name: getattr(fallback, name)
        for name, value in _FORMER_DEFAULTS.items()
        if name not in profile.stated and getattr(profile, name) == value
    }
    return msgspec.structs.replace(profile, **former)


def _join(*names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for part in names for name in part}))


def _parse_value(name: str, text: str) -> Any:
    kind = _TYPES[name]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return parse(kind, text)
    if kind is bool:
        return bool(parse_flag(text))
    return text if kind is str else Decimal(text)
