"""Run a coroutine at once, and make a task of it only where it suspends.

Most requests never wait, and a task costs more than all the rest of answering them. From Python 3.12 on asyncio
can do this itself; on 3.11 the first step is made by hand, with a stand-in for the current task, because
`asyncio.timeout`, `TaskGroup` and aiohttp ask for one during that step.
"""

from __future__ import annotations

import asyncio
import sys
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
                _spare.append(strand)  # nothing waits on it: what asked for it during the step has ended with it
            return stop.value  # type: ignore[no-any-return]
        finally:
            if before is None:
                _current_tasks.pop(loop, None)
            else:
                _current_tasks[loop] = before
        task = loop.create_task(_Rest(coro, yielded))
        strand.task = task
        if strand.cancelled_early:
            task.cancel()
        return task

    class _Rest(Coroutine[Any, Any, T]):
        """Hands out the future that the first step waits for, then is the coroutine itself.

        A class, because a task that is cancelled before its own first step throws, and into a generator that has not
        begun nothing can be thrown that would reach the coroutine."""

        __slots__ = ("_coro", "_waiting", "_yielded")

        def __init__(self, coro: Coroutine[Any, Any, T], yielded: Any) -> None:
            self._coro = coro
            self._yielded = yielded
            self._waiting = True

        def send(self, value: Any) -> Any:
            if self._waiting:
                self._waiting = False
                yielded, self._yielded = self._yielded, None
                return yielded
            return self._coro.send(value)

        def throw(self, *exc: Any) -> Any:
            self._waiting = False
            return self._coro.throw(*exc)

        def close(self) -> None:
            self._coro.close()

        def __await__(self) -> Generator[Any, Any, T]:
            raise RuntimeError("only a task runs this")

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
