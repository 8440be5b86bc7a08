"""Settings in, the journal's offer out; plain constructors, top to bottom.

What a list needs is built at once. The pipeline, the backend and everything behind them come with the first call, or
after the first answer is on the wire, whichever is earlier.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from zorivest_rpc import __version__
from zorivest_rpc.app.backends import Callers
from zorivest_rpc.app.exposing import follow_journal, open_engine, watch_lists
from zorivest_rpc.app.federation import Federation
from zorivest_rpc.app.followed import FollowedResources
from zorivest_rpc.app.guards import SeenGuards
from zorivest_rpc.app.observing import TOOLSET, observe_pages
from zorivest_rpc.app.policy import opted_in, policy_of
from zorivest_rpc.app.shelves import Prompts, Resources
from zorivest_rpc.app.with_tenants import leave_out_address, read_tenants, serve_tenants
from zorivest_rpc.config import Settings
from zorivest_rpc.config_file import keep_parsed
from zorivest_rpc.errors import ConfigError, ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Middleware, Outcome, Scope
from zorivest_rpc.mcp.catalog.view import View
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES, TOOLS, Completion, Offer
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.serving.audience import THE_ONE, ActingFor, Audience
from zorivest_rpc.serving.catalog.load import load, with_tenancy
from zorivest_rpc.serving.catalog.spec import Definitions, Mode, ToolSpec
from zorivest_rpc.serving.catalog.toolsets import toolset_names
from zorivest_rpc.serving.modes.instructions import Category, Situation, compose

if TYPE_CHECKING:
    import asyncio

    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.app.tenant_others import TenantOthers
    from zorivest_rpc.gateway.apart import GatewaysApart
    from zorivest_rpc.gateway.router import Gateway
    from zorivest_rpc.serving.backend.http import HttpBackend
    from zorivest_rpc.serving.pipeline import Pipeline
    from zorivest_rpc.serving.tools.completions import JournalCompletions
    from zorivest_rpc.serving.tools.files import ImportRoots
    from zorivest_rpc.serving.tools.resources import Shelf
    from zorivest_rpc.tenants.context import TenantBackend

__all__ = ["Journal"]

ONE_OF_SEVERAL: Final = "one of several for each call; list_clients names them, clientId chooses"
_LIST_FIRST = 0.03  # seconds after the first answer


class Journal:
    """The 68 tools as one server offers them."""

    def __init__(self, settings: Settings, schemas: str | None = None) -> None:
        definitions = load(schemas, opted_in(settings))
        several = bool(settings.tenant_sources)
        if several:
            definitions, settings = with_tenancy(definitions), leave_out_address(settings)
        _check_addresses(settings)
        self.settings = settings
        self.tenancy: ServedTenants | None = None
        self._federation = Federation(settings, definitions, several=several)
        tenants = read_tenants(settings, self._federation.definitions)
        if tenants is not None:
            self._federation.assign(lambda: tuple((self.tenancy.tenants if self.tenancy else tenants).tenants))
        definitions = self._federation.definitions
        self.exposure = open_engine(settings, definitions)
        policy = policy_of(settings, definitions, self._federation.channel)
        self.audience = Audience(definitions, policy, self.exposure)
        self.tenancy = None if tenants is None else serve_tenants(settings, tenants, self.audience, self._federation)
        self.observing = observe_pages(settings, definitions, self.exposure, self.tenancy)
        self.started = time.perf_counter()
        self._guards = SeenGuards()
        self.callers = Callers(settings, self._guards)
        self.backends = self.callers.backends
        self.following = follow_journal(settings, self.audience, self.callers, self.tenancy)
        self._pipeline: Pipeline | None = None
        self._resources: Shelf | None = None
        self._completions: JournalCompletions | None = None
        self._changing: set[Session] = set()
        self._theirs: TenantOthers
        self._starting: asyncio.TimerHandle | None = None
        self.followed = FollowedResources(
            self.callers, self.tenancy, self._federation, self._ready_for_followers, self._announce_update
        )
        self._prompts, self._shelf = self._shelves()
        self._watches = watch_lists(
            self.audience,
            self._acting_for_list,
            {PROMPTS: self._prompts.digest, RESOURCES: self._shelf.digest},
            changing=self._federation.has_servers or self.tenancy is not None,
        )
        self.offer = self._make_offer()

    def _make_offer(self) -> Offer:
        return Offer(
            "zorivest-rpc",
            __version__,
            title="Zorivest trading journal",
            instructions=self._instructions,
            tools=self,
            prompts=self._prompts,
            resources=self._shelf,
            complete=self._complete,
            tasks=True,
            changing=self._changing_lists(),
            holding=self.callers.holding_for,
            watch=self.followed.watch,
            unwatch=self.followed.unwatch,
            watches=self._watches,
            passage=self._federation.admit,
            before_list=self._before_list,
        )

    def _shelves(self) -> tuple[Prompts, Resources]:
        if self.tenancy is None:
            library = self._federation.library
            return Prompts(self.audience, library), Resources(self.resources, self.audience, library)
        from zorivest_rpc.app.tenant_others import TenantOthers
        from zorivest_rpc.app.tenant_shelves import shelves_for

        self._theirs = TenantOthers(self.audience, self.tenancy, lambda: self._federation.apart)
        return shelves_for(self.tenancy, self.audience, self.resources, self._theirs)

    def _changing_lists(self) -> dict[bool, tuple[str, ...]]:
        """By era (True: modern): enable_toolset, in the legacy one alone; data; servers that come, go and change; and
        a file of clients that is read again."""
        if self._federation.has_servers:
            return dict.fromkeys((False, True), (TOOLS, PROMPTS, RESOURCES))
        if self.settings.tenants_file is not None:  # resources are listed for each client
            return dict.fromkeys((False, True), (TOOLS, RESOURCES))
        return {False: (TOOLS,), True: (TOOLS,) if self.exposure is not None else ()}

    def gateway(self) -> Gateway | GatewaysApart | None:
        """The other MCP servers, none of them contacted before it is started."""
        return self._federation.gateway(self._adopt, self._tell_of_others, self._behind)

    def _ready_for_followers(self) -> None:
        self.gateway()
        self.resources()

    def _announce_update(self, uri: str) -> None:
        self.offer.announce_update(uri)

    async def _behind(self, label: str, call: Call, work: Handler) -> Outcome:
        return await self.pipeline().behind(label, call, work)

    def _tell_of_others(self, kind: str, uri: str | None) -> None:
        """A list of other servers' prompts or resources is another one, or a resource of theirs changed."""
        if uri is None:
            self.offer.announce_change(kind)
        else:
            self.offer.announce_update(uri)

    def _adopt(self, definitions: Definitions) -> None:
        """Another catalogue, for everyone; what became of a server alone changes no list."""
        before = self.audience.definitions.tools
        self.audience.adopt(definitions)
        if definitions.tools != before:
            self.offer.announce_change(TOOLS)

    def reload_tenants(self) -> None:
        """Read the file of the tenants again."""
        if self.tenancy is not None and self.tenancy.reload():
            self.observing.change_tenants()
            self._tell_of_changes()

    def _tell_of_changes(self) -> None:
        """Any list may be another one now; each caller is told of its own."""
        for kind in self._watches:
            self.offer.announce_change(kind)

    # --- what the methods ask a toolbox

    def view(self, session: Session, headers: RequestHeaders | None = None) -> View:
        who = self._acting_for_list(session, headers)
        if self.following is not None:
            self.following.touch(session, who)
        return self.audience.view(session, who)

    def _acting_for_list(self, session: Session, headers: RequestHeaders | None = None) -> ActingFor:
        return THE_ONE if self.tenancy is None else self.tenancy.acting_for_list(session, headers)

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        return (arguments, EVERYONE) if self.tenancy is None else self.tenancy.admit(session, headers, name, arguments)

    def refusal(self, session: Session, name: str, scope: Scope) -> ToolError | None:
        refusal = self.audience.refusal(session, name)
        spec = self.audience.specs[name]
        if spec.is_denied and (recorder := self._federation.recorder()) is not None:
            recorder.deny(spec, session.principal, scope.name or None, "deny_tool")
        if refusal is not None or self.tenancy is None:
            return refusal
        return self.tenancy.refusal(session, name, scope)

    def report_mismatch(self, call: Call, more: int) -> None:
        self.pipeline().metrics.mark_failed(call.name, more, call.scope.name)

    def handler(self, name: str) -> Handler:
        return (self._pipeline or self.pipeline()).handler(name)

    def pipeline(self) -> Pipeline:
        if self._pipeline is None:
            self._pipeline = self._build()
        return self._pipeline

    def prometheus(self, principal: str = "") -> str:
        """What this caller may know of the calls."""
        metrics = self.pipeline().metrics
        return metrics.prometheus(None if self.tenancy is None else self.tenancy.resolver.grants(principal).ids)

    def _build(self) -> Pipeline:
        from zorivest_rpc.serving.middleware.metrics import Metrics
        from zorivest_rpc.serving.pipeline import Pipeline
        from zorivest_rpc.serving.tools.files import ImportRoots, default_roots

        settings = self.settings
        here = os.getcwd() if settings.command == "stdio" else None
        metrics = Metrics(is_network_bound=self.audience.is_network_bound, started=self.started)
        tenancy = self.tenancy
        roots_of: Callable[[Call], ImportRoots]
        layer: Callable[[ToolSpec], Middleware] | None
        if tenancy is not None:
            from zorivest_rpc.tenants.layer import client_layer

            tenancy.use_metrics(metrics)
            roots_of, layer = tenancy.import_roots, client_layer
        else:
            found = settings.import_root or default_roots(settings.data_dir, here, os.path.expanduser("~"))
            roots = ImportRoots(found, private=settings.data_dir)
            roots_of, layer = lambda call: roots, None
        return Pipeline(
            self.audience,
            self.backend_for,
            metrics,
            own=self._own_handlers,
            roots=roots_of,
            client=layer,
            seen=self._record_guard_state,
            desktop=self._has_desktop,
            wrap=self._wrap,
        )

    def _has_desktop(self, call: Call) -> bool:
        """Whether a desktop application may belong to the call's backend, which none does to an embedded one."""
        return bool(self.settings.api_url) if self.tenancy is None else self.tenancy.has_address(call)

    def _wrap(self, name: str, handler: Handler) -> Handler:
        """What the outcomes of a tool mean for lists, around its whole chain; and what is told of each call."""
        if name in self.audience.specs:
            if self.exposure is not None:
                handler = self.exposure.wrap(name, handler)
            if self.following is not None:
                handler = self.following.wrap(name, handler)
        recorder = self._federation.recorder()
        return handler if recorder is None else recorder.wrap(name, self.audience.specs.get, handler)

    def _own_handlers(self, pipeline: Pipeline) -> dict[str, Handler]:
        from zorivest_rpc.serving.tools.own import own_handlers

        settings = self.settings
        gateway = self.gateway()
        forward = {} if gateway is None else {"forward": gateway.forward}
        tenancy = self.tenancy
        logs = os.path.join(settings.data_dir, "logs")
        own = {} if tenancy is None else tenancy.handlers()
        return {**own, **forward, **self.observing.handlers()} | own_handlers(
            self.audience,
            self.backend_for,
            run=pipeline.handler,
            each=pipeline.for_each_client,
            changed=self._list_changed,
            metrics=pipeline.metrics,
            issue=pipeline.confirmation.issue,
            consent=pipeline.confirmation.answer_to,
            asks=settings.confirm != "never",
            shape=pipeline.shape,
            seen=self._record_guard_state,
            log_directory=(lambda call: logs) if tenancy is None else tenancy.log_directory,
            own_page=os.path.join(settings.data_dir, "desktop-setup.html"),
            tenancy=tenancy,
            upstreams=self._federation.report,
            environ=os.environ,
            desktop=self._has_desktop,
            gui_page=settings.gui_page,
        )

    def resources(self) -> Shelf:
        if self._resources is None:
            from zorivest_rpc.serving.tools.resources import Shelf

            pipeline = self.pipeline()
            self._resources = Shelf(
                self.backend_for,
                list_toolsets=pipeline.handler("list_available_toolsets"),
                describe_toolset=pipeline.handler("describe_toolset"),
                permit=pipeline.guard.check,
                refusal=self.audience.refusal,
                note=lambda call, state: self.followed.guard(call.scope.name).note(state),
                name_owner=(lambda call, error: error) if self.tenancy is None else self.tenancy.name_owner,
            )
        return self._resources

    async def _complete(
        self, session: Session, kind: str, name: str, argument: str, value: str, others: dict[str, str]
    ) -> Completion | None:
        if self._completions is None:
            from zorivest_rpc.serving.tools.completions import JournalCompletions

            self._completions = JournalCompletions(
                lambda asking: self.backends().of(asking.principal),
                lambda: toolset_names(self.audience.definitions),
                self.audience.refusal,
            )
        if self.tenancy is not None:
            from zorivest_rpc.app.tenant_shelves import complete

            return await complete(self.tenancy, self._theirs, session, kind, name, argument, value, others)
        found = await self._completions(session, kind, name, argument, value, others)
        if found is None and (library := self._federation.library()) is not None:
            found = await library.complete(session, kind, name, argument, value, others)
        return found

    def _list_changed(self, session: Session) -> None:
        """Told once the loop comes round: of several toolsets that were loaded at once the client hears once."""
        import asyncio

        if session not in self._changing:
            self._changing.add(session)
            asyncio.get_running_loop().call_soon(self._tell_change, session)

    def _tell_change(self, session: Session) -> None:
        from zorivest_rpc.serving.tools.resources import TOOLSETS

        self._changing.discard(session)
        if TOOLSET in session.toolsets:
            self.observing.load()
        for kind in self.offer.changing[False]:  # and of no list that this server never said would change
            self.offer.announce_change(kind, session)
        for uri in sorted(session.subscriptions):
            if uri.startswith(TOOLSETS):  # they tell what this session has loaded
                self.offer.announce_update(uri, session)

    def _instructions(self, session: Session) -> str:
        audience = self.audience
        profile = audience.profile(session)
        who = self._acting_for_list(session, session.headers)
        listed = audience.visible_tools(session, who)
        categories = [
            Category(toolset.name, toolset.description, count, is_loaded)
            for toolset, count, is_loaded in audience.groups(session, who)
            if who.has_toolset(toolset.name)
        ]
        return compose(
            profile.mode,
            categories,
            listed=len(listed),
            situation=self._situation(session),
            client=profile.title,
            tool_limit=profile.traits.tool_limit,
            gated=len(audience.gated_tools(session, who=who)),
            forms="form" in profile.elicitation,
            fixed_list=session.revision.modern,
            next_turn=profile.mode is Mode.ANTHROPIC or profile.traits.list_changed == "next-turn",
            unlisted=[spec.name for spec in audience.unlisted_for_room(session)],
            limit=profile.traits.instructions_limit,
        )

    def _situation(self, session: Session) -> Situation:
        read_only = self.audience.limits(session).read_only
        if self.tenancy is not None:
            return Situation(tenant=ONE_OF_SEVERAL, read_only=read_only)
        backend = self.settings.api_url or "embedded"
        return Situation(backend=backend, locked=self._guards.read(session.principal), read_only=read_only)

    # --- the backend

    def _before_list(self, session: Session) -> Awaitable[None] | None:
        """A client that reads its list once gets the tools of servers that are about to answer."""
        if not self._federation.has_servers or self.audience.profile(session).mode is not Mode.STATIC:
            return None
        gateway = self.gateway()
        return None if gateway is None else self._federation.first_list(session, gateway)

    async def reload(self) -> None:
        """Read the tenants, and the servers and lists of the profile again; a wrong file changes nothing."""
        import logging

        self.reload_tenants()
        if self.settings.file is None:
            return
        log = logging.getLogger("zorivest_rpc")
        try:
            profile = self._federation.read_again()
        except ConfigError as error:
            for line in str(error).splitlines():
                log.error("not read again: %s", line)
            return
        await self._federation.take(profile, self._adopt)
        if self.tenancy is not None:
            self.tenancy.forget_bounds()
            self._tell_of_changes()
        self.offer.changing = self._changing_lists()
        self.start_upstreams()
        log.warning("read again: %d servers, and the lists of the profile", len(profile.enabled))

    def start_upstreams(self) -> None:
        """Begin to discover the other MCP servers, where there are any."""
        if (gateway := self.gateway()) is not None:
            gateway.start()

    async def warm_up(self) -> None:
        """Connect and unlock before the first call needs it; what goes wrong is told by that call.

        A client asks for its first list within milliseconds of the first answer, and what the gateway imports would
        stand before that."""
        import asyncio

        self._starting = asyncio.get_running_loop().call_later(_LIST_FIRST, self.start_upstreams)
        self.observing.start()
        if self.settings.file is not None:
            keep_parsed(self.settings.file, self.settings.data_dir)
        if self.tenancy is None:
            await self.callers.warm_up()

    # --- what is known of the guard

    def _record_guard_state(self, call: Call, locked: bool) -> None:
        self.followed.wake_guard(call.scope.name, locked)
        if self.tenancy is None:
            self._guards.record(call.session.principal, locked)

    def backend_for(self, call: Call) -> HttpBackend | TenantBackend:
        return self.callers.backend_for(call) if self.tenancy is None else self.tenancy.backend_for(call)

    async def close(self) -> None:
        await self.observing.close()
        if self._starting is not None:
            self._starting.cancel()
        for changes in self._watches.values():
            changes.close()
        if self.following is not None:
            await self.following.close()
        await self._federation.close()
        await self.followed.close()
        if self.tenancy is not None:
            await self.tenancy.close()
        await self.callers.close()


def _check_addresses(settings: Settings) -> None:
    """An address that cannot be one is said at the start, not by the first call."""
    if settings.api_url:
        from zorivest_rpc.serving.backend.http import normalise

        normalise(settings.api_url)
    if settings.gui_page and not settings.gui_page.startswith(("https://", "http://")):
        raise ConfigError("--gui-page", f"{settings.gui_page!r} is not the address of a web page")
