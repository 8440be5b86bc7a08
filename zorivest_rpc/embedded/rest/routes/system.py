"""`/health`, `/version` and the state summary: what the backend says about itself and the journal's size."""

from __future__ import annotations

import sys
from importlib import metadata

from aiohttp import web

from ..routing import OPEN, READ, RestCall, Route, reply

__all__ = ["ROUTES", "version"]


def version() -> tuple[str, str]:
    """The version and where it was learnt: a frozen build, the installed package, or a source tree."""
    from zorivest_rpc import __version__

    if getattr(sys, "frozen", False):
        return __version__, "frozen"
    try:
        return metadata.version("zorivest-rpc"), "installed"
    except metadata.PackageNotFoundError:
        return __version__ or "0.0.0-dev", "dev"


async def health(ask: RestCall) -> web.StreamResponse:
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


async def show_version(ask: RestCall) -> web.StreamResponse:
    number, context = version()
    return reply({"version": number, "context": context})


async def state_summary(ask: RestCall) -> web.StreamResponse:
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
    Route("GET", "/mcp/state-summary", READ, state_summary),
)
