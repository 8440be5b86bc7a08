"""A preview of an import answers what the import will answer, and leaves no trace."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.driver import Journal, form
from tests.embedded.imports import writers
from tests.embedded.imports.writers import NEW_YORK, Contract, Fill, Line

FILLS = [
    Fill(
        dt.datetime(2025, 3, 3, 10, minute, tzinfo=NEW_YORK), Contract("SPY"), minute < 20, 10, Decimal(500), Decimal(1)
    )
    for minute in range(40)
]
STATEMENT = writers.chase([Line(dt.date(2024, 1, 5), "Coffee", Decimal("-12.50"))])
FILES = [
    ("/import/csv", writers.webull(FILLS), "A1", 40),
    ("/import/pdf", writers.pdf_table(FILLS[:3]), "A1", 3),
    ("/banking/import", STATEMENT, "B1", 1),
]
SEEN = ("/trades", "/round-trips", "/import/batches", "/banking/accounts", "/accounts")


async def look(journal: Journal) -> list[Any]:
    return [await journal.get(path) for path in SEEN]


@pytest.mark.parametrize(("path", "data", "account", "count"), FILES)
async def test_a_preview_is_the_answer_of_the_import_and_writes_nothing(
    journal: Journal, path: str, data: bytes, account: str, count: int
) -> None:
    before = await look(journal)
    shown = await journal.expect(200, "POST", f"{path}/preview", data=form(data, account_id=account))
    assert (shown.pop("dry_run"), shown["imported"], "batch_id" in shown) == (True, count, False)
    assert await look(journal) == before

    imported = await journal.expect(200, "POST", path, data=form(data, account_id=account))
    del imported["batch_id"]
    assert imported == shown
    assert await look(journal) != before


async def test_a_preview_of_a_file_that_is_held_says_that_nothing_would_be_written(journal: Journal) -> None:
    await journal.csv(writers.webull(FILLS))
    body = form(writers.webull(FILLS), account_id="A1")
    shown = await journal.expect(200, "POST", "/import/csv/preview", data=body)
    assert (shown["imported"], shown["duplicates_skipped"]) == (0, 40)


async def test_a_preview_is_refused_as_the_import_would_be(journal: Journal) -> None:
    for path in ("/import/csv", "/import/csv/preview"):
        refused = await journal.refused(422, "POST", path, data=form(b"a,b\n1,2\n", account_id="A1"))
        assert refused["error"] == "unknown_broker_format"
