"""The backend as a process: its vitals, a restart that is believed only once a new process answers, its log files."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Final

from zorivest_rpc.errors import BackendError, BackendUnreachable, OutcomeUnknown, ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Auth, Backend, Reply, Request
from zorivest_rpc.serving.tools.kit import Kit, flag_error

__all__ = ["Service"]

_HEALTH_SECONDS: Final = 5.0
_PAUSE: Final = 2.0
_LONGEST: Final = 30.0
_START: Final = "Start it from the desktop app (zorivest_launch_gui) or the system's service manager."
_START_EMBEDDED: Final = "Call any tool: the embedded backend is started by itself."


class Service:
    """`log_directory` is where the backend writes its logs on this machine; it is looked at and never made."""

    def __init__(
        self,
        kit: Kit,
        log_directory: Callable[[Call], str],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kit = kit
        self._log_directory = log_directory
        self._clock = clock
        self._sleep = sleep

    def handlers(self) -> dict[str, Handler]:
        return {"service_status": self.status, "service_restart": self.restart, "service_logs": self.logs}

    def _way_to_start(self, call: Call) -> str:
        return _START if self._kit.desktop(call) else _START_EMBEDDED

    # --- status

    async def status(self, call: Call) -> Outcome:
        backend = self._kit.backend_for(call)
        health, process = await asyncio.gather(
            _ask(backend, "/health", open_to_all=True), _ask(backend, "/service/status")
        )
        if not _answers(health) and not _answers(process):
            assert isinstance(health, ToolError)
            hint = self._way_to_start(call)
            return flag_error({"backend": "unreachable", "error": health.text, "hint": hint}, health)
        return self._kit.give(call, _vitals(health, process))

    # --- restart

    async def restart(self, call: Call) -> Outcome:
        """The old process may answer for a while yet, so only a proof of a new one ends the wait."""
        backend = self._kit.backend_for(call)
        before = await _ask(backend, "/health", open_to_all=True)
        start = self._way_to_start(call)
        if isinstance(before, BackendUnreachable):
            raise BackendUnreachable(
                f"The backend does not answer, so it cannot be asked to restart; nothing was done. {start}",
                code=before.code,
                next=start,
            )
        lost: OutcomeUnknown | None = None
        receipt: dict[str, Json] | None = None
        started = self._clock()
        try:
            receipt = (await self._kit.write(call, "POST", "/service/graceful-shutdown")).receipt
        except OutcomeUnknown as error:  # it may have left before it could answer: the next minute will tell
            lost = error
        witness = _Witness(before)
        while (passed := self._clock() - started) < _LONGEST:
            call.progress(passed, _LONGEST, "waiting for the new process")
            await self._sleep(min(_PAUSE, _LONGEST - passed))
            after = await _ask(backend, "/health", open_to_all=True)
            if witness.is_new(after, self._clock() - started):
                return await self._finish_restart(call, backend, after, receipt)
        if lost is not None:
            raise lost
        raise ToolError(
            f"The backend was asked to restart and no new process answered within {_LONGEST:g} seconds. {start}",
            code="restart_timed_out",
            next=f"Check with zorivest_service_status. {start}",
        )

    async def _finish_restart(
        self, call: Call, backend: Backend, health: Reply | ToolError, receipt: dict[str, Json] | None
    ) -> Outcome:
        """A new process knows no sessions; a request that needs one makes the backend's client unlock again."""
        process = await _ask(backend, "/service/status")
        vitals = _vitals(health, process)
        given: dict[str, Json] = {"status": "restarted"}
        given |= {name: vitals[name] for name in ("version", "pid") if vitals.get(name) is not None}
        if isinstance(uptime := vitals["uptime_seconds"], int):
            given["uptime_seconds"] = uptime
        message = "The backend runs as a new process, and its database is unlocked again."
        if isinstance(process, ToolError):
            message = f"The backend runs as a new process, but unlocking it failed: {process.text}"
        return self._kit.give(call, given, message=message, receipt=receipt)

    # --- logs

    async def logs(self, call: Call) -> Outcome:
        directory = self._log_directory(call)
        names, hint = await asyncio.get_running_loop().run_in_executor(None, _log_files, directory)
        return self._kit.give(call, {"log_directory": directory, "log_files": names, "hint": hint})


