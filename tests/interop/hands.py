"""An official client as the hands of a test: it does one thing after the other, and tells what came back.

Each library has a driver of its own; with `obey` in its configuration the driver takes orders. So a tour is written
once, here in the tests, and taken with every library."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.conformance.cache import REPOSITORY
from tests.interop.test_interop import Case, driver_command, driver_config, driver_environment
from tests.serving.product.everything import Caller

SECONDS = 90.0


class Hands(Caller):
    """One connected client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__()
        self._process = process
        self.revision = ""

    async def _line(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS):
            line = await self._process.stdout.readline()
        assert line, f"the client ended:\n{await self._complaints()}"
        return json.loads(line)

    async def _complaints(self) -> str:
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()

    async def open(self) -> None:
        self.revision = (await self._line())["revision"]

    async def do(self, order: str, *given: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([order, *given]).encode() + b"\n")
        return await self._line()

    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = await self.do("call", name, arguments)
        assert "content" in result, (name, result)
        return result

    async def tools(self) -> list[str]:
        listed: list[str] = await self.do("tools")
        return listed

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(SECONDS):
            complaints = await self._complaints()
            assert await self._process.wait() == 0, complaints


@contextlib.asynccontextmanager
async def hands(case: Case, config: dict[str, Any], place: Path) -> AsyncIterator[Hands]:
    """`config` says where the server is, what the client calls itself, and whether its user can be asked."""
    given = driver_config(case, config) | {"obey": True}
    process = await asyncio.create_subprocess_exec(
        *driver_command(case, place),
        case.transport,
        json.dumps(given),
        cwd=REPOSITORY,
        env=driver_environment(place) | {"PYTHONUNBUFFERED": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    client = Hands(process)
    try:
        await client.open()
        yield client
        await client.close()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def our_environment() -> dict[str, str]:
    """What a server started by a client needs of ours."""
    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ} | {"ZORIVEST_KEYRING": "off"}
