"""Stored bars: written once per provider, read from one provider, and handed to the analysis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import Connection, func, select

from tests.embedded.conftest import Caller
from tests.embedded.market import shapes
from tests.embedded.upstream import Upstream, status
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.errors import Unavailable
from zorivest_rpc.embedded.market.bars import available, bars_for_analysis, select_bars, store_bars
from zorivest_rpc.embedded.market.market import Market
from zorivest_rpc.embedded.market.shapes import Bar
from zorivest_rpc.embedded.market.tables import market_ohlcv

DAY = datetime(2026, 3, 9, 4, tzinfo=UTC)


def bar(at: datetime, close: str = "10.5", provider: str = "Yahoo Finance") -> Bar:
    return Bar(
        timestamp=at,
        open=Decimal(10),
        high=Decimal("11.25"),
        low=Decimal("9.75"),
        close=Decimal(close),
        volume=Decimal("1000.5"),
        provider=provider,
    )


async def test_a_bar_written_again_replaces_what_the_same_provider_said(backend: Embedded, admin: Caller) -> None:
    def job(conn: Connection) -> tuple[int, list[Bar]]:
        assert store_bars(conn, "AAPL", "1d", [bar(DAY), bar(DAY, "10.75")]) == 1
        assert store_bars(conn, "AAPL", "1d", [bar(DAY, "10.9")]) == 1
        count = conn.execute(select(func.count()).select_from(market_ohlcv)).scalar_one()
        return count, select_bars(conn, "AAPL", "1d")

    count, found = await backend.database().write(job)
    assert (count, found) == (1, [bar(DAY, "10.9")])


async def test_bars_of_two_providers_are_not_mixed(backend: Embedded, admin: Caller) -> None:
    def job(conn: Connection) -> list[Bar]:
        store_bars(conn, "AAPL", "1d", [bar(DAY + timedelta(days=n), provider="Alpaca") for n in range(3)])
        store_bars(conn, "AAPL", "1d", [bar(DAY + timedelta(days=n)) for n in range(2, 4)])
        return select_bars(conn, "AAPL", "1d", DAY, DAY + timedelta(days=9))

    found = await backend.database().write(job)
    assert [(item.provider, item.timestamp.day) for item in found] == [("Alpaca", 9), ("Alpaca", 10), ("Alpaca", 11)]


async def test_a_span_includes_its_start_and_not_its_end_and_a_limit_takes_the_last(
    backend: Embedded, admin: Caller
) -> None:
    def job(conn: Connection) -> tuple[list[int], list[int]]:
        store_bars(conn, "AAPL", "1d", [bar(DAY + timedelta(days=n)) for n in range(5)])
        span = select_bars(conn, "AAPL", "1d", DAY + timedelta(days=1), DAY + timedelta(days=4))
        last = select_bars(conn, "AAPL", "1d", limit=2)
        return [item.timestamp.day for item in span], [item.timestamp.day for item in last]

    assert await backend.database().write(job) == ([10, 11, 12], [12, 13])


async def test_the_analysis_gets_bars_that_reach_into_the_span(backend: Embedded, admin: Caller) -> None:
    start = DAY + timedelta(hours=10)

    def job(conn: Connection) -> None:
        store_bars(conn, "AAPL", "1d", [bar(DAY), bar(DAY + timedelta(days=1))])
        store_bars(conn, "AAPL", "1h", [bar(DAY)])
        assert available(conn, "AAPL", DAY, start) == ["1d"]
        bars, source = bars_for_analysis(conn, "AAPL", "1d", start, start + timedelta(hours=1))
        assert ([item.time for item in bars], source) == ([DAY, DAY + timedelta(days=1)], "Yahoo Finance")
        assert (bars[0].high, bars[0].low) == (Decimal("11.25"), Decimal("9.75"))
        assert bars_for_analysis(conn, "MSFT", "1d", start, start) == ([], None)

    await backend.database().write(job)


async def test_an_interval_that_does_not_exist_is_a_mistake_of_the_caller(backend: Embedded, admin: Caller) -> None:
    with pytest.raises(ValueError, match="7m"):
        await backend.database().write(lambda conn: store_bars(conn, "AAPL", "7m", [bar(DAY)]))


async def test_bars_for_a_holding_period_are_fetched_once_and_then_stored(
    backend: Embedded, market: Caller, upstream: Upstream
) -> None:
    feed = Market(backend.database(), backend.settings(), backend.fields(), backend.outbound)
    upstream.answers["/yahoo/v8/finance/chart/AAPL"] = shapes.CHART
    start, end = datetime(2026, 3, 9, 14, tzinfo=UTC), datetime(2026, 3, 10, 14, tzinfo=UTC)
    bars, resolution, source = await feed.bars_covering("AAPL", "1d", start, end)
    assert ([item.high for item in bars], resolution, source) == (
        [Decimal(189), Decimal("191.5")],
        "1d",
        "Yahoo Finance",
    )
    assert await feed.bars_covering("AAPL", "15min", start, end) == (
        bars,
        "1d",
        source,
    )  # coarse is better than nothing
    assert len(upstream.asked) == 1
    upstream.answers["/yahoo/v8/finance/chart/MSFT"] = status(403)
    with pytest.raises(Unavailable) as refused:
        await feed.bars_covering("MSFT", "1d", start, end)
    assert refused.value.code == "no_bar_data"
