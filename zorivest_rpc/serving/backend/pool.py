"""One backend per principal: no principal's connections, token or cookies serve another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from zorivest_rpc.serving.backend.http import HttpBackend

__all__ = ["Backends"]


class Backends:
    """Made on demand; beyond `most` the one that was idle longest is closed."""

    def __init__(self, make: Callable[[str], HttpBackend], *, most: int = 256) -> None:
        """`make` is given the principal; the key it finds for it must be that principal's own."""
        self._make = make
        self._most = most
        self._known: dict[str, HttpBackend] = {}  # in the order of their last use
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, principal: str) -> HttpBackend:
        backend = self._known.pop(principal, None)
        if backend is None:
            backend = self._make(principal)
            if len(self._known) >= self._most:
                self._retire()
        self._known[principal] = backend
        return backend

    def __len__(self) -> int:
        return len(self._known)

    def _retire(self) -> None:
        """A backend that is in use stays, even above the limit."""
        for principal, backend in self._known.items():
            if not backend.in_flight:
                self._end(principal)
                return

    def drop(self, principal: str) -> None:
        """The principal turned out to be unknown: free its place, unless one of its calls still runs."""
        backend = self._known.get(principal)
        if backend is not None and not backend.in_flight:
            self._end(principal)

    def _end(self, principal: str) -> None:
        backend = self._known.pop(principal)
        backend.closed = True  # at once: a call that still carries it asks for another one
        task = asyncio.get_running_loop().create_task(backend.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        known, self._known = self._known, {}
        for backend in known.values():
            await backend.close()
        if self._closing:
            await asyncio.wait(self._closing)
