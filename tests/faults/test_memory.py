"""The same abuse again and again costs the same memory as once."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from tests.faults.baseline import at_rest
from tests.faults.test_clients_vanish import posted
from tests.mcp.transports.http_served import Served, call, head, listen, modern_call, modern_headers, until

ROUNDS, WARM = 3, 1
SLACK = 100_000  # bytes; one leaked stream or session per abuse would be more


async def abuse(served: Served) -> None:
    """Listeners, streams, calls and uploads that are all abandoned, and a session that is ended."""
    session = await served.open()
    await at_rest(served)
    for number in range(20):
        listening, calling, silent = listen(number), modern_call(number, "gate"), modern_call(number, "echo")
        for request in (
            posted(listening, **modern_headers(listening)),
            posted(calling, **modern_headers(calling)),
            posted(silent, **modern_headers(silent))[:-5],
            posted(call(number, "say_then_gate", "t"), Mcp_Session_Id=session),
            head("GET", "/sse", {"Accept": "text/event-stream"}),
            b"not HTTP at all\r\n\r\n",
        ):
            (await served.wire()).send(request)
        await served.started(2)
    reply = await served.request("DELETE", Mcp_Session_Id=session)
    assert reply.status == 204
    await at_rest(served)
    await served.ended(40)
    await until(lambda: served.running == 0)


async def test_abandoned_work_leaves_no_memory_behind(served: Served) -> None:
    for _ in range(WARM):
        await abuse(served)
    tasks = len(asyncio.all_tasks())
    tracemalloc.start()
    try:
        await abuse(served)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(ROUNDS):
            await abuse(served)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < SLACK
    assert len(asyncio.all_tasks()) == tasks
