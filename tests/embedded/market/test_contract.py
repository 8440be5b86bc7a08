"""What the routes answer is what the tools that call them promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.upstream import Upstream
from tests.places import ROOT

TOOLS = ROOT / "schemas" / "tools"
CALLS: dict[str, tuple[str, str]] = {
    "market-data/get_stock_quote": ("GET", "/market-data/quote?ticker=AAPL"),
    "market-data/get_market_news": ("GET", "/market-data/news?ticker=AAPL"),
    "market-data/search_ticker": ("GET", "/market-data/search?query=apple"),
    "market-data/get_sec_filings": ("GET", "/market-data/sec-filings?ticker=AAPL"),
    "market-data/list_market_providers": ("GET", "/market-data/providers"),
    "market-data/test_market_provider": ("POST", "/market-data/providers/Yahoo%20Finance/test"),
    "market-data/disconnect_market_provider": ("DELETE", "/market-data/providers/Finnhub/key"),
    "accounts/list_brokers": ("GET", "/brokers"),
}


@pytest.mark.parametrize("online", [True, False], ids=["online", "from the cache, offline"])
@pytest.mark.parametrize("tool", CALLS)
async def test_an_answer_satisfies_the_tools_schema(
    tool: str, online: bool, market: Caller, upstream: Upstream, connect: Callable[..., Any]
) -> None:
    spec = json.loads((TOOLS / f"{tool}.json").read_text())
    await connect("finnhub")
    upstream.answers |= {
        "/yahoo/v8/finance/chart/AAPL": shapes.CHART,
        "/yahoo/v1/finance/search": shapes.YAHOO_SEARCH,
        "/finnhub/company-news": shapes.FINNHUB_NEWS,
        "/sec_edgar/files/company_tickers.json": shapes.COMPANY_TICKERS,
        "/sec_edgar_data/submissions/CIK0000320193.json": shapes.SUBMISSIONS,
    }
    method, path = CALLS[tool]
    answer = await market.expect(200, method, path)
    if not online:
        await market.expect(200, "PUT", "/settings", {"market.offline": True})
        answer = await market.expect(200, method, path)
    jsonschema.validate(answer, spec["outputSchema"])
    rows = answer if isinstance(answer, list) else [answer]
    assert rows
    assert all(set(spec["keep"]) <= set(row) for row in rows)


async def test_the_answers_of_tools_without_a_schema_have_the_fields_that_are_kept(market: Caller) -> None:
    for tool, path, body in (
        ("sync_broker", "/brokers/local_folder/sync", None),
        ("resolve_identifiers", "/identifiers/resolve", [{"id_type": "isin", "id_value": "US0378331005"}]),
    ):
        answer = await market.expect(200, "POST", path, body)
        row = answer["results"][0] if "results" in answer else answer
        spec = json.loads((TOOLS / "accounts" / f"{tool}.json").read_text())
        assert set(spec["keep"]) <= set(row)
