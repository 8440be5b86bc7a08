"""The composition root: Settings in, the journal's offer out; plain constructors, top to bottom.

What a list needs is built at once. The pipeline, the backend and everything behind them come with the first call, or
after the first answer is on the wire, whichever is earlier.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, TypeVar

from zorivest_rpc import __version__
from zorivest_rpc.config import Settings
from zorivest_rpc.errors import BackendError, ConfigError, ToolError
from zorivest_rpc.mcp.call import Call, Handler
from zorivest_rpc.mcp.catalog.names import nearest
from zorivest_rpc.mcp.catalog.view import View
from zorivest_rpc.mcp.offer import (
    TOOLS,
    Completion,
    Offer,
    Prompt,
    PromptShelf,
    Resource,
    ResourceShelf,
    Template,
)
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import Audience, Policy
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import Definitions, Mode
from zorivest_rpc.serving.catalog.toolsets import ToolsetConfig, decode_config, toolset_names
from zorivest_rpc.serving.modes.detect import parse_mode
from zorivest_rpc.serving.modes.instructions import Category, Situation, compose

if TYPE_CHECKING:
    from zorivest_rpc.gateway.config import Profile
    from zorivest_rpc.gateway.router import Gateway
    from zorivest_rpc.serving.backend.auth import Keyring
    from zorivest_rpc.serving.backend.http import HttpBackend
    from zorivest_rpc.serving.backend.interface import Address
    from zorivest_rpc.serving.backend.pool import Backends
    from zorivest_rpc.serving.pipeline import Pipeline
    from zorivest_rpc.serving.tools.completions import JournalCompletions
    from zorivest_rpc.serving.tools.guard_watch import GuardWatch
    from zorivest_rpc.serving.tools.resources import Shelf

__all__ = ["Journal", "policy_of"]

T = TypeVar("T")

_FRESH = 60.0  # seconds for which the guard's state, once seen, is worth telling
_ENDED_KEYS = ("key_revoked", "key_expired")
_MOST_KNOWN = 1024  # principals whose keys were good once, and whose guards were seen
LOCAL = ""  # the principal of a client that needs no key of its own: stdio, or a loopback server without one


class Journal:
    """The 68 tools as one server offers them."""

    def __init__(self, settings: Settings, schemas: str | None = None) -> None:
        definitions = load(schemas)
        if settings.api_url:  # an address that cannot be one is said at the start, not by the first call
            from zorivest_rpc.serving.backend.http import normalise

            normalise(settings.api_url)
        if settings.gui_page and not settings.gui_page.startswith(("https://", "http://")):
            raise ConfigError("--gui-page", f"{settings.gui_page!r} is not the address of a web page")
        self.settings = settings
        self._base = definitions
        self._gateway: Gateway | None = None
        self._profile = self._load_profile()
        if self._profile is not None:
            definitions = _with_servers(definitions, self._profile)
        self.audience = Audience(definitions, policy_of(settings, definitions))
        self.started = time.perf_counter()
        self._pipeline: Pipeline | None = None
        self._backends: Backends | None = None
        self._keyring: Keyring | None = None
        self._resources: Shelf | None = None
        self._completions: JournalCompletions | None = None
        self._proven: dict[str, None] = {}
        self._guards: dict[str, tuple[bool, float]] = {}
        self._looked: dict[str, float] = {}
        self._changing: set[Session] = set()
        self._guard_watch: GuardWatch | None = None
        self.offer = Offer(
            "zorivest-rpc",
            __version__,
            title="Zorivest trading journal",
            instructions=self._instructions,
            tools=self,
            prompts=_Prompts(),
            resources=_Resources(self),
            complete=self._complete,
            tasks=True,
            # enable_toolset, in the legacy era alone; and servers that come, go and change their lists
            changing={False: (TOOLS,), True: () if self._profile is None else (TOOLS,)},
            holding=self._holding_for,
            watch=self._watch,
        )

    def _load_profile(self) -> Profile | None:
        """The profile of the configuration file, where it has a server that is enabled."""
        file = self.settings.file
        if self.settings.profile is None and (file is None or "profiles" not in file.document):
            return None
        from zorivest_rpc.gateway.config import load_profile

        profile = load_profile(self.settings, [spec.name for spec in (*self._base.tools, *self._base.meta_tools)])
        return profile if profile.enabled else None

    def gateway(self) -> Gateway | None:
        """The other MCP servers, none of them contacted before it is started."""
        if self._gateway is None and self._profile is not None:
            from zorivest_rpc.gateway.start import open_gateway

            self._gateway = open_gateway(self.settings, self._profile, self._base, os.environ, self._adopt)
        return self._gateway

    def _adopt(self, definitions: Definitions) -> None:
        """Another catalogue, for everyone; what became of a server alone changes no list."""
        before = self.audience.definitions.tools
        self.audience.adopt(definitions)
        if definitions.tools != before:
            self.offer.announce_change(TOOLS)

    # --- what the methods ask a toolbox

    def view(self, session: Session) -> View:
        return self.audience.view(session)

    def refusal(self, session: Session, name: str) -> ToolError | None:
        return self.audience.refusal(session, name)

    def report_mismatch(self, name: str, more: int) -> None:
        self.pipeline().metrics.mark_failed(name, more)

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
            self._backend_for,
            Metrics(network_bound=network, started=self.started),
            own=self._own_handlers,
            roots=ImportRoots(roots, private=settings.data_dir),
            seen=self._record_guard_state,
            desktop=bool(settings.api_url),
        )

    def _own_handlers(self, pipeline: Pipeline) -> dict[str, Handler]:
        from zorivest_rpc.serving.tools.own import own_handlers

        settings = self.settings
        gateway = self.gateway()
        forward = {} if gateway is None else {"forward": gateway.forward}
        return forward | own_handlers(
            self.audience,
            self._backend_for,
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
                self._backend_for,
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
        return await self._completions(session, kind, name, argument, value, others)

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
                locked=self._read_lock(session.principal),
                read_only=audience.limits(session).read_only,
            ),
            client=profile.title,
            tool_limit=profile.traits.tool_limit,
            gated=len(audience.gated_tools(session)),
            forms="form" in profile.elicitation,
            fixed_list=session.revision.modern,
            next_turn=profile.mode is Mode.ANTHROPIC or profile.traits.list_changed == "next-turn",
            limit=profile.traits.instructions_limit,
        )

    # --- the backend

    def backends(self) -> Backends:
        if self._backends is None:
            from zorivest_rpc.serving.backend.auth import Keyring
            from zorivest_rpc.serving.backend.pool import Backends

            self._keyring = Keyring()
            self._backends = Backends(self._backend_of)
        return self._backends

    def _backend_for(self, call: Call) -> HttpBackend:
        """Found once and carried on the call. One that was retired while the user was asked is replaced."""
        backend: HttpBackend | None = call.context
        if backend is None or backend.closed:
            backend = call.context = self.backends().of(call.session.principal)
        return backend

    def _backend_of(self, principal: str) -> HttpBackend:
        from zorivest_rpc.serving.backend.http import HttpBackend

        keyring = self._keyring
        assert keyring is not None
        plain = self.settings.backend_writer == "plain"
        if principal == LOCAL:
            return HttpBackend(self.settings.api_url or self._find_embedded, self.own_key, plain=plain)
        return HttpBackend(
            self.settings.api_url or self._find_embedded,
            lambda: keyring.key_of(principal),
            plain=plain,
        )

    def own_key(self) -> str | None:
        """The user's own key: from the environment, else the one that the embedded backend's first start stored."""
        if self.settings.api_key or self.settings.api_url:
            return self.settings.api_key
        from pathlib import Path

        from zorivest_rpc.embedded.locate import stored_key

        return stored_key(Path(self.settings.data_dir), os.environ)

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

    async def warm_up(self) -> None:
        """Connect and unlock before the first call needs it; what goes wrong is told by that call."""
        if (gateway := self.gateway()) is not None:
            gateway.start()
        try:
            await self.backends().of(LOCAL).unlock()
        except (ToolError, ConfigError, TimeoutError):
            return
        with suppress(ToolError):
            await self._look(LOCAL)
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
                await self._look(principal)
        except ToolError as error:
            if getattr(error, "status", 0) in (401, 403):
                self._proven.pop(principal, None)
                self.backends().drop(principal)
                raise
            if principal not in self._proven:
                self.backends().drop(principal)
                raise _check_failure(error) from None
        else:
            _note(self._proven, principal, None)
        return principal

    # --- what is known of the guard, for the instructions

    async def _look(self, principal: str) -> None:
        """At most once a minute. It is no reason to fail, except for a key that is none any more."""
        from zorivest_rpc.serving.backend.interface import Request

        looked = self._looked.get(principal)
        if looked is not None and time.monotonic() - looked < _FRESH:
            return
        _note(self._looked, principal, time.monotonic())
        backend = self.backends().of(principal)
        try:
            # the guard's state is open to all, this is not
            await backend.ask(Request("GET", "/service/status", timeout=2.0))
            status = (await backend.ask(Request("GET", "/mcp-guard/status", timeout=2.0))).value
        except BackendError as error:
            if error.reported in _ENDED_KEYS:
                backend.lock()
                await backend.unlock()  # the exchange says best what became of the key
                raise
            return
        except (ToolError, ConfigError, TimeoutError):
            return
        locked = status.get("is_locked") if isinstance(status, dict) else None
        if isinstance(locked, bool):
            _note(self._guards, principal, (locked, time.monotonic()))

    def _watch(self, uri: str, wanted: Callable[[], bool]) -> None:
        """Of the resources that can be subscribed to, the guard alone changes without an act of this server."""
        from zorivest_rpc.serving.tools.resources import GUARD

        self.resources()
        if uri == GUARD and self._guard_watch is not None:
            self._guard_watch.want(wanted)

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
        _note(self._guards, call.session.principal, (locked, time.monotonic()))

    def _read_lock(self, principal: str) -> bool | None:
        seen = self._guards.get(principal)
        return seen[0] if seen is not None and time.monotonic() - seen[1] < _FRESH else None

    def holding(self, header: str | None) -> AbstractContextManager[None]:
        """While this is open the key of a running request can be used to unlock again."""
        return _holding(self, bearer(header))

    def _holding_for(self, session: Session) -> AbstractContextManager[object]:
        """The same for work of this session that outlives the request it came with."""
        key = None if self._keyring is None else self._keyring.key_of(session.principal)
        return nullcontext() if key is None or self._keyring is None else self._keyring.holding(key)

    async def close(self) -> None:
        if self._gateway is not None:
            await self._gateway.close()
        if self._guard_watch is not None:
            await self._guard_watch.close()
        if self._backends is not None:
            await self._backends.close()


class _Prompts(PromptShelf):
    """The journal's prompts, read with the first request."""

    def visible(self, session: Session) -> Sequence[Prompt]:
        return self._shelf().visible(session)

    def find(self, session: Session, name: str) -> Prompt | None:
        return self._shelf().find(session, name)

    def _shelf(self) -> PromptShelf:
        from zorivest_rpc.serving.tools.prompts import shelf

        return shelf()


