"""Drafts into the journal, once each, as one transaction with the record of where they came from."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import cast

import msgspec
from sqlalchemy import Connection, select

from .. import accounts as account_store
from .. import audit
from .. import trades as trade_store
from ..columns import money, quantity
from ..imports.dedup import HeldTrade, sort_out_trades
from ..imports.drafts import BrokerImport, Status, TradeDraft
from ..symbols import AssetClass, Instrument, parse_instrument
from ..tables import accounts, trades, transaction_ledger
from .tables import import_batches

__all__ = ["Written", "is_known_file", "write_import"]

_AROUND = timedelta(days=1)
_STEP = 400
_MOST_ERRORS = 50


class Written(msgspec.Struct, frozen=True):
    """What one batch did to the journal."""

    batch_id: str
    imported: int
    duplicates: int
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def is_known_file(conn: Connection, sha256: str, account_id: str) -> bool:
    """Whether the very same file was imported into the account before."""
    found = conn.execute(
        select(import_batches.c.batch_id)
        .where(import_batches.c.file_sha256 == sha256, import_batches.c.account_id == account_id)
        .limit(1)
    ).first()
    return found is not None


def write_import(
    conn: Connection,
    found: BrokerImport,
    *,
    kind: str,
    source: str,
    actor: str,
    now: datetime,
    auto_create: bool,
    file_name: str = "",
    broker_id: str | None = None,
) -> Written:
    """Write what is new of an import; fees that a broker corrected replace the held ones. Nothing new is no error."""
    account_id = found.account_id
    account_store.usable(conn, account_id, auto_create=auto_create, actor=actor)
    if broker_id is not None:
        conn.execute(
            accounts.update()
            .where(accounts.c.account_id == account_id, accounts.c.broker_id.is_(None))
            .values(broker_id=broker_id)
        )
    batch_id = f"bat_{uuid.uuid4().hex[:20]}"
    drafts = [_fitted(draft) for draft in found.trades]
    sorted_out = sort_out_trades(drafts, _held(conn, account_id, drafts))
    errors = [f"{_row(error.row_number)}{error.field}: {error.message}" for error in found.errors]
    refused = trade_store.insert_many(conn, [_trade(draft, source, batch_id, broker_id) for draft in sorted_out.new])
    errors += [f"{trade.what.symbol} at {trade.time.isoformat()}: {refusal.detail}" for trade, refusal in refused]
    imported = len(sorted_out.new) - len(refused)
    for exec_id, draft in sorted_out.fee_updates:
        costs = {"commission": draft.commission, "fees": draft.fees}
        trade_store.change(conn, exec_id, costs, None, actor=actor, auto_create=False)
        if charges := [{"trade_exec_id": exec_id, **charge._asdict()} for charge in _charges(draft)]:
            conn.execute(transaction_ledger.insert(), charges)
    conn.execute(
        import_batches.insert().values(
            batch_id=batch_id,
            kind=kind,
            file_name=file_name[:300],
            file_sha256=found.file_sha256,
            account_id=account_id,
            detected_format=found.detected_format,
            total_rows=found.total_rows,
            imported=imported,
            duplicates_skipped=len(sorted_out.duplicates),
            skipped_rows=found.skipped_rows,
            status=(Status.PARTIAL if imported else Status.FAILED) if errors else Status.SUCCESS,
            errors=errors[:_MOST_ERRORS],
            created_at=now,
        )
    )
    audit.record(conn, actor, "import.write", "import_batch", batch_id, imported=imported, account_id=account_id)
    notes = tuple(note.message for note in (*found.warnings, *sorted_out.warnings))
    return Written(batch_id, imported, len(sorted_out.duplicates), tuple(errors[:_MOST_ERRORS]), notes)


def _row(number: int | None) -> str:
    return f"row {number}, " if number is not None else ""


def _fitted(draft: TradeDraft) -> TradeDraft:
    """The draft in numbers that the columns hold."""
    return msgspec.structs.replace(
        draft,
        quantity=quantity(draft.quantity),
        price=quantity(draft.price),
        multiplier=quantity(draft.multiplier),
        commission=money(draft.commission),
        fees=money(draft.fees),
    )


def _held(conn: Connection, account_id: str, drafts: Iterable[TradeDraft]) -> list[HeldTrade]:
    """What is held that a draft may repeat: in the account around the drafts' time, or anywhere under a draft's id."""
    wanted = list(drafts)
    if not wanted:
        return []
    first = min(draft.exec_time for draft in wanted) - _AROUND
    last = max(draft.exec_time for draft in wanted) + _AROUND
    nearby = (trades.c.account_id == account_id) & (trades.c.time >= first) & (trades.c.time <= last)
    ids = [draft.exec_id for draft in wanted]
    places = [nearby, *(trades.c.exec_id.in_(ids[start : start + _STEP]) for start in range(0, len(ids), _STEP))]
    found: dict[str, HeldTrade] = {}
    for place in places:
        for row in conn.execute(select(trades).where(place)):
            found[row.exec_id] = HeldTrade(
                exec_id=row.exec_id,
                dedup_hash=row.dedup_hash,
                symbol=row.symbol,
                exec_time=row.time,
                quantity=row.quantity,
                price=row.price,
                commission=row.commission,
                fees=row.fees,
            )
    return list(found.values())


def _trade(draft: TradeDraft, source: str, batch_id: str, broker_id: str | None) -> trade_store.Draft:
    return trade_store.Draft(
        exec_id=draft.exec_id,
        time=draft.exec_time,
        instrument=draft.instrument or draft.symbol,
        what=_instrument(draft),
        action=draft.side.value,
        quantity=draft.quantity,
        price=draft.price,
        account_id=draft.account_id,
        commission=draft.commission,
        fees=draft.fees,
        realized_pnl=money(draft.realized_pnl or Decimal(0)),
        notes=draft.notes,
        multiplier=draft.multiplier,
        order_id=draft.order_id,
        broker=broker_id or draft.broker,
        source=source,
        import_batch_id=batch_id,
        charges=_charges(draft),
    )


def _charges(draft: TradeDraft) -> tuple[trade_store.Charge, ...]:
    return tuple(trade_store.Charge(fee.fee_type.value, money(fee.amount), fee.description) for fee in draft.ledger)


def _instrument(draft: TradeDraft) -> Instrument:
    """The draft's symbol with the asset class that the file or the broker stated."""
    try:
        read = parse_instrument(draft.symbol)
    except ValueError:
        read = None
    if read is not None and read.symbol == draft.symbol and read.asset_class == draft.asset_class.value:
        return read
    under = read.underlying if read is not None else draft.symbol
    return Instrument(draft.symbol, cast(AssetClass, draft.asset_class.value), under[:32], draft.multiplier)
