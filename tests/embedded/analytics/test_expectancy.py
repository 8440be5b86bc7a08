"""Expectancy, SQN and the strategy breakdown, against arithmetic done by hand."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.analytics.expectancy import expectancy
from zorivest_rpc.embedded.analytics.moments import NO_RESULTS, Moments, moments_of, streaks_of
from zorivest_rpc.embedded.analytics.r_multiples import TripResult, r_moments, r_multiples, unit_of
from zorivest_rpc.embedded.analytics.sqn import grade_of, sqn
from zorivest_rpc.embedded.analytics.strategies import TaggedResult, breakdown, group
from zorivest_rpc.embedded.values.answers import to_json

D = Decimal
PNL = [D(n) for n in (200, -100, 150, -50, 0, 300, -100, 50)]


def test_the_edge_of_eight_trades() -> None:
    # 4 wins sum 700, 3 losses sum 250, 1 scratch, N = 8
    # win 4/8, loss 3/8; averages 175 and 83.333; expectancy 450/8 = 56.25
    # payoff 175/83.333 = 2.1; profit factor 700/250 = 2.8; Kelly 0.5 - 0.375/2.1 = 0.321428...
    # break-even 1/3.1 = 0.322580...; in R 56.25/83.333 = 0.675
    # squares 177500; (177500 - 450^2/8)/7 = 21741.0714; deviation 147.4485; reach 1.96*147.4485/sqrt(8) = 102.176
    shown = to_json(expectancy(moments_of(PNL), streaks=streaks_of(PNL), period="ytd", account_id="A1"))
    assert shown == {
        "period": "ytd",
        "account_id": "A1",
        "strategy": None,
        "trade_count": 8,
        "wins": 4,
        "losses": 3,
        "scratches": 1,
        "total_pnl": 450,
        "win_rate": 0.5,
        "loss_rate": 0.375,
        "avg_win": 175,
        "avg_loss": 83.33,
        "expectancy": 56.25,
        "expectancy_r": 0.675,
        "payoff_ratio": 2.1,
        "profit_factor": 2.8,
        "kelly_fraction": 0.321429,
        "kelly_pct": 32.14,
        "half_kelly_pct": 16.07,
        "break_even_win_rate": 0.322581,
        "avg_slippage": None,
        "edge_per_trade": 56.25,
        "std_dev": 147.45,
        "confidence_95": {"low": -45.93, "high": 158.43},
        "longest_win_streak": 1,
        "longest_loss_streak": 1,
        "low_sample": True,
    }


def test_slippage_and_commission_come_off_the_edge() -> None:
    shown = expectancy(moments_of(PNL), avg_slippage=D("1.20"), avg_commission=D("2"))
    assert (shown.expectancy, shown.edge_per_trade) == (D("56.25"), D("53.05"))


def test_a_scratch_is_no_loss_and_breaks_a_streak() -> None:
    results = [D(1), D(1), D(0), D(1), D(-1), D(-1), D(-1), D(0), D(-1)]
    found = streaks_of(results)
    assert (found.wins, found.losses) == (2, 3)
    shown = expectancy(moments_of(results))
    assert (shown.scratches, shown.loss_rate) == (2, D("0.444444"))  # 4/9


def test_without_losses_the_ratios_over_them_are_null() -> None:
    shown = expectancy(moments_of([D(10), D(20)]))
    assert (shown.payoff_ratio, shown.profit_factor, shown.kelly_fraction, shown.expectancy_r) == (None,) * 4
    assert (shown.avg_loss, shown.expectancy) == (D(0), D(15))


def test_without_wins_kelly_is_null_and_break_even_is_certainty() -> None:
    shown = expectancy(moments_of([D(-10), D(-20)]))
    assert (shown.kelly_fraction, shown.payoff_ratio, shown.break_even_win_rate) == (None, D(0), D(1))
    assert shown.expectancy == D(-15)


def test_nothing_gives_zeros_and_a_hint() -> None:
    shown = to_json(expectancy(NO_RESULTS))
    assert (shown["trade_count"], shown["win_rate"], shown["expectancy"], shown["std_dev"]) == (0, 0, 0, None)
    assert "create_trade" in shown["hint"]
    assert "hint" not in to_json(expectancy(moments_of(PNL)))


def test_thirty_trades_are_no_low_sample() -> None:
    for count, low in ((29, True), (30, False)):
        results = moments_of([D(1)] * count)
        assert expectancy(results).low_sample is low
        assert sqn(results, "none").low_sample is low


def test_the_system_quality_of_eight_trades() -> None:
    # sqrt(8) * 56.25 / 147.4485 = 1.07902
    unit, basis = unit_of(moments_of(PNL))
    found = sqn(moments_of(PNL).in_units_of(unit), basis)
    assert (found.sqn, found.grade, found.n_used, found.r_unit) == (D("1.079"), "Poor", 8, "avg_loss")
    assert (found.mean_r, found.std_r) == (D("0.675"), D("1.769382"))  # 147.448538 / 83.333333


def test_the_system_quality_counts_at_most_a_hundred_trades() -> None:
    # 2, 0 alternating, 200 of them: mean 1, deviation sqrt(200/199); 10 * 1 / 1.0025094 = 9.97497
    found = sqn(moments_of([D(2), D(0)] * 100), "planned_risk")
    assert (found.trade_count, found.n_used, found.sqn, found.grade) == (200, 100, D("9.975"), "Holy Grail")


@pytest.mark.parametrize("results", [[], [D(5)], [D(5), D(5), D(5)]])
def test_without_spread_there_is_no_grade(results: list[Decimal]) -> None:
    found = sqn(moments_of(results), "none")
    assert (found.sqn, found.grade) == (D(0), "N/A")


def test_sums_that_a_database_rounded_make_no_holy_grail() -> None:
    # three results of 0.1 summed in binary floating point
    third = 0.1 * 0.1
    rounded = Moments(3, 3, 0, D(0.1 + 0.1 + 0.1), D(0), D(third + third + third))
    assert sqn(rounded, "none").grade == "N/A"


@pytest.mark.parametrize(
    ("value", "grade"),
    [
        ("-3", "Poor"), ("1.59", "Poor"), ("1.6", "Below average"), ("2.0", "Average"), ("2.49", "Average"),
        ("2.5", "Good"), ("3.0", "Excellent"), ("4.99", "Excellent"), ("5", "Superb"), ("7", "Holy Grail"),
    ],
)  # fmt: skip
def test_a_band_begins_with_its_lower_end(value: str, grade: str) -> None:
    assert grade_of(D(value)) == grade


def test_r_is_the_planned_risk_where_there_is_one() -> None:
    # losses 100 and 50: average 75. 150 planned at 50 is 3R; the loss of 100 planned at 100 is -1R; -50/75 = -0.667R
    found = r_multiples(
        [TripResult(D(150), D(50)), TripResult(D(-100), D(100)), TripResult(D(-50)), TripResult(D(75), D(0))]
    )
    assert found.unit == "mixed"
    assert [round(value, 3) for value in found.values] == [D(3), D(-1), D("-0.667"), D(1)]


def test_r_without_losses_is_measured_in_average_wins() -> None:
    found = r_multiples([TripResult(D(10)), TripResult(D(30))])
    assert (found.unit, found.values) == ("avg_win", (D("0.5"), D("1.5")))
    assert r_multiples([TripResult(D(0))]).unit == "none"


def test_small_money_has_a_unit_too() -> None:
    assert unit_of(moments_of([D("0.50"), D("-0.25")])) == (D("0.25"), "avg_loss")
    assert unit_of(moments_of([D("0.50")])) == (D("0.50"), "avg_win")
    assert unit_of(NO_RESULTS) == (D(1), "none")


def test_strategies_are_listed_by_what_they_earned() -> None:
    results = [
        TaggedResult(D(100), ("breakout", "gap")),
        TaggedResult(D(-40), ("breakout", "breakout ")),
        TaggedResult(D(30), (), "pullback"),
        TaggedResult(D(-10)),
    ]
    shown = breakdown(*group(results))
    assert [(line.strategy, line.total_pnl, line.trade_count, line.frequency) for line in shown.strategies] == [
        ("gap", D(100), 1, D("0.25")),
        ("breakout", D(60), 2, D("0.5")),
        ("pullback", D(30), 1, D("0.25")),
        ("(untagged)", D(-10), 1, D("0.25")),
    ]
    breakout = shown.strategies[1]
    # 100 and -40: mean 30, deviation sqrt(70^2 + 70^2) = 98.995; sqrt(2)*30/98.995 = 0.42857
    assert (breakout.win_rate, breakout.payoff_ratio, breakout.expectancy) == (D("0.5"), D("2.5"), D(30))
    assert breakout.sqn == D("0.429")
    assert (shown.overall.total_pnl, shown.overall.trade_count, shown.overall.frequency) == (D(80), 4, D(1))


def test_no_strategies_give_an_empty_list_and_a_hint() -> None:
    shown = to_json(breakdown(*group([])))
    assert (shown["strategies"], shown["overall"]["trade_count"]) == ([], 0)
    assert shown["hint"]


money = st.integers(-100_000, 100_000).map(lambda n: D(n).scaleb(-2))


@settings(deadline=None, max_examples=100)
@given(st.lists(money, min_size=2, max_size=30))
def test_the_sums_give_what_the_results_give(results: list[Decimal]) -> None:
    sums = moments_of(results)
    assert sums.total == sum(results)
    assert sums.mean * len(results) == pytest.approx(sum(results))
    assert float(sums.std_dev or 0) == pytest.approx(float(statistics.stdev(results)), rel=1e-9, abs=1e-9)
    assert sums.mean == pytest.approx(
        D(sums.wins) / sums.count * sums.avg_win - D(sums.losses) / sums.count * sums.avg_loss
    )


@settings(deadline=None, max_examples=100)
@given(st.lists(money, max_size=20), st.lists(money, max_size=20))
def test_the_sums_of_two_sets_add_up(first: list[Decimal], second: list[Decimal]) -> None:
    assert moments_of(first).plus(moments_of(second)) == moments_of(first + second)


@settings(deadline=None, max_examples=100)
@given(st.lists(money, min_size=2, max_size=30), st.integers(2, 50))
def test_the_unit_of_money_does_not_change_the_system_quality(results: list[Decimal], factor: int) -> None:
    assert sqn(moments_of(results), "none").sqn == sqn(moments_of([item * factor for item in results]), "none").sqn


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(money, st.none() | st.integers(1, 500).map(D)), min_size=2, max_size=20))
def test_r_from_sums_equals_r_from_results(rows: list[tuple[Decimal, Decimal | None]]) -> None:
    found = r_multiples(TripResult(pnl, risk) for pnl, risk in rows)
    sums, unit = r_moments(
        moments_of(pnl for pnl, _ in rows),
        moments_of(pnl / risk for pnl, risk in rows if risk),
        moments_of(pnl for pnl, risk in rows if not risk),
    )
    assert (sums.count, unit) == (len(rows), found.unit)
    assert float(sums.mean) == pytest.approx(math.fsum(map(float, found.values)) / len(rows), abs=1e-9)
