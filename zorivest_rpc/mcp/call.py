"""Call, Outcome, Handler, Middleware and chain(): the names that every tool shares.

A handler is written once and does not know its era. It asks the user with `need`, which returns the answer or
raises InputRequired; `methods/inputs.py` sends the question and runs the handler again from the top, in every era
alike. So side effects belong below the last `need`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.protocol.capabilities import required_by
from zorivest_rpc.mcp.protocol.content import Block, text
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, MISSING_CAPABILITY, Id, Json, dumps
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.protocol.types import LEVELS, Meta

if TYPE_CHECKING:
    from zorivest_rpc.mcp.catalog.view import View

__all__ = [
    "EVERYONE",
    "Ask",
    "BecomeTask",
    "Call",
    "Handler",
    "InputRequired",
    "Middleware",
    "Outcome",
    "Record",
    "Scope",
    "Wire",
    "chain",
    "check_answers",
    "fail",
    "form",
    "give",
    "roots",
    "sample",
    "say",
    "unknown_tool",
    "visit",
]

ERROR_KEY: Final = "com.zorivest/error"
_ACTIONS: Final = ("accept", "decline", "cancel")


class Outcome(msgspec.Struct):
    """What a call came to. `after` is work that must follow the response on the wire, such as a list change.

    `encoded` is `structured` as bytes, where they are at hand."""

    content: list[Block]
    structured: Json = UNSET
    is_error: bool = False
    meta: dict[str, Json] | None = None
    after: list[Callable[[], None]] | None = None
    encoded: bytes = b""


def say(words: str) -> Outcome:
    return Outcome([{"type": "text", "text": words}])


def give(value: dict[str, Json]) -> Outcome:
    """A JSON object, as structure and as the same compact JSON in text."""
    encoded = dumps(value)
    return Outcome([{"type": "text", "text": encoded.decode()}], value, encoded=encoded)


def fail(error: ToolError) -> Outcome:
    return Outcome([text(error.text)], is_error=True, meta={ERROR_KEY: error.about()})


class Ask(msgspec.Struct, frozen=True):
    """One question to the client or its user, in the form both eras share."""

    method: str
    params: dict[str, Json]


def form(message: str, properties: dict[str, Json], required: list[str] | None = None) -> Ask:
    """A form of flat, primitive fields; `required` defaults to all of them. Never for secrets."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    return Ask("elicitation/create", {"message": message, "requestedSchema": schema})


