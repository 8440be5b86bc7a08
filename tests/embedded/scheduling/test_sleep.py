"""A backend that may sleep: what it writes down for the server that wakes it, and that a firing runs once."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.scheduling.running import settled
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.process import _watch_idle
from zorivest_rpc.embedded.scheduling.engine import Scheduling
from zorivest_rpc.embedded.wake import LEAD, SOON, Due, publish_due, read_due

from .conftest import Create, Wall


@pytest.fixture
def sleepy(engine: Scheduling, directory: DataDir) -> Scheduling:
    engine.when_moved = partial(publish_due, directory, engine.next_due)
    return engine


async def test_the_next_moment_is_written_down_whenever_the_schedule_moves(
    sleepy: Scheduling, create_approved: Create, create: Create, admin: Caller, directory: DataDir, wall: Wall
) -> None:
    first = await create_approved(cron="0 13 * * *")
    assert read_due(directory) == Due(datetime(2026, 1, 5, 13, tzinfo=UTC))
    early = await create_approved(cron="30 12 * * *", name="Early")
    assert read_due(directory) == Due(datetime(2026, 1, 5, 12, 30, tzinfo=UTC))
    await create(cron="1 12 * * *", name="Waits for a person")
    assert read_due(directory) == Due(datetime(2026, 1, 5, 12, 30, tzinfo=UTC))
    wall.forward(minutes=31)
    await settled(sleepy)
    assert read_due(directory) == Due(datetime(2026, 1, 5, 13, tzinfo=UTC))
    await admin.expect(204, "DELETE", f"/scheduling/policies/{first['id']}")
    assert read_due(directory) == Due(datetime(2026, 1, 6, 12, 30, tzinfo=UTC))
    await admin.expect(204, "DELETE", f"/scheduling/policies/{early['id']}")
    assert read_due(directory) == Due(None)
    assert directory.due.stat().st_mode & 0o077 == 0


async def test_a_policy_that_is_due_while_the_backend_sleeps_runs_once(
    sleepy: Scheduling,
    create_approved: Create,
    admin: Caller,
    anybody: Caller,
    api_key: str,
    directory: DataDir,
    wall: Wall,
    backend: Embedded,
) -> None:
    """Asleep until shortly before it is due, as the server wakes it; asleep again, and woken once more."""
    await create_approved(cron="0 8 * * *")
    assert not backend.is_due_soon
    for _ in range(2):
        await admin.expect(200, "POST", "/auth/lock")
        due = read_due(directory)
        assert due is not None
        assert due.next is not None
        wall.time = due.next - LEAD
        admin = await anybody.unlock(api_key)
        await settled(sleepy)
        assert backend.is_due_soon
        wall.time = due.next
        await settled(sleepy)
        await settled(sleepy)
        assert not backend.is_due_soon
    runs = await admin.get("/scheduling/runs")
    assert [(run["status"], run["scheduled_for"]) for run in runs] == [
        ("success", "2026-01-07T08:00:00+00:00"),
        ("success", "2026-01-06T08:00:00+00:00"),
    ]


async def test_a_backend_stays_for_what_is_due_soon_and_for_nothing_else(
    sleepy: Scheduling, create_approved: Create, backend: Embedded, wall: Wall
) -> None:
    await create_approved(cron="0 13 * * *")
    for seconds, stays in ((SOON.total_seconds() + 1, False), (SOON.total_seconds(), True), (0.0, True)):
        wall.time = datetime.fromtimestamp(datetime(2026, 1, 5, 13, tzinfo=UTC).timestamp() - seconds, UTC)
        assert backend.is_due_soon is stays


@pytest.mark.parametrize(("wakeable", "ends"), [(True, True), (False, False)])
async def test_only_one_that_is_woken_again_ends_in_spite_of_its_schedule(wakeable: bool, ends: bool) -> None:
    class Far:
        busy = True

    class Saved:
        is_saved = True

    class Backend:
        running_requests = 0
        last_used = 0.0
        scheduling = Far()
        guard = Saved()
        is_due_soon = False
        stop_requested = asyncio.Event()

        @staticmethod
        def clock() -> float:
            return 1000.0

    backend: Any = Backend()
    backend.stop_requested = asyncio.Event()
    watching = asyncio.create_task(_watch_idle(backend, 5.0, wakeable=wakeable))
    await asyncio.sleep(0)
    assert backend.stop_requested.is_set() is ends
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def test_a_shutdown_if_idle_is_refused_while_something_is_due_or_runs(
    sleepy: Scheduling, create_approved: Create, backend: Embedded, admin: Caller, wall: Wall
) -> None:
    await create_approved(cron="0 13 * * *")
    wall.time = datetime(2026, 1, 5, 12, 59, tzinfo=UTC)
    refused = await admin.expect(409, "POST", "/service/graceful-shutdown?if_idle=1")
    assert (refused["error"], backend.stop_requested.is_set()) == ("in_use", False)
    wall.time = datetime(2026, 1, 5, 12, tzinfo=UTC)
    backend.running_requests += 1
    await admin.expect(409, "POST", "/service/graceful-shutdown?if_idle=1")
    backend.running_requests -= 1
    await admin.expect(200, "POST", "/service/graceful-shutdown?if_idle=1")
    async with asyncio.timeout(5):
        await backend.stop_requested.wait()


def test_a_full_disk_stops_no_schedule(tmp_path: Path) -> None:
    publish_due(DataDir(tmp_path / "gone"), lambda: None)
    assert read_due(DataDir(tmp_path / "gone")) is None
