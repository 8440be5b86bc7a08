"""The schema, once: every table and column, with the schema version that brought it.

A table says `info={"since": n}`; a column added to an older table says so itself. `migrate.py` derives from this what
each version adds, so that a new database and an upgraded one are the same by construction. What a published version
contains never changes: a later need is a new column, table or step with a higher number. Version 1 is the system, 2
the journal, 3 what is derived from it, 4 prices, 9 corporate actions, 11 what sums are made from, 14 currencies; the
others stand beside their areas."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from ..columns import MONEY_PLACES, QUANTITY_PLACES, Exact, Moment, Scaled

__all__ = [
    "accounts",
    "app_defaults",
    "audit_log",
    "balance_snapshots",
    "corporate_actions",
    "entity_links",
    "excursion_metrics",
    "images",
    "journal_entries",
    "journal_identity",
    "mcp_guard",
    "metadata",
    "mistake_entries",
    "options_strategies",
    "periodic_fees",
    "price_bars",
    "round_trip_legs",
    "round_trips",
    "schema_migrations",
    "settings",
    "trade_plans",
    "trade_reports",
    "trades",
    "transaction_ledger",
    "watchlist_items",
    "watchlists",
]

CORPORATE_ACTIONS = 9
"""The schema version that brings corporate actions."""

JOURNAL_SUMS = 11
"""The schema version that brings, beside older rows, what sums are quickly made from."""

LOCK_OWNER = 12
"""The schema version from which on the guard remembers who locked it."""

FILE_ORDER = 13
"""The schema version that keeps the order of fills of one instant, and lets futures trade below zero."""

MONEY = 14
"""The schema version that brings the currency of a trade, and exchange rates."""

JOURNAL_IDENTITY = 15
"""The schema version that brings the id which the database shares with its vault."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _since(version: int) -> dict[str, int]:
    return {"since": version}


def _money(name: str, **options: Any) -> Column[Any]:
    return Column(name, Scaled(MONEY_PLACES), **options)


def _quantity(name: str, **options: Any) -> Column[Any]:
    return Column(name, Scaled(QUANTITY_PLACES), **options)


def _flag(name: str, default: bool = False, since: int | None = None) -> Column[Any]:
    info = {} if since is None else _since(since)
    return Column(name, Boolean, nullable=False, server_default=text("1") if default else false(), info=info)


def _currency(**options: Any) -> Column[Any]:
    return Column("currency", String(8), server_default="USD", info=_since(MONEY), **options)


def _creation_time(name: str = "created_at") -> Column[Any]:
    return Column(name, Moment, nullable=False)


# --- 1: the system ---------------------------------------------------------------------------------------------------

schema_migrations = Table(
    "schema_migrations",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("name", String(100), nullable=False),
    Column("applied_at", Moment, nullable=False),
    info=_since(1),
)

settings = Table(
    "settings",
    metadata,
    Column("key", String(128), primary_key=True),
    Column("value", Text, nullable=False),
    Column("value_type", String(8), nullable=False),
    Column("updated_at", Moment, nullable=False),
    info=_since(1),
)

app_defaults = Table(
    "app_defaults",
    metadata,
    Column("key", String(128), primary_key=True),
    Column("value", Text, nullable=False),
    Column("value_type", String(8), nullable=False),
    Column("category", String(32), nullable=False),
    Column("description", Text, nullable=False, server_default=""),
    Column("updated_at", Moment, nullable=False),
    info=_since(1),
)

