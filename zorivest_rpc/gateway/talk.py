"""One request to forward, what it brings back, and what belongs to it while it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from zorivest_rpc.gateway.scan import clean
from zorivest_rpc.mcp.client.caller import Answer, Changed, Logged, Touched
from zorivest_rpc.mcp.client.forms import CANCELLED, Form, fill_in
from zorivest_rpc.mcp.client.rounds import Round, repeat_params
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.replies import Progress, Told

__all__ = [
    "ENVELOPE",
    "FRAME_LIMIT",
    "Ask",
    "Call",
    "Ended",
    "Happening",
    "Result",
    "Talk",
    "is_call",
    "name_server",
]

FRAME_LIMIT: Final = 8 * 1024 * 1024  # of an event or a line
DEFAULT_RESULT: Final = 4 * 1024 * 1024
ENVELOPE: Final = 64 * 1024  # what a message may hold beside its result

Ask: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Json]]]


class Call(msgspec.Struct):
    """One request to forward. `params` is the encoded object without `_meta`; `meta` are encoded members for that.

    `deadline` is a time of the loop's clock, shared by all attempts; `seconds` is what a message says of it. `can_ask`
    declares forms. A modern server's forms go to `ask`; without it, and where `hands_on` is set, they come back as
    `Result.round`, to be answered with `repeat`. A legacy server waits while it asks, so its forms always go to `ask`,
    or are cancelled without."""

    method: str
    params: bytes
    name: str = ""  # of the tool or the prompt, or the URI, as the upstream knows it
    shown: str = ""  # the name in messages to our client
    seconds: float = 45.0
    deadline: float | None = None
    max_bytes: int = DEFAULT_RESULT
    meta: bytes = b""
    log_level: str | None = None
    can_ask: bool = False
    ask: Ask | None = None
    hands_on: bool = False
    on_progress: Callable[[Progress], None] | None = None
    on_log: Callable[[Told], None] | None = None
    server: str = ""

    def repeat(self, round: Round, given: Mapping[str, Mapping[str, Json]]) -> Call:
        """The call that answers a round."""
        return msgspec.structs.replace(self, params=repeat_params(self.params, round, round.answer(given)))


class Result(msgspec.Struct, frozen=True):
    """The encoded result object; `round` is there where it is no result yet but a question."""

    raw: Raw
    round: Round | None = None


class Ended(msgspec.Struct, frozen=True):
    """The child of a stdio upstream ended; `status` is its exit code, negative for a signal."""

    status: int


Happening: TypeAlias = Changed | Touched | Logged | Ended


class Talk:
    """What belongs to one open request: who is told of its progress, who is asked, and until when."""

    __slots__ = ("_asking", "_left", "_server", "call", "future", "is_sent", "questions", "refusal", "scope", "slot")

    def __init__(self, call: Call | None = None, server: str = "") -> None:
        self.call = call
        self._server = server
        self.scope: asyncio.Timeout | None = None
        self.is_sent = False  # the server may have it; before that it waits for its turn
        self.slot: asyncio.Semaphore | None = None  # the place of an HTTP request among those that may run at once
        self.refusal = b""  # the body that came with HTTP 400
        self.future: asyncio.Future[Answer] | None = None
        self.questions: list[asyncio.Task[None]] = []  # of a legacy server, while they are asked
        self._asking = 0
        self._left = 0.0

    def tell_progress(self, progress: Progress) -> None:
        if self.call is not None and self.call.on_progress is not None:
            self.call.on_progress(progress)

    async def ask(self, form: Form) -> dict[str, Json]:
        """The deadline stands still while a person thinks; how long one may, the asker says."""
        if self.call is None or self.call.ask is None:
            return dict(CANCELLED)
        self._stop_clock()
        self.leave_slot()
        try:
            return fill_in(form, await self.call.ask(name_server(self._server, form)))
        finally:
            self._start_clock()

    def leave_slot(self) -> None:
        """Another request may take the place: this one is over, or waits for a person, and keeps its connection."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release()

    def _stop_clock(self) -> None:
        self._asking += 1
        scope = self.scope
        if self._asking == 1 and scope is not None and (when := scope.when()) is not None:
            self._left = when - asyncio.get_running_loop().time()
            scope.reschedule(None)

    def _start_clock(self) -> None:
        self._asking -= 1
        if not self._asking and self.scope is not None:
            with suppress(RuntimeError):  # the call is over
                self.scope.reschedule(asyncio.get_running_loop().time() + self._left)


def name_server(server: str, form: Form) -> Form:
    """A person is told whose question it is, in plain characters."""
    if not server:
        return form
    fields = {name: _clean_field(field) for name, field in form.schema.get("properties", {}).items()}
    schema = {**form.schema, "properties": fields} if fields else form.schema
    return Form(f"[{server}] {clean(form.message)}", schema)


def _clean_field(field: dict[str, Json]) -> dict[str, Json]:
    words = {key: clean(field[key]) for key in ("title", "description") if isinstance(field.get(key), str)}
    return {**field, **words}


def is_call(listener: Any) -> bool:
    return isinstance(listener, Talk) and listener.call is not None
