"""Over REST: defaults that are safe, and answers that say what they took for granted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.driver import Journal

YEAR = {"date_range_start": "2025-01-01", "date_range_end": "2025-12-31"}


async def estimate(journal: Journal, year: int = 2025) -> dict[str, Any]:
    answer: dict[str, Any] = await journal.expect(200, "POST", "/tax/estimate", {"tax_year": year})
    return answer


def says(answer: dict[str, Any], *words: str) -> bool:
    return any(all(word in sentence for word in words) for sentence in answer["assumptions"])


@pytest.mark.parametrize(
    ("instrument", "multiplier", "is_contract"),
    [
        ("/ESH25", 50, True),
        ("SPX 250321 C 5000", 100, True),
        ("VIX 250319 C 20", 100, True),
        ("SPY 250321 C 500", 100, False),
    ],
)
async def test_section_1256_is_not_elective(
    journal: Journal, instrument: str, multiplier: int, is_contract: bool
) -> None:
    # §1256(a)(3): 10 points gained in a month
    await journal.buy(1, 10, "2025-01-06", instrument=instrument)
    await journal.sell(1, 20, "2025-02-03", instrument=instrument)
    answer = await estimate(journal)
    total = 10 * multiplier
    split = (total * 0.4, total * 0.6) if is_contract else (total, 0)
    gains = answer["realized_gains"]
    assert (gains["short_term"], gains["long_term"]) == split
    assert says(answer, "60 %") is is_contract
    summary = await journal.get("/tax/ytd-summary", params={"tax_year": "2025"})
    assert (summary["realized_st_gain"], summary["realized_lt_gain"]) == split
    assert says(summary, "not marked to market") is is_contract
    await journal.expect(200, "PUT", "/settings", {"tax.section_1256_eligible": False})
    off = await estimate(journal)
    assert off["realized_gains"]["short_term"] == total
    assert says(off, "tax.section_1256_eligible is off") is is_contract


async def test_a_spouses_account_counts_where_it_is_declared(journal: Journal) -> None:
    await journal.buy(10, 50, "2025-01-06")
    await journal.sell(10, 40, "2025-03-03")
    await journal.buy(10, 41, "2025-03-10", account_id="HERS")
    undeclared = await journal.expect(200, "POST", "/tax/wash-sales", YEAR)
    assert undeclared["total_disallowed"] == 100  # one's own, as far as anybody said
    assert says(undeclared, "No account is declared as a spouse's")
    await journal.expect(200, "PUT", "/accounts/HERS", {"is_spousal": True})
    declared = await journal.expect(200, "POST", "/tax/wash-sales", YEAR)
    assert declared["total_disallowed"] == 100
    assert says(declared, "account HERS wash losses")
    assert says(declared, "account HERS are on this return")
    await journal.expect(200, "PUT", "/settings", {"tax.include_spousal_accounts": False})
    left_out = await journal.expect(200, "POST", "/tax/wash-sales", YEAR)
    assert left_out["total_disallowed"] == 0
    assert says(left_out, "tax.include_spousal_accounts is off")


async def test_wages_without_withholding_are_told(journal: Journal) -> None:
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"agi_estimate": 100_000})
    asked = {"quarter": "Q4", "tax_year": "2025"}
    bare = await journal.get("/tax/quarterly", params=asked)
    assert says(bare, "Nothing is withheld", "100000")
    # 100000 - 15750 = 84250 for a single filer in 2025: 5578.50 + 22 % of 35775 = 13449; 90 % of it
    assert bare["cumulative_required"] == 12_104.1
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"withholding": 13_000})
    paid = await journal.get("/tax/quarterly", params=asked)
    assert not says(paid, "Nothing is withheld")
    assert (paid["cumulative_paid"], paid["underpayment"]) == (13_000, 0)


async def test_actual_to_date_counts_only_withholding_that_wages_leave(journal: Journal) -> None:
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"agi_estimate": 100_000, "withholding": 13_000})
    await journal.buy(1000, 10, "2025-01-06")
    await journal.sell(1000, 20, "2025-02-03")
    asked = {"quarter": "Q4", "tax_year": "2025", "estimation_method": "actual_to_date"}
    answer = await journal.get("/tax/quarterly", params=asked)
    # 10000 at 22 % = 2200; 90 % = 1980. The 13000 withheld do not even cover the 13449 on wages.
    assert (answer["cumulative_required"], answer["cumulative_paid"], answer["underpayment"]) == (1980, 0, 1980)
    assert says(answer, "actual_to_date", "as if no more came this year", "withholding")
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"withholding": 13_949})
    more = await journal.get("/tax/quarterly", params=asked)
    assert (more["cumulative_paid"], more["underpayment"]) == (500, 1480)


async def test_every_answer_says_whose_days_it_counts_by(journal: Journal) -> None:
    await journal.buy(10, 50, "2025-01-06")
    sale = {"ticker": "SPY", "action": "SELL", "quantity": 1, "price": 60, "account_id": "A1", "method": "HIFO"}
    answers = [
        await estimate(journal),
        await journal.expect(200, "POST", "/tax/wash-sales", YEAR),
        await journal.expect(200, "POST", "/tax/simulate", sale),
        await journal.get("/tax/lots"),
        await journal.get("/tax/quarterly", params={"quarter": "Q1", "tax_year": "2025"}),
        await journal.get("/tax/harvest"),
        await journal.get("/tax/ytd-summary", params={"tax_year": "2025"}),
    ]
    for answer in answers:
        assert says(answer, "New York", "not of UTC")
    assert says(answers[2], "HIFO", "the journal books sales by FIFO")
    assert says(answers[5], "specific identification")


async def test_where_losses_carried_in_come_from_is_told(journal: Journal) -> None:
    await journal.buy(100, 50, "2024-01-08")
    await journal.sell(100, 10, "2024-03-04")
    flowed = await estimate(journal)
    assert says(flowed, "carried in from the journal", "4000.00 short-term")
    assert says(flowed, "No other income is known for 2024")
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"capital_loss_carryforward": 70})
    assert says(await estimate(journal), "the profile of 2025 states", "70.00 short-term")