mcp_guard = Table(
    "mcp_guard",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _flag("is_enabled"),
    _flag("is_locked"),
    Column("locked_at", Moment),
    Column("lock_reason", String(100)),
    Column("locked_by", String(10), info=_since(LOCK_OWNER)),  # person, tool or rate
    Column("calls_per_minute_limit", Integer, nullable=False, server_default="60"),
    Column("calls_per_hour_limit", Integer, nullable=False, server_default="500"),
    Column("updated_at", Moment, nullable=False),
    CheckConstraint("id = 1", name="single"),
    info=_since(1),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("actor", String(128), nullable=False),
    Column("action", String(64), nullable=False),
    Column("resource_type", String(64), nullable=False),
    Column("resource_id", String(256)),
    Column("details_json", JSON, nullable=False),
    _creation_time(),
    Index("ix_audit_log_action_created_at", "action", "created_at"),
    info=_since(1),
)

# --- 2: the journal --------------------------------------------------------------------------------------------------

accounts = Table(
    "accounts",
    metadata,
    Column("account_id", String(128), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("account_type", String(16), nullable=False),
    Column("institution", String(200), nullable=False, server_default=""),
    Column("currency", String(8), nullable=False, server_default="USD"),
    _flag("is_tax_advantaged"),
    Column("notes", Text, nullable=False, server_default=""),
    Column("sub_accounts", JSON, nullable=False, server_default="[]"),
    Column("balance_source", String(16), nullable=False, server_default="manual"),
    _flag("is_archived"),
    _flag("is_system"),
    Column("broker_id", String(64)),
    _flag("is_spousal"),
    Column("source", String(16), nullable=False, server_default="manual"),
    Column("trade_version", Integer, nullable=False, server_default="0"),  # grows with every change of its trades
    _creation_time(),
    info=_since(2),
)

balance_snapshots = Table(
    "balance_snapshots",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account_id", ForeignKey("accounts.account_id"), nullable=False),
    Column("datetime", Moment, nullable=False),
    _money("balance", nullable=False),
    Column("source", String(16), nullable=False, server_default="manual"),
    Index("ix_balance_snapshots_account_id_datetime", "account_id", "datetime"),
    info=_since(2),
)

trades = Table(
    "trades",
    metadata,
    Column("exec_id", String(128), primary_key=True),
    Column("time", Moment, nullable=False),
    Column("instrument", String(128), nullable=False),
    Column("symbol", String(64), nullable=False),
    Column("underlying", String(32), nullable=False),
    Column("asset_class", String(16), nullable=False),
    Column("action", String(3), nullable=False),
    _quantity("quantity", nullable=False),
    _quantity("price", nullable=False),
    _quantity("multiplier", nullable=False),
    _money("notional", nullable=False),
    Column("account_id", ForeignKey("accounts.account_id"), nullable=False),
    _money("commission", nullable=False, server_default="0"),
    _money("fees", nullable=False, server_default="0"),
    _money("realized_pnl", nullable=False, server_default="0"),
    Column("notes", Text, nullable=False, server_default=""),
    Column("order_id", String(128)),
    Column("broker", String(64)),
    _quantity("nbbo_bid"),
    _quantity("nbbo_ask"),
    Column("source", String(16), nullable=False, server_default="manual"),
    Column("import_batch_id", String(64)),
    Column("dedup_hash", String(64), nullable=False),
    _creation_time(),
    _flag("is_itemised", since=JOURNAL_SUMS),  # its fees are in the ledger, line by line
    _currency(nullable=False),  # of its price, its commission and its fees
    Column("fx_rate", Exact, info=_since(MONEY)),  # one of `currency` was worth so many of `fx_base`, by its source
    Column("fx_base", String(8), info=_since(MONEY)),
    # how many fills of the instant come before it; so many microseconds `time` lies after the time that was given
    Column("sequence", Integer, nullable=False, server_default="0", info=_since(FILE_ORDER)),
    CheckConstraint("action IN ('BOT', 'SLD')", name="action"),
    CheckConstraint("quantity > 0", name="quantity"),
    CheckConstraint("price >= 0", name="price"),
    # the order in which one position is replayed, and the two ways lists are read
    Index("ix_trades_position", "account_id", "symbol", "time", "exec_id"),
    Index("ix_trades_time", "time", "exec_id"),
    Index("ix_trades_account_time", "account_id", "time"),
    Index("ix_trades_dedup_hash", "dedup_hash"),
    Index("ix_trades_import_batch_id", "import_batch_id"),
    Index(
        "ix_trades_charges",
        *("account_id", "broker", "is_itemised", "time", "commission", "fees", "notional"),
        info=_since(JOURNAL_SUMS),
    ),
    Index(
        "ix_trades_futures",
        *("account_id", "broker", "time", "notional"),
        sqlite_where=text("asset_class = 'FUTURE'"),
        postgresql_where=text("asset_class = 'FUTURE'"),
        info=_since(FILE_ORDER),
    ),
    Index(
        "ix_trades_quoted",
        *("account_id", "broker", "time", "action", "price", "nbbo_bid", "nbbo_ask"),
        sqlite_where=text("nbbo_bid IS NOT NULL"),
        postgresql_where=text("nbbo_bid IS NOT NULL"),
        info=_since(JOURNAL_SUMS),
    ),
    Index(  # the same with the class, because the cost of order flow leaves futures out
        "ix_trades_quoted_class",
        *("account_id", "broker", "time", "action", "price", "nbbo_bid", "nbbo_ask", "asset_class"),
        sqlite_where=text("nbbo_bid IS NOT NULL"),
        postgresql_where=text("nbbo_bid IS NOT NULL"),
        info=_since(JOURNAL_IDENTITY),
    ),
    Index(
        "ix_trades_money",
        *("currency", "account_id", "broker", "is_itemised", "time", "commission", "fees", "notional"),
        info=_since(MONEY),
    ),
    info=_since(2),
)

trade_reports = Table(
    "trade_reports",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trade_id", ForeignKey("trades.exec_id"), nullable=False, unique=True),
    Column("setup_quality", Integer, nullable=False),
    Column("execution_quality", Integer, nullable=False),
    Column("followed_plan", Boolean, nullable=False),
    Column("emotional_state", String(64), nullable=False, server_default="neutral"),
    Column("lessons_learned", Text, nullable=False, server_default=""),
    Column("tags", JSON, nullable=False, server_default="[]"),
    _creation_time(),
    CheckConstraint("setup_quality BETWEEN 1 AND 5", name="setup_quality"),
    CheckConstraint("execution_quality BETWEEN 1 AND 5", name="execution_quality"),
    info=_since(2),
)

journal_entries = Table(
    "journal_entries",
    metadata,
    Column("entry_id", String(128), primary_key=True),
    Column("title", String(300), nullable=False),
    Column("body", Text, nullable=False, server_default=""),
    Column("entry_date", Date, nullable=False),
    Column("tags", JSON, nullable=False, server_default="[]"),
    Column("source", String(16), nullable=False, server_default="manual"),
    _creation_time(),
    info=_since(2),
)

entity_links = Table(
    "entity_links",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("source_type", String(32), nullable=False),
    Column("source_id", String(128), nullable=False),
    Column("target_type", String(32), nullable=False),
    Column("target_id", String(128), nullable=False),
    Column("link_type", String(32), nullable=False),
    _creation_time(),
    UniqueConstraint("source_type", "source_id", "target_type", "target_id", "link_type", name="uq_entity_links_link"),
    Index("ix_entity_links_target", "target_type", "target_id"),
    info=_since(2),
)

trade_plans = Table(
    "trade_plans",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("ticker", String(64), nullable=False),
    Column("direction", String(3), nullable=False),
    Column("conviction", String(8), nullable=False, server_default="medium"),
    Column("strategy_name", String(200), nullable=False),
    Column("strategy_description", Text, nullable=False, server_default=""),
    _quantity("entry_price", nullable=False),
    _quantity("stop_loss", nullable=False),
    _quantity("target_price", nullable=False),
    Column("entry_conditions", Text, nullable=False, server_default=""),
    Column("exit_conditions", Text, nullable=False, server_default=""),
    Column("timeframe", String(64), nullable=False, server_default="intraday"),
    _quantity("risk_reward_ratio", nullable=False),
    Column("status", String(16), nullable=False, server_default="draft"),
    Column("linked_trade_id", ForeignKey("trades.exec_id", ondelete="SET NULL")),
    Column("account_id", ForeignKey("accounts.account_id")),
    _quantity("shares_planned"),
    _money("position_size"),
    Column("source", String(16), nullable=False, server_default="manual"),
    Column("executed_at", Moment),
    Column("cancelled_at", Moment),
    _creation_time(),
    _creation_time("updated_at"),
    # one plan in progress per ticker and direction, kept by the database however many callers race
    Index(
        "uq_trade_plans_in_progress",
        "ticker",
        "direction",
        unique=True,
        sqlite_where=text("status IN ('draft', 'active')"),
        postgresql_where=text("status IN ('draft', 'active')"),
    ),
    Index("ix_trade_plans_linked_trade_id", "linked_trade_id"),
    info=_since(2),
)

images = Table(
    "images",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("owner_type", String(16), nullable=False),
    Column("owner_id", String(128), nullable=False),
    Column("mime_type", String(32), nullable=False, server_default="image/webp"),
    Column("caption", Text, nullable=False, server_default=""),
    Column("width", Integer, nullable=False),
    Column("height", Integer, nullable=False),
    Column("file_size", Integer, nullable=False),
    _creation_time(),
    Column("thumbnail", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),  # last: reading the columns before it does not touch its pages
    Index("ix_images_owner", "owner_type", "owner_id"),
    info=_since(2),
)

mistake_entries = Table(
    "mistake_entries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trade_id", ForeignKey("trades.exec_id"), nullable=False),
    Column("category", String(32), nullable=False),
    _money("estimated_cost"),
    Column("notes", Text, nullable=False, server_default=""),
    _flag("auto_detected"),
    _creation_time(),
    Index("ix_mistake_entries_trade_id", "trade_id"),
    info=_since(2),
)

