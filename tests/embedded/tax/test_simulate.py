"""Simulated sales: the lots, the tax, the wash risk, and what waiting would save."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET

from tests.embedded.tax.fills import book_of, buy, dec, decs, sell
from zorivest_rpc.embedded.tax.book import LotBook
from zorivest_rpc.embedded.tax.model import (
    DISCLAIMER,
    AccountTraits,
    CostBasisMethod,
    TaxError,
    TaxProfile,
    WashSaleMethod,
)
from zorivest_rpc.embedded.tax.netting import Gains
from zorivest_rpc.embedded.tax.simulate import SaleRequest, SaleSimulation, simulate_sale
from zorivest_rpc.embedded.values.kinds import AssetClass

TODAY = date(2026, 6, 1)
IRA = {"IRA": AccountTraits(tax_advantaged=True)}


def profile(**rest: Any) -> TaxProfile:
    return TaxProfile(**{"tax_year": 2026, "agi_estimate": dec(100000), **rest})


def run(
    book: LotBook,
    quantity: int | str,
    price: int | str,
    *,
    who: TaxProfile | None = None,
    realized: Gains | None = None,
    **rest: Any,
) -> SaleSimulation:
    request = SaleRequest(
        **{"ticker": "ACME", "account_id": "A", "quantity": dec(quantity), "price": dec(price), **rest}
    )
    return simulate_sale(book.lots, request, who or profile(), IRA, today=TODAY, realized=realized)


def two_lots() -> LotBook:
    """100 at 50 held for years, 100 at 80 held since March."""
    return book_of(buy("ACME", 100, 50, "2024-01-08", exec_id="old"), buy("ACME", 100, 80, "2026-03-02", exec_id="new"))


def test_a_sale_is_split_into_lots_and_terms() -> None:
    # FIFO at 100: 100 × (100 − 50) = 5000 long-term, 50 × (100 − 80) = 1000 short-term.
    result = run(two_lots(), 150, 100)
    assert [(lot.lot_id, lot.quantity, lot.gain_loss, lot.is_long_term) for lot in result.lots_to_close] == [
        ("lot-old", dec(100), dec(5000), True),
        ("lot-new", dec(50), dec(1000), False),
    ]
    summary = result.summary
    assert (summary.total_proceeds, summary.total_basis, summary.realized_gain) == decs(15000, 9000, 6000)
    assert (summary.st_gain, summary.lt_gain) == decs(1000, 5000)
    assert result.lots == result.lots_to_close
    assert result.disclaimer == DISCLAIMER


def test_the_tax_uses_brackets_on_top_of_other_income() -> None:
    # O = 83900: 1000 × 22 % = 220; 5000 × 15 % = 750; state 5 % × 6000 = 300.
    tax = run(two_lots(), 150, 100, who=profile(state_tax_rate=dec("0.05"))).estimated_tax
    assert (tax.federal_st, tax.federal_lt, tax.niit, tax.state, tax.total) == decs(220, 750, 0, 300, 1270)


def test_niit_is_added_above_the_threshold() -> None:
    # MAGI 300000 + 6000: 3.8 % × 6000 = 228; ordinary bracket at 283900 is 35 %.
    tax = run(two_lots(), 150, 100, who=profile(agi_estimate=dec(300000))).estimated_tax
    assert (tax.federal_st, tax.federal_lt, tax.niit) == decs(350, 750, 228)


def test_without_other_income_the_profiles_bracket_is_used() -> None:
    # 1000 × 32 %, 5000 × 15 %.
    tax = run(two_lots(), 150, 100, who=profile(agi_estimate=dec(0), federal_bracket=dec("0.32"))).estimated_tax
    assert (tax.federal_st, tax.federal_lt) == decs(320, 750)


def test_waiting_for_long_term_is_priced() -> None:
    # The March lot is long-term from 3 March 2027: 275 days. 1000 × (22 % − 15 %) = 70.
    (saving,) = run(two_lots(), 150, 100).hold_savings
    assert (saving.lot_id, saving.days, saving.saving) == ("lot-new", 275, dec(70))


def test_a_loss_costs_nothing_and_shows_what_it_does_to_the_year() -> None:
    # Realised so far 4000 short-term; this sale loses 100 × (50 − 30) = 2000: 2000 × 22 % less.
    result = run(two_lots(), 100, 30, realized=Gains(dec(4000)))
    assert (result.summary.realized_gain, result.estimated_tax.total, result.year_effect) == decs(-2000, 0, -440)
    assert run(two_lots(), 100, 30).year_effect is UNSET


def test_a_loss_beside_a_recent_purchase_is_at_risk() -> None:
    # Bought 20 May, 12 days ago: the window runs through 19 June, 20 June is clear: 31 − 12 = 19 days.
    book = book_of(
        buy("ACME", 100, 50, "2024-01-08", exec_id="old"),
        buy("ACME", 100, 45, "2026-05-20", exec_id="new", account_id="IRA"),
        accounts=IRA,
    )
    result = run(book, 100, 40)
    (affected,) = result.wash_sale_risk.affected_lots
    assert (result.wash_sale_risk.at_risk, result.wash_sale_risk.wait_days) == (True, 19)
    assert (affected.lot_id, affected.days_remaining, affected.is_tax_advantaged) == ("lot-new", 19, True)
    assert result.lots_to_close[0].wash_risk


def test_only_lots_sold_at_a_loss_are_marked() -> None:
    book = book_of(
        buy("ACME", 10, 30, "2024-01-08"), buy("ACME", 10, 50, "2024-01-09"), buy("ACME", 10, 45, "2026-05-20")
    )
    assert [lot.wash_risk for lot in run(book, 20, 40).lots_to_close] == [False, True]


@pytest.mark.parametrize(
    ("day", "price", "quantity", "at_risk"),
    [
        ("2026-05-02", 40, 100, True),  # 30 days ago
        ("2026-05-01", 40, 100, False),  # 31 days ago
        ("2026-05-20", 60, 100, False),  # no loss
        ("2026-05-20", 40, 200, False),  # the recent shares are sold too
    ],
)
def test_risk_needs_a_loss_and_a_purchase_within_thirty_days_that_stays(
    day: str, price: int, quantity: int, at_risk: bool
) -> None:
    book = book_of(buy("ACME", 100, 50, "2024-01-08"), buy("ACME", 100, 45, day))
    assert run(book, quantity, price).wash_sale_risk.at_risk is at_risk


@pytest.mark.parametrize(
    ("method", "at_risk"), [(WashSaleMethod.CONSERVATIVE, True), (WashSaleMethod.AGGRESSIVE, False)]
)
def test_a_call_bought_is_a_risk_under_the_conservative_reading(method: WashSaleMethod, at_risk: bool) -> None:
    book = book_of(
        buy("ACME", 100, 50, "2024-01-08"), buy("ACME 261218 C 50", 1, 3, "2026-05-20", asset_class=AssetClass.OPTION)
    )
    assert run(book, 100, 40, who=profile(wash_sale_method=method)).wash_sale_risk.at_risk is at_risk


def test_covering_a_short_takes_the_price_as_basis() -> None:
    # Sold short 100 at 60 (6000), bought back at 45 (4500): 1500, short-term.
    book = book_of(sell("ACME", 100, 60, "2024-01-08"))
    result = run(book, 100, 45, action="COVER")
    assert (result.summary.total_proceeds, result.summary.total_basis, result.summary.st_gain) == decs(6000, 4500, 1500)
    assert result.hold_savings == ()


@pytest.mark.parametrize("asset_class", [AssetClass.EQUITY, AssetClass.OPTION])
def test_covering_a_recent_short_saves_nothing_by_waiting(asset_class: AssetClass) -> None:
    book = book_of(sell("ACME", 100, 60, "2026-03-02", asset_class=asset_class))
    result = run(book, 100, 45, action="COVER")
    assert (result.summary.st_gain > 0, result.hold_savings) == (True, ())


@pytest.mark.parametrize(("side", "action"), [(buy, "SELL"), (sell, "COVER")])
def test_a_section_1256_contract_saves_nothing_by_waiting(side: Any, action: str) -> None:
    # 60 % of its gain is long-term whenever it is sold (§1256(a)(3))
    contract = side("ES 12-26", 1, 5000, "2026-03-02", asset_class=AssetClass.FUTURE, multiplier=50)
    price = 5010 if action == "SELL" else 4990
    result = run(book_of(contract), 1, price, ticker="ES 12-26", action=action)
    assert (result.summary.realized_gain, result.hold_savings) == (dec(500), ())


def test_a_wash_adjustment_is_part_of_the_basis() -> None:
    # 1000 disallowed moved into the lot: 4100 + 1000.
    book = book_of(
        buy("ACME", 100, 50, "2025-06-02"), sell("ACME", 100, 40, "2026-03-02"), buy("ACME", 100, 41, "2026-03-10")
    )
    assert run(book, 50, 60).summary.total_basis == 2550


def test_specific_lots_and_highest_cost_choose_the_other_lot() -> None:
    assert run(two_lots(), 50, 100, method=CostBasisMethod.HIFO).lots[0].lot_id == "lot-new"
    named = run(two_lots(), 50, 100, method=CostBasisMethod.SPEC_ID, lot_ids=("lot-new",))
    assert named.lots[0].lot_id == "lot-new"


def test_average_cost_uses_one_basis_and_warns() -> None:
    # (5000 + 8000) / 200 = 65.
    result = run(two_lots(), 50, 100, method=CostBasisMethod.AVG_COST)
    assert result.summary.total_basis == 3250
    assert "fund" in result.warnings[0]


def test_a_sale_in_an_ira_is_not_taxed() -> None:
    book = book_of(buy("ACME", 100, 50, "2026-01-05", account_id="IRA"))
    result = run(book, 100, 90, account_id="IRA")
    assert (result.summary.realized_gain, result.estimated_tax.total) == decs(4000, 0)
    assert "tax-advantaged" in result.warnings[0]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"ticker": "NONE"}, "no_open_lots"),
        ({"action": "cover"}, "no_open_lots"),
        ({"quantity": Decimal(201)}, "insufficient_quantity"),
        ({"method": CostBasisMethod.SPEC_ID}, "lot_ids_required"),
        ({"method": CostBasisMethod.SPEC_ID, "lot_ids": ("lot-x",)}, "unknown_lot"),
        ({"action": "hold"}, "unknown_value"),
        ({"price": Decimal(0)}, "invalid_quantity"),
        ({"quantity": Decimal(0)}, "invalid_quantity"),
    ],
)
def test_what_cannot_be_sold_is_refused_with_a_reason(change: dict[str, Any], code: str) -> None:
    request = SaleRequest(**{"ticker": "ACME", "account_id": "A", "quantity": dec(1), "price": dec(1), **change})
    with pytest.raises(TaxError) as refused:
        simulate_sale(two_lots().lots, request, profile(), {}, today=TODAY)
    assert refused.value.code == code


def test_simulating_agrees_with_doing_it() -> None:
    book = two_lots()
    simulated = run(book, 150, 100).summary.realized_gain
    book.advance(sell("ACME", 150, 100, "2026-06-01"))
    assert sum(lot.recognized for lot in book.closed_lots) == simulated


def test_a_loss_that_is_certain_to_be_washed_is_not_in_the_figures() -> None:
    # 20 shares lose 12 each, 240; 10 were bought 12 days ago and stay: 120 are disallowed, 120 count.
    book = book_of(buy("ACME", 20, 52, "2024-01-08", exec_id="old"), buy("ACME", 10, 41, "2026-05-20", exec_id="new"))
    result = run(book, 20, 40, realized=Gains(long_term=dec(1000)))
    summary = result.summary
    assert (summary.economic_gain, summary.disallowed_loss, summary.realized_gain) == decs(-240, 120, -120)
    assert (summary.st_gain, summary.lt_gain) == decs(0, -120)
    (row,) = result.lots_to_close
    assert (row.lot_id, row.quantity, row.gain_loss, row.disallowed_loss) == ("lot-old", dec(20), *decs(-120, 120))
    (affected,) = result.wash_sale_risk.affected_lots
    assert (affected.lot_id, affected.quantity, affected.matched_quantity) == ("lot-new", *decs(10, 10))
    assert affected.disallowed_loss == 120
    assert result.year_effect == dec(-18)  # 120 × 15 %
    book.advance(sell("ACME", 20, 40, "2026-06-01"))
    assert sum(lot.recognized for lot in book.closed_lots) == summary.realized_gain


def test_a_purchase_that_is_not_reached_still_counts_for_how_long_to_wait() -> None:
    # Ten shares at a loss; the ten of 10 May take it all over, those of 25 May are clear only after 24 more days.
    book = book_of(
        buy("ACME", 10, 50, "2024-01-08"),
        buy("ACME", 10, 41, "2026-05-10", exec_id="first"),
        buy("ACME", 10, 41, "2026-05-25", exec_id="second"),
    )
    risk = run(book, 10, 40).wash_sale_risk
    found = [(lot.lot_id, lot.matched_quantity, lot.disallowed_loss, lot.days_remaining) for lot in risk.affected_lots]
    assert found == [("lot-second", *decs(0, 0, 24)), ("lot-first", *decs(10, 100, 9))]
    assert (risk.at_risk, risk.wait_days) == (True, 24)


def test_without_a_recent_purchase_nothing_has_to_be_waited_for() -> None:
    risk = run(book_of(buy("ACME", 10, 50, "2024-01-08")), 10, 40).wash_sale_risk
    assert (risk.at_risk, risk.wait_days, risk.affected_lots) == (False, 0, ())


def test_a_mark_to_market_result_is_shown_with_the_short_term_ones() -> None:
    # §475(f): 100 × (100 − 50) + 50 × (100 − 80) = 6000, all of it ordinary.
    summary = run(two_lots(), 150, 100, who=profile(section_475_elected=True)).summary
    assert (summary.st_gain, summary.lt_gain, summary.realized_gain) == decs(6000, 0, 6000)


def test_lots_paid_in_two_currencies_are_two_positions() -> None:
    book = book_of(
        buy("ACME", 10, 50, "2024-01-08", exec_id="usd"), buy("ACME", 10, 60, "2024-01-09", currency="EUR", exec_id="e")
    )
    with pytest.raises(TaxError) as refused:
        run(book, 10, 70)
    assert refused.value.code == "several_currencies"
    assert "EUR and USD" in str(refused.value)
    named = run(book, 10, 70, method=CostBasisMethod.SPEC_ID, lot_ids=("lot-e",))
    assert ([lot.lot_id for lot in named.lots], named.summary.realized_gain) == (["lot-e"], dec(100))
    with pytest.raises(TaxError) as refused:
        run(book, 20, 70, method=CostBasisMethod.SPEC_ID, lot_ids=("lot-e", "lot-usd"))
    assert refused.value.code == "several_currencies"


def test_a_fraction_of_a_share_can_be_sold() -> None:
    # 0.125 of a share: bought at 80, sold at 100.
    result = run(two_lots(), "0.125", 100, method=CostBasisMethod.LIFO)
    assert (result.lots[0].quantity, result.summary.realized_gain) == decs("0.125", "2.50")
