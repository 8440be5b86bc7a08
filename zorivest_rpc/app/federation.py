"""The operator's profile: the policy it lays over our own tools, and the other MCP servers behind it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.serving.catalog.spec import Definitions

if TYPE_CHECKING:
    from zorivest_rpc.gateway.config import Profile
    from zorivest_rpc.gateway.library import Library, Pass
    from zorivest_rpc.gateway.loops import Passage
    from zorivest_rpc.gateway.recorded import Recorder
    from zorivest_rpc.gateway.router import Gateway
    from zorivest_rpc.gateway.telemetry import Telemetry

__all__ = ["Federation"]


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
        self.profile = self._load_profile()
        if several and self.profile is not None:
            self.profile = _without_servers(self.profile)
        self.definitions = base
        self.passage: Passage | None = None  # there from the first request on, which may come from a gateway
        if self.has_servers:
            from zorivest_rpc.gateway.loops import Passage

            self.passage = Passage()
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

            passage = self.passage
            assert passage is not None
            self._gateway = open_gateway(
                self._settings, self.profile, self._base, os.environ, adopt, tell, passage, self._telemetry()
            )
            self._gateway.library.behind = behind
        return self._gateway

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
