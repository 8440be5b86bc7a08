"""Walls from which one brick was taken: each of these removes a tenant, or its caller, from one place where it belongs
into a key. The walk's eye has to see what comes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from zorivest_rpc.app import federation, observing, tenancy, tenant_shelves
from zorivest_rpc.devtools import tools as page_tools
from zorivest_rpc.devtools import watch
from zorivest_rpc.exposure.engine import Engine
from zorivest_rpc.gateway import apart, assignment, recorded
from zorivest_rpc.mcp import tasks as task_store
from zorivest_rpc.mcp.call import Scope
from zorivest_rpc.mcp.methods import inputs, tools
from zorivest_rpc.mcp.transports import sessions, streams
from zorivest_rpc.serving import audience, pipeline
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.middleware import confirmation as confirming
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.serving.middleware.metrics import Metrics
from zorivest_rpc.tenants import context, resolve
from zorivest_rpc.tenants import uris as uris_of
from zorivest_rpc.tenants.config import Tenant

__all__ = ["MUTANTS", "Mutant"]

Mutant = Callable[[pytest.MonkeyPatch], None]


def pool(patch: pytest.MonkeyPatch) -> None:
    """One backend, with its connections and its token, serves whoever comes."""
    backend = context.TenantContext.backend
    known: dict[str, Any] = {}

    def shared(self: Any) -> Any:
        return known.setdefault("one", backend(self)) if not known else known["one"]

    patch.setattr(context.TenantContext, "backend", shared)


def confirmation(patch: pytest.MonkeyPatch) -> None:
    """A token or a question is bound to no tenant."""
    made = Confirmation.__init__

    def forgets(self: Any, *given: Any, **options: Any) -> None:
        made(self, *given, **{**options, "tenant": lambda call: ""})

    patch.setattr(Confirmation, "__init__", forgets)


def receipts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline, "_scope_name", lambda call: "")


def seal(patch: pytest.MonkeyPatch) -> None:
    binding = inputs.binding
    patch.setattr(inputs, "binding", lambda exchange, method, call: binding(exchange, method, call)[:-1])


def view(patch: pytest.MonkeyPatch) -> None:
    key = audience.Audience._view_key
    patch.setattr(audience.Audience, "_view_key", lambda self, session, who: key(self, session, audience.THE_ONE))


def limits(patch: pytest.MonkeyPatch) -> None:
    of = audience.Audience.callable_tools
    patch.setattr(audience.ActingFor, "has_toolset", lambda self, name: True)
    patch.setattr(audience.Audience, "callable_tools", lambda self, session, name, who: of(self, session, name))


def task(patch: pytest.MonkeyPatch) -> None:
    """The call inside a task forgets on whose behalf it is."""
    made: Any = vars(tools)["Call"]

    def forgets(*given: Any) -> Any:
        inside = len(given) == 6 and type(given[3]).__name__ == "TaskRecord"
        return made(*given[:5], Scope()) if inside else made(*given)

    patch.setattr(tools, "Call", forgets)


def tasks(patch: pytest.MonkeyPatch) -> None:
    """All tasks work on behalf of whom the first one worked for."""
    made: Any = vars(tools)["Call"]
    first: list[Any] = []

    def remembers(*given: Any) -> Any:
        if len(given) == 6 and type(given[3]).__name__ == "TaskRecord":
            first.append(given[5])
            return made(*given[:5], first[0])
        return made(*given)

    patch.setattr(tools, "Call", remembers)


def metrics(patch: pytest.MonkeyPatch) -> None:
    record = Metrics.record
    patch.setattr(
        Metrics, "record", lambda self, tool, ms, size, failed, client="": record(self, tool, ms, size, failed)
    )


def figures(patch: pytest.MonkeyPatch) -> None:
    """Everybody is shown the figures of everybody."""
    shown = Metrics.prometheus
    patch.setattr(Metrics, "prometheus", lambda self, clients=None: shown(self))


def grants(patch: pytest.MonkeyPatch) -> None:
    """The principal is dropped from what is granted."""

    def first(self: Any, principal: str) -> Any:
        return next(iter(self._grants.values()))

    patch.setattr(resolve.Resolver, "grants", first)


def resolution(patch: pytest.MonkeyPatch) -> None:
    """A tenant that is known need not be granted."""
    scope = resolve.Resolver._scope

    def knows(self: Any, principal: str, granted: Any, id: str, given: Any) -> Any:
        everybody = frozenset(self.tenants.tenants)
        return scope(self, principal, msgspec.structs.replace(granted, known=everybody), id, given)

    patch.setattr(resolve.Resolver, "_scope", knows)


def principal(patch: pytest.MonkeyPatch) -> None:
    """All access keys are the same caller."""
    patch.setattr(resolve, "principal_of_access", lambda access: "access")


def dispatched(patch: pytest.MonkeyPatch) -> None:
    """A tool that is called by name may name another client."""
    patch.setattr(
        resolve.Resolver,
        "check_inner",
        lambda self, scope, given: {name: value for name, value in given.items() if name != "clientId"},
    )


def echo(patch: pytest.MonkeyPatch) -> None:
    """What a result says of its client is remembered from the first one."""
    made, first = context.scope_of, []

    def remembers(tenant: Any, own: Any, *, by_header: bool = False) -> Any:
        scope = made(tenant, own, by_header=by_header)
        first.append(scope)
        return msgspec.structs.replace(scope, meta=first[0].meta)

    patch.setattr(context, "scope_of", remembers)


def question(patch: pytest.MonkeyPatch) -> None:
    made = context.scope_of

    def silent(tenant: Any, own: Any, *, by_header: bool = False) -> Any:
        return msgspec.structs.replace(made(tenant, own, by_header=by_header), preface="")

    patch.setattr(context, "scope_of", silent)


def key(patch: pytest.MonkeyPatch) -> None:
    """The key of the first tenant that needed one opens every backend."""
    of, first = Tenant.key_of, []

    def remembers(self: Any, environ: Any) -> Any:
        first.append(of(self, environ))
        return first[0]

    patch.setattr(Tenant, "key_of", remembers)


def session_tokens(patch: pytest.MonkeyPatch) -> None:
    """The session token of the first tenant that got one is shown to every backend."""
    exchange, first = HttpBackend.exchange_key, []

    async def remembers(self: Any, key: str) -> Any:
        first.append(await exchange(self, key))
        return first[0]

    patch.setattr(HttpBackend, "exchange_key", remembers)


def counts(patch: pytest.MonkeyPatch) -> None:
    """What is known of one journal, its accounts too, is known of all."""
    state = Engine.state
    patch.setattr(Engine, "state", lambda self, tenant="": state(self, "all"))


# --- callers


def shown_clients(patch: pytest.MonkeyPatch) -> None:
    """`list_clients` shows everybody."""
    patch.setattr(tenancy.ServedTenants, "granted", lambda self, principal: tuple(self.tenants.tenants.values()))


def stops(patch: pytest.MonkeyPatch) -> None:
    """A stop for every client locks those of other callers too."""
    patch.setattr(
        tenancy.ServedTenants,
        "every",
        lambda self, call: [self.contexts.of(id).scope for id in self.tenants.tenants],
    )


def sessions_of_all(patch: pytest.MonkeyPatch) -> None:
    """A session is found by its id alone."""
    find = sessions.SessionStore.find

    def finds(self: Any, id: str, principal: str) -> Any:
        live = self._live.get(id)
        return find(self, id, principal if live is None else live.session.principal)

    patch.setattr(sessions.SessionStore, "find", finds)


def replays(patch: pytest.MonkeyPatch) -> None:
    """A stream is found by its name, whatever session it is of."""
    known: dict[str, Any] = {}
    made = streams.SessionStreams._new

    def remembers(self: Any, request: str) -> Any:
        stream = made(self, request)
        known[stream.name] = stream
        return stream

    patch.setattr(streams.SessionStreams, "_new", remembers)
    patch.setattr(streams.SessionStreams, "find", lambda self, name: known.get(name))


def task_callers(patch: pytest.MonkeyPatch) -> None:
    """A task is found by its id alone."""
    find = task_store.TaskStore.find
    patch.setattr(
        task_store.TaskStore, "find", lambda self, id, principal: self._records.get(id) or find(self, id, principal)
    )


def token_callers(patch: pytest.MonkeyPatch) -> None:
    """A confirmation is bound to no caller."""
    patch.setattr(confirming, "_session", lambda call: "")


def seal_callers(patch: pytest.MonkeyPatch) -> None:
    """Sealed state is bound to no caller."""
    binding = inputs.binding

    def forgets(exchange: Any, method: str, call: Any) -> Any:
        bound = binding(exchange, method, call)
        return [*bound[:3], bound[4]]

    patch.setattr(inputs, "binding", forgets)


def followers(patch: pytest.MonkeyPatch) -> None:
    """What may be followed is not asked again for each caller."""
    patch.setattr(tenant_shelves.TenantResources, "may_follow", lambda self, session, uri: True)


def uris(patch: pytest.MonkeyPatch) -> None:
    """A resource has the URI of the client that came first."""
    name_client_in, first = uris_of.name_client_in, []

    def remembers(uri: str, id: str) -> str:
        first.append(id)
        return name_client_in(uri, first[0])

    for place in (uris_of, tenant_shelves):
        patch.setattr(place, "name_client_in", remembers)


def completions(patch: pytest.MonkeyPatch) -> None:
    """Completions are kept for the client that came first."""
    made, first = tenant_shelves._completions_of, []

    def remembers(served: Any, own: Any) -> Any:
        first.append(made(served, own))
        return first[0]

    patch.setattr(tenant_shelves, "_completions_of", remembers)


def headers(patch: pytest.MonkeyPatch) -> None:
    """The header of an earlier request stays."""
    by_header, first = resolve.Resolver._by_header, []

    def remembers(self: Any, principal: str, grants: Any, named: str | None, deprecated: bool) -> Any:
        first.append(by_header(self, principal, grants, named, deprecated))
        return first[0]

    patch.setattr(resolve.Resolver, "_by_header", remembers)


# --- other servers


def router(patch: pytest.MonkeyPatch) -> None:
    """The connection of one client carries everybody's calls."""

    def anybody(self: Any, client: str, server: str) -> Any:
        gateways = [self._common, *self._own.values()]
        return next(((each, each.members[server]) for each in gateways if server in each.members), None)

    patch.setattr(apart.GatewaysApart, "member_of", anybody)


