"""The guard, a circuit breaker for tool calls: locked it refuses every call, enabled it locks itself above a rate.

Rule 1: the decision is made in memory without a pause, so no call can pass between a lock and its effect.
Rule 2: a lock counts at once and is then written down; an unlock is written down first and counts then. A crash between
the two leaves the guard locked rather than open.
Rule 3: a lock works whether or not the rate limits are enabled, and with a disk that takes no more data: then it holds
in memory, an empty file beside the database keeps it over a restart, and `is_saved` says whether even that failed.
Rule 4: a lock remembers who set it. What a person locked, only a person unlocks, and no tool's lock replaces it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from .database import audit
from .database.engine import Database
from .database.schema.journal import mcp_guard
from .disk.guard_mark import GuardMark
from .errors import Conflict, Forbidden, Refusal

__all__ = ["LONGEST_WAIT", "MOST_HELD", "PERSON", "RATE", "TOOL", "Guard", "Verdict"]

PERSON, TOOL, RATE = "person", "tool", "rate"
RATE_REASON = "rate_limit_exceeded"
LOST_REASON = "stopped while nothing could be saved"
UNKNOWN_REASON = "the guard's state was lost"
MINUTE, HOUR = 60.0, 3600.0
SAVE_AGAIN = 1.0  # seconds between two attempts to save a lock that only memory holds
LONGEST_WAIT = 25.0  # seconds for which a question about the state may be held
MOST_HELD = 64  # questions that are held at once; the state is open to every program on this machine
_OPEN: dict[str, Any] = {"is_locked": False, "locked_at": None, "lock_reason": None, "locked_by": None}

log = logging.getLogger("zorivest.app")


@dataclass(frozen=True)
class _State:
    is_enabled: bool = False
    is_locked: bool = False
    locked_at: datetime | None = None
    lock_reason: str | None = None
    locked_by: str | None = None
    calls_per_minute_limit: int = 60
    calls_per_hour_limit: int = 500


@dataclass(frozen=True)
class Verdict:
    """`locked_by` says whose lock refused the call."""

    allowed: bool
    reason: str
    locked_by: str | None = None


class Guard:
    """The guard of one backend; it outlives a locked database, so that its answer does too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, mark: GuardMark | None = None) -> None:
        """`mark` keeps a lock that the database does not take."""
        self._clock = clock
        self._mark = mark
        self._process = token_hex(4)
        self._changes = 0
        self._changed = asyncio.Event()
        self._held = 0
        self._now: _State | None = None  # unknown until the database was open once
        self._generation = 0  # counts locks, so that an unlock in progress cannot undo a newer one
        self._minute: deque[float] = deque()
        self._hour: deque[float] = deque()
        self._call_count = 0
        self._writing = asyncio.Lock()
        self._in_database = True  # whether the database has the lock as memory has it
        self._on_disk = True  # whether the database or the mark has it
        self._last_attempt = 0.0
        self._locker = "backend"  # who asked for the present lock, for the audit log

    @property
    def _state(self) -> _State | None:
        return self._now

    @_state.setter
    def _state(self, state: _State | None) -> None:
        """Every change goes through here, so that no way to change the guard leaves those who wait for it asleep."""
        if state == self._now:
            return
        self._now = state
        self._changes += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def version(self) -> str:
        """Another one after every change; of another process it says nothing."""
        return f"{self._process}.{self._changes}"

    async def wait(self, version: str, seconds: float, stop: asyncio.Event) -> None:
        """Until the version is another one, the backend ends, or the time is up; at most MOST_HELD wait at once."""
        if version != self.version or self._held >= MOST_HELD:
            return
        self._held += 1
        events = [asyncio.ensure_future(event.wait()) for event in (self._changed, stop)]
        try:
            await asyncio.wait(events, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._held -= 1
            for event in events:
                event.cancel()

    async def load(self, db: Database) -> None:
        """Take over the persisted state when the database opens; a marked lock counts, whatever the database says.

        A state that is not there means locked."""
        known = select(mcp_guard).where(mcp_guard.c.id == 1)
        row = await db.read(lambda conn: conn.execute(known).mappings().one_or_none())
        if row is None:
            await db.write(_begin_locked)
            row = await db.read(lambda conn: conn.execute(known).mappings().one())
        state = _State(**{name: row[name] for name in _State.__dataclass_fields__})
        if state.is_locked and state.locked_by is None:  # set by a release that did not remember by whom
            state = replace(state, locked_by=RATE if state.lock_reason == RATE_REASON else TOOL)
        held, marked = self._state, None if self._mark is None else self._mark.read()
        if held is not None and held.is_locked and not self._in_database:  # the database was closed under a lock
            lock = {name: getattr(held, name) for name in _OPEN}
        elif marked is not None and not (state.is_locked and state.locked_by == PERSON):
            lock = {"is_locked": True, "locked_at": datetime.now(UTC), "lock_reason": LOST_REASON, "locked_by": marked}
        else:
            self._state = state
            return
        self._state, self._in_database = replace(state, **lock), False
        await self._save_lock(db)

    @property
    def is_saved(self) -> bool:
        """False while a lock is in memory alone, so that the end of this process would be its end."""
        return self._on_disk

    def status(self) -> dict[str, Any]:
        """403 while nothing is known: the database was not open since this process started."""
        state = self._require_state()
        self._prune()
        return {
            **{name: getattr(state, name) for name in _State.__dataclass_fields__},
            "is_saved": self._on_disk,
            "recent_calls_1min": len(self._minute),
            "recent_calls_1hr": len(self._hour),
            "call_count": self._call_count,
            "version": self.version,
        }

    async def check(self, db: Database, actor: str) -> Verdict:
        """May one more call run? Counts it; a call over a limit locks the guard before it is refused."""
        state = self._require_state()
        self._call_count += 1
        if state.is_locked:
            if not self._in_database and self._clock() - self._last_attempt >= SAVE_AGAIN:
                await self._save_lock(db)
            return Verdict(False, state.lock_reason or "manual", state.locked_by)
        if not state.is_enabled:
            return Verdict(True, "guard_disabled")
        now = self._clock()
        self._minute.append(now)
        self._hour.append(now)
        self._prune()
        if len(self._minute) > state.calls_per_minute_limit or len(self._hour) > state.calls_per_hour_limit:
            await self.lock(db, actor, RATE_REASON, RATE)
            return Verdict(False, RATE_REASON, RATE)
        return Verdict(True, "ok")

    async def lock(self, db: Database, actor: str, reason: str, by: str = TOOL) -> None:
        """Refuse every call from this moment on; returns when that is saved, or known not to be (`is_saved`)."""
        self._generation += 1
        self._locker = actor
        state = self._require_state()
        if not (state.is_locked and state.locked_by == PERSON and by != PERSON):
            self._state = replace(
                state, is_locked=True, locked_at=datetime.now(UTC), lock_reason=reason[:100], locked_by=by
            )
        self._in_database = self._on_disk = False
        await self._save_lock(db)

    async def unlock(self, db: Database, actor: str, by: str = TOOL, locked_at: datetime | None = None) -> None:
        """Allow calls again, with fresh counters, unless a lock arrives meanwhile.

        409 where a tool would open a person's lock, and where `locked_at` names another lock than the present one."""
        generation, state = self._generation, self._require_state()
        if state.is_locked and state.locked_by == PERSON and by != PERSON:
            raise Conflict("locked_by_person", "A person set this lock, and only a person can release it.")
        if locked_at is not None and locked_at != state.locked_at:
            raise Conflict("lock_changed", "The guard was locked or unlocked meanwhile; look at its state again.")
        async with self._writing:
            if generation != self._generation:
                return
            await self._store(db, replace(self._require_state(), **_OPEN), actor, "guard.unlock", {"by": by})
            if generation == self._generation:
                if self._mark is not None:
                    self._mark.clear()
                self._state = replace(self._require_state(), **_OPEN)
                self._in_database = self._on_disk = True
                self._minute.clear()
                self._hour.clear()

    async def configure(self, db: Database, actor: str, changes: dict[str, Any]) -> None:
        """Change the switch or the limits."""
        async with self._writing:
            await self._store(db, replace(self._require_state(), **changes), actor, "guard.config", changes)
            self._state = replace(self._require_state(), **changes)

    async def _save_lock(self, db: Database) -> None:
        """Write the present lock into the database, else leave the mark; never raises for what the disk refuses."""
        async with self._writing:
            state = self._require_state()
            if not state.is_locked or self._in_database:
                return  # saved by another caller while this one waited
            self._last_attempt = self._clock()
            try:
                details = {"reason": state.lock_reason, "by": state.locked_by}
                await self._store(db, state, self._locker, "guard.lock", details)
            except (SQLAlchemyError, OSError, Refusal) as exc:
                self._on_disk = self._mark is not None and self._mark.set(state.locked_by or TOOL)
                where = "a file keeps it" if self._on_disk else "ONLY MEMORY HOLDS IT"
                log.error("the guard is locked and the database does not take it; %s: %s", where, exc)
                return
            if state == self._state:  # a newer lock has its own write behind this one
                self._in_database = self._on_disk = True
                if self._mark is not None:
                    self._mark.clear()

    async def _store(self, db: Database, state: _State, actor: str, action: str, details: dict[str, Any]) -> None:
        values = {name: getattr(state, name) for name in _State.__dataclass_fields__}

        def job(conn: Any) -> None:
            conn.execute(mcp_guard.update().where(mcp_guard.c.id == 1).values(**values, updated_at=datetime.now(UTC)))
            audit.record(conn, actor, action, "mcp_guard", "1", **details)

        await db.write(job)

    def _require_state(self) -> _State:
        if self._state is None:
            raise Forbidden("database_locked", "The database is locked; unlock it to learn the guard's state.")
        return self._state

    def _prune(self) -> None:
        now = self._clock()
        for calls, span in ((self._minute, MINUTE), (self._hour, HOUR)):
            while calls and calls[0] <= now - span:
                calls.popleft()


def _begin_locked(conn: Connection) -> None:
    """A row for a guard whose state was lost: it counts as locked, because nothing says that it was open."""
    now = datetime.now(UTC)
    lost = {"is_locked": True, "locked_at": now, "lock_reason": UNKNOWN_REASON, "locked_by": PERSON}
    conn.execute(mcp_guard.insert().values(id=1, updated_at=now, **lost))
