"""The eight scenarios in 2026-07-28: no gates, because a list may not change as a side effect of a call there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Client, Host
from tests.exposure.observing import MODES, TOOLS
from tests.exposure.test_scenarios import C6, CHANGED, enum_of, expect, feed, listed, observe

Json = Any
OFFER = "tests.exposure.observing:auto"


@pytest.fixture
async def client(connect_modern: Host) -> Client:
    return await connect_modern(offer=OFFER)


async def test_1_fresh_all_five_are_listed_with_what_they_have(client: Client) -> None:
    tools = await listed(client)
    assert tuple(tools) == TOOLS
    expect(tools["observe"], ["errors", "logs", "page"], {"errors": 0, "logs": 0})
    expect(tools["analyze"], ["accessibility"], {})
    expect(tools["generate"], ["sarif"], {})
    expect(tools["configure"], C6, None)
    assert "_meta" not in tools["query_dom"]


async def test_2_network(client: Client) -> None:
    await feed(client, network=2, endpoints=2)
    tools = await listed(client)
    expect(tools["observe"], ["errors", "logs", "network", "page"], {"errors": 0, "logs": 0, "network": 2})
    expect(tools["generate"], ["pr_summary", "sarif", "har"], {"har": 2})
    expect(tools["analyze"], ["api", "accessibility", "changes"], {"api": 2})


async def test_3_an_observation_changes_no_list_and_unlocks_nothing(client: Client) -> None:
    before = await listed(client)
    result = await observe(client)
    assert result["structuredContent"]["entries"] == []
    assert len(result["content"]) == 1
    assert "com.zorivest/unlocked" not in result["_meta"]
    assert await listed(client) == before


async def test_4_actions(client: Client) -> None:
    await feed(client, actions=3)
    tools = await listed(client)
    expect(tools["observe"], ["errors", "logs", "actions", "page"], {"errors": 0, "logs": 0, "actions": 3})
    expect(tools["analyze"], ["accessibility", "changes", "timeline"], {"timeline": 3})
    expect(tools["generate"], ["reproduction", "test", "pr_summary", "sarif"], {"reproduction": 3, "test": 3})


async def test_5_performance(client: Client) -> None:
    await feed(client, perf=1)
    tools = await listed(client)
    expect(tools["observe"], ["errors", "logs", "vitals", "page"], {"errors": 0, "logs": 0, "vitals": 1})
    expect(tools["analyze"], ["performance", "accessibility", "changes"], {"performance": 1})
    expect(tools["generate"], ["pr_summary", "sarif"], {})


async def test_6_configure_is_always_whole(client: Client) -> None:
    expect((await listed(client))["configure"], C6, None)
    await feed(client, logs=5, errors=1, network=3, ws_events=4, ws_open=1, actions=3, perf=1, endpoints=2)
    tools = await listed(client)
    expect(tools["configure"], C6, None)
    for name in ("observe", "analyze", "generate"):
        assert enum_of(tools[name]) == MODES[name][1]


async def test_7_counts_follow_and_lists_say_for_how_long_they_are_good(client: Client) -> None:
    await feed(client, logs=47, errors=3, network=12, actions=8, endpoints=1)
    modes = ["errors", "logs", "network", "actions", "page"]
    expect((await listed(client))["observe"], modes, {"errors": 3, "logs": 47, "network": 12, "actions": 8})
    await feed(client, logs=1, errors=1)
    expect((await listed(client))["observe"], modes, {"errors": 4, "logs": 48, "network": 12, "actions": 8})
    answer = await client.result("tools/list")
    assert (answer["ttlMs"], answer["cacheScope"]) == (5000, "private")


async def test_8_enum(client: Client) -> None:
    await feed(client, network=1, endpoints=1)
    assert enum_of((await listed(client))["observe"]) == ["errors", "logs", "network", "page"]


async def test_a_subscription_hears_of_structure_and_not_of_counts(client: Client) -> None:
    id = await client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await client.note("notifications/subscriptions/acknowledged")
    await feed(client, logs=3)
    await feed(client, network=1)
    note = await client.note(CHANGED)
    assert note["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": id}
    await feed(client, network=4)
    await client.settle()
    assert len(client.notes_of(CHANGED)) == 1


async def test_two_connections_get_identical_bytes() -> None:
    host = Host("streamable-modern")
    try:
        first = await host(offer=OFFER)
        second = await host.another(first)
        for client in (first, second):
            await client.ask("tools/list", id=5)
        frames = [[frame for frame in client.frames if b'"tools":' in frame] for client in (first, second)]
        assert frames[0] == frames[1]
        await observe(first)
        for client in (first, second):
            await client.ask("tools/list", id=6)
        frames = [[frame for frame in client.frames if b'"tools":' in frame] for client in (first, second)]
        assert frames[0] == frames[1]
        assert frames[0][1] == frames[0][0].replace(b'"id":5', b'"id":6')
    finally:
        await host.close()
