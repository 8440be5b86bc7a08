"""The engine against a return filled in by hand, over random years; and the examples that the IRS publishes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.embedded.tax.fills import dec, decs
from tests.embedded.tax.form1040 import (
    DEDUCTION,
    FILERS,
    Filer,
    carryover_worksheet,
    form_1040,
    form_2210,
    schedule_d,
    schedule_tax,
    subtraction_amounts,
)
from zorivest_rpc.embedded.tax.carryover import Carryover, carry_into
from zorivest_rpc.embedded.tax.estimate import estimate_gains, federal_total, net_of
from zorivest_rpc.embedded.tax.model import EstimationMethod, FilingStatus, Quarter, TaxProfile
from zorivest_rpc.embedded.tax.netting import Gains
from zorivest_rpc.embedded.tax.quarterly import Income, TaxPayment, installments, quarterly_estimate

MANY = settings(deadline=None, max_examples=150)
CENT = Fraction(2, 100)  # two roundings to cents: ordinary and long-term
filers = st.sampled_from(FILERS)
amounts = st.integers(-80_000, 700_000) | st.integers(-9_000, 9_000)
wages = st.integers(0, 900_000) | st.integers(0, 30_000)
losses = st.integers(0, 30_000)


def profile(filer: Filer, income: int, carried: tuple[int, int] = (0, 0)) -> TaxProfile:
    return TaxProfile(
        tax_year=filer[0],
        filing_status=FilingStatus(filer[1]),
        agi_estimate=dec(income),
        capital_loss_carryforward=dec(carried[0]),
        capital_loss_carryforward_lt=dec(carried[1]),
    )


@MANY
@given(filers, wages, amounts, amounts, st.tuples(losses, losses))
def test_the_whole_tax_of_a_year_is_that_of_the_forms(
    filer: Filer, income: int, short: int, long: int, carried: tuple[int, int]
) -> None:
    by_hand = form_1040(filer, income, short, long, carried).tax
    computed = federal_total(profile(filer, income, carried), Gains(dec(short), dec(long)))
    assert abs(Fraction(computed) - by_hand) <= CENT


@MANY
@given(filers, wages, amounts, amounts, st.tuples(losses, losses))
def test_what_carries_forward_is_that_of_the_worksheet(
    filer: Filer, income: int, short: int, long: int, carried: tuple[int, int]
) -> None:
    by_hand = form_1040(filer, income, short, long, carried).carryover
    netted = net_of(profile(filer, income, carried), Gains(dec(short), dec(long)))
    assert (Fraction(netted.carryforward_st), Fraction(netted.carryforward_lt)) == by_hand


@MANY
@given(filers, st.lists(st.tuples(wages, amounts, amounts), min_size=1, max_size=6))
def test_a_loss_goes_from_year_to_year_as_on_a_row_of_returns(filer: Filer, rows: list[tuple[int, int, int]]) -> None:
    # Every year on the tables of one year, so that the row of returns has one set of brackets by hand.
    carried: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    for income, short, long in rows:
        schedule = schedule_d(filer, short, long, (int(carried[0]), int(carried[1])))
        agi = income + (schedule.line_16 if schedule.line_16 > 0 else -schedule.line_21)
        carried = carryover_worksheet(schedule, agi - DEDUCTION[filer])
    first = 2000
    results = {first + n: Gains(dec(short), dec(long)) for n, (_, short, long) in enumerate(rows)}

    def profile_of(year: int) -> TaxProfile:
        # the engine takes the nearest table; years are told apart by their number alone
        income = rows[year - first][0] if year - first < len(rows) else 0
        return profile((filer[0], filer[1]), income)

    after = carry_into(first + len(rows), results, profile_of)
    assert (Fraction(after.short_term), Fraction(after.long_term)) == carried


def test_a_long_term_loss_without_income_is_carried_whole() -> None:
    # §1212(b)(2). Worksheet: line 1 = 0 − 3000 − 16100 = −19100; line 3 = 0; line 4 = 0; line 13 = 5755.
    filer = (2026, "SINGLE")
    gains = estimate_gains(profile(filer, 0), Gains(long_term=dec(-5755))).realized_gains
    assert (gains.deductible_loss, gains.absorbed_loss) == decs(3000, 0)
    assert (gains.carryforward_st, gains.carryforward_lt) == decs(0, 5755)
    assert list(form_1040(filer, 0, 0, -5755).carryover) == [0, 5755]


@pytest.mark.parametrize(
    ("income", "absorbed"),
    [(16_099, 0), (16_100, 0), (16_101, 1), (19_099, 2999), (19_100, 3000), (19_101, 3000)],
)
def test_the_deduction_is_used_up_by_taxable_income_alone(income: int, absorbed: int) -> None:
    # 16100 is the standard deduction of a single filer in 2026.
    gains = estimate_gains(profile((2026, "SINGLE"), income), Gains(short_term=dec(-5755))).realized_gains
    assert (gains.absorbed_loss, gains.carryforward_st) == (dec(absorbed), dec(5755 - absorbed))


def test_a_known_bracket_stands_for_an_income_that_absorbs_the_deduction() -> None:
    who = TaxProfile(tax_year=2026, federal_bracket=dec("0.24"))
    assert net_of(who, Gains(short_term=dec(-5000))).carryforward_st == 2000


@pytest.mark.parametrize(("loss", "deducted", "carried"), [(7000, 3000, 4000), (2000, 2000, 0)])
def test_the_sampsons_of_publication_544(loss: int, deducted: int, carried: int) -> None:
    # Pub. 544 (2000), "Capital loss carryover", Example: a couple loses 7,000, deducts 3,000, carries over 4,000; had
    # it been 2,000 there would be no carryover. Their income absorbs the deduction.
    netted = net_of(profile((2024, "MARRIED_JOINT"), 60_000), Gains(long_term=dec(-loss)))
    assert (netted.deductible_loss, netted.carryforward_lt) == decs(deducted, carried)


def test_the_oracle_has_the_subtraction_amounts_of_a_published_worksheet() -> None:
    # Form 1040 instructions (2022), Tax Computation Worksheet, Section A (single): 24 %, 32 % and 35 %.
    starts = (0, 10_275, 41_775, 89_075, 170_050, 215_950, 539_900)
    assert subtraction_amounts(starts)[3:6] == [Fraction("6164.50"), Fraction("19768.50"), Fraction("26247.00")]


def test_the_oracle_agrees_with_the_contracts_figures() -> None:
    # 2026 single: T(100000) = 16712, T(83900) = 13170.
    assert schedule_tax((2026, "SINGLE"), Fraction(100_000)) == 16_712
    assert schedule_tax((2026, "SINGLE"), Fraction(83_900)) == 13_170


def known_year(short: list[int], ended: int) -> Income:
    first, second, third, fourth = (Gains(dec(sum(short[: n + 1]))) for n in range(4))
    return Income(periods=(first, second, third, fourth), ended=ended)


@MANY
@given(
    filers,
    st.integers(0, 300_000),
    st.lists(st.integers(-150_000, 200_000), min_size=4, max_size=4),
    st.none() | st.integers(0, 90_000),
)
def test_installments_of_a_known_year_are_those_of_schedule_ai(
    filer: Filer, income: int, steps: list[int], prior: int | None
) -> None:
    who = replace(profile(filer, income), prior_year_agi=dec(0), prior_year_tax=None if prior is None else dec(prior))
    factors = (Fraction(4), Fraction(12, 5), Fraction(3, 2), Fraction(1))
    columns = [form_tax(filer, income, sum(steps[: n + 1]) * factor) for n, factor in enumerate(factors)]
    by_hand = form_2210(columns[3], columns, None if prior is None else Fraction(prior))
    plan = installments(who, known_year(steps, 4), EstimationMethod.ANNUALIZED)
    for row, expected in zip(plan, by_hand, strict=True):
        assert abs(Fraction(row.required) - expected) <= Fraction(5, 100)
    assert sum(row.required for row in plan) <= Decimal("0.9") * plan[3].year_tax + Decimal("0.01")


def form_tax(filer: Filer, income: int, short: Fraction) -> Fraction:
    """`form_1040` on a gain that may be a fraction of a dollar: linear between whole dollars, within a cent."""
    low = int(short // 1)
    return form_1040(filer, income, low, 0).tax + (short - low) * (
        form_1040(filer, income, low + 1, 0).tax - form_1040(filer, income, low, 0).tax
    )


def test_a_gain_that_is_lost_again_asks_for_nothing() -> None:
    # +100,000 in February, −100,000 in June: the year's tax is nil, and with it the required annual payment
    # (§6654(d)(1)(B)), whatever the first period looked like when it ended.
    who = profile((2026, "SINGLE"), 0)
    steps = [100_000, 0, -100_000, 0]
    for quarter in Quarter:
        for today, ended in ((date(2026, 11, 18), 3), (date(2027, 2, 1), 4)):
            estimate = quarterly_estimate(quarter, who, known_year(steps, ended), [], today=today)
            figures = (estimate.required_payment, estimate.cumulative_required, estimate.underpayment)
            assert figures == decs(0, 0, 0)
            assert estimate.penalty_estimate == 0


def test_before_the_loss_the_gain_is_asked_for() -> None:
    # On 10 April only the first period is over: 100,000 × 4 is what the year looks like.
    who = profile((2026, "SINGLE"), 0)
    estimate = quarterly_estimate(Quarter.Q1, who, known_year([100_000, 0, 0, 0], 1), [], today=date(2026, 4, 10))
    year = schedule_tax((2026, "SINGLE"), Fraction(400_000 - 16_100)) + Fraction(38, 1000) * 200_000
    assert Fraction(estimate.required_payment) == round(Fraction(225, 1000) * year, 2)


def test_a_loss_of_the_running_period_counts_for_the_quarter_it_falls_in() -> None:
    # Lost in October, asked in November: by the end of August the year looked like 150,000, so the third quarter still
    # asks for something; the fourth sees what is known of the year, which is nothing.
    who = profile((2026, "SINGLE"), 0)
    known = known_year([100_000, 0, 0, -100_000], 3)
    third = quarterly_estimate(Quarter.Q3, who, known, [], today=date(2026, 11, 18))
    fourth = quarterly_estimate(Quarter.Q4, who, known, [], today=date(2026, 11, 18))
    assert third.cumulative_required > 0
    assert (fourth.required_payment, fourth.cumulative_required, fourth.underpayment) == decs(0, 0, 0)


def test_ben_and_sally_brown_of_publication_505() -> None:
    # Pub. 505 (2009), Figure 4-B (Form 2210, Part IV, Section A): 1,605 due each quarter, 396 withheld in each, 900
    # paid on 15 September and 900 on 15 January. Underpaid: 1,209; 813 + 1,605 = 2,418; 1,122 + 1,605 = 2,727.
    who = TaxProfile(
        tax_year=2009, agi_estimate=dec(60_000), prior_year_agi=dec(0), prior_year_tax=dec(6420), withholding=dec(1584)
    )
    paid = [
        TaxPayment(quarter=Quarter.Q3, amount=dec(900), paid_on=date(2009, 9, 15)),
        TaxPayment(quarter=Quarter.Q4, amount=dec(900), paid_on=date(2010, 1, 15)),
    ]
    rows = [
        quarterly_estimate(
            quarter, who, known_year([0] * 4, 4), paid, method=EstimationMethod.PRIOR_YEAR, today=date(2010, 4, 15)
        )
        for quarter in Quarter
    ]
    assert [row.required_payment for row in rows] == [1605] * 4
    assert [row.underpayment for row in rows] == [1209, 2418, 2727, 3036]


def test_what_a_profile_states_ends_the_look_back() -> None:
    results = {2023: Gains(short_term=dec(-50_000)), 2024: Gains(short_term=dec(-1000))}
    stated = {2024: decs(700, 300)}

    def profile_of(year: int) -> TaxProfile:
        short, long = stated.get(year, decs(0, 0))
        return TaxProfile(tax_year=year, capital_loss_carryforward=short, capital_loss_carryforward_lt=long)

    assert carry_into(2025, results, profile_of) == Carryover(dec(1700), dec(300), "journal", (2024,))
    assert carry_into(2024, results, profile_of) == Carryover(dec(700), dec(300), "profile")
    assert carry_into(2023, results, profile_of) == Carryover()
    assert carry_into(2024, results, lambda year: TaxProfile(tax_year=year)).short_term == 50_000


def test_years_without_an_income_in_the_profile_are_named() -> None:
    # 2022 lost with income, 2023 lost without any, 2024 gained without any, 2025 lost with less than the deduction.
    results = {2022: -9000, 2023: -9000, 2024: 500, 2025: -9000}
    incomes = {2022: 90_000, 2025: 5000}

    def profile_of(year: int) -> TaxProfile:
        return TaxProfile(tax_year=year, agi_estimate=dec(incomes.get(year, 0)))

    gains = {year: Gains(short_term=dec(amount)) for year, amount in results.items()}
    assert carry_into(2026, gains, profile_of).without_income == (2023, 2024)
    assert carry_into(2025, {2024: gains[2024]}, profile_of).without_income == ()
    # a year without a loss has nothing to deduct, and none is missing
    earlier = {2021: Gains(short_term=dec(500)), 2022: gains[2022]}
    assert carry_into(2023, earlier, profile_of) == Carryover(dec(6000), dec(0), "journal", ())


def test_a_stated_zero_is_a_figure_and_a_default_zero_is_none() -> None:
    results = {2024: Gains(short_term=dec(-9000))}
    zero = TaxProfile(tax_year=2025, stated=("capital_loss_carryforward",))
    assert (
        carry_into(2025, results, lambda year: zero if year == 2025 else TaxProfile(tax_year=year)).source == "profile"
    )
    assert carry_into(2025, results, lambda year: TaxProfile(tax_year=year)).short_term == 9000


def test_years_without_a_result_use_the_loss_up_too() -> None:
    results = {2022: Gains(short_term=dec(-8000))}

    def profile_of(year: int) -> TaxProfile:
        return TaxProfile(tax_year=year, agi_estimate=dec(90_000))

    left = [carry_into(year, results, profile_of).short_term for year in (2023, 2024, 2025, 2026)]
    assert left == [5000, 2000, 0, 0]
