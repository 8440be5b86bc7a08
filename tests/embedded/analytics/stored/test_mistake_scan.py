"""Mistakes that the rules propose, from what the journal holds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.embedded.driver import START, Journal


async def day(journal: Journal, number: int, *, count: int = 1, size: int = 1, pnl: int = 10, **more: Any) -> datetime:
    """So many round trips on the n-th day, each closed after five minutes; when the last was closed."""
    moment = START + timedelta(days=number)
    for each in range(count):
        opened = moment + timedelta(minutes=30 * each)
        moment_closed = opened + timedelta(minutes=5)
        await journal.buy(size, 100, time=opened.isoformat(), **more)
        await journal.sell(size, 100 + pnl / size, time=moment_closed.isoformat(), **more)
    return moment_closed


async def suspected(journal: Journal, **query: str) -> list[tuple[str, str]]:
    answer = await journal.get("/mistakes/suspected", params={"period": "all", **query})
    assert answer["total"] == len(answer["items"])
    return [(item["trade_exec_id"], item["category"]) for item in answer["items"]]


async def test_an_empty_journal_raises_no_suspicion(journal: Journal) -> None:
    answer = await journal.get("/mistakes/suspected")
    assert (answer["items"], answer["total"], answer["round_trips_examined"]) == ([], 0, 0)
    assert "track_mistake" in answer["hint"]
    await journal.refused(422, "GET", "/mistakes/suspected", params={"period": "lately"})


async def test_a_large_trade_after_a_loss_is_proposed_until_it_is_tagged(journal: Journal) -> None:
    for number in range(3):
        await day(journal, number)
    lost = await day(journal, 3, pnl=-50)
    await journal.buy(2, 100, time=(lost + timedelta(minutes=14)).isoformat(), exec_id="angry")
    assert await suspected(journal) == [("angry", "revenge_trade")]
    (item,) = (await journal.get("/mistakes/suspected", params={"period": "all"}))["items"]
    assert (item["round_trip_id"], item["instrument"], item["account_id"]) == ("rt-angry", "SPY", "A1")
    assert "2.00 times the usual size" in item["evidence"]
    assert (await journal.get("/mistakes"))["total"] == 0  # a proposal is not a tag
    await journal.expect(201, "POST", "/mistakes", {"trade_exec_id": "angry", "category": "chasing"})
    assert await suspected(journal) == [("angry", "revenge_trade")]
    await journal.expect(201, "POST", "/mistakes", {"trade_exec_id": "angry", "category": "revenge_trade"})
    assert await suspected(journal) == []


async def test_a_proposal_shows_the_time_that_was_given(journal: Journal) -> None:
    for number in range(3):
        await day(journal, number)
    lost = await day(journal, 3, pnl=-50)
    moment = (lost + timedelta(minutes=14)).isoformat()
    await journal.buy(1, 5, time=moment, instrument="F")  # the first of its instant: the next is stored after it
    await journal.buy(2, 100, time=moment, exec_id="angry")
    items = (await journal.get("/mistakes/suspected", params={"period": "all"}))["items"]
    assert [item["opened_at"] for item in items if item["trade_exec_id"] == "angry"] == [moment]


async def test_a_loss_of_another_account_provokes_nothing(journal: Journal) -> None:
    for number in range(3):
        await day(journal, number, account_id="A2")
    lost = await day(journal, 3, pnl=-50)
    await journal.buy(2, 100, time=(lost + timedelta(minutes=5)).isoformat(), account_id="A2")
    assert await suspected(journal) == []


async def test_what_came_before_the_period_is_compared_with_and_not_proposed(journal: Journal) -> None:
    for number in range(12):
        await day(journal, number, size=1 + number % 2)
    await journal.buy(50, 100, time=(START + timedelta(days=20)).isoformat(), exec_id="early")
    await journal.buy(900, 100, time=(START + timedelta(days=40)).isoformat(), exec_id="huge", instrument="QQQ")
    assert await suspected(journal) == [("huge", "oversized"), ("early", "oversized")]
    assert await suspected(journal, period="2026-04") == [("huge", "oversized")]
    assert await suspected(journal, account_id="A2") == []


async def test_the_days_of_overtrading_are_those_of_the_traders_zone(journal: Journal) -> None:
    # 15:00 UTC and later: five round trips of one UTC day, which are two days in Auckland (midnight there is 11:00)
    for number in range(3):
        await day(journal, number, count=2)
    late = START.replace(day=6, hour=10)
    for number in range(5):
        await journal.buy(1, 100, time=(late + timedelta(minutes=20 * number)).isoformat(), exec_id=f"L{number}")
        await journal.sell(1, 110, time=(late + timedelta(minutes=20 * number + 5)).isoformat(), exec_id=f"M{number}")
    assert await suspected(journal) == [("L0", "overtrading")]
    await journal.expect(200, "PUT", "/settings", {"scheduling.default_timezone": "Pacific/Auckland"})
    assert await suspected(journal) == []


async def test_a_period_begins_and_ends_with_the_traders_day(journal: Journal) -> None:
    # 2026-01-01 03:00 UTC is still the year before in New York
    await journal.buy(1, 100, time="2026-01-01T03:00:00Z", commission=2)
    await journal.sell(1, 90, time="2026-01-01T04:00:00Z", exec_id="end")
    await journal.expect(201, "POST", "/mistakes", {"trade_exec_id": "end", "category": "chasing"})

    async def seen(year: str) -> tuple[int, int, int, int, list[str]]:
        query = {"period": year}
        trend = (await journal.get("/mistakes/summary", params=query))["trend"]
        return (
            (await journal.get("/trades", params=query))["total"],
            (await journal.get("/round-trips", params=query))["total"],
            (await journal.get("/analytics/expectancy", params=query))["trade_count"],
            (await journal.get("/fees/summary", params=query))["total_fees"],
            [line["month"] for line in trend],
        )

    nothing: tuple[int, int, int, int, list[str]] = (0, 0, 0, 0, [])
    old, new = ((2, 1, 1, 2, ["2025-12"]), nothing), ((2, 1, 1, 2, ["2026-01"]), nothing)
    assert (await seen("2025"), await seen("2026")) == old
    assert (await journal.get("/fees/summary"))["period_timezone"] == "America/New_York"
    await journal.expect(200, "PUT", "/settings", {"scheduling.default_timezone": "UTC"})
    assert (await seen("2026"), await seen("2025")) == new
    told = await journal.get("/analytics/expectancy", params={"period": "2026"})
    assert (told["period_timezone"], "America/New_York trade dates" in told["period_note"]) == ("UTC", True)
    await journal.expect(200, "PUT", "/settings", {"journal.timezone": "America/Los_Angeles"})
    assert (await seen("2025"), await seen("2026")) == old
    taxes = await journal.get("/tax/ytd-summary")
    assert [said for said in taxes["assumptions"] if "America/New_York" in said]
    assert "dates" not in taxes  # said once


async def leave_early(journal: Journal, **more: Any) -> None:
    """Ten shares bought at 100 and sold at 101 two days later, which stood at 108 in between: 10 kept of 80."""
    midnight = START.replace(hour=0)
    days = [
        {"time": (midnight + timedelta(days=number)).isoformat(), "open": 100, "high": high, "low": 100, "close": 100}
        for number, high in enumerate((101, 108, 101))
    ]
    await journal.buy(10, 100, exec_id="in", **more)
    await journal.sell(10, 101, time=(START + timedelta(days=2)).isoformat(), **more)
    await journal.expect(201, "POST", "/market-data/bars", {"symbol": "SPY", "bars": days, "source": "hand"})
    await journal.expect(200, "POST", "/analytics/excursion/in")


@pytest.mark.parametrize(("stops", "is_early"), [([92], False), ([92.1], True), ([92, 99], False), ([92.1, 90], True)])
async def test_an_early_exit_is_judged_by_what_its_first_plan_risked(
    journal: Journal, stops: list[float], is_early: bool
) -> None:
    await leave_early(journal)
    for stop in stops:  # 8 a share on ten: 80, and the best gain was no more than that
        plan = {
            "ticker": "SPY", "direction": "long", "strategy_name": f"at {stop}", "entry": 100, "stop": stop,
            "target": 110, "conditions": "x", "timeframe": "1d",
        }  # fmt: skip
        added = await journal.expect(201, "POST", "/trade-plans", plan)
        link = {"status": "executed", "linked_trade_id": "in"}
        await journal.expect(200, "PUT", f"/trade-plans/{added['id']}", link)
    assert await suspected(journal) == ([("in", "early_exit")] if is_early else [])


@pytest.mark.parametrize(
    ("lost", "paid_in", "is_early"),
    [(80, "USD", False), (79, "USD", True), (160, "EUR", False), (159, "EUR", True)],
)
async def test_without_a_plan_an_early_exit_is_judged_by_the_usual_loss(
    journal: Journal, lost: int, paid_in: str, is_early: bool
) -> None:
    # a euro is two dollars, so that the best gain was 160 dollars
    rate = {"day": "2026-03-02", "base": "EUR", "quote": "USD", "rate": 2}
    await journal.expect(201, "POST", "/exchange-rates", rate)
    await leave_early(journal, currency=paid_in)
    await day(journal, 30, size=2, pnl=-lost, instrument="QQQ")
    assert await suspected(journal) == ([("in", "early_exit")] if is_early else [])


async def test_round_trips_without_a_rate_are_compared_with_nothing_and_told(journal: Journal) -> None:
    for number in range(12):
        await day(journal, number)
    await journal.buy(1, 15_000, time=(START + timedelta(days=20)).isoformat(), currency="JPY", instrument="SNY")
    answer = await journal.get("/mistakes/suspected", params={"period": "all"})
    assert (answer["items"], answer["round_trips_examined"]) == ([], 13)
    (apart,) = answer["not_comparable"]
    assert apart["account_id"] == "A1"
    assert apart["unconverted"] == [{"kind": "round trips", "currency": "JPY", "count": 1, "amount": 15_000}]
    for yen, expected in ((150, []), (10, ["oversized"])):  # as large as the others, and fifteen times that
        rate = {"day": "2026-03-20", "base": "USD", "quote": "JPY", "rate": yen}
        await journal.expect(201, "POST", "/exchange-rates", rate)
        answer = await journal.get("/mistakes/suspected", params={"period": "all"})
        assert ([item["category"] for item in answer["items"]], "not_comparable" in answer) == (expected, False)