watchlists = Table(
    "watchlists",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("description", Text, nullable=False, server_default=""),
    _creation_time(),
    _creation_time("updated_at"),
    info=_since(2),
)

watchlist_items = Table(
    "watchlist_items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("watchlist_id", ForeignKey("watchlists.id", ondelete="CASCADE"), nullable=False),
    Column("ticker", String(64), nullable=False),
    Column("added_at", Moment, nullable=False),
    Column("notes", Text, nullable=False, server_default=""),
    UniqueConstraint("watchlist_id", "ticker"),
    info=_since(2),
)

# --- 3: what is derived from the journal -----------------------------------------------------------------------------

round_trips = Table(
    "round_trips",
    metadata,
    Column("id", String(140), primary_key=True),  # named after the execution that opened it, so a replay keeps it
    Column("account_id", ForeignKey("accounts.account_id"), nullable=False),
    Column("instrument", String(64), nullable=False),
    Column("direction", String(3), nullable=False),
    _quantity("multiplier", nullable=False),
    _quantity("entry_avg_price", nullable=False),
    _quantity("exit_avg_price"),
    _quantity("total_quantity", nullable=False),
    _quantity("exit_quantity", nullable=False),
    _quantity("open_quantity", nullable=False),
    _money("realized_pnl"),
    _money("matched_fees", nullable=False),
    _money("total_commission", nullable=False),
    Column("opened_at", Moment, nullable=False),
    Column("opened_by", String(128), nullable=False),
    _quantity("opened_skip", nullable=False),
    Column("last_at", Moment, nullable=False),
    Column("last_by", String(128), nullable=False),
    Column("closed_at", Moment),
    Column("status", String(8), nullable=False),
    Column("holding_period_seconds", Integer),
    Column("expires_on", Date),
    # exact running totals, so that one more execution continues an episode without replaying it
    Column("entry_value", Exact, nullable=False),
    Column("exit_value", Exact, nullable=False),
    Column("gross", Exact, nullable=False),
    _money("slippage", info=_since(JOURNAL_SUMS)),  # against the quotes of its fills, where there were any
    _currency(nullable=False),  # of its executions; fills in two currencies are two positions
    Index("ix_round_trips_position", "account_id", "instrument", "last_at", "last_by"),
    Index("ix_round_trips_opened", "opened_at", "id"),
    Index("ix_round_trips_closed", "status", "closed_at", "account_id", "realized_pnl", "id", "matched_fees"),
    Index(
        "ix_round_trips_slippage",
        *("status", "closed_at", "account_id", "slippage"),
        sqlite_where=text("slippage IS NOT NULL"),
        postgresql_where=text("slippage IS NOT NULL"),
        info=_since(JOURNAL_SUMS),
    ),
    Index(
        "ix_round_trips_money",
        *("currency", "status", "closed_at", "account_id", "realized_pnl", "id", "matched_fees"),
        info=_since(MONEY),
    ),
    Index(
        "ix_round_trips_expiring",
        "expires_on",
        sqlite_where=text("status != 'closed' AND expires_on IS NOT NULL"),
        postgresql_where=text("status != 'closed' AND expires_on IS NOT NULL"),
    ),
    info=_since(3),
)

