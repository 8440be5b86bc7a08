"""The way of each caller to its backend: where that is, whose key opens it, and what to do before the first call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from zorivest_rpc.app.guards import SeenGuards, note
from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError, ToolError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.session import Session

if TYPE_CHECKING:
    from zorivest_rpc.serving.backend.auth import Keyring
    from zorivest_rpc.serving.backend.http import HttpBackend
    from zorivest_rpc.serving.backend.interface import Address
    from zorivest_rpc.serving.backend.pool import Backends

__all__ = ["LOCAL", "Callers"]

LOCAL = ""  # the principal of a client that needs no key of its own: stdio, or a loopback server without one


class Callers:
    """The backends of all callers, made when the first of them is asked for."""

    def __init__(self, settings: Settings, guards: SeenGuards) -> None:
        self.settings = settings
        self.guards = guards
        self.keyring: Keyring | None = None
        self._backends: Backends | None = None
        self._proven: dict[str, None] = {}

    def backends(self) -> Backends:
        if self._backends is None:
            from zorivest_rpc.serving.backend.auth import Keyring
            from zorivest_rpc.serving.backend.pool import Backends

            self.keyring = Keyring()
            self._backends = Backends(self._backend_of)
        return self._backends

    def backend_for(self, call: Call) -> HttpBackend:
        """Found once and carried on the call. One that was retired while the user was asked is replaced."""
        backend: HttpBackend | None = call.context
        if backend is None or backend.closed:
            backend = call.context = self.backends().of(call.session.principal)
        return backend

    def _backend_of(self, principal: str) -> HttpBackend:
        from zorivest_rpc.serving.backend.http import HttpBackend

        keyring = self.keyring
        assert keyring is not None
        plain = self.settings.backend_writer == "plain"
        if principal == LOCAL:
            return HttpBackend(self.settings.api_url or self._find_embedded, self.own_key, plain=plain)
        return HttpBackend(
            self.settings.api_url or self._find_embedded,
            lambda: keyring.key_of(principal),
            plain=plain,
        )

    # --- whose key it is

    def own_key(self) -> str | None:
        """The user's own key: from the environment, else the one that the embedded backend's first start stored."""
        if self.settings.api_key or self.settings.api_url:
            return self.settings.api_key
        from pathlib import Path

        from zorivest_rpc.embedded.locate import stored_key

        return stored_key(Path(self.settings.data_dir), os.environ)

    async def authenticate(self, header: str | None) -> str | None:
        """The principal of a bearer key that the backend knows; the key itself is kept only while its requests run.

        None without a key; a key that the backend refuses is a BackendError with its words. While the backend cannot
        be asked, only a key that was good before is good."""
        from zorivest_rpc.serving.backend.auth import principal_of

        key = bearer(header)
        if key is None:
            return None
        principal = principal_of(key)
        try:
            with self.holding(header):
                await self.backends().of(principal).unlock()
                await self.guards.look(principal, self.backends().of(principal))
        except ToolError as error:
            if getattr(error, "status", 0) in (401, 403):
                self._proven.pop(principal, None)
                self.backends().drop(principal)
                raise
            if principal not in self._proven:
                self.backends().drop(principal)
                raise _check_failure(error) from None
        else:
            note(self._proven, principal, None)
        return principal

    @contextmanager
    def holding(self, header: str | None) -> Iterator[None]:
        """While this is open the key of a running request can be used to unlock again."""
        self.backends()
        key = bearer(header)
        if key is None or self.keyring is None:
            yield
            return
        with self.keyring.holding(key):
            yield

    def holding_for(self, session: Session) -> AbstractContextManager[object]:
        """The same for work of this session that outlives the request it came with."""
        key = None if self.keyring is None else self.keyring.key_of(session.principal)
        return nullcontext() if key is None or self.keyring is None else self.keyring.holding(key)

    # --- where the backend is

    async def create_embedded(self) -> bool:
        """Make the embedded journal if there is none yet; True if this call did.

        Its first key is this process's own (`ZORIVEST_API_KEY`) or a new one. A bearer that comes over HTTP never
        becomes the key of a new journal: the first caller would own it."""
        from pathlib import Path

        from zorivest_rpc.embedded.disk.paths import DataDir

        if self.settings.api_url or DataDir(Path(self.settings.data_dir)).bootstrap.exists():
            return False
        await self._find_embedded()
        return True

    async def _find_embedded(self) -> Address:
        """Where the embedded backend of the data directory listens, started if it does not run yet."""
        import asyncio
        from pathlib import Path

        from zorivest_rpc.embedded.locate import find_or_start
        from zorivest_rpc.serving.backend.interface import Address

        settings = self.settings
        located = await asyncio.to_thread(find_or_start, Path(settings.data_dir), idle_exit=settings.idle_exit)
        address = located.address
        return Address(address.base_url, address.socket or "", address.secret)

    # --- before the first call

    async def warm_up(self) -> None:
        """Connect and unlock before the first call needs it; what goes wrong is told by that call."""
        try:
            await self.backends().of(LOCAL).unlock()
        except (ToolError, ConfigError, TimeoutError):
            return
        with suppress(ToolError):
            await self.guards.look(LOCAL, self.backends().of(LOCAL))
        if not self.settings.api_url:
            await self._tell_neighbour()

    async def _tell_neighbour(self) -> None:
        """Two journals side by side are seldom intended, so the log names the other one."""
        from zorivest_rpc.serving.backend.neighbour import describe_neighbour, find_neighbour

        found = await find_neighbour(self.backends().of(LOCAL).base_url)
        if found is not None:
            import logging

            logging.getLogger("zorivest_rpc").warning("%s", describe_neighbour(found))

    async def load_demo(self) -> str:
        """The demo data of the embedded backend, loaded if it is not there yet."""
        from zorivest_rpc.serving.backend.interface import Request

        backend = self.backends().of(LOCAL)
        status = (await backend.ask(Request("GET", "/demo"))).value
        if status.get("loaded"):
            return f"loaded already ({status['trades']} trades)"
        answer = (await backend.ask(Request("POST", "/demo", timeout=120.0))).value
        return f"loaded ({answer['trades']} trades)"

    async def close(self) -> None:
        if self._backends is not None:
            await self._backends.close()


def bearer(header: str | None) -> str | None:
    scheme, _, given = (header or "").partition(" ")
    return given.strip() or None if scheme.lower() == "bearer" else None


def _check_failure(error: ToolError) -> Exception:
    from zorivest_rpc.errors import ProtocolError
    from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR
    from zorivest_rpc.mcp.transports.streamable import Refused

    words = f"the key cannot be checked now. {error.text}"
    return Refused(503, ProtocolError(INTERNAL_ERROR, words), (("Retry-After", "5"),))
