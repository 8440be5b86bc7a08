"""The events of every call in the telemetry: requested, asked about, confirmed, and exactly one end.

The outermost layer of each tool, ours and other servers' alike, and of what else is read from other servers. A call
that asks something runs again from the top with each answer, and stays one call: its record is found again by the
questions that went out, and ends when no answer comes in time. What forwards a call to another server tells its
attempts to the record that the call carries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from zorivest_rpc.errors import ConfirmationRequired, GuardLocked, ProtocolError, ToolError
from zorivest_rpc.gateway.telemetry import CallRecord, Telemetry
from zorivest_rpc.mcp.call import BecomeTask, Call, Handler, InputRequired, Outcome
from zorivest_rpc.mcp.protocol.content import Block
from zorivest_rpc.serving.catalog.spec import Ruling, ToolSpec

__all__ = ["Reading", "Recorder"]

_AS_TASK: Final = ""  # stands where a question's name would: the same call, going on as a task
_CANCELLED: Final = "cancelled"  # ends that are told here alone, and to no client
_INTERNAL: Final = "internal_error"
_MOST: Final = 4_096  # calls that wait for an answer
_log: Final = logging.getLogger(__name__)
_Key: TypeAlias = tuple[str, str, str, str, str]


class Reading(NamedTuple):
    """What is read from another server beside its tools: recorded like a tool, under `<server>/<kind>`."""

    name: str
    ruling: Ruling | None = None  # a read is never confirmed, so no list spares it

    @property
    def upstream(self) -> str:
        return self.name.partition("/")[0]


class _Waiting:
    """A call whose user was asked. `keys` are its questions: any of their answers brings it back."""

    __slots__ = ("began", "keys", "record", "timer")

    def __init__(self, record: CallRecord, began: float, keys: list[_Key]) -> None:
        self.record = record
        self.began = began
        self.keys = keys
        self.timer: asyncio.TimerHandle | None = None


class Recorder:
    """`seconds` is how long a person may think."""

    def __init__(self, telemetry: Telemetry, seconds: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._telemetry = telemetry
        self._seconds = seconds
        self._clock = clock
        self._waiting: dict[_Key, _Waiting] = {}

    def deny(self, spec: ToolSpec, principal: str, tenant: str | None, reason: str) -> None:
        """A call that was refused before anything of it but its tenant was looked at."""
        self._begin(spec, principal, tenant, {}).record_denial(reason)

    def wrap(self, name: str, find: Callable[[str], ToolSpec | None], inner: Handler) -> Handler:
        """A whole chain, recorded: that of a tool that `find` knows, or of what else is read from another server."""
        if name == "call_tool":
            return self.beside(find, inner)
        return self.around(find(name) or Reading(name), inner)

    def beside(self, find: Callable[[str], ToolSpec | None], inner: Handler) -> Handler:
        """The dispatcher's chain: the tool that it calls is recorded by its own, unless it is denied before that."""

        async def dispatched(call: Call) -> Outcome:
            try:
                return await inner(call)
            except ConfirmationRequired as refused:
                spec = find(str(call.arguments.get("name")))
                if refused.code == "denied" and spec is not None and spec.is_denied:
                    self.deny(spec, call.session.principal, call.scope.name or None, "deny_tool")
                raise

        return dispatched

    def around(self, spec: ToolSpec | Reading, inner: Handler) -> Handler:
        """The chain of one tool, or of one kind of reading, recorded."""

        async def recorded(call: Call) -> Outcome:
            found = self._take(call)
            if found is None:
                record = self._begin(spec, call.session.principal, call.scope.name or None, call.arguments)
                began = self._clock()
                if spec.ruling is not None and spec.ruling.is_spared:
                    _log.info("auto_approved %s%s", spec.name, f" tenant={call.scope.name}" if call.scope.name else "")
                    record.record_confirmation(None, auto=True)
            else:
                record, began = found.record, found.began
            call.record = record
            try:
                outcome = await inner(call)
            except InputRequired as asked:
                self._wait(call, record, began, asked.asks, asked)
                raise
            except BecomeTask:
                self._wait(call, record, began, (_AS_TASK,))
                raise
            except (ConfirmationRequired, GuardLocked) as refused:
                record.record_denial(refused.code)
                raise
            except ToolError as error:
                record.record_failure(kind=error.kind, code=error.code, duration_ms=self._since(began), attempts=1)
                raise
            except ProtocolError as error:
                record.record_failure(kind="INPUT", code=str(error.code), duration_ms=self._since(began), attempts=1)
                raise
            except asyncio.CancelledError:
                record.record_failure(kind="SESSION", code=_CANCELLED, duration_ms=self._since(began), attempts=1)
                raise
            except BaseException:
                record.record_failure(kind="INTERNAL", code=_INTERNAL, duration_ms=self._since(began), attempts=1)
                raise
            record.record_success(
                duration_ms=self._since(began),
                bytes=sum(map(_size, outcome.content)),
                attempts=1,
                is_error=outcome.is_error,
            )
            return outcome

        return recorded

    def close(self) -> None:
        for waiting in list(self._waiting.values()):
            self._give_up(waiting, _CANCELLED)

    def _begin(
        self, spec: ToolSpec | Reading, principal: str, tenant: str | None, arguments: dict[str, object]
    ) -> CallRecord:
        return self._telemetry.call(
            tool=spec.name,
            provenance="upstream" if spec.upstream else "built-in",
            server=spec.upstream or None,
            principal=principal or None,
            tenant=tenant,
            arguments=arguments,
        )

    def _since(self, began: float) -> float:
        return round((self._clock() - began) * 1000, 3)

    # --- calls that wait for an answer

    def _wait(
        self,
        call: Call,
        record: CallRecord,
        began: float,
        questions: Iterable[str],
        asked: InputRequired | None = None,
    ) -> None:
        while len(self._waiting) >= _MOST:
            self._give_up(next(iter(self._waiting.values())), "input_timeout")
        waiting = _Waiting(record, began, [_key(call, question) for question in questions])
        for key in waiting.keys:
            self._waiting[key] = waiting
        loop = asyncio.get_running_loop()
        waiting.timer = loop.call_later(self._seconds, self._give_up, waiting, "input_timeout")
        if asked is not None:
            before = asked.abandon

            def abandon() -> None:
                if before is not None:
                    before()
                self._give_up(waiting, _CANCELLED)

            asked.abandon = abandon

    def _take(self, call: Call) -> _Waiting | None:
        if not self._waiting or not (call.answers or call.in_task):
            return None
        questions = (*call.answers, _AS_TASK) if call.in_task else tuple(call.answers)
        for question in questions:
            found = self._waiting.get(_key(call, question))
            if found is not None:
                self._drop(found)
                return found
        return None

    def _drop(self, waiting: _Waiting) -> None:
        for key in waiting.keys:
            self._waiting.pop(key, None)
        if waiting.timer is not None:
            waiting.timer.cancel()

    def _give_up(self, waiting: _Waiting, code: str) -> None:
        """Told too of a round that went on in the meantime; its record has ended, or will."""
        if any(self._waiting.get(key) is waiting for key in waiting.keys):
            self._drop(waiting)
            waiting.record.record_failure(kind="SESSION", code=code, duration_ms=self._since(waiting.began), attempts=1)


def _key(call: Call, question: str) -> _Key:
    return (call.scope.name, call.session.principal, call.session.key, call.name, question)


def _size(block: Block) -> int:
    text = block.get("text") or block.get("data")
    return len(text.encode("utf-8", "replace")) if isinstance(text, str) else 0
