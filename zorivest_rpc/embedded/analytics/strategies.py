"""Which strategies earn: closed round trips grouped by the tags of their reports, or by the name of their plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.analytics.expectancy import NO_ROUND_TRIPS
from zorivest_rpc.embedded.analytics.moments import Moments, moments_of
from zorivest_rpc.embedded.analytics.sqn import sqn_value
from zorivest_rpc.embedded.values.answers import Hint
from zorivest_rpc.embedded.values.money import ZERO, cents, divide, ratio, round_to

__all__ = ["UNTAGGED", "StrategyBreakdown", "StrategyLine", "TaggedResult", "breakdown", "group", "strategies_of"]

UNTAGGED = "(untagged)"


class TaggedResult(msgspec.Struct, frozen=True):
    """A closed round trip: its net result, the tags of the reports on its executions, its linked plan's strategy."""

    pnl: Decimal
    tags: tuple[str, ...] = ()
    plan_strategy: str | None = None


class StrategyLine(msgspec.Struct, frozen=True):
    """The figures of one strategy; `frequency` is its share of all round trips."""

    strategy: str
    total_pnl: Decimal
    trade_count: int
    win_rate: Decimal
    avg_win: Decimal
    avg_loss: Decimal
    payoff_ratio: Decimal | None
    expectancy: Decimal
    sqn: Decimal | None
    frequency: Decimal


class StrategyBreakdown(msgspec.Struct, frozen=True):
    """Strategies by what they earned; `overall` counts a round trip once, however many tags put it in several lines."""

    period: str
    account_id: str | None
    strategies: tuple[StrategyLine, ...]
    overall: StrategyLine
    hint: Hint = msgspec.UNSET


def strategies_of(result: TaggedResult) -> tuple[str, ...]:
    """The groups a round trip belongs to: each tag once; else its plan's strategy; else the untagged."""
    tags = tuple(dict.fromkeys(tag.strip() for tag in result.tags if tag.strip()))
    if tags:
        return tags
    plan = (result.plan_strategy or "").strip()
    return (plan or UNTAGGED,)


def group(results: Iterable[TaggedResult]) -> tuple[dict[str, Moments], Moments]:
    """The sums per strategy and over everything, for results that are at hand."""
    by_strategy: dict[str, list[Decimal]] = {}
    everything: list[Decimal] = []
    for result in results:
        everything.append(result.pnl)
        for strategy in strategies_of(result):
            by_strategy.setdefault(strategy, []).append(result.pnl)
    return {strategy: moments_of(pnl) for strategy, pnl in by_strategy.items()}, moments_of(everything)


def breakdown(
    by_strategy: Mapping[str, Moments], overall: Moments, *, period: str = "all", account_id: str | None = None
) -> StrategyBreakdown:
    """The answer from the sums per strategy (one GROUP BY over tags) and the sums over each round trip once."""
    lines = [_line(strategy, moments, overall.count) for strategy, moments in by_strategy.items()]
    lines.sort(key=lambda line: (-line.total_pnl, line.strategy))
    return StrategyBreakdown(
        period=period,
        account_id=account_id,
        strategies=tuple(lines),
        overall=_line("(all)", overall, overall.count),
        hint=msgspec.UNSET if overall.count else NO_ROUND_TRIPS,
    )


def _line(strategy: str, results: Moments, everything: int) -> StrategyLine:
    quality = sqn_value(results)
    return StrategyLine(
        strategy=strategy,
        total_pnl=cents(results.total),
        trade_count=results.count,
        win_rate=ratio(divide(results.wins, results.count)) or ZERO,
        avg_win=cents(results.avg_win),
        avg_loss=cents(results.avg_loss),
        payoff_ratio=ratio(divide(results.avg_win, results.avg_loss)),
        expectancy=cents(results.mean),
        sqn=None if quality is None else round_to(quality, Decimal("0.001")),
        frequency=ratio(divide(results.count, everything)) or ZERO,
    )
