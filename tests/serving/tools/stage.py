"""A backend that answers from a table, calls without a connection, and a server with every tool that has logic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import BackendError, BackendUnreachable, ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Middleware, Outcome, Scope, chain
from zorivest_rpc.mcp.catalog.view import View
from zorivest_rpc.mcp.offer import TOOLS, Offer
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.mcp.protocol.session import Phase, RequestHeaders, Session
from zorivest_rpc.mcp.protocol.types import Meta
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient
from zorivest_rpc.serving.audience import Audience, Policy
from zorivest_rpc.serving.backend.interface import Backend, Reply, Request
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.catalog.toolsets import toolset_names
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.serving.middleware.guard import GuardLayer
from zorivest_rpc.serving.middleware.metrics import Metrics
from zorivest_rpc.serving.tools.accounts import AccountReview
from zorivest_rpc.serving.tools.completions import JournalCompletions
from zorivest_rpc.serving.tools.desktop import Command, Desktop, Machine
from zorivest_rpc.serving.tools.diagnostics import Diagnostics
from zorivest_rpc.serving.tools.discovery import Discovery
from zorivest_rpc.serving.tools.emergency import Emergency
from zorivest_rpc.serving.tools.kit import Kit
from zorivest_rpc.serving.tools.prompts import shelf
from zorivest_rpc.serving.tools.resources import Shelf
from zorivest_rpc.serving.tools.scheduling import Schedules
from zorivest_rpc.serving.tools.screenshots import Screenshots
from zorivest_rpc.serving.tools.service import Service
from zorivest_rpc.serving.tools.settings import LogSettings
from zorivest_rpc.serving.tools.tokens import Tokens

DEFINITIONS: Definitions = load()
SPECS = {spec.name: spec for spec in (*DEFINITIONS.tools, *DEFINITIONS.meta_tools)}
DOWN = BackendUnreachable("The backend cannot be reached.", next="Start it.")


def refused(status: int, text: str = "Refused.", code: str = "backend_error", **extra: Any) -> BackendError:
    return BackendError(status, text, code=code, **extra)


class FakeBackend:
    """`answers` maps "METHOD /path" to a value, a Reply, an exception, a list of them for one question after the
    other, or an async function of the question. What is not in the table goes to `otherwise`."""

    base_url = "http://backend.test/api/v1"
    inline_guard = False

    def __init__(self, answers: Mapping[str, Any] | None = None, otherwise: Any = DOWN) -> None:
        self.answers = dict(answers or {})
        self.otherwise = otherwise
        self.asked: list[Request] = []
        self.running = 0
        self.most_running = 0

    async def ask(self, request: Request) -> Reply:
        self.asked.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            found = self.answers.get(f"{request.method} {request.path}", self.otherwise)
            if isinstance(found, list) and found and isinstance(found[0], Reply | Exception | Turn):
                found = found.pop(0)
            if isinstance(found, Turn):
                found = found.value
            if callable(found):
                found = await found(request)
            if isinstance(found, Exception):
                raise found
            return found if isinstance(found, Reply) else Reply(200, found, dumps(found), "application/json", "r-1")
        finally:
            self.running -= 1

    def paths(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.asked]


class Turn:
    """One answer of several, where it is plain JSON."""

    def __init__(self, value: Any) -> None:
        self.value = value


async def never(request: Request) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


class Wire:
    """Notes what a handler tells its client."""

    def __init__(self) -> None:
        self.progress_token: int | str | None = 1
        self.cancelled = False
        self.meta: Meta | UnsetType = UNSET
        self.carries_questions = True
        self.notes: list[Any] = []

    def notify(self, method: str, params: bytes) -> None:
        self.notes.append((method, json.loads(params)))

    def hang_up(self) -> None:
        raise AssertionError


def make_call(name: str, /, **arguments: Any) -> Call:
    return Call(name, arguments, Session(phase=Phase.READY), Wire())


def kit(backend: Backend, **options: Any) -> Kit:
    if "desktop" in options:
        has_desktop = options.pop("desktop")
        options["desktop"] = lambda call: has_desktop
    return Kit(lambda call: backend, SPECS, **options)


def payload(outcome: Outcome) -> dict[str, Any]:
    """The object of a result; its text must be the same object."""
    assert isinstance(outcome.structured, dict)
    assert json.loads(outcome.content[0]["text"]) == outcome.structured
    return outcome.structured


def fits(tool: str, value: Any) -> None:
    """The result is what the tool's file promises."""
    import jsonschema

    schema = SPECS[tool].output_schema
    assert schema is not None
    jsonschema.validate(value, schema)


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Starts:
    """Notes commands instead of running them."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.commands: list[tuple[Command, bool]] = []
        self.failure = failure

    async def __call__(self, command: Command, wait: bool) -> None:
        self.commands.append((command, wait))
        if self.failure is not None:
            raise self.failure


def bare_machine(**facts: Any) -> Machine:
    """A Linux machine on which nothing is installed."""
    nothing: dict[str, Any] = {
        "system": "linux",
        "exists": lambda path: False,
        "which": lambda name: None,
        "server_directory": "/opt/zorivest-rpc",
    }
    return Machine(**{**nothing, **facts})


class Stage:
    """Every tool with logic of its own behind metrics, guard and confirmation, and a client in the same process."""

    # long: what `app` puts together, with a clock and a machine of the test
    def __init__(
        self,
        backend: FakeBackend,
        *,
        logs: str = "/nowhere/logs",
        on: Machine | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.backend, self.clock, self.starts = backend, Clock(), Starts()
        self.audience = Audience(DEFINITIONS, policy or Policy())
        self.metrics = Metrics(self.clock)
        tools = kit(backend)
        guard = GuardLayer(lambda call: backend)
        gated = {spec.name: spec for spec in DEFINITIONS.tools if spec.confirm}
        confirmation = Confirmation(gated, self.audience.asks_before, clock=self.clock)
        self.discovery = Discovery(
            self.audience, lambda session: self.offer.announce_change(TOOLS, session), self.handler
        )
        self.modules = (
            self.discovery,
            Diagnostics(
                tools,
                self.metrics.summary,
                self.metrics.uptime_minutes,
                self.audience.profile,
                version="1.2.3",
                runtime="Python 3.11",
            ),
            Service(tools, lambda call: logs, clock=self.clock, sleep=self.clock.sleep),
            Desktop(tools, on or bare_machine(), self.starts, page="https://example.test/releases/latest"),
            Emergency(tools, consent=confirmation.answer_to),
            LogSettings(tools),
            Screenshots(tools),
            AccountReview(tools, now=lambda: 1_780_000_000.0),
            Schedules(tools),
            Tokens(tools, confirmation.issue),
        )
        self._chains: dict[str, Handler] = {}
        by_python = self.by_python()
        for spec in SPECS.values():
            if spec.python is not None:
                layers: list[Middleware] = [self.metrics]
                layers += [guard.layer(spec)] if spec.guarded else []
                layers += [confirmation] if spec.confirm else []
                self._chains[spec.name] = chain(by_python[spec.python], *layers)
        self.offer = Offer(
            "test",
            "0",
            tools=self,
            prompts=shelf(),
            resources=Shelf(
                lambda call: backend,
                list_toolsets=self.handler("list_available_toolsets"),
                describe_toolset=self.handler("describe_toolset"),
                permit=guard.check,
                refusal=self.audience.refusal,
            ),
            complete=JournalCompletions(
                lambda session: backend, lambda: toolset_names(DEFINITIONS), self.audience.refusal, seconds=0.5
            ),
        )

    def by_python(self) -> dict[str, Handler]:
        found: dict[str, Handler] = {}
        for module in self.modules:
            for name, handler in module.handlers().items():
                assert name not in found, f"two handlers are named {name}"
                found[name] = handler
        return found

    def view(self, session: Session, headers: RequestHeaders | None = None) -> View:
        return self.audience.view(session)

    def handler(self, name: str) -> Handler:
        return self._chains[name]

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        return arguments, EVERYONE

    def refusal(self, session: Session, name: str, scope: Scope) -> ToolError | None:
        return self.audience.refusal(session, name)

    def report_mismatch(self, call: Call, more: int) -> None:
        return

    async def connect(self, name: str = "claude-code") -> Client:
        client = Client(MemoryClient(Server(self.offer)))
        await client.request(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": name, "version": "1.0"},
        )
        client.memory.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return client


class Client:
    def __init__(self, memory: MemoryClient) -> None:
        self.memory = memory
        self._last = 0

    async def request(self, method: str, /, **params: Any) -> dict[str, Any]:
        """The result, or the error, of one request; notifications on the way are passed over."""
        self._last += 1
        self.memory.send(dumps({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params}))
        async with asyncio.timeout(10):
            while True:
                answer: dict[str, Any] = json.loads(await self.memory.receive())
                if answer.get("id") == self._last:
                    return answer["result"] if "result" in answer else {"error": answer["error"]}

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return await self.request("tools/call", name=name, arguments=arguments)
