"""The tables of what files bring in and of what is owed on it: import batches, the bank ledger, tax lots and payments.

Tax lots follow from the trades and are made with each tax question. Which trades they have not seen is noted by
triggers in the transaction that writes the trade, from every writer: a new one in `tax_pending`, and the underlying of
one that was changed or deleted in `tax_stale`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Date,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from ..columns import MONEY_PLACES, Exact, Moment, Scaled
from .journal import metadata

__all__ = [
    "FOUND",
    "SINCE",
    "bank_transactions",
    "follow_columns",
    "import_batches",
    "order_trades",
    "prepare",
    "tax_lots",
    "tax_payments",
    "tax_pending",
    "tax_profiles",
    "tax_stale",
    "tax_state",
    "tax_wash_matches",
]

SINCE = 5
"""The schema version that brings these tables."""
FOUND = 10
"""The schema version that brings the indexes by which tax answers find their lots."""
_INFO = {"since": SINCE}
_FOUND = {"since": FOUND}


def _money(name: str, **options: Any) -> Column[Any]:
    return Column(name, Scaled(MONEY_PLACES), **options)


def _count(name: str) -> Column[Any]:
    return Column(name, Integer, nullable=False, server_default="0")


def _flag(name: str) -> Column[Any]:
    return Column(name, Boolean, nullable=False, server_default=false())


def _part(name: str, *columns: str, where: str) -> Index:
    """An index of few rows among many; SQLite takes it for a question that has the very same words."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where), info=_FOUND)


import_batches = Table(
    "import_batches",
    metadata,
    Column("batch_id", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),  # broker_csv, broker_pdf, bank, sync, entry
    Column("file_name", String(255), nullable=False, server_default=""),
    Column("file_sha256", String(64)),
    Column("account_id", String(128), nullable=False),  # a file without a usable row brings no account into being
    Column("detected_format", String(64), nullable=False, server_default=""),
    Column("broker", String(64)),
    Column("status", String(8), nullable=False),
    _count("total_rows"),
    _count("parsed_rows"),
    _count("skipped_rows"),
    _count("error_rows"),
    _count("imported"),
    _count("duplicates"),
    _count("flagged"),
    _count("updated"),
    Column("first_day", Date),
    Column("last_day", Date),
    Column("errors", JSON, nullable=False, server_default="[]"),
    Column("warnings", JSON, nullable=False, server_default="[]"),
    Column("created_at", Moment, nullable=False),
    Index("ix_import_batches_file", "account_id", "file_sha256"),
    Index("ix_import_batches_created_at", "created_at", "batch_id"),
    info=_INFO,
)

bank_transactions = Table(
    "bank_transactions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account_id", ForeignKey("accounts.account_id"), nullable=False),
    Column("date", Date, nullable=False),
    Column("post_date", Date),
    Column("description", Text, nullable=False),
    _money("amount", nullable=False),  # money in is positive
    Column("currency", String(8), nullable=False, server_default="USD"),
    Column("category", String(16), nullable=False),
    Column("reference_id", String(255)),
    _flag("reference_is_unique"),  # the bank's own id of the line, not a check number
    _money("running_balance"),
    Column("notes", Text, nullable=False, server_default=""),
    Column("dedup_hash", String(32), nullable=False),
    Column("source", String(16), nullable=False),
    Column("import_batch_id", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Index("ix_bank_transactions_account_date", "account_id", "date", "id"),
    Index("ix_bank_transactions_import_batch_id", "import_batch_id"),
    info=_INFO,
)

# The lot itself is `lot`, whole and exact; the columns beside it are for finding and reading.
tax_lots = Table(
    "tax_lots",
    metadata,
    Column("lot_id", String(300), primary_key=True),
    Column("account_id", String(128), nullable=False),
    Column("underlying", String(64), nullable=False),
    Column("ticker", String(64), nullable=False),
    Column("direction", String(5), nullable=False),
    Column("open_date", Date, nullable=False),
    Column("close_date", Date),
    _flag("is_closed"),
    _flag("is_chained"),  # carries a loss taken over from another lot
    Column("quantity", Exact, nullable=False),
    Column("cost_basis", Exact),
    Column("proceeds", Exact),
    Column("wash_sale_adjustment", Exact, nullable=False),
    Column("realized_gain_loss", Exact),
    Column("source_hash", String(64), nullable=False),
    Column("lot", Text, nullable=False),
    _flag("is_user_modified"),
    Column("sync_status", String(8), nullable=False, server_default="synced"),
    Column("materialized_at", Moment, nullable=False),
    Index("ix_tax_lots_position", "underlying", "is_closed", "close_date"),
    Index("ix_tax_lots_account", "account_id", "is_closed", "ticker"),
    Index("ix_tax_lots_close_date", "close_date", sqlite_where=text("is_closed"), postgresql_where=text("is_closed")),
    Index("ix_tax_lots_chained", "is_chained", sqlite_where=text("is_chained"), postgresql_where=text("is_chained")),
    _part("ix_tax_lots_open", "underlying", "ticker", "account_id", where="NOT is_closed"),
    _part("ix_tax_lots_unusual", "lot_id", "sync_status", where="sync_status <> 'synced'"),
    _part("ix_tax_lots_edited", "underlying", where="is_user_modified"),
    info=_INFO,
)

