"""Only a clear yes lets a guarded call through."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.serving.catalog.test_contract import PROMISED
from tests.serving.middleware.fake import FakeBackend, Ran, make_call
from zorivest_rpc.errors import BackendError, BackendUnreachable, GuardLocked, OutcomeUnknown, ToolError
from zorivest_rpc.mcp.call import BecomeTask, Call, Handler, InputRequired, Outcome, fail, form, say
from zorivest_rpc.serving.backend.failures import explain_outage, no_answer, not_json, too_large, unreachable
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.middleware.guard import GuardLayer
from zorivest_rpc.serving.middleware.rounds import CountedRounds

CHECK = "/mcp-guard/check"
STATUS = "/mcp-guard/status"
DOWN = BackendUnreachable("The backend cannot be reached.")
Specs = Mapping[str, ToolSpec]


def answering(verdict: Any, **options: Any) -> FakeBackend:
    return FakeBackend({f"POST {CHECK}": verdict}, **options)


async def run(backend: FakeBackend, spec: ToolSpec, ran: Ran) -> Outcome:
    return await GuardLayer(lambda call: backend).layer(spec)(make_call(spec.name), ran)


@pytest.mark.parametrize("reason", ["ok", "guard_disabled"])
async def test_a_call_runs_when_the_guard_is_off_or_content(specs: Specs, reason: str) -> None:
    ran, backend = Ran(), answering({"allowed": True, "reason": reason})
    assert (await run(backend, specs["list_trades"], ran)).content == say("ok").content
    assert (ran.times, backend.count(CHECK)) == (1, 1)


@pytest.mark.parametrize("reason", ["manual", "rate_limit_exceeded"])
async def test_a_locked_guard_blocks_the_call(specs: Specs, reason: str) -> None:
    ran = Ran()
    with pytest.raises(GuardLocked) as blocked:
        await run(answering({"allowed": False, "reason": reason}), specs["create_trade"], ran)
    outcome = fail(blocked.value)
    assert outcome.is_error
    assert outcome.content[0]["text"] == (
        f"⛔ MCP guard blocked this call: {reason}. Unlock via GUI → Settings → MCP Guard, or via "
        "zorivest_emergency_unlock tool."
    )
    assert outcome.meta is not None
    assert outcome.meta["com.zorivest/error"]["code"] == "guard_blocked"
    assert ran.times == 0


@pytest.mark.parametrize("verdict", [None, {}, [], "yes", {"allowed": "true"}, {"allowed": 1}, {"allowed": None}])
async def test_an_answer_that_is_no_answer_is_no_permission(specs: Specs, verdict: Any) -> None:
    ran = Ran()
    with pytest.raises(GuardLocked, match="MCP guard blocked") as blocked:
        await run(answering(verdict), specs["list_trades"], ran)
    assert (blocked.value.code, ran.times) == ("guard_unavailable", 0)


@pytest.mark.parametrize("failure", [DOWN, OutcomeUnknown("No answer."), BackendError(500, "It failed.")])
async def test_a_guard_that_cannot_be_asked_fails_closed(specs: Specs, failure: Exception) -> None:
    ran = Ran()
    with pytest.raises(GuardLocked, match="MCP guard blocked this call: the guard could not be asked"):
        await run(answering(failure), specs["list_trades"], ran)
    assert ran.times == 0


@pytest.mark.parametrize(
    ("failure", "next"),
    [
        (unreachable("http://b", "refused"), "Start the backend or correct the API URL."),
        (unreachable("", "refused", found=True), "Call again: the embedded backend is started by itself."),
        (explain_outage("", 4.0, found=True), "Wait 4 s and call again."),
        (no_answer("http://b", "POST", "/mcp-guard/check", "within 10 s", unknown=False, late=True), "Try again."),
        (too_large("POST", "/mcp-guard/check", 200, 1 << 20), "Ask for less."),
        (not_json("http://b", "POST", "/mcp-guard/check", 200, "HTML", "r-1", unknown=False), "Check the API URL."),
    ],
)
async def test_a_guard_that_cannot_be_asked_gives_one_advice(specs: Specs, failure: ToolError, next: str) -> None:
    with pytest.raises(GuardLocked) as refused:
        await run(answering(failure), specs["list_trades"], Ran())
    assert refused.value.next == next
    before, _, after = refused.value.text.partition(next)
    assert before == f"⛔ MCP guard blocked this call: the guard could not be asked. {failure.problem} "
    assert after == ""


async def test_exactly_two_required_tools_run_while_the_backend_is_away(specs: Specs) -> None:
    allowed = set()
    for spec in specs.values():
        if spec.guarded:
            try:
                await run(answering(DOWN), spec, Ran())
                allowed.add(spec.name)
            except GuardLocked:
                pass
    assert allowed & PROMISED == {"zorivest_service_status", "zorivest_service_logs"}


@pytest.mark.parametrize(
    "verdict", [{"allowed": False, "reason": "manual"}, {}, BackendError(403, "locked"), BackendError(401, "no key")]
)
async def test_even_those_two_do_not_overrule_a_guard_that_answers(specs: Specs, verdict: Any) -> None:
    with pytest.raises(GuardLocked):
        await run(answering(verdict), specs["zorivest_service_status"], Ran())


def test_eight_required_tools_are_not_given_the_layer(specs: Specs) -> None:
    assert {spec.name for spec in specs.values() if not spec.guarded} & PROMISED == {
        "zorivest_emergency_stop",
        "zorivest_emergency_unlock",
        "zorivest_diagnose",
        "zorivest_launch_gui",
        "list_available_toolsets",
        "describe_toolset",
        "enable_toolset",
        "get_confirmation_token",
    }


# --- the question travels along


async def test_where_the_backend_offers_it_no_request_of_its_own_is_made(specs: Specs) -> None:
    backend, plain, along = FakeBackend(inline=True), Ran(), Ran()
    layer = GuardLayer(lambda call: backend).innermost(specs["list_trades"], along)
    await layer(make_call("list_trades"), plain)
    assert (plain.times, along.times, backend.count(CHECK)) == (0, 1, 0)


async def test_where_it_does_not_the_question_is_put_first(specs: Specs) -> None:
    backend, plain, along = FakeBackend(), Ran(), Ran()
    layer = GuardLayer(lambda call: backend).innermost(specs["list_trades"], along)
    await layer(make_call("list_trades"), plain)
    assert (plain.times, along.times, backend.count(CHECK)) == (1, 0, 1)


@pytest.mark.parametrize("verdict", [{"allowed": True}, {"allowed": False, "reason": "manual"}])
async def test_an_offer_that_vanishes_on_the_way_does_not_open_a_gap(specs: Specs, verdict: Any) -> None:
    backend = answering(verdict, inline=True)
    backend.inline = False  # what is known here is out of date
    plain = Ran()

    async def along(call: Call) -> Outcome:
        await backend.ask(Request("GET", "/trades", guard=True))
        return say("slipped through")

    layer = GuardLayer(lambda call: backend).innermost(specs["list_trades"], along)
    if verdict["allowed"]:
        assert (await layer(make_call("list_trades"), plain)).content == say("ok").content
    else:
        with pytest.raises(GuardLocked):
            await layer(make_call("list_trades"), plain)
    assert (backend.count(CHECK), backend.count("/trades")) == (1, 0)


# --- a call of several rounds


def asking(key: str = "confirm-1") -> Handler:
    """A handler that needs one answer."""

    async def handler(call: Call) -> Outcome:
        call.need(key, form("Go ahead?", {"confirm": {"type": "boolean"}}))
        return say("ok")

    return handler


YES = {"action": "accept", "content": {"confirm": True}}


class Rounds:
    """A guard, its layer around a handler that asks, and a backend that can be locked."""

    def __init__(self, spec: ToolSpec, status: Any = None, handler: Handler | None = None) -> None:
        self.now = 50_000.0
        self.backend = FakeBackend({f"GET {STATUS}": {"is_locked": False} if status is None else status})
        self.guard = GuardLayer(lambda call: self.backend, clock=lambda: self.now)
        self._layer, self._handler, self._name = self.guard.layer(spec), handler or asking(), spec.name

    async def run(self, answers: dict[str, Any] | None = None, **about: Any) -> Outcome:
        call = make_call(self._name, elicits=True, **about)
        call.answers = answers or {}
        return await self._layer(call, self._handler)

    async def ask(self, answers: dict[str, Any] | None = None, **about: Any) -> None:
        with pytest.raises(InputRequired):
            await self.run(answers, **about)

    def counted(self) -> tuple[int, int]:
        """How often the guard was asked, which counts, and how often it was looked at."""
        return self.backend.count(CHECK), self.backend.count(STATUS)


async def test_a_call_is_counted_before_its_user_is_asked_and_not_again_with_the_answer(specs: Specs) -> None:
    rounds = Rounds(specs["create_trade"])
    await rounds.ask()
    assert rounds.counted() == (1, 0)
    assert (await rounds.run({"confirm-1": YES})).content == say("ok").content
    assert rounds.counted() == (1, 1)


async def test_an_answer_pays_for_one_round_and_a_repetition_is_a_call_of_its_own(specs: Specs) -> None:
    rounds = Rounds(specs["create_trade"])
    await rounds.ask()
    for checks in (1, 2, 3):
        await rounds.run({"confirm-1": YES})
        assert rounds.backend.count(CHECK) == checks


@pytest.mark.parametrize(
    ("answers", "about"),
    [
        ({"confirm-2": YES}, {}),
        ({"confirm-1": YES}, {"session": "another"}),
        ({"confirm-1": YES}, {"principal": "another"}),
        ({}, {}),
    ],
)
async def test_an_answer_to_nothing_that_was_asked_here_is_counted(
    specs: Specs, answers: dict[str, Any], about: dict[str, Any]
) -> None:
    rounds = Rounds(specs["create_trade"])
    await rounds.ask()
    with suppress(InputRequired):
        await rounds.run(answers, **about)
    assert rounds.counted() == (2, 0)


async def test_a_question_of_one_tool_pays_for_no_other(specs: Specs) -> None:
    rounds = Rounds(specs["create_trade"])
    await rounds.ask()
    other = make_call("sync_broker", elicits=True)
    other.answers = {"confirm-1": YES}
    await rounds.guard.layer(specs["sync_broker"])(other, asking())
    assert rounds.counted() == (2, 0)


async def test_a_call_of_many_rounds_is_counted_once(specs: Specs) -> None:
    async def handler(call: Call) -> Outcome:
        for key in ("a", "b", "c"):
            call.need(key, form("?", {"confirm": {"type": "boolean"}}))
        return say("ok")

    rounds = Rounds(specs["create_trade"], handler=handler)
    answers: dict[str, Any] = {}
    for key in ("a", "b", "c"):
        await rounds.ask(answers)
        answers[key] = YES
    await rounds.run(answers)
    assert rounds.counted() == (1, 3)


async def test_of_questions_with_one_name_each_pays_for_one_round(specs: Specs) -> None:
    """Names of questions are a handler's choice; many calls may ask alike at once."""
    rounds = Rounds(specs["create_trade"])
    for _ in range(5):
        await rounds.ask()
    for _ in range(5):
        await rounds.run({"confirm-1": YES})
    assert rounds.counted() == (5, 5)
    await rounds.run({"confirm-1": YES})
    assert rounds.counted() == (6, 5)


