"""The backups of a journal: one directory each, whole or not there, with everything that a key needs to open it.

`backups/<time>-<reason>/` holds the database, the `bootstrap.json` of that moment and a manifest with their digests. It
is put together under a name that no listing shows and renamed when all of it is on the disk, so a crash or a full disk
leaves no half backup. The database in it is as encrypted as the journal.

Standard library only: a list of backups must be had while everything else is broken."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from .paths import DataDir, private_opener, sync_directory, write_private

__all__ = [
    "AUTOMATIC",
    "REPLACED",
    "Backup",
    "Facts",
    "best",
    "digest",
    "free_name",
    "is_hollow",
    "list_backups",
    "make",
    "prune",
    "publish",
    "sweep",
]

AUTOMATIC = ("daily", "changes", "migration")  # the program's own; what a person made, only a person deletes
REPLACED = ("replaced", "unreadable")  # what a restore put aside
_MANIFEST = "backup.json"
_PARTIAL = ".partial-"
_FEW = 3  # backups for many changes stand close together; a few are enough beside the daily ones


class Facts(NamedTuple):
    """What is known of a database that was copied; `mark` is the last change in it."""

    schema_version: int
    mark: int
    encrypted: bool
    rows: int | None = None  # trades, bank lines, entries and plans; None: made by release 0.1
    journal_id: str | None = None
    last_entry: int = 0  # of the audit log, whatever it says


class Backup(NamedTuple):
    """One backup that can be restored."""

    name: str
    path: Path
    created_at: datetime
    reason: str
    facts: Facts
    files: dict[str, tuple[int, str]]  # size and SHA-256 by name

    @property
    def database(self) -> Path:
        return DataDir(self.path).database

    @property
    def bootstrap(self) -> Path:
        return DataDir(self.path).bootstrap

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())

    def view(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "created_at": self.created_at.isoformat(),
            "reason": self.reason,
            "bytes": self.bytes,
            **self.facts._asdict(),
        }


def make(directory: DataDir, reason: str, copy: Callable[[Path], Facts], now: datetime | None = None) -> Backup:
    """A new backup; `copy` writes the database into an empty private file. What fails leaves nothing behind."""
    now = (now or datetime.now(UTC)).astimezone(UTC)
    name = free_name(directory, f"{now:%Y%m%dT%H%M%SZ}-{reason}")
    partial = directory.backups / f"{_PARTIAL}{name}-{os.getpid()}"
    partial.mkdir(mode=0o700)
    try:
        inside = DataDir(partial)
        if directory.bootstrap.exists():  # before the database, so that its mark is not ahead of the copy
            write_private(inside.bootstrap, directory.bootstrap.read_bytes())
        with open(inside.database, "xb", opener=private_opener):
            pass  # created by us, so that its mode does not depend on the umask
        facts = copy(inside.database)
        return publish(directory, partial, name, reason, facts, now)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def publish(directory: DataDir, partial: Path, name: str, reason: str, facts: Facts, now: datetime) -> Backup:
    """Sync what is in a directory, describe it, and give it the name under which it is listed."""
    files = {}
    for file in sorted(path for path in partial.iterdir() if path.is_file()):
        with open(file, "rb+") as opened:
            os.fsync(opened.fileno())
        files[file.name] = (file.stat().st_size, digest(file))
    manifest = {
        "version": 1,
        "created_at": now.isoformat(),
        "reason": reason,
        **facts._asdict(),
        "files": {file: {"bytes": size, "sha256": sha} for file, (size, sha) in files.items()},
    }
    write_private(partial / _MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n")
    final = directory.backups / name
    partial.rename(final)
    sync_directory(directory.backups)
    return Backup(name, final, now, reason, facts, files)


def list_backups(directory: DataDir) -> list[Backup]:
    """Every whole backup, the newest first; what is incomplete or not ours is not one."""
    try:
        paths = [path for path in directory.backups.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []
    found = [backup for path in paths if (backup := _read(path)) is not None]
    return sorted(found, key=lambda backup: (backup.created_at, backup.name), reverse=True)


def is_hollow(backup: Backup, beside: Iterable[Backup]) -> bool:
    """Whether it holds less than half of what another one holds: a journal that was emptied, or a young one."""
    most = max((other.facts.rows or 0 for other in beside), default=0)
    return backup.facts.rows is not None and 2 * backup.facts.rows < most


def best(directory: DataDir) -> Backup | None:
    """The newest backup worth restoring: not of an emptied journal, and not what a restore had replaced."""
    whole = [backup for backup in list_backups(directory) if backup.reason not in REPLACED]
    return next((backup for backup in whole if not is_hollow(backup, whole)), None)


def prune(directory: DataDir, keep: int, max_age_days: int, now: datetime | None = None) -> list[str]:
    """Delete the program's own backups beyond a number or an age.

    Full ones and hollow ones are counted apart, so that those of an emptied journal never push out a good one; the
    newest of each stays whatever its age."""
    now = now or datetime.now(UTC)
    everything = list_backups(directory)
    own = [backup for backup in everything if backup.reason in AUTOMATIC]
    hollow = [backup for backup in own if is_hollow(backup, everything)]
    gone: list[str] = []
    for group in ([backup for backup in own if backup not in hollow], hollow):
        dense = [backup for backup in group if backup.reason == "changes"][_FEW:]
        rest = [backup for backup in group if backup not in dense]
        old = [backup for backup in rest if backup.created_at < now - timedelta(days=max_age_days)]
        extra = (backup for backup in (*dense, *rest[keep:], *old) if backup is not group[0])
        gone += dict.fromkeys(backup.name for backup in extra)
    for name in gone:
        doomed = directory.backups / f"{_PARTIAL}{name}-gone-{os.getpid()}"
        with contextlib.suppress(OSError):
            (directory.backups / name).rename(doomed)  # half deleted it must not be offered either
            shutil.rmtree(doomed, ignore_errors=True)
    return gone


def sweep(directory: DataDir) -> None:
    """Take away what a process that died left unfinished; only for the holder of the directory."""
    with contextlib.suppress(OSError):
        for path in directory.backups.glob(f"{_PARTIAL}*"):
            shutil.rmtree(path, ignore_errors=True)


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def free_name(directory: DataDir, name: str) -> str:
    number, free = 1, name
    while (directory.backups / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


def _read(path: Path) -> Backup | None:
    try:
        content: Any = json.loads((path / _MANIFEST).read_bytes())
        rows, journal_id = content.get("rows"), content.get("journal_id")
        facts = Facts(
            int(content["schema_version"]),
            int(content["mark"]),
            bool(content["encrypted"]),
            None if rows is None else int(rows),
            None if journal_id is None else str(journal_id),
            int(content.get("last_entry", 0)),
        )
        files = {str(name): (int(each["bytes"]), str(each["sha256"])) for name, each in content["files"].items()}
        made = datetime.fromisoformat(content["created_at"]).astimezone(UTC)
        backup = Backup(path.name, path, made, str(content["reason"]), facts, files)
        whole = all((path / name).stat().st_size == size for name, (size, _) in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return backup if whole and backup.database.name in files else None
