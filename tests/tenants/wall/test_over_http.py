"""Who may call over HTTP, what each of them sees, and the header that once chose the tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tenants.wall.stage import LEGACY, Served, access_rule, mark, served
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.errors import ConfigError

IDS = ["acme", "sechpos"]
RULES = [
    access_rule("key-of-a", ["acme"], "desk-a"),
    access_rule("key-of-b", ["sechpos"], "desk-b"),
    access_rule("key-of-all", "*", "all"),
]
NOTICE = "The X-Client-ID header is deprecated. Send clientId with each tool call."


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    async with served(monkeypatch, tmp_path, IDS, access=RULES) as made:
        yield made


async def test_without_an_access_key_nothing_is_looked_at(place: Served) -> None:
    for key in (None, "wrong", "zrv_sk_acme"):
        status, answer = await place.desk(key).modern("tools/list", {})
        assert (status, "result" in answer) == (401, False)
        async with place.http.get(place.url + "/metrics", headers={"Authorization": f"Bearer {key}"}) as metrics:
            assert metrics.status == 401
    assert place.backends.seen == {}


async def test_a_key_opens_its_own_clients_alone(place: Served) -> None:
    desk = place.desk("key-of-a")
    listed = (await desk.call("list_clients", {}))["structuredContent"]["clients"]
    assert [entry["id"] for entry in listed] == ["acme"]
    assert not (await desk.call("list_trades", {"clientId": "acme"})).get("isError")
    refused = await desk.call("list_trades", {"clientId": "sechpos"})
    unknown = await desk.call("list_trades", {"clientId": "nothing"})
    assert json.dumps(refused).replace("sechpos", "nothing") == json.dumps(unknown)
    assert place.backends.seen["sechpos"] == []
    assert {each.authorization for each in place.backends.seen["acme"]} <= {None, "Bearer tok_acme_1"}
    diagnosed = (await desk.call("zorivest_diagnose", {"clientId": "acme"}))["structuredContent"]
    assert "tenants" not in diagnosed
    everything = (await place.desk("key-of-all").call("zorivest_diagnose", {"clientId": "acme"}))["structuredContent"]
    assert [entry["id"] for entry in everything["tenants"]] == IDS


async def test_lists_are_private_and_those_of_the_caller(place: Served) -> None:
    _, answer = await place.desk("key-of-a").modern("tools/list", {})
    assert answer["result"]["cacheScope"] == "private"
    assert answer["result"]["tools"][0]["inputSchema"]["properties"]["clientId"]["enum"] == ["acme"]
    assert "sechpos" not in json.dumps(answer)


async def test_a_session_belongs_to_the_key_that_opened_it(place: Served) -> None:
    id = await place.desk("key-of-a").open()
    for key, wanted in (("key-of-a", 200), ("key-of-b", 404), ("key-of-all", 404)):
        status, _, _ = await place.desk(key).post("tools/list", {}, Mcp_Session_Id=id, MCP_Protocol_Version=LEGACY)
        assert status == wanted


async def test_figures_of_other_clients_are_not_shown(place: Served) -> None:
    for key, id in (("key-of-a", "acme"), ("key-of-b", "sechpos")):
        await place.desk(key).call("list_trades", {"clientId": id})
    for key, own, other in (("key-of-a", "acme", "sechpos"), ("key-of-b", "sechpos", "acme")):
        async with place.http.get(place.url + "/metrics", headers={"Authorization": f"Bearer {key}"}) as answer:
            text = await answer.text()
        assert f'tenant="{own}"' in text
        assert other not in text


# --- the header


async def test_the_header_stands_in_for_the_argument(place: Served) -> None:
    desk = place.desk("key-of-all")
    plain = await desk.call("list_trades", {"clientId": "acme"})
    result = await desk.call("list_trades", {}, X_Client_ID=" Acme ")
    assert result["_meta"]["com.zorivest/notice"] == NOTICE
    assert result["content"] == plain["content"]
    both = await desk.call("list_trades", {"clientId": "ACME"}, X_Client_ID="acme")
    assert "com.zorivest/notice" not in both["_meta"]
    differ = await desk.call("list_trades", {"clientId": "acme"}, X_Client_ID="Sechpos")
    words = 'clientId "acme" and X-Client-ID header "Sechpos" differ. Send only clientId.'
    assert (differ["isError"], differ["content"][0]["text"]) == (True, words)
    for value in (["acme", "acme"], "acme,sechpos"):
        several = await desk.call("list_trades", {}, X_Client_ID=value)
        assert several["_meta"]["com.zorivest/error"]["code"] == "client_header_multiple"
    blank = await desk.call("list_trades", {}, X_Client_ID=" ")
    assert blank["_meta"]["com.zorivest/error"]["code"] == "client_missing"


async def test_a_list_with_the_header_does_not_require_the_argument(place: Served) -> None:
    _, answer = await place.desk("key-of-all").modern("tools/list", {}, X_Client_ID="acme")
    schema = answer["result"]["tools"][0]["inputSchema"]
    assert next(iter(schema["properties"])) == "clientId"
    assert "clientId" not in schema.get("required", [])


async def test_the_header_is_of_one_request_alone(place: Served) -> None:
    desk = place.desk("key-of-all")
    id = await desk.open(X_Client_ID="acme")
    session = {"Mcp_Session_Id": id, "MCP_Protocol_Version": LEGACY}
    params = {"name": "list_trades", "arguments": {}}
    _, first, _ = await desk.post("tools/call", params, **session, X_Client_ID="sechpos")
    assert mark("sechpos") in json.dumps(first)
    _, then, _ = await desk.post("tools/call", params, **session)
    assert then["result"]["_meta"]["com.zorivest/error"]["code"] == "client_missing"


async def test_accounts_are_offered_where_one_client_is_listed_for_and_to_none_besides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--toolsets", "all", "--exposure-trading", "on")
    async with served(monkeypatch, tmp_path, IDS, *options, access=RULES) as place:

        async def offered(key: str, **headers: str) -> list[str] | None:
            _, answer = await place.desk(key).modern("tools/list", {}, **headers)
            tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in answer["result"]["tools"]}
            assert "enum" not in tools["create_trade"]["account_id"], "a new account must stay possible"
            return tools["get_tax_lots"]["account_id"].get("enum")  # type: ignore[no-any-return]

        for id in IDS:
            await place.desk("key-of-all").call("list_trades", {"clientId": id})
        async with asyncio.timeout(30):  # what calls teach comes soon after them
            while (await offered("key-of-a"), await offered("key-of-b")).count(None):
                pass
        assert await offered("key-of-a") == ["account-of-acme"]
        assert await offered("key-of-b") == ["account-of-sechpos"]
        assert await offered("key-of-all", X_Client_ID="sechpos") == ["account-of-sechpos"]
        assert await offered("key-of-all", X_Client_ID="acme") == ["account-of-acme"]
        assert await offered("key-of-all") is None


async def test_the_header_can_be_ignored_or_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch, tmp_path, IDS, "--tenancy-header", "ignore", access=RULES) as place:
        result = await place.desk("key-of-all").call("list_trades", {}, X_Client_ID="acme")
        assert result["_meta"]["com.zorivest/error"]["code"] == "client_missing"
        result = await place.desk("key-of-all").call("list_trades", {"clientId": "acme"}, X_Client_ID="sechpos")
        assert mark("acme") in json.dumps(result)
    async with served(monkeypatch, tmp_path, IDS, "--tenancy-header", "require", access=RULES) as place:
        desk = place.desk("key-of-all")
        status, answer = await desk.modern("tools/call", {"name": "list_trades", "arguments": {"clientId": "acme"}})
        assert (status, answer["error"]["code"]) == (403, -32600)
        assert answer["error"]["message"] == "X-Client-ID header required."
        assert not (await desk.call("list_trades", {}, X_Client_ID="acme")).get("isError")


async def test_the_argument_can_be_mirrored_for_proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch, tmp_path, IDS, "--tenancy-mcp-param-header", access=RULES) as place:
        desk = place.desk("key-of-all")
        _, answer = await desk.modern("tools/list", {})
        shown = answer["result"]["tools"][0]["inputSchema"]["properties"]["clientId"]
        assert shown["x-mcp-header"] == "Client-Id"
        params = {"name": "list_trades", "arguments": {"clientId": "acme"}}
        status, answer = await desk.modern("tools/call", params, Mcp_Param_Client_Id="sechpos")
        assert (status, answer["error"]["code"]) == (400, -32020)
        status, answer = await desk.modern("tools/call", params, Mcp_Param_Client_Id="acme")
        assert mark("acme") in json.dumps(answer)
        session = {"Mcp_Session_Id": await desk.open(), "MCP_Protocol_Version": LEGACY}
        _, answer, _ = await desk.post("tools/list", {}, **session)
        properties = [tool["inputSchema"]["properties"].get("clientId", {}) for tool in answer["result"]["tools"]]
        assert not any("x-mcp-header" in each for each in properties), "earlier revisions know no such header"


# --- the start


@pytest.mark.parametrize(
    ("options", "loopback", "refused"),
    [([], True, True), (["--no-auth"], True, False), (["--no-auth"], False, True)],
)
def test_without_rules_only_a_loopback_address_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], loopback: bool, refused: bool
) -> None:
    config = {"acme": {"apiBaseUrl": "http://127.0.0.1:9", "apiKeyEnv": "K"}}
    monkeypatch.setenv("CLIENTS_CONFIG", json.dumps(config))
    environ = {"HOME": str(tmp_path), "CLIENTS_CONFIG": json.dumps(config)}
    journal = Journal(parse("serve", ["--data-dir", str(tmp_path), *options], environ))
    assert journal.tenancy is not None
    if not refused:
        journal.tenancy.check_start(loopback=loopback)
        return
    with pytest.raises(ConfigError, match=r"Tenancy over HTTP needs access rules \(or --no-auth on a loopback"):
        journal.tenancy.check_start(loopback=loopback)


async def test_over_stdio_a_variable_plays_the_part_of_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.tenants.wall.stage import stage

    async with stage(monkeypatch, tmp_path, IDS, environ={"ZORIVEST_CLIENT_ID": "Acme"}) as place:
        client = await place.client()
        result = await client.call("list_trades")
        assert mark("acme") in json.dumps(result)
        assert "com.zorivest/notice" not in result["_meta"], "no header was sent"
        refused = await client.call("list_trades", clientId="sechpos")
        assert refused["_meta"]["com.zorivest/error"]["code"] == "client_conflict"
        tools = (await client.request("tools/list", {}))["result"]["tools"]
        assert "clientId" not in tools[0]["inputSchema"].get("required", [])


async def test_who_is_not_granted_every_client_learns_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that is disabled is none to a key that does not name it."""
    rules = [
        access_rule("key-of-the-enabled", ["acme"], "a"),
        access_rule("key-of-each", ["acme", "off"], "b"),
        access_rule("key-of-all", "*", "c"),
    ]
    async with served(monkeypatch, tmp_path, ["acme", "off"], access=rules, off={"enabled": False}) as made:
        for key, shown in (("key-of-the-enabled", None), ("key-of-each", "disabled"), ("key-of-all", "disabled")):
            told = (await made.desk(key).call("zorivest_diagnose", {"clientId": "acme"}))["structuredContent"]
            states = {each["id"]: each["state"] for each in told.get("tenants", ())}
            assert states.get("off") == shown
            assert ("tenants" in told) is (shown is not None)