async def test_a_call_that_becomes_a_task_is_counted_once(specs: Specs) -> None:
    async def handler(call: Call) -> Outcome:
        if not call.in_task:
            raise BecomeTask
        return say("ok")

    rounds = Rounds(specs["run_pipeline"], handler=handler)
    with pytest.raises(BecomeTask):
        await rounds.run()
    layer = rounds.guard.layer(specs["run_pipeline"])
    for counted in ((1, 1), (2, 1)):  # the second is a task of its own
        inside = make_call("run_pipeline")
        inside.in_task = True
        await layer(inside, handler)
        assert rounds.counted() == counted


@pytest.mark.parametrize(("later", "checks"), [(3599.9, 1), (3600.0, 2)])
async def test_after_an_hour_an_answer_is_a_new_call(specs: Specs, later: float, checks: int) -> None:
    rounds = Rounds(specs["create_trade"])
    await rounds.ask()
    rounds.now += later
    await rounds.run({"confirm-1": YES})
    assert rounds.backend.count(CHECK) == checks


@pytest.mark.parametrize(("others", "known"), [(9_999, True), (10_000, False)])
def test_what_is_remembered_of_open_questions_is_bounded(others: int, known: bool) -> None:
    rounds, first = CountedRounds(lambda: 0.0), make_call("create_trade")
    first.answers = {"first": YES}
    rounds.remember(first, ["first"])
    for number in range(others):
        rounds.remember(make_call("create_trade"), [f"q{number}"])
    assert rounds.take(first) is known
    for number in range(3):
        rounds.remember(make_call("create_trade"), [f"r{number}"])
    assert len(rounds) <= 10_001


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"is_locked": True, "lock_reason": "manual"}, "blocked this call: manual"),
        ({"is_locked": True, "lock_reason": None}, "blocked this call: locked"),
        (DOWN, "could not be asked"),
        (BackendError(500, "It failed."), "could not be asked"),
        ({}, "could not be understood"),
        ([], "could not be understood"),
        ({"is_locked": "no"}, "could not be understood"),
    ],
)
async def test_a_lock_that_was_set_while_the_user_thought_refuses_the_answered_call(
    specs: Specs, status: Any, words: str
) -> None:
    rounds = Rounds(specs["create_trade"], status)
    await rounds.ask()
    with pytest.raises(GuardLocked, match=words):
        await rounds.run({"confirm-1": YES})
    assert rounds.counted() == (1, 1)


