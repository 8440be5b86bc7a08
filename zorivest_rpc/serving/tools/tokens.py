"""get_confirmation_token: the checker of tokens also issues them, so this only hands over the call's backend."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Backend
from zorivest_rpc.serving.tools.kit import Kit

__all__ = ["Issue", "Tokens"]

Issue: TypeAlias = Callable[[Call, Backend], Awaitable[dict[str, Json]]]
"""A token for the action that the call names, remembered with its binding; refuses an action that needs none."""


class Tokens:
    def __init__(
        self,
        kit: Kit,
        issue: Issue,
        own_arguments: Callable[[Call, dict[str, Json]], dict[str, Json]] = lambda call, given: given,
    ) -> None:
        """`own_arguments` takes the client's id out of the arguments that a token is to be bound to."""
        self._kit = kit
        self._issue = issue
        self._own_arguments = own_arguments

    def handlers(self) -> dict[str, Handler]:
        return {"get_confirmation_token": self.get_confirmation_token}

    async def get_confirmation_token(self, call: Call) -> Outcome:
        bound = call.arguments.get("arguments")
        if bound is not None:
            call.arguments = {**call.arguments, "arguments": self._own_arguments(call, bound)}
        return self._kit.give(call, await self._issue(call, self._kit.backend_for(call)))
