"""Other MCP servers behind a server with several clients: who reaches which of them, and what each of them sees."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Seen, serving
from tests.tenants.wall.stage import MODERN, Desk, Served, access_rule, served
from zorivest_rpc.app import Journal
from zorivest_rpc.cli.mcp import run as run_mcp
from zorivest_rpc.config import parse
from zorivest_rpc.errors import ConfigError

IDS = ["acme", "beta", "gamma"]
KEYS = {id: f"zrv_ak_of_{id}" for id in IDS} | {"two": "zrv_ak_of_two", "all": "zrv_ak_of_all"}
ACCESS = [
    *(access_rule(KEYS[id], [id], f"desk-{id}") for id in IDS),
    access_rule(KEYS["two"], ["beta", "gamma"], "desk-two"),
    access_rule(KEYS["all"], "*", "desk-all"),
]
TOKENS = {"COMMON_TOKEN": "tok-common", "SOME_TOKEN": "tok-some", "ACME_MCP": "tok-acme", "BETA_MCP": "tok-beta"}
SERVERS = ("common", "some", "own", "lone")  # shared, assigned, a token for each, and said to be for none
FOR: dict[str, set[str]] = {"common": set(IDS), "some": {"acme", "beta"}, "own": {"acme", "beta"}, "lone": set()}
PROFILE = """
[profiles.default]
tool_confirmation_mode = "{mode}"
confirm_destructive = {gated}
{more}
[[profiles.default.mcp_servers]]
name = "common"
endpoint = "{common}"
auth_bearer_env = "COMMON_TOKEN"
shared = true
[[profiles.default.mcp_servers]]
name = "some"
endpoint = "{some}"
auth_bearer_env = "SOME_TOKEN"
tenants = ["acme", "beta"]
[[profiles.default.mcp_servers]]
name = "own"
endpoint = "{own}"
tenants = ["acme", "Beta"]
auth_bearer_env_by_tenant = {{ acme = "ACME_MCP", beta = "BETA_MCP" }}
[[profiles.default.mcp_servers]]
name = "lone"
endpoint = "{lone}"
auth_bearer_env = "SOME_TOKEN"
"""


class House(NamedTuple):
    served: Served
    fakes: dict[str, Fake]
    config: Path
    telemetry: Path

    def desk(self, key: str) -> Desk:
        return self.served.desk(KEYS[key])

    async def names(self, key: str, **headers: Any) -> set[str]:
        _, answer = await self.desk(key).modern("tools/list", {}, **headers)
        return {tool["name"] for tool in answer["result"]["tools"] if "__" in tool["name"]}

    async def toolsets(self, key: str, client: str) -> dict[str, Any]:
        found = await self.desk(key).call("list_available_toolsets", {"clientId": client})
        return {each["name"]: each for each in found["structuredContent"]["toolsets"] if "source" in each}

    def calls(self, server: str) -> list[Seen]:
        return self.fakes[server].of("tools/call")


@asynccontextmanager
async def house(
    patch: pytest.MonkeyPatch, path: Path, fakes: dict[str, Fake] | None = None, mode: str = "never", more: str = ""
) -> AsyncIterator[House]:
    made = {name: Fake() for name in SERVERS} | (fakes or {})
    for name, value in TOKENS.items():
        patch.setenv(name, value)
    async with AsyncExitStack() as stack:
        urls = {name: await stack.enter_async_context(serving(fake.handle)) for name, fake in made.items()}
        config, telemetry = path / "config.toml", path / "telemetry.jsonl"
        config.write_text(PROFILE.format(mode=mode, gated="true" if mode != "never" else "false", more=more, **urls))
        environ = {"ZORIVEST_TELEMETRY": str(telemetry)}
        found = await stack.enter_async_context(
            served(patch, path, IDS, "--config", str(config), access=ACCESS, environ=environ)
        )
        found.journal.start_upstreams()
        gateway = found.journal.gateway()
        assert gateway is not None
        await gateway.settle(20)
        yield House(found, made, config, telemetry)


async def test_each_client_reaches_what_it_is_assigned_to_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every cell of (shared, assigned, a token for each, none) by (client), granted and not."""
    with caplog.at_level(logging.WARNING):
        async with house(monkeypatch, tmp_path) as home:
            for server in SERVERS:
                for id in IDS:
                    for key in (id, "all"):
                        before = len(home.calls(server))
                        params = {"name": f"{server}__echo", "arguments": {"clientId": id, "text": "x"}}
                        _, answer = await home.desk(key).modern("tools/call", params)
                        reached = len(home.calls(server)) - before
                        if id in FOR[server]:
                            result = answer["result"]
                            assert reached == 1, (server, id, key, answer)
                            assert result["content"][0]["text"] == f"x (client {id})"
                            assert result["_meta"]["com.zorivest/client"]["id"] == id
                            continue
                        assert reached == 0, (server, id, key)
                        if not FOR[server]:
                            assert answer["error"]["code"] == -32602
                            continue
                        result = answer["result"]
                        assert result["isError"]
                        words = f'"{server}__echo" is not enabled for client "{id}".'
                        assert result["content"][0]["text"].startswith(words)
                        assert result["_meta"]["com.zorivest/error"]["code"] == "client_toolset"
            # not granted: as unknown as one that does not exist, whatever the server
            for server in ("common", "some", "own"):
                before = len(home.calls(server))
                refused = await home.desk("acme").call(f"{server}__echo", {"clientId": "beta"})
                assert refused["_meta"]["com.zorivest/error"]["code"] == "client_unknown"
                inner = {"clientId": "gamma", "name": "own__echo", "arguments": {"text": "x"}}
                assert (await home.desk("gamma").call("call_tool", inner))["isError"]
                assert len(home.calls(server)) == before
            assert not home.fakes["lone"].seen, "nobody said for whom it is"
    assert "lone is disabled: not assigned to any client" in caplog.text


