"""The brake: it works for everybody and with a full disk, remembers who set it, and a person's lock is a person's."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import Database
from zorivest_rpc.embedded.database.schema.journal import audit_log, mcp_guard
from zorivest_rpc.embedded.disk.guard_mark import GuardMark
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.errors import Conflict
from zorivest_rpc.embedded.guard import Guard

from .conftest import Caller, Clock

Roles = Callable[[str], Awaitable[Caller]]
LOCK, UNLOCK, STATUS, CHECK = "/mcp-guard/lock", "/mcp-guard/unlock", "/mcp-guard/status", "/mcp-guard/check"


async def actions(backend: Embedded) -> list[str]:
    said = select(audit_log.c.action).order_by(audit_log.c.id)
    rows = await backend.database().read(lambda conn: conn.execute(said).scalars().all())
    return [action for action in rows if action.startswith("guard.")]


async def stored(backend: Embedded) -> tuple[bool, str | None]:
    columns = select(mcp_guard.c.is_locked, mcp_guard.c.locked_by)
    row = await backend.database().read(lambda conn: conn.execute(columns).one())
    return row.is_locked, row.locked_by


@contextmanager
def full_disk(patch: pytest.MonkeyPatch, *, names: bool = True) -> Iterator[None]:
    """No write of the database succeeds; without `names` not even an empty file can be made."""

    def full(self: Database, job: Any) -> Any:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    with patch.context() as patched:
        patched.setattr(Database, "_write_sync", full)
        if not names:
            patched.setattr(GuardMark, "set", lambda self, by: False)
        yield


async def reopened(backend: Embedded, api_key: str) -> Embedded:
    """The same directory in another process, after this one was killed: nothing of its memory is left."""
    await backend.database().close()
    backend._file_lock.release()
    again = Embedded.load(backend.directory)
    await again.open(api_key)
    return again


# --- who may


@pytest.mark.parametrize("role", ["read-only", "read-write", "admin"])
async def test_every_role_may_pull_the_brake(with_role: Roles, role: str) -> None:
    caller = await with_role(role)
    status = await caller.expect(200, "POST", LOCK, {"reason": "stop"})
    assert (status["is_locked"], status["locked_by"], status["is_saved"]) == (True, "tool", True)


async def test_releasing_it_is_not_for_a_key_that_may_only_read(with_role: Roles) -> None:
    reader = await with_role("read-only")
    await reader.expect(200, "POST", LOCK)
    for body in ({}, {"by": "person"}):
        assert (await reader.expect(403, "POST", UNLOCK, body))["error"] == "role_too_low"
    await (await with_role("read-write")).expect(200, "POST", UNLOCK)


async def test_without_a_session_it_cannot_be_pulled(admin: Caller, anybody: Caller) -> None:
    await anybody.expect(403, "POST", LOCK)
    assert (await admin.get(STATUS))["is_locked"] is False


# --- whose it is


@pytest.mark.parametrize(("by", "opens"), [("person", ["person"]), ("tool", ["tool", "person"])])
async def test_the_lock_remembers_who_set_it_and_who_may_release_it(admin: Caller, by: str, opens: list[str]) -> None:
    for opener in ("tool", "person"):
        await admin.expect(200, "POST", LOCK, {"reason": "x", "by": by})
        assert (await admin.get(STATUS))["locked_by"] == by
        if opener in opens:
            status = await admin.expect(200, "POST", UNLOCK, {"by": opener})
            assert (status["is_locked"], status["locked_by"]) == (False, None)
        else:
            assert (await admin.expect(409, "POST", UNLOCK, {"by": opener}))["error"] == "locked_by_person"
            assert (await admin.get(STATUS))["is_locked"] is True


async def test_an_unlock_that_does_not_say_by_whom_is_a_tools(admin: Caller) -> None:
    await admin.expect(200, "POST", LOCK, {"by": "person"})
    assert (await admin.expect(409, "POST", UNLOCK))["error"] == "locked_by_person"


@pytest.mark.parametrize("opener", ["tool", "person"])
async def test_what_the_rate_breaker_locked_anybody_releases(admin: Caller, opener: str) -> None:
    await admin.expect(200, "PUT", "/mcp-guard/config", {"is_enabled": True, "calls_per_minute_limit": 1})
    await admin.expect(200, "POST", CHECK)
    assert (await admin.expect(200, "POST", CHECK))["locked_by"] == "rate"
    assert (await admin.expect(200, "POST", UNLOCK, {"by": opener}))["is_locked"] is False


async def test_a_tools_lock_does_not_replace_a_persons(admin: Caller) -> None:
    first = await admin.expect(200, "POST", LOCK, {"by": "person", "reason": "mine"})
    again = await admin.expect(200, "POST", LOCK, {"reason": "agent_self_lock"})
    assert {name: again[name] for name in ("lock_reason", "locked_by", "locked_at", "is_saved")} == {
        name: first[name] for name in ("lock_reason", "locked_by", "locked_at", "is_saved")
    }
    assert (await admin.expect(409, "POST", UNLOCK))["error"] == "locked_by_person"


async def test_a_persons_lock_takes_over_a_tools(admin: Caller) -> None:
    await admin.expect(200, "POST", LOCK, {"reason": "agent_self_lock"})
    status = await admin.expect(200, "POST", LOCK, {"by": "person", "reason": "mine"})
    assert (status["lock_reason"], status["locked_by"]) == ("mine", "person")


async def test_nobody_else_is_a_party(admin: Caller) -> None:
    for path in (LOCK, UNLOCK):
        assert "by" in (await admin.expect(422, "POST", path, {"by": "rate"}))["detail"]["errors"]


async def test_a_refusal_says_whose_lock_it_is(admin: Caller) -> None:
    await admin.expect(200, "POST", LOCK, {"by": "person", "reason": "night"})
    refused = {"reason": "night", "locked_by": "person"}
    assert await admin.expect(200, "POST", CHECK) == {"allowed": False, **refused}
    inline = await admin.expect(403, "GET", "/settings", headers={"X-MCP-Guard": "check"})
    assert (inline["error"], inline["detail"]) == ("guard_blocked", refused)


async def test_an_unlock_that_names_a_lock_releases_that_one_alone(admin: Caller) -> None:
    first = await admin.expect(200, "POST", LOCK, {"by": "person"})
    second = await admin.expect(200, "POST", LOCK, {"by": "person"})
    stale = await admin.expect(409, "POST", UNLOCK, {"by": "person", "locked_at": first["locked_at"]})
    assert (stale["error"], (await admin.get(STATUS))["is_locked"]) == ("lock_changed", True)
    await admin.expect(200, "POST", UNLOCK, {"by": "person", "locked_at": second["locked_at"]})


@pytest.mark.parametrize(("reason", "by"), [("manual", "tool"), ("rate_limit_exceeded", "rate")])
async def test_a_lock_of_an_earlier_release_can_be_released_as_before(
    admin: Caller, backend: Embedded, reason: str, by: str
) -> None:
    """That release did not write down who had locked."""
    values = {"is_locked": True, "lock_reason": reason, "locked_by": None}
    await backend.database().write(lambda conn: conn.execute(mcp_guard.update().values(**values)))
    await backend.guard.load(backend.database())
    status = await admin.get(STATUS)
    assert (status["is_locked"], status["lock_reason"], status["locked_by"]) == (True, reason, by)
    await admin.expect(200, "POST", UNLOCK)


async def test_a_guard_of_which_nothing_is_known_is_locked_until_a_person_opens_it(
    admin: Caller, backend: Embedded, api_key: str
) -> None:
    await backend.database().write(lambda conn: conn.execute(mcp_guard.delete()))
    again = await reopened(backend, api_key)
    try:
        status = again.guard.status()
        assert (status["is_locked"], status["locked_by"], status["is_saved"]) == (True, "person", True)
        assert status["lock_reason"] == "the guard's state was lost"
        assert (status["calls_per_minute_limit"], status["calls_per_hour_limit"]) == (60, 500)
        assert await stored(again) == (True, "person")
        with pytest.raises(Conflict):
            await again.guard.unlock(again.database(), "a tool")
        await again.guard.unlock(again.database(), "owner", "person")
        assert await stored(again) == (False, None)
    finally:
        await again.close()


# --- a disk that takes no more data


@pytest.mark.parametrize("by", ["person", "tool"])
async def test_with_a_full_disk_the_brake_works_and_survives_a_kill(
    admin: Caller, backend: Embedded, api_key: str, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    with full_disk(monkeypatch):
        status = await admin.expect(200, "POST", LOCK, {"by": by, "reason": "stop"})
        assert (status["is_locked"], status["locked_by"], status["is_saved"]) == (True, by, True)
        assert (await admin.expect(200, "POST", CHECK))["allowed"] is False
        assert await stored(backend) == (False, None)
    again = await reopened(backend, api_key)
    try:
        status = again.guard.status()
        assert (status["is_locked"], status["locked_by"], status["is_saved"]) == (True, by, True)
        assert await stored(again) == (True, by)  # there was room again
        assert GuardMark(again.directory.root).read() is None
    finally:
        await again.close()


async def test_where_nothing_can_be_kept_the_answer_says_so_and_it_is_saved_later(
    admin: Caller, backend: Embedded, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_disk(monkeypatch, names=False):
        status = await admin.expect(200, "POST", LOCK, {"reason": "stop"})
        assert (status["is_locked"], status["is_saved"]) == (True, False)
        clock.now += 5
        assert (await admin.expect(200, "POST", CHECK))["allowed"] is False
        assert (await admin.get(STATUS))["is_saved"] is False
    clock.now += 5
    assert (await admin.expect(200, "POST", CHECK))["allowed"] is False
    assert (await admin.get(STATUS))["is_saved"] is True
    assert await stored(backend) == (True, "tool")
    assert await actions(backend) == ["guard.lock"]


async def test_a_lock_that_only_memory_holds_outlives_the_database_in_it(
    admin: Caller, api_key: str, monkeypatch: pytest.MonkeyPatch, backend: Embedded
) -> None:
    with full_disk(monkeypatch, names=False):
        await admin.expect(200, "POST", LOCK, {"by": "person", "reason": "stop"})
    await backend.lock("test")
    again = await Caller(admin.client).unlock(api_key)
    status = await again.get(STATUS)
    assert (status["is_locked"], status["lock_reason"], status["locked_by"]) == (True, "stop", "person")
    assert (status["is_saved"], await stored(backend)) == (True, (True, "person"))


async def test_a_persons_lock_with_a_full_disk_outlives_the_tools_lock_that_was_saved(
    admin: Caller, backend: Embedded, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin.expect(200, "POST", LOCK, {"reason": "agent_self_lock"})
    with full_disk(monkeypatch):
        await admin.expect(200, "POST", LOCK, {"by": "person", "reason": "mine"})
        assert await stored(backend) == (True, "tool")
    again = await reopened(backend, api_key)
    try:
        assert (again.guard.status()["locked_by"], await stored(again)) == ("person", (True, "person"))
    finally:
        await again.close()


async def test_a_tools_mark_does_not_replace_a_persons_lock_of_the_database(
    admin: Caller, backend: Embedded, api_key: str
) -> None:
    await admin.expect(200, "POST", LOCK, {"by": "person", "reason": "mine"})
    assert GuardMark(backend.directory.root).set("tool")
    again = await reopened(backend, api_key)
    status = again.guard.status()
    await again.close()
    assert (status["is_locked"], status["locked_by"], status["lock_reason"]) == (True, "person", "mine")


async def test_a_lock_that_could_not_be_saved_is_tried_again_once_a_second(
    admin: Caller, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def full(self: Database, job: Any) -> Any:
        attempts.append(clock.now)
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    monkeypatch.setattr(Database, "_write_sync", full)
    await admin.expect(200, "POST", LOCK)
    for now in (1000.5, 1000.9, 1001.0, 1001.5, 1002.0):
        clock.now = now
        assert (await admin.expect(200, "POST", CHECK))["allowed"] is False
    assert attempts == [1000.0, 1001.0, 1002.0]


async def test_the_audit_log_says_why_and_by_whom(admin: Caller, backend: Embedded) -> None:
    await admin.expect(200, "PUT", "/mcp-guard/config", {"calls_per_minute_limit": 7})
    await admin.expect(200, "POST", LOCK, {"by": "person", "reason": "night"})
    await admin.expect(200, "POST", UNLOCK, {"by": "person"})
    said = select(audit_log.c.action, audit_log.c.details_json).where(audit_log.c.action.startswith("guard."))
    rows = await backend.database().read(lambda conn: conn.execute(said.order_by(audit_log.c.id)).all())
    assert [tuple(row) for row in rows] == [
        ("guard.config", {"calls_per_minute_limit": 7}),
        ("guard.lock", {"reason": "night", "by": "person"}),
        ("guard.unlock", {"by": "person"}),
    ]


async def test_with_a_full_disk_the_rate_breaker_locks_too(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin.expect(200, "PUT", "/mcp-guard/config", {"is_enabled": True, "calls_per_minute_limit": 1})
    with full_disk(monkeypatch):
        assert [(await admin.expect(200, "POST", CHECK))["allowed"] for _ in range(3)] == [True, False, False]
    assert GuardMark(backend.directory.root).read() == "rate"


async def test_with_a_full_disk_nothing_is_unlocked(
    admin: Caller, backend: Embedded, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin.expect(200, "POST", LOCK)
    with full_disk(monkeypatch):
        assert (await admin.expect(503, "POST", UNLOCK))["error"] == "disk_unwritable"
        assert (await admin.expect(200, "POST", CHECK))["allowed"] is False
    again = await reopened(backend, api_key)
    assert again.guard.status()["is_locked"] is True
    await again.close()


async def test_with_a_full_disk_a_new_session_reaches_the_brake(
    admin: Caller, anybody: Caller, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_disk(monkeypatch):
        monkeypatch.setattr("zorivest_rpc.embedded.vault.vault.write_private", _no_room)
        fresh = await anybody.unlock(api_key)
        assert (await fresh.expect(200, "POST", LOCK, {"by": "person"}))["is_locked"] is True


def _no_room(path: Any, data: bytes) -> None:
    raise OSError(28, "No space left on device")


async def test_an_unlock_takes_the_mark_away(
    admin: Caller, backend: Embedded, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_disk(monkeypatch):
        await admin.expect(200, "POST", LOCK)
    await admin.expect(200, "POST", UNLOCK)
    again = await reopened(backend, api_key)
    assert again.guard.status()["is_locked"] is False
    await again.close()


async def test_a_mark_that_cannot_be_taken_away_keeps_the_guard_locked(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open in memory and locked after the next start would be two truths."""

    def refused(self: GuardMark) -> None:
        raise OSError(30, "Read-only file system")

    await admin.expect(200, "POST", LOCK)
    monkeypatch.setattr(GuardMark, "clear", refused)
    await admin.expect(503, "POST", UNLOCK)
    assert (await admin.expect(200, "POST", CHECK))["allowed"] is False


