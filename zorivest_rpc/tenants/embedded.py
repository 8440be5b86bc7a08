"""The embedded backends of tenants: each a process of its own below `tenants/<id>/`, started by the first call, ended
when another one needs its place or after some time without use, and woken for what its schedule has due.

How a call uses one (`http_timeout_ms` of the tenant is the limit of the wait; `NoPlace` is text 11 of the contract):

    backend = HttpBackend(partial(embedded.locate, id), partial(embedded.key, id))     # once per tenant
    async with embedded.use(id, within=tenant.http_timeout_ms / 1000):                 # around each call
        await backend.ask(request)

`use` costs two dictionary lookups while the tenant runs; while it is open that backend is ended by no other tenant.
`locate` starts the process if need be, and belongs inside of `use`. `start()` begins to keep the schedules of those
that sleep: `serve` calls it, `stdio` does not, because it does not live long enough to be relied upon. `close()` ends
what `start` began; the backends stay, and end by themselves after `--idle-exit`, also when this process is killed.

Rule 1: at most `most` run at once, those of an earlier life of this server included. One in use is never ended.
Rule 2: a place belongs to the call that waits for it longest."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.locate import Located, find, find_or_start, is_held, stored_key
from zorivest_rpc.embedded.wake import LEAD, read_due
from zorivest_rpc.errors import ZorivestError
from zorivest_rpc.serving.backend.interface import Address

__all__ = ["EmbeddedTenants", "NoPlace", "clean_environ", "directory_of", "left_behind"]

_LOOK: Final = 30.0  # seconds between two looks at who sleeps and what is due; a suspended machine is seen then, too
_ASK: Final = 5.0  # seconds for one question to a backend that is to end
_END: Final = 15.0  # seconds in which it has to be gone
_AGAIN: Final = 0.25  # seconds between two looks for a place while none is free
_REFUSED: Final = 3.0  # seconds for which a backend that said that it is in use is not asked again
_WAKE_AGAIN: Final = 600.0  # seconds until a backend that was woken and did not do what was due is woken again
_OURS: Final = ("CLIENTS_CONFIG",)

log = logging.getLogger("zorivest_rpc.tenants")


class NoPlace(ZorivestError):
    """As many backends as may run are in use, and none became free in time."""

    def __init__(self, tenant: str, seconds: float, most: int) -> None:
        super().__init__(f'no place for the backend of client "{tenant}" within {seconds:g} s; {most} are in use')
        self.tenant = tenant
        self.seconds = seconds


class _Place:
    """One backend that runs, or is about to."""

    def __init__(self, now: float) -> None:
        self.users = 0
        self.last_used = now
        self.is_ending = False
        self.asked_again = 0.0  # when one that did not end may be asked again


class _Turn:
    """A call that waits for the place of a tenant."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.woken = asyncio.Event()


class _Use:
    """`async with`: entered without waiting where the tenant has a place, which is nearly always."""

    __slots__ = ("_held", "_id", "_owner", "_within")

    def __init__(self, owner: EmbeddedTenants, id: str, within: float) -> None:
        self._owner = owner
        self._id = id
        self._within = within
        self._held: _Place | None = None

    async def __aenter__(self) -> None:
        self._held = self._owner._take(self._id) or await self._owner._wait(self._id, self._within)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._held is not None
        self._owner._leave(self._held)


def directory_of(data_dir: str | Path, id: str) -> Path:
    """Where a tenant's journal, keys, backups and imports are; `id` is one that the configuration accepted."""
    return Path(data_dir) / "tenants" / id


def left_behind(data_dir: str | Path, configured: Collection[str]) -> list[str]:
    """Journals below the data directory that no tenant is configured for; they stay where they are."""
    try:
        names = sorted(entry.name for entry in os.scandir(Path(data_dir) / "tenants") if entry.is_dir())
    except OSError:
        return []
    return [
        name for name in names if name not in configured and DataDir(directory_of(data_dir, name)).bootstrap.exists()
    ]


