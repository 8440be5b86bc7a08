"""What strict schema converters send instead of leaving it out: null arguments, optional nulls and empty tokens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.product.conftest import Connect, refusal_of, text_of

REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
TRADE = {"instrument": "NUL", "action": "BOT", "quantity": 3, "price": 7.5, "account_id": "NULLS"}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_null_arguments_are_no_arguments(connect: Connect, revision: str) -> None:
    client = await connect(revision=revision)
    answer = await client.request("tools/call", {"name": "list_brokers", "arguments": None})
    assert "isError" not in answer["result"]
    inner = await client.call("call_tool", name="list_brokers", arguments=None)
    assert inner["structuredContent"] == answer["result"]["structuredContent"]
    missing = await client.request("tools/call", {"name": "get_tax_lots", "arguments": None})
    assert "account_id: missing" in text_of(missing["result"])


@pytest.mark.parametrize("through", ["directly", "through call_tool"])
async def test_an_optional_null_counts_as_absent(connect: Connect, through: str) -> None:
    client = await connect()

    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        if through == "directly":
            return await client.call(name, **arguments)  # type: ignore[no-any-return]
        return await client.call("call_tool", name=name, arguments=arguments)  # type: ignore[no-any-return]

    plain = await call("get_round_trips")
    nulls = await call("get_round_trips", account_id=None, status=None)
    assert nulls["structuredContent"] == plain["structuredContent"]
    required = await call("get_tax_lots", account_id=None)
    assert "account_id: given null" in text_of(required)
    unknown = await call("list_brokers", nothing=None)
    assert "nothing: no such argument (given null)" in text_of(unknown)


async def test_nulls_inside_an_object_and_a_list_count_as_absent(connect: Connect) -> None:
    client = await connect()
    step = {
        "id": "trades",
        "type": "query",
        "params": {"queries": [{"name": "count", "sql": "SELECT count(*) AS n FROM trades"}]},
        "skip_if": None,
        "timeout": None,
    }
    policy = {"name": "nulls", "trigger": {"cron_expression": "0 8 * * 1", "timezone": None}, "steps": [step]}
    made = await client.call("create_policy", policy_json=policy)
    assert not made.get("isError"), text_of(made)
    assert made["structuredContent"]["name"] == "nulls"


async def test_null_in_a_free_value_stays_null(connect: Connect) -> None:
    client = await connect()
    result = await client.call("update_settings", settings={"ui.theme": None})
    assert "ui.theme: given null" in text_of(result)


@pytest.mark.parametrize("empty", ["", None], ids=["empty", "null"])
async def test_an_empty_token_is_no_token(connect: Connect, empty: str | None) -> None:
    client = await connect("roo-code")
    refused = await client.call("create_trade", exec_id="NULL-1", **TRADE, confirmation_token=empty)
    assert refusal_of(refused)["code"] == "confirmation_missing"


async def test_a_token_fetched_for_arguments_with_nulls_serves_the_call_without_them(connect: Connect) -> None:
    client = await connect("roo-code")
    trade = {"exec_id": "NULL-2", **TRADE}
    given = {
        "action": "create_trade",
        "params_summary": "Buy 3 NUL",
        "arguments": {**trade, "confirmation_token": None},
    }
    token = (await client.call("get_confirmation_token", **given))["structuredContent"]["token"]
    done = await client.call("create_trade", **trade, confirmation_token=token)
    assert done["structuredContent"]["status"] == "created", text_of(done)


@pytest.mark.parametrize("category", ["EARLY_EXIT", "early_exit"])
async def test_a_mistake_is_tagged_in_either_spelling_and_stored_in_one(connect: Connect, category: str) -> None:
    client = await connect("cline", "--confirm", "never")
    exec_id = f"SPELT-{category}"
    await client.call("create_trade", exec_id=exec_id, **TRADE)
    stored = await client.call("track_mistake", trade_exec_id=exec_id, category=category)
    assert stored["structuredContent"]["category"] == "early_exit", text_of(stored)
    inner = await client.call(
        "call_tool", name="track_mistake", arguments={"trade_exec_id": exec_id, "category": "FOMO_ENTRY"}
    )
    assert inner["structuredContent"]["category"] == "fomo_entry"
    mixed = await client.call("track_mistake", trade_exec_id=exec_id, category="Early_Exit")
    assert 'category: given "Early_Exit"; it must be one of "early_exit"' in text_of(mixed)


async def test_a_prompt_takes_nulls_as_tools_do(connect: Connect) -> None:
    client = await connect()
    listed = (await client.request("prompts/list", {}))["result"]["prompts"]
    free = next(each for each in listed if not any(one["required"] for one in each.get("arguments", [])))
    plain = await client.request("prompts/get", {"name": free["name"]})
    nulls = {one["name"]: None for one in free.get("arguments", [])}
    for given in (None, nulls):
        answer = await client.request("prompts/get", {"name": free["name"], "arguments": given})
        assert answer["result"] == plain["result"]
