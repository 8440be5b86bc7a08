"""The catalogue with the tools of other servers in it, for commands that look at it once and end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zorivest_rpc.app import Journal

__all__ = ["ask_servers", "explain_absence", "settle"]

_MORE = 1.0  # seconds beyond the longest time that a server is given


def ask_servers(journal: Journal) -> None:
    """Discover every enabled server once. What one that is away leaves out is told in the log, and by its toolset."""
    if journal.gateway() is not None:
        asyncio.run(_ask(journal))


async def _ask(journal: Journal) -> None:
    await settle(journal)
    gateway = journal.gateway()
    assert gateway is not None
    await gateway.close()


async def settle(journal: Journal) -> None:
    """Start the servers and wait until each has answered or failed once."""
    gateway = journal.gateway()
    if gateway is not None:
        gateway.start()
        await gateway.settle(max(member.server.timeout_secs for member in gateway.members.values()) + _MORE)


def explain_absence(journal: Journal, name: str) -> dict[str, str] | None:
    """Why a tool of another server is not offered; `name` is its published name, or its name at its server."""
    gateway = journal.gateway()
    if gateway is None:
        return None
    for tool in gateway.catalogue.examined:
        if tool.state != "published" and name in (tool.published, tool.upstream, f"{tool.server}__{tool.upstream}"):
            reason = tool.reason or tool.state
            return {"server": tool.server, "state": tool.state, "reason": reason, "detail": tool.detail or reason}
    for member in gateway.members.values():
        offered = member.offered
        if name.startswith(f"{member.server.name}__") and offered.status not in ("ready", "degraded"):
            detail = offered.error or offered.status
            return {"server": member.server.name, "state": offered.status, "reason": "server_away", "detail": detail}
    return None
