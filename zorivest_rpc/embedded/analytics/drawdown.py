"""How deep it may get: drawdown odds by Monte Carlo over the trader's own results, and the risk that keeps them small.

Paths are drawn in chunks and advanced step by step, so memory does not grow with the number of paths or their length
beyond one figure per path. Between chunks `checkpoint` is called with the paths done and the paths wanted; it may
raise to stop. Nearly all time is spent in numpy, which lets other threads run: it belongs into a worker thread."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal

import msgspec
import numpy as np
from numpy.typing import NDArray

from zorivest_rpc.embedded.analytics.expectancy import LOW_SAMPLE, NO_ROUND_TRIPS, kelly_fraction
from zorivest_rpc.embedded.analytics.moments import moments_of
from zorivest_rpc.embedded.analytics.r_multiples import RUnit, TripResult, r_multiples
from zorivest_rpc.embedded.values.answers import Hint

__all__ = [
    "Checkpoint",
    "Drawdown",
    "StreakOdds",
    "drawdown",
    "risk_of_ruin_formula",
    "seed_of",
    "simulate",
    "streak_probability",
]

Checkpoint = Callable[[int, int], None]
Floats = NDArray[np.float64]

CHUNK = 2_000
DEPTHS = (5, 10, 15, 20, 25, 30, 40, 50)
PERCENTILES = (5, 25, 50, 75, 95)
STREAKS = range(2, 11)
RISK_GRID = tuple(step * 0.25 for step in range(1, 21))
_DEEP, _RUIN, _TOLERATED = 0.20, 0.50, 0.05
_ROUNDING = 1e-12
_CEILING = 1e200  # absurdly lucky paths stay finite


class StreakOdds(msgspec.Struct, frozen=True):
    """The exact probability of at least `losses` losses in a row within the horizon."""

    losses: int
    probability: float


class Paths(msgspec.Struct, frozen=True):
    """What one simulation leaves: per path the worst fall and the final equity; per risk the share of deep falls."""

    worst: Floats
    final: Floats
    losing_streak: NDArray[np.int64]
    deep_share: tuple[float, ...]


class Drawdown(msgspec.Struct, frozen=True):
    """The answer. Drawdowns are fractions at or below zero, equity is in multiples of the start, risks in percent."""

    account_id: str | None
    trade_count: int
    simulations_run: int
    horizon: int
    risk_pct: float
    probability_table: dict[str, float]
    max_drawdown_median: float | None
    max_drawdown_p95: float | None
    equity_percentiles: dict[str, float]
    losing_streak_median: float | None
    recommended_risk_pct: float
    risk_of_ruin: float | None
    risk_of_ruin_formula: float | None
    streak_table: tuple[StreakOdds, ...]
    r_unit: RUnit
    seed: int
    insufficient_data: bool
    low_sample: bool
    hint: Hint = msgspec.UNSET


def drawdown(
    results: Sequence[TripResult],
    *,
    simulations: int = 10_000,
    risk_pct: float = 1.0,
    horizon: int = 100,
    seed: int | None = None,
    account_id: str | None = None,
    checkpoint: Checkpoint | None = None,
) -> Drawdown:
    """The drawdown odds of risking `risk_pct` of the equity on each of `horizon` trades like the given ones.

    Without a seed the same results give the same answer: the seed is made from the account, their number and sum."""
    if simulations < 1 or horizon < 1 or not 0 < risk_pct <= 100:
        raise ValueError("simulations and horizon must be positive, risk_pct above 0 and at most 100")
    money = moments_of(result.pnl for result in results)
    used_seed = seed_of(account_id, money.count, money.total) if seed is None else seed
    in_r = r_multiples(results)
    if money.count < 2:
        return _too_few(account_id, money.count, in_r.unit, used_seed, horizon=horizon, risk_pct=risk_pct)
    values = np.array([float(value) for value in in_r.values])
    paths = simulate(values, simulations, horizon, (*RISK_GRID, risk_pct), used_seed, checkpoint=checkpoint)
    kelly = kelly_fraction(money)
    loss_rate = money.losses / money.count
    return Drawdown(
        account_id=account_id,
        trade_count=money.count,
        simulations_run=simulations,
        horizon=horizon,
        risk_pct=risk_pct,
        probability_table={str(depth): _share(paths.worst, depth / 100) for depth in DEPTHS},
        max_drawdown_median=_quantile(paths.worst, 0.5),
        max_drawdown_p95=_quantile(paths.worst, 0.05),
        equity_percentiles={f"p{rank}": _quantile(paths.final, rank / 100) for rank in PERCENTILES},
        losing_streak_median=_quantile(paths.losing_streak.astype(np.float64), 0.5),
        recommended_risk_pct=_recommend_risk(paths.deep_share, float(values.mean()), kelly),
        risk_of_ruin=_share(paths.worst, _RUIN),
        risk_of_ruin_formula=round(risk_of_ruin_formula(float(values.mean()), 100 / risk_pct), 6),
        streak_table=tuple(StreakOdds(k, round(streak_probability(loss_rate, horizon, k), 6)) for k in STREAKS),
        r_unit=in_r.unit,
        seed=used_seed,
        insufficient_data=False,
        low_sample=money.count < LOW_SAMPLE,
    )


def _too_few(account_id: str | None, count: int, unit: RUnit, seed: int, *, horizon: int, risk_pct: float) -> Drawdown:
    return Drawdown(
        account_id=account_id,
        trade_count=count,
        simulations_run=0,
        horizon=horizon,
        risk_pct=risk_pct,
        probability_table={},
        max_drawdown_median=None,
        max_drawdown_p95=None,
        equity_percentiles={},
        losing_streak_median=None,
        recommended_risk_pct=0.0,
        risk_of_ruin=None,
        risk_of_ruin_formula=None,
        streak_table=(),
        r_unit=unit,
        seed=seed,
        insufficient_data=True,
        low_sample=True,
        hint="One closed round trip is too few to draw from; at least two are needed." if count else NO_ROUND_TRIPS,
    )


def simulate(
    r_values: Floats,
    simulations: int,
    horizon: int,
    risks_pct: Sequence[float],
    seed: int,
    *,
    checkpoint: Checkpoint | None = None,
) -> Paths:
    """Random paths of `horizon` results drawn with replacement, the same draws for every risk.

    The last risk is the one whose falls and final equity are kept; of the others only the share of deep falls is."""
    generator = np.random.Generator(np.random.PCG64(seed))
    fractions = np.array(risks_pct, dtype=np.float64)[:, np.newaxis] / 100
    worst, final = np.empty(simulations), np.empty(simulations)
    streaks = np.empty(simulations, dtype=np.int64)
    deep = np.zeros(len(risks_pct), dtype=np.int64)
    for start in range(0, simulations, CHUNK):
        if checkpoint is not None:
            checkpoint(start, simulations)
        stop = min(start + CHUNK, simulations)
        lowest, equity, run = _walk(generator, r_values, stop - start, horizon, fractions)
        worst[start:stop], final[start:stop], streaks[start:stop] = lowest[-1] - 1, equity, run
        deep += np.count_nonzero(lowest <= 1 - _DEEP + _ROUNDING, axis=1)
    if checkpoint is not None:
        checkpoint(simulations, simulations)
    return Paths(worst, final, streaks, tuple(float(count) / simulations for count in deep))


def _walk(
    generator: np.random.Generator, r_values: Floats, paths: int, horizon: int, fractions: Floats
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """One chunk. `level` is equity over its peak so far: it follows each result and never exceeds one."""
    level = np.ones((len(fractions), paths))
    lowest = np.ones_like(level)
    growth = np.empty_like(level)
    equity = np.ones(paths)
    run = np.zeros(paths, dtype=np.int64)
    longest = np.zeros(paths, dtype=np.int64)
    for _ in range(horizon):
        drawn = r_values[generator.integers(0, len(r_values), paths)]
        np.multiply(fractions, drawn, out=growth)
        growth += 1
        np.maximum(growth, 0, out=growth)
        equity *= growth[-1]
        np.minimum(equity, _CEILING, out=equity)
        level *= growth
        np.minimum(level, 1, out=level)
        np.minimum(lowest, level, out=lowest)
        run += 1
        run *= drawn < 0
        np.maximum(longest, run, out=longest)
    return lowest, equity, longest


def seed_of(account_id: str | None, count: int, total: Decimal) -> int:
    """The seed that belongs to these results; equal sums give equal seeds however their digits are written."""
    return zlib.crc32(f"{account_id or ''}|{count}|{total.normalize():f}".encode())


def streak_probability(loss_rate: float, trades: int, losses: int) -> float:
    """The exact probability of a run of at least `losses` losses in `trades` trades.

    A chain over the length of the current run: a loss lengthens it, anything else ends it, the full length absorbs."""
    if losses < 1:
        return 1.0
    state = [1.0] + [0.0] * (losses - 1)
    absorbed = 0.0
    for _ in range(trades):
        absorbed += state[-1] * loss_rate
        state = [sum(state) * (1 - loss_rate), *(share * loss_rate for share in state[:-1])]
    return min(1.0, absorbed)


def risk_of_ruin_formula(expectancy_r: float, units: float) -> float:
    """((1 - e) / (1 + e)) ^ U: the odds of ever losing `units` bets at even stakes; certain without an edge."""
    if expectancy_r <= 0:
        return 1.0
    return 0.0 if expectancy_r >= 1 else ((1 - expectancy_r) / (1 + expectancy_r)) ** units


def _recommend_risk(deep_share: Sequence[float], mean_r: float, kelly: Decimal | None) -> float:
    """The largest risk of the grid up to which a fall of 20 % has odds of at most 5 %, capped at half Kelly."""
    if mean_r <= 0:
        return 0.0
    best = 0.0
    for risk, share in zip(RISK_GRID, deep_share, strict=False):
        if share > _TOLERATED:
            break
        best = risk
    if kelly is None:
        return best
    half_kelly = int(kelly * 5_000) / 100  # percent, cut to two decimals
    return max(0.0, min(best, half_kelly))


def _share(worst: Floats, depth: float) -> float:
    return round(float(np.count_nonzero(worst <= -depth + _ROUNDING)) / len(worst), 6)


def _quantile(values: Floats, rank: float) -> float:
    return round(float(np.quantile(values, rank)), 6)
