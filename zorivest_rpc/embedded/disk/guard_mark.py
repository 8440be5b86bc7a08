"""An empty file that keeps a lock of the guard while the database cannot.

A full disk takes no data, but it usually still takes a name: an empty file needs no block of its own. So who set the
lock is part of the name, and the reason is lost. The file is there only while the database does not have the lock."""

from __future__ import annotations

import os
from pathlib import Path

from .paths import sync_directory

__all__ = ["GuardMark"]

_NAME = "guard.locked-by-"
_STRONGEST_FIRST = ("person", "tool", "rate")


class GuardMark:
    """The mark in one data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self) -> str | None:
        """Who set the lock that is marked; None where there is no mark."""
        return next((by for by in _STRONGEST_FIRST if self._path(by).exists()), None)

    def set(self, by: str) -> bool:
        """Leave the mark durably; False where even that is refused."""
        try:
            os.close(os.open(self._path(by), os.O_CREAT | os.O_WRONLY, 0o600))
            sync_directory(self._root)
        except OSError:
            return False
        return True

    def clear(self) -> None:
        """Take the mark away; OSError where that is refused."""
        found = [path for path in map(self._path, _STRONGEST_FIRST) if path.exists()]
        for path in found:
            path.unlink()
        if found:
            sync_directory(self._root)

    def _path(self, by: str) -> Path:
        return self._root / (_NAME + by)
