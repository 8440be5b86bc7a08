"""The connection to one upstream: opened when it is needed, replaced when it failed, one at a time.

What was replaced keeps the calls that are under way on it, and is closed once they are over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from zorivest_rpc.gateway.config import Server
from zorivest_rpc.gateway.errors import StdioExited
from zorivest_rpc.gateway.restarts import Restarts
from zorivest_rpc.gateway.upstream import Ended, Happening, Upstream
from zorivest_rpc.mcp.protocol.revisions import Era

__all__ = ["Link", "Make"]

Make: TypeAlias = Callable[[Server, Callable[[Happening], None]], Upstream]


class Link:
    """`hear` is told what happens between calls, `opened` is awaited with each new connection. `era` is what an earlier
    run found, `remember` is told what this one finds."""

    def __init__(
        self,
        server: Server,
        make: Make,
        *,
        hear: Callable[[Happening], None],
        opened: Callable[[Upstream], Awaitable[None]],
        era: Era | None,
        remember: Callable[[Era], None],
        clock: Callable[[], float],
    ) -> None:
        self.current: Upstream | None = None
        self.exit: StdioExited | None = None  # the latest end of a child
        self._server = server
        self._make = make
        self._hear = hear
        self._opened = opened
        self._era = era
        self._remember = remember
        self._clock = clock
        self._restarts = Restarts()
        self._retired: list[Upstream] = []  # no new call goes to one of these
        self._opening = asyncio.Lock()

    # --- what is known

    @property
    def is_modern(self) -> bool | None:
        """Of the server as it is connected; None where it is not."""
        welcome = self.current.welcome if self.current is not None else None
        return None if welcome is None else welcome.revision.modern

    @property
    def era(self) -> str | None:
        """The one that is spoken, or that was found last."""
        welcome = self.current.welcome if self.current is not None else None
        if welcome is not None:
            return str(welcome.revision.era.value)
        return None if self._era is None else self._era.value

    @property
    def restart_left(self) -> float:
        """Seconds until a child that ended may be started again."""
        return self._restarts.wait(self._clock())

    @property
    def ends_too_often(self) -> bool:
        return self._restarts.too_many(self._clock())

    @property
    def is_told_of_tools(self) -> bool:
        return self.current is not None and self.current.is_told_of_tools

    @property
    def has_retired(self) -> bool:
        return bool(self._retired)

    # --- one connection after another

    async def connect(self) -> Upstream:
        found = self.current
        if found is None:
            async with self._opening:  # a call and a discovery may want it at the same time
                found = self.current
                if found is None:
                    found = self.current = await self._open()
                    await self._opened(found)
        return found

    async def _open(self) -> Upstream:
        if self.exit is not None and self.restart_left > 0:
            raise StdioExited(self._server.name, self.exit.status, sent=False)
        await self.close_retired()
        made: list[Upstream] = []
        found = self._make(self._server, lambda happening: self._take(happening, made))
        made.append(found)
        found.era_found = self._era
        try:
            await found.connect()
        except BaseException:
            await found.close()
            raise
        if found.era_found is not None and found.era_found is not self._era:
            self._era = found.era_found
            await asyncio.to_thread(self._remember, self._era)
        return found

    def _take(self, happening: Happening, made: list[Upstream]) -> None:
        if isinstance(happening, Ended):
            if made and made[0] in self._retired:
                return  # its successor lives
            self.retire()
            self.exit = StdioExited(self._server.name, happening.status)
            self._restarts.note_end(self._clock())
        self._hear(happening)

    def retire(self) -> None:
        """Connect anew the next time; what is under way may still end well."""
        if self.current is not None:
            self._retired.append(self.current)
            self.current = None

    async def close_retired(self) -> None:
        idle = [each for each in self._retired if not each.is_busy]
        self._retired = [each for each in self._retired if each.is_busy]
        for each in idle:
            await each.close()

    async def close(self) -> None:
        self.retire()
        while self._retired:
            await self._retired.pop().close()
