"""The calculator, against vectors worked out by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.analytics.position_size import position_size, problems_of
from zorivest_rpc.embedded.values.answers import to_json

D = Decimal


def test_a_tight_stop_makes_a_large_position() -> None:
    # 1R = 4379.0303; 1.00 a share: 4379 shares; 619.61*4379 = 2713272.19, up to 2713273
    # 2713273/437903.03 = 619.605...%; reward 1.00 a share
    found = position_size(D("437903.03"), D("619.61"), D("618.61"), D("620.61"))
    assert (found.account_risk_1r, found.share_size, found.position_size) == (D("4379.03"), 4379, D(2713273))
    assert (found.position_to_account_pct, found.reward_risk_ratio) == (D("619.60"), D("1.00"))
    assert found.potential_profit == D(4379)
    assert found.position_value == D("2713272.19")
    assert found.warnings == ("the position is larger than the balance",)


def test_twenty_shares_risk_one_percent_of_ten_thousand() -> None:
    shown = to_json(position_size(D(10000), D(100), D(95), D(110)))
    assert shown == {
        "risk_per_share": 5,
        "account_risk_1r": 100,
        "share_size": 20,
        "position_size": 2000,
        "position_value": 2000,
        "reward_risk_ratio": 2,
        "potential_profit": 200,
        "position_to_account_pct": 20,
        "shares": 20,
        "risk_amount": 100,
        "warnings": [],
    }


def test_a_half_percent_of_fifty_thousand_is_125_shares_at_three_to_one() -> None:
    found = position_size(D(50000), D(40), D(38), D(46), D("0.5"))
    assert (found.shares, found.reward_risk_ratio) == (125, D(3))


def test_a_short_is_sized_by_the_distance_alone() -> None:
    # stop above the entry: 2 a share, target 6 below: three to one
    found = position_size(D(10000), D(50), D(52), D(44))
    assert (found.share_size, found.reward_risk_ratio, found.potential_profit) == (50, D(3), D(300))


def test_ratios_are_cut_not_rounded() -> None:
    # 2/3 = 0.666...
    assert position_size(D(10000), D(100), D(97), D(102)).reward_risk_ratio == D("0.66")


@pytest.mark.parametrize(
    ("entry", "stop"), [(D(0), D(95)), (D(100), D(0)), (D(-1), D(5)), (D(100), D(100))]
)  # fmt: skip
def test_what_cannot_be_sized_gives_zeros_and_a_problem(entry: Decimal, stop: Decimal) -> None:
    found = position_size(D(10000), entry, stop, D(110))
    assert (found.share_size, found.position_size, found.potential_profit) == (0, D(0), D(0))
    assert problems_of(D(10000), D(1), entry, stop, D(110)).keys() & {"entry", "stop"}


def test_a_sound_request_has_no_problem() -> None:
    assert problems_of(D(10000), D(1), D(100), D(95), D(110)) == {}
    assert problems_of(D(10000), D("0.01"), D(100), D(95), D(110)) == {}
    assert problems_of(D(10000), D(0), D(100), D(95), D(110)) == {"risk_pct": ["must be above 0"]}


@pytest.mark.parametrize(
    ("entry", "stop", "target", "words"),
    [
        (D(100), D(95), D("99.99"), "99.99 is below the entry 100, on the side of the stop 95"),
        (D(100), D(95), D(90), "makes the trade long, so its target must be above the entry"),
        (D(50), D(52), D("50.01"), "50.01 is above the entry 50, on the side of the stop 52"),
        (D(50), D(52), D(60), "makes the trade short, so its target must be below the entry"),
    ],
)
def test_a_target_on_the_side_of_the_stop_is_a_problem(
    entry: Decimal, stop: Decimal, target: Decimal, words: str
) -> None:
    problems = problems_of(D(10000), D(1), entry, stop, target)
    assert problems.keys() == {"target"}
    assert words in problems["target"][0]


@pytest.mark.parametrize(("entry", "stop"), [(D(100), D(95)), (D(50), D(52))])
def test_a_target_at_the_entry_is_only_warned_about(entry: Decimal, stop: Decimal) -> None:
    assert problems_of(D(10000), D(1), entry, stop, entry) == {}
    assert "the target earns less than the stop risks" in position_size(D(10000), entry, stop, entry).warnings


def test_a_fraction_where_per_cent_is_meant_names_both_readings() -> None:
    # 0.005 % of 10000 is 0.50; the fraction 0.005 is 0.5 %, 50.00
    (problem,) = problems_of(D(10000), D("0.005"), D(100), D(95), D(110))["risk_pct"]
    assert "0.005 % of the balance, 0.50" in problem
    assert "0.5 %, 50.00: give risk_pct 0.5" in problem
    (larger,) = problems_of(D(1_000_000), D("0.005"), D(100), D(95), D(110))["risk_pct"]
    assert "0.005 % of the balance, 50.00" in larger
    assert problems_of(D(10000), D("0.0099"), D(100), D(95), D(110)).keys() == {"risk_pct"}
    assert problems_of(D(10000), D("0.01"), D(100), D(95), D(110)) == {}


def test_what_the_shares_cost_is_told_to_the_cent() -> None:
    # 1 % of 1000 over 0.07 a share: 142 shares at 0.35 are 49.70, 50 in whole units
    found = position_size(D(1000), D("0.35"), D("0.28"), D("0.49"))
    assert (found.share_size, found.position_size, found.position_value) == (142, D(50), D("49.70"))


def test_a_risk_beyond_reason_falls_back_to_one_percent() -> None:
    found = position_size(D(10000), D(100), D(95), D(110), D(150))
    assert found.share_size == 20
    assert "risk_pct is outside 0.01 to 100; 1 is used" in found.warnings


def test_the_limits_of_a_risk_are_allowed_themselves() -> None:
    for risk, allowed in ((D("0.01"), D(1)), (D(100), D(10000))):
        found = position_size(D(10000), D(100), D(95), D(110), risk)
        assert (found.risk_amount, [text for text in found.warnings if "risk_pct" in text]) == (allowed, [])
    for risk in (D("0.0099"), D("100.01")):
        assert position_size(D(10000), D(100), D(95), D(110), risk).risk_amount == 100


def test_a_warning_begins_just_above_its_limit() -> None:
    risky, large = "more than 3 % is risked on one trade", "the position is larger than the balance"
    assert risky not in position_size(D(10000), D(100), D(95), D(110), D(3)).warnings
    assert risky in position_size(D(10000), D(100), D(95), D(110), D("3.01")).warnings
    # 1 % of 10000 over 1.00 a share: 100 shares, at 100.01 they cost 10001, 100.01 % of the balance
    assert large in position_size(D(10000), D("100.01"), D("99.01"), D(110)).warnings


def test_warnings_name_what_is_unwise() -> None:
    found = position_size(D(10000), D(100), D(95), D(104), D(5))
    assert "more than 3 % is risked on one trade" in found.warnings
    assert "the target earns less than the stop risks" in found.warnings
    assert position_size(D(0), D(100), D(95), D(110)).warnings == ("the balance is not above 0",)
    assert position_size(D(-5), D(100), D(95), D(110)).share_size == 0


def test_a_position_as_large_as_the_balance_is_no_warning() -> None:
    # 1 % of 10000 over 1.00 a share: 100 shares at 100 make exactly 10000
    found = position_size(D(10000), D(100), D(99), D(102))
    assert (found.position_to_account_pct, found.warnings) == (D(100), ())


cents_above = st.integers(1, 10_000_000).map(lambda n: D(n).scaleb(-2))


@settings(deadline=None, max_examples=100)
@given(cents_above, cents_above, cents_above, cents_above, st.integers(1, 10_000).map(lambda n: D(n).scaleb(-2)))
def test_the_stop_never_costs_more_than_the_risk_and_one_more_share_would(
    balance: Decimal, entry: Decimal, stop: Decimal, target: Decimal, risk_pct: Decimal
) -> None:
    found = position_size(balance, entry, stop, target, risk_pct)
    allowed = balance * risk_pct / 100
    distance = abs(entry - stop)
    if distance:
        assert found.share_size * distance <= allowed < (found.share_size + 1) * distance
