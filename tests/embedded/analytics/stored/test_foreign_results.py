"""Results in other money: risk, strategy, slippage and streaks at the rate of the execution that closed a trip.

One trip each in dollars and in euros of 4 dollars, options of 100 shares among them, and yen without a rate."""

from __future__ import annotations

from math import sqrt
from statistics import stdev
from typing import Any

import pytest

from tests.embedded.driver import Journal

CALL = "ACME 270115 C 50"
REPORT = {"setup_quality": "A", "execution_quality": "A", "followed_plan": True}
QUOTED: dict[str, Any] = {"nbbo_bid": 9, "nbbo_ask": 10}


async def trip(journal: Journal, bought: Any, sold: Any, plan: dict[str, Any] | None = None, **more: Any) -> str:
    """Bought and sold, after a plan that was linked to the purchase; the id of the purchase."""
    closing = {name: value for name, value in more.items() if not name.startswith("nbbo")}
    opened = await journal.buy(2, bought, **(more | ({"fx_rate": 3} if "fx_rate" in more else {})))
    await journal.sell(2, sold, **closing)
    exec_id: str = opened["exec_id"]
    if plan is not None:
        body = {"ticker": "X", "direction": "long", "strategy_name": "dip", "target": 99, **plan}
        made = await journal.expect(201, "POST", "/trade-plans", body)
        path = f"/trade-plans/{made['id']}"
        await journal.expect(200, "PUT", path, {"status": "executed", "linked_trade_id": exec_id})
    return exec_id


EURO: dict[str, Any] = {"instrument": "SAP", "currency": "EUR", "fx_rate": 4}
YEN: dict[str, Any] = {"instrument": "TM", "currency": "JPY"}


async def test_risk_is_converted_with_the_result_that_it_was_taken_for(journal: Journal) -> None:
    await trip(journal, 10, 13, {"entry": 10, "stop": 9}, instrument=CALL)  # 600 for a risk of 200: 3
    await trip(journal, 10, 8, {"entry": 10, "stop": 6}, **EURO)  # −4 for a risk of 8 euros: −0.5
    await trip(journal, 10, 11, None, **EURO)  # 2 euros, 8 dollars, without a plan
    await trip(journal, 10, 7, {"entry": 10, "stop": 9}, **YEN)  # in no figure
    found = await journal.get("/analytics/sqn", params={"period": "all"})
    # what has no plan is counted in the average loss: 16 dollars; 8 / 16
    values = [3, -0.5, 0.5]
    assert (found["trade_count"], found["r_unit"]) == (3, "mixed")
    assert found["mean_r"] == 1
    assert found["std_r"] == pytest.approx(stdev(values), abs=1e-5)
    assert found["sqn"] == pytest.approx(1 / stdev(values) * sqrt(3), abs=1e-3)
    assert found["unconverted"] == [{"kind": "results", "currency": "JPY", "count": 1, "amount": -6}]


async def test_a_strategy_has_its_foreign_trips_their_slippage_and_their_place_in_its_streaks(journal: Journal) -> None:
    names = [
        await trip(journal, 11, 13, **QUOTED),  # 4 dollars; 2 lost on the quote
        await trip(journal, 12, 14, **EURO, **QUOTED),  # 4 euros, 16 dollars; 4 euros lost on the quote, 16 dollars
        await trip(journal, 10, 12, **EURO),  # 16 dollars, without a quote
        await trip(journal, 10, 9),  # −2
        await trip(journal, 12, 11, **YEN, **QUOTED),  # in no figure
    ]
    other = await trip(journal, 30, 10, **EURO, **QUOTED)  # of no strategy
    for name in names:
        await journal.expect(201, "POST", f"/trades/{name}/report", {**REPORT, "tags": ["Dip"]})
    found = await journal.get("/analytics/expectancy", params={"strategy": "dip", "period": "all"})
    assert (found["trade_count"], found["total_pnl"], found["win_rate"]) == (4, 34, 0.75)
    assert (found["longest_win_streak"], found["longest_loss_streak"]) == (3, 1)
    assert (found["expectancy"], found["avg_slippage"], found["edge_per_trade"]) == (8.5, 9, -0.5)
    lines = (await journal.get("/analytics/strategy-breakdown", params={"period": "all"}))["strategies"]
    assert {line["strategy"]: (line["trade_count"], line["total_pnl"]) for line in lines} == {
        "Dip": (4, 34),
        "(untagged)": (1, -160),
    }
    rest = await journal.get("/analytics/expectancy", params={"strategy": "(untagged)", "period": "all"})
    # bought at 30 over an offer of 10: 40 euros, 160 dollars
    assert (rest["trade_count"], rest["total_pnl"], rest["avg_slippage"]) == (1, -160, 160), other
    both = await journal.get("/analytics/expectancy", params={"period": "all"})
    assert (both["trade_count"], both["total_pnl"]) == (5, -126)
    assert both["avg_slippage"] == pytest.approx((2 + 16 + 160) / 3, abs=0.005)


async def test_an_empty_period_has_no_result_of_either_sign(journal: Journal) -> None:
    await trip(journal, 10, 12)
    found = await journal.get("/analytics/expectancy", params={"period": "2020"})
    figures = ("trade_count", "total_pnl", "win_rate", "longest_win_streak", "longest_loss_streak")
    assert [found[name] for name in figures] == [0, 0, 0, 0, 0]


async def test_a_month_has_the_results_that_were_closed_in_it_and_no_others(journal: Journal) -> None:
    """A trip counts where it was closed; one of each month is open before it, in dollars and in euros."""
    closings = {"2026-02-27": 1, "2026-03-02": 10, "2026-03-31": 100, "2026-04-01": 1000}
    for number, (day, pnl) in enumerate(closings.items()):
        for more in ({"instrument": f"U{number}"}, {**EURO, "instrument": f"E{number}"}):
            await journal.buy(1, 5000, "2026-02-02", commission=0.5, **more)
            await journal.sell(1, 5000 + pnl, day, commission=0.5, **more)
    for period, results in (
        ("2026-02", [1]),
        ("2026-03", [10, 100]),
        ("2026-04", [1000]),
        ("all", [*closings.values()]),
    ):
        query = {"period": period, "account_id": "A1"}
        found = await journal.get("/analytics/expectancy", params=query)
        # a dollar of fees off each, and the euros at 4 dollars
        assert (found["total_pnl"], found["trade_count"]) == (5 * sum(pnl - 1 for pnl in results), 2 * len(results))
        assert found["longest_win_streak"] == 2 * sum(pnl > 1 for pnl in results)
    other = await journal.get("/analytics/expectancy", params={"period": "all", "account_id": "none"})
    assert (other["total_pnl"], other["trade_count"]) == (0, 0)
