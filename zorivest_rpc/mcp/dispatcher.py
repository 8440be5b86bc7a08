"""Runs requests: starts each at once, keeps those that wait, cancels, limits, and turns exceptions into answers.

Each request is an Exchange and belongs to a Conversation, the live side of one client. What never waits never becomes
a task. This module holds the only broad `except Exception` on the way of a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from types import CoroutineType
from typing import Any, Final, Protocol, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import Ask
from zorivest_rpc.mcp.eager import begin
from zorivest_rpc.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
    SERVER_BUSY,
    Id,
    Json,
    dumps,
    error_frame,
    notification_frame,
    request_frame,
)
from zorivest_rpc.mcp.protocol.results import Finisher, Result
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.mcp.protocol.types import Meta, Params

__all__ = ["Channel", "Conversation", "Dispatcher", "Exchange", "Limits", "Method", "after_response"]

log: Final = logging.getLogger("zorivest_rpc")


class Channel(Protocol):
    """The way back of one request: what belongs to it, then its answer."""

    @property
    def carries_questions(self) -> bool:
        """Whether what is sent here arrives; a client that takes no event stream gets the answer alone."""

    def ask(self, frame: bytes) -> None:
        """A request of ours that belongs to the request being answered; it has to arrive."""

    def notify(self, frame: bytes) -> None:
        """A notification that belongs to the request being answered; it may be dropped where the client reads too
        slowly."""

    def finish(self, frame: bytes | None, code: int) -> None:
        """The answer, with its error code or 0; None where a cancelled request gets none. Nothing may follow."""

    def hang_up(self) -> None:
        """End the connection, not the request, where the client can come back for the answer; else nothing."""


class Limits:
    """How many requests may be waiting at once, and how long a person may think."""

    __slots__ = ("input_rounds", "input_seconds", "per_client", "per_server")

    def __init__(
        self, per_client: int = 256, per_server: int = 4096, input_seconds: float = 600, input_rounds: int = 16
    ) -> None:
        self.per_client = per_client
        self.per_server = per_server
        self.input_seconds = input_seconds
        self.input_rounds = input_rounds


class Conversation:
    """The live side of one client: its waiting requests and our open questions to it."""

    __slots__ = ("__weakref__", "active", "asked", "running", "session", "state")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.running: dict[Id | int, Exchange] = {}
        self.asked: dict[str, asyncio.Future[Json]] = {}
        self.active = 0  # running and not waiting for a person
        self.state: Any = None  # what the transport keeps per client

    def respond(self, id: Id, result: Json, error: Json) -> None:
        """An answer to a question of ours; one without an open question is dropped."""
        waiting = self.asked.pop(id, None) if isinstance(id, str) else None
        if waiting is None or waiting.done():
            return
        if error is not None:
            words = error.get("message") if isinstance(error, dict) else None
            waiting.set_exception(_refusal(str(words or "no reason given")))
        else:
            waiting.set_result(result)

    def cancel(self, id: Id) -> None:
        """What `notifications/cancelled` of the client asks for."""
        exchange = self.running.get(id)
        if exchange is not None:
            exchange.withdraw_questions()
            exchange.cancel()

    def close(self) -> list[asyncio.Task[Any]]:
        """Cancel everything; returns the tasks, so that the caller can wait for their end."""
        tasks = [exchange.task for exchange in self.running.values() if exchange.task is not None]
        for exchange in list(self.running.values()):
            exchange.cancel()
        return tasks


class Exchange:
    """One request that is being answered. What most requests never need is a default of the class."""

    task: asyncio.Task[Result] | None = None
    key: Id | int = 0
    finished = False
    cancelled = False
    meta: Meta | UnsetType = UNSET
    after: list[Callable[[], None]] | None = None
    headers: RequestHeaders | None = None  # of this request alone, where its transport has some
    questions: dict[str, asyncio.Future[Json]] | None = None  # by our request ids, while their answers are awaited

    def __init__(
        self,
        dispatcher: Dispatcher,
        conversation: Conversation,
        session: Session,
        id: Id,
        method: str,
        channel: Channel,
        progress_token: Id | None,
    ) -> None:
        self._dispatcher = dispatcher
        self.conversation = conversation
        self.session = session
        self.id = id
        self.method = method
        self.channel = channel
        self.progress_token = progress_token

    @property
    def carries_questions(self) -> bool:
        """Modern ones are the answer itself; a legacy client may have said that it takes no stream of events."""
        return self.session.revision.modern or self.channel.carries_questions

    def notify(self, method: str, params: bytes) -> None:
        """On this request's own stream; nothing after its answer, nothing for a cancelled one. Any thread may call."""
        frame = notification_frame(method, params)
        if self._dispatcher.in_loop_thread():
            self._notify(frame)
        else:
            self._dispatcher.loop.call_soon_threadsafe(self._notify, frame)

    def _notify(self, frame: bytes) -> None:
        if not self.finished and not self.cancelled:
            self.channel.notify(frame)

    def _ask(self, frame: bytes) -> None:
        if not self.finished and not self.cancelled:
            self.channel.ask(frame)

    def hang_up(self) -> None:
        if not self.finished and not self.cancelled:
            self.channel.hang_up()

    def cancel(self) -> None:
        """The client no longer wants the answer: stop the work, send nothing more for it."""
        if self.finished or self.cancelled:
            return
        self.cancelled = True
        if self.task is not None:
            self._dispatcher.loop.call_soon(self.task.cancel)

    async def ask(self, asks: Mapping[str, Ask]) -> dict[str, Json]:
        """Put the questions on this request's stream and wait for all answers; holds no slot meanwhile."""
        if not self.channel.carries_questions:
            words = "This needs input, and the request accepts no event stream that could carry the question."
            raise ToolError(words, code="client_cannot_be_asked", next="Accept text/event-stream and call again.")
        conversation, loop = self.conversation, self._dispatcher.loop
        waiting: dict[str, asyncio.Future[Json]] = {}
        questions: dict[str, asyncio.Future[Json]] = {}
        for key, ask in asks.items():
            id = self._dispatcher.next_question()
            waiting[key] = questions[id] = conversation.asked[id] = loop.create_future()
            self._ask(request_frame(id, ask.method, ask.params))
        self.questions = questions
        self._dispatcher.release(self)
        try:
            async with asyncio.timeout(self._dispatcher.limits.input_seconds):
                return {key: await future for key, future in waiting.items()}
        except TimeoutError:
            self.withdraw_questions()
            raise ToolError(
                "The question was not answered in time.", code="input_timeout", next="Call again when someone is there."
            ) from None
        finally:
            self.questions = None
            self._dispatcher.hold(self)
            for id, future in questions.items():
                conversation.asked.pop(id, None)
                future.cancel()
                if not future.cancelled():
                    future.exception()  # seen: a second refusal must not be reported as never retrieved

    def withdraw_questions(self) -> None:
        """Tell the client that the questions it has not answered need no answer, so that it takes their forms away.

        basic/utilities/cancellation: either side may cancel a request that it sent and that is still in progress."""
        for id, future in (self.questions or {}).items():
            if future.cancelled() or not future.done():  # a timeout has cancelled the one that was awaited
                self._notify(notification_frame("notifications/cancelled", dumps({"requestId": id})))