# Which executions make up a round trip; an execution that flips a position is a leg of two.
round_trip_legs = Table(
    "round_trip_legs",
    metadata,
    Column("round_trip_id", ForeignKey("round_trips.id", ondelete="CASCADE"), primary_key=True),
    Column("exec_id", ForeignKey("trades.exec_id", ondelete="CASCADE"), primary_key=True),
    Column("role", String(5), nullable=False),  # entry or exit
    Column("time", Moment, nullable=False),
    _quantity("price", nullable=False),
    _quantity("multiplier", nullable=False),
    _quantity("quantity", nullable=False),
    _money("fee", nullable=False),  # its share of the execution's commission and fees
    _money("realized", nullable=False),  # what an exit earned, rounded for showing; the totals above are exact
    _quantity("open_quantity", nullable=False),  # of an entry: what no exit has matched yet,
    _money("open_fee", nullable=False),  # and the part of the fee that goes with it
    Column("lot_price", Exact, info=_since(CORPORATE_ACTIONS)),  # what is open costs, where a split changed its price
    Index("ix_round_trip_legs_exec_id", "exec_id"),
    Index(
        "ix_round_trip_legs_open",
        *("round_trip_id", "time", "exec_id"),
        sqlite_where=text("open_quantity > 0"),
        postgresql_where=text("open_quantity > 0"),
    ),
    info=_since(3),
)

