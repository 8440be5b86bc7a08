"""Where a data directory keeps what, and how its files are written: private, whole or not at all.

Directories are 0700, files 0600. A file is replaced by writing a neighbour, syncing it and renaming it, so that a
reader or a crash sees the old content or the new one and nothing between."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["DataDir", "private_opener", "sync_directory", "write_private"]


@dataclass(frozen=True)
class DataDir:
    """The layout of one data directory."""

    root: Path

    @property
    def bootstrap(self) -> Path:
        return self.root / "bootstrap.json"

    @property
    def database(self) -> Path:
        return self.root / "zorivest.db"

    @property
    def database_lock(self) -> Path:
        return self.root / "zorivest.db.lock"

    @property
    def key_file(self) -> Path:
        return self.root / "api.key"

    @property
    def runtime(self) -> Path:
        return self.root / "runtime.json"

    @property
    def due(self) -> Path:
        """When the schedule of a backend that may sleep has something to do next."""
        return self.root / "due.json"

    @property
    def socket(self) -> Path:
        return self.root / "backend.sock"

    @property
    def process_lock(self) -> Path:
        return self.root / "backend.lock"

    @property
    def start_lock(self) -> Path:
        return self.root / "start.lock"

    @property
    def addresses(self) -> Path:
        """Other base addresses for providers and brokers, if the owner wants some."""
        return self.root / "addresses.json"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def backups(self) -> Path:
        return self.root / "backups"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def imports(self) -> Path:
        return self.root / "imports"

    @property
    def children(self) -> tuple[Path, ...]:
        return (self.logs, self.backups, self.reports, self.imports)

    def create(self) -> DataDir:
        """Make the directory and its children; what exists of them is narrowed to its owner, and so is what is new
        above them: below `tenants/` names alone tell who is served."""
        for path in reversed(self.root.parents):
            if not path.exists():
                path.mkdir(mode=0o700, exist_ok=True)
        for path in (self.root, *self.children):
            path.mkdir(mode=0o700, exist_ok=True)
            path.chmod(0o700)
        return self


def private_opener(path: str, flags: int) -> int:
    """For `open(..., opener=)`: a file created through it belongs to its owner alone."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically and durably, mode 0600."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with open(temporary, "xb", opener=private_opener) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)  # the rename itself has to survive a crash


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system can."""
    if os.name == "posix":
        directory = os.open(path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
