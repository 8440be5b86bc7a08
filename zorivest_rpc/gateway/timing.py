"""The times in the life of an upstream, and the way to wait for something within one of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, NamedTuple

__all__ = ["USUAL", "Timing", "wait_for"]


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