excursion_metrics = Table(
    "excursion_metrics",
    metadata,
    Column("trade_exec_id", ForeignKey("trades.exec_id", ondelete="CASCADE"), primary_key=True),
    Column("round_trip_id", ForeignKey("round_trips.id", ondelete="CASCADE"), nullable=False),
    _money("mfe_dollars", nullable=False),
    _quantity("mfe_pct"),
    _quantity("mfe_price", nullable=False),
    _money("mae_dollars", nullable=False),
    _quantity("mae_pct"),
    _quantity("mae_price", nullable=False),
    _quantity("bso_pct"),
    _quantity("capture_ratio"),
    Column("holding_bars", Integer, nullable=False),
    Column("resolution", String(8), nullable=False),
    Column("data_source", String(64), nullable=False),
    Column("computed_at", Moment, nullable=False),
    Index("ix_excursion_metrics_round_trip_id", "round_trip_id"),
    info=_since(3),
)

transaction_ledger = Table(
    "transaction_ledger",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("trade_exec_id", ForeignKey("trades.exec_id", ondelete="CASCADE"), nullable=False),
    Column("fee_type", String(16), nullable=False),
    _money("amount", nullable=False),
    Column("currency", String(8), nullable=False, server_default="USD"),
    Column("description", Text, nullable=False, server_default=""),
    _flag("is_estimated"),
    # of the trade, so that a sum need not look it up
    Column("account_id", String(128), info=_since(JOURNAL_SUMS)),
    Column("time", Moment, info=_since(JOURNAL_SUMS)),
    Column("broker", String(64), info=_since(JOURNAL_SUMS)),
    Index("ix_transaction_ledger_trade_exec_id", "trade_exec_id"),
    Index(
        "ix_transaction_ledger_sums",
        *("account_id", "fee_type", "broker", "is_estimated", "time", "amount"),
        info=_since(JOURNAL_SUMS),
    ),
    Index(
        "ix_transaction_ledger_money",
        *("currency", "account_id", "fee_type", "broker", "is_estimated", "time", "amount"),
        info=_since(MONEY),
    ),
    info=_since(3),
)

