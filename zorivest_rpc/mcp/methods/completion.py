"""completion/complete: values for an argument of a prompt or a variable of a resource template."""

from __future__ import annotations

from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.dispatcher import Exchange
from zorivest_rpc.mcp.offer import Completer
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json, dumps
from zorivest_rpc.mcp.protocol.results import Result
from zorivest_rpc.mcp.protocol.types import Complete

__all__ = ["Completions"]

_MOST = 100  # the specification's limit of values in one answer


class Completions:
    def __init__(self, complete: Completer) -> None:
        self._complete = complete

    async def complete(self, exchange: Exchange, params: Complete) -> Result:
        kind, name = ("prompt", params.ref.name) if params.ref.type == "ref/prompt" else ("resource", params.ref.uri)
        if not isinstance(name, str):
            raise ProtocolError(INVALID_PARAMS, f"ref of type {params.ref.type} lacks its name or uri")
        others: dict[str, str] = {}
        if params.context is not UNSET and params.context.arguments is not UNSET:
            others = params.context.arguments
        argument = params.argument
        try:
            found = await self._complete(exchange.session, kind, name, argument.name, argument.value, others)
        except SystemExit as exc:
            raise RuntimeError("the completer tried to end the process") from exc
        if found is None:
            raise ProtocolError(INVALID_PARAMS, f"unknown {kind} {name!r}")
        shown: dict[str, Json] = {"values": found.values[:_MOST]}
        total = len(found.values) if found.total is None and len(found.values) > _MOST else found.total
        if total is not None:
            shown["total"] = total
        if found.has_more or len(found.values) > _MOST:
            shown["hasMore"] = True
        return Result(b'"completion":' + dumps(shown))
