"""`subscriptions/listen`: acknowledged first, only what was asked for, and an end that is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.connect import PATIENCE, PREFIX, Client, Host, HttpWire, meta

ID = PREFIX + "subscriptionId"
ACK = "notifications/subscriptions/acknowledged"
EVERYTHING = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["test://one"],
}


async def listening(client: Client, wanted: Any, id: Any = None) -> Any:
    before = len(client.notes_of(ACK))
    id = await client.start("subscriptions/listen", {"notifications": wanted}, id)
    await client.note(ACK, before + 1)
    return id


@pytest.mark.parametrize("id", [31, "31", 0, "", "ü", 2**60])
async def test_the_acknowledgement_comes_first_and_carries_the_id_with_its_type(memory_modern: Host, id: Any) -> None:
    client = await memory_modern()
    await listening(client, EVERYTHING, id)
    note = client.notes[0]
    assert note["method"] == ACK
    assert note["params"] == {"notifications": EVERYTHING, "_meta": {ID: id}}
    assert type(note["params"]["_meta"][ID]) is type(id)


async def test_only_what_was_asked_for_is_told(modern: Host) -> None:
    client = await modern()
    id = await listening(client, {"promptsListChanged": True, "resourceSubscriptions": ["test://one"]})
    for tool, arguments in (
        ("change", {"kind": "tools"}),
        ("change", {"kind": "resources"}),
        ("touch", {"uri": "test://two"}),
        ("touch", {"uri": "test://one"}),
        ("change", {"kind": "prompts"}),
    ):
        await client.call(tool, arguments)
    await client.note("notifications/prompts/list_changed")
    assert [(note["method"], note["params"]) for note in client.notes[1:]] == [
        ("notifications/resources/updated", {"uri": "test://one", "_meta": {ID: id}}),
        ("notifications/prompts/list_changed", {"_meta": {ID: id}}),
    ]


async def test_one_request_follows_at_most_256_resources(memory_modern: Host) -> None:
    client = await memory_modern()
    uris = [f"test://note/{number}" for number in range(257)]
    await listening(client, {"resourceSubscriptions": uris[:256]})
    error = await client.error("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    assert error["code"] == -32602
    long = [f"test://file/{number:02d}".ljust(2048, "x") for number in range(33)]
    await listening(client, {"resourceSubscriptions": long[:32]})
    error = await client.error("subscriptions/listen", {"notifications": {"resourceSubscriptions": long}})
    assert (error["code"], "65536 bytes" in error["message"]) == (-32602, True)


async def test_false_and_absent_are_the_same(memory_modern: Host) -> None:
    client = await memory_modern()
    await listening(client, {"toolsListChanged": False, "resourceSubscriptions": []})
    assert client.notes[0]["params"]["notifications"] == {}


async def test_what_is_not_offered_is_not_honoured(memory_modern: Host) -> None:
    client = await memory_modern(offer="tests.mcp.protocol.offers:bare")
    await listening(client, EVERYTHING)
    assert client.notes[0]["params"]["notifications"] == {}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": "tools"},
        {"notifications": {"toolsListChanged": "yes"}},
        {"notifications": {"resourceSubscriptions": "test://one"}},
        {"notifications": {"resourceSubscriptions": [5]}},
        {"notifications": {"taskIds": {}}},
    ],
)
async def test_a_filter_of_the_wrong_shape_is_refused(memory_modern: Host, params: Any) -> None:
    client = await memory_modern()
    assert (await client.error("subscriptions/listen", params))["code"] == -32602
    assert client.notes == []


async def test_several_subscriptions_are_told_apart(modern: Host) -> None:
    client = await modern()
    first = await listening(client, {"toolsListChanged": True}, "first")
    second = await listening(client, {"toolsListChanged": True, "promptsListChanged": True}, 2)
    await client.call("change", {"kind": "tools"})
    await client.note("notifications/tools/list_changed", 2)
    await client.call("change", {"kind": "prompts"})
    await client.note("notifications/prompts/list_changed")
    told = [(note["method"].split("/")[1], note["params"]["_meta"][ID]) for note in client.notes[2:]]
    assert sorted(told[:2], key=str) == sorted([("tools", first), ("tools", second)], key=str)
    assert told[2:] == [("prompts", second)]


async def test_a_legacy_notification_never_goes_to_a_modern_pipe_unasked(memory_modern: Host) -> None:
    client = await memory_modern()
    await client.call("change", {"kind": "tools"})
    await client.settle()
    assert client.notes == []


@pytest.mark.parametrize("kind", ["memory-modern", "stdio-modern"])
async def test_on_a_pipe_cancelling_ends_it_without_an_answer(kind: str) -> None:
    host = Host(kind)
    try:
        client = await host()
        await listening(client, {"toolsListChanged": True}, "gone")
        await listening(client, {"toolsListChanged": True}, "kept")
        await client.cancel("gone")
        await client.call("change", {"kind": "tools"})
        note = await client.note("notifications/tools/list_changed")
        assert note["params"]["_meta"][ID] == "kept"
        await client.settle()
        assert len(client.notes_of("notifications/tools/list_changed")) == 1
        assert not [answer for answer in client.answers if answer["id"] == "gone"]
    finally:
        await host.close()


async def test_nothing_follows_a_cancellation_not_even_in_the_same_turn(memory_modern: Host) -> None:
    client = await memory_modern()
    await listening(client, {"toolsListChanged": True}, "gone")
    await client.cancel("gone")
    client.here.offer.announce_change("tools")
    await client.settle()
    assert client.notes_of("notifications/tools/list_changed") == []


async def test_over_http_closing_the_stream_ends_it(http_modern: Host) -> None:
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    id = await listening(client, {"toolsListChanged": True})
    assert client.here.announcer._listeners
    await client.wire.hang_up(id)
    async with asyncio.timeout(PATIENCE):
        while client.here.announcer._listeners:
            await client.settle()
    await client.call("change", {"kind": "tools"})
    await client.settle()
    assert client.notes_of("notifications/tools/list_changed") == []


@pytest.mark.parametrize("kind", ["memory-modern", "streamable-modern"])
async def test_a_server_that_stops_completes_it(kind: str) -> None:
    host = Host(kind)
    try:
        client = await host()
        id = await listening(client, {"toolsListChanged": True}, 7)
        client.here.announcer.close()
        result = (await client.answer(id))["result"]
        assert result["resultType"] == "complete"
        assert result["_meta"][ID] == 7
    finally:
        await host.close()


async def test_at_the_end_of_input_a_process_completes_it() -> None:
    host = Host("stdio-modern")
    client = await host()
    id = await listening(client, {"toolsListChanged": True}, "last")
    await host.close()
    assert (await client.answer(id))["result"]["_meta"][ID] == "last"


async def test_nothing_is_lost_between_the_acknowledgement_and_a_change(memory_modern: Host) -> None:
    client = await memory_modern()
    await client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    client.here.offer.announce_change("tools")  # in the same turn
    await client.note("notifications/tools/list_changed")
    assert [note["method"] for note in client.notes] == [ACK, "notifications/tools/list_changed"]


async def test_progress_and_log_messages_never_go_to_a_subscription(http_modern: Host) -> None:
    client = await http_modern()
    await listening(client, EVERYTHING)
    params = {"name": "progress", "arguments": {"steps": [1]}}
    await client.ask("tools/call", params, progressToken="t", **{PREFIX + "logLevel": "debug"})
    progress = client.notes_of("notifications/progress")
    assert len(progress) == 1
    assert "_meta" not in progress[0]["params"]


async def test_too_many_subscriptions_are_refused_before_the_acknowledgement(memory_modern: Host) -> None:
    client = await memory_modern()
    client.here.announcer._most = 2
    await listening(client, {"toolsListChanged": True})
    await listening(client, {"toolsListChanged": True})
    assert (await client.error("subscriptions/listen", {"notifications": {}}))["code"] == -32603
    assert len(client.notes) == 2


async def test_a_subscription_needs_a_client_that_takes_events(http_modern: Host) -> None:
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    params = {"_meta": meta(), "notifications": {"toolsListChanged": True}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    reply = await client.wire.post(message, {**client.wire.standard(message), "Accept": "application/json"})
    assert (reply.status, reply.json["id"]) == (406, 1)
