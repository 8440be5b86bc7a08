"""Forms of a server: which are never shown, and what an accepted one holds; and rounds of input in the modern era."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.client.forms import Form, fill_in, is_for_a_secret
from zorivest_rpc.mcp.client.rounds import InputUnsupported, read_round, repeat_params


def form(**fields: Any) -> Form:
    return Form("m", {"type": "object", "properties": fields})


SECRETS = [
    *("password", "Password", "db_password", "userPassword", "passwd", "passphrase", "token", "accessToken", "tokens"),
    *("api_key", "apiKey", "apikey", "API key", "key", "private-key", "secret", "clientSecret", "card", "cardNumber"),
    *("credit card", "creditcard", "pin", "PIN", "cvv", "OTP", "credentials"),
]
HARMLESS = [
    "name",
    "branch",
    "keyboard",
    "monkey",
    "hockey",
    "discard",
    "cardiology",
    "opinion",
    "spin",
    "keywords",
    "",
]


@pytest.mark.parametrize("name", SECRETS)
def test_a_form_that_asks_for_a_secret_by_name_or_by_title_is_known(name: str) -> None:
    assert is_for_a_secret(form(**{"harmless": {"type": "string"}, name: {"type": "string"}}))
    assert is_for_a_secret(form(field={"type": "string", "title": name}))


@pytest.mark.parametrize("name", HARMLESS)
def test_other_words_are_not_taken_for_secrets(name: str) -> None:
    assert not is_for_a_secret(form(**{name: {"type": "string", "title": name}}))


def test_a_form_without_fields_asks_for_nothing() -> None:
    for schema in ({}, {"properties": None}, {"properties": {"a": "not a schema"}}):
        assert not is_for_a_secret(Form("m", schema))
        assert fill_in(Form("m", schema), {"action": "accept"}) == {"action": "accept", "content": {}}


def test_omitted_fields_of_an_accepted_form_get_their_defaults() -> None:
    asked = form(
        name={"type": "string", "default": "John"},
        age={"type": "integer", "default": 0},
        ok={"type": "boolean", "default": False},
        tags={"type": "array", "default": []},
        free={"type": "string"},
    )
    given = {"action": "accept", "content": {"name": "", "extra": 1}}
    assert fill_in(asked, given) == {
        "action": "accept",
        "content": {"name": "", "extra": 1, "age": 0, "ok": False, "tags": []},
    }
    assert given["content"] == {"name": "", "extra": 1}


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_form_that_was_not_accepted_carries_nothing(action: str) -> None:
    asked = form(name={"type": "string", "default": "John"})
    assert fill_in(asked, {"action": action, "content": {"name": "x"}}) == {"action": action}


@pytest.mark.parametrize("answer", [{}, {"action": "yes"}, {"action": None}, {"content": {}}])
def test_what_is_no_answer_is_a_cancelled_one(answer: Any) -> None:
    assert fill_in(form(), answer) == {"action": "cancel"}


# --- rounds


def asks(**requests: Any) -> bytes:
    return json.dumps({"resultType": "input_required", "inputRequests": requests, "requestState": 'st"ate'}).encode()


def elicit(**fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields}
    return {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}}


@pytest.mark.parametrize("result", [b'{"content":[]}', b'{"resultType":"complete","content":[]}', b"{}"])
def test_a_result_without_a_type_is_complete(result: bytes) -> None:
    assert read_round(result, "tools/call", True) is None


@pytest.mark.parametrize("kind", ["task", "Complete", "", None, 7, ["complete"]])
def test_an_unknown_type_is_broken(kind: Any) -> None:
    with pytest.raises(ProtocolError, match="resultType"):
        read_round(json.dumps({"resultType": kind}).encode(), "tools/call", True)


@pytest.mark.parametrize("method", ["tools/list", "completion/complete", "server/discover"])
def test_only_three_methods_may_ask(method: str) -> None:
    with pytest.raises(ProtocolError, match="input_required"):
        read_round(asks(a=elicit()), method, True)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_a_round_is_answered_under_its_keys_with_its_state_unchanged(method: str) -> None:
    found = read_round(asks(a=elicit(x={"type": "integer", "default": 4}), b=elicit()), method, True)
    assert found is not None
    assert list(found.forms) == ["a", "b"]
    answers = found.answer({"a": {"action": "accept", "content": {}}})
    again = json.loads(repeat_params(b'{"name":"n","arguments":{}}', found, answers))
    assert again == {
        "name": "n",
        "arguments": {},
        "inputResponses": {"a": {"action": "accept", "content": {"x": 4}}, "b": {"action": "cancel"}},
        "requestState": 'st"ate',
    }


def test_without_a_state_none_is_sent_and_without_questions_no_answers() -> None:
    no_state = json.dumps({"resultType": "input_required", "inputRequests": {"a": elicit()}}).encode()
    found = read_round(no_state, "tools/call", True)
    assert found is not None
    assert json.loads(repeat_params(b"{}", found, found.answer({}))) == {"inputResponses": {"a": {"action": "cancel"}}}
    later = read_round(b'{"resultType":"input_required","requestState":"s"}', "tools/call", False)
    assert later is not None
    assert json.loads(repeat_params(b"{}", later, {})) == {"requestState": "s"}


def test_a_secret_is_cancelled_whatever_was_answered() -> None:
    found = read_round(asks(a=elicit(token={"type": "string"})), "tools/call", True)
    assert found is not None
    assert found.answer({"a": {"action": "accept", "content": {"token": "t"}}}) == {"a": {"action": "cancel"}}


@pytest.mark.parametrize(
    "request_",
    [
        {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
        {"method": "roots/list"},
        {"method": "elicitation/create", "params": {"mode": "url", "url": "https://a.example", "message": "m"}},
    ],
)
def test_what_was_never_declared_is_unsupported(request_: Any) -> None:
    with pytest.raises(InputUnsupported):
        read_round(asks(a=elicit(), b=request_), "tools/call", True)


def test_a_form_for_a_caller_who_cannot_be_asked_is_unsupported() -> None:
    with pytest.raises(InputUnsupported):
        read_round(asks(a=elicit()), "tools/call", False)


@pytest.mark.parametrize(
    "result",
    [
        b'{"resultType":"input_required"}',
        b'{"resultType":"input_required","inputRequests":{}}',
        b'{"resultType":"input_required","requestState":7}',
        b'{"resultType":"input_required","inputRequests":[]}',
        b'{"resultType":"input_required","inputRequests":{"a":{"params":{}}}}',
        b'{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}',
        b'{"resultType":"input_required","inputRequests":{"a":null}}',
        asks(**{f"k{number}": elicit() for number in range(17)}),
    ],
)
def test_a_round_of_the_wrong_shape_is_broken(result: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_round(result, "tools/call", True)
