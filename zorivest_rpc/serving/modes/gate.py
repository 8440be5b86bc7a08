"""Who asks the user before a gated tool runs: the client, for the hints that it was shown, or this server.

A client counts as asking only for the causes that `clients.json` lists for it (`asks_for`). Codex, for one, asks for a
destructive tool and runs `create_trade`, a plain write, unasked. What a definition does not show cannot be a cause: a
revision without annotations, or a mode without Anthropic's marks, leaves the question to the server."""

from __future__ import annotations

from collections.abc import Iterable

from zorivest_rpc.serving.catalog.spec import Cause, ToolSpec
from zorivest_rpc.serving.modes.detect import Profile
from zorivest_rpc.serving.modes.present import Presentation

__all__ = ["asked_by_client", "causes"]


def causes(tool: ToolSpec, how: Presentation) -> frozenset[Cause]:
    """What the tool's definition, as it is presented, gives a client to ask for."""
    hints = tool.annotations
    found: dict[Cause, bool] = {
        "write": not hints.read_only_hint,  # a client that misses `readOnlyHint` takes the tool for a write
        "destructive": how.annotations and hints.destructive_hint,
        "open_world": how.annotations and hints.open_world_hint,
        "marked": how.meta and how.anthropic_marks and tool.confirm,
    }
    return frozenset(cause for cause, is_given in found.items() if is_given)


def asked_by_client(profile: Profile, tools: Iterable[ToolSpec], how: Presentation) -> frozenset[str]:
    """The names of those tools before which this client asks its user itself."""
    wanted = frozenset(profile.traits.asks_for)
    if not wanted:
        return frozenset()
    return frozenset(tool.name for tool in tools if not wanted.isdisjoint(causes(tool, how)))
