"""What must not open a gate, what may not be refused, and what a hidden thing answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Client, Host, HttpWire
from tests.exposure.observing import MODES
from tests.exposure.test_scenarios import CHANGED, enum_of, feed, listed, observe

Json = Any
OFFER = "tests.exposure.observing:offer"


@pytest.fixture
async def client(memory: Host) -> Client:
    return await memory(offer=OFFER)


def text_of(result: Json) -> str:
    return result["content"][0]["text"]  # type: ignore[no-any-return]


async def test_listing_is_no_observation_and_announces_nothing(client: Client) -> None:
    for _ in range(10):
        assert list(await listed(client)) == ["observe", "query_dom"]
    await client.settle()
    assert client.notes_of(CHANGED) == []


async def test_an_observation_that_fails_leaves_the_gate_closed(client: Client) -> None:
    result = await observe(client, "page")
    assert result["isError"] is True
    assert "unlocked" not in str(result)
    assert list(await listed(client)) == ["observe", "query_dom"]


async def test_a_restart_closes_the_gate(memory: Host) -> None:
    first = await memory(offer=OFFER)
    await observe(first)
    assert "configure" in await listed(first)
    again = await memory(offer=OFFER)
    assert "configure" not in await listed(again)


async def test_a_second_client_of_the_process_finds_the_gate_open_and_is_told_of_it(memory: Host) -> None:
    first = await memory(offer=OFFER)
    second = await memory.another(first)
    await listed(second)
    await observe(first)
    await second.note(CHANGED)
    assert "configure" in await listed(second)
    result = await observe(second)
    assert "_meta" not in result, "what was unlocked is told once"


async def test_clearing_makes_modes_vanish_and_is_told_once(client: Client) -> None:
    await listed(client)
    await feed(client, network=3, endpoints=1, actions=2)
    await client.note(CHANGED)
    assert enum_of((await listed(client))["observe"]) == ["errors", "logs", "network", "actions", "page"]
    await feed(client, network=-3, endpoints=-1, actions=-2)
    await client.note(CHANGED, 2)
    assert enum_of((await listed(client))["observe"]) == ["errors", "logs", "page"]
    assert len(client.notes_of(CHANGED)) == 2


async def test_a_socket_that_opens_and_closes_appears_and_vanishes(client: Client) -> None:
    await feed(client, ws_open=1)
    assert "websocket_status" in enum_of((await listed(client))["observe"])
    await feed(client, ws_open=-1)
    assert "websocket_status" not in enum_of((await listed(client))["observe"])


@pytest.mark.parametrize("tool", ["observe", "analyze", "generate", "configure"])
async def test_every_hidden_mode_of_every_hidden_tool_can_be_called(client: Client, tool: str) -> None:
    chooser, modes = MODES[tool]
    for mode in modes:
        if (tool, mode) == ("observe", "page"):
            continue
        direct = await client.call(tool, {chooser: mode})
        assert "isError" not in direct, direct
        assert direct["structuredContent"]["hint"] == "No data yet."
        through = await client.call("call_tool", {"name": tool, "arguments": {chooser: mode}})
        assert "isError" not in through, through


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"what": "netwrok"},
            'Unknown what "netwrok". Valid: errors, logs, network, websocket_events, websocket_status, actions, '
            "vitals, page.",
        ),
        (
            {"what": ""},
            'Unknown what "". Valid: errors, logs, network, websocket_events, websocket_status, actions, vitals, page.',
        ),
        ({}, "what is required. Available now: errors, logs, network, page."),
        ({"what": None}, "what is required. Available now: errors, logs, network, page."),
        ({"limit": 5}, "what is required. Available now: errors, logs, network, page."),
    ],
)
async def test_a_mode_that_is_missing_or_unknown_is_told_with_those_there_are(
    client: Client, arguments: Json, words: str
) -> None:
    await feed(client, network=1)
    direct = await client.call("observe", arguments)
    through = await client.call("call_tool", {"name": "observe", "arguments": arguments})
    for result in (direct, through):
        assert result["isError"] is True
        assert text_of(result) == words
        assert result["_meta"]["com.zorivest/error"]["code"] == "invalid_arguments"
    assert list(await listed(client)) == ["observe", "query_dom"], "and it is no observation"


async def test_a_long_or_strange_mode_is_cut_and_one_that_is_no_text_is_for_the_schema(client: Client) -> None:
    long = await client.call("observe", {"what": "x" * 5_000})
    assert len(text_of(long)) < 600
    number = await client.call("observe", {"what": 5})
    assert text_of(number).startswith('Invalid arguments for "observe": what: given 5;')


async def test_strict_refuses_what_is_hidden_and_says_what_is_there(memory: Host) -> None:
    client = await memory(offer="tests.exposure.observing:strict")
    await feed(client, network=1)
    refused = await observe(client, "actions")
    assert refused["isError"] is True
    assert text_of(refused) == ('"observe" mode "actions" has no data yet. Available now: errors, logs, network, page.')
    gated = await client.call("analyze", {"target": "accessibility"})
    assert text_of(gated) == '"analyze" has no data yet. Available now: observe.'
    assert list(await listed(client)) == ["observe", "query_dom"]
    assert "isError" not in await observe(client, "network")
    assert "isError" not in await client.call("analyze", {"target": "accessibility"})


async def test_lists_follow_over_http_without_an_open_channel_and_tell_it_when_one_opens() -> None:
    host = Host("streamable")
    try:
        client = await host(offer=OFFER, opened=False)
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
        await client.result("initialize", params)
        await client.notify("notifications/initialized")
        assert list(await listed(client)) == ["observe", "query_dom"]
        await observe(client)
        await feed(client, network=2)
        assert client.notes_of(CHANGED) == []
        assert isinstance(client.wire, HttpWire)
        await client.wire.opened("2025-11-25")
        await client.note(CHANGED)
        assert len(client.notes_of(CHANGED)) == 1
        assert "configure" in await listed(client)
    finally:
        await host.close()
