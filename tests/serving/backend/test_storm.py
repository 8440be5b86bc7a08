"""Everything goes wrong at once: still every call ends, no write is done twice, and nothing is left over."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from tests.serving.backend.conftest import Make
from tests.serving.backend.misbehaving import (
    Misbehaving,
    Seen,
    Write,
    answer,
    endless,
    hang_up,
    never,
    reset_mid_body,
)
from zorivest_rpc.errors import BackendError, OutcomeUnknown, ToolError
from zorivest_rpc.serving.backend.breaker import Breaker
from zorivest_rpc.serving.backend.interface import Reply, Request
from zorivest_rpc.serving.backend.limits import BackendLimits

FAULTS = [
    hang_up,
    reset_mid_body,
    endless,
    never,
    answer(b"<html>", 502, "text/html"),
    answer({"detail": "boom"}, 500),
    answer({"error": "session_unknown", "detail": "unlock"}, 401),
    answer(b"{", 200),
    answer(b"hello", 200, "text/html"),
]


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_of_every_fault_ends_and_doubles_nothing(server: Misbehaving, make: Make, seed: int) -> None:
    random = Random(seed)
    done: Counter[str] = Counter()

    async def weather(seen: Seen, write: Write) -> bool:
        """A write counts as done unless it was refused for want of a session."""
        behave = random.choice([*FAULTS, *[answer({"ok": True})] * 6])
        if seen.method != "GET" and behave is not FAULTS[6]:
            done[seen.path] += 1
        return await behave(seen, write)

    async def vault(seen: Seen, write: Write) -> bool:
        behave = random.choice([hang_up, *[answer({"session_token": "tok_1", "expires_in": 3600})] * 4])
        return await behave(seen, write)

    server.otherwise = weather
    server.routes["/auth/unlock"] = vault
    limits = BackendLimits(total=0.5, connections=8, body=100_000)
    backend = make(server.url, "zrv_sk_a", limits=limits, breaker=Breaker(failures=1_000_000))
    methods = ["GET", "POST", "PUT", "DELETE"]
    asks = [backend.ask(Request(random.choice(methods), f"/thing/{number}", body={})) for number in range(60)]
    async with asyncio.timeout(20):
        results = await asyncio.gather(*asks, return_exceptions=True)
    assert all(isinstance(result, (Reply, ToolError)) for result in results)
    assert {type(result) for result in results} >= {Reply, BackendError, OutcomeUnknown}
    assert max(done.values()) == 1
    assert backend.in_flight == 0
    await backend.close()
    async with asyncio.timeout(5):
        await server.all_gone.wait()


@pytest.mark.parametrize("seed", range(4))
async def test_calls_that_are_cancelled_at_any_moment_leave_a_working_pool(
    server: Misbehaving, make: Make, seed: int
) -> None:
    random = Random(seed)
    server.routes["/auth/unlock"] = answer({"session_token": "tok_1", "expires_in": 3600})
    server.otherwise = answer({"ok": True})
    backend = make(server.url, "zrv_sk_a", limits=BackendLimits(connections=2))
    for _ in range(30):
        task = asyncio.create_task(backend.ask(Request("GET", "/x")))
        for _ in range(random.randrange(12)):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}
    assert backend.in_flight == 0
    await backend.close()
    async with asyncio.timeout(5):
        await server.all_gone.wait()
