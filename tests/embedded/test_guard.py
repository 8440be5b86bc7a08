"""The guard: a lock always works, both limits count, nothing slips through, and the state outlives the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select

from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import Database
from zorivest_rpc.embedded.database.schema.journal import audit_log, mcp_guard
from zorivest_rpc.embedded.guard import MOST_HELD, Guard

from .conftest import Caller, Clock

Roles = Callable[[str], Awaitable[Caller]]
INLINE = {"X-MCP-Guard": "check"}


async def check(caller: Caller) -> dict[str, Any]:
    answer: dict[str, Any] = await caller.expect(200, "POST", "/mcp-guard/check")
    return answer


async def enable(admin: Caller, minute: int = 60, hour: int = 500) -> None:
    limits = {"is_enabled": True, "calls_per_minute_limit": minute, "calls_per_hour_limit": hour}
    await admin.expect(200, "PUT", "/mcp-guard/config", limits)


async def test_a_new_guard_is_off_and_open_to_read(admin: Caller, anybody: Caller) -> None:
    shown = await anybody.get("/mcp-guard/status")
    assert shown.pop("version")
    assert shown == {
        "is_enabled": False,
        "is_locked": False,
        "locked_at": None,
        "lock_reason": None,
        "locked_by": None,
        "is_saved": True,
        "calls_per_minute_limit": 60,
        "calls_per_hour_limit": 500,
        "recent_calls_1min": 0,
        "recent_calls_1hr": 0,
        "call_count": 0,
    }
    assert await check(admin) == {"allowed": True, "reason": "guard_disabled"}


async def test_a_lock_works_while_the_guard_is_off(admin: Caller) -> None:
    status = await admin.expect(200, "POST", "/mcp-guard/lock", {"reason": "agent_self_lock"})
    assert (status["is_locked"], status["lock_reason"]) == (True, "agent_self_lock")
    assert status["locked_at"].endswith("+00:00")
    assert await check(admin) == {"allowed": False, "reason": "agent_self_lock", "locked_by": "tool"}
    status = await admin.expect(200, "POST", "/mcp-guard/unlock")
    assert (status["is_locked"], status["lock_reason"], status["locked_at"]) == (False, None, None)
    assert (await check(admin))["allowed"] is True


async def test_the_default_reason_is_manual(admin: Caller) -> None:
    assert (await admin.expect(200, "POST", "/mcp-guard/lock"))["lock_reason"] == "manual"
    await admin.expect(422, "POST", "/mcp-guard/lock", {"reason": "x" * 101})


async def test_the_call_over_the_minute_limit_is_refused_and_locks(admin: Caller) -> None:
    await enable(admin, minute=2)
    assert [(await check(admin))["allowed"] for _ in range(3)] == [True, True, False]
    status = await admin.get("/mcp-guard/status")
    assert (status["is_locked"], status["lock_reason"]) == (True, "rate_limit_exceeded")
    assert await check(admin) == {"allowed": False, "reason": "rate_limit_exceeded", "locked_by": "rate"}


async def test_the_minute_window_slides(admin: Caller, clock: Clock) -> None:
    await enable(admin, minute=2)
    for _ in range(5):
        assert (await check(admin))["allowed"]
        clock.now += 31
    assert (await admin.get("/mcp-guard/status"))["recent_calls_1hr"] == 5


async def test_the_hour_limit_counts_too(admin: Caller, clock: Clock) -> None:
    await enable(admin, minute=10_000, hour=3)
    results = []
    for _ in range(4):
        results.append((await check(admin))["allowed"])
        clock.now += 61
    assert results == [True, True, True, False]
    assert (await admin.get("/mcp-guard/status"))["is_locked"] is True


async def test_unlocking_starts_with_fresh_counters(admin: Caller) -> None:
    await enable(admin, minute=1)
    assert [(await check(admin))["allowed"] for _ in range(2)] == [True, False]
    assert (await admin.expect(200, "POST", "/mcp-guard/unlock"))["recent_calls_1min"] == 0
    assert [(await check(admin))["allowed"] for _ in range(2)] == [True, False]


async def test_unlocking_forgets_the_calls_of_the_hour_as_well(admin: Caller, clock: Clock) -> None:
    await enable(admin, minute=10_000, hour=2)
    for _ in range(2):
        results = []
        for _ in range(3):
            results.append((await check(admin))["allowed"])
            clock.now += 61
        assert results == [True, True, False]
        status = await admin.expect(200, "POST", "/mcp-guard/unlock")
        assert (status["recent_calls_1min"], status["recent_calls_1hr"]) == (0, 0)


async def test_exactly_as_many_concurrent_calls_pass_as_the_limit_allows(admin: Caller) -> None:
    await enable(admin, minute=7)
    answers = await asyncio.gather(*(check(admin) for _ in range(40)))
    assert sum(answer["allowed"] for answer in answers) == 7


async def test_inline_and_separate_checks_share_the_limit_under_concurrency(admin: Caller) -> None:
    await enable(admin, minute=9)
    responses = await asyncio.gather(*(admin.ask("GET", "/settings/ui.theme", headers=INLINE) for _ in range(30)))
    assert sorted(response.status for response in responses) == [200] * 9 + [403] * 21


async def test_after_a_lock_was_answered_no_call_passes(admin: Caller) -> None:
    await enable(admin, minute=10_000, hour=100_000)
    locked = asyncio.Event()
    late: list[bool] = []

    async def caller() -> None:
        while len(late) < 20:
            after = locked.is_set()
            answer = await check(admin)
            if after:
                late.append(answer["allowed"])

    async def lock() -> None:
        await admin.expect(200, "POST", "/mcp-guard/lock")
        locked.set()

    async with asyncio.timeout(10):
        await asyncio.gather(*(caller() for _ in range(5)), lock())
    assert not any(late)


async def test_a_lock_during_an_unlock_wins(backend: Embedded, admin: Caller) -> None:
    """The unlock is already being written when the panic button is pressed."""
    db, guard = backend.database(), backend.guard
    await guard.lock(db, "test", "first")
    for _ in range(20):
        await asyncio.gather(guard.unlock(db, "test"), guard.lock(db, "test", "second"))
        assert guard.status()["is_locked"] is True
        assert await db.read(lambda conn: conn.execute(select(mcp_guard.c.is_locked)).scalar()) is True


async def test_a_change_of_limits_during_an_unlock_is_kept(backend: Embedded, admin: Caller) -> None:
    db, guard = backend.database(), backend.guard
    await guard.lock(db, "test", "first")
    await asyncio.gather(guard.unlock(db, "test"), guard.configure(db, "test", {"calls_per_minute_limit": 5}))
    fresh = Guard()
    await fresh.load(db)
    for seen in (guard.status(), fresh.status()):
        assert (seen["is_locked"], seen["calls_per_minute_limit"]) == (False, 5)


async def test_an_inline_check_refuses_before_the_route_runs(admin: Caller) -> None:
    await admin.expect(200, "POST", "/mcp-guard/lock", {"reason": "stop"})
    refused = await admin.expect(403, "PUT", "/settings", {"ui.theme": "light"}, headers=INLINE)
    assert (refused["error"], refused["detail"]) == ("guard_blocked", {"reason": "stop", "locked_by": "tool"})
    assert (await admin.get("/settings/ui.theme"))["value"] == "dark"
    await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"})  # what is not a tool call is not asked


async def test_an_inline_check_needs_a_session_even_on_an_open_route(anybody: Caller, admin: Caller) -> None:
    refused = await anybody.expect(403, "GET", "/health", headers=INLINE)
    assert refused["error"] == "no_session"
    assert (await admin.get("/mcp-guard/status"))["call_count"] == 0


async def test_a_locked_guard_survives_a_restart(admin: Caller, backend: Embedded, api_key: str) -> None:
    await enable(admin, minute=5)
    await admin.expect(200, "POST", "/mcp-guard/lock", {"reason": "night"})
    await backend.close()
    again = Embedded.load(backend.directory)
    await again.open(api_key)
    status = again.guard.status()
    assert (status["is_enabled"], status["is_locked"], status["lock_reason"]) == (True, True, "night")
    assert status["calls_per_minute_limit"] == 5
    await again.close()


async def test_the_state_is_still_told_while_the_database_is_locked(admin: Caller, anybody: Caller) -> None:
    await admin.expect(200, "POST", "/mcp-guard/lock", {"reason": "stop"})
    await admin.expect(200, "POST", "/auth/lock")
    assert (await anybody.get("/mcp-guard/status"))["lock_reason"] == "stop"


async def test_a_refusal_that_cannot_be_written_down_is_still_a_refusal(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    await enable(admin, minute=1)
    await check(admin)

    async def full(self: Database, job: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Database, "write", full)
    assert (await check(admin))["allowed"] is False
    assert await check(admin) == {"allowed": False, "reason": "rate_limit_exceeded", "locked_by": "rate"}


@pytest.mark.parametrize(
    "change",
    [
        {"calls_per_minute_limit": 0},
        {"calls_per_minute_limit": 10_001},
        {"calls_per_hour_limit": 100_001},
        {"calls_per_hour_limit": "many"},
        {"is_enabled": "perhaps"},
    ],
)
async def test_limits_outside_their_range_are_refused(change: dict[str, Any], admin: Caller) -> None:
    before = await admin.get("/mcp-guard/status")
    assert set((await admin.expect(422, "PUT", "/mcp-guard/config", change))["detail"]["errors"]) == set(change)
    assert await admin.get("/mcp-guard/status") == before


async def test_every_change_of_the_guard_is_in_the_audit_log(admin: Caller, backend: Embedded) -> None:
    await enable(admin)
    await admin.expect(200, "POST", "/mcp-guard/lock")
    await admin.expect(200, "POST", "/mcp-guard/unlock")
    rows = await backend.database().read(
        lambda conn: conn.execute(select(audit_log.c.action, audit_log.c.actor).order_by(audit_log.c.id)).all()
    )
    assert [row.action for row in rows] == ["auth.unlock", "guard.config", "guard.lock", "guard.unlock"]
    assert all(row.actor.startswith("key:") for row in rows)


async def test_a_question_about_a_known_state_is_held_until_it_changes(admin: Caller, anybody: Caller) -> None:
    version = (await anybody.get("/mcp-guard/status"))["version"]
    held = asyncio.ensure_future(anybody.get(f"/mcp-guard/status?after={version}&wait=25"))
    assert (await check(admin))["allowed"] is True  # counting is no change
    assert not held.done()
    await admin.expect(200, "POST", "/mcp-guard/lock", {"reason": "now"})
    async with asyncio.timeout(20):
        state = await held
    assert (state["is_locked"], state["lock_reason"]) == (True, "now")
    assert state["version"] != version
    again = await anybody.get(f"/mcp-guard/status?after={version}&wait=25")  # an old version is answered at once
    assert again["version"] == state["version"]


@pytest.mark.parametrize("query", ["wait=0", "wait=", "wait=-1", "wait=x", "wait=1e9", ""])
async def test_a_question_without_a_time_to_wait_is_answered_at_once(
    admin: Caller, anybody: Caller, query: str
) -> None:
    version = (await anybody.get("/mcp-guard/status"))["version"]
    assert (await anybody.get(f"/mcp-guard/status?after={version}&{query}"))["version"] == version


async def test_no_more_questions_are_held_than_the_limit() -> None:
    guard = Guard()
    for _ in range(2):  # the second time because each place is free again, and none besides
        stop = asyncio.Event()
        held = [asyncio.ensure_future(guard.wait(guard.version, 25, stop)) for _ in range(MOST_HELD)]
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await guard.wait(guard.version, 25, stop)  # one too many: answered at once
        assert not any(each.done() for each in held)
        stop.set()  # the backend ends, and every held question with it
        async with asyncio.timeout(20):
            await asyncio.gather(*held)
