"""Broker files over REST: what is new is written, what is held is recognised, what is refused leaves nothing."""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.driver import Journal, form
from tests.embedded.imports import writers
from tests.embedded.imports.writers import NEW_YORK, Contract, Fill
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.imports.drafts import ImportLimits
from zorivest_rpc.embedded.rest import uploads

SPY = Contract("SPY")
CALL = Contract("AAPL", dt.date(2025, 6, 20), "C", Decimal(200))


def fill(minute: int, quantity: int, price: str, contract: Contract = SPY, is_buy: bool = True, **more: Any) -> Fill:
    at = dt.datetime(2025, 3, 3, 10, minute, tzinfo=NEW_YORK)
    return Fill(at, contract, is_buy, quantity, Decimal(price), Decimal(more.get("commission", "1.00")))


FILLS = [
    fill(0, 100, "500.25"),
    fill(1, 2, "3.10", CALL),
    fill(2, 60, "501.00", is_buy=False),
    fill(3, 40, "499.50", is_buy=False),
    fill(3, 40, "499.50", is_buy=True),
]


async def test_a_csv_brings_its_trades_and_their_round_trips(journal: Journal) -> None:
    answer = await journal.csv(writers.webull(FILLS))
    assert (answer["status"], answer["broker"], answer["detected_by"]) == ("SUCCESS", "webull", "header")
    assert (answer["total_rows"], answer["imported"], answer["duplicates_skipped"], answer["errors"]) == (5, 5, 0, [])
    assert answer["symbols"] == ["AAPL 250620 C 200", "SPY"]
    assert len(answer["preview"]) == 5
    assert answer["date_range"] == {"from": "2025-03-03T15:00:00+00:00", "to": "2025-03-03T15:03:00+00:00"}
    trades = await journal.trades()
    assert [(trade["action"], trade["quantity"], trade["price"]) for trade in trades[:3]] == [
        ("BOT", 100, 500.25),
        ("BOT", 2, 3.1),
        ("SLD", 60, 501),
    ]
    assert {trade["source"] for trade in trades} == {"import"}
    assert trades[1]["multiplier"] == 100
    assert trades[0]["time"] == "2025-03-03T15:00:00+00:00"
    trips = (await journal.get("/round-trips", params={"instrument": "SPY"}))["items"]
    closed = [trip for trip in trips if trip["instrument"] == "SPY" and trip["status"] == "closed"]
    # bought 100 at 500.25; sold 60 at 501.00 and 40 at 499.50: 60*0.75 - 40*0.75 = 15; fees 1.00 + 1.00 + 1.00
    assert [trip["realized_pnl"] for trip in closed] == [12]


async def test_the_fees_of_a_file_are_in_the_ledger(journal: Journal) -> None:
    await journal.csv(
        writers.lightspeed([Fill(FILLS[0].at, SPY, True, 100, Decimal(500), Decimal("1.5"), Decimal("0.3"))])
    )
    (trade,) = await journal.trades()
    assert (trade["commission"], trade["fees"]) == (1.5, 0.3)
    fees = await journal.get("/fees/summary", params={"period": "all"})
    by_type = {row["fee_type"]: row["amount"] for row in fees["by_type"]}
    assert by_type == {"commission": 1.5, "ecn": 0.3}


async def test_importing_a_file_again_changes_nothing(journal: Journal) -> None:
    data = writers.webull(FILLS)
    await journal.csv(data)
    before = await journal.contents()
    again = await journal.csv(data)
    assert (again["imported"], again["duplicates_skipped"], again["fees_updated"]) == (0, 5, 0)
    assert "same_file" in {warning["code"] for warning in again["warnings"]}
    assert await journal.contents() == before


@pytest.mark.parametrize("first", ["csv", "flex"])
async def test_the_same_trades_in_two_layouts_are_there_once(journal: Journal, first: str) -> None:
    files = {"csv": writers.webull(FILLS), "flex": writers.flex_xml(FILLS, with_ids=True)}
    order = [files.pop(first), *files.values()]
    assert (await journal.csv(order[0]))["imported"] == 5
    before = await journal.contents()
    second = await journal.csv(order[1])
    assert (second["imported"], second["duplicates_skipped"], second["fees_updated"]) == (0, 5, 0)
    assert await journal.contents() == before


