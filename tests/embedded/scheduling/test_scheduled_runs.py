"""Runs that the clock starts: when they are due, missed, late or over the limit, and what a dead process left."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, select

from tests.embedded.conftest import Caller
from tests.embedded.scheduling.running import run, settled
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.scheduling import (
    pipeline_runs,
    pipeline_steps,
    report_deliveries,
)
from zorivest_rpc.embedded.scheduling import budget
from zorivest_rpc.embedded.scheduling.engine import Scheduling

from .conftest import Create, Wall, query, reschedule
from .test_policies import fits


async def test_a_policy_runs_when_its_time_has_come_and_once(
    create_approved: Create, admin: Caller, engine: Scheduling, wall: Wall
) -> None:
    await create_approved(cron="0 13 * * *")
    await settled(engine)
    assert await admin.get("/scheduling/runs") == []
    wall.forward(hours=1)
    await settled(engine)
    await settled(engine)
    (done,) = await admin.get("/scheduling/runs")
    assert (done["status"], done["trigger_type"]) == ("success", "scheduled")
    assert done["scheduled_for"] == "2026-01-05T13:00:00+00:00"
    wall.forward(days=1)
    await settled(engine)
    assert len(await admin.get("/scheduling/runs")) == 2


async def test_missed_runs_are_told_and_not_made_up_for(
    create_approved: Create, admin: Caller, engine: Scheduling, wall: Wall, anybody: Caller, api_key: str
) -> None:
    await create_approved(cron="0 8 * * *")
    await admin.expect(200, "POST", "/auth/lock")
    wall.forward(days=3)  # three mornings while nothing ran; it is noon again
    again = await anybody.unlock(api_key)
    await settled(engine)
    (told,) = await again.get("/scheduling/runs")
    fits("get_pipeline_history", [told])
    assert (told["status"], told["missed"], told["steps"]) == ("skipped", 3, [])
    assert "3 runs were missed, due from 2026-01-06 08:00 to 2026-01-08 08:00 UTC" in told["error"]
    await settled(engine)
    assert len(await again.get("/scheduling/runs")) == 1


async def test_a_late_start_within_the_grace_time_runs_once_for_all(
    create_approved: Create, admin: Caller, engine: Scheduling, wall: Wall
) -> None:
    await create_approved(cron="*/10 * * * *")
    wall.forward(minutes=35)
    await settled(engine)
    (done,) = await admin.get("/scheduling/runs")
    assert (done["status"], done["missed"], done["scheduled_for"]) == ("success", 2, "2026-01-05T12:30:00+00:00")


async def test_without_coalescing_every_firing_runs(
    create_approved: Create, admin: Caller, engine: Scheduling, wall: Wall
) -> None:
    await create_approved(cron="*/10 * * * *", coalesce=False)
    wall.forward(minutes=35)
    for _ in range(4):
        await settled(engine)
    times = [done["scheduled_for"][11:16] for done in await admin.get("/scheduling/runs")]
    assert times == ["12:30", "12:20", "12:10"]


async def test_a_firing_waits_while_the_policy_still_runs(
    create_approved: Create,
    admin: Caller,
    engine: Scheduling,
    wall: Wall,
    blocked: tuple[asyncio.Event, asyncio.Event],
) -> None:
    begun, go = blocked
    await create_approved(cron="*/10 * * * *")
    wall.forward(minutes=10)
    await engine.tick()
    await begun.wait()
    wall.forward(minutes=10)
    await engine.tick()
    assert len(await admin.get("/scheduling/runs")) == 1
    go.set()
    await settled(engine)
    await settled(engine)
    assert [done["scheduled_for"][11:16] for done in await admin.get("/scheduling/runs")] == ["12:20", "12:10"]


async def test_a_pause_misses_nothing(create_approved: Create, admin: Caller, engine: Scheduling, wall: Wall) -> None:
    policy = await create_approved(cron="0 * * * *")
    await reschedule(admin, policy, enabled=False)
    wall.forward(days=2)
    await settled(engine)
    await reschedule(admin, policy, enabled=True)
    await settled(engine)
    assert await admin.get("/scheduling/runs") == []


async def test_scheduled_runs_over_the_limit_are_told(
    create_approved: Create, admin: Caller, engine: Scheduling, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "RUNS_PER_HOUR", 0)
    await create_approved(cron="0 13 * * *")
    wall.forward(hours=1)
    await settled(engine)
    (told,) = await admin.get("/scheduling/runs")
    assert (told["status"], "runs per hour" in told["error"]) == ("skipped", True)


async def test_the_loop_itself_starts_what_is_due(create_approved: Create, engine: Scheduling, wall: Wall) -> None:
    await create_approved(cron="0 13 * * *")
    wall.forward(hours=1)
    started = asyncio.Event()
    begin = engine._begin

    async def watched(*args: Any, **options: Any) -> str:
        started.set()
        return await begin(*args, **options)

    engine._begin = watched  # type: ignore[method-assign]
    engine._wake.set()
    async with asyncio.timeout(10):
        await started.wait()


# --- after a crash ----------------------------------------------------------------------------------------------------


async def test_runs_of_a_dead_process_are_marked_when_the_next_one_starts(
    create_approved: Create, admin: Caller, anybody: Caller, api_key: str, backend: Embedded, engine: Scheduling
) -> None:
    policy = await create_approved(query("SELECT 1"), query("SELECT 2", step_id="second"))
    done = await run(admin, policy)
    now = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

    def die_during_the_second_step(conn: Connection) -> None:
        mine = pipeline_steps.c.run_id == done["run_id"]
        conn.execute(pipeline_runs.update().values(status="running", completed_at=None, duration_ms=None))
        conn.execute(pipeline_steps.update().where(mine, pipeline_steps.c.position == 1).values(status="running"))
        for number, status in enumerate(("claimed", "sending", "sent")):
            row = {"run_id": "r", "report": "x", "channel": "email", "recipient": "a@b.c", "snapshot_hash": "s"}
            conn.execute(
                report_deliveries.insert().values(
                    dedup_key=str(number), status=status, created_at=now, updated_at=now, **row
                )
            )

    await backend.database().write(die_during_the_second_step)
    await admin.expect(200, "POST", "/auth/lock")
    again = await anybody.unlock(api_key)
    (found,) = await again.get("/scheduling/runs")
    assert (found["status"], found["error"]) == ("failed", 'The process ended during step "second".')
    assert [one["status"] for one in found["steps"]] == ["success", "failed"]
    statuses = select(report_deliveries.c.status).order_by(report_deliveries.c.dedup_key)
    assert await backend.database().read(lambda conn: conn.execute(statuses).scalars().all()) == [
        *("failed", "uncertain", "sent")
    ]
