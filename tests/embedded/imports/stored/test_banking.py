"""Bank statements over REST: lines once, balances as of their day, the ledger they fill."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.driver import Journal, form
from tests.embedded.imports import writers
from tests.embedded.imports.writers import Line

LINES = [
    Line(dt.date(2024, 1, 3), "PAYROLL ACME", Decimal("2500.00")),
    Line(dt.date(2024, 1, 5), "COFFEE", Decimal("-4.50")),
    Line(dt.date(2024, 1, 5), "COFFEE", Decimal("-4.50")),
    Line(dt.date(2024, 1, 9), "RENT", Decimal("-1200.00")),
]
CHASE = (
    b"Transaction Date,Post Date,Description,Category,Type,Amount,Memo\n"
    b"01/03/2024,01/03/2024,PAYROLL ACME,,ACH_CREDIT,2500.00,\n"
    b"01/05/2024,01/05/2024,COFFEE,,Sale,-4.50,\n"
    b"01/05/2024,01/05/2024,COFFEE,,Sale,-4.50,\n"
    b"01/09/2024,01/10/2024,RENT,,Payment,-1200.00,\n"
)


async def ledger(journal: Journal, account_id: str = "B1") -> Any:
    return await journal.get(f"/banking/accounts/{account_id}/transactions")


async def test_a_statement_fills_the_ledger_and_sets_the_balance(
    journal: Journal, satisfies: Callable[[str, Any], None]
) -> None:
    answer = await journal.bank(writers.ofx(LINES, balance=Decimal("1291.00")), name="jan.ofx")
    satisfies("import_bank_statement", answer)
    assert (answer["status"], answer["format"], answer["imported"], answer["duplicates"]) == ("SUCCESS", "ofx", 4, 0)
    # 2500 - 4.50 - 4.50 - 1200 = 1291
    assert (answer["net_change"], answer["closing_balance"]) == (1291, 1291)
    assert answer["date_range"] == {"from": "2024-01-03", "to": "2024-01-09"}
    page = await ledger(journal)
    assert (page["total"], page["net_change"]) == (4, 1291)
    assert [row["amount"] for row in page["items"]] == [-1200, -4.5, -4.5, 2500]
    accounts = await journal.get("/banking/accounts")
    satisfies("list_bank_accounts", accounts)
    (account,) = accounts
    assert (account["account_id"], account["account_type"], account["balance"]) == ("B1", "bank", 1291)
    assert (account["balance_source"], account["transaction_count"]) == ("ofx_import", 4)
    assert account["last_updated"] == "2024-01-31T23:59:59+00:00"  # the day the bank stated the balance for


async def test_importing_a_statement_again_changes_nothing(journal: Journal) -> None:
    data = writers.ofx(LINES, balance=Decimal("1291.00"))
    await journal.bank(data, name="jan.ofx")
    before = (await ledger(journal), await journal.get("/banking/accounts"))
    again = await journal.bank(data, name="jan.ofx")
    assert (again["imported"], again["duplicates"], again["flagged"]) == (0, 4, 0)
    assert "same_file" in {warning["code"] for warning in again["warnings"]}
    assert (await ledger(journal), await journal.get("/banking/accounts")) == before
    assert (await journal.get("/accounts/B1/balances"))["total"] == 1


@pytest.mark.parametrize("first", ["csv", "ofx"])
async def test_the_same_lines_in_two_formats_are_there_once(journal: Journal, first: str) -> None:
    files = {"csv": (CHASE, "jan.csv"), "ofx": (writers.ofx(LINES), "jan.ofx")}
    order = [files.pop(first), *files.values()]
    for (data, name), expected in zip(order, (4, 0), strict=True):
        assert (await journal.bank(data, name=name))["imported"] == expected
    assert (await ledger(journal))["total"] == 4


async def test_equal_lines_with_different_references_of_the_bank_are_different_lines(journal: Journal) -> None:
    first, second = LINES[1:2], LINES[1:2]
    await journal.bank(writers.ofx(first), name="a.ofx")
    other = writers.ofx(second).replace(b"<FITID>F0", b"<FITID>G7")
    assert (await journal.bank(other, name="b.ofx"))["imported"] == 1
    assert (await ledger(journal))["total"] == 2


async def test_an_older_statement_does_not_change_the_present_balance(journal: Journal) -> None:
    await journal.expect(201, "POST", "/accounts", {"account_id": "B1", "name": "Checking", "account_type": "bank"})
    await journal.expect(200, "PUT", "/banking/accounts/B1/balance", {"balance": 50, "as_of_date": "2025-05-05"})
    await journal.bank(writers.ofx(LINES, balance=Decimal("1291.00")), name="jan.ofx")
    (account,) = await journal.get("/banking/accounts")
    assert (account["name"], account["balance"]) == ("Checking", 50)


async def test_bad_lines_are_told_and_the_good_ones_kept(journal: Journal) -> None:
    answer = await journal.bank(CHASE.replace(b"-1200.00", b"lots"))
    assert (answer["status"], answer["imported"]) == ("PARTIAL", 3)
    (error,) = answer["errors"]
    assert error["row_number"] == 5


@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"%PDF-1.4", b"alpha,beta\nx,y\n"])
async def test_a_refused_statement_writes_nothing(journal: Journal, data: bytes) -> None:
    await journal.refused(422, "POST", "/banking/import", data=form(data, account_id="B1"))
    assert await journal.get("/accounts") == []
    assert (await journal.get("/import/batches"))["total"] == 0


async def test_an_unknown_hint_and_an_unknown_account_are_refused(journal: Journal) -> None:
    await journal.refused(422, "POST", "/banking/import", data=form(CHASE, account_id="B1", format_hint="mt940"))
    await journal.expect(200, "PUT", "/settings", {"accounts.auto_create": False})
    refused = await journal.refused(404, "POST", "/banking/import", data=form(CHASE, account_id="B1"))
    assert refused["error"] == "account_not_found"
    await journal.refused(404, "GET", "/banking/accounts/B1/transactions")


async def test_two_imports_of_one_statement_at_once_write_it_once(journal: Journal) -> None:
    answers = await asyncio.gather(*(journal.bank(CHASE) for _ in range(3)))
    assert sorted(answer["imported"] for answer in answers) == [0, 0, 4]
    assert (await ledger(journal))["total"] == 4


async def test_lines_entered_by_hand_are_checked_against_the_balance(journal: Journal) -> None:
    await journal.expect(201, "POST", "/accounts", {"account_id": "B1", "name": "Checking", "account_type": "bank"})
    await journal.expect(200, "PUT", "/banking/accounts/B1/balance", {"balance": 100, "as_of_date": "2024-01-01"})
    lines = [{"date": "2024-01-05", "amount": -4.5, "description": "COFFEE"}]
    body = {"account_id": "B1", "transactions": lines, "closing_balance": 95.5, "balance_date": "2024-01-05"}
    answer = await journal.expect(200, "POST", "/banking/transactions", body)
    assert (answer["success"], answer["imported_count"], answer["duplicate_count"]) == (True, 1, 0)
    assert (answer["balance_match"], answer["balance_drift"]) == (True, 0)
    more = [{"date": "2024-01-06", "amount": -10, "description": "BOOK"}]
    answer = await journal.expect(
        200, "POST", "/banking/transactions", {"account_id": "B1", "transactions": more, "closing_balance": 90}
    )
    # 95.50 - 10 = 85.50, and the caller says 90
    assert (answer["balance_match"], answer["balance_drift"]) == (False, 4.5)


async def test_a_line_that_equals_one_entered_by_hand_is_flagged(journal: Journal) -> None:
    await journal.expect(201, "POST", "/accounts", {"account_id": "B1", "name": "Checking", "account_type": "bank"})
    line = [{"date": "2024-01-03", "amount": 2500, "description": "payroll  acme"}]
    await journal.expect(200, "POST", "/banking/transactions?account_id=B1", line)
    answer = await journal.bank(CHASE)
    assert (answer["imported"], answer["duplicates"], answer["flagged"]) == (3, 0, 1)
    assert "possible_duplicate" in {warning["code"] for warning in answer["warnings"]}
    assert (await ledger(journal))["net_change"] == 1291
    again = await journal.expect(200, "POST", "/banking/transactions?account_id=B1", line)
    assert (again["imported_count"], again["duplicate_count"]) == (0, 1)
    meant = {"account_id": "B1", "transactions": line, "deduplicate": False}
    assert (await journal.expect(200, "POST", "/banking/transactions", meant))["imported_count"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {"account_id": "B1"},
        {"account_id": "B1", "transactions": []},
        {"account_id": "B1", "transactions": [{"date": "2024-01-05", "amount": 0, "description": "x"}]},
        {"account_id": "B1", "transactions": [{"date": "soon", "amount": 1, "description": "x"}]},
        {"account_id": "B1", "transactions": [{"date": "2024-01-05", "amount": 1, "description": "x" * 501}]},
        {"account_id": "B1", "transactions": ["x"]},
        {"transactions": [{"date": "2024-01-05", "amount": 1, "description": "x"}]},
        "x",
    ],
)
async def test_lines_that_say_too_little_are_refused_whole(journal: Journal, body: Any) -> None:
    await journal.expect(201, "POST", "/accounts", {"account_id": "B1", "name": "Checking", "account_type": "bank"})
    await journal.refused(422, "POST", "/banking/transactions", body)
    assert (await ledger(journal))["total"] == 0


async def test_an_empty_journal_has_no_bank_accounts(journal: Journal, satisfies: Callable[[str, Any], None]) -> None:
    accounts = await journal.get("/banking/accounts")
    satisfies("list_bank_accounts", accounts)
    assert accounts == []


async def test_the_ledger_needs_a_key_that_may_write(with_role: Callable[[str], Awaitable[Caller]]) -> None:
    reader = await with_role("read-only")
    await reader.expect(403, "POST", "/banking/transactions", [])
    await reader.expect(403, "PUT", "/banking/accounts/B1/balance", {"balance": 1})
    assert await reader.get("/banking/accounts") == []
