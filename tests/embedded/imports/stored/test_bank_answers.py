"""Bank statements: every field of the answer, of the ledger and of the list of accounts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.driver import Journal
from tests.embedded.imports import writers
from tests.embedded.imports.stored.test_banking import CHASE, LINES

HEADER = CHASE.splitlines()[0] + b"\n"
WHOLE: dict[str, Any] = {
    "status": "SUCCESS",
    "format": "csv",
    "detected_format": "csv chase",
    "bank": "chase",
    "account_id": "B1",
    "total_rows": 4,
    "parsed_rows": 4,
    "skipped_rows": 0,
    "error_rows": 0,
    "imported": 4,
    "duplicates": 0,
    "flagged": 0,
    "errors": [],
    "warnings": [],
    "date_range": {"from": "2024-01-03", "to": "2024-01-09"},
    "net_change": 1291,
    "currency": "USD",
    "closing_balance": None,
    "balance_match": None,
    "balance_drift": None,
}


async def test_the_answer_to_a_statement_is_whole(journal: Journal) -> None:
    first, again = await journal.bank(CHASE), await journal.bank(CHASE)
    other = await journal.bank(writers.ofx(LINES, balance=Decimal("1291.00")), "B2", name="jan.ofx")
    batch = first.pop("batch_id")
    assert len({batch, again.pop("batch_id"), other.pop("batch_id")}) == 3
    assert first == WHOLE
    assert [warning["code"] for warning in again.pop("warnings")] == ["same_file"]
    assert {**again, "warnings": []} == {**WHOLE, "imported": 0, "duplicates": 4}
    ofx = {"format": "ofx", "detected_format": "ofx", "bank": None, "account_id": "B2", "closing_balance": 1291}
    assert other == {**WHOLE, **ofx}
    batches = (await journal.get("/import/batches"))["items"]
    names = ("account_id", "kind", "imported", "duplicates", "flagged", "first_day", "last_day")
    days = ("2024-01-03", "2024-01-09")
    assert [tuple(one[name] for name in names) for one in batches] == [
        ("B2", "bank", 4, 0, 0, *days),
        ("B1", "bank", 0, 4, 0, *days),
        ("B1", "bank", 4, 0, 0, *days),
    ]


# long: two whole answers, written out
async def test_the_ledger_and_the_list_of_accounts_are_whole(journal: Journal) -> None:
    batch = (await journal.bank(CHASE))["batch_id"]
    await journal.bank(writers.ofx(LINES[:1], balance=Decimal(2500)), "B2", name="jan.ofx")
    page = await journal.get("/banking/accounts/B1/transactions")
    expected = [
        ("2024-01-09", "2024-01-10", "RENT", -1200, "ach_debit"),
        ("2024-01-05", "2024-01-05", "COFFEE", -4.5, "card_purchase"),
        ("2024-01-05", "2024-01-05", "COFFEE", -4.5, "card_purchase"),
        ("2024-01-03", "2024-01-03", "PAYROLL ACME", 2500, "ach_credit"),
    ]
    assert [row.pop("id") for row in page["items"]] == [4, 3, 2, 1]
    assert page["items"] == [
        {
            "date": date,
            "post_date": posted,
            "description": text,
            "amount": amount,
            "currency": "USD",
            "category": category,
            "reference_id": None,
            "running_balance": None,
            "notes": "",
            "source": "csv_import",
            "import_batch_id": batch,
        }
        for date, posted, text, amount, category in expected
    ]
    assert (page["total"], page["net_change"], page["currency"]) == (4, 1291, "USD")
    (line,) = (await journal.get("/banking/accounts/B2/transactions"))["items"]
    assert (line["reference_id"], line["source"], line["category"]) == ("F0", "ofx_import", "deposit")
    account = {"institution": "", "account_type": "bank", "currency": "USD"}
    assert await journal.get("/banking/accounts") == [
        {
            **account,
            "account_id": "B1",
            "name": "B1",
            "balance_source": "manual",
            "balance": None,
            "last_updated": "2024-01-09T23:59:59+00:00",
            "transaction_count": 4,
        },
        {
            **account,
            "account_id": "B2",
            "name": "B2",
            "balance_source": "ofx_import",
            "balance": 2500,
            "last_updated": "2024-01-31T23:59:59+00:00",
            "transaction_count": 1,
        },
    ]


@pytest.mark.parametrize(
    ("query", "amounts"),
    [
        ({"start": "2024-01-05"}, [-1200, -4.5, -4.5]),
        ({"start": "2024-01-06"}, [-1200]),
        ({"end": "2024-01-05"}, [-4.5, -4.5, 2500]),
        ({"end": "2024-01-04"}, [2500]),
        ({"start": "2024-01-05", "end": "2024-01-05"}, [-4.5, -4.5]),
        ({"start": "2024-02-01"}, []),
    ],
)
async def test_the_ledger_is_cut_to_days_of_which_both_count(
    journal: Journal, query: dict[str, str], amounts: list[float]
) -> None:
    await journal.bank(CHASE)
    page = await journal.get("/banking/accounts/B1/transactions", params=query)
    assert [row["amount"] for row in page["items"]] == amounts
    assert (page["total"], page["net_change"]) == (len(amounts), sum(amounts))


@pytest.mark.parametrize(("amount", "imported"), [("1000000000000.00", 2), ("1000000000000.01", 1)])
async def test_an_amount_beyond_a_million_millions_is_told_and_left_out(
    journal: Journal, amount: str, imported: int
) -> None:
    lines = f"01/03/2024,01/03/2024,A,,Sale,{amount},\n01/04/2024,01/04/2024,B,,Sale,-1,\n"
    answer = await journal.bank(HEADER + lines.encode())
    is_whole = imported == 2
    assert (answer["imported"], answer["error_rows"]) == (imported, 0 if is_whole else 1)
    assert answer["status"] == ("SUCCESS" if is_whole else "PARTIAL")
    assert [warning["code"] for warning in answer["warnings"]] == ([] if is_whole else ["too_large"])


async def test_a_statement_of_other_days_meets_only_the_lines_of_its_own(journal: Journal) -> None:
    """The same coffee on another day is another line, before and after what the ledger holds."""
    await journal.bank(CHASE)
    for day in ("01/02/2024", "01/10/2024"):
        answer = await journal.bank(HEADER + f"{day},{day},COFFEE,,Sale,-4.50,\n".encode())
        assert (answer["imported"], answer["duplicates"]) == (1, 0)
    rows = CHASE.splitlines(keepends=True)
    for count, more in ((2, 0), (3, 1)):  # two coffees of that day are there; a third one is new
        answer = await journal.bank(HEADER + rows[2] * count)
        assert (answer["imported"], answer["duplicates"]) == (more, 2), count
