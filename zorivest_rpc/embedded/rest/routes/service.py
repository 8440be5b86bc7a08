"""`/service`: the process itself, and its end."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from typing import Any

from aiohttp import web

from ...database import audit
from ...errors import Conflict
from ..routing import ADMIN, READ, RestCall, Route, reply

__all__ = ["ROUTES"]

_PAUSE = 0.5  # between the answer and the end, so that the answer arrives
_SAMPLE = 0.1


async def status(ask: RestCall) -> web.StreamResponse:
    backend = ask.backend
    measured = await asyncio.to_thread(_measure)
    return reply(
        {
            "pid": os.getpid(),
            "uptime_seconds": round(backend.clock() - backend.started, 3),
            "python_version": platform.python_version(),
            **measured,
        }
    )


async def shut_down(ask: RestCall) -> web.StreamResponse:
    """`?if_idle=1`: only where no other request runs, and nothing of the schedule does or is about to."""
    backend = ask.backend
    if "if_idle" in ask.request.query and (
        backend.running_requests > 1 or backend.is_due_soon or not backend.guard.is_saved
    ):
        raise Conflict("in_use", "The backend is in use; nothing was ended.")
    actor = ask.session.actor
    await ask.db.write(lambda conn: audit.record(conn, actor, "service.shutdown", "process", str(os.getpid())))
    asyncio.get_running_loop().call_later(_PAUSE, ask.backend.stop_requested.set)
    return reply({"status": "shutting_down", "message": "The backend ends as soon as running requests are answered."})


def _measure() -> dict[str, Any]:
    """Memory and processor use; without psutil the peak memory that the system reports, and marked so."""
    try:
        import psutil
    except ImportError:
        return {"memory_mb": _peak_memory(), "cpu_percent": 0.0, "metrics_limited": True}
    process = psutil.Process()
    cpu = process.cpu_percent(_SAMPLE)
    return {"memory_mb": round(process.memory_info().rss / 1024 / 1024, 1), "cpu_percent": cpu}


def _peak_memory() -> float:
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 * 1024 if sys.platform == "darwin" else 1024), 1)


ROUTES = (
    Route("GET", "/service/status", READ, status),
    Route("POST", "/service/graceful-shutdown", ADMIN, shut_down),
)
