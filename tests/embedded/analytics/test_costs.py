"""Fees, execution marks and routing estimates, with the arithmetic beside them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.analytics.excursion import Bar
from zorivest_rpc.embedded.analytics.execution_quality import (
    BidAsk,
    grade_of,
    in_regular_hours,
    score_execution,
)
from zorivest_rpc.embedded.analytics.fees import (
    Charge,
    FeeBreakdown,
    TradeCharges,
    charges_of,
    estimate_regulatory,
    fee_breakdown,
)
from zorivest_rpc.embedded.analytics.pfof import (
    RoutingType,
    RoutingVolume,
    cost_of_free,
    pfof_report,
    routing_of,
)
from zorivest_rpc.embedded.analytics.positions import Execution, Sign
from zorivest_rpc.embedded.values.answers import to_json
from zorivest_rpc.embedded.values.kinds import AssetClass

D = Decimal
NOON = datetime(2026, 3, 2, 17, 0, tzinfo=UTC)  # Monday noon in New York


def test_fees_are_summed_by_kind_and_by_broker() -> None:
    # 2.00 + 1.00 commission, 0.50 exchange, 10 platform: 13.50 in all; 3/13.5 = 22.22 %, 0.5/13.5 = 3.70 %
    # over 3 executions 4.50 each; of a gross result of -270 it is 5 %
    charges = [
        Charge("commission", D("2.00"), "ibkr_pro"),
        Charge("commission", D("1.00"), "webull"),
        Charge("exchange", D("0.50"), "ibkr_pro", is_estimated=True),
        Charge("platform", D("10")),
    ]
    shown = to_json(fee_breakdown(charges, trade_count=3, gross_pnl=D(-270), account_id="A1"))
    assert shown == {
        "period": "ytd",
        "account_id": "A1",
        "total_fees": 13.5,
        "by_type": [
            {"fee_type": "platform", "amount": 10, "pct": 74.07, "is_estimated": False},
            {"fee_type": "commission", "amount": 3, "pct": 22.22, "is_estimated": False},
            {"fee_type": "exchange", "amount": 0.5, "pct": 3.7, "is_estimated": True},
        ],
        "by_broker": [
            {"broker_id": "(unassigned)", "amount": 10},
            {"broker_id": "ibkr_pro", "amount": 2.5},
            {"broker_id": "webull", "amount": 1},
        ],
        "trade_count": 3,
        "avg_fee_per_trade": 4.5,
        "pct_of_gross_pnl": 5,
        "pnl_pct": 5,
    }


def test_an_execution_without_a_ledger_counts_its_two_totals() -> None:
    plain = charges_of(TradeCharges(D("1.50"), D("0.03"), "webull"))
    assert [(charge.fee_type, charge.amount, charge.broker_id) for charge in plain] == [
        ("commission", D("1.50"), "webull"), ("other", D("0.03"), "webull"),
    ]  # fmt: skip
    rows = (Charge("ecn", D("1.53")),)
    assert charges_of(TradeCharges(D("1.50"), D("0.03"), "webull", rows)) == rows
    assert charges_of(TradeCharges(D(0), D(0))) == ()


def test_no_executions_give_zeros_and_a_hint() -> None:
    shown = to_json(fee_breakdown([], trade_count=0, gross_pnl=D(0)))
    assert (shown["total_fees"], shown["by_type"], shown["avg_fee_per_trade"]) == (0, [], 0)
    assert shown["pct_of_gross_pnl"] is None
    assert "create_trade" in shown["hint"]


charge_rows = st.lists(
    st.builds(
        Charge,
        st.sampled_from(["commission", "exchange", "other"]),
        st.integers(0, 10_000).map(lambda n: D(n).scaleb(-2)),
        st.sampled_from([None, "webull", "schwab"]),
    )
)


@settings(deadline=None, max_examples=100)
@given(charge_rows)
def test_the_kinds_and_the_brokers_each_sum_to_the_total(charges: list[Charge]) -> None:
    found = fee_breakdown(charges, trade_count=len(charges), gross_pnl=D(1))
    assert sum((line.amount for line in found.by_type), D(0)) == found.total_fees
    assert sum((line.amount for line in found.by_broker), D(0)) == found.total_fees


def test_regulatory_fees_fall_on_sales_only_and_round_up() -> None:
    # 1000 shares at 50 sold in 2024: 50000*27.80/million = 1.39; 1000*0.000166 = 0.166 -> 0.17
    found = estimate_regulatory(-1, D(1000), D(50), date(2024, 6, 3))
    assert (found.sec, found.taf, found.total) == (D("1.39"), D("0.17"), D("1.56"))
    assert estimate_regulatory(1, D(1000), D(50), date(2024, 6, 3)).total == 0


def test_the_sec_fee_was_zero_from_the_middle_of_may_2025() -> None:
    assert estimate_regulatory(-1, D(1000), D(50), date(2025, 5, 13)).sec == D("1.39")
    assert estimate_regulatory(-1, D(1000), D(50), date(2025, 5, 14)).sec == 0


def test_the_activity_fee_has_a_cap() -> None:
    assert estimate_regulatory(-1, D(1_000_000), D(1), date(2025, 6, 2)).taf == D("8.30")
    assert estimate_regulatory(-1, D(1_000_000), D(1), date(2026, 6, 2)).taf == D("9.79")


def test_a_day_without_a_known_rate_has_no_fee() -> None:
    found = estimate_regulatory(-1, D(1000), D(50), date(2019, 1, 2))
    assert (found.sec, found.taf, found.total) == (None, None, D(0))


def fill(side: Sign, price: str, quantity: str = "100", moment: datetime = NOON, number: int = 1) -> Execution:
    return Execution(f"E{number}", "A1", "XYZ", moment, side, D(quantity), D(price))


def test_a_buy_inside_the_spread_is_an_improvement() -> None:
    # bid 99.98, ask 100.02, bought at 100.00: 0.02 better than the ask = -2 bps; exactly the midpoint
    found = score_execution([fill(1, "100.00")], AssetClass.EQUITY, quote=BidAsk(D("99.98"), D("100.02")))
    assert (found.grade, found.score, found.slippage_bps) == ("A", D(100), D(-2))
    assert (found.price_improvement, found.effective_spread, found.vs_midpoint) == (D("0.02"), D(0), D(0))
    assert (found.nbbo_available, found.benchmark, found.confidence) == (True, "nbbo", "high")


def test_a_sale_below_the_bid_loses_ten_points_a_basis_point() -> None:
    # bid 100.00, sold at 99.97: 0.03/99.97 = 3.0009 bps; 100 - 30.009 = 69.99: D
    found = score_execution([fill(-1, "99.97")], AssetClass.EQUITY, quote=BidAsk(D("100.00"), D("100.04")))
    assert (found.score, found.grade, found.slippage_bps) == (D("69.99"), "D", D("3.00"))
    # mid 100.02: 2*0.05, and 0.05 worse than the midpoint
    assert (found.effective_spread, found.vs_midpoint) == (D("0.10"), D("-0.05"))


def test_the_score_never_leaves_its_scale() -> None:
    assert score_execution([fill(1, "120")], AssetClass.EQUITY, quote=BidAsk(D(99), D(100))).score == 0
    assert score_execution([fill(1, "80")], AssetClass.EQUITY, quote=BidAsk(D(99), D(100))).score == 100


def test_an_option_is_measured_against_the_midpoint() -> None:
    # mid 1.05, bought at 1.0505: 0.0005/1.0505 = 4.76 bps -> 52.4: F
    found = score_execution([fill(1, "1.0505")], AssetClass.OPTION, quote=BidAsk(D("1.00"), D("1.10")))
    assert (found.benchmark, found.benchmark_price, found.grade) == ("midpoint", D("1.05"), "F")
    assert found.slippage_bps == D("4.76")


def test_several_fills_are_measured_at_their_average_price() -> None:
    # (100*10.00 + 300*10.04)/400 = 10.03 against an ask of 10.03
    found = score_execution(
        [fill(1, "10.04", "300", number=2), fill(1, "10.00", "100", number=1)],
        AssetClass.EQUITY,
        quote=BidAsk(D("10.01"), D("10.03")),
    )
    assert (found.trade_exec_id, found.fill_price, found.slippage_bps, found.grade) == ("E1", D("10.03"), D(0), "A")


def test_without_quotes_the_bar_gives_a_mark_of_low_confidence() -> None:
    bar = Bar(NOON, D(99), D(101), D(99), D(100))
    found = score_execution([fill(1, "100.05")], AssetClass.EQUITY, bar=bar)
    # middle of the bar 100: 0.05/100.05 = 4.9975 bps -> 50.02
    assert (found.benchmark, found.confidence, found.nbbo_available) == ("bar", "low", False)
    assert (found.score, found.grade, found.effective_spread) == (D("50.02"), "F", None)
    weighted = Bar(NOON, D(99), D(101), D(99), D(100), D(1000), D("100.05"))
    assert score_execution([fill(1, "100.05")], AssetClass.EQUITY, bar=weighted).grade == "A"


def test_without_any_benchmark_there_is_no_grade() -> None:
    shown = to_json(score_execution([fill(1, "100")], AssetClass.EQUITY))
    assert (shown["score"], shown["grade"], shown["reason"]) == (None, "N/A", "no_benchmark")
    assert shown["nbbo_available"] is False


@pytest.mark.parametrize("quote", [BidAsk(D(101), D(100)), BidAsk(D(0), D(100))])
def test_a_crossed_or_empty_quote_is_no_benchmark(quote: BidAsk) -> None:
    found = score_execution([fill(1, "100")], AssetClass.EQUITY, quote=quote)
    assert (found.grade, found.reason, found.warnings) == ("N/A", "no_benchmark", ("unusable_quote",))


@pytest.mark.parametrize(
    ("moment", "asset_class", "regular"),
    [
        (datetime(2026, 3, 2, 14, 29, tzinfo=UTC), AssetClass.EQUITY, False),  # 9:29 in New York, winter time
        (datetime(2026, 3, 2, 14, 30, tzinfo=UTC), AssetClass.EQUITY, True),
        (datetime(2026, 3, 2, 21, 0, tzinfo=UTC), AssetClass.OPTION, True),  # the closing auction
        (datetime(2026, 3, 2, 21, 1, tzinfo=UTC), AssetClass.OPTION, False),
        (datetime(2026, 7, 1, 13, 30, tzinfo=UTC), AssetClass.EQUITY, True),  # summer time
        (datetime(2026, 3, 1, 17, 0, tzinfo=UTC), AssetClass.EQUITY, False),  # a Sunday
        (datetime(2026, 3, 1, 17, 0, tzinfo=UTC), AssetClass.CRYPTO, True),
        (datetime(2026, 3, 2, 3, 0, tzinfo=UTC), AssetClass.FUTURE, True),
    ],
)
def test_regular_hours_are_those_of_new_york(moment: datetime, asset_class: AssetClass, regular: bool) -> None:
    assert in_regular_hours(moment, asset_class) is regular
    found = score_execution([fill(1, "100", moment=moment)], asset_class, quote=BidAsk(D(99), D(100)))
    assert (found.grade != "N/A") is regular


def test_a_worthless_close_has_no_slippage() -> None:
    assert score_execution([fill(-1, "0")], AssetClass.OPTION, quote=BidAsk(D(1), D(2))).reason == "zero_price"


def test_fills_of_different_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="one order"):
        score_execution([fill(1, "1"), fill(-1, "1", number=2)], AssetClass.EQUITY)


def test_letters_begin_at_their_lower_end() -> None:
    assert [grade_of(D(n)) for n in (100, 90, 89, 80, 70, 60, 59, 0)] == ["A", "A", "B", "B", "C", "D", "F", "F"]


@pytest.mark.parametrize(
    ("broker", "configured", "expected"),
    [
        ("robinhood", None, ("pfof", True)),
        ("IBKR_PRO", None, ("dma", True)),
        ("schwab", None, ("hybrid", True)),
        ("webull", "dma", ("dma", True)),
        ("my_broker", None, ("hybrid", False)),
        (None, None, ("hybrid", False)),
    ],
)
def test_the_routing_of_a_broker(
    broker: str | None, configured: RoutingType | None, expected: tuple[str, bool]
) -> None:
    assert routing_of(broker, configured) == expected


def test_free_routing_is_estimated_from_assumed_slippage() -> None:
    # 250 000 traded free: 250000*(3.8-0.2)/10000 = 90; 100 000 hybrid: 100000*1.8/10000 = 18; direct costs nothing more
    # 108 in all, 75.60 to 140.40; over 73 days 108*365/73 = 540 a year
    found = pfof_report(
        [
            RoutingVolume("pfof", 40, D(200_000)),
            RoutingVolume("pfof", 10, D(50_000)),
            RoutingVolume("hybrid", 5, D(100_000)),
            RoutingVolume("dma", 7, D(900_000)),
        ],
        account_id="A1",
        days=73,
    )
    assert (found.estimated_cost, found.total_pfof_impact) == (D(108), D(108))
    assert (found.low, found.high, found.annualized) == (D("75.60"), D("140.40"), D(540))
    assert (found.routing_type, found.trades_analyzed, found.confidence) == ("mixed", 62, "low")
    assert [(line.routing, line.cost, line.basis) for line in found.by_routing] == [
        ("dma", D(0), "assumed"), ("hybrid", D(18), "assumed"), ("pfof", D(90), "assumed"),
    ]  # fmt: skip
    assert len(found.assumptions) == 3


def test_enough_scored_fills_replace_the_assumption() -> None:
    # 25 scored fills sum 150 bps: 6 bps each; direct measured at 40/20 = 2 bps; 100000*(6-2)/10000 = 40
    found = pfof_report(
        [
            RoutingVolume("pfof", 30, D(100_000), 25, D(150)),
            RoutingVolume("dma", 20, D(50_000), 20, D(40)),
        ]
    )
    assert (found.estimated_cost, found.confidence, found.assumptions) == (D(40), "moderate", ())
    assert [line.avg_slippage_bps for line in found.by_routing] == [D(2), D(6)]


def test_nineteen_scored_fills_are_not_enough() -> None:
    found = pfof_report([RoutingVolume("pfof", 30, D(100_000), 19, D(0))])
    assert (found.estimated_cost, found.by_routing[0].basis, found.confidence) == (D(36), "assumed", "low")


def test_routing_better_than_direct_costs_less_than_nothing() -> None:
    # measured -1 bps against an assumed 0.2: 100000*(-1.2)/10000 = -12; the range keeps its order
    found = pfof_report([RoutingVolume("pfof", 20, D(100_000), 20, D(-20))])
    assert (found.estimated_cost, found.low, found.high) == (D(-12), D("-15.60"), D("-8.40"))


def test_an_unknown_broker_is_told_as_an_assumption() -> None:
    found = pfof_report([RoutingVolume("hybrid", 30, D(1000), 30, D(60), routing_known=False)])
    assert found.confidence == "low"
    assert any("not known" in line for line in found.assumptions)


def test_one_unknown_broker_among_known_ones_lowers_the_confidence() -> None:
    known, unknown = (RoutingVolume("hybrid", 30, D(1000), 30, D(60), routing_known=sure) for sure in (True, False))
    assert pfof_report([known]).confidence == "moderate"
    assert pfof_report([known, unknown]).confidence == pfof_report([unknown, known]).confidence == "low"


def test_direct_routing_alone_needs_no_assumption() -> None:
    found = pfof_report([RoutingVolume("dma", 5, D(1000))])
    assert (found.estimated_cost, found.routing_type, found.assumptions) == (D(0), "dma", ())


def test_no_executions_give_no_estimate() -> None:
    shown = to_json(pfof_report([]))
    assert (shown["estimated_cost"], shown["trades_analyzed"], shown["routing_type"]) == (0, 0, "unknown")
    assert (shown["estimate_label"], shown["annualized"], shown["confidence"]) == ("ESTIMATE", None, "low")
    assert shown["hint"]


def free_trader() -> FeeBreakdown:
    return fee_breakdown([Charge("regulatory", D("4.20"), "webull")], trade_count=40, gross_pnl=D(1000))


def test_the_cost_of_free_is_what_was_charged_and_what_was_lost() -> None:
    # 200000*3.6/10000 = 72 and 4.20 charged: 76.20; over 40 executions 1.905 -> 1.91; 7.62 % of 1000
    routing = pfof_report([RoutingVolume("pfof", 40, D(200_000))])
    shown = to_json(cost_of_free(free_trader(), routing, D(1000)))
    assert (shown["fee_component"], shown["pfof_component"], shown["total_hidden_cost"]) == (4.2, 72, 76.2)
    assert (shown["per_trade_avg"], shown["pct_of_gross_pnl"]) == (1.91, 7.62)
    assert shown["breakdown"] == [
        {"component": "regulatory", "kind": "explicit", "amount": 4.2, "basis": "charged"},
        {"component": "pfof routing", "kind": "implicit", "amount": 72, "basis": "assumed"},
    ]
    assert shown["assumptions"]
    assert "hint" not in shown


def test_the_cost_of_nothing_is_nothing() -> None:
    shown = to_json(cost_of_free(fee_breakdown([], trade_count=0, gross_pnl=D(0)), pfof_report([]), D(0)))
    assert (shown["total_hidden_cost"], shown["breakdown"], shown["per_trade_avg"]) == (0, [], 0)
    assert shown["hint"]
