"""What is answered to bytes that are no message: the same code over every transport, an id only where one was legal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.connect import Client, Host, HttpWire, StdioWire

PARSE, INVALID, NO_METHOD = -32700, -32600, -32601
NOTHING = object()
HEAD = b'{"jsonrpc":"2.0","id":1,"method":"ping"'


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


# name -> (bytes, code, id or NOTHING)
REFUSED: dict[str, tuple[bytes, int, Any]] = {
    "cut off": (b'{"jsonrpc":"2.0","id":1', PARSE, NOTHING),
    "words": (b"hello", PARSE, NOTHING),
    "invalid UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', PARSE, NOTHING),
    "invalid UTF-8 in params": (HEAD + b',"params":{"a":"\xff"}}', PARSE, NOTHING),
    "invalid UTF-8 in a skipped member": (HEAD + b',"other":"\xc3("}', PARSE, NOTHING),
    "invalid UTF-8 deep in a skipped member": (HEAD + b',"other":{"a":[{"b":"\xff"}]}}', PARSE, NOTHING),
    "byte order mark alone": (b"\xef\xbb\xbf", PARSE, NOTHING),
    "byte order mark before a message": (b"\xef\xbb\xbf" + HEAD + b"}", PARSE, NOTHING),
    "NaN": (HEAD + b',"params":{"a":NaN}}', PARSE, NOTHING),
    "NaN in a skipped member": (HEAD + b',"other":NaN}', PARSE, NOTHING),
    "Infinity": (HEAD + b',"params":{"a":Infinity}}', PARSE, NOTHING),
    "-Infinity": (HEAD + b',"params":{"a":-Infinity}}', PARSE, NOTHING),
    "trailing comma": (HEAD + b",}", PARSE, NOTHING),
    "two documents": (HEAD + b"}" + HEAD + b"}", PARSE, NOTHING),
    "NUL behind the message": (HEAD + b"}\0", PARSE, NOTHING),
    "leading zero": (HEAD + b',"params":{"a":01}}', PARSE, NOTHING),
    "single quotes": (b"{'jsonrpc':'2.0'}", PARSE, NOTHING),
    "control character in a string": (HEAD + b',"params":{"a":"\x01"}}', PARSE, NOTHING),
    "lone surrogate, escaped": (HEAD + b',"params":{"a":"\\ud800"}}', PARSE, NOTHING),
    "lone surrogate, escaped, in the method": (b'{"jsonrpc":"2.0","id":1,"method":"\\udfff"}', PARSE, NOTHING),
    "lone surrogate, escaped, in the id": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', PARSE, NOTHING),
    "lone surrogate, escaped, inside a list": (HEAD + b',"params":{"a":[1,"\\udc00"]}}', PARSE, NOTHING),
    "lone surrogate, raw": (HEAD + b',"params":{"a":"\xed\xa0\x80"}}', PARSE, NOTHING),
    "100 000 levels": (HEAD + b',"params":{"a":' + nested(100_000) + b"}}", PARSE, NOTHING),
    "1 010 levels": (HEAD + b',"params":{"a":' + nested(1_010) + b"}}", PARSE, NOTHING),
    "array of 100 000 levels": (nested(100_000), PARSE, NOTHING),
    "array of 1 010 levels": (nested(1_010), PARSE, NOTHING),
    "an id of 5 000 digits": (b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}', PARSE, NOTHING),
    "an id of 1e999": (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', PARSE, NOTHING),
    "number": (b"17", INVALID, NOTHING),
    "string": (b'"ping"', INVALID, NOTHING),
    "null": (b"null", INVALID, NOTHING),
    "true": (b"true", INVALID, NOTHING),
    "empty array": (b"[]", INVALID, NOTHING),
    "empty array with space": (b" [ ] ", INVALID, NOTHING),
    "array": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', INVALID, NOTHING),
    "empty object": (b"{}", INVALID, NOTHING),
    "no jsonrpc": (b'{"id":1,"method":"ping"}', INVALID, 1),
    "jsonrpc 1.0": (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', INVALID, "a"),
    "jsonrpc a number": (b'{"jsonrpc":2.0,"id":1,"method":"ping"}', INVALID, 1),
    "jsonrpc null": (b'{"jsonrpc":null,"id":1,"method":"ping"}', INVALID, 1),
    "jsonrpc once right, then wrong": (b'{"jsonrpc":"2.0","jsonrpc":"1","id":1,"method":"ping"}', INVALID, 1),
    "id null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', INVALID, NOTHING),
    "id true": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', INVALID, NOTHING),
    "id 1.0": (b'{"jsonrpc":"2.0","id":1.0,"method":"ping"}', INVALID, NOTHING),
    "id 1.5": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', INVALID, NOTHING),
    "id 1e2": (b'{"jsonrpc":"2.0","id":1e2,"method":"ping"}', INVALID, NOTHING),
    "id an object": (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', INVALID, NOTHING),
    "id an array": (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', INVALID, NOTHING),
    "id once right, then null": (b'{"jsonrpc":"2.0","id":1,"id":null,"method":"ping"}', INVALID, NOTHING),
    "method a number": (b'{"jsonrpc":"2.0","id":1,"method":5}', INVALID, 1),
    "method null": (b'{"jsonrpc":"2.0","id":"x","method":null}', INVALID, "x"),
    "method an object": (b'{"jsonrpc":"2.0","id":1,"method":{}}', INVALID, 1),
    "method a number, no id": (b'{"jsonrpc":"2.0","method":5}', INVALID, NOTHING),
    "an id alone": (b'{"jsonrpc":"2.0","id":1}', INVALID, 1),
    "result and error": (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', INVALID, 1),
    "result without id": (b'{"jsonrpc":"2.0","result":{}}', INVALID, NOTHING),
    "params an array": (HEAD + b',"params":[1]}', INVALID, 1),
    "params a string": (HEAD + b',"params":"a"}', INVALID, 1),
    "params a number": (HEAD + b',"params":5}', INVALID, 1),
    "params null": (HEAD + b',"params":null}', INVALID, 1),
    "unknown method": (b'{"jsonrpc":"2.0","id":"u","method":"no/such"}', NO_METHOD, "u"),
    "empty method": (b'{"jsonrpc":"2.0","id":1,"method":""}', NO_METHOD, 1),
}
# legal, or at least tolerated: answered with a result
TAKEN: dict[str, bytes] = {
    "plain": HEAD + b"}",
    "spaces around it": b"  \t" + HEAD + b"}  ",
    "carriage return": HEAD + b"}\r",
    "unknown members": HEAD + b',"other":{"a":[1,2,{"b":null}]},"params":{"more":1}}',
    "duplicate members": b'{"jsonrpc":"1","jsonrpc":"2.0","id":null,"id":1,"method":5,"method":"ping"}',
    "duplicate params": HEAD + b',"params":[1],"params":{}}',
    "a huge integer": HEAD + b',"params":{"a":' + b"9" * 5_000 + b"}}",
    "1e999": HEAD + b',"params":{"a":1e999}}',
    "a surrogate pair": HEAD + b',"params":{"a":"\\ud83d\\ude00"}}',
    "200 levels": HEAD + b',"params":{"a":' + nested(200) + b"}}",
    "escapes in names": b'{"json\\u0072pc":"2.0","\\u0069d":1,"method":"pin\\u0067"}',
    "progress token of the right types": HEAD + b',"params":{"_meta":{"progressToken":"t"}}}',
}
# never answered
SILENT: dict[str, bytes] = {
    "unknown notification": b'{"jsonrpc":"2.0","method":"no/such"}',
    "notification of a request's method": b'{"jsonrpc":"2.0","method":"tools/list"}',
    "notification with params that are no object": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}',
    "cancelled without an id": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}',
    "cancelled with a null id": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}',
    "cancelled of nothing known": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
    "notification with a broken _meta": b'{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":5}}',
    "response to nobody": b'{"jsonrpc":"2.0","id":"zrv-0-1","result":{}}',
    "response with an integer id": b'{"jsonrpc":"2.0","id":5,"result":{}}',
    "error to nobody": b'{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"no"}}',
    "error of the wrong shape to nobody": b'{"jsonrpc":"2.0","id":"a","error":17}',
}


def check_refusal(message: Any, code: int, id: Any) -> None:
    assert set(message) == ({"jsonrpc", "error"} if id is NOTHING else {"jsonrpc", "id", "error"}), message
    assert message["error"]["code"] == code, message
    assert message["error"]["message"]
    if id is not NOTHING:
        assert message["id"] == id
        assert type(message["id"]) is type(id)


async def alone(client: Client) -> Any:
    """What came back, with a ping behind it as the end mark; and nothing else."""
    await client.ask("ping", id="end")
    came = [json.loads(frame) for frame in client.frames]
    client.frames.clear()
    client.answers.clear()
    return [message for message in came if message.get("id") != "end"]


@pytest.mark.parametrize("name", REFUSED)
async def test_malformed_input_is_refused(memory: Host, name: str) -> None:
    data, code, id = REFUSED[name]
    client = await memory()
    client.frames.clear()
    await client.send(data)
    (answer,) = await alone(client)
    check_refusal(answer, code, id)


@pytest.mark.parametrize("name", TAKEN)
async def test_unusual_input_is_taken(memory: Host, name: str) -> None:
    client = await memory()
    client.frames.clear()
    await client.send(TAKEN[name])
    assert await alone(client) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.parametrize("name", SILENT)
async def test_nothing_is_answered_to_what_asks_nothing(memory: Host, name: str) -> None:
    client = await memory()
    client.frames.clear()
    await client.send(SILENT[name])
    assert await alone(client) == []


async def test_one_pipe_survives_the_whole_table() -> None:
    host = Host("stdio")
    try:
        client = await host()
        client.frames.clear()
        wire = client.wire
        assert isinstance(wire, StdioWire)
        await wire.send_raw(b"\n\r\n  \n\t \r\n\r\r\n \n")  # blank lines are no messages
        assert await alone(client) == []
        for data, code, id in REFUSED.values():
            await client.send(data)
            (answer,) = await alone(client)
            check_refusal(answer, code, id)
        for data in TAKEN.values():
            await client.send(data)
            assert await alone(client) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
        for data in SILENT.values():
            await client.send(data)
            assert await alone(client) == []
    finally:
        await host.close()


@pytest.mark.parametrize("kind", ["streamable", "sse"])
async def test_malformed_posts_get_their_status(kind: str) -> None:
    host = Host(kind)
    try:
        client = await host()
        wire = client.wire
        for name, (data, code, id) in REFUSED.items():
            client.frames.clear()
            await client.send(data)
            message = await client.until(lambda: json.loads(client.frames[-1]) if client.frames else None)
            check_refusal(message, code, id)
            status = wire.statuses[-1]  # type: ignore[attr-defined]
            if kind == "sse":  # what is a message is answered on the stream
                assert status == (202 if code == NO_METHOD or name.startswith("params") or name == "array" else 400), (
                    name
                )
            else:
                assert status == (200 if code == NO_METHOD else 400), name
        for data in SILENT.values():
            client.frames.clear()
            await client.send(data)
            await client.ask("ping")
            assert len(client.frames) == 1
            assert 202 in wire.statuses[-2:]  # type: ignore[attr-defined]
    finally:
        await host.close()


async def test_an_empty_body_is_not_json(http: Host) -> None:
    client = await http()
    assert isinstance(client.wire, HttpWire)
    for body in (b"", b"  \r\n"):
        reply = await client.wire.post(body, client.wire.standard(None))
        assert reply.status == 400
        check_refusal(reply.json, PARSE, NOTHING)


@pytest.mark.parametrize("name", [name for name, row in REFUSED.items() if row[1] != NO_METHOD])
async def test_a_modern_client_is_refused_the_same_way(http_modern: Host, name: str) -> None:
    data, code, id = REFUSED[name]
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    reply = await client.wire.post(data, {"MCP-Protocol-Version": "2026-07-28"})
    assert reply.status == 400
    check_refusal(reply.json, code, id)


async def test_a_response_posted_by_a_modern_client_is_refused(http_modern: Host) -> None:
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    reply = await client.wire.post({"jsonrpc": "2.0", "id": "a", "result": {}}, {"MCP-Protocol-Version": "2026-07-28"})
    assert reply.status == 400
    check_refusal(reply.json, INVALID, NOTHING)


async def test_a_response_on_a_modern_pipe_is_dropped(memory_modern: Host) -> None:
    client = await memory_modern()
    await client.settle()
    await client.call("echo", {"text": "modern"})
    client.frames.clear()
    await client.send({"jsonrpc": "2.0", "id": "zrv-1", "result": {}})
    await client.settle()
    assert len(client.frames) == 1


async def test_an_oversize_line_is_refused_and_the_stream_goes_on() -> None:
    host = Host("stdio")
    try:
        client = await host()
        await client.send(HEAD + b',"params":{"a":"' + b"x" * (16 << 20) + b'"}}')
        refusal = await client.stray()
        assert refusal["error"]["code"] == INVALID
        assert str(16 << 20) in refusal["error"]["message"]
        assert (await client.ask("ping"))["result"] == {}
    finally:
        await host.close()
