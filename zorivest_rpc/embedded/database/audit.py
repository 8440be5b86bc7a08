"""The audit log: who did what to what, written in the same transaction as the deed, never changed afterwards."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from .schema.journal import audit_log

__all__ = ["record"]

_APPEND = audit_log.insert()  # built once: building a statement costs more than running it


def record(
    conn: Connection, actor: str, action: str, resource_type: str, resource_id: str | None = None, **details: Any
) -> None:
    """Append one line; `details` must be JSON and hold no secret."""
    conn.execute(
        _APPEND,
        {
            "actor": actor,
            "action": action,
            "resource_type": resource_type,
            "resource_id": resource_id,
            "details_json": details,
            "created_at": datetime.now(UTC),
        },
    )
