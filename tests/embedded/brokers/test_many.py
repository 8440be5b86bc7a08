"""Many trades at once leave the journal as the same trades one by one would."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, create_engine, event, select

from zorivest_rpc.embedded.database.migrate import migrate
from zorivest_rpc.embedded.database.schema.journal import round_trip_legs, round_trips, transaction_ledger
from zorivest_rpc.embedded.database.schema.journal import trades as trade_table
from zorivest_rpc.embedded.journal import accounts, trades
from zorivest_rpc.embedded.values.symbols import parse_instrument

START = datetime(2026, 3, 9, 14, tzinfo=UTC)


def draft(number: int, minute: int, symbol: str, action: str, quantity: int) -> trades.Draft:
    return trades.Draft(
        exec_id=f"E-{number:03}",
        time=START + timedelta(minutes=minute),
        instrument=symbol,
        what=parse_instrument(symbol),
        action=action,
        quantity=Decimal(quantity),
        price=Decimal(100 + minute % 7),
        account_id="A-1",
        commission=Decimal("0.5"),
        charges=(trades.TradeFee("commission", Decimal("0.5")),),
    )


fills = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["AAPL", "SPY"]), st.sampled_from(["BOT", "SLD"]), st.integers(1, 5)),
    max_size=14,
).map(lambda rows: [draft(number, *row) for number, row in enumerate(rows)])


def database() -> Engine:
    """In memory, and with foreign keys, as the backend opens its file."""
    engine = create_engine("sqlite://")
    event.listen(engine, "connect", lambda raw, record: raw.execute("PRAGMA foreign_keys=ON"))
    return engine


def journal(batches: Sequence[Sequence[trades.Draft]], at_once: bool) -> dict[str, list[tuple[Any, ...]]]:
    engine = database()
    with engine.begin() as conn:
        migrate(conn)
        accounts.create(conn, {"account_id": "A-1", "name": "A-1", "account_type": "broker"}, "test")
        for batch in batches:
            if at_once:
                assert trades.insert_many(conn, batch) == []
            else:
                for one in batch:
                    trades.insert(conn, one, actor="test", auto_create=False)
        found = {table.name: content(conn, table) for table in (round_trips, round_trip_legs, trade_table)}
        found["ledger"] = [(len(conn.execute(select(transaction_ledger)).all()),)]
    engine.dispose()
    return found


def content(conn: Connection, table: Any) -> list[tuple[Any, ...]]:
    columns = [column for column in table.columns if column.name not in ("created_at", "computed_at")]
    return sorted((tuple(row) for row in conn.execute(select(*columns))), key=repr)


def place(one: trades.Draft, seen: Counter[datetime]) -> trades.Draft:
    """A fill after those of its instant that came before it, which one by one are found in the journal."""
    seen[one.time] += 1
    return one._replace(sequence=seen[one.time] - 1)


@settings(deadline=None, max_examples=30)
@given(first=fills, second=fills)
def test_many_at_once_equal_one_by_one(first: list[trades.Draft], second: list[trades.Draft]) -> None:
    later = [one._replace(exec_id="F" + one.exec_id) for one in second]
    seen: Counter[datetime] = Counter()
    placed = [[place(one, seen) for one in batch] for batch in (first, later)]
    assert journal(placed, at_once=True) == journal([first, later], at_once=False)


def test_a_trade_that_no_column_holds_is_refused_alone() -> None:
    engine = database()
    with engine.begin() as conn:
        migrate(conn)
        accounts.create(conn, {"account_id": "A-1", "name": "A-1", "account_type": "broker"}, "test")
        huge = draft(1, 0, "AAPL", "BOT", 1)._replace(price=Decimal(10**9), quantity=Decimal(10**9))
        refused = trades.insert_many(conn, [huge, draft(2, 1, "AAPL", "BOT", 1)])
        assert [one.exec_id for one, _ in refused] == ["E-001"]
        assert conn.execute(select(trade_table.c.exec_id)).scalars().all() == ["E-002"]
    engine.dispose()
