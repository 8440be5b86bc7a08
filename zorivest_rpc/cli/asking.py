"""Who asks the user before a gated tool runs, over each transport, for the terminal."""

from __future__ import annotations

from typing import Literal

from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.catalog.spec import ToolSpec

__all__ = ["Asker", "asker", "describe_askers"]

Asker = Literal["client", "server", "nobody"]


def asker(audience: Audience, session: Session, spec: ToolSpec, *, trusts_names: bool) -> Asker:
    """Who asks before a direct call of this tool; `trusts_names` is true over stdio, false over HTTP."""
    if not spec.is_gated or (audience.policy.confirm == "never" and spec.ruling is None):
        return "nobody"
    return "server" if audience.asks(session, spec, trusts_names=trusts_names) else "client"


def describe_askers(audience: Audience, session: Session) -> str:
    """One sentence on every gated tool that the session may call."""
    limits = audience.limits(session)
    gated = [
        spec
        for spec in audience.definitions.tools
        if spec.confirm
        and limits.refusal(spec) is None
        and asker(audience, session, spec, trusts_names=True) != "nobody"
    ]
    if audience.policy.confirm == "never" and not gated:
        return "Before a gated tool nobody is asked (--confirm never)."
    by_server = {spec.name for spec in audience.gated_tools(session, trusts_names=True)}
    by_client = [spec.name for spec in gated if spec.name not in by_server]
    if not by_client:
        return f"Before its {len(gated)} gated tools the server asks, over stdio and HTTP."
    title = audience.profile(session).title
    stdio = f"{title} asks its user before {_names(by_client)}"
    if by_server:
        stdio += f", and the server before {_names([spec.name for spec in gated if spec.name in by_server])}"
    return (
        f"Over stdio {stdio}. Over HTTP the server asks before all {len(gated)}, unless it runs with "
        "--trust-client-names."
    )


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
