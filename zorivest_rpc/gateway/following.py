"""A stream of changes that is kept open: opened, followed, and opened again after a while when it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.gateway.errors import ToolingError

__all__ = ["Follower"]

_FIRST: Final = 1.0
_LONGEST: Final = 60.0
_PATIENCE: Final = 1.0  # some servers send the head of a stream with its first event


class Follower:
    """`stream` opens the stream, calls its argument once it is open, and returns when it has ended: True, if it may be
    opened again. `on_reopened` is called after each opening but the first, since changes may have been missed."""

    def __init__(
        self,
        stream: Callable[[Callable[[], None]], Awaitable[bool]],
        on_reopened: Callable[[], None],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._stream = stream
        self._on_reopened = on_reopened
        self._pause = pause
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # the first attempt is open, or has failed
        self._openings = 0
        self.is_open = False

    async def start(self) -> None:
        """Return when the stream is open, or is known not to be, or takes long to be either."""
        await self.stop()
        self._settled.clear()
        self._task = asyncio.get_running_loop().create_task(self._run())
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._settled.wait()

    async def ensure(self) -> None:
        """Start, unless that was done before, whatever became of it."""
        if self._task is None:
            await self.start()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self.is_open = False

    def _note_open(self) -> None:
        self.is_open = True
        self._openings += 1
        self._settled.set()
        if self._openings > 1:
            self._on_reopened()

    async def _run(self) -> None:
        delay = _FIRST
        clock = asyncio.get_running_loop().time
        try:
            while True:
                began, again = clock(), True
                with suppress(ToolingError, ProtocolError):
                    again = await self._stream(self._note_open)
                was_open, self.is_open = self.is_open, False
                if not again:
                    return
                self._settled.set()
                if was_open and clock() - began > _LONGEST:
                    delay = _FIRST
                await self._pause(delay)
                delay = min(2 * delay, _LONGEST)
        finally:
            self.is_open = False
            self._settled.set()
