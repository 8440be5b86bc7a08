"""`/health`, `/version`, `/logs` and the state summary: what the backend says about itself and the journal's size."""

from __future__ import annotations

import logging
import sys
from importlib import metadata
from typing import Any

from aiohttp import web

from ...values.fields import Fields
from ..routing import OPEN, READ, Ask, Route, reply

__all__ = ["ROUTES", "version"]

_SMALL = 64 * 1024
_LEVELS = ("debug", "info", "warning", "error", "critical")
_frontend = logging.getLogger("zorivest.frontend")


def version() -> tuple[str, str]:
    """The version and where it was learnt: a frozen build, the installed package, or a source tree."""
    from zorivest_rpc import __version__

    if getattr(sys, "frozen", False):
        return __version__, "frozen"
    try:
        return metadata.version("zorivest-rpc"), "installed"
    except metadata.PackageNotFoundError:
        return __version__ or "0.0.0-dev", "dev"


async def health(ask: Ask) -> web.StreamResponse:
    backend = ask.backend
    unlocked = not backend.locked
    jobs = backend.scheduling.jobs()
    return reply(
        {
            "status": "ok",
            "version": version()[0],
            "uptime_seconds": round(backend.clock() - backend.started, 3),
            "scheduler": {"active_policies": len(jobs), "next_run": jobs[0]["next_run"] if jobs else None},
            "database": {
                "unlocked": unlocked,
                "encrypted": backend.encrypted,
                "key_source": backend.vault.key_source,
            },
            "database_unlocked": unlocked,
            "started_at": backend.started_at,
        }
    )


async def show_version(ask: Ask) -> web.StreamResponse:
    number, context = version()
    return reply({"version": number, "context": context})


async def write_log(ask: Ask) -> web.StreamResponse:
    """A line from a user interface, into its own file."""
    body = await ask.json()
    fields = Fields(body)
    level = fields.choice("level", _LEVELS, "info")
    component = fields.text("component", "unknown", most=100)
    message = fields.text("message", least=1, most=8000)
    data: Any = body.get("data")
    if data is not None and not isinstance(data, dict):
        fields.wrong("data", "must be an object")
    fields.done()
    extra = {"component": component, "data": data or {}}
    _frontend.log(logging.getLevelName(level.upper()), "%s", message, extra=extra)
    return web.Response(status=204)


async def state_summary(ask: Ask) -> web.StreamResponse:
    """Counts with an ETag, so that asking again costs nothing while nothing changed."""
    summary = await ask.backend.summary().read()
    tag = f'"{summary["version"]}"'
    wanted = {part.strip().removeprefix("W/") for part in ask.request.headers.get("If-None-Match", "").split(",")}
    if tag in wanted or "*" in wanted:
        return web.Response(status=304, headers={"ETag": tag})
    return reply(summary, headers={"ETag": tag, "Cache-Control": "no-cache"})


ROUTES = (
    Route("GET", "/health", OPEN, health),
    Route("GET", "/version", OPEN, show_version),
    Route("POST", "/logs", OPEN, write_log, _SMALL),
    Route("GET", "/mcp/state-summary", READ, state_summary),
)
