"""Running a policy through its route, and the files and rows that a run leaves."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import Connection, select

from tests.embedded.conftest import Caller
from zorivest_rpc.embedded.database.schema.journal import metadata
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.scheduling.engine import Scheduling

POLICIES = "/scheduling/policies"


async def run(caller: Caller, policy: Any, status: int = 200, **body: Any) -> Any:
    return await caller.expect(status, "POST", f"{POLICIES}/{policy['id']}/run", body)


def files(directory: DataDir) -> list[str]:
    return sorted(path.name for path in directory.reports.iterdir())


def everything(conn: Connection) -> dict[str, Any]:
    """The content of every table that a run could write to, apart from its own history."""
    own = {"pipeline_runs", "pipeline_steps", "audit_log"}
    return {
        name: [tuple(row) for row in conn.execute(select(table))]
        for name, table in metadata.tables.items()
        if name not in own
    }


# --- the clock --------------------------------------------------------------------------------------------------------


async def settled(engine: Scheduling) -> None:
    """One look at the clock, and the end of whatever that started."""
    await engine.tick()
    while engine._active:
        await asyncio.wait([active.task for active in engine._active.values()])
