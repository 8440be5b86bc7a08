"""Identifiers: checked here, remembered, derived from each other, asked for once, honest when nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Upstream, status

APPLE_CUSIP, APPLE_ISIN, APPLE_FIGI = "037833100", "US0378331005", "BBG000B9XRY4"
CISCO_CUSIP = "17275R102"
NOBODY = "US9999999991"
MAPPING = "/openfigi/mapping"


async def resolve(market: Caller, *items: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await market.expect(200, "POST", "/identifiers/resolve", list(items))
    return answer


def item(kind: str, value: str) -> dict[str, str]:
    return {"id_type": kind, "id_value": value}


async def test_an_identifier_is_resolved_once_and_then_remembered(
    market: Caller, upstream: Upstream, time: Time
) -> None:
    upstream.answers[MAPPING] = [{"data": [shapes.FIGI]}]
    first = await resolve(market, item("cusip", APPLE_CUSIP))
    assert first == {
        "results": [
            {
                "id_type": "cusip",
                "id_value": APPLE_CUSIP,
                "isin": APPLE_ISIN,
                "status": "resolved",
                "ticker": "AAPL",
                "name": "APPLE INC",
                "exchange": "US",
                "security_type": "Common Stock",
                "source": "openfigi",
                "confidence": 0.95,
            }
        ],
        "resolved": 1,
        "unresolved": 0,
    }
    assert upstream.asked[0].body == [{"idType": "ID_CUSIP", "idValue": APPLE_CUSIP}]
    assert await resolve(market, item("cusip", APPLE_CUSIP)) == first
    assert len(upstream.asked) == 1
    time.passed += 91 * 86_400
    await resolve(market, item("cusip", APPLE_CUSIP))
    assert len(upstream.asked) == 2


async def test_an_isin_is_known_through_the_cusip_inside_it(market: Caller, upstream: Upstream) -> None:
    upstream.answers[MAPPING] = [{"data": [shapes.FIGI]}]
    await resolve(market, item("cusip", APPLE_CUSIP))
    (found,) = (await resolve(market, item("isin", APPLE_ISIN)))["results"]
    assert (found["ticker"], found["source"]) == ("AAPL", "derived")
    assert len(upstream.asked) == 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [("cusip", "037833101"), ("isin", "US0378331006"), ("sedol", "0263495"), ("figi", "BBG000B9XRY5"), ("cusip", "x")],
)
async def test_a_wrong_check_digit_is_invalid_and_never_sent(
    kind: str, value: str, market: Caller, upstream: Upstream
) -> None:
    found = await resolve(market, item(kind, value))
    assert (found["results"][0]["status"], found["resolved"], found["unresolved"]) == ("invalid", 0, 1)
    assert found["results"][0]["error"]
    assert upstream.asked == []


async def test_many_are_asked_in_batches_of_ten_without_a_key_and_keep_their_order(
    market: Caller, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiohttp import web

    async def answer(request: web.Request) -> web.StreamResponse:
        jobs = await request.json()
        rows = [{"data": [{**shapes.FIGI, "ticker": job["idValue"][-4:]}]} for job in jobs]
        return web.json_response(rows)

    from zorivest_rpc.embedded.values.identifiers import cusip_to_isin, is_valid

    upstream.answers[MAPPING] = answer
    codes = [f"{number:08d}{digit}" for number in range(12345000, 12345023) for digit in range(10)]
    cusips = [code for code in codes if is_valid("cusip", code)]
    assert len(cusips) == 23
    assert cusip_to_isin(cusips[0])
    found = await resolve(market, *(item("cusip", code) for code in cusips))
    assert [row["ticker"] for row in found["results"]] == [code[-4:] for code in cusips]
    assert [len(asked.body) for asked in upstream.asked] == [10, 10, 3]


async def test_finnhub_is_asked_for_what_openfigi_does_not_know(
    market: Caller, upstream: Upstream, connect: Callable[..., Any]
) -> None:
    await connect("finnhub")
    upstream.answers[MAPPING] = [{"warning": "No identifier found."}]
    upstream.answers["/finnhub/search"] = {
        "count": 1,
        "result": [{"description": "CISCO", "displaySymbol": "CSCO", "symbol": "CSCO", "type": "Common Stock"}],
    }
    (found,) = (await resolve(market, item("cusip", CISCO_CUSIP)))["results"]
    assert (found["ticker"], found["source"], found["confidence"]) == ("CSCO", "finnhub", 0.8)


async def test_without_a_network_the_directory_and_the_arithmetic_remain(market: Caller) -> None:
    await market.expect(200, "PUT", "/settings", {"market.offline": True})
    found = await resolve(market, item("isin", APPLE_ISIN), item("isin", NOBODY), APPLE_FIGI, "garbage")
    apple, nobody, figi, garbage = found["results"]
    assert (apple["status"], apple["ticker"], apple["source"], apple["cusip"]) == (
        "resolved",
        "AAPL",
        "directory",
        APPLE_CUSIP,
    )
    assert (nobody["status"], "market.offline" in nobody["error"]) == ("unresolved", True)
    assert (figi["id_type"], figi["status"]) == ("figi", "unresolved")
    assert (garbage["status"], garbage["id_value"]) == ("invalid", "garbage")
    assert (found["resolved"], found["unresolved"]) == (1, 3)


async def test_a_failing_service_is_told_and_not_remembered(market: Caller, upstream: Upstream) -> None:
    upstream.answers[MAPPING] = status(429, headers={"ratelimit-reset": "30"})
    (found,) = (await resolve(market, item("isin", NOBODY)))["results"]
    assert (found["status"], "OpenFIGI: its rate limit" in found["error"]) == ("unresolved", True)


async def test_both_forms_of_the_body_are_read(market: Caller, upstream: Upstream) -> None:
    upstream.answers[MAPPING] = [{"data": [shapes.FIGI]}]
    wrapped = await market.expect(
        200, "POST", "/identifiers/resolve", {"identifiers": [{"id_type": "CUSIP", "id_value": " 037833100 "}]}
    )
    assert wrapped["resolved"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        7,
        {"identifiers": "037833100"},
        [7],
        [{"id_type": "cusip"}],
        [{"id_type": "isbn", "id_value": "1"}],
        ["x"] * 1001,
    ],
    ids=str,
)
async def test_a_body_of_another_shape_is_refused(body: Any, market: Caller) -> None:
    assert (await market.expect(422, "POST", "/identifiers/resolve", body))["detail"]["errors"]
