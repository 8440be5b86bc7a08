"""Questions of a server that the user of our client answers: from the form to the answer, in every pairing of eras.

A modern server's question ends its request; what has to come back with the answer lies in our own sealed state. A
legacy server waits while it asks: its call is *parked*, which means that it runs on by itself, and the next round of
our call finds it by the id in the sealed state. Each id is good for one round."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from secrets import token_hex
from typing import Any, Final, Protocol, TypeAlias

from zorivest_rpc.errors import ToolError
from zorivest_rpc.gateway.errors import ProtocolBroken
from zorivest_rpc.gateway.talk import Call as Forwarded
from zorivest_rpc.gateway.talk import Result
from zorivest_rpc.mcp.call import Ask, Call
from zorivest_rpc.mcp.client.forms import CANCELLED, Form
from zorivest_rpc.mcp.client.rounds import MOST_ROUNDS, Round
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps

__all__ = ["MOST_PARKED", "Errand", "Questions", "Sent"]

MOST_PARKED: Final = 16  # legacy calls of one principal that wait for a modern client
_MOST_IN_ALL: Final = 56  # legacy calls that wait for people: each holds a connection
_MOST_WAITING: Final = 4_096  # rounds in all; the oldest is given up
_MOST_KEPT: Final = 256 * 1024  # bytes that a client has to carry for a server
_KEPT: Final = "gateway"
_TIMED_OUT: Final = "input_timeout"
_GIVEN_UP: Final = "cancelled"

Sent: TypeAlias = tuple[Result, int]  # what came back, and the number of attempts
Send: TypeAlias = Callable[[Forwarded], Awaitable[Sent]]


class Errand(Protocol):
    """What is known of a call over all of its rounds."""

    def end_unheard(self, code: str) -> None:
        """No answer came, so no further round will."""


class _Parked:
    """A call to a legacy server that runs on by itself while its caller is asked."""

    def __init__(self, request: Forwarded, send: Send) -> None:
        self.request = request
        self.asked: dict[str, tuple[Form, asyncio.Future[Mapping[str, Json]]]] = {}
        self._turn: asyncio.Future[None] | None = None
        request.ask = self._ask
        self.task = asyncio.get_running_loop().create_task(_run(send, request))
        self.task.add_done_callback(self._finish)

    async def _ask(self, form: Form) -> Mapping[str, Json]:
        key = token_hex(8)
        answer: asyncio.Future[Mapping[str, Json]] = asyncio.get_running_loop().create_future()
        self.asked[key] = (form, answer)
        self._wake()
        try:
            return await answer
        finally:
            self.asked.pop(key, None)

    def _finish(self, task: asyncio.Task[Sent]) -> None:
        if not task.cancelled():
            task.exception()  # seen: after the caller has gone nothing waits for it
        self._wake()

    def _wake(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

    async def turn(self) -> None:
        """Until the server asks something, or the call is over."""
        while not self.asked and not self.task.done():
            self._turn = asyncio.get_running_loop().create_future()
            await self._turn

    def asks(self) -> dict[str, Ask]:
        return {key: ask_of(form) for key, (form, _) in self.asked.items()}

    def answer(self, given: Mapping[str, Mapping[str, Json]]) -> None:
        for key, answer in given.items():
            found = self.asked.pop(key, None)
            if found is not None and not found[1].done():
                found[1].set_result(answer)


class _Stay:
    """One round of a call, from its questions to their answers."""

    __slots__ = ("errand", "parked", "principal", "timer")

    def __init__(self, errand: Errand, principal: str | None, parked: _Parked | None) -> None:
        self.errand = errand
        self.principal = principal  # who is counted, None for those who are not
        self.parked = parked
        self.timer: asyncio.TimerHandle | None = None


class Questions:
    """`run` names this process, `seconds` is how long a person may think."""

    def __init__(self, run: str, seconds: float = 600.0) -> None:
        self._run = run
        self._seconds = seconds
        self._stays: dict[str, _Stay] = {}

    def errand_of(self, call: Call) -> Errand | None:
        """That of the call whose later round this is, as far as it is known here."""
        kept = call.kept.get(_KEPT)
        stay = self._stays.get(kept["id"]) if kept else None
        return None if stay is None else stay.errand

    async def put_through(
        self, call: Call, request: Forwarded, send: Send, errand: Errand, *, modern: bool | None
    ) -> Sent:
        """Send a request whose server may ask. InputRequired goes out with its questions, and the next round of the
        call comes here again. `modern` is the server's era, None where it is not known."""
        kept = call.kept.get(_KEPT)
        if kept is not None:
            return await self._go_on(call, request, send, errand, kept)
        if not (call.session.capabilities.elicitation_form and call.wire.carries_questions):
            return await send(request)
        request.can_ask = request.hands_on = True
        if modern:
            return self._hand_on(call, request, await send(request), errand, 0)
        return await self._follow(call, _Parked(request, send), errand)

    def close(self) -> None:
        for id in list(self._stays):
            self._give_up(id, _GIVEN_UP)

    # --- the next round

    async def _go_on(self, call: Call, request: Forwarded, send: Send, errand: Errand, kept: Mapping[str, Any]) -> Sent:
        id = kept["id"]
        stay = self._stays.get(id)
        if stay is None and (id.startswith(self._run) or "forms" not in kept):
            raise _lost(request.shown)
        if stay is not None and stay.parked is not None:
            parked = stay.parked
            given = call.need_all(parked.asks(), call.kept, partial(self._give_up, id, _GIVEN_UP))
            self._drop(id)
            parked.request.on_progress, parked.request.on_log = request.on_progress, request.on_log
            parked.answer(given)
            return await self._follow(call, parked, errand)
        forms = {key: Form(message, schema) for key, (message, schema) in kept["forms"].items()}
        round = Round(forms, None if kept["state"] is None else kept["state"].encode())
        given = call.need_all(_asks(id, round), call.kept, partial(self._give_up, id, _GIVEN_UP))
        self._drop(id)
        named = {key: given[name] for name, key in _names(id, round).items()}
        again = request.repeat(round, named)
        again.can_ask = again.hands_on = True
        again.deadline = asyncio.get_running_loop().time() + kept["left"]
        return self._hand_on(call, again, await send(again), errand, kept["rounds"])

    # --- legacy: the server waits

    async def _follow(self, call: Call, parked: _Parked, errand: Errand) -> Sent:
        modern = call.session.revision.modern and not call.in_task
        try:
            await parked.turn()
            while not parked.task.done() and self._is_full(call.session.principal if modern else None):
                parked.answer(dict.fromkeys(list(parked.asked), CANCELLED))
                await parked.turn()
        except asyncio.CancelledError:
            parked.task.cancel()
            raise
        if parked.task.done():
            return self._hand_on(call, parked.request, parked.task.result(), errand, 0)
        id = self._stay(_Stay(errand, call.session.principal if modern else None, parked))
        call.need_all(parked.asks(), {_KEPT: {"id": id}}, partial(self._give_up, id, _GIVEN_UP))
        raise AssertionError("these questions are new, so they go out")

    def _is_full(self, principal: str | None) -> bool:
        parked = [stay.principal for stay in self._stays.values() if stay.parked is not None]
        return len(parked) >= _MOST_IN_ALL or (principal is not None and parked.count(principal) >= MOST_PARKED)

    # --- modern: the question is the answer

    def _hand_on(self, call: Call, request: Forwarded, sent: Sent, errand: Errand, rounds: int) -> Sent:
        round = sent[0].round
        if round is None:
            return sent
        if rounds >= MOST_ROUNDS:
            raise ProtocolBroken(request.server, f"it asked for input {MOST_ROUNDS} times without an end")
        assert request.deadline is not None
        kept: dict[str, Json] = {
            "state": None if round.state is None else round.state.decode(),
            "forms": {key: (form.message, form.schema) for key, form in round.forms.items()},
            "left": max(0.0, request.deadline - asyncio.get_running_loop().time()),
            "rounds": rounds + 1,
        }
        if len(dumps(kept)) > _MOST_KEPT:
            raise ProtocolBroken(request.server, "its questions and their state are too large to be passed on")
        id = self._stay(_Stay(errand, None, None))
        call.need_all(_asks(id, round), {_KEPT: {"id": id, **kept}}, partial(self._give_up, id, _GIVEN_UP))
        raise AssertionError("these questions are new, so they go out")

    # --- what waits

    def _stay(self, stay: _Stay) -> str:
        if len(self._stays) >= _MOST_WAITING:
            self._give_up(next(iter(self._stays)), _TIMED_OUT)
        id = f"{self._run}-{token_hex(8)}"
        self._stays[id] = stay
        stay.timer = asyncio.get_running_loop().call_later(self._seconds, self._give_up, id, _TIMED_OUT)
        return id

    def _drop(self, id: str) -> _Stay | None:
        stay = self._stays.pop(id, None)
        if stay is not None and stay.timer is not None:
            stay.timer.cancel()
        return stay

    def _give_up(self, id: str, code: str) -> None:
        """No answer will come: the server is told that its call is withdrawn, where it still waits."""
        stay = self._drop(id)
        if stay is not None:
            if stay.parked is not None:
                stay.parked.task.cancel()
            stay.errand.end_unheard(code)


async def _run(send: Send, request: Forwarded) -> Sent:
    return await send(request)


def ask_of(form: Form) -> Ask:
    return Ask("elicitation/create", {"message": form.message, "requestedSchema": form.schema})


def _names(id: str, round: Round) -> dict[str, str]:
    """Under which name each question goes to the client: one that it cannot know before."""
    return {f"{id}-{number}": key for number, key in enumerate(round.open_forms)}


def _asks(id: str, round: Round) -> dict[str, Ask]:
    return {name: ask_of(round.forms[key]) for name, key in _names(id, round).items()}


def _lost(tool: str) -> ToolError:
    next = f'Look at what it changed before you call "{tool}" again.'
    problem = f'The question of "{tool}" is no longer open; the call may still have taken effect.'
    return ToolError(f"{problem} {next}", code="input_lost", next=next, problem=problem)