def server_tokens(patch: pytest.MonkeyPatch) -> None:
    """All clients show a server the token of the first."""
    assign = assignment.assign

    def assigns(*given: Any, **options: Any) -> Any:
        made = assign(*given, **options)
        first = next(iter(made.own.values())).mcp_servers[0].auth_bearer_env
        parts = {
            id: msgspec.structs.replace(
                part,
                mcp_servers=tuple(msgspec.structs.replace(each, auth_bearer_env=first) for each in part.mcp_servers),
            )
            for id, part in made.own.items()
        }
        return made._replace(own=parts)

    patch.setattr(assignment, "assign", assigns)


def assignments(patch: pytest.MonkeyPatch) -> None:
    """A server is shown to those that it is not assigned to."""
    patch.setattr(assignment.Assigned, "hidden_from", lambda self, client: frozenset())


def definitions(patch: pytest.MonkeyPatch) -> None:
    """A tool of one client's server is everybody's."""
    gather = apart.GatewaysApart._gather

    def gathers(self: Any, read: Any) -> Any:
        found = gather(self, read)
        return {name: msgspec.structs.replace(spec, clients=frozenset()) for name, spec in found.items()}

    patch.setattr(apart.GatewaysApart, "_gather", gathers)


def reports(patch: pytest.MonkeyPatch) -> None:
    """A diagnosis tells of the servers that the first client has."""
    report, first = federation.Federation.report, []

    def remembers(self: Any, call: Any) -> Any:
        first.append(report(self, call))
        return first[0]

    patch.setattr(federation.Federation, "report", remembers)


