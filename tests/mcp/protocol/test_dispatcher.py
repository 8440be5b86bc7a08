"""Many requests at once: limits with a clear answer, pings that always pass, and handlers that fail in every way."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.connect import Client, Host, HttpWire, meta
from tests.mcp.protocol.offers import SECRET
from zorivest_rpc.mcp.dispatcher import Limits

BUSY = -31000


async def held(client: Client, number: int, gate: str = "g") -> list[Any]:
    ids = [await client.start_call("hold", {"gate": gate}, progressToken=n) for n in range(number)]
    await client.note("notifications/progress", number)
    return ids


async def test_one_request_too_many_of_a_client_is_told_so(legacy: Host) -> None:
    client = await legacy(limits=Limits(per_client=3))
    ids = await held(client, 3)
    error = await client.error("tools/call", {"name": "echo", "arguments": {"text": "a"}})
    assert (error["code"], error["data"]) == (BUSY, {"limit": 3, "scope": "client"})
    for method, params in (("prompts/get", {"name": "plain"}), ("resources/read", {"uri": "test://one"})):
        assert (await client.error(method, params))["code"] == BUSY
    assert await client.result("ping") == {}
    assert (await client.result("tools/list"))["tools"]
    await client.cancel(ids[0])
    while "error" in await client.ask("tools/call", {"name": "open_gate", "arguments": {"gate": "g"}}):
        pass  # until the cancelled one has let go of its place
    for id in ids[1:]:
        assert (await client.answer(id))["result"]["content"][0]["text"] == "released"
    assert (await client.call("echo", {"text": "a"}))["structuredContent"]


async def test_the_limit_of_a_server_holds_for_all_clients_together(memory: Host) -> None:
    first = await memory(limits=Limits(per_client=3, per_server=4))
    second = await memory.another(first)
    await held(first, 3)
    await held(second, 1)
    error = await second.error("tools/call", {"name": "whoami"})
    assert (error["code"], error["data"]) == (BUSY, {"limit": 4, "scope": "server"})
    assert await second.result("ping") == {}


async def test_a_modern_client_is_told_to_come_back(http_modern: Host) -> None:
    client = await http_modern(limits=Limits(per_client=1))
    assert isinstance(client.wire, HttpWire)
    await held(client, 1)
    params = {"name": "whoami", "_meta": meta()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = await client.wire.post(message, client.wire.standard(message))
    assert (reply.status, reply.json["error"]["code"]) == (200, BUSY)
    assert reply.headers["Retry-After"] == "1"


async def test_a_person_who_thinks_holds_no_place(memory: Host) -> None:
    client = await memory(limits=Limits(per_client=1))
    asking = await client.start_call("ask_form")
    question = await client.question()
    assert (await client.call("echo", {"text": "meanwhile"}))["structuredContent"]
    await client.reply(question, {"action": "accept", "content": {"name": "Ada"}})
    await client.answer(asking)
    assert (client.here.dispatcher._active, (await client.call("whoami"))["structuredContent"]["client"]) == (
        0,
        "tests",
    )


async def test_what_waits_without_working_holds_no_place(memory_modern: Host, memory: Host) -> None:
    client = await memory_modern(limits=Limits(per_client=1))
    await client.start("subscriptions/listen", {"notifications": {}})
    assert (await client.call("whoami"))["structuredContent"]
    old = await memory(limits=Limits(per_client=1))
    task = (await old.call("task_maybe", {"gate": "g"}, task={}))["task"]
    await old.start("tasks/result", {"taskId": task["taskId"]})
    assert (await old.call("whoami"))["structuredContent"]


async def test_every_place_is_given_back(memory: Host) -> None:
    client = await memory(limits=Limits(per_client=2))
    for what in ("key", "cancelled", "exit", "group"):
        for later in (False, True):
            await client.ask("tools/call", {"name": "raise", "arguments": {"what": what, "later": later}})
    for id in await held(client, 2):
        await client.cancel(id)
    await client.settle()
    await client.settle()
    assert client.here.dispatcher._active == 0
    assert [conversation.active for conversation in client.here.conversations] == [0]
    assert [conversation.running for conversation in client.here.conversations] == [{}]


async def test_pings_pass_while_tools_run(connect: Host) -> None:
    client = await connect()
    await held(client, 5)
    await client.settle()


async def test_blocking_code_keeps_the_loop_free(connect: Host) -> None:
    client = await connect()
    id = await client.start_call("block", {"gate": "g"}, progressToken="from a thread")
    await client.note("notifications/progress")
    await client.settle()
    await client.call("open_gate", {"gate": "g"})
    assert (await client.answer(id))["result"]["content"][0]["text"] == "released"


async def test_blocking_code_can_see_that_it_was_cancelled(memory: Host) -> None:
    client = await memory()
    id = await client.start_call("block", {"gate": "g"}, progressToken=1)
    await client.note("notifications/progress")
    await client.cancel(id)
    await client.settle()
    assert not [answer for answer in client.answers if answer["id"] == id]


# --- failures


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("what", ["key", "value", "exit", "cancelled", "timeout", "recursion", "group", "stop"])
async def test_whatever_a_handler_raises_is_an_internal_error_without_detail(
    memory: Host, caplog: pytest.LogCaptureFixture, what: str, later: bool
) -> None:
    client = await memory()
    with caplog.at_level(logging.ERROR, "zorivest_rpc"):
        error = await client.error("tools/call", {"name": "raise", "arguments": {"what": what, "later": later}})
    assert error["code"] == -32603
    assert SECRET not in str(error)
    assert "Traceback" not in str(error)
    if (what, later) != ("cancelled", True):  # which looks like a shutdown, and is told as one
        assert any(record.exc_info for record in caplog.records)
        assert error["data"]["ref"] in caplog.text
    assert await client.result("ping") == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "leaves"}),
        ("resources/read", {"uri": "test://leaves"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "test://note/{id}"}, "argument": {"name": "leave", "value": ""}},
        ),
    ],
)
async def test_no_handler_can_end_the_process(memory: Host, method: str, params: Any) -> None:
    client = await memory()
    assert (await client.error(method, params))["code"] == -32603
    assert await client.result("ping") == {}


async def test_a_real_process_survives_its_handlers() -> None:
    host = Host("stdio")
    try:
        client = await host()
        for what in ("exit", "cancelled", "recursion"):
            for later in (False, True):
                error = await client.error("tools/call", {"name": "raise", "arguments": {"what": what, "later": later}})
                assert error["code"] == -32603
        assert (await client.error("prompts/get", {"name": "leaves"}))["code"] == -32603
        assert await client.result("ping") == {}
    finally:
        await host.close()


@pytest.mark.parametrize("tool", ["bad_output", "no_output"])
async def test_a_result_that_its_schema_refuses_is_a_tool_error(
    connect: Host, tool: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect()
    with caplog.at_level(logging.ERROR, "zorivest_rpc"):
        result = await client.call(tool)
    assert result["isError"] is True
    assert "structuredContent" not in result
    assert SECRET not in caplog.text  # the caller sees what came, the log does not
    assert result["_meta"]["com.zorivest/error"]["code"] == "bad_result"
    wrote = tool == "bad_output"
    assert ("The call itself was done" in result["content"][0]["text"]) is wrote
    assert ("com.zorivest/receipt" in result["_meta"]) is wrote


async def test_answers_of_one_client_never_reach_another(memory: Host) -> None:
    first = await memory()
    second = await memory.another(first)
    id = await first.start_call("hold", {"gate": "g"}, id="same", progressToken=1)
    await first.note("notifications/progress")
    other = await second.start_call("whoami", id="same")
    await second.answer(other)
    await second.cancel("same")
    await first.call("open_gate", {"gate": "g"})
    assert (await first.answer(id))["result"]["content"][0]["text"] == "released"
    assert len([answer for answer in second.answers if answer["id"] == "same"]) == 1
    assert second.notes == []


async def test_two_open_requests_under_one_id_are_both_answered(memory: Host) -> None:
    client = await memory()
    await client.start_call("hold", {"gate": "a"}, id=1)
    await client.start_call("hold", {"gate": "b"}, id=1)
    await client.call("open_gate", {"gate": "a"})
    await client.call("open_gate", {"gate": "b"})
    await client.until(lambda: len([a for a in client.answers if a["id"] == 1]) == 2 or None)
