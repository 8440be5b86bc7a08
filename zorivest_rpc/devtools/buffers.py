"""What is kept of all pages of one tenant: rings with limits of entries and bytes, and the counters that lists follow.

A counter is changed where its buffer is, by what was added and what fell out, and never by scanning. Eviction takes the
oldest first, in each buffer by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from zorivest_rpc.devtools.endpoints import Endpoints
from zorivest_rpc.devtools.entries import Entry, Measured
from zorivest_rpc.devtools.frames import Action, Log, Performance, Request, Socket, SocketRate
from zorivest_rpc.devtools.measures import Measures
from zorivest_rpc.devtools.sockets import Sockets

__all__ = ["COUNTERS", "LIMITS", "BufferName", "Buffers", "Counting", "Ring", "RingLimits"]

Kept = TypeVar("Kept")
BufferName: TypeAlias = Literal["all", "logs", "network", "websocket", "actions", "performance"]
COUNTERS: Final = ("logs", "errors", "network", "ws_events", "ws_open", "actions", "perf", "endpoints")


class Counting(Protocol):
    """The state that lists follow (`exposure.state`), as far as buffers change it."""

    def add(self, counter: str, n: int) -> None: ...

    def set(self, counter: str, value: int | None) -> None: ...


class RingLimits(msgspec.Struct, frozen=True):
    entries: int
    bytes: int


LIMITS: Final = {
    "logs": RingLimits(1000, 4 << 20),
    "network": RingLimits(200, 8 << 20),
    "ws_events": RingLimits(500, 4 << 20),
    "actions": RingLimits(1000, 1 << 20),
}


class Ring(Generic[Kept]):
    """The newest entries, oldest first. What falls out is told, so that what counts it can be exact."""

    def __init__(self, limits: RingLimits, changed: Callable[[int], None], fell_out: Callable[[Kept], None]) -> None:
        self._limits = limits
        self._entries: deque[Entry[Kept]] = deque()
        self._changed = changed
        self._fell_out = fell_out
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry[Kept]]:
        return iter(self._entries)

    def append(self, entry: Entry[Kept]) -> None:
        entries = self._entries
        entries.append(entry)
        self.bytes += entry.size
        gone = 0
        while len(entries) > self._limits.entries or (self.bytes > self._limits.bytes and len(entries) > 1):
            oldest = entries.popleft()
            self.bytes -= oldest.size
            self._fell_out(oldest.item)
            gone += 1
        if gone != 1:  # one in, one out: the counter stays
            self._changed(1 - gone)

    def clear(self) -> int:
        count = len(self._entries)
        self._entries.clear()
        self.bytes = 0
        if count:
            self._changed(-count)
        return count


class Buffers:
    """All of them, and the only writer of the `devtools.` counters."""

    def __init__(self, state: Counting, now: Callable[[], float]) -> None:
        """`now` is in seconds since 1970."""
        self._state = state
        self._now = now
        self._number = 0
        self._errors = 0
        self.dropped = 0  # items that pages could not keep, or that could not be read
        for name in COUNTERS:
            state.set(f"devtools.{name}", 0)
        self.logs: Ring[Log] = Ring(LIMITS["logs"], self._counter("logs"), self._log_fell_out)
        self.network: Ring[Request] = Ring(LIMITS["network"], self._counter("network"), _ignore)
        self.ws_events: Ring[Socket] = Ring(LIMITS["ws_events"], self._counter("ws_events"), _ignore)
        self.actions: Ring[Action] = Ring(LIMITS["actions"], self._counter("actions"), _ignore)
        self.sockets = Sockets(self._counter("ws_open"))
        self.endpoints = Endpoints(self._counter("endpoints"))
        self.measures = Measures(self._counter("perf"))

    @property
    def newest(self) -> int:
        """The number of the newest entry; entries that come later have higher ones."""
        return self._number

    @property
    def measured(self) -> tuple[Measured, ...]:
        return self.measures.all()

    def _counter(self, name: str) -> Callable[[int], None]:
        full, add = f"devtools.{name}", self._state.add
        return lambda n: add(full, n)

    def _log_fell_out(self, item: Log) -> None:
        if item.level == "error":
            self._errors -= 1

    def _entry(self, item: Kept, page: str, tab: str, size: int) -> Entry[Kept]:
        self._number += 1
        return Entry(item, page, tab, self._number, self._now() * 1000.0, size)

    def add_log(self, item: Log, page: str, tab: str, size: int) -> None:
        before = self._errors
        if item.level == "error":
            self._errors += 1
        self.logs.append(self._entry(item, page, tab, size))
        if self._errors != before:
            self._state.add("devtools.errors", self._errors - before)

    def add_request(self, item: Request, page: str, tab: str, size: int) -> None:
        entry = self._entry(item, page, tab, size)
        self.network.append(entry)
        self.endpoints.add(entry)

    def add_socket(self, item: Socket, page: str, tab: str, size: int) -> None:
        self.sockets.note(item, page, self._now())
        self.ws_events.append(self._entry(item, page, tab, size))

    def add_rate(self, item: SocketRate, page: str) -> None:
        self.sockets.count(item, page, self._now())

    def add_action(self, item: Action, page: str, tab: str, size: int) -> None:
        self.actions.append(self._entry(item, page, tab, size))

    def add_performance(self, item: Performance, page: str, tab: str, size: int) -> None:
        self.measures.add(self._entry(item, page, tab, size))

    def clear(self, name: BufferName = "all") -> dict[str, int]:
        """How many entries were removed, by buffer. A connection that is open stays: it is no history."""
        removed: dict[str, int] = {}
        if name in ("all", "logs"):
            removed["logs"] = self.logs.clear()
            if self._errors:
                self._state.add("devtools.errors", -self._errors)
                self._errors = 0
        if name in ("all", "network"):
            removed["network"] = self.network.clear()
            removed["endpoints"] = self.endpoints.clear()
        if name in ("all", "websocket"):
            removed["websocket"] = self.ws_events.clear()
            removed["websocket_closed"] = self.sockets.clear_closed()
        if name in ("all", "actions"):
            removed["actions"] = self.actions.clear()
        if name in ("all", "performance"):
            removed["performance"] = self.measures.clear()
        if name == "all":
            self.dropped = 0
        return removed

    def counts(self) -> dict[str, int]:
        """By the names of the counters; each is the length of its buffer."""
        return {
            "logs": len(self.logs),
            "errors": self._errors,
            "network": len(self.network),
            "ws_events": len(self.ws_events),
            "ws_open": self.sockets.open_count,
            "actions": len(self.actions),
            "perf": len(self.measures),
            "endpoints": len(self.endpoints),
        }


def _ignore(item: object) -> None:
    return None
