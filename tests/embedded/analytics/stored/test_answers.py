"""The analytics over HTTP: figures from first principles, honest over nothing, and never in anybody's way."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from tests.embedded.driver import START, Journal
from tests.embedded.journal.pictures import form, picture
from zorivest_rpc.embedded.analytics.drawdown import drawdown
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import price_bars
from zorivest_rpc.embedded.rest.routes import analytics as analytics_routes

RESULTS = (200, -100, 150, -50, 0, 300, -100, 50)


async def test_expectancy_of_the_known_eight(journal: Journal) -> None:
    for pnl in RESULTS:
        await journal.result(pnl)
    found = await journal.get("/analytics/expectancy")
    assert (found["trade_count"], found["wins"], found["losses"], found["scratches"]) == (8, 4, 3, 1)
    assert (found["win_rate"], found["loss_rate"], found["avg_win"], found["avg_loss"]) == (0.5, 0.375, 175, 83.33)
    assert (found["expectancy"], found["profit_factor"], found["payoff_ratio"]) == (56.25, 2.8, 2.1)
    assert found["kelly_fraction"] == pytest.approx(0.321429)
    assert (found["longest_win_streak"], found["longest_loss_streak"], found["low_sample"]) == (1, 1, True)
    assert (found["avg_slippage"], "hint" in found) == (None, False)
    sqn = await journal.get("/analytics/sqn")
    assert (sqn["sqn"], sqn["grade"], sqn["trade_count"], sqn["r_unit"]) == (1.079, "Poor", 8, "avg_loss")


async def test_streaks_are_counted_in_the_order_of_closing(journal: Journal) -> None:
    for pnl in (1, 2, 3, -1, -2, 0, -1, 5, 6):
        await journal.result(pnl)
    found = await journal.get("/analytics/expectancy")
    assert (found["longest_win_streak"], found["longest_loss_streak"]) == (3, 2)


async def test_a_period_and_an_account_narrow_every_figure(journal: Journal) -> None:
    await journal.result(10)
    await journal.buy(1, 100, time="2025-05-05T15:00:00Z", account_id="A2", exec_id="o")
    await journal.sell(1, 130, time="2025-05-06T15:00:00Z", account_id="A2", exec_id="c")
    for query, total in (
        ({"period": "all"}, 40),
        ({"period": "2025"}, 30),
        ({"period": "2025-Q1"}, 0),
        ({"period": "2025-05-06..2025-05-06"}, 30),
        ({"period": "2025-05-05..2025-05-05"}, 0),
        ({"account_id": "A2"}, 30),
        ({"account_id": "none"}, 0),
    ):
        assert (await journal.get("/analytics/expectancy", params=query))["total_pnl"] == total
        overall = (await journal.get("/analytics/strategy-breakdown", params=query))["overall"]
        assert overall["total_pnl"] == total


async def test_a_plan_gives_its_trade_its_own_unit_of_risk(journal: Journal) -> None:
    # planned: 10 shares, 5 at risk each, result 100 = 2R; the other lost 40, which is the unit of what has no plan
    await journal.buy(10, 100, instrument="QQQ")
    await journal.sell(10, 110, instrument="QQQ")
    await journal.result(-40)
    plan = {"ticker": "QQQ", "direction": "long", "strategy_name": "dip", "entry": 100, "stop": 95, "target": 120}
    made = await journal.expect(201, "POST", "/trade-plans", plan)
    path = f"/trade-plans/{made['id']}"
    await journal.expect(200, "PUT", path, {"status": "executed", "linked_trade_id": "E0001"})
    found = await journal.get("/analytics/sqn")
    assert (found["r_unit"], found["mean_r"], found["std_r"]) == ("mixed", 0.5, pytest.approx(2.121320))
    lines = (await journal.get("/analytics/strategy-breakdown"))["strategies"]
    assert [(line["strategy"], line["total_pnl"]) for line in lines] == [("dip", 100), ("(untagged)", -40)]
    only = await journal.get("/analytics/expectancy", params={"strategy": "DIP"})
    assert (only["trade_count"], only["total_pnl"], only["strategy"]) == (1, 100, "DIP")
    rest = await journal.get("/analytics/expectancy", params={"strategy": "(untagged)"})
    assert (rest["trade_count"], rest["total_pnl"]) == (1, -40)


async def test_a_trade_with_two_tags_is_in_two_lines_and_once_in_the_total(journal: Journal) -> None:
    _, sold = await journal.result(30)
    await journal.result(-10)
    report = {"setup_quality": "A", "execution_quality": "A", "followed_plan": True, "tags": ["gap", "orb"]}
    await journal.expect(201, "POST", f"/trades/{sold['exec_id']}/report", report)
    found = await journal.get("/analytics/strategy-breakdown")
    assert [(line["strategy"], line["trade_count"], line["total_pnl"]) for line in found["strategies"]] == [
        ("gap", 1, 30), ("orb", 1, 30), ("(untagged)", 1, -10),
    ]  # fmt: skip
    assert (found["overall"]["trade_count"], found["overall"]["total_pnl"]) == (2, 20)


async def test_drawdown_repeats_itself_and_takes_a_seed(journal: Journal) -> None:
    for pnl in RESULTS:
        await journal.result(pnl)
    query = {"simulations": "500", "risk_pct": "2", "horizon": "50"}
    first = await journal.get("/analytics/drawdown", params=query)
    assert first == await journal.get("/analytics/drawdown", params=query)
    assert (first["simulations_run"], first["horizon"], first["risk_pct"]) == (500, 50, 2)
    assert first["max_drawdown_median"] <= 0
    other = await journal.get("/analytics/drawdown", params={**query, "seed": "7"})
    assert (other["seed"], other["insufficient_data"]) == (7, False)
    assert other["equity_percentiles"] != first["equity_percentiles"]
    for wrong in ({"simulations": "99"}, {"simulations": "100001"}, {"risk_pct": "0"}, {"horizon": "0"}, {"seed": "x"}):
        await journal.refused(422, "GET", "/analytics/drawdown", params=wrong)


async def test_a_simulation_keeps_nobody_waiting(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """While simulations are held in the middle, trades are read and written."""
    held, go = threading.Semaphore(0), threading.Event()

    def slow(*args: Any, **options: Any) -> Any:
        def checkpoint(done: int, wanted: int) -> None:
            held.release()
            assert go.wait(30)

        return drawdown(*args, **{**options, "checkpoint": checkpoint})

    monkeypatch.setattr(analytics_routes, "drawdown", slow)
    await journal.result(5)
    await journal.result(-5)
    running = [asyncio.create_task(journal.get("/analytics/drawdown")) for _ in range(8)]
    try:
        assert await asyncio.to_thread(held.acquire, timeout=30)
        await journal.result(7)
        assert (await journal.get("/trades"))["total"] == 6
        assert (await journal.get("/analytics/expectancy"))["trade_count"] == 3
        await journal.expect(201, "POST", "/trades/E0001/images", data=form(picture()))
        assert not any(task.done() for task in running)
    finally:
        go.set()
    answers = await asyncio.gather(*running)
    assert {answer["simulations_run"] for answer in answers} == {10_000}


async def test_a_simulation_gives_way_to_the_end_of_the_process(journal: Journal, backend: Embedded) -> None:
    await journal.result(5)
    await journal.result(-5)
    backend.stop_requested.set()
    assert (await journal.refused(503, "GET", "/analytics/drawdown"))["error"] == "shutting_down"


def bars(prices: list[tuple[float, float]], step: timedelta = timedelta(days=1)) -> list[dict[str, Any]]:
    midnight = START.replace(hour=0)
    return [
        {"time": (midnight + number * step).isoformat(), "open": low, "high": high, "low": low, "close": high}
        for number, (low, high) in enumerate(prices)
    ]


async def test_an_excursion_is_measured_and_kept(journal: Journal) -> None:
    # long 10 from 100, out at 104; between 97 and 108
    await journal.buy(10, 100, commission=1)
    await journal.sell(10, 104, time=(START + timedelta(days=2)).isoformat())
    body = {"symbol": "SPY", "bars": bars([(99, 101), (97, 108), (103, 105)]), "source": "hand"}
    assert (await journal.expect(201, "POST", "/market-data/bars", body))["stored"] == 3
    found = await journal.expect(200, "POST", "/analytics/excursion/E0001", {"trade_id": "E0001"})
    assert (found["mfe_price"], found["mfe_dollars"], found["mae_price"], found["mae_dollars"]) == (108, 80, 97, 30)
    assert (found["mfe_pct"], found["mae_pct"], found["bso_pct"]) == (8, 3, 50)
    assert (found["capture_ratio"], found["holding_bars"], found["resolution"]) == (pytest.approx(39 / 80), 3, "1d")
    assert (found["data_source"], found["warnings"]) == ("hand", ["coarse_resolution"])
    assert found["currency"] == "USD"
    review = await journal.expect(200, "POST", "/analytics/ai-review", {"trade_exec_id": "E0002"})
    codes = {finding["code"] for persona in review["personas"] for finding in persona["findings"]}
    assert "capture" in codes
    again = await journal.expect(200, "POST", "/analytics/excursion/E0001")
    assert {**again, "computed_at": ""} == {**found, "computed_at": ""}


async def test_without_bars_nothing_is_invented(journal: Journal) -> None:
    await journal.buy(10, 100)
    refused = await journal.refused(503, "POST", "/analytics/excursion/E0001")
    assert refused["error"] == "no_bar_data"
    await journal.refused(404, "POST", "/analytics/excursion/none")
    await journal.refused(422, "POST", "/analytics/excursion/E0001", {"resolution": "1h"})


async def test_an_excursion_names_the_currency_of_its_money(journal: Journal) -> None:
    await journal.buy(10, 100, currency="EUR")
    await journal.sell(10, 104, currency="EUR", time=(START + timedelta(days=2)).isoformat())
    await journal.expect(201, "POST", "/market-data/bars", {"symbol": "SPY", "bars": bars([(99, 101), (97, 108)])})
    found = await journal.expect(200, "POST", "/analytics/excursion/E0001")
    assert (found["currency"], found["mfe_dollars"], found["mae_dollars"]) == ("EUR", 80, 30)


async def test_a_kept_excursion_goes_when_its_round_trip_changes(journal: Journal) -> None:
    await journal.buy(10, 100)
    body = {"symbol": "SPY", "bars": bars([(97, 108)])}
    await journal.expect(201, "POST", "/market-data/bars", body)
    await journal.expect(200, "POST", "/analytics/excursion/E0001", {"resolution": "1d"})
    await journal.sell(10, 101)
    review = await journal.expect(200, "POST", "/analytics/ai-review", {"trade_exec_id": "E0001"})
    assert any(gap.startswith("excursion") for gap in review["data_gaps"])


async def test_a_fill_is_scored_by_quotes_then_bars_then_not_at_all(journal: Journal) -> None:
    await journal.buy(10, 100.01, nbbo_bid=99.99, nbbo_ask=100.01)
    quoted = await journal.get("/analytics/execution-quality", params={"trade_id": "E0001"})
    assert (quoted["score"], quoted["grade"], quoted["benchmark"], quoted["confidence"]) == (100, "A", "nbbo", "high")
    await journal.buy(10, 100, exec_id="bare")
    bare = await journal.get("/analytics/execution-quality", params={"trade_exec_id": "bare"})
    assert (bare["score"], bare["grade"], bare["reason"], bare["nbbo_available"]) == (
        None,
        "N/A",
        "no_benchmark",
        False,
    )
    await journal.expect(201, "POST", "/market-data/bars", {"symbol": "SPY", "bars": bars([(99.9, 100.1)])})
    barred = await journal.get("/analytics/execution-quality", params={"trade_id": "bare"})
    assert (barred["grade"], barred["benchmark"], barred["confidence"]) == ("A", "bar", "low")
    page = await journal.get("/analytics/execution-quality")
    assert ([item["trade_exec_id"] for item in page["items"]], page["total"]) == (["bare", "E0001"], 2)
    await journal.refused(404, "GET", "/analytics/execution-quality", params={"trade_id": "none"})


async def test_the_fills_of_one_order_are_scored_together(journal: Journal) -> None:
    await journal.buy(10, 100, order_id="o", nbbo_bid=99.98, nbbo_ask=100)
    await journal.buy(10, 100.2, order_id="o")
    second = await journal.get("/analytics/execution-quality", params={"trade_id": "E0002"})
    assert (second["trade_exec_id"], second["fill_price"], second["slippage_bps"]) == ("E0002", 100.1, 9.99)


async def test_fees_add_up_by_kind_and_broker(journal: Journal) -> None:
    await journal.expect(
        201, "POST", "/accounts", {"account_id": "A1", "name": "x", "account_type": "broker", "broker_id": "ibkr_pro"}
    )
    ledger = [{"fee_type": "commission", "amount": 1}, {"fee_type": "regulatory", "amount": 0.5, "is_estimated": True}]
    await journal.buy(10, 100, commission=1, fees=0.5, ledger=ledger)
    await journal.sell(10, 110, commission=2, fees=0.25, broker="lightspeed")
    await journal.refused(404, "GET", "/trades/none/fees")
    fee = {"fee_type": "platform", "amount": 10, "period_month": "2026-03", "account_id": "A1"}
    await journal.expect(201, "POST", "/fees/periodic", fee)
    found = await journal.get("/fees/summary", params={"period": "2026-03"})
    assert found["total_fees"] == 13.75
    assert {(line["fee_type"], line["amount"], line["is_estimated"]) for line in found["by_type"]} == {
        ("platform", 10, False), ("commission", 3, False), ("regulatory", 0.5, True), ("other", 0.25, False),
    }  # fmt: skip
    assert {(line["broker_id"], line["amount"]) for line in found["by_broker"]} == {
        ("ibkr_pro", 11.5), ("lightspeed", 2.25),
    }  # fmt: skip
    assert (found["trade_count"], found["pct_of_gross_pnl"], found["pnl_pct"]) == (2, 13.75, 13.75)
    assert (await journal.get("/fees/summary", params={"period": "2026-02"}))["total_fees"] == 0
    assert (await journal.get("/fees/periodic"))["total"] == 1
    await journal.refused(422, "POST", "/fees/periodic", {**fee, "period_month": "March"})
    await journal.refused(404, "POST", "/fees/periodic", {**fee, "account_id": "none"})


async def test_routing_is_estimated_and_says_so(journal: Journal) -> None:
    await journal.expect(
        201, "POST", "/accounts", {"account_id": "A1", "name": "x", "account_type": "broker", "broker_id": "webull"}
    )
    await journal.buy(100, 100)  # 10 000 at 3.8 - 0.2 basis points = 3.60
    found = await journal.get("/analytics/pfof-report", params={"account_id": "A1", "period": "2026"})
    assert (found["estimate_label"], found["routing_type"], found["estimated_cost"]) == ("ESTIMATE", "pfof", 3.6)
    assert (found["low"], found["high"], found["confidence"]) == (2.52, 4.68, "low")
    both = await journal.get("/analytics/cost-of-free", params={"period": "2026"})
    assert (both["fee_component"], both["pfof_component"], both["total_hidden_cost"]) == (0, 3.6, 3.6)
    await journal.refused(404, "GET", "/analytics/pfof-report", params={"account_id": "none"})
    await journal.refused(422, "GET", "/analytics/pfof-report")


async def test_an_iron_condor_is_recognised(journal: Journal) -> None:
    # credit 2.00: 1.50 + 1.50 - 0.50 - 0.50
    for name, strike, right, action, price in (
        ("a", 90, "P", "BOT", 0.5),
        ("b", 95, "P", "SLD", 1.5),
        ("c", 105, "C", "SLD", 1.5),
        ("d", 110, "C", "BOT", 0.5),
    ):
        await journal.trade(action, 1, price, exec_id=name, instrument=f"SPY 270115 {right} {strike}")
    ids = ["a", "b", "c", "d"]
    found = await journal.expect(200, "POST", "/analytics/options-strategy", {"leg_exec_ids": ids})
    assert (found["strategy_type"], found["max_profit"], found["max_loss"]) == ("iron_condor", 200, 300)
    assert (found["breakeven_prices"], found["underlying"], len(found["legs"])) == ([93, 107], "SPY", 4)
    missing = await journal.refused(404, "POST", "/analytics/options-strategy", {"leg_exec_ids": ["a", "nope", "nada"]})
    assert "nope, nada" in missing["detail"]
    for wrong in ("b", [1, 2], []):
        await journal.refused(422, "POST", "/analytics/options-strategy", {"leg_exec_ids": wrong})
    for alone in (["b"], ["b", "b"]):
        put = await journal.expect(200, "POST", "/analytics/options-strategy", {"leg_exec_ids": alone})
        assert (put["name"], put["max_profit"], put["max_loss"], put["breakeven_prices"]) == (
            "short put", 150, 9350, [93.5],
        )  # fmt: skip


async def test_a_review_judges_what_is_known_and_lists_what_is_not(journal: Journal) -> None:
    await journal.expect(201, "POST", "/accounts", {"account_id": "A1", "name": "x", "account_type": "broker"})
    await journal.expect(201, "POST", "/accounts/A1/balances", {"balance": 50_000, "snapshot_datetime": "2026-01-01"})
    for pnl in (10, -20, 30, -5):
        await journal.result(pnl)
    opened, closed = await journal.result(-60)
    report = {"setup_quality": "D", "execution_quality": "F", "followed_plan": False, "emotional_state": "fearful"}
    await journal.expect(201, "POST", f"/trades/{closed['exec_id']}/report", report)
    await journal.expect(201, "POST", "/mistakes", {"trade_id": opened["exec_id"], "category": "no_stop"})
    body = {"trade_exec_id": opened["exec_id"], "budget_cap": 0}
    found = await journal.expect(200, "POST", "/analytics/ai-review", body)
    assert [persona["persona"] for persona in found["personas"]] == ["Risk Manager", "Trend Analyst", "Contrarian"]
    assert (found["engine"], found["spend_cents"], found["budget_cap_cents"]) == ("rules", 0, 0)
    evidence = " ".join(item["evidence"] for persona in found["personas"] for item in persona["findings"])
    for words in ("2.00 % of the account", "result -4.80R", "tagged: no_stop", "not followed", "fearful"):
        assert words in evidence
    assert any("daily bars" in gap for gap in found["data_gaps"])
    assert found == await journal.expect(200, "POST", "/analytics/ai-review", body)
    week = await journal.expect(200, "POST", "/analytics/ai-review", {**body, "review_type": "weekly"})
    assert (week["review_type"], week["round_trips_reviewed"]) == ("weekly", 5)
    await journal.refused(404, "POST", "/analytics/ai-review", {"trade_exec_id": "none"})
    await journal.refused(422, "POST", "/analytics/ai-review", {**body, "review_type": "yearly"})
    await journal.refused(422, "POST", "/analytics/ai-review", {**body, "budget_cap": -1})


async def test_mistakes_are_summed_by_category_and_month(journal: Journal) -> None:
    lost, _ = await journal.result(-80)
    won, _ = await journal.result(20)
    for trade, category, cost in ((lost, "no_stop", None), (won, "early_exit", 30), (lost, "early_exit", 10)):
        body = {"trade_exec_id": trade["exec_id"], "category": category, "estimated_cost": cost}
        await journal.expect(201, "POST", "/mistakes", body)
    found = await journal.get("/mistakes/summary", params={"period": "2026"})
    assert (found["total_mistakes"], found["total_cost"], found["baseline_win_rate"]) == (3, 120, 0.5)
    columns = ("category", "count", "total_cost", "win_rate")
    assert [tuple(line[name] for name in columns) for line in found["by_category"]] == [
        ("no_stop", 1, 80, 0), ("early_exit", 2, 40, 0.5),
    ]  # fmt: skip
    assert found["trend"] == [{"month": "2026-03", "count": 3, "cost": 120}]
    assert (found["most_costly"], found["most_frequent"]) == ("no_stop", "early_exit")
    assert (await journal.get("/mistakes/summary", params={"period": "2025"}))["total_mistakes"] == 0


SUMMARIES = (
    *("/analytics/expectancy", "/analytics/drawdown", "/analytics/sqn", "/analytics/strategy-breakdown"),
    *("/analytics/execution-quality", "/analytics/cost-of-free", "/fees/summary", "/mistakes/summary"),
    *("/round-trips", "/trades"),
)


async def test_over_nothing_there_are_zeros_and_a_hint(journal: Journal) -> None:
    for path in SUMMARIES:
        found = await journal.get(path)
        assert found["hint"]
        numbers = [value for name, value in found.items() if isinstance(value, int | float) and name not in _SETTINGS]
        assert not any(numbers), path
        if path != "/analytics/execution-quality":
            refused = await journal.refused(422, "GET", path, params={"period": "'; DROP TABLE trades"})
            assert "period" in refused["detail"]["errors"]


_SETTINGS = {"limit", "low_sample", "horizon", "risk_pct", "seed", "insufficient_data"}


async def test_bars_are_checked_and_replaced(journal: Journal, backend: Embedded) -> None:
    good = bars([(1, 2), (3, 4)])
    await journal.expect(201, "POST", "/market-data/bars", {"symbol": "spy stk", "bars": good})
    await journal.expect(201, "POST", "/market-data/bars", {"symbol": "SPY", "bars": bars([(5, 6)]), "source": "b"})
    query = select(price_bars.c.low, price_bars.c.source).order_by(price_bars.c.time.desc())
    assert (await backend.database().read(lambda conn: conn.execute(query).all())) == [(3, "manual"), (5, "b")]
    refused: tuple[dict[str, Any], ...] = (
        {"bars": []},
        {"bars": "x"},
        {"bars": [1]},
        {"bars": [{**good[0], "low": 9}]},
        {"bars": [{**good[0], "time": None}]},
        {"bars": [{**good[0], "open": -1}]},
        {"bars": good, "resolution": "2d"},
        {"bars": good, "symbol": ""},
    )
    for wrong in refused:
        await journal.refused(422, "POST", "/market-data/bars", {"symbol": "SPY", **wrong})
