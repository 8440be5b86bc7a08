"""The record of a write for a later audit, and what to do when its answer was lost."""

from __future__ import annotations

from typing import Final

from zorivest_rpc.errors import OutcomeUnknown
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Backend, Reply
from zorivest_rpc.serving.catalog.spec import ToolSpec

__all__ = ["RECEIPT_KEY", "explain_lost", "receipt"]

RECEIPT_KEY: Final = "com.zorivest/receipt"


def receipt(
    spec: ToolSpec, method: str, path: str, reply: Reply, backend: Backend, tenant: str, key: str | None
) -> dict[str, Json]:
    made: dict[str, Json] = {
        "changed": f"{method} {path}",
        "status": reply.status,
        "backend": backend.base_url,
        "guard": "checked" if spec.guarded else "exempt",
        "idempotency_key": key,
        "request_id": reply.request_id,
    }
    if tenant:
        made["tenant"] = tenant
    return made


def explain_lost(spec: ToolSpec, error: OutcomeUnknown) -> OutcomeUnknown:
    """The same, with the tool that can tell whether it happened."""
    check = f"Check with {spec.check_with} before you call {spec.name} again." if spec.check_with else error.next
    return OutcomeUnknown(f"{error.text} {check or ''}".rstrip(), next=check)
