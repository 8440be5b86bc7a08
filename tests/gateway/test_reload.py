"""A list that waits for servers that are about to answer, a file that is read again, and what a diagnosis says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import Fake, Seen, serving
from tests.gateway.stdio_server import __file__ as CHILD
from tests.gateway.test_whole import Client
from zorivest_rpc.app import federation
from zorivest_rpc.app.journal import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.gateway.router import Gateway
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient

STATIC, DYNAMIC = "cursor", "some-other-client"
HEAD = '[profiles.default]\npin = "off"\n{lists}\n'
ENTRY = '[[profiles.default.mcp_servers]]\nname = "{name}"\nendpoint = "{url}"\n{more}\n'
CHILD_ENTRY = (
    '[[profiles.default.mcp_servers]]\nname = "{name}"\ncommand = {python}\nargs = ["-I", {child}, "modern"]\n'
)


def children(*names: str, lists: str = "") -> str:
    python, child = json.dumps(sys.executable), json.dumps(str(CHILD))
    return HEAD.format(lists=lists) + "".join(CHILD_ENTRY.format(name=n, python=python, child=child) for n in names)


class Held(Fake):
    """A server that answers when the test lets it."""

    def __init__(self) -> None:
        super().__init__(any=self.wait)
        self.release = asyncio.Event()
        self.asked = asyncio.Event()

    async def wait(self, seen: Seen) -> web.StreamResponse:
        self.asked.set()
        await self.release.wait()
        return self.answer(seen)


class Host:
    """The journal in this process and clients of it."""

    def __init__(self, directory: Path, config: str) -> None:
        self.file = directory / "config.toml"
        self.file.write_text(config)
        argv = ["--config", str(self.file), "--data-dir", str(directory), "--api-url", "http://127.0.0.1:9"]
        self.journal = Journal(parse("stdio", argv, {"HOME": str(directory), "ZORIVEST_API_KEY": "zrv_sk_x"}))
        self.server = Server(self.journal.offer)

    async def client(self, name: str) -> Wire:
        wire = Wire(MemoryClient(self.server))
        info = {"name": name, "version": "1"}
        await wire.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        wire.memory.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return wire


class Wire:
    def __init__(self, memory: MemoryClient) -> None:
        self.memory = memory
        self._id = 0

    def send(self, method: str, params: Any = None) -> int:
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params or {}}
        self.memory.send(json.dumps(message).encode())
        return self._id

    async def answer(self, id: int) -> Any:
        async with asyncio.timeout(20):
            while (message := json.loads(await self.memory.receive())).get("id") != id:
                continue
        return message["result"]

    async def ask(self, method: str, params: Any = None) -> Any:
        return await self.answer(self.send(method, params))

    async def names(self) -> set[str]:
        return {tool["name"] for tool in (await self.ask("tools/list"))["tools"]}


@asynccontextmanager
async def hosted(directory: Path, fake: Fake, more: str = "", lists: str = "") -> AsyncIterator[Host]:
    async with serving(fake.handle) as url:
        config = HEAD.format(lists=lists) + ENTRY.format(name="ops", url=url, more=more)
        host = Host(directory, config)
        try:
            yield host
        finally:
            await host.journal.close()


# --- the first list


async def test_the_first_list_of_a_static_client_waits_for_a_server_that_is_about_to_answer(tmp_path: Path) -> None:
    fake = Held()
    async with hosted(tmp_path, fake) as host:
        client = await host.client(STATIC)
        id = client.send("tools/list")
        await fake.asked.wait()
        assert client.memory.take_frames() == []
        fake.release.set()
        assert "ops__echo" in {tool["name"] for tool in (await client.answer(id))["tools"]}


async def test_it_waits_no_longer_than_its_time_and_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(federation, "_GRACE", 0.02)
    fake = Held()
    async with hosted(tmp_path, fake) as host:
        client = await host.client(STATIC)
        assert "ops__echo" not in await client.names()
        monkeypatch.setattr(federation, "_GRACE", 3600.0)
        assert "ops__echo" not in await client.names()


async def test_a_client_that_can_be_told_later_waits_for_nothing(tmp_path: Path) -> None:
    fake = Held()
    async with hosted(tmp_path, fake) as host:
        client = await host.client(DYNAMIC)
        host.journal.start_upstreams()
        await fake.asked.wait()
        assert "ops__echo" not in await client.names()
        fake.release.set()
        async with asyncio.timeout(20):
            while json.loads(await client.memory.receive()).get("method") != "notifications/tools/list_changed":
                continue
        assert "ops__echo" in await client.names()


# --- a diagnosis and the metrics


async def test_a_diagnosis_tells_the_state_of_each_server_and_no_secret(tmp_path: Path) -> None:
    fake = Fake()
    async with hosted(tmp_path, fake) as host:
        client = await host.client(STATIC)
        await client.names()
        report = (await client.ask("tools/call", {"name": "zorivest_diagnose", "arguments": {}}))["structuredContent"]
        [ops] = report["upstreams"]
        assert ops.keys() == {
            *("name", "state", "era", "tools", "held", "last_ok", "latency_ms", "circuit", "error"),
        }
        assert (ops["name"], ops["state"], ops["era"], ops["tools"], ops["held"]) == (
            "ops",
            "ready",
            "modern",
            1,
            0,
        )
        assert (ops["circuit"], ops["error"]) == ("closed", None)
        assert ops["last_ok"].endswith("+00:00")


async def test_a_diagnosis_names_no_query_and_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(seen: Seen) -> web.StreamResponse:
        return seen.error(-32000, f"no access for {seen.headers['Authorization']}")

    monkeypatch.setenv("OPS_TOKEN", "s3cret-token-of-ops")
    fake = Fake(tools_list=refuse)
    async with hosted(tmp_path, fake, 'auth_bearer_env = "OPS_TOKEN"') as host:
        client = await host.client(STATIC)
        await client.names()
        answer = await client.ask("tools/call", {"name": "zorivest_diagnose", "arguments": {}})
    [ops] = answer["structuredContent"]["upstreams"]
    assert ops["state"] == "unavailable"
    assert "no access for" in ops["error"]
    assert "s3cret" not in json.dumps(answer)


async def test_without_other_servers_a_diagnosis_says_nothing_of_them(tmp_path: Path) -> None:
    host = Host(tmp_path, HEAD.format(lists=""))
    try:
        client = await host.client(STATIC)
        answer = await client.ask("tools/call", {"name": "zorivest_diagnose", "arguments": {}})
        assert "upstreams" not in answer["structuredContent"]
    finally:
        await host.journal.close()


@pytest.mark.one_journal("numbers are kept for each client, and sizes count the words that name it")
async def test_calls_of_other_servers_are_counted_under_their_published_names(tmp_path: Path) -> None:
    async with hosted(tmp_path, Fake()) as host:
        client = await host.client(STATIC)
        await client.names()
        await client.ask("tools/call", {"name": "ops__echo", "arguments": {"text": "x"}})
        text = host.journal.prometheus()
        assert 'zorivest_tool_calls_total{tool="ops__echo"} 1' in text
        slow = host.journal.pipeline().metrics
        for _ in range(3):
            slow.record("ops__echo", 60_000.0, 1, failed=False)
        assert not any("ops__echo" in words and "latency" in words for words in slow.summary()["warnings"])


# --- a file that is read again


@pytest.mark.one_journal("looks inside at the one gateway; each client may have its own")
async def test_lists_and_servers_are_taken_from_a_file_that_is_read_again(tmp_path: Path) -> None:
    async with hosted(tmp_path, Fake()) as host:
        client = await host.client(STATIC)
        assert "ops__echo" in await client.names()
        before = host.journal.gateway()
        assert isinstance(before, Gateway)
        member = before.members["ops"]
        host.file.write_text(host.file.read_text().replace('pin = "off"', 'pin = "off"\ndeny_tool = ["ops__*"]'))
        await host.journal.reload()
        assert "ops__echo" not in await client.names()
        assert before.members["ops"] is member  # a server that stays the same stays connected
        host.file.write_text(HEAD.format(lists='deny_tool = ["list_trades"]'))
        await host.journal.reload()
        assert "list_trades" not in await client.names()
        gone = await client.ask("tools/call", {"name": "ops__echo", "arguments": {}})
        assert gone["isError"]
        assert (await client.ask("tools/call", {"name": "list_available_toolsets", "arguments": {}}))["content"]
        assert before.report() == []


@pytest.mark.parametrize(
    "wrong",
    [
        "[profiles.default",
        '[profiles.default]\nunknown = 1\n[[profiles.default.mcp_servers]]\nname = "X Y"\n',
        "[profiles.other]\n",
    ],
)
async def test_a_file_that_is_wrong_is_told_and_changes_nothing(
    tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosted(tmp_path, Fake()) as host:
        client = await host.client(STATIC)
        assert "ops__echo" in await client.names()
        if "other" in wrong:
            host.journal.settings = host.journal._federation._settings = host.journal.settings._replace(
                profile="default"
            )
        host.file.write_text(wrong)
        await host.journal.reload()
        assert "ops__echo" in await client.names()
        told = [record.getMessage() for record in caplog.records if "not read again: " in record.getMessage()]
        assert told
        assert all(str(host.file) in words for words in told)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this platform has no such signal")
@pytest.mark.one_journal("list_clients takes one of the places that are counted")
async def test_a_hangup_has_a_running_server_read_its_file_again(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(children("one"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zorivest_rpc", "stdio", "--config", str(config), "--data-dir", str(tmp_path)),
        *("--api-url", "http://127.0.0.1:9"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "ZORIVEST_API_KEY": "zrv_sk_of_nobody"},
        limit=1 << 24,
    )
    client = Client(process)
    assert process.stdin is not None
    assert process.stderr is not None
    log = process.stderr

    async def told(words: bytes) -> None:
        async with asyncio.timeout(30):
            while words not in await log.readline():
                continue

    async def names() -> set[str]:
        tools = (await client.ask("tools/list"))["result"]["tools"]
        return {tool["name"] for tool in tools if "__" in tool["name"]}

    try:
        info = {"name": STATIC, "version": "1"}
        await client.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        client.send("notifications/initialized")
        assert await names() == {"one__echo"}
        config.write_text(children("two", "three"))
        process.send_signal(signal.SIGHUP)
        await told(b"read again: 2 servers")
        async with asyncio.timeout(30):
            while await names() != {"two__echo", "three__echo"}:
                client.notes.clear()
                await client.wait_for("notifications/tools/list_changed")
        gone = await client.call("one__echo")
        assert gone["isError"]
        config.write_text("[profiles.default")
        process.send_signal(signal.SIGHUP)
        await told(b"not read again")
        assert await names() == {"two__echo", "three__echo"}
    finally:
        process.stdin.close()
        await process.wait()
