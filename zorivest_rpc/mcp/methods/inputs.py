"""Asking for input: one driver that runs a handler again from the top, and a way to put its questions per era.

Legacy: the questions go out as requests on the call's own stream. Modern: the answer is `input_required` with sealed
state, and the client repeats the request. Task: the questions are parked in the task. The state carries earlier
answers, because a client sends only the newest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import Ask, Call, InputRequired, Scope, check_answers
from zorivest_rpc.mcp.dispatcher import Exchange
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json, dumps
from zorivest_rpc.mcp.protocol.results import Result
from zorivest_rpc.mcp.protocol.seal import BadSeal

__all__ = ["MoreInput", "ask_wire", "drive", "in_scope", "resume", "run_again", "take_answers"]

T = TypeVar("T")
Put: TypeAlias = Callable[[Mapping[str, Ask]], Awaitable[Mapping[str, Json]]]  # questions to their answers


class MoreInput(Exception):
    """The modern way: this result is the answer for now."""

    def __init__(self, result: Result) -> None:
        super().__init__("input required")
        self.result = result


def in_scope(result: Result, scope: Scope) -> Result:
    """An answer that is no outcome yet: more input is needed, or it became a task."""
    if scope.meta is None:
        return result
    return Result(result.members, {**(result.meta or {}), **scope.meta}, result.kind, result.cache)


def take_answers(core: Core, exchange: Exchange, method: str, call: Call, params: Json) -> None:
    """The answers that a repeated request brings, those sealed earlier and those given now; and what was kept."""
    responses, state = params.input_responses, params.request_state
    if responses is UNSET and state is UNSET:
        return
    if not exchange.session.revision.modern:
        return  # members of a later revision, tolerated like any other
    earlier: Mapping[str, Json] = {}
    if state is not UNSET:
        if not isinstance(state, str):
            raise ProtocolError(INVALID_PARAMS, "requestState must be the string that was given")
        try:
            bound_to = binding(exchange, method, call)
            sealed, _, *kept = core.seal.open("state", state, bound_to=bound_to, now=core.now())
            earlier = msgspec.json.decode(sealed)
            if kept:
                call.kept = msgspec.json.decode(kept[0])
        except BadSeal as exc:
            raise ProtocolError(INVALID_PARAMS, f"requestState was refused ({exc}); begin the call again") from None
    if responses is UNSET:
        call.answers = earlier
        return
    if not isinstance(responses, dict):
        raise ProtocolError(INVALID_PARAMS, "inputResponses must be an object of answers by key")
    for key, value in responses.items():
        if not isinstance(value, dict):
            raise ProtocolError(INVALID_PARAMS, f"inputResponses.{key} must be an object")
    call.answers = {**earlier, **responses}


def binding(exchange: Exchange, method: str, call: Call) -> list[Json]:
    """What sealed state belongs to: this method, this name, these arguments, this principal, on this behalf."""
    from hashlib import blake2b

    digest = blake2b(_encode_canonical(call.arguments), digest_size=16).digest()
    return [method, call.name, digest, exchange.session.principal, call.scope.name]


def _encode_canonical(value: Json) -> bytes:
    """The same bytes for the same value, whatever the order of its members and the size of its integers."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except RecursionError:
        raise ProtocolError(INVALID_PARAMS, "params are nested too deeply") from None


def input_required(core: Core, asked: InputRequired, answers: Mapping[str, Json], bound_to: list[Json]) -> Result:
    from secrets import token_hex

    payload = [_encode_canonical(answers), token_hex(8)]
    if asked.kept:
        payload.append(dumps(asked.kept))
    state = core.seal.close("state", payload, bound_to=bound_to, expires=core.now() + core.limits.input_seconds)
    given = {"inputRequests": {key: ask_wire(ask) for key, ask in asked.asks.items()}, "requestState": state}
    return Result(dumps(given)[1:-1], kind="input_required")


def ask_wire(ask: Ask) -> dict[str, Json]:
    """The bare form of the modern era, where a URL needs no id of its own."""
    params = {key: value for key, value in ask.params.items() if key != "elicitationId"}
    return {"method": ask.method, "params": params}


async def gather(exchange: Exchange, asks: Mapping[str, Ask]) -> Mapping[str, Json]:
    """The legacy way: real requests, real responses."""
    legacy = {key: _legacy_form(ask, exchange) for key, ask in asks.items()}
    return await exchange.ask(legacy)


def _legacy_form(ask: Ask, exchange: Exchange) -> Ask:
    if ask.method == "elicitation/create" and exchange.session.revision.url_elicitation and "mode" not in ask.params:
        return Ask(ask.method, {"mode": "form", **ask.params})
    return ask


async def run_again(core: Core, call: Call, run: Callable[[Call], Awaitable[T]], asked: InputRequired, put: Put) -> T:
    """Put the first questions of a handler and run it again with all answers so far, until it has what it needs."""
    for _ in range(core.limits.input_rounds):
        try:
            answers = await put(asked.asks)
            problem = check_answers(asked.asks, answers)
            if problem is not None:
                words = f"The client's reply could not be used: {problem}."
                raise ToolError(words, code="bad_input", next="Call again and answer what is asked.")
        except BaseException:
            _abandon(asked)
            raise
        call.answers, call.kept = {**call.answers, **answers}, asked.kept
        try:
            return await run(call)
        except InputRequired as again:
            asked = again
    _abandon(asked)
    words = f"Still not enough input after {core.limits.input_rounds} rounds."
    raise ToolError(words, code="too_many_rounds", next="Call again with all of it in the arguments.")


def _abandon(asked: InputRequired) -> None:
    if asked.abandon is not None:
        asked.abandon()


async def resume(
    core: Core, exchange: Exchange, method: str, call: Call, run: Callable[[Call], Awaitable[T]], asked: InputRequired
) -> T:
    """Go on after the first question of a call, in the way of its era."""
    if exchange.session.revision.modern:
        bound_to = binding(exchange, method, call)
        raise MoreInput(in_scope(input_required(core, asked, call.answers, bound_to), call.scope))
    return await run_again(core, call, run, asked, lambda asks: gather(exchange, asks))


async def drive(
    core: Core, exchange: Exchange, method: str, call: Call, run: Callable[[Call], Awaitable[T]], params: Json
) -> T:
    """A prompt or a resource, from the answers that its request brings to its content."""
    take_answers(core, exchange, method, call, params)
    try:
        try:
            return await run(call)
        except InputRequired as asked:
            return await resume(core, exchange, method, call, run, asked)
    except ToolError as error:
        raise ProtocolError(INVALID_PARAMS, error.text) from None
    except SystemExit as exc:
        raise RuntimeError(f"the handler of {call.name} tried to end the process") from exc