def _refusal(words: str) -> ToolError:
    next = "Ask the user in the conversation, then call again."
    return ToolError(f"The client refused to ask: {words}", code="input_refused", next=next)


def after_response(exchange: Exchange, work: Callable[[], None]) -> None:
    """Do this once the answer is on the wire."""
    if exchange.after is None:
        exchange.after = []
    exchange.after.append(work)


Passage: TypeAlias = Callable[[Raw], ProtocolError | None]
Method: TypeAlias = Callable[[Exchange, Any], Result | Coroutine[Any, Any, Result]]


class Dispatcher:
    """One per server; the loop is the one it is built in."""

    def __init__(
        self,
        methods: Mapping[str, Method],
        finisher: Finisher,
        limits: Limits,
        epoch: str,
        unlimited: frozenset[str] = frozenset({"subscriptions/listen", "tasks/result"}),
        passage: Passage | None = None,
    ) -> None:
        """`passage` judges the servers that a request says it has passed."""
        import _thread

        self.loop = asyncio.get_running_loop()
        self.finisher = finisher
        self.limits = limits
        self._per_client = limits.per_client
        self._per_server = limits.per_server
        self._methods = methods
        self._passage = passage
        self._unlimited = unlimited  # they wait without working, so they hold no slot
        self._epoch = epoch
        self._questions = 0
        self._active = 0
        self._keys = 0
        self._thread = _thread.get_ident()
        self._ident = _thread.get_ident

    def in_loop_thread(self) -> bool:
        return self._ident() == self._thread

    def next_question(self) -> str:
        """Our own id space; the epoch keeps answers to an earlier process from matching."""
        self._questions += 1
        return f"zrv-{self._epoch}-{self._questions}"

    def request(
        self,
        conversation: Conversation,
        session: Session,
        id: Id,
        method: str,
        params: Params,
        channel: Channel,
        headers: RequestHeaders | None = None,
    ) -> Exchange | None:
        """Start what `inbound` let through. None: it is answered already; else the exchange that will answer."""
        function = self._methods[method]
        meta = params.meta
        token = None if meta is UNSET or meta.progress_token is UNSET else meta.progress_token
        exchange = Exchange(self, conversation, session, id, method, channel, token)
        if headers is not None:
            exchange.headers = headers
        exchange.meta = meta
        if meta is not UNSET and meta.via is not UNSET and self._passage is not None:
            circle = self._passage(meta.via)
            if circle is not None:
                self._fail(exchange, circle)
                return None
        if conversation.active >= self._per_client or self._active >= self._per_server:
            refusal = self._busy(conversation, method, id)
            if refusal is not None:
                channel.finish(error_frame(refusal), SERVER_BUSY)
                return None
        try:
            outcome: Any = function(exchange, params)
            if type(outcome) is CoroutineType:
                outcome = begin(outcome, self.loop)
        except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001 - a request is answered whatever its handler does
            self._fail(exchange, exc)
            return None
        if type(outcome) is Result:
            self._finish(exchange, outcome)
            return None
        self._keep(exchange, outcome)
        return exchange

    def _busy(self, conversation: Conversation, method: str, id: Id) -> ProtocolError | None:
        if method not in ("tools/call", "prompts/get", "resources/read", "completion/complete"):
            return None
        limit, scope = self.limits.per_server, "server"
        if conversation.active >= self.limits.per_client:
            limit, scope = self.limits.per_client, "client"
        words = f"{limit} requests of this {scope} are running already; wait for one to end and try again"
        return ProtocolError(SERVER_BUSY, words, {"limit": limit, "scope": scope}, id)

    def _keep(self, exchange: Exchange, task: asyncio.Task[Result]) -> None:
        exchange.task = task
        running = exchange.conversation.running
        key: Id | int = exchange.id
        if key in running:  # ids are the client's: unique among its open requests if it is well behaved
            self._keys -= 1
            key = f"\0{self._keys}"
        exchange.key = key
        running[key] = exchange
        if exchange.method not in self._unlimited:
            self.hold(exchange)
        task.add_done_callback(lambda done: self._end_exchange(exchange, done))

    def hold(self, exchange: Exchange) -> None:
        exchange.conversation.active += 1
        self._active += 1

    def release(self, exchange: Exchange) -> None:
        exchange.conversation.active -= 1
        self._active -= 1

    def _end_exchange(self, exchange: Exchange, task: asyncio.Task[Result]) -> None:
        del exchange.conversation.running[exchange.key]
        if exchange.method not in self._unlimited:
            self.release(exchange)
        if task.cancelled() or exchange.cancelled:
            if not task.cancelled():
                task.exception()
            self._withdraw(exchange)
        elif (exc := task.exception()) is not None:
            self._fail(exchange, exc)
        else:
            self._finish(exchange, task.result())

    def _finish(self, exchange: Exchange, result: Result) -> None:
        exchange.finished = True
        exchange.channel.finish(self.finisher.result(exchange.session.revision, exchange.id, result), 0)
        if exchange.after is not None:
            for work in exchange.after:
                work()

    def _withdraw(self, exchange: Exchange) -> None:
        """A cancelled request gets no answer; one that we gave up ourselves (shutdown) gets told."""
        exchange.finished = True
        if exchange.cancelled:
            exchange.channel.finish(None, REQUEST_CANCELLED)
        else:
            gone = ProtocolError(INTERNAL_ERROR, "the server stopped before the request was done", id=exchange.id)
            exchange.channel.finish(error_frame(gone), INTERNAL_ERROR)

    def _fail(self, exchange: Exchange, exc: BaseException) -> None:
        """The one place where an exception becomes a wire error."""
        exchange.finished = True
        if not isinstance(exc, ProtocolError):
            reference = self.next_question()
            log.error("internal error %s in %s", reference, exchange.method, exc_info=exc)
            exc = ProtocolError(INTERNAL_ERROR, "internal error; the server's log has the details", {"ref": reference})
        frame = self.finisher.error(exchange.session.revision, exchange.id, exc)
        exchange.channel.finish(frame, exc.code)
