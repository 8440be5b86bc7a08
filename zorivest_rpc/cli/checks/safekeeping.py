"""Whether the journal's parts are together, on a disk that suits a database, and backed up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from zorivest_rpc.embedded.disk.backups import REPLACED, Backup, best, list_backups
from zorivest_rpc.embedded.disk.paths import DataDir

from .line import Line, fail, ok, warn

__all__ = ["backups", "place", "restore_step", "together"]

_DAY = 86_400.0
_REMOTE = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.rclone", "afpfs", "webdav", "davfs"}
)
_SYNCED = (
    "Dropbox",
    "OneDrive",
    "Google Drive",
    "GoogleDrive",
    "iCloud Drive",
    "Mobile Documents",
    "Nextcloud",
    "pCloud",
)


def restore_step(path: str | Path) -> str:
    """What helps when a part of the journal is lost: a backup, if there is one."""
    chosen = best(DataDir(Path(path)))
    if chosen is not None:
        return f"zorivest-rpc backup restore {chosen.name}"
    return "There is no backup in its directory; look for a copy of your own (a disk backup, another machine)."


def together(path: str) -> Iterator[Line]:
    """The database and its vault belong together: neither is worth anything alone."""
    directory = DataDir(Path(path))
    vault, database = directory.bootstrap.exists(), directory.database.exists()
    if database and not vault:
        text = f"{directory.bootstrap} is gone, and without it no key opens {directory.database.name}"
        yield fail("vault", text, restore_step(path))
    elif vault and not database and b'"db_created": true' in _bytes(directory.bootstrap):
        yield fail("journal", f"{directory.database} is gone", restore_step(path))


def place(path: str, mounts: Path = Path("/proc/mounts")) -> Iterator[Line]:
    """A database over a network or under a program that copies files away under it gets damaged sooner or later."""
    root = Path(path)
    found = next((name for name in _SYNCED if any(part.startswith(name) for part in root.parts)), None)
    if found is not None:
        text = f"{root} is in a folder of {found}, which copies files while they change"
        yield warn("place", text, "Move the journal out of it, and let it take the folder backups/ instead.")
    kind = _file_system(root, mounts)
    if kind in _REMOTE:
        text = f"{root} is on a network file system ({kind}), where locks and crashes do not behave"
        yield warn("place", text, "Keep the journal on a disk of this machine: --data-dir or ZORIVEST_DATA_DIR.")


def backups(path: str, now: float | None = None) -> Iterator[Line]:
    """How old the newest is; the backend makes one a day as long as something changes."""
    directory = DataDir(Path(path))
    if not directory.database.exists():
        return
    now = time.time() if now is None else now
    found = [backup for backup in list_backups(directory) if backup.reason not in REPLACED]
    if not found:
        if now - directory.database.stat().st_mtime > 2 * _DAY:
            yield warn("backups", "none", "zorivest-rpc backup create")
        else:
            yield ok("backups", "none yet; the backend makes the first by itself, zorivest-rpc backup create at once")
        return
    newest = found[0]
    text = f"{len(found)}, the newest of {newest.created_at:%Y-%m-%d %H:%M} UTC"
    behind = directory.database.stat().st_mtime - newest.created_at.timestamp()
    if behind > 3 * _DAY:
        yield warn("backups", f"{text}, {behind / _DAY:.0f} days before the last change", "zorivest-rpc backup create")
    else:
        yield ok("backups", text)
    yield from _beside(newest, directory)


def _beside(newest: Backup, directory: DataDir) -> Iterator[Line]:
    if newest.path.stat().st_dev == directory.root.stat().st_dev:
        yield ok("backups", f"on the same disk as the journal; copy {directory.backups} elsewhere from time to time")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _file_system(root: Path, mounts: Path) -> str | None:
    """The type of the mount that holds a path, where the system tells."""
    try:
        rows = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return None
    where = str(root.absolute())
    held = [
        (len(row[1]), row[2])
        for row in rows
        if len(row) > 2 and (where == row[1] or where.startswith(row[1].rstrip("/") + "/"))
    ]
    return max(held, default=(0, None))[1]
