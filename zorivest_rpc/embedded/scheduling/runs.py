"""The rows of runs and their steps; every function runs inside the caller's transaction.

A run is written down before it starts and after every step, so that whatever ends the process, the history says how far
it came."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from ..database.schema.scheduling import pipeline_runs, pipeline_steps
from ..errors import NotFound

__all__ = ["ACTIVE", "begin", "find", "finish", "history", "recover", "skip", "step_changed"]

ACTIVE = ("pending", "running")

Row = Mapping[str, Any]
_RUN = (
    *("run_id", "policy_id", "policy_name", "status", "trigger_type", "dry_run", "scheduled_for", "missed"),
    *("started_at", "completed_at", "duration_ms", "error", "content_hash"),
)
_STEP = (
    *("step_id", "step_type", "status", "attempt", "started_at", "completed_at", "duration_ms", "error", "summary"),
)


def begin(
    conn: Connection,
    policy: Row,
    *,
    run_id: str,
    trigger_type: str,
    dry_run: bool,
    now: datetime,
    scheduled_for: datetime | None = None,
    missed: int = 0,
) -> None:
    """Write down a run that starts now, with its steps waiting."""
    conn.execute(
        pipeline_runs.insert().values(
            **_identity(policy, run_id, trigger_type, now),
            status="running",
            dry_run=dry_run,
            scheduled_for=scheduled_for,
            missed=missed,
        )
    )
    conn.execute(
        pipeline_steps.insert(),
        [
            {
                "run_id": run_id,
                "position": position,
                "step_id": step["id"],
                "step_type": step["type"],
                "status": "pending",
                "attempt": 0,
            }
            for position, step in enumerate(policy["policy_json"]["steps"])
        ],
    )


def skip(
    conn: Connection, policy: Row, reason: str, now: datetime, scheduled_for: datetime | None = None, missed: int = 0
) -> None:
    """Write down that scheduled runs did not happen, and why."""
    conn.execute(
        pipeline_runs.insert().values(
            **_identity(policy, str(uuid.uuid4()), "scheduled", now),
            status="skipped",
            scheduled_for=scheduled_for,
            missed=missed,
            completed_at=now,
            duration_ms=0,
            error=reason,
        )
    )


def _identity(policy: Row, run_id: str, trigger_type: str, now: datetime) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "policy_id": policy["id"],
        "policy_name": policy["name"],
        "content_hash": policy["content_hash"],
        "trigger_type": trigger_type,
        "started_at": now,
    }


def step_changed(conn: Connection, run_id: str, position: int, **changes: Any) -> None:
    mine = (pipeline_steps.c.run_id == run_id) & (pipeline_steps.c.position == position)
    conn.execute(pipeline_steps.update().where(mine).values(**changes))


def finish(conn: Connection, run_id: str, status: str, error: str | None, started: datetime, now: datetime) -> None:
    """The end of a run; steps that never started are skipped, one that was under way ends as the run does."""
    mine = pipeline_steps.c.run_id == run_id
    conn.execute(pipeline_steps.update().where(mine, pipeline_steps.c.status == "pending").values(status="skipped"))
    cut = {"status": "cancelled" if status == "cancelled" else "failed", "completed_at": now, "error": error}
    conn.execute(pipeline_steps.update().where(mine, pipeline_steps.c.status == "running").values(**cut))
    conn.execute(
        pipeline_runs.update()
        .where(pipeline_runs.c.run_id == run_id)
        .values(status=status, error=error, completed_at=now, duration_ms=_milliseconds(started, now))
    )


def _milliseconds(start: datetime, end: datetime) -> int:
    return max(0, round((end - start).total_seconds() * 1000))


def recover(conn: Connection, now: datetime) -> int:
    """After a start: runs that were active when the process ended have failed; returns how many."""
    cut_off = conn.execute(
        select(pipeline_runs.c.run_id, pipeline_runs.c.started_at).where(pipeline_runs.c.status.in_(ACTIVE))
    ).all()
    for run_id, started in cut_off:
        under_way = conn.execute(
            select(pipeline_steps.c.step_id)
            .where(pipeline_steps.c.run_id == run_id, pipeline_steps.c.status == "running")
            .limit(1)
        ).scalar()
        where = f'during step "{under_way}"' if under_way else "between two steps"
        finish(conn, run_id, "failed", f"The process ended {where}.", started, now)
    return len(cut_off)


def find(conn: Connection, run_id: str) -> dict[str, Any]:
    """The run with its steps; 404 if there is none."""
    row = conn.execute(select(pipeline_runs).where(pipeline_runs.c.run_id == run_id)).mappings().first()
    if row is None:
        raise NotFound("run", run_id)
    return _with_steps(conn, [dict(row)])[0]


def history(conn: Connection, policy_id: str | None, limit: int) -> list[dict[str, Any]]:
    """The latest runs first, with their steps."""
    statement = select(pipeline_runs).order_by(pipeline_runs.c.seq.desc()).limit(limit)
    if policy_id is not None:
        statement = statement.where(pipeline_runs.c.policy_id == policy_id)
    return _with_steps(conn, [dict(row) for row in conn.execute(statement).mappings()])


def count(conn: Connection, policy_id: str) -> int:
    found = select(func.count()).select_from(pipeline_runs).where(pipeline_runs.c.policy_id == policy_id)
    return int(conn.execute(found).scalar_one())


def _with_steps(conn: Connection, rows: Iterable[Row]) -> list[dict[str, Any]]:
    views = [{**{name: row[name] for name in _RUN}, "steps": []} for row in rows]
    by_id = {view["run_id"]: view for view in views}
    statement = select(pipeline_steps).where(pipeline_steps.c.run_id.in_(by_id))
    for step in conn.execute(statement.order_by(pipeline_steps.c.run_id, pipeline_steps.c.position)).mappings():
        by_id[step["run_id"]]["steps"].append({name: step[name] for name in _STEP})
    return views