async def test_a_server_sees_its_own_credential_and_nothing_of_our_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(monkeypatch, tmp_path) as home:
        for id in ("acme", "beta", "acme"):
            for server in ("common", "some", "own"):
                await home.desk("all").call(f"{server}__echo", {"clientId": id, "text": "x"}, X_Client_ID=id)
        fixed = {"common": "Bearer tok-common", "some": "Bearer tok-some"}
        for server, bearer in fixed.items():
            assert {seen.headers["Authorization"] for seen in home.fakes[server].seen} == {bearer}
            assert len(home.fakes[server].of("server/discover")) == 1, "one connection for all"
        own = [seen.headers["Authorization"] for seen in home.calls("own")]
        assert own == ["Bearer tok-acme", "Bearer tok-beta", "Bearer tok-acme"]
        found = sorted(seen.headers["Authorization"] for seen in home.fakes["own"].of("server/discover"))
        assert found == ["Bearer tok-acme", "Bearer tok-beta"], "a connection for each"
        for fake in home.fakes.values():
            for seen in fake.seen:
                other = {name: value for name, value in seen.headers.items() if name != "Authorization"}
                told = json.dumps(other).lower() + seen.body.decode().lower()
                for word in ("clientid", "client-id", "desk", "zrv_", *IDS):
                    assert word not in told, (word, told)


async def test_a_list_is_the_union_over_the_granted_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(monkeypatch, tmp_path) as home:
        everything = {"common__echo", "some__echo", "own__echo"}
        assert await home.names("acme") == everything
        assert await home.names("gamma") == {"common__echo"}
        assert await home.names("two") == everything
        assert await home.names("two", X_Client_ID="gamma") == {"common__echo"}
        assert set(await home.toolsets("two", "gamma")) == {"mcp-common", "mcp-lone"}
        shown = await home.toolsets("two", "beta")
        assert shown["mcp-own"]["status"] == "ready"
        assert shown["mcp-own"]["description"] == "1 tool from MCP server own"
        assert (shown["mcp-lone"]["status"], shown["mcp-lone"]["tool_count"]) == (
            "disabled: not assigned to any client",
            0,
        )
        told = await home.desk("gamma").call("zorivest_diagnose", {"clientId": "gamma"})
        states = {each["name"]: each["state"] for each in told["structuredContent"]["upstreams"]}
        assert states == {"common": "ready", "lone": "disabled: not assigned to any client"}
        refused = await home.desk("all").call("enable_toolset", {"clientId": "gamma", "toolset_name": "mcp-own"})
        assert 'Unknown toolset "mcp-own"' in refused["content"][0]["text"]


