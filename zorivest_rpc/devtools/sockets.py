"""The WebSocket connections of pages: which are open, which were closed last, and how much each carries."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from zorivest_rpc.devtools.frames import Socket, SocketRate
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["MOST_CLOSED", "MOST_OPEN", "Connection", "Sockets"]

MOST_OPEN: Final = 20
MOST_CLOSED: Final = 10
_WINDOW: Final = 5  # seconds over which rates are told
_COUNTED: Final = ("incoming", "outgoing", "incoming_bytes", "outgoing_bytes")


class Connection:
    """One of them: counts since it opened, and those of the last seconds, by whole second."""

    __slots__ = ("_seconds", "closed", "code", "id", "opened", "page", "reason", "totals", "url")

    def __init__(self, id: str, page: str, url: str, opened: float) -> None:
        self.id = id
        self.page = page
        self.url = url
        self.opened = opened  # seconds since 1970, by this server's clock
        self.closed: float | None = None
        self.code: int | None = None
        self.reason: str | None = None
        self.totals = dict.fromkeys(_COUNTED, 0)
        self._seconds: deque[tuple[int, SocketRate]] = deque()

    def count(self, rate: SocketRate, now: float) -> None:
        for name in _COUNTED:
            self.totals[name] += getattr(rate, name)
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            last = self._seconds.pop()[1]
            rate = SocketRate(
                rate.ts,
                rate.connection_id,
                last.incoming + rate.incoming,
                last.outgoing + rate.outgoing,
                last.incoming_bytes + rate.incoming_bytes,
                last.outgoing_bytes + rate.outgoing_bytes,
            )
        self._seconds.append((second, rate))
        while len(self._seconds) > _WINDOW + 1:
            self._seconds.popleft()

    def rates(self, now: float) -> dict[str, float]:
        """Per second, over the last five."""
        recent = [rate for second, rate in self._seconds if second > int(now) - _WINDOW]
        return {name: sum(getattr(rate, name) for rate in recent) / _WINDOW for name in _COUNTED}


class Sockets:
    def __init__(self, changed: Callable[[int], None]) -> None:
        self._open: OrderedDict[tuple[str, str], Connection] = OrderedDict()
        self._closed: deque[Connection] = deque(maxlen=MOST_CLOSED)
        self._changed = changed

    @property
    def open_count(self) -> int:
        return len(self._open)

    def open(self) -> list[Connection]:
        return list(self._open.values())

    def closed(self) -> list[Connection]:
        return list(self._closed)

    def note(self, item: Socket, page: str, now: float) -> None:
        """One event of a connection; one that is not known was open before anything of it arrived."""
        key = (page, item.connection_id)
        if item.event == "close":
            known = self._open.get(key) or Connection(item.connection_id, page, item.url, now)
            known.code, known.reason = item.code, item.reason
            self._close(key, known, now)
        elif item.event != "error":  # that of a connection which never opened is followed by its close
            self._find(key, item.url, now)

    def count(self, item: SocketRate, page: str, now: float) -> None:
        connection = self._open.get((page, item.connection_id))
        if connection is not None:
            connection.count(item, now)

    def leave(self, page: str, now: float) -> None:
        """The document is gone, and its connections with it."""
        for key in [key for key in self._open if key[0] == page]:
            connection = self._open[key]
            connection.reason = "the page went away"
            self._close(key, connection, now)

    def _find(self, key: tuple[str, str], url: str, now: float) -> Connection:
        connection = self._open.get(key)
        if connection is None:
            connection = self._open[key] = Connection(key[1], key[0], url, now)
            self._changed(1)
            if len(self._open) > MOST_OPEN:
                oldest = next(iter(self._open))
                self._open[oldest].reason = f"not followed any more: more than {MOST_OPEN} are open"
                self._close(oldest, self._open[oldest], now)
        return connection

    def _close(self, key: tuple[str, str], connection: Connection, now: float) -> None:
        connection.closed = now
        if self._open.pop(key, None) is not None:
            self._changed(-1)
        self._closed.append(connection)

    def clear_closed(self) -> int:
        count = len(self._closed)
        self._closed.clear()
        return count


def describe(connection: Connection, now: float, time: Callable[[float], str]) -> dict[str, Json]:
    """A connection as tools tell it; `time` writes seconds since 1970."""
    told: dict[str, Json] = {
        "connection_id": connection.id,
        "url": connection.url,
        "page": connection.page,
        "opened": time(connection.opened),
        **connection.totals,
    }
    if connection.closed is None:
        told["per_second"] = {name: round(value, 2) for name, value in connection.rates(now).items()}
    else:
        told["closed"] = time(connection.closed)
        told |= {"code": connection.code} if connection.code is not None else {}
        told |= {"reason": connection.reason} if connection.reason else {}
    return told
