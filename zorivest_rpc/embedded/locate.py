"""Finds the backend of a data directory, and starts one if there is none: exactly one, however many callers look at
once.

`runtime.json` says where the running backend listens; it counts only if what listens there proves that it wrote the
file, so a stale file, a recycled port or a recycled pid misleads no caller. Of several callers that find nothing, the
one that gets `start.lock` starts a process; the process itself holds `backend.lock` for life, which settles every
remaining race, between two releases as well: a backend of an older release is ended, and a server of an older release
is told to restart.

Standard library only: this runs in the server that must answer its client at once."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from zorivest_rpc import __version__
from zorivest_rpc.errors import ZorivestError

from .disk.filelock import FileLock
from .disk.paths import DataDir, private_opener
from .link import BackendConnection, LocalAddress
from .runtime import GENERATION, Runtime, is_newer, is_older, read_runtime
from .vault.keystore import read_key

__all__ = ["BackendStartError", "Located", "describe_holder", "find", "find_or_start", "is_held", "stored_key"]

IDLE_EXIT_SECONDS = 900.0
START_TIMEOUT = 60.0
_POLL = 0.05
_LOG_LIMIT = 256 * 1024
_ROOM = 64 * 1024  # bytes; with less the locks, the log and the write-ahead log of a start do not fit


class BackendStartError(ZorivestError):
    """The embedded backend could not be started; the text says why and where to look."""


class Located(NamedTuple):
    """A running backend that proved itself; `started` tells whether this call started it."""

    address: LocalAddress
    pid: int
    started: bool

    @property
    def shown(self) -> str:
        """Its address as it may be printed."""
        return self.address.shown

    def connect(self, timeout: float) -> BackendConnection:
        """A connection on which a key may be sent; opened with the first request."""
        return BackendConnection(self.address, timeout)


def stored_key(data_dir: Path, environ: Mapping[str, str]) -> str | None:
    """The API key for this directory: the caller's own, else the one its first start stored."""
    use_keyring = environ.get("ZORIVEST_KEYRING") != "off"
    return environ.get("ZORIVEST_API_KEY") or read_key(DataDir(data_dir), use_keyring=use_keyring)


def find(data_dir: Path, timeout: float = 2.0) -> Located | None:
    """The running backend of a directory, if what listens at its published address proves that it is this one."""
    directory = DataDir(data_dir)
    runtime = read_runtime(directory)
    address = runtime.address(directory) if runtime is not None else None
    if runtime is None or address is None:
        return None
    connection = BackendConnection(address, timeout)
    try:
        connection.connect()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return Located(address, runtime.pid, False)


def find_or_start(
    data_dir: Path,
    *,
    port: int | None = None,
    idle_exit: float | None = None,
    timeout: float = START_TIMEOUT,
    environ: Mapping[str, str] | None = None,
    wakeable: bool = False,
) -> Located:
    """Find the backend or start it detached from this process; blocks, so call it on a thread.

    One that is started ends after `idle_exit` seconds without use (0: never); None takes it from `ZORIVEST_IDLE_EXIT`,
    else 15 minutes. `wakeable`: another process starts it for what its schedule has due, so a schedule keeps it not."""
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
            if found := _find_same_release(directory):
                return found
            if starting.acquire():
                # Another caller may have finished between the look and the lock.
                if found := _find_same_release(directory):
                    return found
                _end_older(directory, deadline)
                return _start(directory, port, idle_exit, deadline, environ, wakeable)
            starter = f"process {pid}" if (pid := _pid_in(directory.start_lock)) else "another process"
            _pause(deadline, directory, f"is being started by {starter} and did not answer in time")
    except OSError as exc:  # a full disk has no room for the locks and the log of a start
        raise BackendStartError(
            f"The embedded backend of {directory.root} cannot be started: {exc.strerror or exc}."
        ) from None
    finally:
        starting.release()


def _find_same_release(directory: DataDir) -> Located | None:
    """The running backend, unless it is of an older release; a newer one is an error that says what to do."""
    found, runtime = find(directory.root), read_runtime(directory)
    if runtime is not None and is_newer(runtime) and _holder(directory) == runtime.pid:
        raise BackendStartError(
            f"The journal in {directory.root} is open in release {runtime.release} of zorivest-rpc (process "
            f"{runtime.pid}), newer than this server ({__version__}). Restart this server, so that it runs the new "
            "release: restart it in the client that started it, or the client itself."
        )
    return None if runtime is not None and is_older(runtime) else found


