"""Runs through the routes: what they produce, what they refuse, and what the history says afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import select

from tests.embedded.conftest import Caller
from tests.embedded.scheduling.running import POLICIES, everything, files, run, settled
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import audit_log
from zorivest_rpc.embedded.database.schema.scheduling import (
    pipeline_state,
    report_versions,
)
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.scheduling import budget
from zorivest_rpc.embedded.scheduling import engine as engine_module
from zorivest_rpc.embedded.scheduling.engine import Scheduling
from zorivest_rpc.embedded.scheduling.step import Context, Fetched, FetchRequest, StepFailed, StepResult, StepType
from zorivest_rpc.embedded.scheduling.steps import STEP_TYPES

from .conftest import FILE, MAIL, RENDER, REPORT, Create, Wall, query, reschedule, step
from .test_policies import fits


async def test_a_report_is_stored_rendered_and_written_to_a_file(
    create_approved: Create, admin: Caller, backend: Embedded, directory: DataDir
) -> None:
    policy = await create_approved(REPORT, RENDER, FILE)
    done = await run(admin, policy)
    fits("run_pipeline", done)
    assert (done["status"], done["error"], done["trigger_type"], done["dry_run"]) == ("success", None, "manual", False)
    assert [one["status"] for one in done["steps"]] == ["success"] * 3
    (name,) = files(directory)
    assert name.startswith("accounts-2026-01-05-")
    page = (directory.reports / name).read_text()
    assert "<h1>Accounts &amp; more</h1>" in page
    assert "System default" in page
    assert "<svg" in page
    assert (directory.reports / name).stat().st_mode & 0o777 == 0o600
    deeds = select(audit_log.c.action).where(audit_log.c.resource_id == done["run_id"]).order_by(audit_log.c.id)
    assert await backend.database().read(lambda conn: conn.execute(deeds).scalars().all()) == [
        *("pipeline.run", "report.query", "report.query", "report.render", "report.send", "pipeline.complete")
    ]
    stored = await backend.database().read(lambda conn: conn.execute(select(report_versions)).mappings().all())
    assert [(row["version"], row["data_json"]["total"]["rows"]) for row in stored] == [(1, [[1]])]


async def test_a_dry_run_previews_and_changes_nothing(
    create: Create, admin: Caller, backend: Embedded, directory: DataDir
) -> None:
    policy = await create(REPORT, RENDER, {**MAIL, "id": "mail"}, FILE)
    before = await backend.database().read(everything)
    done = await run(admin, policy, dry_run=True)  # not approved: a preview comes before the consent
    fits("preview_report", done)
    assert (done["status"], done["dry_run"]) == ("success", True)
    assert "<h1>Accounts &amp; more</h1>" in done["preview"]
    assert await backend.database().read(everything) == before
    assert files(directory) == []
    assert [one["summary"].get("sent") for one in done["steps"][2:]] == [0, 0]
    assert (await admin.get(f"/scheduling/runs/{done['run_id']}"))["preview"] == done["preview"]


async def test_an_unapproved_policy_is_refused(create: Create, admin: Caller) -> None:
    answer = await run(admin, await create(), 400)
    assert answer["error"] == "policy_not_approved"
    assert await admin.get("/scheduling/runs") == []


async def test_a_run_that_a_tool_asked_for_is_marked_so(
    create_approved: Create, admin: Caller, backend: Embedded
) -> None:
    policy = await create_approved()
    headers = {"X-MCP-Guard": "check"}
    done = await admin.expect(200, "POST", f"{POLICIES}/{policy['id']}/run", {}, headers=headers)
    assert done["trigger_type"] == "mcp"
    actors = select(audit_log.c.actor).where(audit_log.c.action == "pipeline.run")
    assert str(await backend.database().read(lambda conn: conn.execute(actors).scalar())).startswith("mcp:")


async def test_steps_hand_their_results_on(create_approved: Create, admin: Caller, directory: DataDir) -> None:
    policy = await create_approved(
        query("SELECT account_id AS id FROM accounts", "ids"),
        step(
            "detail",
            "query",
            {
                "queries": [
                    {
                        "name": "named",
                        "sql": "SELECT name FROM accounts WHERE account_id = :id",
                        "binds": {"id": {"ref": "ctx.load.output.results.ids.0.id"}},
                    }
                ]
            },
        ),
        step(
            "both",
            "compose",
            {"sources": {"a": {"ref": "ctx.load.results.ids"}, "b": {"ref": "ctx.detail.output.results.named"}}},
        ),
        step("joined", "compose", {"sources": {"a": {"ref": "ctx.both.composed.a"}}, "merge_strategy": "concat"}),
        step("page", "render", {"template_source": "{{ ctx.both.composed.b[0].name }}!", "output_format": "markdown"}),
        FILE,
    )
    done = await run(admin, policy)
    assert done["error"] is None
    (name,) = files(directory)
    assert (name[-3:], (directory.reports / name).read_text()) == (".md", "System default!")


CONDITIONS: list[tuple[dict[str, Any], bool]] = [
    ({"field": "ctx.load.counts.rows", "operator": "eq", "value": 1}, True),
    ({"field": "ctx.load.output.counts.rows", "operator": "gt", "value": 5}, False),
    ({"field": "ctx.load.counts.rows", "operator": "in", "value": [1, 2]}, True),
    ({"field": "ctx.load.counts.nothing", "operator": "is_null"}, True),
    ({"field": "ctx.load.counts.rows", "operator": "lt", "value": "text"}, False),
    ({"field": "ctx.load.results.rows.0.one", "operator": "ne", "value": 1}, False),
]


async def test_a_step_is_skipped_when_its_condition_holds(create: Create, admin: Caller) -> None:
    conditional = [
        {**query("SELECT 2", step_id=f"step_{number}"), "skip_if": condition}
        for number, (condition, _) in enumerate(CONDITIONS)
    ]
    done = await run(admin, await create(query("SELECT 1 AS one"), *conditional), dry_run=True)
    assert [one["status"] == "skipped" for one in done["steps"][1:]] == [skipped for _, skipped in CONDITIONS]


async def test_a_failing_step_ends_the_run_unless_it_may_fail(create_approved: Create, admin: Caller) -> None:
    bad = step("bad", "fetch", {"provider": "auto", "data_type": "fundamentals"})
    strict = await run(admin, await create_approved(bad, query("SELECT 1"), name="Strict"))
    assert strict["status"] == "failed"
    assert 'Step "bad" failed: The criteria name no tickers' in strict["error"]
    assert [one["status"] for one in strict["steps"]] == ["failed", "skipped"]
    for name, change in (("A", {"on_error": "log_and_continue"}), ("B", {"required": False})):
        lenient = await run(admin, await create_approved({**bad, **change}, query("SELECT 1"), name=name))
        assert lenient["status"] == "success"
        assert "passed over" in lenient["error"]
        assert [one["status"] for one in lenient["steps"]] == ["failed", "success"]


async def test_retries_back_off_and_count(
    create_approved: Create, admin: Caller, engine: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(request: FetchRequest) -> Fetched:
        raise StepFailed("not today")

    assert engine._open is not None
    monkeypatch.setattr(engine._open, "fetch", never)
    retry = {"max_attempts": 3, "backoff_factor": 2, "jitter": False}
    bad = step("bad", "fetch", {"provider": "yahoo", "data_type": "quote"}, on_error="retry_then_fail", retry=retry)
    done = await run(admin, await create_approved(bad))
    assert (done["status"], done["steps"][0]["attempt"]) == ("failed", 3)
    assert engine.pauses == [2.0, 4.0]  # type: ignore[attr-defined]
    longest = {"max_attempts": 10, "backoff_factor": 10, "jitter": True}
    await run(admin, await create_approved({**bad, "retry": longest}, name="Patient"))
    patient = engine.pauses[2:]  # type: ignore[attr-defined]
    assert len(patient) == 9
    assert all(0.5 * 10**number <= pause <= 1.5 * 10**number for number, pause in enumerate(patient[:3], 1))
    assert patient[4:] == [3600.0] * 5  # not three years


async def test_a_retry_that_succeeds_leaves_no_error(
    create_approved: Create, admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[FetchRequest] = []

    async def flaky(request: FetchRequest) -> Fetched:
        tries.append(request)
        if len(tries) < 3:
            raise StepFailed("not yet")
        return Fetched([{"ticker": "AAPL"}], "miss")

    assert backend.scheduling._open is not None
    monkeypatch.setattr(backend.scheduling._open, "fetch", flaky)
    fetch = step("get", "fetch", {"provider": "yahoo", "data_type": "quote"}, on_error="retry_then_fail")
    done = await run(admin, await create_approved(fetch))
    assert (done["status"], done["error"]) == ("success", None)
    assert (done["steps"][0]["attempt"], done["steps"][0]["error"]) == (3, None)


async def test_criteria_follow_the_clock_the_journal_and_the_last_run(
    create_approved: Create, admin: Caller, backend: Embedded, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[FetchRequest] = []

    async def market(request: FetchRequest) -> Fetched:
        asked.append(request)
        return Fetched([{"ticker": "A", "timestamp": f"2026-01-0{len(asked)}"}], "miss")

    assert backend.scheduling._open is not None
    monkeypatch.setattr(backend.scheduling._open, "fetch", market)
    criteria = {
        "until": {"type": "relative", "offset": "2d"},
        "since": {"type": "incremental", "field": "timestamp", "start": "2025-12-01"},
        "tickers": {"type": "db_query", "sql": "SELECT name FROM accounts UNION SELECT 'B' UNION SELECT 'C'"},
    }
    policy = await create_approved(
        step("get", "fetch", {"provider": "yahoo", "data_type": "ohlcv", "criteria": criteria, "batch_size": 2})
    )
    await run(admin, policy, dry_run=True)
    await run(admin, policy)
    await run(admin, policy)
    assert [request.criteria["tickers"] for request in asked[:2]] == [["B", "C"], ["System default"]]
    assert asked[0].criteria["until"] == "2026-01-03T12:00:00+00:00"
    since = [request.criteria["since"] for request in asked[::2]]
    assert since == ["2025-12-01", "2025-12-01", "2026-01-04"]  # the dry run moved nothing
    marks = await backend.database().read(
        lambda conn: conn.execute(select(pipeline_state.c.high_water)).scalars().all()
    )
    assert marks == ["2026-01-06"]


async def test_a_second_run_is_refused_while_the_first_is_under_way(
    create_approved: Create, admin: Caller, blocked: tuple[asyncio.Event, asyncio.Event]
) -> None:
    begun, go = blocked
    policy = await create_approved()
    first = asyncio.create_task(run(admin, policy))
    await begun.wait()
    assert (await run(admin, policy, 409))["error"] == "already_running"
    go.set()
    assert (await first)["status"] == "success"


async def test_a_long_run_answers_with_running_and_goes_on(
    create_approved: Create,
    admin: Caller,
    blocked: tuple[asyncio.Event, asyncio.Event],
    monkeypatch: pytest.MonkeyPatch,
    engine: Scheduling,
) -> None:
    begun, go = blocked
    monkeypatch.setattr(engine_module, "ANSWER_SECONDS", 0.01)
    answer = await run(admin, await create_approved())
    fits("run_pipeline", answer)
    assert (answer["status"], answer["completed_at"]) == ("running", None)
    await begun.wait()
    task = engine._active[answer["run_id"]].task
    go.set()
    await task
    assert (await admin.get(f"/scheduling/runs/{answer['run_id']}"))["status"] == "success"


async def test_cancelling_ends_a_run_and_is_harmless_afterwards(
    create_approved: Create, admin: Caller, blocked: tuple[asyncio.Event, asyncio.Event]
) -> None:
    begun, _ = blocked
    policy = await create_approved(query("SELECT 1"), query("SELECT 2", step_id="second"))
    under_way = asyncio.create_task(run(admin, policy))
    await begun.wait()
    (active,) = await admin.get("/scheduling/runs")
    assert (active["status"], active["steps"][0]["status"]) == ("running", "running")
    path = f"/scheduling/runs/{active['run_id']}/cancel"
    for _ in range(2):
        answer = await admin.expect(200, "POST", path)
        assert answer == {"run_id": active["run_id"], "status": "cancelled"}
    done = await under_way
    assert (done["status"], [one["status"] for one in done["steps"]]) == ("cancelled", ["cancelled", "skipped"])
    await admin.expect(422, "POST", "/scheduling/runs/not-a-uuid/cancel")
    await admin.expect(404, "POST", "/scheduling/runs/00000000-0000-0000-0000-000000000000/cancel")


async def test_a_run_that_has_ended_cannot_be_cancelled_any_more(create_approved: Create, admin: Caller) -> None:
    done = await run(admin, await create_approved())
    answer = await admin.expect(200, "POST", f"/scheduling/runs/{done['run_id']}/cancel")
    assert answer["status"] == "success"


async def test_a_step_over_its_time_fails(
    create_approved: Create, admin: Caller, engine: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(params: dict[str, Any], context: Context) -> StepResult:
        raise TimeoutError  # what asyncio.timeout makes of a step that is over its time

    monkeypatch.setitem(STEP_TYPES, "query", StepType("query", False, STEP_TYPES["query"].params, slow, ""))
    done = await run(admin, await create_approved({**query("SELECT 1"), "timeout": 10}))
    assert (done["status"], "longer than 10 seconds" in done["error"]) == ("failed", True)


async def test_an_unexpected_error_ends_the_run_and_not_the_scheduler(
    create_approved: Create, admin: Caller, engine: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(params: dict[str, Any], context: Context) -> StepResult:
        raise KeyError("password=hunter22")

    kind = STEP_TYPES["query"]
    monkeypatch.setitem(STEP_TYPES, "query", StepType("query", False, kind.params, broken, ""))
    policy = await create_approved()
    done = await run(admin, policy)
    assert done["status"] == "failed"
    assert "KeyError" in done["error"]
    assert "hunter22" not in str(await admin.get("/scheduling/runs"))
    monkeypatch.setitem(STEP_TYPES, "query", kind)
    assert (await run(admin, policy))["status"] == "success"


async def test_locking_the_journal_cancels_what_runs(
    create_approved: Create,
    admin: Caller,
    anybody: Caller,
    api_key: str,
    blocked: tuple[asyncio.Event, asyncio.Event],
    engine: Scheduling,
) -> None:
    begun, _ = blocked
    policy = await create_approved()
    asking = asyncio.create_task(admin.ask("POST", f"{POLICIES}/{policy['id']}/run", {}))
    await begun.wait()
    await admin.expect(200, "POST", "/auth/lock")
    assert (await asking).status == 403
    assert not engine.busy
    again = await anybody.unlock(api_key)
    (done,) = await again.get("/scheduling/runs")
    assert (done["status"], done["error"]) == ("cancelled", "The backend was stopped.")
    assert [job["id"] for job in engine.jobs()] == [policy["id"]]


async def test_sixty_runs_an_hour_are_the_limit(
    create: Create, admin: Caller, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert budget.RUNS_PER_HOUR == 60
    monkeypatch.setattr(budget, "RUNS_PER_HOUR", 3)
    policy = await create()
    for _ in range(3):
        await run(admin, policy, dry_run=True)
    answer = await run(admin, policy, 400, dry_run=True)
    assert answer["error"] == "run_limit"
    wall.forward(hours=1, seconds=1)
    await run(admin, policy, dry_run=True)


async def test_a_hundred_report_queries_an_hour_are_the_limit(
    create_approved: Create, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert budget.QUERIES_PER_HOUR == 100
    monkeypatch.setattr(budget, "QUERIES_PER_HOUR", 3)
    policy = await create_approved(REPORT)
    assert (await run(admin, policy))["status"] == "success"
    refused = await run(admin, policy)
    assert (refused["status"], "queries per hour" in refused["error"]) == ("failed", True)


async def test_the_history_has_the_latest_first_and_a_limit(create: Create, admin: Caller) -> None:
    first, second = await create(name="One"), await create(name="Two")
    for policy in (first, second, first):
        await run(admin, policy, dry_run=True)
    everything = await admin.get("/scheduling/runs")
    fits("get_pipeline_history", everything)
    assert [one["policy_name"] for one in everything] == ["One", "Two", "One"]
    assert [one["policy_name"] for one in await admin.get(f"{POLICIES}/{second['id']}/runs")] == ["Two"]
    assert len(await admin.get("/scheduling/runs?limit=1")) == 1
    for limit in ("0", "101", "x"):
        await admin.expect(422, "GET", f"/scheduling/runs?limit={limit}")
    steps = everything[0]["steps"]
    assert {"step_id", "step_type", "status", "started_at", "completed_at", "duration_ms", "error", "attempt"} <= set(
        steps[0]
    )
    await admin.expect(404, "GET", "/scheduling/runs/nothing")
    await admin.expect(204, "DELETE", f"{POLICIES}/{first['id']}")
    assert len(await admin.get(f"{POLICIES}/{first['id']}/runs")) == 2  # the history of a deleted policy stays


async def test_a_locked_guard_stops_tools_and_not_what_a_person_approved(
    create_approved: Create, admin: Caller, engine: Scheduling, wall: Wall
) -> None:
    """The guard stands between assistants and the journal; a schedule is the person's own, and ends by a pause."""
    policy = await create_approved(cron="0 13 * * *")
    await admin.expect(200, "POST", "/mcp-guard/lock", {"reason": "drill"})
    headers = {"X-MCP-Guard": "check"}
    answer = await admin.expect(403, "POST", f"{POLICIES}/{policy['id']}/run", {}, headers=headers)
    assert answer["error"] == "guard_blocked"
    wall.forward(hours=1)
    await settled(engine)
    (done,) = await admin.get("/scheduling/runs")
    assert (done["status"], done["trigger_type"]) == ("success", "scheduled")
    assert (await reschedule(admin, policy, enabled=False))["next_run"] is None
    wall.forward(days=1)
    await settled(engine)
    assert len(await admin.get("/scheduling/runs")) == 1