@pytest.mark.parametrize("by", ["person", "tool", "rate"])
def test_a_mark_says_who_locked_and_the_strongest_counts(directory: DataDir, by: str) -> None:
    mark = GuardMark(directory.create().root)
    assert mark.read() is None
    assert mark.set("rate")
    assert mark.set(by)
    assert mark.read() == by
    assert [path.stat().st_size for path in directory.root.glob("guard.*")] == [0] * len({"rate", by})
    mark.clear()
    assert (mark.read(), list(directory.root.glob("guard.*"))) == (None, [])


def test_a_mark_is_private_and_on_the_disk_before_it_counts(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str]] = []

    def note(path: Path) -> None:
        synced.append(sorted(each.name for each in path.glob("guard.*")))

    monkeypatch.setattr("zorivest_rpc.embedded.disk.guard_mark.sync_directory", note)
    mark = GuardMark(directory.create().root)
    mark.clear()
    assert synced == []  # there was nothing to take away
    assert mark.set("tool")
    assert stat.S_IMODE((directory.root / "guard.locked-by-tool").stat().st_mode) == 0o600
    assert mark.set("tool"), "a mark that is there already is left"
    mark.clear()
    assert synced == [["guard.locked-by-tool"], ["guard.locked-by-tool"], []]


def test_a_mark_in_a_directory_that_is_gone_is_no_mark(directory: DataDir) -> None:
    assert GuardMark(directory.root).set("tool") is False


