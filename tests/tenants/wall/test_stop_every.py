"""An emergency stop for every client: each lock is accounted for as if it had been called for alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.tenants.wall.stage import LEGACY, MODERN, Client, Stage, access_rule, mark, served, stage

IDS = ["acme", "sechpos", "third"]


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    telemetry = {"ZORIVEST_TELEMETRY": str(tmp_path / "telemetry.jsonl")}
    config = tmp_path / "config.toml"
    server = 'name = "w"\nendpoint = "http://127.0.0.1:9/mcp"\nauth_bearer_env = "W"\n'
    config.write_text(f"[[profiles.default.mcp_servers]]\n{server}")
    config.chmod(0o600)
    environ = {**telemetry, "ZORIVEST_CONFIG": str(config), "W": "token-of-w"}
    async with stage(monkeypatch, tmp_path, IDS, environ=environ, acme={"callsPerMinute": 1}) as made:
        yield made


async def a_client(place: Stage, revision: str = MODERN) -> Client:
    client = await place.client(revision, able={"elicitation": {"form": {}}})
    client.reply = lambda question: {"action": "accept", "content": {"confirm": True}}
    return client


async def stop(client: Client, **arguments: Any) -> dict[str, Any]:
    """With the answer to the form, which a modern client sends along when it calls again."""
    params: dict[str, Any] = {"name": "zorivest_emergency_stop", "arguments": {"clientId": "*", **arguments}}
    result: dict[str, Any] = (await client.request("tools/call", params))["result"]
    if result.get("resultType") == "input_required":
        ((key, question),) = result["inputRequests"].items()
        client.asked.append(question)
        more = {"inputResponses": {key: client.reply(question)}, "requestState": result["requestState"]}
        result = (await client.request("tools/call", {**params, **more}))["result"]
    return result


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_each_lock_has_its_own_receipt_echo_and_figures(place: Stage, revision: str, tmp_path: Path) -> None:
    client = await a_client(place, revision)
    result = await stop(client, reason="drill")
    assert not result.get("isError"), result
    assert place.backends.locked == set(IDS)
    assert client.asked[0]["params"]["message"].startswith("For every client: ")
    assert len(client.asked) == 1, "one question for all of them"
    shown = result["structuredContent"]["clients"]
    assert [(each["id"], each["locked"], each["reason"]) for each in shown] == [(id, True, "drill") for id in IDS]
    assert result["content"][-1]["text"].endswith("(client *)")
    meta = result["_meta"]
    assert meta["com.zorivest/client"] == {"id": "*", "name": None}
    receipt = meta["com.zorivest/receipt"]
    assert receipt["tenant"] == "*"
    assert [each["tenant"] for each in receipt["clients"]] == IDS
    for each in receipt["clients"]:
        assert each["changed"] == "POST /mcp-guard/lock"
        assert each["backend"].endswith(f"/{each['tenant']}/api/v1")
    assert len({each["idempotency_key"] for each in receipt["clients"]}) == 3
    told = await client.call("zorivest_diagnose", clientId="sechpos", verbose=True)
    figures = told["structuredContent"]["metrics"]["per_tool"]
    assert {name for name in figures if "stop" in name} == {f"zorivest_emergency_stop (client {id})" for id in IDS}
    lines = [json.loads(line) for line in (tmp_path / "telemetry.jsonl").read_text().splitlines()]
    ends = [line["tenant"] for line in lines if line["event"] == "tool.succeeded" and "stop" in line["tool"]]
    assert sorted(ends) == ["*", *IDS]


async def test_what_could_not_be_locked_is_told_and_the_rest_is_locked(place: Stage, tmp_path: Path) -> None:
    place.backends.down.add("sechpos")
    client = await a_client(place)
    result = await stop(client)
    assert place.backends.locked == {"acme", "third"}
    assert result["isError"] is True
    assert result["_meta"]["com.zorivest/error"]["code"] == "partly_locked"
    shown = json.loads(result["content"][0]["text"])
    assert shown["locked"] is False
    assert "Locked: acme, third. Not locked: sechpos." in shown["message"]
    failed = shown["clients"][1]
    assert failed["error"].startswith('Client "sechpos": ')
    assert [each["tenant"] for each in result["_meta"]["com.zorivest/receipt"]["clients"]] == ["acme", "third"]
    for other in ("acme", "third"):
        assert mark(other) not in failed["error"]
    lines = [json.loads(line) for line in (tmp_path / "telemetry.jsonl").read_text().splitlines()]
    assert [line["tenant"] for line in lines if line["event"] == "tool.failed"] == ["sechpos"]
    figures = place.journal.prometheus("")
    assert 'zorivest_tool_errors_total{tool="zorivest_emergency_stop",tenant="sechpos"} 1' in figures
    assert 'zorivest_tool_errors_total{tool="zorivest_emergency_stop",tenant="acme"} 0' in figures
    assert 'tenant="*"' not in figures


async def test_a_defect_at_one_client_leaves_no_other_open(place: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.journal.tenancy is not None
    broken = place.journal.tenancy.contexts.of("acme")
    monkeypatch.setattr(broken, "backend", lambda: 1 / 0)
    result = await stop(await a_client(place))
    assert place.backends.locked == {"sechpos", "third"}
    assert "Not locked: acme." in json.loads(result["content"][0]["text"])["message"]


async def test_a_client_without_its_credential_is_named(place: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEY_THIRD")
    result = await stop(await a_client(place))
    failed = json.loads(result["content"][0]["text"])["clients"][2]
    assert failed["error"] == (
        'Client "third" is not usable: its credential is not configured on the server. Other clients: acme, sechpos.'
    )
    assert place.backends.locked == {"acme", "sechpos"}


async def test_no_limit_of_calls_keeps_the_brake_waiting(place: Stage) -> None:
    client = await a_client(place)
    assert not (await client.call("list_trades", clientId="acme")).get("isError")
    assert (await client.call("list_trades", clientId="acme"))["isError"] is True
    assert not (await stop(client)).get("isError")
    place.backends.locked.clear()
    assert not (await stop(client, clientId="acme")).get("isError")
    assert place.backends.locked == {"acme"}


async def test_a_token_for_one_client_stops_all_of_them(place: Stage) -> None:
    client = await place.client(MODERN)
    refused = await stop(client)
    assert refused["_meta"]["com.zorivest/error"]["code"] == "confirmation_missing"
    assert refused["content"][0]["text"].startswith("For every client: ")
    assert "and any one clientId" in refused["content"][0]["text"]
    wanted = {"action": "zorivest_emergency_stop", "params_summary": "all of them"}
    issued = await client.call("get_confirmation_token", clientId="third", **wanted)
    assert not (await stop(client, confirmation_token=issued["structuredContent"]["token"])).get("isError")
    assert place.backends.locked == set(IDS)


async def test_all_means_those_that_the_key_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [access_rule("key-two", ["acme", "third"], "two"), access_rule("key-none", ["off"], "none")]
    off = {"enabled": False}
    async with served(monkeypatch, tmp_path, [*IDS, "off"], "--confirm", "never", access=rules, off=off) as made:
        result = await made.desk("key-two").call("zorivest_emergency_stop", {"clientId": " * "})
        assert made.backends.locked == {"acme", "third"}
        assert "sechpos" not in json.dumps(result)
        refused = await made.desk("key-none").call("zorivest_emergency_stop", {"clientId": "*"})
        assert refused["isError"] is True
        assert "Available clients: none." in refused["content"][0]["text"]
        for tool in ("zorivest_emergency_unlock", "list_trades", "call_tool"):
            other = await made.desk("key-two").call(tool, {"clientId": "*"})
            assert other["_meta"]["com.zorivest/error"]["code"] == "client_invalid"
