"""The limits of scheduling, counted from the audit log: what was done in the last hour or day cannot be forgotten.

Every function runs inside the caller's transaction; counting and recording are one step, so two callers cannot both
take the last place."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, select

from ..database.schema.journal import audit_log

__all__ = [
    "MAILS_PER_DAY",
    "POLICIES_PER_DAY",
    "QUERIES_PER_HOUR",
    "RUNS_PER_HOUR",
    "note",
    "spend_mail",
    "spend_policy",
    "spend_queries",
    "spend_run",
]

POLICIES_PER_DAY = 20
RUNS_PER_HOUR = 60
MAILS_PER_DAY = 50
QUERIES_PER_HOUR = 100

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_APPEND = audit_log.insert()


def note(
    conn: Connection, now: datetime, actor: str, action: str, resource_type: str, resource_id: str, **details: Any
) -> None:
    """Append a line to the audit log at a moment of the scheduler's clock; `details` hold no secret."""
    row = {"actor": actor, "action": action, "resource_type": resource_type, "resource_id": resource_id}
    conn.execute(_APPEND, {**row, "details_json": details, "created_at": now})


def _count(conn: Connection, action: str, since: datetime, resource_type: str) -> int:
    found = conn.execute(
        select(func.count())
        .select_from(audit_log)
        .where(audit_log.c.action == action, audit_log.c.created_at > since, audit_log.c.resource_type == resource_type)
    )
    return int(found.scalar_one())


def spend_policy(conn: Connection, actor: str, policy_id: str, name: str, now: datetime) -> bool:
    """Record a creation; False if today's are spent."""
    if _count(conn, "policy.create", now - _DAY, "policy") >= POLICIES_PER_DAY:
        return False
    note(conn, now, actor, "policy.create", "policy", policy_id, name=name)
    return True


def spend_run(conn: Connection, actor: str, run_id: str, now: datetime, **details: Any) -> bool:
    """Record the start of a run; False if this hour's are spent."""
    if _count(conn, "pipeline.run", now - _HOUR, "run") >= RUNS_PER_HOUR:
        return False
    note(conn, now, actor, "pipeline.run", "run", run_id, **details)
    return True


def spend_mail(conn: Connection, actor: str, run_id: str, now: datetime, **details: Any) -> bool:
    """Record a mail that is about to be sent; False if today's are spent."""
    if _count(conn, "report.send", now - _DAY, "email") >= MAILS_PER_DAY:
        return False
    note(conn, now, actor, "report.send", "email", run_id, **details)
    return True


def spend_queries(conn: Connection, actor: str, run_id: str, count: int, now: datetime) -> bool:
    """Record report queries, one line each; False if this hour's are spent."""
    if _count(conn, "report.query", now - _HOUR, "run") + count > QUERIES_PER_HOUR:
        return False
    for _ in range(count):
        note(conn, now, actor, "report.query", "run", run_id)
    return True
