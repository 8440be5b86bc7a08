"""A backend whose scheduler has a clock of its own, documents to feed it, and a person who approves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.market.conftest import market, outbound, time, upstream  # noqa: F401 fixtures of its tests
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.scheduling.engine import Scheduling
from zorivest_rpc.embedded.scheduling.step import Context, StepResult, StepType
from zorivest_rpc.embedded.scheduling.steps import STEP_TYPES

Approve = Callable[[str], Awaitable[Any]]
Create = Callable[..., Awaitable[Any]]


class Wall:
    """The time of day, which moves when told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def forward(self, **amount: float) -> None:
        self.time += timedelta(**amount)


def step(name: str, kind: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": name, "type": kind, "params": params, **more}


def query(sql: str, name: str = "rows", step_id: str = "load") -> dict[str, Any]:
    return step(step_id, "query", {"queries": [{"name": name, "sql": sql}]})


REPORT = step(
    "report",
    "store_report",
    {
        "report_name": "Accounts",
        "spec": {
            "title": "Accounts & more",
            "sections": [
                {"type": "metric_card", "title": "Number", "query": "total"},
                {"type": "data_table", "title": "All", "query": "accounts"},
                {"type": "chart", "title": "Bars", "query": "accounts", "kind": "bar", "x": "name", "y": ["size"]},
            ],
        },
        "data_queries": [
            {"name": "total", "sql": "SELECT count(*) AS n FROM accounts"},
            {"name": "accounts", "sql": "SELECT name, length(name) AS size FROM accounts ORDER BY name"},
        ],
    },
)
RENDER = step("page", "render", {})
FILE = step("deliver", "send", {"channel": "local_file"})
MAIL = step("deliver", "send", {"channel": "email", "recipients": ["me@example.org"], "subject": "{{ title }}"})


def document(*steps: dict[str, Any], name: str = "Daily", cron: str = "0 8 * * *", **trigger: Any) -> dict[str, Any]:
    chosen = list(steps) or [query("SELECT 1 AS one")]
    return {"name": name, "trigger": {"cron_expression": cron, **trigger}, "steps": chosen}


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
async def engine(backend: Embedded, admin: Caller, wall: Wall) -> Scheduling:
    """The running scheduler of the open journal, on the fake clock and without pauses between attempts."""

    async def no_pause(seconds: float) -> None:
        pauses.append(seconds)

    pauses: list[float] = []
    backend.scheduling.now = wall
    backend.scheduling.pause = no_pause
    backend.scheduling.pauses = pauses  # type: ignore[attr-defined]
    return backend.scheduling


@pytest.fixture
def create(engine: Scheduling, admin: Caller) -> Create:
    async def make(*steps: dict[str, Any], **options: Any) -> Any:
        body = {"policy_json": document(*steps, **options)}
        return await admin.expect(201, "POST", "/scheduling/policies", body)

    return make


@pytest.fixture
def approve(engine: Scheduling, admin: Caller, directory: DataDir) -> Approve:
    async def approved(policy_id: str) -> Any:
        token = (directory.root / "approval.token").read_text().strip()
        headers = {"X-Approval-Token": token}
        return await admin.expect(200, "POST", f"/scheduling/policies/{policy_id}/approve", headers=headers)

    return approved


@pytest.fixture
def create_approved(create: Create, approve: Approve) -> Create:
    async def make(*steps: dict[str, Any], **options: Any) -> Any:
        return await approve((await create(*steps, **options))["id"])

    return make


async def reschedule(admin: Caller, policy: dict[str, Any], **changes: Any) -> Any:
    """What update_policy_schedule does: read the policy, change its trigger, write it back."""
    path = f"/scheduling/policies/{policy['id']}"
    document = (await admin.get(path))["policy_json"]
    changed = {**document, "trigger": {**document["trigger"], **changes}}
    return await admin.expect(200, "PUT", path, {"policy_json": changed})


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """A step type that says when it has begun and goes on when told to."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(params: dict[str, Any], context: Context) -> StepResult:
        begun.set()
        await go.wait()
        return StepResult({}, {})

    kind = STEP_TYPES["query"]
    monkeypatch.setitem(STEP_TYPES, "query", StepType("query", False, kind.params, wait, ""))
    return begun, go
