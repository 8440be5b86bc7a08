"""The commands of the page on taxes (`taxes.md`) work as written, and what the page says of the tables is true."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.shell import machine
from tests.places import ROOT
from zorivest_rpc.embedded.settings import REGISTRY
from zorivest_rpc.embedded.tax.law import federal, federal_years
from zorivest_rpc.embedded.tax.model import TaxProfile

PAGE = ROOT / "docs" / "guide" / "taxes.md"


def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    with machine(tmp_path / "home") as reader:
        said = reader.run(PAGE)
    assert said.count("not tax advice") == 9  # all but the brief list of lots, which states no tax
    assert '"filing_status": "MARRIED_JOINT"' in said
    assert '"recorded_payment": 1500' in said
    assert said.count('"prior_year_tax": 11000') == 3


def test_the_page_names_the_source_of_every_table() -> None:
    rows = dict(re.findall(r"^\| (\d{4}) \| (Rev\. Proc\. [\d-]+)", PAGE.read_text(), re.MULTILINE))
    assert {int(year) for year in rows} == set(federal_years())
    for year, source in rows.items():
        assert federal(int(year)).source.startswith(source)


def test_every_field_of_the_profile_is_a_setting_and_the_page_names_no_other() -> None:
    fields = {f"tax.{name}" for name in TaxProfile.__struct_fields__} - {"tax.tax_year", "tax.is_default", "tax.stated"}
    assert fields == {name for name in REGISTRY if name.startswith("tax.")}
    assert set(re.findall(r"`(tax\.\w+)`", PAGE.read_text())) == fields
