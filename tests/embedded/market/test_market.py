"""Fallback, age, limits and honesty: what a caller hears when providers answer, fail, or cannot be asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.embedded.conftest import CHEAP, Caller
from tests.embedded.market import shapes
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Sequence, Upstream, addresses, raw, status
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.market.outbound import Outbound, load_addresses, safe_address

Connect = Callable[..., Any]

QUOTE = "/market-data/quote?ticker=AAPL"
YAHOO = "/yahoo/v8/finance/chart/AAPL"
FINNHUB = "/finnhub/quote"


async def test_the_next_provider_is_asked_when_one_fails(market: Caller, upstream: Upstream, connect: Connect) -> None:
    await connect("finnhub")
    upstream.answers |= {YAHOO: status(403, {"message": "blocked"}), FINNHUB: shapes.FINNHUB_QUOTE}
    found = await market.get(QUOTE)
    assert found["provider"] == "Finnhub"
    assert upstream.paths() == [YAHOO, FINNHUB]


async def test_providers_without_a_key_or_switched_off_are_not_asked(
    market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await connect("polygon", is_enabled=False)
    refused = await market.expect(404, "GET", QUOTE)
    reasons = {row["provider"]: row["reason"] for row in refused["tried"]}
    assert (reasons["Finnhub"], reasons["Polygon.io"], reasons["Yahoo Finance"]) == (
        "no_key",
        "disabled",
        "unknown_symbol",
    )
    assert upstream.paths() == [YAHOO]


async def test_a_fresh_answer_is_not_asked_for_again(market: Caller, upstream: Upstream, time: Time) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    await market.get(QUOTE)
    time.passed += 59
    assert (await market.get(QUOTE))["age_seconds"] == 59
    assert len(upstream.asked) == 1
    time.passed += 2
    assert (await market.get(QUOTE))["age_seconds"] == 0
    assert len(upstream.asked) == 2


async def test_answers_stay_fresh_four_times_as_long_while_the_market_is_closed(
    market: Caller, upstream: Upstream, time: Time
) -> None:
    time.passed = 12 * 3600  # eleven at night in New York
    upstream.answers[YAHOO] = shapes.CHART
    await market.get(QUOTE)
    time.passed += 239
    await market.get(QUOTE)
    assert len(upstream.asked) == 1
    time.passed += 2
    await market.get(QUOTE)
    assert len(upstream.asked) == 2


async def test_an_old_answer_is_given_as_stale_with_its_age_when_nobody_answers(
    market: Caller, upstream: Upstream, time: Time
) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    first = await market.get(QUOTE)
    upstream.answers[YAHOO] = status(403)
    time.passed += 86_400
    assert await market.get(QUOTE) == {**first, "stale": True, "age_seconds": 86_400}
    time.passed += 6 * 86_400 + 1
    refused = await market.expect(502, "GET", QUOTE)  # a week is too old for a price
    assert refused["error"] == "bad_upstream"


async def test_news_filings_and_searches_tell_their_age_too(market: Caller, upstream: Upstream, time: Time) -> None:
    upstream.answers |= {
        "/yahoo/v1/finance/search": shapes.YAHOO_SEARCH,
        "/sec_edgar/files/company_tickers.json": shapes.COMPANY_TICKERS,
        "/sec_edgar_data/submissions/CIK0000320193.json": shapes.SUBMISSIONS,
    }
    for path in ("/market-data/news?ticker=AAPL", "/market-data/sec-filings?ticker=AAPL"):
        assert {item["stale"] for item in await market.get(path)} == {False}
    upstream.answers.clear()
    upstream.answers |= {
        "/yahoo/v1/finance/search": status(500),
        "/sec_edgar/files/company_tickers.json": status(500),
    }
    time.passed += 10_000
    for path in ("/market-data/news?ticker=AAPL", "/market-data/sec-filings?ticker=AAPL"):
        assert {(item["stale"], item["age_seconds"] >= 10_000) for item in await market.get(path)} == {(True, True)}


async def test_a_server_error_is_tried_again_and_a_refusal_is_not(
    market: Caller, upstream: Upstream, time: Time
) -> None:
    upstream.answers[YAHOO] = Sequence(status(500), status(503), shapes.CHART)
    assert (await market.get(QUOTE))["price"] == 190.25
    assert len(upstream.asked) == 3
    assert len(time.slept) == 2
    assert time.slept[0] < 1 < time.slept[1] + 0.6  # it waits longer each time
    upstream.asked.clear()
    time.passed += 3600
    upstream.answers[YAHOO] = status(400)
    await market.get(QUOTE)
    assert len(upstream.asked) == 1


async def test_a_provider_that_asks_to_wait_is_left_alone_for_that_long(
    market: Caller, upstream: Upstream, time: Time
) -> None:
    upstream.answers[YAHOO] = Sequence(status(429, headers={"Retry-After": "120"}), shapes.CHART)
    refused = await market.expect(429, "GET", QUOTE)
    assert (refused["error"], refused["retry_after"]) == ("rate_limited", 121)
    assert "Ask again later" in refused["hint"]
    time.passed += 60
    refused = await market.expect(429, "GET", QUOTE)
    assert refused["retry_after"] == 61
    assert len(upstream.asked) == 1
    time.passed += 60
    assert (await market.get(QUOTE))["price"] == 190.25


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "Tue, 10 Mar 2026 15:02:00 GMT"}, 121),
        ({"X-RateLimit-Reset": "1773154920"}, 121),
        ({"ratelimit-reset": "30"}, 31),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "inf"}, 86_401),
        ({"Retry-After": "-5"}, 1),
        ({}, None),
    ],
)
async def test_the_time_to_wait_is_read_as_it_is_stated(
    headers: dict[str, str], wait: int | None, market: Caller, upstream: Upstream
) -> None:
    upstream.answers[YAHOO] = status(429, headers=headers)
    assert (await market.expect(429, "GET", QUOTE)).get("retry_after") == wait


async def test_no_more_requests_leave_than_the_rate_limit_allows(
    market: Caller, upstream: Upstream, time: Time
) -> None:
    await market.expect(200, "PUT", "/market-data/providers/yahoo", {"rate_limit": 2})
    for ticker in ("A", "B", "C"):
        upstream.answers[f"/yahoo/v8/finance/chart/{ticker}"] = shapes.CHART
    await market.get("/market-data/quote?ticker=A")
    await market.get("/market-data/quote?ticker=B")
    refused = await market.expect(429, "GET", "/market-data/quote?ticker=C")
    assert refused["retry_after"] == 61
    time.passed += 45  # now the wait is shorter than a caller's patience
    assert (await market.get("/market-data/quote?ticker=C"))["price"] == 190.25
    assert time.slept == [15]
    assert len(upstream.asked) == 3


async def test_a_rate_limit_told_in_a_friendly_answer_is_one(
    market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await connect("alpha_vantage")
    await market.expect(200, "PUT", "/market-data/providers/yahoo", {"is_enabled": False})
    note = (
        "We have detected your API key as key-of-alpha_vantage and our standard API rate limit is 25 requests per day."
    )
    upstream.answers["/alpha_vantage/query"] = {"Information": note}
    refused = await market.expect(429, "GET", QUOTE)
    assert "key-of-alpha_vantage" not in json.dumps(refused)
    assert "25 requests per day" in refused["detail"]


async def never(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_provider_that_never_answers_times_out(market: Caller, upstream: Upstream) -> None:
    await market.expect(200, "PUT", "/market-data/providers/yahoo", {"timeout": 1})
    upstream.answers[YAHOO] = never
    refused = await market.expect(503, "GET", QUOTE)
    assert refused["tried"][0]["reason"] == "timeout"
    assert "within 1 seconds" in refused["tried"][0]["detail"]
    assert upstream.paths()[0] == YAHOO


BAD_BODIES = {
    "broken": b'{"chart": ',
    "empty": b"",
    "html": b"<html>busy</html>",
    "not utf-8": b'{"chart": "\xff\xfe"}',
    "deep": b"[" * 100_000,
    "huge number": b'{"chart": 1e99999999999999999999}',
    "a list": b"[]",
    "a string": b'"chart"',
    "null": b"null",
    "wrong types": b'{"chart": {"result": [{"meta": [], "timestamp": 7}], "error": null}}',
    "no price": b'{"chart": {"result": [{"meta": {"regularMarketPrice": "NaN"}}], "error": null}}',
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
async def test_an_answer_that_makes_no_sense_is_a_bad_upstream(body: bytes, market: Caller, upstream: Upstream) -> None:
    upstream.answers[YAHOO] = raw(body)
    refused = await market.expect(502, "GET", QUOTE)
    assert refused["tried"][0]["reason"] == "bad_answer"


async def test_an_answer_without_end_is_cut_off(market: Caller, upstream: Upstream, outbound: Outbound) -> None:
    outbound.largest = 100_000
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            for _ in range(100_000):
                await response.write(b" " * 65_536)
                sent += 65_536
        except (ConnectionError, asyncio.CancelledError):
            pass
        return response

    upstream.answers[YAHOO] = endless
    refused = await market.expect(502, "GET", QUOTE)
    assert "larger than 100000 bytes" in refused["detail"]
    assert sent < 50_000_000


async def test_a_redirect_is_not_followed(market: Caller, upstream: Upstream, connect: Connect) -> None:
    await connect("finnhub")
    await market.expect(200, "PUT", "/market-data/providers/yahoo", {"is_enabled": False})
    upstream.answers |= {FINNHUB: status(302, headers={"Location": "/elsewhere"}), "/elsewhere": shapes.FINNHUB_QUOTE}
    await market.expect(502, "GET", QUOTE)
    assert upstream.paths() == [FINNHUB]


async def test_a_connection_that_breaks_is_a_failed_one(market: Caller, upstream: Upstream) -> None:
    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    upstream.answers[YAHOO] = hang_up
    refused = await market.expect(503, "GET", QUOTE)
    assert refused["tried"][0]["reason"] == "connection_failed"


@pytest.fixture
async def offline(market: Caller, backend: Embedded, closed_port: int, time: Time) -> Caller:
    """Every provider refuses the connection."""
    away = Outbound(addresses(f"http://127.0.0.1:{closed_port}"), clock=time.clock, sleep=time.sleep, now=time.now)
    backend.outbound = away
    return market


async def test_without_a_network_the_truth_is_told(offline: Caller, connect: Connect) -> None:
    for path in (QUOTE, "/market-data/news", "/market-data/sec-filings?ticker=AAPL", "/market-data/ohlcv?ticker=AAPL"):
        refused = await offline.expect(503, "GET", path)
        assert refused["error"] == "offline"
        assert "the connection failed" in refused["detail"]
        assert "network connection" in refused["hint"]
    found = await offline.expect(200, "POST", "/market-data/providers/yahoo/test")
    assert (found["success"], found["message"]) == (False, "connection failed")
    found = await offline.expect(200, "POST", "/market-data/providers/finnhub/test")
    assert (found["success"], found["message"]) == (False, "no API key configured")


async def test_a_search_without_a_network_uses_the_directory_of_the_program(offline: Caller) -> None:
    found = await offline.get("/market-data/search?query=apple")
    assert (found[0]["symbol"], found[0]["name"], found[0]["provider"]) == ("AAPL", "Apple Inc.", "local")
    assert (await offline.get("/market-data/search?query=msft"))[0]["name"] == "Microsoft"
    assert await offline.get("/market-data/search?query=zzzzzzzz") == []


async def test_the_setting_offline_sends_nothing(market: Caller, upstream: Upstream) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    first = await market.get(QUOTE)
    await market.expect(200, "PUT", "/settings", {"market.offline": True})
    upstream.asked.clear()
    assert await market.get(QUOTE) == first
    refused = await market.expect(503, "GET", "/market-data/quote?ticker=MSFT")
    assert (refused["error"], "market.offline" in refused["hint"]) == ("offline", True)
    assert not (await market.expect(200, "POST", "/market-data/providers/yahoo/test"))["success"]
    assert (await market.get("/market-data/search?query=MSFT"))[0]["provider"] == "local"
    assert upstream.asked == []


async def test_without_any_provider_the_answer_names_what_would_help(market: Caller) -> None:
    await market.expect(200, "PUT", "/market-data/providers/yahoo", {"is_enabled": False})
    refused = await market.expect(503, "GET", QUOTE)
    assert refused["error"] == "no_provider"
    assert "API key for one of Alpha Vantage, Polygon.io, Finnhub" in refused["hint"]
    assert "Switched off: Yahoo Finance" in refused["hint"]


async def test_stored_bars_are_given_as_stale_when_nobody_can_be_asked(market: Caller, upstream: Upstream) -> None:
    path = "/market-data/ohlcv?ticker=AAPL&start_date=2026-03-09&end_date=2026-03-10"
    upstream.answers[YAHOO] = shapes.CHART
    first = await market.get(path)
    assert [bar["close"] for bar in first["bars"]] == [188, 190.25]
    upstream.answers[YAHOO] = status(403)
    again = await market.get("/market-data/ohlcv?ticker=AAPL&start_date=2026-03-08&limit=1")
    assert (again["stale"], [bar["close"] for bar in again["bars"]]) == (True, [190.25])
    await market.expect(502, "GET", "/market-data/ohlcv?ticker=AAPL&interval=1m")


async def test_bars_fetched_twice_within_an_hour_are_asked_for_once(market: Caller, upstream: Upstream) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    path = "/market-data/ohlcv?ticker=AAPL&start_date=2026-03-09&end_date=2026-03-10"
    assert (await market.get(path))["bars"] == (await market.get(path))["bars"]
    assert len(upstream.asked) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/market-data/quote",
        "/market-data/quote?ticker=",
        "/market-data/quote?ticker=%00",
        "/market-data/quote?ticker=../../etc/passwd",
        "/market-data/quote?ticker=" + "A" * 65,
        "/market-data/quote?ticker=A%20B%3F",
        "/market-data/news?count=0",
        "/market-data/news?count=x",
        "/market-data/search?query=",
        "/market-data/sec-filings?ticker=AAPL&limit=1000",
        "/market-data/ohlcv?ticker=AAPL&interval=7m",
        "/market-data/ohlcv?ticker=AAPL&start_date=yesterday",
        "/market-data/ohlcv?ticker=AAPL&start_date=2026-03-10&end_date=2026-03-01",
        "/market-data/ohlcv?ticker=AAPL&limit=1001",
    ],
)
async def test_a_question_that_makes_no_sense_is_refused_and_not_sent(
    path: str, market: Caller, upstream: Upstream
) -> None:
    refused = await market.expect(422, "GET", path)
    assert refused["detail"]["errors"]
    assert upstream.asked == []


async def test_concurrent_questions_all_get_their_own_answer(market: Caller, upstream: Upstream) -> None:
    for ticker in "ABCDEFGH":
        chart = json.loads(json.dumps(shapes.CHART))
        chart["chart"]["result"][0]["meta"]["regularMarketPrice"] = ord(ticker)
        upstream.answers[f"/yahoo/v8/finance/chart/{ticker}"] = chart
    asked = [market.get(f"/market-data/quote?ticker={ticker}") for ticker in "ABCDEFGH" * 3]
    found = await asyncio.gather(*asked)
    assert [ord(quote["ticker"]) for quote in found] == [quote["price"] for quote in found]


def test_a_key_is_sent_encrypted_or_stays_on_this_machine() -> None:
    assert safe_address("https://example.com/v1/") == "https://example.com/v1"
    assert safe_address("http://127.0.0.1:8080") == "http://127.0.0.1:8080"
    for address in ("http://example.com", "ftp://127.0.0.1", "https://u:p@example.com", "https://example.com/?a=1"):
        with pytest.raises(ValueError):
            safe_address(address)


def test_other_addresses_come_from_a_file_of_the_owner(tmp_path: Path) -> None:
    file = tmp_path / "addresses.json"
    assert load_addresses(file) == {}
    file.write_text('{"yahoo": "http://localhost:1/"}')
    assert load_addresses(file) == {"yahoo": "http://localhost:1"}
    for bad in ('{"yahoo": "http://example.com"}', "[", '{"yahoo": 1}'):
        file.write_text(bad)
        assert load_addresses(file) == {}


async def test_a_backend_reads_the_addresses_of_its_directory(directory: DataDir, api_key: str) -> None:
    directory.create().addresses.write_text('{"yahoo": "http://localhost:1"}')
    backend = Embedded.create(directory, api_key, key_source="file", driver=None, kdf=CHEAP)
    try:
        assert backend.outbound.address("yahoo", "https://example.com") == "http://localhost:1"
        assert backend.outbound.address("finnhub", "https://example.com") == "https://example.com"
    finally:
        await backend.close()


async def test_a_question_has_one_time_for_all_providers(
    market: Caller, upstream: Upstream, time: Time, connect: Connect
) -> None:
    await connect("finnhub")

    async def slow(request: web.Request) -> web.StreamResponse:
        time.passed += 25
        return web.json_response({}, status=400)

    upstream.answers |= {YAHOO: slow, FINNHUB: shapes.FINNHUB_QUOTE}
    refused = await market.expect(503, "GET", QUOTE)
    reasons = {row["provider"]: row["reason"] for row in refused["tried"]}
    assert (reasons["Yahoo Finance"], reasons["Finnhub"]) == ("bad_answer", "out_of_time")
    assert upstream.paths() == [YAHOO]
