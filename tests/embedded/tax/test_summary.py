"""The year on one page, and the JSON form of results."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from msgspec import UNSET

from tests.embedded.tax.fills import book_of, buy, dec, decs, sell
from zorivest_rpc.embedded.tax.book import LotBook
from zorivest_rpc.embedded.tax.estimate import estimate_gains
from zorivest_rpc.embedded.tax.model import DISCLAIMER, AccountTraits, Quarter, TaxError, TaxProfile
from zorivest_rpc.embedded.tax.netting import Gains
from zorivest_rpc.embedded.tax.quarterly import TaxPayment
from zorivest_rpc.embedded.tax.summary import YearSummary, summarize_year
from zorivest_rpc.embedded.values.answers import to_json

IRA = {"IRA": AccountTraits(tax_advantaged=True)}


def year() -> LotBook:
    return book_of(
        buy("ACME", 100, 50, "2024-01-08"),
        sell("ACME", 50, 90, "2026-02-02"),  # 2000 long-term
        buy("BETA", 100, 30, "2026-01-05"),
        sell("BETA", 100, 20, "2026-03-02"),  # −1000 short-term, of which 600 washed
        buy("BETA", 60, 21, "2026-03-10", account_id="B"),
        buy("GAMMA", 10, 10, "2026-01-05", account_id="B"),
        sell("GAMMA", 10, 40, "2026-04-06", account_id="B"),  # 300 short-term
        buy("GAMMA", 10, 10, "2026-01-05", account_id="IRA"),
        sell("GAMMA", 10, 40, "2026-04-07", account_id="IRA"),
        accounts=IRA,
    )


def summarize(**rest: Any) -> YearSummary:
    book = year()
    who = TaxProfile(tax_year=2026, agi_estimate=dec(100000), state="CO", state_tax_rate=dec("0.04"))
    payments = [TaxPayment(quarter=Quarter.Q1, amount=dec(3000))]
    return summarize_year(book.lots, book.matches, who, IRA, payments, today=date(2026, 6, 1), **rest)


def test_the_year_is_summed_up_after_wash_sales() -> None:
    # short: −400 (600 of 1000 disallowed) + 300 = −100; long 2000; net 1900 × 15 % = 285; state 4 % × 1900 = 76.
    summary = summarize()
    assert (summary.realized_st_gain, summary.realized_lt_gain, summary.total_realized) == decs(-100, 2000, 1900)
    assert (summary.wash_sale_adjustments, summary.trades_count) == (dec(600), 3)
    assert (summary.estimated_federal_tax, summary.estimated_state_tax, summary.estimated_tax) == decs(285, 76, 361)
    assert summary.capital_loss_carryforward == 0
    assert summary.by_symbol is UNSET
    assert summary.disclaimer == DISCLAIMER


def test_the_four_quarters_are_always_there() -> None:
    rows = summarize().quarterly_payments
    assert [row.quarter for row in rows] == list(Quarter)
    assert [row.due_date.isoformat() for row in rows] == ["2026-04-15", "2026-06-15", "2026-09-15", "2027-01-15"]
    assert [row.status for row in rows][1:] == ["UPCOMING"] * 3
    assert rows[0].paid == 3000


def test_one_account_has_its_own_results_and_wash_sales() -> None:
    own = summarize(account_id="B")
    assert (own.realized_st_gain, own.wash_sale_adjustments, own.trades_count) == (dec(300), dec(0), 1)
    assert own.quarterly_payments == summarize().quarterly_payments


def test_results_can_be_listed_by_symbol() -> None:
    rows = summarize(group_by="symbol").by_symbol
    assert rows is not UNSET
    assert [(row.ticker, row.st_gains, row.lt_gains, row.lot_count) for row in rows] == [
        ("ACME", dec(0), dec(2000), 1),
        ("BETA", dec(-400), dec(0), 1),
        ("GAMMA", dec(300), dec(0), 1),
    ]
    with pytest.raises(TaxError):
        summarize(group_by="colour")


def test_an_empty_year_is_all_zeros() -> None:
    who = TaxProfile(tax_year=2026, is_default=True)
    empty = summarize_year([], [], who, {}, [], today=date(2026, 6, 1))
    assert (empty.total_realized, empty.estimated_tax, empty.trades_count) == (dec(0), dec(0), 0)
    assert empty.profile_source == "default"


def test_results_become_json_numbers_dates_and_names() -> None:
    value = to_json(summarize())
    assert json.loads(json.dumps(value)) == value
    assert (value["realized_lt_gain"], value["quarterly_payments"][0]["quarter"]) == (2000, "Q1")
    assert value["quarterly_payments"][0]["due_date"] == "2026-04-15"
    assert "by_symbol" not in value


def test_an_estimate_without_state_or_gain_leaves_those_fields_out() -> None:
    value = to_json(estimate_gains(TaxProfile(tax_year=2026), Gains(dec("-12.34"))))
    assert "state_estimate" not in value
    assert "effective_rate" not in value
    assert value["realized_gains"]["net"] == -12.34
    rows = to_json(estimate_gains(TaxProfile(tax_year=2026, agi_estimate=dec(50000)), Gains(dec(100))))
    assert {"rate", "from", "to", "amount", "tax"} <= set(rows["federal_estimate"]["bracket_breakdown"][0])