async def test_a_report_about_tax_lots_finds_them_in_step_with_the_trades(
    create_approved: Create, admin: Caller
) -> None:
    policy = await create_approved(query("SELECT count(*) AS n, sum(quantity) AS q FROM tax_lots"), *SHOWN)
    for number, action in enumerate(("BOT", "BOT", "SLD")):
        trade: dict[str, Any] = {
            "exec_id": f"T{number}",
            "time": f"2025-03-0{number + 1}T15:00:00Z",
            "instrument": "AAPL STK",
        }
        trade |= {"action": action, "quantity": 10, "price": 100, "account_id": "MAIN"}
        await admin.expect(201, "POST", "/trades", trade)
        done = await run(admin, policy, dry_run=True)
        assert f"<p>{number + 1 if action == 'BOT' else 2} lots</p>" in done["preview"]


SHOWN = [step("page", "render", {"template_source": "<p>{{ ctx.load.results.rows[0].n }} lots</p>"})]


# --- requests that are watched or withdrawn ---------------------------------------------------------------------------


async def test_how_far_a_run_has_come_is_told_to_who_knows_the_key_of_its_request(
    create: Create, admin: Caller, blocked: tuple[asyncio.Event, asyncio.Event]
) -> None:
    begun, go = blocked
    compose = step("first", "compose", {"sources": {"x": 1}})
    policy = await create(compose, query("SELECT 1", step_id="second"))
    path = f"{POLICIES}/{policy['id']}/run"
    asking = admin.expect(200, "POST", path, {"dry_run": True}, headers={"Idempotency-Key": "k1"})
    under_way = asyncio.create_task(asking)
    await begun.wait()
    told = await admin.get("/scheduling/progress/k1")
    assert (told["done"], told["total"], told["message"]) == (1, 2, 'step "second"')
    await admin.expect(404, "GET", "/scheduling/progress/k2")
    go.set()
    assert (await under_way)["run_id"] == told["run_id"]
    await admin.expect(404, "GET", "/scheduling/progress/k1")


async def test_a_withdrawn_request_ends_its_run_and_starts_none(
    create: Create, admin: Caller, blocked: tuple[asyncio.Event, asyncio.Event]
) -> None:
    begun, _ = blocked
    policy = await create(query("SELECT 1"))
    path, headers = f"{POLICIES}/{policy['id']}/run", {"Idempotency-Key": "k1"}
    under_way = asyncio.create_task(admin.expect(200, "POST", path, {"dry_run": True}, headers=headers))
    await begun.wait()
    answer = await admin.expect(200, "POST", "/scheduling/progress/k1/cancel")
    done = await under_way
    assert (answer["run_id"], answer["status"], done["status"]) == (done["run_id"], "cancelled", "cancelled")
    late = await admin.expect(409, "POST", path, {"dry_run": True}, headers=headers)
    assert late["error"] == "request_cancelled"
