"""Files that a tool may read: below the directories that the operator allowed, and nothing else.

The name is resolved first, through every link, and judged then; what was opened is judged again, because a directory
can be exchanged in between. Whether something exists outside the allowed directories is not told. The journal's own
directory holds keys and tokens: an allowed directory around it does not open it, one inside it does."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable

import msgspec

from zorivest_rpc.errors import FileRefused

__all__ = ["ImportRoots", "LocalFile", "default_roots"]

_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)
_BINARY = getattr(os, "O_BINARY", 0)


def default_roots(data_dir: str, working_directory: str | None, home: str) -> tuple[str, ...]:
    """The allowed directories when the operator names none: `imports/` of the data directory, and the directory in
    which a client started us.

    Some clients start servers in `/` or in the home directory, and with those everything the user owns would be
    readable. A directory above the data directory is too wide for the same reason."""
    imports = os.path.join(data_dir, "imports")
    if working_directory is None:
        return (imports,)
    here = os.path.realpath(working_directory)
    is_too_wide = (
        os.path.dirname(here) == here
        or here == os.path.realpath(home)
        or _inside(os.path.realpath(os.path.expanduser(data_dir)), here)
    )
    return (imports,) if is_too_wide else (imports, here)


class LocalFile(msgspec.Struct, frozen=True):
    name: str
    data: bytes


class ImportRoots:
    """The allowed directories and the size limit. Reading blocks, so it belongs on a thread."""

    def __init__(self, roots: Iterable[str], limit: int = 50 * 1024 * 1024, private: str | None = None) -> None:
        self.roots = tuple(os.path.realpath(os.path.expanduser(root)) for root in roots)
        self._private = None if private is None else os.path.realpath(os.path.expanduser(private))
        self._limit = limit

    def read(self, path: str) -> LocalFile:
        """The file at an absolute path, or at a path relative to one of the directories; FileRefused otherwise."""
        if "\0" in path:
            raise self._outside(path)
        real = self._resolve(os.path.expanduser(path))
        if real is None:
            raise self._outside(path)
        try:
            handle = os.open(real, os.O_RDONLY | _NO_WAIT | _BINARY)
        except FileNotFoundError:
            raise FileRefused(
                f'There is no file "{path}" below {self._describe_roots()}. Check the name, or move the file there.',
                code="file_not_found",
                next="Check the file name.",
            ) from None
        except OSError as exc:
            raise self._unreadable(path, (exc.strerror or "cannot be opened").lower()) from None
        try:
            return LocalFile(os.path.basename(real), self._contents(handle, real, path))
        except OSError as exc:
            raise self._unreadable(path, (exc.strerror or "cannot be read").lower()) from None
        finally:
            os.close(handle)

    def _resolve(self, path: str) -> str | None:
        """The real path, if it lies below a root. Of a relative path the first that exists, else the first allowed."""
        candidates = [path] if os.path.isabs(path) else [os.path.join(root, path) for root in self.roots]
        allowed = [real for candidate in candidates if self._below(real := os.path.realpath(candidate))]
        return next((real for real in allowed if os.path.lexists(real)), allowed[0] if allowed else None)

    def _below(self, real: str) -> bool:
        private = self._private is not None and _inside(real, self._private)
        return any(_inside(real, root) and (not private or _inside(root, self._private or "")) for root in self.roots)

    def _contents(self, handle: int, real: str, path: str) -> bytes:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise self._unreadable(path, "it is not an ordinary file")
        opened = self._path_of_open_file(handle, real, facts)
        if opened is None or not self._below(opened):
            raise self._outside(path)
        if facts.st_size > self._limit:
            raise self._too_large(path, facts.st_size)
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(self._limit + 1)
        if len(data) > self._limit:  # it grew while it was read
            raise self._too_large(path, len(data))
        return data

    def _path_of_open_file(self, handle: int, real: str, facts: os.stat_result) -> str | None:
        """The path of what was really opened, or None if it is not what was judged."""
        if sys.platform == "linux":
            try:
                return os.readlink(f"/proc/self/fd/{handle}")
            except OSError:
                pass
        now = os.path.realpath(real)
        return now if os.path.samestat(os.stat(now), facts) else None

    def _describe_roots(self) -> str:
        return ", ".join(self.roots) or "no directory"

    def _outside(self, path: str) -> FileRefused:
        return FileRefused(
            f'"{path}" is not in a directory that may be read. Allowed: {self._describe_roots()}. Move the file there, '
            "or start the server with --import-root.",
            code="file_outside_roots",
            next="Move the file into an allowed directory.",
        )

    def _unreadable(self, path: str, why: str) -> FileRefused:
        return FileRefused(
            f'"{path}" cannot be read: {why}. Name an ordinary file below {self._describe_roots()}.',
            code="file_unreadable",
            next="Name an ordinary file.",
        )

    def _too_large(self, path: str, size: int) -> FileRefused:
        return FileRefused(
            f'"{path}" has {size} bytes, and at most {self._limit} are taken. Split the file.',
            code="file_too_large",
            next="Split the file.",
        )


def _inside(path: str, directory: str) -> bool:
    """Both are real paths; a directory is not inside itself."""
    try:
        return path != directory and os.path.commonpath((directory, path)) == directory
    except ValueError:  # another drive
        return False
