"""What becomes of a subscription to a resource: the guard is watched, and another server is asked to tell of its own.

Of our own resources that can be subscribed to, the guard alone changes without an act of this server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zorivest_rpc.app.backends import LOCAL, Callers
from zorivest_rpc.app.federation import Federation
from zorivest_rpc.mcp.protocol.jsonrpc import Json

if TYPE_CHECKING:
    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.serving.backend.interface import Backend
    from zorivest_rpc.serving.tools.guard_watch import GuardWatch

__all__ = ["FollowedResources"]


class FollowedResources:
    """`ready` makes what a change is told through; `announce` tells that the resource of a URI changed."""

    def __init__(
        self,
        callers: Callers,
        tenancy: ServedTenants | None,
        others: Federation,
        ready: Callable[[], None],
        announce: Callable[[str], None],
    ) -> None:
        self._callers = callers
        self._tenancy = tenancy
        self._others = others
        self._ready = ready
        self._announce = announce
        self._guards: dict[str, GuardWatch] = {}  # by client

    def watch(self, uri: str, wanted: Callable[[], bool]) -> None:
        """The first subscriber of a resource has come."""
        from zorivest_rpc.serving.tools.resources import GUARD

        self._ready()
        if self._tenancy is not None:
            self._watch_for_client(uri, wanted, self._tenancy)
            return
        if (gateway := self._others.alone) is not None:
            gateway.followed.watch(uri, wanted)
        if uri == GUARD:
            self.guard("").want(wanted)

    def _watch_for_client(self, uri: str, wanted: Callable[[], bool], tenancy: ServedTenants) -> None:
        from zorivest_rpc.serving.tools.resources import GUARD
        from zorivest_rpc.tenants.uris import split_client

        bare, id = split_client(uri)
        if id is None or id not in tenancy.tenants.tenants:
            return
        if bare == GUARD:
            self.guard(id).want(wanted)
        elif (apart := self._others.apart) is not None:
            apart.watch(id, bare, uri, wanted)

    def unwatch(self, uri: str) -> None:
        """The last subscriber of a resource has gone."""
        if (apart := self._others.apart) is not None:
            apart.unwatch(uri)
        elif (gateway := self._others.alone) is not None:
            gateway.followed.unwatch(uri)

    # --- the guard

    def guard(self, client: str) -> GuardWatch:
        """The watch of one client's guard; of the only one where the name is empty."""
        found = self._guards.get(client)
        if found is None:
            from zorivest_rpc.serving.tools.guard_watch import GuardWatch
            from zorivest_rpc.serving.tools.resources import GUARD
            from zorivest_rpc.tenants.uris import name_client_in

            uri = name_client_in(GUARD, client) if client else GUARD
            found = self._guards[client] = GuardWatch(
                lambda version: self.look_at_guard(client, version), lambda: self._announce(uri)
            )
        return found

    def wake_guard(self, client: str, locked: bool) -> None:
        """A call has seen the state of this client's guard."""
        if (watch := self._guards.get(client)) is not None:
            watch.wake(locked)

    async def look_at_guard(self, client: str, version: str | None) -> Json:
        """The guard of all callers is one, and its state is open to all: it is read without a caller's key."""
        from zorivest_rpc.serving.backend.interface import Request
        from zorivest_rpc.serving.tools.guard_watch import WAIT

        backend: Backend
        if self._tenancy is None:
            backend, wait = self._callers.backends().of(LOCAL), WAIT
        else:
            context = self._tenancy.contexts.of(client)
            backend, wait = context.backend(), min(WAIT, context.tenant.http_timeout_ms // 2000)
            if context.tenant.embedded:  # to look neither starts a backend, nor keeps it, nor takes a place
                if not self._tenancy.embedded().is_running(client):
                    return None
                backend, version = context.backend().inner, None
        query: dict[str, Json] = {} if version is None else {"after": version, "wait": wait}
        request = Request("GET", "/mcp-guard/status", query=query, auth="if_any", timeout=wait + 10.0)
        return (await backend.ask(request)).value

    async def close(self) -> None:
        for watch in self._guards.values():
            await watch.close()
