"""The annual estimate: tables, brackets, stacking, netting, NIIT; the arithmetic stands beside each assertion."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tests.embedded.tax.fills import book_of, buy, dec, decs, deliver, sell
from zorivest_rpc.embedded.tax import brackets
from zorivest_rpc.embedded.tax.estimate import annual_estimate, estimate_gains, federal_total, net_of, niit, year_gains
from zorivest_rpc.embedded.tax.law import federal, federal_years, penalty_rates, replacements, statute
from zorivest_rpc.embedded.tax.model import DISCLAIMER, AccountTraits, FilingStatus, Price, TaxProfile, parse
from zorivest_rpc.embedded.tax.netting import Gains, gains_of, net
from zorivest_rpc.embedded.values.kinds import AssetClass

ZERO = Decimal(0)
SINGLE, JOINT = FilingStatus.SINGLE, FilingStatus.MARRIED_JOINT
SEPARATE, HEAD = FilingStatus.MARRIED_SEPARATE, FilingStatus.HEAD_OF_HOUSEHOLD


def profile(**rest: Any) -> TaxProfile:
    return TaxProfile(**{"tax_year": 2026, "agi_estimate": dec(100000), **rest})


def gains(short: int | str = 0, long: int | str = 0, ordinary: int | str = 0) -> Gains:
    return Gains(dec(short), dec(long), dec(ordinary))


# --- tables -------------------------------------------------------------------------------------------------------


def test_every_year_has_every_status_with_rising_brackets_and_a_source() -> None:
    assert federal_years() == (2024, 2025, 2026)
    for year in federal_years():
        table = federal(year)
        assert table.year == year
        assert "Rev. Proc." in table.source
        for status in FilingStatus:
            rows = table.of(status)
            for bounds, count in ((rows.ordinary_brackets(), 7), (rows.long_term_brackets(), 3)):
                assert len(bounds) == count
                assert [bracket.start for bracket in bounds] == sorted({bracket.start for bracket in bounds})
                assert [bracket.rate for bracket in bounds] == sorted({bracket.rate for bracket in bounds})
                assert bounds[-1].end is None


@pytest.mark.parametrize("year", [2024, 2025, 2026])
def test_separate_returns_halve_the_joint_brackets_and_the_deduction(year: int) -> None:
    # §1(j)(2)(D), §63(c)(2): separate is half of joint; the 20 % bound is half, rounded down to the next 50.
    joint, separate = federal(year).of(JOINT), federal(year).of(SEPARATE)
    assert [2 * b.start for b in separate.ordinary_brackets()] == [b.start for b in joint.ordinary_brackets()]
    assert 2 * separate.standard_deduction == joint.standard_deduction
    last = joint.long_term_brackets()[2].start / 2
    assert separate.long_term_brackets()[2].start == last - last % 50


def test_a_year_without_a_table_uses_the_nearest_and_says_so() -> None:
    estimate = estimate_gains(profile(tax_year=2031), gains(1000))
    assert (estimate.brackets_year, estimate.brackets_projected) == (2026, True)
    assert estimate.notes == ("No tax tables for 2031; those of 2026 were used.",)
    assert federal(2019).year == 2024


def test_fixed_figures_name_their_source() -> None:
    assert "1411" in statute().source
    assert all(rate.source for rate in penalty_rates())
    assert replacements().of("SPLG") == ("VOO", "IVV", "SPY", "VV", "SCHX")
    assert replacements().of("ACME") == ()


# --- ordinary tax and stacking ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("year", "status", "income", "tax"),
    [
        # 2026 single: 12400 × 10 % + 38000 × 12 % + 49600 × 22 % = 1240 + 4560 + 10912
        (2026, SINGLE, 100000, "16712.00"),
        (2026, SINGLE, 83900, "13170.00"),  # 1240 + 4560 + 33500 × 22 % (7370)
        # 2024 single: 1160 + 35550 × 12 % (4266) + 52850 × 22 % (11627)
        (2024, SINGLE, 100000, "17053.00"),
        # 2025 joint: 2385 + 73100 × 12 % (8772) + 103050 × 22 % (22671)
        (2025, JOINT, 200000, "33828.00"),
        # 2026 head: 1770 + 49750 × 12 % (5970) + 38250 × 22 % (8415) + 44300 × 24 % (10632)
        (2026, HEAD, 150000, "26787.00"),
        # 2026 separate: 1240 + 4560 + 12166 + 96075 × 24 % (23058) + 54450 × 32 % (17424) + 128125 × 35 % (44843.75)
        #   + 15650 × 37 % (5790.50)
        (2026, SEPARATE, 400000, "109082.25"),
        (2026, SINGLE, 0, "0.00"),
    ],
)
def test_ordinary_tax_follows_the_schedule(year: int, status: FilingStatus, income: int, tax: str) -> None:
    assert brackets.ordinary_tax(federal(year).of(status), dec(income)) == dec(tax)


@pytest.mark.parametrize(
    ("status", "below", "gain", "tax"),
    [
        # 49450 − 40000 = 9450 at 0 %, 10550 at 15 %
        (SINGLE, 40000, 20000, "1582.50"),
        (SINGLE, 0, 49450, "0.00"),
        # 545500 − 500000 = 45500 at 15 % (6825), 54500 at 20 % (10900)
        (SINGLE, 500000, 100000, "17725.00"),
        # joint: 98900 at 0 %, 514800 at 15 % (77220), 86300 at 20 % (17260)
        (JOINT, 0, 700000, "94480.00"),
    ],
)
def test_long_term_gains_are_stacked_on_ordinary_income(status: FilingStatus, below: int, gain: int, tax: str) -> None:
    # §1(h)
    assert brackets.long_term_tax(federal(2026).of(status), dec(below), dec(gain)) == dec(tax)


def test_the_reference_estimate() -> None:
    # O = 100000 − 16100 = 83900; 10000 × 22 %; 20000 × 15 % (93900 to 113900 is inside the 15 % band).
    estimate = estimate_gains(profile(), gains(10000, 20000))
    federal_part = estimate.federal_estimate
    assert (federal_part.ordinary_increment, federal_part.long_term, federal_part.niit) == decs(2200, 3000, 0)
    assert (federal_part.total, estimate.total_estimated_tax) == (dec(5200), dec(5200))
    assert estimate.effective_rate == dec("0.1733")  # 5200 / 30000
    assert (federal_part.marginal_rate, federal_part.long_term_rate) == (dec("0.22"), dec("0.15"))
    assert [(row.kind, row.rate, row.amount, row.tax) for row in federal_part.bracket_breakdown] == [
        ("ordinary", dec("0.22"), dec(10000), dec(2200)),
        ("long_term", dec("0.15"), dec(20000), dec(3000)),
    ]
    assert estimate.disclaimer == DISCLAIMER


def test_a_gain_that_crosses_a_bracket_is_taxed_on_both_sides() -> None:
    # 83900 + 30000 = 113900: 21800 × 22 % (4796) + 8200 × 24 % (1968).
    assert estimate_gains(profile(), gains(30000)).federal_estimate.ordinary_increment == 6764


def test_the_deduction_other_income_leaves_shelters_gains() -> None:
    # AGI 6100 uses 6100 of 16100; the other 10000 shelter 4000 short-term, then 6000 of 60000 long-term.
    # 54000 of long-term gain from 0: 49450 at 0 %, 4550 × 15 %.
    estimate = estimate_gains(profile(agi_estimate=dec(6100)), gains(4000, 60000))
    assert (estimate.federal_estimate.ordinary_increment, estimate.federal_estimate.long_term) == decs(0, "682.50")


# --- netting and the loss limit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "deducted", "carried"), [(SINGLE, 3000, 2000), (JOINT, 3000, 2000), (SEPARATE, 1500, 3500)]
)
def test_a_net_loss_is_deducted_up_to_the_limit_and_the_rest_carries(
    status: FilingStatus, deducted: int, carried: int
) -> None:
    # §1211(b), §1212(b): net −5000
    result = net(gains(-5000), status)
    assert (result.deductible_loss, result.carryforward_st, result.carryforward_lt) == decs(deducted, carried, 0)


@pytest.mark.parametrize(
    ("short", "long", "expected"),
    [
        # (taxed short, taxed long, deducted, carried short, carried long)
        (10000, 20000, (10000, 20000, 0, 0, 0)),
        (-4000, 10000, (0, 6000, 0, 0, 0)),
        (10000, -4000, (6000, 0, 0, 0, 0)),
        (-10000, 4000, (0, 0, 3000, 3000, 0)),
        (4000, -10000, (0, 0, 3000, 0, 3000)),
        (-2000, -5000, (0, 0, 3000, 0, 4000)),  # the short-term loss is used first
        (-1000, -500, (0, 0, 1500, 0, 0)),
    ],
)
def test_terms_are_netted_with_each_other(short: int, long: int, expected: tuple[int, ...]) -> None:
    # §1222(5)-(11)
    result = net(gains(short, long), SINGLE)
    assert (
        result.short_term,
        result.long_term,
        result.deductible_loss,
        result.carryforward_st,
        result.carryforward_lt,
    ) == decs(*expected)


def test_carryforwards_keep_their_character() -> None:
    # short: 5000 − 8000 = −3000; long: 10000 − 1000 = 9000; together 6000 long-term.
    result = net(gains(5000, 10000), SINGLE, carry_st=dec(8000), carry_lt=dec(1000))
    assert (result.short_term, result.long_term, result.deductible_loss) == decs(0, 6000, 0)


def test_a_deductible_loss_lowers_the_tax_on_other_income() -> None:
    # 3000 × 22 % saved; 2000 left for next year.
    estimate = estimate_gains(profile(), gains(-5000))
    assert estimate.federal_estimate.ordinary_increment == -660
    assert estimate.realized_gains.carryforward_st == 2000
    assert estimate.effective_rate is UNSET


# --- NIIT, state, 475, 1256 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "magi", "income", "tax"),
    [
        (SINGLE, 230000, 50000, "1140.00"),  # 3.8 % × 30000
        (SINGLE, 300000, 50000, "1900.00"),  # 3.8 % × 50000
        (JOINT, 250000, 50000, "0.00"),
        (SEPARATE, 130000, 50000, "190.00"),  # 3.8 % × 5000
        (HEAD, 200001, 50000, "0.04"),  # 3.8 cents
        (SINGLE, 300000, -50000, "0.00"),
    ],
)
def test_net_investment_income_tax_is_on_the_smaller_amount(
    status: FilingStatus, magi: int, income: int, tax: str
) -> None:
    # §1411(a)(1)
    assert niit(status, dec(magi), dec(income)) == dec(tax)


def test_the_estimate_adds_niit_and_warns_from_nine_tenths_of_the_threshold() -> None:
    # MAGI 180000 + 50000 = 230000: 1140.
    assert estimate_gains(profile(agi_estimate=dec(180000)), gains(long=50000)).federal_estimate.niit == 1140
    assert estimate_gains(profile(agi_estimate=dec(170000)), gains(10000)).federal_estimate.niit_alert
    assert not estimate_gains(profile(agi_estimate=dec(169000)), gains(10000)).federal_estimate.niit_alert


def test_the_state_takes_a_flat_rate_of_what_is_left_after_netting() -> None:
    # 5 % × (10000 − 4000) = 300.
    estimate = estimate_gains(profile(state="CO", state_tax_rate=dec("0.05")), gains(-4000, 10000))
    assert estimate.state_estimate == 300
    assert estimate_gains(profile(), gains(10000)).state_estimate is UNSET
    assert estimate_gains(profile(state="TX"), gains(10000)).state_estimate == 0
    assert estimate_gains(profile(state_tax_rate=dec("0.03")), gains(10000)).state_estimate == 300


def test_the_effective_rate_is_of_what_is_left_after_old_losses() -> None:
    # 10000 − 1000 − 2000 = 7000 short-term at 22 %: 1540 of 7000.
    carried = {"capital_loss_carryforward": dec(1000), "capital_loss_carryforward_lt": dec(2000)}
    estimate = estimate_gains(profile(**carried), gains(10000))
    assert (estimate.total_estimated_tax, estimate.effective_rate) == decs(1540, "0.2200")
    assert estimate_gains(profile(**carried), gains(3000)).effective_rate is UNSET


def test_an_income_of_nothing_is_told_and_any_other_is_not() -> None:
    told = "The profile names no other income, so the gains are taxed from the lowest bracket up."
    assert estimate_gains(profile(agi_estimate=ZERO), gains(1000)).notes == (told,)
    assert estimate_gains(profile(agi_estimate=dec(1)), gains(1000)).notes == ()


def test_a_mark_to_market_trader_has_ordinary_results_without_a_loss_limit() -> None:
    # §475(f): −20000 from 83900: 20000 × 22 % = 4400 saved, nothing carried.
    book = book_of(buy("ACME", 1000, 50, "2025-01-06"), sell("ACME", 1000, 30, "2026-02-02"))
    trader = profile(section_475_elected=True)
    estimate = annual_estimate(book.lots, trader, {})
    assert estimate.federal_estimate.ordinary_increment == -4400
    assert (estimate.realized_gains.ordinary, estimate.realized_gains.carryforward_lt) == decs(-20000, 0)


def test_an_ordinary_loss_beyond_other_income_shelters_long_term_gains() -> None:
    # O = 30000, ordinary −50000: 20000 left over; 100000 − 20000 = 80000 from zero: 30550 × 15 %.
    estimate = estimate_gains(profile(agi_estimate=dec(46100)), gains(0, 100000, -50000))
    assert estimate.federal_estimate.long_term == dec("4582.50")


def test_old_capital_losses_lower_a_traders_ordinary_income_by_the_limit_only() -> None:
    # 10000 − 3000 = 7000; MAGI 195000 + 7000 = 202000: NIIT 3.8 % × 2000 = 76; 2000 of the 5000 stay capital losses.
    trader = profile(agi_estimate=dec(195000), capital_loss_carryforward=dec(5000))
    estimate = estimate_gains(trader, gains(ordinary=10000))
    assert (estimate.federal_estimate.niit, estimate.realized_gains.carryforward_st) == decs(76, 2000)


def test_a_traders_ordinary_result_is_income_that_absorbs_old_losses() -> None:
    # Taxable before the deduction of 3000: 10000 + 8000 − 16100 = 1900 uses 1900 of the 5000; a loss leaves no income.
    trader = profile(agi_estimate=dec(10000), capital_loss_carryforward=dec(5000))
    table = federal(2026).of(SINGLE)
    assert table.standard_deduction == 16100
    assert net_of(trader, gains(ordinary=8000)).carryforward_st == 3100
    assert net_of(trader, gains(ordinary=-8000)).carryforward_st == 5000


@pytest.mark.parametrize(("eligible", "short", "long"), [(True, 4000, 6000), (False, 10000, 0)])
def test_section_1256_contracts_are_sixty_forty(eligible: bool, short: int, long: int) -> None:
    # §1256(a)(3): a futures gain of 10000 in a month: 6000 long-term, 4000 short-term.
    future: dict[str, Any] = {"asset_class": AssetClass.FUTURE, "multiplier": dec(50)}
    book = book_of(buy("ES 03-26", 2, 6000, "2026-01-05", **future), sell("ES 03-26", 2, 6100, "2026-02-02", **future))
    found = gains_of(book.closed_lots, profile(section_1256_eligible=eligible))
    assert (found.short_term, found.long_term) == decs(short, long)


# --- from lots ----------------------------------------------------------------------------------------------------


def test_only_lots_closed_in_the_year_in_taxable_accounts_count() -> None:
    book = book_of(
        buy("ACME", 30, 10, "2024-01-08"),
        sell("ACME", 10, 11, "2025-12-31"),
        sell("ACME", 10, 20, "2026-01-02"),
        sell("ACME", 10, 30, "2027-01-04"),
        buy("ACME", 10, 10, "2024-01-09", account_id="IRA"),
        sell("ACME", 10, 99, "2026-01-05", account_id="IRA"),
        buy("BETA", 10, 10, "2026-03-02", account_id="B"),
        sell("BETA", 10, 15, "2026-03-03", account_id="B"),
    )
    accounts = {"IRA": AccountTraits(tax_advantaged=True)}
    assert year_gains(book.lots, profile(), accounts) == gains(50, 100)
    assert year_gains(book.lots, profile(), accounts, account_id="B") == gains(50)
    assert year_gains(book.lots, profile(), accounts, until=date(2026, 2, 1)) == gains(0, 100)


def test_an_exercised_option_leaves_its_result_to_the_shares() -> None:
    call = "ACME 260619 C 50"
    book = book_of(buy(call, 1, 3, "2026-01-05", asset_class=AssetClass.OPTION), deliver(call, 1, "2026-06-19"))
    assert year_gains(book.lots, profile(), {}) == Gains()


def test_unrealised_gains_are_shown_beside_the_estimate() -> None:
    # realised 10000 short: 2200. Open: 100 × (150 − 50) = 10000 long-term × 15 % = 1500 more.
    book = book_of(
        buy("ACME", 100, 50, "2024-01-08"),
        buy("BETA", 100, 50, "2026-01-05"),
        sell("BETA", 100, 150, "2026-02-02"),
        buy("NOPRICE", 1, 1, "2026-02-03"),
    )
    estimate = annual_estimate(book.lots, profile(), {}, prices={"ACME": Price(price=dec(150))}, today=date(2026, 6, 1))
    assert estimate.total_estimated_tax == 2200
    assert estimate.unrealized is not UNSET
    assert (estimate.unrealized.long_term, estimate.unrealized.additional_tax) == decs(10000, 1500)
    assert estimate.unrealized.skipped_tickers == ("NOPRICE",)
    assert estimate.unrealized.disallowed_loss == 0


def test_a_loss_on_paper_that_another_account_would_take_over_is_told() -> None:
    # 100 held in A at a loss of 10 each; 40 bought in B twelve days ago are not sold with them: 400 are disallowed.
    book = book_of(buy("ACME", 100, 50, "2024-01-08"), buy("ACME", 40, 41, "2026-05-20", account_id="B"))
    prices = {"ACME": Price(price=dec(40))}
    estimate = annual_estimate(book.lots, profile(), {}, account_id="A", prices=prices, today=date(2026, 6, 1))
    assert estimate.unrealized is not UNSET
    shown = (estimate.unrealized.net, estimate.unrealized.long_term, estimate.unrealized.disallowed_loss)
    assert shown == decs(-600, -600, 400)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("married_filing_jointly", JOINT),
        ("married_joint", JOINT),
        ("MARRIED_SEPARATE", SEPARATE),
        ("head_of_household", HEAD),
        ("Single", SINGLE),
    ],
)
def test_filing_status_is_read_in_every_spelling(text: str, status: FilingStatus) -> None:
    assert parse(FilingStatus, text) is status


# --- properties ---------------------------------------------------------------------------------------------------

amounts = st.integers(-90_000_000, 90_000_000).map(lambda cents: Decimal(cents) / 100)
profiles = st.builds(
    TaxProfile,
    tax_year=st.integers(2023, 2028),
    filing_status=st.sampled_from(FilingStatus),
    agi_estimate=st.integers(0, 700_000).map(Decimal),
    state_tax_rate=st.integers(0, 13).map(lambda percent: Decimal(percent) / 100),
    capital_loss_carryforward=st.integers(0, 50_000).map(Decimal),
    capital_loss_carryforward_lt=st.integers(0, 50_000).map(Decimal),
)
MANY = settings(deadline=None, max_examples=150)


increases = st.sampled_from([Gains(dec(1)), Gains(ZERO, dec(1)), Gains(ZERO, ZERO, dec(1))])


@MANY
@given(profiles, st.builds(Gains, amounts, amounts, amounts), increases, st.integers(0, 300_000).map(Decimal))
def test_more_gain_never_means_less_tax(who: TaxProfile, before: Gains, kind: Gains, more: Decimal) -> None:
    after = before + kind.times(more)
    assert estimate_gains(who, before).total_estimated_tax <= estimate_gains(who, after).total_estimated_tax
    assert federal_total(who, before) <= federal_total(who, after)


@MANY
@given(profiles, amounts, amounts)
def test_netting_neither_makes_nor_loses_a_dollar(who: TaxProfile, short: Decimal, long: Decimal) -> None:
    carry = (who.capital_loss_carryforward, who.capital_loss_carryforward_lt)
    result = net(Gains(short, long), who.filing_status, carry_st=carry[0], carry_lt=carry[1])
    taxed = result.short_term + result.long_term
    left = result.deductible_loss + result.carryforward_st + result.carryforward_lt
    assert taxed - left == short + long - carry[0] - carry[1]
    assert min(taxed, left) == 0


@MANY
@given(profiles, st.integers(0, 900_000).map(Decimal), st.integers(0, 900_000).map(Decimal))
def test_the_breakdown_adds_up_and_long_term_never_costs_more_than_short_term(
    who: TaxProfile, one: Decimal, two: Decimal
) -> None:
    estimate = estimate_gains(who, Gains(one, two)).federal_estimate
    rows = sum((row.tax for row in estimate.bracket_breakdown), ZERO)
    assert abs(rows - estimate.ordinary_increment - estimate.long_term) <= Decimal("0.05")
    assert estimate.total == estimate.ordinary_increment + estimate.long_term + estimate.niit
    short, long = estimate_gains(who, Gains(one)), estimate_gains(who, Gains(ZERO, one))
    assert long.total_estimated_tax <= short.total_estimated_tax


@MANY
@given(st.permutations(range(8)))
def test_the_order_of_lots_never_changes_the_estimate(order: list[int]) -> None:
    fills = []
    for n in range(8):
        fills += [
            buy(f"S{n}", 10 + n, 20 + n, f"202{4 + n % 2}-01-{10 + n}", exec_id=f"b{n}"),
            sell(f"S{n}", 10 + n, 15 + 3 * n, f"2026-02-{10 + n}", exec_id=f"s{n}"),
        ]
    lots = book_of(*fills).closed_lots
    shuffled = [lots[n] for n in order]
    assert annual_estimate(shuffled, profile(), {}) == annual_estimate(lots, profile(), {})
