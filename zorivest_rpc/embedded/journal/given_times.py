"""The times of trades as they were given.

A stored time carries the place of its trade among the fills of one instant as microseconds (`trades.sequence`), and so
do the times that round trips and lots copy from it. Every answer that shows such a time asks here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select

from ..database.schema.journal import trades

__all__ = ["GivenTimes", "given_time"]

_AT_ONCE = 2000


def given_time(row: Mapping[Any, Any]) -> datetime:
    """The time of a row of `trades` as it was given, without its place among those of the instant."""
    time: datetime = row["time"] - timedelta(microseconds=row["sequence"])
    return time


class GivenTimes:
    """Turns the stored times of some trades back into the given ones."""

    def __init__(self, conn: Connection, exec_ids: Iterable[str]) -> None:
        wanted = list(dict.fromkeys(exec_ids))
        self._placed: dict[str, tuple[datetime, datetime]] = {}
        for at in range(0, len(wanted), _AT_ONCE):
            rows = conn.execute(
                select(trades.c.exec_id, trades.c.time, trades.c.sequence).where(
                    trades.c.exec_id.in_(wanted[at : at + _AT_ONCE]), trades.c.sequence != 0
                )
            ).mappings()
            self._placed.update((row["exec_id"], (row["time"], given_time(row))) for row in rows)

    def of(self, exec_id: str, time: datetime) -> datetime:
        """The given time of a trade whose stored one was copied as `time`; any other time is left as it is."""
        stored, given = self._placed.get(exec_id, (time, time))
        return given if time == stored else time
