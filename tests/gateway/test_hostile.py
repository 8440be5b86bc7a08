"""Other MCP servers that mean harm, behind the running product: its memory stays bounded, and the others are served."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.gateway.test_failures import entry, running, until_listed
from tests.gateway.test_whole import Client
from tests.places import ROOT
from zorivest_rpc.gateway.relay import AT_ONCE

CHILD = str(ROOT / "tests" / "gateway" / "hostile.py")
MOST_GROWTH = 48 * 1024 * 1024


def hostile(mode: str) -> str:
    return entry(mode, command=sys.executable, args=["-I", CHILD, mode])


def memory_of(client: Client) -> int:
    size: int = psutil.Process(client.process.pid).memory_info().rss
    return size


async def is_served(client: Client) -> bool:
    result = await client.call("fine__echo")
    return bool(result["content"][0]["text"] == "here")


def watch(flooding: psutil.Process) -> None:
    """Until it has worked for half a second, or is held up because nobody reads what it says."""
    for _ in range(50):
        if flooding.cpu_times().user > 0.5:
            break
        time.sleep(0.1)


async def test_a_flood_that_the_client_does_not_read_is_not_kept(tmp_path: Path) -> None:
    async with running(tmp_path, hostile("flood"), hostile("fine")) as client:
        await until_listed(client, "flood__echo", "fine__echo")
        assert await is_served(client)
        before = memory_of(client)
        params = {"name": "flood__echo", "arguments": {}, "_meta": {"progressToken": "p"}}
        client.send("tools/call", params, id="flood")
        flooding = next(each for each in psutil.Process(client.process.pid).children() if "flood" in each.cmdline())
        await asyncio.to_thread(watch, flooding)
        assert memory_of(client) - before < MOST_GROWTH
        client.send("notifications/cancelled", {"requestId": "flood"})
        async with asyncio.timeout(60):
            assert await is_served(client)
        assert memory_of(client) - before < MOST_GROWTH
        assert AT_ONCE / 2 < len(client.notes) < 20 * AT_ONCE  # some of it, and not all


async def test_ten_thousand_tools_and_a_list_that_never_rests_leave_the_others_alone(tmp_path: Path) -> None:
    async with running(tmp_path, hostile("churn"), hostile("fine"), hostile("many")) as client:
        await until_listed(client, "fine__echo", "churn__echo", "many__tool-1")
        before = memory_of(client)
        for _ in range(50):
            assert await is_served(client)
        names = [tool["name"] for tool in (await client.ask("tools/list"))["result"]["tools"]]
        assert len([name for name in names if name.startswith("many__")]) < 120
        assert memory_of(client) - before < MOST_GROWTH


@pytest.mark.skipif(sys.platform != "linux", reason="the files of a process are listed on Linux")
async def test_a_child_has_its_three_files_and_is_ended_when_it_leaves_one(tmp_path: Path) -> None:
    async with running(tmp_path, hostile("files"), hostile("leave")) as client:
        await until_listed(client, "files__echo", "leave__echo")
        assert (await client.call("files__echo"))["content"][0]["text"].split() == ["0", "1", "2"]
        left = await client.call("leave__echo")
        assert left["_meta"]["com.zorivest/error"]["code"] == "stdio_exited"
