"""The loopback address on which pages find a server that speaks stdio alone."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from zorivest_rpc.devtools.routes import LOOPBACK
from zorivest_rpc.mcp.transports.answers import QuietServer

__all__ = ["Listener"]

log: Final = logging.getLogger("zorivest_rpc")
_HOST: Final = "127.0.0.1"
_IDLE: Final = 75.0


class Listener:
    """Checks the Host, as a name that was pointed at us is none of ours, and hands the request on."""

    def __init__(self, handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        self._next = handle
        self._server: asyncio.Server | None = None
        self._aiohttp: QuietServer | None = None

    async def start(self, port: int) -> int:
        """Listen on this port, or on any free one where it is taken; the port it became."""
        self._aiohttp = QuietServer(
            self._handle, handler_cancellation=True, access_log=None, keepalive_timeout=_IDLE, tcp_keepalive=True
        )
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._aiohttp, _HOST, port, reuse_address=True)
        except OSError as exc:
            log.warning("pages cannot be served on port %d (%s); another is used", port, exc.strerror)
            self._server = await loop.create_server(self._aiohttp, _HOST, 0)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._aiohttp is not None:
            self._aiohttp.pre_shutdown()
            await self._aiohttp.shutdown(0.2)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if not _is_ours(request.headers.get("Host", "")):
            return _refuse(403, "this Host is not served")
        if not request.raw_path.startswith("/devtools/"):
            return _refuse(404, "nothing is served at this path")
        return await self._next(request)


def _is_ours(host: str) -> bool:
    try:
        return not set("/?#@\\, \t").intersection(host) and urlsplit("//" + host).hostname in LOOPBACK
    except ValueError:
        return False


def _refuse(status: int, words: str) -> web.Response:
    return web.Response(status=status, body=json.dumps({"error": words}).encode(), content_type="application/json")
