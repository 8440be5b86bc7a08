"""The features of the revisions that open with `initialize`, one requirement per test."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Host

OLD = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


# --- the greeting


@pytest.mark.parametrize("revision", OLD)
async def test_the_greeting_names_exactly_what_the_revision_knows(memory: Host, revision: str) -> None:
    client = await memory(revision)
    expected: dict[str, Any] = {
        "logging": {},
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
    }
    if revision != "2024-11-05":
        expected["completions"] = {}
    if revision == "2025-11-25":
        expected["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert client.greeting == {
        "protocolVersion": revision,
        "capabilities": expected,
        "serverInfo": {"name": "rich", "version": "1.2.3", "title": "Rich"},
        "instructions": f"for {revision}",
    }


@pytest.mark.parametrize("revision", OLD)
async def test_what_is_not_offered_is_neither_named_nor_answered(memory: Host, revision: str) -> None:
    client = await memory(revision, offer="tests.mcp.protocol.offers:bare")
    assert client.greeting["capabilities"] == {}
    assert "instructions" not in client.greeting
    for method in (
        *("tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/read"),
        *("resources/templates/list", "resources/subscribe", "resources/unsubscribe", "completion/complete"),
        *("logging/setLevel", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel"),
    ):
        params = {"name": "x", "uri": "x:y", "level": "info", "taskId": "t", "ref": {"type": "ref/prompt", "name": "x"}}
        params["argument"] = {"name": "a", "value": ""}
        assert (await client.error(method, params))["code"] == -32601, method
    assert await client.result("ping") == {}


@pytest.mark.parametrize("revision", OLD)
async def test_methods_of_the_modern_era_do_not_exist(memory: Host, revision: str) -> None:
    client = await memory(revision)
    for method in ("server/discover", "subscriptions/listen", "tasks/update"):
        params = {"notifications": {}, "taskId": "t", "inputResponses": {}}
        assert (await client.error(method, params))["code"] == -32601


@pytest.mark.parametrize("revision", OLD)
async def test_no_result_carries_a_modern_field(memory: Host, revision: str) -> None:
    client = await memory(revision)
    assert await client.result("ping") == {}
    assert await client.result("logging/setLevel", {"level": "error"}) == {}
    assert await client.result("resources/subscribe", {"uri": "test://one"}) == {}
    assert await client.result("resources/unsubscribe", {"uri": "test://one"}) == {}
    for method, params in (
        ("tools/list", {}),
        ("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "plain"}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "test://one"}),
    ):
        result = await client.result(method, params)
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result), (method, result)


async def test_members_of_the_modern_era_in_params_are_ignored(memory: Host) -> None:
    client = await memory()
    result = await client.call("echo", {"text": "a"}, inputResponses=5, requestState=7)
    assert result["structuredContent"] == {"text": "a"}


# --- logging


@pytest.mark.parametrize("level", LEVELS)
async def test_a_level_lets_itself_and_what_is_worse_through(memory: Host, level: str) -> None:
    client = await memory()
    await client.result("logging/setLevel", {"level": level})
    await client.call("log_all")
    await client.settle()
    told = [note["params"] for note in client.notes_of("notifications/message")]
    assert told == [{"level": each, "logger": "tests", "data": {"at": each}} for each in LEVELS[LEVELS.index(level) :]]


async def test_info_and_above_are_told_before_a_level_is_set(memory: Host) -> None:
    client = await memory()
    await client.call("log_all")
    assert [note["params"]["level"] for note in client.notes] == list(LEVELS[1:])


@pytest.mark.parametrize("level", ["Info", "", "verbose", 3, None, ["info"]])
async def test_an_unknown_level_is_refused_and_changes_nothing(memory: Host, level: Any) -> None:
    client = await memory()
    assert (await client.error("logging/setLevel", {"level": level}))["code"] == -32602
    assert (await client.error("logging/setLevel"))["code"] == -32602
    assert (await client.call("whoami"))["structuredContent"]["level"] == "info"


async def test_a_level_belongs_to_one_session(legacy: Host) -> None:
    if legacy.kind == "stdio":
        return  # a process has one session
    client = await legacy()
    other = await legacy.another(client) if legacy.kind != "sse" else await legacy()
    await client.result("logging/setLevel", {"level": "emergency"})
    await other.call("log_all")
    await client.call("log_all")
    assert [note["params"]["level"] for note in client.notes] == ["emergency"]
    assert len(other.notes) == 7


# --- progress


@pytest.mark.parametrize("token", ["t", "", 0, 7, -1, 2**60, "ünï"])
async def test_a_progress_token_comes_back_with_its_type(memory: Host, token: Any) -> None:
    client = await memory()
    await client.ask("tools/call", {"name": "progress", "arguments": {"steps": [1]}}, progressToken=token)
    (note,) = client.notes
    assert note["params"]["progressToken"] == token
    assert type(note["params"]["progressToken"]) is type(token)


@pytest.mark.parametrize("token", [1.5, True, None, {}, [1]])
async def test_a_progress_token_of_another_type_is_refused(memory: Host, token: Any) -> None:
    client = await memory()
    params = {"name": "progress", "arguments": {"steps": [1]}}
    assert (await client.error("tools/call", params, progressToken=token))["code"] == -32602
    assert client.notes == []


@pytest.mark.parametrize("revision", OLD)
async def test_a_progress_message_is_left_out_where_the_revision_has_none(memory: Host, revision: str) -> None:
    client = await memory(revision)
    await client.ask("tools/call", {"name": "progress", "arguments": {"steps": [1]}}, progressToken="t")
    expected = {"progressToken": "t", "progress": 1, "total": 100}
    if revision != "2024-11-05":
        expected["message"] = "at 1"
    assert client.notes[0]["params"] == expected


# --- cancellation


async def test_a_cancelled_call_stops_and_is_not_answered(legacy: Host) -> None:
    client = await legacy()
    id = await client.start_call("hold", {"gate": "g"}, id="held", progressToken=1)
    await client.note("notifications/progress")
    await client.cancel(id)
    assert (await client.call("await_stop", {"gate": "g"}))["content"][0]["text"] == "stopped"
    await client.settle()
    answers = [answer for answer in client.answers if answer["id"] == id]
    if legacy.kind != "streamable":
        assert answers == []
    else:  # its stream just ends
        await client.wire.streams[id]  # type: ignore[attr-defined]
        assert answers == []


async def test_a_cancelled_post_that_did_not_stream_still_ends(http: Host) -> None:
    client = await http()
    id = await client.start_call("hold", {"gate": "g"}, id="held")
    while not client.here.dispatcher._active:  # it has no progress token, so nothing tells that it runs
        await client.settle()
    await client.cancel(id)
    assert (await client.answer(id))["error"]["code"] == -32800


async def test_an_id_of_another_type_cancels_nothing(memory: Host) -> None:
    client = await memory()
    id = await client.start_call("hold", {"gate": "g"}, id=7)
    await client.cancel("7")
    await client.call("open_gate", {"gate": "g"})
    assert (await client.answer(id))["result"]


async def test_cancelling_what_is_over_unknown_or_malformed_is_ignored(legacy: Host) -> None:
    client = await legacy()
    id = await client.start_call("echo", {"text": "a"})
    await client.answer(id)
    for params in ({"requestId": id}, {"requestId": "nobody"}, {"requestId": None}, {}, {"requestId": [1]}):
        await client.notify("notifications/cancelled", params)
    await client.notify("notifications/cancelled")
    await client.settle()
    assert client.strays == []


async def test_a_question_is_withdrawn_with_its_call(legacy: Host) -> None:
    client = await legacy()
    id = await client.start_call("ask_form", id="asks")
    question = await client.question()
    await client.cancel(id)
    note = await client.note("notifications/cancelled")
    assert note["params"] == {"requestId": question["id"]}
    await client.reply(question, {"action": "accept", "content": {"name": "late"}})  # it crossed our notification
    await client.settle()
    assert not [answer for answer in client.answers if answer["id"] == id]
    assert len(client.notes_of("notifications/cancelled")) == 1
    assert not (await client.call("echo", {"text": "still here"})).get("isError")


async def test_only_the_questions_without_an_answer_are_withdrawn(legacy: Host) -> None:
    client = await legacy()
    id = await client.start_call("ask_two", id="asks")
    first, second = await client.question(1), await client.question(2)
    await client.reply(first, {"action": "decline"})
    await client.settle()
    await client.cancel(id)
    assert (await client.note("notifications/cancelled"))["params"] == {"requestId": second["id"]}
    await client.settle()
    assert len(client.notes_of("notifications/cancelled")) == 1


async def test_cancelling_a_call_that_asked_and_went_on_withdraws_nothing(legacy: Host) -> None:
    client = await legacy()
    id = await client.start_call("ask_form", id="asks")
    await client.reply(await client.question(), {"action": "accept", "content": {"name": "Ada"}})
    await client.answer(id)
    await client.cancel(id)
    await client.settle()
    assert client.notes_of("notifications/cancelled") == []


async def test_a_cancelled_call_can_be_sent_again_under_the_same_id(memory: Host) -> None:
    client = await memory()
    await client.start_call("hold", {"gate": "g"}, id=1)
    await client.cancel(1)
    await client.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami"}})
    assert (await client.answer(1))["result"]["structuredContent"]["client"] == "tests"


# --- subscriptions to resources


async def test_a_subscribed_resource_is_told_about_until_it_is_unsubscribed(legacy: Host) -> None:
    client = await legacy()
    await client.result("resources/subscribe", {"uri": "test://one"})
    await client.call("touch", {"uri": "test://two"})
    await client.call("touch", {"uri": "test://one"})
    note = await client.note("notifications/resources/updated")
    assert note["params"] == {"uri": "test://one"}
    await client.result("resources/unsubscribe", {"uri": "test://one"})
    await client.call("touch", {"uri": "test://one"})
    await client.call("change", {"kind": "resources"})
    await client.note("notifications/resources/list_changed")
    assert len(client.notes_of("notifications/resources/updated")) == 1


async def test_an_unknown_resource_cannot_be_subscribed(memory: Host) -> None:
    client = await memory()
    error = await client.error("resources/subscribe", {"uri": "test://nowhere"})
    assert (error["code"], error["data"]) == (-32002, {"uri": "test://nowhere"})
    assert (await client.error("resources/subscribe"))["code"] == -32602
    assert await client.result("resources/unsubscribe", {"uri": "test://nowhere"}) == {}


async def test_a_session_follows_at_most_256_resources(legacy: Host) -> None:
    client = await legacy()
    for number in range(256):
        await client.result("resources/subscribe", {"uri": f"test://note/{number}"})
    assert await client.result("resources/subscribe", {"uri": "test://note/0"}) == {}  # it is one of the 256
    error = await client.error("resources/subscribe", {"uri": "test://note/256"})
    assert (error["code"], "at most 256 resources" in error["message"]) == (-32602, True)
    await client.result("resources/unsubscribe", {"uri": "test://note/7"})
    await client.result("resources/subscribe", {"uri": "test://note/256"})
    await client.call("touch", {"uri": "test://note/256"})
    assert (await client.note("notifications/resources/updated"))["params"] == {"uri": "test://note/256"}


def long_uri(number: int, length: int) -> str:
    return f"test://file/{number:02d}".ljust(length, "x")


async def test_the_uris_that_a_session_follows_have_at_most_64_kib(memory: Host) -> None:
    client = await memory()
    for number in range(31):  # 31 × 2 048 and one of 2 048 make 64 KiB to the byte
        await client.result("resources/subscribe", {"uri": long_uri(number, 2048)})
    await client.result("resources/subscribe", {"uri": long_uri(31, 2047)})
    error = await client.error("resources/subscribe", {"uri": "test://one"})
    assert (error["code"], "65536 bytes" in error["message"]) == (-32602, True)
    await client.result("resources/unsubscribe", {"uri": long_uri(31, 2047)})
    await client.result("resources/subscribe", {"uri": long_uri(31, 2048)})


@pytest.mark.parametrize(("length", "is_taken"), [(2048, True), (2049, False)])
async def test_a_uri_has_at_most_2048_characters(memory: Host, length: int, is_taken: bool) -> None:
    client = await memory()
    answer = await client.ask("resources/subscribe", {"uri": long_uri(0, length)})
    assert ("result" in answer) is is_taken


@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
async def test_each_list_change_is_told_without_params(memory: Host, kind: str) -> None:
    client = await memory()
    await client.call("change", {"kind": kind})
    note = await client.note(f"notifications/{kind}/list_changed")
    assert note == {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"}


async def test_a_list_change_follows_the_answer_that_caused_it(memory: Host) -> None:
    client = await memory()
    await client.call("change", {"kind": "tools"})
    await client.note("notifications/tools/list_changed")
    assert b"list_changed" in client.frames[-1]
    assert b'"changed"' in client.frames[-2]


async def test_nothing_is_announced_before_initialized(memory: Host) -> None:
    client = await memory(opened=False)
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    await client.result("initialize", params)
    client.here.offer.announce_change("tools")
    await client.settle()
    assert client.notes == []
    await client.notify("notifications/initialized")
    client.here.offer.announce_change("tools")
    await client.note("notifications/tools/list_changed")


# --- resources, prompts, completion


@pytest.mark.parametrize("revision", OLD)
async def test_an_unknown_resource_has_its_own_code(memory: Host, revision: str) -> None:
    client = await memory(revision)
    for uri in ("test://nowhere", "test://note/17"):
        error = await client.error("resources/read", {"uri": uri})
        assert (error["code"], error["data"]) == (-32002, {"uri": uri})


async def test_a_template_reads_its_variables(memory: Host) -> None:
    client = await memory()
    for uri in ("test://note/1", "test://file/a/b/c.txt", "test://file/%C3%BC"):
        assert (await client.result("resources/read", {"uri": uri}))["contents"][0]["uri"] == uri
    assert (await client.error("resources/read", {"uri": "test://note/1/2"}))["code"] == -32002


@pytest.mark.parametrize(
    "params",
    [
        {"name": "nobody"},
        {"name": "named"},
        {"name": "named", "arguments": {"b": "x"}},
        {"name": "named", "arguments": {"a": 5}},
        {"name": "named", "arguments": []},
        {"name": 5},
        {},
    ],
)
async def test_a_prompt_that_cannot_be_got_is_refused(memory: Host, params: Any) -> None:
    client = await memory()
    assert (await client.error("prompts/get", params))["code"] == -32602


@pytest.mark.parametrize(
    "params",
    [
        {"ref": {"type": "ref/prompt", "name": "nobody"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/resource", "uri": "test://nowhere"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "uri": "test://one"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/other", "name": "named"}, "argument": {"name": "a", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "named"}, "argument": {"name": "a"}},
        {"ref": {"type": "ref/prompt", "name": "named"}},
        {"argument": {"name": "a", "value": ""}},
    ],
)
async def test_a_completion_of_nothing_known_is_refused(memory: Host, params: Any) -> None:
    client = await memory()
    assert (await client.error("completion/complete", params))["code"] == -32602


async def test_a_completion_sees_the_other_arguments(memory: Host) -> None:
    client = await memory()
    asked = {
        "ref": {"type": "ref/resource", "uri": "test://note/{id}"},
        "argument": {"name": "id", "value": "1"},
        "context": {"arguments": {"other": "known"}},
    }
    assert await client.result("completion/complete", asked) == {"completion": {"values": ["id=1", "known"]}}


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 5}, {"name": None}, {"name": "echo", "arguments": []}, {"name": "echo", "arguments": "text"},
     {"name": "echo", "arguments": 0}],
)  # fmt: skip
async def test_a_malformed_call_is_a_protocol_error(memory: Host, params: Any) -> None:
    client = await memory()
    assert (await client.error("tools/call", params))["code"] == -32602


async def test_absent_arguments_are_no_arguments(memory: Host) -> None:
    client = await memory()
    assert (await client.result("tools/call", {"name": "whoami"}))["structuredContent"]["client"] == "tests"
    assert (await client.result("tools/call", {"name": "whoami", "arguments": {"x": 1}}))["isError"] is True


@pytest.mark.parametrize("revision", OLD[:3])
async def test_a_method_that_does_not_exist_has_no_wrong_params(legacy: Host, revision: str) -> None:
    if legacy.kind == "stdio":
        return  # the same connection as in memory
    client = await legacy(revision)
    for params in ({}, {"taskId": 5}):
        assert (await client.error("tasks/get", params))["code"] == -32601
