"""Confirmation: a call that moves money or data runs only if the user or a token confirmed exactly this call, once.

A client whose user can be asked is asked with a form. Any other has to fetch a token and repeat the call with it. A
token is good for one minute and one call of one tool, in one session and for one tenant, and, where it was fetched with
the arguments, for those arguments alone. A call that sends a file is confirmed for the bytes of the file. Whether a
client is asked at all is decided elsewhere and passed in.

Checking and spending a token happens without waiting, so no two calls can spend the same one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final

import msgspec

from zorivest_rpc.errors import BackendError, ConfirmationRequired, ToolError
from zorivest_rpc.mcp.call import Ask, Call, Handler, Outcome, form
from zorivest_rpc.mcp.catalog.intended import read_intended
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.serving.backend.interface import Backend, Request
from zorivest_rpc.serving.catalog.spec import ToolSpec, defaults, routes, spellings

__all__ = ["ARGUMENT", "CONTENT", "TOKEN_SECONDS", "Confirmation", "digest"]

ARGUMENT: Final = "confirmation_token"
CONTENT: Final = "file_sha256"  # stands for a file's path in what a confirmation is bound to
TOKEN_SECONDS: Final = 60
_REMEMBERED: Final = 600.0  # how long "expired" and "used" can be told from "unknown"
_MOST: Final = 10_000
_SHOWN: Final = 200
_QUESTION: Final = "confirm-"


class _Token(msgspec.Struct):
    """What a token, or a question, is bound to; `arguments` is None where a token was fetched without them."""

    action: str
    tenant: str
    session: str
    arguments: str | None
    issued: float
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
        tenant: Callable[[Call], str] = lambda call: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`gated` are the tools that can be confirmed; `asks` says whether this call's client is asked by us."""
        self._gated = gated
        self.asks = asks
        self._tenant = tenant
        self._clock = clock
        self._tokens: dict[str, _Token] = {}

    # --- the layer

    async def __call__(self, call: Call, inner: Handler) -> Outcome:
        if self.asks(call):
            spec = self._gated[call.name]
            question = _question(spec, call.arguments)
            if call.can_ask(question):
                self._ask(call, spec, question, call.arguments)
            else:
                self._spend(call, spec, call.arguments)
        if ARGUMENT in call.arguments:
            call.arguments = {name: value for name, value in call.arguments.items() if name != ARGUMENT}
        return await inner(call)

    def require(self, call: Call, spec: ToolSpec, bound: Mapping[str, Json], words: str) -> None:
        """Have a call confirmed that turned out to need it, with `words` for the user and bound to exactly `bound`."""
        question = _yes_or_no(spec, words)
        if call.can_ask(question):
            self._ask(call, spec, question, bound)
        else:
            self._spend(call, spec, bound)

    def _ask(self, call: Call, spec: ToolSpec, question: Ask, bound: Mapping[str, Json]) -> None:
        answer = self.answer_to(call, question, digest(spec, bound))
        content = answer.get("content")
        typed: Sequence[str] = ()
        if answer.get("action") == "accept" and isinstance(content, dict):
            if _agrees(spec, bound, content):
                return
            typed = spec.confirm_typed
        why = f"typed another {' or '.join(typed)} than the call has" if typed else f"did not confirm {call.name}"
        raise ConfirmationRequired(
            f"The user {why}; nothing was done. Repeat it only if the user asks for it.",
            code="confirmation_declined",
            next="Ask the user what to do instead.",
        )

    def answer_to(self, call: Call, question: Ask, about: str) -> Mapping[str, Json]:
        """The user's answer to a question about exactly this, or the question goes out.

        Every question has a name of its own, bound like a token: an answer serves one call, the one it was given to."""
        asked = _Token(call.name, self._tenant(call), _session(call), about, self._clock(), True)
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
        name, given = call.name, call.arguments.get(ARGUMENT)
        action = f'get_confirmation_token with action "{name}"'
        if CONTENT in bound:
            action += f" and arguments {dumps(bound).decode()}"
        fetch = f"Call {action} and repeat the call with its token"
        if not given:
            raise ConfirmationRequired(
                f"{name} needs a confirmation. Show the user what will be done; if they agree, call {action} and "
                f"repeat the call with its token as {ARGUMENT} within {TOKEN_SECONDS} seconds.",
                code="confirmation_missing",
                next=fetch + ".",
            )
        token = self._tokens.get(_name(str(given)))
        if token is None or token.asked:
            raise _refusal("unknown", "This confirmation token is not one of this server's.", fetch)
        if token.session != _session(call) or token.tenant != self._tenant(call):
            raise _refusal("other_session", "This confirmation token was issued to another session.", fetch)
        if token.spent:
            raise _refusal("used", "This confirmation token has been used; a token is good for one call.", fetch)
        if self._clock() - token.issued >= TOKEN_SECONDS:
            raise _refusal("expired", f"This confirmation token is older than {TOKEN_SECONDS} seconds.", fetch)
        if token.action != name:
            raise _refusal("other_arguments", f"This confirmation token is for {token.action}, not for {name}.", fetch)
        if token.arguments is not None and token.arguments != digest(spec, bound):
            raise _refusal("other_arguments", "This confirmation token was issued for other arguments.", fetch)
        token.spent = True

    # --- what get_confirmation_token does

    async def issue(self, call: Call, backend: Backend) -> dict[str, Json]:
        """A token for the action that this call of get_confirmation_token names.

        The backend issues it, and we remember what it is bound to; a backend without that route leaves both to us."""
        action, summary = call.arguments["action"], call.arguments["params_summary"]
        spec = self._gated.get(action)
        if spec is None:
            raise ToolError(
                f'"{action}" needs no confirmation token; only {", ".join(self._gated)} do. Call it directly.',
                code="unknown_destructive_action",
                next="Call the tool directly.",
            )
        arguments = call.arguments.get("arguments")
        if spec.confirm_above is not None:
            arguments = _without_path(spec, arguments)
        bound = None if arguments is None else digest(spec, arguments)
        body = {"action": action, "params_summary": summary}
        if bound is not None:
            body["params_hash"] = bound
        asked = self._clock()  # the minute begins when the backend's does, not when its answer arrives
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
        self._remember(token, _Token(action, self._tenant(call), _session(call), bound, asked))
        return {
            "token": token,
            "action": action,
            "params_summary": summary,
            "expires_in_seconds": TOKEN_SECONDS,
            "instruction": f"Pass this token as the {ARGUMENT} parameter when calling {action}.",
        }

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
    words = f"{spec.title}: {spec.description.minimal} " + (f"({shown}) " if shown else "")
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
