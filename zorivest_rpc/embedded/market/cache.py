"""What providers said, kept with the moment it was fetched, so that an old answer can be given as an old answer."""

from __future__ import annotations

import hashlib
from datetime import datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sqlalchemy import Connection, select

from ..database.schema.market import fetch_cache

__all__ = ["TTL", "Cached", "recall", "remember", "ttl_of"]

TTL = {"quote": 60, "bars": 3600, "news": 1800, "search": 86_400, "filings": 1800, "fundamentals": 86_400}
CLOSED_FACTOR = 4
_OPEN, _CLOSE = time(9, 30), time(16, 0)
_NEW_YORK = ZoneInfo("America/New_York")
_MOST_ENTRIES = 5000  # per data type; what was fetched longest ago goes first


class Cached(msgspec.Struct, frozen=True):
    """An answer from before; `payload` is the JSON of the shapes."""

    provider: str
    payload: bytes
    fetched_at: datetime
    ttl: int

    def age(self, now: datetime) -> float:
        return max(0.0, (now - self.fetched_at).total_seconds())

    def fresh(self, now: datetime) -> bool:
        return self.age(now) < self.ttl


def ttl_of(data_type: str, now: datetime) -> int:
    """How long an answer is fresh; four times as long while the US market is closed and prices stand still."""
    local = now.astimezone(_NEW_YORK)
    is_open = local.weekday() < 5 and _OPEN <= local.time() < _CLOSE
    return TTL[data_type] * (1 if is_open else CLOSED_FACTOR)


def recall(conn: Connection, data_type: str, key: str) -> Cached | None:
    """The latest answer of any provider."""
    row = conn.execute(
        select(fetch_cache)
        .where(fetch_cache.c.data_type == data_type, fetch_cache.c.entity_key == key)
        .order_by(fetch_cache.c.fetched_at.desc())
        .limit(1)
    ).first()
    return None if row is None else Cached(row.provider, row.payload_json.encode(), row.fetched_at, row.ttl_seconds)


def remember(conn: Connection, data_type: str, key: str, provider: str, value: Any, now: datetime) -> None:
    """Keep an answer instead of the provider's earlier one."""
    payload = msgspec.json.encode(value)
    place = (
        fetch_cache.c.provider == provider,
        fetch_cache.c.data_type == data_type,
        fetch_cache.c.entity_key == key,
    )
    conn.execute(fetch_cache.delete().where(*place))
    conn.execute(
        fetch_cache.insert().values(
            provider=provider,
            data_type=data_type,
            entity_key=key,
            payload_json=payload.decode(),
            content_hash=hashlib.sha256(payload).hexdigest(),
            fetched_at=now,
            ttl_seconds=ttl_of(data_type, now),
        )
    )
    oldest_kept = conn.execute(
        select(fetch_cache.c.fetched_at)
        .where(fetch_cache.c.data_type == data_type)
        .order_by(fetch_cache.c.fetched_at.desc())
        .offset(_MOST_ENTRIES)
        .limit(1)
    ).scalar()
    if oldest_kept is not None:
        conn.execute(
            fetch_cache.delete().where(fetch_cache.c.data_type == data_type, fetch_cache.c.fetched_at <= oldest_kept)
        )
