"""Whether there is an edge: win rate, expectancy, payoff, Kelly and how sure the sample is of them."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.analytics.moments import Moments, Streaks
from zorivest_rpc.embedded.values.answers import Hint
from zorivest_rpc.embedded.values.money import ZERO, cents, divide, exactly, ratio, root

__all__ = ["LOW_SAMPLE", "NO_ROUND_TRIPS", "Confidence", "Expectancy", "expectancy", "kelly_fraction"]

LOW_SAMPLE = 30
"""Below this many trades the figures are shown with a warning."""
NO_ROUND_TRIPS = (
    "No closed round trip in this selection; record fills with create_trade or load a statement with import_broker_csv."
)
_NORMAL_95 = Decimal("1.96")


class Confidence(msgspec.Struct, frozen=True):
    """The range that holds the true average with 95 %."""

    low: Decimal
    high: Decimal


class Expectancy(msgspec.Struct, frozen=True):
    """The edge of a set of closed round trips. A ratio without a denominator is null."""

    period: str
    account_id: str | None
    strategy: str | None
    trade_count: int
    wins: int
    losses: int
    scratches: int
    total_pnl: Decimal
    win_rate: Decimal
    loss_rate: Decimal
    avg_win: Decimal
    avg_loss: Decimal
    expectancy: Decimal
    expectancy_r: Decimal | None
    payoff_ratio: Decimal | None
    profit_factor: Decimal | None
    kelly_fraction: Decimal | None
    kelly_pct: Decimal | None
    half_kelly_pct: Decimal | None
    break_even_win_rate: Decimal | None
    avg_slippage: Decimal | None
    edge_per_trade: Decimal
    std_dev: Decimal | None
    confidence_95: Confidence | None
    longest_win_streak: int
    longest_loss_streak: int
    low_sample: bool
    hint: Hint = msgspec.UNSET


@exactly
def kelly_fraction(results: Moments) -> Decimal | None:
    """win rate - loss rate / payoff: the share of capital that grows fastest; None without wins or without losses."""
    payoff = divide(results.avg_win, results.avg_loss)
    if not payoff:
        return None
    return (results.wins - results.losses / payoff) / results.count


@exactly
def expectancy(
    results: Moments,
    *,
    streaks: Streaks | None = None,
    avg_slippage: Decimal | None = None,
    avg_commission: Decimal | None = None,
    period: str = "all",
    account_id: str | None = None,
    strategy: str | None = None,
) -> Expectancy:
    """The edge from the sums of the net results of closed round trips.

    The longest streaks need the results in order and are given apart. `avg_slippage` is money per trade, where fills
    were measured against quotes; `avg_commission` is given only when the results are before commissions."""
    runs = streaks or Streaks()
    count = results.count
    win_rate, loss_rate = divide(results.wins, count) or ZERO, divide(results.losses, count) or ZERO
    payoff = divide(results.avg_win, results.avg_loss)
    kelly = kelly_fraction(results)
    deviation = results.std_dev
    return Expectancy(
        period=period,
        account_id=account_id,
        strategy=strategy,
        trade_count=count,
        wins=results.wins,
        losses=results.losses,
        scratches=count - results.wins - results.losses,
        total_pnl=cents(results.total),
        win_rate=_plain(win_rate),
        loss_rate=_plain(loss_rate),
        avg_win=cents(results.avg_win),
        avg_loss=cents(results.avg_loss),
        expectancy=cents(results.mean),
        expectancy_r=ratio(divide(results.mean, results.avg_loss)),
        payoff_ratio=ratio(payoff),
        profit_factor=ratio(divide(results.gross_win, results.gross_loss)),
        kelly_fraction=ratio(kelly),
        kelly_pct=None if kelly is None else cents(100 * kelly),
        half_kelly_pct=None if kelly is None else cents(50 * kelly),
        break_even_win_rate=None if payoff is None else ratio(1 / (1 + payoff)),
        avg_slippage=None if avg_slippage is None else cents(avg_slippage),
        edge_per_trade=cents(results.mean - (avg_slippage or ZERO) - (avg_commission or ZERO)),
        std_dev=None if deviation is None else cents(deviation),
        confidence_95=None if deviation is None else _interval(results.mean, deviation, count),
        longest_win_streak=runs.wins,
        longest_loss_streak=runs.losses,
        low_sample=count < LOW_SAMPLE,
        hint=msgspec.UNSET if count else NO_ROUND_TRIPS,
    )


def _plain(value: Decimal) -> Decimal:
    return ratio(value) or ZERO


def _interval(mean: Decimal, deviation: Decimal, count: int) -> Confidence:
    reach = _NORMAL_95 * deviation / root(count)
    return Confidence(cents(mean - reach), cents(mean + reach))
