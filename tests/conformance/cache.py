"""Directories that are built once, on demand, and then kept under the clone's `.cache`."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.places import ROOT

REPOSITORY = ROOT
CACHE = REPOSITORY / ".cache"


def key(*parts: bytes) -> str:
    """A short name for a content: the same parts give the same name."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]


def file_key(files: Iterable[Path], *more: str) -> str:
    return key(*(file.read_bytes() for file in files), *(text.encode() for text in more))


def once(directory: Path, build: Callable[[Path], None]) -> Path:
    """Return `directory`, built if it is not there yet.

    The work happens beside it and is renamed into place when it is complete, so a build that was interrupted leaves
    nothing that looks finished, and two builders at once cost time but not correctness.
    """
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{directory.name}.partial-", dir=directory.parent))
    try:
        build(partial)
        try:
            os.rename(partial, directory)
        except OSError:
            if not directory.is_dir():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory
