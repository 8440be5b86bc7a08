"""The panic button: outside the guard, and never a claim that the backend did not make."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from msgspec import UNSET

from tests.serving.tools.stage import FakeBackend, Stage, Turn, kit, make_call, payload, refused
from zorivest_rpc.errors import BackendError, BackendUnreachable, OutcomeUnknown, ToolError
from zorivest_rpc.mcp.call import InputRequired, Outcome
from zorivest_rpc.mcp.protocol.capabilities import Capabilities
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.serving.tools.emergency import Emergency

LOCK, UNLOCK = "POST /mcp-guard/lock", "POST /mcp-guard/unlock"


STATUS = "GET /mcp-guard/status"
ACCEPTS = {"action": "accept", "content": {"confirm": True}}
RELEASES = {"action": "accept", "content": {"release": "UNLOCK"}}


def emergency(backend: FakeBackend, *seen: Any, desktop: bool = True, **options: Any) -> Emergency:
    consent = Confirmation({}, lambda call: True).answer_to
    return Emergency(kit(backend, desktop=desktop), *seen, consent=consent, **options)


async def stop(backend: FakeBackend, *, desktop: bool = True, **arguments: Any) -> Outcome:
    return await emergency(backend, desktop=desktop).stop(make_call("zorivest_emergency_stop", **arguments))


async def unlock(backend: FakeBackend, *, desktop: bool = True) -> Outcome:
    call = make_call("zorivest_emergency_unlock", confirm="UNLOCK")
    return await emergency(backend, desktop=desktop).unlock(call)


async def test_a_stop_locks_the_guard_and_names_both_ways_back() -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}})
    outcome = await stop(backend, reason="broker sync keeps repeating")
    found = payload(outcome)
    assert (found["locked"], found["reason"]) == (True, "broker sync keeps repeating")
    assert "A person" not in found["message"]
    assert "broker sync keeps repeating" in found["message"]
    assert "zorivest_emergency_unlock" in found["message"]
    assert "MCP Guard" in found["message"]
    assert backend.asked[0].body == {"reason": "broker sync keeps repeating"}
    assert outcome.meta is not None
    assert outcome.meta["com.zorivest/receipt"]["guard"] == "exempt"


@pytest.mark.parametrize(
    ("given", "sent"),
    [({}, "agent_self_lock"), ({"reason": "  "}, "agent_self_lock"), ({"reason": "x" * 300}, "x" * 100)],
)
async def test_the_reason_has_a_default_and_a_longest_form(given: dict[str, Any], sent: str) -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}})
    await stop(backend, **given)
    assert backend.asked[0].body == {"reason": sent}


async def test_a_stop_may_be_repeated_on_the_way_but_an_unlock_may_not() -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}, UNLOCK: {"is_locked": False}})
    await stop(backend)
    await unlock(backend)
    assert [asked.repeatable for asked in backend.asked if asked.method == "POST"] == [True, False]


async def test_neither_waits_until_the_backend_is_taken_to_be_back() -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}, UNLOCK: {"is_locked": False}})
    await stop(backend)
    await unlock(backend)
    assert all(asked.urgent for asked in backend.asked)


@pytest.mark.parametrize("failure", [BackendUnreachable("down"), refused(403, "No session."), OutcomeUnknown("lost")])
async def test_a_request_that_failed_is_no_success(failure: ToolError) -> None:
    backend = FakeBackend({LOCK: failure, UNLOCK: failure})
    for act in (stop, unlock):
        with pytest.raises(type(failure)):
            await act(backend)


@pytest.mark.parametrize("answer", [None, {}, [], "locked", {"is_locked": None}, {"is_locked": "true"}])
async def test_an_answer_that_does_not_say_is_no_success(answer: Any) -> None:
    backend = FakeBackend({LOCK: Turn(answer), UNLOCK: Turn(answer)})
    for act in (stop, unlock):
        with pytest.raises(BackendError) as failed:
            await act(backend)
        assert failed.value.code == "bad_answer"


async def test_a_guard_that_stays_as_it_was_is_an_error() -> None:
    backend = FakeBackend({LOCK: {"is_locked": False}, UNLOCK: {"is_locked": True}})
    for desktop, lock, release in (
        (True, "Stop the backend, or lock it in the desktop app", "Unlock it in the desktop app"),
        (False, "Stop the backend.", "Try again; "),
    ):
        with pytest.raises(ToolError, match=f"NOT stopped. {lock}") as failed:
            await stop(backend, desktop=desktop)
        assert failed.value.code == "still_unlocked"
        with pytest.raises(ToolError, match=f"still locked .* {release}") as failed:
            await unlock(backend, desktop=desktop)
        assert failed.value.code == "still_locked"


async def test_watchers_hear_of_what_became_of_the_lock_and_of_nothing_that_did_not() -> None:
    found: list[bool] = []
    for answers in ({LOCK: {"is_locked": True}, UNLOCK: {"is_locked": False}}, {LOCK: {"is_locked": False}}, {}):
        tool = emergency(FakeBackend(answers), lambda call, locked: found.append(locked))
        for act, call in (
            (tool.stop, make_call("zorivest_emergency_stop")),
            (tool.unlock, make_call("zorivest_emergency_unlock", confirm="UNLOCK")),
        ):
            with suppress(ToolError):
                await act(call)
    assert found == [True, False]


async def test_a_lost_answer_names_the_tool_to_check_with() -> None:
    with pytest.raises(OutcomeUnknown, match="Check with zorivest_diagnose"):
        await unlock(FakeBackend({UNLOCK: OutcomeUnknown("No answer.")}))


async def test_unlocking_sends_no_body_and_looks_at_the_state() -> None:
    backend = FakeBackend({UNLOCK: {"is_locked": False}})
    assert "unlocked" in payload(await unlock(backend))["message"]
    assert backend.paths() == [STATUS, UNLOCK]
    assert not backend.asked[1].body


async def test_a_client_stops_and_unlocks_while_the_guard_refuses_everything_else() -> None:
    state = {LOCK: {"is_locked": True}, UNLOCK: {"is_locked": False}}
    client = await Stage(FakeBackend({**state, "POST /mcp-guard/check": {"allowed": False, "reason": "x"}})).connect()
    assert "isError" not in await client.call("zorivest_emergency_stop", reason="manual")
    blocked = await client.call("get_log_settings")
    assert "MCP guard blocked" in blocked["content"][0]["text"]
    assert "isError" not in await client.call("zorivest_emergency_unlock", confirm="UNLOCK")


async def test_unlocking_needs_the_exact_word() -> None:
    stage = Stage(FakeBackend({UNLOCK: {"is_locked": False}}))
    answer = await (await stage.connect()).call("zorivest_emergency_unlock", confirm="unlock")
    assert answer["isError"] is True
    assert stage.backend.asked == []


async def test_a_stop_says_whether_it_will_outlive_the_backend() -> None:
    for saved, told in ((True, False), (False, True)):
        found = payload(await stop(FakeBackend({LOCK: {"is_locked": True, "locked_by": "tool", "is_saved": saved}})))
        assert (found["saved"], "free some space" in found["message"]) == (saved, told)
    assert "saved" not in payload(await stop(FakeBackend({LOCK: {"is_locked": True}})))


async def test_a_stop_on_a_persons_stop_does_not_offer_the_tool_as_a_way_back() -> None:
    for desktop in (True, False):
        backend = FakeBackend({LOCK: {"is_locked": True, "locked_by": "person"}})
        message = payload(await stop(backend, desktop=desktop))["message"]
        assert "zorivest_emergency_unlock" not in message
        assert "zorivest-rpc unlock" in message
        assert ("in the desktop app" in message) is desktop
        assert message.endswith(" A person had locked it before, and only a person can release it.")


# --- whose lock it is


class Locked:
    """A guard that is locked, and a client that may be able to show forms."""

    def __init__(self, by: str | None, *, elicits: bool, **options: bool) -> None:
        self.status = {"is_locked": True, "lock_reason": "why", "locked_by": by, "locked_at": "T1"}
        self.backend = FakeBackend({STATUS: self.status, UNLOCK: {"is_locked": False}})
        self.tool = emergency(self.backend, **options)
        self._elicits = elicits
        self.answers: dict[str, Any] = {}

    async def call(self) -> Outcome:
        call = make_call("zorivest_emergency_unlock", confirm="UNLOCK")
        call.session.capabilities = Capabilities(elicitation_form=self._elicits)
        call.answers = self.answers
        return await self.tool.unlock(call)

    async def question(self) -> Any:
        with pytest.raises(InputRequired) as asked:
            await self.call()
        ((key, question),) = asked.value.asks.items()
        self.key = key
        return question.params

    @property
    def sent(self) -> list[Any]:
        return [asked.body for asked in self.backend.asked if asked.method == "POST"]


async def test_a_persons_stop_is_not_released_by_the_tool_alone() -> None:
    locked = Locked("person", elicits=False)
    with pytest.raises(ToolError, match="only a person can unlock it") as refused:
        await locked.call()
    assert (refused.value.code, locked.sent) == ("locked_by_person", [])


@pytest.mark.parametrize("by", ["tool", "rate", None])
async def test_any_other_lock_is_where_nobody_can_be_asked(by: str | None) -> None:
    locked = Locked(by, elicits=False)
    assert payload(await locked.call())["locked"] is False
    assert locked.sent == [UNSET]


async def test_a_person_releases_a_persons_stop_in_a_form_for_exactly_that_lock() -> None:
    locked = Locked("person", elicits=True)
    shown = await locked.question()
    assert "A person locked" in shown["message"]
    assert "reason: why; since T1" in shown["message"]
    assert shown["requestedSchema"]["properties"] == {
        "release": {
            "type": "string",
            "title": "Release",
            "description": "Type UNLOCK to let guarded tools run again.",
        }
    }
    locked.answers = {locked.key: RELEASES}
    assert payload(await locked.call())["locked"] is False
    assert locked.sent == [{"by": "person", "locked_at": "T1"}]


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept"},
        {"action": "accept", "content": []},
        {"action": "accept", "content": {"release": "no"}},
        {"action": "accept", "content": {"release": ""}},
        {"action": "accept", "content": {"release": True}},
        ACCEPTS,
    ],
)
async def test_any_other_answer_leaves_a_persons_stop(answer: Any) -> None:
    locked = Locked("person", elicits=True)
    await locked.question()
    locked.answers = {locked.key: answer}
    with pytest.raises(ToolError) as refused:
        await locked.call()
    assert (refused.value.code, locked.sent) == ("confirmation_declined", [])


@pytest.mark.parametrize(("by", "setter"), [("tool", "A tool"), ("rate", "The rate limit"), (None, "A tool")])
async def test_the_user_is_asked_for_any_other_lock_too_where_that_is_possible(by: str | None, setter: str) -> None:
    locked = Locked(by, elicits=True)
    shown = await locked.question()
    assert shown["message"].startswith(f"{setter} locked every guarded tool (reason: why; since T1).")
    assert shown["requestedSchema"]["properties"] == {
        "confirm": {"type": "boolean", "title": "Yes, unlock", "description": "Let guarded tools run again."}
    }
    locked.answers = {locked.key: {"action": "accept", "content": {"confirm": False}}}
    with pytest.raises(ToolError, match="did not release"):
        await locked.call()
    locked.answers = {}
    await locked.question()
    locked.answers = {locked.key: ACCEPTS}
    await locked.call()
    assert locked.sent == [UNSET]


async def test_an_operator_who_wants_nobody_asked_still_leaves_a_persons_stop_to_a_person() -> None:
    locked = Locked("tool", elicits=True, asks=False)
    assert payload(await locked.call())["locked"] is False
    assert locked.sent == [UNSET], "no person was asked, so none released it"
    await Locked("person", elicits=True, asks=False).question()


async def test_a_yes_releases_the_lock_that_was_shown_once_and_no_newer_one() -> None:
    locked = Locked("person", elicits=True)
    await locked.question()
    locked.answers = {locked.key: RELEASES}
    locked.status["locked_at"] = "T2"
    with pytest.raises(InputRequired):  # the answer was about another lock
        await locked.call()
    locked.status["locked_at"] = "T1"
    await locked.call()
    with pytest.raises(ToolError) as again:
        await locked.call()
    assert (again.value.code, len(locked.sent)) == ("confirmation_used", 1)


@pytest.mark.parametrize("reported", ["locked_by_person", "lock_changed"])
async def test_a_person_who_locks_in_between_is_not_overruled(reported: str) -> None:
    locked = Locked("tool", elicits=False)
    locked.backend.answers[UNLOCK] = refused(409, reported=reported)
    with pytest.raises(ToolError) as failed:
        await locked.call()
    assert failed.value.code == reported
