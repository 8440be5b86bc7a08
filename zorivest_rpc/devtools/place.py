"""Where a running server takes what pages send: a private file per port in the data directory, for other processes.

`devtools snippet` and `devtools demo` read it; the server writes it when it listens and removes it when it ends. The
keys in it only let a page send data and answer questions; still they are readable by the user alone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import msgspec

from zorivest_rpc.private_files import write_private

__all__ = ["Place", "find_places", "publish", "withdraw"]

_FOLDER: Final = "devtools"


class Place(msgspec.Struct, frozen=True):
    origin: str  # http://127.0.0.1:8767
    pid: int
    keys: dict[str, str]  # by tenant


def publish(data_dir: Path, port: int, place: Place) -> None:
    """Write, or replace, the file of this port."""
    folder = data_dir / _FOLDER
    write_private(str(folder / f"{port}.json"), msgspec.json.encode(place))


def withdraw(data_dir: Path, port: int) -> None:
    """Remove the file of this port if it is this process's."""
    path = data_dir / _FOLDER / f"{port}.json"
    place = _read(path)
    if place is not None and place.pid == os.getpid():
        with contextlib.suppress(OSError):
            path.unlink()


def find_places(data_dir: Path) -> list[Place]:
    """The servers that said where they are, the newest first; one that was killed may be among them."""
    try:
        files = sorted((data_dir / _FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []
    return [place for path in files if (place := _read(path)) is not None]


def _read(path: Path) -> Place | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Place)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
