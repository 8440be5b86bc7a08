"""Circles of gateways: which of them a request has passed, so that none of them sees it twice.

Every request to another server carries the random ids of the gateways so far, ours last. A request that holds our own
id, or has passed more than eight gateways, is refused. An opening also names those that have reached us of late: where
the server behind it reaches one of them, the circle is found before any call goes round in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST, Json, dumps
from zorivest_rpc.mcp.protocol.types import Meta

__all__ = ["LOOP", "MOST_PASSED", "VIA", "Passage", "read_loop"]

VIA: Final = "com.zorivest/via"
LOOP: Final = "com.zorivest/loop"  # in the data of a refusal: the path
MOST_PASSED: Final = 8
REMEMBERED: Final = 300.0  # seconds; a gateway that still reaches us asks for our health more often than that
_MOST_CALLERS: Final = 64
_MOST_BYTES: Final = 4_096
_LONGEST_ID: Final = 64
_HEX: Final = frozenset(b"0123456789abcdef")
_TRACE: Final = (2, 32, 16, 2)  # the digits of a traceparent, between hyphens


class Passage:
    """Our place on the way of requests. One for each process: `id` is drawn anew."""

    def __init__(
        self, id: str | None = None, clock: Callable[[], float] = time.monotonic, remembered: float = REMEMBERED
    ) -> None:
        self.id = id or os.urandom(8).hex()
        self._clock = clock
        self._remembered = remembered
        self._callers: dict[str, tuple[tuple[str, ...], float]] = {}  # the last gateway before us, and the way to it
        self._alone = self._encode((self.id,))

    # --- in

    def admit(self, raw: Raw) -> ProtocolError | None:
        """The refusal of a request that has been here, or has come too far; else its way is remembered."""
        passed = read_via(raw)
        if self.id in passed:
            return refuse((*passed[passed.index(self.id) :], self.id))
        if len(passed) > MOST_PASSED:
            return refuse((*passed, self.id))
        if passed:
            self._callers.pop(passed[-1], None)
            if len(self._callers) >= _MOST_CALLERS:
                del self._callers[next(iter(self._callers))]
            self._callers[passed[-1]] = (passed, self._clock())
        return None

    # --- out

    def onward(self, meta: Meta | UnsetType) -> bytes:
        """The members of `_meta` that go on with a forwarded request: its way, and its place in a trace."""
        if meta is UNSET:
            return self._alone
        members = self._alone if meta.via is UNSET else self._encode((*read_via(meta.via), self.id))
        trace = b"" if meta.traceparent is UNSET else bytes(meta.traceparent)
        return b'%b,"traceparent":%b' % (members, trace) if _is_trace(trace) else members

    def opening(self) -> bytes:
        """The members of a request that is our own: behind us stand all that have reached us of late.

        The longest way is named whole, so that a chain of servers that start each other comes to its end."""
        since = self._clock() - self._remembered
        ways = [way for way, at in self._callers.values() if at > since]
        longest = max(ways, key=len, default=())
        others = list(dict.fromkeys(id for way in ways for id in way if id not in longest))
        room = max(0, MOST_PASSED - len(longest) - 1)
        return self._encode((*others[len(others) - min(room, len(others)) :], *longest, self.id))

    def _encode(self, passed: Iterable[str]) -> bytes:
        return b'"%b":%b' % (VIA.encode(), dumps(list(passed)))


def _is_trace(raw: bytes) -> bool:
    """Whether it is the JSON text of a traceparent (W3C Trace Context, 3.2)."""
    parts = raw[1:-1].split(b"-")
    quoted = raw[:1] == raw[-1:] == b'"'
    return quoted and tuple(map(len, parts)) == _TRACE and all(_HEX.issuperset(part) for part in parts)


def read_via(raw: Raw) -> tuple[str, ...]:
    """The ids, oldest first; nothing of what is no list of ids."""
    if len(memoryview(raw)) > _MOST_BYTES:
        return ("…",) * (MOST_PASSED + 1)  # too far, whoever they are
    try:
        found = msgspec.json.decode(raw, type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        return ()
    return tuple(id[:_LONGEST_ID] for id in found)


def refuse(path: tuple[str, ...]) -> ProtocolError:
    words = f"this request leads in a circle ({' → '.join(path)})"
    return ProtocolError(INVALID_REQUEST, words, {LOOP: list(path)})


def read_loop(data: Json) -> tuple[str, ...] | None:
    """The path that a refusal names, where it is one of these."""
    path = data.get(LOOP) if isinstance(data, dict) else None
    if not isinstance(path, list):
        return None
    return tuple(id[:_LONGEST_ID] for id in path[: 2 * MOST_PASSED] if isinstance(id, str))
