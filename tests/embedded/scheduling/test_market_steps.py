"""Steps that move market data: stored data is read, records are mapped, checked, and written as asked."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import JSON, Column, Connection, Integer, MetaData, String, Table, UniqueConstraint, select

from tests.embedded.conftest import Caller
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.columns import Moment, Scaled
from zorivest_rpc.embedded.scheduling import stored_market
from zorivest_rpc.embedded.scheduling.step import Fetched, FetchRequest
from zorivest_rpc.embedded.scheduling.steps import transform
from zorivest_rpc.embedded.scheduling.steps.transform import convert_rows, write_rows

from .conftest import Create, step
from .running import run

OTHER = MetaData()
QUOTES = Table(
    "market_quotes",
    OTHER,
    Column("id", Integer, primary_key=True),
    Column("ticker", String(8), nullable=False),
    Column("timestamp", Moment, nullable=False),
    Column("price", Scaled(8), nullable=False),
    Column("volume", Scaled(4)),
    Column("provider", String(16), nullable=False),
    Column("extra", JSON),
    UniqueConstraint("ticker", "timestamp", "provider"),
)
GOOD = {"ticker": "AAPL", "timestamp": "2026-01-02T15:00:00+00:00", "price": 101.25, "provider": "x"}


@pytest.fixture
async def quotes(backend: Embedded, admin: Caller, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    """A journal with a table of quotes, whatever else it has."""

    def make(conn: Connection) -> None:
        conn.exec_driver_sql("DROP TABLE IF EXISTS market_quotes")
        QUOTES.create(conn)

    await backend.database().write(make)
    monkeypatch.setattr(transform, "metadata", OTHER)
    monkeypatch.setattr(stored_market, "metadata", OTHER)
    return backend


def feed(backend: Embedded, monkeypatch: pytest.MonkeyPatch, *records: dict[str, Any]) -> None:
    async def market(request: FetchRequest) -> Fetched:
        return Fetched(list(records), "miss")

    assert backend.scheduling._open is not None
    monkeypatch.setattr(backend.scheduling._open, "fetch", market)


async def stored(backend: Embedded) -> list[tuple[str, Decimal]]:
    statement = select(QUOTES.c.ticker, QUOTES.c.price).order_by(QUOTES.c.ticker, QUOTES.c.timestamp)
    return [tuple(row) for row in await backend.database().read(lambda conn: conn.execute(statement).all())]


FETCH = step("get", "fetch", {"provider": "yahoo", "data_type": "quote"})


def keep(**params: Any) -> dict[str, Any]:
    return step("keep", "transform", {"target_table": "market_quotes", **params})


async def test_records_are_mapped_and_written_and_a_dry_run_only_looks(
    quotes: Embedded, create_approved: Create, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"symbol": "MSFT", "at": "2026-01-02", "last": "99.5", "src": "x"}
    feed(quotes, monkeypatch, record)
    mapping = {"ticker": "symbol", "timestamp": "at", "price": "last", "provider": "src"}
    policy = await create_approved(FETCH, keep(mapping=mapping))
    dry = await run(admin, policy, dry_run=True)
    assert dry["steps"][1]["summary"] == {"valid": 1, "rows_written": 0, "quarantined": 0, "quality": 1.0}
    assert await stored(quotes) == []
    assert (await run(admin, policy))["steps"][1]["summary"]["rows_written"] == 1
    assert await stored(quotes) == [("MSFT", Decimal("99.5"))]


async def test_too_many_bad_records_write_nothing(
    quotes: Embedded, create_approved: Create, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad: list[dict[str, Any]] = [{**GOOD, "price": "n/a"}, {**GOOD, "timestamp": "yesterday"}, {"ticker": "A"}]
    feed(quotes, monkeypatch, GOOD, *bad)
    done = await run(admin, await create_approved(FETCH, keep()))
    assert done["status"] == "failed"
    assert "Only 1 of 4 records are good enough: record 2: price is not a number" in done["error"]
    assert await stored(quotes) == []
    lenient = await run(admin, await create_approved(FETCH, keep(quality_threshold=0.2), name="Lenient"))
    assert lenient["steps"][1]["summary"] == {"valid": 1, "rows_written": 1, "quarantined": 3, "quality": 0.25}


@pytest.mark.parametrize(
    ("disposition", "expected"),
    [
        ("append", [("AAPL", Decimal(1)), ("AAPL", Decimal(2)), ("NEW", Decimal(9)), ("OLD", Decimal(3))]),
        ("merge", [("AAPL", Decimal(7)), ("AAPL", Decimal(2)), ("NEW", Decimal(9)), ("OLD", Decimal(3))]),
        ("replace", [("AAPL", Decimal(7)), ("NEW", Decimal(9)), ("OLD", Decimal(3))]),
    ],
)
async def test_known_rows_are_kept_updated_or_replaced(
    quotes: Embedded, disposition: str, expected: list[tuple[str, Decimal]]
) -> None:
    def row(ticker: str, day: int, price: int) -> dict[str, Any]:
        return {
            "ticker": ticker,
            "timestamp": datetime(2026, 1, day, tzinfo=UTC),
            "price": Decimal(price),
            "provider": "x",
        }

    def job(conn: Connection) -> None:
        write_rows(conn, QUOTES, [row("AAPL", 1, 1), row("AAPL", 2, 2), row("OLD", 1, 3)], "append")
        write_rows(conn, QUOTES, [row("AAPL", 1, 7), row("NEW", 1, 9)], disposition)

    await quotes.database().write(job)
    assert await stored(quotes) == expected


@pytest.mark.parametrize(
    ("change", "rules", "problem"),
    [
        ({"price": True}, [], "not a number"),
        ({"price": "NaN"}, [], "not a number"),
        ({"price": 10**12}, [], "too large"),
        ({"ticker": "TOOLONGNAME"}, [], "longer than 8"),
        ({"price": -1}, [{"field": "price", "min": 0}], "out of range"),
        ({"volume": None}, [{"field": "volume", "required": True}], "volume is missing"),
    ],
)
def test_a_record_that_breaks_a_rule_is_set_aside(change: dict[str, Any], rules: list[Any], problem: str) -> None:
    rows, problems = convert_rows(QUOTES, [GOOD, {**GOOD, "volume": 1, **change}], "auto", rules)
    assert any(problem in told for told in problems)
    assert len(rows) == 2 - len(problems)


async def test_what_is_stored_can_be_fetched_without_a_network(
    quotes: Embedded, create_approved: Create, admin: Caller
) -> None:
    def job(conn: Connection) -> None:
        for day in (1, 2, 3):
            record = {**GOOD, "timestamp": f"2026-01-0{day}", "price": day}
            write_rows(conn, QUOTES, convert_rows(QUOTES, [record], "auto", [])[0], "append")

    await quotes.database().write(job)
    criteria = {"tickers": ["aapl"], "since": {"type": "relative", "offset": "4d"}}
    local = step("get", "fetch", {"provider": "local", "data_type": "quote", "criteria": criteria})
    page = step("page", "render", {"template_source": "{% for r in ctx.get.records %}{{ r.price }};{% endfor %}"})
    done = await run(admin, await create_approved(local, page), dry_run=True)
    assert done["error"] is None
    assert "2.0;3.0;" in done["preview"]  # noon on the first is four days ago: its midnight is older
    assert done["steps"][0]["summary"] == {"records": 2, "cache_status": "stored"}