async def test_a_guard_that_cannot_be_looked_at_is_asked(specs: Specs) -> None:
    rounds = Rounds(specs["create_trade"], BackendError(404, "No such route."))
    await rounds.ask()
    await rounds.run({"confirm-1": YES})
    assert rounds.counted() == (2, 1)


# --- who may unlock, and whose fault it was


@pytest.mark.parametrize(
    ("desktop", "ways"),
    [(True, 'GUI → Settings → MCP Guard, the console, or "zorivest-rpc unlock"'), (False, '"zorivest-rpc unlock"')],
)
async def test_a_persons_stop_does_not_name_the_tool_that_would_lift_another(
    specs: Specs, desktop: bool, ways: str
) -> None:
    backend = answering({"allowed": False, "reason": "night", "locked_by": "person"})
    guard = GuardLayer(lambda call: backend, desktop=lambda call: desktop)
    with pytest.raises(GuardLocked) as blocked:
        await guard.check(make_call("list_trades"))
    assert blocked.value.text == (
        f"⛔ MCP guard blocked this call: night. Only a person can unlock it: {ways} in a terminal."
    )
    assert "zorivest_emergency_unlock" not in f"{blocked.value.text} {blocked.value.next}"
    assert (blocked.value.code, blocked.value.locked_by) == ("guard_blocked", "person")


