"""Run a coroutine at once, and make a task of it only where it suspends.

Most requests never wait, and a task costs more than all the rest of answering them. From Python 3.12 on asyncio
can do this itself; on 3.11 the first step is made by hand, with a stand-in for the current task, because
`asyncio.timeout`, `TaskGroup` and aiohttp ask for one during that step.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

__all__ = ["begin"]

T = TypeVar("T")

if sys.version_info >= (3, 12):

    def begin(coro: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T | asyncio.Task[T]:
        """The coroutine's value, or its exception, if it ends without waiting; else the task that goes on with it."""
        task = asyncio.Task(coro, loop=loop, eager_start=True)
        return task.result() if task.done() else task

else:
    from asyncio.tasks import _current_tasks  # type: ignore[attr-defined]

    def begin(coro: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T | asyncio.Task[T]:
        """The coroutine's value, or its exception, if it ends without waiting; else the task that goes on with it."""
        strand = _spare.pop() if _spare else _Strand()
        before = _current_tasks.get(loop)
        _current_tasks[loop] = strand
        try:
            yielded = coro.send(None)
        except StopIteration as stop:
            if not strand.cancelled_early:
                _spare.append(strand)  # nobody waits on it: what asked for it during the step has ended with it
            return stop.value  # type: ignore[no-any-return]
        finally:
            if before is None:
                _current_tasks.pop(loop, None)
            else:
                _current_tasks[loop] = before
        task = loop.create_task(_rest(coro, yielded))
        strand.task = task
        if strand.cancelled_early:
            loop.call_soon(task.cancel)  # a direct cancel would hit the wrapper before its first step
        return task

    @types.coroutine
    def _rest(coro: Coroutine[Any, Any, T], yielded: Any) -> Generator[Any, Any, T]:
        """Hand out the future that the first step waits for, then go on as the coroutine itself."""
        while True:
            try:
                yield yielded
            except BaseException as exc:  # cancelled before the first wake-up
                try:
                    yielded = coro.throw(exc)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
            else:
                return (yield from coro)  # type: ignore[no-any-return]

    class _Strand:
        """The current task of a first step: forwards to the task once there is one."""

        __slots__ = ("_requests", "cancelled_early", "task")

        def __init__(self) -> None:
            self.task: asyncio.Task[Any] | None = None
            self.cancelled_early = False
            self._requests = 0

        def cancel(self, msg: Any = None) -> bool:
            if self.task is not None:
                return self.task.cancel(msg)
            self.cancelled_early = True
            self._requests += 1
            return True

        def cancelling(self) -> int:
            return self._requests if self.task is None else self.task.cancelling()

        def uncancel(self) -> int:
            if self.task is not None:
                return self.task.uncancel()
            self._requests = max(0, self._requests - 1)
            self.cancelled_early = self._requests > 0
            return self._requests

        def __getattr__(self, name: str) -> Any:
            if self.task is None:
                raise AttributeError(f"{name} is not known of a task before it suspends")
            return getattr(self.task, name)

        def done(self) -> bool:
            return self.task is not None and self.task.done()

        def get_name(self) -> str:
            return "first step" if self.task is None else self.task.get_name()

    _spare: list[_Strand] = []
