"""A connection within one process: frames in, frames out; for tests and for embedding."""

from __future__ import annotations

import asyncio

from zorivest_rpc.mcp.connection import Connection
from zorivest_rpc.mcp.server import Server

__all__ = ["MemoryClient"]


class MemoryClient:
    """The client's end. `send` takes a frame and never waits; answers are read one by one, in order."""

    def __init__(self, server: Server, *, principal: str = "", most_unread: int = 100_000) -> None:
        self._frames: asyncio.Queue[bytes] = asyncio.Queue(most_unread)
        self.connection = Connection(server, self._frames.put_nowait, principal=principal)

    def send(self, frame: bytes) -> None:
        self.connection.receive(frame)

    async def receive(self) -> bytes:
        return await self._frames.get()

    def take_frames(self) -> list[bytes]:
        """What is there already."""
        frames = []
        while not self._frames.empty():
            frames.append(self._frames.get_nowait())
        return frames

    def close(self) -> None:
        self.connection.close()
