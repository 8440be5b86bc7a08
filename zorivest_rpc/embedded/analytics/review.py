"""A trade judged by rules: three personas mark the facts at hand, and what is not known is listed, not guessed.

Each rule gives a mark from 0 to 100 or names the fact it lacks. A persona's score is the mean of its marks; a persona
without any fact gives no score. The rules cost nothing and need no network, so any budget allows them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from zorivest_rpc.embedded.analytics import review_rules as rules
from zorivest_rpc.embedded.analytics.review_rules import Gap, Mark, ReviewFacts

__all__ = [
    "Consensus",
    "Finding",
    "PersonaReview",
    "Review",
    "ReviewType",
    "review_trade",
    "review_week",
    "week_before",
]

ReviewType = Literal["single", "weekly"]
Severity = Literal["good", "info", "warning", "critical"]
Verdict = Literal["sound", "acceptable", "questionable", "poor", "no data"]


Rule = Callable[[ReviewFacts], Mark | Gap]
PERSONAS: dict[str, tuple[Rule, ...]] = {
    "Risk Manager": (rules.size, rules.stop, rules.loss_in_r, rules.heat),
    "Trend Analyst": (rules.short_trend, rules.long_trend, rules.holding_time, rules.capture),
    "Contrarian": (rules.mistakes, rules.adherence, rules.mood, rules.streak, rules.crowding),
}


class Finding(msgspec.Struct, frozen=True):
    """One fact and how it looks."""

    code: str
    severity: Severity
    evidence: str


class PersonaReview(msgspec.Struct, frozen=True):
    """One persona's view; the score is null if it had nothing to go by."""

    persona: str
    score: int | None
    verdict: Verdict
    findings: tuple[Finding, ...]
    recommendation: str


class Consensus(msgspec.Struct, frozen=True):
    """The three together."""

    score: int | None
    summary: str
    actions: tuple[str, ...]


class Review(msgspec.Struct, frozen=True):
    """The answer; the same facts give the same review and the same id."""

    review_id: str
    trade_exec_id: str
    review_type: ReviewType
    engine: Literal["rules"]
    round_trips_reviewed: int
    personas: tuple[PersonaReview, ...]
    consensus: Consensus
    spend_cents: Decimal
    budget_cap_cents: Decimal | None
    data_gaps: tuple[str, ...]


def week_before(moment: datetime) -> tuple[datetime, datetime]:
    """The seven days that a weekly review of a trade at `moment` covers, its own moment included."""
    return moment - timedelta(days=7), moment


def review_trade(facts: ReviewFacts, budget_cap_cents: Decimal | None = None) -> Review:
    """One round trip, by its rules."""
    return _review([facts], facts.trade_exec_id, "single", budget_cap_cents)


def review_week(trips: Sequence[ReviewFacts], trade_exec_id: str, budget_cap_cents: Decimal | None = None) -> Review:
    """All round trips of the week before a trade; each rule's mark is its mean over those that have the fact."""
    return _review(trips, trade_exec_id, "weekly", budget_cap_cents)


class _View(NamedTuple):
    review: PersonaReview
    marks: list[Mark]
    gaps: list[str]


def _review(trips: Sequence[ReviewFacts], trade_exec_id: str, review_type: ReviewType, cap: Decimal | None) -> Review:
    views = [_persona(persona, own, trips) for persona, own in PERSONAS.items()]
    gaps = tuple(dict.fromkeys(gap for view in views for gap in view.gaps))
    digest = hashlib.sha256(msgspec.json.encode([trade_exec_id, review_type, list(trips)])).hexdigest()
    return Review(
        review_id=f"rev-{digest[:16]}",
        trade_exec_id=trade_exec_id,
        review_type=review_type,
        engine="rules",
        round_trips_reviewed=len(trips),
        personas=tuple(view.review for view in views),
        consensus=_consensus(views, len(gaps)),
        spend_cents=Decimal(0),
        budget_cap_cents=cap,
        data_gaps=gaps,
    )


def _persona(persona: str, own: Sequence[Rule], trips: Sequence[ReviewFacts]) -> _View:
    marks: list[Mark] = []
    gaps: list[str] = []
    for rule in own:
        judged = [(trip, rule(trip)) for trip in trips]
        known = [(trip, mark) for trip, mark in judged if isinstance(mark, Mark)]
        gaps += [gap.missing for _, gap in judged if isinstance(gap, Gap)]
        if known:
            marks.append(_together(known))
    score = round(sum(mark.mark for mark in marks) / len(marks)) if marks else None
    findings = tuple(Finding(mark.code, _severity(mark.mark), mark.evidence) for mark in marks)
    worst = min(marks, key=lambda mark: mark.mark, default=None)
    if worst is None:
        advice = "Nothing to judge by; the data gaps name what is missing."
    elif worst.mark >= 80:
        advice = "Keep doing this."
    else:
        advice = rules.ADVICE[worst.code]
    return _View(PersonaReview(persona, score, _verdict(score), findings, advice), marks, gaps)


def _together(known: Sequence[tuple[ReviewFacts, Mark]]) -> Mark:
    """The mark of one rule over several round trips: their mean, with the worst as evidence."""
    trip, worst = min(known, key=lambda pair: pair[1].mark)
    if len(known) == 1:
        return worst
    mean = round(sum(mark.mark for _, mark in known) / len(known))
    return Mark(worst.code, mean, f"over {len(known)} round trips; worst in {trip.round_trip_id}: {worst.evidence}")


def _consensus(views: Sequence[_View], gaps: int) -> Consensus:
    scores = [view.review.score for view in views if view.review.score is not None]
    score = round(sum(scores) / len(scores)) if scores else None
    troubles = sorted((mark for view in views for mark in view.marks if mark.mark < 50), key=lambda mark: mark.mark)
    actions = tuple(dict.fromkeys(rules.ADVICE[mark.code] for mark in troubles))[:5]
    if score is None:
        summary = "No facts to judge by."
    else:
        troubled = f"{len(troubles)} thing{'s' * (len(troubles) != 1)} to work on" if troubles else "nothing alarming"
        missing = f"; {gaps} fact{'s' * (gaps != 1)} missing" if gaps else ""
        summary = f"{_verdict(score).capitalize()} ({score} of 100): {troubled}{missing}."
    return Consensus(score, summary, actions)


def _verdict(score: int | None) -> Verdict:
    if score is None:
        return "no data"
    if score >= 80:
        return "sound"
    if score >= 60:
        return "acceptable"
    return "questionable" if score >= 40 else "poor"


def _severity(mark: int) -> Severity:
    if mark >= 80:
        return "good"
    if mark >= 50:
        return "info"
    return "warning" if mark >= 25 else "critical"
