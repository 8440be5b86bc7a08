"""Round trips in the database: in step with every write, however it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, create_engine, event, select

from tests.embedded.driver import START, Journal
from zorivest_rpc.embedded.analytics.positions import Execution, SplitRatio
from zorivest_rpc.embedded.analytics.round_trips import Matching, match
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.migrate import migrate
from zorivest_rpc.embedded.database.schema.journal import (
    accounts,
    corporate_actions,
    round_trip_legs,
    round_trips,
)
from zorivest_rpc.embedded.database.schema.journal import trades as trade_table
from zorivest_rpc.embedded.journal import corporate_actions as actions
from zorivest_rpc.embedded.journal import trades
from zorivest_rpc.embedded.journal.round_trips import episode_of, execution_of
from zorivest_rpc.embedded.values.symbols import parse_instrument


def stored(conn: Connection) -> tuple[list[Any], list[Any], list[Any]]:
    """Episodes, open lots and fills as the tables have them."""
    order = (round_trips.c.opened_at, round_trips.c.opened_by)
    episodes = [episode_of(row) for row in conn.execute(select(round_trips).order_by(*order)).mappings()]
    legs = conn.execute(select(round_trip_legs)).mappings().all()
    lots = sorted(
        (
            *(leg["round_trip_id"], leg["exec_id"], leg["open_quantity"], leg["open_fee"]),
            leg["price"] if leg["lot_price"] is None else leg["lot_price"],
        )
        for leg in legs
        if leg["open_quantity"]
    )
    fills = sorted(
        (leg["round_trip_id"], leg["exec_id"], leg["role"], leg["quantity"], leg["price"], leg["fee"]) for leg in legs
    )
    return episodes, lots, fills


def expected(matching: Matching) -> tuple[list[Any], list[Any], list[Any]]:
    lots = sorted(
        (trip, lot.exec_id, lot.quantity, lot.fee, lot.price) for trip, held in matching.lots.items() for lot in held
    )
    fills = sorted(
        (fill.round_trip_id, fill.exec_id, fill.role, fill.quantity, fill.price, fill.fee) for fill in matching.fills
    )
    return list(matching.episodes), lots, fills


def whole_history(conn: Connection) -> list[Execution]:
    return [execution_of(row) for row in conn.execute(select(trade_table)).mappings()]


def known_splits(conn: Connection) -> dict[tuple[str, str], list[SplitRatio]]:
    found: dict[tuple[str, str], list[SplitRatio]] = {}
    everyone = conn.execute(select(accounts.c.account_id)).scalars().all()
    for row in conn.execute(select(corporate_actions).where(corporate_actions.c.kind == "split")).mappings():
        for account in [row["account_id"]] if row["account_id"] else everyone:
            split = SplitRatio(row["effective_at"], row["numerator"], row["denominator"])
            found.setdefault((account, row["symbol"]), []).append(split)
    return found


def assert_in_step(conn: Connection) -> None:
    assert stored(conn) == expected(match(whole_history(conn), known_splits(conn)))


amounts = st.integers(1, 4_000).map(lambda number: Decimal(number).scaleb(-3)) | st.integers(1, 5).map(Decimal)
prices = st.integers(0, 50_000).map(lambda number: Decimal(number).scaleb(-2))
fees = st.integers(0, 500).map(lambda number: Decimal(number).scaleb(-2))
fills = st.tuples(
    st.sampled_from(["BOT", "SLD"]), amounts, prices, fees, st.integers(0, 6), st.sampled_from(["SPY", "ES 03-26"])
)


@contextmanager
def closing_engine(engine: Engine) -> Iterator[None]:
    try:
        yield
    finally:
        engine.dispose()


# long: a journal in memory, four kinds of write, and the oracle that matches the whole at once
@settings(deadline=None, max_examples=40)
@given(st.lists(fills, max_size=12), st.randoms(use_true_random=False))
def test_any_history_of_writes_equals_the_whole_matched_at_once(rows: list[Any], random: Random) -> None:
    engine = create_engine("sqlite://")

    @event.listens_for(engine, "connect")
    def keys(raw: Any, _: Any) -> None:
        raw.execute("PRAGMA foreign_keys=ON")

    spy = parse_instrument("SPY")
    minutes = random.sample(range(1, 8), 2)

    def split(minute: int) -> int:
        used = conn.execute(select(trade_table.c.account_id)).scalars().all()
        account = random.choice([None, *used])
        ratio = Decimal(random.randint(1, 4)), Decimal(random.choice([1, 3, 10]))
        if (
            account is not None
            and conn.execute(select(accounts).where(accounts.c.account_id == account)).first() is None
        ):
            account = None
        found = actions.Split(spy, START + timedelta(minutes=minute), *ratio, account)
        number: int = actions.record_split(conn, found, "test")["id"]
        return number

    # `random` may end an example anywhere, by an exception: the connection is closed all the same
    with closing_engine(engine), engine.begin() as conn:
        migrate(conn)
        names: list[str] = []
        known = [split(minutes[0])] if random.random() < 0.5 else []
        for number, (action, quantity, price, fee, minute, symbol) in enumerate(rows):
            draft = trades.Draft(
                exec_id=f"E{number}",
                time=START + timedelta(minutes=minute),
                instrument=symbol,
                what=parse_instrument(symbol),
                action=action,
                quantity=quantity,
                price=price,
                account_id=random.choice(["A1", "A1", "A2"]),
                commission=fee,
            )
            trades.insert(conn, draft, actor="test", auto_create=True)
            names.append(draft.exec_id)
            assert_in_step(conn)
        known.append(split(minutes[1]))
        assert_in_step(conn)
        random.shuffle(names)
        for name in names[: len(names) // 2]:
            change: dict[str, Any] = random.choice(
                [
                    {"time": START + timedelta(minutes=random.randint(0, 6))},
                    {"quantity": Decimal(random.randint(1, 5))},
                    {"action": random.choice(["BOT", "SLD"])},
                    {"account_id": random.choice(["A1", "A2"])},
                    {"price": Decimal(7), "fees": Decimal("0.07")},
                    {"notes": "nothing that matters"},
                ]
            )
            trades.change(conn, name, change, None, actor="test", auto_create=True)
            assert_in_step(conn)
        actions.delete(conn, known.pop(), "test")
        assert_in_step(conn)
        for name in names:
            trades.delete(conn, name, "test")
            assert_in_step(conn)
        assert stored(conn) == ([], [], [])


def test_one_more_trade_takes_the_same_statements_whatever_came_before() -> None:
    engine = create_engine("sqlite://")
    statements: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def count(conn: Any, cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    def record(conn: Connection, number: int) -> list[str]:
        statements.clear()
        draft = trades.Draft(
            exec_id=f"E{number:04d}",
            time=START + timedelta(minutes=number),
            instrument="SPY",
            what=parse_instrument("SPY"),
            action="BOT" if number % 3 else "SLD",
            quantity=Decimal(2),
            price=Decimal(5),
            account_id="A1",
        )
        trades.insert(conn, draft, actor="test", auto_create=True)
        return list(statements)

    with engine.begin() as conn:
        migrate(conn)
        seen = {number: record(conn, number) for number in range(1, 302)}
    engine.dispose()
    assert seen[4] == seen[10] == seen[301]  # an entry into an open position
    assert seen[6] == seen[12] == seen[300]  # an exit


async def test_a_round_trip_shows_averages_and_result(journal: Journal) -> None:
    # (13-10)*100 + (13-12)*50 = 350
    await journal.buy(100, 10)
    await journal.buy(100, 12)
    await journal.sell(150, 13)
    (trip,) = await journal.trips()
    assert (trip["status"], trip["realized_pnl"], trip["open_quantity"], trip["entry_avg_price"]) == (
        *("partial", 350),
        *(50, 11),
    )
    assert (trip["entry_exec_ids"], trip["exit_exec_ids"]) == (["E0001", "E0002"], ["E0003"])
    assert (trip["direction"], trip["closed_at"], trip["flags"]) == ("BOT", None, [])
    whole = await journal.get(f"/round-trips/{trip['id']}")
    assert [(leg["role"], leg["open_quantity"]) for leg in whole["executions"]] == [
        ("entry", 0), ("entry", 50), ("exit", 0),
    ]  # fmt: skip
    assert (await journal.get("/trades/E0003"))["computed_pnl"] == 350
    assert (await journal.get("/trades/E0001"))["computed_pnl"] is None
    assert (await journal.get("/trades/E0003/round-trip"))["id"] == trip["id"]


async def test_the_list_knows_status_ticker_account_and_period(journal: Journal) -> None:
    await journal.result(50)
    await journal.buy(1, 5, instrument="QQQ ETF", account_id="A2")
    await journal.buy(1, 5, instrument="IWM", time="2025-06-01T15:00:00Z")
    assert [trip["instrument"] for trip in await journal.trips(status="closed")] == ["SPY"]
    assert {trip["instrument"] for trip in await journal.trips(status="open")} == {"QQQ", "IWM"}
    assert [trip["account_id"] for trip in await journal.trips(ticker="qqq stk")] == ["A2"]
    assert [trip["instrument"] for trip in await journal.trips(period="2025")] == ["IWM"]
    answer = await journal.get("/round-trips", params={"account_id": "A1", "limit": "1"})
    assert (answer["total"], len(answer["items"])) == (2, 1)
    assert answer["summary"] == {"closed": 1, "open": 1, "realized_pnl": 50, "currency": "USD"}
    await journal.refused(422, "GET", "/round-trips", params={"status": "half"})
    await journal.refused(404, "GET", "/round-trips/rt-none")


async def test_no_round_trips_is_an_answer_with_a_hint(journal: Journal) -> None:
    answer = await journal.get("/round-trips")
    assert (answer["items"], answer["summary"]) == ([], {"closed": 0, "open": 0, "realized_pnl": 0, "currency": "USD"})
    assert "create_trade" in answer["hint"]


async def test_an_edit_moves_the_result(journal: Journal) -> None:
    _, sold = await journal.result(50)
    await journal.expect(200, "PUT", f"/trades/{sold['exec_id']}", {"price": 1010})
    (trip,) = await journal.trips()
    assert trip["realized_pnl"] == 10
    await journal.expect(200, "PUT", f"/trades/{sold['exec_id']}", {"account_id": "A2"})
    assert {(item["account_id"], item["status"]) for item in await journal.trips()} == {("A1", "open"), ("A2", "open")}


async def test_an_expired_option_closes_worthless_once_the_underlying_is_known(journal: Journal) -> None:
    await journal.sell(2, 1.5, instrument="SPY 260320 C 600", time="2026-03-02T15:00:00Z", exec_id="short")
    (trip,) = await journal.trips()
    assert (trip["status"], trip["flags"]) == ("open", ["expired_unresolved"])
    bar = {"time": "2026-03-20T00:00:00Z", "open": 590, "high": 595, "low": 585, "close": 592}
    await journal.expect(201, "POST", "/market-data/bars", {"symbol": "SPY", "bars": [bar], "source": "test"})
    (trip,) = await journal.trips()
    assert (trip["status"], trip["realized_pnl"], trip["flags"]) == ("closed", 300, [])
    assert trip["closed_at"].startswith("2026-03-21T00:00:00")


async def test_two_hundred_writes_at_once_lose_nothing(journal: Journal, backend: Embedded) -> None:
    chance = Random(11)
    bodies = [
        {
            "exec_id": f"C{number:03d}",
            "instrument": chance.choice(["SPY", "QQQ", "AAPL 270115 C 200"]),
            "action": chance.choice(["BOT", "SLD"]),
            "quantity": chance.randint(1, 9),
            "price": chance.randint(100, 50_000) / 100,
            "commission": chance.randint(0, 200) / 100,
            "account_id": chance.choice(["A1", "A2"]),
            "time": (START + timedelta(seconds=chance.randint(0, 300))).isoformat(),
        }
        for number in range(200)
    ]
    reads = [journal.ask("GET", path) for path in ("/trades", "/round-trips", "/analytics/sqn") for _ in range(10)]
    answers = await asyncio.gather(*(journal.ask("POST", "/trades", body) for body in bodies), *reads)
    assert [answer.status for answer in answers] == [201] * 200 + [200] * 30
    again = await asyncio.gather(*(journal.ask("POST", "/trades", body) for body in bodies[:50]))
    assert {answer.status for answer in again} == {409}
    assert (await journal.get("/trades"))["total"] == 200
    await backend.database().read(assert_in_step)
    changes = await asyncio.gather(
        *(journal.ask("PUT", f"/trades/C{number:03d}", {"quantity": 3}) for number in range(60)),
        *(journal.ask("DELETE", f"/trades/C{number:03d}") for number in range(60, 120)),
        *(journal.ask("POST", "/trades", {**bodies[0], "exec_id": f"D{number}"}) for number in range(20)),
    )
    assert {answer.status for answer in changes} == {200, 204, 201}
    assert (await journal.get("/trades"))["total"] == 160
    await backend.database().read(assert_in_step)


async def test_one_of_many_equal_writers_wins(journal: Journal) -> None:
    body = {"exec_id": "R", "instrument": "SPY", "action": "BOT", "quantity": 1, "price": 1, "account_id": "A1"}
    answers = await asyncio.gather(*(journal.ask("POST", "/trades", body) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 19


async def test_a_position_too_large_to_keep_is_refused_and_leaves_no_trace(journal: Journal, backend: Embedded) -> None:
    big = {"quantity": 1_000_000, "price": 900_000}
    for number in range(11):
        await journal.buy(exec_id=f"B{number:02d}", **big)
    await journal.refused(
        422,
        "POST",
        "/trades",
        {"exec_id": "S", "instrument": "SPY", "action": "SLD", "quantity": 11_000_000, "price": 1,
         "account_id": "A1", "time": "2027-01-01T00:00:00Z"},
    )  # fmt: skip
    await backend.database().read(assert_in_step)
