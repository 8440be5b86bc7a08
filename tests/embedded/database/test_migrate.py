"""The schema: new and upgraded databases are the same, published versions never change, nothing is lost on the way."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Engine, String, create_engine, event, select, text

from zorivest_rpc.embedded.database import migrate as migration
from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.database.migrate import CURRENT, VERSIONS, Version, migrate, version_of
from zorivest_rpc.embedded.database.schema.journal import audit_log, mcp_guard, metadata, settings
from zorivest_rpc.embedded.errors import Corrupt

# The digest of everything each version creates. A line is added with a version and never edited afterwards: a database
# of that version exists on somebody's disk.
PUBLISHED = {
    1: "81cd2a7af2750ef2",
    2: "6a181c7dbd32c120",
    3: "317adf83c0bd486b",
    4: "ada64c7f4423d586",
    5: "0835597ad7c002ca",
    6: "4439f792436e0d6d",
    7: "aa056c8d50891761",
    8: "5ff8d5dda3f5ce16",
    9: "c89b83e0b7445e7b",
    10: "8fbaefecf99767f6",
    11: "8fe59525293745c6",
    12: "873238defeb6e1da",
    13: "aae6d7aa83ea4edf",
    14: "5c9e343a419abf0e",
    15: "39ff271f38d1a53b",
}
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'plain.db'}", connect_args={"isolation_level": None})

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        conn.exec_driver_sql("BEGIN IMMEDIATE")

    yield engine
    engine.dispose()


def schema(conn: Connection) -> dict[str, Any]:
    """What the database says it is made of, in an order that does not depend on history."""
    tables = conn.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars().all()
    found: dict[str, Any] = {}
    for table in sorted(tables):
        columns = conn.execute(
            text(f"SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('{table}')")
        )
        found[table] = sorted(tuple(row) for row in columns)
    rest = conn.execute(text("SELECT type, name FROM sqlite_master WHERE type != 'table' AND name NOT LIKE 'sqlite_%'"))
    found["_"] = sorted(tuple(row) for row in rest)
    return found


@pytest.mark.parametrize("start", range(CURRENT + 1))
def test_every_earlier_version_becomes_the_same_schema_as_a_new_database(start: int, engine: Engine) -> None:
    with engine.begin() as conn:
        migrate(conn, target=start, now=NOW)
        assert version_of(conn) == start
    with engine.begin() as conn:
        if start >= 1:
            conn.execute(settings.insert().values(key="ui.theme", value="light", value_type="str", updated_at=NOW))
            conn.execute(mcp_guard.update().values(is_locked=True, lock_reason="manual", locked_at=NOW))
        assert migrate(conn, now=NOW) == list(range(start + 1, CURRENT + 1))
        assert migrate(conn, now=NOW) == []
        upgraded = schema(conn)
        assert conn.execute(text("PRAGMA integrity_check")).scalar() == "ok"
        assert conn.execute(text("PRAGMA foreign_key_check")).all() == []
        if start >= 1:
            assert conn.execute(select(settings.c.value)).scalar() == "light"
            assert conn.execute(select(mcp_guard.c.is_locked, mcp_guard.c.locked_at)).one() == (True, NOW)
    fresh = create_engine("sqlite://")
    with fresh.begin() as conn:
        migrate(conn, now=NOW)
        assert schema(conn) == upgraded
    fresh.dispose()


def test_the_migrated_schema_is_the_declared_one(engine: Engine) -> None:
    with engine.begin() as conn:
        migrate(conn)
        found = schema(conn)
    assert set(found) - {"_"} == set(metadata.tables)
    for name, table in metadata.tables.items():
        assert {row[0] for row in found[name]} == set(table.columns.keys())


@pytest.mark.parametrize("number", [version.number for version in VERSIONS])
def test_a_published_version_never_changes(number: int, engine: Engine) -> None:
    with engine.begin() as conn:
        migrate(conn, target=number, now=NOW)
        statements = conn.execute(text("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")).scalars()
        digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()[:16]
    assert digest == PUBLISHED[number]


def test_a_column_added_later_arrives_in_old_and_new_databases_alike(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = CURRENT + 1
    column: Column[str] = Column("origin", String(8), nullable=False, server_default="here", info={"since": later})
    settings.append_column(column)
    try:
        monkeypatch.setattr(migration, "CURRENT", later)
        monkeypatch.setattr(migration, "VERSIONS", (*VERSIONS, Version(later, "origin", None)))
        with engine.begin() as conn:
            migrate(conn, target=CURRENT)
            assert "origin" not in {row[0] for row in schema(conn)["settings"]}
            conn.execute(text("INSERT INTO settings VALUES ('a', 'b', 'str', '2026-01-01 00:00:00')"))
            assert migrate(conn, target=later) == [later]
            assert conn.execute(text("SELECT origin FROM settings")).scalar() == "here"
            upgraded = schema(conn)
        fresh = create_engine("sqlite://")
        with fresh.begin() as conn:
            migrate(conn, target=later)
            assert schema(conn) == upgraded
        fresh.dispose()
    finally:
        settings._columns.remove(column)


def test_older_trades_get_the_currency_of_their_account_their_pair_or_their_contract(engine: Engine) -> None:
    """Version 13 knew no currencies; what it stored is what a person could have meant."""
    trade = (
        "INSERT INTO trades (exec_id, time, instrument, symbol, underlying, asset_class, action, quantity, price, "
        "multiplier, notional, account_id, dedup_hash, created_at) VALUES "
        "('{id}', '2026-03-02 15:00:00', '{s}', '{s}', '{s}', '{kind}', 'BOT', 100, 100, 100, 100, '{account}', 'x', "
        "'2026-03-02 15:00:00')"
    )
    with engine.begin() as conn:
        migrate(conn, target=13)
        for account, currency in (("US", "USD"), ("DE", "EUR")):
            conn.exec_driver_sql(
                "INSERT INTO accounts (account_id, name, account_type, currency, created_at) "
                f"VALUES ('{account}', 'x', 'broker', '{currency}', '2026-01-01 00:00:00')"
            )
        for name, symbol, kind, account in (
            ("a", "SPY", "EQUITY", "US"),
            ("b", "SAP", "EQUITY", "DE"),
            ("c", "USD/JPY", "FOREX", "DE"),
            ("d", "BTC-EUR", "CRYPTO", "US"),
            ("e", "ES 03-26", "FUTURE", "DE"),
            ("f", "QQZ 03-26", "FUTURE", "DE"),
        ):
            conn.exec_driver_sql(trade.format(id=name, s=symbol, kind=kind, account=account))
        conn.exec_driver_sql("DELETE FROM tax_stale")
        conn.exec_driver_sql(
            "INSERT INTO transaction_ledger (trade_exec_id, fee_type, amount) VALUES ('b', 'commission', 5)"
        )
        conn.exec_driver_sql(
            "INSERT INTO periodic_fees (account_id, fee_type, amount, period_month) "
            "VALUES ('DE', 'platform', 5, '2026-01')"
        )
        migrate(conn)
        found = {row[0]: row[1] for row in conn.exec_driver_sql("SELECT exec_id, currency FROM trades")}
        assert found == {"a": "USD", "b": "EUR", "c": "JPY", "d": "EUR", "e": "USD", "f": "EUR"}
        for table in ("transaction_ledger", "periodic_fees"):
            assert conn.exec_driver_sql(f"SELECT currency FROM {table}").scalar() == "EUR"
        stale = {row[0] for row in conn.exec_driver_sql("SELECT underlying FROM tax_stale")}
        assert stale == {"SAP", "USD/JPY", "BTC-EUR", "QQZ 03-26"}
        conn.exec_driver_sql("DELETE FROM tax_stale")
        conn.exec_driver_sql("UPDATE trades SET fx_rate = '2' WHERE exec_id = 'a'")
        assert conn.exec_driver_sql("SELECT underlying FROM tax_stale").scalar() == "SPY"


def test_a_failing_step_undoes_the_whole_migration(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(conn: Connection, now: datetime) -> None:
        raise RuntimeError("power cut")

    broken = (*VERSIONS[:-1], Version(CURRENT, "broken", fail))
    monkeypatch.setattr(migration, "VERSIONS", broken)
    with engine.begin() as conn:
        migrate(conn, target=1)
        before = schema(conn)
    with pytest.raises(RuntimeError), engine.begin() as conn:
        migrate(conn)
    with engine.begin() as conn:
        assert schema(conn) == before
        assert version_of(conn) == 1


def test_a_database_of_a_newer_program_is_refused(engine: Engine) -> None:
    with engine.begin() as conn:
        migrate(conn)
        conn.execute(text("INSERT INTO schema_migrations VALUES (999, 'future', '2030-01-01 00:00:00')"))
        with pytest.raises(Corrupt) as refused:
            migrate(conn)
    assert refused.value.code == "schema_too_new"


async def test_the_audit_log_cannot_be_rewritten(tmp_path: Path) -> None:
    db = Database(tmp_path / "x.db", b"k" * 32, cipher_driver())
    row = {"actor": "a", "action": "b", "resource_type": "c", "details_json": {}, "created_at": NOW}
    await db.write(lambda conn: conn.execute(audit_log.insert().values(**row)))
    for statement in (audit_log.delete(), audit_log.update().values(actor="z")):
        with pytest.raises(Exception, match="append-only"):
            await db.write(lambda conn, statement=statement: conn.execute(statement))  # type: ignore[misc]
    assert await db.read(lambda conn: conn.execute(select(audit_log.c.actor)).scalars().all()) == ["a"]
    await db.close()


def test_the_single_guard_row_stays_single(engine: Engine) -> None:
    with engine.begin() as conn:
        migrate(conn)
    with pytest.raises(Exception, match="CHECK"), engine.begin() as conn:
        conn.execute(mcp_guard.insert().values(id=2, updated_at=NOW))


def test_the_schema_compiles_for_postgresql_too() -> None:
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateIndex, CreateTable

    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert "INDEX" in str(CreateIndex(index).compile(dialect=dialect))


def test_plain_sqlite_is_new_enough() -> None:
    assert sqlite3.sqlite_version_info >= (3, 35)
