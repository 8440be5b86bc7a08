"""Estimated tax by quarter (§6654): due dates, three methods, penalty, payments."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded.tax.fills import book_of, buy, dec, decs, sell
from zorivest_rpc.embedded.tax import quarterly
from zorivest_rpc.embedded.tax.law import PenaltyRate
from zorivest_rpc.embedded.tax.model import (
    DISCLAIMER,
    EstimationMethod,
    FilingStatus,
    Quarter,
    TaxError,
    TaxProfile,
    parse,
)
from zorivest_rpc.embedded.tax.netting import Gains
from zorivest_rpc.embedded.tax.quarterly import (
    Income,
    QuarterlyEstimate,
    TaxPayment,
    due_date,
    income_by_period,
    installments,
    interest,
    quarterly_estimate,
    record_payment,
)
from zorivest_rpc.embedded.values.money import cents

ANNUALIZED, PRIOR, ACTUAL = EstimationMethod.ANNUALIZED, EstimationMethod.PRIOR_YEAR, EstimationMethod.ACTUAL
Q1, Q2, Q3, Q4 = Quarter


def profile(**rest: Any) -> TaxProfile:
    return TaxProfile(**{"tax_year": 2026, "agi_estimate": dec(100000), **rest})


def income(*short: int, is_final: bool = False, ended: int = 0) -> Income:
    """Cumulative short-term gains at the end of the four periods."""
    first, second, third, fourth = (Gains(dec(amount)) for amount in short or (0, 0, 0, 0))
    return Income(periods=(first, second, third, fourth), ended=4 if is_final else ended)


def required(who: TaxProfile, known: Income, method: EstimationMethod) -> tuple[Decimal, ...]:
    """The installment of each quarter, as the question about that quarter is answered."""
    return tuple(installments(who, known, method, quarter)[quarter.number - 1].required for quarter in Quarter)


def ask(quarter: Quarter, today: date, *payments: TaxPayment, **rest: Any) -> QuarterlyEstimate:
    """A taxpayer who owed 4000 last year: 1000 each quarter by the prior-year method."""
    who = profile(prior_year_tax=dec(4000), **rest)
    return quarterly_estimate(quarter, who, income(), payments, method=PRIOR, today=today)


def paid(quarter: Quarter, amount: int | str, on: date | None = None) -> TaxPayment:
    return TaxPayment(quarter=quarter, amount=dec(amount), paid_on=on)


@pytest.mark.parametrize(
    ("year", "days"),
    [
        (2026, ("2026-04-15", "2026-06-15", "2026-09-15", "2027-01-15")),
        (2025, ("2025-04-15", "2025-06-16", "2025-09-15", "2026-01-15")),  # 15 June 2025 is a Sunday
        (2024, ("2024-04-15", "2024-06-17", "2024-09-16", "2025-01-15")),  # Saturday, Sunday
        (2023, ("2023-04-18", "2023-06-15", "2023-09-15", "2024-01-16")),  # Emancipation Day; Martin Luther King Day
    ],
)
def test_due_dates_move_off_weekends_and_holidays(year: int, days: tuple[str, ...]) -> None:
    # §6654(c)(2), §7503
    assert tuple(due_date(year, quarter).isoformat() for quarter in Quarter) == days


def test_even_income_gives_equal_annualised_installments() -> None:
    # T(83900) = 13170; 22.5 % of it is 2963.25, and again each quarter.
    assert required(profile(), income(), ANNUALIZED) == decs(*["2963.25"] * 4)


def test_a_gain_in_december_asks_for_nothing_before_january() -> None:
    # No other income. 56100 − 16100 = 40000: 1240 + 27600 × 12 % = 4552; 90 % = 4096.80, all in the fourth quarter.
    who = profile(agi_estimate=dec(0))
    assert required(who, income(0, 0, 0, 56100), ANNUALIZED) == decs(0, 0, 0, "4096.80")


def test_a_gain_in_the_first_quarter_is_annualised() -> None:
    # AGI 56100, 10000 gained by March → 40000 a year: taxable 80000: 1240 + 4560 + 29600 × 22 % = 12312 × 22.5 %.
    who = profile(agi_estimate=dec(56100))
    assert required(who, income(10000, 10000, 10000, 10000), ANNUALIZED)[0] == dec("2770.20")


def test_once_the_year_is_known_no_installment_exceeds_the_regular_one() -> None:
    # Year's taxable 50000: 4552 + 1200 = 5752; 90 % = 5176.80; a quarter of it 1294.20.
    who = profile(agi_estimate=dec(56100))
    assert required(who, income(10000, 10000, 10000, 10000, is_final=True), ANNUALIZED) == decs(*["1294.20"] * 4)


def test_an_installment_saved_early_is_made_up_later() -> None:
    # No gains until June, then 20000 (AGI 56100). Year: taxable 60000 = 4552 + 10400 × 12 % + 9600 × 22 % = 7912;
    # regular 90 % / 4 = 1780.20 a quarter. Annualised: T(40000) = 4552 × 22.5 % = 1024.20, × 45 % = 2048.40; by August
    # 20000 × 1.5 = 30000: T(70000) = 5800 + 19600 × 22 % = 10112 × 67.5 % = 6825.60, above 3 × 1780.20 = 5340.60.
    who = profile(agi_estimate=dec(56100))
    assert required(who, income(0, 0, 20000, 20000, is_final=True), ANNUALIZED) == decs(
        "1024.20", "1024.20", "3292.20", "1780.20"
    )


def test_the_prior_year_caps_what_annualising_asks_for() -> None:
    # min(13170 × 90 %, 4000) / 4 = 1000.
    assert required(profile(prior_year_tax=dec(4000)), income(), ANNUALIZED) == decs(1000, 1000, 1000, 1000)


def test_no_tax_last_year_means_no_installments() -> None:
    # §6654(e)(2)
    assert required(profile(prior_year_tax=dec(0)), income(5000, 9000, 9000, 9000), ANNUALIZED) == decs(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("status", "agi", "each"),
    [
        (FilingStatus.SINGLE, 150000, "3000.00"),
        (FilingStatus.SINGLE, 150001, "3300.00"),  # 110 %
        (FilingStatus.MARRIED_SEPARATE, 75000, "3000.00"),
        (FilingStatus.MARRIED_SEPARATE, 75001, "3300.00"),
    ],
)
def test_the_prior_year_method_takes_all_of_last_years_tax_or_a_tenth_more(
    status: FilingStatus, agi: int, each: str
) -> None:
    # §6654(d)(1)(B)-(C)
    who = profile(filing_status=status, agi_estimate=dec(1), prior_year_agi=dec(agi), prior_year_tax=dec(12000))
    assert required(who, income(), PRIOR) == decs(each, each, each, each)


def test_without_last_years_tax_the_prior_year_method_says_what_it_used() -> None:
    estimate = quarterly_estimate(Q1, profile(), income(), [], method=PRIOR, today=date(2026, 4, 1))
    assert len(estimate.basis.notes) == 1
    assert estimate.required_payment == dec("2963.25")
    assert "no prior-year tax" in estimate.basis.notes[0]


def test_the_actual_method_takes_ninety_percent_of_the_tax_on_gains_so_far() -> None:
    # 10000 × 22 % = 2200; 90 % = 1980; a quarter 495.
    assert required(profile(), income(10000, 10000, 10000, 10000), ACTUAL) == decs(495, 495, 495, 495)


def test_income_is_cut_at_the_periods_ends_and_at_today() -> None:
    book = book_of(
        buy("ACME", 40, 10, "2026-01-05"),
        sell("ACME", 10, 20, "2026-03-31"),
        sell("ACME", 10, 20, "2026-04-01"),
        sell("ACME", 10, 20, "2026-08-31"),
        sell("ACME", 10, 20, "2026-12-31"),
    )
    known = income_by_period(book.lots, profile(), {}, date(2027, 1, 1))
    assert [period.short_term for period in known.periods] == [dec(100), dec(200), dec(300), dec(400)]
    assert known.is_final
    partial = income_by_period(book.lots, profile(), {}, date(2026, 4, 10))
    assert [period.short_term for period in partial.periods] == [dec(100), dec(200), dec(200), dec(200)]
    assert not partial.is_final


def test_a_shortfall_costs_the_rate_for_each_day() -> None:
    # 15 April to 1 June 2026: 47 days × 7 % / 365 × 1000 = 9.0137.
    estimate = ask(Q1, date(2026, 6, 1))
    assert (estimate.underpayment, estimate.penalty_estimate, estimate.status) == (dec(1000), dec("9.01"), "DUE")


def test_an_assumed_rate_and_an_unfinished_period_are_told() -> None:
    assert "carried forward" in ask(Q1, date(2026, 6, 1)).basis.notes[0]
    assert ask(Q1, date(2026, 3, 1)).basis.notes == (
        "The period ends on 2026-03-31; only gains up to 2026-03-01 are in.",
    )


@pytest.mark.parametrize(
    ("year", "today", "is_told"),
    [
        # the first rate that no ruling gives is in force from 15 April 2026, when the return for 2025 is due
        *((2026, date(2026, 4, 16), True), (2025, date(2026, 4, 14), False), (2025, date(2026, 11, 1), False)),
        (2024, date(2026, 11, 1), False),
    ],
)
def test_a_rate_is_called_assumed_only_where_it_was_used(year: int, today: date, is_told: bool) -> None:
    estimate = ask(Q1, today, tax_year=year)
    assert estimate.penalty_estimate > 0
    assert any("carried forward" in note for note in estimate.basis.notes) is is_told


def test_a_late_payment_stops_the_penalty() -> None:
    # 15 April to 15 May: 30 days: 5.7534.
    estimate = ask(Q1, date(2026, 9, 1), paid(Q1, 1000, date(2026, 5, 15)))
    assert (estimate.underpayment, estimate.penalty_estimate, estimate.status) == (dec(0), dec("5.75"), "PAID")


def test_the_penalty_ends_when_the_return_is_due() -> None:
    # 15 April 2026 to 15 April 2027: 365 days × 7 % / 365 × 1000 = 70.
    assert ask(Q1, date(2028, 1, 1)).penalty_estimate == 70


def test_payments_cover_the_oldest_installment_first() -> None:
    # 1000 paid on 15 June for Q2 pays Q1, 61 days late (11.6986); Q2 stays open to 15 July, 30 days (5.7534).
    late = paid(Q2, 1000, date(2026, 6, 15))
    assert ask(Q1, date(2026, 7, 15), late).penalty_estimate == dec("11.70")
    assert ask(Q2, date(2026, 7, 15), late).penalty_estimate == dec("5.75")


def test_a_payment_without_a_date_was_on_time() -> None:
    estimate = ask(Q1, date(2026, 9, 1), paid(Q1, 1000))
    assert (estimate.penalty_estimate, estimate.status) == (dec(0), "PAID")


def test_payments_count_in_the_order_of_their_days_whatever_their_amounts() -> None:
    # 800 on 15 May (30 days: 4.6027) and 200 of 400 on 15 July (91 days: 3.4904).
    first, second = paid(Q1, 800, date(2026, 5, 15)), paid(Q1, 400, date(2026, 7, 15))
    for payments in ((first, second), (second, first)):
        assert ask(Q1, date(2026, 9, 1), *payments).penalty_estimate == dec("8.09")


def test_the_rate_changes_with_the_date_and_a_leap_year_has_366_days() -> None:
    # 10 days at 8 % of 2024, 10 days at 7 % of 2025: 1000 × (0.8 / 366 + 0.7 / 365) = 2.1858 + 1.9178.
    assert cents(interest(dec(1000), date(2024, 12, 22), date(2025, 1, 11))) == dec("4.10")
    assert cents(interest(dec(36500), date(2025, 3, 1), date(2025, 3, 11))) == 70
    assert interest(dec(1000), date(2025, 3, 1), date(2025, 3, 1)) == 0


def test_a_small_balance_has_no_penalty() -> None:
    # §6654(e)(1): 13170 less 12200 withheld is under 1000.
    assert ask(Q1, date(2026, 6, 1), withholding=dec(12200)).penalty_estimate == 0


def test_withholding_counts_a_quarter_at_each_due_date() -> None:
    # §6654(g): 2000 withheld: 500 at each date; 500 missing on 15 April: 47 days: 4.5068.
    estimate = ask(Q1, date(2026, 6, 1), withholding=dec(2000))
    assert (estimate.cumulative_paid, estimate.underpayment, estimate.penalty_estimate) == decs(500, 500, "4.51")


@pytest.mark.parametrize(
    ("today", "amount", "status"),
    [
        (date(2026, 4, 1), 0, "UPCOMING"),
        (date(2026, 4, 1), 400, "UPCOMING"),
        (date(2026, 4, 15), 400, "DUE"),
        (date(2026, 5, 1), 1000, "PAID"),
        (date(2026, 4, 1), 1001, "OVER"),
    ],
)
def test_the_status_tells_what_is_left_to_do(today: date, amount: int, status: str) -> None:
    payments = [paid(Q1, amount)] if amount else []
    assert ask(Q1, today, *payments).status == status


def test_requirements_are_cumulative_and_aliases_agree() -> None:
    estimate = ask(Q3, date(2026, 9, 1), paid(Q1, 1000), paid(Q2, 700))
    assert (estimate.cumulative_required, estimate.cumulative_paid, estimate.underpayment) == decs(3000, 1700, 1300)
    assert (estimate.required, estimate.paid, estimate.due, estimate.penalty) == (
        estimate.required_payment,
        estimate.cumulative_paid,
        estimate.underpayment,
        estimate.penalty_estimate,
    )
    assert estimate.disclaimer == DISCLAIMER


def test_payments_add_up_and_the_same_one_is_not_booked_twice() -> None:
    who, today = profile(prior_year_tax=dec(4000)), date(2026, 4, 1)
    first, receipt = record_payment([], paid(Q1, 600), who, income(), method=PRIOR, today=today)
    assert (receipt.cumulative_paid, receipt.remaining_shortfall, receipt.replaced) == (dec(600), dec(400), False)
    again, receipt = record_payment(first, paid(Q1, 600), who, income(), method=PRIOR, today=today)
    assert (again, receipt.cumulative_paid, receipt.replaced) == (first, dec(600), True)
    both, receipt = record_payment(again, paid(Q1, 400), who, income(), method=PRIOR, today=today)
    assert (len(both), receipt.cumulative_paid, receipt.remaining_shortfall) == (2, dec(1000), dec(0))
    assert receipt.status == "recorded"
    with pytest.raises(TaxError):
        record_payment([], paid(Q1, 0), who, income(), today=today)
    _, least = record_payment([], paid(Q1, "0.01"), who, income(), today=today)
    assert least.recorded_payment == dec("0.01")


@pytest.mark.parametrize(("text", "method"), [("prior_year_safe_harbor", PRIOR), ("actual_to_date", ACTUAL)])
def test_methods_are_read_in_both_spellings(text: str, method: EstimationMethod) -> None:
    assert parse(EstimationMethod, text) is method


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(-50_000, 200_000), min_size=4, max_size=4),
    st.sampled_from(EstimationMethod),
    st.booleans(),
    st.none() | st.integers(0, 90_000),
)
def test_installments_are_never_negative_and_never_exceed_ninety_percent_of_a_known_year(
    steps: list[int], method: EstimationMethod, is_final: bool, prior: int | None
) -> None:
    who = profile(prior_year_tax=None if prior is None else dec(prior))
    sums = [sum(steps[: n + 1]) for n in range(4)]
    plan = installments(who, income(*sums, is_final=is_final), method)
    assert all(row.required >= 0 for row in plan)
    assert plan[3].cumulative == sum(row.required for row in plan)
    if is_final and method is ANNUALIZED:
        assert plan[3].cumulative <= plan[3].regular_cumulative


def test_the_rate_of_the_first_quarter_lasts_until_the_fifteenth_of_april(monkeypatch: pytest.MonkeyPatch) -> None:
    # §6621(b)(2)(B): for estimated tax the first quarter's rate also holds from 1 to 15 April.
    rates = (
        PenaltyRate(date(2026, 1, 1), Decimal("0.07"), "test"),
        PenaltyRate(date(2026, 4, 1), Decimal("0.06"), "test"),
        PenaltyRate(date(2026, 7, 1), Decimal("0.05"), "test"),
    )
    monkeypatch.setattr(quarterly, "penalty_rates", lambda: rates)
    # 15 January to 15 April: 90 days at 7 %
    assert interest(Decimal(36500), date(2026, 1, 15), date(2026, 4, 15)) == 36500 * Decimal("0.07") * 90 / 365
    # 15 April to 15 July: 77 days at 6 %, then 14 at 5 %
    expected = 36500 * (Decimal("0.06") * 77 + Decimal("0.05") * 14) / 365
    assert interest(Decimal(36500), date(2026, 4, 15), date(2026, 7, 15)) == expected
