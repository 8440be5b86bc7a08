"""Confirmation: a call that moves money or data runs only if the user or a token confirmed exactly this call, once.

A valid token comes first. Without one, a client whose user can be asked is asked with a form; any other has to fetch a
token and repeat the call with it. The operator may leave one of these ways alone. A token is good for one minute and
one call of one tool, in one session and for one tenant, and, where it was fetched with the arguments, for those
arguments alone. A call that sends a file is confirmed for the bytes of the file. Whether a client is asked at all is
decided elsewhere and passed in.

Checking and spending a token happens without waiting, so no two calls can spend the same one. A confirmed call whose
handler then asks the user something itself runs again from the top; that round, with an answer to that question and the
same arguments, needs no second confirmation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final

import msgspec

from zorivest_rpc.errors import BackendError, ConfirmationRequired, ToolError
from zorivest_rpc.mcp.call import Ask, BecomeTask, Call, Handler, InputRequired, Outcome, form
from zorivest_rpc.mcp.catalog.intended import read_intended
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.serving.backend.interface import Backend, Request
from zorivest_rpc.serving.catalog.approval import TOKEN as ARGUMENT
from zorivest_rpc.serving.catalog.approval import (
    choose_way,
    confirmation_required,
    declined,
    not_approved,
    takes_tokens,
)
from zorivest_rpc.serving.catalog.spec import ToolSpec, defaults, routes, spellings
from zorivest_rpc.serving.middleware.rounds import AS_TASK, CountedRounds
from zorivest_rpc.serving.modes.present import EVERY_CLIENT

__all__ = ["ARGUMENT", "CONTENT", "TOKEN_SECONDS", "Confirmation", "digest"]

CONTENT: Final = "file_sha256"  # stands for a file's path in what a confirmation is bound to
TOKEN_SECONDS: Final = 60
_REMEMBERED: Final = 600.0  # how long "expired" and "used" can be told from "unknown"
_MOST: Final = 10_000
_MOST_MINTED: Final = 100  # of one principal, issued here and still good
_SHOWN: Final = 200
_QUESTION: Final = "confirm-"


class _Token(msgspec.Struct):
    """What a token, or a question, is bound to; `arguments` is None where a token was fetched without them."""

    action: str
    tenant: str
    session: str
    arguments: str | None
    issued: float
    principal: str = ""
    asked: bool = False  # a question that was put to the user, and no token
    spent: bool = False

    def same_as(self, other: _Token) -> bool:
        bound = (self.action, self.tenant, self.session, self.arguments, self.asked)
        return bound == (other.action, other.tenant, other.session, other.arguments, other.asked)


def digest(spec: ToolSpec, arguments: Mapping[str, Json]) -> str:
    """The arguments in one spelling: order, defaults, nulls and the form of a number make no difference."""
    filled = {**defaults(spec), **read_intended(spec.input_schema, dict(arguments), spellings(spec))}
    filled.pop(ARGUMENT, None)
    return sha256(dumps(_canonical(filled))).hexdigest()


def _canonical(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _session(call: Call) -> str:
    """A session id where there is one, else the principal; on stdio neither, and the process is the session."""
    return call.session.key or call.session.principal


class Confirmation:
    """The tokens in force, and the layer for the gated tools."""

    def __init__(
        self,
        gated: Mapping[str, ToolSpec],
        asks: Callable[[Call], bool],
        *,
        channel: str = "auto",
        tenant: Callable[[Call], str] = lambda call: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`gated` are the tools that can be confirmed; `asks` says whether this call's client is asked by us, and
        `channel` by which way an operator wants that."""
        self._gated = gated
        self.asks = asks
        self._channel = channel
        self._rounds = CountedRounds(clock)
        self._tenant = tenant
        self._clock = clock
        self._tokens: dict[str, _Token] = {}

    # --- the layer

    async def __call__(self, call: Call, inner: Handler) -> Outcome:
        about = None
        if self.asks(call):
            spec = self._gated[call.name]
            about = digest(spec, call.arguments)
            if not self._rounds.take(call, about):
                self._confirm(call, spec, _question(spec, call.arguments), call.arguments)
        if ARGUMENT in call.arguments:
            call.arguments = {name: value for name, value in call.arguments.items() if name != ARGUMENT}
        if about is None:
            return await inner(call)
        try:
            return await inner(call)
        except InputRequired as asked:
            self._rounds.remember(call, asked.asks, about)
            raise
        except BecomeTask:
            self._rounds.remember(call, (AS_TASK,), about)
            raise

    def require(self, call: Call, spec: ToolSpec, bound: Mapping[str, Json], words: str) -> None:
        """Have a call confirmed that turned out to need it, with `words` for the user and bound to exactly `bound`."""
        self._confirm(call, spec, _yes_or_no(spec, words), bound)

    def _confirm(self, call: Call, spec: ToolSpec, question: Ask, bound: Mapping[str, Json]) -> None:
        """By the way that the channel leaves; a token that is no good gives way to the form."""
        can_ask = call.can_ask(question)
        way = choose_way(self._channel, has_token=bool(call.arguments.get(ARGUMENT)), can_ask=can_ask)
        if way == "token" and can_ask and self._channel == "auto" and self._find_fault(call, spec, bound):
            way = "elicitation"
        if way == "refuse":
            raise not_approved(spec.name)
        channel = "elicitation" if way == "elicitation" else "token"
        try:
            if way == "elicitation":
                self._ask(call, spec, question, bound)
            else:
                self._spend(call, spec, bound)
        except (InputRequired, ConfirmationRequired) as open_still:
            if call.record is not None and (
                isinstance(open_still, InputRequired) or open_still.code == "confirmation_missing"
            ):
                call.record.record_question(channel)
            raise
        if call.record is not None:
            call.record.record_confirmation(channel)

    def _ask(self, call: Call, spec: ToolSpec, question: Ask, bound: Mapping[str, Json]) -> None:
        answer = self.answer_to(call, question, digest(spec, bound))
        content = answer.get("content")
        typed: Sequence[str] = ()
        if answer.get("action") == "accept" and isinstance(content, dict):
            if _agrees(spec, bound, content):
                return
            typed = spec.confirm_typed
        if spec.ruling is not None and not typed:
            raise declined(call.name)
        why = f"typed another {' or '.join(typed)} than the call has" if typed else f"did not confirm {call.name}"
        raise ConfirmationRequired(
            f"The user {why}; nothing was done. Repeat it only if the user asks for it.",
            code="confirmation_declined",
            next="Ask the user what to do instead.",
        )

    def answer_to(self, call: Call, question: Ask, about: str) -> Mapping[str, Json]:
        """The user's answer to a question about exactly this, or the question goes out.

        Every question has a name of its own, bound like a token: an answer serves one call, the one it was given to."""
        asked = _Token(call.name, self._tenant(call), _session(call), about, self._clock(), asked=True)
        for key, answer in call.answers.items():
            held = self._tokens.get(_name(key)) if key.startswith(_QUESTION) else None
            if held is None or not held.same_as(asked):
                continue
            if held.spent:
                raise _refusal(
                    "used", "This confirmation has been used; it is good for one call.", "Call again to be asked again"
                )
            held.spent = True
            given: Mapping[str, Json] = answer
            return given
        key = _QUESTION + token_urlsafe(12)
        self._remember(key, asked)
        return call.need(key, question)

    def _spend(self, call: Call, spec: ToolSpec, bound: Mapping[str, Json]) -> None:
        fault = self._find_fault(call, spec, bound)
        if fault is not None:
            raise fault
        self._tokens[_name(str(call.arguments[ARGUMENT]))].spent = True

    def _find_fault(self, call: Call, spec: ToolSpec, bound: Mapping[str, Json]) -> ConfirmationRequired | None:
        """Why the token of this call does not confirm it, or None."""
        name, given = call.name, call.arguments.get(ARGUMENT)
        action = f'get_confirmation_token with action "{name}"'
        if self._tenant(call) == EVERY_CLIENT:
            action += " and any one clientId"
        if CONTENT in bound:
            action += f" and arguments {dumps(bound).decode()}"
        fetch = f"Call {action} and repeat the call with its token"
        if not given:
            if spec.ruling is not None and spec.ruling.reason and CONTENT not in bound:
                return confirmation_required(name, spec.ruling.reason, call.scope.preface)
            return ConfirmationRequired(
                f"{call.scope.preface}{name} needs a confirmation. Show the user what will be done; if they agree, "
                f"call {action} and repeat the call with its token as {ARGUMENT} within {TOKEN_SECONDS} seconds.",
                code="confirmation_missing",
                next=fetch + ".",
            )
        token = self._tokens.get(_name(str(given)))
        if token is None or token.asked:
            return _refusal("unknown", "This confirmation token is not one of this server's.", fetch)
        of_another = self._tenant(call) not in (token.tenant, EVERY_CLIENT)  # what may stop one may stop all
        if token.session != _session(call) or of_another:
            return _refusal("other_session", "This confirmation token was issued to another session.", fetch)
        if token.spent:
            return _refusal("used", "This confirmation token has been used; a token is good for one call.", fetch)
        if self._clock() - token.issued >= TOKEN_SECONDS:
            return _refusal("expired", f"This confirmation token is older than {TOKEN_SECONDS} seconds.", fetch)
        if token.action != name:
            return _refusal("other_arguments", f"This confirmation token is for {token.action}, not for {name}.", fetch)
        if token.arguments is not None and token.arguments != digest(spec, bound):
            return _refusal("other_arguments", "This confirmation token was issued for other arguments.", fetch)
        return None

    # --- what get_confirmation_token does

    async def issue(self, call: Call, backend: Backend) -> dict[str, Json]:
        """A token for the action that this call of get_confirmation_token names.

        The backend issues it where the action is one of its own, and we remember what it is bound to; a backend without
        that route leaves both to us."""
        action, summary = call.arguments["action"], call.arguments["params_summary"]
        spec = self._gated.get(action)
        if spec is None:
            raise ToolError(
                f'"{action}" needs no confirmation token; only {", ".join(self._gated)} do. Call it directly.',
                code="unknown_destructive_action",
                next="Call the tool directly.",
            )
        if not takes_tokens(self._channel):
            raise ToolError(
                f"This server takes no tokens: for {action} its confirmation_channel is {self._channel}.",
                code="no_tokens",
                next="Call the tool directly; the user is asked where that is possible.",
            )
        arguments = call.arguments.get("arguments")
        if spec.confirm_above is not None:
            arguments = _without_path(spec, arguments)
        bound = None if arguments is None else digest(spec, arguments)
        asked = self._clock()  # the minute begins when the backend's does, not when its answer arrives
        # The backend knows its own destructive actions and neither imports nor what the operator or a server adds.
        if spec.confirm_above is not None or (spec.ruling is not None and spec.ruling.mints):
            token = self._mint(call)
        else:
            token = await self._fetch(backend, action, summary, bound)
        principal = call.session.principal
        self._remember(token, _Token(action, self._tenant(call), _session(call), bound, asked, principal))
        return {
            "token": token,
            "action": action,
            "params_summary": summary,
            "expires_in_seconds": TOKEN_SECONDS,
            "instruction": f"{call.scope.preface}Pass this token as the {ARGUMENT} parameter when calling {action}.",
        }

    async def _fetch(self, backend: Backend, action: str, summary: Json, bound: str | None) -> str:
        """A token of the backend's; a backend without that route leaves it to us."""
        body = {"action": action, "params_summary": summary}
        if bound is not None:
            body["params_hash"] = bound
        try:
            # a token more than needed does no harm
            answer = (await backend.ask(Request("POST", "/confirmation-tokens", body=body, repeatable=True))).value
        except BackendError as error:
            if error.status != 404:
                raise
            answer = {"token": "ctk_" + token_urlsafe(16)}
        token = answer.get("token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            words = "The backend issued no confirmation token. Try again."
            raise BackendError(200, words, code="bad_answer", next="Try again.")
        return token

    def _mint(self, call: Call) -> str:
        """A token of our own, for a tool that the backend knows nothing of."""
        now, principal = self._clock(), call.session.principal
        outstanding = sum(
            1
            for each in self._tokens.values()
            if each.principal == principal and not (each.asked or each.spent) and now - each.issued < TOKEN_SECONDS
        )
        if outstanding >= _MOST_MINTED:
            next = f"Use one of them, or wait {TOKEN_SECONDS} seconds."
            words = f"{_MOST_MINTED} confirmation tokens are outstanding and unused. {next}"
            raise ConfirmationRequired(words, code="confirmation_busy", next=next)
        return "ctk_" + token_urlsafe(32)

    def _remember(self, token: str, bound: _Token) -> None:
        """Tokens are kept in the order of their issue, so the old ones are in front."""
        tokens, now = self._tokens, self._clock()
        while tokens:
            first = next(iter(tokens))
            if len(tokens) < _MOST and now - tokens[first].issued < _REMEMBERED:
                break
            del tokens[first]
        tokens[_name(token)] = bound


def _name(token: str) -> str:
    """Tokens are looked up by their hash: a lookup's duration tells nothing, and a dump of memory gives none away."""
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _refusal(why: str, what: str, fetch: str) -> ConfirmationRequired:
    advice = fetch + "."
    return ConfirmationRequired(f"{what} Nothing was done. {advice}", code=f"confirmation_{why}", next=advice)


def _without_path(spec: ToolSpec, arguments: Json) -> dict[str, Json]:
    """What a token for a file is bound to: its content says which file is meant, and its name says nothing."""
    if not isinstance(arguments, dict) or not isinstance(arguments.get(CONTENT), str):
        advice = f"Call {spec.name} and take the arguments for the token from its refusal."
        raise ConfirmationRequired(
            f"A confirmation of {spec.name} is bound to the content of the file, so its token needs arguments with "
            f"{CONTENT}. {advice}",
            code="confirmation_unbound",
            next=advice,
        )
    paths = {route.file.param for route in routes(spec) if route.file is not None}
    return {name: value for name, value in arguments.items() if name not in paths}


def _yes_or_no(spec: ToolSpec, words: str) -> Ask:
    yes = {"type": "boolean", "title": "Yes, do it", "description": f"Run {spec.name} now."}
    return form(words, {"confirm": yes})


def _question(spec: ToolSpec, arguments: Mapping[str, Json]) -> Ask:
    shown = "; ".join(f"{name}: {_render_value(value)}" for name, value in arguments.items() if name != ARGUMENT)
    # What another server calls its tool is no heading of ours, nor may its line ends push the rest out of sight.
    title = spec.name if spec.upstream else spec.title
    words = f"{title}: {' '.join(spec.description.minimal.split())} " + (f"({shown}) " if shown else "")
    if not spec.confirm_typed:
        return _yes_or_no(spec, words + "Go ahead?")
    inputs = spec.input_schema["properties"]
    fields = {
        name: {
            "type": "string" if inputs[name]["type"] == "string" else "number",
            "title": name.capitalize(),
            "description": f"Type the {name} of this call to confirm it.",
        }
        for name in spec.confirm_typed
    }
    return form(f"{words}To go ahead, type its {' and '.join(fields)}.", fields)


def _agrees(spec: ToolSpec, arguments: Mapping[str, Json], content: Mapping[str, Json]) -> bool:
    if not spec.confirm_typed:
        return content.get("confirm") is True
    return all(_same(arguments[name], content.get(name)) for name in spec.confirm_typed)


def _same(wanted: Json, typed: Json) -> bool:
    """A number is a number; of a text like "QQQ STK" the symbol is enough, in any case."""
    if not isinstance(wanted, str):
        return isinstance(typed, (int, float)) and not isinstance(typed, bool) and typed == wanted
    words = " ".join(typed.split()).casefold() if isinstance(typed, str) else ""
    whole = " ".join(wanted.split()).casefold()
    return words != "" and words in (whole, whole.partition(" ")[0])


def _render_value(value: Json) -> str:
    words = value if isinstance(value, str) else dumps(value).decode()
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
