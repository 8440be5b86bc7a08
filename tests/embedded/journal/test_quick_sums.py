"""What sums are quickly made from: copies in the ledger and losses against quotes, in step with the trades."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, select

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.analytics.stored import costs
from zorivest_rpc.embedded.analytics.stored.results import (
    Scope,
    average_slippage,
    by_strategy,
    gross_pnl,
    moments,
    risk_moments,
    streaks,
)
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.fill_sums import prepare
from zorivest_rpc.embedded.database.migrate import migrate
from zorivest_rpc.embedded.database.schema.journal import round_trips, trades, transaction_ledger
from zorivest_rpc.embedded.values.period import EVER

from .test_round_trips import assert_in_step

LINES = [{"fee_type": "exchange", "amount": 0.5}, {"fee_type": "regulatory", "amount": 0.25}]
ITEMISED = {"commission": 0.5, "fees": 0.25, "ledger": LINES}


def kept(conn: Connection) -> tuple[list[Any], list[Any], list[Any]]:
    ledger, trips = transaction_ledger.c, round_trips.c
    return (
        [tuple(row) for row in conn.execute(select(ledger.id, ledger.account_id, ledger.time, ledger.broker))],
        list(conn.execute(select(trades.c.exec_id).where(trades.c.is_itemised).order_by(trades.c.exec_id)).scalars()),
        [tuple(row) for row in conn.execute(select(trips.id, trips.slippage).order_by(trips.id))],
    )


async def fees(journal: Journal, **query: str) -> dict[str, float]:
    answer = await journal.get("/fees/summary", params={"period": "all", **query})
    assert sum(line["amount"] for line in answer["by_broker"]) == answer["total_fees"]
    return {line["fee_type"]: line["amount"] for line in answer["by_type"]}


async def test_the_ledger_moves_with_its_trade(journal: Journal) -> None:
    await journal.buy(1, 10, exec_id="x", broker="ibkr_pro", **ITEMISED)
    await journal.buy(1, 10, commission=1)
    assert await fees(journal) == {"commission": 1, "exchange": 0.5, "regulatory": 0.25}
    assert await fees(journal, period="2025") == {}
    await journal.expect(200, "PUT", "/trades/x", {"account_id": "A2", "time": "2025-06-01T15:00:00Z"})
    assert await fees(journal, account_id="A2", period="2025") == {"exchange": 0.5, "regulatory": 0.25}
    assert await fees(journal, account_id="A1") == {"commission": 1}
    await journal.expect(200, "PUT", "/trades/x", {"commission": 3})
    assert await fees(journal, account_id="A2") == {"commission": 3, "other": 0.25}
    await journal.expect(204, "DELETE", "/trades/x")
    assert await fees(journal) == {"commission": 1}


async def test_slippage_is_the_money_lost_against_quotes_per_round_trip_that_had_any(journal: Journal) -> None:
    # bought 0.02 above the offer, sold 0.01 below the bid: 100 * 0.03 = 3; the other round trip had no quote
    await journal.buy(100, 10.02, nbbo_bid=9.99, nbbo_ask=10)
    await journal.sell(60, 10.5, nbbo_bid=10.51, nbbo_ask=10.52)
    await journal.sell(40, 10.5, nbbo_bid=10.51, nbbo_ask=10.52)
    await journal.result(7)
    answer = await journal.get("/analytics/expectancy", params={"period": "all"})
    assert (answer["avg_slippage"], answer["edge_per_trade"]) == (3, answer["expectancy"] - 3)


async def test_a_flip_shares_its_slippage_and_a_crossed_quote_has_none(journal: Journal, backend: Embedded) -> None:
    await journal.buy(10, 10, nbbo_bid=11, nbbo_ask=10)
    await journal.sell(30, 10, nbbo_bid=10.5, nbbo_ask=10.6, exec_id="flip")
    await journal.buy(20, 9)
    _, _, lost = await backend.database().read(kept)
    assert [(trip, float(slippage)) for trip, slippage in lost] == [("rt-E0001", 5), ("rt-flip", 10)]
    await backend.database().read(assert_in_step)


async def test_a_journal_of_an_older_schema_gets_the_same(journal: Journal, backend: Embedded) -> None:
    await journal.buy(3, 10.02, nbbo_bid=9.99, nbbo_ask=10, broker="webull", **ITEMISED)
    await journal.sell(5, 10.5, nbbo_bid=10.51, nbbo_ask=10.52)
    await journal.buy(1, 7, instrument="QQQ", commission=2)
    await journal.buy(3, 0.52, nbbo_bid=0.45, nbbo_ask=0.5, instrument="ACME 270115 C 50", asset_class="OPTION")
    before = await backend.database().read(kept)
    assert (len(before[0]), before[1], len(before[2])) == (2, ["E0001"], 4)
    assert dict(before[2])["rt-E0004"] == 6  # three contracts of 100 shares, each 0.02 above the offer

    def forget(conn: Connection) -> None:
        conn.execute(transaction_ledger.update().values(account_id=None, time=None, broker=None))
        conn.execute(trades.update().values(is_itemised=False))
        conn.execute(round_trips.update().values(slippage=None))
        assert kept(conn) != before
        prepare(conn, datetime.now(UTC))

    await backend.database().write(forget)
    assert await backend.database().read(kept) == before


async def test_the_slippage_of_a_strategy_comes_off_its_own_edge(journal: Journal) -> None:
    # breakout lost 2 against the quote and won 10; the other trade lost 50 against its quote
    report = {"setup_quality": "A", "execution_quality": "A", "followed_plan": True, "tags": ["Breakout"]}
    opened = await journal.buy(100, 10.02, nbbo_bid=9.99, nbbo_ask=10)
    await journal.sell(100, 10.12)
    await journal.expect(201, "POST", f"/trades/{opened['exec_id']}/report", report)
    await journal.buy(100, 10.5, nbbo_bid=9.99, nbbo_ask=10)
    await journal.sell(100, 10)
    answer = await journal.get("/analytics/expectancy", params={"strategy": "breakout"})
    assert (answer["expectancy"], answer["avg_slippage"], answer["edge_per_trade"]) == (10, 2, 8)


async def test_regulatory_fees_are_estimated_only_when_asked_and_where_none_were_told(journal: Journal) -> None:
    # in June 2024: 1000 at 50 is 50000 * 0.0000278 = 1.39 to the SEC, and 1000 * 0.000166 = 0.17 to FINRA
    sale = {"instrument": "SPY", "time": "2024-06-03T15:00:00Z"}
    await journal.sell(1000, 50, **sale, exec_id="silent", broker="webull")
    await journal.sell(1000, 50, **sale, exec_id="told", fees=1)
    await journal.buy(1000, 50, **sale, exec_id="bought")
    assert await fees(journal) == {"other": 1}
    assert await fees(journal, estimate_regulatory="yes") == {"regulatory": 1.56, "other": 1}
    answer = await journal.get("/fees/summary", params={"period": "all", "estimate_regulatory": "1"})
    assert {line["fee_type"]: line["is_estimated"] for line in answer["by_type"]} == {
        "regulatory": True,
        "other": False,
    }
    await journal.refused(422, "GET", "/fees/summary", params={"estimate_regulatory": "maybe"})


async def test_the_routing_of_every_known_broker_is_known(journal: Journal) -> None:
    for number, broker in enumerate(("alpaca_live", "ninjatrader", "etrade", "somebody")):
        await journal.buy(1, 100, broker=broker, exec_id=f"R{number}")
    answer = await journal.get("/analytics/pfof-report", params={"account_id": "A1", "period": "all"})
    assert {line["routing"]: line["trades"] for line in answer["by_routing"]} == {"pfof": 1, "dma": 1, "hybrid": 2}


@pytest.mark.parametrize("account", [None, "A1"])
def test_no_sum_walks_through_a_table(account: str | None) -> None:
    """Whatever is summed over everything is read from an index that holds all of it."""
    engine, asked = create_engine("sqlite://"), []

    def note(conn: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    scope, now = Scope(account, EVER), datetime.now(UTC)
    with engine.begin() as conn:
        migrate(conn)
        event.listen(engine, "before_cursor_execute", note)
        for figure in (moments, streaks, average_slippage, by_strategy, risk_moments, costs.breakdown, gross_pnl):
            figure(conn, scope)
        costs.routing(conn, scope, now)
        event.remove(engine, "before_cursor_execute", note)
        plans = [(text, conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values).all()) for text, values in asked]
    engine.dispose()
    assert len(plans) > 12
    for text, plan in plans:
        for *_, step in plan:
            for table in ("trades", "round_trips", "round_trip_legs", "transaction_ledger"):
                assert not step.startswith(f"SCAN {table}") or "COVERING INDEX" in step, (step, text)
