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
from zorivest_rpc.embedded.database.schema.market import market_ohlcv
from zorivest_rpc.embedded.errors import BadUpstream
from zorivest_rpc.embedded.market import stored_bars as price_bars
from zorivest_rpc.embedded.market.bars import beginning, select_bars, store_bars
from zorivest_rpc.embedded.market.market import Market
from zorivest_rpc.embedded.market.shapes import ProviderBar

DAY = datetime(2026, 3, 9, tzinfo=UTC)


def bar(at: datetime, close: str = "10.5", provider: str = "Yahoo Finance") -> ProviderBar:
    return ProviderBar(
        timestamp=at,
        open=Decimal(10),
        high=Decimal("11.25"),
        low=Decimal("9.75"),
        close=Decimal(close),
        volume=Decimal("1000.5"),
        provider=provider,
    )


async def test_a_bar_written_again_replaces_what_the_same_provider_said(backend: Embedded, admin: Caller) -> None:
    def job(conn: Connection) -> tuple[int, list[ProviderBar]]:
        assert store_bars(conn, "AAPL", "1d", [bar(DAY), bar(DAY, "10.75")]) == 1
        assert store_bars(conn, "AAPL", "1d", [bar(DAY, "10.9")]) == 1
        count = conn.execute(select(func.count()).select_from(market_ohlcv)).scalar_one()
        return count, select_bars(conn, "AAPL", "1d")

    count, found = await backend.database().write(job)
    assert (count, found) == (1, [bar(DAY, "10.9")])


async def test_bars_of_two_providers_are_not_mixed(backend: Embedded, admin: Caller) -> None:
    def job(conn: Connection) -> list[ProviderBar]:
        store_bars(conn, "AAPL", "1d", [bar(DAY + timedelta(days=n), provider="Alpaca") for n in range(3)])
        store_bars(conn, "AAPL", "1d", [bar(DAY + timedelta(days=n)) for n in range(2, 4)])
        return select_bars(conn, "AAPL", "1d", DAY, DAY + timedelta(days=9))

    found = await backend.database().write(job)
    assert [(item.provider, item.timestamp.day) for item in found] == [("Alpaca", 9), ("Alpaca", 10), ("Alpaca", 11)]


async def test_a_span_includes_its_start_and_not_its_end(backend: Embedded, admin: Caller) -> None:
    def job(conn: Connection) -> list[int]:
        store_bars(conn, "AAPL", "1d", [bar(DAY + timedelta(days=n)) for n in range(5)])
        span = select_bars(conn, "AAPL", "1d", DAY + timedelta(days=1), DAY + timedelta(days=4))
        return [item.timestamp.day for item in span]

    assert await backend.database().write(job) == [10, 11, 12]


async def test_the_analysis_finds_what_was_fetched(backend: Embedded, admin: Caller) -> None:
    def job(conn: Connection) -> None:
        store_bars(conn, "AAPL", "1d", [bar(DAY), bar(DAY + timedelta(days=1), provider="Alpaca")])
        store_bars(conn, "AAPL", "1h", [bar(DAY)])
        noon = DAY + timedelta(hours=12)
        assert price_bars.available(conn, "AAPL", noon, noon) == ["1d"]
        found = price_bars.between(conn, "AAPL", "1d", noon, noon + timedelta(days=1))
        assert [item.time for item in found.bars] == [DAY, DAY + timedelta(days=1)]
        assert (found.bars[0].high, found.source) == (Decimal("11.25"), "Alpaca, Yahoo Finance")

    await backend.database().write(job)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 3, 9, tzinfo=UTC),
        datetime(2026, 3, 9, 4, tzinfo=UTC),
        datetime(2026, 3, 9, 13, 30, tzinfo=UTC),
        datetime(2026, 3, 10, 3, 59, tzinfo=UTC),
    ],
)
def test_a_day_begins_at_midnight_however_it_was_stamped(moment: datetime) -> None:
    assert beginning(moment, "1d") == datetime(2026, 3, 9, tzinfo=UTC)
    assert beginning(moment, "1h") == moment


async def test_an_interval_that_does_not_exist_is_a_mistake_of_the_caller(backend: Embedded, admin: Caller) -> None:
    with pytest.raises(ValueError, match="7m"):
        await backend.database().write(lambda conn: store_bars(conn, "AAPL", "7m", [bar(DAY)]))


async def test_bars_for_a_holding_period_are_fetched_for_the_analysis(
    backend: Embedded, market: Caller, upstream: Upstream
) -> None:
    feed = Market(backend.database(), backend.settings(), backend.fields(), backend.outbound)
    upstream.answers["/yahoo/v8/finance/chart/AAPL"] = shapes.CHART
    start, end = datetime(2026, 3, 9, 14, tzinfo=UTC), datetime(2026, 3, 10, 14, tzinfo=UTC)
    assert await feed.fetch_bars("AAPL", "1d", start, end) == 2
    found = await backend.database().read(lambda conn: price_bars.between(conn, "AAPL", "1d", start, end))
    assert ([item.high for item in found.bars], found.source) == ([Decimal(189), Decimal("191.5")], "Yahoo Finance")
    upstream.answers["/yahoo/v8/finance/chart/MSFT"] = status(403)
    with pytest.raises(BadUpstream):
        await feed.fetch_bars("MSFT", "1d", start, end)
