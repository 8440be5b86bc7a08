"""The tasks of 2025-11-25: the client asks for one, polls, and fetches the result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Client, Host

RELATED = "io.modelcontextprotocol/related-task"


async def begun(client: Client, tool: str, task: Any = None, **arguments: Any) -> Any:
    result = await client.call(tool, arguments, task={} if task is None else task)
    assert set(result) == {"task"}
    return result["task"]


async def over(client: Client, id: str) -> Any:
    """Poll until it is; each poll is a round trip, so the task gets its turns."""
    while True:
        task = await client.result("tasks/get", {"taskId": id})
        if task["status"] not in ("working", "input_required"):
            return task


async def test_a_task_is_created_polled_and_fetched(legacy: Host) -> None:
    client = await legacy()
    task = await begun(client, "task_only", text="later")
    assert set(task) == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
    assert task["status"] == "working"
    assert isinstance(task["ttl"], int)
    assert isinstance(task["pollInterval"], int)
    assert task["createdAt"].endswith("Z")
    done = await over(client, task["taskId"])
    assert (done["status"], done["taskId"]) == ("completed", task["taskId"])
    result = await client.result("tasks/result", {"taskId": task["taskId"]})
    assert result["structuredContent"] == {"text": "later"}
    assert result["_meta"] == {RELATED: {"taskId": task["taskId"]}}


async def test_the_result_waits_for_the_end(legacy: Host) -> None:
    client = await legacy()
    task = await begun(client, "task_maybe", gate="g")
    waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
    await client.settle()
    assert (await client.result("tasks/get", {"taskId": task["taskId"]}))["status"] == "working"
    await client.call("open_gate", {"gate": "g"})
    assert (await client.answer(waiting))["result"]["content"][0]["text"] == "released"


async def test_support_for_tasks_decides_what_a_call_may_be(memory: Host) -> None:
    client = await memory()
    params = {"name": "echo", "arguments": {"text": "a"}, "task": {}}
    assert (await client.error("tools/call", params))["code"] == -32601
    params = {"name": "task_only", "arguments": {"text": "a"}}
    assert (await client.error("tools/call", params))["code"] == -32601
    id = await client.start_call("task_maybe", {"gate": "g"})
    await client.call("open_gate", {"gate": "g"})
    assert (await client.answer(id))["result"]["content"][0]["text"] == "released"


@pytest.mark.parametrize(
    "task", [5, None, "x", [], {"ttl": "long"}, {"ttl": 0}, {"ttl": -5}, {"ttl": 1.5}, {"ttl": True}]
)
async def test_a_task_member_of_the_wrong_shape_is_refused(memory: Host, task: Any) -> None:
    client = await memory()
    params = {"name": "task_only", "arguments": {"text": "a"}, "task": task}
    assert (await client.error("tools/call", params))["code"] == -32602


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_older_revisions_ignore_the_task_member(memory: Host, revision: str) -> None:
    client = await memory(revision)
    result = await client.call("task_only", {"text": "now"}, task={})
    assert result["content"] == [{"type": "text", "text": '{"text":"now"}'}]
    for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list"):
        assert (await client.error(method, {"taskId": "t"}))["code"] == -32601


async def test_wrong_arguments_make_no_task(memory: Host) -> None:
    client = await memory()
    assert (await client.call("task_only", {"text": 5}, task={}))["isError"] is True
    assert (await client.result("tasks/list"))["tasks"] == []


async def test_a_wish_for_a_life_is_granted_up_to_a_limit(memory: Host) -> None:
    client = await memory()
    assert (await begun(client, "task_only", {"ttl": 5_000}, text="a"))["ttl"] == 5_000
    assert (await begun(client, "task_only", {"ttl": 10**12}, text="a"))["ttl"] == 3_600_000


async def test_an_expired_task_is_unknown(memory: Host) -> None:
    time = [1_000.0]
    client = await memory(now=lambda: time[0])
    task = await begun(client, "task_maybe", {"ttl": 5_000}, gate="g")
    time[0] += 4.9
    assert (await client.result("tasks/get", {"taskId": task["taskId"]}))["status"] == "working"
    time[0] += 0.2
    assert (await client.error("tasks/get", {"taskId": task["taskId"]}))["code"] == -32602
    assert (await client.result("tasks/list"))["tasks"] == []
    assert (await client.call("await_stop", {"gate": "g"}))["content"][0]["text"] == "stopped"


async def test_failures_of_tools_and_of_the_server_are_told_apart(memory: Host) -> None:
    client = await memory()
    failed = await begun(client, "task_tool_error")
    assert (await over(client, failed["taskId"]))["status"] in ("completed", "failed")
    assert (await client.result("tasks/result", {"taskId": failed["taskId"]}))["isError"] is True
    refused = await begun(client, "task_protocol_error")
    assert (await over(client, refused["taskId"]))["status"] == "failed"
    error = await client.error("tasks/result", {"taskId": refused["taskId"]})
    assert error == {"code": -32602, "message": "refused by the job", "data": {"why": "tests"}}


@pytest.mark.parametrize("what", ["key", "exit", "cancelled", "recursion"])
async def test_a_task_that_breaks_ends_without_detail(memory: Host, what: str) -> None:
    client = await memory()
    task = await begun(client, "task_raise", what=what)
    done = await over(client, task["taskId"])
    assert done["status"] in ("failed", "cancelled")
    answer = await client.ask("tasks/result", {"taskId": task["taskId"]})
    assert "hunter2" not in str(answer)
    assert "error" in answer


async def test_tasks_are_listed_cancelled_and_then_over(legacy: Host) -> None:
    client = await legacy()
    first = await begun(client, "task_maybe", gate="g")
    second = await begun(client, "task_maybe", gate="g")
    listed = (await client.result("tasks/list"))["tasks"]
    assert [task["taskId"] for task in listed] == [first["taskId"], second["taskId"]]
    gone = await client.result("tasks/cancel", {"taskId": first["taskId"]})
    assert (gone["taskId"], gone["status"]) == (first["taskId"], "cancelled")
    assert (await client.error("tasks/cancel", {"taskId": first["taskId"]}))["code"] == -32602
    assert (await client.error("tasks/result", {"taskId": first["taskId"]}))["code"] == -32602
    assert (await client.call("await_stop", {"gate": "g"}))["content"][0]["text"] == "stopped"


async def test_cancelling_a_task_withdraws_the_form_that_it_waits_for(legacy: Host) -> None:
    client = await legacy()
    task = await begun(client, "task_ask")
    waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
    question = await client.question()
    assert question["params"]["_meta"] == {RELATED: {"taskId": task["taskId"]}}
    await client.result("tasks/cancel", {"taskId": task["taskId"]})
    assert (await client.note("notifications/cancelled"))["params"] == {"requestId": question["id"]}
    assert (await client.answer(waiting))["error"]["code"] == -32602
    await client.reply(question, {"action": "decline"})
    await client.settle()
    assert len(client.notes_of("notifications/cancelled")) == 1


async def test_many_tasks_are_listed_by_pages(memory: Host) -> None:
    client = await memory()
    ids = [(await begun(client, "task_only", text=str(number)))["taskId"] for number in range(60)]
    page = await client.result("tasks/list")
    assert len(page["tasks"]) == 50
    rest = await client.result("tasks/list", {"cursor": page["nextCursor"]})
    assert [task["taskId"] for task in page["tasks"] + rest["tasks"]] == ids
    assert "nextCursor" not in rest


@pytest.mark.parametrize("id", ["", "nothing", "00" * 40])
async def test_an_unknown_task_is_refused(memory: Host, id: str) -> None:
    client = await memory()
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert (await client.error(method, {"taskId": id}))["code"] == -32602
        assert (await client.error(method))["code"] == -32602


async def test_a_task_asks_through_its_result(legacy: Host) -> None:
    client = await legacy()
    task = await begun(client, "task_ask")
    waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
    question = await client.question()
    assert question["method"] == "elicitation/create"
    assert question["params"]["_meta"] == {RELATED: {"taskId": task["taskId"]}}
    assert (await client.result("tasks/get", {"taskId": task["taskId"]}))["status"] == "input_required"
    await client.reply(question, {"action": "accept", "content": {"name": "Ada"}})
    result = (await client.answer(waiting))["result"]
    assert result["content"][0]["text"] == "hello Ada"
    assert (await client.result("tasks/get", {"taskId": task["taskId"]}))["status"] == "completed"


async def test_a_question_that_was_refused_can_be_answered_by_asking_again(memory: Host) -> None:
    client = await memory()
    task = await begun(client, "task_ask")
    waiting = await client.start("tasks/result", {"taskId": task["taskId"]})
    await client.reply(await client.question(1), error={"code": 1, "message": "not now"})
    assert "error" in await client.answer(waiting)
    again = await client.start("tasks/result", {"taskId": task["taskId"]})
    await client.reply(await client.question(2), {"action": "decline"})
    assert (await client.answer(again))["result"]["content"][0]["text"] == "decline"


async def test_progress_of_a_task_becomes_its_status_message(memory: Host) -> None:
    client = await memory()
    task = await begun(client, "task_progress", gate="g")
    await client.settle()
    assert (await client.result("tasks/get", {"taskId": task["taskId"]}))["statusMessage"] == "half way"


async def test_a_task_outlives_the_session_that_asked_for_it(http: Host) -> None:
    client = await http(principal="ada")
    task = await begun(client, "task_maybe", gate="g")
    other = await http.another(client, "ada")
    stranger = await http.another(client, "mallory")
    assert (await other.result("tasks/get", {"taskId": task["taskId"]}))["status"] == "working"
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        assert (await stranger.error(method, {"taskId": task["taskId"]}))["code"] == -32602
    assert (await stranger.result("tasks/list"))["tasks"] == []
