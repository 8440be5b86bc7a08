"""prompts/list and prompts/get."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.dispatcher import Exchange
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.methods.inputs import MoreInput, drive
from zorivest_rpc.mcp.methods.paging import next_cursor, start_of
from zorivest_rpc.mcp.offer import PROMPTS, Prompt, PromptShelf
from zorivest_rpc.mcp.protocol.content import shape_blocks
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json, dumps
from zorivest_rpc.mcp.protocol.results import Result
from zorivest_rpc.mcp.protocol.types import GetPrompt, ListItems

__all__ = ["Prompts"]


class Prompts:
    def __init__(self, core: Core, prompts: PromptShelf) -> None:
        self._core = core
        self._prompts = prompts

    def list(self, exchange: Exchange, params: ListItems) -> Result:
        core = self._core
        listed = self._prompts.visible(exchange.session)
        size, version = core.offer.page_size, [prompt.name for prompt in listed]
        start = start_of(core, "prompts/list", params, version)
        if start == 0:
            core.announcer.note_list(exchange.conversation, PROMPTS)
        members = b'"prompts":' + dumps([prompt.wire() for prompt in listed[start : start + size]])
        return Result(
            members + next_cursor(core, "prompts/list", start + size, len(listed), version), cache=core.offer.cache
        )

    def get(self, exchange: Exchange, params: GetPrompt) -> Coroutine[Any, Any, Result]:
        prompt = self._prompts.find(exchange.session, params.name)
        if prompt is None:
            raise ProtocolError(INVALID_PARAMS, f"unknown prompt {params.name!r}; prompts/list names them")
        given: dict[str, Json] = dict(params.arguments or {})
        try:
            given, scope = self._prompts.admit(exchange.session, exchange.headers, prompt.name, given)
            prompt = self._prompts.find_for(exchange.session, prompt, scope)
        except ToolError as error:
            raise ProtocolError(INVALID_PARAMS, error.text, {"code": error.code}) from None
        arguments = {name: value for name, value in given.items() if value is not None}
        missing = [name for name, _, required in prompt.arguments if required and name not in arguments]
        if missing:
            raise ProtocolError(INVALID_PARAMS, f"prompt {prompt.name} needs the argument {', '.join(missing)}")
        call = Call(prompt.name, arguments, exchange.session, exchange, scope=scope)
        return self._run(exchange, prompt, call, params)

    async def _run(self, exchange: Exchange, prompt: Prompt, call: Call, params: GetPrompt) -> Result:
        try:
            messages = await drive(self._core, exchange, "prompts/get", call, prompt.get, params)
        except MoreInput as more:
            return more.result
        revision = exchange.session.revision
        shaped = [{**message, "content": shape_blocks([message["content"]], revision)[0]} for message in messages]
        given = {"description": prompt.description, "messages": shaped}
        return Result(dumps(given)[1:-1], call.scope.meta)
