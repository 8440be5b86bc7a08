"""Whether a database file is the one that a vault belongs to: the same journal, not emptied, not an older state of it.

The vault and the database carry one journal id. The vault also keeps a mark: the number of the last audit entry that
was known to be on the disk. Entries are only ever appended, so a file whose last entry stands before the mark is an
older copy. Such a file would bring back a state of the guard that is no longer true, so it is refused, and nothing in
it is changed."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ..disk import backups
from ..disk.paths import DataDir
from ..errors import Corrupt
from .schema.journal import audit_log, journal_identity

__all__ = ["FileState", "check_database", "give_id", "last_entry", "new_journal_id", "read_id", "read_standing"]


class FileState(NamedTuple):
    """What a database file says of itself; `schema_version` 0 means that there is nothing in it."""

    schema_version: int
    journal_id: str | None
    last_entry: int


def new_journal_id() -> str:
    return str(uuid.uuid4())


def check_database(
    directory: DataDir, journal_id: str | None, mark: int, key: bytes | None, driver: ModuleType | None
) -> None:
    """Refuse a file that is not this journal as the vault last saw it; `journal_id` None: of a release without ids."""
    path = directory.database
    if not path.exists():
        raise _refusal(directory, "database_missing", "is gone")
    if path.stat().st_size == 0:
        raise _refusal(directory, "database_emptied", "is empty, and this journal was not")
    module: Any = driver if key is not None else sqlite3
    try:
        standing = _open_and_read(path, key, module)
    except module.DatabaseError as exc:
        if "locked" in str(exc):
            return  # the one who opens it tells
        raise _refusal(directory, "database_foreign", f"is damaged or not this journal's ({exc})") from None
    if standing.schema_version == 0:
        raise _refusal(directory, "database_emptied", "has no tables, and this journal had")
    if journal_id is not None and standing.journal_id not in (None, journal_id):
        raise _refusal(directory, "database_foreign", "is another journal's")
    if standing.last_entry < mark or (journal_id is not None and standing.journal_id is None):
        raise _refusal(directory, "database_older", "is an older state of this journal than the one used last")


def _open_and_read(path: Path, key: bytes | None, module: Any) -> FileState:
    """Change nothing, not even the journal mode; the module's DatabaseError if the file cannot be read."""
    conn = module.connect(str(path), isolation_level=None, timeout=10.0)
    try:
        if key is not None:
            conn.execute(f"PRAGMA key = \"x'{key.hex()}'\"")
        return read_standing(conn)
    finally:
        conn.close()


def read_standing(conn: Any) -> FileState:
    """What an open connection of the driver shows."""
    names = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    version = entry = 0
    found = None
    if "schema_migrations" in names:
        version = conn.execute("SELECT max(version) FROM schema_migrations").fetchone()[0] or 0
    if audit_log.name in names:
        entry = conn.execute(f"SELECT max(id) FROM {audit_log.name}").fetchone()[0] or 0
    if journal_identity.name in names:
        row = conn.execute(f"SELECT journal_id FROM {journal_identity.name} WHERE id = 1").fetchone()
        found = row[0] if row is not None else None
    return FileState(version, found, entry)


def read_id(conn: Connection) -> str | None:
    return conn.execute(select(journal_identity.c.journal_id).where(journal_identity.c.id == 1)).scalar()


def give_id(conn: Connection, wanted: str | None) -> str:
    """The id of a database that has none yet: the vault's, or a new one."""
    chosen = wanted or new_journal_id()
    conn.execute(journal_identity.insert().values(id=1, journal_id=chosen))
    return chosen


def last_entry(conn: Connection) -> int:
    return conn.execute(select(audit_log.c.id).order_by(audit_log.c.id.desc()).limit(1)).scalar() or 0


def _refusal(directory: DataDir, code: str, what: str) -> Corrupt:
    """What is wrong with the file, and which backup to restore; the path of each is named."""
    best = backups.best(directory)
    if best is not None:
        step = f"Restore it: zorivest-rpc backup restore {best.name}"
    else:
        step = f"There is no backup in {directory.backups}; put a copy of your own back"
    begin = f", or begin anew without {directory.bootstrap}" if code == "database_missing" else ""
    return Corrupt(code, f"{directory.database} {what}; it was not opened, and nothing was changed. {step}{begin}.")
