"""Resources of upstreams that our clients follow: one subscription upstream for all of them, ended with the last.

Nothing here waits for a server: subscribing and ending are tasks of their own, one after the other for each server, and
each looks again at what is wanted when its turn comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from zorivest_rpc.gateway.config import Server
from zorivest_rpc.gateway.errors import ToolingError
from zorivest_rpc.gateway.member import Member

__all__ = ["MERGED", "Followed"]

MOST: Final = 1_000  # resources of one server
MERGED: Final = 0.5  # seconds in which further changes of a resource are told as one
_log: Final = logging.getLogger(__name__)


class Followed:
    """`locate` finds the server of a published URI; `announce` tells that the resource of a published URI changed."""

    def __init__(
        self,
        members: Mapping[str, Member],
        locate: Callable[[str], tuple[Server | None, str]],
        announce: Callable[[str], None],
        *,
        merged: float = MERGED,
    ) -> None:
        self._merged = merged
        self._members = members
        self._locate = locate
        self._announce = announce
        self._published: dict[tuple[str, str], dict[str, Callable[[], bool]]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet: dict[tuple[str, str], asyncio.TimerHandle] = {}  # was told just now
        self._again: set[tuple[str, str]] = set()  # has changed since
        self._is_closed = False

    def watch(self, uri: str, wanted: Callable[[], bool]) -> None:
        """The first subscriber of a published URI has come."""
        server, theirs = self._locate(uri)
        if server is not None:
            self.follow(server.name, theirs, uri, wanted)

    def follow(self, server: str, theirs: str, uri: str, wanted: Callable[[], bool]) -> None:
        """Announce `uri` when the resource that this server calls `theirs` changes, as long as it is wanted."""
        self._published.setdefault((server, theirs), {})[uri] = wanted
        self._spawn(server, theirs)

    def unwatch(self, uri: str) -> None:
        """A subscriber of a published URI has gone; it may have been the last."""
        for (server, theirs), followed in list(self._published.items()):
            if uri in followed:
                self._spawn(server, theirs)

    def touched(self, server: str, theirs: str) -> None:
        """The upstream says that a resource changed. The first word is told at once; one that says so all the time
        would fill the way to our clients with it."""
        key = (server, theirs)
        if key in self._quiet:
            self._again.add(key)
        elif key in self._published and not self._is_closed:
            self._tell(key)

    def _tell(self, key: tuple[str, str]) -> None:
        if self._merged:
            self._quiet[key] = asyncio.get_running_loop().call_later(self._merged, self._end_quiet, key)
        for uri in list(self._published.get(key, ())):
            self._announce(uri)

    def _end_quiet(self, key: tuple[str, str]) -> None:
        del self._quiet[key]
        if key in self._again:
            self._again.discard(key)
            self._tell(key)

    async def close(self) -> None:
        self._is_closed = True
        for timer in self._quiet.values():
            timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, server: str, theirs: str) -> None:
        if self._is_closed:
            return
        task = asyncio.get_running_loop().create_task(self._settle(server, theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, server: str, theirs: str) -> None:
        async with self._locks.setdefault(server, asyncio.Lock()):
            member = self._members.get(server)
            followed = self._published.get((server, theirs), {})
            for uri in [uri for uri, wanted in followed.items() if not wanted()]:
                del followed[uri]
            if not followed:
                self._published.pop((server, theirs), None)
            is_wanted = bool(followed)
            if member is None or is_wanted == (theirs in member.followed):
                return
            if is_wanted and len(member.followed) >= MOST:
                _log.warning('MCP server "%s": more than %d resources are followed at once', server, MOST)
                return
            try:
                await member.follow(theirs, is_wanted)
            except ToolingError as error:
                _log.info('MCP server "%s": %s cannot be followed: %s', server, theirs[:200], error.problem)
