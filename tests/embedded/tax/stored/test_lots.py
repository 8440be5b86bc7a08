"""Stored lots against lots made anew, whatever happened to the trades."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, select, text

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.database.migrate import migrate
from zorivest_rpc.embedded.database.schema.books import (
    tax_lots,
    tax_pending,
    tax_stale,
    tax_state,
    tax_wash_matches,
)
from zorivest_rpc.embedded.database.schema.journal import accounts
from zorivest_rpc.embedded.database.schema.journal import trades as trade_table
from zorivest_rpc.embedded.journal import trades
from zorivest_rpc.embedded.tax.stored import profiles as tax_profiles
from zorivest_rpc.embedded.tax.stored import sync as tax_store
from zorivest_rpc.embedded.values.symbols import parse_instrument

NOW = datetime(2026, 6, 1, tzinfo=UTC)
START = datetime(2025, 1, 6, 15, tzinfo=UTC)
SYMBOLS = ["SPY", "SPY 250620 C 50", "QQQ"]


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{tmp_path / 'plain.db'}", connect_args={"isolation_level": None})

    @event.listens_for(engine, "connect")
    def connected(raw: Any, record: Any) -> None:
        raw.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        conn.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as conn:
        migrate(conn)
        yield conn
    engine.dispose()


def record(conn: Connection, name: str, action: str, quantity: int, price: int, day: float, **more: Any) -> None:
    symbol = more.pop("symbol", "SPY")
    draft = trades.Draft(
        exec_id=name,
        time=START + timedelta(days=day),
        instrument=symbol,
        what=parse_instrument(symbol),
        action=action,
        quantity=Decimal(quantity),
        price=Decimal(price),
        account_id=more.pop("account_id", "A1"),
        **more,
    )
    trades.insert(conn, draft, actor="test", auto_create=True)


def before_lots(conn: Connection, name: str) -> None:
    """A trade as the journal kept it before it knew of lots and corporate actions."""
    conn.execute(accounts.insert().values(account_id="A1", name="A1", account_type="broker", created_at=START))
    conn.execute(
        trade_table.insert().values(
            exec_id=name,
            time=START,
            instrument="SPY",
            symbol="SPY",
            underlying="SPY",
            asset_class="EQUITY",
            action="BOT",
            quantity=Decimal(10),
            price=Decimal(50),
            notional=Decimal(500),
            multiplier=Decimal(1),
            account_id="A1",
            dedup_hash="0",
            created_at=START,
        )
    )


def sync(conn: Connection, now: datetime = NOW) -> None:
    tax_store.sync(conn, tax_store.rules_of(conn, tax_profiles.load(conn, NOW)), now)


def written(conn: Connection) -> dict[str, tuple[Any, datetime]]:
    """Each stored lot with its quantity and when it was written."""
    query = select(tax_lots.c.lot_id, tax_lots.c.quantity, tax_lots.c.materialized_at).order_by(tax_lots.c.lot_id)
    return {name: (quantity, at) for name, quantity, at in conn.execute(query)}


def is_due(conn: Connection) -> bool:
    return tax_store.is_due(conn, tax_store.rules_of(conn, tax_profiles.load(conn, NOW)))


def stored(conn: Connection) -> tuple[Any, Any]:
    lots = conn.execute(select(tax_lots.c.lot_id, tax_lots.c.lot, tax_lots.c.sync_status)).all()
    matches = conn.execute(select(tax_wash_matches.c.match)).scalars()
    return sorted(tuple(row) for row in lots), sorted(matches)


def shake(conn: Connection, dice: random.Random, number: int) -> None:
    """Something that happens to a journal: mostly a next trade, at times a late one, an edit or a deletion."""
    names = conn.execute(select(trade_table.c.exec_id).order_by(trade_table.c.exec_id)).scalars().all()
    deed = dice.random()
    if names and deed < 0.08:
        trades.delete(conn, dice.choice(names), "test")
    elif names and deed < 0.18:
        changes: dict[str, Any] = dice.choice(
            [
                {"price": Decimal(dice.randint(40, 60))},
                {"quantity": Decimal(dice.randint(1, 9))},
                {"notes": "a thought"},
                {"fees": Decimal(dice.randint(0, 3))},
                {"account_id": dice.choice(["A1", "A2"])},
                {"action": dice.choice(["BOT", "SLD"])},
                {"time": START + timedelta(days=dice.randint(0, 60))},
            ]
        )
        trades.change(conn, dice.choice(names), changes, None, actor="test", auto_create=True)
    else:
        day = dice.randint(0, number) if deed < 0.25 else number
        record(
            conn,
            f"T{number:03d}",
            dice.choice(["BOT", "SLD"]),
            dice.randint(1, 9),
            dice.randint(40, 60),
            day + dice.random() / 10,
            symbol=dice.choice(SYMBOLS),
            account_id=dice.choice(["A1", "A2"]),
        )


@pytest.mark.parametrize("seed", range(6))
def test_lots_kept_in_step_are_the_lots_made_anew(conn: Connection, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(60):
        shake(conn, dice, number)
        if dice.random() < 0.6:
            sync(conn)
            assert not is_due(conn)
    sync(conn)
    kept = stored(conn)
    conn.execute(tax_lots.delete())
    conn.execute(tax_wash_matches.delete())
    conn.execute(tax_state.delete())  # as after other rules: every lot is made from its whole history
    sync(conn)
    assert stored(conn) == kept
    assert kept[0]


def test_only_new_trades_of_what_was_traded_are_looked_at(conn: Connection) -> None:
    record(conn, "a", "BOT", 10, 50, 0)
    record(conn, "b", "BOT", 10, 50, 0, symbol="QQQ")
    sync(conn)
    assert written(conn) == {"lot-a": (10, NOW), "lot-b": (10, NOW)}
    record(conn, "c", "SLD", 4, 55, 1)
    assert is_due(conn)
    later = NOW + timedelta(hours=1)
    sync(conn, later)
    # ten became six that stay open and four that were sold
    assert written(conn) == {"lot-a": (6, later), "lot-a-1": (4, later), "lot-b": (10, NOW)}
    record(conn, "d", "SLD", 1, 55, 0.5)  # from before the last one: the underlying is made anew
    last = later + timedelta(hours=1)
    sync(conn, last)
    assert written(conn)["lot-a"] == (5, last)
    assert written(conn)["lot-b"] == (10, NOW)


def test_lots_made_anew_are_written_where_they_changed_and_dropped_where_no_trade_backs_them(conn: Connection) -> None:
    for name, symbol in (("a", "SPY"), ("b", "SPY"), ("c", "QQQ")):
        record(conn, name, "BOT", 10, 50, 0, symbol=symbol)
    sync(conn)
    trades.change(conn, "a", {"price": Decimal(60)}, None, actor="t", auto_create=True)
    trades.delete(conn, "c", "t")
    later = NOW + timedelta(hours=1)
    sync(conn, later)
    assert written(conn) == {"lot-a": (10, later), "lot-b": (10, NOW)}


def test_a_change_that_no_tax_depends_on_leaves_the_lots_alone(conn: Connection) -> None:
    record(conn, "a", "BOT", 10, 50, 0)
    sync(conn)
    trades.change(conn, "a", {"notes": "a thought", "realized_pnl": Decimal(5)}, None, actor="t", auto_create=True)
    assert not is_due(conn)
    trades.change(conn, "a", {"commission": Decimal(1)}, None, actor="t", auto_create=True)
    assert is_due(conn)


def test_an_undone_write_leaves_nothing_to_catch_up_with(conn: Connection) -> None:
    record(conn, "a", "BOT", 10, 50, 0)
    sync(conn)
    attempt = conn.begin_nested()
    record(conn, "b", "SLD", 10, 50, 1)
    assert is_due(conn)
    attempt.rollback()
    assert not is_due(conn)


def test_ids_that_look_like_pieces_of_other_lots_do_not_meet(conn: Connection) -> None:
    record(conn, "X", "BOT", 10, 50, 0)
    record(conn, "s", "SLD", 4, 55, 1)  # cuts lot-X, and closes the piece lot-X-1
    sync(conn)
    record(conn, "X-1", "BOT", 5, 50, 60)  # whose own lot would have that name
    sync(conn)
    quantities = dict(conn.execute(select(tax_lots.c.lot_id, tax_lots.c.quantity)).all())
    assert len(quantities) == 3
    assert sorted(quantities.values()) == [4, 5, 6]


def test_trades_from_before_there_were_lots_wait_to_be_seen(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.begin() as conn:
        migrate(conn, target=4)
        before_lots(conn, "a")
        migrate(conn)
        assert conn.execute(select(tax_pending.c.exec_id, tax_pending.c.underlying)).all() == [("a", "SPY")]
        assert conn.execute(select(tax_stale.c.underlying)).all() == []
        sync(conn)
        assert list(written(conn)) == ["lot-a"]
        assert conn.execute(text("PRAGMA integrity_check")).scalar() == "ok"
    engine.dispose()


@pytest.mark.parametrize(("days", "disallowed"), [(30, 100), (31, 0)])
async def test_a_purchase_that_comes_after_the_lots_were_made_washes_up_to_thirty_days_back(
    journal: Journal, days: int, disallowed: int
) -> None:
    sold = date(2026, 3, 2)
    await journal.buy(10, 100, "2025-11-03")
    await journal.sell(10, 90, str(sold))
    assert (await journal.get("/tax/lots", params={"status": "closed"}))["total_count"] == 1  # the lots are made
    await journal.buy(10, 80, str(sold + timedelta(days=days)))
    (lot,) = (await journal.get("/tax/lots", params={"status": "open"}))["lots"]
    assert (lot["cost_basis"], lot["wash_sale_adjustment"]) == (80, disallowed)
