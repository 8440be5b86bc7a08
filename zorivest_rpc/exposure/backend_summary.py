"""What the journal holds, kept beside it: asked for now and then, taught by ordinary results, never waited for.

A list reads what is known. Counts not confirmed for ten minutes are unknown again, and what is unknown shows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from zorivest_rpc.errors import BackendError, BackendUnreachable, ZorivestError
from zorivest_rpc.exposure.notify import LoopClock
from zorivest_rpc.exposure.state import ExposureState

if TYPE_CHECKING:
    from zorivest_rpc.exposure.notify import Clock, Handle

__all__ = ["AFTER_WRITE", "EVERY", "Asker", "JournalCounts"]

Json = Any
PREFIX: Final = "backend."
SUMMARY: Final = "/mcp/state-summary"
AFTER_WRITE: Final = 0.5  # seconds; an import of several files is one look
EVERY: Final = 60.0
_ACTIVE: Final = 300.0  # seconds after a client's last request for which it counts as being there
_GOOD_FOR: Final = 600.0
_LOCKED: Final = "database_locked"
_TRADES, _LOTS, _LOTS_OPEN = f"{PREFIX}trades", f"{PREFIX}lots", f"{PREFIX}lots_open"
_ACCOUNTS, _ACCOUNT_IDS = f"{PREFIX}accounts", f"{PREFIX}account_ids"

Asker = Callable[[str, Mapping[str, Json] | None], Awaitable[Json]]
"""The value that the backend has at a path; raises as every request to it does."""


class JournalCounts:
    """Keeps the part of one tenant's state that mirrors its backend."""

    def __init__(self, state: ExposureState, clock: Clock | None = None) -> None:
        self._state = state
        self._clock = clock or LoopClock()
        self._names = [name for name in state.counters if name.startswith(PREFIX)]
        self._sets = [name for name in state.sets if name.startswith(PREFIX)]
        self._ask: Asker | None = None
        self._wanted: set[str] = set()
        self._has_summary = True
        self._running: asyncio.Task[None] | None = None
        self._again = False
        self._timers: dict[str, Handle] = {}
        self._active = float("-inf")
        self._told: dict[str, float] = {}  # when the backend told each of them last
        self._looked = float("-inf")  # when all that was asked for was told

    # --- when

    def touch(self, ask: Asker, wanted: Iterable[str]) -> None:
        """A client of this tenant is there, with tools whose rules read these names."""
        now = self._clock.now()
        self._ask, self._active = ask, now
        self._wanted.update(wanted)
        self._expire(now)
        if "regular" not in self._timers:
            self._timers["regular"] = self._clock.later(EVERY, self._look_regularly)
            if now - self._looked > EVERY:
                self.refresh()

    def wrote(self) -> None:
        """Something may have been written; of several writes the last counts."""
        timer = self._timers.pop("write", None)
        if timer is not None:
            timer.cancel()
        self._timers["write"] = self._clock.later(AFTER_WRITE, self._look_after_write)

    def refresh(self) -> asyncio.Task[None] | None:
        """Ask in the background, one run at a time: what comes during one is looked at once more after it."""
        if self._ask is None:
            return None
        if self._running is not None:
            self._again = True
            return self._running
        self._running = asyncio.get_running_loop().create_task(self._run(self._ask))
        self._running.add_done_callback(self._note_end)
        return self._running

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ask = None
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    def _look_regularly(self) -> None:
        del self._timers["regular"]
        if self._clock.now() - self._active <= _ACTIVE:
            self._timers["regular"] = self._clock.later(EVERY, self._look_regularly)
            self.refresh()

    def _look_after_write(self) -> None:
        del self._timers["write"]
        self.refresh()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._running = None
        if not task.cancelled():
            task.result()
            if self._again:
                self._again = False
                self.refresh()

    # --- what

    async def _run(self, ask: Asker) -> None:
        try:
            if self._has_summary:
                try:
                    self._adopt_summary(await ask(SUMMARY, None))
                    return
                except BackendError as error:
                    if error.status != 404:
                        raise
                self._has_summary = False
            await self._probe(ask)
        except (ZorivestError, OSError) as error:  # a TimeoutError is an OSError
            self._has_summary = True  # another backend may answer there next time
            if getattr(error, "reported", None) == _LOCKED:
                self._forget_all()
            self._expire(self._clock.now())

    def _adopt_summary(self, value: Json) -> None:
        counters = value.get("counters") if isinstance(value, dict) else None
        if not isinstance(counters, dict):  # as good as no answer: what was known stays for a while
            self._expire(self._clock.now())
            return
        for name in self._names:
            self._set(name, _count(counters.get(name.removeprefix(PREFIX))))
        sets = value.get("sets")
        ids = sets.get("account_ids") if isinstance(sets, dict) else None
        self._set_ids(ids if isinstance(ids, list) and len(ids) == self._state.counters.get(_ACCOUNTS) else None)
        self._looked = self._clock.now()

    async def _probe(self, ask: Asker) -> None:
        """A backend without the route is asked for what the rules of loaded tools read, list by list."""
        failed = False
        for path, query, names, read in _PROBES:
            if self._wanted.isdisjoint(names):
                continue
            found: Found = {}
            try:
                found = read(await ask(path, query))
            except (BackendError, BackendUnreachable, OSError) as error:
                if getattr(error, "reported", None) == _LOCKED:
                    raise
                if getattr(error, "status", None) != 404:  # it has the list and could not give it: what was known stays
                    failed = True
                    continue
            for name in names:
                if name == _ACCOUNT_IDS:
                    self._set_ids(found.get(name))
                else:
                    self._set(name, found.get(name))
        if failed:
            self._has_summary = True  # another backend may answer there next time
        else:
            self._looked = self._clock.now()
        self._expire(self._clock.now())

    def learn(self, tool: str, value: Json) -> None:
        """What the result of an ordinary call says without having been asked for it."""
        known = self._state.counters.get(_TRADES, 0)
        if tool == "create_trade" and not known:
            self._set(_TRADES, 1)
        elif tool == "list_trades" and isinstance(value, dict) and (total := _count(value.get("total"))) is not None:
            self._set(_TRADES, total)

    def _expire(self, now: float) -> None:
        """Each for itself: a list that the backend cannot give makes nothing else unknown."""
        for name in (*self._names, *self._sets):
            if now - self._told.get(name, float("-inf")) > _GOOD_FOR:
                self._forget(name)

    def _forget_all(self) -> None:
        for name in (*self._names, *self._sets):
            self._forget(name)

    def _forget(self, name: str) -> None:
        if name in self._sets:
            self._state.set_values(name, None)
        elif self._state.counters[name] is not None:
            self._state.set(name, None)

    def _set(self, name: str, value: int | None) -> None:
        self._told[name] = self._clock.now()
        if self._state.counters[name] != value:
            self._state.set(name, value)

    def _set_ids(self, values: Json) -> None:
        for name in self._sets:
            self._told[name] = self._clock.now()
            self._state.set_values(name, None if values is None else [str(each) for each in values])


