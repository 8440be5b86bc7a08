"""How soon a child that ended may be started again: at longer and longer intervals, and five times in five minutes."""

from __future__ import annotations

from collections import deque
from typing import Final

__all__ = ["Restarts"]

_FIRST: Final = 0.5
_LONGEST: Final = 30.0
_MOST: Final = 5
_WITHIN: Final = 300.0
_TICK: Final = 0.002  # timers count in milliseconds: who waited may be back a moment before the time


class Restarts:
    """The ends of one child of late."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque(maxlen=_MOST + 1)
        self._streak = 0  # ends that followed each other within five minutes

    def note_end(self, now: float) -> None:
        self._streak = self._streak + 1 if self._count(now) else 1
        self._ends.append(now)

    def too_many(self, now: float) -> bool:
        return self._count(now) > _MOST

    def wait(self, now: float) -> float:
        """Seconds until it may be started again."""
        count = self._count(now)
        if not count:
            return 0.0
        if count > _MOST:  # not before one of these ends is five minutes old
            left = self._ends[0] + _WITHIN - now
        else:
            left = self._ends[-1] + min(_LONGEST, _FIRST * 2.0 ** (self._streak - 1)) - now
        return left if left > _TICK else 0.0

    def _count(self, now: float) -> int:
        while self._ends and self._ends[0] <= now - _WITHIN:
            self._ends.popleft()
        return len(self._ends)
