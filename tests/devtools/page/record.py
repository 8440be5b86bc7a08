"""A recording from the frames of a real page, kept as the server keeps them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator

import msgspec
from aiohttp import web

from tests.devtools.page.server import FrameServer
from zorivest_rpc.devtools.buffers import Buffers
from zorivest_rpc.devtools.demo import make_demo
from zorivest_rpc.devtools.entries import Audit, PageName, Recording
from zorivest_rpc.devtools.frames import Item, Limits
from zorivest_rpc.devtools.intake import Intake
from zorivest_rpc.mcp.protocol.jsonrpc import Json


class Counters:
    def __init__(self) -> None:
        self.values: dict[str, int | None] = {}

    def add(self, counter: str, n: int) -> None:
        self.values[counter] = (self.values.get(counter) or 0) + n

    def set(self, counter: str, value: int | None) -> None:
        self.values[counter] = value

    def raise_flag(self, name: str) -> None:
        raise AssertionError(name)


@contextlib.asynccontextmanager
async def serve_demo(server: FrameServer) -> AsyncIterator[str]:
    """The demo page, reporting to `server`; its address."""
    runner = web.AppRunner(make_demo(server.tag), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def recording_of(server: FrameServer, audit: dict[str, Json] | None = None) -> Recording:
    """What the buffers hold after all frames that `server` got."""
    buffers = Buffers(Counters(), time.time)
    intake = Intake(buffers, Limits(), time.time)
    tabs = {frame["page"]: frame["tab"] for frame in server.frames if frame["frame"] == "hello"}
    seen: set[tuple[str, int]] = set()
    for frame in server.frames:
        if frame["frame"] == "events" and (frame["_page"], frame["seq"]) not in seen:
            seen.add((frame["_page"], frame["seq"]))
            items = [msgspec.convert(item, Item) for item in frame["items"]]
            intake.add(items, frame["_page"], tabs[frame["_page"]])
    newest = next((frame for frame in reversed(server.frames) if frame["frame"] == "hello"), None)
    return Recording(
        page=PageName(newest["page"], newest["url"], newest["title"]) if newest else None,
        at=time.time() * 1000,
        version="1.2.3",
        logs=tuple(buffers.logs),
        network=tuple(buffers.network),
        ws_events=tuple(buffers.ws_events),
        actions=tuple(buffers.actions),
        measured=buffers.measured,
        audit=Audit(audit, time.time() * 1000) if audit is not None else None,
    )
