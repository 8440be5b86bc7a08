"""A call names its tenant or is told how to: never a protocol error, and nothing is reached before."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.tenants.wall.stage import LEGACY, MODERN, Client, Stage, mark, stage

IDS = ["acme", "sechpos", "off"]


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    limits: dict[str, dict[str, Any]] = {"off": {"enabled": False}}
    async with stage(monkeypatch, tmp_path, IDS, **limits) as made:
        yield made


@pytest.fixture(params=[LEGACY, MODERN])
async def client(place: Stage, request: pytest.FixtureRequest) -> Client:
    return await place.client(request.param)


def error(result: dict[str, Any]) -> tuple[str, str, str]:
    assert result["isError"] is True
    (block,) = result["content"]
    told = result["_meta"]["com.zorivest/error"]
    assert told["next"]
    return block["text"], told["class"], told["code"]


@pytest.mark.parametrize("given", ["acme", " ACME ", "Acme", "\tacme\n"])
async def test_a_name_is_normalised(client: Client, given: str) -> None:
    result = await client.call("list_trades", clientId=given)
    assert result["structuredContent"]["owner"] == mark("acme") + "owner"
    assert result["_meta"]["com.zorivest/client"] == {"id": "acme", "name": "Desk of acme"}


MISSING = "clientId is required. Available clients: acme, sechpos. Use list_clients for details."
INVALID = 'Invalid client ID: "{}". Use only a-z, 0-9, "-" and "_". Available clients: acme, sechpos.'
UNKNOWN = 'Unknown client ID: "{}". Available clients: acme, sechpos.'


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        ({}, MISSING, "client_missing"),
        ({"clientId": None}, MISSING, "client_missing"),
        ({"clientId": ""}, MISSING, "client_missing"),
        ({"clientId": "  "}, MISSING, "client_missing"),
        ({"clientId": 5}, INVALID.format("5"), "client_invalid"),
        ({"clientId": False}, INVALID.format("false"), "client_invalid"),
        ({"clientId": ["acme"]}, INVALID.format('["acme"]'), "client_invalid"),
        ({"clientId": "acme;drop"}, INVALID.format("acme;drop"), "client_invalid"),
        ({"clientId": "a/b"}, INVALID.format("a/b"), "client_invalid"),
        ({"clientId": "a" * 65}, INVALID.format("a" * 64), "client_invalid"),
        ({"clientId": "a\nb"}, INVALID.format("a\\nb"), "client_invalid"),
        ({"clientId": "__proto__"}, INVALID.format("__proto__"), "client_invalid"),
        ({"clientId": "constructor"}, UNKNOWN.format("constructor"), "client_unknown"),
        ({"clientId": "\u212aeep"}, INVALID.format("\u212aeep"), "client_invalid"),
        ({"clientId": "nope"}, UNKNOWN.format("nope"), "client_unknown"),
        ({"clientId": "off"}, UNKNOWN.format("off"), "client_unknown"),
        ({"clientId": "*"}, INVALID.format("*"), "client_invalid"),
    ],
)
async def test_what_names_no_client_is_told_and_reaches_nothing(
    place: Stage, client: Client, arguments: dict[str, Any], text: str, code: str
) -> None:
    before = {id: len(seen) for id, seen in place.backends.seen.items()}
    assert error(await client.call("list_trades", **arguments)) == (text, "INPUT", code)
    assert {id: len(seen) for id, seen in place.backends.seen.items()} == before


async def test_the_arguments_are_judged_without_it(client: Client) -> None:
    wrong = await client.call("list_trades", clientId="acme", limit="many")
    assert wrong["_meta"]["com.zorivest/error"]["code"] == "invalid_arguments"
    told, _, shown = wrong["content"][0]["text"].partition(" A call of the right form, with your own values: ")
    assert "clientId" not in told
    again = json.loads(shown)
    assert next(iter(again)) == "clientId", "as it stands first in the schema"
    assert not (await client.call("list_trades", **again)).get("isError"), "the example works as it is shown"
    assert wrong["_meta"]["com.zorivest/client"]["id"] == "acme"


async def test_list_clients_needs_none_and_says_only_what_may_be_said(client: Client) -> None:
    for arguments in ({}, {"clientId": "whatever"}, {"clientId": 5}, {"search": "acme"}):
        result = await client.call("list_clients", **arguments)
        assert result["structuredContent"] == {
            "clients": [
                {"id": "acme", "name": "Desk of acme", "description": None, "readOnly": False},
                {"id": "sechpos", "name": "Desk of sechpos", "description": None, "readOnly": False},
            ],
            "usage": "Pass one of these client IDs as the clientId parameter to other tools",
        }
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        assert "http" not in json.dumps(result)
        assert "com.zorivest/client" not in (result.get("_meta") or {})


async def test_every_listed_tool_asks_for_the_client_first(client: Client, place: Stage) -> None:
    tools = (await client.request("tools/list", {}))["result"]["tools"]
    everything = place.journal.audience.specs
    assert len(tools) > 30
    for tool in tools:
        schema = tool["inputSchema"]
        if tool["name"] == "list_clients":
            assert schema == {"type": "object", "properties": {}}
            continue
        first, *_ = schema["properties"]
        assert first == "clientId"
        assert schema["required"][0] == "clientId"
        own = everything[tool["name"]].input_schema
        assert [*schema["properties"]][1:] == [*own.get("properties", {})]
        assert schema["required"][1:] == own.get("required", [])
        shown = {"type": "string", "description": "Client to act for. Call list_clients for valid values."}
        ids = ["acme", "sechpos", *(["*"] if tool["name"] == "zorivest_emergency_stop" else [])]
        assert schema["properties"]["clientId"] == {**shown, "enum": ids}


async def test_a_found_tool_shows_it_too(client: Client) -> None:
    found = await client.call("tool_search", clientId="acme", query="wash sales")
    assert all(match["inputSchema"]["required"][0] == "clientId" for match in found["structuredContent"]["matches"])


async def test_an_inner_id_may_be_repeated_and_no_other_named(client: Client) -> None:
    inner = {"name": "list_trades", "arguments": {"clientId": "Acme"}}
    result = await client.call("call_tool", clientId="acme", **inner)
    assert result["structuredContent"]["owner"] == mark("acme") + "owner"
    inner = {"name": "list_trades", "arguments": {"clientId": "sechpos"}}
    told = error(await client.call("call_tool", clientId="acme", **inner))
    words = 'clientId "acme" and inner clientId "sechpos" differ. Send only clientId.'
    assert told == (words, "INPUT", "client_conflict")


async def test_prompts_resources_and_completions_name_it_in_their_way(client: Client) -> None:
    async def problem(method: str, **params: Any) -> tuple[int, str]:
        told = (await client.request(method, params))["error"]
        return told["code"], told["data"]["code"]

    for id in ("acme", "sechpos"):
        failed = (await client.request("resources/read", {"uri": f"pipeline://step-types?clientId={id}"}))["error"]
        assert failed["code"] == -32603
        assert failed["message"].startswith(f'Client "{id}": The backend answered /scheduling/step-types without a')
        listed = (await client.request("resources/list", {}))["result"]["resources"]
        assert f"zorivest://guard?clientId={id}" in [entry["uri"] for entry in listed]
        policy = (await client.request("resources/read", {"uri": f"pipeline://policies/schema?clientId={id}"}))[
            "result"
        ]
        assert mark(id) in policy["contents"][0]["text"]
        prompt = (await client.request("prompts/get", {"name": "weekly_review", "arguments": {"clientId": id}}))[
            "result"
        ]
        assert f'"{id}"' in prompt["messages"][0]["content"]["text"]
        ref = {"type": "ref/prompt", "name": "trade_post_mortem"}
        asked = {"ref": ref, "argument": {"name": "exec_id", "value": ""}}
        named = {**asked, "context": {"arguments": {"clientId": id}}}
        assert (await client.request("completion/complete", named))["result"]["completion"]["values"] == [
            mark(id) + "exec_id"
        ]
        assert (await client.request("completion/complete", asked))["result"]["completion"]["values"] == []
    assert await problem("resources/read", uri="zorivest://guard") == (-32602, "client_missing")
    assert await problem("resources/read", uri="zorivest://guard?clientId=off") == (-32602, "client_unknown")
    assert await problem("prompts/get", name="weekly_review", arguments={}) == (-32602, "client_missing")
    assert await problem("prompts/get", name="weekly_review", arguments={"clientId": "a b"}) == (
        -32602,
        "client_invalid",
    )
    ids = {"ref": {"type": "ref/prompt", "name": "weekly_review"}, "argument": {"name": "clientId", "value": "s"}}
    assert (await client.request("completion/complete", ids))["result"]["completion"]["values"] == ["sechpos"]


async def test_twenty_are_enumerated_and_more_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for count, shown in ((20, True), (21, False)):
        ids = [f"c{number:02}" for number in range(count)]
        async with stage(monkeypatch, tmp_path, ids) as made:
            client = await made.client()
            tools = (await client.request("tools/list", {}))["result"]["tools"]
            first = tools[0]["inputSchema"]["properties"]["clientId"]
            assert first.get("enum") == (ids if shown else None)
            text = (await client.call("list_trades"))["content"][0]["text"]
            assert text.endswith("c19. Use list_clients for details.") is shown
            assert (" and 1 more (use list_clients). Use" in text) is not shown
            listed = (await client.request("resources/list", {}))["result"]["resources"]
            assert bool(listed) is shown
            templates = (await client.request("resources/templates/list", {}))["result"]["resourceTemplates"]
            assert ("zorivest://guard{?clientId}" in [each["uriTemplate"] for each in templates]) is not shown
            for template in templates:  # one that is listed completes the client, and a client alone shows the rest
                ref = {"type": "ref/resource", "uri": template["uriTemplate"]}
                asked = {"ref": ref, "argument": {"name": "clientId", "value": "c1"}}
                found = (await client.request("completion/complete", asked))["result"]["completion"]["values"]
                assert found == ids[10:20]
                asked = {
                    "ref": ref,
                    "argument": {"name": "else", "value": ""},
                    "context": {"arguments": {"clientId": "c01"}},
                }
                assert (await client.request("completion/complete", asked))["result"]["completion"]["values"] == []
