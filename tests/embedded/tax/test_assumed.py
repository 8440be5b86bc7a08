"""Every sentence about what a tax answer took for granted, and when it is said."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from zorivest_rpc.embedded.tax.assumptions import (
    about_carryover,
    about_installments,
    about_section_1256,
    about_spouse,
)
from zorivest_rpc.embedded.tax.carryover import Carryover
from zorivest_rpc.embedded.tax.model import AccountTraits, EstimationMethod, FilingStatus, TaxProfile, WashPolicy


@pytest.mark.parametrize("status", list(FilingStatus))
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("spousal", [0, 1, 2, 5, 6])
def test_a_spouse_is_spoken_of_by_account_election_and_status(spousal: int, counts: bool, status: FilingStatus) -> None:
    accounts = {"MINE": AccountTraits(), **{f"S{n}": AccountTraits(spousal=True) for n in range(spousal)}}
    said = list(about_spouse(accounts, WashPolicy(include_spousal=counts), status))
    if not spousal:
        assert [sentence.startswith("No account is declared as a spouse's") for sentence in said] == [True]
        return
    names = {1: "account S0", 2: "accounts S0, S1", 5: "accounts S0, S1, S2, S3, S4"}
    named = names.get(spousal, f"{names[5]} and others")
    first, *others = said
    assert first.startswith(f"Purchases in the spouse's {named} ")
    assert ("wash losses" in first, "were left out of wash sales" in first) == (counts, not counts)
    assert "tax.include_spousal_accounts" in first
    is_joint = status is FilingStatus.MARRIED_JOINT
    assert [f"The results of the spouse's {named} are on this return" in other for other in others] == [True] * (
        not is_joint
    )


@pytest.mark.parametrize("covered", [True, False])
@pytest.mark.parametrize("elected", [True, False])
@pytest.mark.parametrize("tickers", [[], ["ES 202612"], ["SPX", "ES 202612", "SPX"]])
def test_contracts_of_section_1256_are_named_with_the_way_they_are_taxed(
    tickers: list[str], elected: bool, covered: bool
) -> None:
    profile = TaxProfile(tax_year=2026, section_475_elected=elected, section_1256_eligible=covered)
    said = list(about_section_1256(tickers, profile))
    if not tickers or elected:
        assert said == []
        return
    first, last = said
    named = "contract ES 202612" if len(tickers) == 1 else "contracts ES 202612, SPX"
    assert first.startswith(f"Section 1256 {named}: ")
    assert ("60 % of a result is long-term and 40 % short-term" in first, "by holding period" in first) == (
        covered,
        not covered,
    )
    assert "not marked to market" in last


@pytest.mark.parametrize(
    ("source", "words"),
    [("journal", "carried in from the journal"), ("profile", "the profile of 2026 states"), ("none", None)],
)
@pytest.mark.parametrize("without", [(), (2024,), (2024, 2025)])
def test_losses_brought_in_are_named_with_their_source(
    source: str, words: str | None, without: tuple[int, ...]
) -> None:
    carried = Carryover(Decimal("100.5"), Decimal("2000.25"), source, without)
    said = list(about_carryover(carried, TaxProfile(tax_year=2026)))
    if words is not None:
        told = said.pop(0)
        assert words in told
        assert told.endswith(": 100.50 short-term, 2000.25 long-term.")
    assert len(said) == bool(without)
    for sentence in said:
        assert f"No other income is known for {', '.join(map(str, without))}, " in sentence


@pytest.mark.parametrize("method", list(EstimationMethod))
@pytest.mark.parametrize("income", [0, 60_000])
@pytest.mark.parametrize("withheld", [0, 5_000])
def test_what_withholding_is_taken_to_cover_is_said(method: EstimationMethod, income: int, withheld: int) -> None:
    profile = TaxProfile(tax_year=2026, agi_estimate=Decimal(income), withholding=Decimal(withheld))
    said = list(about_installments(profile, method, date(2026, 6, 15)))
    expected = []
    if method is EstimationMethod.ACTUAL:
        expected.append("realised up to 2026-06-15")
    elif income and not withheld:
        expected.append("Nothing is withheld from the other income of 60000.00")
    if not income:
        expected.append("no other income")
    assert len(said) == len(expected)
    assert all(words in sentence for words, sentence in zip(expected, said, strict=True))
