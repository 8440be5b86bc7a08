"""Server processes under measurement: on which core they run, when they listen, what they have used.

Linux alone: affinity and `/proc` are what the figures come from.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "Cores",
    "allow_many_files",
    "busy_seconds",
    "cores",
    "cpu_seconds",
    "free_port",
    "on_cores",
    "only_core",
    "rss_mb",
    "start",
    "stop",
    "wait_port",
]

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Cores(NamedTuple):
    """The cores of the load generator, of the server, and of a start that is not pinned."""

    client: frozenset[int]
    server: frozenset[int]
    every: frozenset[int]


def cores() -> Cores:
    """Load generator on the first core, server on the second; a machine with one core shares it."""
    every = sorted(os.sched_getaffinity(0))
    server = every[1] if len(every) > 1 else every[0]
    return Cores(frozenset(every[:1]), frozenset({server}), frozenset(every))


@contextlib.contextmanager
def on_cores(wanted: frozenset[int]) -> Iterator[None]:
    """What is spawned inside inherits these cores; so no `taskset` process is part of a measured start."""
    previous = os.sched_getaffinity(0)
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, previous)


def allow_many_files() -> None:
    """Raise the limit of open files as far as allowed: thousands of streams are open at once on both sides."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(
    command: Sequence[str], environment: Mapping[str, str], wanted: frozenset[int], directory: Path
) -> subprocess.Popen[bytes]:
    """Start a server that listens on a port; nothing it prints is kept."""
    with on_cores(wanted):
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd=directory,
        )


def wait_port(port: int, process: subprocess.Popen[bytes], timeout: float = 30) -> None:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if process.poll() is not None:
            raise ConnectionError(f"the server ended with exit code {process.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(f"the server did not listen within {timeout:g} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process with its threads, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def busy_seconds(core: int) -> float:
    """Time a core has spent on any program, and time the hypervisor took from it."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"cpu{core} "):
            user, nice, system, _idle, _iowait, _irq, _softirq, stolen, *_ = map(int, line.split()[1:])
            return (user + nice + system + stolen) / TICKS_PER_SECOND
    raise ProcessLookupError(f"no core {core}")


def only_core(pid: int) -> int | None:
    """The core a process is pinned to, if it is pinned to one."""
    allowed = os.sched_getaffinity(pid)
    return allowed.pop() if len(allowed) == 1 else None


def rss_mb(pid: int) -> float:
    """Resident memory of a process, MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no resident memory")
