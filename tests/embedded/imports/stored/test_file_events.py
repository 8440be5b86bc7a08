"""Events of files: a position that ends in parts, splits without a ratio, and what the journal knows already.

The rows of tastytrade's splits follow public samples (Reverse and Forward Split, a row that closes the old shares and a
row that opens the new ones); Robinhood's SPL and SPR are as described, without a sample."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from tests.embedded.driver import Journal

HEAD = "Activity Date,Process Date,Settle Date,Instrument,Description,Trans Code,Quantity,Price,Amount\n"
TASTY = (
    "Date,Type,Sub Type,Action,Symbol,Instrument Type,Description,Value,Quantity,Average Price,Commissions,Fees,"
    "Multiplier,Root Symbol,Order #,Currency\n"
)
PUT, CALL = "TSLA 5/17/2024 Put $170.00", "TSLA 5/17/2024 Call $170.00"


def row(day: str, symbol: str, code: str, count: Any, price: str = "", amount: str = "", notes: str = "") -> str:
    """A line of Robinhood's; the day is of May 2024 unless it names its month."""
    month = day if "/" in day else f"5/{day}"
    return ",".join([f"{month}/2024"] * 3 + [symbol, notes or symbol, code, str(count), price, amount]) + "\n"


def end(day: str, code: str, count: int | str, what: str = PUT) -> str:
    return row(day, "TSLA", code, count, notes=what)


async def load(journal: Journal, *rows: str, account_id: str = "A1") -> tuple[int, list[str]]:
    """The corporate actions that a file brought, and what was said of the others."""
    answer = await journal.csv((HEAD + "".join(rows)).encode(), account_id=account_id)
    assert answer["error_rows"] == 0
    told = [note["message"] for note in answer["warnings"] if note["code"] == "event_not_applied"]
    return answer["corporate_actions"], told


async def actions(journal: Journal, *names: str, account_id: str = "A1") -> list[tuple[Any, ...]]:
    found = (await journal.get("/corporate-actions", params={"account_id": account_id}))["items"]
    return sorted(tuple(one[name] for name in names) for one in found)


async def open_shares(journal: Journal, symbol: str, account_id: str = "A1") -> Any:
    trips = await journal.trips(account_id=account_id)
    found = [trip for trip in trips if trip["instrument"] == symbol and trip["status"] != "closed"]
    return [(trip["direction"], trip["open_quantity"], trip["entry_avg_price"]) for trip in found]


@pytest.mark.parametrize("days", [("16", "17"), ("17", "17")])
async def test_contracts_that_end_in_parts_are_all_recorded_once(journal: Journal, days: tuple[str, str]) -> None:
    rows = [row("1", "TSLA", "STO", 3, "$2.00", "$600.00", PUT), *(end(day, "OASGN", 1) for day in days)]
    assert await load(journal, *rows) == (2, [])
    assert [one[0] for one in await actions(journal, "quantity")] == [1, 1]
    assert await open_shares(journal, "TSLA") == [("BOT", 200, 170)]
    assert await open_shares(journal, "TSLA 240517 P 170") == [("SLD", 1, 2)]
    assert await load(journal, *rows) == (0, [])  # the file comes again
    rest = end("17", "OEXP", 1)  # another kind of end is another event
    assert await load(journal, *rows, rest) == (1, [])
    assert await load(journal, *rows, rest) == (0, [])
    assert await open_shares(journal, "TSLA 240517 P 170") == []


async def test_an_action_answers_for_as_many_contracts_as_it_closed(journal: Journal) -> None:
    await journal.sell(4, 2, instrument="TSLA 240517 P 170", time="2024-05-01T15:00:00Z")
    body = {"kind": "expiry", "symbol": "TSLA 240517 P 170", "effective": "2024-05-17", "account_id": "A1"}
    await journal.expect(201, "POST", "/corporate-actions", {**body, "quantity": 3})
    assert await load(journal, end("17", "OEXP", 1), end("17", "OEXP", 2)) == (0, [])
    assert await load(journal, end("17", "OEXP", 3)) == (0, [])
    assert await load(journal, end("17", "OEXP", "")) == (0, [])  # all that are open, which it was
    applied, (told,) = await load(journal, end("17", "OEXP", 2), end("17", "OEXP", 2))
    assert (applied, "only 1 contracts are open" in told) == (0, True)
    assert await load(journal, end("17", "OEXP", 2), end("17", "OEXP", 1), end("17", "OEXP", 1)) == (1, [])
    assert await load(journal, end("17", "OEXP", 4)) == (0, [])  # two actions together


DAY = date(2024, 6, 10)