def is_held(data_dir: Path) -> bool:
    """Whether a process has the directory as its backend, be it starting, running or ending."""
    return _holder(DataDir(data_dir)) is not None


def _holder(directory: DataDir) -> int | None:
    """The process that holds the directory as its backend; None if no process does."""
    probe = FileLock(directory.process_lock)
    try:
        return None if probe.acquire() else _pid_in(directory.process_lock)
    except OSError:
        return None
    finally:
        probe.release()


def _pid_in(lock: Path) -> int | None:
    try:
        return int(lock.read_text())
    except (OSError, ValueError):
        return None


def describe_holder(directory: DataDir) -> str:
    """Why a directory that another process holds cannot be taken, and what its owner can do, without a full stop."""
    runtime, pid = read_runtime(directory), _holder(directory)
    if pid is None:
        return f"another process holds {directory.process_lock} and does not answer"
    if runtime is None or runtime.pid != pid:
        return f"process {pid} holds {directory.process_lock} and does not answer: end it"
    if is_older(runtime):
        return f"a backend of an older release holds {directory.root} (process {pid}): restart it with this release"
    if is_newer(runtime):
        return (
            f"the journal in {directory.root} is open in release {runtime.release} of zorivest-rpc (process {pid}), "
            f"newer than this one ({__version__}): use that release"
        )
    return f"the backend of {directory.root} does not answer (process {pid}): end it"


def _end_older(directory: DataDir, deadline: float) -> None:
    """Ask a backend of an older release to end, and wait until it has; the caller holds `start.lock`.

    Its servers then find the new one and are told to restart. No key is sent to it: it cannot prove itself."""
    runtime = read_runtime(directory)
    if runtime is None or not is_older(runtime) or _holder(directory) != runtime.pid:
        return  # a file left behind by a process that died
    if not _may_be_ended(runtime):
        raise BackendStartError(
            f"A backend of an older release holds {directory.root} (process {runtime.pid}), and it was started by "
            "hand. Restart it with this release."
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(runtime.pid, signal.SIGTERM)
    while _holder(directory) == runtime.pid:
        _pause(deadline, directory, f"is of an older release and does not end (process {runtime.pid}); end it")


def _may_be_ended(runtime: Runtime) -> bool:
    """Only what a server started on demand; release 0.1 did not write that down, so its command line is read."""
    if runtime.generation >= 2:
        return runtime.detached
    try:
        command = Path(f"/proc/{runtime.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        ps = ["ps", "-o", "args=", "-p", str(runtime.pid)]
        try:
            command = subprocess.run(ps, capture_output=True, text=True, check=False, timeout=5).stdout.split()
        except (OSError, subprocess.SubprocessError):
            return False
    return "zorivest_rpc.cli.backend" in command and "--detached" in command


def _start(
    directory: DataDir,
    port: int | None,
    idle_exit: float,
    deadline: float,
    environ: Mapping[str, str],
    wakeable: bool,
) -> Located:
    """Start a process and wait until a backend answers; the caller holds `start.lock`."""
    command = [sys.executable, "-P", "-m", "zorivest_rpc.cli.backend", "--detached", "--generation", str(GENERATION)]
    command += ["--data-dir", str(directory.root), "--idle-exit", str(idle_exit)]
    if port is not None:
        command += ["--port", str(port)]
    if wakeable:
        command.append("--wakeable")
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
            raise BackendStartError(f"The embedded backend did not start: {_reason(directory, offset, code)}.")
        _pause(deadline, directory)


def _reason(directory: DataDir, offset: int, code: int) -> str:
    """Why a process ended at its start: its last words, unless there was no room to write them down."""
    if shutil.disk_usage(directory.root).free < _ROOM:
        return f"no room is left on the disk of {directory.root}; free some space"
    log = _startup_log(directory)
    said = log.read_bytes()[offset:].decode(errors="replace").strip().splitlines()
    return f"{said[-1] if said else f'exit code {code}'} (see {log})"


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


def _pause(deadline: float, directory: DataDir, why: str = "did not answer in time") -> None:
    if time.monotonic() > deadline:
        raise BackendStartError(f"The embedded backend of {directory.root} {why}; see {directory.logs}.")
    time.sleep(_POLL)
