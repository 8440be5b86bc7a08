"""Requests as bytes, frames as events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.client.caller import (
    Acknowledgement,
    Answer,
    Caller,
    Changed,
    Event,
    Identity,
    Logged,
    Progressed,
    Question,
    Reply,
    Touched,
)
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, REVISIONS

LEGACY = [row.name for row in REVISIONS if not row.modern]


def make(version: str = "2026-07-28") -> Caller:
    caller = Caller(Identity("zorivest-rpc", "1"))
    caller.settle(BY_NAME[version])
    return caller


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def one(caller: Caller, **members: Any) -> Event | None:
    events = caller.receive(frame(**members))
    assert len(events) <= 1
    return events[0] if events else None


# --- out


@pytest.mark.parametrize("params", [b"{}", b'{"name":"a","arguments":{"x":[1]}}', b"{ }"])
@pytest.mark.parametrize("version", [*LEGACY, "2026-07-28"])
def test_params_are_passed_on_as_they_are_beside_what_the_era_adds(version: str, params: bytes) -> None:
    sent = json.loads(make(version).request("tools/call", params, name="a").frame)
    meta = sent["params"].pop("_meta", None)
    assert sent == {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": json.loads(params)}
    assert (meta is not None) is (version == "2026-07-28")


@pytest.mark.parametrize("version", [*LEGACY, "2026-07-28"])
def test_progress_trace_and_level_go_into_the_meta(version: str) -> None:
    caller = make(version)
    caller.request("ping")
    request = caller.request("tools/call", wants_progress=True, log_level="info", meta=b'"traceparent":"00-1"')
    meta = json.loads(request.frame)["params"]["_meta"]
    assert (meta["progressToken"], meta["traceparent"]) == (request.id, "00-1") == (2, "00-1")
    assert meta.get("io.modelcontextprotocol/logLevel") == ("info" if version == "2026-07-28" else None)


def test_forms_are_declared_in_exactly_the_requests_whose_caller_can_be_asked() -> None:
    caller = make()
    for can_ask in (False, True):
        meta = json.loads(caller.request("tools/call", can_ask=can_ask).frame)["params"]["_meta"]
        declared = meta["io.modelcontextprotocol/clientCapabilities"]
        assert declared == ({"elicitation": {"form": {}}} if can_ask else {})
    assert "_meta" not in json.loads(make("2025-11-25").request("tools/call", can_ask=True).frame)["params"]


@pytest.mark.parametrize(
    ("method", "name", "header"),
    [
        ("tools/call", "plain", "plain"),
        ("tools/call", "zwölf", "=?base64?enfDtmxm?="),
        ("resources/read", "file:///a b", "file:///a b"),
        ("prompts/get", " p", "=?base64?IHA=?="),
        ("tools/list", "ignored", None),
        ("tools/call", "=?base64?x", "=?base64?PT9iYXNlNjQ/eA==?="),
    ],
)
def test_the_name_header(method: str, name: str, header: str | None) -> None:
    headers = make().request(method, name=name).headers
    assert headers.get("Mcp-Name") == header
    assert headers["Mcp-Method"] == method
    assert not {"Mcp-Name", "Mcp-Method"} & make("2025-11-25").request(method, name=name).headers.keys()


def test_headers_of_one_request_are_not_those_of_another() -> None:
    caller = make()
    caller.request("tools/call", mirrored={"Mcp-Param-Region": "eu"})
    assert "Mcp-Param-Region" not in caller.request("tools/call").headers


def test_a_cancelled_request_is_closed_and_named() -> None:
    caller = make("2025-11-25")
    request = caller.request("tools/call")
    note = json.loads(caller.cancel(request, "why").frame)
    assert note == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "why"},
    }
    assert caller.pending == {}
    assert one(caller, id=1, result={}) is None
    assert caller.strays == 1


# --- responses


def test_a_response_finds_its_request_and_keeps_its_bytes() -> None:
    caller = make()
    first, second = caller.request("tools/call"), caller.request("tools/call")
    found = caller.receive(b'{"result":{"content":[ 1.50 ]},"jsonrpc":"2.0","id":2}')
    assert isinstance(found[0], Answer)
    assert found[0].request is second
    assert bytes(found[0].result) == b'{"content":[ 1.50 ]}'
    assert caller.pending == {1: first}


def test_an_error_is_an_answer_with_its_code_and_data() -> None:
    caller = make()
    caller.request("tools/call")
    found = one(caller, id=1, error={"code": -32020, "message": "m", "data": {"a": 1}})
    assert isinstance(found, Answer)
    assert found.error is not None
    assert (found.error.code, found.error.message, found.error.data) == (-32020, "m", {"a": 1})


@pytest.mark.parametrize("error", [{}, {"code": "x"}, [], "text", {"code": 1.5, "message": "m"}])
def test_an_error_of_the_wrong_shape_is_still_the_end_of_its_request(error: Any) -> None:
    caller = make()
    caller.request("tools/call")
    found = one(caller, id=1, error=error)
    assert isinstance(found, Answer)
    assert found.error is not None
    assert found.error.code == 0


@pytest.mark.parametrize("id", [2, "1", 0, -1, 10**30])
def test_a_response_to_nothing_is_dropped_and_counted(id: Any) -> None:
    caller = make()
    caller.request("tools/call")
    assert one(caller, id=id, result={}) is None
    assert (caller.strays, list(caller.pending)) == (1, [1])


def test_an_error_without_an_id_belongs_to_nothing() -> None:
    caller = make()
    caller.request("tools/call")
    assert caller.receive(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}') == []
    assert one(caller, error={"code": -32700, "message": "m"}) is None
    assert caller.strays == 2


def test_an_answer_comes_once() -> None:
    caller = make()
    caller.request("tools/call")
    assert isinstance(one(caller, id=1, result={}), Answer)
    assert one(caller, id=1, result={}) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nonsense",
        b"{}",
        b"null",
        b'"text"',
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b'{"id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":true,"result":{}}',
        b'{"jsonrpc":"2.0","id":1.5,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"jsonrpc":"' + b"2" * 1_000_000 + b'","id":1,"result":{}}',
        b'[{"jsonrpc":"2.0","id":1,"result":{}}]',
        b"[",
    ],
    ids=range(19),
)
def test_what_is_no_message_is_refused_shortly_and_closes_nothing(data: bytes) -> None:
    caller = make()
    caller.request("tools/call")
    with pytest.raises(ProtocolError) as refused:
        caller.receive(data)
    assert len(refused.value.message) < 200
    assert list(caller.pending) == [1]


@pytest.mark.parametrize("result", ["[]", "null", '"x"', "7", "true"])
def test_a_result_that_is_no_object_is_refused(result: str) -> None:
    caller = make()
    caller.request("tools/call")
    with pytest.raises(ProtocolError, match="not an object"):
        caller.receive(b'{"jsonrpc":"2.0","id":1,"result":%b}' % result.encode())


def test_a_large_result_with_many_commas_is_an_ordinary_one() -> None:
    caller = make()
    caller.request("tools/call")
    text = "a,[{" * 500_000
    found = one(caller, id=1, result={"content": [{"type": "text", "text": text}]})
    assert isinstance(found, Answer)
    assert len(bytes(found.result)) > len(text)


def test_only_the_revision_that_has_batches_takes_one() -> None:
    batch = b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]'
    caller = make("2025-03-26")
    request = caller.request("tools/call")
    first, second = caller.receive(batch)
    assert isinstance(first, Answer)
    assert first.request is request
    assert second == Changed("tools")
    for version in ("2025-06-18", "2025-11-25", "2026-07-28"):
        with pytest.raises(ProtocolError, match="batch"):
            make(version).receive(batch)


# --- notifications


@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
@pytest.mark.parametrize("params", [{}, {"params": {}}, {"params": None}, {"params": {"_meta": {"x": 1}}}])
def test_a_changed_list_is_told(kind: str, params: dict[str, Any]) -> None:
    assert one(make(), method=f"notifications/{kind}/list_changed", **params) == Changed(kind)


def test_progress_finds_the_request_by_our_token() -> None:
    caller = make("2025-11-25")
    caller.request("ping")
    request = caller.request("tools/call", wants_progress=True)
    params = {"progressToken": 2, "progress": 1, "total": 4.5, "message": "m"}
    found = one(caller, method="notifications/progress", params=params)
    assert isinstance(found, Progressed)
    assert found.request is request
    assert (found.progress.progress, found.progress.total, found.progress.message) == (1, 4.5, "m")
    for token in (3, "2", None):
        assert one(caller, method="notifications/progress", params={**params, "progressToken": token}) is None


def test_log_messages_resources_and_acknowledgements_are_read() -> None:
    caller = make()
    logged = one(caller, method="notifications/message", params={"level": "info", "data": {"a": [1]}, "logger": "l"})
    assert isinstance(logged, Logged)
    assert (logged.told.level, bytes(logged.told.data), logged.told.logger) == ("info", b'{"a": [1]}', "l")
    assert one(caller, method="notifications/resources/updated", params={"uri": "a:b"}) == Touched("a:b")
    told = one(
        caller,
        method="notifications/subscriptions/acknowledged",
        params={"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}},
    )
    assert isinstance(told, Acknowledgement)
    assert (told.honoured.tools_list_changed, told.honoured.prompts_list_changed) == (True, False)
    assert told.honoured.resource_subscriptions == ["a:b"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("notifications/progress", {}),
        ("notifications/progress", {"progressToken": [], "progress": 1}),
        ("notifications/message", {"level": 7}),
        ("notifications/resources/updated", {}),
        ("notifications/subscriptions/acknowledged", {"notifications": 1}),
        ("notifications/cancelled", {}),
        ("notifications/cancelled", {"requestId": 1}),
        ("notifications/unknown", {}),
        ("notifications/initialized", {}),
    ],
)
def test_a_notification_that_is_wrong_or_unknown_is_nothing(method: str, params: Any) -> None:
    caller = make()
    caller.request("tools/call")
    assert one(caller, method=method, params=params) is None
    assert list(caller.pending) == [1]


def test_a_server_may_end_a_listen_request_by_cancelling_it() -> None:
    caller = make()
    request = caller.request("subscriptions/listen")
    found = one(caller, method="notifications/cancelled", params={"requestId": 1})
    assert isinstance(found, Answer)
    assert found.request is request
    assert caller.pending == {}


# --- requests of the server


FORM = {
    "message": "Which?",
    "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string"}}},
}


def answer_to(caller: Caller, **members: Any) -> dict[str, Any]:
    found = one(caller, **members)
    assert isinstance(found, Reply)
    body: dict[str, Any] = json.loads(found.frame)
    return body


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("id", [1, "s-1", 0])
def test_a_ping_is_answered_with_nothing(version: str, id: Any) -> None:
    assert answer_to(make(version), id=id, method="ping") == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
        ("roots/list", {}),
        ("elicitation/create", {"mode": "url", "url": "https://a.example", "message": "m", "elicitationId": "1"}),
        ("tasks/list", {}),
        ("unknown/method", {}),
    ],
)
@pytest.mark.parametrize("version", LEGACY)
def test_what_was_never_declared_does_not_exist(version: str, method: str, params: Any) -> None:
    found = answer_to(make(version), id=7, method=method, params=params)
    assert (found["id"], found["error"]["code"]) == (7, -32601)


@pytest.mark.parametrize("version", LEGACY)
def test_a_form_is_a_question_where_the_revision_has_them(version: str) -> None:
    found = one(make(version), id="q", method="elicitation/create", params=FORM)
    if not BY_NAME[version].elicitation:
        assert isinstance(found, Reply)
        return
    assert isinstance(found, Question)
    assert (found.id, found.form.message, found.form.schema) == ("q", "Which?", FORM["requestedSchema"])


def test_the_answer_to_a_question_is_a_response_with_its_id() -> None:
    note = make("2025-11-25").reply("q", {"action": "accept", "content": {"branch": "main"}})
    assert json.loads(note.frame) == {
        "jsonrpc": "2.0",
        "id": "q",
        "result": {"action": "accept", "content": {"branch": "main"}},
    }
    assert note.headers["MCP-Protocol-Version"] == "2025-11-25"


def test_a_form_for_a_secret_is_cancelled_without_being_shown() -> None:
    params = {**FORM, "requestedSchema": {"type": "object", "properties": {"apiKey": {"type": "string"}}}}
    found = answer_to(make("2025-11-25"), id=3, method="elicitation/create", params=params)
    assert found == {"jsonrpc": "2.0", "id": 3, "result": {"action": "cancel"}}


@pytest.mark.parametrize(
    "params", [{}, {"message": 1, "requestedSchema": {}}, {"message": "m"}, {**FORM, "requestedSchema": []}]
)
def test_a_form_of_the_wrong_shape_is_refused(params: Any) -> None:
    found = answer_to(make("2025-11-25"), id=3, method="elicitation/create", params=params)
    assert (found["id"], found["error"]["code"]) == (3, -32602)


@pytest.mark.parametrize("method", ["ping", "elicitation/create", "roots/list"])
def test_a_modern_server_asks_nothing_and_is_answered_nothing(method: str) -> None:
    caller = make()
    assert one(caller, id=1, method=method, params=FORM) is None
    assert caller.strays == 1


# --- whatever comes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [
        *("ping", "elicitation/create", "roots/list", "notifications/progress", "notifications/message"),
        *("notifications/cancelled", "notifications/resources/updated", "notifications/subscriptions/acknowledged"),
    ]
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers(0, 3) | JSON,
        "method": METHODS | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON,
    },
)


@pytest.mark.parametrize("version", [*LEGACY, "2026-07-28"])
@given(message=MESSAGES | st.lists(MESSAGES, max_size=3) | JSON)
def test_no_frame_does_anything_but_mean_something_or_be_refused(version: str, message: Any) -> None:
    caller = make(version)
    for _ in range(2):
        caller.request("tools/call", wants_progress=True)
    words = ""
    events: list[Event] | None
    try:
        events = caller.receive(json.dumps(message).encode())
    except ProtocolError as refused:
        words, events = refused.message, None
    if events is None:
        assert len(words) < 300
        assert len(caller.pending) == 2 or isinstance(message, list)
    else:
        answered = [event for event in events if isinstance(event, Answer)]
        assert len(caller.pending) + len(answered) == 2
        assert all(json.loads(event.frame)["jsonrpc"] == "2.0" for event in events if isinstance(event, Reply))


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    try:
        make().receive(data)
    except ProtocolError:
        return