@pytest.mark.parametrize("first", ["days", "times"])
async def test_a_file_with_days_alone_meets_the_one_with_times(journal: Journal, first: str) -> None:
    same = [*FILLS, FILLS[0]]  # one of them filled twice
    files = {"days": writers.schwab(same), "times": writers.webull(same)}
    order = [files.pop(first), *files.values()]
    assert (await journal.csv(order[0]))["imported"] == 6
    before = await journal.contents()
    for data in (order[1], order[0], order[1]):
        again = await journal.csv(data)
        assert (again["imported"], again["duplicates_skipped"]) == (0, 6)
    assert await journal.contents() == before


async def test_a_day_file_brings_the_fills_that_the_other_did_not_have(journal: Journal) -> None:
    await journal.csv(writers.webull(FILLS[:1]))
    answer = await journal.csv(writers.schwab([FILLS[0], FILLS[0], FILLS[1]]))
    assert (answer["imported"], answer["duplicates_skipped"]) == (2, 1)
    twice = await journal.csv(writers.schwab([FILLS[0], FILLS[0], FILLS[1]]))
    assert (twice["imported"], twice["duplicates_skipped"]) == (0, 3)


async def test_equal_fills_at_different_times_of_a_day_are_different(journal: Journal) -> None:
    await journal.csv(writers.webull([fill(0, 100, "500.25")]))
    assert (await journal.csv(writers.webull([fill(30, 100, "500.25")])))["imported"] == 1


async def test_an_overlapping_file_brings_only_its_new_rows(journal: Journal) -> None:
    await journal.csv(writers.webull(FILLS[:3]))
    answer = await journal.csv(writers.webull(FILLS[1:]))
    assert (answer["imported"], answer["duplicates_skipped"]) == (2, 2)
    assert len(await journal.trades()) == 5


async def test_a_trade_recorded_by_hand_is_known_again_in_a_file(journal: Journal) -> None:
    await journal.buy(100, 500.25, "2025-03-03", exec_id="mine")
    answer = await journal.csv(writers.webull(FILLS[:1]))
    assert (answer["imported"], answer["duplicates_skipped"], answer["fees_updated"]) == (0, 1, 1)
    (trade,) = await journal.trades()
    assert (trade["exec_id"], trade["commission"], trade["source"]) == ("mine", 1, "manual")


async def test_a_later_file_corrects_fees_and_one_without_fees_does_not_erase_them(journal: Journal) -> None:
    bare = [Fill(one.at, one.contract, one.is_buy, one.quantity, one.price) for one in FILLS]
    await journal.csv(writers.webull(bare))
    corrected = await journal.csv(writers.webull(FILLS))
    assert (corrected["imported"], corrected["fees_updated"]) == (0, 5)
    assert {trade["commission"] for trade in await journal.trades()} == {1}
    fees = await journal.get("/fees/summary", params={"period": "all"})
    assert (await journal.csv(writers.webull(bare)))["fees_updated"] == 0
    assert await journal.get("/fees/summary", params={"period": "all"}) == fees


async def test_twins_of_one_file_are_two_trades(journal: Journal) -> None:
    twins = [FILLS[0], FILLS[0]]
    assert (await journal.csv(writers.webull(twins)))["imported"] == 2
    assert (await journal.csv(writers.webull(twins)))["imported"] == 0


async def test_bad_rows_are_told_with_their_lines_and_the_good_ones_are_kept(journal: Journal) -> None:
    lines = writers.webull(FILLS[:3]).decode().splitlines()
    lines[2] = lines[2].replace(",3.10,", ",free,")
    answer = await journal.csv("\r\n".join(lines).encode() + b"\r\n")
    assert (answer["status"], answer["imported"], answer["error_rows"]) == ("PARTIAL", 2, 1)
    (error,) = answer["errors"]
    assert (error["row_number"], error["field"]) == (3, "price")
    assert "free" in error["raw_line"]
    (batch,) = (await journal.get("/import/batches"))["items"]
    assert (batch["status"], batch["imported"], batch["errors"]) == ("PARTIAL", 2, answer["errors"])


async def test_a_file_of_bad_rows_alone_writes_a_failed_batch_and_nothing_else(journal: Journal) -> None:
    before = await journal.contents()
    answer = await journal.csv(b"Date,Symbol,Side,Quantity,Price\nnever,SPY,BUY,1,1\n")
    assert (answer["status"], answer["imported"]) == ("FAILED", 0)
    assert await journal.contents() == before


