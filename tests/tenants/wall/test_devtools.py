"""Two tenants and a page of each on one server: what one page sends, and its key, reach no other tenant."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.devtools.test_served import command, environment
from tests.tenants.wall.pages import CALLS, SILENT, keys_of, mark, page_id, page_of, place_of
from tests.tenants.wall.stage import LEGACY, Desk, Served, access_rule, config_of, environ_of, served
from tests.tenants.wall.stage import stage as over_memory
from zorivest_rpc.app import Journal
from zorivest_rpc.cli.devtools import run
from zorivest_rpc.config import parse

TENANTS = ["anna", "ben"]
RULES = [access_rule("key-anna", ["anna"], "a"), access_rule("key-ben", ["ben"], "b"), access_rule("key-all", "*", "c")]
OPTIONS = ("--toolsets", "devtools", "--exposure", "filter")


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    export = ("--devtools-export-dir", str(tmp_path / "out"))
    async with served(monkeypatch, str(tmp_path), TENANTS, *OPTIONS, *export, access=RULES) as found:
        yield found


def judge(answer: Any, tenant: str, keys: dict[str, str]) -> None:
    (other,) = set(TENANTS) - {tenant}
    text = json.dumps(answer)
    for secret in (mark(other), page_id(other), *keys.values()):
        assert secret not in text, text[:600]


async def legacy(desk: Desk, method: str, **params: Any) -> Any:
    session = await desk.open()
    headers = {"Mcp_Session_Id": session, "MCP_Protocol_Version": LEGACY}
    status, answer, _ = await desk.post(method, params, **headers)
    assert status == 200
    return answer["result"]


async def test_every_tool_tells_of_the_tenant_s_own_page_alone_in_both_eras(place: Served, tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    assert set(keys) == set(TENANTS)
    async with (
        page_of(place.url, keys["anna"], "anna") as anna,
        page_of(place.url, keys["ben"], "ben") as ben,
    ):
        for desk in (place.desk("key-all"), place.desk("key-anna"), place.desk("key-ben")):
            granted = TENANTS if desk.key == "key-all" else [str(desk.key)[4:]]
            for tenant in granted:
                for name, arguments in CALLS:
                    given = {"clientId": tenant, **arguments}
                    for answer in (
                        await desk.call(name, given),
                        await legacy(desk, "tools/call", name=name, arguments=given),
                    ):
                        judge(answer, tenant, keys)
                        assert "isError" not in answer, answer
                        assert answer["_meta"]["com.zorivest/client"]["id"] == tenant
                        if SILENT.isdisjoint(arguments.values()):
                            assert mark(tenant) in json.dumps(answer), (name, arguments)
        assert "dom" in anna.asked
        assert anna.asked == ben.asked  # each was asked what its own tenant wanted to know


async def test_a_caller_who_is_not_granted_a_tenant_cannot_name_it_or_its_page(place: Served, tmp_path: Path) -> None:
    keys = keys_of(tmp_path)
    async with page_of(place.url, keys["anna"], "anna") as anna:
        desk = place.desk("key-ben")
        for name, arguments in CALLS:
            refused = await desk.call(name, {"clientId": "anna", **arguments})
            assert refused["_meta"]["com.zorivest/error"]["code"] == "client_unknown"
            judge(refused, "ben", keys)
        named = await desk.call("query_dom", {"clientId": "ben", "selector": "p", "page": page_id("anna")})
        assert named["isError"] is True
        assert mark("anna") not in json.dumps(named)
        empty = await desk.call("observe", {"clientId": "ben", "what": "logs", "page": page_id("anna")})
        assert empty["structuredContent"]["entries"] == []
        assert anna.asked == []


async def test_a_list_counts_what_the_caller_s_own_tenants_have(place: Served, tmp_path: Path) -> None:
    async def observe(desk: Desk) -> tuple[list[str], dict[str, int]]:
        for tools in ((await desk.modern("tools/list", {}))[1]["result"], await legacy(desk, "tools/list")):
            (tool,) = (each for each in tools["tools"] if each["name"] == "observe")
        meta = tool["_meta"]
        assert tool["inputSchema"]["properties"]["what"]["enum"] == meta["available_modes"]
        return meta["available_modes"], meta["data_counts"]

    keys = keys_of(tmp_path)
    fresh = (["errors", "logs", "page"], {"errors": 0, "logs": 0})
    async with page_of(place.url, keys["anna"], "anna"):
        modes, counts = await observe(place.desk("key-anna"))
        assert set(counts.values()) == {1}
        assert await observe(place.desk("key-ben")) == fresh
        assert await observe(place.desk("key-all")) == (modes, counts)
        async with page_of(place.url, keys["ben"], "ben"):
            assert await observe(place.desk("key-all")) == (modes, dict.fromkeys(counts, 2))
            assert await observe(place.desk("key-ben")) == (modes, counts)
        await place.desk("key-anna").call("observe", {"clientId": "anna", "what": "logs"})
        names = {
            key: {tool["name"] for tool in (await legacy(place.desk(key), "tools/list"))["tools"]}
            for key in ("key-anna", "key-ben", "key-all")
        }
        assert ["analyze" in names[key] for key in names] == [True, False, True]


async def test_notes_and_files_of_a_tenant_are_its_own(place: Served, tmp_path: Path) -> None:
    desk = place.desk("key-all")
    for tenant in TENANTS:
        note = {"action": "store", "namespace": "n", "key": tenant, "data": {"of": mark(tenant)}}
        kept = await desk.call("configure", {"clientId": tenant, "store_action": "save", **note})
        assert "isError" not in kept, kept
        saved = await desk.call("generate", {"clientId": tenant, "format": "har", "save_to": "one.har"})
        assert saved["structuredContent"]["saved_to"] == str(tmp_path / "out" / tenant / "one.har")
    load = {"action": "store", "store_action": "load", "namespace": "n"}
    for tenant, other in (TENANTS, TENANTS[::-1]):
        assert mark(tenant) in json.dumps(await desk.call("configure", {"clientId": tenant, "key": tenant, **load}))
        assert (await desk.call("configure", {"clientId": tenant, "key": other, **load}))["isError"] is True
    up = await desk.call("generate", {"clientId": "anna", "format": "har", "save_to": "../ben/one.har"})
    assert up["isError"] is True


async def test_over_stdio_the_same_and_each_call_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with over_memory(monkeypatch, tmp_path, TENANTS, *OPTIONS, "--devtools-port", "0") as stage:
        clients = [await stage.client(), await stage.client("2026-07-28")]
        stage.journal.observing.start()
        origin, keys = await place_of(tmp_path)
        async with page_of(origin, keys["anna"], "anna"), page_of(origin, keys["ben"], "ben"):
            for client in clients:
                for tenant in TENANTS:
                    for name, arguments in CALLS:
                        answer = await client.call(name, clientId=tenant, **arguments)
                        judge(answer, tenant, keys)
                        assert "isError" not in answer, answer


async def test_a_tenant_without_the_toolset_has_no_key_and_no_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = {"ben": {"toolsets": ["tax"]}}
    async with served(monkeypatch, str(tmp_path), TENANTS, *OPTIONS, access=RULES, **each) as place:
        assert set(keys_of(tmp_path)) == {"anna"}
        refused = await place.desk("key-ben").call("observe", {"clientId": "ben", "what": "logs"})
        assert refused["_meta"]["com.zorivest/error"]["code"] == "client_toolset"


async def test_a_tenant_that_leaves_the_file_takes_its_pages_along(tmp_path: Path) -> None:
    both, file = config_of(9, TENANTS), tmp_path / "clients.json"

    def write(config: Any) -> None:
        file.write_text(json.dumps(config))
        file.chmod(0o600)

    write(both)
    words = [*OPTIONS, "--devtools-port", "0", "--data-dir", str(tmp_path), "--tenants-file", str(file)]
    journal = Journal(parse("stdio", words, {"HOME": str(tmp_path)}))
    journal.observing.start()
    try:
        origin, keys = await place_of(tmp_path)
        async with page_of(origin, keys["anna"], "anna") as anna, page_of(origin, keys["ben"], "ben") as ben:
            write({"ben": both["ben"], "carl": both["anna"]})
            journal.reload_tenants()
            async with asyncio.timeout(10):
                await anna.gone.wait()
            assert not ben.gone.is_set()
            now = keys_of(tmp_path)
            assert (set(now), now["ben"]) == ({"ben", "carl"}, keys["ben"])
            async with aiohttp.ClientSession() as http:
                for key, status in ((keys["anna"], 403), (keys["ben"], 200), (now["carl"], 200)):
                    async with http.get(f"{origin}/devtools/collector.js?k={key}") as answer:
                        assert answer.status == status
    finally:
        await journal.close()


async def test_the_commands_find_the_key_of_the_client_that_is_named(tmp_path: Path, capsys: Any) -> None:
    process = await asyncio.create_subprocess_exec(
        *command("serve", *OPTIONS, "--no-auth", "--port", "0"),
        stderr=-1,
        env=environment(tmp_path) | environ_of(config_of(9, TENANTS)),
    )
    demo: asyncio.subprocess.Process | None = None
    try:
        _, keys = await place_of(tmp_path)
        words = ["--data-dir", str(tmp_path)]
        assert len({*keys.values(), environment(tmp_path)["ZORIVEST_DEVTOOLS_KEY"]}) == 3
        assert await asyncio.to_thread(run, ["snippet", *words]) == 1
        assert "--tenant with one of: anna, ben" in capsys.readouterr().err
        for tenant in TENANTS:
            assert await asyncio.to_thread(run, ["snippet", "--tenant", tenant, *words]) == 0
            assert f"collector.js?k={keys[tenant]}" in capsys.readouterr().out
        demo = await asyncio.create_subprocess_exec(
            *command("devtools", "demo", "--tenant", "ben", "--port", "0", *words), stdout=-1, env=environment(tmp_path)
        )
        assert demo.stdout is not None
        async with asyncio.timeout(20):
            address = (await demo.stdout.readline()).decode().split()[1]
        async with aiohttp.ClientSession() as http, http.get(address) as shown:
            text = await shown.text()
        assert keys["ben"] in text
        assert keys["anna"] not in text
    finally:
        for each in (demo, process):
            if each is not None and each.returncode is None:
                each.send_signal(signal.SIGTERM)
                async with asyncio.timeout(20):
                    await each.communicate()
