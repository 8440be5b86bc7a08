"""tasks/*: the 2025-11-25 design (get, result, list, cancel) and the 2026-07-28 extension (get, update, cancel)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import Ask, check_answers
from zorivest_rpc.mcp.dispatcher import Exchange
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.methods.inputs import ask_wire
from zorivest_rpc.mcp.methods.paging import next_cursor, start_of
from zorivest_rpc.mcp.protocol.capabilities import TASKS_EXTENSION
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, MISSING_CAPABILITY, Json, dumps
from zorivest_rpc.mcp.protocol.results import EMPTY, Result
from zorivest_rpc.mcp.protocol.revisions import MODERN
from zorivest_rpc.mcp.protocol.types import ListItems, TaskRef, UpdateTask
from zorivest_rpc.mcp.tasks import TaskRecord

__all__ = ["Tasks", "encode_core_task", "encode_extension_task"]

RELATED: Final = "io.modelcontextprotocol/related-task"
_PAGE: Final = 50


def encode_core_task(core: Core, record: TaskRecord) -> Result:
    return Result(b'"task":' + dumps(_core_fields(core, record)))


def encode_extension_task(core: Core, record: TaskRecord) -> Result:
    return Result(dumps(_extension_fields(core, record))[1:-1], kind="task")


def _core_fields(core: Core, record: TaskRecord) -> dict[str, Json]:
    return {**record.describe(), "ttl": record.ttl_ms, "pollInterval": core.tasks.poll_ms}


def _extension_fields(core: Core, record: TaskRecord) -> dict[str, Json]:
    return {**record.describe(), "ttlMs": record.ttl_ms, "pollIntervalMs": core.tasks.poll_ms}


def render_task(core: Core, record: TaskRecord) -> dict[str, Json]:
    """A task of the extension with its result, its error or its open questions inlined."""
    given = _extension_fields(core, record)
    if record.asks:
        given["inputRequests"] = {key: ask_wire(ask) for key, ask in record.asks.items()}
    elif record.error is not None:
        given["error"] = {"code": record.error.code, "message": record.error.message}
    elif record.result is not None:
        import orjson

        given["result"] = orjson.Fragment(b"{%b}" % core.finisher.members(MODERN, record.result))
    return given


class Tasks:
    def __init__(self, core: Core) -> None:
        self._core = core
        announcer = core.announcer
        announcer.may_follow = core.tasks.holds
        core.tasks.announce = lambda record: announcer.task_changed(record.id, lambda: render_task(core, record))

    def _find(self, exchange: Exchange, params: TaskRef) -> TaskRecord:
        session = exchange.session
        if session.revision.modern and not session.capabilities.tasks:
            needed: Json = {"extensions": {TASKS_EXTENSION: {}}}
            words = f"{exchange.method} needs the extension {TASKS_EXTENSION} declared on this request"
            raise ProtocolError(MISSING_CAPABILITY, words, {"requiredCapabilities": needed})
        return self._core.tasks.find(params.task_id, session.principal)

    def get(self, exchange: Exchange, params: TaskRef) -> Result:
        record = self._find(exchange, params)
        fields = render_task if exchange.session.revision.modern else _core_fields
        return Result(dumps(fields(self._core, record))[1:-1])

    def update(self, exchange: Exchange, params: UpdateTask) -> Result:
        """Answers to what the task asks; applied before the acknowledgement is written."""
        record = self._find(exchange, params)
        problem = check_answers(record.asks, params.input_responses)
        if problem is not None:
            raise ProtocolError(INVALID_PARAMS, f"inputResponses: {problem}")
        record.answer(params.input_responses)
        return EMPTY

    def cancel(self, exchange: Exchange, params: TaskRef) -> Result:
        record = self._find(exchange, params)
        if exchange.session.revision.modern:
            self._core.tasks.cancel(record)
            return EMPTY
        if record.is_over:
            raise ProtocolError(INVALID_PARAMS, f"the task is {record.status} already")
        self._core.tasks.cancel(record)
        return Result(dumps(_core_fields(self._core, record))[1:-1])

    def list(self, exchange: Exchange, params: ListItems) -> Result:
        records = self._core.tasks.of(exchange.session.principal)
        start = start_of(self._core, "tasks/list", params, "any")
        page = [_core_fields(self._core, record) for record in records[start : start + _PAGE]]
        members = b'"tasks":' + dumps(page)
        return Result(members + next_cursor(self._core, "tasks/list", start + _PAGE, len(records), "any"))

    def result(self, exchange: Exchange, params: TaskRef) -> Coroutine[Any, Any, Result]:
        return self._wait(exchange, self._find(exchange, params))

    async def _wait(self, exchange: Exchange, record: TaskRecord) -> Result:
        """Until the task is over; the questions that it asks meanwhile go out on this request's stream."""
        related = {RELATED: {"taskId": record.id}}
        while not record.is_over:
            if not record.asks:
                await record.change()
                continue
            asks = {key: Ask(ask.method, {**ask.params, "_meta": related}) for key, ask in record.asks.items()}
            try:
                answers = await _ask_meanwhile(exchange, asks, record)
            except ToolError as error:
                raise ProtocolError(INVALID_PARAMS, error.text) from None
            if answers is None:
                continue
            problem = check_answers(asks, answers)
            if problem is not None:
                raise ProtocolError(INVALID_PARAMS, problem)
            record.answer(answers)
        if record.error is not None:
            raise ProtocolError(record.error.code, record.error.message, record.error.data)
        if record.result is None:
            raise ProtocolError(INVALID_PARAMS, "the task was cancelled; it has no result")
        return Result(record.result.members, {**(record.result.meta or {}), **related})


async def _ask_meanwhile(exchange: Exchange, asks: Mapping[str, Ask], record: TaskRecord) -> dict[str, Json] | None:
    """The answers, or None if the task changed first, by `tasks/cancel` for one; then the questions are withdrawn."""
    asking = asyncio.ensure_future(exchange.ask(asks))
    changing = record.change()
    try:
        await asyncio.wait((asking, changing), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        exchange.withdraw_questions()
        return None
    finally:
        asking.cancel()
        changing.cancel()
        await asyncio.gather(asking, changing, return_exceptions=True)