def clean_environ(environ: Mapping[str, str], secrets: Collection[str] = ()) -> dict[str, str]:
    """What the process of a tenant is handed: nothing that configures this server or is another tenant's secret.

    So no key of the environment becomes the first key of a journal, no port is shared, and the key that is made stays
    in a file of that directory."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("ZORIVEST_") and name not in _OURS and name not in secrets
    }
    return {**kept, "ZORIVEST_KEYRING": "off"}


class EmbeddedTenants:
    """All of them; `ids` are those that are configured as embedded and enabled."""

    def __init__(
        self,
        data_dir: str | Path,
        ids: Collection[str],
        *,
        environ: Mapping[str, str],
        most: int = 8,
        idle_exit: float = 900.0,
        secrets: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`secrets` are the variables that hold credentials of tenants and upstreams."""
        self._data_dir = Path(data_dir).absolute()
        self.ids = frozenset(ids)
        self._served = self.ids  # with those that were taken out since, whose calls have to end well
        self.most = most
        self._idle_exit = idle_exit
        self._environ = clean_environ(environ, secrets)
        self._clock = clock
        self._now = now
        self._places: dict[str, _Place] = {}
        self._queue: deque[_Turn] = deque()
        self._adopted = False
        self._keeping: asyncio.Task[None] | None = None
        self._woken: dict[str, tuple[float, datetime | None]] = {}  # when one was last started, and for what

    # --- for a call

    def use(self, id: str, within: float) -> _Use:
        """Hold the place of a tenant's backend; NoPlace after `within` seconds."""
        return _Use(self, id, within)

    async def locate(self, id: str) -> Address:
        """Where the tenant's backend listens, started if it does not run."""
        located = await asyncio.to_thread(self._start, id)
        return Address(located.address.base_url, located.address.socket or "", located.address.secret)

    def key(self, id: str) -> str | None:
        """The server's key of this tenant, which lies in its directory alone."""
        return stored_key(self.directory(id), self._environ)

    def directory(self, id: str) -> Path:
        if id not in self._served:
            raise KeyError(id)
        return directory_of(self._data_dir, id)

    def change(self, ids: Collection[str]) -> None:
        """Other tenants from now on. The backend of one that is gone serves what runs, and ends by itself."""
        self.ids = frozenset(ids)
        self._served |= self.ids

    def is_running(self, id: str) -> bool:
        """Whether its process is there, whoever started it."""
        return is_held(self.directory(id))

    @property
    def running(self) -> tuple[str, ...]:
        """Those that have a place now."""
        return tuple(sorted(self._places))

    def _start(self, id: str) -> Located:
        return find_or_start(self.directory(id), idle_exit=self._idle_exit, environ=self._environ, wakeable=True)

    # --- places

    def _take(self, id: str) -> _Place | None:
        place = self._places.get(id)
        if place is None or place.is_ending:
            return None
        place.users += 1
        return place

    def _leave(self, place: _Place) -> None:
        place.users -= 1
        place.last_used = self._clock()
        if not place.users:
            self._tell_next()

    def _tell_next(self) -> None:
        if self._queue:
            self._queue[0].woken.set()

    async def _wait(self, id: str, within: float) -> _Place:
        """A place that is free or made free, in the order in which calls came; KeyError for what is not embedded."""
        if id not in self._served:
            raise KeyError(id)
        turn = _Turn(id)
        self._queue.append(turn)
        try:
            async with asyncio.timeout(within):
                await self._adopt()
                while True:
                    if (place := self._take(id)) is not None:  # another call of this tenant was first
                        return place
                    is_first = self._queue[0] is turn
                    if is_first and id not in self._places and await self._make_room():
                        return self._settle(id)
                    turn.woken.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_AGAIN if is_first else None):
                            await turn.woken.wait()
        except TimeoutError:
            raise NoPlace(id, within, self.most) from None
        finally:
            self._queue.remove(turn)
            self._tell_next()

    def _settle(self, id: str) -> _Place:
        """A place for a tenant and its first call; the others of that tenant wait no longer either."""
        place = self._places[id] = _Place(self._clock())
        place.users = 1
        for turn in self._queue:
            if turn.id == id:
                turn.woken.set()
        return place

    async def _make_room(self) -> bool:
        """Whether there is a place now; the backend that is idle for longest ends for it, if it may."""
        for _, id in sorted((place.last_used, id) for id, place in self._places.items()):
            if len(self._places) < self.most:
                break
            place = self._places.get(id)
            if place is None or place.users or place.is_ending or place.asked_again > self._clock():
                continue
            place.is_ending = True
            try:
                ended = await asyncio.to_thread(self._end, id)
            finally:
                place.is_ending = False
            if not ended:
                place.asked_again = self._clock() + _REFUSED
            elif not place.users:
                del self._places[id]
        return len(self._places) < self.most

    def _end(self, id: str) -> bool:
        """End a backend that is not in use, by this server or any other program, and wait until it is gone."""
        directory = directory_of(self._data_dir, id)
        located = find(directory)
        if located is not None:
            key = stored_key(directory, self._environ)
            if key is None:
                return False
            try:
                if not _ask_to_end(located, key):
                    return False
            except (OSError, http.client.HTTPException, ValueError):
                pass  # it went away under the question, or does not answer: what counts is the lock
        elif is_held(directory):
            return False  # it is only starting
        deadline = time.monotonic() + _END
        while is_held(directory):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    async def _adopt(self) -> None:
        """Count those that run already, such as those of a server that was killed."""
        if self._adopted:
            return
        self._adopted = True
        for id in await asyncio.to_thread(self._held):
            self._places.setdefault(id, _Place(self._clock()))

    def _held(self) -> list[str]:
        return [id for id in sorted(self.ids) if self.directory(id).exists() and is_held(self.directory(id))]

    # --- what is due while they sleep

    async def start(self) -> None:
        """Keep the schedules of those that sleep until `close`."""
        await self._adopt()
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep(), name="tenants-schedule")

    async def close(self) -> None:
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait([keeping])

    async def _keep(self) -> None:
        async with asyncio.TaskGroup() as waking:
            while True:
                try:
                    due, pause = await asyncio.to_thread(self._look)
                except OSError as exc:
                    log.warning("the schedules of the tenants cannot be read: %s", exc.strerror)
                    due, pause = {}, _LOOK
                self._forget_ended()
                for id, moment in due.items():
                    self._woken[id] = self._clock(), moment
                    waking.create_task(self._wake(id))
                await asyncio.sleep(pause)

    def _look(self) -> tuple[dict[str, datetime | None], float]:
        """Who has to be started now and for which moment, and how long nothing else has to."""
        now, tick = self._now(), self._clock()
        due: dict[str, datetime | None] = {}
        pause = _LOOK
        for id in sorted(self.ids):
            directory = DataDir(self.directory(id))
            if not directory.bootstrap.exists() or is_held(directory.root):
                continue
            told = read_due(directory)
            if told is not None and told.next is None:
                continue
            moment = told.next if told is not None else None  # None: nothing is known, so it is asked by a start
            left = 0.0 if moment is None else (moment - LEAD - now).total_seconds()
            woken = self._woken.get(id)
            if left <= 0.0 and woken is not None and woken[1] == moment:
                left = woken[0] + _WAKE_AGAIN - tick
            if left <= 0.0:
                due[id] = moment
            else:
                pause = min(pause, left)
        return due, max(pause, 0.05)

    def _forget_ended(self) -> None:
        """The place of a backend that ended by itself is free; that of one in use is the user's to find out."""
        for id, place in list(self._places.items()):
            if not place.users and not place.is_ending and not is_held(directory_of(self._data_dir, id)):
                del self._places[id]
                self._tell_next()

    async def _wake(self, id: str) -> None:
        """Start a backend for its schedule; it stays until that is done, and no place is taken from a call in use."""
        try:
            async with self.use(id, _WAKE_AGAIN):
                await self.locate(id)
        except (ZorivestError, OSError, KeyError) as exc:  # a KeyError: it was taken out meanwhile
            log.warning('the schedule of client "%s" has to wait: %s', id, exc)
        else:
            log.info('the backend of client "%s" was started for its schedule', id)


def _ask_to_end(located: Located, key: str) -> bool:
    """False where the backend says that it is in use, or that the key is none of an administrator."""
    import json

    with contextlib.closing(located.connect(_ASK)) as connection:
        status, data, _ = connection.ask("POST", "/auth/unlock", {"api_key": key})
        if status >= 400:
            return False
        token = json.loads(data)["session_token"]
        status, _, _ = connection.ask(
            "POST", "/service/graceful-shutdown?if_idle=1", None, {"Authorization": f"Bearer {token}"}
        )
    return status < 400
