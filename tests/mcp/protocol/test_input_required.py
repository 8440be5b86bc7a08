"""Input in the modern era: `input_required`, and state that only its own call may bring back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Client, Host, HttpWire
from zorivest_rpc.mcp.dispatcher import Limits

ACCEPTED = {"action": "accept", "content": {"name": "Ada"}}
FORM = {
    "message": "Your name?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1}},
        "required": ["name"],
    },
}


async def again(client: Client, tool: str, state: Any, answers: Any, **arguments: Any) -> Any:
    """The whole answer to the repeated call."""
    params = {"name": tool, "arguments": arguments, "requestState": state, "inputResponses": answers}
    return await client.ask("tools/call", params)


async def test_a_question_is_bare_and_without_hints(modern: Host) -> None:
    client = await modern()
    result = await client.call("ask_form")
    assert result["resultType"] == "input_required"
    assert result["inputRequests"] == {"name": {"method": "elicitation/create", "params": FORM}}
    assert isinstance(result["requestState"], str)
    assert not {"content", "ttlMs", "cacheScope"} & set(result)
    assert client.questions == []


async def test_a_page_to_visit_has_no_id_in_this_era(memory_modern: Host) -> None:
    client = await memory_modern()
    (ask,) = (await client.call("ask_url"))["inputRequests"].values()
    assert ask["params"] == {"mode": "url", "message": "Please sign in", "url": "https://example.com/sign-in"}


async def test_the_answer_completes_the_call(modern: Host) -> None:
    client = await modern()
    state = (await client.call("ask_form"))["requestState"]
    result = (await again(client, "ask_form", state, {"name": ACCEPTED}))["result"]
    assert (result["resultType"], result["content"][0]["text"]) == ("complete", "hello Ada")


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declining_is_an_ordinary_outcome(memory_modern: Host, action: str) -> None:
    client = await memory_modern()
    state = (await client.call("ask_form"))["requestState"]
    result = (await again(client, "ask_form", state, {"name": {"action": action}}))["result"]
    assert result["content"][0]["text"] == action


async def test_prompts_and_resources_ask_the_same_way(modern: Host) -> None:
    client = await modern()
    for method, params in (("prompts/get", {"name": "asks"}), ("resources/read", {"uri": "test://asks"})):
        first = await client.result(method, params)
        assert first["resultType"] == "input_required"
        assert not {"ttlMs", "cacheScope"} & set(first)
        more = {"requestState": first["requestState"], "inputResponses": {"name": ACCEPTED}}
        done = await client.result(method, {**params, **more})
        assert done["resultType"] == "complete"
        assert "Ada" in str(done)


async def test_several_rounds_change_the_state_and_remember_what_was_said(modern: Host) -> None:
    client = await modern()
    result = await client.call("ask_rounds")
    states = set()
    for key, name in (("first", "a"), ("second", "b"), ("third", "c")):
        assert list(result["inputRequests"]) == [key]
        states.add(result["requestState"])
        answers = {key: {"action": "accept", "content": {"name": name}}}
        result = (await again(client, "ask_rounds", result["requestState"], answers))["result"]
    assert len(states) == 3
    assert result["content"][0]["text"] == "a b c"


async def test_the_same_question_is_sealed_differently_each_time(memory_modern: Host) -> None:
    client = await memory_modern()
    assert (await client.call("ask_form"))["requestState"] != (await client.call("ask_form"))["requestState"]


async def test_several_questions_may_be_answered_one_at_a_time(memory_modern: Host) -> None:
    client = await memory_modern()
    result = await client.call("ask_two")
    assert set(result["inputRequests"]) == {"name", "roots"}
    result = (await again(client, "ask_two", result["requestState"], {"roots": {"roots": [1]}}))["result"]
    assert list(result["inputRequests"]) == ["name"]
    result = (await again(client, "ask_two", result["requestState"], {"name": ACCEPTED}))["result"]
    assert result["content"][0]["text"] == "Ada has 1"


async def test_a_wrong_key_is_ignored_and_the_question_asked_again(memory_modern: Host) -> None:
    client = await memory_modern()
    state = (await client.call("ask_form"))["requestState"]
    result = (await again(client, "ask_form", state, {"wrong": ACCEPTED}))["result"]
    assert list(result["inputRequests"]) == ["name"]
    result = (await again(client, "ask_form", state, {"name": ACCEPTED, "extra": {"x": 1}}))["result"]
    assert result["resultType"] == "complete"


async def test_state_without_answers_asks_again(memory_modern: Host) -> None:
    client = await memory_modern()
    state = (await client.call("ask_form"))["requestState"]
    result = await client.result("tools/call", {"name": "ask_form", "requestState": state})
    assert result["resultType"] == "input_required"


@pytest.mark.parametrize(
    "answers", [None, 5, "x", [], [ACCEPTED], {"name": 5}, {"name": None}, {"name": "Ada"}, {"name": []}]
)
async def test_answers_of_the_wrong_type_are_refused(memory_modern: Host, answers: Any) -> None:
    client = await memory_modern()
    state = (await client.call("ask_form"))["requestState"]
    assert (await again(client, "ask_form", state, answers))["error"]["code"] == -32602


@pytest.mark.parametrize(
    "answer",
    [{}, {"action": "maybe"}, {"action": None}, {"action": "accept"}, {"action": "accept", "content": None},
     {"action": "accept", "content": {}}, {"action": "accept", "content": {"name": 5}},
     {"action": "accept", "content": {"name": ""}}, {"action": ["accept"]}],
)  # fmt: skip
async def test_an_answer_that_does_not_fit_its_question_is_refused(memory_modern: Host, answer: Any) -> None:
    client = await memory_modern()
    state = (await client.call("ask_form"))["requestState"]
    assert (await again(client, "ask_form", state, {"name": answer}))["error"]["code"] == -32602
    for method, params in (("prompts/get", {"name": "asks"}), ("resources/read", {"uri": "test://asks"})):
        state = (await client.result(method, params))["requestState"]
        more = {"requestState": state, "inputResponses": {"name": answer}}
        assert (await client.error(method, {**params, **more}))["code"] == -32602


async def test_samples_and_roots_that_do_not_fit_are_refused(memory_modern: Host) -> None:
    client = await memory_modern()
    for tool, key, answer in (
        ("ask_sample", "words", {"role": "assistant"}),
        ("ask_sample", "words", {"content": "text"}),
        ("ask_roots", "roots", {"roots": {}}),
        ("ask_roots", "roots", {}),
    ):
        state = (await client.call(tool))["requestState"]
        assert (await again(client, tool, state, {key: answer}))["error"]["code"] == -32602


# --- the seal


async def test_state_is_bound_to_its_tool_and_arguments(memory_modern: Host) -> None:
    client = await memory_modern()
    state = (await client.call("ask_rounds", {"extra": "1"}))["requestState"]
    answers = {"first": ACCEPTED}
    assert (await again(client, "ask_rounds", state, answers, extra="2"))["error"]["code"] == -32602
    assert (await again(client, "ask_rounds", state, answers))["error"]["code"] == -32602
    assert (await again(client, "ask_form", state, answers))["error"]["code"] == -32602
    assert "result" in await again(client, "ask_rounds", state, answers, extra="1")


async def test_state_is_bound_to_its_method(memory_modern: Host) -> None:
    client = await memory_modern()
    state = (await client.result("prompts/get", {"name": "asks"}))["requestState"]
    more = {"requestState": state, "inputResponses": {"name": ACCEPTED}}
    assert (await client.error("resources/read", {"uri": "test://asks", **more}))["code"] == -32602
    assert (await client.error("tools/call", {"name": "ask_form", **more}))["code"] == -32602


async def test_the_order_of_members_does_not_matter(memory_modern: Host) -> None:
    client = await memory_modern()
    state = (await client.call("ask_rounds", {"extra": {"a": 1, "b": [{"c": 2, "d": 3}]}}))["requestState"]
    assert "result" in await again(client, "ask_rounds", state, {}, extra={"b": [{"d": 3, "c": 2}], "a": 1})
    assert "error" in await again(client, "ask_rounds", state, {}, extra={"b": [{"d": 3, "c": 2}], "a": "1"})


async def test_state_is_bound_to_its_principal(http_modern: Host) -> None:
    client = await http_modern(principal="ada")
    other = await http_modern.another(client, "mallory")
    state = (await client.call("ask_form"))["requestState"]
    assert (await again(other, "ask_form", state, {"name": ACCEPTED}))["error"]["code"] == -32602
    assert "result" in await again(client, "ask_form", state, {"name": ACCEPTED})


async def test_state_expires(memory_modern: Host) -> None:
    time = [1_000.0]
    client = await memory_modern(now=lambda: time[0], limits=Limits(input_seconds=60))
    state = (await client.call("ask_form"))["requestState"]
    time[0] += 59
    assert "result" in await again(client, "ask_form", state, {"name": ACCEPTED})
    time[0] += 2
    assert (await again(client, "ask_form", state, {"name": ACCEPTED}))["error"]["code"] == -32602


async def test_state_is_bound_to_the_key_and_survives_a_restart_with_it(memory_modern: Host) -> None:
    key = b"k" * 32
    before = await memory_modern(key=key)
    state = (await before.call("ask_form"))["requestState"]
    after, foreign = await memory_modern(key=key), await memory_modern(key=b"x" * 32)
    assert "result" in await again(after, "ask_form", state, {"name": ACCEPTED})
    assert (await again(foreign, "ask_form", state, {"name": ACCEPTED}))["error"]["code"] == -32602


async def test_no_altered_state_is_taken(memory_modern: Host) -> None:
    client = await memory_modern()
    state: str = (await client.call("ask_form"))["requestState"]
    altered = [
        state + "-TAMPERED",
        state[:-2],
        state + "00",
        state.upper(),
        "",
        "zz",
        state[2:],
        " " + state,
        "00" * 60,
    ]
    for position in range(0, len(state), 7):
        letter = "0" if state[position] != "0" else "1"
        altered.append(state[:position] + letter + state[position + 1 :])
    for each in altered:
        error = (await again(client, "ask_form", each, {"name": ACCEPTED}))["error"]
        assert error["code"] == -32602, each
    others: list[Any] = [5, None, {}, [state]]
    for wrong in others:
        assert (await again(client, "ask_form", wrong, {"name": ACCEPTED}))["error"]["code"] == -32602


async def test_a_cursor_or_a_task_is_no_state(memory_modern: Host) -> None:
    client = await memory_modern(page_size=1)
    cursor = (await client.result("tools/list"))["nextCursor"]
    assert (await again(client, "ask_form", cursor, {"name": ACCEPTED}))["error"]["code"] == -32602


async def test_state_means_nothing_to_a_tool_that_does_not_ask(memory_modern: Host) -> None:
    client = await memory_modern()
    assert (await again(client, "echo", "made up", {}, text="a"))["error"]["code"] == -32602


async def test_a_refusal_of_state_is_no_http_error(http_modern: Host) -> None:
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    await again(client, "ask_form", "made up", {})
    assert client.wire.statuses[-1] == 200
