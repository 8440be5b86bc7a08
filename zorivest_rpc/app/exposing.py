"""Lists that follow the state: which rules are in play, how a change is told, and who asks what the journal holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from zorivest_rpc.app.backends import Callers
from zorivest_rpc.config import Settings
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.offer import TOOLS
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import THE_ONE, ActingFor, Audience
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.modes.present import OBSERVERS

if TYPE_CHECKING:
    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.exposure.backend_summary import Asker, JournalCounts
    from zorivest_rpc.exposure.engine import Engine
    from zorivest_rpc.exposure.notify import ChangeWatch
    from zorivest_rpc.exposure.view import ExposedView
    from zorivest_rpc.serving.backend.interface import Backend

__all__ = ["ALONE", "Following", "follow_journal", "open_engine", "watch_lists"]

ALONE: Final = "default"  # the tenant of a server that has no others
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


def watch_lists(
    audience: Audience,
    acting_for: Callable[[Session], ActingFor],
    digests: Mapping[str, Callable[[Session], bytes]],
    *,
    changing: bool,
) -> dict[str, ChangeWatch]:
    """Where lists change by themselves, with data, other servers or other clients, changes are gathered before they are
    told, and told to those alone whose own lists are others. `digests` are those of the lists besides tools."""
    engine = audience.exposure
    if engine is None and not changing:
        return {}
    from zorivest_rpc.exposure.notify import ChangeWatch

    tools = ChangeWatch(lambda session: audience.view(session, acting_for(session)).digest(session.revision.shape))
    if engine is not None:
        engine.on_change = tools.note_change
        engine.after_step = tools.flush
    return {TOOLS: tools} | {kind: ChangeWatch(digest, kind=kind) for kind, digest in digests.items() if changing}


def follow_journal(
    settings: Settings, audience: Audience, callers: Callers, tenancy: ServedTenants | None
) -> Following | None:
    if audience.exposure is None or settings.exposure_trading != "on":
        return None
    return Following(audience, audience.exposure, callers, tenancy)


class Following:
    """What each tenant's journal holds, asked in the background.

    A server without tenants asks with the key of the caller that was there last. A tenant is asked in its own context,
    and only once a call was made for it: a list for hundreds of tenants must not wake the backends of all of them."""

    def __init__(self, audience: Audience, engine: Engine, callers: Callers, tenancy: ServedTenants | None) -> None:
        self._audience = audience
        self._engine = engine
        self._callers = callers
        self._tenancy = tenancy
        self._counts: dict[str, JournalCounts] = {}

    def touch(self, session: Session, who: ActingFor = THE_ONE) -> None:
        """A client asks for its list or calls a tool; nothing of this is waited for."""
        view = self._audience.exposed_view(session, who)
        if view is None:
            return
        wanted = self._select_wanted(view)
        if self._tenancy is None:
            self._of(ALONE).touch(self._asker(session.principal), wanted)
            return
        for tenant in who.tenants if len(who.tenants) == 1 else [each for each in who.tenants if each in self._counts]:
            self._of(tenant).touch(self._asker_of(tenant), wanted)

    def _select_wanted(self, view: ExposedView) -> set[str]:
        reads = self._engine.reads
        return {name for tool in view.ruled for name in reads[tool]}

    async def look(self, session: Session, who: ActingFor = THE_ONE) -> None:
        """Ask now and wait for it, for a command that shows a list once."""
        self.touch(session, who)
        for counts in list(self._counts.values()):
            task = counts.refresh()
            if task is not None:
                await task

    def wrap(self, name: str, handler: Handler) -> Handler:
        """The handler, and what a call of it says about the journal."""
        spec = self._audience.specs[name]
        teaches = not spec.upstream and (not spec.reads_only or name == "list_trades")
        if not teaches and self._tenancy is None:
            return handler

        async def learn(call: Call) -> Outcome:
            counts = self._use(call)
            outcome = await handler(call)
            if counts is not None and teaches and not outcome.is_error:
                counts.learn(name, outcome.structured)
                if not spec.reads_only:
                    counts.wrote()
            return outcome

        return learn

    def _use(self, call: Call) -> JournalCounts | None:
        """The counts of the tenant that the call is for; None where it is for none, or for all of them."""
        if self._tenancy is None:
            return self._of(ALONE)
        tenant = call.scope.name
        if tenant not in self._tenancy.tenants.tenants:
            return None
        counts = self._of(tenant)
        if isinstance(call.view, self._engine.view_type):
            counts.touch(self._asker_of(tenant), self._select_wanted(call.view))
        return counts

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
        return _asker(lambda: self._callers.backends().of(principal))

    def _asker_of(self, tenant: str) -> Asker:
        tenancy = self._tenancy
        assert tenancy is not None
        return _asker(lambda: tenancy.contexts.of(tenant).backend())


def _asker(backend: Callable[[], Backend]) -> Asker:
    """The guard is not asked: these are the server's own questions."""
    from zorivest_rpc.serving.backend.interface import Request

    async def ask(path: str, query: Mapping[str, Json] | None) -> Json:
        return (await backend().ask(Request("GET", path, query=query, timeout=_PATIENCE))).value

    return ask