# --- two at once


HANGS = 30  # seconds after which a step that should have come is not coming


class Gate:
    """Writes wait here until they are let through, one at a time and in order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.reached: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        plain = Database.write

        async def write(db: Database, job: Any) -> Any:
            passes = asyncio.Event()
            self.reached.put_nowait(passes)
            await passes.wait()
            return await plain(db, job)

        patch.setattr(Database, "write", write)

    async def let_through(self) -> None:
        async with asyncio.timeout(HANGS):
            (await self.reached.get()).set()


async def test_a_lock_that_arrives_while_an_unlock_waits_for_its_turn_stops_the_unlock(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written that says open: a crash right after it would lose the lock."""
    db, guard = backend.database(), backend.guard
    await guard.lock(db, "test", "first")
    gate = Gate(monkeypatch)
    settling = asyncio.create_task(guard.configure(db, "test", {"calls_per_minute_limit": 5}))
    passes = await gate.reached.get()
    unlocking = asyncio.create_task(guard.unlock(db, "test"))
    await asyncio.sleep(0)  # it waits behind the change of limits
    locking = asyncio.create_task(guard.lock(db, "test", "second"))
    await asyncio.sleep(0)
    passes.set()
    await gate.let_through()
    async with asyncio.timeout(HANGS):  # a write of the unlock would wait at the gate
        await asyncio.gather(settling, unlocking, locking)
    assert guard.status()["lock_reason"] == "second"
    assert await actions(backend) == ["guard.lock", "guard.config", "guard.lock"]


