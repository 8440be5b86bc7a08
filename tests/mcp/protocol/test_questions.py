"""What the server asks a legacy client: on the call's own stream, with refusals, nonsense, silence and late answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Client, Host, HttpWire
from zorivest_rpc.mcp.dispatcher import Limits

ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}
SAMPLED = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}}


async def put(client: Client, tool: str, result: Any = None, error: Any = None, **arguments: Any) -> tuple[Any, Any]:
    """Call, answer the one question, and return both."""
    before = len(client.questions)
    id = await client.start_call(tool, arguments)
    question = await client.question(before + 1)
    await client.reply(question, result, error)
    return question, (await client.answer(id))["result"]


async def test_a_form_of_the_newest_legacy_revision_names_its_mode(legacy: Host) -> None:
    client = await legacy()
    question, result = await put(client, "ask_form", ACCEPTED)
    schema = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]}
    expected = {"mode": "form", "message": "Your name?", "requestedSchema": schema}
    assert (question["method"], question["params"]) == ("elicitation/create", expected)
    assert isinstance(question["id"], str)
    assert result["content"][0]["text"] == "hello Ada"


async def test_a_form_of_the_revision_before_has_no_mode(memory: Host) -> None:
    client = await memory("2025-06-18")
    question, _ = await put(client, "ask_form", ACCEPTED)
    assert "mode" not in question["params"]


async def test_a_page_to_visit_carries_its_id(legacy: Host) -> None:
    client = await legacy()
    question, result = await put(client, "ask_url", {"action": "accept"})
    assert question["params"] == {
        "mode": "url",
        "message": "Please sign in",
        "url": "https://example.com/sign-in",
        "elicitationId": "page-1",
    }
    assert result["content"][0]["text"] == "accept"


async def test_sampling_and_roots_are_asked(legacy: Host) -> None:
    client = await legacy()
    question, result = await put(client, "ask_sample", SAMPLED)
    assert (question["method"], question["params"]["maxTokens"]) == ("sampling/createMessage", 10)
    assert result["content"][0]["text"] == "model said yes"
    question, result = await put(client, "ask_roots", {"roots": [{"uri": "file:///a"}]})
    assert question["method"] == "roots/list"
    assert result["content"][0]["text"] == "1 roots"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declining_is_an_ordinary_outcome(memory: Host, action: str) -> None:
    client = await memory()
    _, result = await put(client, "ask_form", {"action": action})
    assert (result["content"][0]["text"], result.get("isError")) == (action, None)


async def test_a_refusal_of_the_client_becomes_a_tool_error(legacy: Host) -> None:
    client = await legacy()
    _, result = await put(client, "ask_form", error={"code": -1, "message": "User rejected"})
    assert result["isError"] is True
    assert "User rejected" in result["content"][0]["text"]


@pytest.mark.parametrize("error", [17, "no", [], {"message": 5}, {}])
async def test_an_error_of_the_wrong_shape_is_a_refusal_all_the_same(memory: Host, error: Any) -> None:
    client = await memory()
    _, result = await put(client, "ask_form", error=error)
    assert result["isError"] is True


@pytest.mark.parametrize(
    "answer",
    [None, 5, [], "accept", {}, {"action": "maybe"}, {"action": "accept"}, {"action": "accept", "content": "Ada"},
     {"action": "accept", "content": {}}, {"action": "accept", "content": {"name": 5}},
     {"action": "accept", "content": {"name": ""}}, {"action": ["accept"]}],
)  # fmt: skip
async def test_an_answer_that_is_none_becomes_a_tool_error(memory: Host, answer: Any) -> None:
    client = await memory()
    _, result = await put(client, "ask_form", answer)
    assert result["isError"] is True
    assert result["_meta"]["com.zorivest/error"]["code"] == "bad_input"


async def test_samples_and_roots_of_the_wrong_shape_become_tool_errors(memory: Host) -> None:
    client = await memory()
    for tool, answer in (("ask_sample", {"role": "assistant"}), ("ask_roots", {"roots": {}}), ("ask_roots", {})):
        _, result = await put(client, tool, answer)
        assert result["isError"] is True


@pytest.mark.parametrize(
    ("revision", "capabilities", "allowed"),
    [
        ("2025-11-25", {}, set()),
        ("2025-11-25", {"elicitation": {}}, {"ask_form"}),
        ("2025-11-25", {"elicitation": {"form": {}}}, {"ask_form"}),
        ("2025-11-25", {"elicitation": {"url": {}}}, {"ask_url"}),
        ("2025-11-25", {"elicitation": {"form": {}, "url": {}}}, {"ask_form", "ask_url"}),
        ("2025-11-25", {"elicitation": True, "sampling": 1, "roots": []}, set()),
        ("2025-11-25", {"sampling": {}}, {"ask_sample"}),
        ("2025-11-25", {"roots": {"listChanged": True}}, {"ask_roots"}),
        ("2025-06-18", {"elicitation": {"form": {}, "url": {}}}, {"ask_form"}),
        ("2025-03-26", {"elicitation": {}, "sampling": {}, "roots": {}}, {"ask_sample", "ask_roots"}),
        ("2024-11-05", {"elicitation": {}, "sampling": {}, "roots": {}}, {"ask_sample", "ask_roots"}),
    ],
)
async def test_only_what_was_declared_is_asked(
    memory: Host, revision: str, capabilities: Any, allowed: set[str]
) -> None:
    client = await memory(revision, capabilities=capabilities)
    for tool in ("ask_form", "ask_url", "ask_sample", "ask_roots"):
        before = len(client.questions)
        id = await client.start_call(tool)
        if tool in allowed:
            await client.reply(await client.question(before + 1), {"action": "decline", "content": {}, "roots": []})
            await client.answer(id)
        else:
            result = (await client.answer(id))["result"]
            assert result["isError"] is True, tool
            assert len(client.questions) == before


async def test_tools_in_a_sample_need_their_own_capability(memory: Host) -> None:
    client = await memory(capabilities={"sampling": {}})
    assert (await client.call("ask_sample", {"tools": True}))["isError"] is True
    client = await memory(capabilities={"sampling": {"tools": {}}})
    question, _ = await put(client, "ask_sample", SAMPLED, tools=True)
    assert question["params"]["tools"] == []


async def test_several_questions_go_out_together(legacy: Host) -> None:
    client = await legacy()
    id = await client.start_call("ask_two")
    asked = {(await client.question(number))["method"]: client.questions[number - 1] for number in (1, 2)}
    await client.reply(asked["roots/list"], {"roots": [1, 2]})
    await client.reply(asked["elicitation/create"], ACCEPTED)
    assert (await client.answer(id))["result"]["content"][0]["text"] == "Ada has 2"


async def test_one_refusal_of_several_ends_them_all(memory: Host) -> None:
    client = await memory()
    id = await client.start_call("ask_two")
    first, second = await client.question(1), await client.question(2)
    await client.reply(second, error={"code": 1, "message": "second"})
    await client.reply(first, error={"code": 1, "message": "first"})
    assert (await client.answer(id))["result"]["isError"] is True
    assert client.here.dispatcher._active == 0


async def test_several_rounds_run_the_handler_again(legacy: Host) -> None:
    client = await legacy()
    id = await client.start_call("ask_rounds")
    for number, name in enumerate(("a", "b", "c"), 1):
        question = await client.question(number)
        await client.reply(question, {"action": "accept", "content": {"name": name}})
    assert (await client.answer(id))["result"]["content"][0]["text"] == "a b c"


async def test_rounds_have_an_end(memory: Host) -> None:
    client = await memory(limits=Limits(input_rounds=3))
    id = await client.start_call("ask_forever")
    for number in (1, 2, 3):
        await client.reply(await client.question(number), ACCEPTED)
    result = (await client.answer(id))["result"]
    assert result["_meta"]["com.zorivest/error"]["code"] == "too_many_rounds"
    assert len(client.questions) == 3


async def test_silence_ends_in_a_tool_error_and_withdraws_the_question(memory: Host) -> None:
    client = await memory(limits=Limits(input_seconds=0.01))
    id = await client.start_call("ask_form")
    question = await client.question()
    result = (await client.answer(id))["result"]
    assert result["_meta"]["com.zorivest/error"]["code"] == "input_timeout"
    assert (await client.note("notifications/cancelled"))["params"]["requestId"] == question["id"]
    await client.reply(question, ACCEPTED)  # too late, and dropped
    await client.settle()
    assert client.strays == []


async def test_an_answer_counts_once_and_only_under_its_id(memory: Host) -> None:
    client = await memory()
    id = await client.start_call("ask_form")
    question = await client.question()
    await client.reply({"id": question["id"] + "0"}, {"action": "cancel"})
    await client.reply({"id": 1}, {"action": "cancel"})
    await client.reply(question, ACCEPTED)
    await client.reply(question, {"action": "cancel"})
    assert (await client.answer(id))["result"]["content"][0]["text"] == "hello Ada"


async def test_another_session_cannot_answer(http: Host) -> None:
    client = await http()
    other = await http.another(client)
    id = await client.start_call("ask_form")
    question = await client.question()
    await other.reply(question, {"action": "accept", "content": {"name": "Mallory"}})
    await client.reply(question, ACCEPTED)
    assert (await client.answer(id))["result"]["content"][0]["text"] == "hello Ada"


async def test_a_question_travels_on_the_stream_of_its_call(http: Host) -> None:
    """Nothing of it may go to the standing stream, which a client need not have."""
    client = await http(opened=False)
    assert isinstance(client.wire, HttpWire)
    params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}}
    await client.result("initialize", {**params, "clientInfo": {"name": "t", "version": "1"}})
    id = await client.start_call("ask_form")
    await client.reply(await client.question(), ACCEPTED)
    assert (await client.answer(id))["result"]["content"][0]["text"] == "hello Ada"


async def test_a_prompt_and_a_resource_may_ask_too(legacy: Host) -> None:
    client = await legacy()
    prompt = await client.start("prompts/get", {"name": "asks"})
    await client.reply(await client.question(1), ACCEPTED)
    assert (await client.answer(prompt))["result"]["messages"][0]["content"]["text"] == "Ada"
    resource = await client.start("resources/read", {"uri": "test://asks"})
    await client.reply(await client.question(2), ACCEPTED)
    assert (await client.answer(resource))["result"]["contents"][0]["text"] == "for Ada"


async def test_a_prompt_that_got_no_answer_is_an_error(memory: Host) -> None:
    client = await memory()
    id = await client.start("prompts/get", {"name": "asks"})
    await client.reply(await client.question(), error={"code": 1, "message": "no"})
    assert (await client.answer(id))["error"]["code"] == -32602


async def test_a_prompt_that_cannot_ask_says_what_is_missing(memory: Host) -> None:
    client = await memory(capabilities={})
    for method, params in (("prompts/get", {"name": "asks"}), ("resources/read", {"uri": "test://asks"})):
        error = await client.error(method, params)
        assert (error["code"], "elicitation/create" in error["message"]) == (-32602, True)


async def test_a_client_that_takes_no_events_is_told_at_once_that_it_cannot_be_asked(http: Host) -> None:
    client = await http()
    assert isinstance(client.wire, HttpWire)
    head = {**client.wire.standard(None), "Accept": "application/json"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask_form"}}
    reply = await client.wire.post(message, head)
    assert reply.json["result"]["isError"] is True
    assert reply.json["result"]["_meta"]["com.zorivest/error"]["code"] == "client_cannot_be_asked"
