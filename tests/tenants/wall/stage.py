"""Backends that put their own name into every value, and a server in front of all of them."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol

import aiohttp
import orjson
from aiohttp import web

from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport, accept_everyone
from zorivest_rpc.mcp.transports.memory import MemoryClient

MODERN, LEGACY = "2026-07-28", "2025-11-25"


def mark(tenant: str) -> str:
    """What stands in every value of a tenant's backend and in nothing else."""
    return f"book-of-{tenant}."


class Seen(NamedTuple):
    method: str
    path: str
    authorization: str | None
    client: str | None


class Backends:
    """All tenants' backends behind one port; the first step of the path says whose it is."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Seen]] = defaultdict(list)
        self.locked: set[str] = set()
        self.role = "admin"
        self.slow: dict[str, float] = {}
        self.refused: set[str] = set()  # whose API key opens nothing
        self.late: set[str] = set()  # whose settings are written, and the answer comes too late
        self.gone: set[str] = set()  # whose session tokens are not taken
        self.tokens = itertools.count(1)
        self.redirects: set[str] = set()
        self.down: set[str] = set()
        self.said = ""  # in a failure, besides
        self.repeats = False  # whether a failure tells what was sent
        self.port = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:  # noqa: C901 - one branch for each route
        _, tenant, path = request.raw_path.partition("?")[0].split("/", 2)
        path = path.removeprefix("api/v1")
        own = mark(tenant)
        given = request.headers.get("Authorization")
        self.seen[tenant].append(Seen(request.method, path, given, request.headers.get("client")))
        if tenant in self.slow:
            await asyncio.sleep(self.slow[tenant])
        if tenant in self.redirects:
            return web.Response(status=307, headers={"Location": "/elsewhere" + path})
        if tenant in self.down:
            sent = f"{dict(request.headers)} {await request.text()}" if self.repeats else ""
            repeated = {"X-Request-ID": request.headers.get("client", "")} if self.repeats else {}
            detail = f"{own} is out of order {sent}{self.said}"
            return web.json_response({"detail": detail}, status=500, headers=repeated)
        if path == "/auth/unlock":
            key = (await request.json())["api_key"]
            assert key == f"zrv_sk_{tenant}", key
            if tenant in self.refused:
                return web.json_response({"detail": f"{own} does not take {key}"}, status=401)
            token = f"tok_{tenant}_{next(self.tokens)}"
            return web.json_response({"session_token": token, "expires_in": 3600, "role": self.role})
        if given is not None and not given.startswith(f"Bearer tok_{tenant}_"):
            return web.json_response({"detail": "another's token"}, status=403)
        if given is not None and tenant in self.gone:
            self.gone.discard(tenant)
            return web.json_response({"error": "session_unknown", "detail": "gone"}, status=401)
        if path == "/settings" and request.method == "PUT":
            await asyncio.sleep(1.0 if tenant in self.late else 0.0)
            return web.json_response({"status": "updated", "count": 1})
        if path == "/mcp-guard/lock":
            self.locked.add(tenant)
        if path == "/mcp-guard/unlock":
            self.locked.discard(tenant)
        if path == "/mcp-guard/check":
            return web.json_response({"allowed": tenant not in self.locked, "reason": f"{own}locked"})
        if path.startswith("/mcp-guard"):
            state = {"is_locked": tenant in self.locked, "is_enabled": True, "lock_reason": f"{own}reason"}
            return web.json_response(state)
        if path == "/confirmation-tokens":
            return web.json_response({"token": f"ctk_{tenant}_{next(self.tokens)}", "who": own})
        if path == "/mcp/state-summary":
            counters = dict.fromkeys(("trades", "accounts", "lots_open", "lots"), 1)
            return web.json_response({"counters": counters, "sets": {"account_ids": [f"account-of-{tenant}"]}})
        if path.startswith("/images/"):
            return web.Response(body=own.encode(), content_type="image/png")
        entry = {
            **{name: own + name for name in ("exec_id", "account_id", "name", "ticker", "owner", "id", "status")},
            "instrument": f"{own}X STK",
        }
        return web.json_response({"items": [entry], "total": 1, **entry})


def config_of(port: int, ids: list[str], **each: dict[str, Any]) -> dict[str, Any]:
    return {
        id: {
            "apiBaseUrl": f"http://127.0.0.1:{port}/{id}/api/v1",
            "apiKeyEnv": f"KEY_{id.upper().replace('-', '_')}",
            "clientHeader": f"header-{id}",
            "name": f"Desk of {id}",
            **each.get(id, {}),
        }
        for id in ids
    }


def environ_of(config: dict[str, Any]) -> dict[str, str]:
    tenants = {id: entry for id, entry in config.items() if not id.startswith("$")}
    keys = {entry["apiKeyEnv"]: f"zrv_sk_{id}" for id, entry in tenants.items() if "apiKeyEnv" in entry}
    return {"CLIENTS_CONFIG": json.dumps(config), **keys}


def access_rule(key: str, clients: list[str] | str, name: str) -> dict[str, Any]:
    return {"keySha256": hashlib.sha256(key.encode()).hexdigest(), "name": name, "clients": clients}


class Wire(Protocol):
    """What carries the frames of one client."""

    def send(self, frame: bytes) -> None: ...

    async def receive(self) -> bytes: ...


class Client:
    """One client over a pipe, or over memory, which is stdio without its pipes."""

    def __init__(self, server: Server | Wire, revision: str = LEGACY, able: dict[str, Any] | None = None) -> None:
        self.wire: Wire = MemoryClient(server) if isinstance(server, Server) else server
        self.watch: Callable[[bytes], None] = lambda frame: None  # sees everything that arrives
        self.revision = revision
        self.able = able or {}
        self.notes: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.reply: Callable[[dict[str, Any]], dict[str, Any]] = lambda question: {"action": "decline"}
        self.heard = asyncio.Event()
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())

    async def open(self) -> dict[str, Any]:
        if self.revision == MODERN:
            return await self.request("server/discover", {})
        info = {"name": "cline", "version": "1"}
        params = {"protocolVersion": self.revision, "capabilities": self.able, "clientInfo": info}
        answer = await self.request("initialize", params)
        self.wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def start(self, method: str, params: dict[str, Any]) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        id = next(self._ids)
        if self.revision == MODERN:
            meta = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": self.able,
                "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
            }
            params = {**params, "_meta": meta}
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self.wire.send(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        return id, waiting

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        _, waiting = self.start(method, params)
        async with asyncio.timeout(20):
            return await waiting

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await self.request("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    def cancel(self, id: int) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        self._waiting.pop(id, None)
        self.wire.send(orjson.dumps(note))

    async def _read(self) -> None:
        while True:
            frame = await self.wire.receive()
            self.watch(frame)
            message = orjson.loads(frame)
            if "method" not in message:
                waiting = self._waiting.pop(message["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            elif "id" in message:
                self.asked.append(message)
                reply = {"jsonrpc": "2.0", "id": message["id"], "result": self.reply(message["params"])}
                self.wire.send(orjson.dumps(reply))
            else:
                self.notes.append(message)
                self.heard.set()

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


class Stage:
    """A server with its tenants, and clients of it."""

    def __init__(self, journal: Journal, backends: Backends) -> None:
        self.journal = journal
        self.backends = backends
        self.server = Server(journal.offer, limits=Limits(per_client=10_000, per_server=10_000))
        self._clients: list[Client] = []

    async def client(self, revision: str = LEGACY, able: dict[str, Any] | None = None) -> Client:
        client = Client(self.server, revision, able)
        self._clients.append(client)
        await client.open()
        return client

    async def close(self) -> None:
        await self.server.stop(list(self.server.conversations), 0)
        for client in self._clients:
            await client.close()
        await self.journal.close()


@asynccontextmanager
async def backends() -> AsyncIterator[Backends]:
    made = Backends()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", made.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()


@asynccontextmanager
async def stage(
    patch: Any, data: Any, ids: list[str], *options: str, environ: dict[str, str] | None = None, **each: dict[str, Any]
) -> AsyncIterator[Stage]:
    """Over memory, which is what stdio is without its pipes."""
    async with backends() as made:
        given = {**environ_of(config_of(made.port, ids, **each)), **(environ or {})}
        for name, value in given.items():
            patch.setenv(name, value)
        settings = parse("stdio", ["--data-dir", str(data), *options], {"HOME": str(data), **given})
        found = Stage(Journal(settings), made)
        try:
            yield found
        finally:
            await found.close()


class Desk(NamedTuple):
    """A caller over HTTP, by its access key."""

    url: str
    http: aiohttp.ClientSession
    key: str | None
    able: dict[str, Any] = {}  # noqa: RUF012 - what the client says that it can do
    watch: Callable[[str], None] = lambda text: None  # sees all that arrives

    async def post(self, method: str, params: dict[str, Any], **headers: Any) -> tuple[int, Any, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        given = [("Accept", "application/json, text/event-stream")]
        given += [("Authorization", f"Bearer {self.key}")] if self.key is not None else []
        for name, value in headers.items():
            given += [(name.replace("_", "-"), each) for each in (value if isinstance(value, list) else [value])]
        async with self.http.post(self.url, json=message, headers=given) as answer:
            text = await answer.text()
            self.watch(f"{answer.headers} {text}")
            if answer.content_type == "text/event-stream":
                datas = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
                text = next(data for data in datas if json.loads(data).get("id") == 1)
            return answer.status, json.loads(text) if text else None, answer.headers

    async def modern(self, method: str, params: dict[str, Any], **headers: Any) -> tuple[int, Any]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": self.able,
            "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
        }
        standard = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method}
        if (name := params.get("name", params.get("uri", params.get("taskId")))) is not None:
            standard["Mcp_Name"] = name
        status, answer, _ = await self.post(method, {**params, "_meta": meta}, **standard, **headers)
        return status, answer

    async def call(self, name: str, arguments: dict[str, Any], **headers: Any) -> dict[str, Any]:
        status, answer = await self.modern("tools/call", {"name": name, "arguments": arguments}, **headers)
        assert status == 200, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def open(self, **headers: Any) -> str:
        info = {"name": "cline", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": self.able, "clientInfo": info}
        status, answer, given = await self.post("initialize", params, **headers)
        assert status == 200, answer
        return str(given["Mcp-Session-Id"])


class Served(NamedTuple):
    journal: Journal
    backends: Backends
    url: str
    http: aiohttp.ClientSession

    def desk(self, key: str | None = None) -> Desk:
        return Desk(self.url + "/mcp", self.http, key)


@asynccontextmanager
async def served(
    patch: Any,
    data: Any,
    ids: list[str],
    *options: str,
    access: list[dict[str, Any]] | None = None,
    environ: Any = None,
    **each: dict[str, Any],
) -> AsyncIterator[Served]:
    """Over HTTP, put together as `serve` does it."""
    async with backends() as made:
        config = config_of(made.port, ids, **each)
        given = environ_of(config | ({} if access is None else {"$access": access})) | (environ or {})
        for name, value in given.items():
            patch.setenv(name, value)
        settings = parse("serve", ["--port", "0", "--data-dir", str(data), *options], {"HOME": str(data), **given})
        journal = Journal(settings)
        tenancy = journal.tenancy
        assert tenancy is not None
        server = Server(journal.offer)
        transport = HttpTransport(
            server,
            HttpOptions(port=0, grace=0.0),
            authenticate=tenancy.authenticate if access is not None else accept_everyone,
            metrics=journal.prometheus,
            gate=tenancy.check_headers,
            beside=journal.observing.beside(),
        )
        await transport.start()
        journal.observing.is_listening(f"http://127.0.0.1:{transport.port}", transport.port)
        async with aiohttp.ClientSession() as http:
            try:
                yield Served(journal, made, f"http://127.0.0.1:{transport.port}", http)
            finally:
                await transport.stop()
                await journal.close()
