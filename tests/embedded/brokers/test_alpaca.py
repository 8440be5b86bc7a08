"""Alpaca: fills page by page, the account, positions, and every way it can refuse."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from tests.embedded.brokers.conftest import trades_of
from tests.embedded.conftest import Caller
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Sequence, Upstream, raw, status

ACCOUNT = {
    "id": "904837e3",
    "account_number": "PA123",
    "status": "ACTIVE",
    "currency": "USD",
    "cash": "4000.32",
    "equity": "103820.56",
}
POSITIONS = [
    {"symbol": "AAPL", "qty": "5", "side": "long", "avg_entry_price": "100.0", "market_value": "600.0"},
    {"symbol": "TSLA", "qty": "-2", "side": "short", "avg_entry_price": "210.5", "market_value": "-400.0"},
]


def fill(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "activity_type": "FILL",
        "id": f"202603091430{number:05d}::0f43d17e",
        "cum_qty": "10",
        "leaves_qty": "0",
        "price": "100.25",
        "qty": "10",
        "side": "buy",
        "symbol": "AAPL",
        "transaction_time": f"2026-03-09T14:{number // 60:02d}:{number % 60:02d}.977123456Z",
        "order_id": "61e69015",
        "type": "fill",
        **changes,
    }


@pytest.fixture
async def alpaca(owner: Caller, upstream: Upstream) -> Upstream:
    body = {"api_key": "AK1", "api_secret": "AS1", "environment": "paper"}
    await owner.expect(200, "PUT", "/brokers/alpaca_paper", body)
    upstream.answers |= {
        "/alpaca_paper/v2/account": ACCOUNT,
        "/alpaca_paper/v2/positions": POSITIONS,
        "/alpaca_paper/v2/account/activities/FILL": [fill(1), fill(2, side="sell", price="101.5", qty="4")],
    }
    return upstream


async def test_fills_become_trades_with_the_brokers_own_ids(owner: Caller, alpaca: Upstream) -> None:
    found = await owner.expect(200, "POST", "/brokers/alpaca_paper/sync")
    assert (found["status"], found["imported"], found["duplicates_skipped"], found["errors"]) == ("success", 2, 0, [])
    assert found["account"] == {"balance": 103820.56, "currency": "USD"}
    assert found["positions"] == 2
    bought, sold = await trades_of(owner)
    assert (bought["exec_id"], bought["account_id"], bought["source"]) == (fill(1)["id"], "PA123", "sync")
    assert (bought["action"], bought["quantity"], bought["price"], bought["order_id"]) == (
        "BOT",
        10,
        100.25,
        "61e69015",
    )
    assert bought["time"] == "2026-03-09T14:00:01.977123+00:00"
    assert (sold["action"], sold["quantity"], sold["price"]) == ("SLD", 4, 101.5)
    sent = alpaca.asked[0].headers
    assert (sent["APCA-API-KEY-ID"], sent["APCA-API-SECRET-KEY"]) == ("AK1", "AS1")
    (trip,) = (await owner.get("/round-trips"))["items"]
    assert (trip["status"], trip["open_quantity"], trip["realized_pnl"]) == ("partial", 6, 5)


async def test_a_second_sync_begins_before_the_last_fill_and_writes_nothing_twice(
    owner: Caller, alpaca: Upstream, time: Time
) -> None:
    first = await owner.expect(200, "POST", "/brokers/alpaca_paper/sync")
    time.passed += 60
    again = await owner.expect(200, "POST", "/brokers/alpaca_paper/sync")
    assert (again["status"], again["imported"], again["duplicates_skipped"]) == ("success", 0, 2)
    asked = [one for one in alpaca.asked if one.path.endswith("FILL")]
    assert "after" not in asked[0].query
    assert asked[1].query["after"].startswith("2026-03-06T14:00:02")
    listed = next(row for row in await owner.get("/brokers") if row["broker_id"] == "alpaca_paper")
    assert (listed["configured"], listed["last_status"], listed["account_ids"]) == (True, "success", ["PA123"])
    assert listed["last_sync"] == again["last_sync"] > first["last_sync"]


async def test_all_pages_are_read(owner: Caller, alpaca: Upstream) -> None:
    everything = [fill(number) for number in range(1, 251)]

    async def page(request: web.Request) -> web.StreamResponse:
        token = request.query.get("page_token")
        start = next((place + 1 for place, row in enumerate(everything) if row["id"] == token), 0)
        return web.json_response(everything[start : start + int(request.query["page_size"])])

    alpaca.answers["/alpaca_paper/v2/account/activities/FILL"] = page
    found = await owner.expect(200, "POST", "/brokers/alpaca_paper/sync", {"start": "2026-03-01", "end": "2026-03-09"})
    assert found["imported"] == 250
    asked = [one for one in alpaca.asked if one.path.endswith("FILL")]
    assert len(asked) == 3
    assert asked[0].query["after"] == "2026-03-01T00:00:00+00:00"
    assert asked[0].query["until"] == "2026-03-10T00:00:00+00:00"


async def test_a_page_that_repeats_itself_does_not_go_on_for_ever(owner: Caller, alpaca: Upstream) -> None:
    alpaca.answers["/alpaca_paper/v2/account/activities/FILL"] = [fill(number) for number in range(100)]
    refused = await owner.expect(502, "POST", "/brokers/alpaca_paper/sync")
    assert "unexpected shape" in refused["detail"]
    assert await trades_of(owner) == []


async def test_rows_that_cannot_be_read_are_told_and_the_others_are_kept(owner: Caller, alpaca: Upstream) -> None:
    rows = [
        fill(1),
        fill(2, side="hold"),
        fill(3, qty="0"),
        fill(4, price="free"),
        fill(5, transaction_time="yesterday"),
        fill(6, symbol=None),
        {"activity_type": "DIV"},
    ]
    alpaca.answers["/alpaca_paper/v2/account/activities/FILL"] = rows
    found = await owner.expect(200, "POST", "/brokers/alpaca_paper/sync")
    assert (found["status"], found["imported"], len(found["errors"])) == ("partial", 1, 5)
    assert found["errors"][0] == "side: 'hold' is neither buy nor sell"


async def test_options_and_coins_are_recognised(owner: Caller, alpaca: Upstream) -> None:
    alpaca.answers["/alpaca_paper/v2/account/activities/FILL"] = [
        fill(1, symbol="AAPL260320C00200000", price="2.5", qty="1"),
        fill(2, symbol="BTC/USD", price="64000.123456789", qty="0.00123456789"),
        fill(3, symbol="TSLA", side="sell_short"),
    ]
    assert (await owner.expect(200, "POST", "/brokers/alpaca_paper/sync"))["imported"] == 3
    option, coin, short = await trades_of(owner)
    assert (option["symbol"], option["asset_class"], option["multiplier"]) == ("AAPL 260320 C 200", "OPTION", 100)
    assert (coin["symbol"], coin["asset_class"], coin["quantity"]) == ("BTC-USD", "CRYPTO", 0.00123457)
    assert short["action"] == "SLD"


async def test_positions_are_asked_for_directly(owner: Caller, alpaca: Upstream) -> None:
    assert (await owner.get("/brokers/alpaca_paper/positions"))["items"] == [
        {"symbol": "AAPL", "quantity": 5, "avg_price": 100, "market_value": 600},
        {"symbol": "TSLA", "quantity": -2, "avg_price": 210.5, "market_value": -400},
    ]


@pytest.mark.parametrize(
    ("answer", "code", "error"),
    [
        (status(401, {"message": "unauthorized: AS1"}), 502, "broker_refused"),
        (status(403, {"code": 40310000, "message": "forbidden AK1"}), 502, "broker_refused"),
        (status(429, {"message": "too many requests"}, {"Retry-After": "7"}), 429, "rate_limited"),
        (status(500, {"message": "AK1 AS1"}), 502, "broker_refused"),
        (raw(b"<html>"), 502, "broker_refused"),
        (raw(b"[" * 50_000), 502, "broker_refused"),
        ({"id": 1}, 502, "broker_refused"),
    ],
    ids=["401", "403", "429", "500", "html", "deep", "odd"],
)
async def test_a_refusal_is_told_without_the_key_and_nothing_is_written(
    answer: Any, code: int, error: str, owner: Caller, alpaca: Upstream
) -> None:
    alpaca.answers["/alpaca_paper/v2/account"] = answer
    refused = await owner.expect(code, "POST", "/brokers/alpaca_paper/sync")
    assert refused["error"] == error
    assert "AK1" not in str(refused)
    assert "AS1" not in str(refused)
    assert refused.get("retry_after") == (8 if code == 429 else None)
    listed = next(row for row in await owner.get("/brokers") if row["broker_id"] == "alpaca_paper")
    assert (listed["last_status"], listed["last_sync"]) == ("failed", None)
    assert await trades_of(owner) == []


async def test_a_rate_limit_in_the_middle_writes_nothing_and_the_next_sync_writes_all(
    owner: Caller, alpaca: Upstream, time: Time
) -> None:
    first, second = [fill(number) for number in range(100)], [fill(number) for number in range(100, 110)]
    alpaca.answers["/alpaca_paper/v2/account/activities/FILL"] = Sequence(
        first, status(429, headers={"Retry-After": "3600"}), first, second
    )
    await owner.expect(429, "POST", "/brokers/alpaca_paper/sync")
    assert await trades_of(owner) == []
    time.passed += 3600
    assert (await owner.expect(200, "POST", "/brokers/alpaca_paper/sync"))["imported"] == 110


async def test_two_syncs_at_once_write_every_fill_once(owner: Caller, alpaca: Upstream) -> None:
    import asyncio

    both = await asyncio.gather(*(owner.expect(200, "POST", "/brokers/alpaca_paper/sync") for _ in range(4)))
    assert sum(one["imported"] for one in both) == 2
    assert len(await trades_of(owner)) == 2
