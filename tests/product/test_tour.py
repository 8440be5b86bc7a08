"""All 68 tools, one after the other, over stdio against the real backend: on demo data and on an empty journal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.product.everything import Caller, every_tool
from zorivest_rpc.catalog.load import load
from zorivest_rpc.embedded.locate import find


class Stdio(Caller):
    """A client of the command, as plain as can be: lines out, lines in."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__()
        self._process = process
        self._next = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(90):
            while True:
                answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
                if answer.get("id") == self._next:
                    return answer

    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = await self.request("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, (name, answer)
        return answer["result"]  # type: ignore[no-any-return]


@pytest.fixture
async def stdio(tmp_path: Path) -> AsyncIterator[Stdio]:
    data = tmp_path / "data"
    environment = {**os.environ, "ZORIVEST_KEYRING": "off", "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "zorivest_rpc",
        "stdio",
        "--data-dir",
        str(data),
        "--toolsets",
        "all",
        "--import-root",
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
        env=environment,
    )
    client = Stdio(process)
    info = {"name": "claude-code", "version": "2.1.280"}
    await client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
    yield client
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(10):
        assert await process.wait() == 0
    located = find(data)
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["demo", "empty"])
async def test_every_tool_does_real_work_or_says_honestly_why_not(stdio: Stdio, journal: str, tmp_path: Path) -> None:
    if journal == "demo":
        environment = {**os.environ, "ZORIVEST_KEYRING": "off"}
        loader = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "zorivest_rpc", "demo", "load", "--data-dir", str(tmp_path / "data"), env=environment
        )
        assert await loader.wait() == 0
    await every_tool(stdio, tmp_path, demo=journal == "demo")
    assert stdio.called == {spec.name for spec in load().tools}