@pytest.mark.parametrize("locked_by", ["tool", "rate", None, 7])
async def test_any_other_lock_names_it(specs: Specs, locked_by: Any) -> None:
    backend = answering({"allowed": False, "reason": "x", "locked_by": locked_by})
    with pytest.raises(GuardLocked, match="zorivest_emergency_unlock"):
        await GuardLayer(lambda call: backend).check(make_call("list_trades"))


@pytest.mark.parametrize(
    ("status", "code"), [(401, "auth_failed"), (401, "no_api_key"), (403, "auth_failed"), (423, "auth_failed")]
)
async def test_a_key_that_is_not_taken_is_told_as_such_and_not_as_a_guard(specs: Specs, status: int, code: str) -> None:
    failure = BackendError(status, f"Auth failed ({status}): no.", code=code)
    for rounds in (Rounds(specs["create_trade"]), Rounds(specs["create_trade"], failure)):
        if rounds.backend.answers[f"GET {STATUS}"] is failure:
            await rounds.ask()
            answers = {"confirm-1": YES}
        else:
            rounds.backend.answers[f"POST {CHECK}"] = failure
            answers = {}
        with pytest.raises(BackendError) as refused:
            await rounds.run(answers)
        assert refused.value is failure


async def test_an_exchange_that_broke_is_a_guard_that_could_not_be_asked(specs: Specs) -> None:
    with pytest.raises(GuardLocked, match=r"could not be asked\. Auth failed"):
        await run(
            answering(BackendError(500, "Auth failed (500): x.", code="auth_failed")), specs["list_trades"], Ran()
        )