def telemetry(patch: pytest.MonkeyPatch) -> None:
    """Events name the client of the first call."""
    begin, first = recorded.Recorder._begin, []

    def remembers(self: Any, spec: Any, principal: str, tenant: str | None, arguments: Any) -> Any:
        first.append(tenant)
        return begin(self, spec, principal, first[0], arguments)

    patch.setattr(recorded.Recorder, "_begin", remembers)


# --- pages


def kit(patch: pytest.MonkeyPatch) -> None:
    """The tools read the pages of the client that came first."""
    watch_of, first = observing.Observing._watch_of, []

    def remembers(self: Any, call: Any) -> Any:
        first.append(watch_of(self, call))
        return first[0]

    patch.setattr(observing.Observing, "_watch_of", remembers)


def page_keys(patch: pytest.MonkeyPatch) -> None:
    """The key of any client opens the pages of the first."""
    patch.setattr(watch.Watches, "by_key", lambda self, key: self.of(min(self._keys)))


def notes(patch: pytest.MonkeyPatch) -> None:
    """All clients keep their notes in one place."""
    made = page_tools.Tools.__init__

    def forgets(self: Any, watch_of: Any, store_of: Any, *rest: Any) -> None:
        made(self, watch_of, lambda tenant: store_of("all"), *rest)

    patch.setattr(page_tools.Tools, "__init__", forgets)


MUTANTS: list[Mutant] = [
    pool,
    confirmation,
    receipts,
    seal,
    view,
    limits,
    task,
    tasks,
    metrics,
    figures,
    grants,
    resolution,
    principal,
    dispatched,
    echo,
    question,
    key,
    session_tokens,
    counts,
    shown_clients,
    stops,
    sessions_of_all,
    replays,
    task_callers,
    token_callers,
    seal_callers,
    followers,
    uris,
    completions,
    headers,
    router,
    server_tokens,
    assignments,
    definitions,
    reports,
    telemetry,
    kit,
    page_keys,
    notes,
]
