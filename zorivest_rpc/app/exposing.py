"""Lists that follow the state: which rules are in play, how a change is told, and who asks what the journal holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zorivest_rpc.app.backends import Callers
from zorivest_rpc.config import Settings
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.modes.present import OBSERVERS

if TYPE_CHECKING:
    from zorivest_rpc.exposure.backend_summary import Asker, JournalCounts
    from zorivest_rpc.exposure.engine import Engine
    from zorivest_rpc.exposure.notify import ChangeWatch

__all__ = ["Following", "follow_journal", "open_engine", "watch_tools"]

_PATIENCE = 1.5  # seconds for one question about the state


def open_engine(settings: Settings, definitions: Definitions) -> Engine | None:
    """The rules of the tools that observe, and with `--exposure-trading on` those of the trading tools; None where none
    is in play. Then nothing of the room is imported, and lists are the pages that they always were."""
    trading = settings.exposure_trading == "on"
    rules = {
        spec.name: spec.exposure
        for spec in definitions.tools
        if spec.exposure is not None and (trading or spec.toolset == OBSERVERS)
    }
    if not rules:
        return None
    from zorivest_rpc.exposure.engine import Engine

    return Engine(definitions.state_names, rules, strict=settings.exposure_strict)


def watch_tools(audience: Audience, *, has_servers: bool) -> ChangeWatch | None:
    """Where lists change by themselves, with data or other servers, changes are gathered before they are told."""
    engine = audience.exposure
    if engine is None and not has_servers:
        return None
    from zorivest_rpc.exposure.notify import ChangeWatch

    watch = ChangeWatch(lambda session: audience.view(session).digest(session.revision.shape))
    if engine is not None:
        engine.on_change = watch.changed
        engine.after_step = watch.flush
    return watch


def follow_journal(settings: Settings, audience: Audience, callers: Callers) -> Following | None:
    if audience.exposure is None or settings.exposure_trading != "on":
        return None
    return Following(audience, audience.exposure, callers)


class Following:
    """What each tenant's journal holds, asked in the background with the key of the caller that was there last."""

    def __init__(self, audience: Audience, engine: Engine, callers: Callers) -> None:
        self._audience = audience
        self._engine = engine
        self._callers = callers
        self._counts: dict[str, JournalCounts] = {}

    def touch(self, session: Session) -> None:
        """A client asks for its list or calls a tool; nothing of this is waited for."""
        view = self._audience.exposed_view(session)
        if view is None:
            return
        reads = self._engine.reads
        wanted = {name for tool in view.ruled for name in reads[tool]}
        ask = self._asker(session.principal)
        for tenant in self._engine.tenants_of(session):
            self._of(tenant).touch(ask, wanted)

    async def look(self, session: Session) -> None:
        """Ask now and wait for it, for a command that shows a list once."""
        self.touch(session)
        for tenant in self._engine.tenants_of(session):
            task = self._of(tenant).refresh()
            if task is not None:
                await task

    def wrap(self, name: str, handler: Handler) -> Handler:
        """The handler, and what its success says about the journal."""
        spec = self._audience.specs[name]
        if spec.upstream or (spec.reads_only and name != "list_trades"):
            return handler

        async def learn(call: Call) -> Outcome:
            outcome = await handler(call)
            if not outcome.is_error:
                counts = self._of(call.scope.name or self._engine.alone)
                counts.learn(name, outcome.structured)
                if not spec.reads_only:
                    counts.wrote()
            return outcome

        return learn

    async def close(self) -> None:
        for counts in self._counts.values():
            await counts.close()

    def _of(self, tenant: str) -> JournalCounts:
        found = self._counts.get(tenant)
        if found is None:
            from zorivest_rpc.exposure.backend_summary import JournalCounts

            found = self._counts[tenant] = JournalCounts(self._engine.state(tenant))
        return found

    def _asker(self, principal: str) -> Asker:
        from zorivest_rpc.serving.backend.interface import Request

        async def ask(path: str, query: Mapping[str, Json] | None) -> Json:
            backend = self._callers.backends().of(principal)
            return (await backend.ask(Request("GET", path, query=query, timeout=_PATIENCE))).value

        return ask
