"""Brings a database from any earlier schema version to this one, in one transaction or not at all.

Every version is a row of `VERSIONS`: its name, and a step for what declared tables and columns cannot say (triggers,
seed rows, moved data). What a version declares is read from `tables.py`. Rows are only ever appended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Index, Table, inspect, select
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateColumn, CreateTable

from ..errors import Corrupt
from . import fill_sums as journal_sums
from .schema import books as book_tables
from .schema import brokers as broker_tables
from .schema import market as market_tables
from .schema import rates as rate_tables
from .schema import scheduling as scheduling_tables
from .schema.journal import (
    CORPORATE_ACTIONS,
    FILE_ORDER,
    JOURNAL_IDENTITY,
    JOURNAL_SUMS,
    LOCK_OWNER,
    MONEY,
    accounts,
    mcp_guard,
    metadata,
    schema_migrations,
)

__all__ = ["CURRENT", "VERSIONS", "Version", "migrate", "version_of"]

AREAS = (market_tables, broker_tables)  # their tables join the metadata when they are imported


class Version(NamedTuple):
    number: int
    name: str
    step: Callable[[Connection, datetime], None] | None


def _system(conn: Connection, now: datetime) -> None:
    """The audit log refuses to be rewritten, and the guard's single row exists."""
    for event in ("UPDATE", "DELETE"):
        if conn.dialect.name == "sqlite":
            conn.exec_driver_sql(
                f"CREATE TRIGGER audit_log_no_{event.lower()} BEFORE {event} ON audit_log "
                "BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"
            )
        else:
            conn.exec_driver_sql(
                "CREATE OR REPLACE FUNCTION audit_log_refuse() RETURNS trigger AS "
                "$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$ LANGUAGE plpgsql"
            )
            conn.exec_driver_sql(
                f"CREATE TRIGGER audit_log_no_{event.lower()} BEFORE {event} ON audit_log "
                "FOR EACH ROW EXECUTE FUNCTION audit_log_refuse()"
            )
    conn.execute(mcp_guard.insert().values(id=1, updated_at=now))


def _journal(conn: Connection, now: datetime) -> None:
    """The account that stands for "no account" and cannot be changed."""
    conn.execute(
        accounts.insert().values(
            account_id="SYSTEM_DEFAULT", name="System default", account_type="broker", is_system=True, created_at=now
        )
    )


def _futures_below_zero(conn: Connection, now: datetime) -> None:
    """Crude oil traded at -37.63 on 20 April 2020: the price of a future may be negative.

    SQLite cannot alter a constraint. Its manual (lang_altertable, "removing CHECK constraints") has the schema text
    rewritten where the stored rows stay as they are."""
    if conn.dialect.name != "sqlite":
        conn.exec_driver_sql("ALTER TABLE trades DROP CONSTRAINT ck_trades_price")
        conn.exec_driver_sql(f"ALTER TABLE trades ADD CONSTRAINT ck_trades_price CHECK ({_PRICES})")
        return
    conn.exec_driver_sql("PRAGMA writable_schema = ON")
    conn.exec_driver_sql(
        "UPDATE sqlite_master SET sql = replace(sql, 'CHECK (price >= 0)', ?) WHERE type = 'table' AND name = 'trades'",
        (f"CHECK ({_PRICES})",),
    )
    conn.exec_driver_sql("PRAGMA writable_schema = RESET")


_PRICES = "price >= 0 OR asset_class = 'FUTURE'"


VERSIONS: tuple[Version, ...] = (
    Version(1, "system", _system),
    Version(2, "journal", _journal),
    Version(3, "derived", None),
    Version(4, "prices", None),
    Version(book_tables.SINCE, "books", book_tables.prepare),
    Version(market_tables.SINCE, "market", None),
    Version(scheduling_tables.SINCE, "scheduling", None),
    Version(8, "lots in order", book_tables.order_trades),
    Version(CORPORATE_ACTIONS, "corporate actions", None),
    Version(book_tables.FOUND, "lots found", None),
    Version(JOURNAL_SUMS, "sums", journal_sums.prepare),
    Version(LOCK_OWNER, "who locked", None),
    Version(FILE_ORDER, "fills in order", _futures_below_zero),
    Version(MONEY, "currencies", rate_tables.prepare),
    Version(JOURNAL_IDENTITY, "journal id", None),
    # Append here. The number is the next one, said once, beside the tables or columns that it brings (`since`), and its
    # digest goes into PUBLISHED of tests/embedded/database/test_migrate.py. Two branches that took the same number:
    # the one that comes second changes its constant.
)

CURRENT = VERSIONS[-1].number


def version_of(conn: Connection) -> int:
    """The schema version of an open database; an empty one is 0."""
    if not inspect(conn).has_table(schema_migrations.name):
        return 0
    return max(conn.execute(select(schema_migrations.c.version)).scalars(), default=0)


def migrate(conn: Connection, target: int = CURRENT, now: datetime | None = None) -> list[int]:
    """Apply what is missing up to `target` inside the caller's transaction; returns the applied versions."""
    now = now or datetime.now(UTC)
    present = version_of(conn)
    if present > CURRENT:
        raise Corrupt(
            "schema_too_new", f"The database has schema version {present}, this program knows {CURRENT}: upgrade it."
        )
    applied = []
    for version in VERSIONS:
        if present < version.number <= target:
            _declare(conn, version.number)
            if version.step is not None:
                version.step(conn, now)
            conn.execute(schema_migrations.insert().values(version=version.number, name=version.name, applied_at=now))
            applied.append(version.number)
    return applied


def _declare(conn: Connection, number: int) -> None:
    """Create the tables of a version as they were then, and add its columns and indexes to older tables."""
    for table in metadata.sorted_tables:
        if table.info["since"] == number:
            conn.exec_driver_sql(_as_of(table, number, conn.dialect))
            for index in _in_order(table.indexes):
                if _since(index, table) == number:
                    index.create(conn)
        elif table.info["since"] < number:
            for column in table.columns:
                if _since(column, table) == number:
                    ddl = CreateColumn(column).compile(dialect=conn.dialect)
                    name = conn.dialect.identifier_preparer.format_table(table)
                    conn.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN {ddl}")
            for index in _in_order(table.indexes):
                if _since(index, table) == number:
                    index.create(conn)


def _in_order(indexes: Iterable[Index]) -> list[Index]:
    """A set has no order, and of two indexes that serve alike SQLite takes the one that was created last."""
    return sorted(indexes, key=lambda index: index.name or "")


def _since(part: Column[Any] | Index, table: Table) -> int:
    return int(part.info.get("since") or table.info["since"])


_DECLARING = Lock()


def _as_of(table: Table, number: int, dialect: Dialect) -> str:
    """The table as a version made it, without the columns that later ones bring.

    Written from the table itself: a copy would have its constraints in another order each time, and a published
    version never changes. Several stores may be opened at once, hence the lock."""
    later = [column for column in table.columns if _since(column, table) > number]
    with _DECLARING:
        for column in later:
            column.system = True  # left out of CREATE TABLE
        try:
            return str(CreateTable(table).compile(dialect=dialect))
        finally:
            for column in later:
                column.system = False
