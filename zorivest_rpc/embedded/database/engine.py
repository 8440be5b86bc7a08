"""The database of one unlocked journal: one writer, several readers, none of them on the event loop.

Rule 1: all writes go through one connection on one thread, each as one transaction that starts with the write lock, so
writers queue here and never meet inside SQLite.
Rule 2: readers have their own connections; write-ahead logging lets them see the last committed state meanwhile.
Rule 3: a job is a plain function of a connection. It runs on a worker thread and touches nothing of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ..disk.backups import Facts
from ..disk.paths import private_opener
from ..errors import Busy, Corrupt, Forbidden, Refusal, Unavailable
from .identity import read_standing
from .migrate import CURRENT, migrate, version_of

__all__ = ["SETTINGS", "Database", "cipher_driver", "examine"]

T = TypeVar("T")

READERS = 4
BUSY_SECONDS = 10.0
SETTINGS = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
    "trusted_schema=OFF",
    "cache_size=-32768",  # KiB of a connection: a page that is read again need not be deciphered again
)


_CONTENT = ("trades", "bank_transactions", "journal_entries", "trade_plans")


def cipher_driver() -> ModuleType | None:
    """The SQLCipher module, or None where no build of it is installed."""
    try:
        import sqlcipher3.dbapi2 as driver
    except ImportError:
        return None
    return driver  # type: ignore[no-any-return]


def _connect(module: Any, path: Path, key: str | None) -> Any:
    conn = module.connect(str(path), timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if key is not None:
            conn.execute(f"PRAGMA key = \"x'{key}'\"")
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()  # a wrong key shows here
        for setting in SETTINGS:
            conn.execute(f"PRAGMA {setting}")
    except BaseException:
        conn.close()
        raise
    return conn


class Database:
    """Opens the file with its key (None means plain SQLite), migrates it, and runs jobs on it."""

    def __init__(
        self,
        path: Path,
        key: bytes | None,
        driver: ModuleType | None = None,
        before_migration: Callable[[Database], None] | None = None,
    ) -> None:
        self.path = path
        self.encrypted = key is not None
        self.commits = 0  # grows with every transaction that changed something
        self._closed = False
        module: Any = driver if key is not None else sqlite3
        if not path.exists():
            with open(path, "xb", opener=private_opener):
                pass  # created by us, so that its mode does not depend on the umask

        self._key = key.hex() if key is not None else None
        self._connect = connect = partial(_connect, module, path, self._key)
        self._module = module
        self._copying: set[Any] = set()
        self._copies = threading.Lock()
        self._write_engine = _engine(module, connect, 1, "BEGIN IMMEDIATE")
        self._read_engine = _engine(module, connect, READERS, "BEGIN")
        self._writer = ThreadPoolExecutor(1, "zorivest-writer")
        self._readers = ThreadPoolExecutor(READERS, "zorivest-reader")
        self._migrate(before_migration)

    def _migrate(self, before_migration: Callable[[Database], None] | None) -> None:
        """Bring the tables to this release's form; a file that cannot be opened is told as busy or as corrupt."""
        try:
            with self._write_engine.begin() as conn:
                earlier = 0 < version_of(conn) < CURRENT
            if earlier and before_migration is not None:
                before_migration(self)
            with self._write_engine.begin() as conn:
                migrate(conn)
        except DBAPIError as exc:
            self._dispose()
            if "locked" in str(exc.orig):
                raise Busy("database_busy", "Another process holds the database file.") from None
            raise Corrupt("db_corrupt", f"The database cannot be opened with this key: {exc.orig}") from None
        except BaseException:
            self._dispose()
            raise

    async def read(self, job: Callable[[Connection], T]) -> T:
        """Run a job that only reads, on a consistent snapshot."""
        return await self._run(self._readers, self._read_sync, job)

    async def write(self, job: Callable[[Connection], T]) -> T:
        """Run a job as one transaction; it is committed when this returns and undone when it raises."""
        return await self._run(self._writer, self._write_sync, job)

    async def rehearse(self, job: Callable[[Connection], T]) -> T:
        """Run a job as `write` does and undo it: it answers what the write would answer now."""
        return await self._run(self._writer, self._rehearse_sync, job)

    def reopening(self) -> tuple[Path, str | None]:
        """What another process of ours needs to open the same file: its path and its key, in hexadecimal."""
        return self.path.absolute(), self._key

    def copy_to(self, path: Path) -> Facts:
        """Write a consistent, equally encrypted copy into an empty file, and look whether it is sound (slow).

        It is taken from a snapshot on a connection of its own: neither writers nor readers wait for it."""
        conn = self._connect()
        with self._copies:
            if self._closed:
                conn.close()
                raise Forbidden("database_locked", "The database was locked meanwhile; unlock it.")
            self._copying.add(conn)
        try:
            conn.execute("VACUUM INTO ?", (str(path),))
        except self._module.Error as exc:
            raise _copy_refusal(str(exc)) from None
        finally:
            with self._copies:
                self._copying.discard(conn)
            conn.close()
        return examine(path, bytes.fromhex(self._key) if self._key is not None else None, self._module)

    def stop_copying(self) -> None:
        """Running copies fail at once."""
        with self._copies:
            for conn in self._copying:
                with contextlib.suppress(self._module.Error):
                    conn.interrupt()

    def sync(self) -> None:
        """Put everything that was committed on the disk; a commit alone leaves it to the system (slow)."""
        for path in (Path(f"{self.path}-wal"), self.path):
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                os.fsync(file.fileno())

    async def close(self) -> None:
        """Let running jobs end, move the write-ahead log into the file, and close every connection."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._close_sync)

    async def _run(self, pool: ThreadPoolExecutor, how: Callable[[Callable[[Connection], T]], T], job: Any) -> T:
        if self._closed:
            raise Forbidden("database_locked", "The database was locked meanwhile; unlock it.")
        return await asyncio.get_running_loop().run_in_executor(pool, how, job)

    def _read_sync(self, job: Callable[[Connection], T]) -> T:
        with self._read_engine.connect() as conn:
            return job(conn)

    def _write_sync(self, job: Callable[[Connection], T]) -> T:
        with self._write_engine.begin() as conn:
            raw: Any = conn.connection.dbapi_connection
            before = raw.total_changes
            result = job(conn)
            changed = raw.total_changes != before
        if changed:
            self.commits += 1
        return result

    def _rehearse_sync(self, job: Callable[[Connection], T]) -> T:
        with self._write_engine.connect() as conn, conn.begin() as transaction:
            result = job(conn)
            transaction.rollback()
        return result

    def _close_sync(self) -> None:
        self.stop_copying()
        self._readers.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        try:
            with self._write_engine.connect() as conn:
                raw: Any = conn.connection.dbapi_connection
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._dispose()

    def _dispose(self) -> None:
        self._closed = True
        self._readers.shutdown(wait=False)
        self._writer.shutdown(wait=False)
        self._read_engine.dispose()
        self._write_engine.dispose()


def examine(path: Path, key: bytes | None, driver: Any) -> Facts:
    """What a database file at rest holds, after every page of it was found sound (slow); nothing is changed."""
    module: Any = driver if key is not None else sqlite3
    try:
        conn = module.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    except module.Error as exc:
        raise Corrupt("backup_corrupt", f"{path} cannot be read: {exc}") from None
    try:
        if key is not None:
            conn.execute(f"PRAGMA key = \"x'{key.hex()}'\"")
        conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        found = [row[0] for row in conn.execute("PRAGMA cipher_integrity_check")] if key is not None else []
        found += [row[0] for row in conn.execute("PRAGMA integrity_check") if row[0] != "ok"]
        if found:
            raise Corrupt("backup_corrupt", f"{path} is damaged: {found[0]}")
        standing = read_standing(conn)
        return Facts(
            standing.schema_version,
            _last_change(conn),
            key is not None,
            _rows(conn),
            standing.journal_id,
            standing.last_entry,
        )
    except module.Error as exc:
        raise Corrupt("backup_corrupt", f"{path} cannot be read with this key: {exc}") from None
    finally:
        conn.close()


def _last_change(conn: Any) -> int:
    row = conn.execute(
        "SELECT id FROM audit_log WHERE action NOT LIKE 'auth.%' AND action NOT LIKE 'backup.%' "
        "ORDER BY id DESC LIMIT 1"
    ).fetchone()
    return int(row[0]) if row is not None else 0


def _rows(conn: Any) -> int:
    """How much of a journal there is: what a person would miss."""
    names = {row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    tables = [name for name in _CONTENT if name in names]
    return sum(int(conn.execute(f"SELECT count(*) FROM {name}").fetchone()[0]) for name in tables)


def _copy_refusal(problem: str) -> Refusal:
    if "interrupt" in problem:
        return Forbidden("database_locked", "The database was locked meanwhile; unlock it.")
    if "full" in problem or "I/O" in problem or "unable to open" in problem:
        return Unavailable("disk_unwritable", f"The backup cannot be written: {problem}.")
    return Corrupt("database_error", f"The database cannot be copied: {problem}.")


def _engine(module: Any, connect: Callable[[], Any], size: int, begin: str) -> Engine:
    engine = create_engine(
        "sqlite://",
        module=module,
        creator=connect,
        poolclass=QueuePool,
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,  # values of the journal do not belong into error texts and logs
    )

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        conn.exec_driver_sql(begin)

    return engine
