"""Mistakes summed, and mistakes suspected."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from zorivest_rpc.embedded.analytics.mistake_detection import TripFacts, suspect
from zorivest_rpc.embedded.analytics.mistakes import (
    CATEGORIES,
    Mistake,
    MistakeSums,
    cost_of,
    mistake_summary,
    parse_category,
    sums_of,
)
from zorivest_rpc.embedded.analytics.moments import moments_of
from zorivest_rpc.embedded.values.answers import to_json

D = Decimal


def test_mistakes_are_summed_by_category_and_month() -> None:
    # oversized: 250 said + 120 lost = 370; chasing: a winner derives to 0, 30 said; no_stop: open, unknown: 0
    # 400 in all: 370/400 = 0.925; of 3 closed oversized one won
    mistakes = [
        Mistake("oversized", date(2026, 1, 15), D(250), D(-10)),
        Mistake("oversized", date(2026, 1, 20), None, D(-120)),
        Mistake("oversized", date(2026, 3, 2), None, D(80)),
        Mistake("chasing", date(2026, 3, 9), None, D(40)),
        Mistake("chasing", date(2026, 3, 10), D(30), None),
        Mistake("no_stop", date(2026, 4, 1)),
    ]
    baseline = moments_of([D(10), D(-5), D(20), D(-1)])
    shown = to_json(mistake_summary(sums_of(mistakes), baseline=baseline, account_id="A1"))
    assert shown == {
        "period": "ytd",
        "account_id": "A1",
        "total_mistakes": 6,
        "total_cost": 400,
        "by_category": [
            {"category": "oversized", "count": 3, "total_cost": 370, "avg_cost": 123.33, "share_of_cost": 0.925,
             "win_rate": 0.333333},
            {"category": "chasing", "count": 2, "total_cost": 30, "avg_cost": 15, "share_of_cost": 0.075,
             "win_rate": 1},
            {"category": "no_stop", "count": 1, "total_cost": 0, "avg_cost": 0, "share_of_cost": 0, "win_rate": None},
        ],
        "trend": [
            {"month": "2026-01", "count": 2, "cost": 370},
            {"month": "2026-02", "count": 0, "cost": 0},
            {"month": "2026-03", "count": 3, "cost": 30},
            {"month": "2026-04", "count": 1, "cost": 0},
        ],
        "most_costly": "oversized",
        "most_frequent": "oversized",
        "baseline_win_rate": 0.5,
    }  # fmt: skip


def test_the_trend_runs_over_the_end_of_a_year() -> None:
    rows = [MistakeSums("other", date(2025, 11, 30), 1, D(5)), MistakeSums("other", date(2026, 2, 1), 2, D(7))]
    assert [(line.month, line.count) for line in mistake_summary(rows).trend] == [
        ("2025-11", 1), ("2025-12", 0), ("2026-01", 0), ("2026-02", 2),
    ]  # fmt: skip


def test_the_most_frequent_need_not_be_the_most_costly() -> None:
    rows = [MistakeSums("chasing", date(2026, 1, 1), 5, D(10)), MistakeSums("no_stop", date(2026, 1, 1), 1, D(900))]
    found = mistake_summary(rows)
    assert (found.most_costly, found.most_frequent) == ("no_stop", "chasing")


def test_of_equally_frequent_ones_the_more_costly_is_named_and_a_cent_is_a_cost() -> None:
    rows = [MistakeSums("chasing", date(2026, 1, 1), 2, D(0)), MistakeSums("no_stop", date(2026, 1, 1), 2, D("0.01"))]
    found = mistake_summary(rows)
    assert (found.most_costly, found.most_frequent) == ("no_stop", "no_stop")


def test_of_equal_cost_the_more_frequent_comes_first() -> None:
    rows = [MistakeSums("chasing", date(2026, 1, 1), 1, D(10)), MistakeSums("no_stop", date(2026, 1, 1), 2, D(10))]
    assert [line.category for line in mistake_summary(rows).by_category] == ["no_stop", "chasing"]


def test_without_cost_nothing_is_most_costly() -> None:
    found = mistake_summary([MistakeSums("chasing", date(2026, 1, 1), 2, D(0))])
    assert (found.most_costly, found.by_category[0].share_of_cost) == (None, None)


def test_nothing_tagged_gives_zeros_and_a_hint() -> None:
    shown = to_json(mistake_summary([]))
    assert (shown["total_mistakes"], shown["total_cost"], shown["by_category"], shown["trend"]) == (0, 0, [], [])
    assert (shown["most_costly"], shown["baseline_win_rate"]) == (None, None)
    assert "track_mistake" in shown["hint"]


@pytest.mark.parametrize(
    ("said", "pnl", "expected"),
    [
        (D(50), D(-900), (D(50), "user")),
        (D(0), D(-900), (D(0), "user")),
        (None, D(-900), (D(900), "derived")),
        (None, D(900), (D(0), "derived")),
        (None, None, (D(0), "unknown")),
    ],
)
def test_a_mistake_costs_what_its_author_says_or_what_was_lost(
    said: Decimal | None, pnl: Decimal | None, expected: tuple[Decimal, str]
) -> None:
    assert cost_of(said, pnl) == expected


def test_categories_are_read_in_any_case() -> None:
    assert parse_category("REVENGE_TRADE") == "revenge_trade"
    assert parse_category(" Fomo entry ") == "fomo_entry"
    assert parse_category("bad luck") is None
    assert len(CATEGORIES) == 10


START = datetime(2026, 1, 5, 15, 0, tzinfo=UTC)


def trip(number: int, *, day: int = 0, minute: int = 0, notional: int = 1000, pnl: int | None = None) -> TripFacts:
    opened = START + timedelta(days=day, minutes=minute)
    closed = None if pnl is None else opened + timedelta(minutes=5)
    return TripFacts(f"rt-{number}", opened, D(notional), closed, None if pnl is None else D(pnl))


def found_in(trips: list[TripFacts]) -> list[tuple[str, str]]:
    return [(item.round_trip_id, item.category) for item in suspect(trips)]


def test_a_large_trade_right_after_a_loss_looks_like_revenge() -> None:
    before = [trip(n, day=n) for n in range(3)]
    loss = trip(3, day=3, pnl=-50)  # closes five minutes after it opened
    assert found_in([*before, loss, trip(4, day=3, minute=19, notional=1500)]) == [("rt-4", "revenge_trade")]
    assert found_in([*before, loss, trip(4, day=3, minute=5, notional=1500)]) == [("rt-4", "revenge_trade")]
    (found,) = suspect([*before, loss, trip(4, day=3, minute=19, notional=1500)])
    assert found.evidence == "opened within 15 minutes of the loss rt-3, at 1.50 times the usual size"
    assert found_in([*before, loss, trip(4, day=3, minute=20, notional=1500)]) == []  # 15 minutes later
    assert found_in([*before, loss, trip(4, day=3, minute=19, notional=1499)]) == []
    assert found_in([*before, trip(3, day=3, pnl=50), trip(4, day=3, minute=19, notional=1500)]) == []


def test_a_size_beyond_two_deviations_is_oversized() -> None:
    # ten of 900 and 1100 alternating: mean 1000, deviation 105.41; the limit is 1210.82
    usual = [trip(n, day=n, notional=900 if n % 2 else 1100) for n in range(10)]
    assert found_in([*usual, trip(10, day=10, notional=1211)]) == [("rt-10", "oversized")]
    assert found_in([*usual, trip(10, day=10, notional=1210)]) == []
    assert found_in([*usual[1:], trip(10, day=10, notional=9000)]) == []  # nine are too few to compare with


def test_sizes_older_than_fifty_round_trips_are_forgotten() -> None:
    # one huge trade hides the next large one only while it is among the fifty before
    usual = [trip(n, day=n) for n in range(1, 51)]
    large = trip(60, day=60, notional=1001)
    assert found_in([trip(0, notional=90_000), *usual, large]) == [("rt-60", "oversized")]
    assert found_in([trip(0, notional=90_000), *usual[1:], large]) == []


def test_a_day_with_more_than_twice_the_usual_trades_is_overtrading() -> None:
    quiet = [trip(10 * day + n, day=day, minute=30 * n) for day in range(3) for n in range(2)]
    busy = [trip(100 + n, day=5, minute=30 * n) for n in range(5)]
    assert found_in([*quiet, *busy]) == [("rt-100", "overtrading")]
    assert found_in([*quiet, *busy[:4]]) == []


def test_the_legs_of_one_structure_are_one_decision() -> None:
    quiet = [trip(10 * day + n, day=day, minute=30 * n) for day in range(3) for n in range(2)]
    legs = [msgspec.structs.replace(trip(100 + n, day=5), decision="SPY condor") for n in range(4)]
    assert found_in([*quiet, *legs]) == []
    busy = [trip(200 + n, day=5, minute=30 * n) for n in range(1, 5)]
    assert found_in([*quiet, *legs, *busy]) == [("rt-100", "overtrading")]  # five: the structure and four more


def test_a_plan_without_a_stop_and_a_wasted_gain_are_told() -> None:
    facts = TripFacts(
        "rt-1",
        START,
        D(1000),
        START,
        D(20),
        plan_has_stop=False,
        capture_ratio=D("0.1"),
        mfe_dollars=D(200),
        one_r=D(50),
    )
    assert found_in([facts]) == [("rt-1", "no_stop"), ("rt-1", "early_exit")]
    assert found_in([trip(1, pnl=20)]) == []


def test_no_trips_raise_no_suspicion() -> None:
    assert suspect([]) == []
