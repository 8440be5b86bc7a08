"""Counts and limits of an import from both sides, and fees that a second file may or may not change."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.imports.drafts import BrokerImport, Status, TradeDraft
from zorivest_rpc.embedded.imports.stored import trades as import_store
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

HEAD = "Date,Time,Symbol,Side,Quantity,Price,Commission,Fee,Exec ID\n"


def row(name: str, *, quantity: str = "10", price: str = "5", commission: str = "1.00", fee: str = "0.10") -> str:
    return f"03/19/2026,10:30:00,{name.partition('@')[0]},Buy,{quantity},{price},{commission},{fee},{name}\n"


async def test_errors_of_reading_and_of_storing_are_counted_together(journal: Journal) -> None:
    text = HEAD + row("AAA@1") + row("BBB@2", quantity="x") + row("CCC@3", quantity="99999999999")
    answer = await journal.csv(text.encode())
    assert (answer["status"], answer["imported"], answer["parsed_rows"]) == ("PARTIAL", 1, 1)
    assert (answer["error_rows"], len(answer["errors"]), answer["total_rows"]) == (2, 2, 3)


@pytest.mark.parametrize(("quantity", "imported"), [("50000000", 1), ("50000001", 0)])
async def test_the_value_of_an_option_counts_its_multiplier(journal: Journal, quantity: str, imported: int) -> None:
    text = HEAD + row("SPY 260320 C 500@1", quantity=quantity, price="200", commission="0", fee="0")
    answer = await journal.csv(text.encode())  # 50 000 000 * 200 * 100 is exactly the limit of 10^12
    assert (answer["imported"], answer["error_rows"]) == (imported, 1 - imported)


async def test_an_id_that_comes_again_with_another_price_changes_no_fees(journal: Journal) -> None:
    await journal.csv((HEAD + row("AAA@1")).encode())
    answer = await journal.csv((HEAD + row("AAA@1", price="6", commission="9.00")).encode())
    assert (answer["imported"], answer["duplicates_skipped"], answer["fees_updated"]) == (0, 1, 0)
    (trade,) = await journal.trades()
    assert (trade["price"], trade["commission"], trade["fees"]) == (5, 1, 0.1)


async def test_a_correction_of_fees_brings_its_own_lines_and_a_file_without_fees_none(journal: Journal) -> None:
    await journal.csv((HEAD + row("AAA@1")).encode())
    answer = await journal.csv((HEAD + row("AAA@1", commission="0", fee="0")).encode())
    assert answer["fees_updated"] == 0
    lines = (await journal.get("/trades/AAA@1/fees"))["items"]
    assert sorted(line["amount"] for line in lines) == [0.1, 1]
    answer = await journal.csv((HEAD + row("AAA@1", commission="2.00", fee="0.30")).encode())
    assert answer["fees_updated"] == 1
    lines = (await journal.get("/trades/AAA@1/fees"))["items"]
    assert sorted((line["fee_type"], line["amount"]) for line in lines) == [("commission", 2), ("other", 0.3)]
    await journal.expect(200, "PUT", "/trades/AAA@1", {"notes": "the lines stay"})
    assert len((await journal.get("/trades/AAA@1/fees"))["items"]) == 2


async def test_a_correction_of_fees_keeps_the_kinds_of_its_columns(journal: Journal) -> None:
    head = HEAD.replace("Fee,", "ECN Fee,Exchange Fee,")
    for commission, ecn, exchange in (("1.00", "0.10", "0.20"), ("2.00", "0.30", "0.40")):
        line = f"03/19/2026,10:30:00,AAA,Buy,10,5,{commission},{ecn},{exchange},AAA@1\n"
        await journal.csv((head + line).encode())
        lines = (await journal.get("/trades/AAA@1/fees"))["items"]
        assert {each["fee_type"]: each["amount"] for each in lines} == {
            "commission": float(commission),
            "ecn": float(ecn),
            "exchange": float(exchange),
        }


FLEX = (
    '<FlexQueryResponse><FlexStatements><FlexStatement><AccountInformation currency="EUR" /><Trades>'
    '<Trade symbol="AAA" assetCategory="STK" dateTime="20260319;103000" quantity="10" tradePrice="5" buySell="BUY" '
    'currency="USD" fxRateToBase="0.5" ibCommission="{paid}" ibCommissionCurrency="{currency}" taxes="{taxes}" '
    'tradeID="7" /></Trades></FlexStatement></FlexStatements></FlexQueryResponse>'
)


async def test_a_correction_without_lines_leaves_none_that_no_longer_add_up(journal: Journal) -> None:
    """A euro is two dollars in these files; what was paid in euros is one sum in the currency of the trade."""
    await journal.csv(FLEX.format(paid="-1.00", taxes="-0.10", currency="USD").encode())
    lines = (await journal.get("/trades/7/fees"))["items"]
    assert sorted(line["amount"] for line in lines) == [0.1, 1]
    answer = await journal.csv(FLEX.format(paid="-2.00", taxes="-0.20", currency="EUR").encode())
    assert (answer["imported"], answer["duplicates_skipped"], answer["fees_updated"]) == (0, 1, 1)
    (trade,) = await journal.trades()
    assert (trade["commission"], trade["fees"]) == (4, 0.4)
    after = await journal.get("/trades/7/fees")
    assert after["total_fees"] == 4.4
    assert (await journal.get("/fees/summary", params={"period": "all"}))["total_fees"] == 4.4


@pytest.mark.parametrize(
    ("time", "quantity", "price", "told"),
    [
        ("10:30:05", "10.01", "5.005", True),
        ("10:30:06", "10", "5.001", False),
        ("10:30:05", "10.02", "5.001", False),
        ("10:30:05", "10.01", "5.006", False),
    ],
)
async def test_a_look_alike_is_told_up_to_its_limits(
    journal: Journal, time: str, quantity: str, price: str, told: bool
) -> None:
    await journal.csv((HEAD + row("AAA@1")).encode())
    other = f"03/19/2026,{time},AAA,Buy,{quantity},{price},0,0,AAA@2\n"
    answer = await journal.csv((HEAD + other).encode())
    assert answer["imported"] == 1
    assert ("possible_duplicate" in {note["code"] for note in answer["warnings"]}) is told


async def test_the_slippage_of_an_option_counts_its_multiplier(journal: Journal) -> None:
    quoted = {"instrument": "SPY 260320 C 500", "nbbo_bid": 2.00, "nbbo_ask": 2.05}
    await journal.trade("BOT", 1, 2.10, "2026-03-02", **quoted)
    await journal.trade("SLD", 1, 3.10, "2026-03-03", instrument="SPY 260320 C 500")
    answer = await journal.get("/analytics/expectancy")
    assert (answer["expectancy"], answer["edge_per_trade"]) == (100, 95)  # 0.05 worse than the offer, times 100


async def test_an_option_that_was_never_open_is_not_delivered(journal: Journal) -> None:
    await journal.trade("BOT", 1, 2.10, "2026-03-02", instrument="SPY")
    body = {"kind": "exercise", "symbol": "SPY 260320 C 500", "account_id": "A1", "effective": "2026-03-20"}
    refusal = await journal.expect(409, "POST", "/corporate-actions", body)
    assert refusal["error"] == "no_open_position"
    assert len(await journal.trades()) == 1


async def test_the_trades_that_are_shown_are_shown_whole_and_only_the_first_five(journal: Journal) -> None:
    text = HEAD + "".join(row(f"AAA@{number}", quantity=str(number)) for number in range(1, 7))
    shown = (await journal.csv(text.encode()))["preview"]
    assert [each["quantity"] for each in shown] == [1, 2, 3, 4, 5]
    assert shown[1] == {
        "exec_id": "AAA@2",
        "time": "2026-03-19T14:30:00+00:00",
        "symbol": "AAA",
        "asset_class": "EQUITY",
        "action": "BOT",
        "quantity": 2,
        "price": 5,
        "commission": 1,
        "fees": 0.1,
        "currency": "USD",
        "row_number": 3,
    }


async def test_rows_that_are_no_trades_are_counted_by_their_kind(journal: Journal) -> None:
    text = "Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount\n03/19/2026,Buy,AAA,A,10,5,,-50.00\n"
    text += "03/20/2026,Cash Dividend,AAA,A,,,,1.00\n" * 2 + "03/20/2026,Bank Interest,,BANK INT,,,,0.10\n"
    answer = await journal.csv(text.encode())
    assert (answer["broker"], answer["imported"], answer["skipped_rows"]) == ("schwab", 1, 3)
    assert answer["skipped"] == [{"kind": "dividend", "count": 2}, {"kind": "interest", "count": 1}]


BY_NUMBER = "Date,Symbol,Side,Quantity,Price\n2025-03-03,{},BUY,1,200\n2025-03-03,{},BUY,1,300\n"


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("037833100", "594918104", {"date_only"}),
        ("037833100", "000000000", {"date_only", "unresolved_identifiers"}),
    ],
)
async def test_numbers_without_a_ticker_are_told_until_all_are_known(
    journal: Journal, first: str, second: str, told: set[str]
) -> None:
    answer = await journal.csv(BY_NUMBER.format(first, second).encode())
    assert answer["imported"] == 2
    assert {note["code"] for note in answer["warnings"]} == told


async def test_a_fill_with_more_places_than_the_journal_keeps_is_known_again_without_its_id(journal: Journal) -> None:
    exact = row("AAA@1", price="5.12345678912")
    assert (await journal.csv((HEAD + exact).encode()))["imported"] == 1
    answer = await journal.csv((HEAD + exact.replace(",AAA@1", ",")).encode())
    assert (answer["imported"], answer["duplicates_skipped"]) == (0, 1)


def found(*trades: TradeDraft) -> BrokerImport:
    return BrokerImport(
        status=Status.SUCCESS,
        broker="alpaca",
        detected_format="api",
        detected_by="connection",
        account_id="A1",
        file_sha256="",
        file_size=0,
        encoding="",
        total_rows=len(trades),
        parsed_rows=len(trades),
        skipped_rows=0,
        repeated_rows=0,
        error_rows=0,
        trades=trades,
        errors=(),
        warnings=(),
        date_from=None,
        date_to=None,
        symbols=("AAA",),
    )


def pulled(number: int, **more: Any) -> TradeDraft:
    draft: dict[str, Any] = {
        "row_number": None,
        "broker": "alpaca",
        "account_id": "A1",
        "exec_time": datetime(2026, 3, 19, 14, 30, number % 60, tzinfo=UTC),
        "instrument": "AAA",
        "symbol": "AAA",
        "asset_class": AssetClass.EQUITY,
        "side": Side.BOT,
        "quantity": Decimal(number),
        "price": Decimal(5),
        "multiplier": Decimal(1),
        "currency": "USD",
    }
    return TradeDraft(**draft | more)


async def store(backend: Embedded, *drafts: TradeDraft, **more: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"kind": "sync", "file_name": "", "actor": "tests", "auto_create": True, **more}
    return await backend.database().write(lambda conn: import_store.store(conn, found(*drafts), **arguments))


@pytest.mark.parametrize("field", ["quantity", "price", "multiplier", "commission", "fees"])
async def test_each_amount_is_stored_up_to_its_limit(journal: Journal, backend: Embedded, field: str) -> None:
    most = Decimal(10**10)
    answer = await store(backend, pulled(1, exec_id="E1", **{field: most}))
    assert (answer["imported"], answer["status"], answer["parsed_rows"]) == (1, "SUCCESS", 1)
    answer = await store(backend, pulled(2, exec_id="E2", **{field: most + 1}))
    assert (answer["imported"], answer["status"], answer["parsed_rows"]) == (0, "FAILED", 0)
    assert [(error["field"], error["message"]) for error in answer["errors"]] == [(field, "is above 10000000000")]


@pytest.mark.parametrize(
    ("pair", "more", "commission"),
    [
        ("EUR/USD", {}, Decimal("2.2")),  # the pair's own price
        ("EUR/USD", {"fx_rate": Decimal("0.8"), "base_currency": "EUR"}, Decimal("2.5")),  # a rate that was stated wins
        ("GBP/USD", {}, None),  # its price says nothing about euros
    ],
)
async def test_fees_of_a_pair_are_changed_at_a_rate_between_their_own_currencies(
    journal: Journal, backend: Embedded, pair: str, more: dict[str, Any], commission: Decimal | None
) -> None:
    forex = {"symbol": pair, "instrument": pair, "asset_class": AssetClass.FOREX, "fee_currency": "EUR"}
    draft = pulled(1, exec_id="E1", price=Decimal("1.1"), commission=Decimal(2), **forex, **more)
    answer = await store(backend, draft)
    if commission is None:
        assert (answer["imported"], answer["error_rows"], answer["errors"][0]["field"]) == (0, 1, "commission")
    else:
        (trade,) = await journal.trades()
        assert (trade["commission"], answer["imported"]) == (float(commission), 1)


async def test_an_id_is_kept_up_to_128_characters(journal: Journal, backend: Embedded) -> None:
    ids = ("e" * 128, "f" * 129)
    await store(backend, *(pulled(number, exec_id=name, order_id=name) for number, name in enumerate(ids, 1)))
    kept, replaced = await journal.trades()
    assert (kept["exec_id"], kept["order_id"]) == (ids[0], ids[0])
    assert (replaced["exec_id"] in ids, len(replaced["exec_id"]) <= 128) == (False, True)
    assert replaced["order_id"] == ids[1][:128]


async def test_writing_is_half_of_an_import_and_told_every_thousand_rows(journal: Journal, backend: Embedded) -> None:
    heard: list[tuple[int, int]] = []
    drafts = [pulled(number, exec_id=f"E{number}") for number in range(1, 2002)]

    def progress(done: int, total: int) -> None:
        heard.append((done, total))

    await store(backend, *drafts, progress=progress)
    assert heard == [(0, 4002), (1000, 4002), (2000, 4002), (1, 2)]


async def test_ids_that_other_accounts_hold_are_counted_by_account(journal: Journal) -> None:
    await journal.csv((HEAD + row("AAA@1") + row("BBB@2")).encode(), "A1")
    await journal.csv((HEAD + row("CCC@3")).encode(), "A3")
    days_later = (HEAD + row("AAA@1") + row("BBB@2") + row("CCC@3") + row("DDD@4")).replace("03/19", "04/19")
    answer = await journal.csv(days_later.encode(), "A2")
    assert (answer["imported"], answer["duplicates_skipped"]) == (1, 3)
    (note,) = [note["message"] for note in answer["warnings"] if note["code"] == "held_elsewhere"]
    assert "(2 in A1, 1 in A3); they were not added to A2." in note
    again = await journal.csv(days_later.replace("04/19", "05/19").encode(), "A2")  # its own id, of another day
    assert (again["imported"], again["duplicates_skipped"]) == (0, 4)
    assert "2 in A1, 1 in A3" in str(again["warnings"])


PLAIN = "Date,Time,Symbol,Side,Quantity,Price,Commission\n"
TIMED, UNTIMED = "03/19/2026,10:30:00,AAA,Buy,10,5,0\n", "03/19/2026,,AAA,Buy,10,5,0\n"


@pytest.mark.parametrize(
    ("first", "second", "imported"),
    [
        (TIMED, UNTIMED, 0),
        (UNTIMED, TIMED, 0),
        (TIMED, TIMED.replace("10:30", "11:30"), 1),
        (TIMED, UNTIMED * 2, 1),
        (UNTIMED, TIMED + TIMED.replace("10:30", "11:30"), 1),
        (TIMED * 2, UNTIMED * 2, 0),
        (TIMED * 2, TIMED + UNTIMED, 0),  # one answers for the row of its time, the other for the row without one
        (TIMED, TIMED + UNTIMED, 1),
        (TIMED, UNTIMED.replace("AAA", "BBB"), 1),
        (TIMED, UNTIMED.replace("Buy", "Sell"), 1),
        (TIMED, UNTIMED.replace("10,5", "11,5"), 1),
        (TIMED, UNTIMED.replace("10,5", "10,6"), 1),
        (TIMED, UNTIMED.replace("03/19", "03/20"), 1),
    ],
)
async def test_a_fill_without_a_time_answers_for_one_of_its_day(
    journal: Journal, first: str, second: str, imported: int
) -> None:
    await journal.csv((PLAIN + first).encode())
    answer = await journal.csv((PLAIN + second).encode())
    rows = second.count("\n")
    assert (answer["imported"], answer["duplicates_skipped"], answer["error_rows"]) == (imported, rows - imported, 0)
    assert len(await journal.trades()) == first.count("\n") + imported


async def test_a_row_of_a_time_and_one_without_answer_for_two_equal_fills_with_ids(journal: Journal) -> None:
    named = [row(f"AAA@{number}", commission="0", fee="0") for number in (1, 2)]
    await journal.csv((HEAD + "".join(named)).encode())
    answer = await journal.csv((PLAIN + TIMED + UNTIMED).encode())
    assert (answer["imported"], answer["duplicates_skipped"]) == (0, 2)
    answer = await journal.csv((PLAIN + TIMED + UNTIMED * 2).encode())
    assert (answer["imported"], answer["duplicates_skipped"]) == (1, 2)


async def test_a_fill_entered_by_hand_at_noon_has_a_time(journal: Journal) -> None:
    noon = {"time": "2026-03-19T12:00:00-04:00", "instrument": "AAA"}
    await journal.buy(10, 5, **noon)
    assert (await journal.csv((PLAIN + TIMED).encode()))["imported"] == 1
