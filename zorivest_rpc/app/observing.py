"""The tools that observe web pages, put together: nothing of their room is imported before the toolset is loaded."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zorivest_rpc.app.exposing import ALONE
from zorivest_rpc.app.policy import is_named
from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError, ToolError
from zorivest_rpc.mcp.call import Call, Handler
from zorivest_rpc.serving.catalog.spec import Definitions

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from aiohttp import web

    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.devtools.buffers import Counting
    from zorivest_rpc.devtools.listener import Listener
    from zorivest_rpc.devtools.routes import Routes
    from zorivest_rpc.devtools.watch import Watch, Watches
    from zorivest_rpc.exposure.engine import Engine

__all__ = ["TOOLSET", "Observing", "observe_pages"]

TOOLSET: Final = "devtools"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
StateOf: TypeAlias = "Callable[[str], Counting]"


class Observing:
    """One for all tenants, which `tenancy` knows; without it there is one alone."""

    def __init__(
        self, settings: Settings, *, exists: bool, state_of: StateOf, tenancy: ServedTenants | None, loaded: bool
    ) -> None:
        """`loaded`: the operator's own choice has it in some list from the start."""
        self._settings = settings
        self.exists = exists
        self._state_of = state_of
        self._tenancy = tenancy
        self._loaded = loaded
        self._watches: Watches | None = None
        self._routes: Routes | None = None
        self._listener: Listener | None = None
        self._opening: asyncio.Task[None] | None = None
        self._place: tuple[str, int] | None = None
        far = settings.command == "serve" and settings.host not in _LOOPBACK
        if self.exists and far and not settings.devtools_origins:
            words = f"name the origins to be observed, as {settings.host} is no loopback address, or leave devtools out"
            raise ConfigError("--devtools-origins", words)

    @property
    def loaded(self) -> bool:
        return self._loaded

    def load(self) -> None:
        """The toolset is in use: its paths exist from now on. Called on the loop."""
        if not self._loaded:
            self._loaded = True
            self._open_soon()

    def handlers(self) -> dict[str, Handler]:
        if not self.exists:
            return {}
        from zorivest_rpc.devtools.tools import Tools

        root = self._data_dir() / TOOLSET / "store"
        return Tools(self._watch_of, lambda tenant: root / _as_name(tenant), self._export_dir).handlers()

    def _export_dir(self, tenant: str) -> str | None:
        """Of several tenants each has a directory of its own: none overwrites what another one wrote."""
        chosen = self._settings.devtools_export_dir
        return chosen if chosen is None or self._tenancy is None else os.path.join(chosen, _as_name(tenant))

    def _data_dir(self) -> Path:
        from pathlib import Path

        return Path(self._settings.data_dir)

    def _watch_of(self, call: Call) -> Watch:
        self.load()
        if self._tenancy is None:
            return self.watches().of(ALONE)
        tenant = call.scope.name
        if not self.watches().serves(tenant):  # the call was let in before its client was taken from the file
            words = f'"{call.name}" is no longer enabled for client "{tenant}".'
            raise ToolError(words, code="client_toolset", next="Call list_clients and choose another client.")
        return self.watches().of(tenant)

    def _tenants(self) -> tuple[str, ...]:
        """Those that have the tools."""
        if self._tenancy is None:
            return (ALONE,)
        tenants = self._tenancy.tenants.tenants.values()
        return tuple(
            each.id for each in tenants if each.enabled and (each.toolsets is None or TOOLSET in each.toolsets)
        )

    def change_tenants(self) -> None:
        """The file of the tenants was read again: a new one has a key now, and the pages of one that is gone end."""
        if self._watches is not None:
            self._watches.serve(self._tenants())

    def watches(self) -> Watches:
        if self._watches is None:
            import time

            from zorivest_rpc.devtools.watch import Watches

            first = ALONE if self._tenancy is None else None
            key = self._settings.devtools_key
            self._watches = Watches(self._state_of, time.time, first=first, key=key, made=self._publish)
            self._watches.serve(self._tenants())
        return self._watches

    def routes(self) -> Routes:
        if self._routes is None:
            from zorivest_rpc.devtools.routes import Routes

            self._routes = Routes(self.watches(), loaded=lambda: self._loaded, origins=self._settings.devtools_origins)
        return self._routes

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """A request for a path below `/devtools/`, whose Host was looked at."""
        return await self.routes().handle(request)

    def beside(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        """What an HTTP server hands over here, by the first part of the path."""
        return {TOOLSET: self.answer} if self.exists else {}

    # --- where pages find us

    def start(self) -> None:
        """The first answer is on the wire; a server without HTTP opens an address for pages if it is their time."""
        if self._loaded:
            self._open_soon()

    def _open_soon(self) -> None:
        if self._settings.command == "stdio" and self._opening is None:
            import asyncio

            self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        from zorivest_rpc.devtools.listener import Listener

        self._listener = Listener(self.answer)
        port = await self._listener.start(self._settings.devtools_port)
        self.is_listening(f"http://127.0.0.1:{port}", port)

    def is_listening(self, origin: str, port: int) -> None:
        """Other processes of this user may learn where, and with which key."""
        if self.exists:
            self._place = (origin, port)
            self.watches()
            self._publish()

    def _publish(self) -> None:
        if self._place is None or self._watches is None:
            return
        from zorivest_rpc.devtools.place import Place, publish

        origin, port = self._place
        try:
            publish(self._data_dir(), port, Place(origin, os.getpid(), self._watches.keys()))
        except OSError as exc:  # pages are served all the same; `devtools snippet` alone does not find us
            import logging

            log = logging.getLogger("zorivest_rpc")
            log.warning("where pages find this server could not be written: %s", exc.strerror)

    async def close(self) -> None:
        if self._place is not None:
            from zorivest_rpc.devtools.place import withdraw

            withdraw(self._data_dir(), self._place[1])
        if self._opening is not None:
            self._opening.cancel()
        if self._routes is not None:
            await self._routes.close()
        if self._listener is not None:
            await self._listener.stop()


def observe_pages(
    settings: Settings, definitions: Definitions, engine: Engine | None, tenancy: ServedTenants | None
) -> Observing:
    """`engine` has the state that lists follow; without one nothing reads the counters."""
    state_of: StateOf = _Unread if engine is None else engine.state
    exists = any(toolset.name == TOOLSET for toolset in definitions.toolsets)
    loaded = exists and is_named(settings, TOOLSET)
    return Observing(settings, exists=exists, state_of=state_of, tenancy=tenancy, loaded=loaded)


class _Unread:
    """Counters that no list follows."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant

    def add(self, counter: str, n: int = 1) -> None:
        return

    def set(self, counter: str, value: int | None) -> None:
        return


def _as_name(tenant: str) -> str:
    """The name of a tenant as one of a directory; what is none is written in hexadecimal digits."""
    plain = tenant.replace("-", "").replace("_", "").isalnum() and tenant.isascii() and len(tenant) <= 64
    return tenant if plain else "x" + tenant.encode().hex()[:120]