async def test_a_lock_that_arrives_while_an_unlock_is_written_keeps_the_guard_locked(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, guard = backend.database(), backend.guard
    await guard.lock(db, "test", "first")
    gate = Gate(monkeypatch)
    unlocking = asyncio.create_task(guard.unlock(db, "test"))
    passes = await gate.reached.get()
    locking = asyncio.create_task(guard.lock(db, "test", "second"))
    await asyncio.sleep(0)
    assert (await guard.check(db, "test")).allowed is False
    passes.set()
    await unlocking
    assert (await guard.check(db, "test")).allowed is False  # before the second lock is on the disk
    await gate.let_through()
    await locking
    assert (guard.status()["lock_reason"], await stored(backend)) == ("second", (True, "tool"))


async def test_a_persons_lock_that_arrives_while_a_tool_unlocks_stays_the_persons(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, guard = backend.database(), backend.guard
    await guard.lock(db, "test", "first")
    gate = Gate(monkeypatch)
    unlocking = asyncio.create_task(guard.unlock(db, "test"))
    passes = await gate.reached.get()
    locking = asyncio.create_task(guard.lock(db, "test", "mine", "person"))
    await asyncio.sleep(0)
    passes.set()
    await gate.let_through()
    await asyncio.gather(unlocking, locking)
    assert (guard.status()["locked_by"], await stored(backend)) == ("person", (True, "person"))


# --- what it counts


async def test_the_status_forgets_calls_that_are_older_than_its_windows(
    admin: Caller, clock: Clock, backend: Embedded
) -> None:
    guard, db = backend.guard, backend.database()
    await guard.configure(db, "test", {"is_enabled": True})
    for _ in range(3):
        await guard.check(db, "test")
        clock.now += 10
    seen = []
    for now in (1059.9, 1060.0, 1070.0, 1080.0, 4599.9, 4600.0, 4610.0, 4620.0):
        clock.now = now
        status = guard.status()
        seen.append((status["recent_calls_1min"], status["recent_calls_1hr"], status["call_count"]))
    assert seen == [(3, 3, 3), (2, 3, 3), (1, 3, 3), (0, 3, 3), (0, 3, 3), (0, 2, 3), (0, 1, 3), (0, 0, 3)]


async def test_a_guard_without_a_directory_says_that_it_could_not_be_saved(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = Guard()
    await guard.load(backend.database())
    with full_disk(monkeypatch):
        await guard.lock(backend.database(), "test", "x")
    assert (guard.status()["is_locked"], guard.is_saved) == (True, False)
