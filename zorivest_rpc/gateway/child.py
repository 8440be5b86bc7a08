"""The child process of a stdio upstream: how it is started, what it inherits, how it is ended, and that it never
outlives us.

Two things end it when we are gone, whatever ended us. On Linux the kernel signals the child itself. On every POSIX
system a shell of a megabyte waits for the end of a pipe that only we hold, and then ends the child's whole group: a
child that was started through `npx` or `uvx` is a wrapper, and the server behind it would otherwise live on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

__all__ = [
    "INHERITED",
    "KILL",
    "Ring",
    "Watchdog",
    "choose_environment",
    "describe",
    "end_group",
    "tie_to_parent",
    "wait_for",
]

INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR", *(("SYSTEMROOT", "TEMP") if os.name == "nt" else ()))
KILL: Final = signal.SIGKILL if os.name == "posix" else signal.SIGTERM
_PR_SET_PDEATHSIG: Final = 1
_CLOSE_RANGE, _AT_EXEC, _LAST_FILE = (
    436,
    4,
    0x7FFFFFFF,
)  # a system call of Linux 5.11, by the number that nearly every machine has for it
_SHELL: Final = "/bin/sh"
_WATCH: Final = 'while read -r _; do :; done; kill -s KILL -- "-$1"'  # in the form that every sh knows


def choose_environment(environ: Mapping[str, str], passed: Sequence[str] = ()) -> dict[str, str]:
    """What a child is given of our environment: four names, and those that its configuration names."""
    return {name: environ[name] for name in (*INHERITED, *passed) if name in environ}


class Ring:
    """The last bytes that were written to it."""

    __slots__ = ("_held", "_limit")

    def __init__(self, limit: int = 64 * 1024) -> None:
        self._limit = limit
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        self._held += data[-self._limit :]
        if len(self._held) > self._limit:
            del self._held[: -self._limit]

    @property
    def text(self) -> str:
        return self._held.decode("utf-8", "replace")


def tie_to_parent() -> Callable[[], None] | None:
    """What the child does between fork and exec, on Linux: ask to be killed when its parent is gone, and keep no file
    of ours but its three. uvloop leaves it a second descriptor of each of these, and then the end of its stdout is not
    seen. Everything that it needs is found beforehand, because a child of a process with threads can do little."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        library = ctypes.CDLL(None)
        prctl, syscall = library.prctl, library.syscall
    except (ImportError, OSError, AttributeError):
        return None
    parent, kill, leave, current = os.getpid(), signal.SIGKILL, os._exit, os.getppid

    def tie() -> None:
        prctl(_PR_SET_PDEATHSIG, int(kill), 0, 0, 0)
        if current() != parent:  # it was gone before the call above
            leave(127)
        syscall(_CLOSE_RANGE, 3, _LAST_FILE, _AT_EXEC)

    return tie


class Watchdog:
    """A shell that ends a process group when our end of its pipe is closed, which the end of this process does."""

    def __init__(self, group: int) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if os.name == "posix" and os.access(_SHELL, os.X_OK):
            with suppress(OSError):
                self._process = subprocess.Popen(
                    [_SHELL, "-c", _WATCH, "sh", str(group)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    env={"PATH": "/usr/bin:/bin"},
                    cwd="/",
                )

    def dismiss(self) -> None:
        """The group is gone: its number may soon be another's, so the shell must not act on it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()


def end_group(group: int, number: int) -> None:
    """Signal all processes of a group; that there are none is fine."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(group, number)
        else:
            os.kill(group, number)


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Whether it came within this time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def describe(exc: OSError, command: str, cwd: str | None) -> str:
    """Why a child could not be started, for the party that wrote the entry."""
    if isinstance(exc, FileNotFoundError):
        if cwd is not None and not os.path.isdir(cwd):
            return f'there is no directory "{cwd}"'
        return f'there is no program "{command}" on the PATH'
    if isinstance(exc, PermissionError):
        return f'"{command}" may not be run'
    return (exc.strerror or type(exc).__name__).lower()
