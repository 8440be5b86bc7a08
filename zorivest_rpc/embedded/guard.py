"""The guard, a circuit breaker for tool calls: locked it refuses every call, enabled it locks itself above a rate.

Rule 1: the decision is made in memory without a pause, so no call can pass between a lock and its effect.
Rule 2: a lock counts at once and is then written down; an unlock is written down first and counts then. A crash between
the two leaves the guard locked rather than open.
Rule 3: a lock works whether or not the rate limits are enabled."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from sqlalchemy import select

from . import audit
from .db import Database
from .errors import Forbidden
from .tables import mcp_guard

__all__ = ["LONGEST_WAIT", "MOST_HELD", "Guard", "Verdict"]

MINUTE, HOUR = 60.0, 3600.0
LONGEST_WAIT = 25.0  # seconds for which a question about the state may be held
MOST_HELD = 64  # questions that are held at once; the state is open to every program on this machine
_OPEN: dict[str, Any] = {"is_locked": False, "locked_at": None, "lock_reason": None}


@dataclass(frozen=True)
class _State:
    is_enabled: bool = False
    is_locked: bool = False
    locked_at: datetime | None = None
    lock_reason: str | None = None
    calls_per_minute_limit: int = 60
    calls_per_hour_limit: int = 500


@dataclass(frozen=True)
class Verdict:
    allowed: bool
    reason: str


class Guard:
    """The guard of one backend; it outlives a locked database, so that its answer does too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
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
        """Take over the persisted state when the database opens."""
        row = await db.read(lambda conn: conn.execute(select(mcp_guard).where(mcp_guard.c.id == 1)).mappings().one())
        self._state = _State(**{name: row[name] for name in _State.__dataclass_fields__})

    def status(self) -> dict[str, Any]:
        """403 while nothing is known: the database was not open since this process started."""
        state = self._known()
        self._prune()
        return {
            **{name: getattr(state, name) for name in _State.__dataclass_fields__},
            "recent_calls_1min": len(self._minute),
            "recent_calls_1hr": len(self._hour),
            "call_count": self._call_count,
            "version": self.version,
        }

    async def check(self, db: Database, actor: str) -> Verdict:
        """May one more call run? Counts it; a call over a limit locks the guard before it is refused."""
        state = self._known()
        self._call_count += 1
        if state.is_locked:
            return Verdict(False, state.lock_reason or "manual")
        if not state.is_enabled:
            return Verdict(True, "guard_disabled")
        now = self._clock()
        self._minute.append(now)
        self._hour.append(now)
        self._prune()
        if len(self._minute) > state.calls_per_minute_limit or len(self._hour) > state.calls_per_hour_limit:
            await self.lock(db, actor, "rate_limit_exceeded")
            return Verdict(False, "rate_limit_exceeded")
        return Verdict(True, "ok")

    async def lock(self, db: Database, actor: str, reason: str) -> None:
        """Refuse every call from this moment on; returns when that is on disk."""
        self._generation += 1
        self._state = replace(self._known(), is_locked=True, locked_at=datetime.now(UTC), lock_reason=reason[:100])
        async with self._writing:
            await self._store(db, self._known(), actor, "guard.lock", {"reason": reason[:100]})

    async def unlock(self, db: Database, actor: str) -> None:
        """Allow calls again, with fresh counters, unless somebody locked meanwhile."""
        generation = self._generation
        async with self._writing:
            if generation != self._generation:
                return
            await self._store(db, replace(self._known(), **_OPEN), actor, "guard.unlock", {})
            if generation == self._generation:
                self._state = replace(self._known(), **_OPEN)
                self._minute.clear()
                self._hour.clear()

    async def configure(self, db: Database, actor: str, changes: dict[str, Any]) -> None:
        """Change the switch or the limits."""
        async with self._writing:
            await self._store(db, replace(self._known(), **changes), actor, "guard.config", changes)
            self._state = replace(self._known(), **changes)

    async def _store(self, db: Database, state: _State, actor: str, action: str, details: dict[str, Any]) -> None:
        values = {name: getattr(state, name) for name in _State.__dataclass_fields__}

        def job(conn: Any) -> None:
            conn.execute(mcp_guard.update().where(mcp_guard.c.id == 1).values(**values, updated_at=datetime.now(UTC)))
            audit.record(conn, actor, action, "mcp_guard", "1", **details)

        await db.write(job)

    def _known(self) -> _State:
        if self._state is None:
            raise Forbidden("database_locked", "The database is locked; unlock it to learn the guard's state.")
        return self._state

    def _prune(self) -> None:
        now = self._clock()
        for calls, span in ((self._minute, MINUTE), (self._hour, HOUR)):
            while calls and calls[0] <= now - span:
                calls.popleft()
