"""The rules of a trade review: each looks at one fact of a round trip and marks it, or says which fact it lacks."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.analytics.positions import Sign
from zorivest_rpc.embedded.values.money import cents, divide

__all__ = ["ADVICE", "Gap", "Mark", "PlanFacts", "ReviewFacts"]


class PlanFacts(msgspec.Struct, frozen=True):
    """The linked plan; a stop of None or zero is no stop."""

    entry: Decimal
    stop: Decimal | None = None
    target: Decimal | None = None


class ReviewFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a round trip; everything that may be missing may be left out.

    `one_r` is money (planned risk, else the average loss), `closes` the daily closes before the entry, oldest first,
    `previous_results` the results closed before the entry, oldest first; the usual figures are medians of the past.
    `unrated_balance` and `unrated_risk` say which exchange rate keeps a recorded amount from being compared; unset they
    are no part of what a review's id is made from."""

    trade_exec_id: str
    round_trip_id: str
    direction: Sign
    entry_price: Decimal
    quantity: Decimal
    multiplier: Decimal = Decimal(1)
    opened_at: datetime
    closed_at: datetime | None = None
    pnl: Decimal | None = None
    account_balance: Decimal | None = None
    plan: PlanFacts | None = None
    one_r: Decimal | None = None
    mae_dollars: Decimal | None = None
    capture_ratio: Decimal | None = None
    closes: tuple[Decimal, ...] = ()
    usual_holding_seconds: int | None = None
    mistakes: tuple[str, ...] = ()
    followed_plan: bool | None = None
    emotional_state: str | None = None
    previous_results: tuple[Decimal, ...] = ()
    same_day_trades: int = 1
    usual_day_trades: Decimal | None = None
    unrated_balance: str | msgspec.UnsetType = msgspec.UNSET
    unrated_risk: str | msgspec.UnsetType = msgspec.UNSET


class Mark(msgspec.Struct, frozen=True):
    """A fact with its mark from 0 (alarming) to 100 (exemplary)."""

    code: str
    mark: int
    evidence: str


class Gap(msgspec.Struct, frozen=True):
    """A fact that is missing, and what would supply it."""

    missing: str


NO_BALANCE = "account balance: none is recorded"
NO_RESULT = "result: the round trip is not closed"
NO_R = "risk unit: no linked plan with a stop and no past loss"
NO_EXCURSION = "excursion: run enrich_trade_excursion once price bars are stored"
NO_REPORT = "trade report: write one with create_report"
NO_HISTORY = "history: no earlier round trips to compare with"

ADVICE = {
    "position_size": "Size the next trade with calculate_position_size at 1 % risk or less.",
    "stop_present": "Write a plan with a stop before entering (create_trade_plan).",
    "loss_in_r": "Leave at the planned stop; a loss beyond 1R undoes the sizing.",
    "heat": "Look for entries that go less far against you, or give the stop room and trade smaller.",
    "trend_20_day": "Have a written reason for trading against the 20-day mean.",
    "trend_50_day": "Have a written reason for trading against the 50-day mean.",
    "holding_time": "Hold winners as long as the plan says and losers no longer than it says.",
    "capture": "Plan the exit: a trailing stop or scaling out keeps more of the best move.",
    "mistakes_tagged": "Pick the one mistake that costs most (get_mistake_summary) and set a rule against it.",
    "plan_adherence": "Trade the plan or change it beforehand, not during the trade.",
    "emotional_state": "Stand aside, or halve the size, when not calm.",
    "streak": "After three results of one kind in a row go back to the usual size and setup.",
    "crowding": "Set a daily limit of trades and stop there.",
}

_CALM = frozenset({"calm", "confident", "neutral"})


def _grade(value: Decimal, bands: tuple[tuple[str, int], ...], beyond: int) -> int:
    """The mark of the first band whose upper end the value does not exceed."""
    return next((mark for upper, mark in bands if value <= Decimal(upper)), beyond)


# Risk Manager


def size(facts: ReviewFacts) -> Mark | Gap:
    """The planned risk against the account, or without a stop the whole position against it."""
    balance = facts.account_balance
    if facts.unrated_balance:
        return Gap(f"account balance: {facts.unrated_balance}")
    if balance is None or balance <= 0:
        return Gap(NO_BALANCE)
    units = facts.quantity * facts.multiplier
    plan = facts.plan
    if plan is not None and plan.stop:
        risked = abs(plan.entry - plan.stop) * units / balance * 100
        mark = _grade(risked, (("1", 100), ("2", 80), ("3", 60), ("5", 30)), 0)
        return Mark("position_size", mark, f"{cents(risked)} % of the account at risk to the planned stop")
    share = facts.entry_price * units / balance * 100
    mark = _grade(share, (("25", 90), ("50", 75), ("100", 50)), 10)
    return Mark("position_size", mark, f"the position was {cents(share)} % of the account")


def _lack_of_risk_unit(facts: ReviewFacts) -> Gap:
    return Gap(f"risk unit: {facts.unrated_risk}" if facts.unrated_risk else NO_R)


def stop(facts: ReviewFacts) -> Mark | Gap:
    """Whether a plan named a stop."""
    if facts.plan is None:
        return Mark("stop_present", 30, "no plan is linked, so no stop is on record")
    if not facts.plan.stop:
        return Mark("stop_present", 0, "the linked plan names no stop")
    return Mark("stop_present", 100, f"the linked plan has a stop at {facts.plan.stop}")


