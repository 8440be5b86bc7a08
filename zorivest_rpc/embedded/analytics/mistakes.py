"""What mistakes cost: tagged mistakes by category and by month."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Literal, get_args

import msgspec

from zorivest_rpc.embedded.analytics.moments import NO_RESULTS, Moments
from zorivest_rpc.embedded.values.answers import Hint
from zorivest_rpc.embedded.values.money import ZERO, cents, divide, exactly, ratio

__all__ = [
    "CATEGORIES",
    "CategoryLine",
    "CostSource",
    "Mistake",
    "MistakeCategory",
    "MistakeSummary",
    "MistakeSums",
    "TrendLine",
    "cost_of",
    "mistake_summary",
    "parse_category",
    "sums_of",
]

MistakeCategory = Literal[
    "early_exit",
    "late_exit",
    "oversized",
    "no_stop",
    "revenge_trade",
    "fomo_entry",
    "ignored_plan",
    "overtrading",
    "chasing",
    "other",
]
CATEGORIES: tuple[MistakeCategory, ...] = get_args(MistakeCategory)

CostSource = Literal["user", "derived", "unknown"]


class Mistake(msgspec.Struct, frozen=True):
    """A tagged mistake, the cost its author gave, and the net result of its round trip (None until that is closed)."""

    category: MistakeCategory
    day: date
    estimated_cost: Decimal | None = None
    pnl: Decimal | None = None


class MistakeSums(msgspec.Struct, frozen=True):
    """Mistakes of one category and month, summed: one GROUP BY row. `closed` of them have a result, `wins` a gain."""

    category: MistakeCategory
    month: date
    count: int
    cost: Decimal
    closed: int = 0
    wins: int = 0


class CategoryLine(msgspec.Struct, frozen=True):
    """One category; `win_rate` is that of the round trips in which it was made."""

    category: MistakeCategory
    count: int
    total_cost: Decimal
    avg_cost: Decimal
    share_of_cost: Decimal | None
    win_rate: Decimal | None


class TrendLine(msgspec.Struct, frozen=True):
    """One month, also one without mistakes between two with some."""

    month: str
    count: int
    cost: Decimal


class MistakeSummary(msgspec.Struct, frozen=True):
    """The answer; `baseline_win_rate` is that of all round trips, to compare a category's with."""

    period: str
    account_id: str | None
    total_mistakes: int
    total_cost: Decimal
    by_category: tuple[CategoryLine, ...]
    trend: tuple[TrendLine, ...]
    most_costly: MistakeCategory | None
    most_frequent: MistakeCategory | None
    baseline_win_rate: Decimal | None
    hint: Hint = msgspec.UNSET


def parse_category(text: str) -> MistakeCategory | None:
    """The category in any case, with spaces or dashes for underscores; None for anything else."""
    wanted = text.strip().lower().replace("-", "_").replace(" ", "_")
    return next((category for category in CATEGORIES if category == wanted), None)


def cost_of(estimated_cost: Decimal | None, pnl: Decimal | None) -> tuple[Decimal, CostSource]:
    """What a mistake cost: what its author says, else what its round trip lost; unknown while that is open."""
    if estimated_cost is not None:
        return estimated_cost, "user"
    return (ZERO, "unknown") if pnl is None else (max(ZERO, -pnl), "derived")


@exactly
def sums_of(mistakes: Iterable[Mistake]) -> list[MistakeSums]:
    """The sums per category and month of mistakes that are at hand."""
    groups: dict[tuple[MistakeCategory, date], list[Mistake]] = {}
    for mistake in mistakes:
        groups.setdefault((mistake.category, mistake.day.replace(day=1)), []).append(mistake)
    return [
        MistakeSums(
            category,
            month,
            len(group),
            sum((cost_of(item.estimated_cost, item.pnl)[0] for item in group), ZERO),
            sum(item.pnl is not None for item in group),
            sum(item.pnl is not None and item.pnl > 0 for item in group),
        )
        for (category, month), group in groups.items()
    ]


@exactly
def mistake_summary(
    sums: Sequence[MistakeSums], *, baseline: Moments = NO_RESULTS, period: str = "ytd", account_id: str | None = None
) -> MistakeSummary:
    """The answer from sums per category and month; `baseline` sums all closed round trips of the same selection."""
    total_cost = sum((row.cost for row in sums), ZERO)
    lines = [
        _category([row for row in sums if row.category == category], total_cost)
        for category in CATEGORIES
        if any(row.category == category for row in sums)
    ]
    lines.sort(key=lambda line: (-line.total_cost, -line.count, line.category))
    frequent = max(lines, key=lambda line: (line.count, line.total_cost), default=None)
    return MistakeSummary(
        period=period,
        account_id=account_id,
        total_mistakes=sum(row.count for row in sums),
        total_cost=cents(total_cost),
        by_category=tuple(lines),
        trend=_trend(sums),
        most_costly=lines[0].category if lines and lines[0].total_cost > 0 else None,
        most_frequent=None if frequent is None else frequent.category,
        baseline_win_rate=ratio(divide(baseline.wins, baseline.count)),
        hint=msgspec.UNSET
        if sums
        else "No tagged mistakes in this selection; tag one with track_mistake. None tagged does not mean none made.",
    )


def _category(rows: Sequence[MistakeSums], total_cost: Decimal) -> CategoryLine:
    count, cost = sum(row.count for row in rows), sum((row.cost for row in rows), ZERO)
    return CategoryLine(
        category=rows[0].category,
        count=count,
        total_cost=cents(cost),
        avg_cost=cents(cost / count),
        share_of_cost=ratio(divide(cost, total_cost)),
        win_rate=ratio(divide(sum(row.wins for row in rows), sum(row.closed for row in rows))),
    )


def _trend(sums: Sequence[MistakeSums]) -> tuple[TrendLine, ...]:
    if not sums:
        return ()
    counts: dict[date, int] = {}
    costs: dict[date, Decimal] = {}
    for row in sums:
        month = row.month.replace(day=1)
        counts[month] = counts.get(month, 0) + row.count
        costs[month] = costs.get(month, ZERO) + row.cost
    lines, month = [], min(counts)
    while month <= max(counts):
        lines.append(TrendLine(f"{month:%Y-%m}", counts.get(month, 0), cents(costs.get(month, ZERO))))
        month = month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)
    return tuple(lines)