tax_wash_matches = Table(
    "tax_wash_matches",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("underlying", String(64), nullable=False),
    Column("chain_id", String(300), nullable=False),
    Column("loss_lot_id", String(300), nullable=False),
    Column("loss_account_id", String(128), nullable=False),
    Column("loss_date", Date, nullable=False),
    _money("disallowed", nullable=False),
    Column("match", Text, nullable=False),
    Index("ix_tax_wash_matches_underlying", "underlying"),
    Index("ix_tax_wash_matches_loss_date", "loss_date"),
    Index("ix_tax_wash_matches_chain", "chain_id", info=_FOUND),
    info=_INFO,
)

tax_pending = Table(
    "tax_pending",
    metadata,
    Column("exec_id", String(128), primary_key=True),
    Column("underlying", String(64), nullable=False),
    Index("ix_tax_pending_underlying", "underlying"),
    info=_INFO,
)

tax_stale = Table("tax_stale", metadata, Column("underlying", String(64), primary_key=True), info=_INFO)

# What the stored lots were made under: a digest of the account traits and choices that decide them.
tax_state = Table(
    "tax_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("rules", String(64), nullable=False),
    Column("synced_at", Moment, nullable=False),
    info=_INFO,
)

tax_profiles = Table(
    "tax_profiles",
    metadata,
    Column("tax_year", Integer, primary_key=True, autoincrement=False),
    Column("profile", Text, nullable=False),
    Column("updated_at", Moment, nullable=False),
    info=_INFO,
)

tax_payments = Table(
    "tax_payments",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("tax_year", Integer, nullable=False),
    Column("quarter", String(2), nullable=False),
    _money("amount", nullable=False),
    Column("paid_on", Date),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("tax_year", "quarter", "amount"),  # the same quarter and amount is the same payment
    info=_INFO,
)

_DECISIVE = (
    "exec_id", "time", "symbol", "underlying", "asset_class", "action", "quantity", "price", "multiplier", "account_id",
    "commission", "fees", "order_id",
)  # fmt: skip


def prepare(conn: Connection, now: datetime) -> None:
    """The triggers, and every trade that is there already as not yet seen."""
    sqlite = conn.dialect.name == "sqlite"
    differ = "IS NOT" if sqlite else "IS DISTINCT FROM"
    changed = " OR ".join(f"OLD.{name} {differ} NEW.{name}" for name in _DECISIVE)
    stale = "INSERT INTO tax_stale (underlying) VALUES ({row}.underlying) ON CONFLICT DO NOTHING;"
    seen = "DELETE FROM tax_pending WHERE exec_id = OLD.exec_id;"
    added = "INSERT INTO tax_pending (exec_id, underlying) VALUES (NEW.exec_id, NEW.underlying) ON CONFLICT DO NOTHING;"
    for event, when, deeds in (
        ("INSERT", "", added),
        ("UPDATE", f"WHEN ({changed})", seen + stale.format(row="OLD") + stale.format(row="NEW")),
        ("DELETE", "", seen + stale.format(row="OLD")),
    ):
        name = f"trades_{event.lower()}_tax"
        if sqlite:
            conn.exec_driver_sql(f"CREATE TRIGGER {name} AFTER {event} ON trades {when} BEGIN {deeds} END")
        else:
            conn.exec_driver_sql(
                f"CREATE FUNCTION {name}() RETURNS trigger AS $$ BEGIN {deeds} RETURN NULL; END $$ LANGUAGE plpgsql"
            )
            conn.exec_driver_sql(
                f"CREATE TRIGGER {name} AFTER {event} ON trades FOR EACH ROW {when} EXECUTE FUNCTION {name}()"
            )
    conn.exec_driver_sql("INSERT INTO tax_pending (exec_id, underlying) SELECT exec_id, underlying FROM trades")


def follow_columns(conn: Connection, names: Sequence[str]) -> None:
    """Have a change of columns that a later version brought noted like one of `_DECISIVE`."""
    is_sqlite = conn.dialect.name == "sqlite"
    differ = "IS NOT" if is_sqlite else "IS DISTINCT FROM"
    changed = " OR ".join(f"OLD.{name} {differ} NEW.{name}" for name in names)
    stale = "INSERT INTO tax_stale (underlying) VALUES (NEW.underlying) ON CONFLICT DO NOTHING;"
    name = f"trades_update_tax_{names[0]}"
    if is_sqlite:
        conn.exec_driver_sql(f"CREATE TRIGGER {name} AFTER UPDATE ON trades WHEN ({changed}) BEGIN {stale} END")
        return
    conn.exec_driver_sql(
        f"CREATE FUNCTION {name}() RETURNS trigger AS $$ BEGIN {stale} RETURN NULL; END $$ LANGUAGE plpgsql"
    )
    conn.exec_driver_sql(
        f"CREATE TRIGGER {name} AFTER UPDATE ON trades FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION {name}()"
    )


def order_trades(conn: Connection, now: datetime) -> None:
    """The order in which the lots of one underlying are replayed, over all accounts."""
    conn.exec_driver_sql("CREATE INDEX ix_trades_underlying ON trades (underlying, time, exec_id)")
