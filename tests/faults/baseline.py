"""What a server holds, so that a test can wait until it holds no more than before."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import NamedTuple

from tests.mcp.transports.http_served import LONG, Served


class Held(NamedTuple):
    tasks: int
    descriptors: int
    connections: int
    streams: int
    running: int
    listeners: int
    sessions: int
    conversations: int


def connections(served: Served) -> int:
    assert served.transport._aiohttp is not None
    return len(served.transport._aiohttp.connections)


def held(served: Served) -> Held:
    gc.collect()
    transport, server = served.transport, served.server
    return Held(
        len(asyncio.all_tasks()),
        len(os.listdir("/proc/self/fd")),
        connections(served),
        len(transport._streams),
        served.running,
        len(server.announcer._listeners),
        len(transport.sessions),
        len(server.announcer._standing) + len(server.conversations),
    )


async def back_to(before: Held, served: Served) -> None:
    """Wait until nothing more is held than before, or say what is."""
    try:
        async with asyncio.timeout(LONG):
            while connections(served) != before.connections or held(served) != before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    except TimeoutError:
        assert held(served) == before


async def let_go(served: Served) -> None:
    """The client's side of every connection is gone."""
    for wire in served.wires:
        wire.writer.transport.abort()
        await wire.close()
    served.wires.clear()


async def at_rest(served: Served) -> Held:
    """What is held once no client is connected any more."""
    await let_go(served)
    async with asyncio.timeout(LONG):
        while connections(served):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return held(served)
