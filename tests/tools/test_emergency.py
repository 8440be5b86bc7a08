"""The panic button: outside the guard, and never a claim that the backend did not make."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.stage import FakeBackend, Stage, Turn, kit, make_call, payload, refused
from zorivest_rpc.call import Outcome
from zorivest_rpc.errors import BackendError, BackendUnreachable, OutcomeUnknown, ToolError
from zorivest_rpc.tools.emergency import Emergency

LOCK, UNLOCK = "POST /mcp-guard/lock", "POST /mcp-guard/unlock"


async def stop(backend: FakeBackend, **arguments: Any) -> Outcome:
    return await Emergency(kit(backend)).stop(make_call("zorivest_emergency_stop", **arguments))


async def unlock(backend: FakeBackend) -> Outcome:
    return await Emergency(kit(backend)).unlock(make_call("zorivest_emergency_unlock", confirm="UNLOCK"))


async def test_a_stop_locks_the_guard_and_names_both_ways_back() -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}})
    outcome = await stop(backend, reason="broker sync keeps repeating")
    found = payload(outcome)
    assert found["reason"] == "broker sync keeps repeating"
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
async def test_the_reason_has_a_default_and_a_longest_form(given: dict[str, str], sent: str) -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}})
    await stop(backend, **given)
    assert backend.asked[0].body == {"reason": sent}


async def test_a_stop_may_be_repeated_on_the_way_but_an_unlock_may_not() -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}, UNLOCK: {"is_locked": False}})
    await stop(backend)
    await unlock(backend)
    assert [asked.repeatable for asked in backend.asked] == [True, False]


async def test_neither_waits_until_the_backend_is_taken_to_be_back() -> None:
    backend = FakeBackend({LOCK: {"is_locked": True}, UNLOCK: {"is_locked": False}})
    await stop(backend)
    await unlock(backend)
    assert [asked.urgent for asked in backend.asked] == [True, True]


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
    with pytest.raises(ToolError, match="NOT stopped") as failed:
        await stop(backend)
    assert failed.value.code == "still_unlocked"
    with pytest.raises(ToolError, match="still locked") as failed:
        await unlock(backend)
    assert failed.value.code == "still_locked"


async def test_a_lost_answer_names_the_tool_to_check_with() -> None:
    with pytest.raises(OutcomeUnknown, match="Check with zorivest_diagnose"):
        await unlock(FakeBackend({UNLOCK: OutcomeUnknown("No answer.")}))


async def test_unlocking_sends_no_body_and_looks_at_the_state() -> None:
    backend = FakeBackend({UNLOCK: {"is_locked": False}})
    assert "unlocked" in payload(await unlock(backend))["message"]
    assert not backend.asked[0].body


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
