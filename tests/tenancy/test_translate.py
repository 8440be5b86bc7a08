"""The translator by itself: what the contract adds is taken off, nothing else is, and what is not there is missed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.tenancy.translate import ID, Missing, Translator, with_client, without_client

WHOSE = {"com.zorivest/client": {"id": ID, "name": None}}
CLIENT = {"type": "string", "description": "Client to act for. Call list_clients for valid values.", "enum": [ID]}
WRITES = {"create_trade": True, "list_trades": False}


def exchange(method: str, params: dict[str, Any], result: dict[str, Any], translator: Translator | None = None) -> Any:
    """The result of a request as its client sees it."""
    translator = translator or Translator(WRITES.get)
    translator.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return translator.take({"jsonrpc": "2.0", "id": 1, "result": result})["result"]


def call(name: str, result: dict[str, Any], /, **arguments: Any) -> Any:
    return exchange("tools/call", {"name": name, "arguments": arguments}, result)


def sent(method: str, params: Any) -> Any:
    return Translator(WRITES.get).send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})["params"]


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}], "_meta": WHOSE, **more}


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
@pytest.mark.parametrize("given", [{}, {"arguments": None}, {"arguments": {}}])
def test_a_call_names_the_client_first(method: str, given: dict[str, Any]) -> None:
    assert sent(method, {"name": "x", **given})["arguments"] == {"clientId": ID}
    assert list(sent(method, {"name": "x", "arguments": {"a": 1}})["arguments"]) == ["clientId", "a"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "x", "arguments": [1]}),
        ("tools/call", {"name": "x", "arguments": {"clientId": "other"}}),
        ("tools/call", {"name": "list_clients", "arguments": {}}),
        ("tools/call", [1]),
        ("tools/list", {}),
        ("resources/read", {"uri": 7}),
        ("completion/complete", {"ref": "x"}),
        ("ping", None),
    ],
)
def test_what_has_no_place_for_a_client_or_names_one_stays_as_it_is(method: str, params: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    before = copy.deepcopy(message)
    assert Translator(WRITES.get).send(message) is message
    assert message == before
    for other in (None, 5, "x", {"id": 1}, {"id": 1, "result": {}}):
        assert Translator(WRITES.get).send(other) is other


def test_every_message_of_a_batch_is_translated() -> None:
    translator = Translator(WRITES.get)
    batch = [{"id": id, "method": "tools/call", "params": {"name": "list_trades"}} for id in (1, 2)]
    assert all(each["params"]["arguments"] == {"clientId": ID} for each in translator.send(batch))
    answers = [{"id": id, "result": text("[]")} for id in (1, 2)]
    assert [each["result"] for each in translator.take(answers)] == [{"content": [{"type": "text", "text": "[]"}]}] * 2


@pytest.mark.parametrize("uri", ["zorivest://guard", "pipeline://x?limit=3"])
def test_a_uri_and_back(uri: str) -> None:
    named = with_client(uri)
    assert named != uri
    assert without_client(named) == uri
    assert sent("resources/read", {"uri": uri}) == {"uri": named}
    result = {"contents": [{"uri": named, "text": "x"}], "_meta": WHOSE}
    assert exchange("resources/read", {"uri": uri}, result) == {"contents": [{"uri": uri, "text": "x"}]}
    with pytest.raises(Missing):
        without_client(uri)


def test_the_text_of_a_write_is_signed_and_that_of_a_read_is_not() -> None:
    signed = f"done (client {ID})"
    assert call("create_trade", text(signed)) == {"content": [{"type": "text", "text": "done"}]}
    assert call("list_trades", text(signed))["content"][0]["text"] == signed, "a difference that no contract names"
    with pytest.raises(Missing, match="a write by create_trade"):
        call("create_trade", text("done"))
    assert call("call_tool", text(signed), name="create_trade")["content"][0]["text"] == "done"
    assert call("call_tool", text(signed), name="list_trades")["content"][0]["text"] == signed


def test_a_result_says_whose_it_is() -> None:
    for meta in ({}, {"com.zorivest/client": {"id": "other", "name": None}}, {"com.zorivest/client": {"id": ID}}):
        with pytest.raises(Missing):
            call("list_trades", {**text("x"), "_meta": meta})
    kept = call("list_trades", {**text("x"), "_meta": {**WHOSE, "com.zorivest/other": 1}})
    assert kept["_meta"] == {"com.zorivest/other": 1}
    unresolved = {**text("x", isError=True), "_meta": {"com.zorivest/error": {"code": "client_unknown"}}}
    assert call("list_trades", unresolved) == unresolved


def test_a_failure_of_the_backend_names_the_client_in_front() -> None:
    error = {"class": "backend", "code": "not_found", "next": 'Call x with {"clientId":"' + ID + '","a":1}'}
    failed = {**text(f'Client "{ID}": gone', isError=True), "_meta": {**WHOSE, "com.zorivest/error": error}}
    taken = call("list_trades", failed)
    assert taken["content"] == [{"type": "text", "text": "gone"}]
    assert taken["_meta"]["com.zorivest/error"]["next"] == 'Call x with {"a":1}'
    with pytest.raises(Missing, match="failure of a backend"):
        call("list_trades", {**failed, "content": [{"type": "text", "text": "gone"}]})


def tool(name: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"clientId": CLIENT, "a": {}}, "required": ["clientId", "a"]}
    return {"name": name, "inputSchema": {**schema, **more}}


LISTED = {"name": "list_clients", "inputSchema": {"type": "object", "properties": {}}}


def test_a_list_has_one_tool_more_and_the_client_first_in_every_other() -> None:
    (taken,) = exchange("tools/list", {}, {"tools": [LISTED, tool("x")]})["tools"]
    assert taken["inputSchema"] == {"type": "object", "properties": {"a": {}}, "required": ["a"]}
    only = tool("x", properties={"clientId": CLIENT}, required=["clientId"])
    (taken,) = exchange("tools/list", {}, {"tools": [LISTED, only]})["tools"]
    assert taken["inputSchema"] == {"type": "object", "properties": {}}
    with pytest.raises(Missing, match="listed 0 times"):
        exchange("tools/list", {}, {"tools": [tool("x")]})
    for wrong in (
        tool("x", properties={"a": {}, "clientId": CLIENT}),
        tool("x", properties={"clientId": {**CLIENT, "enum": [ID, "other"]}}),
        tool("x", required=["a", "clientId"]),
        tool("x", required=["a"]),
    ):
        with pytest.raises(Missing):
            exchange("tools/list", {}, {"tools": [LISTED, wrong]})


def test_a_question_begins_with_the_client() -> None:
    params = {"message": f"For client {ID}: sure?", "requestedSchema": {}}
    question = {"method": "elicitation/create", "params": params}
    taken = Translator(WRITES.get).take({"id": 1, **question})
    assert taken["params"]["message"] == "sure?"
    result = {"resultType": "input_required", "inputRequests": {"k": question}, "_meta": WHOSE}
    assert call("create_trade", result)["inputRequests"]["k"]["params"]["message"] == "sure?"
    with pytest.raises(Missing, match="a question"):
        Translator(WRITES.get).take({"id": 1, "method": "elicitation/create", "params": {"message": "sure?"}})


def test_what_became_a_task_is_taken_back_as_the_call_would_be() -> None:
    tasks: dict[str, tuple[str, Any]] = {}
    begun = {"task": {"taskId": "t", "status": "working"}, "_meta": WHOSE}
    assert exchange("tools/call", {"name": "create_trade"}, begun, Translator(WRITES.get, tasks)) == {
        "task": {"taskId": "t", "status": "working"}
    }
    ended = text(f"done (client {ID})")
    taken = exchange("tasks/result", {"taskId": "t"}, ended, Translator(WRITES.get, tasks))
    assert taken["content"][0]["text"] == "done"


def test_a_prompt_begins_with_the_client_and_tells_to_stay_with_it() -> None:
    first = {"name": "clientId", "description": "Client to act for; list_clients names them", "required": True}
    listed = {"prompts": [{"name": "x", "arguments": [first]}, {"name": "y", "arguments": [first, {"name": "a"}]}]}
    assert exchange("prompts/list", {}, listed) == {
        "prompts": [{"name": "x"}, {"name": "y", "arguments": [{"name": "a"}]}]
    }
    told = f'Act for the client "{ID}" alone: pass it as clientId with every tool.'

    def messages(*words: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": {"type": "text", "text": each}} for each in words]}

    for given, shown in (((f"{told}\n\nlook",), ("look",)), ((told, "theirs"), ("theirs",))):
        assert exchange("prompts/get", {"name": "x"}, {**messages(*given), "_meta": WHOSE}) == messages(*shown)
    with pytest.raises(Missing):
        exchange("prompts/get", {"name": "x"}, {**messages("look"), "_meta": WHOSE})


def test_a_log_line_names_the_client() -> None:
    def line(**more: Any) -> dict[str, Any]:
        return {"method": "notifications/message", "params": {"level": "info", "data": {"tool": "x", **more}}}

    assert Translator(WRITES.get).take(line(tenant=ID)) == line()
    with pytest.raises(Missing, match="another tenant"):
        Translator(WRITES.get).take(line(tenant="other"))
