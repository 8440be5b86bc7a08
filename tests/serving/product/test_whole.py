"""The whole journal through one client: every tool, resource, prompt and completion in front of a real backend."""

from __future__ import annotations

import base64
import io
import os
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from tests.catalogue import ALL, DEFAULT
from tests.pipe import converse
from tests.serving.product.conftest import Client, Connect, refusal_of, text_of
from tests.serving.product.http import serving
from zorivest_rpc.mcp.catalog.explain import example
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.modes.present import to_object

SPECS = {spec.name: spec for spec in (*load().tools, *load().meta_tools)}
NOT_HERE = {"zorivest_service_restart", "zorivest_launch_gui", "zorivest_emergency_stop", "call_tool"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "get_settings": {},
    "update_settings": {"settings": {"ui.theme": "dark"}},
    "create_trade": {
        "exec_id": "WHOLE-1",
        "instrument": "QQQ STK",
        "action": "BOT",
        "quantity": 5,
        "price": 100.5,
        "account_id": "WHOLE",
    },
    "calculate_position_size": {"balance": 10000, "entry": 100, "stop": 95, "target": 115},
    "create_trade_plan": {
        "ticker": "SPY",
        "direction": "LONG",
        "strategy_name": "gap",
        "entry": 10,
        "stop": 9,
        "target": 12,
        "conviction": "HIGH",
        "timeframe": "1d",
    },
    "track_mistake": {"trade_exec_id": "WHOLE-1", "category": "EARLY_EXIT"},
    "create_report": {
        "trade_id": "WHOLE-1",
        "setup_quality": "A",
        "execution_quality": "B",
        "followed_plan": True,
    },
    "describe_toolset": {"toolset_name": "tax"},
    "enable_toolset": {"toolset_name": "tax"},
    "get_round_trips": {},
    "get_sqn": {},
}
MUST_WORK = {name for name in ARGUMENTS if name != "create_report"} | {
    "list_trades",
    "list_brokers",
    "list_policies",
    "list_market_providers",
    "list_bank_accounts",
    "get_expectancy_metrics",
    "get_strategy_breakdown",
    "get_mistake_summary",
    "get_ytd_tax_summary",
    "get_account_review_checklist",
    "get_log_settings",
    "zorivest_diagnose",
    "zorivest_service_status",
    "zorivest_service_logs",
    "list_available_toolsets",
    "tool_search",
}


@pytest.fixture
async def client(connect: Connect) -> Client:
    client: Client = await connect("claude-code", "--toolsets", "all")
    return client


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_every_tool_answers_with_a_result_that_fits_or_a_refusal_that_helps(
    connect: Connect, revision: str
) -> None:
    client = await connect("claude-code", "--toolsets", "all", "--confirm", "never", revision=revision)
    first = ["create_trade", *(name for name in SPECS if name not in NOT_HERE | {"create_trade"})]
    for name in first:
        spec = SPECS[name]
        arguments = ARGUMENTS.get(name) or orjson.loads(example(spec.input_schema, {}) or b"{}")
        if name == "create_trade" and revision == "2026-07-28":
            arguments = {**arguments, "exec_id": "WHOLE-2", "price": 101.5}
        result = await client.call(name, **arguments)
        if result.get("isError"):
            error = refusal_of(result)
            assert error["code"] not in ("bad_result", "internal"), f"{name}: {text_of(result)}"
            twice = name in ("create_trade", "create_trade_plan") and revision == "2026-07-28"
            assert name not in MUST_WORK or twice, f"{name}: {text_of(result)}"
        elif spec.output_schema is not None:
            payload = result["structuredContent"]
            if spec.output_schema.get("type") == "array":
                payload = payload["items"]
            problems = [each.message for each in Draft202012Validator(spec.output_schema).iter_errors(payload)]
            assert problems == [], f"{name}: {problems[:3]}"


def png() -> str:
    from PIL import Image

    data = io.BytesIO()
    Image.new("RGB", (8, 6), (200, 30, 30)).save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


async def test_a_screenshot_goes_in_and_comes_back_as_an_image_and_as_a_resource(client: Client) -> None:
    trade = {**ARGUMENTS["create_trade"], "exec_id": "SHOT-1", "price": 99.25}
    assert not (await client.call("create_trade", **trade)).get("isError")
    attached = await client.call("attach_screenshot", trade_id="SHOT-1", image_base64=png(), caption="red")
    assert not attached.get("isError"), attached
    listed = (await client.call("get_trade_screenshots", trade_id="SHOT-1"))["structuredContent"]
    images = listed.get("items") or listed.get("images")
    image_id = images[0].get("image_id") or images[0]["id"]
    shown = await client.call("get_screenshot", image_id=image_id)
    assert [block["type"] for block in shown["content"]] == ["text", "image"]
    assert "red" in text_of(shown)
    read = (await client.request("resources/read", {"uri": f"zorivest://images/{image_id}"}))["result"]["contents"]
    assert read[0]["blob"] == shown["content"][1]["data"]