async def test_a_refused_token_of_one_client_stops_that_client_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = Fake()

    async def judge(seen: Seen) -> web.StreamResponse:
        if seen.headers["Authorization"] == "Bearer tok-acme":
            return web.Response(status=401)
        return own.answer(seen)

    own.handlers["any"] = judge
    async with house(monkeypatch, tmp_path, {"own": own}) as home:
        assert "own__echo" not in await home.names("acme")
        assert "own__echo" in await home.names("beta")
        assert (await home.toolsets("all", "acme"))["mcp-own"]["status"] == "auth_failed"
        assert (await home.toolsets("all", "beta"))["mcp-own"]["status"] == "ready"
        assert (await home.desk("all").call("own__echo", {"clientId": "acme"}))["isError"]
        result = await home.desk("all").call("own__echo", {"clientId": "beta", "text": "x"})
        assert result["content"][0]["text"] == "x (client beta)"
    failures = [line for line in caplog.messages if '"own"' in line and "event" not in line]
    assert failures
    assert all(line.startswith("tenant=acme ") for line in failures)


async def test_a_denied_call_is_told_with_its_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(monkeypatch, tmp_path, more='deny_tool = ["common__echo", "list_trades"]') as home:
        for name in ("common__echo", "list_trades"):
            await home.desk("all").modern("tools/call", {"name": name, "arguments": {"clientId": "beta"}})
            inner: dict[str, Any] = {"clientId": "acme", "name": name, "arguments": {}}
            await home.desk("all").call("call_tool", inner)
        lines = [json.loads(line) for line in home.telemetry.read_text().splitlines()]
    denied = [(each["tool"], each.get("tenant")) for each in lines if each["event"] == "tool.denied"]
    assert sorted(denied) == [(name, id) for name in ("common__echo", "list_trades") for id in ("acme", "beta")]


async def test_a_definition_of_one_clients_server_is_never_shown_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = Fake()

    async def differ(seen: Seen) -> web.StreamResponse:
        whose = "amber" if seen.headers["Authorization"] == "Bearer tok-acme" else "cobalt"
        extra = {**TOOL, "name": f"of_{whose}"}
        return seen.result(tools=[{**TOOL, "description": f"Echo of the {whose} book"}, extra])

    own.handlers["tools/list"] = differ
    with caplog.at_level(logging.WARNING):
        async with house(monkeypatch, tmp_path, {"own": own}) as home:
            _, answer = await home.desk("beta").modern("tools/list", {})
            assert "amber" not in json.dumps(answer)
            assert await home.names("beta") == {"common__echo", "some__echo", "own__of_cobalt"}
            assert await home.names("acme") == {"common__echo", "some__echo", "own__echo", "own__of_amber"}
            refused = await home.desk("all").call("own__of_amber", {"clientId": "beta"})
            assert refused["_meta"]["com.zorivest/error"]["code"] == "client_toolset"
            found = await home.desk("beta").call("describe_toolset", {"clientId": "beta", "toolset_name": "mcp-own"})
            assert "amber" not in json.dumps(found)
            searched = await home.desk("beta").call("tool_search", {"clientId": "beta", "query": "echo book amber"})
            assert "of_amber" not in json.dumps(searched["structuredContent"]["matches"])
    assert "own__echo is not offered to beta: acme has another definition of that name" in caplog.text


