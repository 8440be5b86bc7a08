"""The explicit dict of the tools that have logic of their own: the name in a tool's file to its handler."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping

from zorivest_rpc import __version__
from zorivest_rpc.mcp.call import Call, Handler
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.backend.interface import Backend
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

__all__ = ["own_handlers"]


def own_handlers(
    audience: Audience,
    backend_for: Callable[[Call], Backend],
    *,
    run: Callable[[str], Handler],
    changed: Callable[[Session], None],
    metrics: Metrics,
    issue: Issue,
    consent: Consent,
    asks: bool,
    shape: Shape,
    seen: Callable[[Call, bool], None],
    log_directory: str,
    environ: Mapping[str, str],
    desktop: bool = True,
    gui_page: str | None = None,
) -> dict[str, Handler]:
    """`run` gives the chain of any tool by name, for the one that calls others. `asks` is False where the operator
    wants no user asked. `desktop` says whether the backend has
    a desktop application beside it, and `gui_page` where that can be downloaded."""
    kit = Kit(backend_for, audience.specs, shape=shape, desktop=desktop)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    own_page = os.path.join(os.path.dirname(log_directory), "desktop-setup.html")
    on = machine(sys.platform, environ, here, exists=os.path.exists, which=shutil.which)
    beside = None if desktop else _beside  # who named a backend has chosen
    runtime = f"Python {platform.python_version()}"
    return {
        **Discovery(audience, changed, run).handlers(),
        **Diagnostics(
            kit,
            metrics.summary,
            metrics.uptime_minutes,
            audience.profile,
            version=__version__,
            runtime=runtime,
            gated=lambda session: [spec.name for spec in audience.gated_tools(session)],
            unlisted=lambda session: [spec.name for spec in audience.unlisted_for_room(session)],
            neighbour=beside,
        ).handlers(),
        **Service(kit, log_directory).handlers(),
        **Desktop(kit, on, Processes(environ), page=gui_page, own_page=own_page).handlers(),
        **Emergency(kit, seen, consent=consent, asks=asks).handlers(),
        **LogSettings(kit).handlers(),
        **Screenshots(kit).handlers(),
        **AccountReview(kit).handlers(),
        **Schedules(kit).handlers(),
        **Tokens(kit, issue).handlers(),
    }


async def _beside(own: str) -> str | None:
    from zorivest_rpc.serving.backend.neighbour import describe_neighbour, find_neighbour

    found = await find_neighbour(own)
    return None if found is None else describe_neighbour(found)
