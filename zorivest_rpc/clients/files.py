"""A client's configuration file on disk: read whole, replaced whole, its mode and owner kept, links followed.

Rule 1: a reader or a crash sees the old content or the new one and nothing between.
Rule 2: what the client wrote while we were thinking is never overwritten."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import NamedTuple

from .refusal import ClientFileRefused

__all__ = ["ConfigFile", "FileChanged", "backup_path", "delete", "read", "replace"]

_LIMIT = 64 * 1024 * 1024


class ConfigFile(NamedTuple):
    """The file that the name leads to; `data` is None if there is none yet."""

    path: str
    data: bytes | None
    mode: int = 0o600
    owner: tuple[int, int] | None = None


class FileChanged(Exception):
    """Another process changed the file in the meantime; read it again."""


def read(name: str) -> ConfigFile:
    """Refused for what is no regular file or cannot be read."""
    path = os.path.realpath(name)
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode):
            raise ClientFileRefused("it is not a file", "Move it away and run this again.", name)
        if facts.st_size > _LIMIT:
            raise ClientFileRefused("it is too large to be a configuration file", "Look at what is in it.", name)
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return ConfigFile(path, None)
    except OSError as exc:
        raise ClientFileRefused(_reason(exc, "cannot be read"), "Give your user the right to read it.", name) from None
    return ConfigFile(path, data, stat.S_IMODE(facts.st_mode), (facts.st_uid, facts.st_gid))


def backup_path(path: str, name: str) -> str:
    """Where the file's content from before our entry is kept."""
    return f"{path}.{name}-backup"


def replace(file: ConfigFile, data: bytes, backup: str | None = None) -> None:
    """Write the new content, and the old one to `backup`; Moved if the old one is not there any more."""
    directory = os.path.dirname(file.path)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if file.data is not None and not file.mode & stat.S_IWUSR:
            raise ClientFileRefused(
                f"it is read-only (mode {file.mode:04o})", "Make it writable and run this again.", file.path
            )
        if backup is not None and file.data is not None:
            _write(backup, file.data, file)
        _write(file.path, data, file, unchanged=True)
    except OSError as exc:
        next = f"Give your user the right to write in {directory}, or free some space."
        raise ClientFileRefused(_reason(exc, "cannot be written"), next, file.path) from None


def delete(file: ConfigFile) -> None:
    """Remove a file that holds nothing but what we wrote."""
    if read(file.path).data != file.data:
        raise FileChanged
    try:
        os.unlink(file.path)
    except OSError as exc:
        raise ClientFileRefused(_reason(exc, "cannot be removed"), "Remove it by hand.", file.path) from None


def _write(path: str, data: bytes, like: ConfigFile, *, unchanged: bool = False) -> None:
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.urandom(6).hex()}")
    try:
        with open(temporary, "xb", opener=_private) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if like.owner is not None:
            with contextlib.suppress(OSError, AttributeError):  # another user's file: only root can give it back
                os.chown(temporary, *like.owner)
        os.chmod(temporary, like.mode)
        if unchanged and read(path).data != like.data:
            raise FileChanged
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _reason(exc: OSError, otherwise: str) -> str:
    return f"it {otherwise}: {exc.strerror}" if exc.strerror else f"it {otherwise}"
