"""What a tax answer took for granted, in sentences: each names the setting or field that says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date

from zorivest_rpc.embedded.tax.carryover import Carryover
from zorivest_rpc.embedded.tax.model import Accounts, EstimationMethod, FilingStatus, TaxProfile, WashPolicy
from zorivest_rpc.embedded.values.money import cents

__all__ = ["DATES", "about_carryover", "about_installments", "about_section_1256", "about_spouse"]

DATES = (
    "Trades are dated by the calendar day in New York (America/New_York), whatever the journal's own zone is; a tax "
    "year is a calendar year of such days, not of UTC."
)
_MOST = 5  # names in one sentence


def about_spouse(accounts: Accounts, policy: WashPolicy, status: FilingStatus) -> Iterator[str]:
    """Whose purchases wash losses (Pub. 550: a spouse's do), and whose results are on the return."""
    names = [name for name, traits in accounts.items() if traits.spousal]
    if not names:
        yield "No account is declared as a spouse's (is_spousal); what a spouse buys elsewhere washes losses too."
        return
    if policy.include_spousal:
        yield f"Purchases in the spouse's {_name_all('account', names)} wash losses (tax.include_spousal_accounts)."
    else:
        yield (
            f"Purchases in the spouse's {_name_all('account', names)} were left out of wash sales because "
            "tax.include_spousal_accounts is off; the law counts them."
        )
    if status is not FilingStatus.MARRIED_JOINT:
        yield f"The results of the spouse's {_name_all('account', names)} are on this return, which is not a joint one."


def about_section_1256(tickers: Iterable[str], profile: TaxProfile) -> Iterator[str]:
    """How contracts were taxed that section 1256 covers; its year-end mark is not made."""
    names = sorted(set(tickers))
    if not names or profile.section_475_elected:
        return
    if profile.section_1256_eligible:
        yield f"Section 1256 {_name_all('contract', names)}: 60 % of a result is long-term and 40 % short-term."
    else:
        yield (
            f"Section 1256 {_name_all('contract', names)}: taxed by holding period because tax.section_1256_eligible "
            "is off; the law leaves that choice for hedges alone (§1256(e))."
        )
    yield "Contracts open at the end of a year are not marked to market (§1256(a)(1)); they count when they are closed."


def about_carryover(carried: Carryover, profile: TaxProfile) -> Iterator[str]:
    """Where the losses brought into a year come from."""
    if carried.source == "journal":
        yield f"Losses of earlier years are carried in from the journal: {_amounts(carried)}."
    elif carried.source == "profile":
        yield f"Losses of earlier years are those that the profile of {profile.tax_year} states: {_amounts(carried)}."
    if carried.without_income:
        years = ", ".join(str(year) for year in carried.without_income)
        yield f"No other income is known for {years}, so no deduction was used up then (PUT /tax/profiles/{{year}})."


def about_installments(profile: TaxProfile, method: EstimationMethod, today: date) -> Iterator[str]:
    """What a requirement leaves to withholding."""
    if method is EstimationMethod.ACTUAL:
        yield (
            f"actual_to_date covers the federal tax that gains realised up to {today} add, as if no more came this "
            "year; the tax on other income is taken as covered by withholding, of which only the rest counts here."
        )
    elif profile.agi_estimate and not profile.withholding:
        yield (
            f"Nothing is withheld from the other income of {cents(profile.agi_estimate)} (tax.withholding is 0), so "
            "the requirement covers its tax as well."
        )
    if not profile.agi_estimate:
        yield "There is no other income (tax.agi_estimate is 0)."


def _name_all(word: str, names: list[str]) -> str:
    shown = ", ".join(names[:_MOST]) + (" and others" if len(names) > _MOST else "")
    return f"{word} {shown}" if len(names) == 1 else f"{word}s {shown}"


def _amounts(carried: Carryover) -> str:
    return f"{cents(carried.short_term)} short-term, {cents(carried.long_term)} long-term"
