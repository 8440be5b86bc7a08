"""A client of the command over stdio, as plain as can be: lines out, lines in."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.serving.product.everything import Caller

SECONDS = 90.0


class Stdio(Caller):
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
        async with asyncio.timeout(SECONDS):
            while True:
                answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
                if answer.get("id") == self._next:
                    return answer

    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = await self.request("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, (name, answer)
        return answer["result"]  # type: ignore[no-any-return]


@contextlib.asynccontextmanager
async def plain_client(
    command: list[str], environ: dict[str, str], place: Path, name: str = "claude-code"
) -> AsyncIterator[Stdio]:
    """By default a client whose own user is asked before a gated tool, so that the server does not ask again."""
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, cwd=place, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 26
    )
    client = Stdio(process)
    info = {"name": name, "version": "2.1.280"}
    await client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
    try:
        yield client
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(10):
            assert await process.wait() == 0
