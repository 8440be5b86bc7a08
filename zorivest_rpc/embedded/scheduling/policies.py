"""The rows of policies: created, changed, approved, removed; every function runs inside the caller's transaction.

A policy is approved while the hash that a person saw is the hash it has. Nothing resets an approval explicitly: a
changed document has another hash."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from ..database.schema.scheduling import policies
from ..errors import Conflict, NotFound, TooMany
from .budget import POLICIES_PER_DAY, note, spend_policy
from .cron import next_firing
from .document import content_hash

__all__ = ["approve", "create", "every", "find", "remove", "replace", "view"]

Row = Mapping[str, Any]


def view(row: Row, now: datetime) -> dict[str, Any]:
    """The policy as callers see it."""
    trigger = row["policy_json"]["trigger"]
    approved = _is_approved(row)
    scheduled = approved and row["enabled"]
    return {
        "id": row["id"],
        "name": row["name"],
        "schema_version": row["schema_version"],
        "enabled": row["enabled"],
        "approved": approved,
        "approved_at": row["approved_at"] if approved else None,
        "approved_hash": row["approved_hash"] if approved else None,
        "content_hash": row["content_hash"],
        "policy_json": row["policy_json"],
        "created_at": row["created_at"],
        "updated_at": row["updated_at"],
        "next_run": next_firing(trigger["cron_expression"], trigger["timezone"], now) if scheduled else None,
    }


def _is_approved(row: Row) -> bool:
    return bool(row["approved_hash"] == row["content_hash"])


def find(conn: Connection, policy_id: str) -> Row:
    """404 if there is none."""
    row = conn.execute(select(policies).where(policies.c.id == policy_id)).mappings().first()
    if row is None:
        raise NotFound("policy", policy_id)
    return dict(row)


def every(conn: Connection, *, enabled_only: bool = False, approved_only: bool = False) -> list[Row]:
    statement = select(policies).order_by(policies.c.created_at, policies.c.id)
    if enabled_only:
        statement = statement.where(policies.c.enabled)
    if approved_only:
        statement = statement.where(policies.c.approved_hash == policies.c.content_hash)
    return [dict(row) for row in conn.execute(statement).mappings()]


def create(conn: Connection, document: dict[str, Any], actor: str, now: datetime) -> Row:
    """409 if the name is taken, 429 if too many were created today."""
    _check_name(conn, document["name"], None)
    policy_id = str(uuid.uuid4())
    if not spend_policy(conn, actor, policy_id, document["name"], now):
        raise TooMany("policy_limit", f"At most {POLICIES_PER_DAY} policies can be created within 24 hours.")
    conn.execute(policies.insert().values(id=policy_id, created_at=now, **_columns(document)))
    return find(conn, policy_id)


def replace(conn: Connection, policy_id: str, document: dict[str, Any], actor: str, now: datetime) -> Row:
    """A new document for a policy; a changed hash loses the approval, and what was not yet due starts afresh."""
    row = find(conn, policy_id)
    _check_name(conn, document["name"], policy_id)
    columns = _columns(document)
    changes: dict[str, Any] = {**columns, "updated_at": now}
    if columns["content_hash"] != row["content_hash"]:
        changes |= {"approved_hash": None, "approved_at": None, "approved_by": None, "handled_until": None}
    elif columns["enabled"] and not row["enabled"]:
        changes["handled_until"] = now  # a pause misses nothing: its firings were not wanted
    conn.execute(policies.update().where(policies.c.id == policy_id).values(**changes))
    approval = "kept" if columns["content_hash"] == row["content_hash"] else "reset"
    note(conn, now, actor, "policy.update", "policy", policy_id, approval=approval)
    return find(conn, policy_id)


def approve(conn: Connection, policy_id: str, seen_hash: str | None, actor: str, now: datetime) -> Row:
    """409 if the document is not the one that was shown to the person."""
    row = find(conn, policy_id)
    if seen_hash is not None and seen_hash != row["content_hash"]:
        raise Conflict("policy_changed", "The policy was changed since it was shown; look at it again.")
    changes = {"approved_hash": row["content_hash"], "approved_at": now, "approved_by": actor, "handled_until": now}
    conn.execute(policies.update().where(policies.c.id == policy_id).values(**changes))
    note(conn, now, actor, "policy.approve", "policy", policy_id, content_hash=row["content_hash"])
    return find(conn, policy_id)


def remove(conn: Connection, policy_id: str, actor: str, now: datetime) -> None:
    row = find(conn, policy_id)
    conn.execute(policies.delete().where(policies.c.id == policy_id))
    note(conn, now, actor, "policy.delete", "policy", policy_id, name=row["name"])


def _columns(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": document["name"],
        "schema_version": document["schema_version"],
        "policy_json": document,
        "content_hash": content_hash(document),
        "enabled": document["trigger"]["enabled"],
    }


def _check_name(conn: Connection, name: str, policy_id: str | None) -> None:
    holder = conn.execute(select(policies.c.id).where(policies.c.name == name)).scalar()
    if holder is not None and holder != policy_id:
        raise Conflict("policy_name_taken", f'There is already a policy "{name}".')
