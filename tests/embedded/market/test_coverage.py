"""An excursion asks the providers for the bars it lacks, keeps them, and says why if there are none."""

from __future__ import annotations

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.upstream import Upstream

CHART = "/yahoo/v8/finance/chart/AAPL"
TRADE = {
    "exec_id": "E-1",
    "time": "2026-03-09T15:00:00Z",
    "instrument": "AAPL",
    "action": "BOT",
    "quantity": 10,
    "price": 188,
    "account_id": "A-1",
}


async def hold(market: Caller) -> None:
    await market.expect(201, "POST", "/trades", TRADE)
    sold = {**TRADE, "exec_id": "E-2", "action": "SLD", "price": 190, "time": "2026-03-10T15:00:00Z"}
    await market.expect(201, "POST", "/trades", sold)


async def test_missing_bars_are_fetched_once_and_then_known(market: Caller, upstream: Upstream) -> None:
    await hold(market)
    upstream.answers[CHART] = shapes.CHART
    found = await market.expect(200, "POST", "/analytics/excursion/E-1", {"resolution": "1d"})
    # Ten shares, bought at 188 and sold at 190 inside the second bar: its later high of 191.50 is not the trade's.
    assert (found["mfe_dollars"], found["mae_dollars"]) == (20, 20)
    assert (found["data_source"], found["resolution"], found["holding_bars"]) == ("Yahoo Finance", "1d", 2)
    assert [asked.query["interval"] for asked in upstream.asked] == ["1d"]
    await market.expect(200, "POST", "/analytics/excursion/E-1", {"resolution": "1d"})
    assert len(upstream.asked) == 1


async def test_without_bars_the_reason_is_told_and_nothing_invented(market: Caller, upstream: Upstream) -> None:
    await hold(market)
    await market.expect(200, "PUT", "/settings", {"market.offline": True})
    refused = await market.expect(503, "POST", "/analytics/excursion/E-1", {})
    assert refused["error"] == "no_bar_data"
    assert "market.offline" in refused["detail"]
    await market.expect(200, "PUT", "/settings", {"market.offline": False})
    empty = {"chart": {"result": [{"meta": {}, "timestamp": [], "indicators": {"quote": [{}]}}], "error": None}}
    upstream.answers[CHART] = empty
    refused = await market.expect(503, "POST", "/analytics/excursion/E-1", {})
    assert refused["error"] == "no_bar_data"
    await market.expect(404, "POST", "/analytics/excursion/nothing", {})
