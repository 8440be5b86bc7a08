"""Settings in, the journal's offer out; plain constructors, top to bottom.

What a list needs is built at once. The pipeline, the backend and everything behind them come with the first call, or
after the first answer is on the wire, whichever is earlier.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from zorivest_rpc import __version__
from zorivest_rpc.app.backends import LOCAL, Callers
from zorivest_rpc.app.exposing import follow_journal, open_engine, watch_tools
from zorivest_rpc.app.federation import Federation
from zorivest_rpc.app.guards import SeenGuards
from zorivest_rpc.app.policy import opted_in, policy_of
from zorivest_rpc.app.shelves import Prompts, Resources
from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError, ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Outcome, Scope
from zorivest_rpc.mcp.catalog.view import View
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES, TOOLS, Completion, Offer
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import Definitions, Mode
from zorivest_rpc.serving.catalog.toolsets import toolset_names
from zorivest_rpc.serving.modes.instructions import Category, Situation, compose

if TYPE_CHECKING:
    from zorivest_rpc.gateway.router import Gateway
    from zorivest_rpc.serving.pipeline import Pipeline
    from zorivest_rpc.serving.tools.completions import JournalCompletions
    from zorivest_rpc.serving.tools.guard_watch import GuardWatch
    from zorivest_rpc.serving.tools.resources import Shelf

__all__ = ["Journal"]


class Journal:
    """The 68 tools as one server offers them."""

    def __init__(self, settings: Settings, schemas: str | None = None) -> None:
        definitions = load(schemas, opted_in(settings))
        if settings.api_url:  # an address that cannot be one is said at the start, not by the first call
            from zorivest_rpc.serving.backend.http import normalise

            normalise(settings.api_url)
        if settings.gui_page and not settings.gui_page.startswith(("https://", "http://")):
            raise ConfigError("--gui-page", f"{settings.gui_page!r} is not the address of a web page")
        self.settings = settings
        self._federation = Federation(settings, definitions)
        definitions = self._federation.definitions
        self.exposure = open_engine(settings, definitions)
        policy = policy_of(settings, definitions, self._federation.channel)
        self.audience = Audience(definitions, policy, self.exposure)
        self.started = time.perf_counter()
        self._guards = SeenGuards()
        self.callers = Callers(settings, self._guards)
        self.backends = self.callers.backends
        self.following = follow_journal(settings, self.audience, self.callers)
        self._pipeline: Pipeline | None = None
        self._resources: Shelf | None = None
        self._completions: JournalCompletions | None = None
        self._changing: set[Session] = set()
        self._guard_watch: GuardWatch | None = None
        self._tool_watch = watch_tools(self.audience, has_servers=self._federation.has_servers)
        self.offer = Offer(
            "zorivest-rpc",
            __version__,
            title="Zorivest trading journal",
            instructions=self._instructions,
            tools=self,
            prompts=Prompts(self.audience, self._federation.library),
            resources=Resources(self.resources, self.audience, self._federation.library),
            complete=self._complete,
            tasks=True,
            changing=self._changing_lists(),
            holding=self.callers.holding_for,
            watch=self._watch,
            unwatch=self._unwatch,
            tool_watch=self._tool_watch,
            passage=None if self._federation.passage is None else self._federation.passage.admit,
        )

    def _changing_lists(self) -> dict[bool, tuple[str, ...]]:
        """By era (True: modern): enable_toolset, in the legacy one alone; data; servers that come, go and change."""
        if self._federation.has_servers:
            return dict.fromkeys((False, True), (TOOLS, PROMPTS, RESOURCES))
        return {False: (TOOLS,), True: () if self._tool_watch is None else (TOOLS,)}

    def gateway(self) -> Gateway | None:
        """The other MCP servers, none of them contacted before it is started."""
        return self._federation.gateway(self._adopt, self._tell_of_others, self._behind)

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

    # --- what the methods ask a toolbox

    def view(self, session: Session, headers: RequestHeaders | None = None) -> View:
        if self.following is not None:
            self.following.touch(session)
        return self.audience.view(session)

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        return arguments, EVERYONE

    def refusal(self, session: Session, name: str, scope: Scope) -> ToolError | None:
        return self.audience.refusal(session, name)

    def report_mismatch(self, call: Call, more: int) -> None:
        self.pipeline().metrics.mark_failed(call.name, more)

    def handler(self, name: str) -> Handler:
        return (self._pipeline or self.pipeline()).handler(name)

    def pipeline(self) -> Pipeline:
        if self._pipeline is None:
            self._pipeline = self._build()
        return self._pipeline

    def prometheus(self) -> str:
        return self.pipeline().metrics.prometheus()

    def _build(self) -> Pipeline:
        from zorivest_rpc.serving.middleware.metrics import Metrics
        from zorivest_rpc.serving.pipeline import Pipeline
        from zorivest_rpc.serving.tools.files import ImportRoots, default_roots

        settings, definitions = self.settings, self.audience.definitions
        network = [spec.name for spec in definitions.tools if spec.network_bound]
        here = os.getcwd() if settings.command == "stdio" else None
        roots = settings.import_root or default_roots(settings.data_dir, here, os.path.expanduser("~"))
        return Pipeline(
            self.audience,
            self.callers.backend_for,
            Metrics(network_bound=network, started=self.started),
            own=self._own_handlers,
            roots=ImportRoots(roots, private=settings.data_dir),
            seen=self._record_guard_state,
            desktop=bool(settings.api_url),
            wrap=self._wrap,
        )

    def _wrap(self, name: str, handler: Handler) -> Handler:
        """What the outcomes of a tool mean for lists, around its whole chain."""
        if self.exposure is not None:
            handler = self.exposure.wrap(name, handler)
        return handler if self.following is None else self.following.wrap(name, handler)

    def _own_handlers(self, pipeline: Pipeline) -> dict[str, Handler]:
        from zorivest_rpc.serving.tools.own import own_handlers

        settings = self.settings
        gateway = self.gateway()
        forward = {} if gateway is None else {"forward": gateway.forward}
        return forward | own_handlers(
            self.audience,
            self.callers.backend_for,
            run=pipeline.handler,
            changed=self._list_changed,
            metrics=pipeline.metrics,
            issue=pipeline.confirmation.issue,
            consent=pipeline.confirmation.answer_to,
            asks=settings.confirm != "never",
            shape=pipeline.shape,
            seen=self._record_guard_state,
            log_directory=os.path.join(settings.data_dir, "logs"),
            environ=os.environ,
            desktop=bool(settings.api_url),
            gui_page=settings.gui_page,
        )

    def resources(self) -> Shelf:
        if self._resources is None:
            from zorivest_rpc.serving.tools.guard_watch import GuardWatch
            from zorivest_rpc.serving.tools.resources import GUARD, Shelf

            pipeline = self.pipeline()
            self._guard_watch = GuardWatch(self._guard_after, lambda: self.offer.announce_update(GUARD))
            self._resources = Shelf(
                self.callers.backend_for,
                list_toolsets=pipeline.handler("list_available_toolsets"),
                describe_toolset=pipeline.handler("describe_toolset"),
                permit=pipeline.guard.check,
                refusal=self.audience.refusal,
                note=self._guard_watch.note,
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
        self.offer.announce_change(TOOLS, session)
        for uri in sorted(session.subscriptions):
            if uri.startswith(TOOLSETS):  # they tell what this session has loaded
                self.offer.announce_update(uri, session)

    def _instructions(self, session: Session) -> str:
        audience = self.audience
        profile = audience.profile(session)
        listed = audience.visible_tools(session)
        categories = [
            Category(
                toolset.name,
                toolset.description,
                len(audience.callable_tools(session, toolset.name)),
                audience.is_loaded(session, toolset.name),
            )
            for toolset in audience.definitions.toolsets
        ]
        return compose(
            profile.mode,
            categories,
            listed=len(listed),
            situation=Situation(
                backend=self.settings.api_url or "embedded",
                locked=self._guards.read(session.principal),
                read_only=audience.limits(session).read_only,
            ),
            client=profile.title,
            tool_limit=profile.traits.tool_limit,
            gated=len(audience.gated_tools(session)),
            forms="form" in profile.elicitation,
            fixed_list=session.revision.modern,
            next_turn=profile.mode is Mode.ANTHROPIC or profile.traits.list_changed == "next-turn",
            unlisted=[spec.name for spec in audience.unlisted_for_room(session)],
            limit=profile.traits.instructions_limit,
        )

    # --- the backend

    def start_upstreams(self) -> None:
        """Begin to discover the other MCP servers, where there are any."""
        if (gateway := self.gateway()) is not None:
            gateway.start()

    async def warm_up(self) -> None:
        """Connect and unlock before the first call needs it; what goes wrong is told by that call."""
        self.start_upstreams()
        await self.callers.warm_up()

    # --- what is known of the guard

    def _watch(self, uri: str, wanted: Callable[[], bool]) -> None:
        """Of our own resources that can be subscribed to, the guard alone changes without an act of this server."""
        from zorivest_rpc.serving.tools.resources import GUARD

        if (gateway := self.gateway()) is not None:
            gateway.followed.watch(uri, wanted)

        self.resources()
        if uri == GUARD and self._guard_watch is not None:
            self._guard_watch.want(wanted)

    def _unwatch(self, uri: str) -> None:
        if (gateway := self.gateway()) is not None:
            gateway.followed.unwatch(uri)

    async def _guard_after(self, version: str | None) -> Json:
        """The guard of all callers is one, and its state is open to all: it is read without a caller's key."""
        from zorivest_rpc.serving.backend.interface import Request
        from zorivest_rpc.serving.tools.guard_watch import WAIT

        query = {} if version is None else {"after": version, "wait": WAIT}
        request = Request("GET", "/mcp-guard/status", query=query, auth="if_any", timeout=WAIT + 10.0)
        return (await self.backends().of(LOCAL).ask(request)).value

    def _record_guard_state(self, call: Call, locked: bool) -> None:
        if self._guard_watch is not None:
            self._guard_watch.wake(locked)
        self._guards.record(call.session.principal, locked)

    async def close(self) -> None:
        if self._tool_watch is not None:
            self._tool_watch.close()
        if self.following is not None:
            await self.following.close()
        await self._federation.close()
        if self._guard_watch is not None:
            await self._guard_watch.close()
        await self.callers.close()
