"""Puts a backup in the place of the journal, and keeps what stood there.

Rule 1: nothing is touched before the backup was opened with the owner's key and found sound to its last page.
Rule 2: what is replaced becomes a backup itself, so that a restore can be undone by another one.
Rule 3: the keys of today stay if they open the backup: a key that was revoked since does not come back to life. Only a
vault that is gone, damaged or another journal's is replaced by the one in the backup.

The caller holds the directory's locks: no backend runs."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..database.engine import examine
from ..database.migrate import CURRENT
from ..disk import backups
from ..disk.backups import Backup, Facts
from ..disk.paths import DataDir, private_opener, sync_directory, write_private
from ..errors import Corrupt, Forbidden, Refusal
from ..vault.vault import Vault

__all__ = ["Restored", "restore"]

_BESIDE = ("-wal", "-shm")


class Restored(NamedTuple):
    """`kept` names the backup of what was replaced; `keys` is `current` or `backup`."""

    kept: str | None
    keys: str
    facts: Facts


def restore(
    directory: DataDir, backup: Backup, open_vault: Callable[[Vault], bytes], driver: ModuleType | None
) -> Restored:
    """Verify, keep, replace (slow); a Refusal means that nothing was changed."""
    for name, (_, sha) in backup.files.items():
        if backups.digest(backup.path / name) != sha:
            raise Corrupt("backup_corrupt", f"{backup.path / name} is not what was backed up.")
    staging = DataDir(directory.root / f".restore-{os.getpid()}-{os.urandom(4).hex()}")
    staging.root.mkdir(mode=0o700)
    try:
        for name in backup.files:
            _copy(backup.path / name, staging.root / name)
        keys, key, facts = _open_backup(directory, staging, open_vault, driver)
        if facts.schema_version > CURRENT:
            raise Corrupt("schema_too_new", "The backup was made by a newer program: upgrade this one first.")
        kept = _keep(directory, key, driver)
        if keys == "backup":
            write_private(directory.bootstrap, backup.bootstrap.read_bytes())
        # The vault first: a database that is ahead of the mark opens, one that is behind it would not.
        Vault.load(directory).note_database(facts.journal_id, facts.last_entry)
        for suffix in _BESIDE:  # of the old file; on the new one it would be replayed as if it were its own
            Path(f"{directory.database}{suffix}").unlink(missing_ok=True)
        staging.database.replace(directory.database)
        sync_directory(directory.root)
    finally:
        shutil.rmtree(staging.root, ignore_errors=True)
    return Restored(kept, keys, facts)


def _open_backup(
    directory: DataDir, staging: DataDir, open_vault: Callable[[Vault], bytes], driver: ModuleType | None
) -> tuple[str, bytes | None, Facts]:
    """Whose keys open the backup, with which database key, and what is in it."""
    first: Refusal | None = None
    for keys, place in (("current", directory), ("backup", staging)):
        if not place.bootstrap.exists():
            continue
        try:
            vault = Vault.load(place)
            if vault.encrypted and driver is None:
                raise Corrupt("sqlcipher_missing", "The backup is encrypted and SQLCipher is not installed here.")
            dek = open_vault(vault)
            key = dek if vault.encrypted else None
            return keys, key, examine(staging.database, key, driver)
        except Forbidden:
            raise  # revoked or expired today counts, whatever an older vault says of that key
        except Refusal as exc:
            first = first or exc
    raise first or Corrupt("bootstrap_missing", "Neither the journal nor the backup has a vault to open it with.")


def _keep(directory: DataDir, key: bytes | None, driver: ModuleType | None) -> str | None:
    """The present files as a backup of their own, also if they are damaged; the originals stay where they are."""
    if not directory.database.exists() and not directory.bootstrap.exists():
        return None
    now = datetime.now(UTC)
    facts = _settle(directory.database, key, driver)
    name = backups.free_name(directory, f"{now:%Y%m%dT%H%M%SZ}-replaced")
    partial = directory.backups / f".partial-{name}-{os.getpid()}"
    partial.mkdir(mode=0o700)
    try:
        files = [
            directory.database,
            *(Path(f"{directory.database}{suffix}") for suffix in _BESIDE),
            directory.bootstrap,
        ]
        for file in files:
            if file.exists():
                _copy(file, partial / file.name)
        backups.publish(
            directory, partial, name, "replaced" if facts else "unreadable", facts or Facts(0, 0, True), now
        )
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return name


def _settle(database: Path, key: bytes | None, driver: ModuleType | None) -> Facts | None:
    """Move the write-ahead log into the file, if the file can be opened at all; what it is then, or None."""
    import sqlite3

    if not database.exists():
        return None
    module: Any = driver if key is not None else sqlite3
    try:
        conn = module.connect(str(database), isolation_level=None)
        try:
            if key is not None:
                conn.execute(f"PRAGMA key = \"x'{key.hex()}'\"")
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            conn.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            conn.close()
        return examine(database, key, driver)
    except (module.Error, Refusal):
        return None


def _copy(source: Path, target: Path) -> None:
    """A private copy on the disk, not only in the cache."""
    with open(source, "rb") as reading, open(target, "xb", opener=private_opener) as writing:
        shutil.copyfileobj(reading, writing, 1024 * 1024)
        writing.flush()
        with contextlib.suppress(OSError):
            os.fsync(writing.fileno())
