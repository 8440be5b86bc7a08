"""The headers that repeat a modern request's body, and arguments that are mirrored in headers."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.connect import Host, HttpWire, Post, meta
from zorivest_rpc.errors import CatalogError, ProtocolError
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.protocol.headers import decode_value, header_params

VERSION = ("MCP-Protocol-Version", "2026-07-28")
METHOD = ("Mcp-Method", "tools/call")
NAME = ("Mcp-Name", "echo")


def sealed(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


async def posted(host: Host, headers: list[tuple[str, str]], name: str = "echo", arguments: Any = None) -> Post:
    client = await host()
    assert isinstance(client.wire, HttpWire)
    params = {"_meta": meta(), "name": name, "arguments": {"text": "a"} if arguments is None else arguments}
    return await client.wire.post({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}, headers)


def mismatch(reply: Post) -> bool:
    if reply.status == 200:
        assert reply.json["result"]["resultType"] == "complete"
        return False
    assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, -32020, 5)
    return True


@pytest.mark.parametrize(
    "headers",
    [
        [VERSION, METHOD, NAME],
        [("mcp-protocol-version", "2026-07-28"), ("MCP-METHOD", "tools/call"), ("mCP-nAME", "echo")],
        [VERSION, METHOD, ("Mcp-Name", "  echo\t ")],
        [("MCP-Protocol-Version", " 2026-07-28 "), ("Mcp-Method", "\ttools/call"), NAME],
        [VERSION, METHOD, ("Mcp-Name", sealed("echo"))],
        [VERSION, METHOD, NAME, ("Mcp-Param-Unknown", "ignored")],
    ],
)
async def test_headers_that_repeat_the_body_are_taken(http_modern: Host, headers: list[tuple[str, str]]) -> None:
    assert not mismatch(await posted(http_modern, headers))


@pytest.mark.parametrize(
    "headers",
    [
        [METHOD, NAME],
        [VERSION, NAME],
        [VERSION, METHOD],
        [VERSION, VERSION, METHOD, NAME],
        [VERSION, METHOD, METHOD, NAME],
        [VERSION, METHOD, NAME, NAME],
        [VERSION, ("Mcp-Method", "Tools/Call"), NAME],
        [VERSION, ("Mcp-Method", "tools/list"), NAME],
        [VERSION, ("Mcp-Method", ""), NAME],
        [VERSION, ("Mcp-Method", sealed("tools/call")), NAME],
        [VERSION, METHOD, ("Mcp-Name", "Echo")],
        [VERSION, METHOD, ("Mcp-Name", "echo2")],
        [VERSION, METHOD, ("Mcp-Name", "")],
        [VERSION, METHOD, ("Mcp-Name", sealed("Echo"))],
        [VERSION, METHOD, ("Mcp-Name", "=?BASE64?ZWNobw==?=")],
        [VERSION, METHOD, ("Mcp-Name", "=?base64?ZWNobw?=")],
        [VERSION, METHOD, ("Mcp-Name", "=?base64?ZWNobx==?=")],
        [VERSION, METHOD, ("Mcp-Name", "=?base64?ZWN!obw==?=")],
        [VERSION, METHOD, ("Mcp-Name", "=?base64?/w==?=")],
        [VERSION, METHOD, ("Mcp-Name", "=?base64?ZWNobw==")],
        [VERSION, METHOD, ("Mcp-Name", "ZWNobw==?=")],
    ],
)
async def test_headers_that_are_missing_repeated_or_different_are_refused(
    http_modern: Host, headers: list[tuple[str, str]]
) -> None:
    assert mismatch(await posted(http_modern, headers))


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("prompts/get", {"name": "plain"}, "plain"),
        ("resources/read", {"uri": "test://file/ü"}, sealed("test://file/ü")),
        ("resources/read", {"uri": "test://one"}, "test://one"),
    ],
)
async def test_prompts_and_resources_are_named_too(http_modern: Host, method: str, params: Any, name: str) -> None:
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    message = {"jsonrpc": "2.0", "id": 5, "method": method, "params": {"_meta": meta(), **params}}
    head = [VERSION, ("Mcp-Method", method)]
    assert not mismatch(await client.wire.post(message, [*head, ("Mcp-Name", name)]))
    assert mismatch(await client.wire.post(message, [*head, ("Mcp-Name", "other")]))
    assert mismatch(await client.wire.post(message, head))


async def test_a_mismatch_is_told_before_the_tool_is_looked_for(http_modern: Host) -> None:
    assert mismatch(await posted(http_modern, [VERSION, METHOD, NAME], name="nobody"))
    reply = await posted(http_modern, [VERSION, METHOD, ("Mcp-Name", "nobody")], name="nobody")
    assert (reply.status, reply.json["error"]["code"]) == (200, -32602)


async def test_a_call_without_a_name_is_wrong_params_whatever_the_header_says(http_modern: Host) -> None:
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    message = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"_meta": meta()}}
    reply = await client.wire.post(message, [VERSION, METHOD, NAME])
    assert reply.json["error"]["code"] == -32602


# --- mirrored arguments

HEAD = [VERSION, METHOD, ("Mcp-Name", "mirrored")]


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"text": "Hello"}, [("Mcp-Param-Text", "Hello")]),
        ({"text": "Hello"}, [("mcp-param-text", " Hello ")]),
        ({"text": "Hello"}, [("Mcp-Param-Text", "=?base64?SGVsbG8=?=")]),
        ({"text": "grüße"}, [("Mcp-Param-Text", sealed("grüße"))]),
        ({"text": ""}, [("Mcp-Param-Text", "")]),
        ({"text": "=?base64?x"}, [("Mcp-Param-Text", "=?base64?x")]),
        ({"text": "x?="}, [("Mcp-Param-Text", "x?=")]),
        ({"text": "=?base64?eA==?="}, [("Mcp-Param-Text", sealed("=?base64?eA==?="))]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", "42")]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", "42.0")]),
        ({"text": "a", "number": -(2**53 - 1)}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", "-9007199254740991")]),
        ({"text": "a", "flag": True}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Flag", "true")]),
        ({"text": "a", "flag": False}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Flag", "false")]),
        ({"text": "a", "nested": {"inner": "b"}}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Inner", "b")]),
        ({"text": "a", "nested": {}}, [("Mcp-Param-Text", "a")]),
    ],
)
async def test_arguments_that_are_mirrored_are_taken(http_modern: Host, arguments: Any, headers: Any) -> None:
    reply = await posted(http_modern, HEAD + headers, "mirrored", arguments)
    assert not mismatch(reply)
    assert reply.json["result"]["structuredContent"] == {"given": arguments}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"text": "Hello"}, []),
        ({"text": "Hello"}, [("Mcp-Param-Text", "hello")]),
        ({"text": "Hello"}, [("Mcp-Param-Text", "Hello"), ("Mcp-Param-Text", "Hello")]),
        ({"text": "Hello"}, [("Mcp-Param-Text", "=?base64?SGVsbG8?=")]),
        ({"text": "Hello"}, [("Mcp-Param-Text", "=?base64?SGVs!!!bG8=?=")]),
        ({"text": "Hello"}, [("Mcp-Param-Text", "=?base64?SGVsbG9=?=")]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a")]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", "43")]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", "forty-two")]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", "4_2")]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", sealed("٤٢"))]),
        ({"text": "a", "number": 42}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", "")]),
        ({"text": "a", "number": 2**53}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", str(2**53))]),
        ({"text": "a", "number": 2**53 + 1}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Number", str(2**53))]),
        ({"text": "a", "flag": True}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Flag", "True")]),
        ({"text": "a", "flag": True}, [("Mcp-Param-Text", "a"), ("Mcp-Param-Flag", "1")]),
        ({"text": "a", "nested": {"inner": "b"}}, [("Mcp-Param-Text", "a")]),
    ],
)
async def test_arguments_that_are_not_mirrored_are_refused(http_modern: Host, arguments: Any, headers: Any) -> None:
    assert mismatch(await posted(http_modern, HEAD + headers, "mirrored", arguments))


async def test_a_pipe_has_no_headers_to_compare(memory_modern: Host) -> None:
    client = await memory_modern()
    assert (await client.call("mirrored", {"text": "a"}))["structuredContent"] == {"given": {"text": "a"}}


async def test_a_legacy_client_mirrors_nothing(http: Host) -> None:
    client = await http()
    assert (await client.call("mirrored", {"text": "a"}))["structuredContent"] == {"given": {"text": "a"}}


# --- the annotation itself


def annotated(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def marked(header: Any = "X", type: Any = "string") -> dict[str, Any]:
    return {"type": type, "x-mcp-header": header}


def test_annotations_are_found_by_their_path() -> None:
    schema = annotated(a=marked("A"), b=annotated(c=marked("C", "integer"), d={"type": "string"}))
    assert header_params(schema) == {"A": ("a",), "C": ("b", "c")}


@pytest.mark.parametrize(
    "schema",
    [
        annotated(a=marked("")),
        annotated(a=marked("two words")),
        annotated(a=marked("ü")),
        annotated(a=marked(5)),
        annotated(a=marked("A\n")),
        annotated(a=marked(type="number")),
        annotated(a=marked(type="object")),
        annotated(a=marked(type="array")),
        annotated(a=marked(type=["string", "null"])),
        annotated(a={"x-mcp-header": "X"}),
        annotated(a=marked("X"), b=marked("x")),
        annotated(a={"type": "array", "items": marked()}),
        annotated(a={"anyOf": [marked()]}),
        annotated(a={"oneOf": [{"type": "null"}, marked()]}),
        annotated(a={"not": marked()}),
        {"type": "object", "allOf": [annotated(a=marked())]},
        {"type": "object", "if": annotated(a=marked())},
        {"type": "object", "$defs": {"a": marked()}},
        {"type": "object", "additionalProperties": marked()},
        {"type": "object", "patternProperties": {"^a": marked()}},
        {"type": "object", "dependentSchemas": {"a": annotated(b=marked())}},
        {"type": "object", "definitions": {"a": marked()}},
        annotated(a={"type": "array", "contains": marked()}),
        {"type": "object", "x-mcp-header": "X"},
    ],
)
def test_an_annotation_that_clients_would_drop_the_tool_for_is_refused(schema: Any) -> None:
    with pytest.raises(CatalogError):
        Tool("tool", "A tool.", schema)


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), ("=?base64?YQ==?=", "a"), ("=?base64??=", ""), ("=?base64?=", "=?base64?=")]
)
def test_a_value_is_literal_or_in_the_sentinel(value: str, text: str) -> None:
    assert decode_value(value, "X", 1) == text


@pytest.mark.parametrize(
    "value", ["=?base64?YQ?=", "=?base64?YR==?=", "=?base64?Y Q==?=", "=?base64?gA==?=", "=?base64?-_==?="]
)
def test_a_sentinel_that_is_not_exact_is_refused(value: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_value(value, "X", 1)
    assert (refused.value.code, refused.value.id) == (-32020, 1)