async def test_every_call_is_asked_for_anew(specs: Specs) -> None:
    verdicts = [{"allowed": True}, {"allowed": False, "reason": "manual"}]
    backend, ran = answering(lambda: verdicts.pop(0)), Ran()
    await run(backend, specs["list_trades"], ran)
    with pytest.raises(GuardLocked):
        await run(backend, specs["list_trades"], ran)
    assert ran.times == 1


# --- what others are told, and how the guard is asked


class Witness:
    """Keeps what a guard was found to be."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bool]] = []

    def __call__(self, call: Call, locked: bool) -> None:
        self.found.append((call.name, locked))


@pytest.mark.parametrize(
    ("verdict", "found"),
    [
        ({"allowed": True}, [("list_trades", False)]),
        ({"allowed": False, "reason": "manual"}, [("list_trades", True)]),
        ({"allowed": None}, []),
        (DOWN, []),
        (BackendError(500, "It failed."), []),
    ],
)
async def test_watchers_hear_what_the_guard_said_and_nothing_it_did_not_say(
    specs: Specs, verdict: Any, found: list[tuple[str, bool]]
) -> None:
    witness, backend = Witness(), answering(verdict)
    with suppress(GuardLocked):
        await GuardLayer(lambda call: backend, witness).layer(specs["list_trades"])(make_call("list_trades"), Ran())
    assert witness.found == found


async def test_watchers_hear_of_a_lock_that_was_found_by_looking(specs: Specs) -> None:
    witness = Witness()
    for locked in (False, True):
        backend = FakeBackend({f"GET {STATUS}": {"is_locked": locked}})
        with suppress(GuardLocked):
            await GuardLayer(partial(_always, backend), witness).look(make_call("list_trades"))
    assert witness.found == [("list_trades", True)]


async def test_a_refusal_that_came_back_with_the_call_is_told_like_any_other(specs: Specs) -> None:
    witness, plain = Witness(), Ran()
    along = Ran(GuardLocked("night", locked_by="person"))
    guard = GuardLayer(lambda call: FakeBackend(inline=True), witness, desktop=lambda call: False)
    with pytest.raises(GuardLocked) as blocked:
        await guard.innermost(specs["list_trades"], along)(make_call("list_trades"), plain)
    assert blocked.value.text == (
        '⛔ MCP guard blocked this call: night. Only a person can unlock it: "zorivest-rpc unlock" in a terminal.'
    )
    assert (witness.found, plain.times, along.times) == ([("list_trades", True)], 0, 1)


async def test_a_guard_that_could_not_be_asked_along_the_way_is_told_as_that(specs: Specs) -> None:
    witness, refusal = Witness(), GuardLocked.without_answer("It failed.")
    guard = GuardLayer(lambda call: FakeBackend(inline=True), witness)
    with pytest.raises(GuardLocked) as blocked:
        await guard.innermost(specs["list_trades"], Ran(refusal))(make_call("list_trades"), Ran())
    assert (blocked.value, witness.found) == (refusal, [])


@pytest.mark.parametrize("ask", ["look", "check"])
async def test_a_guard_that_is_away_refuses_whoever_does_not_say_otherwise(ask: str) -> None:
    backend = FakeBackend({f"POST {CHECK}": DOWN, f"GET {STATUS}": DOWN})
    guard = GuardLayer(lambda call: backend)
    with pytest.raises(GuardLocked, match="could not be asked"):
        await getattr(guard, ask)(make_call("list_trades"))
    await getattr(guard, ask)(make_call("list_trades"), runs_offline=True)


async def test_the_question_is_repeated_after_a_break_and_not_waited_for_without_end() -> None:
    backend = FakeBackend({f"GET {STATUS}": {"is_locked": False}})
    guard = GuardLayer(lambda call: backend)
    await guard.check(make_call("list_trades"))
    await guard.look(make_call("list_trades"))
    assert [(asked.method, asked.path, asked.repeatable, asked.timeout) for asked in backend.asked] == [
        ("POST", CHECK, True, 10.0),
        ("GET", STATUS, None, 10.0),
    ]


def _always(backend: FakeBackend, call: Call) -> FakeBackend:
    return backend
