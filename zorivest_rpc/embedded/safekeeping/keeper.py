"""Makes the backups of an open journal: once a day, after many changes, before the schema changes, and on request.

Rule 1: what has not changed is not backed up again; the audit log tells, because every deed is in it.
Rule 2: the owner's requests never wait for a backup, and one that fails is logged, shown, and tried again later."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, select

from ..database.engine import Database
from ..database.schema.journal import audit_log
from ..disk import backups
from ..disk.backups import Backup
from ..disk.paths import DataDir
from ..errors import Refusal, Unavailable
from ..settings import JournalSettings

__all__ = ["Keeper", "before_migration"]

DAY = timedelta(hours=24)
_AGAIN = 60.0  # seconds until a backup that failed is tried again

log = logging.getLogger("zorivest.db")


def before_migration(directory: DataDir, db: Database) -> None:
    """The journal as it was before a newer program changes its tables (slow); without it they are not changed."""
    backups.sweep(directory)
    try:
        made = backups.make(directory, "migration", db.copy_to)
    except (OSError, Unavailable) as exc:
        reason = exc.detail if isinstance(exc, Unavailable) else exc.strerror
        text = f"The journal's tables have to be brought up to date, and no backup could be made first: {reason}"
        raise Unavailable("disk_unwritable", text) from None
    log.info("backup %s, before the schema changes", made.name)


class Keeper:
    """The backups of one open database, from `start` to `close`."""

    def __init__(
        self,
        db: Database,
        directory: DataDir,
        settings: JournalSettings,
        made: Callable[[], Awaitable[None]],
    ) -> None:
        """`made` is called after each backup."""
        self._db = db
        self._made = made
        self._directory = directory
        self._settings = settings
        self._ended = asyncio.Event()
        self._one = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.last_error: str | None = None

    async def start(self) -> None:
        """Look what is due as the journal was found; whatever is, is made while others work already."""
        await asyncio.to_thread(backups.sweep, self._directory)
        reason = await self.due()
        self._task = asyncio.get_running_loop().create_task(self._watch(reason))

    async def close(self) -> None:
        """A copy that is being made is given up; nothing of it stays."""
        self._ended.set()
        self._db.stop_copying()
        if self._task is not None:
            await self._task

    async def make(self, reason: str) -> Backup:
        """A backup now; what is too much or too old of the program's own goes."""
        async with self._one:
            try:
                made = await asyncio.to_thread(backups.make, self._directory, reason, self._db.copy_to)
            except (Refusal, OSError) as exc:
                self.last_error = str(exc.detail if isinstance(exc, Refusal) else exc.strerror or exc)
                raise
            self.last_error = None
            keep, age = (
                await self._settings.value("backup.keep_count"),
                await self._settings.value("backup.max_age_days"),
            )
            gone = await asyncio.to_thread(backups.prune, self._directory, keep, age)
        await self._made()
        log.info("backup %s, %s bytes; %s deleted", made.name, made.bytes, len(gone))
        return made

    async def due(self, now: datetime | None = None) -> str | None:
        """The reason why a backup should be made now, if there is one."""
        now = now or datetime.now(UTC)
        made = await asyncio.to_thread(backups.list_backups, self._directory)
        # One from the future was made while the clock was wrong; until then it would be the newest, and none be due.
        newest = next((backup for backup in made if backup.created_at <= now), None)
        since = newest.facts.mark if newest is not None else 0
        last, changes = await self._db.read(lambda conn: _changes(conn, since))
        if last == since:
            return None
        age = None if newest is None else now - newest.created_at
        if age is None or age >= DAY:
            return "daily"
        interval = timedelta(seconds=await self._settings.value("backup.auto_interval_seconds"))
        enough = changes >= await self._settings.value("backup.auto_change_threshold")
        return "changes" if enough and age >= interval else None

    async def _watch(self, reason: str | None) -> None:
        while True:
            try:
                if reason is not None:
                    await self.make(reason)
                interval = await self._settings.value("backup.auto_interval_seconds")
                if await self._ends_within(interval):
                    return
                reason = await self.due()
                continue
            except Refusal as exc:
                if not self._ended.is_set():
                    log.error("no backup could be made: %s", exc.detail)
            except OSError as exc:
                log.error("no backup could be made: %s", exc.strerror)
            except Exception as exc:  # whatever it was, the journal goes on and the next round tries again
                log.error("no backup could be made: %s", type(exc).__name__, exc_info=exc)
            if await self._ends_within(_AGAIN):
                return

    async def _ends_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
        return self._ended.is_set()


def _changes(conn: Connection, since: int) -> tuple[int, int]:
    """The last deed that was written down, and how many after a mark; opening, locking and backing up are none.

    After a restore the last one can stand before the mark, and that is a change too."""
    action = audit_log.c.action
    deeds = ~action.startswith("auth."), ~action.startswith("backup.")
    last = conn.execute(select(audit_log.c.id).where(*deeds).order_by(audit_log.c.id.desc()).limit(1)).scalar()
    count = conn.execute(select(func.count()).select_from(audit_log).where(audit_log.c.id > since, *deeds))
    return last or 0, count.scalar_one()