async def test_each_client_has_its_own_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Fake()
    described = {"Bearer tok-acme": "Echo", "Bearer tok-beta": "Echo"}

    async def describe(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=[{**TOOL, "description": described[seen.headers["Authorization"]]}])

    own.handlers["tools/list"] = describe
    async with house(monkeypatch, tmp_path, {"own": own}) as home:
        pinned = json.loads((tmp_path / "mcp-pins.json").read_text())["servers"].values()
        assert sorted(each["server"] for each in pinned) == ["common", "own", "own", "some"]
        described["Bearer tok-acme"] = "Something else"
        gateway = home.served.journal.gateway()
        assert gateway is not None
        for member in gateway.members.values():
            await member.discover()
        assert "own__echo" not in await home.names("acme")
        assert "own__echo" in await home.names("beta")
        held = await home.desk("all").call("own__echo", {"clientId": "acme"})
        assert held["_meta"]["com.zorivest/error"]["code"] == "quarantined"
        good = await home.desk("all").call("own__echo", {"clientId": "beta", "text": "x"})
        assert good["content"][0]["text"] == "x (client beta)"


async def test_a_token_of_one_client_confirms_nothing_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(monkeypatch, tmp_path, mode="mcp-only") as home:
        desk = home.desk("all")
        arguments = {"clientId": "acme", "action": "own__echo", "params_summary": "as the test says"}
        token = (await desk.call("get_confirmation_token", arguments))["structuredContent"]["token"]
        stolen = {"clientId": "beta", "text": "x", "confirmation_token": token}
        assert (await desk.call("own__echo", stolen))["isError"]
        assert not home.calls("own")
        asked = await desk.call("own__echo", {"clientId": "beta", "text": "x"})
        assert asked["isError"]
        token = (await desk.call("get_confirmation_token", arguments))["structuredContent"]["token"]
        good = await desk.call("own__echo", {"clientId": "acme", "text": "x", "confirmation_token": token})
        assert good["content"][0]["text"] == "x (client acme)"
        assert "confirmation_token" not in home.calls("own")[0].body.decode()


async def test_every_line_of_a_call_and_of_an_own_connection_names_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(monkeypatch, tmp_path) as home:
        await home.desk("all").call("own__echo", {"clientId": "beta", "text": "x"})
        await home.desk("all").call("common__echo", {"clientId": "acme", "text": "x"})
        metrics = home.served.journal.prometheus()
        assert metrics is not None
        lines = [json.loads(line) for line in home.telemetry.read_text().splitlines()]
    calls = [(each["tool"], each["event"], each["tenant"]) for each in lines if each["event"].startswith("tool.")]
    assert calls == [
        ("own__echo", "tool.requested", "beta"),
        ("own__echo", "tool.succeeded", "beta"),
        ("common__echo", "tool.requested", "acme"),
        ("common__echo", "tool.succeeded", "acme"),
    ]
    found = [each for each in lines if each["event"] == "mcp.discovery.succeeded"]
    assert sorted((each["server"], each.get("tenant")) for each in found if each["server"] == "own") == [
        ("own", "acme"),
        ("own", "beta"),
    ]
    assert all("tenant" not in each for each in found if each["server"] != "own")
    assert not any(token in json.dumps(lines) for token in TOKENS.values())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('tenants = ["nobody"]', 'mine: unknown client "nobody"'),
        ('shared = true\nauth_bearer_env_by_tenant = { acme = "A" }', "mine: shared is one credential for all"),
        (
            'tenants = ["acme", "beta"]\nauth_bearer_env_by_tenant = { acme = "A" }',
            'mine: auth_bearer_env_by_tenant names no variable for client "beta"',
        ),
        ('auth_bearer_env_by_tenant = { acme = "A" }', 'mine: client "acme" has a token and is not in tenants'),
    ],
)
def test_an_assignment_that_cannot_be_meant_refuses_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, words: str
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[[profiles.default.mcp_servers]]\nname = "mine"\nendpoint = "https://x.example"\n{more}\n')
    clients = {id: {"embedded": True} for id in ("acme", "beta")}
    monkeypatch.setenv("CLIENTS_CONFIG", json.dumps(clients))
    environ = {"HOME": str(tmp_path), "CLIENTS_CONFIG": json.dumps(clients)}
    settings = parse("stdio", ["--data-dir", str(tmp_path), "--config", str(config)], environ)
    with pytest.raises(ConfigError) as refused:
        Journal(settings)
    assert words in str(refused.value)


