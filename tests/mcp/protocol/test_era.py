"""Which era a message belongs to, on HTTP per message and on a pipe per opening."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import PREFIX, Client, Host, HttpWire, Post, meta

OLD = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEW = "2026-07-28"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}


def request(method: str, params: Any = None, id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params})}


def claim(method: str = "tools/list", version: Any = NEW, **params: Any) -> dict[str, Any]:
    return request(method, {"_meta": meta(version=version), **params})


def headers(version: str | None, method: str | None = "tools/list", **more: str) -> dict[str, str]:
    given = {} if version is None else {"MCP-Protocol-Version": version}
    return given | ({} if method is None else {"Mcp-Method": method}) | more


async def posted(host: Host, message: Any, head: Any) -> Post:
    client = await host(opened=False)
    assert isinstance(client.wire, HttpWire)
    return await client.wire.post(message, head)


def refused(reply: Post, status: int, code: int, id: Any = 1) -> Any:
    body = reply.json
    assert (reply.status, body["error"]["code"]) == (status, code), body
    if id is None:
        assert "id" not in body
    else:
        assert body["id"] == id
    assert "Mcp-Session-Id" not in reply.headers
    return body["error"]


# --- HTTP: the rows of the decision


async def test_a_claim_with_its_headers_is_modern(http: Host) -> None:
    reply = await posted(http, claim(), headers(NEW))
    assert (reply.status, reply.json["result"]["resultType"]) == (200, "complete")
    assert "Mcp-Session-Id" not in reply.headers


async def test_a_session_id_and_an_event_id_mean_nothing_to_a_modern_request(http: Host) -> None:
    more = {"Mcp-Session-Id": "whatever", "Last-Event-ID": "x"}
    reply = await posted(http, claim(), {**headers(NEW), **more})
    assert reply.status == 200
    assert "Mcp-Session-Id" not in reply.headers


async def test_a_claim_makes_even_initialize_modern(http: Host) -> None:
    message = request("initialize", {**INITIALIZE, "_meta": meta()})
    refused(await posted(http, message, headers(NEW, "initialize")), 404, -32601)


@pytest.mark.parametrize("version", [NEW, "2099-01-01", "nonsense", ""])
async def test_a_modern_or_unknown_header_without_metadata_is_refused_as_modern(http: Host, version: str) -> None:
    bare: list[Any] = [None, {}, {"_meta": {}}, {"_meta": {"progressToken": 1}}]
    for params in bare:
        refused(await posted(http, request("tools/list", params), headers(version)), 400, -32602)


@pytest.mark.parametrize("version", [None, *OLD])
async def test_initialize_without_a_claim_is_the_handshake(http: Host, version: str | None) -> None:
    reply = await posted(http, request("initialize", INITIALIZE), headers(version, None))
    assert reply.status == 200
    assert reply.json["result"]["protocolVersion"] == "2025-11-25"
    id = reply.headers["Mcp-Session-Id"]
    assert all(0x21 <= ord(letter) <= 0x7E for letter in id)


@pytest.mark.parametrize("version", [None, "2025-11-25"])
async def test_a_request_without_a_claim_needs_a_session(http: Host, version: str | None) -> None:
    refused(await posted(http, request("tools/list"), headers(version, None)), 400, -32600, None)
    gone = await posted(http, request("tools/list"), {**headers(version, None), "Mcp-Session-Id": "00" * 40})
    refused(gone, 404, -32600, None)


async def test_a_bare_meta_is_no_claim(http: Host) -> None:
    client = await http()
    assert isinstance(client.wire, HttpWire)
    answer = await client.ask("tools/list", progressToken="t")
    assert "resultType" not in answer["result"]


async def test_a_modern_notification_is_acknowledged_and_dropped(http: Host) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    reply = await posted(http, note, {"MCP-Protocol-Version": NEW})
    assert (reply.status, reply.body) == (202, b"")


async def test_a_notification_of_an_unknown_version_is_refused(http: Host) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/x"}
    error = refused(await posted(http, note, {"MCP-Protocol-Version": "2099-01-01"}), 400, -32022, None)
    assert error["data"] == {"supported": [NEW], "requested": "2099-01-01"}


@pytest.mark.parametrize("version", [None, "2025-06-18"])
async def test_a_legacy_notification_or_response_needs_a_session(http: Host, version: str | None) -> None:
    for message in ({"jsonrpc": "2.0", "method": "notifications/x"}, {"jsonrpc": "2.0", "id": 1, "result": {}}):
        refused(await posted(http, message, headers(version, None)), 400, -32600, None)


async def test_an_array_with_a_modern_header_is_refused(http: Host) -> None:
    refused(await posted(http, [claim()], headers(NEW)), 400, -32600, None)


async def test_a_posted_cancellation_cancels_nothing_of_a_modern_client(http_modern: Host) -> None:
    client = await http_modern()
    id = await client.start_call("hold", {"gate": "g"}, progressToken=1)
    await client.note("notifications/progress")
    await client.cancel(id)
    await client.call("open_gate", {"gate": "g"})
    assert (await client.answer(id))["result"]["content"][0]["text"] == "released"


# --- HTTP: the edges


async def test_a_claim_without_the_header_is_a_mismatch(http: Host) -> None:
    refused(await posted(http, claim(), headers(None)), 400, -32020)
    refused(await posted(http, claim("initialize", **INITIALIZE), headers(None, "initialize")), 400, -32020)


async def test_header_and_metadata_that_disagree_are_a_mismatch(http: Host) -> None:
    refused(await posted(http, claim(), headers("2025-11-25")), 400, -32020)
    refused(await posted(http, claim(version="v999.0.0"), headers(NEW)), 400, -32020)


@pytest.mark.parametrize("version", [*OLD, "v999.0.0", "2026-07-29"])
async def test_header_and_metadata_that_agree_on_what_is_not_served_are_unsupported(http: Host, version: str) -> None:
    error = refused(await posted(http, claim(version=version), headers(version)), 400, -32022)
    assert error["data"] == {"supported": [NEW], "requested": version}


@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list",
     "tasks/result", "no/such", "notifications/initialized"],
)  # fmt: skip
async def test_what_the_modern_era_removed_is_not_found(http: Host, method: str) -> None:
    refused(await posted(http, claim(method), headers(NEW, method)), 404, -32601)
    full = claim(method, uri="test://one", level="info", taskId="t", **INITIALIZE)
    refused(await posted(http, full, headers(NEW, method)), 404, -32601)


@pytest.mark.parametrize("version", [5, None, {}, ["2026-07-28"]])
async def test_a_version_of_the_wrong_type_is_still_a_claim(http: Host, version: Any) -> None:
    message = request("tools/list", {"_meta": {PREFIX + "protocolVersion": version, PREFIX + "clientCapabilities": {}}})
    refused(await posted(http, message, headers(NEW)), 400, -32602)
    refused(await posted(http, message, headers(None)), 400, -32602)


@pytest.mark.parametrize("version", ["2099-01-01", "nonsense"])
async def test_a_session_with_an_unsupported_version_header_is_refused(http: Host, version: str) -> None:
    client = await http()
    assert isinstance(client.wire, HttpWire)
    head = {**client.wire.standard(None), "MCP-Protocol-Version": version}
    refused(await client.wire.post(request("ping"), head), 400, -32602)
    note = {"jsonrpc": "2.0", "method": "notifications/x"}
    assert (await client.wire.post(note, head)).status == 400


async def test_a_session_without_a_version_header_keeps_its_revision(http: Host) -> None:
    client = await http("2025-06-18")
    assert isinstance(client.wire, HttpWire)
    head = {"Mcp-Session-Id": str(client.wire.session_id)}
    reply = await client.wire.post(request("tools/call", {"name": "whoami"}), head)
    assert reply.json["result"]["structuredContent"]["revision"] == "2025-06-18"


async def test_a_second_initialize_in_a_live_session_is_refused(http: Host) -> None:
    client = await http()
    assert isinstance(client.wire, HttpWire)
    reply = await client.wire.post(request("initialize", INITIALIZE), client.wire.standard(None))
    refused(reply, 400, -32600)


async def test_an_initialize_with_wrong_params_opens_no_session(http: Host) -> None:
    for broken in ({}, {**INITIALIZE, "protocolVersion": 5}, {"protocolVersion": "2025-11-25"}):
        refused(await posted(http, request("initialize", broken), {}), 400, -32602)


# --- a pipe


async def raw(host: Host) -> Client:
    return await host(opened=False)


@pytest.mark.parametrize("kind", ["memory", "sse"])
async def test_before_initialize_only_ping_is_answered(kind: str) -> None:
    host = Host(kind)
    try:
        client = await raw(host)
        for method in ("tools/list", "no/such", "logging/setLevel"):
            assert (await client.error(method, {"level": "info"}))["code"] == -32600
        assert (await client.ask("ping"))["result"] == {}
        assert (await client.error("tools/list"))["code"] == -32600
        await client.open()
        assert (await client.ask("tools/list"))["result"]["tools"]
    finally:
        await host.close()


async def test_requests_are_answered_before_initialized_arrives(memory: Host) -> None:
    client = await raw(memory)
    await client.result("initialize", INITIALIZE)
    assert (await client.result("tools/list"))["tools"]


async def test_pipelined_requests_behind_initialize_are_answered(memory: Host) -> None:
    client = await raw(memory)
    await client.send(request("initialize", INITIALIZE, 1))
    await client.send(request("tools/list", None, 2))
    assert (await client.answer(2))["result"]["tools"]


@pytest.mark.parametrize("kind", ["memory", "sse"])
async def test_initialize_is_answered_once(kind: str) -> None:
    host = Host(kind)
    try:
        client = await host()
        assert (await client.error("initialize", INITIALIZE))["code"] == -32600
        assert (await client.ask("ping"))["result"] == {}
    finally:
        await host.close()


async def test_an_initialize_that_was_refused_can_be_repeated(memory: Host) -> None:
    client = await raw(memory)
    for broken in ({}, {**INITIALIZE, "capabilities": []}, {**INITIALIZE, "clientInfo": {"version": "1"}}):
        assert (await client.error("initialize", broken))["code"] == -32602
    assert (await client.result("initialize", INITIALIZE))["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("asked", [*OLD, NEW, "2023-01-01", "", "latest"])
async def test_negotiation_agrees_or_makes_a_counter_offer(memory: Host, asked: str) -> None:
    client = await raw(memory)
    given = await client.result("initialize", {**INITIALIZE, "protocolVersion": asked})
    assert given["protocolVersion"] == (asked if asked in OLD else "2025-11-25")


async def test_the_first_modern_request_locks_the_pipe(memory_modern: Host) -> None:
    client = await raw(memory_modern)
    await client.result("tools/list")
    refusal = await client.error("initialize", INITIALIZE)
    assert refusal["code"] == -32022
    assert refusal["data"] == {"supported": [NEW], "requested": "2025-11-25"}
    await client.send(request("tools/list", {}, "bare"))
    assert (await client.answer("bare"))["error"]["code"] == -32602
    await client.send(request("ping", {"_meta": meta()}, "ping"))
    assert (await client.answer("ping"))["error"]["code"] == -32601


async def test_a_discover_probe_does_not_lock_the_pipe(memory_modern: Host) -> None:
    client = await raw(memory_modern)
    assert (await client.result("server/discover"))["supportedVersions"] == [NEW]
    await client.send(request("initialize", INITIALIZE, "late"))
    assert (await client.answer("late"))["result"]["protocolVersion"] == "2025-11-25"
    await client.send(request("tools/list", {}, "list"))
    assert "resultType" not in (await client.answer("list"))["result"]


async def test_a_modern_request_on_a_legacy_pipe_is_refused(memory: Host) -> None:
    client = await memory()
    for method in ("tools/list", "server/discover", "no/such"):
        await client.send(claim(method) | {"id": method})
        assert (await client.answer(method))["error"]["code"] == -32600


async def test_initialize_with_a_claim_opens_a_legacy_pipe(memory: Host) -> None:
    client = await raw(memory)
    await client.send(request("initialize", {**INITIALIZE, "_meta": meta()}))
    assert (await client.answer(1))["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("version", ["2025-11-25", "2099-01-01"])
async def test_a_claim_of_another_version_on_a_pipe_is_unsupported(memory_modern: Host, version: str) -> None:
    client = await raw(memory_modern)
    await client.send(claim(version=version))
    error = (await client.answer(1))["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": [NEW], "requested": version})
    assert (await client.result("tools/list"))["tools"]


async def test_the_sse_pair_knows_no_modern_requests() -> None:
    host = Host("sse")
    try:
        client = await raw(host)
        await client.send(claim())
        assert (await client.answer(1))["error"]["code"] == -32600
        await client.open()
        assert (await client.ask("ping"))["result"] == {}
    finally:
        await host.close()


async def test_a_pipe_of_a_real_process_keeps_the_same_rules() -> None:
    host = Host("stdio")
    try:
        client = await raw(host)
        assert (await client.error("tools/list"))["code"] == -32600
        await client.send(claim("server/discover") | {"id": "probe"})
        assert (await client.answer("probe"))["result"]["supportedVersions"] == [NEW]
        await client.open()
        await client.send(claim() | {"id": "modern"})
        assert (await client.answer("modern"))["error"]["code"] == -32600
        assert (await client.error("initialize", INITIALIZE))["code"] == -32600
    finally:
        await host.close()
