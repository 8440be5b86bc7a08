"""The same question of several at once is one request; a question that wants no cache gets none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Upstream, status
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.market.market import Market

Connect = Callable[..., Any]
YAHOO = "/yahoo/v8/finance/chart/AAPL"


@pytest.fixture
def asked_directly(market: Caller, backend: Embedded) -> Market:
    return Market(backend.database(), backend.settings(), backend.fields(), backend.outbound)


class Gate:
    """Answers once it is opened, and counts who came."""

    def __init__(self, answer: Any) -> None:
        self.open = asyncio.Event()
        self.came = asyncio.Event()
        self.count = 0
        self._answer = answer

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.count += 1
        self.came.set()
        async with asyncio.timeout(20):
            await self.open.wait()
        return web.json_response(self._answer)


@pytest.mark.parametrize(
    "path",
    [
        "/market-data/quote?ticker=AAPL",
        "/market-data/ohlcv?ticker=AAPL&start_date=2026-03-01&end_date=2026-03-10",
    ],
)
async def test_one_question_of_many_is_one_request(path: str, market: Caller, upstream: Upstream) -> None:
    gate = upstream.answers[YAHOO] = Gate(shapes.CHART)
    waiting = [asyncio.ensure_future(market.get(path)) for _ in range(5)]
    async with asyncio.timeout(20):
        await gate.came.wait()
    gate.open.set()
    first, *others = await asyncio.gather(*waiting)
    assert all(other == first for other in others)
    assert gate.count == 1


async def test_a_failure_is_told_to_all_and_not_remembered(market: Caller, upstream: Upstream) -> None:
    upstream.answers[YAHOO] = status(404, shapes.NOT_FOUND)
    refused = await asyncio.gather(*(market.expect(404, "GET", "/market-data/quote?ticker=AAPL") for _ in range(3)))
    assert all(one["error"] == refused[0]["error"] for one in refused)
    upstream.answers[YAHOO] = shapes.CHART
    assert (await market.get("/market-data/quote?ticker=AAPL"))["price"] == 190.25


async def test_one_who_gives_up_does_not_take_the_answer_from_the_others(
    asked_directly: Market, upstream: Upstream
) -> None:
    gate = upstream.answers[YAHOO] = Gate(shapes.CHART)
    impatient, patient = (asyncio.ensure_future(asked_directly.quote("AAPL")) for _ in range(2))
    async with asyncio.timeout(20):
        await gate.came.wait()
    impatient.cancel()
    await asyncio.wait([impatient])
    gate.open.set()
    assert float((await patient)["price"]) == 190.25
    assert (impatient.cancelled(), gate.count) == (True, 1)


async def test_a_backend_that_ends_waits_for_no_provider(
    asked_directly: Market, upstream: Upstream, backend: Embedded
) -> None:
    gate = upstream.answers[YAHOO] = Gate(shapes.CHART)
    asking = asyncio.ensure_future(asked_directly.quote("AAPL"))
    async with asyncio.timeout(20):
        await gate.came.wait()
        await backend.outbound.close()
        await asyncio.wait([asking])
    gate.open.set()
    assert asking.cancelled()


async def test_without_the_cache_a_provider_is_asked_and_its_answer_kept(
    asked_directly: Market, upstream: Upstream
) -> None:
    upstream.answers[YAHOO] = shapes.CHART
    for use_cache, requests in ((True, 1), (True, 1), (False, 2), (True, 2)):
        told = await asked_directly.quote("AAPL", use_cache=use_cache)
        assert (told["stale"], len(upstream.asked)) == (False, requests)
    upstream.answers[YAHOO] = status(500, {})
    assert (await asked_directly.quote("AAPL", use_cache=False))["stale"]  # an old answer, told as one


async def test_fundamentals_are_one_figure_per_metric_and_period(
    asked_directly: Market, upstream: Upstream, connect: Connect, time: Time
) -> None:
    await connect("nasdaq")
    first = {**shapes.SHARADAR, "meta": {"next_cursor_id": "page2"}}

    async def page(request: web.Request) -> web.StreamResponse:
        second = request.query.get("qopts.cursor_id") == "page2"
        rows = shapes.SHARADAR["datatable"]["data"]
        whole = shapes.SHARADAR if second else first
        table = {**whole["datatable"], "data": rows[1:] if second else rows[:1]}
        return web.json_response({**whole, "datatable": table})

    upstream.answers["/nasdaq_data_link/datatables/SHARADAR/SF1.json"] = page
    found = await asked_directly.fundamentals("AAPL", "mry")
    assert [(one["metric"], one["period"], float(one["value"])) for one in found] == [
        ("revenue", "2025-09-27 MRY", 416161000000),
        ("epsdil", "2025-09-27 MRY", 7.46),
        ("revenue", "2024-09-28 MRY", 391035000000),
        ("epsdil", "2024-09-28 MRY", 6.08),
        ("dps", "2024-09-28 MRY", 0.25),
    ]
    assert {one["provider"] for one in found} == {"Nasdaq Data Link"}
    assert upstream.asked[0].query["api_key"] == "key-of-nasdaq"
    assert await asked_directly.fundamentals("AAPL", "MRY") == found
    assert len(upstream.asked) == 2