def test_mcp_list_shows_a_server_that_is_for_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[[profiles.default.mcp_servers]]\nname = "mine"\nendpoint = "https://x.example"\n')
    monkeypatch.setenv("CLIENTS_CONFIG", json.dumps({"acme": {"embedded": True}}))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run_mcp(["list", "--config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("tools all  disabled: not assigned to any client")
    assert run_mcp(["list", "--config", str(config), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["servers"][0]["state"] == "disabled: not assigned to any client"


async def test_what_is_held_for_one_client_is_pinned_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the token of that client, and for no other one."""
    async with house(monkeypatch, tmp_path, more='pin = "strict"') as home:
        assert "own__echo" not in await home.names("all")
        monkeypatch.setenv("HOME", str(tmp_path))
        words = ["pin", "--server", "own", "--tenant", "beta", "--yes", "--config", str(home.config)]
        before = len(home.fakes["own"].seen)
        code = await asyncio.to_thread(run_mcp, [*words, "--data-dir", str(tmp_path)])
        assert code == 0, capsys.readouterr()
        asked = {seen.headers["Authorization"] for seen in home.fakes["own"].seen[before:]}
        assert asked == {"Bearer tok-beta"}
        gateway = home.served.journal.gateway()
        assert gateway is not None
        for member in gateway.members.values():
            await member.discover()
        assert await home.names("acme") == set()
        assert await home.names("beta") == {"own__echo"}


async def test_a_file_that_is_read_again_assigns_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(monkeypatch, tmp_path) as home:
        text = home.config.read_text()
        home.config.write_text(text.replace('tenants = ["acme", "beta"]', 'tenants = ["gamma"]'))
        await home.served.journal.reload()
        gateway = home.served.journal.gateway()
        assert gateway is not None
        await gateway.settle(20)
        assert await home.names("gamma") == {"common__echo", "some__echo"}
        assert await home.names("acme") == {"common__echo", "own__echo"}
        home.config.write_text(text.replace("shared = true", ""))
        await home.served.journal.reload()
        assert await home.names("gamma") == set()
        params = {"name": "common__echo", "arguments": {"clientId": "acme"}}
        _, answer = await home.desk("all").modern("tools/call", params)
        assert answer["error"]["code"] == -32602
        assert not home.calls("common")


async def test_an_answer_to_a_question_asked_for_one_client_is_refused_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Fake()

    async def ask(seen: Seen) -> web.StreamResponse:
        if "inputResponses" in seen.params:
            return seen.result(content=[{"type": "text", "text": "done"}], resultType="complete")
        form = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
        question = {"mode": "form", "message": "Sure?", "requestedSchema": form}
        asked = {"q": {"method": "elicitation/create", "params": question}}
        return seen.result(resultType="input_required", requestState="s", inputRequests=asked)

    own.handlers["tools/call"] = ask
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
    }
    async with house(monkeypatch, tmp_path, {"own": own}) as home:

        async def call(client: str, **more: Any) -> Any:
            params = {"name": "own__echo", "arguments": {"clientId": client, "text": "x"}, "_meta": meta, **more}
            headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": "own__echo"}
            return (await home.desk("all").post("tools/call", params, **headers))[1]

        first = (await call("acme"))["result"]
        ((name, question),) = first["inputRequests"].items()
        assert question["params"]["message"] == "For client Desk of acme: [own] Sure?"
        given = {name: {"action": "accept", "content": {"yes": True}}}
        stolen = await call("beta", inputResponses=given, requestState=first["requestState"])
        assert stolen["error"]["code"] == -32602
        assert [seen.headers["Authorization"] for seen in home.calls("own")] == ["Bearer tok-acme"]
        good = await call("acme", inputResponses=given, requestState=first["requestState"])
        assert good["result"]["content"][0]["text"] == "done (client acme)"
        assert [seen.headers["Authorization"] for seen in home.calls("own")] == ["Bearer tok-acme"] * 2