class _Witness:
    """Tells the new process from the old: by when it started, or, where that is not told, by what else shows it."""

    def __init__(self, before: Reply | ToolError) -> None:
        health = _object(before)
        self._started = _read_start(health)
        self._uptime = _number(health, "uptime_seconds")
        self._was_gone = False

    def is_new(self, after: Reply | ToolError, passed: float) -> bool:
        """`passed` is the time since the old process was asked to leave."""
        if isinstance(after, ToolError):
            # "backend_down" is a memory of earlier failures, not something seen now
            self._was_gone |= isinstance(after, BackendUnreachable) and after.code != "backend_down"
            return False
        health = _object(after)
        if health.get("status") != "ok":
            return False
        if self._started is not None:
            started = _read_start(health)
            return started is not None and started != self._started
        uptime = _number(health, "uptime_seconds")
        if uptime is None:
            return self._was_gone
        if self._uptime is not None:
            return uptime < self._uptime or self._was_gone
        return uptime + 1 < passed or self._was_gone  # the old one is older than the wait; uptimes are cut to seconds


def _read_start(health: dict[str, Json]) -> str | None:
    """What differs from one process of a backend to the next; a Zorivest installation may have an instance id."""
    return _text(health, "started_at") or _text(health, "instance_id")


async def _ask(backend: Backend, path: str, *, open_to_all: bool = False) -> Reply | ToolError:
    auth: Auth = "none" if open_to_all else "needed"
    try:
        return await backend.ask(Request("GET", path, auth=auth, timeout=_HEALTH_SECONDS, urgent=True))
    except ToolError as error:
        return error


def _answers(found: Reply | ToolError) -> bool:
    """A refusal is an answer as well, unless what speaks there is no backend."""
    return isinstance(found, Reply) or (isinstance(found, BackendError) and found.code != "not_json")


def _vitals(health: Reply | ToolError, process: Reply | ToolError) -> dict[str, Json]:
    figures, about = _object(process), _object(health)
    uptime = _number(figures, "uptime_seconds")
    if uptime is None:
        uptime = _number(about, "uptime_seconds")
    pid = _number(figures, "pid")
    given: dict[str, Json] = {
        "backend": "running",
        "pid": None if pid is None else int(pid),
        "uptime_seconds": None if uptime is None else int(uptime),
        "memory_mb": _number(figures, "memory_mb"),
        "cpu_percent": _number(figures, "cpu_percent"),
    }
    if (version := _text(about, "version")) is not None:
        given["version"] = version
    scheduler = _part(about, "scheduler")
    if (policies := _number(scheduler, "active_policies")) is not None:
        given["scheduler"] = {"active_policies": int(policies), "next_run": _text(scheduler, "next_run")}
    unlocked = _part(about, "database").get("unlocked", about.get("database_unlocked"))
    if isinstance(unlocked, bool):
        given["database"] = {"unlocked": unlocked}
    if figures.get("metrics_limited") is True:
        given["metrics_limited"] = True
    notes = [found.text for found in (health, process) if isinstance(found, ToolError)]
    if notes:
        given["note"] = "Some figures are missing. " + " ".join(notes)
    return given


def _object(found: Reply | ToolError) -> dict[str, Json]:
    return found.value if isinstance(found, Reply) and isinstance(found.value, dict) else {}


def _part(value: dict[str, Json], name: str) -> dict[str, Json]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: dict[str, Json], name: str) -> str | None:
    found = value.get(name)
    return found if isinstance(found, str) and found else None


def _number(value: dict[str, Json], name: str) -> float | None:
    found = value.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def _log_files(directory: str) -> tuple[list[str], str]:
    """Rotated copies and the service's own output do not end in .jsonl and stay out."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".jsonl"))
    except FileNotFoundError:
        return [], "There is no log directory yet; it appears when the backend first writes a log."
    except OSError as exc:
        return [], f"The log directory cannot be read ({(exc.strerror or 'unknown reason').lower()})."
    return names, "One JSON object per line; read the files from the directory. update_log_level changes the detail."
