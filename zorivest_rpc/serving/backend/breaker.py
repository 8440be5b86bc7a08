"""A circuit breaker: while the other side is down, calls fail at once, and one from time to time has a look.

One failure of the backend is one failure here, however many requests were under way: of those that fail, only one that
was sent after the last counted failure counts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Breaker", "Share"]

_MOST_RECENT = 1024


class Share(NamedTuple):
    """Too many failures among the attempts of late, though not in a row."""

    failed: float = 0.5
    attempts: int = 10
    seconds: float = 60.0


class Breaker:
    """Opens after some failures in a row, or above a share of them, and stays open for a while that doubles with each
    failed look."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        failures: int = 5,
        pause: float = 0.5,
        longest: float = 15.0,
        share: Share | None = None,
    ) -> None:
        self._clock = clock
        self._most = failures
        self._pause = pause
        self._longest = longest
        self._failures = 0
        self._opens_again = 0.0
        self._looking = False
        self._share = share
        self._recent: deque[tuple[float, bool]] = deque(maxlen=_MOST_RECENT)  # attempts: when, and whether it failed
        self.period = 0  # from one counted failure to the next

    @property
    def is_open(self) -> bool:
        return self._failures >= self._most

    @property
    def left(self) -> float:
        """Seconds until the next look, where it is open."""
        return max(0.0, self._opens_again - self._clock()) if self.is_open else 0.0

    def wait(self) -> float:
        """0 if a request may go out now, else the seconds until one may."""
        if self._failures < self._most:
            return 0.0
        left = self._opens_again - self._clock()
        if left > 0:
            return left
        if self._looking:  # one caller is probing: its answer decides for all
            return self._pause
        self._looking = True
        return 0.0

    def hurry(self) -> None:
        """The next request goes out, however long the wait would be."""
        self._opens_again = 0.0
        self._looking = False

    def record_answer(self) -> None:
        if self._share is not None:
            if self.is_open:
                self._recent.clear()
            self._recent.append((self._clock(), False))
        self._failures = 0
        self._looking = False

    def record_failure(self, period: int | None = None) -> None:
        """`period` is what it was when the failed request was sent; without it the failure counts by itself."""
        if period is not None and period != self.period:
            return
        self.period += 1
        self._failures += 1
        self._looking = False
        if self._share is not None and not self.is_open and self._is_above(self._share):
            self._failures = self._most
        beyond = self._failures - self._most
        if beyond >= 0:
            self._opens_again = self._clock() + min(self._longest, self._pause * 2.0 ** min(beyond, 16))

    def _is_above(self, share: Share) -> bool:
        now, recent = self._clock(), self._recent
        recent.append((now, True))
        while recent[0][0] < now - share.seconds:
            recent.popleft()
        failed = sum(failed for _, failed in recent)
        return len(recent) >= share.attempts and failed >= share.failed * len(recent)

    def close(self) -> None:
        """Another process has taken the backend's place: what is known of the last one says nothing about it."""
        self.period += 1
        self._failures = 0
        self._opens_again = 0.0
        self._looking = False

    def gave_up(self) -> None:
        """A request ended without telling anything about the backend, such as one that was cancelled."""
        self._looking = False
