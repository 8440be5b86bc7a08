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
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.books import import_batches

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
    later = {"balance": 50, "snapshot_datetime": "2025-05-05T12:00:00Z"}
    await journal.expect(201, "POST", "/accounts/B1/balances", later)
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


async def test_a_line_that_equals_one_entered_by_hand_is_flagged(journal: Journal, backend: Embedded) -> None:
    """Earlier releases took lines by hand; a journal that has some keeps them."""
    await journal.bank(CHASE.splitlines()[0] + b"\n01/03/2024,01/03/2024,payroll  acme,,ACH_CREDIT,2500.00,\n")
    await backend.database().write(lambda conn: conn.execute(import_batches.update().values(kind="entry")))
    answer = await journal.bank(CHASE)
    assert (answer["imported"], answer["duplicates"], answer["flagged"]) == (3, 0, 1)
    assert "possible_duplicate" in {warning["code"] for warning in answer["warnings"]}
    assert (await ledger(journal))["net_change"] == 1291


async def test_an_empty_journal_has_no_bank_accounts(journal: Journal, satisfies: Callable[[str, Any], None]) -> None:
    accounts = await journal.get("/banking/accounts")
    satisfies("list_bank_accounts", accounts)
    assert accounts == []


async def test_the_ledger_needs_a_key_that_may_write(with_role: Callable[[str], Awaitable[Caller]]) -> None:
    reader = await with_role("read-only")
    await reader.expect(403, "POST", "/banking/import", data=form(CHASE, account_id="B1"))
    assert await reader.get("/banking/accounts") == []
