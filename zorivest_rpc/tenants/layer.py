"""Around the work of a call for one tenant: what its key may do, and whose result or failure it is."""

from __future__ import annotations

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Handler, Middleware, Outcome
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.catalog.toolsets import survives_read_only
from zorivest_rpc.tenants.context import TenantContext
from zorivest_rpc.tenants.refusals import name_client, read_only

__all__ = ["client_layer"]


def client_layer(spec: ToolSpec) -> Middleware:
    """The layer of one tool, inside the metrics and before the guard."""
    # call_tool runs another tool through that one's own chain, which signs what it wrote; a read keeps its text
    changes, writes = not survives_read_only(spec), not spec.reads_only and spec.name != "call_tool"

    async def works_for(call: Call, inner: Handler) -> Outcome:
        context = call.scope.own
        if not isinstance(context, TenantContext):  # for all at once, each of which comes here again
            return _sign(await inner(call), call.scope.name)
        context.calls += 1
        try:
            if changes and not spec.upstream:
                try:
                    await context.settle_role()
                except ToolError:
                    if spec.guard_offline != "allow":  # what works without the backend needs no session with it
                        raise
                if context.is_read_only:
                    raise read_only(context.id, call.name)
            outcome = await inner(call)
        except ToolError as error:
            raise name_client(error, context.id) if error.kind == "backend" else error from None
        finally:
            context.end_call()
        return _sign(outcome, context.id) if writes else outcome

    return works_for


def _sign(outcome: Outcome, id: str) -> Outcome:
    """The last text of a write ends with the client that it went to."""
    words = f"(client {id})"
    if outcome.is_error:
        return outcome
    for index in range(len(outcome.content) - 1, -1, -1):
        block = outcome.content[index]
        if block.get("type") == "text":
            if not block["text"].endswith(words):
                outcome.content = [*outcome.content]
                outcome.content[index] = {**block, "text": f"{block['text']} {words}"}
            break
    return outcome
