"""Fetch steps against the real market adapters, which ask a local server."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.upstream import Upstream, status
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.market import market_fundamentals, market_ohlcv, market_quotes

from .conftest import Create, step
from .running import run

YAHOO = "/yahoo/v8/finance/chart/AAPL"


def fetch(provider: str, data_type: str, **criteria: Any) -> dict[str, Any]:
    return step("get", "fetch", {"provider": provider, "data_type": data_type, "criteria": criteria})


def keep(table: str) -> dict[str, Any]:
    return step("keep", "transform", {"target_table": table, "write_disposition": "merge"})


async def test_a_quote_is_fetched_checked_and_stored_once(
    create_approved: Create,
    market: Caller,
    upstream: Upstream,
    backend: Embedded,
) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    policy = await create_approved(fetch("auto", "quote", tickers=["AAPL"]), keep("market_quotes"))
    for _ in range(2):
        done = await run(market, policy)
        assert done["error"] is None
    assert len(upstream.asked) == 1  # the second time it came from the cache
    statement = select(market_quotes.c.ticker, market_quotes.c.price, market_quotes.c.provider)
    rows = await backend.database().read(lambda conn: conn.execute(statement).all())
    assert [(row.ticker, float(row.price), row.provider) for row in rows] == [("AAPL", 190.25, "Yahoo Finance")]


async def test_a_step_that_wants_no_cache_asks_every_time(
    create_approved: Create, market: Caller, upstream: Upstream
) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    wanted = {"provider": "auto", "data_type": "quote", "criteria": {"tickers": ["AAPL"]}, "use_cache": False}
    policy = await create_approved(step("get", "fetch", wanted))
    for count in (1, 2):
        assert (await run(market, policy))["error"] is None
        assert len(upstream.asked) == count


async def test_fundamentals_are_fetched_and_stored(
    create_approved: Create, market: Caller, upstream: Upstream, backend: Embedded
) -> None:
    await market.expect(200, "PUT", "/market-data/providers/nasdaq", {"api_key": "a-key"})
    upstream.answers["/nasdaq_data_link/datatables/SHARADAR/SF1.json"] = shapes.SHARADAR
    for name in ("auto", "nasdaq_data_link"):
        policy = await create_approved(
            fetch(name, "fundamentals", tickers=["AAPL"]), keep("market_fundamentals"), name=f"F {name}"
        )
        assert (await run(market, policy))["error"] is None
    table = market_fundamentals.c
    statement = select(table.period, table.value).where(table.metric == "revenue").order_by(table.period)
    rows = await backend.database().read(lambda conn: conn.execute(statement).all())
    assert [tuple(row) for row in rows] == [("2024-09-28 MRY", 391035000000), ("2025-09-27 MRY", 416161000000)]


async def test_one_provider_can_be_asked_by_name(
    create_approved: Create,
    market: Caller,
    upstream: Upstream,
    backend: Embedded,
) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    bars = fetch("yahoo", "ohlcv", tickers=["AAPL"], interval="1d", since="2026-03-01", until="2026-03-11")
    done = await run(market, await create_approved(bars, keep("market_ohlcv")))
    assert done["error"] is None
    assert done["steps"][0]["summary"]["cache_status"] == "fetched"
    statement = select(market_ohlcv.c.close).order_by(market_ohlcv.c.timestamp)
    closes = await backend.database().read(lambda conn: conn.execute(statement).scalars().all())
    assert [float(close) for close in closes] == [188.0, 190.25]


async def test_what_cannot_be_answered_is_said_plainly(
    create_approved: Create,
    market: Caller,
    upstream: Upstream,
) -> None:
    upstream.answers[YAHOO] = status(500, {})
    cases = [
        (fetch("auto", "quote", tickers=["AAPL"]), "every provider answered badly"),
        (fetch("finnhub", "quote", tickers=["AAPL"]), "Finnhub"),
        (fetch("auto", "quote"), "no tickers"),
        (fetch("auto", "quote", tickers=["???"]), "not a ticker"),
        (fetch("auto", "ohlcv", tickers=["AAPL"], interval="7s"), "not an interval"),
        (fetch("auto", "fundamentals", tickers=["AAPL"]), "Nasdaq Data Link would add a source"),
        (fetch("yahoo", "fundamentals", tickers=["AAPL"]), "has no fundamentals"),
        (fetch("auto", "fundamentals", tickers=["AAPL"], dimension="X"), "not a dimension"),
    ]
    for number, (asking, words) in enumerate(cases):
        done = await run(market, await create_approved(asking, name=f"P{number}"))
        assert (done["status"], words in done["error"]) == ("failed", True), done["error"]
    await market.expect(200, "PUT", "/settings", {"market.offline": True})
    asked = len(upstream.asked)
    done = await run(market, await create_approved(cases[0][0], name="Offline"))
    assert "market.offline" in done["error"]
    assert len(upstream.asked) == asked
