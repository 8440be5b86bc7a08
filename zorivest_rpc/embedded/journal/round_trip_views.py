"""Round trips as they are found and shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from ..analytics.positions import Episode
from ..analytics.round_trips import RoundTrip, round_trip
from ..database.schema.journal import round_trip_legs, round_trips
from .given_times import GivenTimes
from .round_trips import episode_of

__all__ = ["render_trips", "trip_of"]


def trip_of(conn: Connection, exec_id: str) -> Mapping[Any, Any] | None:
    """The round trip that an execution belongs to; of a flip the one it closed."""
    return (
        conn.execute(
            select(round_trips)
            .join(round_trip_legs, round_trip_legs.c.round_trip_id == round_trips.c.id)
            .where(round_trip_legs.c.exec_id == exec_id)
            .order_by(round_trips.c.opened_at, round_trips.c.opened_by)
            .limit(1)
        )
        .mappings()
        .first()
    )


def render_trips(conn: Connection, rows: Iterable[Mapping[Any, Any]], today: datetime) -> list[RoundTrip]:
    """Rows of `round_trips` as an answer shows them, with the executions they are made of."""
    found = list(rows)
    ids: dict[str, dict[str, list[str]]] = {row["id"]: {"entry": [], "exit": []} for row in found}
    if ids:
        legs = conn.execute(
            select(round_trip_legs.c.round_trip_id, round_trip_legs.c.exec_id, round_trip_legs.c.role)
            .where(round_trip_legs.c.round_trip_id.in_(list(ids)))
            .order_by(round_trip_legs.c.time, round_trip_legs.c.exec_id)
        )
        for trip_id, exec_id, role in legs:
            ids[trip_id][role].append(exec_id)
    given = GivenTimes(conn, (row[name] for row in found for name in ("opened_by", "last_by")))
    return [
        round_trip(_with_given_time(row, given), ids[row["id"]]["entry"], ids[row["id"]]["exit"], _flags(row, today))
        for row in found
    ]


def _with_given_time(row: Mapping[Any, Any], given: GivenTimes) -> Episode:
    episode = episode_of(row)
    return msgspec.structs.replace(
        episode,
        opened_at=given.of(episode.opened_by, episode.opened_at),
        last_at=given.of(episode.last_by, episode.last_at),
    )


def _flags(row: Mapping[Any, Any], today: datetime) -> tuple[str, ...]:
    over = row["status"] != "closed" and row["expires_on"] is not None and row["expires_on"] < today.date()
    return ("expired_unresolved",) if over else ()