def visit(message: str, url: str, elicitation_id: str) -> Ask:
    """Send the user to a page; accepting means consent, not that the page was finished."""
    params = {"mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
    return Ask("elicitation/create", params)


def sample(messages: list[Json], max_tokens: int, **extra: Json) -> Ask:
    return Ask("sampling/createMessage", {"messages": messages, "maxTokens": max_tokens, **extra})


def roots() -> Ask:
    return Ask("roots/list", {})


def preface(asks: dict[str, Ask], scope: Scope) -> dict[str, Ask]:
    """The questions with the words of the scope before what a person reads."""
    if not scope.preface:
        return asks
    return {key: _preface(ask, scope.preface) for key, ask in asks.items()}


def _preface(ask: Ask, words: str) -> Ask:
    message = ask.params.get("message")
    if not isinstance(message, str) or message.startswith(words):
        return ask
    return Ask(ask.method, {**ask.params, "message": words + message})


def check_answers(asks: Mapping[str, Ask], answers: Mapping[str, Json]) -> str | None:
    """What is wrong with the first answer that is not one, or None."""
    for key, ask in asks.items():
        answer = answers.get(key, UNSET)
        if answer is UNSET:
            continue
        if not isinstance(answer, dict):
            return f"the answer to {key} is not an object"
        problem = _CHECKS[ask.method](ask, answer)
        if problem is not None:
            return f"the answer to {key} {problem}"
    return None


def _check_elicitation(ask: Ask, answer: dict[str, Json]) -> str | None:
    if answer.get("action") not in _ACTIONS:
        return f"needs an action: {', '.join(_ACTIONS)}"
    if answer["action"] != "accept" or ask.params.get("mode") == "url":
        return None
    content = answer.get("content")
    if not isinstance(content, dict):
        return "was accepted without content"
    import jsonschema_rs

    schema = ask.params["requestedSchema"]
    try:
        for error in jsonschema_rs.validator_for(schema).iter_errors({**_defaults(schema), **content}):
            return f"does not fit the form: {error.message}"
    except ValueError:  # the validator goes 255 levels down and no further
        return "is nested too deeply"
    return None


def _defaults(schema: dict[str, Json]) -> dict[str, Json]:
    """What a field that an accepted form leaves out counts as."""
    fields = schema.get("properties", {}).items()
    return {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}


def _check_sampling(ask: Ask, answer: dict[str, Json]) -> str | None:
    return None if isinstance(answer.get("content"), dict | list) else "has no content"


def _check_roots(ask: Ask, answer: dict[str, Json]) -> str | None:
    return None if isinstance(answer.get("roots"), list) else "has no roots"


_CHECKS: Final = {
    "elicitation/create": _check_elicitation,
    "sampling/createMessage": _check_sampling,
    "roots/list": _check_roots,
}


class Scope(msgspec.Struct, frozen=True):
    """On whose behalf a call is done, where a server serves several. What it means is the offer's own matter.

    `name` is part of every key under which something of the call is kept, `meta` stands in each of its results, and
    `preface` begins every question that is put to a person. `own` is what the offer needs again. `taken` are the
    arguments that named it, as an example of a call shows them. `encoded_meta` is `meta` as bytes, where they are at
    hand."""

    name: str = ""
    meta: dict[str, Json] | None = None
    preface: str = ""
    own: Any = None
    taken: dict[str, Json] | None = None
    encoded_meta: bytes = b""


EVERYONE: Final = Scope()  # of a server that serves one


class InputRequired(Exception):
    """The handler cannot go on without these answers.

    `kept` comes back to its next round as `Call.kept`, out of the client's reach. `abandon` is called where it turns
    out that no answer will come; of a client that just stays away nothing is heard."""

    def __init__(
        self, asks: dict[str, Ask], kept: Mapping[str, Json] | None = None, abandon: Callable[[], None] | None = None
    ) -> None:
        super().__init__(", ".join(asks))
        self.asks = asks
        self.kept = kept or {}
        self.abandon = abandon


class BecomeTask(Exception):
    """The handler wants the rest of its work to outlive the request."""


class Wire(Protocol):
    """The side of a running request that a handler may use."""

    progress_token: Id | None
    cancelled: bool
    meta: Meta | UnsetType

    @property
    def carries_questions(self) -> bool:
        """Whether one that is put now would arrive."""

    def notify(self, method: str, params: bytes) -> None: ...

    def hang_up(self) -> None: ...


class Record(Protocol):
    """What a layer tells of a call while it runs."""

    def record_question(self, channel: str) -> None: ...

    def record_confirmation(self, channel: str | None, *, auto: bool = False) -> None: ...


class Call:
    """One request being worked on: what was asked, by whom, and the way back to them."""

    __slots__ = (
        "_progress",
        "answers",
        "arguments",
        "context",
        "dispatched",
        "in_task",
        "kept",
        "name",
        "record",
        "scope",
        "session",
        "view",
        "wire",
    )

    def __init__(
        self,
        name: str,
        arguments: dict[str, Json],
        session: Session,
        wire: Wire,
        view: View | None = None,
        scope: Scope = EVERYONE,
    ) -> None:
        """`view` is the one that the tool was found in; the call of a prompt or a resource has none."""
        self.name = name
        self.arguments = arguments
        self.session = session
        self.wire = wire
        self.view = view
        self.scope = scope
        self.record: Record | None = None  # of what becomes of this call, where that is written down
        self.context: Any = None  # the offer's own: what it has found out about this call and needs again
        self.answers: Mapping[str, Json] = _NOTHING
        self.kept: Mapping[str, Json] = _NOTHING  # what the round before left with its questions
        self.in_task = False
        self.dispatched = False  # reached through another tool, so the client saw that one's hints
        self._progress = float("-inf")

    def dispatch(self, name: str, arguments: dict[str, Json]) -> Call:
        """This call as one of another tool: the same request, the same answers so far."""
        inner = Call(name, arguments, self.session, self.wire, self.view, self.scope)
        inner.context = self.context
        inner.answers = self.answers
        inner.kept = self.kept
        inner.in_task = self.in_task
        inner.dispatched = True
        return inner

    @property
    def cancelled(self) -> bool:
        """The request was cancelled. Code that runs in a thread has to look, because it cannot be interrupted."""
        return self.wire.cancelled

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Told to the client if it asked for it; a value that does not increase is left out."""
        token = self.wire.progress_token
        if token is None or done <= self._progress:
            return
        self._progress = done
        params: dict[str, Json] = {"progressToken": token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None and self.session.revision.progress_message:
            params["message"] = message
        self.wire.notify("notifications/progress", dumps(params))

    def log(self, level: str, data: Json, logger: str | None = None) -> None:
        """A log message for the client's log view, if its level is wanted."""
        wanted = self.session.log_level
        if wanted is None or LEVELS[level] < LEVELS[wanted]:
            return
        params = {"level": level, "data": data} if logger is None else {"level": level, "logger": logger, "data": data}
        self.wire.notify("notifications/message", dumps(params))

    def can_ask(self, ask: Ask) -> bool:
        return self.session.capabilities.allows(ask.method, ask.params)

    def need(self, key: str, ask: Ask) -> dict[str, Json]:
        """The answer under `key`, or the question goes out."""
        return self.need_all({key: ask})[key]

    def need_all(
        self,
        asks: dict[str, Ask],
        kept: Mapping[str, Json] | None = None,
        abandon: Callable[[], None] | None = None,
    ) -> dict[str, dict[str, Json]]:
        """Several answers, asked for in one round. What a client brings along unasked is checked like any answer.

        `kept` and `abandon` are of the InputRequired that goes out where one is missing."""
        problem = check_answers(asks, self.answers)
        if problem is not None:
            raise ProtocolError(INVALID_PARAMS, f"inputResponses: {problem}")
        missing = {key: ask for key, ask in asks.items() if key not in self.answers}
        for ask in missing.values():
            if not self.can_ask(ask):
                raise self._cannot(ask)
        if missing:
            raise InputRequired(preface(missing, self.scope), kept, abandon)
        return {key: self.answers[key] for key in asks}

    def continue_as_task(self) -> None:
        """From here on the work may outlive the request, where the client knows tasks; elsewhere it just goes on."""
        if self.session.capabilities.tasks and not self.in_task:
            raise BecomeTask

    def hang_up(self) -> None:
        """This takes a while: let go of the connection, if the client can come back and resume the stream."""
        self.wire.hang_up()

    def require(self, ask: Ask) -> None:
        """Refuse now, in the form that the client's program can read, if it could not be asked this later."""
        if not self.can_ask(ask):
            raise self._cannot(ask)

    def _cannot(self, ask: Ask) -> Exception:
        needed = required_by(ask.method, ask.params)
        if self.session.revision.modern:
            words = f"this needs the client capability {'/'.join(needed)}"
            return ProtocolError(MISSING_CAPABILITY, words, {"requiredCapabilities": needed})
        return ToolError(
            f"This needs {ask.method}, which your client does not offer.",
            code="client_cannot_be_asked",
            next="Use a client that declares the capability, or pass the value as an argument where the tool takes it.",
        )


_NOTHING: Final[Mapping[str, Json]] = {}
Handler: TypeAlias = Callable[[Call], Awaitable[Outcome]]
Middleware: TypeAlias = Callable[[Call, Handler], Awaitable[Outcome]]


def unknown_tool(name: str, hint: str = "tools/list names them") -> ProtocolError:
    """The refusal of a name that is in no catalogue; no other party's control characters come into a log."""
    shown = shorten(name, 128)
    return ProtocolError(INVALID_PARAMS, f"Unknown tool: {shown if shown.isprintable() else ascii(shown)}; {hint}")


def chain(handler: Handler, *layers: Middleware) -> Handler:
    """The first layer listed is the first to see a call."""

    def wrap(layer: Middleware, inner: Handler) -> Handler:
        return lambda call: layer(call, inner)

    for layer in reversed(layers):
        handler = wrap(layer, handler)
    return handler
