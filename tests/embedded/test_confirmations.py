"""Confirmation tokens: one action, one session, one minute, one use."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from zorivest_rpc.embedded.confirmations import ACTIONS, Confirmations

from .conftest import Caller, Clock


async def issue(caller: Caller, action: str = "create_trade", **more: Any) -> str:
    answer = await caller.expect(201, "POST", "/confirmation-tokens", {"action": action, **more})
    token: str = answer["token"]
    return token


async def consume(caller: Caller, token: str, action: str = "create_trade", **more: Any) -> Any:
    answer = await caller.expect(
        200, "POST", "/confirmation-tokens/consume", {"token": token, "action": action, **more}
    )
    assert answer["valid"] == (answer["reason"] == "ok")
    return answer["reason"]


async def test_a_token_says_what_it_is_for_and_how_long(admin: Caller) -> None:
    body = {"action": "delete_trade", "params_summary": "Delete trade 7"}
    answer = await admin.expect(201, "POST", "/confirmation-tokens", body)
    assert re.fullmatch(r"ctk_[A-Za-z0-9_-]{22}", answer["token"])
    assert (answer["action"], answer["params_summary"], answer["expires_in_seconds"]) == (*body.values(), 60)
    assert answer["expires_at"].endswith("+00:00")


@pytest.mark.parametrize("action", sorted(ACTIONS))
async def test_every_destructive_action_can_be_confirmed(action: str, admin: Caller) -> None:
    assert await consume(admin, await issue(admin, action), action) == "ok"


def test_every_gated_tool_and_every_destructive_route_can_be_confirmed() -> None:
    tools = Path(__file__).resolve().parents[2] / "schemas" / "tools"
    gated = set()
    for path in tools.glob("*/*.json"):
        tool = json.loads(path.read_text(encoding="utf-8"))
        if tool.get("confirm") is True or "confirm_above" in tool:
            gated.add(tool["name"])
    routes = {"delete_account", "delete_all_trades", "delete_trade", "factory_reset", "revoke_api_key"}
    assert gated | routes == ACTIONS
    assert len(gated) >= 7


async def test_an_action_that_needs_no_confirmation_is_refused(admin: Caller) -> None:
    refused = await admin.expect(400, "POST", "/confirmation-tokens", {"action": "list_trades"})
    assert refused["error"] == "unknown_destructive_action"


async def test_a_token_works_once(admin: Caller) -> None:
    token = await issue(admin)
    assert [await consume(admin, token) for _ in range(2)] == ["ok", "used"]


async def test_of_many_concurrent_attempts_one_succeeds(admin: Caller) -> None:
    for _ in range(3):
        token = await issue(admin)
        reasons = await asyncio.gather(*(consume(admin, token) for _ in range(30)))
        assert sorted(reasons) == ["ok"] + ["used"] * 29


async def test_a_wrong_attempt_does_not_spend_the_token(admin: Caller, api_key: str) -> None:
    token = await issue(admin, params_hash="abc")
    other = await Caller(admin.client).unlock(api_key)
    assert await consume(other, token, params_hash="abc") == "wrong_session"
    assert await consume(admin, token, "sync_broker", params_hash="abc") == "wrong_action"
    assert await consume(admin, token, params_hash="abd") == "wrong_params"
    assert await consume(admin, token) == "wrong_params"
    assert await consume(admin, token, params_hash="abc") == "ok"


async def test_a_token_without_parameters_is_bound_to_the_rest_only(admin: Caller) -> None:
    assert await consume(admin, await issue(admin), params_hash="whatever") == "ok"


async def test_a_token_ends_after_a_minute(admin: Caller, clock: Clock) -> None:
    token = await issue(admin)
    clock.now += 59
    late = await issue(admin)
    clock.now += 1
    assert await consume(admin, token) == "expired"
    assert await consume(admin, late) == "ok"
    clock.now += 60
    await issue(admin)  # sweeps
    assert await consume(admin, late) == "unknown"


async def test_an_invented_token_is_unknown(admin: Caller) -> None:
    assert await consume(admin, "ctk_invented") == "unknown"


async def test_locking_the_database_withdraws_every_token(admin: Caller, api_key: str) -> None:
    token = await issue(admin)
    await admin.expect(200, "POST", "/auth/lock")
    again = await Caller(admin.client).unlock(api_key)
    assert await consume(again, token) == "unknown"


@pytest.mark.parametrize(("others", "reason"), [(9_999, "ok"), (10_000, "unknown")])
def test_of_more_than_ten_thousand_tokens_the_oldest_goes_and_only_that(others: int, reason: str) -> None:
    held = Confirmations(lambda: 0.0)
    first, second = (held.issue("create_trade", "s", None) for _ in range(2))
    for _ in range(others - 1):
        held.issue("create_trade", "s", None)
    assert held.consume(first, "create_trade", "s", None) == reason
    assert held.consume(second, "create_trade", "s", None) == "ok"
