"""tools/list and tools/call: from a request to a Call, through the tool's chain, to the revision's result."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Coroutine
from contextlib import ExitStack
from typing import Any, Final

from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import EVERYONE, BecomeTask, Call, Handler, InputRequired, Outcome, Scope, fail, unknown_tool
from zorivest_rpc.mcp.catalog.tool import FORBIDDEN, REQUIRED, Tool
from zorivest_rpc.mcp.dispatcher import Exchange
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.methods.inputs import MoreInput, in_scope, resume, run_again, take_answers
from zorivest_rpc.mcp.methods.paging import next_cursor, start_of
from zorivest_rpc.mcp.methods.tasks import encode_core_task, encode_extension_task
from zorivest_rpc.mcp.offer import TOOLS, Toolbox
from zorivest_rpc.mcp.protocol.capabilities import TASKS_EXTENSION
from zorivest_rpc.mcp.protocol.content import shape_blocks
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY, Json, dumps
from zorivest_rpc.mcp.protocol.results import Result
from zorivest_rpc.mcp.protocol.revisions import Revision
from zorivest_rpc.mcp.protocol.types import CallTool, ListItems
from zorivest_rpc.mcp.tasks import TaskRecord

__all__ = ["Tools"]

_SHOWN: Final = 400  # characters of what does not fit
log: Final = logging.getLogger("zorivest_rpc")


class Tools:
    def __init__(self, core: Core, tools: Toolbox) -> None:
        self._core = core
        self._tools = tools

    def list(self, exchange: Exchange, params: ListItems) -> Result | Coroutine[Any, Any, Result]:
        wait = self._core.offer.before_list(exchange.session)
        return self._list(exchange, params) if wait is None else self._list_after(wait, exchange, params)

    async def _list_after(self, wait: Awaitable[None], exchange: Exchange, params: ListItems) -> Result:
        await wait
        return self._list(exchange, params)

    def _list(self, exchange: Exchange, params: ListItems) -> Result:
        core, session = self._core, exchange.session
        view = self._tools.view(session, exchange.headers)
        size, count = core.offer.page_size, len(view.listed)
        start = start_of(core, "tools/list", params, view.version)
        members = view.page(session.revision.shape, start, size)
        if start + size < count:
            members += next_cursor(core, "tools/list", start + size, count, view.version)
        if start == 0:
            core.announcer.note_list(exchange.conversation, TOOLS)
        cache = core.offer.cache
        return Result(members, cache=cache if view.ttl_ms is None else (view.ttl_ms, cache[1]))

    def call(self, exchange: Exchange, params: CallTool) -> Result | Coroutine[Any, Any, Result]:
        """Find and check without waiting; only a call that is sound becomes a coroutine."""
        session = exchange.session
        view = self._tools.view(session, exchange.headers)
        tool = view.find(params.name)
        if tool is None:
            near = view.nearest(params.name)
            hint = "tools/list names them" if near is None else f"did you mean {near}?"
            raise unknown_tool(params.name, hint)
        arguments: dict[str, Json] = params.arguments or {}
        scope = EVERYONE
        try:
            arguments, scope = self._tools.admit(session, exchange.headers, tool.name, arguments)
            refusal = self._tools.refusal(session, tool.name, scope)
            if refusal is not None:
                raise refusal
            arguments = view.check(tool, arguments, scope.taken)
        except ToolError as error:
            return encode(fail(error), session.revision, scope)
        call = Call(tool.name, arguments, session, exchange, view, scope)
        if params.input_responses is not UNSET or params.request_state is not UNSET:
            take_answers(self._core, exchange, "tools/call", call, params)
        handler = self._tools.handler(tool.name)
        if tool.task != FORBIDDEN or params.task is not UNSET:
            started = self._as_task(exchange, params, tool, call, handler)
            if started is not None:
                return in_scope(started, scope)
        return self._run(exchange, tool, call, handler)

    async def _run(self, exchange: Exchange, tool: Tool, call: Call, handler: Handler) -> Result:
        try:
            try:
                outcome = await handler(call)
            except InputRequired as asked:
                outcome = await resume(self._core, exchange, "tools/call", call, handler, asked)
        except ToolError as error:
            outcome = fail(error)
        except MoreInput as more:
            return more.result
        except BecomeTask:
            if self._core.offer.tasks:
                started = encode_extension_task(self._core, self._start(exchange, tool, call, handler))
                return in_scope(started, call.scope)
            call.in_task = True  # nothing to become here: the work goes on within the request
            return await self._run(exchange, tool, call, handler)
        except SystemExit as exc:
            raise RuntimeError(f"the handler of {tool.name} tried to end the process") from exc
        if outcome.after is not None:
            exchange.after = outcome.after
        return self._check_result(tool, outcome, call)

    def _check_result(self, tool: Tool, outcome: Outcome, call: Call) -> Result:
        """A result that its own schema refuses is shown as text and flagged: a program must not take it for what the
        schema promises, and who asked has a right to see what came."""
        if tool.output_schema is not None and not outcome.is_error:
            problem = "structured content is missing"
            if outcome.structured is not UNSET:
                problem = tool.check_output(outcome.structured) or ""
            if problem:
                whose = f" (tenant={call.scope.name})" if call.scope.name else ""
                log.error("result of %s%s does not fit its output schema: %s", tool.name, whose, problem)
                outcome = _unfit(tool, outcome, problem)
                self._tools.report_mismatch(call, len(outcome.content[0]["text"].encode("utf-8", "replace")))
        return encode(outcome, call.session.revision, call.scope)

    def _as_task(self, exchange: Exchange, params: CallTool, tool: Tool, call: Call, handler: Handler) -> Result | None:
        """The two designs side by side: a client of 2025-11-25 asks for a task, in 2026-07-28 the server decides."""
        session = exchange.session
        if not self._core.offer.tasks:
            return None
        if session.revision.modern:
            if tool.task == FORBIDDEN:
                return None  # a stray `task` member means nothing in this era
            if session.capabilities.tasks:
                return encode_extension_task(self._core, self._start(exchange, tool, call, handler))
            if tool.task == REQUIRED:
                needed: Json = {"extensions": {TASKS_EXTENSION: {}}}
                words = f"{tool.name} runs as a task; declare the extension {TASKS_EXTENSION}"
                raise ProtocolError(MISSING_CAPABILITY, words, {"requiredCapabilities": needed})
            return None
        if not session.revision.core_tasks:
            return None
        asked = params.task is not UNSET
        if asked and tool.task == FORBIDDEN:
            raise ProtocolError(METHOD_NOT_FOUND, f"{tool.name} cannot run as a task; call it without one")
        if not asked:
            if tool.task == REQUIRED:
                raise ProtocolError(METHOD_NOT_FOUND, f"{tool.name} runs only as a task; call it with one")
            return None
        ttl = params.task.get("ttl") if isinstance(params.task, dict) else UNSET
        if not (ttl is None or (type(ttl) is int and ttl > 0)):
            raise ProtocolError(INVALID_PARAMS, "task must be an object; its ttl, if given, a positive integer")
        return encode_core_task(self._core, self._start(exchange, tool, call, handler, ttl))

    def _start(
        self, exchange: Exchange, tool: Tool, call: Call, handler: Handler, ttl_ms: int | None = None
    ) -> TaskRecord:
        async def work(record: TaskRecord) -> Result:
            inside = Call(call.name, call.arguments, call.session, record, call.view, call.scope)
            inside.answers, inside.kept = call.answers, call.kept
            inside.in_task = True
            try:
                try:
                    outcome = await handler(inside)
                except InputRequired as asked:
                    outcome = await run_again(self._core, inside, handler, asked, record.ask)
                return self._check_result(tool, outcome, inside)
            except ToolError as error:
                return encode(fail(error), call.session.revision, call.scope)

        held = ExitStack()  # entered now: the request, and with it the caller's key, may be gone before the first step
        held.enter_context(self._core.offer.holding(exchange.session))
        try:
            record = self._core.tasks.create(exchange.session.principal, work, ttl_ms)
        except BaseException:
            held.close()
            raise
        assert record.runner is not None
        record.runner.add_done_callback(lambda runner: held.close())
        return record


def encode(outcome: Outcome, revision: Revision, scope: Scope = EVERYONE) -> Result:
    """The members of a CallToolResult as this revision knows them."""
    parts = [b'"content":', dumps(shape_blocks(outcome.content, revision))]  # joined once: an answer may have 16 MB
    structured = outcome.structured
    if structured is not UNSET and revision.structured and (revision.modern or isinstance(structured, dict)):
        parts += b',"structuredContent":', outcome.encoded or dumps(structured)
    if outcome.is_error:
        parts.append(b',"isError":true')
    members, meta = b"".join(parts), outcome.meta
    if scope.meta is None:
        return Result(members, meta)
    if meta is None:
        return Result(members, scope.meta, encoded_meta=scope.encoded_meta)
    return Result(members, {**meta, **scope.meta})


def _unfit(tool: Tool, outcome: Outcome, problem: str) -> Outcome:
    """The result as it came, behind a sentence on what is wrong with it. What the call did is done all the same."""
    shown = problem if len(problem) <= _SHOWN else problem[: _SHOWN - 1] + "…"
    words = f"The answer does not fit the output schema of {tool.name} ({shown}); below it is as it came."
    next = "Read it with care, and compare the versions of server and backend with zorivest_diagnose."
    if tool.definition.get("annotations", {}).get("readOnlyHint") is not True:
        words += " The call itself was done: do not repeat it before you have looked at what it changed."
        next = "Do not repeat the call; look at what it changed."
    failed = fail(ToolError(f"{words} {next}", code="bad_result", next=next))
    failed.content += outcome.content
    failed.meta = {**(outcome.meta or {}), **(failed.meta or {})}
    return failed
