"""How often each provider may be asked: a sliding window per name, on a clock that is passed in."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable

from .failures import Failure, Kind

__all__ = ["MINUTE", "Limiter"]

MINUTE = 60.0
_LONGEST_PAUSE = 3600.0  # a provider that asks for more is asked again after an hour anyway


class Limiter:
    """Slots per name; a caller waits for one as long as it is willing to, and is told how long it would take."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._taken: defaultdict[str, deque[float]] = defaultdict(deque)
        self._paused_until: dict[str, float] = {}

    async def slot(self, name: str, limit: int, patience: float, *, per_second: int | None = None) -> None:
        """Take a slot, waiting at most `patience` seconds; Failure with the time to wait if that is not enough."""
        rest = patience
        while (wait := self._wait(name, limit, per_second)) > 0:
            if wait > rest:
                raise Failure(name, Kind.RATE_LIMITED, "its rate limit is used up", retry_after=wait)
            rest -= wait
            await self._sleep(wait)
        self._taken[name].append(self._clock())

    def pause(self, name: str, seconds: float) -> None:
        """The provider itself said to wait."""
        until = self._clock() + min(max(seconds, 0.0), _LONGEST_PAUSE)
        self._paused_until[name] = max(until, self._paused_until.get(name, until))

    def _wait(self, name: str, limit: int, per_second: int | None) -> float:
        now = self._clock()
        taken = self._taken[name]
        while taken and taken[0] <= now - MINUTE:
            taken.popleft()
        waits = [self._paused_until.get(name, now) - now]
        if len(taken) >= limit:
            waits.append(taken[-limit] + MINUTE - now)
        if per_second is not None and len(taken) >= per_second:
            waits.append(taken[-per_second] + 1.0 - now)
        return max(waits)
