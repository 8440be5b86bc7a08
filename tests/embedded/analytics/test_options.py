"""Options structures by name, with their risk checked by hand and against a walk over a grid of prices."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.analytics.options import OptionFill, OptionsStrategy, detect
from zorivest_rpc.embedded.analytics.payoff import PayoffLeg, payoff, value_at
from zorivest_rpc.embedded.values.answers import to_json

D = Decimal
NEAR, FAR = "260320", "260619"


def leg(text: str, number: int = 0) -> OptionFill:
    """`+2 100C 1.50` buys two calls at 1.50; a third letter F means the far expiry; `+100 S 50` is shares."""
    size, what, paid = text.split()
    quantity = D(size)
    if what == "S":
        symbol, multiplier = "XYZ", D(1)
    else:
        far = what.endswith("F")
        strike, right = (what[:-2], what[-2]) if far else (what[:-1], what[-1])
        symbol, multiplier = f"XYZ {FAR if far else NEAR} {right} {strike}", D(100)
    return OptionFill(f"{text}#{number}", symbol, 1 if quantity > 0 else -1, abs(quantity), D(paid), multiplier)


def structure(*legs: str) -> OptionsStrategy:
    return detect([leg(text, number) for number, text in enumerate(legs)])


@pytest.mark.parametrize(
    ("legs", "expected"),
    [
        # debit 3-1 = 2; width 5: at most 5-2 = 3, at worst 2; breaks even at 100+2
        (("+1 100C 3", "-1 105C 1"), ("vertical", "bull call spread", -200, 300, 200, (102,))),
        (("-1 100C 3", "+1 105C 1"), ("vertical", "bear call spread", 200, 200, 300, (102,))),
        # owning the 95 put and having sold the 100 put gains when the price rises: credit 1.5, width 5
        (("+1 95P 1", "-1 100P 2.5"), ("vertical", "bull put spread", 150, 150, 350, (98.5,))),
        (("-1 95P 1", "+1 100P 2.5"), ("vertical", "bear put spread", -150, 350, 150, (98.5,))),
        # 4 + 3 = 7 paid: 100 -+ 7; falling to zero pays 100 - 7 = 93, rising pays without limit
        (("+1 100C 4", "+1 100P 3"), ("straddle", "long straddle", -700, None, 700, (93, 107))),
        (("-1 100C 4", "-1 100P 3"), ("straddle", "short straddle", 700, 700, None, (93, 107))),
        (("+1 105C 2", "+1 95P 1"), ("strangle", "long strangle", -300, None, 300, (92, 108))),
        (("-2 105C 2", "-2 95P 1"), ("strangle", "short strangle", 600, 600, None, (92, 108))),
        # debit 1 - 2*3 + 6 = 1 for a 5 wide fly: 100*(5-1) = 400 at 100; 95+1 and 105-1
        (("+1 95C 6", "-2 100C 3", "+1 105C 1"), ("butterfly", "long call butterfly", -100, 400, 100, (96, 104))),
        (("-1 95P 1", "+2 100P 3", "-1 105P 6"), ("butterfly", "short put butterfly", 100, 100, 400, (96, 104))),
        # wings 5 and 10, no cost: below 95 nothing, above 110 the uncovered 5 lost; 500 at 100, zero again at 105
        (
            ("+1 95C 7", "-2 100C 4", "+1 110C 1"),
            ("butterfly", "long call broken-wing butterfly", 0, 500, 500, (95, 105)),
        ),
        # the credit of 2.00: 200 at best, 500 - 200 at worst, 95 - 2 and 105 + 2
        (
            ("-1 95P 2", "-1 105C 2", "+1 90P 1", "+1 110C 1"),
            ("iron_condor", "short iron condor", 200, 200, 300, (93, 107)),
        ),
        (
            ("+1 95P 2", "+1 105C 2", "-1 90P 1", "-1 110C 1"),
            ("iron_condor", "long iron condor", -200, 300, 200, (93, 107)),
        ),
        # credit 3+3-1-1 = 4, wings 5: at worst 1; 100 -+ 4
        (
            ("-1 100P 3", "-1 100C 3", "+1 95P 1", "+1 105C 1"),
            ("butterfly", "short iron butterfly", 400, 400, 100, (96, 104)),
        ),
        # 100 shares at 50, a call sold at 55 for 1.20: at most 5+1.2 = 6.2 a share, at worst 48.80 a share
        (("+100 S 50", "-1 55C 1.20"), ("custom", "covered call", -4880, 620, 4880, (48.8,))),
        # 100 shares sold at 50, a put sold at 45 for 1: at most 5+1 a share; a rise costs without limit; 50+1
        (("-100 S 50", "-1 45P 1"), ("custom", "covered put", 5100, 600, None, (51,))),
        (("+100 S 50", "+1 45P 1"), ("custom", "protective put", -5100, None, 600, (51,))),
        (("+100 S 50", "+1 45P 1", "-1 55C 1"), ("custom", "collar", -5000, 500, 500, (50,))),
        # one bought, two sold: credit 1; 5+1 = 6 at 105, then one call too many: 105+6 = 111
        (("+1 100C 3", "-2 105C 2"), ("custom", "call ratio spread", 100, 600, None, (111,))),
        # one sold at 100, two bought at 105: no cost; 5 lost at 105; even again at 110 and up to 100
        (("-1 100C 4", "+2 105C 2"), ("custom", "call backspread", 0, None, 500, (100, 110))),
        (("+1 100C 3", "-1 100P 3"), ("custom", "synthetic shares", 0, None, 10000, (100,))),
    ],
)  # fmt: skip
def test_a_structure_is_named_and_its_risk_is_right(
    legs: tuple[str, ...], expected: tuple[str, str, float, float | None, float | None, tuple[float, ...]]
) -> None:
    kind, name, cash, profit, loss, breakevens = expected
    found = structure(*legs)
    assert (found.strategy_type, found.name, found.underlying) == (kind, name, "XYZ")
    assert float(found.net_debit_credit) == cash
    assert found.max_profit == (None if profit is None else D(str(profit)))
    assert found.max_loss == (None if loss is None else D(str(loss)))
    assert found.breakeven_prices == tuple(D(str(point)) for point in breakevens)
    assert structure(*reversed(legs)).name == name


@pytest.mark.parametrize(
    ("legs", "expected"),
    [
        # alone: a put sold at 2 keeps 200, loses 9300 at zero; a call bought at 3 loses that
        (("-1 95P 2",), ("short put", 200, 200, 9300, (93,))),
        (("+1 100C 3",), ("long call", -300, None, 300, (103,))),
        (("-2 100C 3",), ("short call", 600, 600, None, (103,))),
        (("+1 100P 3",), ("long put", -300, 9700, 300, (97,))),
        # bought at 100, put 2, call 3: sold at 100 whatever happens, 1 a share earned
        (("+100 S 100", "+1 100P 2", "-1 100C 3"), ("conversion", -9900, 100, -100, ())),
        # the other way round the same loses 1 a share
        (("-100 S 100", "-1 100P 2", "+1 100C 3"), ("reversal", 9900, -100, 100, ())),
        (("+200 S 100", "+2 100P 2", "-2 100C 3"), ("conversion", -19800, 200, -200, ())),
        # strikes 10 apart pay 1000 at every price: bought for 9.50
        (("+1 95C 8", "-1 105C 2", "-1 95P 1", "+1 105P 4.5"), ("long box", -950, 50, -50, ())),
        (("-1 95C 8", "+1 105C 2", "+1 95P 1", "-1 105P 4.5"), ("short box", 950, -50, 50, ())),
        # credit 2 + 3 - 1 = 4 below a wing of 5: above 110 it loses 1, at zero 91
        (("-1 95P 2", "-1 105C 3", "+1 110C 1"), ("jade lizard", 400, 400, 9100, (91, 109))),
        (("+1 90P 1", "-1 95P 3", "-1 105C 2"), ("reverse jade lizard", 400, 400, None, (91, 109))),
        # debit 6 - 3 - 2 + 1 = 2; 5 wide on each side: 3 between 100 and 105
        (("+1 95C 6", "-1 100C 3", "-1 105C 2", "+1 110C 1"), ("long call condor", -200, 300, 200, (97, 108))),
        (("-1 95P 1", "+1 100P 2", "+1 105P 3", "-1 110P 6"), ("short put condor", 200, 200, 300, (97, 108))),
        # 1:3:2 with a gap of 10 then 5, debit 12 - 3*4 + 2*1 = 2: 8 at 105, falling by 2 to nothing at 109
        (("+1 95C 12", "-3 105C 4", "+2 110C 1"), ("long call Christmas tree", -200, 800, 200, (97, 109))),
        (("+2 90P 1", "-3 95P 4", "+1 105P 12"), ("long put Christmas tree", -200, 800, 200, (91, 103))),
        (("-1 95C 12", "+3 105C 4", "-2 110C 1"), ("short call Christmas tree", 200, 200, 800, (97, 109))),
        # 1:1:1, debit 6 - 3 - 2 = 1: 4 between 100 and 105, then falling without end through 109
        (
            ("+1 95C 6", "-1 100C 3", "-1 105C 2"),
            ("long call ladder (Christmas tree)", -100, 400, None, (96, 109)),
        ),
        (
            ("-1 95P 2", "-1 100P 3", "+1 105P 6"),
            ("long put ladder (Christmas tree)", -100, 400, 9100, (91, 104)),
        ),
    ],
)
def test_the_rarer_structures_are_named_and_their_risk_is_right(
    legs: tuple[str, ...], expected: tuple[str, int, int | None, int | None, tuple[float, ...]]
) -> None:
    name, cash, profit, loss, breakevens = expected
    found = structure(*legs)
    assert (found.strategy_type, found.name, found.confidence) == ("custom", name, 1.0)
    risk: tuple[object, ...] = (found.net_debit_credit, found.max_profit, found.max_loss)
    assert risk == (cash, profit, loss)
    assert tuple(map(float, found.breakeven_prices)) == breakevens
    assert structure(*reversed(legs)).name == name


@pytest.mark.parametrize(
    ("legs", "name", "loss"),
    [
        # 6 paid for 4 sold; at their own strikes the later options are worth at least nothing
        (("-1 95P 2", "-1 105C 2", "+1 95PF 3", "+1 105CF 3"), "long double calendar", 200),
        # two calendars of calls are two calendars
        (("-1 95C 7", "-1 105C 2", "+1 95CF 8", "+1 105CF 3"), "long double calendar", 200),
        # strikes 5 further out: 5 a share may be lost beside the debit of 1
        (("-1 95P 2", "-1 105C 2", "+1 90PF 2.5", "+1 110CF 2.5"), "long double diagonal", 600),
        # the calls are a calendar, the puts a diagonal
        (("-1 95P 2", "-1 105C 2", "+1 90PF 2", "+1 105CF 3"), "long double diagonal", 600),
        # the later expiry is sold: nothing bounds it
        (("+1 95P 2", "+1 105C 2", "-1 95PF 3", "-1 105CF 3"), "short double calendar", None),
    ],
)
def test_two_time_spreads_are_named_together(legs: tuple[str, ...], name: str, loss: int | None) -> None:
    found = structure(*legs)
    assert (found.strategy_type, found.name, found.confidence) == ("calendar", name, 1.0)
    assert (found.max_loss, found.max_profit, found.breakeven_prices) == (loss, None, ())
    assert found.reasons


@pytest.mark.parametrize(
    ("legs", "name"),
    [
        (("+100 S 100", "+1 100P 2", "-2 100C 3"), "conversion"),
        (("-1 95P 2", "-1 105C 2", "+2 95PF 3", "+2 105CF 3"), "long double calendar"),
    ],
)
def test_a_structure_of_uneven_legs_keeps_its_name_and_says_so(legs: tuple[str, ...], name: str) -> None:
    found = structure(*legs)
    assert (found.name, found.confidence) == (name, 0.7)
    assert "unequal_quantities" in found.reasons


@pytest.mark.parametrize(
    ("legs", "name"),
    [
        (("+1 95C 6", "-1 100C 3", "-1 105C 2", "+1 115C 1"), "long call broken-wing condor"),
        (("+1 95C 12", "-3 100C 4", "+2 110C 1"), "long call Christmas tree"),
    ],
)
def test_uneven_distances_make_a_name_less_sure(legs: tuple[str, ...], name: str) -> None:
    found = structure(*legs)
    assert (found.name, found.confidence) == (name, 0.9)


def test_a_collar_has_two_strikes() -> None:
    assert structure("+100 S 100", "+1 95P 2", "-1 105C 3").name == "collar"


def test_a_broken_wing_is_wider_on_one_side() -> None:
    found = structure("+1 95P 1", "-2 100P 3", "+1 110P 9")
    assert (found.strategy_type, found.name) == ("butterfly", "long put broken-wing butterfly")


@pytest.mark.parametrize(
    ("legs", "name", "loss"),
    [
        (("-1 100C 2", "+1 100CF 5"), "call calendar", 300),
        # the owned call has the better strike: not more than the debit of 4
        (("-1 105C 1", "+1 100CF 5"), "call diagonal", 400),
        # the owned call has the worse strike: credit 1 against a distance of 5
        (("-1 100C 4", "+1 105CF 3"), "call diagonal", 400),
        (("-1 100P 2", "+1 95PF 3"), "put diagonal", 600),
        # the later leg is the sold one: nothing bounds it
        (("+1 100C 2", "-1 100CF 5"), "call calendar", None),
    ],
)
def test_a_time_spread_has_a_bound_only_when_the_later_leg_is_owned(
    legs: tuple[str, ...], name: str, loss: int | None
) -> None:
    found = structure(*legs)
    assert (found.strategy_type, found.name, found.max_loss, found.max_profit) == ("calendar", name, loss, None)
    assert found.breakeven_prices == ()
    assert found.reasons


@pytest.mark.parametrize(
    "legs",
    [
        ("-1 95P 2", "-1 105C 2", "+1 95PF 3", "+2 105CF 3"),  # one call more is owned than was sold
        ("-1 95P 2", "-2 105C 2", "+1 95PF 3", "+1 105CF 3"),  # one fewer
        ("-2 95P 2", "-1 105C 2", "+1 95PF 3", "+1 105CF 3"),
        ("-1 100C 2", "+2 100CF 5"),
    ],
)
def test_later_legs_that_do_not_cover_the_earlier_ones_bound_nothing(legs: tuple[str, ...]) -> None:
    found = structure(*legs)
    assert (found.max_loss, found.max_profit) == (None, None)
    assert {"unequal_quantities", "risk_not_computed"} <= set(found.reasons)


def test_a_time_spread_of_several_contracts_is_bounded_by_all_of_them() -> None:
    # 3 * 100 * (5 - 2) = 900
    assert structure("-3 100C 2", "+3 100CF 5").max_loss == D(900)


def test_later_contracts_of_another_size_do_not_cover() -> None:
    mini = OptionFill("E2", f"XYZ {FAR} C 100", 1, D(1), D(5), D(10))
    assert detect([leg("-1 100C 2"), mini]).max_loss is None


def test_the_bought_leg_of_a_contract_comes_first() -> None:
    found = structure("-1 100C 4", "+1 100C 3", "+1 95C 7")
    assert [(one.strike, one.side) for one in found.legs] == [(D(100), "BOT"), (D(100), "SLD"), (D(95), "BOT")]


@pytest.mark.parametrize(
    ("legs", "name", "reasons"),
    [
        (("+1 100C 3", "-2 105C 2"), "call ratio spread", {"ratio", "unequal_quantities"}),
        (("+1 100C 3", "+1 105C 2"), "unknown", {"no_known_structure"}),  # two calls bought
        (("+1 100C 3", "+1 105CF 5"), "unknown", {"no_known_structure"}),  # at two expiries
        (("+1 100C 3", "+1 95PF 5"), "unknown", {"no_known_structure"}),
        (("-1 100C 3", "+1 95PF 5"), "unknown", {"no_known_structure"}),
        (("+1 105C 1", "-1 95P 1"), "risk reversal", set()),
        (("+1 95C 7", "+1 105P 7"), "long guts", set()),
        (("+2 105C 2", "+1 95P 1"), "long strangle", {"unequal_quantities"}),
        (("-2 100C 4", "-1 100P 3"), "short straddle", {"unequal_quantities"}),
        (("+2 105C 1", "-1 95P 1"), "risk reversal", {"unequal_quantities"}),
    ],
)
def test_two_legs_are_named_with_what_is_odd_about_them(legs: tuple[str, ...], name: str, reasons: set[str]) -> None:
    risk = {"unlimited_profit", "unlimited_loss", "risk_not_computed"}
    for ordered in (legs, tuple(reversed(legs))):
        found = structure(*ordered)
        assert (found.name, set(found.reasons) - risk) == (name, reasons)


def test_fills_of_one_contract_and_side_make_one_leg_at_their_average_price() -> None:
    # (1*3.00 + 3*3.20)/4 = 3.15
    found = structure("+1 100C 3", "+3 100C 3.20", "-4 105C 1")
    assert found.name == "bull call spread"
    long, short = found.legs
    assert (long.quantity, long.price, len(long.exec_ids), long.side) == (D(4), D("3.15"), 2, "BOT")
    assert (short.quantity, short.strike, short.side) == (D(4), D(105), "SLD")
    assert found.net_debit_credit == D("-860.00")  # (-12.60 + 4)*100


def test_a_leg_that_was_closed_again_leaves_its_money_only() -> None:
    # a condor whose put side was bought back for 0.50: a bear call spread with the rest of the credit
    found = structure("-1 95P 2", "-1 105C 2", "+1 90P 1", "+1 110C 1", "+1 95P 1", "-1 90P 0.50")
    assert (found.name, found.net_debit_credit, found.max_loss) == ("bear call spread", D(150), D(350))
    assert len(found.legs) == 6


def test_a_closed_position_has_its_result_at_every_price() -> None:
    found = structure("+1 100C 3", "-1 100C 4")
    assert (found.name, found.max_profit, found.max_loss) == ("closed position", D(100), D(-100))
    assert found.breakeven_prices == ()


@pytest.mark.parametrize(
    ("legs", "reason"),
    [
        (("+1 95P 2", "-1 105C 2", "-1 90P 1"), "incomplete"),
        (("-1 95P 2", "-1 95C 2", "+1 100C 1"), "incomplete"),
        (("-1 95P 2", "-1 105C 2", "+2 110C 1"), "no_known_structure"),
        (("-1 95P 2", "-1 105C 2", "+1 110CF 1"), "several_expiries"),
        (("+1 95C 6", "-3 105C 3", "+1 110C 1"), "unequal_quantities"),
        (("+1 95P 2", "-3 105P 3", "+2 110P 1"), "unequal_quantities"),
        (("+1 95C 6", "-1 100C 3", "-2 105C 2"), "no_known_structure"),
        (("-1 95C 6", "-1 100C 3", "+1 105C 2"), "no_known_structure"),
        (("+1 95C 6", "-2 100C 3", "-2 105C 2", "+1 110C 1"), "unequal_quantities"),
        (("+1 95C 6", "-1 100C 3", "+1 105C 2", "-1 110C 1"), "no_known_structure"),
        (("+1 95C 8", "-1 105C 2", "-1 95P 1", "+2 105P 6"), "unequal_quantities"),
        (("+1 95C 8", "+1 105C 2", "-1 95P 1", "-1 105P 6"), "no_known_structure"),
        (("-1 95P 2", "+1 105C 2", "+1 95PF 3", "-1 105CF 3"), "several_expiries"),
        (("-1 95P 2", "-1 105C 2", "+1 95CF 3", "+1 105CF 3"), "several_expiries"),
        (("-1 95P 2", "-2 105C 2", "+1 90P 1", "+2 110C 1"), "unequal_quantities"),
        (("-1 95P 2", "-1 105C 2", "+1 90P 1", "+1 110CF 1"), "several_expiries"),
        (("+1 95C 6", "-3 100C 3", "+1 105C 1"), "unequal_quantities"),
        (("+100 S 50", "-2 55C 1"), "partly_covered"),
        (("+1 95C 6", "+1 100C 3", "+1 105C 1", "+1 110C 1", "+1 115C 1"), "more_than_four_legs"),
    ],
)
def test_a_set_that_fits_nothing_is_custom_and_says_why(legs: tuple[str, ...], reason: str) -> None:
    found = structure(*legs)
    assert found.strategy_type == "custom"
    assert reason in found.reasons
    assert found.confidence < 1


def test_legs_of_two_underlyings_have_no_common_risk() -> None:
    other = OptionFill("E2", "ABC 260320 C 105", -1, D(1), D(1), D(100))
    found = detect([leg("+1 100C 3"), other])
    assert (found.strategy_type, found.underlying, found.max_profit, found.max_loss) == ("custom", None, None, None)
    assert "different_underlyings" in found.reasons


def test_the_answer_is_plain_json() -> None:
    shown = to_json(structure("+1 100C 3", "-1 105C 1"))
    assert shown["legs"][0] == {
        "exec_ids": ["+1 100C 3#0"], "symbol": "XYZ 260320 C 100", "right": "C", "strike": 100,
        "expiry": "2026-03-20", "side": "BOT", "quantity": 1, "price": 3,
    }  # fmt: skip
    assert (shown["breakeven_prices"], shown["confidence"], shown["reasons"]) == ([102], 1.0, [])


def test_a_fraction_of_a_share_is_unlimited_too() -> None:
    found = payoff([PayoffLeg("S", D(0), D("0.5"))], D(-10))
    assert (found.max_profit, found.max_loss, found.breakevens) == (None, D(10), (D(20),))
    sold = payoff([PayoffLeg("S", D(0), D("-0.5"))], D(10))
    assert (sold.max_profit, sold.max_loss, sold.breakevens) == (D(10), None, (D(20),))


legs_at_random = st.lists(
    st.builds(
        PayoffLeg,
        st.sampled_from(["C", "P", "S"]),
        st.integers(1, 12).map(lambda n: D(n * 5)),
        st.integers(-3, 3).filter(bool).map(lambda n: D(n * 100)),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=200)
@given(legs_at_random, st.integers(-5000, 5000).map(D))
def test_the_risk_agrees_with_a_walk_over_a_grid_of_prices(legs: list[PayoffLeg], cash: Decimal) -> None:
    found = payoff(legs, cash)
    # every dollar up to far above the last strike, which holds all the bends, and one price very far out
    grid = [D(n) for n in range(201)]
    values = [value_at(legs, cash, point) for point in grid]
    far = value_at(legs, cash, D(10**6))
    if found.max_profit is None:
        assert far > max(values)
    else:
        assert max(*values, far) == found.max_profit
    if found.max_loss is None:
        assert far < min(values)
    else:
        assert min(*values, far) == -found.max_loss
    for zero in found.breakevens:
        assert abs(value_at(legs, cash, zero)) < D("1e-40")
    points, results = [*grid, D(10**6)], [*values, far]
    for (left, low), (right, high) in zip(
        zip(points, results, strict=True), list(zip(points, results, strict=True))[1:], strict=False
    ):
        if low * high < 0:
            assert any(left < zero < right for zero in found.breakevens)
        if low == 0 != high and left > 0:
            assert any(abs(zero - left) < D("1e-40") for zero in found.breakevens)