async def test_an_amount_no_column_holds_is_a_bad_row(journal: Journal) -> None:
    rows = b"Date,Symbol,Side,Quantity,Price\n2025-03-03,SPY,BUY,99999999999,5\n2025-03-03,SPY,BUY,1,5.123456789\n"
    answer = await journal.csv(rows)
    assert (answer["status"], answer["imported"]) == ("PARTIAL", 1)
    assert answer["errors"][0]["field"] == "quantity"
    (trade,) = await journal.trades()
    assert trade["price"] == 5.12345679


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "empty_file"),
        (b"\x00\x01\x02" * 50, "binary_file"),
        (b"PK\x03\x04 sheet", "not_text"),
        (b"a,b,c\n1,2,3\n", "unknown_broker_format"),
        (b"%PDF-1.4 x", "is_pdf"),
        (b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><FlexQueryResponse>&e;', None),
    ],
)
async def test_a_refused_file_writes_nothing(journal: Journal, data: bytes, code: str | None) -> None:
    await journal.csv(writers.webull(FILLS))
    before = await journal.contents()
    refused = await journal.refused(422, "POST", "/import/csv", data=form(data, account_id="NEW"))
    assert code in (None, refused["error"])
    assert "passwd" not in refused["detail"]
    assert await journal.contents() == before
    assert (await journal.get("/import/batches"))["total"] == 1


async def test_an_unknown_layout_is_told_with_the_headers_seen(journal: Journal) -> None:
    refused = await journal.refused(422, "POST", "/import/csv", data=form(b"alpha,beta\n1,2\n", account_id="A1"))
    assert refused["error"] == "unknown_broker_format"
    assert refused["headers"] == ["alpha", "beta"]


async def test_every_truncation_of_a_small_file_is_an_answer_or_a_refusal(journal: Journal) -> None:
    data = writers.flex_xml(FILLS[:2], with_ids=True)
    for end in range(0, len(data), 37):
        response = await journal.caller.ask("POST", "/import/csv", data=form(data[:end], account_id="A1"))
        assert response.status in (200, 422), await response.text()
    assert (await journal.csv(data))["status"] == "SUCCESS"
    assert len(await journal.trades()) == 2


FORMULAS = ("=cmd|' /C calc'!A0", "+SUM(A1:A9)", "@SUM(A1)", "-2+3+cmd|x", '=HYPERLINK("http://x")', "\t=1+1")


async def test_a_formula_for_a_symbol_is_a_bad_row(journal: Journal) -> None:
    rows = b'Date,Symbol,Side,Quantity,Price,Notes\n2025-03-03,"=HYPERLINK(""x"")",BUY,1,1,=cmd()\n'
    answer = await journal.csv(rows)
    assert (answer["imported"], answer["status"]) == (0, "FAILED")
    assert not answer["errors"][0]["raw_line"].startswith("=")


@pytest.mark.parametrize("cell", FORMULAS)
async def test_whatever_is_taken_out_of_the_journal_again_holds_no_formula(journal: Journal, cell: str) -> None:
    rows: list[list[object]] = [
        ["Date", "Symbol", "Side", "Quantity", "Price", "Notes", "Order ID", "Fill #"],
        ["2025-03-03 10:00", "SPY", "BUY", 1, 5, cell, cell, "1"],
    ]
    await journal.csv(writers.table(rows).encode())
    lines: list[list[object]] = [["Date", "Description", "Amount", "Memo"], ["2025-03-03", cell, "-5.00", cell]]
    await journal.bank(writers.table(lines).encode())
    (trade,) = await journal.trades()
    (line,) = (await journal.get("/banking/accounts/B1/transactions"))["items"]
    assert cell.strip()[1:] in trade["notes"]
    for value in (*trade.values(), *line.values()):
        assert not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")), value