class _Resources(ResourceShelf):
    """The journal's resources, built with the first request."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def visible(self, session: Session) -> Sequence[Resource]:
        return self._journal.resources().visible(session)

    def templates(self, session: Session) -> Sequence[Template]:
        return self._journal.resources().templates(session)

    def find(self, session: Session, uri: str) -> tuple[Resource | Template, dict[str, str]] | None:
        return self._journal.resources().find(session, uri)


@contextmanager
def _holding(journal: Journal, key: str | None) -> Iterator[None]:
    journal.backends()
    if key is None or journal._keyring is None:
        yield
        return
    with journal._keyring.holding(key):
        yield


def _note(known: dict[str, T], principal: str, value: T) -> None:
    known.pop(principal, None)
    if len(known) >= _MOST_KNOWN:
        del known[next(iter(known))]
    known[principal] = value


def _check_failure(error: ToolError) -> Exception:
    from zorivest_rpc.errors import ProtocolError
    from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR
    from zorivest_rpc.mcp.transports.streamable import Refused

    words = f"the key cannot be checked now. {error.text}"
    return Refused(503, ProtocolError(INTERNAL_ERROR, words), (("Retry-After", "5"),))


def bearer(header: str | None) -> str | None:
    scheme, _, given = (header or "").partition(" ")
    return given.strip() or None if scheme.lower() == "bearer" else None


def _with_servers(definitions: Definitions, profile: Profile) -> Definitions:
    from msgspec.structs import replace

    from zorivest_rpc.gateway.toolsets import list_toolsets

    return replace(definitions, toolsets=(*definitions.toolsets, *list_toolsets(profile)))


def policy_of(settings: Settings, definitions: Definitions) -> Policy:
    """What the operator said, checked against the catalogue; ConfigError names the nearest name."""
    mode, warning = parse_mode(settings.client_mode)
    if warning is not None:
        import sys

        print(f"zorivest-rpc: {warning}", file=sys.stderr)
    known = {spec.name for spec in (*definitions.tools, *definitions.meta_tools)}
    for name in settings.exclude_tools:
        if name not in known:
            near = nearest(name, known)
            raise ConfigError("--exclude-tools", f'no tool "{name}"' + (f'; did you mean "{near}"?' if near else ""))
    return Policy(
        toolsets=None if settings.toolsets_by_variable else settings.toolsets,
        toolsets_variable=settings.toolsets if settings.toolsets_by_variable else None,
        tools=settings.tools,
        excluded=frozenset(settings.exclude_tools),
        read_only=settings.read_only,
        mode=mode,
        config=_toolset_config(settings, definitions),
        allowed_callers=settings.allowed_callers,
        inside_claude_code=settings.inside_claude_code and settings.command == "stdio",
        confirm=settings.confirm,  # type: ignore[arg-type]
        trusts_names=settings.command != "serve" or settings.trust_client_names,
    )


def _toolset_config(settings: Settings, definitions: Definitions) -> ToolsetConfig:
    """The named file, which must exist, or the one in the data directory, which may."""
    path = settings.toolset_config or os.path.join(settings.data_dir, "toolset-config.json")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        if settings.toolset_config:
            raise ConfigError("ZORIVEST_TOOLSET_CONFIG", f"{path} does not exist") from None
        return ToolsetConfig()
    except OSError as exc:
        raise ConfigError(path, exc.strerror or "cannot be read") from None
    return decode_config(data, path, definitions)
