"""Finds the backend of a data directory, and starts one if there is none: exactly one, however many callers look at
once.

`runtime.json` says where the running backend listens; it counts only if that port answers with the same instance id,
so a stale file, a recycled port or a recycled pid misleads nobody. Of several callers that find nothing, the one that
gets `start.lock` starts a process; the process itself holds `backend.lock` for life, which settles every remaining
race.

Standard library only: this runs in the server that must answer its client at once."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zorivest_rpc.errors import ZorivestError

from .filelock import FileLock
from .keystore import read_key
from .paths import DataDir, private_opener

__all__ = ["BackendStartError", "Located", "find", "find_or_start", "stored_key"]

IDLE_EXIT_SECONDS = 900.0
START_TIMEOUT = 60.0
_POLL = 0.05
_LOG_LIMIT = 256 * 1024


class BackendStartError(ZorivestError):
    """The embedded backend could not be started; the text says why and where to look."""


class Located(NamedTuple):
    """A running backend; `started` tells whether this call started it."""

    base_url: str
    pid: int
    instance_id: str
    started: bool


def stored_key(data_dir: Path, environ: Mapping[str, str]) -> str | None:
    """The API key for this directory: the caller's own, else the one its first start stored."""
    use_keyring = environ.get("ZORIVEST_KEYRING") != "off"
    return environ.get("ZORIVEST_API_KEY") or read_key(DataDir(data_dir), use_keyring=use_keyring)


def find(data_dir: Path, timeout: float = 2.0) -> Located | None:
    """The running backend of a directory, if its published address answers as the instance it names."""
    try:
        runtime: Any = json.loads(DataDir(data_dir).runtime.read_bytes())
        port, pid, instance = int(runtime["port"]), int(runtime["pid"]), str(runtime["instance_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if _instance_at(port, timeout) != instance:
        return None
    return Located(f"http://127.0.0.1:{port}/api/v1", pid, instance, False)


def find_or_start(
    data_dir: Path,
    *,
    port: int | None = None,
    idle_exit: float | None = None,
    timeout: float = START_TIMEOUT,
    environ: Mapping[str, str] | None = None,
) -> Located:
    """Find the backend or start it detached from this process; blocks, so call it on a thread.

    One that is started ends after `idle_exit` seconds without use (0: never); None takes it from `ZORIVEST_IDLE_EXIT`,
    else 15 minutes."""
    environ = os.environ if environ is None else environ
    if idle_exit is None:
        idle_exit = _idle_exit(environ)
    try:
        directory = DataDir(data_dir.absolute()).create()
    except OSError as exc:
        raise BackendStartError(f"The data directory {data_dir} cannot be used: {exc.strerror}.") from None
    deadline = time.monotonic() + timeout
    starting = FileLock(directory.start_lock)
    try:
        while True:
            if found := find(directory.root):
                return found
            if starting.acquire():
                # Somebody may have finished between the look and the lock.
                return find(directory.root) or _start(directory, port, idle_exit, deadline, environ)
            _pause(deadline, directory)
    finally:
        starting.release()


def _start(
    directory: DataDir, port: int | None, idle_exit: float, deadline: float, environ: Mapping[str, str]
) -> Located:
    """Start a process and wait until a backend answers; the caller holds `start.lock`."""
    command = [sys.executable, "-P", "-m", "zorivest_rpc.cli.backend", "--detached"]
    command += ["--data-dir", str(directory.root), "--idle-exit", str(idle_exit)]
    if port is not None:
        command += ["--port", str(port)]
    env = dict(environ)
    # This very package, wherever it is imported from; `-P` keeps the editor's current directory out of the path.
    package_root = str(Path(__file__).resolve().parents[2])
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [package_root, env.get("PYTHONPATH")]))
    child, offset = _spawn(directory, command, env)
    while True:
        if found := find(directory.root):
            return found._replace(started=found.pid == child.pid)
        code = child.poll()
        if code == 0:  # it met a backend that has ended since
            child, offset = _spawn(directory, command, env)
        elif code is not None:
            said = _startup_log(directory).read_bytes()[offset:].decode(errors="replace").strip().splitlines()
            reason = said[-1] if said else f"exit code {code}"
            raise BackendStartError(f"The embedded backend did not start: {reason} (see {_startup_log(directory)}).")
        _pause(deadline, directory)


def _idle_exit(environ: Mapping[str, str]) -> float:
    text = environ.get("ZORIVEST_IDLE_EXIT")
    if not text:
        return IDLE_EXIT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise BackendStartError(f"ZORIVEST_IDLE_EXIT: {text!r} is not a number of seconds.")
    return seconds


def _spawn(directory: DataDir, command: list[str], env: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """A detached process, and where its messages begin in the start-up log."""
    log = _startup_log(directory)
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.unlink()
    with open(log, "ab", opener=private_opener) as output:
        offset = output.tell()
        child = subprocess.Popen(
            command,
            env=env,
            cwd=directory.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,  # it outlives the editor that happened to need it first
            creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
        )
    threading.Thread(target=child.wait, name="zorivest-backend-reaper", daemon=True).start()
    return child, offset


def _startup_log(directory: DataDir) -> Path:
    return directory.logs / "startup.log"


def _pause(deadline: float, directory: DataDir) -> None:
    if time.monotonic() > deadline:
        raise BackendStartError(
            f"The embedded backend of {directory.root} did not answer in time; see {directory.logs}."
        )
    time.sleep(_POLL)


def _instance_at(port: int, timeout: float) -> str | None:
    """Who answers at a port of this machine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", "/api/v1/health")
        answer: Any = json.loads(connection.getresponse().read(65_536))
        return str(answer["instance_id"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
