"""Arrays of messages: welcome in 2025-03-26, refused everywhere else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.connect import Client, Host, HttpWire

ONLY = "2025-03-26"


def item(id: Any, method: str = "ping", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def batch(client: Client, *items: Any) -> list[Any]:
    before = len(client.arrays)
    await client.send(list(items))
    found: list[Any] = await client.until(lambda: client.arrays[before] if len(client.arrays) > before else None)
    return found


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_other_revisions_know_no_batches(legacy: Host, revision: str) -> None:
    client = await legacy(revision)
    await client.send([item(1), item(2)])
    assert (await client.stray())["error"]["code"] == -32600
    await client.settle()
    assert client.arrays == []


async def test_a_batch_before_initialize_is_refused(memory: Host) -> None:
    client = await memory(ONLY, opened=False)
    await client.send([item(1)])
    assert (await client.stray())["error"]["code"] == -32600


async def test_a_batch_is_answered_by_one_array(legacy: Host) -> None:
    client = await legacy(ONLY)
    answers = await batch(
        client,
        item(1),
        item("1"),
        note("notifications/unknown"),
        item(3, "no/such"),
        item(4, "tools/call", name="echo", arguments={"text": "a"}),
        item(5, "tools/call", name=5),
        {"jsonrpc": "2.0", "id": "zrv-none", "result": {}},
        {"jsonrpc": "1.0", "id": 6, "method": "ping"},
        17,
        [item(7)],
    )
    by_id = {(type(each["id"]), each["id"]): each for each in answers if "id" in each}
    assert by_id[int, 1]["result"] == {}
    assert by_id[str, "1"]["result"] == {}
    assert by_id[int, 3]["error"]["code"] == -32601
    assert by_id[int, 4]["result"]["content"] == [{"type": "text", "text": '{"text":"a"}'}]
    assert by_id[int, 5]["error"]["code"] == -32602
    assert by_id[int, 6]["error"]["code"] == -32600
    without = [each["error"]["code"] for each in answers if "id" not in each]
    assert without == [-32600, -32600]  # the number, and the array within
    assert len(answers) == 8


async def test_initialize_does_not_go_into_a_batch(legacy: Host) -> None:
    client = await legacy(ONLY)
    params = {"protocolVersion": ONLY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    (answer,) = await batch(client, item(1, "initialize", **params))
    assert (answer["id"], answer["error"]["code"]) == (1, -32600)


async def test_a_batch_of_notifications_is_not_answered(legacy: Host) -> None:
    client = await legacy(ONLY)
    client.frames.clear()
    await client.send([note("notifications/unknown"), note("notifications/cancelled", requestId=1)])
    await client.send([{"jsonrpc": "2.0", "id": "zrv-none", "result": {}}])
    await client.settle()
    assert len(client.frames) == 1
    if isinstance(client.wire, HttpWire):
        assert client.wire.statuses[-3:-1] == [202, 202]


async def test_an_empty_batch_is_refused(legacy: Host) -> None:
    client = await legacy(ONLY)
    await client.send([])
    assert (await client.stray())["error"]["code"] == -32600


async def test_requests_of_a_batch_run_side_by_side(legacy: Host) -> None:
    client = await legacy(ONLY)
    answers = await batch(
        client,
        item(1, "tools/call", name="hold", arguments={"gate": "g"}, _meta={"progressToken": "t"}),
        item(2, "tools/call", name="open_gate", arguments={"gate": "g"}),
    )
    assert {each["id"] for each in answers} == {1, 2}
    assert len(client.notes_of("notifications/progress")) == 1


async def test_a_cancelled_request_of_a_batch_is_left_out(legacy: Host) -> None:
    client = await legacy(ONLY)
    answers = await batch(
        client,
        item(1, "tools/call", name="hold", arguments={"gate": "g"}),
        item(2),
        note("notifications/cancelled", requestId=1),
    )
    assert [each["id"] for each in answers] == [2]


async def test_a_batch_of_which_everything_was_cancelled_ends_without_an_answer(http: Host) -> None:
    client = await http(ONLY)
    assert isinstance(client.wire, HttpWire)
    message = [
        item(1, "tools/call", name="hold", arguments={"gate": "g"}),
        note("notifications/cancelled", requestId=1),
    ]
    reply = await client.wire.post(message, client.wire.standard(None))
    assert (reply.status, reply.body) == (202, b"")


async def test_a_question_within_a_batch_is_asked_and_answered(legacy: Host) -> None:
    client = await legacy(ONLY, capabilities={"sampling": {}})
    asking = asyncio.create_task(client.send([item(1, "tools/call", name="ask_sample", arguments={}), item(2)]))
    question = await client.question()
    await client.reply(question, {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}})
    answers = await client.until(lambda: client.arrays[0] if client.arrays else None)
    assert {each["id"] for each in answers} == {1, 2}
    await asking


async def test_a_batch_has_a_size(legacy: Host) -> None:
    client = await legacy(ONLY)
    assert len(await batch(client, *(item(number) for number in range(1_000)))) == 1_000
    await client.send([item(number) for number in range(1_001)])
    assert (await client.stray())["error"]["code"] == -32600
    await client.settle()
    assert len(client.arrays) == 1
