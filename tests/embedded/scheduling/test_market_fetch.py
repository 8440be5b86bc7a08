"""Fetch steps against the real market adapters, which ask a local server."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.upstream import Upstream, status
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.market.tables import market_ohlcv, market_quotes

from .conftest import Create, step
from .test_runs import run

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
        (fetch("auto", "fundamentals", tickers=["AAPL"]), "No provider serves fundamentals"),
    ]
    for number, (asking, words) in enumerate(cases):
        done = await run(market, await create_approved(asking, name=f"P{number}"))
        assert (done["status"], words in done["error"]) == ("failed", True), done["error"]
    await market.expect(200, "PUT", "/settings", {"market.offline": True})
    asked = len(upstream.asked)
    done = await run(market, await create_approved(cases[0][0], name="Offline"))
    assert "market.offline" in done["error"]
    assert len(upstream.asked) == asked
