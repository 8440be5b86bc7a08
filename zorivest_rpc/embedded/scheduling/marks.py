"""How far incremental fetches have come, kept when the run that used the data has succeeded."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, select

from ..database.schema.scheduling import pipeline_state, policies

__all__ = ["keep_marks"]


def keep_marks(conn: Connection, policy_id: str, marks: Mapping[str, str], now: datetime) -> None:
    """Move the marks forward; a policy that was deleted meanwhile has none."""
    if conn.execute(select(policies.c.id).where(policies.c.id == policy_id)).first() is None:
        return
    for key, mark in marks.items():
        mine = (pipeline_state.c.policy_id == policy_id) & (pipeline_state.c.state_key == key)
        conn.execute(pipeline_state.delete().where(mine))
        row = {"policy_id": policy_id, "state_key": key, "high_water": mark, "updated_at": now}
        conn.execute(pipeline_state.insert().values(**row))
