"""Futures that trade below zero, as WTI for May 2020 did on 20 April 2020 (settlement -37.63, low -40.32)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.driver import Journal

CL: dict[str, Any] = {"instrument": "CL 05-20", "account_id": "A1", "quantity": 2}


async def test_crude_oil_below_zero_goes_all_the_way(journal: Journal) -> None:
    text = (
        "Date,Time,Symbol,Side,Quantity,Price,Commission\n"
        "04/20/2020,13:00:00,/CLK20,Buy,2,1.50,2.50\n"
        "04/20/2020,14:30:00,/CLK20,Sell,2,-37.63,2.50\n"
        "04/20/2020,14:31:00,/CLK20,Sell,1,-10.00,0\n"
        "04/20/2020,14:40:00,/CLK20,Buy,1,-40.32,0\n"
    )
    answer = await journal.csv(text.encode())
    assert (answer["imported"], answer["error_rows"]) == (4, 0)
    trips = (await journal.get("/round-trips"))["items"]
    results = {one["direction"]: one["realized_pnl"] for one in trips}
    assert results == {"BOT": -78265, "SLD": 30320}  # (-37.63 - 1.50) * 2 * 1000 - 5, and (-10 + 40.32) * 1000
    expectancy = await journal.get("/analytics/expectancy")
    assert (expectancy["avg_win"], expectancy["avg_loss"]) == (30320, 78265)
    lots = await journal.expect(200, "GET", "/tax/lots", params={"status": "closed"})
    assert {lot["realized_gain_loss"] for lot in lots["lots"]} == {-78265, 30320}
    again = await journal.csv(text.encode())
    assert (again["imported"], again["duplicates_skipped"]) == (0, 4)


async def test_a_future_may_be_recorded_and_corrected_below_zero_by_hand(journal: Journal) -> None:
    body = CL | {"exec_id": "F1", "action": "BOT", "price": -37.63}
    assert (await journal.expect(201, "POST", "/trades", body))["trade"]["price"] == -37.63
    changed = await journal.expect(200, "PUT", "/trades/F1", {"price": -40.32})
    assert changed["price"] == -40.32
    refusal = await journal.expect(422, "PUT", "/trades/F1", {"instrument": "SPY"})
    assert "only a future" in str(refusal)


@pytest.mark.parametrize("instrument", ["SPY", "SPY 260320 C 500", "BTC-USD", "EUR/USD"])
async def test_nothing_else_trades_below_zero(journal: Journal, instrument: str) -> None:
    body = {"exec_id": "S1", "instrument": instrument, "action": "BOT", "quantity": 1, "price": -1, "account_id": "A1"}
    refusal = await journal.expect(422, "POST", "/trades", body)
    assert "only a future" in str(refusal)
    text = f"Date,Time,Symbol,Side,Quantity,Price\n03/19/2026,10:00:00,{instrument},Buy,1,-1\n"
    answer = await journal.csv(text.encode())
    assert (answer["imported"], answer["errors"][0]["field"]) == (0, "price")
