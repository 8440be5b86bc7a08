"""The modern era: what a request has to say about itself, and what every result says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import PREFIX, Host, HttpWire, meta

INFO = {"name": "rich", "version": "1.2.3", "title": "Rich"}
HINTED = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "test://one"},
}
UNHINTED = {
    "tools/call": {"name": "echo", "arguments": {"text": "a"}},
    "prompts/get": {"name": "plain"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "named"},
        "argument": {"name": "a", "value": ""},
    },
}


@pytest.mark.parametrize("method", [*HINTED, *UNHINTED])
async def test_every_result_is_stamped_and_six_carry_hints(modern: Host, method: str) -> None:
    client = await modern()
    result = await client.result(method, {**HINTED, **UNHINTED}[method])
    assert result["resultType"] == "complete"
    assert result["_meta"][PREFIX + "serverInfo"] == INFO
    assert ({"ttlMs", "cacheScope"} <= set(result)) is (method in HINTED)
    if method in HINTED:
        assert type(result["ttlMs"]) is int
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


async def test_an_answer_that_streams_is_stamped_like_one_that_does_not(http_modern: Host) -> None:
    client = await http_modern()
    answer = await client.ask("tools/call", {"name": "progress", "arguments": {"steps": [1]}}, progressToken=1)
    assert client.notes
    assert (answer["result"]["resultType"], answer["result"]["_meta"]) == ("complete", {PREFIX + "serverInfo": INFO})


async def test_a_tool_error_keeps_its_own_metadata_beside_the_stamp(memory_modern: Host) -> None:
    client = await memory_modern()
    result = await client.call("tool_error")
    assert set(result["_meta"]) == {"com.zorivest/error", PREFIX + "serverInfo"}


async def test_discovery_names_versions_and_capabilities(memory_modern: Host) -> None:
    client = await memory_modern()
    result = await client.result("server/discover")
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["capabilities"] == {
        "logging": {},
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }
    assert result["instructions"] == "for 2026-07-28"
    assert "serverInfo" not in result


async def test_what_is_not_offered_is_not_found(http_modern: Host) -> None:
    client = await http_modern(offer="tests.mcp.protocol.offers:bare")
    assert (await client.result("server/discover"))["capabilities"] == {}
    assert isinstance(client.wire, HttpWire)
    for method in ("tools/list", "prompts/list", "resources/list", "tasks/get", "completion/complete"):
        head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": "t"}
        params = {"_meta": meta(), "taskId": "t"}
        reply = await client.wire.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, head)
        assert (reply.status, reply.json["error"]["code"]) == (404, -32601)


BROKEN: dict[str, Any] = {
    "no params": None,
    "no _meta": {},
    "_meta null": {"_meta": None},
    "_meta an array": {"_meta": []},
    "no version": {"_meta": {PREFIX + "clientCapabilities": {}}},
    "no capabilities": {"_meta": {PREFIX + "protocolVersion": "2026-07-28"}},
    "capabilities null": {"_meta": meta() | {PREFIX + "clientCapabilities": None}},
    "capabilities a list": {"_meta": meta() | {PREFIX + "clientCapabilities": []}},
    "version a number": {"_meta": meta() | {PREFIX + "protocolVersion": 2026}},
    "log level unknown": {"_meta": meta() | {PREFIX + "logLevel": "loud"}},
    "log level a number": {"_meta": meta() | {PREFIX + "logLevel": 3}},
    "progress token a float": {"_meta": meta() | {"progressToken": 1.5}},
}


@pytest.mark.parametrize("name", BROKEN)
async def test_metadata_that_is_missing_or_wrong_is_refused(http_modern: Host, name: str) -> None:
    client = await http_modern()
    assert isinstance(client.wire, HttpWire)
    for method in ("server/discover", "tools/list", "no/such"):
        message = {"jsonrpc": "2.0", "id": "x", "method": method}
        if BROKEN[name] is not None:
            message["params"] = BROKEN[name]
        head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        reply = await client.wire.post(message, head)
        found = (reply.status, reply.json["error"]["code"])
        assert reply.json["id"] == "x"
        if name.startswith("progress"):  # not required, so it is looked at last
            assert found == ((404, -32601) if method == "no/such" else (200, -32602))
        else:
            assert found == (400, -32602)


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "no params"])
async def test_a_pipe_refuses_the_same_metadata(memory_modern: Host, name: str) -> None:
    client = await memory_modern()
    await client.result("tools/list")
    await client.send({"jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": BROKEN[name]})
    assert (await client.answer("x"))["error"]["code"] == -32602


@pytest.mark.parametrize("info", [None, 5, {}, {"name": 5}, {"version": "1"}, {"name": "known", "version": 7}])
async def test_client_info_is_for_display_and_never_refused(memory_modern: Host, info: Any) -> None:
    client = await memory_modern()
    about = meta() | {PREFIX + "clientInfo": info}
    if info is None:
        del about[PREFIX + "clientInfo"]
    result = await client.result("tools/call", {"name": "whoami", "_meta": about})
    if info is None:
        assert result["structuredContent"]["client"] in (None, "tests")
    assert result["resultType"] == "complete"


async def test_nothing_is_inferred_from_an_earlier_request(memory_modern: Host) -> None:
    client = await memory_modern(capabilities={"sampling": {}})
    await client.call("need_sampling")
    await client.result("tools/call", {"name": "log_all", "_meta": {PREFIX + "logLevel": "debug"}})
    assert len(client.notes) == 8
    client.capabilities = {}
    client.notes.clear()
    await client.call("log_all")
    assert client.notes == []
    assert (await client.error("tools/call", {"name": "need_sampling"}))["code"] == -32021


@pytest.mark.parametrize(("level", "number"), [("debug", 8), ("warning", 5), ("emergency", 1)])
async def test_a_log_level_holds_for_its_request_alone(modern: Host, level: str, number: int) -> None:
    client = await modern()
    await client.result("tools/call", {"name": "log_all"}, **{PREFIX + "logLevel": level})
    await client.settle()
    assert len(client.notes_of("notifications/message")) == number
    await client.call("log_all")
    await client.settle()
    assert len(client.notes_of("notifications/message")) == number


# --- what the client cannot do


@pytest.mark.parametrize(
    ("tool", "arguments", "needed"),
    [
        ("need_sampling", {}, {"sampling": {}}),
        ("ask_form", {}, {"elicitation": {}}),
        ("ask_url", {}, {"elicitation": {"url": {}}}),
        ("ask_sample", {}, {"sampling": {}}),
        ("ask_sample", {"tools": True}, {"sampling": {"tools": {}}}),
        ("ask_roots", {}, {"roots": {}}),
        ("task_only", {"text": "a"}, {"extensions": {"io.modelcontextprotocol/tasks": {}}}),
    ],
)
async def test_a_missing_capability_is_named_as_the_object_to_declare(
    http_modern: Host, tool: str, arguments: Any, needed: Any
) -> None:
    client = await http_modern(capabilities={})
    assert isinstance(client.wire, HttpWire)
    error = await client.error("tools/call", {"name": tool, "arguments": arguments})
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": needed})
    assert client.wire.statuses[-1] == 400


async def test_forms_alone_do_not_make_a_client_able_to_visit_pages(memory_modern: Host) -> None:
    client = await memory_modern(capabilities={"elicitation": {}})
    assert (await client.call("ask_form"))["resultType"] == "input_required"
    assert (await client.error("tools/call", {"name": "ask_url"}))["code"] == -32021


@pytest.mark.parametrize("uri", ["test://nowhere", "test://note/17"])
async def test_an_unknown_resource_is_an_invalid_parameter(http_modern: Host, uri: str) -> None:
    client = await http_modern()
    error = await client.error("resources/read", {"uri": uri})
    assert (error["code"], error["data"]) == (-32602, {"uri": uri})