async def test_every_resource_can_be_read(client: Client) -> None:
    listed = (await client.request("resources/list", {}))["result"]["resources"]
    assert len(listed) == 4
    for resource in listed:
        answer = await client.request("resources/read", {"uri": resource["uri"]})
        assert orjson.loads(answer["result"]["contents"][0]["text"]), resource["uri"]
    one = await client.request("resources/read", {"uri": "zorivest://toolsets/tax"})
    assert len(orjson.loads(one["result"]["contents"][0]["text"])["tools"]) == 8


async def test_every_prompt_can_be_got(client: Client) -> None:
    prompts = (await client.request("prompts/list", {}))["result"]["prompts"]
    assert len(prompts) == 4
    for prompt in prompts:
        arguments = {each["name"]: "2026" if "year" in each["name"] else "SPY" for each in prompt.get("arguments", ())}
        got = (await client.request("prompts/get", {"name": prompt["name"], "arguments": arguments}))["result"]
        assert got["messages"], prompt["name"]


async def test_toolsets_tickers_and_accounts_are_completed(client: Client) -> None:
    trade = {**ARGUMENTS["create_trade"], "exec_id": "COMP-1", "instrument": "ZZTOP STK", "account_id": "COMPLETE-ME"}
    assert not (await client.call("create_trade", **trade)).get("isError")

    async def completed(ref: dict[str, str], name: str, value: str) -> list[str]:
        params = {"ref": ref, "argument": {"name": name, "value": value}}
        return (await client.request("completion/complete", params))["result"]["completion"]["values"]  # type: ignore[no-any-return]

    template = {"type": "ref/resource", "uri": "zorivest://toolsets/{toolset}"}
    assert await completed(template, "toolset", "tr") == ["trade-analytics", "trade-planning"]
    prompts = (await client.request("prompts/list", {}))["result"]["prompts"]
    asked = {each["name"]: prompt["name"] for prompt in prompts for each in prompt.get("arguments", ())}
    ticker = next(name for name in asked if "ticker" in name)
    assert await completed({"type": "ref/prompt", "name": asked[ticker]}, ticker, "ZZT") == ["ZZTOP"]
    account = next(name for name in asked if "account" in name)
    found = await completed({"type": "ref/prompt", "name": asked[account]}, account, "COMPLETE")
    assert found == ["COMPLETE-ME"]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--toolsets", "all"),
        ("--read-only",),
        ("--exclude-tools", "get_settings,create_trade"),
        ("--tools", "list_trades", "--read-only"),
    ],
)
@pytest.mark.parametrize("name", ["claude-code", "cline", "cursor"])
async def test_what_is_listed_may_be_called_and_what_may_not_is_not_listed(
    connect: Connect, name: str, options: tuple[str, ...]
) -> None:
    client = await connect(name, *options)
    names = set(await client.names())
    for tool, spec in SPECS.items():
        answer = await client.request("tools/call", {"name": tool, "arguments": {"\0": "never valid"}})
        code = refusal_of(answer["result"])["code"]
        if tool in names:
            assert code == "invalid_arguments", tool
        else:
            assert code in ("invalid_arguments", "excluded", "read_only"), tool
        limited = client.journal.audience.limits(_session()).refusal(spec) is not None
        assert limited == (code != "invalid_arguments"), tool
        assert not (limited and tool in names), tool


def _session() -> Any:
    from zorivest_rpc.mcp.protocol.revisions import LATEST_LEGACY
    from zorivest_rpc.mcp.protocol.session import Phase, Session

    return Session(LATEST_LEGACY, Phase.READY)


async def test_two_clients_of_one_server_are_served_in_their_own_ways(data_dir: Path) -> None:
    async with serving(data_dir) as served:
        for _ in range(2):
            for name, count in (("claude-code", ALL), ("cursor", DEFAULT)):
                assert len((await served.modern("tools/list", {}, name))["tools"]) == count
                assert len(await (await served.open(name)).names()) == count


async def test_arguments_are_checked_before_the_guard_is_asked_or_a_token_spent(connect: Connect) -> None:
    client = await connect("Roo Code")
    wanted = {"action": "sync_broker", "params_summary": "x"}
    token = (await client.call("get_confirmation_token", **wanted))["structuredContent"]["token"]
    assert refusal_of(await client.call("sync_broker", confirmation_token=token))["code"] == "invalid_arguments"
    before = (await client.call("zorivest_diagnose", verbose=True))["structuredContent"]
    assert "sync_broker" not in before["metrics"]["per_tool"], "a call that is not one is not measured as one"
    after = await client.call("sync_broker", broker_id="no-such-broker", confirmation_token=token)
    assert not refusal_of(after)["code"].startswith("confirmation_"), "the token was still good"


def test_the_list_is_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "claude-code", "version": "1"},
    }
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    lists = set()
    for seed in ("1", "2"):
        done = converse(
            [sys.executable, "-m", "zorivest_rpc", "stdio", "--api-url", "http://127.0.0.1:9"],
            *messages,
            env={**os.environ, "HOME": str(tmp_path), "PYTHONHASHSEED": seed},
        )
        assert done.code == 0
        lists.add(next(line for line in done.lines if orjson.loads(line).get("id") == 2))
    assert len(lists) == 1
    assert to_object(orjson.loads(lists.pop())["result"]["tools"])["items"]
