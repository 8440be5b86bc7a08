"""The order of the layers around a tool, said once: metrics → client → guard → confirmation → handler.

A layer that does not concern a tool is not in its chain, so there is nothing to skip while it runs."""

from __future__ import annotations

from zorivest_rpc.mcp.call import Handler, Middleware, chain
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.serving.middleware.guard import GuardLayer

__all__ = ["build_chain"]


def build_chain(
    spec: ToolSpec,
    handler: Handler,
    *,
    metrics: Middleware | None,
    guard: GuardLayer,
    confirmation: Confirmation,
    travelling: Handler | None = None,
    client: Middleware | None = None,
) -> Handler:
    """The chain of one tool; `travelling` is its handler in the form that takes the guard's question along.

    Without `metrics` for a tool whose work is another call that is measured itself; with `client` where the server
    acts for several."""
    layers = [layer for layer in (metrics, client) if layer is not None]
    if not spec.guarded:
        return chain(handler, *layers, *([confirmation] if spec.confirm else []))
    at_handler = guard.innermost(spec, travelling)
    if not spec.confirm:
        return chain(handler, *layers, at_handler)
    # A client that is not asked loses nothing if the guard's question travels: the confirmation only lets it pass.
    asked = chain(handler, guard.layer(spec), confirmation)
    unasked = chain(handler, confirmation, at_handler)
    return chain(lambda call: asked(call) if confirmation.asks(call) else unasked(call), *layers)
