"""Values at the edge of JSON, taken all the way through validation, the handler and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.connect import Host, meta

ODD = {
    "64 bits": b"18446744073709551615",
    "more than 64 bits": b"18446744073709551616",
    "40 digits": b"-" + b"9" * 40,
    "400 digits": b"9" * 400,
    "4 300 digits": b"9" * 4300,
    "5 000 digits": b"9" * 5000,
    "1e999": b"1e999",
    "-1e999": b"-1e999",
    "1e308": b"1e308",
    "tiny": b"5e-400",
    "minus zero": b"-0",
    "NUL": b'"\\u0000"',
    "a key of NUL": b'{"\\u0000":1}',
    "emoji": b'"\\ud83d\\ude00"',
    "noncharacter": b'"\\uffff"',
    "100 levels": b"[" * 100 + b"]" * 100,
    "200 levels": b'{"a":' * 200 + b"1" + b"}" * 200,
    "300 levels": b"[" * 300 + b"]" * 300,
    "500 levels of objects": b'{"a":' * 500 + b"1" + b"}" * 500,
    "900 levels": b"[" * 900 + b"]" * 900,
    "980 levels": b"[" * 980 + b"]" * 980,
    "duplicate keys": b'{"a":1,"a":2}',
    "many members": b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(20_000)) + b"}",
    "a long array": b"[" + b",".join([b"null"] * 50_000) + b"]",
}
TOOLS = ("anything", "echo", "mirrored", "ask_rounds", "task_only", "progress", "whoami")


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
async def test_no_value_is_an_internal_error(memory: Host, memory_modern: Host, name: str, modern: bool) -> None:
    client = await (memory_modern() if modern else memory(capabilities={}))
    about = json.dumps({"_meta": meta(client.capabilities) if modern else {}}).encode()[1:-1]
    for number, tool in enumerate(TOOLS):
        for member in ("text", "number", "extra", "steps"):
            id = f"{number}{member}"
            await client.send(
                b'{"jsonrpc":"2.0","id":"%b","method":"tools/call","params":{%b,"name":"%b","arguments":{"%b":%b}}}'
                % (id.encode(), about, tool.encode(), member.encode(), ODD[name])
            )
            answer = await answered(client, id)
            assert answer.get("error", {}).get("code") != -32603, (tool, member, answer)


async def answered(client: Any, id: str) -> Any:
    """The answer, or the refusal of what could not be read."""

    def look() -> Any:
        for message in (*client.answers, *client.strays):
            if message.get("id", id) == id:
                return message
        return None

    return await client.until(look)


@pytest.mark.parametrize("name", ["64 bits", "more than 64 bits", "40 digits", "NUL", "emoji", "noncharacter"])
async def test_an_odd_value_comes_back_as_it_was(memory: Host, name: str) -> None:
    client = await memory()
    await client.send(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"anything","arguments":{"v":%b}}}' % ODD[name]
    )
    result = (await client.answer(1))["result"]
    assert result["structuredContent"] == {"given": {"v": json.loads(ODD[name])}}


@pytest.mark.parametrize("name", ODD)
async def test_no_answer_of_a_client_is_an_internal_error(memory_modern: Host, name: str) -> None:
    """Answers that are kept for a later round are sealed, and come back as they were."""
    client = await memory_modern()
    about = json.dumps({"_meta": meta(client.capabilities)}).encode()[1:-1]
    content = b'{"action":"accept","content":{"name":"x","more":%b}}' % ODD[name]
    await client.send(
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{%b,"name":"ask_two",'
        b'"inputResponses":{"name":%b,"other":%b}}}' % (about, content, content)
    )
    answer = await answered(client, "a")
    if "result" not in answer:
        assert answer["error"]["code"] in (-32602, -32700, -32600)
        return
    assert answer["result"]["resultType"] == "input_required"
    params = {"name": "ask_two", "requestState": answer["result"]["requestState"]}
    done = await client.result("tools/call", {**params, "inputResponses": {"roots": {"roots": []}}})
    assert done["content"][0]["text"] == "x has 0"
