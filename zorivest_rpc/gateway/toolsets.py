"""Each enabled server is a toolset, from the start on and whatever becomes of it."""

from __future__ import annotations

from collections.abc import Callable

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.serving.catalog.spec import ToolsetSpec

__all__ = ["describe_count", "list_toolsets"]


def list_toolsets(
    profile: Profile,
    look: Callable[[Server], tuple[int | None, str, str | None]] = lambda server: (0, "connecting", None),
) -> tuple[ToolsetSpec, ...]:
    """In the order of the file; `look` gives the number of tools (None: not one for all), the state and the error."""
    found = []
    for server in profile.enabled:
        count, status, error = look(server)
        words = describe_count(server, count)
        found.append(
            ToolsetSpec(
                server.toolset, words, default=server.autoload, upstream=server.name, status=status, error=error
            )
        )
    return tuple(found)


def describe_count(server: Server, count: int | None) -> str:
    tools = "tools" if count is None else "1 tool" if count == 1 else f"{count} tools"
    return f"{tools} from MCP server {server.name}"
