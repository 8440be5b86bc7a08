"""Watches the guard for its subscribers: every lock and unlock is announced, whatever its source.

The backend is asked only for subscribers. The embedded one holds the question until its guard changes, so the
news arrives at once and an idle watch costs one request in half a minute. A backend that does not know how to wait
answers at once and is asked again after some seconds. Counting calls is no change; the lock, its reason, the switch
and the limits are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from zorivest_rpc.errors import BackendError, ConfigError, ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["WAIT", "GuardWatch"]

WAIT: Final = 25  # seconds that the backend may hold a question
_POLL: Final = 5.0  # seconds between two looks at a backend that does not wait
_AFTER_FAILURE: Final = 2.0
_COUNTS: Final = frozenset(("call_count", "recent_calls_1min", "recent_calls_1hr", "version"))

Look = Callable[[str | None], Awaitable[Json]]
"""The guard's state; with the version that is known already, as soon as it is another one."""


class GuardWatch:
    """`changed` is told that the guard is not what it was; `want` keeps the watch going while its argument says yes."""

    def __init__(
        self,
        look: Look,
        changed: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        poll: float = _POLL,
        after_failure: float = _AFTER_FAILURE,
    ) -> None:
        self._poll = poll
        self._after_failure = after_failure
        self._look = look
        self._changed = changed
        self._clock = clock
        self._wanted: set[Callable[[], bool]] = set()
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._known: dict[str, Json] = {}
        self._version: str | None = None
        self._has_looked = False

    def want(self, wanted: Callable[[], bool]) -> None:
        self._wanted.add(wanted)
        if self._task is None or self._task.done():
            self._version, self._has_looked = None, False
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def note(self, state: Json) -> None:
        """A client was shown this state: the next state that differs from it is announced."""
        if isinstance(state, dict) and not (self._is_watching and self._has_looked):
            self._known = _render_state(state)

    def wake(self, locked: bool) -> None:
        """A call found the guard, or left it, like this: if that is news, look now."""
        if self._is_watching and self._known.get("is_locked", False) is not locked:
            self._woken.set()

    @property
    def _is_watching(self) -> bool:
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        while self._still_wanted():
            begun, before = self._clock(), self._version
            state = await self._next()
            if state is None:
                await self._pause(self._after_failure)
                continue
            self._compare(state)
            if self._version == before and self._clock() - begun < 1.0:
                await self._pause(self._poll)

    async def _next(self) -> dict[str, Json] | None:
        """The next state, or None where it cannot be known; a wake-up asks anew."""
        self._woken.clear()
        asking = asyncio.ensure_future(self._look(self._version))
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait([asking, waking], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])
                state = await self._look(None)
            else:
                state = asking.result()
        except (ToolError, BackendError, ConfigError, TimeoutError, asyncio.CancelledError) as exc:
            if isinstance(exc, asyncio.CancelledError) and asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return None
        finally:
            for left in (asking, waking):
                left.cancel()
            await asyncio.wait([asking, waking])
        return state if isinstance(state, dict) and isinstance(state.get("is_locked"), bool) else None

    def _compare(self, state: dict[str, Json]) -> None:
        version = state.get("version")
        known, before = self._known, self._version
        self._known, self._has_looked = _render_state(state), True
        self._version = version if isinstance(version, str) else None
        # before any client was shown a state, open is the expected one
        differs = self._known != known if known else state["is_locked"]
        if differs or _has_moved(before, self._version):
            self._changed()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _still_wanted(self) -> bool:
        self._wanted = {wanted for wanted in self._wanted if wanted()}
        return bool(self._wanted)


def _render_state(state: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in state.items() if name not in _COUNTS}


def _has_moved(before: str | None, now: str | None) -> bool:
    """Whether the same process counted a change meanwhile, also one that was taken back."""
    if before is None or now is None or before == now:
        return False
    return before.partition(".")[0] == now.partition(".")[0]
