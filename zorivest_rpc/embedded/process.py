"""The backend as a process: alone in its data directory, on its socket or on loopback, until it is told to end or no
server needs it.

Order of a start: the directory's lock, the logs, the vault (created on the first start), the database, the listener,
and last `runtime.json`, so that its reader finds a backend that answers. The end goes the other way round."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import web

from zorivest_rpc import __version__
from zorivest_rpc.core_dumps import forbid_core_dumps
from zorivest_rpc.proof import place_of

from .app import create_app
from .backend import Embedded
from .database.engine import cipher_driver
from .demo.load import load_into
from .disk.filelock import FileLock
from .disk.paths import DataDir
from .errors import Corrupt, Refusal
from .link import socket_path
from .locate import describe_holder, find
from .runtime import GENERATION, Runtime, publish
from .vault.crypto import is_api_key, new_api_key
from .vault.keystore import read_key, store_key
from .vault.vault import Vault
from .wake import publish_due

__all__ = ["DEFAULT_PORT", "Options", "run"]

DEFAULT_PORT = 8765
_LOCK_PATIENCE = 20.0
_SHUTDOWN_SECONDS = 5.0

log = logging.getLogger("zorivest.app")


@dataclass(frozen=True)
class Options:
    """How to run; `port` None means the socket of the directory, or a port where there can be no socket."""

    data_dir: Path
    port: int | None = None
    idle_exit: float = 0.0
    api_key: str | None = None
    use_keyring: bool = True
    detached: bool = False
    demo: bool = False
    wakeable: bool = False  # a server starts it again for what its schedule has due


async def run(options: Options, say: Callable[[str], None]) -> int:
    """Run until the end; returns the exit code. `say` tells the person at the terminal."""
    os.umask(0o077)
    forbid_core_dumps()
    directory = DataDir(options.data_dir.absolute()).create()
    lock = FileLock(directory.process_lock)
    if (settled := await _alone(directory, lock, say)) is not None:
        return settled
    with lock:
        try:
            backend = await _prepare(directory, options, say)
        except Refusal as exc:
            say(f"cannot start: {exc.detail}")
            return 1
        backend.logs.start()
        try:
            return await _run_backend(backend, options, say)
        finally:
            await backend.close()
            directory.runtime.unlink(missing_ok=True)  # ours: the lock is still held
            directory.socket.unlink(missing_ok=True)
            backend.logs.close()


async def _run_backend(backend: Embedded, options: Options, say: Callable[[str], None]) -> int:
    if options.wakeable:
        backend.scheduling.when_moved = partial(publish_due, backend.directory, backend.scheduling.next_due)
    await _auto_unlock(backend, options)
    if options.demo and not backend.locked:
        loaded = await load_into(backend)
        say(f"demo data: {loaded['trades']} trades, {loaded['status'].replace('_', ' ')}")
    try:
        listener = _listen(backend.directory, options.port)
    except OSError as exc:
        say(f"cannot listen on 127.0.0.1:{options.port}: {exc.strerror}")
        return 1
    return await _serve(backend, listener, options, say)


async def _alone(directory: DataDir, lock: FileLock, say: Callable[[str], None]) -> int | None:
    """Take the directory; an exit code if another backend has it. One that is just ending is waited for."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LOCK_PATIENCE
    while not lock.acquire():
        if running := await asyncio.to_thread(find, directory.root):
            say(f"already running: {running.shown} (pid {running.pid})")
            return 0
        if loop.time() > deadline:
            say(describe_holder(directory))
            return 1
        await asyncio.sleep(0.1)
    return None


