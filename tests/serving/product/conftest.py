"""The whole product in one process, in front of a real embedded backend in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.embedded.asking import relay
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find, find_or_start
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with a running backend, for all tests of this package."""
    data = tmp_path_factory.mktemp("zorivest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZORIVEST_KEYRING", "off")
        find_or_start(data)
        yield data
    located = find(data)
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


class Client:
    """One MCP client of the product, with the few words that tests need."""

    def __init__(
        self, journal: Journal, name: str, capabilities: dict[str, Any], revision: str, server: Server | None = None
    ) -> None:
        self.journal = journal
        self.server = server or Server(journal.offer)
        self.wire = MemoryClient(self.server)
        self.notifications: list[dict[str, Any]] = []
        self.heard = asyncio.Event()
        self.asked: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.revision = revision
        self._capabilities = capabilities
        self._info = {"name": name, "version": "1"}
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def open(self) -> dict[str, Any]:
        if self.revision == "2026-07-28":
            return (await self.request("server/discover", {}))["result"]  # type: ignore[no-any-return]
        params = {"protocolVersion": self.revision, "capabilities": self._capabilities, "clientInfo": self._info}
        answer = await self.request("initialize", params)
        self.wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer["result"]  # type: ignore[no-any-return]

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        id = next(self._ids)
        if self.revision == "2026-07-28":
            meta = {
                "io.modelcontextprotocol/protocolVersion": self.revision,
                "io.modelcontextprotocol/clientCapabilities": self._capabilities,
                "io.modelcontextprotocol/clientInfo": self._info,
            }
            params = {**params, "_meta": meta}
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self.wire.send(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        async with asyncio.timeout(120):
            answer: dict[str, Any] = await waiting
        return answer

    async def tools(self) -> list[dict[str, Any]]:
        return (await self.request("tools/list", {}))["result"]["tools"]  # type: ignore[no-any-return]

    async def names(self) -> list[str]:
        return [tool["name"] for tool in await self.tools()]

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a call; a protocol error fails the test."""
        answer = await self.request("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def _read(self) -> None:
        while True:
            message = orjson.loads(await self.wire.receive())
            if "method" not in message:
                self._waiting.pop(message["id"]).set_result(message)
            elif "id" in message:
                self.asked.append(message)
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": self.answers.pop(0)}
                self.wire.send(orjson.dumps(reply))
            else:
                self.notifications.append(message)
                self.heard.set()

    async def hears(self, method: str) -> dict[str, Any]:
        """The params of the next notification of this kind."""
        async with asyncio.timeout(120):
            while True:
                for message in self.notifications:
                    if message["method"] == method:
                        self.notifications.remove(message)
                        return message.get("params", {})  # type: ignore[no-any-return]
                self.heard.clear()
                await self.heard.wait()

    async def close(self) -> None:
        self._reader.cancel()
        self.wire.close()
        await self.journal.close()


Connect = Callable[..., Any]


@pytest.fixture
async def api_url(data_dir: Path) -> AsyncIterator[str]:
    """The running backend behind a port, as if it were an installation of its own."""
    located = find(data_dir)
    assert located is not None
    async with relay(located) as url:
        yield url


@pytest.fixture
async def connect(data_dir: Path) -> AsyncIterator[Connect]:
    """`await connect("cursor", "--read-only")`: a client that said hello, on a server of its own or `beside` one."""
    clients: list[Client] = []

    async def connected(
        name: str = "cline",
        *options: str,
        capabilities: dict[str, Any] | None = None,
        revision: str = "2025-11-25",
        environ: dict[str, str] | None = None,
        beside: Client | None = None,
    ) -> Client:
        if beside is not None:
            client = Client(beside.journal, name, capabilities or {}, revision, beside.server)
        else:
            given = {"HOME": str(data_dir), "ZORIVEST_KEYRING": "off", **(environ or {})}
            settings = parse("stdio", ["--data-dir", str(data_dir), *options], given)
            client = Client(Journal(settings), name, capabilities or {}, revision)
        clients.append(client)
        client.opened = await client.open()  # type: ignore[attr-defined]
        return client

    yield connected
    for client in clients:
        await client.close()


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def refusal_of(result: dict[str, Any]) -> dict[str, str]:
    assert result.get("isError") is True, result
    return result["_meta"]["com.zorivest/error"]  # type: ignore[no-any-return]
