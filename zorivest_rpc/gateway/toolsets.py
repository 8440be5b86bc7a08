"""Each enabled server is a toolset, from the start on and whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.serving.catalog.spec import ToolsetSpec

__all__ = ["list_toolsets"]


def list_toolsets(
    profile: Profile, look: Callable[[Server], tuple[int, str, str | None]] = lambda server: (0, "connecting", None)
) -> tuple[ToolsetSpec, ...]:
    """In the order of the file; `look` gives the number of tools, the state and what is wrong."""
    found = []
    for server in profile.enabled:
        count, status, error = look(server)
        words = f"{count} {'tool' if count == 1 else 'tools'} from MCP server {server.name}"
        found.append(
            ToolsetSpec(
                server.toolset, words, default=server.autoload, upstream=server.name, status=status, error=error
            )
        )
    return tuple(found)