@pytest.mark.parametrize(("off", "is_known"), [(-5, False), (-4, True), (0, True), (4, True), (5, False)])
async def test_an_event_is_known_by_an_action_up_to_four_days_away(journal: Journal, off: int, is_known: bool) -> None:
    await journal.buy(10, 900, "2024-05-01", instrument="NVDA")
    day = DAY + timedelta(days=off)
    body = {"kind": "split", "symbol": "NVDA", "effective": str(day), "numerator": 10, "denominator": 1}
    await journal.expect(201, "POST", "/corporate-actions", body)
    stated = row("6/10", "NVDA", "SPL", "", notes="10 for 1")
    assert await load(journal, stated) == (int(not is_known), [])


@pytest.mark.parametrize(
    ("other", "is_known"),
    [
        ({}, True),
        ({"account_id": "A1"}, True),
        ({"account_id": "A2"}, False),
        ({"symbol": "AMD"}, False),
    ],
)
async def test_only_an_action_of_the_same_symbol_and_account_makes_an_event_known(
    journal: Journal, other: dict[str, str], is_known: bool
) -> None:
    for account in ("A1", "A2"):
        await journal.buy(10, 900, "2024-05-01", instrument="NVDA", account_id=account)
    body = {"kind": "split", "symbol": "NVDA", "effective": "2024-06-10", "numerator": 10, "denominator": 1, **other}
    await journal.expect(201, "POST", "/corporate-actions", body)
    assert await load(journal, row("6/10", "NVDA", "SPL", "", notes="10 for 1")) == (int(not is_known), [])
    assert await open_shares(journal, "NVDA") == [("BOT", 100, 90)]


@pytest.mark.parametrize(
    ("sold", "left"), [(5, [("BOT", 95, 90)]), (40, [("BOT", 60, 90)]), (100, []), (130, [("SLD", 30, 120)])]
)
async def test_shares_sold_after_a_split_do_not_change_its_ratio(
    journal: Journal, sold: int, left: list[tuple[Any, ...]]
) -> None:
    # 10 at 900, 90 more by the split: ten for one, whatever is sold afterwards
    rows = [row("1", "NVDA", "Buy", 10, "$900.00", "($9000.00)"), row("6/10", "NVDA", "SPL", 90)]
    sale = row("7/1", "NVDA", "Sell", sold, "$120.00", f"${sold * 120}.00")
    assert await load(journal, *rows, sale) == (1, [])
    assert await actions(journal, "numerator", "denominator") == [(10, 1)]
    assert await open_shares(journal, "NVDA") == left


async def test_the_shares_before_a_split_count_fills_sales_and_earlier_splits(journal: Journal) -> None:
    await journal.buy(9, 900, "2024-05-01", instrument="NVDA")
    await journal.sell(3, 900, "2024-05-02", instrument="NVDA")  # 6
    await journal.buy(7, 900, "2024-05-02", instrument="NVDA", account_id="A2")
    body = {"kind": "split", "symbol": "NVDA", "effective": "2024-05-20", "numerator": 3, "denominator": 2}
    await journal.expect(201, "POST", "/corporate-actions", body)  # 9
    await journal.buy(5, 300, instrument="NVDA", time="2024-05-20T05:00:00Z")  # of that moment, in new shares: 14
    await journal.buy(4, 300, instrument="NVDA", time="2024-06-10T05:00:00Z")  # after the split that comes now
    await journal.buy(9, 300, instrument="AMD", time="2024-06-01T05:00:00Z")
    assert await load(journal, row("6/10", "NVDA", "SPL", 7)) == (1, [])
    assert await actions(journal, "numerator", "denominator") == [(3, 2), (3, 2)]
    assert (await open_shares(journal, "NVDA"))[0][:2] == ("BOT", 25)


@pytest.mark.parametrize(
    ("moved", "code", "ratio"),
    [
        ("-90", "SPR", (1, 10)),
        ("-99", "SPR", (1, 100)),
        ("90S", "SPR", (1, 10)),
        ("50", "SPL", (3, 2)),
        ("-100", "SPR", None),
        ("10", "SPR", None),
    ],
)
async def test_a_ratio_comes_from_shares_added_or_taken_away_or_is_asked_for(
    journal: Journal, moved: str, code: str, ratio: tuple[int, int] | None
) -> None:
    await journal.buy(100, 1, "2024-05-01", instrument="XYZ")
    applied, told = await load(journal, row("6/10", "XYZ", code, moved))
    assert (applied, await actions(journal, "numerator", "denominator")) == ((1, [ratio]) if ratio else (0, []))
    assert len(told) == int(ratio is None)
    assert all("1 rows of the kind split" in text and "100 shares held" in text for text in told)


@pytest.mark.parametrize(("side", "held"), [("SLD", "-100"), (None, "0")])
async def test_a_split_of_shares_that_are_not_held_is_told(journal: Journal, side: str | None, held: str) -> None:
    if side:
        await journal.trade(side, 100, 1, "2024-05-01", instrument="XYZ")
    applied, (told,) = await load(journal, row("6/10", "XYZ", "SPL", 100))
    assert (applied, f"the {held} shares held" in told) == (0, True)


