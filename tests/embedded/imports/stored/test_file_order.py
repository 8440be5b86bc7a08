"""Fills of one day or second in the order they happened, judged by a matcher that shares nothing with the journal's."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.imports.stored.held import NEAR

HEAD = "Date,Symbol,Side,Quantity,Price\n"
ROBINHOOD = (
    '"Activity Date","Process Date","Settle Date","Instrument","Description","Trans Code","Quantity","Price","Amount"\n'
)
SCHWAB = '"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"\n'

Row = tuple[date, str, str, int, str]
Trip = tuple[str, str, Fraction, Fraction | None]


def table(rows: Iterable[Row], newest_first: bool = False) -> bytes:
    lines = [f"{day:%m/%d/%Y},{symbol},{side},{quantity},{price}\n" for day, symbol, side, quantity, price in rows]
    return (HEAD + "".join(reversed(lines) if newest_first else lines)).encode()


def oracle(rows: Iterable[Row]) -> list[Trip]:
    """Round trips share by share: a signed counter and a list of single shares, each with its price.

    A trip is (symbol, direction, shares entered, profit or None while it is open)."""
    queues: dict[str, list[Fraction]] = {}
    signs: dict[str, int] = {}
    entered: dict[str, int] = {}
    earned: dict[str, Fraction | None] = {}
    trips: list[Trip] = []
    for _, symbol, side, quantity, text in rows:
        price, way = Fraction(text), 1 if side in ("Buy", "Buy to Cover") else -1
        for _ in range(quantity):
            queue = queues.setdefault(symbol, [])
            if not queue:
                signs[symbol], entered[symbol], earned[symbol] = way, 0, None
            if signs[symbol] == way:
                queue.append(price)
                entered[symbol] += 1
                continue
            profit = (price - queue.pop(0)) * signs[symbol]
            earned[symbol] = (earned[symbol] or Fraction(0)) + profit
            if not queue:
                direction = "BOT" if signs[symbol] == 1 else "SLD"
                trips.append((symbol, direction, Fraction(entered[symbol]), earned[symbol]))
    for symbol, queue in queues.items():
        if queue:
            direction = "BOT" if signs[symbol] == 1 else "SLD"
            trips.append((symbol, direction, Fraction(entered[symbol]), earned[symbol]))
    return sorted(trips, key=str)


async def trips_of(journal: Journal) -> list[Trip]:
    page = await journal.get("/round-trips", params={"limit": "1000"})
    return sorted(
        (
            (
                one["instrument"],
                one["direction"],
                Fraction(str(one["total_quantity"])),
                None if one["realized_pnl"] is None else Fraction(str(one["realized_pnl"])),
            )
            for one in page["items"]
        ),
        key=str,
    )


def random_rows(seed: int, shorts: bool) -> list[Row]:
    """Days of trading in a few names, several fills a day in each, never below zero unless `shorts`."""
    rnd = random.Random(seed)
    rows: list[Row] = []
    held: dict[str, int] = {}
    day = date(2024, 1, 2)
    for _ in range(12):
        day += timedelta(days=rnd.choice((1, 1, 2, 5)))
        for _ in range(rnd.randint(1, 8)):
            symbol = rnd.choice(("AAA", "BBB", "CCC"))
            quantity, price = rnd.randint(1, 9), f"{rnd.randint(100, 9999) / 100:.2f}"
            position = held.get(symbol, 0)
            side = rnd.choice(("Buy", "Sell"))
            if side == "Sell" and not shorts:
                if position == 0:
                    side = "Buy"
                else:
                    quantity = min(quantity, position)
            held[symbol] = position + (quantity if side == "Buy" else -quantity)
            rows.append((day, symbol, side, quantity, price))
    return rows


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("seed", range(6))
async def test_round_trips_of_a_file_without_times_are_those_of_the_oracle(
    journal: Journal, seed: int, newest_first: bool
) -> None:
    rows = random_rows(seed, shorts=seed % 2 == 1)
    answer = await journal.csv(table(rows, newest_first))
    assert (answer["imported"], answer["error_rows"]) == (len(rows), 0)
    assert await trips_of(journal) == oracle(rows)
    again = await journal.csv(table(rows, newest_first))
    assert (again["imported"], again["duplicates_skipped"]) == (0, len(rows))


@pytest.mark.parametrize("newest_first", [False, True])
async def test_twenty_day_trades_bought_back_the_next_day_wash_their_whole_losses(
    journal: Journal, newest_first: bool
) -> None:
    names = [f"T{number:02d}X" for number in range(20)]
    first, second = date(2025, 3, 3), date(2025, 3, 4)
    rows: list[Row] = [
        (first, name, side, 100, price) for name in names for side, price in (("Buy", "10"), ("Sell", "9"))
    ]
    rows += [(second, name, "Buy", 100, "9.50") for name in names]
    await journal.csv(table(rows, newest_first))
    trips = await journal.get("/round-trips", params={"limit": "100"})
    assert {one["direction"] for one in trips["items"]} == {"BOT"}
    washes = await journal.expect(
        200, "POST", "/tax/wash-sales", {"date_range_start": "2025-01-01", "date_range_end": "2025-12-31"}
    )
    assert washes["total_disallowed"] == 2000


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_file_of_one_day_is_read_in_the_direction_in_which_it_makes_sense(
    journal: Journal, newest_first: bool
) -> None:
    day = date(2025, 3, 3)
    rows: list[Row] = [(day, "AAA", "Buy", 10, "5"), (day, "AAA", "Sell", 10, "6"), (day, "BBB", "Buy", 5, "7")]
    await journal.csv(table(rows, newest_first))
    assert await trips_of(journal) == oracle(rows)


@pytest.mark.parametrize("flip", [False, True])
async def test_words_decide_before_the_order_of_the_file(journal: Journal, flip: bool) -> None:
    day = date(2025, 3, 3)
    rows: list[Row] = [(day, "AAA", "Sell Short", 10, "6"), (day, "AAA", "Buy to Cover", 10, "5")]
    before: list[Row] = [(day - timedelta(days=1), "ZZZ", "Buy", 1, "1")]  # says which way the file runs
    await journal.csv(table([*before, *(reversed(rows) if flip else rows)]))
    assert ("AAA", "SLD", Fraction(10), Fraction(10)) in await trips_of(journal)


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(("opens", "closes", "direction"), [("STO", "BTC", "SLD"), ("BTO", "STC", "BOT")])
async def test_options_that_say_open_and_close_are_matched_so(
    journal: Journal, flip: bool, opens: str, closes: str, direction: str
) -> None:
    rows = [
        f'"3/3/2025","3/3/2025","3/4/2025","SPY","SPY 4/17/2025 Call $580.00","{code}","1","$4.00","{money}"\n'
        for code in (opens, closes)
        for money in ("$400.00" if code in ("STO", "STC") else "($400.00)",)
    ]
    await journal.csv((ROBINHOOD + "".join(reversed(rows) if flip else rows)).encode())
    (trip,) = (await journal.get("/round-trips"))["items"]
    assert (trip["direction"], trip["status"]) == (direction, "closed")


async def test_an_existing_position_is_closed_before_a_new_one_is_opened(journal: Journal) -> None:
    await journal.trade("SLD", 10, 8, "2025-02-03", instrument="AAA")
    text = SCHWAB + (
        '"03/03/2025","Buy to Cover","AAA","A","10","$5.00","","-$50.00"\n'
        '"03/03/2025","Sell","AAA","A","4","$7.00","","$28.00"\n'
        '"03/03/2025","Buy","AAA","A","4","$6.00","","-$24.00"\n'
    )
    await journal.csv(text.encode())
    found = await trips_of(journal)
    assert ("AAA", "SLD", Fraction(10), Fraction(30)) in found
    assert ("AAA", "BOT", Fraction(4), Fraction(4)) in found


async def test_fills_of_one_second_keep_the_order_of_the_file_and_their_time(journal: Journal) -> None:
    head = "Date,Time,Symbol,Side,Quantity,Price\n"
    rows = [
        f"03/19/2025,10:30:05,AAA,{side},7,{price}\n" for side, price in (("Buy", 10), ("Sell", 11)) for _ in range(3)
    ]
    await journal.csv((head + "".join(rows)).encode())
    trips = (await journal.get("/round-trips"))["items"]
    assert [(one["direction"], one["realized_pnl"]) for one in trips] == [("BOT", 21)]
    assert {one["time"] for one in await journal.trades()} == {"2025-03-19T14:30:05+00:00"}


async def test_every_answer_shows_the_time_that_was_given(journal: Journal) -> None:
    head = "Date,Time,Symbol,Side,Quantity,Price\n"
    option = "SPY 991217 C 540"
    rows = [
        *(f"03/19/2025,10:30:05,AAA,Buy,1,{price}\n" for price in (10, 11, 12)),
        "03/19/2025,10:30:05,BBB,Buy,1,10\n",  # the fourth of its instant
        f"03/19/2025,10:30:05,{option},Buy,1,2\n",
        "03/19/2025,10:30:15,BBB,Sell,1,9\n",  # the first of its own
        *(f"03/19/2025,10:30:25,AAA,Sell,1,{price}\n" for price in (9, 8, 7)),
    ]
    await journal.csv((head + "".join(rows)).encode())
    opened, left, late = (f"2025-03-19T14:30:{second}+00:00" for second in ("05", "15", "25"))
    trips = {one["instrument"]: one for one in (await journal.get("/round-trips"))["items"]}
    shown = {name: (one["opened_at"], one["closed_at"], one["holding_period_seconds"]) for name, one in trips.items()}
    assert shown == {"AAA": (opened, late, 20), "BBB": (opened, left, 10), option: (opened, None, None)}
    whole = await journal.get(f"/round-trips/{trips['AAA']['id']}")
    assert [fill["time"] for fill in whole["executions"]] == [opened] * 3 + [late] * 3
    of_fill = await journal.get(f"/trades/{trips['BBB']['exit_exec_ids'][0]}/round-trip")
    assert (of_fill["opened_at"], of_fill["closed_at"]) == (opened, left)
    ended = {"kind": "expiry", "account_id": "A1", "symbol": option}
    early = await journal.refused(422, "POST", "/corporate-actions", ended | {"effective": "2025-03-19T14:30:04Z"})
    assert f"the latest fill of the position, {opened}" in str(early)
    action = await journal.expect(201, "POST", "/corporate-actions", ended | {"effective": "2025-03-19T14:30:05Z"})
    assert "14:30:05.0" not in str(action)


async def test_a_later_file_of_the_same_day_comes_after_what_is_held(journal: Journal) -> None:
    day = date(2025, 3, 3)
    first: list[Row] = [(day, "AAA", "Buy", 10, "5")]
    await journal.csv(table(first))
    more: list[Row] = [*first, (day, "AAA", "Sell", 10, "6"), (day, "AAA", "Buy", 3, "4")]
    answer = await journal.csv(table(more))
    assert (answer["imported"], answer["duplicates_skipped"]) == (2, 1)
    assert await trips_of(journal) == oracle(more)


@pytest.mark.parametrize("names", [("Z1", "A2"), ("A1", "Z2")])
async def test_trades_by_hand_at_one_time_are_in_the_order_of_recording(
    journal: Journal, names: tuple[str, str]
) -> None:
    body: dict[str, Any] = {"instrument": "AAA", "quantity": 1, "account_id": "A1", "time": "2025-03-03T15:00:00Z"}
    for name, action, price in zip(names, ("BOT", "SLD"), (10, 12), strict=True):
        answer = await journal.expect(
            201, "POST", "/trades", body | {"exec_id": name, "action": action, "price": price}
        )
        assert answer["trade"]["time"] == "2025-03-03T15:00:00+00:00"
    (trip,) = (await journal.get("/round-trips"))["items"]
    assert (trip["direction"], trip["realized_pnl"]) == ("BOT", 2)
    changed = await journal.expect(200, "PUT", f"/trades/{names[0]}", {"notes": "kept in place"})
    assert changed["time"] == "2025-03-03T15:00:00+00:00"
    moved = await journal.expect(200, "PUT", f"/trades/{names[0]}", {"time": "2025-03-03T16:00:00Z"})
    assert moved["time"] == "2025-03-03T16:00:00+00:00"
    (trip,) = (await journal.get("/round-trips"))["items"]
    assert trip["direction"] == "SLD"


async def test_many_rows_that_only_close_are_ordered_without_comparing_all_with_all(journal: Journal) -> None:
    rows: list[Row] = [(date(2025, 3, 3), "AAA", "Buy to Cover", 1, f"{n / 100:.2f}") for n in range(100, 4100)]
    answer = await journal.csv(table(rows))
    assert answer["imported"] == 4000


OPENS_AND_CLOSES = (
    # what closes goes as soon as there is something to close, not after all that opens: two round trips
    ([("Sell to Close", 10, "11"), ("Buy to Open", 10, "10"), ("Buy to Open", 10, "12"), ("Sell to Close", 10, "13")],
     [("BOT", 10, 10), ("BOT", 10, 10)]),
    # a short sale of the same day waits until the shares of the day before are sold
    ([("Buy to Open", 10, "10"), "next", ("Sell to Open", 5, "20"), ("Sell to Close", 10, "11")],
     [("BOT", 10, 10), ("SLD", 5, None)]),
    # and a purchase that opens until the short is bought back
    ([("Sell to Open", 10, "10"), "next", ("Buy to Open", 5, "20"), ("Buy to Close", 10, "9")],
     [("BOT", 5, None), ("SLD", 10, 10)]),
    # nothing is left of what was sold: the short sale goes before its cover
    ([("Buy to Open", 10, "10"), ("Sell to Close", 10, "11"), "next", ("Buy to Close", 5, "8"),
      ("Sell to Open", 5, "9")],
     [("BOT", 10, 10), ("SLD", 5, 5)]),
)  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), OPENS_AND_CLOSES)
async def test_words_of_opening_and_closing_order_the_fills_of_a_day(
    journal: Journal, steps: list[Any], expected: list[tuple[str, int, int | None]]
) -> None:
    day, rows = date(2024, 1, 2), [(date(2024, 1, 2), "ZZZ", "Buy", 1, "1")]
    for step in steps:
        if step == "next":
            day += timedelta(days=1)
        else:
            rows.append((day, "AAA", *step))
    rows.append((day + timedelta(days=1), "ZZZ", "Buy", 1, "1"))  # the days of the file run forwards
    answer = await journal.csv(table(rows))
    assert (answer["imported"], answer["error_rows"]) == (len(rows), 0)
    found = [(way, int(count), earned) for name, way, count, earned in await trips_of(journal) if name == "AAA"]
    assert found == expected


@pytest.mark.parametrize("before", [timedelta(days=200), NEAR, NEAR - timedelta(seconds=1)])
async def test_shares_that_the_journal_held_before_the_file_are_closed_first(
    journal: Journal, before: timedelta
) -> None:
    noon = datetime(2024, 1, 2, 17, tzinfo=UTC)  # in New York, where a row without a time is stored
    await journal.buy(10, 10, time=(noon - before).isoformat(), instrument="AAA")
    await journal.sell(7, 10, "2023-06-01", instrument="AAA", account_id="A2")
    steps = [("Buy to Close", 5, "8"), ("Sell to Open", 5, "9"), ("Sell to Close", 10, "11")]
    day = date(2024, 1, 2)
    answer = await journal.csv(table([(day, "AAA", *step) for step in steps]))
    assert (answer["imported"], answer["error_rows"]) == (3, 0)
    page = await journal.get("/round-trips", params={"account_id": "A1"})
    found = sorted((one["direction"], one["total_quantity"], one["realized_pnl"]) for one in page["items"])
    assert found == [("BOT", 10, 10), ("SLD", 5, 5)]