def loss_in_r(facts: ReviewFacts) -> Mark | Gap:
    """The result in units of risk: a loss of up to 1R is part of the game, more is not."""
    if facts.pnl is None:
        return Gap(NO_RESULT)
    result = divide(facts.pnl, facts.one_r or 0)
    if result is None:
        return _lack_of_risk_unit(facts)
    mark = _grade(-result, (("0", 100), ("1.05", 70), ("1.5", 35)), 0)
    return Mark("loss_in_r", mark, f"result {cents(result)}R")


def heat(facts: ReviewFacts) -> Mark | Gap:
    """How far it went against the trade, in units of risk."""
    if facts.mae_dollars is None:
        return Gap(NO_EXCURSION)
    against = divide(facts.mae_dollars, facts.one_r or 0)
    if against is None:
        return _lack_of_risk_unit(facts)
    mark = _grade(against, (("0.5", 100), ("1", 75), ("1.5", 35)), 5)
    return Mark("heat", mark, f"the price went {cents(against)}R against it")


# Trend Analyst


def short_trend(facts: ReviewFacts) -> Mark | Gap:
    """The entry against the mean of 20 days."""
    return _trend(facts, 20)


def long_trend(facts: ReviewFacts) -> Mark | Gap:
    """The entry against the mean of 50 days."""
    return _trend(facts, 50)


def _trend(facts: ReviewFacts, days: int) -> Mark | Gap:
    if len(facts.closes) < days:
        return Gap(f"daily bars: {days} closes before the entry are needed, {len(facts.closes)} are stored")
    mean = sum(facts.closes[-days:], Decimal(0)) / days
    distance = facts.direction * (facts.entry_price - mean)
    where = "above" if facts.entry_price > mean else "below" if facts.entry_price < mean else "at"
    side = "long" if facts.direction == 1 else "short"
    return Mark(
        f"trend_{days}_day", 90 if distance > 0 else 35, f"{side} entry {where} the {days}-day mean of {cents(mean)}"
    )


def holding_time(facts: ReviewFacts) -> Mark | Gap:
    """A loser held long, or a winner held short, against the usual holding time."""
    if facts.closed_at is None or facts.pnl is None:
        return Gap(NO_RESULT)
    if not facts.usual_holding_seconds:
        return Gap(NO_HISTORY)
    held = Decimal(int((facts.closed_at - facts.opened_at).total_seconds())) / facts.usual_holding_seconds
    evidence = f"{'a loser' if facts.pnl < 0 else 'a winner'} held {cents(held)} times the usual time"
    if facts.pnl < 0:
        return Mark("holding_time", 20 if held > 2 else 60 if held > 1 else 90, evidence)
    return Mark("holding_time", 90 if held >= 1 else 70 if held >= Decimal("0.5") else 45, evidence)


def capture(facts: ReviewFacts) -> Mark | Gap:
    """How much of the best move the exit kept."""
    if facts.pnl is None:
        return Gap(NO_RESULT)
    if facts.capture_ratio is None:
        return Gap(NO_EXCURSION)
    mark = _grade(-facts.capture_ratio, (("-0.6", 100), ("-0.3", 65), ("0", 35)), 10)
    return Mark("capture", mark, f"kept {cents(facts.capture_ratio * 100)} % of the best gain")


# Contrarian


def mistakes(facts: ReviewFacts) -> Mark | Gap:
    """What was tagged; nothing tagged is no proof."""
    if not facts.mistakes:
        return Mark("mistakes_tagged", 80, "no mistake is tagged, which does not prove there was none")
    named = ", ".join(facts.mistakes)
    return Mark("mistakes_tagged", 40 if len(facts.mistakes) == 1 else 10, f"tagged: {named}")


def adherence(facts: ReviewFacts) -> Mark | Gap:
    """Whether the report says that the plan was followed."""
    if facts.followed_plan is None:
        return Gap(NO_REPORT)
    if facts.followed_plan:
        return Mark("plan_adherence", 100, "the report says the plan was followed")
    return Mark("plan_adherence", 10, "the report says the plan was not followed")


def mood(facts: ReviewFacts) -> Mark | Gap:
    """The emotional state of the report."""
    if not facts.emotional_state:
        return Gap(NO_REPORT)
    state = facts.emotional_state.strip().lower()
    return Mark("emotional_state", 90 if state in _CALM else 40, f"the report says {state}")


def streak(facts: ReviewFacts) -> Mark | Gap:
    """The run of results just before the entry."""
    if not facts.previous_results:
        return Gap(NO_HISTORY)
    last = facts.previous_results[-1]
    run = 0
    for result in reversed(facts.previous_results):
        if result * last <= 0:
            break
        run += 1
    kind = "losses" if last < 0 else "wins"
    if run < 3:
        return Mark("streak", 90, "no streak before the entry")
    return Mark("streak", 40 if last < 0 else 60, f"entered after {run} {kind} in a row")


def crowding(facts: ReviewFacts) -> Mark | Gap:
    """How many trades that day had, against the usual."""
    usual = facts.usual_day_trades
    if not usual:
        return Gap(NO_HISTORY)
    busy = facts.same_day_trades / usual
    evidence = f"{facts.same_day_trades} round trips that day, usually {usual.normalize():f}"
    return Mark("crowding", 20 if busy > 2 else 65 if busy > 1 else 90, evidence)
