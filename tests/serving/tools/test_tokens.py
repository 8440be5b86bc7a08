"""get_confirmation_token asks the backend for a token, and the gate takes it once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.tools.stage import FakeBackend, Stage, fits, refused

ISSUE = "POST /confirmation-tokens"
LOCK = "POST /mcp-guard/lock"


def stage(**answers: Any) -> Stage:
    return Stage(FakeBackend({ISSUE: {"token": "ctk_test123"}, LOCK: {"is_locked": True}, **answers}))


STOP = {"action": "zorivest_emergency_stop", "params_summary": "Lock all tools due to suspected loop"}


async def test_the_backend_is_asked_with_action_and_summary() -> None:
    on = stage()
    answer = await (await on.connect("cursor")).call("get_confirmation_token", **STOP)
    found = answer["structuredContent"]
    fits("get_confirmation_token", found)
    assert (found["token"], found["expires_in_seconds"]) == ("ctk_test123", 60)
    assert found["instruction"] == (
        "Pass this token as the confirmation_token parameter when calling zorivest_emergency_stop."
    )
    assert on.backend.paths() == [ISSUE]
    assert on.backend.asked[0].body == STOP


async def test_a_token_opens_the_gate_once() -> None:
    on = stage()
    client = await on.connect("cursor")
    missing = await client.call("zorivest_emergency_stop")
    assert missing["_meta"]["com.zorivest/error"]["code"] == "confirmation_missing"
    await client.call("get_confirmation_token", **STOP)
    assert "isError" not in await client.call("zorivest_emergency_stop", confirmation_token="ctk_test123")
    used = await client.call("zorivest_emergency_stop", confirmation_token="ctk_test123")
    assert used["_meta"]["com.zorivest/error"]["code"] == "confirmation_used"
    assert on.backend.paths().count(LOCK) == 1


async def test_a_token_is_good_for_sixty_seconds() -> None:
    on = stage()
    client = await on.connect("cursor")
    await client.call("get_confirmation_token", **STOP)
    on.clock.now += 60
    late = await client.call("zorivest_emergency_stop", confirmation_token="ctk_test123")
    assert late["_meta"]["com.zorivest/error"]["code"] == "confirmation_expired"


@pytest.mark.parametrize("action", ["list_trades", "no_such_tool", "call_tool"])
async def test_an_action_that_is_not_gated_is_refused_before_any_request(action: str) -> None:
    on = stage()
    answer = await (await on.connect("cursor")).call("get_confirmation_token", action=action, params_summary="x")
    assert answer["isError"] is True
    assert on.backend.asked == []


async def test_a_backend_that_fails_hands_out_no_token() -> None:
    on = stage(**{ISSUE: refused(500, "It failed.")})
    answer = await (await on.connect("cursor")).call("get_confirmation_token", **STOP)
    assert answer["isError"] is True
    assert "structuredContent" not in answer


async def test_tokens_can_be_fetched_while_the_guard_is_locked() -> None:
    on = stage(**{"POST /mcp-guard/check": {"allowed": False, "reason": "manual"}})
    assert "isError" not in await (await on.connect("cursor")).call("get_confirmation_token", **STOP)
