"""The times in the life of an upstream, and the way to wait for something within one of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, NamedTuple

from zorivest_rpc.gateway.errors import NoAnswer

__all__ = ["USUAL", "Limit", "Timing", "wait_for"]


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
