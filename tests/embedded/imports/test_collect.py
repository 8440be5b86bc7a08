"""What is made of all rows of a file: their order, their counts, and costs that only their amounts know."""

from __future__ import annotations

from decimal import Decimal as D
from typing import Any

import pytest

from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, ImportLimits, Status

HINTS = BrokerHints(account_id="A1")


def load(text: str, hints: BrokerHints = HINTS, **options: Any) -> BrokerImport:
    return import_broker_file(text.encode(), hints, **options)


def codes(result: BrokerImport) -> set[str]:
    return {note.code for note in result.warnings}


def note(result: BrokerImport, code: str) -> tuple[str, int | None]:
    (found,) = [one for one in result.warnings if one.code == code]
    return found.message, found.row_number


HEAD = "Date,Symbol,Side,Qty,Price\n"


def test_errors_beyond_the_limit_are_counted_and_told() -> None:
    bad = "2026-01-05,F,Buy,x,1\n"
    result = load(HEAD + bad * 5, limits=ImportLimits(max_errors=3))
    assert (result.status, result.error_rows, len(result.errors)) == (Status.FAILED, 5, 3)
    assert note(result, "more_errors")[0] == "2 more rows were refused than are listed."
    assert "more_errors" not in codes(load(HEAD + bad * 3, limits=ImportLimits(max_errors=3)))


@pytest.mark.parametrize(
    ("days", "lines"),
    [
        ("05 06 07", [2, 3, 4]),
        ("07 06 05", [4, 3, 2]),
        ("05 06 05", [4, 2, 3]),  # as many steps up as down, and it ends where it began: by what the rows can do
        ("06 05 07", [3, 2, 4]),
        ("06 07 05", [4, 2, 3]),
    ],
)
def test_rows_are_oldest_first_and_those_of_one_day_in_the_files_direction(days: str, lines: list[int]) -> None:
    words = ["Sell", "Sell", "Buy"] if days == "05 06 05" else ["Buy"] * 3
    rows = [
        f"2026-01-{day},F,{word},{at},1\n" for at, (day, word) in enumerate(zip(days.split(), words, strict=True), 1)
    ]
    assert [trade.row_number for trade in load(HEAD + "".join(rows)).trades] == lines


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("Buy Sell", [2, 3]),
        ("Sell Buy", [3, 2]),
        ("Sell Sell", [2, 3]),
        ("SellShort Cover", [2, 3]),
        ("Buy Buy", [2, 3]),
    ],
)
def test_the_rows_of_one_day_come_in_the_direction_that_sells_what_was_bought(words: str, lines: list[int]) -> None:
    rows = [f"2026-01-05,F,{word},{at},1\n" for at, word in enumerate(words.split(), 5)]
    assert [trade.row_number for trade in load(HEAD + "".join(rows)).trades] == lines


def test_what_is_held_counts_by_symbol_and_quantity() -> None:
    """Forwards one sale is uncovered (the second of three), backwards two."""
    rows = "2026-01-05,F,Buy,1,1\n2026-01-05,F,Sell,2,1\n2026-01-05,G,Sell,1,1\n2026-01-05,F,Buy,3,1\n"
    assert [trade.row_number for trade in load(HEAD + rows).trades] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("amount", "fees", "code"),
    [
        ("-1000.00", "0", None),
        ("-1000.06", "0.06", "fees_in_amount"),
        ("-1035.00", "35.00", "fees_in_amount"),  # a hundredth of the value and 25
        ("-1035.01", "0", "amount_differs"),
        ("-999.90", "0", "amount_differs"),
    ],
)
def test_what_an_amount_is_short_of_is_a_fee_up_to_a_limit(amount: str, fees: str, code: str | None) -> None:
    head = "Date,Symbol,Side,Qty,Price,Amount\n"
    result = load(f"{head}2026-01-25,F,Buy,10,100,{amount}\n")
    assert ([trade.fees for trade in result.trades], codes(result) - {"date_only"}) == ([D(fees)], {code} - {None})
    if code:
        assert note(result, code)[0].split("rows")[0].endswith("of 1 ")


@pytest.mark.parametrize(("amount", "fees"), [("-2055.00", "55.00"), ("-2055.01", "0"), ("-2000.01", "0.01")])
def test_an_option_may_cost_five_more_a_contract(amount: str, fees: str) -> None:
    head = "Date,Symbol,Side,Qty,Price,Amount\n"
    (trade,) = load(f"{head}2026-01-25,SPY 260320 C 500,Buy,2,10,{amount}\n").trades
    assert trade.fees == D(fees)


@pytest.mark.parametrize(
    ("price", "noise", "fee"),
    [
        ("10.00", "1000.51", True),
        ("10.00", "1000.50", False),
        ("10.0000", "1000.02", True),
        ("10.0000", "1000.01", False),
    ],
)
def test_what_rounding_of_the_price_explains_is_no_fee(price: str, noise: str, fee: bool) -> None:
    """Half a unit of the last place times 100 shares, and half a cent."""
    head = "Date,Symbol,Side,Qty,Price,Amount\n"
    result = load(f"{head}2026-01-25,F,Buy,100,{price},-{noise}\n")
    assert ("fees_in_amount" in codes(result)) is fee


def test_stated_costs_are_not_taken_from_the_amount_again() -> None:
    head = "Date,Symbol,Side,Qty,Price,Commission,Fee,Amount\n"
    (trade,) = load(f"{head}2026-01-25,F,Buy,10,100,2.00,0.50,-1003.00\n").trades
    assert (trade.commission, trade.fees, [row.amount for row in trade.ledger]) == (
        D(2),
        D(1),
        [D(2), D("0.50"), D("0.50")],
    )


@pytest.mark.parametrize(
    ("line", "is_row"),
    [("One two three four", False), ("One two three", True), ("Total,,,,,,5", False), ("Totals are wrong,x", True)],
)
def test_a_sentence_or_a_total_is_no_row(line: str, is_row: bool) -> None:
    result = load(f"{HEAD}2026-01-25,F,Buy,10,100\n{line}\n")
    assert (result.total_rows, len(result.trades)) == (2 if is_row else 1, 1)


@pytest.mark.parametrize("symbol", ["ESH6", "MESH6"])
def test_a_price_off_the_tick_of_a_future_is_told(symbol: str) -> None:
    head = "Date,Symbol,Side,Qty,Price,Asset Class\n"
    assert codes(load(f"{head}2026-01-25,{symbol},Buy,1,5000.25,Future\n")) == {"date_only"}
    result = load(f"{head}2026-01-25,{symbol},Buy,1,5000.30,Future\n")
    assert (codes(result), note(result, "off_tick")[1]) == ({"date_only", "off_tick"}, 2)
    other = load(f"{head[:-1]},Multiplier\n2026-01-25,{symbol},Buy,1,5000.30,Future,7\n")
    assert codes(other) == {"date_only"}  # another contract than ours, so its tick is not known
