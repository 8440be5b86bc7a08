"""Every refusal about clients, over every way into the server: one result, no protocol error, and nothing reached."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import pytest

from tests.connect import events
from tests.tenants.wall.stage import Served, access_rule, served

Ask: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]

GRANTED = "acme, bare, bound, kept, quick"
LIST = f"Available clients: {GRANTED}."
MISSING = f"clientId is required. {LIST} Use list_clients for details."
UNKNOWN = 'Unknown client ID: "{}". ' + LIST
INVALID = 'Invalid client ID: "{}". Use only a-z, 0-9, "-" and "_". ' + LIST
CLOSED = 'Client "kept" is read-only; "create_trade" changes data.'
BEYOND = '"list_trades" is not enabled for client "bound".'
ROWS: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("list_trades", {}, "INPUT", "client_missing", MISSING),
    ("list_trades", {"clientId": None}, "INPUT", "client_missing", MISSING),
    ("list_trades", {"clientId": 5}, "INPUT", "client_invalid", INVALID.format("5")),
    ("list_trades", {"clientId": ["acme"]}, "INPUT", "client_invalid", INVALID.format('["acme"]')),
    ("list_trades", {"clientId": "a b"}, "INPUT", "client_invalid", INVALID.format("a b")),
    ("list_trades", {"clientId": "\u0430cme"}, "INPUT", "client_invalid", INVALID.format("\u0430cme")),
    ("list_trades", {"clientId": "a\u202eb\x1b"}, "INPUT", "client_invalid", INVALID.format("a\\u202eb\\u001b")),
    ("list_trades", {"clientId": "none"}, "INPUT", "client_unknown", UNKNOWN.format("none")),
    ("list_trades", {"clientId": "alien"}, "INPUT", "client_unknown", UNKNOWN.format("alien")),
    ("list_trades", {"clientId": "off"}, "INPUT", "client_unknown", UNKNOWN.format("off")),
    (
        "list_trades",
        {"clientId": "bare"},
        "BACKEND",
        "client_unconfigured",
        'Client "bare" is not usable: its credential is not configured on the server. '
        "Other clients: acme, bound, kept, quick.",
    ),
    ("create_trade", {"clientId": "kept"}, "POLICY", "client_readonly", CLOSED),
    ("list_trades", {"clientId": "bound"}, "POLICY", "client_toolset", BEYOND),
    (
        "call_tool",
        {"clientId": "acme", "name": "list_trades", "arguments": {"clientId": "quick"}},
        "INPUT",
        "client_conflict",
        'clientId "acme" and inner clientId "quick" differ. Send only clientId.',
    ),
]


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    each: dict[str, dict[str, Any]] = {
        "off": {"enabled": False},
        "kept": {"readOnly": True},
        "bound": {"toolsets": ["tax"]},
    }
    ids = ["acme", "alien", "bare", "bound", "kept", "off", "quick"]
    rules = [access_rule("key", [id for id in ids if id != "alien"], "desk")]
    async with served(monkeypatch, tmp_path, ids, access=rules, **each) as made:
        monkeypatch.delenv("KEY_BARE")
        yield made


def modern(place: Served) -> Ask:
    async def ask(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await place.desk("key").call(tool, arguments)

    return ask


async def legacy(place: Served, revision: str) -> Ask:
    desk = place.desk("key")
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "cline", "version": "1"}}
    _, answer, headers = await desk.post("initialize", params)
    assert answer["result"]["protocolVersion"] == revision
    session = {"Mcp_Session_Id": headers["Mcp-Session-Id"]}
    if revision >= "2025-06-18":
        session["MCP_Protocol_Version"] = revision

    async def ask(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        status, answer, _ = await desk.post("tools/call", {"name": tool, "arguments": arguments}, **session)
        assert status == 200
        return answer["result"]  # type: ignore[no-any-return]

    return ask


async def oldest(place: Served, stream: aiohttp.ClientResponse) -> Ask:
    """The pair of 2024-11-05: what is posted is answered on the stream."""
    frames = events(stream.content)
    url = place.url + (await anext(frames)).decode()

    async def send(message: dict[str, Any]) -> Any:
        async with place.http.post(url, json=message, headers={"Authorization": "Bearer key"}) as answer:
            assert answer.status == 202
        return json.loads(await anext(frames)) if "id" in message else None

    async def ask(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        answer = await send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        return answer["result"]  # type: ignore[no-any-return]

    params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "cline", "version": "1"}}
    await send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    await send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return ask


async def check_rows(ask: Ask) -> None:
    for tool, arguments, kind, code, text in ROWS:
        result = await ask(tool, arguments)
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": text}]
        error = result["_meta"]["com.zorivest/error"]
        assert (error["class"], error["code"]) == (kind, code), arguments
        assert error["next"]


async def test_each_refusal_is_the_same_result_everywhere(place: Served) -> None:
    async with asyncio.timeout(30):
        await check_rows(modern(place))
        for revision in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
            await check_rows(await legacy(place, revision))
        headers = {"Authorization": "Bearer key", "Accept": "text/event-stream"}
        async with place.http.get(place.url + "/sse", headers=headers) as stream:
            await check_rows(await oldest(place, stream))
    assert place.backends.seen == {}, "no backend, and with it no guard, was asked anything"


async def test_a_client_that_is_not_granted_is_one_that_is_not_there(place: Served) -> None:
    """Byte by byte, but for the name that was given."""
    desk = place.desk("key")
    bodies = set()
    for id in ("alien", "ghost", "off"):
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
        }
        params = {"name": "list_trades", "arguments": {"clientId": id}, "_meta": meta}
        sent = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "list_trades"}
        sent |= {"Authorization": "Bearer key", "Accept": "application/json, text/event-stream"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with desk.http.post(desk.url, json=message, headers=sent) as answer:
            bodies.add((answer.status, (await answer.read()).replace(id.encode(), b"ID")))
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/mcp"),
        ("POST", "/mcp"),
        ("DELETE", "/mcp"),
        ("GET", "/sse"),
        ("POST", "/messages?session_id=x"),
        ("GET", "/metrics"),
    ],
)
async def test_without_a_key_no_path_does_anything(place: Served, method: str, path: str) -> None:
    for given in (None, "", "key", "Basic key", "Bearer", "Bearer ", "Bearer other", "Bearer kéy"):
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        headers |= {} if given is None else {"Authorization": given}
        body = b"{not json" if method == "POST" else None
        async with place.http.request(method, place.url + path, headers=headers, data=body) as answer:
            assert answer.status == 401, given
            assert "Bearer" in answer.headers["WWW-Authenticate"]
    assert place.backends.seen == {}
