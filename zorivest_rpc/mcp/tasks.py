"""Work that outlives its request: the tasks of 2025-11-25 and of the 2026-07-28 extension, in one store.

A task is remembered before its id leaves the server. Its id is sealed, so that after a restart an id of ours is told
apart from an invented one: its task failed, because the server restarted, and its outcome is unknown.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.call import Ask
from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, SERVER_BUSY, Id, Json
from zorivest_rpc.mcp.protocol.results import Result
from zorivest_rpc.mcp.protocol.seal import BadSeal, Seal
from zorivest_rpc.mcp.protocol.types import Meta

__all__ = ["TERMINAL", "TaskRecord", "TaskStore"]

log: Final = logging.getLogger("zorivest_rpc")
WORKING, INPUT_REQUIRED, COMPLETED, FAILED, CANCELLED = "working", "input_required", "completed", "failed", "cancelled"
TERMINAL: Final = frozenset({COMPLETED, FAILED, CANCELLED})


class TaskRecord:
    """One task. It is also the wire of its call: there is no stream left, so progress becomes the status message."""

    carries_questions = True
    __slots__ = (
        "_store",
        "_waiters",
        "answers",
        "asks",
        "cancelled",
        "created",
        "error",
        "id",
        "message",
        "meta",
        "principal",
        "progress_token",
        "result",
        "runner",
        "status",
        "ttl_ms",
        "updated",
    )

    def __init__(self, store: TaskStore, id: str, principal: str, ttl_ms: int | None) -> None:
        self._store = store
        self._waiters: list[asyncio.Future[None]] = []
        self.id = id
        self.principal = principal
        self.ttl_ms = ttl_ms
        self.created = self.updated = store.now()
        self.status = WORKING
        self.message: str | None = None
        self.asks: dict[str, Ask] = {}
        self.answers: dict[str, Json] = {}
        self.result: Result | None = None
        self.error: ProtocolError | None = None
        self.runner: asyncio.Task[None] | None = None
        self.progress_token: Id | None = id
        self.meta: Meta | UnsetType = UNSET  # of the request, which is over
        self.cancelled = False

    @property
    def is_over(self) -> bool:
        return self.status in TERMINAL

    def notify(self, method: str, params: bytes) -> None:
        if method == "notifications/progress" and not self.is_over:
            import msgspec

            self.message = msgspec.json.decode(params).get("message", self.message)

    def hang_up(self) -> None:
        return

    async def ask(self, asks: Mapping[str, Ask]) -> dict[str, Json]:
        """Park the questions until every one of them is answered."""
        self.asks = dict(asks)
        self.answers = {}
        self.become(INPUT_REQUIRED)
        while self.asks:
            await self.change()
        return self.answers

    def answer(self, given: Mapping[str, Json]) -> None:
        """Answers to what is asked now; others are ignored. One of the wrong type refuses them all."""
        known = {key: value for key, value in given.items() if key in self.asks}
        for key, value in known.items():
            if not isinstance(value, dict):
                raise ProtocolError(INVALID_PARAMS, f"inputResponses.{key} must be an object")
        if not known:
            return
        self.answers |= known
        self.asks = {key: ask for key, ask in self.asks.items() if key not in known}
        self.become(INPUT_REQUIRED if self.asks else WORKING)

    def become(self, status: str) -> None:
        self.status = status
        self.updated = self._store.now()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._store.announce(self)

    def change(self) -> asyncio.Future[None]:
        """Done when the status, or what is asked, changes after this call."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def describe(self) -> dict[str, Json]:
        """The members both designs share."""
        given: dict[str, Json] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": _iso(self.created),
            "lastUpdatedAt": _iso(self.updated),
        }
        if self.message is not None:
            given["statusMessage"] = self.message
        return given


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TaskStore:
    """Bounded: the oldest finished tasks make room, running ones never do."""

    def __init__(
        self,
        seal: Seal,
        epoch: str,
        now: Callable[[], float],
        *,
        most: int = 1_000,
        ttl_ms: int = 3_600_000,
        poll_ms: int = 500,
    ) -> None:
        self.now = now
        self.poll_ms = poll_ms
        self.ttl_ms = ttl_ms
        self.announce: Callable[[TaskRecord], None] = lambda record: None
        self._seal = seal
        self._epoch = epoch
        self._most = most
        self._records: dict[str, TaskRecord] = {}

    def create(
        self,
        principal: str,
        work: Callable[[TaskRecord], Coroutine[Any, Any, Result]],
        ttl_ms: int | None = None,
    ) -> TaskRecord:
        from secrets import token_hex

        self._make_room()
        granted = self.ttl_ms if ttl_ms is None else max(1, min(ttl_ms, self.ttl_ms))
        born = self.now()
        payload = [born, token_hex(8), self._epoch]
        id = self._seal.close("task", payload, bound_to=principal, expires=born + granted / 1000)
        record = self._records[id] = TaskRecord(self, id, principal, granted)
        record.runner = asyncio.get_running_loop().create_task(self._run(record, work))
        return record

    async def _run(self, record: TaskRecord, work: Callable[[TaskRecord], Coroutine[Any, Any, Result]]) -> None:
        """Every way a task can end, and nothing else, leads to a terminal status."""
        try:
            record.result = await work(record)
            status = COMPLETED
        except asyncio.CancelledError:
            status = CANCELLED
        except ProtocolError as exc:
            record.error, status = exc, FAILED
        except (Exception, SystemExit) as exc:
            log.error("internal error in task", exc_info=exc)
            record.error, status = ProtocolError(INTERNAL_ERROR, "internal error; the server's log has it"), FAILED
        if not record.is_over:
            record.asks = {}
            record.become(status)

    def find(self, id: str, principal: str) -> TaskRecord:
        """The principal's own task, or -32602; a task of an earlier process is one that failed."""
        record = self._records.get(id)
        now = self.now()
        try:
            born, _, epoch = self._seal.open("task", id, bound_to=principal, now=now)
        except BadSeal:
            record, epoch = None, self._epoch
        if record is not None:
            return record
        if epoch == self._epoch:
            raise ProtocolError(INVALID_PARAMS, "unknown task: never created here, expired, or of another caller")
        lost = TaskRecord(self, id, principal, None)
        lost.created, lost.status = born, FAILED
        lost.error = ProtocolError(INTERNAL_ERROR, "the server restarted while the task ran; its outcome is unknown")
        return lost

    def holds(self, id: str, principal: str) -> bool:
        """Whether this is a task of this principal that can still change."""
        record = self._records.get(id)
        return record is not None and record.principal == principal

    def of(self, principal: str) -> list[TaskRecord]:
        self._forget_expired()
        return [record for record in self._records.values() if record.principal == principal]

    def cancel(self, record: TaskRecord) -> None:
        """Terminal at once; the work is told and ends on its own time."""
        if record.is_over:
            return
        record.cancelled = True
        record.asks = {}
        record.become(CANCELLED)
        if record.runner is not None:
            record.runner.cancel()

    def close(self) -> list[asyncio.Task[None]]:
        running = [record for record in self._records.values() if not record.is_over]
        for record in running:
            self.cancel(record)
        return [record.runner for record in running if record.runner is not None]

    def _forget_expired(self) -> None:
        now = self.now()
        for record in list(self._records.values()):
            if record.ttl_ms is not None and now > record.created + record.ttl_ms / 1000:
                self.cancel(record)
                del self._records[record.id]

    def _make_room(self) -> None:
        if len(self._records) < self._most:
            return
        self._forget_expired()
        for record in list(self._records.values()):
            if len(self._records) < self._most:
                return
            if record.is_over:
                del self._records[record.id]
        if len(self._records) >= self._most:
            raise ProtocolError(SERVER_BUSY, f"{self._most} tasks are running already; wait for one to end")
