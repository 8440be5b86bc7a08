"""The tasks extension of 2026-07-28: the server decides, the client polls, answers and cancels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import PREFIX, Client, Host, HttpWire, meta

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABLE: dict[str, Any] = {"extensions": {EXTENSION: {}}, "elicitation": {}, "sampling": {}, "roots": {}}
ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}


async def begun(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call(tool, arguments)
    assert result["resultType"] == "task", result
    id = result["taskId"]
    assert isinstance(id, str)
    return id


async def get(client: Client, id: str) -> Any:
    return await client.result("tasks/get", {"taskId": id})


async def over(client: Client, id: str) -> Any:
    while (task := await get(client, id))["status"] == "working":
        pass
    return task


async def test_a_task_is_created_flat_and_polled(modern: Host) -> None:
    client = await modern(capabilities=CAPABLE)
    made = await client.call("task_only", {"text": "later"})
    assert set(made) == {
        *("resultType", "_meta", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs")
    }
    assert (made["resultType"], made["status"]) == ("task", "working")
    assert type(made["ttlMs"]) is int
    assert type(made["pollIntervalMs"]) is int
    done = await over(client, made["taskId"])
    assert (done["resultType"], done["status"]) == ("complete", "completed")
    assert done["result"]["structuredContent"] == {"text": "later"}
    assert done["result"]["resultType"] == "complete"
    assert not {"error", "inputRequests", "requestState"} & set(done)


async def test_a_task_can_be_looked_at_at_once(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    id = await begun(client, "task_maybe", gate="g")
    assert (await get(client, id))["status"] == "working"


async def test_a_client_without_the_extension_gets_the_result_or_is_told(memory_modern: Host) -> None:
    client = await memory_modern(capabilities={})
    held = await client.start_call("task_maybe", {"gate": "g"})
    await client.call("open_gate", {"gate": "g"})
    assert (await client.answer(held))["result"]["resultType"] == "complete"
    needed: Any = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    error = await client.error("tools/call", {"name": "task_only", "arguments": {"text": "a"}})
    assert (error["code"], error["data"]) == (-32021, needed)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        error = await client.error(method, {"taskId": "any", "inputResponses": {}})
        assert (error["code"], error["data"]) == (-32021, needed)


async def test_a_task_member_means_nothing_in_this_era(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    assert (await client.call("echo", {"text": "a"}, task={"ttl": 5}))["resultType"] == "complete"
    assert (await client.call("echo", {"text": "a"}, task=5))["resultType"] == "complete"


async def test_methods_of_the_older_design_do_not_exist(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    for method in ("tasks/list", "tasks/result"):
        assert (await client.error(method, {"taskId": "t"}))["code"] == -32601


async def test_a_tool_error_completes_and_a_protocol_error_fails(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    done = await over(client, await begun(client, "task_tool_error"))
    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    done = await over(client, await begun(client, "task_protocol_error"))
    assert done["status"] == "failed"
    assert (done["error"]["code"], done["error"]["message"]) == (-32602, "refused by the job")
    assert "result" not in done


@pytest.mark.parametrize("what", ["key", "exit", "recursion", "group"])
async def test_a_task_that_breaks_fails_without_detail(memory_modern: Host, what: str) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    done = await over(client, await begun(client, "task_raise", what=what, later=True))
    assert (done["status"], done["error"]["code"]) == ("failed", -32603)
    assert "hunter2" not in str(done)


async def test_a_task_asks_and_is_answered(modern: Host) -> None:
    client = await modern(capabilities=CAPABLE)
    id = await begun(client, "task_ask")
    asking = await over(client, id)
    assert asking["status"] == "input_required"
    assert asking["inputRequests"]["name"]["method"] == "elicitation/create"
    given = await client.result("tasks/update", {"taskId": id, "inputResponses": {"name": ACCEPTED}})
    assert set(given) == {"resultType", "_meta"}
    done = await over(client, id)
    assert (done["status"], done["result"]["content"][0]["text"]) == ("completed", "hello Ada")
    assert client.questions == []


@pytest.mark.parametrize(
    "answers",
    [None, 5, [], {"name": 5}, {"name": None}, {"name": {"action": "maybe"}}, {"name": {"action": "accept"}},
     {"name": {"action": "accept", "content": {"name": 5}}}],
)  # fmt: skip
async def test_answers_that_do_not_fit_are_refused_and_the_task_goes_on_asking(
    memory_modern: Host, answers: Any
) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    id = await begun(client, "task_ask")
    await over(client, id)
    error = await client.error("tasks/update", {"taskId": id, "inputResponses": answers})
    assert error["code"] == -32602
    assert (await get(client, id))["status"] == "input_required"


async def test_answers_to_nothing_are_acknowledged_and_ignored(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    id = await begun(client, "task_ask")
    await over(client, id)
    await client.result("tasks/update", {"taskId": id, "inputResponses": {"unknown": ACCEPTED}})
    assert (await get(client, id))["status"] == "input_required"
    await client.result("tasks/update", {"taskId": id, "inputResponses": {"name": ACCEPTED}})
    await over(client, id)
    await client.result("tasks/update", {"taskId": id, "inputResponses": {"name": ACCEPTED}})
    assert (await client.error("tasks/update", {"taskId": id}))["code"] == -32602


async def test_cancelling_is_acknowledged_once_and_again(modern: Host) -> None:
    client = await modern(capabilities=CAPABLE)
    id = await begun(client, "task_maybe", gate="g")
    assert set(await client.result("tasks/cancel", {"taskId": id})) == {"resultType", "_meta"}
    assert set(await client.result("tasks/cancel", {"taskId": id})) == {"resultType", "_meta"}
    task = await get(client, id)
    assert task["status"] == "cancelled"
    assert not {"result", "error", "inputRequests"} & set(task)


async def test_what_is_over_stays_as_it_is(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    id = await begun(client, "task_only", text="a")
    before = await over(client, id)
    await client.result("tasks/cancel", {"taskId": id})
    assert (await get(client, id))["status"] == before["status"] == "completed"


async def test_input_may_come_before_the_task(modern: Host) -> None:
    client = await modern(capabilities=CAPABLE)
    first = await client.call("become_task")
    assert first["resultType"] == "input_required"
    more = {"requestState": first["requestState"], "inputResponses": {"name": ACCEPTED}}
    made = await client.call("become_task", {}, **more)
    assert made["resultType"] == "task"
    assert (await over(client, made["taskId"]))["result"]["content"][0]["text"] == "task of Ada"


async def test_without_the_extension_the_work_just_goes_on(memory_modern: Host) -> None:
    client = await memory_modern(capabilities={"elicitation": {}})
    first = await client.call("become_task")
    more = {"requestState": first["requestState"], "inputResponses": {"name": ACCEPTED}}
    assert (await client.call("become_task", {}, **more))["content"][0]["text"] == "request of Ada"


# --- whose task it is, and how long


async def test_a_task_is_nobody_elses(http_modern: Host) -> None:
    client = await http_modern(capabilities=CAPABLE, principal="ada")
    id = await begun(client, "task_maybe", gate="g")
    stranger = await http_modern.another(client, "mallory")
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        error = await stranger.error(method, {"taskId": id, "inputResponses": {}})
        assert error["code"] == -32602
    same = await http_modern.another(client, "ada")
    assert (await get(same, id))["status"] == "working"


async def test_nobody_else_can_listen_for_a_task(http_modern: Host) -> None:
    client = await http_modern(capabilities=CAPABLE, principal="ada")
    id = await begun(client, "task_maybe", gate="g")
    stranger = await http_modern.another(client, "mallory")
    await stranger.start("subscriptions/listen", {"notifications": {"taskIds": [id, "made up"]}})
    note = await stranger.note("notifications/subscriptions/acknowledged")
    assert note["params"]["notifications"] == {}
    await client.call("open_gate", {"gate": "g"})
    await over(client, id)
    await stranger.settle()
    assert len(stranger.notes) == 1


@pytest.mark.parametrize("id", ["", "made up", "00" * 50])
async def test_an_unknown_task_is_refused(memory_modern: Host, id: str) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        assert (await client.error(method, {"taskId": id, "inputResponses": {}}))["code"] == -32602


async def test_a_task_is_forgotten_at_the_end_of_its_life(memory_modern: Host) -> None:
    time = [1_000.0]
    client = await memory_modern(capabilities=CAPABLE, now=lambda: time[0])
    made = await client.call("task_maybe", {"gate": "g"})
    time[0] += made["ttlMs"] / 1000 - 1
    assert (await get(client, made["taskId"]))["status"] == "working"
    time[0] += 2
    assert (await client.error("tasks/get", {"taskId": made["taskId"]}))["code"] == -32602


async def test_after_a_restart_a_task_has_failed_and_its_outcome_is_unknown(memory_modern: Host) -> None:
    key = b"k" * 32
    before = await memory_modern(capabilities=CAPABLE, key=key, principal="ada")
    id = await begun(before, "task_maybe", gate="g")
    after = await memory_modern(capabilities=CAPABLE, key=key, principal="ada")
    task = await get(after, id)
    assert (task["status"], task["taskId"], task["error"]["code"]) == ("failed", id, -32603)
    assert "outcome is unknown" in task["error"]["message"]
    await after.result("tasks/cancel", {"taskId": id})
    assert (await get(after, id))["status"] == "failed"
    stranger = await memory_modern(capabilities=CAPABLE, key=key, principal="mallory")
    assert (await stranger.error("tasks/get", {"taskId": id}))["code"] == -32602
    other_key = await memory_modern(capabilities=CAPABLE, key=b"x" * 32, principal="ada")
    assert (await other_key.error("tasks/get", {"taskId": id}))["code"] == -32602


async def test_running_tasks_are_bounded(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    client.here.tasks._most = 2
    first = await begun(client, "task_only", text="over soon")
    await over(client, first)
    await begun(client, "task_maybe", gate="g")
    await begun(client, "task_maybe", gate="g")  # the finished one made room
    assert (await client.error("tasks/get", {"taskId": first}))["code"] == -32602
    error = await client.error("tools/call", {"name": "task_maybe", "arguments": {"gate": "g"}})
    assert (error["code"], "2 tasks" in error["message"]) == (-31000, True)


# --- status notifications


async def test_each_change_of_status_is_told_to_who_listens(modern: Host) -> None:
    client = await modern(capabilities=CAPABLE)
    id = await begun(client, "task_ask")
    other = await begun(client, "task_maybe", gate="g")
    await over(client, id)
    listen = await client.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
    ack = await client.note("notifications/subscriptions/acknowledged")
    assert ack["params"]["notifications"] == {"taskIds": [id]}
    await client.result("tasks/cancel", {"taskId": other})
    await client.result("tasks/update", {"taskId": id, "inputResponses": {"name": ACCEPTED}})
    done = await client.note("notifications/tasks", 2)
    told = client.notes_of("notifications/tasks")
    assert [note["params"]["status"] for note in told] == ["working", "completed"]
    assert {note["params"]["taskId"] for note in told} == {id}
    assert {note["params"]["_meta"][PREFIX + "subscriptionId"] for note in told} == {listen}
    assert done["params"]["result"]["content"][0]["text"] == "hello Ada"


async def test_without_the_extension_nobody_is_told_of_tasks(memory_modern: Host) -> None:
    client = await memory_modern(capabilities=CAPABLE)
    id = await begun(client, "task_maybe", gate="g")
    client.capabilities = {}
    await client.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
    ack = await client.note("notifications/subscriptions/acknowledged")
    assert ack["params"]["notifications"] == {}


async def test_a_task_is_named_in_its_header(http_modern: Host) -> None:
    client = await http_modern(capabilities=CAPABLE)
    id = await begun(client, "task_maybe", gate="g")
    assert isinstance(client.wire, HttpWire)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"_meta": meta(CAPABLE), "taskId": id}}
    head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tasks/get"}
    assert (await client.wire.post(message, head)).json["error"]["code"] == -32020
    assert (await client.wire.post(message, {**head, "Mcp-Name": "other"})).json["error"]["code"] == -32020
    assert (await client.wire.post(message, {**head, "Mcp-Name": id})).json["result"]["status"] == "working"
