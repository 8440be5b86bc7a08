"""The brake on pages that flood: refused after five hot seconds in a row, until ten have stayed below the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["CALM_SECONDS", "EVENTS_PER_SECOND", "HOT_SECONDS", "Limiter"]

EVENTS_PER_SECOND: Final = 1000
HOT_SECONDS: Final = 5
CALM_SECONDS: Final = 10


class Limiter:
    """Counts what is sent, taken or not: a page that goes on flooding stays refused."""

    def __init__(self, now: Callable[[], float], rate: int = EVENTS_PER_SECOND) -> None:
        self._now = now
        self._rate = rate
        self._second = -1
        self._count = 0
        self._hot = 0  # hot seconds in a row, the current one included
        self._last_hot = float("-inf")
        self.refuses = False

    def take(self, n: int) -> bool:
        """Whether a batch of n events is taken."""
        second = int(self._now())
        if second != self._second:
            if second != self._second + 1 or self._count <= self._rate:
                self._hot = 0
            self._second, self._count = second, 0
        before = self._count
        self._count += n
        if self._count > self._rate:
            if before <= self._rate:
                self._hot += 1
            self._last_hot = second
            if self._hot >= HOT_SECONDS:
                self.refuses = True
        if self.refuses and second - self._last_hot > CALM_SECONDS:
            self.refuses = False
        return not self.refuses
