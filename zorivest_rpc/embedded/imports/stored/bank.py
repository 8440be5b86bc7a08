"""The bank ledger: statement lines written once, and balances as of their day.

A line is known again by the bank's own reference, or else by its day, text and amount. Two lines with different
references of the bank are two lines, however equal. A line that equals one entered by hand, on a day no statement
covered yet, is flagged and left out: the user who entered it knows whether it is the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, func, or_, select

from ...database.columns import money
from ...database.schema.books import bank_transactions, import_batches
from ...database.schema.journal import accounts, balance_snapshots
from ...errors import NotFound
from ...journal import accounts as account_store
from ...values.inputs import Page
from ..dedup import SortedBank, sort_out_bank
from ..drafts import BankDraft, BankImport, Note, Status
from .trades import date_range, new_batch_id, record_batch, render_errors, render_notes, roomy, same_file

__all__ = ["BANK_TYPES", "ledger", "list_bank_accounts", "store"]

BANK_TYPES = ("bank", "revolving", "installment")
_LARGEST = Decimal(10**12)
_AT_ONCE = 2000
_lines = bank_transactions.c


def store(conn: Connection, found: BankImport, *, file_name: str, actor: str, auto_create: bool) -> dict[str, Any]:
    """Write the lines of a statement that the ledger does not hold, its closing balance and its batch."""
    lines = [_normal(draft) for draft in found.transactions if abs(draft.amount) <= _LARGEST]
    too_large = len(found.transactions) - len(lines)
    stated = lines[0].currency if lines else None
    if lines or found.closing_balance is not None:
        _usable(conn, found.account_id, auto_create, actor, stated)
    warnings = list(found.warnings)
    is_foreign = stated is not None and stated != _currency_of(conn, found.account_id)
    if is_foreign:
        warnings.append(_foreign_statement(stated or "", _currency_of(conn, found.account_id)))
    if too_large:
        warnings.append(Note(code="too_large", message=f"{too_large} lines have amounts above {_LARGEST}."))
    if same_file(conn, found.account_id, found.file_sha256):
        warnings.append(Note(code="same_file", message="This very file was imported before."))
    sorted_out = _sort_out(conn, found.account_id, lines)
    if sorted_out.flagged:
        warnings.append(_note_lookalikes(sorted_out.flagged))
    batch_id = new_batch_id()
    with roomy(conn, len(sorted_out.new)):
        _write(conn, sorted_out.new, found.balance_source, batch_id)
    if found.closing_balance is not None and abs(found.closing_balance) <= _LARGEST and not is_foreign:
        moment = _end_of(found.closing_date or found.date_to)
        _record(conn, found.account_id, money(found.closing_balance), moment, actor, found.balance_source)
    status = Status.PARTIAL if too_large and lines else found.status
    answer: dict[str, Any] = {"batch_id": batch_id, "status": status.value} | _describe(
        found, sorted_out, warnings, stated, too_large
    )
    record_batch(
        conn,
        answer,
        kind="bank",
        file_name=file_name,
        file_sha256=found.file_sha256,
        duplicates=answer["duplicates"],
        flagged=answer["flagged"],
        first_day=found.date_from,
        last_day=found.date_to,
        actor=actor,
    )
    return answer


def _describe(
    found: BankImport, sorted_out: SortedBank, warnings: list[Note], stated: str | None, too_large: int
) -> dict[str, Any]:
    return {
        "format": found.format,
        "detected_format": found.format if found.bank is None else f"{found.format} {found.bank}"[:64],
        "bank": found.bank,
        "account_id": found.account_id,
        "total_rows": found.total_rows,
        "parsed_rows": found.parsed_rows,
        "skipped_rows": found.skipped_rows,
        "error_rows": found.error_rows + too_large,
        "imported": len(sorted_out.new),
        "duplicates": len(sorted_out.duplicates),
        "flagged": len(sorted_out.flagged),
        "errors": render_errors(found.errors),
        "warnings": render_notes(warnings),
        "date_range": date_range(found.date_from, found.date_to),
        "net_change": found.net_change,
        "currency": stated,
        "closing_balance": found.closing_balance,
        "balance_match": found.balance_match,
        "balance_drift": found.balance_drift,
    }


def list_bank_accounts(conn: Connection) -> list[dict[str, Any]]:
    """Every account that money is banked in, with its latest balance and how far the ledger reaches."""
    lines = (
        select(_lines.account_id, func.count().label("count"), func.max(_lines.date).label("last_day"))
        .group_by(_lines.account_id)
        .subquery()
    )
    shots = balance_snapshots.c
    latest = select(
        shots.account_id,
        shots.balance,
        shots.datetime,
        func.row_number()
        .over(partition_by=shots.account_id, order_by=(shots.datetime.desc(), shots.id.desc()))
        .label("place"),
    ).subquery()
    rows = conn.execute(
        select(accounts, latest.c.balance, latest.c.datetime, lines.c.count, lines.c.last_day)
        .outerjoin(lines, lines.c.account_id == accounts.c.account_id)
        .outerjoin(latest, and_(latest.c.account_id == accounts.c.account_id, latest.c.place == 1))
        .where(or_(accounts.c.account_type.in_(BANK_TYPES), lines.c.count > 0))
        .where(accounts.c.is_system.is_(False), accounts.c.is_archived.is_(False))
        .order_by(accounts.c.account_id)
    ).mappings()
    names = ("account_id", "name", "institution", "account_type", "currency", "balance_source")
    return [
        {
            **{name: row[name] for name in names},
            "balance": row["balance"],
            "last_updated": _recency(row["datetime"], row["last_day"]),
            "transaction_count": row["count"] or 0,
        }
        for row in rows
    ]


def ledger(conn: Connection, account_id: str, page: Page, *, first: date | None, last: date | None) -> dict[str, Any]:
    """The lines of an account, newest first."""
    own = _currency_of(conn, account_id)
    wanted = [_lines.account_id == account_id]
    if first is not None:
        wanted.append(_lines.date >= first)
    if last is not None:
        wanted.append(_lines.date <= last)
    sums = {
        currency: (count, net)
        for currency, count, net in conn.execute(
            select(_lines.currency, func.count(), func.sum(_lines.amount)).where(*wanted).group_by(_lines.currency)
        )
    }
    total = sum(count for count, _ in sums.values())
    shown = (
        "id", "date", "post_date", "description", "amount", "currency", "category", "reference_id", "running_balance",
        "notes", "source", "import_batch_id",
    )  # fmt: skip
    rows = conn.execute(
        select(*(_lines[name] for name in shown))
        .where(*wanted)
        .order_by(_lines.date.desc(), _lines.id.desc())
        .limit(page.limit)
        .offset(page.offset)
    ).mappings()
    answer = {
        **page.envelope([dict(row) for row in rows], total),
        "net_change": sums[own][1] if own in sums else 0,
        "currency": own,
    }
    abroad = [
        {"kind": "lines", "currency": currency, "count": count, "amount": net}
        for currency, (count, net) in sorted(sums.items())
        if currency != own
    ]
    return answer | ({"unconverted": abroad} if abroad else {})


def _currency_of(conn: Connection, account_id: str) -> str:
    return str(account_store.require(conn, account_id)["currency"])


def _foreign_statement(stated: str, own: str) -> Note:
    return Note(
        code="foreign_currency",
        message=f"The statement is in {stated} and the account in {own}: its lines are kept in {stated} and not added "
        "to others, and its balance was not taken. Import it into an account of its own currency.",
    )


def _usable(conn: Connection, account_id: str, auto_create: bool, actor: str, currency: str | None) -> None:
    if not auto_create and account_store.find(conn, account_id) is None:
        raise NotFound("account", account_id, "list_bank_accounts gives the ids.")
    account_store.usable(conn, account_id, auto_create=auto_create, actor=actor, kind="bank", currency=currency)


def _sort_out(conn: Connection, account_id: str, lines: Sequence[BankDraft]) -> SortedBank:
    """Which lines are new; the hash of a line with a reference of its own counts only for lines without one."""
    if not lines:
        return SortedBank(new=(), duplicates=(), flagged=())
    days = [line.date for line in lines]
    first, last = min(days), max(days)
    references: set[str] = set()
    hashes: tuple[list[str], list[str]] = ([], [])  # of lines without a reference of their own, and with one
    for reference, is_unique, digest, day in conn.execute(
        select(_lines.reference_id, _lines.reference_is_unique, _lines.dedup_hash, _lines.date).where(
            _lines.account_id == account_id
        )
    ):
        if is_unique:
            references.add(reference)
        if first <= day <= last:
            hashes[is_unique].append(digest)
    covered = conn.execute(
        select(import_batches.c.first_day, import_batches.c.last_day).where(
            import_batches.c.account_id == account_id,
            import_batches.c.kind == "bank",
            import_batches.c.status != Status.FAILED.value,
            import_batches.c.first_day.is_not(None),
        )
    )
    ranges = [(row.first_day, row.last_day) for row in covered]
    parts = [
        sort_out_bank(
            [line for line in lines if line.reference_is_unique is is_unique],
            references=references,
            hashes=hashes[0] if is_unique else itertools.chain(*hashes),
            imported=ranges,
        )
        for is_unique in (True, False)
    ]
    new = {id(line) for part in parts for line in part.new}
    return SortedBank(
        new=tuple(line for line in lines if id(line) in new),
        duplicates=parts[0].duplicates + parts[1].duplicates,
        flagged=parts[0].flagged + parts[1].flagged,
    )


def _write(conn: Connection, lines: Sequence[BankDraft], source: str, batch_id: str) -> None:
    if not lines:
        return
    now = datetime.now(UTC)
    same = ("account_id", "date", "post_date", "description", "amount", "currency", "reference_id")
    more = ("reference_is_unique", "running_balance", "notes", "dedup_hash")
    for at in range(0, len(lines), _AT_ONCE):
        conn.execute(
            bank_transactions.insert(),
            [
                {
                    **{name: getattr(line, name) for name in same + more},
                    "category": line.category.value,
                    "source": source,
                    "import_batch_id": batch_id,
                    "created_at": now,
                }
                for line in lines[at : at + _AT_ONCE]
            ],
        )


def _normal(draft: BankDraft) -> BankDraft:
    running = draft.running_balance
    return msgspec.structs.replace(
        draft,
        amount=money(draft.amount),
        running_balance=None if running is None or abs(running) > _LARGEST else money(running),
        reference_id=(draft.reference_id or "")[:255] or None,
        reference_is_unique=draft.reference_is_unique and len(draft.reference_id or "") <= 255,
    )


def _note_lookalikes(lines: Sequence[BankDraft]) -> Note:
    shown = ", ".join(f"{line.date} {line.amount}" for line in lines[:5])
    return Note(
        code="possible_duplicate",
        message=f"{len(lines)} lines equal ones entered by hand and were left out ({shown}).",
        row_number=lines[0].row_number,
    )


def _record(conn: Connection, account_id: str, balance: Decimal, moment: datetime, actor: str, source: str) -> None:
    account_store.record_balance(conn, account_id, balance, moment, actor, source)
    conn.execute(accounts.update().where(accounts.c.account_id == account_id).values(balance_source=source))


def _end_of(day: date | None) -> datetime:
    """The end of a statement's day, but never later than now."""
    now = datetime.now(UTC)
    return now if day is None else min(now, datetime.combine(day, time(23, 59, 59), UTC))


def _recency(balance: datetime | None, line: date | None) -> datetime | None:
    known = [moment for moment in (balance, None if line is None else _end_of(line)) if moment is not None]
    return max(known, default=None)
