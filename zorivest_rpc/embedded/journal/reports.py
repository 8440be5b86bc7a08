"""Reports on trades, journal entries, and the links between them, readable from both ends."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Connection, select

from ..database import audit
from ..database.schema.journal import entity_links, journal_entries, trade_reports
from ..errors import Conflict, NotFound
from . import trades

__all__ = [
    "GRADES",
    "add_entry",
    "add_report",
    "change_report",
    "delete_report",
    "entry",
    "grade",
    "link",
    "report",
]

GRADES = {"A": 5, "B": 4, "C": 3, "D": 2, "F": 1}
_LETTERS = {number: letter for letter, number in GRADES.items()}


def grade(number: int) -> str:
    """The letter of a stored grade."""
    return _LETTERS[number]


def add_report(conn: Connection, exec_id: str, values: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """The one report of a trade, together with its journal entry, linked; 409 if there is one already."""
    trade = trades.require(conn, exec_id)
    if conn.execute(select(trade_reports.c.id).where(trade_reports.c.trade_id == exec_id)).first() is not None:
        raise Conflict("duplicate_report", f'The trade "{exec_id}" has a report already; change it with PUT.')
    now = datetime.now(UTC)
    report_id = conn.execute(
        trade_reports.insert().values(**values, trade_id=exec_id, created_at=now).returning(trade_reports.c.id)
    ).scalar_one()
    conn.execute(
        journal_entries.insert().values(
            entry_id=f"jrn_{report_id}",
            title=f"{trade['action']} {trade['symbol']} on {trade['time']:%Y-%m-%d}",
            body=values["lessons_learned"],
            entry_date=now.date(),
            tags=values["tags"],
            source=trade["source"],
            created_at=now,
        )
    )
    _link(conn, exec_id, f"jrn_{report_id}", now)
    audit.record(conn, actor, "report.create", "trade", exec_id, report_id=report_id)
    return report(conn, exec_id)


def report(conn: Connection, exec_id: str) -> dict[str, Any]:
    """The report of a trade as letters; 404 without the trade or without the report."""
    trades.require(conn, exec_id)
    row = conn.execute(select(trade_reports).where(trade_reports.c.trade_id == exec_id)).mappings().first()
    if row is None:
        raise NotFound("report", exec_id, "create_report writes one.")
    return {
        **row,
        "setup_quality": grade(row["setup_quality"]),
        "execution_quality": grade(row["execution_quality"]),
        "journal_entry_id": f"jrn_{row['id']}",
    }


def change_report(conn: Connection, exec_id: str, changes: Mapping[str, Any], actor: str) -> dict[str, Any]:
    """The entry that was written with the report follows it."""
    found = report(conn, exec_id)
    if changes:
        conn.execute(trade_reports.update().where(trade_reports.c.id == found["id"]).values(**changes))
        follow = {
            name: changes[other] for name, other in (("body", "lessons_learned"), ("tags", "tags")) if other in changes
        }
        if follow:
            entry_id = found["journal_entry_id"]
            conn.execute(journal_entries.update().where(journal_entries.c.entry_id == entry_id).values(**follow))
        audit.record(conn, actor, "report.update", "trade", exec_id, fields=sorted(changes))
    return report(conn, exec_id)


def delete_report(conn: Connection, exec_id: str, actor: str) -> None:
    found = report(conn, exec_id)
    trades.delete_report(conn, found["id"])
    audit.record(conn, actor, "report.delete", "trade", exec_id, report_id=found["id"])


def add_entry(
    conn: Connection,
    *,
    entry_id: str | None,
    title: str,
    body: str,
    entry_date: date,
    tags: list[str],
    actor: str,
    source: str = "manual",
) -> dict[str, Any]:
    """A journal entry; 409 if its id is taken."""
    name = entry_id or f"jrn_{uuid.uuid4().hex}"
    if conn.execute(select(journal_entries.c.entry_id).where(journal_entries.c.entry_id == name)).first() is not None:
        raise Conflict("duplicate_entry", f'There is a journal entry "{name}" already.')
    conn.execute(
        journal_entries.insert().values(
            entry_id=name,
            title=title,
            body=body,
            entry_date=entry_date,
            tags=tags,
            source=source,
            created_at=datetime.now(UTC),
        )
    )
    audit.record(conn, actor, "journal.create", "journal", name)
    return entry(conn, name)


def entry(conn: Connection, entry_id: str) -> dict[str, Any]:
    """One entry with the executions that are linked to it."""
    row = conn.execute(select(journal_entries).where(journal_entries.c.entry_id == entry_id)).mappings().first()
    if row is None:
        raise NotFound("journal entry", entry_id)
    linked = conn.execute(
        select(entity_links.c.source_id)
        .where(
            entity_links.c.target_type == "journal",
            entity_links.c.target_id == entry_id,
            entity_links.c.source_type == "trade",
        )
        .order_by(entity_links.c.id)
    ).scalars()
    return {**row, "linked_exec_ids": list(linked)}


def link(conn: Connection, exec_id: str, entry_id: str, actor: str) -> dict[str, Any]:
    """Link a trade and an entry; linking them again changes nothing and says so."""
    trades.require(conn, exec_id)
    if conn.execute(select(journal_entries.c.entry_id).where(journal_entries.c.entry_id == entry_id)).first() is None:
        raise NotFound("journal entry", entry_id)
    known = _find_report(conn, exec_id, entry_id)
    if known is None:
        _link(conn, exec_id, entry_id, datetime.now(UTC))
        audit.record(conn, actor, "journal.link", "trade", exec_id, entry_id=entry_id)
    row = known or _find_report(conn, exec_id, entry_id)
    assert row is not None
    return {
        "status": "linked",
        "trade_exec_id": exec_id,
        "journal_entry_id": entry_id,
        "link_id": row["id"],
        "created_at": row["created_at"],
        "already_linked": known is not None,
    }


def _find_report(conn: Connection, exec_id: str, entry_id: str) -> Mapping[Any, Any] | None:
    return (
        conn.execute(
            select(entity_links).where(
                entity_links.c.source_type == "trade",
                entity_links.c.source_id == exec_id,
                entity_links.c.target_type == "journal",
                entity_links.c.target_id == entry_id,
                entity_links.c.link_type == "reviewed_by",
            )
        )
        .mappings()
        .first()
    )


def _link(conn: Connection, exec_id: str, entry_id: str, now: datetime) -> None:
    conn.execute(
        entity_links.insert().values(
            source_type="trade",
            source_id=exec_id,
            target_type="journal",
            target_id=entry_id,
            link_type="reviewed_by",
            created_at=now,
        )
    )
