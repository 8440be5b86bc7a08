"""Lists that follow the journals of several clients: a union, asked for client by client and only once it is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.serving.product.conftest import Client
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse

Json = Any
CHANGED = "notifications/tools/list_changed"
COUNTERS = (
    *("trades", "round_trips_closed", "accounts", "lots_open", "lots", "tax_profiles", "mistakes"),
    *("policies", "brokers_configured", "providers_configured"),
)


class Books:
    """A client's backend with what its journal holds; `asked` are the paths that were read."""

    def __init__(self, accounts: list[str], **counts: int) -> None:
        self.counters = dict.fromkeys(COUNTERS, 0) | {"accounts": len(accounts)} | counts
        self.accounts = accounts
        self.asked: list[str] = []
        self.was_asked = asyncio.Event()
        app = web.Application()
        app.router.add_post("/api/v1/auth/unlock", self.unlock)
        app.router.add_get("/api/v1/mcp/state-summary", self.summary)
        app.router.add_route("*", "/{rest:.*}", self.other)
        self.server = TestServer(app)

    async def unlock(self, request: web.Request) -> web.Response:
        return web.json_response({"session_token": "t", "role": "admin", "expires_in": 3600})

    async def summary(self, request: web.Request) -> web.Response:
        self.asked.append("summary")
        self.was_asked.set()
        sets = {"account_ids": self.accounts}
        return web.json_response({"version": 1, "counters": self.counters, "sets": sets})

    async def other(self, request: web.Request) -> web.Response:
        if request.path.endswith("/mcp-guard/check"):
            return web.json_response({"allowed": True})
        if request.path.endswith("/trades"):
            return web.json_response({"items": [], "total": self.counters["trades"], "limit": 1, "offset": 0})
        return web.json_response({"is_locked": False, "status": "ok"})


Open = Callable[..., Awaitable[Client]]


@pytest.fixture
async def books() -> AsyncIterator[tuple[Books, Books]]:
    both = Books(["A-1"]), Books(["B-1"], trades=3, lots=2)
    for each in both:
        await each.server.start_server()
    yield both
    for each in both:
        await each.server.close()


@pytest.fixture
async def open_client(
    books: tuple[Books, Books], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    clients: list[Client] = []
    file = tmp_path / "clients.toml"
    monkeypatch.setenv("FIRST_KEY", "zrv_sk_first")
    monkeypatch.setenv("SECOND_KEY", "zrv_sk_second")

    async def opened(*names: str) -> Client:
        tables = [
            f'[clients.{name}]\napiBaseUrl = "{each.server.make_url("/")}"\napiKeyEnv = "{name.upper()}_KEY"\n'
            for name, each in zip(("first", "second"), books, strict=True)
            if name in names
        ]
        file.write_text("".join(tables))
        file.chmod(0o600)
        environ = {"HOME": str(tmp_path), "ZORIVEST_DATA_DIR": str(tmp_path / "data")}
        options = ["--tenants-file", str(file), "--exposure-trading", "on", "--toolsets", "all", "--confirm", "never"]
        client = Client(Journal(parse("stdio", options, environ)), "cline", {}, "2025-11-25")
        clients.append(client)
        await client.open()
        return client

    yield opened
    for client in clients:
        await client.close()


async def heard(client: Client) -> dict[str, Json]:
    """The list after the next change of it."""
    await client.hears(CHANGED)
    return {tool["name"]: tool for tool in await client.tools()}


async def test_one_client_alone_is_asked_with_the_first_list(open_client: Open, books: tuple[Books, Books]) -> None:
    client = await open_client("first")
    assert "ai_review_trade" in await client.names()
    tools = await heard(client)
    assert "ai_review_trade" not in tools
    assert tools["list_trades"]["_meta"]["data_counts"] == {"trades": 0}
    assert books[0].asked == ["summary"]


async def test_of_several_clients_only_those_are_asked_that_calls_are_made_for(
    open_client: Open, books: tuple[Books, Books]
) -> None:
    first, second = books
    client = await open_client("first", "second")
    everything = await client.names()
    assert (first.asked, second.asked) == ([], [])
    assert not (await client.call("list_trades", clientId="first")).get("isError")
    async with asyncio.timeout(30):
        await first.was_asked.wait()
    assert second.asked == []
    assert await client.names() == everything, "of the second nothing is known yet, and what is unknown shows"
    assert not (await client.call("list_trades", clientId="second")).get("isError")
    tools = await heard(client)
    assert "ai_review_trade" in tools, "the second has trades"
    assert "get_tax_lots" in tools
    assert "get_sqn" not in tools, "none of them has a result"
    assert "harvest_losses" not in tools
    assert tools["list_trades"]["_meta"]["data_counts"] == {"trades": 3}
    for name in ("get_tax_lots", "get_round_trips"):
        assert "enum" not in tools[name]["inputSchema"]["properties"]["account_id"], (
            "accounts of several are told to none"
        )
