"""initialize, ping, logging/setLevel and server/discover: what a client learns about the server."""

from __future__ import annotations

from collections.abc import Collection

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.dispatcher import Exchange
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES, TOOLS
from zorivest_rpc.mcp.protocol.capabilities import TASKS_EXTENSION
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json, dumps
from zorivest_rpc.mcp.protocol.results import EMPTY, Result
from zorivest_rpc.mcp.protocol.revisions import SUPPORTED_MODERN, Revision
from zorivest_rpc.mcp.protocol.types import LEVELS, Initialize, Params, SetLevel

__all__ = ["Lifecycle"]


class Lifecycle:
    def __init__(self, core: Core) -> None:
        self._core = core

    def initialize(self, exchange: Exchange, params: Initialize) -> Result:
        session = exchange.session
        session.greet(params)
        given: dict[str, Json] = {
            "protocolVersion": session.revision.name,
            "capabilities": self._capabilities(session.revision),
            "serverInfo": self._core.offer.info,
        }
        instructions = self._core.offer.instructions(session)
        if instructions:
            given["instructions"] = instructions
        return Result(dumps(given)[1:-1])

    def discover(self, exchange: Exchange, params: Params) -> Result:
        session = exchange.session
        given: dict[str, Json] = {
            "supportedVersions": list(SUPPORTED_MODERN),
            "capabilities": self._capabilities(session.revision),
        }
        instructions = self._core.offer.instructions(session)
        if instructions:
            given["instructions"] = instructions
        return Result(dumps(given)[1:-1], cache=self._core.offer.cache)

    def ping(self, exchange: Exchange, params: Params) -> Result:
        return EMPTY

    def set_level(self, exchange: Exchange, params: SetLevel) -> Result:
        if params.level not in LEVELS:
            raise ProtocolError(INVALID_PARAMS, f"unknown log level; one of {', '.join(LEVELS)}")
        exchange.session.log_level = params.level
        self._core.remember(exchange.session)
        return EMPTY

    def _capabilities(self, revision: Revision) -> dict[str, Json]:
        """Exactly what answers: a part that is not offered is not named."""
        offer = self._core.offer
        changing = offer.changing[revision.modern]
        given: dict[str, Json] = {}
        if offer.logging:
            given["logging"] = {}
        if offer.tools is not None:
            given["tools"] = _list_of(TOOLS, changing)
        if offer.prompts is not None:
            given["prompts"] = _list_of(PROMPTS, changing)
        if offer.resources is not None:
            given["resources"] = {"subscribe": True, **_list_of(RESOURCES, changing)}
        if offer.complete is not None and revision.completions_capability:
            given["completions"] = {}
        if offer.tasks and revision.core_tasks:
            given["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        if offer.tasks and revision.modern:
            given["extensions"] = {TASKS_EXTENSION: {}}
        return given


def _list_of(kind: str, changing: Collection[str]) -> dict[str, Json]:
    return {"listChanged": True} if kind in changing else {}
