"""The operator's profile: the policy it lays over our own tools, and the other MCP servers behind it."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from msgspec import Raw

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.catalog.spec import Definitions

if TYPE_CHECKING:
    from zorivest_rpc.gateway.apart import GatewaysApart
    from zorivest_rpc.gateway.assignment import Assigned
    from zorivest_rpc.gateway.config import Profile
    from zorivest_rpc.gateway.library import Library, Pass
    from zorivest_rpc.gateway.loops import Passage
    from zorivest_rpc.gateway.questions import Questions
    from zorivest_rpc.gateway.recorded import Recorder
    from zorivest_rpc.gateway.router import Gateway, Shelves
    from zorivest_rpc.gateway.telemetry import Telemetry
    from zorivest_rpc.mcp.call import Call

__all__ = ["Federation"]

_log: Final = logging.getLogger("zorivest_rpc")
_GRACE: Final = 3.0  # seconds that the first list of a client waits which asks for no other


class Federation:
    """Nothing of `gateway/` is imported where no file and no option says anything of servers or policy."""

    def __init__(self, settings: Settings, base: Definitions, *, several: bool = False) -> None:
        """`definitions` is the catalogue as it is before any server has answered. With `several` clients no server is
        offered that is not assigned to one of them."""
        self._settings = settings
        self._base = base
        self._gateway: Gateway | None = None
        self._recorder: Recorder | None = None
        self._told: Telemetry | None = None
        self._waited: WeakSet[Session] = WeakSet()  # sessions whose first list was
        self._several = several
        self._clients: Callable[[], Collection[str]] = tuple
        self._assigned: Assigned | None = None
        self._apart: GatewaysApart | None = None
        self._questions: Questions | None = None
        self.profile = self._load_profile()
        self.definitions = base
        self._passage: Passage | None = None
        if self.profile is not None:
            from zorivest_rpc.gateway.assembly import assemble

            self.definitions = assemble(base, self.profile)
            self._warn_of_unmatched(self.profile)

    def assign(self, clients: Callable[[], Collection[str]]) -> None:
        """Say which server is for which of the clients. ConfigError where the file says what cannot be meant."""
        self._clients = clients
        if self.profile is None or not self.profile.enabled:
            return
        from zorivest_rpc.gateway.assembly import assemble
        from zorivest_rpc.gateway.assignment import assign

        self._assigned = assign(self.profile, clients())
        _tell_unassigned(self._assigned)
        self.definitions = assemble(self._base, self.profile, look=self._assigned.look)

    @property
    def has_servers(self) -> bool:
        return self.profile is not None and bool(self.profile.enabled)

    @property
    def channel(self) -> str:
        return "auto" if self.profile is None else self.profile.confirmation_channel

    def gateway(
        self, adopt: Callable[[Definitions], None], tell: Callable[[str, str | None], None], behind: Pass
    ) -> Gateway | GatewaysApart | None:
        """The other servers, none of them contacted before it is started; `adopt` is given each new catalogue, `tell`
        is told of other lists and of resources that changed, `behind` runs a read behind metrics and guard."""
        if self._several:
            return self._gateways_apart(adopt, tell, behind)
        if self._gateway is None and self.profile is not None and self.profile.enabled:
            from zorivest_rpc.gateway.start import open_gateway

            passage = self._draw_id()
            self._gateway = open_gateway(
                self._settings, self.profile, self._base, os.environ, adopt, tell, passage, self._telemetry()
            )
            self._gateway.library.behind = behind
        return self._gateway

    def _gateways_apart(
        self, adopt: Callable[[Definitions], None], tell: Callable[[str, str | None], None], behind: Pass
    ) -> GatewaysApart | None:
        if self._apart is None and self._assigned is not None:
            import asyncio

            from zorivest_rpc.gateway.apart import GatewaysApart
            from zorivest_rpc.gateway.questions import Questions
            from zorivest_rpc.gateway.router import AT_ONCE
            from zorivest_rpc.gateway.start import open_gateway, open_library
            from zorivest_rpc.tenants.uris import name_client_in

            passage, gate, settings = self._draw_id(), asyncio.Semaphore(AT_ONCE), self._settings
            questions = self._questions = Questions(passage.id, settings.input_seconds)

            def open_part(
                profile: Profile, adopt: Callable[[Definitions], None], client: str, shelves: Shelves
            ) -> Gateway:
                told = self._telemetry()
                return open_gateway(
                    settings,
                    profile,
                    self._base,
                    os.environ,
                    adopt,
                    tell,
                    passage,
                    told.for_tenant(client) if client else told,
                    whole=self.profile,
                    gate=gate,
                    shelves=shelves,
                )

            self._apart = GatewaysApart(
                self._base,
                self._assigned,
                open_part,
                adopt,
                shelve=lambda profile, members: open_library(
                    profile, members, passage, questions, self._telemetry(), address=name_client_in, behind=behind
                ),
                tell=lambda kind: tell(kind, None),
            )
        return self._apart

    @property
    def assigned(self) -> Assigned | None:
        """Which server is for which client; None where there are no servers, or not several clients."""
        return self._assigned

    @property
    def alone(self) -> Gateway | None:
        """The servers of a server with one client, once they are there."""
        return self._gateway

    @property
    def apart(self) -> GatewaysApart | None:
        """The servers of several clients, once they are there."""
        return self._apart

    def admit(self, via: Raw) -> ProtocolError | None:
        """The refusal of a request that has been here; from the first request on, which may come from a gateway."""
        return None if self._passage is None and not self.has_servers else self._draw_id().admit(via)

    def _draw_id(self) -> Passage:
        if self._passage is None:
            from zorivest_rpc.gateway.loops import Passage

            self._passage = Passage()
        return self._passage

    def first_list(self, session: Session, gateway: Gateway | GatewaysApart) -> Awaitable[None] | None:
        """What the list of a client that never asks again has to wait for: servers that are still connecting."""
        if session in self._waited or gateway.is_settled:
            return None
        if not session.revision.modern:  # there each request has a session of its own
            self._waited.add(session)
        gateway.start()
        return gateway.settle(_GRACE)

    def report(self, call: Call) -> list[dict[str, Json]] | None:
        """The state of each server that the call's client may know of, for a diagnosis; None where there are none."""
        if self._apart is not None:
            return self._apart.report(call.scope.name)
        return None if self._gateway is None else self._gateway.report()

    # --- a file that is read again

    def read_again(self) -> Profile:
        """The servers and lists as the file has them now, and all else as it runs. ConfigError: nothing changes."""
        from zorivest_rpc.config import default_data_dir
        from zorivest_rpc.config_file import find
        from zorivest_rpc.gateway.config import load_profile, take_reloaded

        settings = self._settings
        found = find(settings.config, os.environ, settings.trust_dir, default_data_dir(os.environ))
        ours = [spec.name for spec in (*self._base.tools, *self._base.meta_tools)]
        fresh = load_profile(settings._replace(file=found.file), ours)
        profile = take_reloaded(self.profile or load_profile(settings, ours), fresh)
        if self._several and profile.enabled:
            from zorivest_rpc.gateway.assignment import assign

            assign(profile, self._clients(), strict=False)  # refused while nothing has changed yet
        return profile

    async def take(self, profile: Profile, adopt: Callable[[Definitions], None]) -> None:
        """Serve this profile from now on; the first servers of all are opened by `gateway`."""
        self.profile = profile
        if self._several:
            from zorivest_rpc.gateway.assignment import assign

            self._assigned = assign(profile, self._clients(), strict=False)
            _tell_unassigned(self._assigned)
            if self._apart is not None:
                await self._apart.replace(self._assigned)
                return
        if self._gateway is not None:
            await self._gateway.replace(profile)
        else:
            from zorivest_rpc.gateway.assembly import assemble

            adopt(assemble(self._base, profile))

    def library(self) -> Library | None:
        """What the servers offer besides tools; None until the gateway is there."""
        return None if self._gateway is None else self._gateway.library

    def recorder(self) -> Recorder | None:
        """What tells the events of each call; None where no profile and no variable asks for it."""
        if self._recorder is None and (self.profile is not None or self._settings.telemetry):
            from zorivest_rpc.gateway.recorded import Recorder

            self._recorder = Recorder(self._telemetry(), self._settings.input_seconds)
        return self._recorder

    def _telemetry(self) -> Telemetry:
        """One for everything in this process: its lines share a run_id."""
        if self._told is None:
            from zorivest_rpc.gateway.start import open_telemetry

            self._told = open_telemetry(self._settings, self.profile, os.environ)
        return self._told

    async def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()
        if self._gateway is not None:
            await self._gateway.close()
        if self._questions is not None:
            self._questions.close()
        if self._apart is not None:
            await self._apart.close()

    def _load_profile(self) -> Profile | None:
        settings, file = self._settings, self._settings.file
        lists = settings.require_confirm_tool or settings.approve_tool or settings.tool_confirmation_mode is not None
        if settings.profile is None and (file is None or "profiles" not in file.document) and not lists:
            return None
        from zorivest_rpc.gateway.config import load_profile

        return load_profile(settings, [spec.name for spec in (*self._base.tools, *self._base.meta_tools)])

    def _warn_of_unmatched(self, profile: Profile) -> None:
        """Where there are servers, their gateway does it once it knows their tools."""
        if profile.enabled:
            return
        from zorivest_rpc.gateway.assembly import names_no_tool

        for words in names_no_tool(profile, {spec.name for spec in (*self._base.tools, *self._base.meta_tools)}):
            _log.warning("%s", words)


def _tell_unassigned(assigned: Assigned) -> None:
    from zorivest_rpc.gateway.assignment import UNASSIGNED

    for name, clients in assigned.clients.items():
        if clients is not None and not clients:
            _log.warning("%s is %s", name, UNASSIGNED)
