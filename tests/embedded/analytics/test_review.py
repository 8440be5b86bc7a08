"""The rule-based review: three personas, honest about what they do not know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from zorivest_rpc.embedded.analytics.review import PERSONAS, Review, review_trade, review_week, week_before
from zorivest_rpc.embedded.analytics.review_rules import ADVICE, Mark, PlanFacts, ReviewFacts
from zorivest_rpc.embedded.values.answers import to_json

D = Decimal
OPENED = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)

BARE: dict[str, Any] = {
    "trade_exec_id": "E1",
    "round_trip_id": "rt-E1",
    "direction": 1,
    "entry_price": D(100),
    "quantity": D(50),
    "opened_at": OPENED,
}
GOOD: dict[str, Any] = {
    **BARE,
    "closed_at": OPENED + timedelta(hours=2),
    "pnl": D(200),
    "account_balance": D(20_000),
    "plan": PlanFacts(D(100), D(98), D(106)),
    "one_r": D(100),
    "mae_dollars": D(40),
    "capture_ratio": D("0.7"),
    "closes": tuple(D(90) for _ in range(50)),
    "usual_holding_seconds": 3600,
    "followed_plan": True,
    "emotional_state": "Calm",
    "previous_results": (D(10), D(-10)),
    "usual_day_trades": D(2),
}


def facts(**changed: Any) -> ReviewFacts:
    return ReviewFacts(**{**GOOD, **changed})


def marks(review: Review) -> dict[str, str]:
    return {finding.code: finding.severity for persona in review.personas for finding in persona.findings}


def test_a_clean_trade_is_sound_to_all_three() -> None:
    # risk: 50*2/20000 = 0.5 % -> 100; stop 100; +2R -> 100; heat 0.4R -> 100
    # trend: 90, 90; twice the usual time, a winner -> 90; capture 0.7 -> 100: 92.5
    # contrarian: 80, 100, 90, 90, 90: 90
    review = review_trade(facts())
    assert [(item.persona, item.score, item.verdict) for item in review.personas] == [
        ("Risk Manager", 100, "sound"), ("Trend Analyst", 92, "sound"), ("Contrarian", 90, "sound"),
    ]  # fmt: skip
    assert (review.consensus.score, review.consensus.actions, review.data_gaps) == (94, (), ())
    assert review.consensus.summary == "Sound (94 of 100): nothing alarming."
    assert (review.engine, review.spend_cents) == ("rules", D(0))


def test_a_reckless_trade_is_told_what_to_change() -> None:
    # 50*20/20000 = 5 % risked; -3R; heat 3R; against both means; a loser held 2.5 times the usual time
    review = review_trade(
        facts(
            plan=PlanFacts(D(100), D(80), D(106)),
            pnl=D(-300),
            mae_dollars=D(300),
            capture_ratio=D("-1.5"),
            closed_at=OPENED + timedelta(hours=2, minutes=30),
            closes=tuple(D(120) for _ in range(50)),
            mistakes=("oversized", "chasing"),
            followed_plan=False,
            emotional_state="frustrated",
            previous_results=(D(5), D(-1), D(-2), D(-3)),
            same_day_trades=5,
        )
    )
    assert [item.verdict for item in review.personas] == ["poor", "poor", "poor"]
    assert marks(review) == {
        "position_size": "warning",
        "stop_present": "good",
        "loss_in_r": "critical",
        "heat": "critical",
        "trend_20_day": "warning",
        "trend_50_day": "warning",
        "holding_time": "critical",
        "capture": "critical",
        "mistakes_tagged": "critical",
        "plan_adherence": "critical",
        "emotional_state": "warning",
        "streak": "warning",
        "crowding": "critical",
    }
    assert review.consensus.actions[0] == ADVICE["loss_in_r"]
    assert len(review.consensus.actions) == 5
    assert review.personas[0].recommendation == ADVICE["loss_in_r"]


def test_what_is_missing_is_listed_and_not_guessed() -> None:
    review = review_trade(ReviewFacts(**BARE))
    risk, trend, contrarian = review.personas
    assert [finding.code for finding in risk.findings] == ["stop_present"]
    assert (trend.score, trend.verdict, trend.findings) == (None, "no data", ())
    assert [finding.code for finding in contrarian.findings] == ["mistakes_tagged"]
    assert review.data_gaps == (
        "account balance: none is recorded",
        "result: the round trip is not closed",
        "excursion: run enrich_trade_excursion once price bars are stored",
        "daily bars: 20 closes before the entry are needed, 0 are stored",
        "daily bars: 50 closes before the entry are needed, 0 are stored",
        "trade report: write one with create_report",
        "history: no earlier round trips to compare with",
    )


def test_the_result_without_a_risk_unit_is_a_gap() -> None:
    review = review_trade(facts(one_r=None))
    assert review.data_gaps == ("risk unit: no linked plan with a stop and no past loss",)
    assert "loss_in_r" not in marks(review)


@pytest.mark.parametrize(
    ("changed", "code", "mark"),
    [
        ({"plan": None}, "stop_present", 30),
        ({"plan": PlanFacts(D(100))}, "stop_present", 0),
        ({"plan": None, "account_balance": D(4000)}, "position_size", 10),  # 5000 of 4000
        ({"plan": None}, "position_size", 90),  # 5000 of 20000
        ({"pnl": D(-100)}, "loss_in_r", 70),
        ({"pnl": D(-120)}, "loss_in_r", 35),
        ({"direction": -1}, "trend_20_day", 35),
        ({"direction": -1, "entry_price": D(80)}, "trend_50_day", 90),
        ({"closed_at": OPENED + timedelta(minutes=20)}, "holding_time", 45),
        ({"pnl": D(-10), "closed_at": OPENED + timedelta(minutes=20)}, "holding_time", 90),
        ({"capture_ratio": D("0.3")}, "capture", 65),
        ({"capture_ratio": D("0.29")}, "capture", 35),
        ({"mistakes": ("chasing",)}, "mistakes_tagged", 40),
        ({"previous_results": (D(1), D(2), D(3))}, "streak", 60),
        ({"previous_results": (D(5), D(7), D(-1), D(-2), D(-3))}, "streak", 40),
        ({"followed_plan": True}, "plan_adherence", 100),
        ({"pnl": D(-10), "closed_at": OPENED + timedelta(hours=1)}, "holding_time", 90),
        ({"pnl": D(-10), "closed_at": OPENED + timedelta(hours=2)}, "holding_time", 60),
        ({"pnl": D(-10), "closed_at": OPENED + timedelta(hours=3)}, "holding_time", 20),
        ({"pnl": D(0), "closed_at": OPENED + timedelta(hours=3)}, "holding_time", 90),
        ({"previous_results": (D(-1), D(0), D(-2), D(-3))}, "streak", 90),
        ({"same_day_trades": 3}, "crowding", 65),
        ({"same_day_trades": 5}, "crowding", 20),
    ],
)
def test_each_rule_marks_its_fact(changed: dict[str, Any], code: str, mark: int) -> None:
    judged = [rule(facts(**changed)) for rules in PERSONAS.values() for rule in rules]
    assert [item.mark for item in judged if isinstance(item, Mark) and item.code == code] == [mark]


@pytest.mark.parametrize(
    ("changed", "score", "verdict"),
    [
        ({}, 80, "sound"),  # nothing tagged, nothing else known
        ({"emotional_state": "greedy"}, 60, "acceptable"),  # (80 + 40)/2
        ({"mistakes": ("chasing",)}, 40, "questionable"),
        ({"mistakes": ("chasing", "oversized")}, 10, "poor"),
    ],
)
def test_a_score_is_put_into_words(changed: dict[str, Any], score: int, verdict: str) -> None:
    contrarian = review_trade(ReviewFacts(**BARE, **changed)).personas[2]
    assert (contrarian.score, contrarian.verdict) == (score, verdict)
    assert (contrarian.recommendation == "Keep doing this.") is (verdict == "sound")


def test_a_mark_is_given_a_severity() -> None:
    # 5000 of 5000 is all of the account: 50; a plan risking 5 %: 30
    whole = review_trade(facts(plan=None, account_balance=D(5000)))
    assert (marks(whole)["position_size"], marks(whole)["mistakes_tagged"]) == ("info", "good")
    assert marks(review_trade(facts(account_balance=D(2000))))["position_size"] == "warning"


def test_an_empty_account_is_no_measure_of_size() -> None:
    assert review_trade(facts(account_balance=D(0))).data_gaps == ("account balance: none is recorded",)


def test_every_finding_has_advice() -> None:
    judged = [rule(facts()) for rules in PERSONAS.values() for rule in rules]
    assert {item.code for item in judged if isinstance(item, Mark)} == set(ADVICE)


def test_the_same_facts_give_the_same_review() -> None:
    assert review_trade(facts()) == review_trade(facts())
    assert review_trade(facts()).review_id != review_trade(facts(pnl=D(201))).review_id
    assert review_trade(facts()).review_id != review_week([facts()], "E1").review_id


def test_a_week_is_the_mean_of_its_round_trips() -> None:
    # the losses in R: +2R -> 100, -1.2R -> 35: 67.5, to the even 68
    week = [facts(), facts(round_trip_id="rt-E5", trade_exec_id="E5", pnl=D(-120))]
    review = review_week(week, "E5", D(0))
    (finding,) = [item for item in review.personas[0].findings if item.code == "loss_in_r"]
    assert finding.severity == "info"
    assert finding.evidence == "over 2 round trips; worst in rt-E5: result -1.20R"
    assert (review.review_type, review.round_trips_reviewed, review.trade_exec_id) == ("weekly", 2, "E5")
    assert review.budget_cap_cents == D(0)


def test_an_empty_week_has_no_opinion() -> None:
    shown = to_json(review_week([], "E1"))
    assert shown["consensus"] == {"score": None, "summary": "No facts to judge by.", "actions": []}
    assert [persona["verdict"] for persona in shown["personas"]] == ["no data"] * 3


def test_a_week_ends_with_the_trade() -> None:
    assert week_before(OPENED) == (OPENED - timedelta(days=7), OPENED)