@pytest.mark.parametrize(
    ("kind", "held", "opened", "closed", "ratio", "left"),
    [
        ("Reverse", "Buy", 20, 400, (1, 20), ("BOT", 20, 60)),
        ("Forward", "Buy", 800, 400, (2, 1), ("BOT", 800, 1.5)),
        ("Forward", "Sell", 800, 400, (2, 1), ("SLD", 800, 1.5)),
    ],
)
async def test_tastytrade_closes_the_old_shares_of_a_split_and_opens_the_new(
    journal: Journal, kind: str, held: str, opened: int, closed: int, ratio: tuple[int, int], left: tuple[Any, ...]
) -> None:
    other = {"Buy": "Sell", "Sell": "Buy"}[held]

    def deliver(verb: str, side: str, count: int) -> str:
        action = f"{side} to {verb}".upper().replace(" ", "_")
        words = f"{kind} split: {verb} {count}.0 WKHS"
        return (
            f"2024-06-17T10:47:02-0500,Receive Deliver,{kind} Split,{action},WKHS,Equity,{words},1100.00,{count},2.75,"
            "--,0.00,1,WKHS,,USD\n"
        )

    fill = (
        f"2024-05-02T10:00:00-0500,Trade,{held} to Open,{held.upper()}_TO_OPEN,WKHS,Equity,400 WKHS @ 3,-1200,400,"
        "-3.00,0.00,0.00,1,WKHS,1,USD\n"
    )
    text = TASTY + deliver("Open", held, opened) + deliver("Close", other, closed) + fill
    for applied in (1, 0):
        answer = await journal.csv(text.encode())
        assert (answer["corporate_actions"], answer["error_rows"]) == (applied, 0)
    assert await actions(journal, "numerator", "denominator") == [ratio]
    assert await open_shares(journal, "WKHS") == [left]


async def test_a_split_of_one_for_one_changes_nothing_and_is_not_counted(journal: Journal) -> None:
    await journal.buy(100, 1, "2024-05-01", instrument="XYZ")
    assert await load(journal, row("6/10", "XYZ", "SPL", "", notes="1 for 1")) == (0, [])
    assert await actions(journal, "kind") == []


DELIVERED = {"action": "BOT", "quantity": 100, "price": 170, "instrument": "TSLA", "account_id": "A1"}


@pytest.mark.parametrize(
    ("fill", "is_delivery"),
    [
        ({}, True),
        ({"time": "2024-05-13T21:00:00Z"}, True),
        ({"time": "2024-05-13T20:59:59Z"}, False),
        ({"time": "2024-05-21T21:00:00Z"}, True),
        ({"time": "2024-05-21T21:00:01Z"}, False),
        ({"action": "SLD"}, False),
        ({"quantity": 50}, False),
        ({"price": 169}, False),
        ({"instrument": "AAPL"}, False),
        ({"account_id": "A2"}, False),
    ],
)
async def test_the_shares_of_an_assignment_are_those_that_a_file_moved_at_its_strike(
    journal: Journal, fill: dict[str, Any], is_delivery: bool
) -> None:
    await journal.sell(1, 2, instrument="TSLA 240517 P 170", time="2024-05-01T15:00:00Z")
    body = {"exec_id": "moved", "time": "2024-05-20T15:00:00Z", **DELIVERED, **fill}
    await journal.expect(201, "POST", "/trades", body)
    assert await load(journal, end("17", "OASGN", 1)) == (1, [])
    ((number, related),) = await actions(journal, "id", "related_trade_id")
    assert related == ("moved" if is_delivery else f"ca-{number}-shares")


@pytest.mark.parametrize(
    ("what", "code", "held", "side"),
    [
        (PUT, "OASGN", "SLD", "BOT"),
        (CALL, "OASGN", "SLD", "SLD"),
        (PUT, "OEXCS", "BOT", "SLD"),
        (CALL, "OEXCS", "BOT", "BOT"),
    ],
)
async def test_each_delivery_takes_one_fill_of_its_side_the_earliest_first(
    journal: Journal, what: str, code: str, held: str, side: str
) -> None:
    symbol = f"TSLA 240517 {'P' if what is PUT else 'C'} 170"
    await journal.trade(held, 2, 2, instrument=symbol, time="2024-05-01T15:00:00Z")
    for name, action, moment in (
        ("second", side, "2024-05-18T15:00:00Z"),
        ("first", side, "2024-05-17T15:00:00Z"),
        ("wrong", "SLD" if side == "BOT" else "BOT", "2024-05-16T15:00:00Z"),
    ):
        await journal.expect(201, "POST", "/trades", {"exec_id": name, "time": moment, **DELIVERED, "action": action})
    assert await load(journal, end("16", code, 1, what), end("17", code, 1, what)) == (2, [])
    assert await actions(journal, "effective_at", "related_trade_id") == [
        ("2024-05-16T21:00:00+00:00", "first"),
        ("2024-05-17T21:00:00+00:00", "second"),
    ]
