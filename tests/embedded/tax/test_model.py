"""The vocabulary of taxes: every name in every spelling, and what a profile hands to the wash rules."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from itertools import product

import pytest

from zorivest_rpc.embedded.tax.model import (
    AccountTraits,
    AcquisitionSource,
    CostBasisMethod,
    Direction,
    EstimationMethod,
    FilingStatus,
    Price,
    Quarter,
    StockSplit,
    TaxError,
    TaxFill,
    TaxProfile,
    WashPolicy,
    WashSaleMethod,
    parse,
)
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

KINDS: tuple[type[Enum], ...] = (
    *(Side, Direction, AssetClass, AcquisitionSource, CostBasisMethod, FilingStatus),
    *(WashSaleMethod, EstimationMethod, Quarter),
)
OTHER_NAMES: dict[str, Enum] = {
    "specific id": CostBasisMethod.SPEC_ID,
    "Average-Cost": CostBasisMethod.AVG_COST,
    "married filing jointly": FilingStatus.MARRIED_JOINT,
    "Married-Filing-Separately": FilingStatus.MARRIED_SEPARATE,
    "qualifying surviving spouse": FilingStatus.MARRIED_JOINT,
    " head ": FilingStatus.HEAD_OF_HOUSEHOLD,
    "actual_to_date": EstimationMethod.ACTUAL,
    "prior year safe harbor": EstimationMethod.PRIOR_YEAR,
}


@pytest.mark.parametrize("member", [member for kind in KINDS for member in kind])
def test_a_member_is_found_by_its_name_in_any_spelling(member: Enum) -> None:
    plain = member.name.lower()
    for text in (member.name, plain, plain.replace("_", "-"), f" {plain.replace('_', ' ')} "):
        assert parse(type(member), text) is member


@pytest.mark.parametrize("text", OTHER_NAMES)
def test_another_name_means_its_member_and_nothing_among_other_words(text: str) -> None:
    meant = OTHER_NAMES[text]
    assert parse(type(meant), text) is meant
    for kind in KINDS:
        if kind is not type(meant):
            with pytest.raises(TaxError) as refused:
                parse(kind, text)
            assert refused.value.code == "unknown_value"
            assert (
                str(refused.value)
                == refused.value.text
                == f'No {kind.__name__} "{text}"; one of {", ".join(kind.__members__)}.'
            )


def test_nobody_who_said_nothing_is_an_exception() -> None:
    """The law's own defaults: a spouse's and reinvested purchases wash, section 1256 applies, nothing is elected."""
    profile, policy = TaxProfile(tax_year=2026), WashPolicy()
    assert profile.wash_policy == policy
    assert (policy.method, policy.mark_to_market_years) == (WashSaleMethod.CONSERVATIVE, frozenset())
    assert (policy.include_drip, policy.include_spousal, policy.section_1256_eligible) == (True, True, True)
    assert (profile.is_default, profile.source, profile.stated) == (False, "profile", ())
    assert TaxProfile(tax_year=2026, is_default=True).source == "default"
    assert AccountTraits() == AccountTraits(tax_advantaged=False, spousal=False)


@pytest.mark.parametrize("chosen", list(product([True, False], repeat=4)))
@pytest.mark.parametrize("method", list(WashSaleMethod))
def test_a_profile_hands_each_of_its_choices_to_the_wash_rules(
    chosen: tuple[bool, bool, bool, bool], method: WashSaleMethod
) -> None:
    drip, spousal, covered, elected = chosen
    profile = TaxProfile(
        tax_year=2025,
        wash_sale_method=method,
        include_drip_wash_detection=drip,
        include_spousal_accounts=spousal,
        section_1256_eligible=covered,
        section_475_elected=elected,
    )
    assert profile.wash_policy == WashPolicy(
        method=method,
        include_drip=drip,
        include_spousal=spousal,
        section_1256_eligible=covered,
        mark_to_market_years=frozenset({2025} if elected else ()),
    )


@pytest.mark.parametrize(
    ("short", "long", "stated", "states"),
    [
        (0, 0, (), False),
        (5, 0, (), True),
        (0, 5, (), True),
        (0, 0, ("agi_estimate",), False),
        (0, 0, ("capital_loss_carryforward",), True),
        (0, 0, ("capital_loss_carryforward_lt",), True),
    ],
)
def test_a_loss_carried_in_is_stated_by_an_amount_or_by_a_zero_that_was_given(
    short: int, long: int, stated: tuple[str, ...], states: bool
) -> None:
    profile = TaxProfile(
        tax_year=2026,
        capital_loss_carryforward=Decimal(short),
        capital_loss_carryforward_lt=Decimal(long),
        stated=stated,
    )
    assert profile.states_carryforward is states


def test_what_a_fill_a_split_and_a_price_are_where_nothing_else_is_said() -> None:
    moment = datetime(2026, 3, 2, 15, tzinfo=UTC)
    fill = TaxFill(
        exec_id="e", time=moment, account_id="A", symbol="ACME", side=Side.BOT, quantity=Decimal(1), price=Decimal(2)
    )
    assert (fill.commission, fill.multiplier, fill.asset_class) == (Decimal(0), Decimal(1), AssetClass.EQUITY)
    assert (fill.order_id, fill.source, fill.method) == (None, AcquisitionSource.PURCHASE, None)
    assert (fill.lot_ids, fill.currency) == ((), "USD")
    split = StockSplit(exec_id="s", time=moment, symbol="ACME", to=Decimal(2))
    assert (split.of, split.account_id) == (Decimal(1), None)
    price = Price(price=Decimal(2))
    assert (price.source, price.stale, price.as_of) == ("quote", False, None)