async def test_a_refused_file_of_any_kind_leaves_the_journal_as_it_was(journal: Journal) -> None:
    await journal.csv(writers.webull(FILLS))
    before, batches = await journal.contents(), await journal.get("/import/batches")
    whole = writers.flex_xml(FILLS, with_ids=True)
    bomb = b'<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><FlexQueryResponse><Trade symbol="&b;"/>'
    hostile = [bomb, gzip.compress(bytes(10**7)), whole[: len(whole) // 2], b"Date,Symbol\x00\n", b"\xff\xfe\x00"]
    for data in hostile:
        for path in ("/import/csv", "/banking/import", "/import/pdf"):
            await journal.refused(422, "POST", path, data=form(data, account_id="A1"))
    assert await journal.contents() == before
    assert await journal.get("/import/batches") == batches


async def test_how_far_an_import_has_come_is_told_while_it_is_read_and_written(
    journal: Journal, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []

    class Watched(dict[str, tuple[int, int]]):
        def __setitem__(self, key: str, value: tuple[int, int]) -> None:
            assert key == "a-key-of-mine"
            seen.append(value)
            super().__setitem__(key, value)

    shown = Watched()
    monkeypatch.setattr(backend, "reading", shown)
    many = [fill(minute % 60, minute + 1, "500.25") for minute in range(3000)]
    headers = {"Idempotency-Key": "a-key-of-mine"}
    body = form(writers.webull(many), account_id="A1")
    await journal.expect(200, "POST", "/import/csv", data=body, headers=headers)
    shares = [done / total for done, total in seen]
    assert shares == sorted(shares)
    assert shares[0] < 0.5 < shares[-1] <= 1
    assert {total for _, total in seen if total > 2} != set()
    assert shown == {}
    await journal.expect(404, "GET", "/import/progress/a-key-of-mine")


async def test_a_missing_file_and_a_missing_account_are_told(journal: Journal) -> None:
    assert (
        "file"
        in (await journal.refused(422, "POST", "/import/csv", data=form(None, account_id="A1")))["detail"]["errors"]
    )
    refused = await journal.refused(422, "POST", "/import/csv", data=form(b"x"))
    assert "account_id" in refused["detail"]["errors"]
    await journal.refused(422, "POST", "/import/csv", {"account_id": "A1"})
    await journal.refused(403, "POST", "/import/csv", data=form(writers.webull(FILLS), account_id="SYSTEM_DEFAULT"))


async def test_without_auto_create_an_unknown_account_is_refused(journal: Journal) -> None:
    await journal.expect(200, "PUT", "/settings", {"accounts.auto_create": False})
    await journal.refused(422, "POST", "/import/csv", data=form(writers.webull(FILLS), account_id="A1"))
    assert await journal.trades() == []
    assert (await journal.get("/import/batches"))["total"] == 0


async def test_one_execution_is_not_recorded_in_two_accounts(journal: Journal) -> None:
    data = writers.flex_xml(FILLS, with_ids=True)
    await journal.csv(data, "A1")
    answer = await journal.csv(data, "A2")
    assert (answer["imported"], answer["duplicates_skipped"]) == (0, 5)
    assert "held_elsewhere" in {warning["code"] for warning in answer["warnings"]}
    assert {trade["account_id"] for trade in await journal.trades()} == {"A1"}


async def test_two_imports_of_one_file_at_once_write_it_once(journal: Journal) -> None:
    data = writers.webull(FILLS)
    answers = await asyncio.gather(*(journal.csv(data) for _ in range(4)))
    assert sorted(answer["imported"] for answer in answers) == [0, 0, 0, 5]
    assert len(await journal.trades()) == 5


async def test_times_without_a_zone_are_read_in_the_import_zone(journal: Journal) -> None:
    await journal.expect(200, "PUT", "/settings", {"import.timezone": "Europe/Berlin"})
    await journal.csv(writers.webull(FILLS[:1]))
    (trade,) = await journal.trades()
    assert trade["time"] == "2025-03-03T09:00:00+00:00"


async def test_a_security_named_by_number_is_stored_under_its_ticker_where_that_is_known(journal: Journal) -> None:
    rows = b"Date,Symbol,Side,Quantity,Price\n2025-03-03 10:00,037833100,BUY,1,200\n"
    answer = await journal.csv(rows)
    assert (answer["imported"], answer["symbols"]) == (1, ["AAPL"])
    assert "unresolved_identifiers" not in {warning["code"] for warning in answer["warnings"]}
    by_ticker = rows.replace(b"037833100", b"AAPL")
    assert (await journal.csv(by_ticker))["duplicates_skipped"] == 1
    assert (await journal.csv(rows))["duplicates_skipped"] == 1
    unknown = await journal.csv(rows.replace(b"037833100", b"99999999A").replace(b"200", b"300"), account_id="A2")
    assert unknown["imported"] == 1
    assert len(await journal.trades()) == 2


async def test_a_pdf_statement_meets_the_csv_of_the_same_trades(journal: Journal) -> None:
    answer = await journal.pdf(writers.pdf_table(FILLS))
    assert (answer["status"], answer["imported"]) == ("SUCCESS", 5)
    assert answer["confidence"] == 0.9
    before = await journal.contents()
    assert (await journal.csv(writers.webull(FILLS)))["imported"] == 0
    assert await journal.contents() == before


@pytest.mark.parametrize(
    ("data", "code"), [(b"Date,Symbol\n", "not_a_pdf"), (b"%PDF-1.4\n/Encrypt 1 0 R", None), (b"%PDF-1.7\n%%EOF", None)]
)
async def test_a_refused_pdf_writes_nothing(journal: Journal, data: bytes, code: str | None) -> None:
    refused = await journal.refused(422, "POST", "/import/pdf", data=form(data, "x.pdf", account_id="A1"))
    assert code in (None, refused["error"])
    assert await journal.get("/accounts") == []
    assert (await journal.get("/import/batches"))["total"] == 0


async def test_importing_needs_a_key_that_may_write(with_role: Callable[[str], Awaitable[Caller]]) -> None:
    reader = await with_role("read-only")
    for path in ("/import/csv", "/import/pdf", "/banking/import"):
        await reader.expect(403, "POST", path, data=form(b"x", account_id="A1"))
    empty = await reader.get("/import/batches")
    assert empty["items"] == []
    assert "import_broker_csv" in empty["hint"]
    writer = await with_role("read-write")
    await writer.expect(200, "POST", "/import/csv", data=form(writers.webull(FILLS), account_id="A1"))


async def test_a_file_above_the_limit_is_refused_before_it_is_read(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "LIMITS", ImportLimits(max_bytes=2000))
    refused = await journal.refused(413, "POST", "/import/csv", data=form(b"x" * 2001, account_id="A1"))
    assert refused["error"] == "too_large"
    monkeypatch.setattr(uploads, "LIMITS", ImportLimits(max_rows=2))
    refused = await journal.refused(413, "POST", "/import/csv", data=form(writers.webull(FILLS), account_id="A1"))
    assert refused["error"] == "too_many_rows"
    assert await journal.get("/accounts") == []


async def test_a_file_that_takes_too_long_is_given_up(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "SECONDS", -1.0)
    refused = await journal.refused(422, "POST", "/import/csv", data=form(writers.webull(FILLS), account_id="A1"))
    assert refused["error"] == "deadline_exceeded"
    assert await journal.trades() == []


async def test_reading_gives_way_when_the_backend_ends(journal: Journal, backend: Embedded) -> None:
    backend.stop_requested.set()
    refused = await journal.refused(422, "POST", "/import/csv", data=form(writers.webull(FILLS), account_id="A1"))
    assert refused["error"] == "deadline_exceeded"
    assert await journal.trades() == []


async def test_hostile_names_are_names_and_nothing_else(journal: Journal) -> None:
    body = form(writers.webull(FILLS[:1]), "../../etc/passwd\u202e.csv", account_id="A1")
    await journal.expect(200, "POST", "/import/csv", data=body)
    (batch,) = (await journal.get("/import/batches"))["items"]
    assert "/" not in batch["file_name"]
    assert batch["file_name"].isprintable()
    for name in ("a\nb", "..", "x" * 129, " "):
        await journal.refused(422, "POST", "/import/csv", data=form(writers.webull(FILLS), account_id=name))
    hint = form(writers.webull(FILLS), account_id="A1", broker_hint="no such broker")
    await journal.refused(422, "POST", "/import/csv", data=hint)


async def test_ids_of_a_broker_that_no_row_can_carry_are_replaced(journal: Journal) -> None:
    data = writers.flex_xml(FILLS[:1], with_ids=True).replace(b'tradeID="5000"', b'tradeID="' + b"9" * 300 + b'"')
    assert (await journal.csv(data))["imported"] == 1
    (trade,) = await journal.trades()
    assert len(trade["exec_id"]) <= 128
    assert (await journal.csv(data))["imported"] == 0


async def test_questions_are_answered_while_files_come_in(journal: Journal) -> None:
    days = [fill(minute, 10, f"{500 + minute}.00", is_buy=minute % 2 == 0) for minute in range(50)]
    parts = [writers.webull(days[at : at + 10]) for at in range(0, 50, 10)]
    jobs = [journal.csv(part) for part in parts]
    asks = [journal.get("/tax/lots", params={"status": "all"}) for _ in range(5)]
    results = await asyncio.gather(*jobs, *asks)
    assert sum(answer["imported"] for answer in results[:5]) == 50
    # every second fill sells what the one before it bought: 25 lots, all closed
    lots = await journal.get("/tax/lots", params={"status": "all"})
    assert lots["total_count"] == 25
