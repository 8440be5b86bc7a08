"""Every provider is asked in its documented way and its answers become the same shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Sequence, Upstream, status
from zorivest_rpc.embedded.market.providers import ORDER, PROVIDERS, find_provider

Connect = Callable[..., Any]

QUOTES = {
    "yahoo": ("/yahoo/v8/finance/chart/AAPL", shapes.CHART, 190.25),
    "alpha_vantage": ("/alpha_vantage/query", shapes.GLOBAL_QUOTE, 190.1),
    "polygon": ("/polygon/v2/aggs/ticker/AAPL/prev", shapes.POLYGON_PREV, 190.2),
    "finnhub": ("/finnhub/quote", shapes.FINNHUB_QUOTE, 190.3),
    "eodhd": ("/eodhd/real-time/AAPL.US", shapes.EODHD_QUOTE, 190.4),
    "api_ninjas": ("/api_ninjas/stockprice", shapes.NINJAS_QUOTE, 190.5),
}
UNKNOWN = {
    "yahoo": status(404, shapes.NOT_FOUND),
    "alpha_vantage": {"Global Quote": {}},
    "polygon": {"status": "OK", "resultsCount": 0},
    "finnhub": {"c": 0, "d": None, "dp": None, "h": 0, "l": 0, "o": 0, "pc": 0, "t": 0},
    "eodhd": {"code": "AAPL.US", "timestamp": "NA", "close": "NA", "open": "NA"},
    "api_ninjas": [],
}
WHERE_THE_KEY_IS = {
    "alpha_vantage": ("query", "apikey", "{}"),
    "polygon": ("headers", "Authorization", "Bearer {}"),
    "finnhub": ("headers", "X-Finnhub-Token", "{}"),
    "eodhd": ("query", "api_token", "{}"),
    "api_ninjas": ("headers", "X-Api-Key", "{}"),
}


async def only(market: Caller, connect: Connect, name: str) -> None:
    """One provider on, all others off."""
    for provider in PROVIDERS:
        if provider.slug == name and provider.requires_key:
            await connect(name)
        elif provider.slug != name:
            await market.expect(200, "PUT", f"/market-data/providers/{provider.slug}", {"is_enabled": False})


@pytest.mark.parametrize("name", QUOTES)
async def test_a_quote_has_one_shape_from_every_provider(
    name: str, market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await only(market, connect, name)
    path, answer, price = QUOTES[name]
    upstream.answers[path] = answer
    found = await market.get("/market-data/quote?ticker=aapl")
    provider = find_provider(name)
    assert provider is not None
    assert (found["ticker"], found["price"], found["provider"]) == ("AAPL", price, provider.name)
    assert (found["stale"], found["age_seconds"]) == (False, 0)
    assert upstream.paths() == [path]
    if name in WHERE_THE_KEY_IS:
        part, field, form = WHERE_THE_KEY_IS[name]
        assert getattr(upstream.asked[0], part)[field] == form.format(f"key-of-{name}")


@pytest.mark.parametrize("name", QUOTES)
async def test_an_unknown_symbol_is_404_however_a_provider_says_it(
    name: str, market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await only(market, connect, name)
    upstream.answers[QUOTES[name][0]] = UNKNOWN[name]
    refused = await market.expect(404, "GET", "/market-data/quote?ticker=AAPL")
    assert refused["error"] == "symbol_not_found"
    assert '"AAPL"' in refused["detail"]


async def test_the_details_of_a_quote_are_kept(market: Caller, upstream: Upstream) -> None:
    upstream.answers[QUOTES["yahoo"][0]] = shapes.CHART
    assert await market.get("/market-data/quote?ticker=AAPL") == {
        "ticker": "AAPL",
        "price": 190.25,
        "provider": "Yahoo Finance",
        "open": None,
        "high": 191.5,
        "low": 187.9,
        "previous_close": 188,
        "change": 2.25,
        "change_pct": 1.1968,
        "volume": 51000000,
        "timestamp": "2026-03-10T15:00:00+00:00",
        "currency": "USD",
        "stale": False,
        "age_seconds": 0,
    }


@pytest.mark.parametrize(
    ("ticker", "written"),
    [
        ("BRK.B", "BRK-B"),
        ("EUR/USD", "EURUSD=X"),
        ("BTC-USD", "BTC-USD"),
        ("AAPL 260320 C 200", "AAPL260320C00200000"),
    ],
)
async def test_a_symbol_is_written_as_the_provider_writes_it(
    ticker: str, written: str, market: Caller, upstream: Upstream
) -> None:
    upstream.answers[f"/yahoo/v8/finance/chart/{written}"] = shapes.CHART
    response = await market.ask("GET", "/market-data/quote", params={"ticker": ticker})
    assert response.status == 200
    assert (await response.json())["ticker"] == ticker


NEWS = {
    "finnhub": ("/finnhub/company-news", shapes.FINNHUB_NEWS, "Apple opens a store", "Reuters"),
    "benzinga": ("/benzinga/news", shapes.BENZINGA_NEWS, "Apple in focus", "Benzinga"),
    "yahoo": ("/yahoo/v1/finance/search", shapes.YAHOO_SEARCH, "Apple rises", "Wire"),
}


@pytest.mark.parametrize("name", NEWS)
async def test_news_have_one_shape_from_every_provider(
    name: str, market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await only(market, connect, name)
    path, answer, title, source = NEWS[name]
    upstream.answers[path] = answer
    found = await market.get("/market-data/news?ticker=AAPL&count=3")
    assert [(item["title"], item["source"], item["tickers"]) for item in found] == [(title, source, ["AAPL"])]
    assert found[0]["published_at"].startswith("2026-03-10T13:40:00")
    assert found[0]["url"].startswith("https://example.com/")


async def test_company_news_are_asked_with_a_span_and_general_news_without_a_ticker(
    market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await connect("finnhub")
    upstream.answers |= {"/finnhub/company-news": shapes.FINNHUB_NEWS, "/finnhub/news": shapes.FINNHUB_NEWS}
    await market.get("/market-data/news?ticker=AAPL")
    await market.get("/market-data/news")
    assert upstream.asked[0].query == {"symbol": "AAPL", "from": "2026-02-24", "to": "2026-03-10"}
    assert upstream.asked[1].query == {"category": "general"}


SEARCHES = {
    "yahoo": ("/yahoo/v1/finance/search", shapes.YAHOO_SEARCH, ["AAPL", "APC.F"]),
    "fmp": ("/fmp/search", shapes.FMP_SEARCH, ["AAPL"]),
    "alpha_vantage": ("/alpha_vantage/query", shapes.BEST_MATCHES, ["AAPL"]),
}


@pytest.mark.parametrize("name", SEARCHES)
async def test_a_search_has_one_shape_from_every_provider(
    name: str, market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await only(market, connect, name)
    path, answer, symbols = SEARCHES[name]
    upstream.answers[path] = answer
    found = await market.get("/market-data/search?query=apple")
    assert [hit["symbol"] for hit in found] == symbols
    assert found[0]["name"].startswith("Apple Inc")


async def test_filings_of_edgar_have_the_address_of_their_document(market: Caller, upstream: Upstream) -> None:
    upstream.answers |= {
        "/sec_edgar/files/company_tickers.json": shapes.COMPANY_TICKERS,
        "/sec_edgar_data/submissions/CIK0000320193.json": shapes.SUBMISSIONS,
    }
    found = await market.get("/market-data/sec-filings?ticker=AAPL")
    assert [(item["filing_type"], item["filing_date"]) for item in found] == [
        ("10-Q", "2026-01-30"),
        ("8-K", "2026-01-29"),
    ]
    assert (found[0]["cik"], found[0]["company_name"]) == ("0000320193", "Apple Inc.")
    assert found[0]["url"] == ("https://www.sec.gov/Archives/edgar/data/320193/000032019326000010/aapl-20251227.htm")
    only_8k = await market.get("/market-data/sec-filings?ticker=AAPL&forms=8-k")
    assert [item["filing_type"] for item in only_8k] == ["8-K"]
    assert "zorivest-rpc" in upstream.asked[0].headers["User-Agent"]


async def test_the_contact_for_edgar_is_sent_as_it_asks(market: Caller, upstream: Upstream) -> None:
    await market.expect(200, "PUT", "/market-data/providers/edgar", {"api_key": "jane@example.com"})
    upstream.answers["/sec_edgar/files/company_tickers.json"] = shapes.COMPANY_TICKERS
    await market.expect(404, "GET", "/market-data/sec-filings?ticker=NOPE")
    assert upstream.asked[0].headers["User-Agent"] == "zorivest-rpc jane@example.com"


async def test_filings_of_sec_api_come_before_edgar(market: Caller, upstream: Upstream, connect: Connect) -> None:
    await connect("sec_api")
    upstream.answers["/sec_api/"] = shapes.SEC_API_FILINGS
    found = await market.get("/market-data/sec-filings?ticker=AAPL&forms=10-Q,10-K&limit=3")
    assert [(item["provider"], item["filing_date"], item["cik"]) for item in found] == [
        ("SEC API", "2026-01-30", "0000320193")
    ]
    (asked,) = upstream.asked
    assert asked.headers["Authorization"] == "key-of-sec_api"
    assert asked.body["query"] == 'ticker:"AAPL" AND formType:("10-K" OR "10-Q")'
    assert asked.body["size"] == "3"


BARS = {
    "yahoo": ("/yahoo/v8/finance/chart/AAPL", shapes.CHART),
    "alpaca": ("/alpaca_data/v2/stocks/AAPL/bars", {"bars": [shapes.ALPACA_BAR], "next_page_token": None}),
    "eodhd": ("/eodhd/eod/AAPL.US", shapes.EODHD_DAY),
    "tradier": ("/tradier/v1/markets/history", {"history": {"day": shapes.TRADIER_DAY}}),
}


@pytest.mark.parametrize("name", BARS)
async def test_bars_have_one_shape_from_every_provider(
    name: str, market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await only(market, connect, name)
    if name == "alpaca":
        await connect(name, api_secret="s")
    path, answer = BARS[name]
    upstream.answers[path] = answer
    found = await market.get("/market-data/ohlcv?ticker=AAPL&start_date=2026-03-09&end_date=2026-03-09")
    (bar,) = found["bars"]
    prices = (bar["open"], bar["high"], bar["low"], bar["close"], bar["volume"])
    assert prices == (187.5, 189, 186, 188, 48000000)
    assert (found["ticker"], found["interval"], found["stale"]) == ("AAPL", "1d", False)


async def test_bars_of_polygon_are_read_to_the_last_page(market: Caller, upstream: Upstream, connect: Connect) -> None:
    await only(market, connect, "polygon")
    start, end = 1773014400000, 1773100799999
    path = f"/polygon/v2/aggs/ticker/AAPL/range/1/minute/{start}/{end}"
    rows = [
        {"o": 1, "h": 2, "l": 1, "c": 2, "v": 10, "vw": 1.5, "t": start + 60_000 * minute, "n": 3}
        for minute in range(3)
    ]
    upstream.answers[path] = Sequence(
        {"status": "OK", "results": rows[:2], "next_url": f"https://evil.example{path[8:]}?cursor=next"},
        {"status": "OK", "results": rows[2:]},
    )
    found = await market.get("/market-data/ohlcv?ticker=AAPL&interval=1m&start_date=2026-03-09&end_date=2026-03-09")
    assert len(found["bars"]) == 3
    assert [asked.query.get("cursor") for asked in upstream.asked] == [None, "next"]


async def test_bars_of_alpaca_are_read_to_the_last_page(market: Caller, upstream: Upstream, connect: Connect) -> None:
    await only(market, connect, "alpaca")
    await connect("alpaca", api_secret="secret-half")
    later = {**shapes.ALPACA_BAR, "t": "2026-03-09T05:00:00Z"}
    upstream.answers["/alpaca_data/v2/stocks/AAPL/bars"] = Sequence(
        {"bars": [shapes.ALPACA_BAR], "next_page_token": "p2"}, {"bars": [later], "next_page_token": None}
    )
    found = await market.get("/market-data/ohlcv?ticker=AAPL&interval=1h&start_date=2026-03-09&end_date=2026-03-09")
    assert [bar["timestamp"][11:13] for bar in found["bars"]] == ["04", "05"]
    assert upstream.asked[1].query["page_token"] == "p2"
    sent = upstream.asked[0].headers
    assert (sent["APCA-API-KEY-ID"], sent["APCA-API-SECRET-KEY"]) == ("key-of-alpaca", "secret-half")


TESTS: dict[str, tuple[str, Any]] = {
    "yahoo": ("/yahoo/v1/finance/search", shapes.YAHOO_SEARCH),
    "sec_edgar": ("/sec_edgar/files/company_tickers.json", shapes.COMPANY_TICKERS),
    "alpha_vantage": ("/alpha_vantage/query", shapes.GLOBAL_QUOTE),
    "polygon": ("/polygon/v2/aggs/ticker/AAPL/prev", shapes.POLYGON_PREV),
    "finnhub": ("/finnhub/quote", shapes.FINNHUB_QUOTE),
    "fmp": ("/fmp/profile/AAPL", [{"symbol": "AAPL"}]),
    "eodhd": ("/eodhd/real-time/AAPL.US", shapes.EODHD_QUOTE),
    "nasdaq_data_link": ("/nasdaq_data_link/datatables/SHARADAR/SF1.json", shapes.SHARADAR),
    "sec_api": ("/sec_api/mapping/ticker/AAPL", [{"ticker": "AAPL", "cik": "320193"}]),
    "api_ninjas": ("/api_ninjas/stockprice", shapes.NINJAS_QUOTE),
    "benzinga": ("/benzinga/news", shapes.BENZINGA_NEWS),
    "openfigi": ("/openfigi/mapping", [{"data": [shapes.FIGI]}]),
    "alpaca": ("/alpaca/v2/account", {"id": "1", "status": "ACTIVE"}),
    "tradier": ("/tradier/v1/user/profile", {"profile": {"id": "id-1"}}),
}


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.slug)
async def test_a_test_call_proves_a_provider_and_is_stamped(
    provider: Any, market: Caller, upstream: Upstream, connect: Connect
) -> None:
    if provider.requires_key:
        await connect(provider.slug, **({"api_secret": "s"} if provider.needs_secret else {}))
    path, answer = TESTS[provider.slug]
    upstream.answers[path] = answer
    found = await market.expect(200, "POST", f"/market-data/providers/{provider.name}/test")
    assert (found["success"], found["message"]) == (True, "connection successful")
    listed = {row["slug"]: row for row in await market.get("/market-data/providers")}
    assert listed[provider.slug]["last_test_status"] == "success"
    assert listed[provider.slug]["last_tested_at"] == found["tested_at"]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.slug)
async def test_an_odd_answer_is_no_proof(provider: Any, market: Caller, upstream: Upstream, connect: Connect) -> None:
    if provider.requires_key:
        await connect(provider.slug, **({"api_secret": "s"} if provider.needs_secret else {}))
    upstream.answers[TESTS[provider.slug][0]] = {"hello": "world"}
    found = await market.expect(200, "POST", f"/market-data/providers/{provider.slug}/test")
    assert (found["success"], found["message"]) == (False, "connected, unexpected response")


async def test_a_key_of_a_newer_plan_is_valid_for_fmp(market: Caller, upstream: Upstream, connect: Connect) -> None:
    await connect("fmp")
    upstream.answers["/fmp/profile/AAPL"] = status(403, {"Error Message": "Legacy Endpoint: no longer supported"})
    assert (await market.expect(200, "POST", "/market-data/providers/fmp/test"))["success"]


async def test_a_key_of_a_newer_plan_searches_at_the_newer_addresses(
    market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await only(market, connect, "fmp")
    upstream.answers["/fmp/search"] = status(403, {"Error Message": "Legacy Endpoint : Due to Legacy endpoints ..."})
    upstream.answers["/fmp_stable/search-symbol"] = []
    upstream.answers["/fmp_stable/search-name"] = shapes.FMP_STABLE_SEARCH
    (hit,) = await market.get("/market-data/search?query=apple")
    assert (hit["symbol"], hit["exchange"], hit["currency"]) == ("AAPL", "NASDAQ", "USD")
    assert upstream.paths() == ["/fmp/search", "/fmp_stable/search-symbol", "/fmp_stable/search-name"]
    assert {asked.query["apikey"] for asked in upstream.asked} == {"key-of-fmp"}


async def test_filings_of_sec_api_are_asked_for_fifty_at_a_time(
    market: Caller, upstream: Upstream, connect: Connect
) -> None:
    await only(market, connect, "sec_api")
    (one,) = shapes.SEC_API_FILINGS["filings"]

    async def page(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        left = max(0, 70 - int(body["from"]))
        rows = [{**one, "accessionNo": f"{place}"} for place in range(min(left, int(body["size"])))]
        return web.json_response({"total": {"value": 70}, "filings": rows})

    upstream.answers["/sec_api/"] = page
    assert len(await market.get("/market-data/sec-filings?ticker=AAPL&limit=200")) == 70
    assert [(asked.body["from"], asked.body["size"]) for asked in upstream.asked] == [("0", "50"), ("50", "50")]


async def test_the_list_of_companies_is_fetched_from_edgar_once_a_day(
    market: Caller, upstream: Upstream, time: Time
) -> None:
    upstream.answers |= {
        "/sec_edgar/files/company_tickers.json": shapes.COMPANY_TICKERS,
        "/sec_edgar_data/submissions/CIK0000320193.json": shapes.SUBMISSIONS,
        "/sec_edgar_data/submissions/CIK0001067983.json": shapes.SUBMISSIONS,
    }
    await market.get("/market-data/sec-filings?ticker=AAPL")
    await market.get("/market-data/sec-filings?ticker=BRK.B")
    assert upstream.paths().count("/sec_edgar/files/company_tickers.json") == 1
    time.passed += 86_401
    await market.get("/market-data/sec-filings?ticker=AAPL")
    assert upstream.paths().count("/sec_edgar/files/company_tickers.json") == 2


def test_every_provider_in_an_order_has_what_the_order_needs() -> None:
    for data_type, providers in ORDER.items():
        assert all(getattr(provider, data_type) is not None for provider in providers)
    assert len({provider.slug for provider in PROVIDERS}) == len(PROVIDERS)


@pytest.mark.parametrize("word", ["Alpha Vantage", "alpha_vantage", "ALPHA VANTAGE", "alpha-vantage", "alphavantage"])
def test_a_provider_is_found_by_name_and_slug_in_any_case(word: str) -> None:
    provider = find_provider(word)
    assert provider is not None
    assert provider.slug == "alpha_vantage"