def _count(value: Json) -> int | None:
    return value if type(value) is int and value >= 0 else None


Found = dict[str, Any]


def _read_trades(value: Json) -> Found:
    return {_TRADES: _count(value.get("total"))} if isinstance(value, dict) else {}


def _read_lots(value: Json) -> Found:
    """Without a lot at all none is open; of some, how many are open is not told."""
    lots = _count(value.get("total_count")) if isinstance(value, dict) else None
    return {_LOTS: lots, _LOTS_OPEN: 0 if lots == 0 else None}


def _read_accounts(value: Json) -> Found:
    items = value.get("items") if isinstance(value, dict) else value
    if not isinstance(items, list):
        return {}
    total = _count(value.get("total")) if isinstance(value, dict) else None
    count = len(items) if total is None else max(total, len(items))
    ids = [str(item["account_id"]) for item in items if isinstance(item, dict) and "account_id" in item]
    return {_ACCOUNTS: count, _ACCOUNT_IDS: ids if len(ids) == count else None}  # a page of them is no set


def _read_policies(value: Json) -> Found:
    return {f"{PREFIX}policies": _count(value.get("total"))} if isinstance(value, dict) else {}


def _read_brokers(value: Json) -> Found:
    return _count_ready(_BROKERS, value, lambda each: each.get("configured"))


def _read_providers(value: Json) -> Found:
    """Those with a key, and those that need none, unless they were switched off."""

    def is_ready(each: Mapping[str, Json]) -> Json:
        has_key = each.get("has_api_key", each.get("has_key"))
        return has_key if each.get("is_enabled", True) and each.get("requires_key", True) else each.get("is_enabled")

    return _count_ready(_PROVIDERS, value, is_ready)


def _count_ready(name: str, value: Json, is_ready: Callable[[Mapping[str, Json]], Json]) -> Found:
    """How many entries of a bare array are ready; unknown where one of them does not say."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return {}
    answers = [is_ready(each) for each in value]
    return {name: sum(answers)} if all(isinstance(each, bool) for each in answers) else {}


_BROKERS, _PROVIDERS = f"{PREFIX}brokers_configured", f"{PREFIX}providers_configured"
_PROBES: Final[tuple[tuple[str, dict[str, Json] | None, tuple[str, ...], Callable[[Json], Found]], ...]] = (
    ("/trades", {"limit": 1}, (_TRADES,), _read_trades),
    ("/accounts", None, (_ACCOUNTS, _ACCOUNT_IDS), _read_accounts),
    ("/tax/lots", {"status": "all"}, (_LOTS, _LOTS_OPEN), _read_lots),
    ("/scheduling/policies", None, (f"{PREFIX}policies",), _read_policies),
    ("/brokers", None, (_BROKERS,), _read_brokers),
    ("/market-data/providers", None, (_PROVIDERS,), _read_providers),
)
