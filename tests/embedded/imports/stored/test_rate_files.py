"""A file of exchange rates: the whole answer, count by count, and what the list of imports keeps of it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from tests.embedded.driver import Journal

ECB = b"Date,USD,JPY,BGN,\n2025-11-18,1.1583,180.10,N/A,\n2025-11-17,1.16,180.05,N/A,\n"
OWN = b"date,base,quote,rate\n2025-11-17,EUR,USD,1.17\n2025-11-18,EUR,XX,1\n2025-11-19,GBP,CHF,1.06\n"
SHAPE: dict[str, Any] = {
    "kind": "exchange_rates",
    "detected_by": "header",
    "account_id": "A1",
    "fees_updated": 0,
    "skipped_rows": 0,
    "symbols": [],
    "preview": [],
}


async def test_the_answer_to_a_file_of_the_bank_is_whole(journal: Journal) -> None:
    answer = await journal.csv(ECB)
    batch = answer.pop("batch_id")
    expected = {
        **SHAPE,
        "status": "SUCCESS",
        "broker": "ecb",
        "detected_format": "ecb_rates",
        "total_rows": 2,
        "parsed_rows": 2,
        "imported": 4,
        "duplicates_skipped": 0,
        "error_rows": 0,
        "errors": [],
        "warnings": [],
        "date_range": {"from": "2025-11-17", "to": "2025-11-18"},
        "rates": {"added": 4, "changed": 0, "unchanged": 0},
        "currencies": ["EUR", "JPY", "USD"],
    }
    assert answer == expected
    again = await journal.csv(ECB)
    assert again.pop("batch_id") != batch
    assert [(warning["code"], bool(warning["message"])) for warning in again.pop("warnings")] == [("same_file", True)]
    del expected["warnings"]
    assert again == {
        **expected,
        "imported": 0,
        "duplicates_skipped": 4,
        "rates": {"added": 0, "changed": 0, "unchanged": 4},
    }


async def test_the_answer_to_a_file_of_ones_own_counts_what_was_refused_and_what_changed(journal: Journal) -> None:
    await journal.csv(ECB)
    answer = await journal.csv(OWN)
    (error,) = answer.pop("errors")
    assert "XX" in str(error)
    answer.pop("batch_id")
    assert answer == {
        **SHAPE,
        "status": "PARTIAL",
        "broker": "rates",
        "detected_format": "rates",
        "total_rows": 3,
        "parsed_rows": 2,
        "imported": 2,
        "duplicates_skipped": 0,
        "error_rows": 1,
        "warnings": [],
        "date_range": {"from": "2025-11-17", "to": "2025-11-19"},
        "rates": {"added": 1, "changed": 1, "unchanged": 0},
        "currencies": ["CHF", "EUR", "GBP", "USD"],
    }


async def test_a_file_without_one_good_rate_fails_and_has_no_days(journal: Journal) -> None:
    answer = await journal.csv(b"date,base,quote,rate\n2025-11-18,EUR,XX,1\n")
    assert (answer["status"], answer["total_rows"], answer["parsed_rows"], answer["error_rows"]) == ("FAILED", 1, 0, 1)
    assert (answer["imported"], answer["currencies"]) == (0, [])
    assert answer["date_range"] is None


async def test_an_import_of_rates_is_listed_with_its_counts(journal: Journal) -> None:
    for data in (ECB, OWN, OWN):
        await journal.csv(data)
    batches = await journal.get("/import/batches")
    assert [
        (
            one["kind"],
            one["broker"],
            one["imported"],
            one["duplicates"],
            one["updated"],
            one["first_day"],
            one["last_day"],
        )
        for one in batches["items"]
    ] == [
        ("rates", "rates", 0, 2, 0, "2025-11-17", "2025-11-19"),
        ("rates", "rates", 2, 0, 1, "2025-11-17", "2025-11-19"),
        ("rates", "ecb", 4, 0, 0, "2025-11-17", "2025-11-18"),
    ]
    assert [one["file_sha256"] for one in batches["items"]] == [sha256(data).hexdigest() for data in (OWN, OWN, ECB)]
