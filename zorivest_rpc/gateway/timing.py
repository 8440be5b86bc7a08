"""The times in the life of an upstream, and the way to wait for something within one of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, NamedTuple

from zorivest_rpc.gateway.errors import NoAnswer

__all__ = ["USUAL", "Limit", "Pace", "Timing", "wait_for"]


class Timing(NamedTuple):
    """Seconds; a test has others."""

    merged: float = 0.5  # changes that come together are one
    between_lists: float = 5.0
    retried: float = 60.0  # a server that failed all attempts
    idle: float = 60.0  # before its health is asked for
    shortest_ttl: float = 30.0
    withdrawn: float = 60.0  # tools of an open circuit stay listed that long
    circuit: float = 30.0
    longest_circuit: float = 300.0


USUAL: Final = Timing()
_SHARE: Final = 0.1  # of the time
_FREE: Final = 0.4  # seconds at once: some ten thousand messages
_LONGEST_REST: Final = 0.5  # the last words of a child that ended are waited for a second


class Pace:
    """How long to look away from a server that says much and answers nothing, so that it takes a share of the time of
    this process and no more: everything else waits while its words are read."""

    __slots__ = ("_debt", "_since")

    def __init__(self) -> None:
        self._debt = 0.0  # seconds that its words took, and that no time has paid for yet
        self._since = 0.0

    def charge(self, spent: float, now: float) -> float:
        """Seconds to look away, after words that took so many to read."""
        self._debt = max(0.0, self._debt - (now - self._since) * _SHARE) + spent
        self._since = now
        return min(_LONGEST_REST, max(0.0, self._debt - _FREE) / _SHARE)


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    """Until the event is set, or that long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Limit:
    """A deadline of connecting or listing; NoAnswer when it has passed."""

    __slots__ = ("_deadline", "_name", "_scope", "_seconds")

    def __init__(self, name: str, deadline: float | None, seconds: float) -> None:
        self._name = name
        self._deadline = deadline
        self._seconds = seconds

    async def __aenter__(self) -> None:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        self._scope = asyncio.timeout_at(self._deadline)
        await self._scope.__aenter__()

    async def __aexit__(self, kind: Any, exc: Any, trace: Any) -> None:
        try:
            await self._scope.__aexit__(kind, exc, trace)
        except TimeoutError:
            raise NoAnswer(self._name, round(self._seconds)) from None
