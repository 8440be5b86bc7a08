"""`decode` and what follows it return a value or raise the protocol error; nothing else ever leaves them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fuzz.generate import METHODS, ODD, Generator
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import Batch, Message, decode, dumps, encode_id, error_frame
from zorivest_rpc.mcp.protocol.types import STRUCTS, Params, decode_params

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ENVELOPE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0"]) | JSON,
        "id": st.integers() | st.text() | JSON,
        "method": st.sampled_from(METHODS) | JSON,
        "params": st.dictionaries(st.text(), JSON, max_size=3) | JSON,
        "result": JSON,
        "error": JSON,
        "more": JSON,
    },
)


def refused(error: ProtocolError, codes: tuple[int, ...]) -> None:
    assert error.code in codes
    answer = json.loads(error_frame(error))
    assert ("id" in answer) is (error.id is not None)
    assert answer.get("id", 0) is not None


def judged(data: bytes) -> None:
    try:
        message = decode(data)
    except ProtocolError as error:
        refused(error, (-32700, -32600))
        return
    assert isinstance(message, Message | Batch)
    if isinstance(message, Batch):
        assert message.items
        for item in message.items:
            judged(item)
    elif isinstance(message.method, str):
        asked(message)


def asked(message: Message) -> None:
    try:
        params = decode_params(str(message.method), message.params, 1)
    except ProtocolError as error:
        refused(error, (-32700, -32600, -32602))
    else:
        assert isinstance(params, STRUCTS.get(str(message.method), Params))


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=250)
@example(b"[" * 1010 + b"]" * 1010)
@example(b'{"jsonrpc":"2.0","id":1,"method":"a","params":' + b"[" * 1005 + b"]" * 1005 + b"}")
@example(b'{"id":1,"id":1,"jsonrpc":"2.0","method":"a","params":' + b"[" * 300 + b"]" * 300 + b"}")
@example(b"")
@example(b"\xef\xbb\xbf{}")
def test_any_bytes(data: bytes) -> None:
    judged(data)


@given(ENVELOPE)
@settings(deadline=None, max_examples=250)
def test_any_envelope(envelope: dict[str, Any]) -> None:
    judged(json.dumps(envelope).encode())


@given(ENVELOPE, st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=3), st.integers(0, 5)), max_size=4))
@settings(deadline=None, max_examples=250)
def test_any_damage_to_an_envelope(envelope: dict[str, Any], damage: list[tuple[int, bytes, int]]) -> None:
    data = json.dumps({"jsonrpc": "2.0", **envelope}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    for place, put, taken in damage:
        at = place % (len(data) + 1)
        data = data[:at] + put + data[at + taken :]
    judged(data)


@given(st.integers(0, 10**9))
@settings(deadline=None, max_examples=150)
def test_any_hostile_message(seed: int) -> None:
    generator = Generator(seed)
    for _ in range(10):
        judged(generator.message(seed % 2 == 0))


@given(st.sampled_from(sorted(STRUCTS)), st.sampled_from(ODD))
def test_any_odd_value_in_params(method: str, odd: bytes) -> None:
    for name in ("name", "uri", "taskId", "cursor", "arguments", "_meta", "level", "requestId", "notifications"):
        judged(b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"%b":%b}}' % (method.encode(), name.encode(), odd))


@given(JSON | st.text(st.characters(), max_size=20) | st.lists(st.floats()))
@settings(deadline=None, max_examples=300)
def test_whatever_a_handler_returns_becomes_one_line_of_json(value: Any) -> None:
    data = dumps(value)
    assert b"\n" not in data
    data.decode()
    json.loads(data)


@given(st.integers() | st.text(st.characters(exclude_categories=["Cs"])))
def test_an_id_is_written_as_it_was_read(id: int | str) -> None:
    data = b'{"jsonrpc":"2.0","method":"m","id":' + json.dumps(id).encode() + b"}"
    message = decode(data)
    assert isinstance(message, Message)
    assert message.id == id
    assert type(message.id) is type(id)
    assert msgspec.json.decode(encode_id(id)) == id


def test_what_a_handler_gives_is_always_written_as_text() -> None:
    """A lone surrogate is replaced wherever it stands: in a list, a tuple, a key, below both."""
    lone = "a\ud800b"
    for value in (lone, [lone], (1, lone), {lone: 1}, {"a": [{"b": (lone, [lone])}]}, [[lone], "good", 2**70]):
        text = dumps(value)
        assert "\ud800" not in text.decode()
        assert b"a?b" in text
    assert json.loads(dumps(["x", lone, {"y": [lone]}])) == ["x", "a?b", {"y": ["a?b"]}]


def test_of_duplicate_keys_of_a_response_the_last_counts() -> None:
    result, error = b'"result":{"a":1},"result":{"a":2}', b'"error":5,"error":{"code":1}'
    for member, last in ((result, b'{"a":2}'), (error, b'{"code":1}')):
        message = decode(b'{"jsonrpc":"1.0","jsonrpc":"2.0","id":null,"id":"zrv-1",%b}' % member)
        assert isinstance(message, Message)
        given = message.result if message.error is msgspec.UNSET else message.error
        assert isinstance(given, msgspec.Raw)
        assert (message.id, bytes(given), message.is_response) == ("zrv-1", last, True)
