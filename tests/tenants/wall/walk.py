"""Random walks along the wall: many callers, tenants, eras and kinds of request at once, and a look at every answer.

`python -m tests.tenants.wall.walk 100000` takes that many steps; the tests take some thousand, on the wall as it is and
on walls from which one brick was taken. Some callers have a process of their own on pipes; these walls are whole."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.tenants.wall.eye import Expected, Leak, LogEye, check, check_files
from tests.tenants.wall.keyed import KEYS, Listener, OverHttp
from tests.tenants.wall.neighbours import Neighbours, neighbours
from tests.tenants.wall.pages import Pages
from tests.tenants.wall.piped import OverPipe, open_talk, pipe
from tests.tenants.wall.stage import LEGACY, MODERN, Served, access_rule, config_of, environ_of, served
from tests.tenants.wall.walker import BOUNDED, DOES_TASKS, ELICITS, PAGED, TENANTS, Place, Walker
from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.server import Server

__all__ = ["TRIED", "Expected", "Leak", "walk"]

ABLE = {**ELICITS, **DOES_TASKS}
CONVERSATIONS: tuple[tuple[str, dict[str, Any]], ...] = ((LEGACY, ELICITS), (MODERN, ELICITS), (MODERN, DOES_TASKS))
LIMITS: dict[str, Any] = {BOUNDED: {"toolsets": ["tax"]}}
_SHARE = 3  # callers on one pipe
TRIED = frozenset(
    {
        "a legacy client was asked",
        "a note of another was not found",
        "a page was shown",
        "a session was refused to another key",
        "a state was refused to another",
        "a stream was replayed to its caller",
        "a task asked",
        "a task ended",
        "a task was refused to another",
        "a token was refused for another",
        "a token was refused to another",
        "an event was heard",
        "every guard of a caller was locked",
        "trades were offered",
    }
)
"""What a walk of some thousand steps has to have come across."""


def check_figures(place: Served, others: Neighbours, expected: Expected, processes: bool) -> None:
    """As many calls are counted for each tenant as were made for it."""
    text = place.journal.pipeline().metrics.prometheus(TENANTS)
    counted = Counter[str]()
    for tenant, number in re.findall(r'calls_total\{tool="[^"]+",tenant="([^"]+)"\} (\d+)', text):
        counted[tenant] += int(number)
    for tenant, number in expected.calls.items():
        check(processes or counted[tenant] >= number, f"{counted[tenant]} calls of {tenant} counted", number)
    for tenant in TENANTS:
        own = place.backends.seen[tenant]
        check({each.client for each in own} <= {f"header-{tenant}"}, "another's header", tenant)
        locks = sum(each.path == "/mcp-guard/lock" for each in own)
        check(locks == expected.locks[tenant], f"{tenant} was locked {locks} times", expected.locks[tenant])
        calls = others.own.calls[tenant]
        check(calls == expected.forwarded[tenant], f"{calls} calls for {tenant}", expected.forwarded[tenant])


@asynccontextmanager
async def watched_log(expected: Expected) -> AsyncIterator[None]:
    """Every line that this process logs meanwhile is looked at; without it each answer that fits no schema shows."""
    root, eye = logging.getLogger(), LogEye(expected)
    level = root.level
    root.addHandler(eye)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(eye)
        root.setLevel(level)


async def _join_pipes(stack: AsyncExitStack, data: Path, made: Place, rng: random.Random) -> list[Walker]:
    """A process of each era, and callers that share its pipe."""
    walkers: list[Walker] = []
    for revision in (LEGACY, MODERN):
        own = data / f"pipe-{revision}"
        own.mkdir()
        keys = environ_of(config_of(made.backends.port, TENANTS, **LIMITS))
        telemetry = {"ZORIVEST_TELEMETRY": str(own / "telemetry.jsonl"), "ZORIVEST_TELEMETRY_CAPTURE_CONTENT": "1"}
        environ = {"HOME": str(own), **keys, **made.others.environ, **telemetry}
        log = ["--log-file", str(own / "server.log"), "--log-level", "info"]
        options = ["--data-dir", str(own), "--config", made.others.write(own), "--toolsets", "all,devtools", *log]
        wire = await stack.enter_async_context(pipe([*options, "--devtools-port", "0"], environ))
        place = Place(made.backends, made.others, made.pages, made.expected)
        talk = await open_talk(wire, revision, ABLE if revision == MODERN else ELICITS, place)
        stack.push_async_callback(talk.client.close)
        place.pages = await stack.enter_async_context(Pages.connect(own, PAGED))
        callers = range(_SHARE)
        walkers += [OverPipe(talk, random.Random(rng.random()), place, f"pipe-{revision}") for _ in callers]
        await _wait_for_others(talk.client)
    return walkers


async def _wait_for_others(client: Any) -> None:
    """Until the servers that the process connects to are there: what they offer is listed then."""
    async with asyncio.timeout(30):
        while True:
            listed = (await client.request("tools/list", {}))["result"]["tools"]
            if sum(tool["name"].startswith("own__of_") for tool in listed) == len(set(OWN) - {BOUNDED}):
                return
            await asyncio.sleep(0.02)


SOME, OWN = TENANTS[:6], TENANTS[1:12]


async def walk(patch: pytest.MonkeyPatch, data: str, steps: int, seed: int, *, processes: bool = False) -> Expected:
    rules = [access_rule(key, "*" if key == "key-all" else ids, f"desk {key[4:]}") for key, ids in KEYS.items()]
    expected, rng, directory = Expected(), random.Random(seed), Path(data)
    telemetry = {"ZORIVEST_TELEMETRY": f"{data}/telemetry.jsonl", "ZORIVEST_TELEMETRY_CAPTURE_CONTENT": "1"}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(watched_log(expected))
        others = await stack.enter_async_context(neighbours(SOME, OWN, expected.faults))
        follows = ["--exposure", "filter", "--exposure-trading", "on"] if seed % 2 else []
        options = ["--config", others.write(directory), "--toolsets", "all,devtools", *follows]
        environ = {**others.environ, **telemetry}
        house = served(patch, data, TENANTS, *options, access=rules, environ=environ, **LIMITS)
        place = await stack.enter_async_context(house)
        place.journal.start_upstreams()
        gateway, tenancy = place.journal.gateway(), place.journal.tenancy
        assert gateway is not None
        assert tenancy is not None
        await gateway.settle(30)
        pages = await stack.enter_async_context(Pages.connect(directory, PAGED))
        made = Place(place.backends, others, pages, expected)
        # the same journal as a process over stdio has it: a caller without a key, to whom all is granted
        tenancy.resolver._grants[""] = tenancy.resolver.grants(tenancy.resolver.find_principal("key-all") or "")
        server = Server(place.journal.offer, limits=Limits(per_client=10_000, per_server=10_000))
        walkers: list[Walker] = []
        for revision, able in CONVERSATIONS:
            talk = await open_talk(server, revision, able, made)
            stack.push_async_callback(talk.client.close)
            walkers.append(OverPipe(talk, random.Random(rng.random()), made, "memory"))
        if processes:
            walkers += await _join_pipes(stack, directory, made, rng)
        desks = [place.desk(key)._replace(able=able) for key in KEYS for able in (ELICITS, ABLE)]
        for desk in desks:
            ids = KEYS[str(desk.key)]
            walkers.append(OverHttp(desk, ids, desks, random.Random(rng.random()), made))
            if desk.able == ABLE:
                await stack.enter_async_context(Listener(desk, ids, made).listening())
        await _go(walkers, steps)
        check_figures(place, others, expected, processes)
        await server.stop(list(server.conversations), 0)
    expected.raise_faults()
    lines = check_files(directory) + sum(check_files(directory / f"pipe-{era}") for era in (LEGACY, MODERN))
    check(lines, "nothing was written", data)
    return expected


async def _go(walkers: list[Walker], steps: int) -> None:
    each = steps // len(walkers) + 1

    async def go(walker: Walker) -> None:
        for _ in range(each):
            await walker.step()

    async with asyncio.TaskGroup() as group:
        for walker in walkers:
            group.create_task(go(walker))


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    began = time.perf_counter()
    print(f"{steps} steps along the wall between {len(TENANTS)} tenants, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as data, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", data)
        done = asyncio.run(walk(patch, data, steps, seed, processes=True))
    for what, times in sorted(done.done.items()):
        print(f"{times:7} times {what}")
    print(f"{done.steps} steps in {time.perf_counter() - began:.0f} s: nothing of one tenant reached another")


if __name__ == "__main__":
    main()
