"""The explicit dict of the tools that have logic of their own: the name in a tool's file to its handler."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from zorivest_rpc import __version__
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome, Scope
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import ActingFor, Audience
from zorivest_rpc.serving.backend.interface import Backend
from zorivest_rpc.serving.catalog.spec import ToolsetSpec
from zorivest_rpc.serving.middleware.metrics import Metrics
from zorivest_rpc.serving.tools.accounts import AccountReview
from zorivest_rpc.serving.tools.desktop import Desktop, Processes, machine
from zorivest_rpc.serving.tools.diagnostics import Diagnostics
from zorivest_rpc.serving.tools.discovery import Discovery
from zorivest_rpc.serving.tools.emergency import Consent, Emergency
from zorivest_rpc.serving.tools.kit import Kit
from zorivest_rpc.serving.tools.rest import Shape
from zorivest_rpc.serving.tools.scheduling import Schedules
from zorivest_rpc.serving.tools.screenshots import Screenshots
from zorivest_rpc.serving.tools.service import Service
from zorivest_rpc.serving.tools.settings import LogSettings
from zorivest_rpc.serving.tools.tokens import Issue, Tokens

__all__ = ["Tenancy", "own_handlers"]


class Tenancy(Protocol):
    """What the tools are told where the server acts for several clients."""

    def acting_for(self, call: Call) -> ActingFor: ...

    def inner_refusal(self, call: Call, name: str) -> ToolError | None: ...

    def inner_arguments(self, call: Call, given: dict[str, Json]) -> dict[str, Json]: ...

    def confirmed_arguments(self, call: Call, given: dict[str, Json]) -> dict[str, Json]: ...

    def about(self, call: Call, verbose: bool) -> dict[str, Json]: ...

    def toolset(self, call: Call, toolset: ToolsetSpec, count: int) -> ToolsetSpec: ...

    def every(self, call: Call) -> Sequence[Scope]: ...

    def open_session(self, call: Call) -> Awaitable[object]: ...


# long: every module of tools with what it is given, side by side
def own_handlers(
    audience: Audience,
    backend_for: Callable[[Call], Backend],
    *,
    run: Callable[[str], Handler],
    each: Callable[[str], Handler],
    changed: Callable[[Session], None],
    metrics: Metrics,
    issue: Issue,
    consent: Consent,
    asks: bool,
    shape: Shape,
    seen: Callable[[Call, bool], None],
    log_directory: Callable[[Call], str],
    environ: Mapping[str, str],
    upstreams: Callable[[Call], list[dict[str, Json]] | None] = lambda call: None,
    desktop: Callable[[Call], bool] = lambda call: True,
    gui_page: str | None = None,
    own_page: str = "",
    tenancy: Tenancy | None = None,
) -> dict[str, Handler]:
    """`run` gives the chain of any tool by name, for the one that calls others, and `each` the one of a tool for each
    client where a call is for all. `asks` is False where the operator
    wants no user asked. `desktop` says whether the backend of a
    call has a desktop application beside it, and `gui_page` where that can be downloaded."""
    kit = Kit(backend_for, audience.specs, shape=shape, tenant=lambda call: call.scope.name, desktop=desktop)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    on = machine(sys.platform, environ, here, exists=os.path.exists, which=shutil.which)
    every: Callable[[Call], Sequence[Scope]] = (lambda call: ()) if tenancy is None else tenancy.every
    for_one = None if tenancy is None else _for_one(tenancy, each)
    runtime = f"Python {platform.python_version()}"
    return {
        **(
            Discovery(audience, changed, run)
            if tenancy is None
            else Discovery(
                audience,
                changed,
                run,
                acting_for=tenancy.acting_for,
                refusal=tenancy.inner_refusal,
                inner_arguments=tenancy.inner_arguments,
                toolset=tenancy.toolset,
            )
        ).handlers(),
        **Diagnostics(
            kit,
            metrics.summary,
            metrics.uptime_minutes,
            audience.profile,
            version=__version__,
            runtime=runtime,
            gated=lambda session: [spec.name for spec in audience.gated_tools(session)],
            unlisted=lambda session: [spec.name for spec in audience.unlisted_for_room(session)],
            neighbour=_beside,
            upstreams=upstreams,
            about=(lambda call, verbose: {}) if tenancy is None else tenancy.about,
            open_session=None if tenancy is None else tenancy.open_session,
        ).handlers(),
        **Service(kit, log_directory).handlers(),
        **Desktop(kit, on, Processes(environ), page=gui_page, own_page=own_page).handlers(),
        **Emergency(kit, seen, consent=consent, asks=asks, every=every, each=for_one).handlers(),
        **LogSettings(kit).handlers(),
        **Screenshots(kit).handlers(),
        **AccountReview(kit).handlers(),
        **Schedules(kit).handlers(),
        **(Tokens(kit, issue) if tenancy is None else Tokens(kit, issue, tenancy.confirmed_arguments)).handlers(),
    }


def _for_one(tenancy: Tenancy, each: Callable[[str], Handler]) -> Handler:
    """A call for one of several clients at once, where that one allows it."""

    async def run(call: Call) -> Outcome:
        refusal = tenancy.inner_refusal(call, call.name)
        if refusal is not None:
            raise refusal
        return await each(call.name)(call)

    return run


async def _beside(own: str) -> str | None:
    from zorivest_rpc.serving.backend.neighbour import describe_neighbour, find_neighbour

    found = await find_neighbour(own)
    return None if found is None else describe_neighbour(found)
