"""Tradier: the history of the clearing firm, page by page, with its one-or-many JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.embedded.brokers.conftest import trades_of
from tests.embedded.conftest import Caller
from tests.embedded.upstream import Upstream, status

BASE = "/tradier/v1/accounts/VA000000"


def event(**changes: Any) -> dict[str, Any]:
    trade = {
        "commission": 0.35,
        "description": "APPLE INC",
        "price": 188.5,
        "quantity": 10.0,
        "symbol": "AAPL",
        "trade_type": "Equity",
        **changes,
    }
    return {"amount": -1885.35, "date": "2026-03-09T00:00:00Z", "type": "trade", "trade": trade}


@pytest.fixture
async def tradier(owner: Caller, upstream: Upstream) -> Upstream:
    await owner.expect(200, "PUT", "/brokers/tradier_live", {"api_key": "TRADIER-TOKEN"})
    upstream.answers |= {
        "/tradier/v1/user/profile": {
            "profile": {"id": "id-1", "name": "Jane", "account": {"account_number": "VA000000", "type": "margin"}}
        },
        f"{BASE}/balances": {"balances": {"account_number": "VA000000", "total_equity": 17798.36, "total_cash": 14}},
        f"{BASE}/positions": {
            "positions": {
                "position": [
                    {"cost_basis": 207.01, "date_acquired": "2026-03-09", "quantity": 1.0, "symbol": "AAPL"},
                    {"cost_basis": -500.0, "quantity": -2.0, "symbol": "SPY260320P00500000"},
                ]
            }
        },
        f"{BASE}/history": {
            "history": {
                "event": [
                    event(),
                    event(symbol="SPY260320P00500000", quantity=-2.0, price=2.5, trade_type="Option", commission=0.7),
                    {"amount": 5, "date": "2026-03-09T00:00:00Z", "type": "dividend", "dividend": {}},
                ]
            }
        },
    }
    return upstream


async def test_the_history_becomes_trades(owner: Caller, tradier: Upstream) -> None:
    found = await owner.expect(200, "POST", "/brokers/tradier_live/sync")
    assert (found["status"], found["imported"], found["errors"]) == ("success", 2, [])
    assert (found["account"], found["positions"]) == ({"balance": 17798.36, "currency": "USD"}, 2)
    assert any("noon" in warning for warning in found["warnings"])
    by_symbol = {trade["symbol"]: trade for trade in await trades_of(owner)}
    share, option = by_symbol["AAPL"], by_symbol["SPY 260320 P 500"]
    assert (share["action"], share["quantity"], share["commission"], share["account_id"]) == (
        "BOT",
        10,
        0.35,
        "VA000000",
    )
    assert share["time"] == "2026-03-09T16:00:00+00:00"  # noon in New York
    assert (option["action"], option["quantity"], option["multiplier"]) == ("SLD", 2, 100)
    assert tradier.asked[0].headers["Authorization"] == "Bearer TRADIER-TOKEN"
    again = await owner.expect(200, "POST", "/brokers/tradier_live/sync")
    assert (again["imported"], again["duplicates_skipped"]) == (0, 2)


@pytest.mark.parametrize("nothing", [None, "null", {"event": None}, {"event": []}])
async def test_an_empty_history_is_no_error(nothing: Any, owner: Caller, tradier: Upstream) -> None:
    tradier.answers |= {f"{BASE}/history": {"history": nothing}, f"{BASE}/positions": {"positions": nothing}}
    found = await owner.expect(200, "POST", "/brokers/tradier_live/sync")
    assert (found["status"], found["imported"], found["positions"]) == ("success", 0, 0)


async def test_a_single_trade_comes_without_a_list(owner: Caller, tradier: Upstream) -> None:
    tradier.answers[f"{BASE}/history"] = {"history": {"event": event()}}
    assert (await owner.expect(200, "POST", "/brokers/tradier_live/sync"))["imported"] == 1


async def test_two_equal_fills_of_one_day_are_two_trades(owner: Caller, tradier: Upstream) -> None:
    tradier.answers[f"{BASE}/history"] = {"history": {"event": [event(), event()]}}
    assert (await owner.expect(200, "POST", "/brokers/tradier_live/sync"))["imported"] == 2
    assert (await owner.expect(200, "POST", "/brokers/tradier_live/sync"))["duplicates_skipped"] == 2


async def test_all_pages_are_read(owner: Caller, tradier: Upstream) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        number = int(request.query["page"])
        count = int(request.query["limit"]) if number == 1 else 3
        rows = [event(price=100 + number, quantity=place + 1.0) for place in range(count)]
        return web.json_response({"history": {"event": rows}})

    tradier.answers[f"{BASE}/history"] = page
    found = await owner.expect(200, "POST", "/brokers/tradier_live/sync", {"start": "2026-01-01"})
    assert found["imported"] == 1003
    asked = [one.query for one in tradier.asked if one.path.endswith("history")]
    assert [(query["page"], query["type"], query["start"]) for query in asked] == [
        ("1", "trade", "2026-01-01"),
        ("2", "trade", "2026-01-01"),
    ]


async def test_the_last_day_of_a_period_is_the_last_that_is_asked_for(owner: Caller, tradier: Upstream) -> None:
    body = {"start": "2026-03-01", "end": "2026-03-09"}
    assert (await owner.expect(200, "POST", "/brokers/tradier_live/sync", body))["imported"] == 2
    (query,) = [one.query for one in tradier.asked if one.path.endswith("history")]
    assert (query["start"], query["end"]) == ("2026-03-01", "2026-03-09")


async def test_a_fill_that_came_without_a_time_is_known_again_in_a_file_that_has_one(
    owner: Caller, tradier: Upstream, folder: Path
) -> None:
    await owner.expect(200, "PUT", "/settings", {"import.timezone": "Asia/Tokyo"})
    tradier.answers[f"{BASE}/history"] = {"history": {"event": event()}}
    assert (await owner.expect(200, "POST", "/brokers/tradier_live/sync"))["imported"] == 1
    rows = "Date,Time,Symbol,Side,Qty,Price,Amount,Commission,Fee\n03/09/2026,23:30:00,AAPL,Buy,10,188.5,1885,0.35,0\n"
    place = folder / "VA000000" / "march.csv"
    place.parent.mkdir(parents=True)
    place.write_text(rows)
    found = await owner.expect(200, "POST", "/brokers/local_folder/sync")
    assert (found["imported"], found["duplicates_skipped"]) == (0, 1)


async def test_positions_have_an_average_price_per_unit(owner: Caller, tradier: Upstream) -> None:
    assert (await owner.get("/brokers/tradier_live/positions"))["items"] == [
        {"symbol": "AAPL", "quantity": 1, "avg_price": 207.01, "market_value": None},
        {"symbol": "SPY 260320 P 500", "quantity": -2, "avg_price": 2.5, "market_value": None},
    ]


async def test_a_bad_token_is_told_without_it(owner: Caller, tradier: Upstream) -> None:
    tradier.answers["/tradier/v1/user/profile"] = status(401, {"fault": {"faultstring": "Invalid TRADIER-TOKEN"}})
    refused = await owner.expect(502, "POST", "/brokers/tradier_live/sync")
    assert refused["reason"] == "invalid_key"
    assert "TRADIER-TOKEN" not in str(refused)
