"""Drawdown odds: exact where they can be computed, close where they are drawn, the same for the same seed."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from zorivest_rpc.embedded.analytics.drawdown import (
    CHUNK,
    RISK_GRID,
    drawdown,
    risk_of_ruin_formula,
    seed_of,
    simulate,
    streak_probability,
)
from zorivest_rpc.embedded.analytics.r_multiples import TripResult
from zorivest_rpc.embedded.values.answers import to_json

D = Decimal
PNL = [TripResult(D(n)) for n in (200, -100, 150, -50, 0, 300, -100, 50)]


@pytest.mark.parametrize(("losses", "expected"), [(4, 0.9727), (6, 0.5461), (10, 0.0441)])
def test_the_odds_of_a_losing_streak_in_a_hundred_fair_tosses(losses: int, expected: float) -> None:
    assert streak_probability(0.5, 100, losses) == pytest.approx(expected, abs=5e-5)


def test_the_streak_odds_equal_counting_every_sequence() -> None:
    # all 2^8 sequences of 8 trades with a loss rate of 0.3, weighted one by one
    rate, trades = 0.3, 8
    for losses in range(1, 9):
        counted = 0.0
        for sequence in itertools.product("LW", repeat=trades):
            if "L" * losses in "".join(sequence):
                lost = sequence.count("L")
                counted += rate**lost * (1 - rate) ** (trades - lost)
        assert streak_probability(rate, trades, losses) == pytest.approx(counted)


def test_streaks_that_cannot_happen_or_must_happen() -> None:
    assert streak_probability(0.5, 3, 4) == 0
    assert streak_probability(0.0, 100, 2) == 0
    assert streak_probability(1.0, 5, 5) == 1
    assert streak_probability(0.5, 5, 0) == 1


def test_ruin_is_certain_without_an_edge_and_rarer_with_more_units() -> None:
    # e = 0.2, U = 10: (0.8/1.2)^10 = 0.017341...
    assert risk_of_ruin_formula(0.2, 10) == pytest.approx(0.0173415, abs=1e-6)
    assert (risk_of_ruin_formula(0, 10), risk_of_ruin_formula(-1, 10), risk_of_ruin_formula(1.5, 10)) == (1, 1, 0)


def test_a_sure_loss_falls_by_compounding() -> None:
    # -1R at 1 % a hundred times: equity 0.99^100 = 0.366032, the fall is the same
    found = drawdown([TripResult(D(-50)), TripResult(D(-50))], simulations=100)
    assert found.max_drawdown_median == pytest.approx(0.99**100 - 1, abs=1e-6)
    assert found.equity_percentiles["p50"] == pytest.approx(0.99**100, abs=1e-6)
    assert found.probability_table == {str(depth): 1.0 for depth in (5, 10, 15, 20, 25, 30, 40, 50)}
    assert (found.risk_of_ruin, found.recommended_risk_pct, found.losing_streak_median) == (1.0, 0.0, 100.0)


def test_a_sure_win_never_falls() -> None:
    found = drawdown([TripResult(D(50)), TripResult(D(50))], simulations=100, risk_pct=2)
    assert (found.max_drawdown_median, found.risk_of_ruin) == (0, 0)
    assert found.equity_percentiles["p5"] == pytest.approx(1.02**100, rel=1e-6)
    assert (found.recommended_risk_pct, found.r_unit) == (5.0, "avg_win")


def test_one_step_has_the_odds_of_its_results() -> None:
    # three of four results lose 1R; at 20 % risk over one trade the fall is 20 % with odds 3/4
    results = [TripResult(D(300)), *[TripResult(D(-100))] * 3]
    found = drawdown(results, simulations=20_000, horizon=1, risk_pct=20, seed=7)
    assert found.probability_table["20"] == pytest.approx(0.75, abs=0.02)
    assert found.probability_table["25"] == 0


def test_two_steps_have_the_odds_of_their_four_paths() -> None:
    # +-1R at 10 %: WW never falls, WL and LW fall by 10 %, LL by 19 %
    found = drawdown([TripResult(D(100)), TripResult(D(-100))], simulations=20_000, horizon=2, risk_pct=10, seed=1)
    assert found.probability_table["10"] == pytest.approx(0.75, abs=0.02)
    assert found.probability_table["15"] == pytest.approx(0.25, abs=0.02)
    assert found.probability_table["20"] == 0


def test_the_walk_equals_a_plain_loop_over_the_same_draws() -> None:
    values = np.array([2.0, -1.0, -0.5, 0.3])
    risk, horizon, paths = 30.0, 12, 50
    found = simulate(values, paths, horizon, (5.0, risk), seed=11)
    generator = np.random.Generator(np.random.PCG64(11))
    draws = [values[generator.integers(0, len(values), paths)] for _ in range(horizon)]
    deep = 0
    for path in range(paths):
        equity = peak = 1.0
        worst, run, longest = 0.0, 0, 0
        for step in range(horizon):
            result = float(draws[step][path])
            equity *= max(0.0, 1 + risk / 100 * result)
            peak = max(peak, equity)
            worst = min(worst, equity / peak - 1)
            run = run + 1 if result < 0 else 0
            longest = max(longest, run)
        assert found.worst[path] == pytest.approx(worst)
        assert found.final[path] == pytest.approx(equity)
        assert found.losing_streak[path] == longest
        deep += worst <= -0.2
    assert found.deep_share[-1] == pytest.approx(deep / paths)


def test_equity_never_falls_below_zero() -> None:
    # a loss of 3R at 50 % would be -150 %; it ends at zero and stays there
    found = drawdown([TripResult(D(10), D(10)), TripResult(D(-30), D(10))], simulations=500, risk_pct=50, seed=3)
    assert found.equity_percentiles["p5"] == 0
    assert found.max_drawdown_p95 == -1


def test_the_same_results_give_the_same_answer() -> None:
    first, second = drawdown(PNL, simulations=3_000), drawdown(PNL, simulations=3_000)
    assert first == second
    assert first.seed == seed_of(None, 8, D("450.00")) != seed_of("A1", 8, D(450))
    assert drawdown(PNL, simulations=100, account_id="A1").seed == seed_of("A1", 8, D(450)) != seed_of("A2", 8, D(450))
    assert drawdown(PNL, simulations=3_000, seed=1) != drawdown(PNL, simulations=3_000, seed=2)


def test_an_answer_says_how_much_it_rests_on() -> None:
    # mean 0.675R at 1 %: (0.325/1.675)^100 is nothing; at 50 % two units: 0.037648...
    few = drawdown(PNL, simulations=100, risk_pct=50)
    assert (few.insufficient_data, few.low_sample, few.trade_count, few.simulations_run) == (False, True, 8, 100)
    assert few.risk_of_ruin_formula == pytest.approx((0.325 / 1.675) ** 2, abs=1e-6)
    many = drawdown(PNL * 4, simulations=100)
    assert (many.low_sample, many.risk_of_ruin_formula) == (False, 0)
    assert [odds.losses for odds in few.streak_table] == list(range(2, 11))
    # loss rate 3/8 over 100 trades
    assert few.streak_table[0].probability == pytest.approx(streak_probability(0.375, 100, 2), abs=1e-6)


def test_the_odds_fall_with_depth_and_the_percentiles_rise() -> None:
    found = drawdown(PNL, simulations=5_000, risk_pct=3)
    odds = list(found.probability_table.values())
    assert odds == sorted(odds, reverse=True)
    equity = list(found.equity_percentiles.values())
    assert equity == sorted(equity)
    assert found.max_drawdown_p95 is not None
    assert found.max_drawdown_median is not None
    assert found.max_drawdown_p95 <= found.max_drawdown_median <= 0


def test_the_recommended_risk_keeps_deep_falls_rare() -> None:
    found = drawdown(PNL, simulations=10_000, seed=5)
    assert 0 < found.recommended_risk_pct <= RISK_GRID[-1]
    at_recommended = drawdown(PNL, simulations=10_000, seed=5, risk_pct=found.recommended_risk_pct)
    assert at_recommended.probability_table["20"] <= 0.05
    above = drawdown(PNL, simulations=10_000, seed=5, risk_pct=found.recommended_risk_pct + 0.25)
    assert above.probability_table["20"] > 0.05


@pytest.mark.parametrize(("results", "expected"), [(22, 5.0), (18, 4.75)])
def test_a_fall_of_a_fifth_may_happen_once_in_twenty(results: int, expected: float) -> None:
    # one step, one of so many results loses 4R: at 5 % of risk that is a fall of 20 %, at 4.75 % of 19 %
    drawn = [TripResult(D(1), D(1))] * (results - 1) + [TripResult(D(-4), D(1))]
    assert drawdown(drawn, simulations=100_000, horizon=1, seed=3).recommended_risk_pct == expected


def test_the_recommended_risk_is_at_most_half_kelly() -> None:
    # 51 wins of 1, 49 losses of 1: Kelly 0.02, half of it 1 %
    results = [TripResult(D(1))] * 51 + [TripResult(D(-1))] * 49
    assert drawdown(results, simulations=2_000).recommended_risk_pct <= 1.0


def test_without_expectancy_no_risk_is_recommended() -> None:
    assert drawdown([TripResult(D(100)), TripResult(D(-200))], simulations=200).recommended_risk_pct == 0


@pytest.mark.parametrize("results", [[], [TripResult(D(5))]])
def test_too_few_results_say_so(results: list[TripResult]) -> None:
    shown = to_json(drawdown(results))
    assert (shown["insufficient_data"], shown["probability_table"], shown["simulations_run"]) == (True, {}, 0)
    assert shown["recommended_risk_pct"] == 0
    assert shown["hint"]


def test_the_caller_hears_of_every_chunk_and_can_stop_between_them() -> None:
    heard: list[tuple[int, int]] = []

    def stop_at_second(done: int, wanted: int) -> None:
        heard.append((done, wanted))
        if done:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        drawdown(PNL, simulations=3 * CHUNK, checkpoint=stop_at_second)
    assert heard == [(0, 3 * CHUNK), (CHUNK, 3 * CHUNK)]


@pytest.mark.parametrize("wrong", [{"simulations": 0}, {"horizon": 0}, {"risk_pct": 0}, {"risk_pct": 101}])
def test_impossible_requests_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        drawdown(PNL, **wrong)  # type: ignore[arg-type]


def test_the_luckiest_path_stays_a_number() -> None:
    found = drawdown(
        [TripResult(D(1000), D(1)), TripResult(D(1001), D(1))], simulations=10, horizon=2_000, risk_pct=100
    )
    assert np.isfinite(list(found.equity_percentiles.values())).all()
