"""`runtime.json`: where the running backend of a directory listens, how it proves itself, and of which release it is.

Written by the backend while it holds `backend.lock`, mode 0600; the secret in it changes with every start. Standard
library only."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from zorivest_rpc import __version__

from .disk.paths import DataDir, write_private
from .link import LocalAddress, socket_path

__all__ = ["GENERATION", "Runtime", "is_newer", "is_older", "publish", "read_runtime"]

GENERATION = 2
"""How a server finds a backend. 1 (release 0.1): a port, with an instance id that any local user could read."""


class Runtime(NamedTuple):
    """What the file says; of generation 1 only `pid` and `port` are known."""

    generation: int
    release: str
    pid: int
    port: int | None
    secret: str
    started_at: str
    detached: bool

    def address(self, directory: DataDir) -> LocalAddress | None:
        """Where to connect; None for a backend that cannot prove itself, or a socket that this process cannot name."""
        if self.generation < 2 or not self.secret:
            return None
        if self.port is not None:
            return LocalAddress(None, self.port, self.secret)
        path = socket_path(directory)
        return None if path is None else LocalAddress(path, None, self.secret)


def read_runtime(directory: DataDir) -> Runtime | None:
    """None if nothing was published, or something that no release writes."""
    try:
        content: Any = json.loads(directory.runtime.read_bytes())
        generation = int(content.get("generation", 1))
        port = content.get("port")
        if generation < 2:
            str(content["instance_id"])
        return Runtime(
            generation,
            str(content.get("release", "")),
            int(content["pid"]),
            None if port is None else int(port),
            str(content.get("secret", "")),
            str(content.get("started_at", "")),
            content.get("detached") is True,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def publish(directory: DataDir, runtime: Runtime) -> None:
    write_private(directory.runtime, json.dumps(runtime._asdict()).encode())


def is_older(runtime: Runtime) -> bool:
    """Whether that backend is of an earlier release than this program."""
    return (runtime.generation, _parts(runtime.release)) < (GENERATION, _parts(__version__))


def is_newer(runtime: Runtime) -> bool:
    return (runtime.generation, _parts(runtime.release)) > (GENERATION, _parts(__version__))


def _parts(release: str) -> tuple[int, ...]:
    """The numbers a release begins with; a development build counts as the release it leads to."""
    found = re.match(r"\d+(\.\d+)*", release)
    numbers = [int(part) for part in found.group().split(".")] if found else []
    return tuple((*numbers, 0, 0, 0)[:3])
