"""Asks a running backend as its owner's programs do: on a connection that was proven first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

from zorivest_rpc.embedded.locate import Located

__all__ = ["ask", "ask_raw", "relay"]

PATIENCE = 40.0


def ask_raw(
    located: Located, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """The status and the body, whatever they say."""
    with closing(located.connect(PATIENCE)) as connection:
        status, data, _ = connection.ask(method, path, body, headers)
    return status, data


def ask(located: Located, method: str, path: str, body: Any = None, token: str | None = None) -> Any:
    """The decoded answer of a request that must succeed."""
    headers = {"Authorization": f"Bearer {token}"} if token else None
    status, data = ask_raw(located, method, path, body, headers)
    if status >= 400:
        raise OSError(f"{method} {path}: {status} {data!r}")
    return json.loads(data or b"null")


@asynccontextmanager
async def relay(located: Located) -> AsyncIterator[str]:
    """The URL of a port that leads to a backend's socket, as a foreign Zorivest would have one."""
    path = located.address.socket
    assert path is not None

    running: set[asyncio.Task[None]] = set()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        there, back = await asyncio.open_unix_connection(path)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, back))
                both.create_task(_copy(there, writer))
        finally:
            back.close()
            writer.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/v1"
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
        await target.drain()
    target.close()
