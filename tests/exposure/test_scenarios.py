"""The eight scenarios of the contract, exactly, order included: for legacy clients over each transport."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Client, Host
from tests.exposure.observing import MODES, TOOLS

Json = Any
CHANGED = "notifications/tools/list_changed"
C6 = ["store", "load", "noise_rule", "dismiss", "clear", "capture"]


async def listed(client: Client) -> dict[str, Json]:
    """The tools that observe, by name, in the order of the list."""
    tools = (await client.result("tools/list"))["tools"]
    return {tool["name"]: tool for tool in tools if tool["name"] in TOOLS}


def enum_of(tool: Json) -> list[str]:
    return tool["inputSchema"]["properties"][MODES[tool["name"]][0]]["enum"]  # type: ignore[no-any-return]


async def feed(client: Client, **changes: int) -> None:
    result = await client.call("feed_state", {"changes": {f"devtools.{name}": n for name, n in changes.items()}})
    assert "isError" not in result, result


async def observe(client: Client, what: str = "errors") -> Json:
    return await client.call("observe", {"what": what})


@pytest.fixture
async def client(connect: Host) -> Client:
    return await connect(offer="tests.exposure.observing:offer")


def expect(tool: Json, modes: list[str], counts: dict[str, int] | None) -> None:
    assert enum_of(tool) == modes
    if counts is None:
        assert "_meta" not in tool
    else:
        assert list(tool["_meta"].items()) == [("available_modes", modes), ("data_counts", counts)]
        assert list(tool["_meta"]["data_counts"]) == list(counts)


async def test_1_fresh(client: Client) -> None:
    tools = await listed(client)
    assert list(tools) == ["observe", "query_dom"]
    expect(tools["observe"], ["errors", "logs", "page"], {"errors": 0, "logs": 0})
    assert "_meta" not in tools["query_dom"]


async def test_2_network(client: Client) -> None:
    await feed(client, network=2, endpoints=2)
    tools = await listed(client)
    assert list(tools) == ["observe", "query_dom"]
    expect(tools["observe"], ["errors", "logs", "network", "page"], {"errors": 0, "logs": 0, "network": 2})
    await observe(client, "network")
    tools = await listed(client)
    assert list(tools) == ["observe", "analyze", "generate", "configure", "query_dom"]
    expect(tools["generate"], ["pr_summary", "sarif", "har"], {"har": 2})
    expect(tools["analyze"], ["api", "accessibility", "changes"], {"api": 2})


async def test_3_first_observation(client: Client) -> None:
    await listed(client)
    result = await observe(client)
    assert result["structuredContent"]["entries"] == []
    assert "isError" not in result
    assert result["_meta"]["com.zorivest/unlocked"] == ["analyze", "generate", "configure"]
    assert result["content"][-1] == {"type": "text", "text": "Now also listed: analyze, generate, configure."}
    await client.note(CHANGED)
    frames = [frame for frame in client.frames if b"list_changed" in frame or b"unlocked" in frame]
    if client.kind != "streamable":  # there the two come on two connections
        assert b"unlocked" in frames[0]
        assert b"list_changed" in frames[1]
    tools = await listed(client)
    assert list(tools) == ["observe", "analyze", "generate", "configure", "query_dom"]
    expect(tools["observe"], ["errors", "logs", "page"], {"errors": 0, "logs": 0})
    expect(tools["analyze"], ["accessibility"], {})
    expect(tools["generate"], ["sarif"], {})
    expect(tools["configure"], C6, None)
    again = await observe(client, "logs")
    assert len(again["content"]) == 1
    assert "_meta" not in again
    await client.settle()
    assert len(client.notes_of(CHANGED)) == 1


async def test_4_actions(client: Client) -> None:
    await observe(client)
    await feed(client, actions=3)
    tools = await listed(client)
    expect(tools["observe"], ["errors", "logs", "actions", "page"], {"errors": 0, "logs": 0, "actions": 3})
    expect(tools["analyze"], ["accessibility", "changes", "timeline"], {"timeline": 3})
    expect(tools["generate"], ["reproduction", "test", "pr_summary", "sarif"], {"reproduction": 3, "test": 3})
    expect(tools["configure"], C6, None)


async def test_5_performance(client: Client) -> None:
    await observe(client)
    await feed(client, perf=1)
    tools = await listed(client)
    expect(tools["observe"], ["errors", "logs", "vitals", "page"], {"errors": 0, "logs": 0, "vitals": 1})
    expect(tools["analyze"], ["performance", "accessibility", "changes"], {"performance": 1})
    expect(tools["generate"], ["pr_summary", "sarif"], {})
    expect(tools["configure"], C6, None)


async def test_6_configure(client: Client) -> None:
    assert "configure" not in await listed(client)
    await observe(client)
    await feed(client, logs=5, errors=1, network=3, ws_events=4, ws_open=1, actions=3, perf=1, endpoints=2)
    tools = await listed(client)
    expect(tools["configure"], C6, None)
    assert [enum_of(tools[name]) for name in ("observe", "analyze", "generate")] == [
        MODES[name][1] for name in ("observe", "analyze", "generate")
    ]


async def test_7_counts(client: Client) -> None:
    await listed(client)
    await feed(client, logs=47, errors=3, network=12, actions=8, endpoints=1)
    modes = ["errors", "logs", "network", "actions", "page"]
    tools = await listed(client)
    expect(tools["observe"], modes, {"errors": 3, "logs": 47, "network": 12, "actions": 8})
    await client.settle()
    told = len(client.notes_of(CHANGED))
    await feed(client, logs=1, errors=1)
    expect((await listed(client))["observe"], modes, {"errors": 4, "logs": 48, "network": 12, "actions": 8})
    assert len(client.notes_of(CHANGED)) == told
    await feed(client, logs=952, errors=-4)
    expect((await listed(client))["observe"], modes, {"errors": 0, "logs": 1000, "network": 12, "actions": 8})
    await feed(client, network=188)
    expect((await listed(client))["observe"], modes, {"errors": 0, "logs": 1000, "network": 200, "actions": 8})


async def test_8_enum(client: Client) -> None:
    await feed(client, network=1, endpoints=1)
    modes = enum_of((await listed(client))["observe"])
    assert modes == ["errors", "logs", "network", "page"]
