"""A real client beside the tests: the official library in an environment of its own, driving the installed command."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.interop.environments import HERE, python_with

COMMAND = [sys.executable, "-m", "zorivest_rpc"]


class Relay:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self.changes = 0

    async def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        if not line:
            raise AssertionError("the client ended")
        answer: dict[str, Any] = json.loads(line)
        self.changes = answer.get("changes", 0)
        return answer

    async def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        async with self._turn:
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            await self._process.stdin.drain()
            return await self._read()

    async def tools(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool for tool in (await self._ask({"list": True}))["tools"]}

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result as the client has it."""
        return await self._ask({"tool": tool, "arguments": arguments})

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a result that is no error, and says that it is not to be trusted."""
        result = await self.call(tool, **arguments)
        assert not result.get("isError"), result
        content: dict[str, Any] = result["structuredContent"]
        return content


@contextlib.asynccontextmanager
async def connect(kind: str, *words: str, variables: dict[str, str] | None = None) -> AsyncIterator[Relay]:
    interpreter = await asyncio.to_thread(python_with, "mcp-1.30.0")
    process = await asyncio.create_subprocess_exec(
        str(interpreter),
        str(HERE / "clients" / "relay.py"),
        kind,
        *words,
        env=os.environ | (variables or {}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    relay = Relay(process)
    try:
        await relay._read()
        yield relay
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(90):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def snippet(data: Path) -> str:
    """What `devtools snippet` prints, as soon as the server is there."""
    async with asyncio.timeout(90):
        while True:
            process = await asyncio.create_subprocess_exec(
                *COMMAND, "devtools", "snippet", "--data-dir", str(data), stdout=-1, stderr=-1
            )
            out, _ = await process.communicate()
            if process.returncode == 0:
                return out.decode().strip()
