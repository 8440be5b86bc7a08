"""What each client sees: the hub's exit criteria about lists, modes and loading."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.catalogue import ALL, ALWAYS, DEFAULT, DEFERRED, count, toolsets
from tests.serving.product.conftest import Connect, refusal_of, text_of
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.serving.catalog.load import load


async def test_by_default_at_most_forty_tools_are_listed(connect: Connect) -> None:
    assert len(await (await connect("cursor")).names()) == DEFAULT <= 40


async def test_toolsets_choose_what_is_listed(connect: Connect) -> None:
    names = await (await connect("cursor", "--toolsets", "tax")).names()
    assert len(names) == ALWAYS + count("tax")
    assert "get_tax_lots" in names
    assert "list_trades" not in names


async def test_all_toolsets_list_every_tool_once(connect: Connect) -> None:
    names = await (await connect("cursor", "--toolsets", "all")).names()
    assert len(names) == len(set(names)) == ALL


async def test_a_limit_that_is_exceeded_is_told_in_the_instructions(connect: Connect) -> None:
    client = await connect("cursor", "--toolsets", "all")
    assert f"{ALL} tools are listed and Cursor works best with at most 40" in client.opened["instructions"]


@pytest.mark.parametrize(("name", "mode"), [("claude-code", "anthropic"), ("Cline", "dynamic"), ("cursor", "static")])
async def test_the_mode_follows_the_client_name_and_diagnose_says_why(connect: Connect, name: str, mode: str) -> None:
    result = await (await connect(name)).call("zorivest_diagnose")
    assert result["structuredContent"]["client"]["mode"] == mode
    assert result["structuredContent"]["client"]["reason"]


async def test_an_anthropic_client_lists_everything_and_defers_what_is_not_core(connect: Connect) -> None:
    tools = await (await connect("claude-code")).tools()
    deferred = [tool for tool in tools if tool["_meta"].get("defer_loading")]
    assert (len(tools), len(deferred)) == (ALL, DEFERRED)
    assert sum("allowed_callers" in tool["_meta"] for tool in tools) == sum(spec.ptc for spec in load().tools)


async def test_every_tool_has_annotations(connect: Connect) -> None:
    tools = await (await connect("cline", "--toolsets", "all")).tools()
    hints = {tool["name"]: tool["annotations"] for tool in tools}
    assert len(hints) == ALL
    for name, given in hints.items():
        for hint in ("readOnlyHint", "destructiveHint", "idempotentHint"):
            assert type(given[hint]) is bool, (name, hint)
    assert {name for name, given in hints.items() if given["destructiveHint"]} == {
        *(spec.name for spec in load().tools if spec.annotations.destructive_hint),
        "call_tool",  # it can run any of them
    }
    assert not [name for name, given in hints.items() if given["destructiveHint"] and given["readOnlyHint"]]


async def test_loading_a_toolset_changes_the_list_and_tells_the_client_once_after_the_answer(connect: Connect) -> None:
    client = await connect("cline")
    result = await client.call("enable_toolset", toolset_name="tax")
    assert text_of(result).startswith(f'✅ Toolset "tax" enabled ({count("tax")} tools).')
    assert "get_tax_lots" in await client.names()
    assert [each["method"] for each in client.notifications] == ["notifications/tools/list_changed"]
    again = await client.call("enable_toolset", toolset_name="tax")
    assert text_of(again).startswith(f'{{"message":"Toolset \\"tax\\" is already loaded ({count("tax")} tools).')


async def test_toolsets_that_are_loaded_at_once_are_told_once(connect: Connect) -> None:
    client = await connect("cline")
    client._reader.cancel()
    for number, name in enumerate(("tax", "accounts", "behavioral")):
        asked = {"name": "enable_toolset", "arguments": {"toolset_name": name}}
        client.wire.send(orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": asked}))
    frames = [orjson.loads(await client.wire.receive()) for _ in range(4)]
    assert [frame["id"] for frame in frames[:3]] == [0, 1, 2]
    assert frames[3]["method"] == "notifications/tools/list_changed"
    client.wire.send(b'{"jsonrpc":"2.0","id":9,"method":"ping"}')
    assert orjson.loads(await client.wire.receive())["id"] == 9


@pytest.mark.parametrize(
    ("name", "revision", "repeated"),
    [
        ("cline", "2025-11-25", False),  # lists them at once
        ("claude-code", "2025-11-25", False),  # reads the structure
        ("Roo Code", "2025-11-25", True),  # never asks for a list again
        ("Roo Code", "2025-03-26", True),
        ("opencode", "2025-11-25", True),  # reads text alone, and its new list is a turn late
        ("opencode", "2026-07-28", True),  # reads text alone, and no list changes
        ("Visual Studio Code", "2026-07-28", False),
    ],
)
async def test_a_model_gets_the_definitions_of_what_it_loaded_one_way_or_another(
    connect: Connect, name: str, revision: str, repeated: bool
) -> None:
    client = await connect(name, "--toolsets", "default", revision=revision)
    result = await client.call("enable_toolset", toolset_name="tax")
    shown = orjson.loads(result["content"][1]["text"])
    assert ("tools" in shown) is repeated
    if repeated:
        assert [tool["name"] for tool in shown["tools"]][:2] == ["simulate_tax_impact", "estimate_tax"]
        assert all(tool["inputSchema"]["type"] == "object" for tool in shown["tools"])


async def test_a_client_that_declares_list_changes_is_told_that_its_list_is_new_now(connect: Connect) -> None:
    client = await connect("some-agent", capabilities={"tools": {"listChanged": True}})
    result = await client.call("enable_toolset", toolset_name="tax")
    assert result["structuredContent"]["message"].endswith("Tools are now available.")


@pytest.mark.parametrize(("name", "warned"), [("my-claude-wrapper", False), ("cursor", True), ("some-agent", True)])
async def test_a_limit_that_is_only_assumed_is_no_limit_of_an_anthropic_client(
    connect: Connect, name: str, warned: bool
) -> None:
    client = await connect(name, "--toolsets", "all")
    assert ("works best with at most 40" in client.opened["instructions"]) is warned


async def test_who_may_call_from_code_is_the_operators_word(connect: Connect) -> None:
    client = await connect("claude-code", "--allowed-callers", "code_execution_20260120,direct")
    callers = [tool["_meta"].get("allowed_callers") for tool in await client.tools()]
    assert [each for each in callers if each] == [["code_execution_20260120", "direct"]] * sum(
        spec.ptc for spec in load().tools
    )


async def test_a_list_that_one_session_changed_is_only_that_sessions(connect: Connect) -> None:
    one = await connect("cline")
    other = await connect("cline", beside=one)
    await one.call("enable_toolset", toolset_name="tax")
    assert "get_tax_lots" in await one.names()
    assert len(await other.names()) == DEFAULT
    assert len(one.notifications) == 1
    assert other.notifications == []


async def test_a_static_client_is_told_to_restart_and_how_to_do_without(connect: Connect) -> None:
    client = await connect("cursor")
    result = await client.call("enable_toolset", toolset_name="tax")
    assert text_of(result).startswith(
        "Dynamic tool loading is not supported by your IDE. Restart the MCP server with --toolsets "
        "trade-analytics,trade-planning,tax to include this category."
    )
    assert refusal_of(result)["code"] == "static_client"
    assert "call_tool" in refusal_of(result)["next"]
    assert client.notifications == []


async def test_in_the_modern_era_no_call_changes_a_list(connect: Connect) -> None:
    client = await connect("cline", revision="2026-07-28")
    before = await client.names()
    result = await client.call("enable_toolset", toolset_name="tax")
    assert len(result["structuredContent"]["tools"]) == count("tax")
    assert "call_tool" in text_of(result)
    assert await client.names() == before


async def test_an_unknown_toolset_is_named_and_the_nearest_offered(connect: Connect) -> None:
    client = await connect("cline")
    for tool in ("enable_toolset", "describe_toolset"):
        result = await client.call(tool, toolset_name="taxx")
        assert text_of(result) == (
            'Unknown toolset "taxx". Use list_available_toolsets to see available groups. Did you mean "tax"?'
        )
        assert refusal_of(result)["next"] == 'Did you mean "tax"?'


async def test_the_toolsets_are_nine_with_their_counts_and_sizes(connect: Connect) -> None:
    listed = (await (await connect("cline")).call("list_available_toolsets"))["structuredContent"]
    told = [
        tuple(entry[key] for key in ("name", "tool_count", "loaded", "always_loaded")) for entry in listed["toolsets"]
    ]
    assert told == [
        ("core", count("core"), True, True),
        ("discovery", count("discovery"), True, True),
        ("trade-analytics", count("trade-analytics"), True, False),
        ("trade-planning", count("trade-planning"), True, False),
        ("market-data", count("market-data"), False, False),
        ("accounts", count("accounts"), False, False),
        ("scheduling", count("scheduling"), False, False),
        ("tax", count("tax"), False, False),
        ("behavioral", count("behavioral"), False, False),
    ]
    assert listed["total_tools"] == sum(map(count, toolsets())), "a tool of two toolsets counts twice"
    assert all(entry["definition_bytes"] > 1000 for entry in listed["toolsets"])
    texts = {toolset.name: toolset.description for toolset in load().toolsets}
    assert {entry["name"]: entry["description"] for entry in listed["toolsets"]} == texts
    assert len(set(texts.values())) == 9


async def test_search_finds_what_is_not_listed_and_call_tool_runs_it(connect: Connect) -> None:
    client = await connect("cursor")
    found = (await client.call("tool_search", query="wash sale"))["structuredContent"]
    assert found["matches"][0]["name"] == "find_wash_sales"
    assert found["matches"][0]["listed"] is False
    expression = (await client.call("tool_search", query="^get_.*_estimate$", mode="regex"))["structuredContent"]
    assert [match["name"] for match in expression["matches"]] == ["get_quarterly_estimate"]
    described = await client.call("call_tool", name="describe_toolset", arguments={"toolset_name": "tax"})
    assert described["structuredContent"]["name"] == "tax"


async def test_a_known_tool_that_is_not_listed_can_be_called_by_name(connect: Connect) -> None:
    client = await connect("cursor", "--tools", "list_trades")
    assert "get_settings" in await client.names()
    assert "zorivest_service_logs" in await client.names()
    assert "get_expectancy_metrics" not in await client.names()
    assert "trade_count" in (await client.call("get_expectancy_metrics"))["structuredContent"]


async def test_a_name_outside_the_catalogue_is_a_protocol_error(connect: Connect) -> None:
    client = await connect("cursor")
    answer = await client.request("tools/call", {"name": "no_such_tool", "arguments": {}})
    assert answer["error"]["code"] == -32602


async def test_call_tool_names_the_nearest_tool_and_never_calls_itself(connect: Connect) -> None:
    client = await connect("cursor")
    assert "get_tax_lots" in refusal_of(await client.call("call_tool", name="get_tax_lot", arguments={}))["next"]
    assert refusal_of(await client.call("call_tool", name="call_tool", arguments={}))["code"] == "recursion"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_trades", {"limit": "many"}),
        ("create_trade", {"exec_id": "X"}),
        ("get_tax_lots", {"no_such_input": 1}),
        ("simulate_tax_impact", {"ticker": "SPY", "action": "HOLD", "quantity": 1, "price": 1, "account_id": "A"}),
    ],
)
async def test_call_tool_checks_arguments_as_a_direct_call_does(
    connect: Connect, name: str, arguments: dict[str, Any]
) -> None:
    client = await connect("cursor")
    direct = await client.call(name, **arguments)
    through = await client.call("call_tool", name=name, arguments=arguments)
    assert refusal_of(through) == refusal_of(direct)
    assert refusal_of(through)["code"] == "invalid_arguments"
    assert text_of(through) == text_of(direct)
    called = (await client.call("zorivest_diagnose", verbose=True))["structuredContent"]["metrics"]["per_tool"]
    assert name not in called, "a call that does not fit asks no guard and is not one of the tool's"


async def test_read_only_hides_and_refuses_what_writes(connect: Connect) -> None:
    client = await connect("cline", "--read-only")
    names = await client.names()
    assert "create_trade" not in names
    assert "zorivest_emergency_stop" in names
    direct = await client.call("update_settings", settings={"ui.theme": "dark"})
    through = await client.call("call_tool", name="update_settings", arguments={"settings": {"ui.theme": "dark"}})
    assert refusal_of(direct)["code"] == refusal_of(through)["code"] == "read_only"


async def test_an_excluded_tool_is_gone_from_lists_search_and_calls(connect: Connect) -> None:
    client = await connect("cline", "--exclude-tools", "get_settings")
    assert "get_settings" not in await client.names()
    found = (await client.call("tool_search", query="get_settings", limit=20))["structuredContent"]
    assert "get_settings" not in [match["name"] for match in found["matches"]]
    assert refusal_of(await client.call("get_settings"))["code"] == "excluded"


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--toolsets", "taxes"), 'did you mean "tax"?'),
        (("--tools", "list_trade"), 'did you mean "list_trades"?'),
        (("--exclude-tools", "get_setings"), 'did you mean "get_settings"?'),
    ],
)
async def test_a_mistyped_name_stops_the_start_with_the_nearest_one(
    connect: Connect, options: tuple[str, ...], hint: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        await connect("cline", *options)
    assert hint in str(refused.value)


async def test_arguments_that_do_not_fit_name_the_field_and_what_is_allowed(connect: Connect) -> None:
    result = await (await connect("cline")).call("tool_search", query="x", limit=99)
    assert refusal_of(result)["code"] == "invalid_arguments"
    assert "limit" in text_of(result)
    assert "20" in text_of(result)
    mistyped = text_of(await (await connect("cline")).call("tool_search", query="x", limitt=9))
    assert "did you mean limit? A call of the right form" in mistyped
