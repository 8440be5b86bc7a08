"""Many callers, one piece of work: a caller that comes while it runs gets its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Coalesced"]

T = TypeVar("T")


class Coalesced(Generic[T]):
    """Cancelling one caller does not cancel the others: the work goes on and its result is kept by the maker."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._task: asyncio.Task[T] | None = None

    async def get(self) -> T:
        task = self._task
        if task is None:
            task = self._task = asyncio.get_running_loop().create_task(self._make())
            task.add_done_callback(self._finish)
        return await asyncio.shield(task)

    def _finish(self, task: asyncio.Task[T]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # seen, even if every caller has left

    async def close(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
