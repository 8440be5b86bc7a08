"""Several tenants behind the parts that serve one: whom a request is for, what it may do, and what it is shown.

Made only where tenants are configured. Everything that it knows of a caller comes from the caller's principal, and
everything about a tenant from the context that a call was given."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError, ToolError, ZorivestError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Outcome, Scope, give
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.serving.audience import ActingFor, Audience, Bound
from zorivest_rpc.serving.catalog.spec import ToolsetSpec, ToolSpec
from zorivest_rpc.serving.catalog.toolsets import toolset_names
from zorivest_rpc.serving.modes.present import EVERY_CLIENT, STOPS_ALL, Clients
from zorivest_rpc.tenants.config import Tenant, Tenants
from zorivest_rpc.tenants.context import ARGUMENT, Contexts, Place, TenantBackend, TenantContext
from zorivest_rpc.tenants.refusals import busy, name_client, out_of_bounds, over_rate, read_only, unconfigured
from zorivest_rpc.tenants.resolve import HEADER, HeaderUse, Resolver

if TYPE_CHECKING:
    from zorivest_rpc.app.federation import Federation
    from zorivest_rpc.mcp.transports.streamable import Refused
    from zorivest_rpc.serving.middleware.metrics import Metrics
    from zorivest_rpc.serving.tools.files import ImportRoots
    from zorivest_rpc.tenants.embedded import EmbeddedTenants

__all__ = ["ServedTenants"]

USAGE: Final = "Pass one of these client IDs as the clientId parameter to other tools"
_MOST_ENUMERATED: Final = 20
_SHARES: Final = 4  # of the calls that the server does at once, a client whose backend hangs holds one share at most
_MOST_KEPT: Final = 256  # callers and clients whose lists are remembered
log: Final = logging.getLogger("zorivest_rpc.tenants")


class _Bounds(NamedTuple):
    """What binds a client, and the tools that were found to be inside."""

    bound: Bound
    allowed: dict[str, ToolSpec]


class ServedTenants:
    """The tenants of a running server."""

    def __init__(
        self,
        settings: Settings,
        tenants: Tenants,
        environ: Mapping[str, str],
        audience: Audience,
        *,
        others: Federation | None = None,
        header: HeaderUse = "fallback",
        in_header: bool = False,
    ) -> None:
        self.settings = settings
        self._most_calls = max(1, settings.calls_per_server // _SHARES)
        self._header = header
        self._environ = environ
        self.audience = audience
        self._in_header = in_header
        self._others = others
        self._embedded: EmbeddedTenants | None = None
        self._roots: dict[str, ImportRoots] = {}
        self._retiring: dict[asyncio.Task[None], TenantContext] = {}
        self._lists: dict[tuple[str, str | None, bool], ActingFor] = {}  # by caller; equal ones are one
        self._bounds: dict[tuple[str, bool], _Bounds] = {}
        self._metrics: Metrics | None = None
        self.tenants = tenants
        self.contexts = Contexts(tenants, environ, place=self._place, plain=settings.backend_writer == "plain")
        self._use(tenants)

    def _use(self, tenants: Tenants) -> None:
        """From now on requests are for these; a call that runs keeps the context that it was given."""
        from zorivest_rpc.tenants.embedded import directory_of, left_behind

        for warning in tenants.warnings:
            log.warning("%s", warning)
        for id in left_behind(self.settings.data_dir, tenants.tenants):
            directory = directory_of(self.settings.data_dir, id)
            log.warning("%s: no client is configured for this journal; it stays as it is", directory)
        self.tenants = tenants
        left = self.contexts.change(tenants)
        for context in left:
            self._retire(context)
        settings = self.settings
        # over stdio the caller started this process; over HTTP a caller without a key is one only where no rule is
        alone = settings.command != "serve" or not tenants.access
        self.resolver = Resolver(
            self.contexts,
            header=self._header,
            own=settings.client_id if settings.command != "serve" else None,
            local="" if alone else None,
        )
        self._lists.clear()
        self._bounds.clear()

    def reload(self) -> bool:
        """Read the file again; True if it was taken. What cannot change while the server runs leaves all as it is."""
        from zorivest_rpc.tenants.config import load_tenants

        source = self.tenants.source
        if self.settings.tenants_file is None:
            log.warning("%s is not read again while the server runs", source)
            return False
        try:
            tenants = load_tenants(self.settings, self._environ, toolset_names(self.audience.definitions))
        except ZorivestError as error:
            for line in str(error).splitlines():
                log.error("the clients stay as they were: %s", line)
            return False
        if tenants is None or bool(tenants.access) != bool(self.tenants.access):
            log.error("the clients stay as they were: whether there are access rules needs a restart")
            return False
        self._use(tenants)
        if self._embedded is not None:
            self._embedded.change(self._enabled_ids())
        log.warning("%s was read again: %d clients, %d keys", source, len(tenants.tenants), len(tenants.access))
        return True

    def _retire(self, context: TenantContext) -> None:
        """Close what belongs to a tenant that is gone once its last call has ended."""
        if not context.is_open:
            return
        task = asyncio.get_running_loop().create_task(context.retire())
        self._retiring[task] = context
        task.add_done_callback(lambda done: self._retiring.pop(done, None))

    # --- whom a request is for

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        spec = self.audience.specs.get(name)
        if spec is not None and spec.tenancy:
            return {key: value for key, value in arguments.items() if key != "clientId"}, EVERYONE
        try:
            return self.resolver.resolve(session.principal, headers, arguments, every=name == STOPS_ALL)
        except ToolError:
            if self._metrics is not None:
                self._metrics.unresolved += 1
            raise

    def refusal(self, session: Session, name: str, scope: Scope, *, counts: bool = True) -> ToolError | None:
        """What the tenant itself does not allow; the call is counted only if nothing else is in its way."""
        context = scope.own
        if not isinstance(context, TenantContext):
            return None
        tenant, spec, bounds = context.tenant, self.audience.specs[name], self._bounds_of(context)
        if bounds.allowed.get(name) is not spec:  # asked for the first time, or the tool is another one now
            if refused := self._out_of_bounds(tenant.id, bounds.bound, spec):
                return refused
            bounds.allowed[name] = spec
        # the brake is not kept waiting
        return self._refuse_work(session, context, counts=counts and name != STOPS_ALL)

    def _out_of_bounds(self, id: str, bound: Bound, spec: ToolSpec) -> ToolError | None:
        if not bound.has(spec):
            apart = self._others.apart if self._others is not None and spec.upstream else None
            return (apart and apart.refusal(id, spec)) or out_of_bounds(id, spec.name)
        return None if bound.allows(spec) else read_only(id, spec.name)

    def refuse_read(self, session: Session, scope: Scope) -> ToolError | None:
        """What the tenant itself does not allow of what another server is asked for it, a tool or not."""
        context = scope.own
        return self._refuse_work(session, context, counts=True) if isinstance(context, TenantContext) else None

    def _refuse_work(self, session: Session, context: TenantContext, *, counts: bool) -> ToolError | None:
        if not context.is_open and not context.is_configured:
            return unconfigured(context.id, self.resolver.grants(session.principal).others(context.id))
        if counts and context.calls >= self._most_calls and len(self.tenants.tenants) > 1:
            return busy(context.id, self._most_calls)
        limit = context.tenant.calls_per_minute
        if counts and limit is not None and (seconds := context.take_call()):
            return over_rate(context.id, limit, seconds)
        return None

    def bound_of(self, context: TenantContext) -> Bound:
        return self._bounds_of(context).bound

    def _bounds_of(self, context: TenantContext) -> _Bounds:
        """Clients that are bound alike share what was found to be allowed."""
        tenant, only_reads = context.tenant, context.is_read_only
        found = self._bounds.get((tenant.id, only_reads))
        if found is None:
            bound = self._bound(tenant, read_only=only_reads)
            alike = next((each for each in self._bounds.values() if each.bound == bound), None)
            self._bounds[tenant.id, only_reads] = found = alike or _Bounds(bound, {})
        return found

    def backend_for(self, call: Call) -> TenantBackend:
        """Of the context that the call was given, and of nothing else."""
        backend: TenantBackend | None = call.context
        if backend is None or backend.closed:
            context = call.scope.own
            if not isinstance(context, TenantContext):
                raise RuntimeError(f"{call.name} was called for no tenant and asks for a backend")
            backend = call.context = context.backend()
            self.contexts.watch_idle()
        return backend

    def has_address(self, call: Call) -> bool:
        """Whether the backend of the call's tenant is one that runs by itself; of all at once none is meant."""
        context = call.scope.own
        return isinstance(context, TenantContext) and not context.tenant.embedded

    async def open_session(self, call: Call) -> None:
        """With the key of the call's tenant, whose context is made with its first call."""
        await self.backend_for(call).unlock()

    # --- what is shown

    def acting_for_list(self, session: Session, headers: RequestHeaders | None) -> ActingFor:
        principal, resolver = session.principal, self.resolver
        id = resolver.by_header(principal, headers) if resolver.may_name(headers) else None
        return self._lists.get((principal, id, True)) or self._acting(principal, id, optional=True)

    def acting_for(self, call: Call) -> ActingFor:
        """Of a call: its own tenant's tools, shown as the caller's list shows them."""
        name = call.scope.name
        return self._acting(call.session.principal, name if isinstance(call.scope.own, TenantContext) else None)

    def _acting(self, principal: str, id: str | None, *, optional: bool = False) -> ActingFor:
        key = (principal, id, optional)
        found = self._lists.get(key)
        if found is None:
            ids, tenants = self.resolver.grants(principal).ids, self.tenants.tenants
            bounds = frozenset(self._bound(tenants[each]) for each in ((id,) if id else ids))
            clients = Clients(
                ids if len(ids) <= _MOST_ENUMERATED else (),
                required=not (id and optional),
                in_header=self._in_header,
            )
            # where no list follows data, sets of clients that are shown alike share one
            follows = () if self.audience.exposure is None else (id,) if id else ids
            found = ActingFor(clients, bounds or frozenset({Bound(frozenset())}), follows)
            found = next((each for each in self._lists.values() if each == found), found)
            if len(self._lists) >= _MOST_KEPT:
                del self._lists[next(iter(self._lists))]
            self._lists[key] = found
        return found

    def _bound(self, tenant: Tenant, *, read_only: bool | None = None) -> Bound:
        """Clients that are bound alike are shown one list; one that has servers of its own is like no other."""
        toolsets = None if tenant.toolsets is None else frozenset(tenant.toolsets)
        only_reads = tenant.read_only if read_only is None else read_only
        assigned = None if self._others is None else self._others.assigned
        if assigned is None:
            return Bound(toolsets, only_reads)
        client = tenant.id if tenant.id in assigned.named else ""
        return Bound(toolsets, only_reads, client, assigned.hidden_from(tenant.id))

    def forget_bounds(self) -> None:
        """Other servers may be assigned to other clients now."""
        self._lists.clear()
        self._bounds.clear()

    def toolset(self, call: Call, toolset: ToolsetSpec, count: int) -> ToolsetSpec:
        """As the call's client has it: of another server, with the state of that client's own connection."""
        apart = None if self._others is None else self._others.apart
        return toolset if apart is None or not toolset.upstream else apart.toolset_of(call.scope.name, toolset, count)

    def granted(self, principal: str) -> tuple[Tenant, ...]:
        return tuple(self.tenants.tenants[id] for id in self.resolver.grants(principal).ids)

    # --- what the tools ask

    def handlers(self) -> dict[str, Handler]:
        return {"list_clients": self.list_clients}

    async def list_clients(self, call: Call) -> Outcome:
        """From memory, whatever state a backend is in; no address, no header, no state of a credential."""
        shown: list[Json] = [
            {
                "id": tenant.id,
                "name": tenant.name,
                "description": tenant.description,
                "readOnly": self.contexts.of(tenant.id).is_read_only,
            }
            for tenant in self.granted(call.session.principal)
        ]
        return give({"clients": shown, "usage": USAGE})

    def inner_refusal(self, call: Call, name: str) -> ToolError | None:
        """Of a tool that is called by name: the outer call was counted already."""
        return self.audience.refusal(call.session, name) or self.refusal(call.session, name, call.scope, counts=False)

    def inner_arguments(self, call: Call, given: dict[str, Json]) -> dict[str, Json]:
        return self.resolver.check_inner(call.scope, given)

    def confirmed_arguments(self, call: Call, given: dict[str, Json]) -> dict[str, Json]:
        """As inner ones; a stop of every client is confirmed by a token of any of them."""
        if call.arguments["action"] == STOPS_ALL and given.get(ARGUMENT) == EVERY_CLIENT:
            return {name: value for name, value in given.items() if name != ARGUMENT}
        return self.inner_arguments(call, given)

    def about(self, call: Call, verbose: bool) -> dict[str, Json]:
        grants = self.resolver.grants(call.session.principal)
        told: dict[str, Json] = {}
        if self._metrics is not None:
            told["metrics"] = self._metrics.summary(verbose, grants.ids)
        if grants.are_all:
            told["tenants"] = [{"id": id, "state": self.contexts.state_of(id)} for id in sorted(self.tenants.tenants)]
        return told

    def every(self, call: Call) -> Sequence[Scope]:
        ids = self.resolver.grants(call.session.principal).ids
        return [self.contexts.of(id).scope for id in ids] if call.scope.name == EVERY_CLIENT else ()

    def name_owner(self, call: Call, error: ToolError) -> ToolError:
        return name_client(error, call.scope.name)

    def use_metrics(self, metrics: Metrics) -> None:
        self._metrics = metrics

    # --- what of this machine is a tenant's own

    def directory(self, call: Call) -> str:
        """Where the journal, logs and imports of an embedded tenant are; of another one nothing but imports."""
        context: TenantContext = call.scope.own
        return os.path.join(self.settings.data_dir, "tenants", context.id)

    def log_directory(self, call: Call) -> str:
        return os.path.join(self.directory(call), "logs")

    def import_roots(self, call: Call) -> ImportRoots:
        """The tenant's own directory, and what the operator opened to all by `--import-root`."""
        from zorivest_rpc.serving.tools.files import ImportRoots

        own = self.directory(call)
        found = self._roots.get(own)
        if found is None:
            roots = (os.path.join(own, "imports"), *self.settings.import_root)
            found = self._roots[own] = ImportRoots(roots, private=self.settings.data_dir)
        return found

    # --- who calls

    def authenticate(self, header: str | None) -> str | None:
        """The principal of an access key of this server; it is never sent to a backend."""
        from zorivest_rpc.app.backends import bearer

        key = bearer(header)
        return None if key is None else self.resolver.find_principal(key)

    def check_start(self, *, loopback: bool) -> None:
        """Over HTTP somebody has to be kept out."""
        if not self.tenants.access and not (self.settings.no_auth and loopback):
            words = "Tenancy over HTTP needs access rules (or --no-auth on a loopback address)."
            raise ConfigError(self.tenants.source, words)

    def check_headers(self, headers: RequestHeaders) -> Refused | None:
        """The refusal of a message that comes without the header, where a proxy is to set it."""
        if self.settings.tenancy_header != "require" or (headers.get(HEADER) or "").strip():
            return None
        from zorivest_rpc.errors import ProtocolError
        from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST
        from zorivest_rpc.mcp.transports.streamable import Refused

        return Refused(403, ProtocolError(INVALID_REQUEST, f"{HEADER} header required."))

    # --- embedded backends

    def _place(self, tenant: Tenant) -> Place:
        from functools import partial

        embedded, id = self.embedded(), tenant.id
        return Place(partial(embedded.locate, id), partial(embedded.key, id), partial(embedded.use, id))

    def _enabled_ids(self) -> list[str]:
        """The embedded ones that may run."""
        return [id for id in self.tenants.embedded if self.tenants.tenants[id].enabled]

    def embedded(self) -> EmbeddedTenants:
        if self._embedded is None:
            from zorivest_rpc.tenants.embedded import EmbeddedTenants

            secrets = [tenant.api_key_env for tenant in self.tenants.tenants.values() if tenant.api_key_env]
            self._embedded = EmbeddedTenants(
                self.settings.data_dir,
                self._enabled_ids(),
                environ=self._environ,
                most=self.settings.embedded_running,
                idle_exit=self.settings.idle_exit,
                secrets=secrets,
            )
        return self._embedded

    async def start(self) -> None:
        """Keep the schedules of embedded tenants that sleep, of those too that the file names later."""
        if self.tenants.embedded or self.settings.tenants_file is not None:
            await self.embedded().start()

    async def close(self) -> None:
        if self._embedded is not None:
            await self._embedded.close()
        retiring, self._retiring = self._retiring, {}
        for task, context in retiring.items():
            task.cancel()
            await context.rest()
        await self.contexts.close()
