"""One request that goes to another server, in the telemetry: its attempts and its one end, over all rounds.

The record is that of the layer around the whole request where there is one, which has begun it and ends what nothing
else does. What is read from a server is told like a call, under the name that the metrics have for it."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Final

import msgspec

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.gateway.telemetry import CallRecord
from zorivest_rpc.mcp.call import InputRequired, Outcome

__all__ = ["Errand"]

_INTERNAL: Final = "internal_error"
_CANCELLED: Final = "cancelled"  # how the telemetry ends a request that its client gave up


class Errand:
    """`with` it around the work: an exception ends the record, but for a question and for an answer that cannot be
    read, after which the same request goes on."""

    def __init__(self, record: CallRecord) -> None:
        self.record = record
        self.attempts = 0
        self._began = time.perf_counter()

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, InputRequired | ProtocolError):
            return
        if isinstance(error, ToolError):
            self.fail(error)
        elif isinstance(error, asyncio.CancelledError):
            self.end_unheard(_CANCELLED)
        elif isinstance(error, Exception):
            self.end_unheard(_INTERNAL)

    def succeed(self, outcome: Outcome, size: int) -> None:
        self.record.record_success(
            duration_ms=self._milliseconds,
            bytes=size,
            attempts=self.attempts,
            is_error=outcome.is_error,
            result=outcome.structured if outcome.structured is not msgspec.UNSET else None,
        )

    def fail(self, error: ToolError) -> None:
        self.record.record_failure(
            kind=error.kind, code=error.code, duration_ms=self._milliseconds, attempts=self.attempts
        )

    def end_unheard(self, code: str) -> None:
        self.record.record_failure(kind="TOOLING", code=code, duration_ms=self._milliseconds, attempts=self.attempts)

    @property
    def _milliseconds(self) -> float:
        return round((time.perf_counter() - self._began) * 1000, 3)
