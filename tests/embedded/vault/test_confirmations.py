"""Confirmation tokens: the backend makes them, and keeps nothing; the MCP server binds and spends them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from ..conftest import Caller


async def test_a_token_says_what_it_is_for_and_how_long(admin: Caller) -> None:
    body = {"action": "delete_trade", "params_summary": "Delete trade 7"}
    answer = await admin.expect(201, "POST", "/confirmation-tokens", {**body, "params_hash": "abc"})
    assert re.fullmatch(r"ctk_[A-Za-z0-9_-]{22}", answer["token"])
    assert (answer["action"], answer["params_summary"], answer["expires_in_seconds"]) == (*body.values(), 60)
    assert answer["expires_at"].endswith("+00:00")
    left = datetime.fromisoformat(answer["expires_at"]) - datetime.now(UTC)
    assert timedelta(0) < left <= timedelta(seconds=60)


async def test_every_token_is_another(admin: Caller) -> None:
    answers = [await admin.expect(201, "POST", "/confirmation-tokens", {"action": "create_trade"}) for _ in range(20)]
    assert len({answer["token"] for answer in answers}) == 20


async def test_a_token_is_for_an_action_and_a_session(admin: Caller, anybody: Caller) -> None:
    longest = {"action": "a" * 100, "params_summary": "s" * 2000, "params_hash": "h" * 200}
    assert (await admin.expect(201, "POST", "/confirmation-tokens", longest))["params_summary"] == "s" * 2000
    for body in ({}, {"action": ""}, *({**longest, name: text + "x"} for name, text in longest.items())):
        await admin.expect(422, "POST", "/confirmation-tokens", body)
    await admin.expect(422, "POST", "/confirmation-tokens", {**longest, "params_hash": ""})
    await admin.expect(201, "POST", "/confirmation-tokens", {"action": "a", "params_hash": "h"})
    await anybody.expect(403, "POST", "/confirmation-tokens", {"action": "create_trade"})
