"""Slows down guessing: one attempt at a time, and after a few wrong ones a pause that doubles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import TooMany, Unauthorized

__all__ = ["Attempts"]

T = TypeVar("T")

FREE = 5
LONGEST = 60.0


class Attempts:
    """The attempts at one secret; `clock` is monotonic. A right one forgets the wrong ones before it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong = 0
        self._closed_until = 0.0
        self._one = asyncio.Lock()  # stretching a guess takes 64 MiB; a crowd of them would take the machine

    async def make(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """429 during a pause, without looking; else what the attempt gives."""
        async with self._one:
            rest = self._closed_until - self._clock()
            if rest > 0:
                raise TooMany("too_many_attempts", f"Too many wrong attempts; try again in {rest:.0f} seconds.")
            try:
                result = await attempt()
            except Unauthorized:
                self._wrong += 1
                if self._wrong >= FREE:
                    self._closed_until = self._clock() + min(LONGEST, 2.0 ** (self._wrong - FREE))
                raise
            self._wrong = 0
            return result
