"""The table of exchange rates, and what a journal of an older schema gets to know about its currencies."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Column, Connection, Date, Index, String, Table, select

from ...values.currencies import fixed_currency
from ..columns import Exact, Moment
from . import books as book_tables
from .journal import MONEY, accounts, metadata, periodic_fees, round_trips, trades, transaction_ledger

__all__ = ["exchange_rates", "prepare"]

_FIXED = ("FOREX", "CRYPTO", "FUTURE")

exchange_rates = Table(
    "exchange_rates",
    metadata,
    Column("day", Date, primary_key=True),
    Column("base", String(8), primary_key=True),
    Column("quote", String(8), primary_key=True),
    Column("rate", Exact, nullable=False),  # one of `base` cost so many of `quote`
    Column("source", String(64), nullable=False),
    Column("updated_at", Moment, nullable=False),
    Index("ix_exchange_rates_quote", "quote", "day", info={"since": MONEY}),
    info={"since": MONEY},
)


def prepare(conn: Connection, now: datetime) -> None:
    """Older trades were made in the currency of their account, pairs in their second one, futures in their contract's.

    Positions count in that one from now on; nothing of their figures but the unit changes. The tax lots of
    whatever was not traded for dollars are made anew, and their trigger learns of the new columns."""
    own = select(accounts.c.currency).where(accounts.c.account_id == trades.c.account_id).scalar_subquery()
    conn.execute(trades.update().values(currency=own))
    fixed = select(trades.c.asset_class, trades.c.symbol).where(trades.c.asset_class.in_(_FIXED)).distinct()
    for kind, symbol in conn.execute(fixed).all():
        currency = fixed_currency(kind, symbol)
        if currency is not None:
            conn.execute(trades.update().where(trades.c.symbol == symbol).values(currency=currency))
    of_trade = select(trades.c.currency).where(trades.c.exec_id == round_trips.c.opened_by).scalar_subquery()
    conn.execute(round_trips.update().values(currency=of_trade))
    charged = select(trades.c.currency).where(trades.c.exec_id == transaction_ledger.c.trade_exec_id).scalar_subquery()
    conn.execute(transaction_ledger.update().values(currency=charged))
    of_account = (
        select(accounts.c.currency).where(accounts.c.account_id == periodic_fees.c.account_id).scalar_subquery()
    )
    conn.execute(periodic_fees.update().where(periodic_fees.c.account_id.is_not(None)).values(currency=of_account))
    book_tables.follow_columns(conn, ("currency", "fx_rate", "fx_base"))
    conn.exec_driver_sql(
        "INSERT INTO tax_stale (underlying) SELECT DISTINCT underlying FROM trades WHERE currency <> 'USD' "
        "ON CONFLICT DO NOTHING"
    )
