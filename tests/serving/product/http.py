"""The product over HTTP in this process, put together as `serve` does it, with real keys of the embedded backend."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import aiohttp

from tests.embedded.asking import ask
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find, stored_key
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport, accept_everyone
from zorivest_rpc.mcp.transports.session_journal import SessionJournal
from zorivest_rpc.mcp.transports.sessions import SessionStore, load_key

MODERN = "2026-07-28"


class Served:
    """A running server, and one word for each kind of request."""

    def __init__(self, journal: Journal, port: int, http: aiohttp.ClientSession) -> None:
        self.journal = journal
        self.url = f"http://127.0.0.1:{port}"
        self.http = http
        self._ids = itertools.count(1)

    async def post(self, method: str, params: dict[str, Any], **headers: str) -> tuple[int, Any, dict[str, str]]:
        id = None if method.startswith("notifications/") else next(self._ids)
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        given = {"Accept": "application/json, text/event-stream"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.post(self.url + "/mcp", json=message, headers=given) as answer:
            text = await answer.text()
            if answer.content_type == "text/event-stream":
                datas = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
                text = next(data for data in datas if json.loads(data).get("id") == id)
            return answer.status, json.loads(text) if text else None, dict(answer.headers)

    async def open(self, name: str = "cline", **headers: str) -> Conversation:
        """A legacy session."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
        status, answer, given = await self.post("initialize", params, **headers)
        assert status == 200, answer
        kept = {"Authorization": headers["Authorization"]} if "Authorization" in headers else {}
        opened = Conversation(self, {**kept, "Mcp_Session_Id": given["Mcp-Session-Id"]}, answer["result"])
        await self.post("notifications/initialized", {}, **opened.headers)
        return opened

    async def modern(
        self,
        method: str,
        params: dict[str, Any],
        name: str = "cline",
        able: dict[str, Any] | None = None,
        **headers: str,
    ) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": able or {},
            "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
        }
        standard = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        if "name" in params:
            standard["Mcp_Name"] = params["name"]
        status, answer, _ = await self.post(method, {**params, "_meta": meta}, **standard, **headers)
        assert status == 200, answer
        return answer["result"]

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.text()


class Conversation:
    def __init__(self, served: Served, headers: dict[str, str], opened: dict[str, Any]) -> None:
        self.served, self.headers, self.opened = served, headers, opened

    def on(self, served: Served) -> Conversation:
        """The same session at another server."""
        return Conversation(served, self.headers, self.opened)

    async def request(self, method: str, params: dict[str, Any], **more: str) -> Any:
        status, answer, _ = await self.served.post(method, params, **self.headers, **more)
        assert status == 200, (status, answer)
        return answer["result"]

    async def names(self, **more: str) -> list[str]:
        return [tool["name"] for tool in (await self.request("tools/list", {}, **more))["tools"]]

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        return await self.request("tools/call", {"name": tool, "arguments": arguments})


@asynccontextmanager
async def serving(
    data: Path, *options: str, state: Path | None = None, environ: dict[str, str] | None = None, auth: bool = False
) -> AsyncIterator[Served]:
    """`state` is where sessions are kept, for a server that is to be started again; `data` the backend's directory."""
    state = state or data
    given = {"HOME": str(data), "ZORIVEST_KEYRING": "off", **(environ or {})}
    settings = parse("serve", ["--port", "0", "--data-dir", str(data), *options], given)
    journal = Journal(settings)
    sessions: SessionStore | None = None
    server = Server(
        journal.offer,
        key=load_key(state / "session.key"),
        remember=lambda session: sessions.remember(session) if sessions is not None else None,
    )
    records = SessionJournal(state / "sessions.journal", server.now)
    sessions = SessionStore(server.seal, server.announcer, records, server.now, server.epoch, life=3600.0)
    transport = HttpTransport(
        server,
        HttpOptions(port=0, grace=0.5),
        authenticate=journal.callers.authenticate if auth else accept_everyone,
        holding=journal.callers.holding if auth else lambda header: nullcontext(),
        sessions=sessions,
        metrics=journal.prometheus,
    )
    await transport.start()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as http:
        try:
            yield Served(journal, transport.port, http)
        finally:
            await transport.stop()
            records.close()
            await journal.close()
            await asyncio.sleep(0)


def make_key(data: Path, label: str, role: str = "read-write") -> tuple[str, str]:
    """(id, key) of a new key, made by the owner's."""
    answer = _owner(data, "POST", "/auth/keys", {"label": label, "role": role})
    return str(answer["key_id"]), str(answer["raw_key"])


def revoke_key(data: Path, key_id: str) -> None:
    _owner(data, "DELETE", f"/auth/keys/{key_id}")


def _owner(data: Path, method: str, path: str, body: Any = None) -> Any:
    located, key = find(data), stored_key(data, {"ZORIVEST_KEYRING": "off"})
    assert located is not None

    token = ask(located, "POST", "/auth/unlock", {"api_key": key})["session_token"]
    return ask(located, method, path, body, token)
