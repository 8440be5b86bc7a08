"""The operator's profile: the policy it lays over our own tools, and the other MCP servers behind it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from msgspec import Raw

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError, ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.catalog.spec import Definitions

if TYPE_CHECKING:
    from zorivest_rpc.gateway.config import Profile
    from zorivest_rpc.gateway.library import Library, Pass
    from zorivest_rpc.gateway.loops import Passage
    from zorivest_rpc.gateway.recorded import Recorder
    from zorivest_rpc.gateway.router import Gateway
    from zorivest_rpc.gateway.telemetry import Telemetry

__all__ = ["Federation"]

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
        self.profile = self._load_profile()
        if several and self.profile is not None:
            self.profile = _without_servers(self.profile)
        self.definitions = base
        self._passage: Passage | None = None
        if self.has_servers:
            self._draw_id()
        if self.profile is not None:
            from zorivest_rpc.gateway.assembly import assemble

            self.definitions = assemble(base, self.profile)
            self._warn_of_unmatched(self.profile)

    @property
    def has_servers(self) -> bool:
        return self.profile is not None and bool(self.profile.enabled)

    @property
    def channel(self) -> str:
        return "auto" if self.profile is None else self.profile.confirmation_channel

    def gateway(
        self, adopt: Callable[[Definitions], None], tell: Callable[[str, str | None], None], behind: Pass
    ) -> Gateway | None:
        """The other servers, none of them contacted before it is started; `adopt` is given each new catalogue, `tell`
        is told of other lists and of resources that changed, `behind` runs a read behind metrics and guard."""
        if self._gateway is None and self.profile is not None and self.profile.enabled:
            from zorivest_rpc.gateway.start import open_gateway

            passage = self._draw_id()
            self._gateway = open_gateway(
                self._settings, self.profile, self._base, os.environ, adopt, tell, passage, self._telemetry()
            )
            self._gateway.library.behind = behind
        return self._gateway

    def admit(self, via: Raw) -> ProtocolError | None:
        """The refusal of a request that has been here; from the first request on, which may come from a gateway."""
        return None if self._passage is None else self._passage.admit(via)

    def _draw_id(self) -> Passage:
        if self._passage is None:
            from zorivest_rpc.gateway.loops import Passage

            self._passage = Passage()
        return self._passage

    def first_list(self, session: Session, gateway: Gateway) -> Awaitable[None] | None:
        """What the list of a client that never asks again has to wait for: servers that are still connecting."""
        if session in self._waited or gateway.is_settled:
            return None
        if not session.revision.modern:  # there each request has a session of its own
            self._waited.add(session)
        gateway.start()
        return gateway.settle(_GRACE)

    def report(self) -> list[dict[str, Json]] | None:
        """The state of each server, for a diagnosis; None where there are none."""
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
        return _without_servers(profile) if self._several else profile

    async def take(self, profile: Profile, adopt: Callable[[Definitions], None]) -> None:
        """Serve this profile from now on; the first servers of all are opened by `gateway`."""
        self.profile = profile
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
            import logging

            logging.getLogger("zorivest_rpc").warning("%s", words)


def _without_servers(profile: Profile) -> Profile:
    """The profile's policy alone: enabling tenancy never shares a server, or its credential, by surprise."""
    import logging

    from msgspec.structs import replace

    assigned = [server.name for server in profile.enabled if server.shared or server.tenants]
    if assigned:
        words = f"{assigned[0]}: other servers cannot be offered to clients yet; disable it where several are served"
        raise ConfigError("profiles", words)
    for server in profile.enabled:
        logging.getLogger("zorivest_rpc").warning("%s is disabled: not assigned to any client", server.name)
    return replace(profile, mcp_servers=tuple(replace(server, enabled=False) for server in profile.mcp_servers))
