"""Profiles and settings: for every field, the years it counts for, and that it is stored and shown."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import settings
from zorivest_rpc.embedded.tax.model import CostBasisMethod, FilingStatus, TaxProfile, WashSaleMethod
from zorivest_rpc.embedded.tax.stored.profiles import Profiles

# who the taxpayer is and how lots are chosen: said once, it holds for every year that has no profile of its own
STANDING: dict[str, tuple[str, Any]] = {
    "filing_status": ("MARRIED_JOINT", FilingStatus.MARRIED_JOINT),
    "wash_sale_method": ("AGGRESSIVE", WashSaleMethod.AGGRESSIVE),
    "default_cost_basis": ("HIFO", CostBasisMethod.HIFO),
    "include_drip_wash_detection": ("false", False),
    "include_spousal_accounts": ("no", False),
    "section_475_elected": ("true", True),
    "section_1256_eligible": ("0", False),
    "state": ("NY", "NY"),
    "state_tax_rate": ("0.05", Decimal("0.05")),
}
CARRIED = ("capital_loss_carryforward", "capital_loss_carryforward_lt")  # of one year, and of no later one
AMOUNTS: dict[str, tuple[str, Any]] = {
    name: ("123.45", Decimal("123.45"))
    for name in ("prior_year_tax", "prior_year_agi", "agi_estimate", "withholding", *CARRIED)
}
FIELDS = {**STANDING, **AMOUNTS, "federal_bracket": ("0.24", Decimal("0.24"))}
SPRING, SUMMER, AUTUMN = (datetime(2026, month, 1, 12, tzinfo=UTC) for month in (4, 7, 10))
A_YEAR_AGO = datetime(2025, 7, 1, 12, tzinfo=UTC)


def default(name: str) -> Any:
    return getattr(TaxProfile(tax_year=2026), name)


@pytest.mark.parametrize("name", FIELDS)
def test_a_setting_of_this_year_is_about_this_year_and_about_others_if_it_is_standing(name: str) -> None:
    text, value = FIELDS[name]
    assert value != default(name)
    profiles = Profiles({}, {name: (text, SUMMER)}, 2026)
    now, other, standing = profiles.of(2026), profiles.of(2024), profiles.standing()
    assert (getattr(now, name), now.is_default, now.stated, now.tax_year) == (value, False, (name,), 2026)
    is_standing = name in STANDING
    assert getattr(other, name) == getattr(standing, name) == (value if is_standing else default(name))
    assert (other.is_default, other.stated) == (True, (name,) if is_standing else ())
    assert (standing.is_default, standing.tax_year) == (True, 2026)
    assert profiles.years == {2026}
    assert [profiles.is_known(year) for year in (2024, 2025, 2026)] == [False, False, True]


@pytest.mark.parametrize("name", FIELDS)
def test_a_setting_of_last_year_is_about_that_year_and_a_loss_carried_in_about_no_later_one(name: str) -> None:
    text, value = FIELDS[name]
    profiles = Profiles({}, {name: (text, A_YEAR_AGO)}, 2026)
    before, now = profiles.of(2025), profiles.of(2026)
    assert (getattr(before, name), before.is_default) == (value, name in STANDING)
    assert getattr(now, name) == (default(name) if name in CARRIED else value)
    assert profiles.years == ({2026} if name in STANDING else {2025, 2026})


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(("moment", "counts"), [(SPRING, False), (SUMMER, False), (AUTUMN, True)])
def test_a_stored_profile_is_overruled_by_what_was_said_after_it(name: str, moment: datetime, counts: bool) -> None:
    text, value = FIELDS[name]
    stored = TaxProfile(tax_year=2026, agi_estimate=Decimal(7), stated=("agi_estimate",))
    profiles = Profiles({2026: (stored, SUMMER)}, {name: (text, moment)}, 2026)
    found = profiles.of(2026)
    assert getattr(found, name) == (value if counts else getattr(stored, name))
    assert set(found.stated) == ({"agi_estimate", name} if counts else {"agi_estimate"})


@pytest.mark.parametrize("name", FIELDS)
def test_the_stored_profile_of_another_year_is_not_overruled_by_this_years_settings(name: str) -> None:
    stored = TaxProfile(tax_year=2024)
    profiles = Profiles({2024: (stored, SPRING)}, {name: (FIELDS[name][0], AUTUMN)}, 2026)
    assert profiles.of(2024) == stored
    assert profiles.years == {2024, 2026}


async def test_every_field_is_stored_shown_and_kept_beside_the_others(journal: Journal) -> None:
    path = "/tax/profiles/2024"
    expected: dict[str, Any] = {}
    for name, (text, value) in FIELDS.items():
        saved = await journal.expect(200, "PUT", path, {name: text})
        assert (saved["status"], saved["tax_year"]) == ("updated" if expected else "created", 2024)
        shown = float(value) if isinstance(value, Decimal) else getattr(value, "value", value)
        expected[name] = shown
        found = await journal.get(path)
        assert {key: found[key] for key in expected} == expected
        assert (found["is_default"], set(found["stated"])) == (False, set(expected))
    for name in AMOUNTS:
        await journal.refused(422, "PUT", path, {name: -1})
    said = {f"tax.{name}": text for name, (text, _) in FIELDS.items()}
    await journal.expect(200, "PUT", "/settings", said)
    current = await journal.get(f"/tax/profiles/{datetime.now(UTC).year}")
    assert {key: current[key] for key in expected} == expected


async def test_a_setting_that_is_no_field_of_a_profile_is_left_alone(journal: Journal, backend: Embedded) -> None:
    """Another release may have had such a one; and what is not a tax setting says nothing about taxes."""
    await journal.expect(200, "PUT", "/settings", {"tax.state": "NY"})
    rows = [
        {"key": key, "value": value, "value_type": "str", "updated_at": datetime.now(UTC)}
        for key, value in (("tax.retired", "x"), ("withholding", "5"), ("other.agi_estimate", "7"))
    ]
    await backend.database().write(lambda conn: conn.execute(settings.insert(), rows))
    found = await journal.get(f"/tax/profiles/{datetime.now(UTC).year}")
    assert (found["state"], found["withholding"], found["agi_estimate"], found["stated"]) == ("NY", 0, 0, ["state"])