periodic_fees = Table(
    "periodic_fees",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account_id", ForeignKey("accounts.account_id")),
    Column("fee_type", String(16), nullable=False),
    _money("amount", nullable=False),
    Column("period_month", String(7), nullable=False),
    Column("description", Text, nullable=False, server_default=""),
    Column("source", String(16), nullable=False, server_default="manual"),
    _currency(nullable=False),
    info=_since(3),
)

options_strategies = Table(
    "options_strategies",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(64), nullable=False),
    Column("strategy_type", String(16), nullable=False),
    Column("underlying", String(32), nullable=False),
    Column("leg_exec_ids", JSON, nullable=False),
    _money("net_debit_credit", nullable=False),
    _money("max_profit"),
    _money("max_loss"),
    Column("breakeven_prices", JSON, nullable=False),
    _creation_time(),
    info=_since(3),
)

# --- 4: prices -------------------------------------------------------------------------------------------------------

price_bars = Table(
    "price_bars",
    metadata,
    Column("symbol", String(64), primary_key=True),
    Column("resolution", String(8), primary_key=True),
    Column("time", Moment, primary_key=True),  # its beginning
    _quantity("open", nullable=False),
    _quantity("high", nullable=False),
    _quantity("low", nullable=False),
    _quantity("close", nullable=False),
    _quantity("volume", nullable=False, server_default="0"),
    _quantity("vwap"),
    Column("source", String(64), nullable=False),
    info=_since(4),
)

# --- 9: what changes a position without a trade ----------------------------------------------------------------------

corporate_actions = Table(
    "corporate_actions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account_id", ForeignKey("accounts.account_id")),  # of a split: none is every account
    Column("symbol", String(64), nullable=False),
    Column("underlying", String(32), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("effective_at", Moment, nullable=False),
    _quantity("numerator"),  # of a split: so many new shares
    _quantity("denominator"),  # for so many old ones
    _quantity("quantity"),  # of an option: contracts
    Column("closing_trade_id", ForeignKey("trades.exec_id")),  # the fill at zero that closes the contracts
    Column("related_trade_id", ForeignKey("trades.exec_id")),  # the fill at the strike that moves the shares
    Column("source", String(16), nullable=False, server_default="manual"),
    _creation_time(),
    CheckConstraint("kind IN ('split', 'exercise', 'assignment', 'expiry')", name="kind"),
    Index("ix_corporate_actions_symbol", "symbol", "effective_at"),
    Index("ix_corporate_actions_underlying", "underlying", "effective_at"),
    info=_since(CORPORATE_ACTIONS),
)

# --- 15: whose database this is --------------------------------------------------------------------------------------

journal_identity = Table(
    "journal_identity",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("journal_id", String(36), nullable=False),
    CheckConstraint("id = 1", name="single"),
    info=_since(JOURNAL_IDENTITY),
)
