"""What happens to a call of the journal: metrics, guard, confirmation, handler; the chain of each tool, built once.

Imported with the first call, not at start: nothing of it is needed to say which tools there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zorivest_rpc.mcp.call import Call, Handler, Middleware, Outcome, chain
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.backend.interface import Backend
from zorivest_rpc.serving.catalog.spec import ToolSpec, routes
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.serving.middleware.guard import GuardLayer
from zorivest_rpc.serving.middleware.layers import build_chain
from zorivest_rpc.serving.middleware.metrics import Metrics
from zorivest_rpc.serving.modes.present import EVERY_CLIENT, STOPS_ALL, concise, identifiers, kept_fields, shorten
from zorivest_rpc.serving.tools.files import ImportRoots
from zorivest_rpc.serving.tools.rest import rest_handler

__all__ = ["Pipeline"]


def _scope_name(call: Call) -> str:
    return call.scope.name


class Pipeline:
    """`own` makes the handlers of the tools that have logic of their own, by the name their file gives, from a pipeline
    that can be asked for every other; `seen` is told what the guard's answers say about its lock; `wrap` adds to a
    whole chain what its outcomes mean elsewhere."""

    def __init__(
        self,
        audience: Audience,
        backend_for: Callable[[Call], Backend],
        metrics: Metrics,
        *,
        own: Callable[[Pipeline], Mapping[str, Handler]],
        roots: Callable[[Call], ImportRoots],
        seen: Callable[[Call, bool], None] = lambda call, locked: None,
        desktop: Callable[[Call], bool] = lambda call: True,
        wrap: Callable[[str, Handler], Handler] = lambda name, handler: handler,
        client: Callable[[ToolSpec], Middleware] | None = None,
    ) -> None:
        self._wrap = wrap
        self._client = client
        self._audience = audience
        self._backend_for = backend_for
        self._roots = roots
        self._ids = identifiers(spec for spec in audience.definitions.tools if not spec.upstream)
        self._kept: dict[str, frozenset[str] | None] = {}
        self._chains: dict[str, tuple[ToolSpec, Handler]] = {}
        self.metrics = metrics
        self.guard = GuardLayer(backend_for, seen, desktop=desktop)
        self.confirmation = Confirmation(
            audience.gated, audience.asks_before, channel=audience.policy.channel, tenant=_scope_name
        )
        self._own = own(self)

    def handler(self, name: str) -> Handler:
        spec = self._audience.specs[name]
        found = self._chains.get(name)
        if found is None or found[0] is not spec:  # the catalogue was replaced, and this tool is another now
            found = self._chains[name] = (spec, self._wrap(name, self._build(spec)))
        return found[1]

    async def behind(self, label: str, call: Call, work: Handler) -> Outcome:
        """What is no tool, done behind metrics and guard; `label` is its name in the metrics."""
        handler = self._wrap(label, chain(work, self.metrics, self.guard.strict()))
        return await handler(call.dispatch(label, call.arguments))

    def for_each_client(self, name: str) -> Handler:
        """The chain of a tool for one of the clients that a call for all is done for; that call was confirmed."""
        spec = self._audience.specs[name]
        layers = [self.metrics] if self._client is None else [self.metrics, self._client(spec)]
        return self._wrap(name, chain(self._own[spec.python or name], *layers))

    def _measure(self, spec: ToolSpec) -> Middleware | None:
        """None where the tool's work is another call, which is measured itself."""
        if spec.name == "call_tool":
            return None
        return self._measure_one if spec.name == STOPS_ALL else self.metrics

    async def _measure_one(self, call: Call, inner: Handler) -> Outcome:
        """A call that is for every client is measured for each of them."""
        return await (inner(call) if call.scope.name == EVERY_CLIENT else self.metrics(call, inner))

    def _build(self, spec: ToolSpec) -> Handler:
        """A layer that does not concern the tool is not in its chain.

        The guard's question travels with a plain request. Where a file is read first, it is asked before that."""
        travelling = None
        if spec.python is not None:
            handler = self._own[spec.python]
        else:
            handler = rest_handler(
                spec,
                self._backend_for,
                shape=self.shape,
                files=self._roots,
                confirms=self.confirmation,
                tenant=_scope_name,
            )
            if all(route.file is None for route in routes(spec)):
                travelling = rest_handler(
                    spec, self._backend_for, guard=True, shape=self.shape, files=self._roots, tenant=_scope_name
                )
        return build_chain(
            spec,
            handler,
            metrics=self._measure(spec),
            guard=self.guard,
            confirmation=self.confirmation,
            travelling=travelling,
            client=None if self._client is None or spec.tenancy else self._client(spec),
        )

    def shape(self, call: Call, payload: dict[str, Json]) -> dict[str, Json]:
        """In full or in brief, as this call's client is served."""
        if self._audience.profile_of(call).results == "detailed":
            return payload
        spec = self._audience.specs[call.name]
        kept = self._kept.get(call.name, ...)
        if kept is ...:
            kept = self._kept[call.name] = kept_fields(spec, self._ids)
        return concise(shorten(payload, spec.brief) if spec.brief else payload, kept)  # type: ignore[no-any-return]
