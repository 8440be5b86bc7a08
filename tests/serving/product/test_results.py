"""What comes back: in full or in brief by the kind of client, always with what the next call needs."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from tests.serving.product.conftest import Client, Connect, text_of
from zorivest_rpc.serving.catalog.spec import required_fields

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
POLICY = {
    "name": "brief",
    "trigger": {"cron_expression": "0 8 * * 1-5"},
    "steps": [{"id": "quotes", "type": "fetch", "params": {"provider": "yahoo", "data_type": "quote"}}],
}


async def journal_with_something_in_it(connect: Connect) -> Client:
    client: Client = await connect("claude-code")
    number = id(client)
    exec_id = f"RES-{number}"
    arguments = {"exec_id": exec_id, "instrument": "QQQ STK", "action": "BOT", "quantity": 5, "price": 100.5}
    done = await client.call("create_trade", **arguments, account_id=f"ACC-{number}")
    assert not done.get("isError"), done
    done = await client.call("track_mistake", trade_exec_id=exec_id, category="EARLY_EXIT")
    assert not done.get("isError"), done
    done = await client.call("create_policy", policy_json={**POLICY, "name": f"brief-{number}"})
    assert not done.get("isError"), done
    return client


def fields(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: leaf for name, inner in value.items() for key, leaf in fields(inner, f"{prefix}.{name}").items()}
    if isinstance(value, list):
        return {
            key: leaf for place, inner in enumerate(value) for key, leaf in fields(inner, f"{prefix}.{place}").items()
        }
    return {prefix: value}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_static_client_gets_less_and_never_less_than_the_next_call_needs(
    connect: Connect, revision: str
) -> None:
    whole = await journal_with_something_in_it(connect)
    brief = await connect("cursor", revision=revision)
    for tool in ("list_trades", "list_policies"):
        full = fields((await whole.call(tool))["structuredContent"])
        less = fields((await brief.call(tool))["structuredContent"])
        assert set(less) < set(full), tool
        gone = {name.rpartition(".")[2] for name in set(full) - set(less)}
        assert not [name for name in gone if name in ("exec_id", "policy_id", "account_id", "trade_id")]
        assert "created_at" in gone
        required = required_fields(whole.journal.audience.specs[tool].output_schema)
        kept = [name for name in less if name.endswith(("_at", "_hash"))]
        assert not [name for name in kept if name.rpartition(".")[2] not in required], tool
        for name, value in full.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and ".policy_json." not in name:
                assert less[name] == value, f"{tool}: a number was lost: {name}"


async def test_a_policy_seen_in_brief_can_be_named_in_the_next_call(connect: Connect) -> None:
    await journal_with_something_in_it(connect)
    brief = await connect("cursor")
    listed = (await brief.call("list_policies"))["structuredContent"]
    ids = [value for name, value in fields(listed).items() if name.endswith(("policy_id", ".id")) and value]
    assert ids
    history = await brief.call("get_pipeline_history", policy_id=str(ids[0]))
    assert not history.get("isError"), history


@pytest.mark.parametrize("name", ["cursor", "claude-code", "cline"])
async def test_text_and_structure_are_the_same_object(connect: Connect, name: str) -> None:
    client = await connect(name)
    result = await client.call("list_market_providers")
    assert orjson.loads(text_of(result)) == result["structuredContent"]
    assert isinstance(result["structuredContent"]["items"], list)


async def test_a_dynamic_client_of_a_tight_budget_gets_the_brief_form_by_its_trait(connect: Connect) -> None:
    whole = await journal_with_something_in_it(connect)
    assert INSTANT.search(text_of(await whole.call("list_trades")))
    profiles = whole.journal.audience.definitions.clients.clients
    concise = [client for client in profiles if getattr(client.traits, "compression", None) == "concise"]
    for client in concise:
        other = await connect((*client.names, *client.prefixes)[0])
        assert "created_at" not in text_of(await other.call("list_trades")), client.id


async def test_a_refusal_has_one_shape_whoever_refuses(connect: Connect) -> None:
    client = await connect("Roo Code", "--exclude-tools", "get_log_settings")
    refused = [
        await client.call("tool_search", query="x", limit=99),
        await client.call("get_log_settings"),
        await client.call("call_tool", name="no_such", arguments={}),
        await client.call("enable_toolset", toolset_name="nope"),
        await client.call("sync_broker", broker_id="b"),
        await client.call("get_settings", key="no.such.setting"),
        await client.call("import_broker_csv", file_path="/etc/passwd", account_id="a"),
    ]
    for result in refused:
        assert result["isError"] is True
        error = result["_meta"]["com.zorivest/error"]
        assert error["class"], error
        assert error["code"], error
        assert error.get("next"), result
        assert "structuredContent" not in result
        assert text_of(result).strip()
