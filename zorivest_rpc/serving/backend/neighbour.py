"""A Zorivest that already listens on the usual port while this server uses its own journal: found, never used unasked.

It is asked for its health and nothing else; no key goes to a program that is not configured."""

from __future__ import annotations

from typing import Final

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.http import DEFAULT_URL, HttpBackend
from zorivest_rpc.serving.backend.interface import Request

__all__ = ["USUAL", "describe_neighbour", "find_neighbour", "is_own", "is_zorivest"]

USUAL: Final = DEFAULT_URL
_SECONDS: Final = 1.0
_SIGNS: Final = ("database", "database_unlocked", "version", "scheduler")


async def find_neighbour(own: str, usual: str = USUAL) -> str | None:
    """The address of a Zorivest on the usual port, unless it is our own backend or nothing listens there."""
    if is_own(own, usual):
        return None
    backend = HttpBackend(usual)
    try:
        health = (await backend.ask(Request("GET", "/health", auth="none", timeout=_SECONDS))).value
    except (ToolError, TimeoutError):
        return None
    finally:
        await backend.close()
    return usual if is_zorivest(health) else None


def is_zorivest(health: Json) -> bool:
    return isinstance(health, dict) and "status" in health and any(sign in health for sign in _SIGNS)


def describe_neighbour(url: str) -> str:
    return (
        f"A Zorivest listens on {url}, and this server uses a journal of its own. To work with that one instead, start "
        f"the server with --api-url {url} (ZORIVEST_API_URL) and its key in ZORIVEST_API_KEY."
    )


def is_own(own: str, usual: str) -> bool:
    """By port, as 127.0.0.1 and localhost are one place."""
    return _port(own) == _port(usual)


def _port(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition(":")[2]
