"""How good a fill was against the best quotes, the bar around it, or nothing, which is then said.

Quotes at the moment of a fill are rare. Without them the bar that covers the fill stands in with low confidence, and
without that there is no grade: a missing benchmark is never a bad mark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec

from zorivest_rpc.embedded.analytics.excursion import Bar
from zorivest_rpc.embedded.analytics.positions import Execution
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.money import ZERO, exactly, price, round_to

__all__ = ["BidAsk", "ExecutionQuality", "grade_of", "in_regular_hours", "score_execution"]

Letter = Literal["A", "B", "C", "D", "F", "N/A"]

_BANDS: tuple[tuple[int, Letter], ...] = ((90, "A"), (80, "B"), (70, "C"), (60, "D"))
_HUNDREDTH = Decimal("0.01")
_OPEN, _CLOSE = time(9, 30), time(16, 0)


class BidAsk(msgspec.Struct, frozen=True):
    """The best bid and offer at the moment of a fill."""

    bid: Decimal
    ask: Decimal

    @property
    def usable(self) -> bool:
        """Neither empty nor crossed."""
        return 0 < self.bid <= self.ask

    @property
    def mid(self) -> Decimal:
        """The midpoint."""
        return (self.bid + self.ask) / 2


class ExecutionQuality(msgspec.Struct, frozen=True):
    """The mark of a fill. Prices are per unit; a positive improvement is in the trader's favour."""

    trade_exec_id: str
    score: Decimal | None
    grade: Letter
    nbbo_available: bool
    benchmark: Literal["nbbo", "midpoint", "bar"] | None
    benchmark_price: Decimal | None
    fill_price: Decimal
    price_improvement: Decimal | None
    slippage_bps: Decimal | None
    effective_spread: Decimal | None
    vs_midpoint: Decimal | None
    confidence: Literal["high", "low"] | None
    reason: str | None
    warnings: tuple[str, ...] = ()


def grade_of(score: Decimal) -> Letter:
    """The letter of a score between 0 and 100."""
    return next((letter for least, letter in _BANDS if score >= least), "F")


def in_regular_hours(moment: datetime, asset_class: AssetClass) -> bool:
    """Whether US shares and their options trade then (weekday, 9:30 to 16:00 in New York); other markets always do."""
    if asset_class not in ("EQUITY", "OPTION"):
        return True
    local = moment.astimezone(ZoneInfo("America/New_York"))
    return local.weekday() < 5 and _OPEN <= local.time() <= _CLOSE


@exactly
def score_execution(
    fills: Sequence[Execution], asset_class: AssetClass, *, quote: BidAsk | None = None, bar: Bar | None = None
) -> ExecutionQuality:
    """The mark of one order: its fills at their average price against the quote, or the bar, at the first of them."""
    if not fills or len({(fill.side, fill.symbol, fill.account_id) for fill in fills}) > 1:
        raise ValueError("the fills of one order are needed: at least one, all of one account, symbol and side")
    first = min(fills, key=lambda fill: fill.key)
    quantity = sum((fill.quantity for fill in fills), ZERO)
    paid = sum((fill.price * fill.quantity for fill in fills), ZERO) / quantity
    good_quote = quote if quote is not None and quote.usable else None
    warnings = ("unusable_quote",) if quote is not None and good_quote is None else ()
    if paid == 0:
        return _without_score(first.exec_id, paid, "zero_price", good_quote, warnings)
    if not in_regular_hours(first.time, asset_class):
        return _without_score(first.exec_id, paid, "outside_regular_hours", good_quote, warnings)
    if good_quote is not None:
        return _against_quote(first, paid, asset_class, good_quote)
    if bar is not None:
        typical = bar.vwap if bar.vwap is not None else (bar.high + bar.low) / 2
        return _score(first, paid, typical, "bar", warnings=warnings)
    return _without_score(first.exec_id, paid, "no_benchmark", None, warnings)


def _against_quote(first: Execution, paid: Decimal, asset_class: AssetClass, quote: BidAsk) -> ExecutionQuality:
    if asset_class == "OPTION":
        return _score(first, paid, quote.mid, "midpoint", quote=quote)
    return _score(first, paid, quote.ask if first.side == 1 else quote.bid, "nbbo", quote=quote)


def _score(
    first: Execution,
    paid: Decimal,
    against: Decimal,
    benchmark: Literal["nbbo", "midpoint", "bar"],
    *,
    quote: BidAsk | None = None,
    warnings: tuple[str, ...] = (),
) -> ExecutionQuality:
    improvement = first.side * (against - paid)
    slippage = -improvement / paid * 10_000
    score = min(Decimal(100), max(ZERO, 100 - 10 * max(ZERO, slippage)))
    return ExecutionQuality(
        trade_exec_id=first.exec_id,
        score=round_to(score, _HUNDREDTH),
        grade=grade_of(score),
        nbbo_available=quote is not None,
        benchmark=benchmark,
        benchmark_price=price(against),
        fill_price=price(paid),
        price_improvement=price(improvement),
        slippage_bps=round_to(slippage, _HUNDREDTH),
        effective_spread=None if quote is None else price(2 * abs(paid - quote.mid)),
        vs_midpoint=None if quote is None else price(first.side * (quote.mid - paid)),
        confidence="low" if quote is None else "high",
        reason=None,
        warnings=warnings,
    )


def _without_score(
    exec_id: str, paid: Decimal, reason: str, quote: BidAsk | None, warnings: tuple[str, ...]
) -> ExecutionQuality:
    return ExecutionQuality(
        trade_exec_id=exec_id,
        score=None,
        grade="N/A",
        nbbo_available=quote is not None,
        benchmark=None,
        benchmark_price=None,
        fill_price=price(paid),
        price_improvement=None,
        slippage_bps=None,
        effective_spread=None,
        vs_midpoint=None,
        confidence=None,
        reason=reason,
        warnings=warnings,
    )
