"""A gateway between real ends: clients of every kind in front, upstreams of every kind behind."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.connect import Client, Host
from tests.gateway.fake import Fake, serving
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.library import Library
from zorivest_rpc.gateway.member import Member, Timing
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.router import Gateway
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry, secret_values
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Scope, chain
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.offer import Offer, Prompt, PromptShelf, Resource, ResourceShelf, Template, ToolShelf
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.server import Server as McpServer
from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport, accept_everyone
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.showcase import offer as showcase

OURS = load()
QUICK = Timing(merged=0.0, between_lists=0.0, retried=3600.0, idle=3600.0, shortest_ttl=3600.0)
UPSTREAMS = ("http-legacy", "http-modern", "stdio-legacy", "stdio-modern")
CLIENTS = ("memory", "streamable", "sse", "memory-modern", "streamable-modern")


class Told(Telemetry):
    """Telemetry that can be waited for."""

    grown: asyncio.Event

    def emit(self, event: str, **fields: Any) -> None:
        super().emit(event, **fields)
        self.grown.set()


class Prompts(PromptShelf):
    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library

    def find(self, session: Session, name: str) -> Prompt | None:
        return self._library.find_prompt(name, lambda toolset: True)


class Resources(ResourceShelf):
    def __init__(self, library: Library) -> None:
        super().__init__()
        self._library = library

    def find(
        self, session: Session, uri: str, scope: Scope = EVERYONE
    ) -> tuple[Resource | Template, dict[str, str]] | None:
        return self._library.find_resource(uri, lambda toolset: True)


class Gate:
    """A gateway and the server in front of it; each tool of an upstream is one of its tools."""

    def __init__(self, directory: Path, profile: Profile, *, seconds: float, confirms: bool, timing: Timing) -> None:
        self.path = directory / "telemetry.jsonl"
        environ: Mapping[str, str] = {}
        self.telemetry = Told(str(self.path), Redactor(secret_values(profile, environ)))
        self.telemetry.grown = asyncio.Event()
        self.gateway = Gateway(
            OURS,
            profile,
            pins=Pins(str(directory)),
            telemetry=self.telemetry,
            make=lambda server, note: make_upstream(server, environ, on_happening=note),
            timing=timing,
            input_seconds=seconds,
        )
        self.confirms = confirms
        self.seconds = seconds
        self.server: McpServer

    def serve(self, key: bytes | None) -> None:
        """Offer what the upstreams have by now."""
        specs = {spec.name: spec for spec in self.gateway.catalogue.definitions.tools if spec.upstream}
        confirmation = Confirmation(specs, lambda call: self.confirms)
        handler: Handler = chain(self.gateway.forward, confirmation) if self.confirms else self.gateway.forward
        tools = [(Tool(spec.name, spec.title, spec.input_schema), handler) for spec in specs.values()]
        shelf = ToolShelf(tools)
        library = self.gateway.library
        prompts, resources = Prompts(library), Resources(library)
        offer = Offer("gate", "1", tools=shelf, prompts=prompts, resources=resources, complete=library.complete)
        self.server = McpServer(offer, key=key, limits=Limits(input_seconds=self.seconds))

    def member(self, name: str = "up") -> Member:
        return self.gateway.members[name]

    def events(self, prefix: str = "tool.") -> list[Any]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"].startswith(prefix)]

    async def until(self, event: str, number: int = 1) -> None:
        """The telemetry has so many of these."""
        async with asyncio.timeout(20):
            while sum(each["event"] == event for each in self.events("")) < number:
                self.telemetry.grown.clear()
                await self.telemetry.grown.wait()

    async def until_over(self) -> None:
        """Every call that was requested has ended."""
        over = ("tool.succeeded", "tool.failed", "tool.denied")
        async with asyncio.timeout(20):
            while True:
                events = [event["event"] for event in self.events()]
                if sum(each in over for each in events) >= events.count("tool.requested"):
                    return
                self.telemetry.grown.clear()
                await self.telemetry.grown.wait()

    def ends(self) -> list[str]:
        """How each call that was requested ended, in the order of the ends; AssertionError if one has none or two."""
        events = self.events()
        asked = sorted(event["call_id"] for event in events if event["event"] == "tool.requested")
        over = [event for event in events if event["event"] in ("tool.succeeded", "tool.failed", "tool.denied")]
        assert sorted(event["call_id"] for event in over) == asked
        return [event.get("code", event["event"]) for event in over]


@asynccontextmanager
async def gate(
    directory: Path,
    *servers: Server,
    seconds: float = 600.0,
    confirms: bool = False,
    timing: Timing = QUICK,
    key: bytes | None = None,
    **profile: Any,
) -> AsyncIterator[Gate]:
    keys = {"tool_retry_delay_ms": 0, **profile}
    found = Gate(directory, Profile(mcp_servers=servers, **keys), seconds=seconds, confirms=confirms, timing=timing)
    found.gateway.start()
    try:
        await found.gateway.settle(60)
        found.serve(key)
        yield found
    finally:
        await found.gateway.close()


@asynccontextmanager
async def in_front(kind: str, of: Gate, revision: str | None = None, capabilities: Any = None) -> AsyncIterator[Client]:
    """A client of the gate; it can be asked, unless its capabilities say otherwise."""
    host = Host(kind)
    name = revision or ("2026-07-28" if kind.endswith("-modern") else "2025-11-25")
    client = Client(kind, name, {"elicitation": {"form": {}}} if capabilities is None else capabilities)
    try:
        await host.join(client, of.server, "")
        await client.open()
        yield client
    finally:
        await client.close()
        await host.close()


@asynccontextmanager
async def upstream(kind: str, directory: Path, name: str = "up", **keys: Any) -> AsyncIterator[Server]:
    """Our own showcase as a server of one era, over HTTP or as a child."""
    way, _, era = kind.partition("-")
    common: dict[str, Any] = {"name": name, "era": era, "timeout_secs": 60, **keys}
    if way == "stdio":
        args = ("-m", "zorivest_rpc", "stdio", "--showcase", "--data-dir", str(directory / name))
        yield Server(command=sys.executable, args=args, **common)
        return
    transport = HttpTransport(McpServer(showcase()), HttpOptions(port=0), authenticate=accept_everyone)
    await transport.start()
    try:
        yield Server(endpoint=f"http://127.0.0.1:{transport.port}/mcp", **common)
    finally:
        await transport.stop()


@asynccontextmanager
async def faked(fake: Fake, name: str = "up", **keys: Any) -> AsyncIterator[Server]:
    async with serving(fake.handle) as url:
        yield Server(name=name, endpoint=url, **keys)


async def answered(client: Client, name: str, arguments: Any, *answers: Any) -> tuple[Any, list[Any]]:
    """Call, and give these answers to what is asked, one after the other; the result, and the params of each form."""
    return await asked_for(client, "tools/call", {"name": name, "arguments": arguments}, *answers)


async def asked_for(client: Client, method: str, params: Any, *answers: Any) -> tuple[Any, list[Any]]:
    given, asked = list(answers), []
    if client.modern:
        result = await client.result(method, params)
        while result.get("resultType") == "input_required":
            responses = {}
            for key, request in result["inputRequests"].items():
                asked.append(request["params"])
                responses[key] = given.pop(0)
            again = {**params, "inputResponses": responses, "requestState": result["requestState"]}
            result = await client.result(method, again)
        return result, asked
    id = await client.start(method, params)
    for number, answer in enumerate(given, start=len(client.questions) + 1):
        question = await client.question(number)
        asked.append(question["params"])
        await client.reply(question, answer)
    return (await client.answer(id))["result"], asked


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def words_of(result: Any) -> str:
    return "".join(block.get("text", "") for block in result["content"])


__all__ = [
    "CLIENTS",
    "QUICK",
    "UPSTREAMS",
    "Call",
    "Gate",
    "accept",
    "answered",
    "asked_for",
    "faked",
    "gate",
    "in_front",
    "upstream",
    "words_of",
]
