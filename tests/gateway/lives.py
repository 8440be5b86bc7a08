"""One upstream over time, by a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import Fake, Seen, calling, serving
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.eras import Eras
from zorivest_rpc.gateway.errors import ToolingError
from zorivest_rpc.gateway.examine import judge_tools
from zorivest_rpc.gateway.member import Member, Timing
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry

TIMING = Timing(merged=0.0, between_lists=0.0)


class Clock:
    """Time that stands still until it is moved; what waits by it is woken in its turn."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waits: list[float] = []  # until when the member waits
        self.moved = asyncio.Event()
        self.idle = asyncio.Event()  # the member waits

    def __call__(self) -> float:
        return self.time

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        until = self.time + seconds
        self.waits.append(seconds)
        while not event.is_set() and self.time < until:
            self.moved.clear()
            self.idle.set()
            tasks = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.moved.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        self.idle.clear()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(0)

    async def settle(self) -> None:
        """The member has done what was due and waits."""
        async with asyncio.timeout(30):
            await self.idle.wait()

    async def move(self, seconds: float) -> None:
        await self.settle()
        self.time += seconds
        self.idle.clear()
        self.moved.set()
        await self.settle()


class Life:
    """A member, its clock, and what became of it."""

    def __init__(self, member: Member, clock: Clock, telemetry: Path, directory: Path) -> None:
        self.member = member
        self.clock = clock
        self.directory = directory
        self._telemetry = telemetry

    @property
    def state(self) -> tuple[str, bool]:
        return self.member.offered.status, self.member.offered.is_listed

    def events(self, prefix: str = "mcp.circuit") -> list[str]:
        lines = self._telemetry.read_text().splitlines()
        return [event["event"] for event in map(json.loads, lines) if event["event"].startswith(prefix)]

    async def fail(self, times: int) -> list[str]:
        codes = []
        for _ in range(times):
            with pytest.raises(ToolingError) as failed:
                await self.member.call(calling("x"), repeatable=False)
            codes.append(failed.value.code)
        return codes


@asynccontextmanager
async def life(
    directory: Path, server: Server, environ: dict[str, str] | None = None, timing: Timing = TIMING, **keys: Any
) -> AsyncIterator[Life]:
    profile = Profile(mcp_servers=(server,), **{"pin": "off", "tool_retry_attempts": 1, **keys})
    pins, clock, eras = Pins(str(directory)), Clock(), Eras(str(directory))
    member = Member(
        profile,
        server,
        make=lambda server, note: make_upstream(server, environ or {}, on_happening=note),
        judge=lambda server, listing: judge_tools(profile, server.name, listing, pins),
        changed=lambda: None,
        telemetry=Telemetry(str(directory / "telemetry.jsonl"), Redactor()),
        timing=timing,
        era=eras.known(profile, server),
        remember=lambda era: eras.remember(profile, server, era),
        random=lambda: 0.5,
        clock=clock,
        pause=clock.pause,
        wait=clock.wait,
    )
    member.start()
    try:
        await clock.settle()
        yield Life(member, clock, directory / "telemetry.jsonl", directory)
    finally:
        await member.close()


@asynccontextmanager
async def living(directory: Path, fake: Fake, **keys: Any) -> AsyncIterator[Life]:
    entry = {name.removeprefix("server_"): keys.pop(name) for name in list(keys) if name.startswith("server_")}
    async with serving(fake.handle) as url, life(directory, Server(name="ops", endpoint=url, **entry), **keys) as found:
        yield found


def broken(status: int = 503) -> Callable[[Seen], Awaitable[web.StreamResponse]]:
    async def answer(seen: Seen) -> web.StreamResponse:
        return web.Response(status=status)

    return answer
