"""What is known of the guards of the callers, for the instructions: looked at once a minute, and noted when seen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from zorivest_rpc.errors import BackendError, ConfigError, ToolError

if TYPE_CHECKING:
    from zorivest_rpc.serving.backend.http import HttpBackend

__all__ = ["SeenGuards", "note"]

T = TypeVar("T")

_FRESH = 60.0  # seconds for which the guard's state, once seen, is worth telling
_ENDED_KEYS = ("key_revoked", "key_expired")
_MOST_KNOWN = 1024  # principals whose keys were good once, and whose guards were seen


class SeenGuards:
    """The last state of each principal's guard, and when it was seen."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[bool, float]] = {}
        self._looked: dict[str, float] = {}

    def record(self, principal: str, locked: bool) -> None:
        note(self._seen, principal, (locked, time.monotonic()))

    def read(self, principal: str) -> bool | None:
        seen = self._seen.get(principal)
        return seen[0] if seen is not None and time.monotonic() - seen[1] < _FRESH else None

    async def look(self, principal: str, backend: HttpBackend) -> None:
        """At most once a minute. It is no reason to fail, except for a key that is none any more."""
        from zorivest_rpc.serving.backend.interface import Request

        looked = self._looked.get(principal)
        if looked is not None and time.monotonic() - looked < _FRESH:
            return
        note(self._looked, principal, time.monotonic())
        try:
            # the guard's state is open to all, this is not
            await backend.ask(Request("GET", "/service/status", timeout=2.0))
            status = (await backend.ask(Request("GET", "/mcp-guard/status", timeout=2.0))).value
        except BackendError as error:
            if error.reported in _ENDED_KEYS:
                backend.lock()
                await backend.unlock()  # the exchange says best what became of the key
                raise
            return
        except (ToolError, ConfigError, TimeoutError):
            return
        locked = status.get("is_locked") if isinstance(status, dict) else None
        if isinstance(locked, bool):
            self.record(principal, locked)


def note(known: dict[str, T], principal: str, value: T) -> None:
    """The newest of a limited number."""
    known.pop(principal, None)
    if len(known) >= _MOST_KNOWN:
        del known[next(iter(known))]
    known[principal] = value