async def _prepare(directory: DataDir, options: Options, say: Callable[[str], None]) -> Embedded:
    """The vault: loaded, or created with the caller's key or a new one."""
    if Vault.exists(directory):
        return Embedded.load(directory)
    if directory.database.exists():
        raise Corrupt(
            "bootstrap_missing", f"{directory.bootstrap} is gone and {directory.database} needs it: restore it."
        )
    own = options.api_key if options.api_key and is_api_key(options.api_key) else None
    key = own or read_key(directory, use_keyring=options.use_keyring) or new_api_key()
    source = "client" if own else store_key(directory, key, use_keyring=options.use_keyring)
    driver = cipher_driver()
    backend = await asyncio.to_thread(Embedded.create, directory, key, key_source=source, driver=driver)
    say(f"created a journal in {directory.root}" + ("" if driver else " (NOT encrypted: SQLCipher is not installed)"))
    if own is None and not options.detached:
        place = str(directory.key_file) if source == "file" else "the system keyring"
        say(f"admin API key (shown once, kept in {place}): {key}")
    return backend


async def _auto_unlock(backend: Embedded, options: Options) -> None:
    """Open the database with a key at hand, so that it is ready before the first caller; else it waits locked."""
    stored = read_key(backend.directory, use_keyring=options.use_keyring)
    for source, key in (("environment", options.api_key), ("key store", stored)):
        if key:
            try:
                await backend.open(key)
                log.info("database opened with the key from the %s", source)
                return
            except Refusal as exc:
                log.warning("the key from the %s does not open the database: %s", source, exc.code)


def _listen(directory: DataDir, port: int | None) -> socket.socket:
    """The directory's socket; a port if one was chosen, or where the system or the file system has no such sockets."""
    path = socket_path(directory) if port is None else None
    if path is not None:
        try:
            return _listen_at(path)
        except OSError as exc:
            log.warning("no socket at %s (%s): listening on a port instead", path, exc.strerror)
    return _listen_on(port)


def _listen_at(path: str) -> socket.socket:
    """The caller holds the directory's lock, so a socket that is there was left by a process that died."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        os.chmod(path, 0o600)  # the directory is what protects it; until here the umask of `run` did as well
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


def _listen_on(port: int | None) -> socket.socket:
    """A port of loopback; the usual port gives way to a free one, a chosen port does not."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # there SO_REUSEADDR would let another program take the port from us
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", DEFAULT_PORT if port is None else port))
        except OSError as exc:
            if port is not None or exc.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            sock.bind(("127.0.0.1", 0))
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


async def _serve(backend: Embedded, listener: socket.socket, options: Options, say: Callable[[str], None]) -> int:
    runner = web.AppRunner(create_app(backend), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    loop = asyncio.get_running_loop()
    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, backend.stop_requested.set)
        if options.detached:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        shown = _publish(backend, listener, options)
        say(f"listening on {shown}")
        log.info("listening on %s, pid %s", shown, os.getpid())
        backend.last_used = backend.clock()  # idle time begins once calls can arrive
        async with asyncio.TaskGroup() as tasks:
            idle = tasks.create_task(_watch_idle(backend, options.idle_exit, wakeable=options.wakeable))
            await backend.stop_requested.wait()
            idle.cancel()
    finally:
        await runner.cleanup()
    log.info("ended")
    return 0


def _publish(backend: Embedded, listener: socket.socket, options: Options) -> str:
    """Write down where the backend listens and how it proves itself; returns the address as it may be printed."""
    port = None if listener.family != socket.AF_INET else int(listener.getsockname()[1])
    backend.proof_place = place_of(port)
    started = backend.started_at.isoformat()
    runtime = Runtime(GENERATION, __version__, os.getpid(), port, backend.proof_secret, started, options.detached)
    publish(backend.directory, runtime)
    address = runtime.address(backend.directory)
    return address.shown if address is not None else str(backend.directory.socket)


async def _watch_idle(backend: Embedded, seconds: float, *, wakeable: bool = False) -> None:
    """Ask for the end when no session was used for a while; a running request counts as use, and so does a schedule.

    A lock of the guard that could not be saved counts too: the end of the process would open it."""
    if seconds <= 0:
        return
    while True:
        scheduled = backend.is_due_soon if wakeable else backend.scheduling.busy
        if backend.running_requests or scheduled or not backend.guard.is_saved:
            backend.last_used = backend.clock()
        rest = backend.last_used + seconds - backend.clock()
        if rest <= 0:
            log.info("the backend was not used for %s seconds", seconds)
            backend.stop_requested.set()
            return
        await asyncio.sleep(max(rest, 0.05))
