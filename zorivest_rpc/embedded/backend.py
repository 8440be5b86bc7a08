"""One running backend: everything its routes share, and the life of its database from locked to open and back.

Built by `process.py` (or a test), handed to `app.py`. The database exists while the vault is unlocked; locking closes
it, wipes the key and ends every session."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import ModuleType
from typing import Literal, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from zorivest_rpc.proof import new_secret

from .database import audit, identity
from .database.engine import Database, cipher_driver
from .database.identity import check_database
from .disk.filelock import FileLock
from .disk.guard_mark import GuardMark
from .disk.logs import FEATURES, Logs
from .disk.paths import DataDir
from .errors import Busy, Corrupt, Forbidden, Refusal
from .guard import Guard
from .market.market import Market
from .market.outbound import Outbound, load_addresses
from .safekeeping.keeper import Keeper, before_migration
from .scheduling.engine import Scheduling
from .scheduling.market_fetch import market_fetch
from .settings import JournalSettings
from .summary import Summary
from .tax.stored.years import YearResults
from .vault.attempts import Attempts
from .vault.crypto import FieldCipher, Kdf
from .vault.sessions import Login, Logins
from .vault.vault import PASSPHRASE, KeyEntry, Passphrase, Role, Vault
from .wake import SOON

__all__ = ["Embedded"]

T = TypeVar("T")
WORKERS = 2

log = logging.getLogger("zorivest.app")


class Embedded:
    """The backend of one data directory."""

    def __init__(
        self,
        directory: DataDir,
        vault: Vault,
        *,
        driver: ModuleType | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self.vault = vault
        self.clock = clock
        self.proof_secret = new_secret()
        self.proof_place = ""  # where it listens; until then it proves nothing
        self.started_at = datetime.now(UTC)
        self.started = clock()
        self.last_used = clock()
        self.running_requests = 0
        self.stop_requested = asyncio.Event()
        self.reading: dict[str, tuple[int, int]] = {}  # files being imported: rows done and in all, by request key
        self.sessions = Logins(clock)
        self.attempts = Attempts(clock)
        self.guard = Guard(clock, GuardMark(directory.root))
        self.logs = Logs(directory.logs)
        self.scheduling = Scheduling(directory)
        self.tax_years = YearResults()
        self.outbound = Outbound(load_addresses(directory.addresses), clock=clock)
        self._driver = driver
        self._db: Database | None = None
        self._settings: JournalSettings | None = None
        self._summary: Summary | None = None
        self._keeper: Keeper | None = None
        self._fields: FieldCipher | None = None
        self._dek = bytearray()
        self._openers: set[str] = set()  # ids of the keys that opened the database as it is open now
        self._file_lock = FileLock(directory.database_lock)
        self._changing = asyncio.Lock()
        self._logging = asyncio.Lock()
        self._workers = {
            kind: ThreadPoolExecutor(WORKERS, f"zorivest-{kind}") for kind in ("figures", "pictures", "files")
        }

    @classmethod
    def create(
        cls,
        directory: DataDir,
        api_key: str,
        *,
        key_source: str,
        driver: ModuleType | None = None,
        kdf: Kdf | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Embedded:
        """On a new vault whose first admin key is given (slow); without a cipher driver it is not encrypted."""
        directory.create()
        vault = Vault.create(directory, api_key, encrypted=driver is not None, key_source=key_source, kdf=kdf)
        return cls(directory, vault, driver=driver, clock=clock)

    @classmethod
    def load(cls, directory: DataDir, *, clock: Callable[[], float] = time.monotonic) -> Embedded:
        """A backend on an existing vault, locked."""
        directory.create()
        return cls(directory, Vault.load(directory), driver=cipher_driver(), clock=clock)

    @property
    def locked(self) -> bool:
        return self._db is None

    @property
    def is_due_soon(self) -> bool:
        """Whether a run is under way, or due so soon that the process had better stay for it."""
        due = self.scheduling.next_due()
        return self.scheduling.is_active or (due is not None and due - self.scheduling.now() <= SOON)

    @property
    def encrypted(self) -> bool:
        return self.vault.encrypted

    def database(self) -> Database:
        return self._open(self._db)

    def settings(self) -> JournalSettings:
        return self._open(self._settings)

    def summary(self) -> Summary:
        return self._open(self._summary)

    def keeper(self) -> Keeper:
        return self._open(self._keeper)

    def fields(self) -> FieldCipher:
        """Encrypts and decrypts single secrets of the open database."""
        return self._open(self._fields)

    async def unlock(self, api_key: str) -> tuple[str, Login, int]:
        """Open the database with a key, or join it while it is open; a fresh session either way."""
        entry = await self.open(api_key)
        rest = None if entry.expires_at is None else (entry.expires_at - datetime.now(UTC)).total_seconds()
        issued = self.sessions.issue(entry.key_id, Role.from_label(entry.role), rest)
        await self._record_entry(issued[1].actor, "api_key", entry.key_id)
        log.info("unlocked with key %s, role %s", entry.mask, entry.role)
        return issued

    async def unlock_by_passphrase(self, passphrase: str) -> tuple[str, Login, int]:
        """The same for the owner's passphrase, who may do everything; 429 after too many wrong ones."""
        dek = await self.attempts.make(lambda: asyncio.to_thread(self.vault.unlock_by_passphrase, passphrase))
        await self._open_with(dek)
        issued = self.sessions.issue(PASSPHRASE, Role.ADMIN)
        await self._record_entry(issued[1].actor, PASSPHRASE)
        log.info("unlocked with the passphrase, role %s", Role.ADMIN.label)
        return issued

    async def _record_entry(self, actor: str, kind: str, name: str | None = None) -> None:
        """A full disk locks no caller out: reading goes on, and the brake has to be reachable."""
        try:
            await self.database().write(lambda conn: audit.record(conn, actor, "auth.unlock", kind, name))
        except (SQLAlchemyError, OSError) as exc:
            log.error("the session of %s is not in the audit log: %s", actor, exc)

    async def open(self, api_key: str) -> KeyEntry:
        """Check a key and open the database with it if it is not open, without a session.

        A key that opened the open database already is known by its hash: stretching it again costs 0.23 s of processor
        time and proves nothing more, and callers of a restarted backend would wait for that."""
        if self._db is not None and self._openers:
            known = await asyncio.to_thread(self.vault.recognise, api_key)
            if known is not None and known.key_id in self._openers and self._db is not None:
                return known
        entry, dek = await asyncio.to_thread(self.vault.unlock, api_key)
        await self._open_with(dek)
        self._openers.add(entry.key_id)
        return entry

    async def _open_with(self, dek: bytes) -> None:
        async with self._changing:
            if self._db is None:
                await self._open_database(dek)

    async def _open_database(self, dek: bytes) -> None:
        if not self._file_lock.acquire():
            raise Busy("database_busy", "Another process holds the database of this directory.")
        async with contextlib.AsyncExitStack() as undo:
            undo.callback(self._file_lock.release)
            if self.vault.encrypted and self._driver is None:
                raise Corrupt("sqlcipher_missing", "The database is encrypted and SQLCipher is not installed here.")
            key = dek if self.vault.encrypted else None
            if self.vault.database_created:
                vault = self.vault
                await asyncio.to_thread(check_database, self.directory, vault.journal_id, vault.mark, key, self._driver)
            save = functools.partial(before_migration, self.directory)
            db = await asyncio.to_thread(Database, self.directory.database, key, self._driver, save)
            undo.push_async_callback(db.close)
            settings, fields = JournalSettings(db), FieldCipher(dek)
            await self.guard.load(db)
            await self._mark(db)
            keeper = Keeper(db, self.directory, settings, lambda: self._mark(db))
            await keeper.start()
            undo.push_async_callback(keeper.close)
            fetch = market_fetch(db, lambda: Market(db, settings, fields, self.outbound))
            await self.scheduling.start(db, fields, settings, fetch)
            undo.pop_all()
        if not self.vault.encrypted:
            log.warning("SQLCipher was missing when this journal was created: the database file is NOT encrypted")
        self._db, self._settings, self._summary = db, settings, Summary(db)
        self._fields = fields
        self._dek = bytearray(dek)
        self._keeper = keeper
        await self.apply_logging()

    async def mark(self) -> None:
        """Let the vault know how far the open database has come; what hinders that hinders nothing else."""
        db = self._db
        if db is not None:
            with contextlib.suppress(Refusal, SQLAlchemyError):
                await self._mark(db)

    async def _mark(self, db: Database) -> None:
        """Tell the vault how far the database has come, after that is on the disk; a full disk keeps no owner out.

        The first time they agree on an id: the vault's, or, for a journal of release 0.1, a new one."""
        journal_id = await db.read(identity.read_id)
        if journal_id is None:
            journal_id = await db.write(lambda conn: identity.give_id(conn, self.vault.journal_id))
        mark = await db.read(identity.last_entry)
        try:
            await asyncio.to_thread(db.sync)
            await asyncio.to_thread(self.vault.note_database, journal_id, mark)
        except OSError as exc:
            log.warning("the vault could not be marked: %s", exc.strerror)

    async def lock(self, actor: str) -> None:
        """Close the database, wipe its key, end every session."""
        async with self._changing:
            db, self._db = self._db, None
            if db is None:
                return
            self.sessions.clear()
            self._openers.clear()
            self.tax_years.clear()
            keeper, self._keeper = self._keeper, None
            self._settings = self._summary = self._fields = None
            self._dek[:] = bytes(len(self._dek))  # best effort: Python may have copied it
            self._dek = bytearray()
            try:
                if keeper is not None:
                    await keeper.close()
                await self.scheduling.stop()
                await db.write(lambda conn: audit.record(conn, actor, "auth.lock", "database"))
                await self._mark(db)
            finally:
                await db.close()
                self._file_lock.release()
        log.info("locked")

    async def add_key(self, actor: str, label: str, role: Role, expires_in: int | None) -> tuple[KeyEntry, str]:
        """A further API key; the database must be open, because its key is wrapped once more."""
        db = self.database()
        entry, raw = await asyncio.to_thread(self.vault.add, bytes(self._dek), label, role, expires_in)
        await db.write(
            lambda conn: audit.record(conn, actor, "key.create", "api_key", entry.key_id, label=label, role=role.label)
        )
        return entry, raw

    async def revoke_key(self, actor: str, key_id: str) -> None:
        """Withdraw an API key and end its sessions at once."""
        db = self.database()
        entry = await asyncio.to_thread(self.vault.revoke, key_id)
        self.sessions.revoke(key_id)
        await db.write(lambda conn: audit.record(conn, actor, "key.revoke", "api_key", entry.key_id, label=entry.label))

    async def set_passphrase(self, actor: str, passphrase: str) -> Passphrase:
        """Set or change the passphrase; sessions that a former one opened end."""
        db = self.database()
        changed = self.vault.passphrase is not None
        held = await asyncio.to_thread(self.vault.set_passphrase, bytes(self._dek), passphrase)
        self.sessions.revoke(PASSPHRASE)
        await db.write(lambda conn: audit.record(conn, actor, "passphrase.set", PASSPHRASE, None, changed=changed))
        return held

    async def remove_passphrase(self, actor: str) -> None:
        """Leave the API keys as the only way in; sessions that the passphrase opened end."""
        db = self.database()
        await asyncio.to_thread(self.vault.remove_passphrase)
        self.sessions.revoke(PASSPHRASE)
        await db.write(lambda conn: audit.record(conn, actor, "passphrase.remove", PASSPHRASE))

    async def apply_logging(self) -> None:
        """Bring the log files in step with the settings."""
        settings = self.settings()
        async with self._logging:  # in the order of the writes, so that the last one stays
            levels = {feature: await settings.value(f"logging.{feature}.level") for feature in FEATURES}
            rotation = await settings.value("logging.rotation_mb")
            self.logs.configure(levels, rotation, await settings.value("logging.backup_count"))

    async def work(self, kind: Literal["figures", "pictures", "files"], job: Callable[[], T]) -> T:
        """Run a long job on threads of its kind: neither the loop, the database nor the other kind waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._workers[kind], job)

    async def close(self) -> None:
        """The end of the process: like a lock, for good."""
        await self.outbound.close()
        for workers in self._workers.values():
            workers.shutdown(wait=False, cancel_futures=True)
        try:
            await self.lock("backend")
        except Refusal as exc:
            log.warning("closing: %s", exc)

    @staticmethod
    def _open(part: T | None) -> T:
        if part is None:
            raise Forbidden("database_locked", "The database is locked; unlock it with POST /auth/unlock.")
        return part
