"""Small files of ours that nobody else may read: replaced as a whole, changed by one process at a time."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

__all__ = ["alone", "write_private"]


def write_private(path: str, data: bytes) -> None:
    """Replace the file; a reader or a crash sees the old content or the new one and nothing between."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.urandom(6).hex()}"
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def alone(path: str) -> Iterator[None]:
    """Wait until no other process is in here for this file; the lock beside it dies with its holder and stays."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait_for(descriptor)
        yield
    finally:
        os.close(descriptor)  # which drops the lock


if sys.platform == "win32":
    import msvcrt

    def _wait_for(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)

else:
    import fcntl

    def _wait_for(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
