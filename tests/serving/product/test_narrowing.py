"""The headers of a request narrow what its client sees and may call, and never widen it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue import ALL, ALWAYS, DEFAULT, count
from tests.serving.product.conftest import refusal_of
from tests.serving.product.http import serving
from zorivest_rpc.serving.catalog.load import load


async def test_a_session_keeps_what_its_initialize_asked_for(data_dir: Path) -> None:
    async with serving(data_dir, "--toolsets", "all") as served:
        narrow = await served.open(X_MCP_Toolsets="tax")
        names = await narrow.names()
        assert len(names) == ALWAYS + count("tax")
        assert refusal_of(await narrow.call("list_trades"))["code"] == "narrowed"
        assert "zorivest_emergency_stop" in names, "the brake is always there"
        assert await narrow.names(X_MCP_Toolsets="all") == names, "a later header of the legacy era says nothing"
        assert len(await (await served.open()).names()) == ALL


async def test_what_a_session_asked_for_survives_a_restart(data_dir: Path, tmp_path: Path) -> None:
    async with serving(data_dir, state=tmp_path) as served:
        session = await served.open(X_MCP_Exclude_Tools="get_settings, list_trades", X_MCP_Readonly="true")
        before = await session.names()
        await session.call("enable_toolset", toolset_name="tax")
        loaded = await session.names()
    async with serving(data_dir, state=tmp_path) as again:
        after = session.on(again)
        assert await after.names() == loaded
        assert set(before) < set(loaded)
        assert "record_quarterly_tax_payment" not in loaded
        assert refusal_of(await after.call("get_settings"))["code"] == "excluded"
        assert refusal_of(await after.call("update_settings", settings={"ui.theme": "dark"}))["code"] == "read_only"


async def test_a_modern_request_is_narrowed_by_its_own_headers_alone(data_dir: Path) -> None:
    async with serving(data_dir, "--toolsets", "all") as served:
        listed = await served.modern("tools/list", {}, X_MCP_Tools="list_trades,get_tax_lots")
        names = [tool["name"] for tool in listed["tools"]]
        assert len(names) == ALWAYS + 2
        assert {"list_trades", "get_tax_lots"} < set(names)
        assert len((await served.modern("tools/list", {}))["tools"]) == ALL
        calling = {"name": "get_sqn", "arguments": {}}
        assert refusal_of(await served.modern("tools/call", calling, X_MCP_Tools="list_trades"))["code"] == "narrowed"
        through = {"name": "call_tool", "arguments": {"name": "get_sqn", "arguments": {}}}
        assert refusal_of(await served.modern("tools/call", through, X_MCP_Tools="list_trades"))["code"] == "narrowed"


async def test_toolsets_and_tools_together_are_one_wish(data_dir: Path) -> None:
    async with serving(data_dir, "--toolsets", "all") as served:
        listed = await served.modern("tools/list", {}, X_MCP_Toolsets="behavioral", X_MCP_Tools="list_trades")
        assert len(listed["tools"]) == ALWAYS + count("behavioral") + 1


async def test_headers_never_widen(data_dir: Path) -> None:
    async with serving(data_dir, "--read-only", "--exclude-tools", "get_settings", "--toolsets", "tax") as served:
        plain = {tool["name"] for tool in (await served.modern("tools/list", {}))["tools"]}
        wide = await served.modern(
            "tools/list", {}, X_MCP_Toolsets="all", X_MCP_Tools="create_trade,get_settings", X_MCP_Readonly="false"
        )
        assert {tool["name"] for tool in wide["tools"]} == plain
        for name, code in (("create_trade", "read_only"), ("get_settings", "excluded")):
            result = await served.modern(
                "tools/call", {"name": name, "arguments": {}}, X_MCP_Tools=name, X_MCP_Readonly="0"
            )
            assert refusal_of(result)["code"] == code


@pytest.mark.parametrize("value", ["no-such-toolset", "TAXES", ",", " , x"])
async def test_an_unknown_name_opens_nothing(data_dir: Path, value: str) -> None:
    async with serving(data_dir, "--toolsets", "all") as served:
        listed = await served.modern("tools/list", {}, X_MCP_Toolsets=value)
        assert len(listed["tools"]) == ALWAYS


async def test_default_and_all_mean_what_they_mean_elsewhere(data_dir: Path) -> None:
    async with serving(data_dir, "--toolsets", "all") as served:
        assert len((await served.modern("tools/list", {}, X_MCP_Toolsets="default"))["tools"]) == DEFAULT
        assert len((await served.modern("tools/list", {}, X_MCP_Toolsets="all"))["tools"]) == ALL


async def test_a_session_keeps_the_names_of_all_tools_through_a_restart(data_dir: Path, tmp_path: Path) -> None:
    names = ",".join(spec.name for spec in load().tools if spec.name != "get_settings")
    async with serving(data_dir, state=tmp_path) as served:
        session = await served.open(X_MCP_Exclude_Tools=names)
        assert await session.names() == ["get_settings", "tool_search", "call_tool"]
    async with serving(data_dir, state=tmp_path) as again:
        assert await session.on(again).names() == ["get_settings", "tool_search", "call_tool"]


async def test_a_header_too_long_to_keep_is_refused_when_a_session_opens(data_dir: Path) -> None:
    excluded = ",".join(["no_such_tool"] * 200 + ["get_settings"])
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cline", "version": "1"}}
    async with serving(data_dir) as served:
        status, answer, headers = await served.post("initialize", params, X_MCP_Exclude_Tools=excluded)
        assert status == 400
        assert "X-MCP" in answer["error"]["message"]
        assert "2048" in answer["error"]["message"]
        assert "Mcp-Session-Id" not in headers
        listed = await served.modern("tools/list", {}, X_MCP_Exclude_Tools=excluded)
        assert "get_settings" not in [tool["name"] for tool in listed["tools"]], "without a session nothing is cut"


async def test_search_describing_and_loading_stay_within_the_limits(data_dir: Path) -> None:
    async with serving(data_dir) as served:
        session = await served.open(X_MCP_Toolsets="behavioral")
        found = (await session.call("tool_search", query="tax lots", limit=20))["structuredContent"]
        assert not [match for match in found["matches"] if match["toolset"] == "tax"]
        assert refusal_of(await session.call("enable_toolset", toolset_name="tax"))["code"] == "narrowed"
        described = (await session.call("describe_toolset", toolset_name="tax"))["structuredContent"]
        assert (described["tools"], described["tool_count"], len(described["refused"])) == ([], 0, count("tax"))


async def test_the_instructions_say_that_a_session_may_only_read(data_dir: Path) -> None:
    async with serving(data_dir) as served:
        assert "may only read" in (await served.open(X_MCP_Readonly="1")).opened["instructions"]


@pytest.mark.parametrize("with_post", [True, False])
@pytest.mark.parametrize(
    ("headers", "listed"),
    [({}, ALL), ({"X-MCP-Toolsets": "tax"}, ALWAYS + count("tax")), ({"X-MCP-Tools": "get_sqn"}, ALWAYS + 1)],
)
async def test_the_old_pair_of_stream_and_posts_is_narrowed_too(
    data_dir: Path, headers: dict[str, str], listed: int, with_post: bool
) -> None:
    """With the headers of the POST that says hello, or of the GET alone, as clients have it."""
    async with serving(data_dir, "--toolsets", "all") as served:
        at_first, at_hello = ({}, headers) if with_post else (headers, {})
        async with served.http.get(served.url + "/sse", headers=at_first) as stream:

            async def data() -> str:
                while not (line := (await stream.content.readline()).decode()).startswith("data:"):
                    assert line, "the stream has ended"
                return line[5:].strip()

            endpoint = served.url + await data()

            async def say(headers: dict[str, str], **message: Any) -> None:
                async with served.http.post(endpoint, json={"jsonrpc": "2.0", **message}, headers=headers) as answer:
                    assert answer.status == 202

            hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            await say(at_hello, id=1, method="initialize", params=hello)
            await data()
            await say({}, method="notifications/initialized")
            await say({"X-MCP-Exclude-Tools": "get_settings"}, id=2, method="tools/list")
            assert len(json.loads(await data())["result"]["tools"]) == listed


async def test_a_header_in_several_lines_is_one_list(data_dir: Path) -> None:
    async with serving(data_dir, "--toolsets", "all") as served:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        lines = [
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
            ("X-MCP-Exclude-Tools", "get_settings"),
            ("X-MCP-Exclude-Tools", "list_trades"),
            ("X-MCP-Readonly", "false"),
            ("X-MCP-Readonly", "true"),
        ]
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        async with served.http.post(served.url + "/mcp", json=message, headers=lines) as answer:
            names = {tool["name"] for tool in (await answer.json())["result"]["tools"]}
        assert names.isdisjoint({"get_settings", "list_trades", "create_trade"})
        assert "get_sqn" in names
