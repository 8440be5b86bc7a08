"""The product as a user starts it, with another MCP server behind it: our own showcase, as a child and over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

CONFIG = """\
[profiles.default]
approve_tool = ["show__echo"]

[[profiles.default.mcp_servers]]
name = "show"
command = {python}
args = ["-m", "zorivest_rpc", "stdio", "--showcase", "--data-dir", {data}]

[[profiles.default.mcp_servers]]
name = "wiki"
endpoint = "http://127.0.0.1:9/mcp"
"""


class Client:
    """A client on stdin and stdout; what comes without being asked for is kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.notes: list[dict[str, Any]] = []
        self._id = 0

    async def read(self) -> Any:
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        assert line, "the server ended"
        return json.loads(line)

    def send(self, method: str, params: Any = None, **more: Any) -> None:
        assert self.process.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, **more, **({} if params is None else {"params": params})}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def ask(self, method: str, params: Any = None) -> Any:
        self._id += 1
        self.send(method, params, id=self._id)
        while (message := await self.read()).get("id") != self._id:
            self.notes.append(message)
        return message

    async def wait_for(self, method: str) -> None:
        while not any(note.get("method") == method for note in self.notes):
            self.notes.append(await self.read())

    async def call(self, name: str, **arguments: Any) -> Any:
        return (await self.ask("tools/call", {"name": name, "arguments": arguments}))["result"]


@asynccontextmanager
async def product(directory: Path, *options: str) -> AsyncIterator[Client]:
    config = directory / "config.toml"
    config.write_text(CONFIG.format(python=json.dumps(sys.executable), data=json.dumps(str(directory / "show"))))
    command = (sys.executable, "-m", "zorivest_rpc", "stdio", "--config", str(config), "--data-dir", str(directory))
    process = await asyncio.create_subprocess_exec(
        *(*command, "--api-url", "http://127.0.0.1:9", *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "ZORIVEST_API_KEY": "zrv_sk_of_nobody"},
        limit=1 << 24,
    )
    client = Client(process)
    try:
        info = {"name": "cline", "version": "1"}
        await client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        client.send("notifications/initialized")
        await client.wait_for("notifications/tools/list_changed")
        yield client
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def test_the_tools_of_another_server_are_listed_found_and_described_like_ours(tmp_path: Path) -> None:
    async with product(tmp_path) as client:
        tools = (await client.ask("tools/list"))["result"]["tools"]
        theirs = [tool for tool in tools if tool["name"].startswith("show__")]
        assert [tool["name"] for tool in theirs] == [
            *("show__ask_name", "show__count", "show__echo", "show__log", "show__running", "show__toggle_extra"),
            "show__wait",
        ]
        count = next(tool for tool in theirs if tool["name"] == "show__count")
        assert count["description"].startswith("[show] Count up to a number")
        assert list(count["inputSchema"]["properties"]) == ["to", "delay_ms", "confirmation_token"]
        assert count["annotations"] == {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
        found = (await client.call("tool_search", query="count up to a number"))["structuredContent"]["matches"]
        assert found[0]["name"] == "show__count"
        toolsets = (await client.call("list_available_toolsets"))["structuredContent"]["toolsets"]
        show, wiki = (entry for entry in toolsets if entry["name"].startswith("mcp-"))
        assert (show["tool_count"], show["source"], show["status"], show["error"]) == (7, "upstream", "ready", None)
        assert (wiki["tool_count"], wiki["status"]) == (0, "unavailable")
        assert wiki["error"].startswith('MCP server "wiki" cannot be reached at http://127.0.0.1:9:')
        refused = await client.call("enable_toolset", toolset_name="mcp-wiki")
        assert refused["isError"]
        assert refused["content"][0]["text"].startswith('Toolset "mcp-wiki" cannot be enabled: MCP server "wiki"')


async def test_without_a_guard_to_ask_no_call_of_another_server_runs(tmp_path: Path) -> None:
    async with product(tmp_path) as client:
        refused = await client.call("show__echo", text="x")
        assert refused["isError"]
        assert "MCP guard blocked this call" in refused["content"][0]["text"]


async def test_the_toolset_file_of_a_server_can_be_named_at_the_start(tmp_path: Path) -> None:
    async with product(tmp_path, "--toolsets", "mcp-show") as client:
        names = [tool["name"] for tool in (await client.ask("tools/list"))["result"]["tools"]]
        assert "show__echo" in names
        assert "get_tax_lots" not in names


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the end of another's child is seen through a pidfd")
async def test_the_child_is_gone_when_the_server_is(tmp_path: Path) -> None:
    async with product(tmp_path) as client:
        children = [os.pidfd_open(pid) for pid in children_of(client.process.pid)]
        assert children
    for child in children:
        await asyncio.to_thread(select.select, [child], [], [])  # readable once the process has ended
        os.close(child)


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
