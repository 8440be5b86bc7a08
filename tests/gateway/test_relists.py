"""How often a server is listed again: at once when it changes first, and then no more than every few seconds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Noted, Seen, serving
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.examine import judge_tools
from zorivest_rpc.gateway.member import Member, Timing
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
TIMING = Timing(retried=3600.0, idle=3600.0)


class Clockwork:
    """Pauses that end when the test says so; each is noted when it begins."""

    def __init__(self) -> None:
        self.begun = Noted()
        self._over = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.begun.append(seconds)
        await self._over.wait()
        self._over.clear()

    def end(self) -> None:
        self._over.set()


class Changing(Fake):
    """A server that tells of as many changes as it is told to."""

    def __init__(self) -> None:
        super().__init__("legacy", {"tools": {"listChanged": True}}, GET=self.stream)
        self.told: asyncio.Queue[int] = asyncio.Queue()
        self.lists = Noted()
        self.handlers["tools/list"] = self.list

    async def stream(self, seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        while True:
            for _ in range(await self.told.get()):
                await response.write(f"data: {json.dumps(CHANGED)}\n\n".encode())

    async def list(self, seen: Seen) -> web.StreamResponse:
        number = len(self.lists)
        self.lists.append(number)
        return seen.result(tools=[{**TOOL, "description": f"List {number}"}])


@asynccontextmanager
async def followed(directory: Path) -> AsyncIterator[tuple[Changing, Clockwork, Noted]]:
    """A changing server, the pauses of its member, and the lists that were published."""
    fake, clockwork, published = Changing(), Clockwork(), Noted()
    async with serving(fake.handle) as url:
        server = Server(name="ops", endpoint=url)
        profile, pins = Profile(mcp_servers=(server,), pin="off"), Pins(str(directory))

        def note() -> None:
            published.append(member.offered.listing.items[0].definition["description"])

        member = Member(
            profile,
            server,
            make=lambda server, told: make_upstream(server, {}, on_happening=told),
            judge=lambda server, listing: judge_tools(profile, server.name, listing, pins),
            changed=note,
            telemetry=Telemetry(None, Redactor()),
            timing=TIMING,
            pause=clockwork,
        )
        member.start()
        try:
            await published.reach(1)
            yield fake, clockwork, published
        finally:
            await member.close()


async def test_the_first_change_is_listed_after_the_short_wait_and_the_next_after_the_long_one(tmp_path: Path) -> None:
    async with followed(tmp_path) as (fake, clockwork, published):
        fake.told.put_nowait(1)
        await clockwork.begun.reach(1)
        clockwork.end()
        await published.reach(2)
        fake.told.put_nowait(1)
        await clockwork.begun.reach(2)
        clockwork.end()
        await published.reach(3)
    assert clockwork.begun[0] == TIMING.merged
    assert TIMING.merged < clockwork.begun[1] <= TIMING.between_lists
    assert published == ["List 0", "List 1", "List 2"]


async def test_a_thousand_changes_at_once_are_one_list(tmp_path: Path) -> None:
    async with followed(tmp_path) as (fake, clockwork, published):
        fake.told.put_nowait(1000)
        await clockwork.begun.reach(1)
        clockwork.end()
        await published.reach(2)
        fake.told.put_nowait(1)
        await clockwork.begun.reach(2)
        assert len(fake.lists) == 2
        clockwork.end()
        await published.reach(3)
    assert len(fake.lists) == 3
