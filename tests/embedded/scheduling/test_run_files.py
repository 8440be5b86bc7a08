"""Files that runs write: one per version of a report, never outside the directory, and whole after a cut."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path

import pytest
from sqlalchemy import func, select

from tests.embedded.conftest import Caller
from tests.embedded.scheduling.running import files, run
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.scheduling import (
    report_versions,
    reports,
)
from zorivest_rpc.embedded.disk import paths
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.scheduling.steps import send

from .conftest import FILE, RENDER, REPORT, Create, Wall


async def test_the_same_report_is_one_version_and_one_file_however_often_it_runs(
    create_approved: Create, admin: Caller, backend: Embedded, directory: DataDir, wall: Wall
) -> None:
    policy = await create_approved(REPORT, RENDER, FILE)
    for _ in range(3):
        assert (await run(admin, policy))["status"] == "success"
    counted = select(func.count()).select_from(report_versions)
    assert await backend.database().read(lambda conn: conn.execute(counted).scalar()) == 1
    (name,) = files(directory)
    (directory.reports / name).unlink()
    await run(admin, policy)
    assert files(directory) == [name]  # a file that was deleted is written again
    wall.forward(days=1)
    await run(admin, policy)
    assert len(files(directory)) == 2  # another day, another report
    names = select(reports.c.name)
    assert await backend.database().read(lambda conn: conn.execute(names).scalars().all()) == ["Accounts"]


async def test_a_name_is_never_a_path_and_a_link_is_never_followed(
    create_approved: Create, admin: Caller, directory: DataDir, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    report = {**REPORT, "params": {**REPORT["params"], "report_name": "../../../etc/passwd\\..\\x\u202e/"}}
    policy = await create_approved(report, RENDER, FILE)
    assert (await run(admin, policy))["status"] == "success"
    (name,) = files(directory)
    assert re.fullmatch(r"etc-passwd-x-2026-01-05-[0-9a-f]{8}\.html", name)
    path = directory.reports / name
    path.unlink()
    path.symlink_to(outside)
    assert (await run(admin, policy))["status"] == "success"
    assert (outside.read_text(), path.is_symlink()) == ("mine", False)
    assert "<h1>" in path.read_text()


async def test_a_file_that_cannot_be_written_fails_and_can_be_tried_again(
    create_approved: Create, admin: Caller, directory: DataDir
) -> None:
    policy = await create_approved(REPORT, RENDER, FILE)
    directory.reports.rename(directory.root / "elsewhere")
    done = await run(admin, policy)
    assert (done["status"], "cannot be written" in done["error"]) == ("failed", True)
    (directory.root / "elsewhere").rename(directory.reports)
    assert (await run(admin, policy))["status"] == "success"
    assert len(files(directory)) == 1


async def test_a_file_delivery_that_is_cut_off_can_be_made_by_the_next_run(
    create_approved: Create, admin: Caller, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    write = paths.write_private

    def slow(path: Path, data: bytes) -> None:
        loop.call_soon_threadsafe(begun.set)
        go.wait(30)
        write(path, data)

    monkeypatch.setattr(send, "write_private", slow)
    policy = await create_approved(REPORT, RENDER, FILE)
    under_way = asyncio.create_task(run(admin, policy))
    async with asyncio.timeout(30):
        await begun.wait()
    (active,) = await admin.get("/scheduling/runs")
    cancelling = asyncio.create_task(admin.expect(200, "POST", f"/scheduling/runs/{active['run_id']}/cancel"))
    assert (await cancelling)["status"] == "cancelled"
    assert (await under_way)["status"] == "cancelled"
    go.set()
    monkeypatch.setattr(send, "write_private", write)
    again = await run(admin, policy)
    assert (again["status"], len(files(directory))) == ("success", 1)
