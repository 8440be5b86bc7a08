"""The official clients see their list change: after the first observation, and in the modern era with data."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.connect import Host, load_offer
from tests.exposure.observing import TOOLS
from tests.interop.hands import Hands, hands
from tests.interop.test_interop import LEGACY, MODERN, Case
from tests.places import ROOT
from zorivest_rpc.mcp.server import Server

pytestmark = pytest.mark.slow
OFFER = "tests.exposure.observing:offer"
LIBRARIES = ("mcp-1.30.0", "mcp-2.3.0", "sdk-1.32.2", "client-2.4.0", "fastmcp-4.1.4")
BOTH_ERAS = ("mcp-2.3.0", "client-2.4.0")
WAYS = ("stdio", "http")


@asynccontextmanager
async def connected(case: Case, place: Path) -> AsyncIterator[Hands]:
    config: dict[str, Any] = {"name": "Cline", "asks": False}
    host = Host("streamable")
    try:
        if case.transport == "stdio":
            command = [sys.executable, "-m", "tests.mcp.protocol.serve", OFFER]
            config |= {"command": command, "env": {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}}
        else:
            transport = await host.http(Server(load_offer(OFFER)()))
            config |= {"url": f"http://127.0.0.1:{transport.port}/mcp"}
        async with hands(case, config, place / "home") as client:
            assert client.revision == case.revision
            yield client
    finally:
        await host.close()


async def observers(client: Hands) -> list[str]:
    return [name for name in await client.tools() if name in TOOLS]


@pytest.mark.parametrize("case", [Case(library, way, LEGACY) for library in LIBRARIES for way in WAYS], ids=str)
async def test_a_legacy_client_sees_three_more_tools_after_its_first_observation(case: Case, tmp_path: Path) -> None:
    async with connected(case, tmp_path) as client:
        await client.do("watch")
        assert await observers(client) == ["observe", "query_dom"]
        before = await client.do("changes", 0)
        result = await client.do("call", "observe", {"what": "errors"})
        assert result["_meta"]["com.zorivest/unlocked"] == ["analyze", "generate", "configure"]
        assert await client.do("changes", before + 1) == before + 1
        assert await observers(client) == list(TOOLS)


@pytest.mark.parametrize("case", [Case(library, way, MODERN) for library in BOTH_ERAS for way in WAYS], ids=str)
async def test_a_modern_client_that_subscribed_hears_of_data_and_sees_all_tools_from_the_start(
    case: Case, tmp_path: Path
) -> None:
    async with connected(case, tmp_path) as client:
        await client.do("watch")
        assert await observers(client) == list(TOOLS)
        before = await client.do("changes", 0)
        await client.do("call", "observe", {"what": "errors"})
        await client.do("call", "feed_state", {"changes": {"devtools.network": 2}})
        assert await client.do("changes", before + 1) == before + 1
