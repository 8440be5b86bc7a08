"""Other servers in the lists of a client: toolsets with their state, limits of a fixed list, what is loaded later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.fake import TOOL
from tests.serving.product.conftest import Client, refusal_of, text_of
from tests.serving.product.far import Far, opened, serve_far

MODERN, LEGACY = "2026-07-28", "2025-11-25"


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    async with serve_far() as found:
        yield found


def theirs(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("ops__")]


async def test_a_toolset_describes_each_tool_with_its_origin_its_pin_and_its_policy(far: Far, tmp_path: Path) -> None:
    profile = 'approve_tool = ["ops__read"]\nrequire_confirm_tool = ["list_trades"]'
    async with opened(far, tmp_path, profile) as client:
        described = (await client.call("describe_toolset", toolset_name="mcp-ops"))["structuredContent"]["tools"]
        assert [(each["name"], each["upstream_name"], each["pinned"], each["confirmation"]) for each in described] == [
            ("ops__destroy", "destroy", True, "confirm"),
            ("ops__read", "read", True, "allow"),
            ("ops__write", "write", True, "confirm"),
        ]
        ours = (await client.call("describe_toolset", toolset_name="trade-analytics"))["structuredContent"]["tools"]
        assert {each["name"]: each.get("confirmation") for each in ours if "confirmation" in each} == {
            "list_trades": "confirm"
        }
        toolsets = (await client.call("list_available_toolsets"))["structuredContent"]["toolsets"]
        entry = next(each for each in toolsets if each["name"] == "mcp-ops")
        assert {key: entry[key] for key in entry if "bytes" not in key and "tokens" not in key} == {
            "name": "mcp-ops", "description": "3 tools from MCP server ops", "tool_count": 3, "loaded": True,
            "always_loaded": False, "source": "upstream", "status": "ready", "error": None,
        }  # fmt: skip


async def test_a_toolset_tells_of_the_tools_that_the_operator_denies(far: Far, tmp_path: Path) -> None:
    async with opened(far, tmp_path, 'deny_tool = ["ops__write", "list_trades"]') as client:
        described = (await client.call("describe_toolset", toolset_name="mcp-ops"))["structuredContent"]
        assert (described["tool_count"], [each["name"] for each in described["tools"]]) == (
            2,
            ["ops__destroy", "ops__read"],
        )
        assert described["refused"] == [
            {
                "name": "ops__write", "reason": "it is blocked by deny_tool", "upstream_name": "write", "pinned": True,
                "confirmation": "deny",
            }
        ]  # fmt: skip
        ours = (await client.call("describe_toolset", toolset_name="trade-analytics"))["structuredContent"]
        assert ours["refused"] == [
            {"name": "list_trades", "reason": "it is blocked by deny_tool", "confirmation": "deny"}
        ]


@pytest.mark.one_journal("list_clients takes one of the places that are counted")
async def test_a_fixed_list_takes_them_as_far_as_its_limit_reaches_and_tells_the_rest(far: Far, tmp_path: Path) -> None:
    far.fake.tools = [{**TOOL, "name": f"t{number:02}"} for number in range(9)]
    async with opened(far, tmp_path, 'approve_tool = ["*"]', name="unheard-of-client") as client:
        names = await client.names()
        assert len(names) == 40
        assert theirs(names) == ["ops__t00", "ops__t01"]
        left = [f"ops__t{number:02}" for number in range(2, 9)]
        report = (await client.call("zorivest_diagnose"))["structuredContent"]
        assert report["client"]["not_listed"] == left
        late = Client(client.journal, "unheard-of-client", {}, LEGACY, client.server)
        told = (await late.open())["instructions"]
        assert f"has no room for them: {', '.join(left)}. call_tool runs them by name." in told
        assert text_of(await client.call("call_tool", name="ops__t08", arguments={"text": "x"})) == "x"


@pytest.mark.parametrize(("flags", "count"), [(("--toolsets", "mcp-ops"), 9), (("--toolsets", "all"), 9)])
async def test_what_is_asked_for_is_listed_above_a_limit_too(
    far: Far, tmp_path: Path, flags: tuple[str, ...], count: int
) -> None:
    far.fake.tools = [{**TOOL, "name": f"t{number:02}"} for number in range(9)]
    async with opened(far, tmp_path, "", *flags, name="cursor") as client:
        assert len(theirs(await client.names())) == count
        report = (await client.call("zorivest_diagnose"))["structuredContent"]
        assert "not_listed" not in report["client"]


@pytest.mark.parametrize("name", ["cline", "claude-code"])
async def test_a_server_that_is_not_loaded_by_itself_waits_until_it_is_enabled(
    far: Far, tmp_path: Path, name: str
) -> None:
    async with opened(far, tmp_path, "", name=name, entry="autoload = false") as client:
        assert theirs(await client.names()) == []
        found = (await client.call("tool_search", query="echo"))["structuredContent"]["matches"]
        assert {match["listed"] for match in found if match["name"].startswith("ops__")} == {False}
        client.notifications.clear()
        enabled = await client.call("enable_toolset", toolset_name="mcp-ops")
        assert text_of(enabled).startswith('✅ Toolset "mcp-ops" enabled (3 tools).')
        await client.hears("notifications/tools/list_changed")
        assert len(theirs(await client.names())) == 3


async def test_in_the_modern_era_a_call_changes_no_list(far: Far, tmp_path: Path) -> None:
    async with opened(far, tmp_path, "", revision=MODERN, entry="autoload = false") as client:
        answer = (await client.call("enable_toolset", toolset_name="mcp-ops"))["structuredContent"]
        assert [tool["name"] for tool in answer["tools"]] == ["ops__destroy", "ops__read", "ops__write"]
        assert theirs(await client.names()) == []
    async with opened(far, tmp_path, "", revision=MODERN) as client:
        assert len(theirs(await client.names())) == 3


async def test_a_server_that_is_away_cannot_be_enabled_and_says_why(far: Far, tmp_path: Path) -> None:
    far.server = "http://127.0.0.1:9/mcp"
    async with opened(far, tmp_path) as client:
        refused = await client.call("enable_toolset", toolset_name="mcp-ops")
        assert refusal_of(refused)["code"] == "empty"
        assert text_of(refused).startswith('Toolset "mcp-ops" cannot be enabled: MCP server "ops" cannot be reached')
