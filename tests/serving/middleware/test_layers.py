"""The layers together: their order, their races, and what a client sees of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.serving.middleware.fake import FakeBackend, Ran, make_call
from zorivest_rpc.errors import BackendUnreachable, ConfirmationRequired, GuardLocked
from zorivest_rpc.mcp.call import Handler, InputRequired
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.offer import Offer, ToolShelf
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient
from zorivest_rpc.serving.backend.interface import NotInline, Reply, Request
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.middleware.confirmation import Confirmation
from zorivest_rpc.serving.middleware.guard import GuardLayer
from zorivest_rpc.serving.middleware.layers import build_chain
from zorivest_rpc.serving.middleware.metrics import Metrics
from zorivest_rpc.serving.tools.rest import rest_handler

Specs = Mapping[str, ToolSpec]
TRADE: dict[str, Any] = {
    "exec_id": "T1",
    "instrument": "QQQ",
    "action": "SLD",
    "quantity": 25,
    "price": 5,
    "account_id": "A",
}
TYPED = {"instrument": "QQQ", "quantity": 25}
CHECK, STATUS, ISSUE = "/mcp-guard/check", "/mcp-guard/status", "/confirmation-tokens"


class LockingBackend(FakeBackend):
    """A backend with a guard of its own, that decides at the moment a request arrives."""

    def __init__(self, *, inline: bool) -> None:
        super().__init__(inline=inline)
        self.locked = False
        self.done: list[tuple[str, bool]] = []

    async def ask(self, request: Request) -> Reply:
        path, guard = request.path, request.guard
        if guard and not self.inline:
            raise NotInline
        if path == STATUS:
            self.answers[f"GET {STATUS}"] = {"is_locked": self.locked, "lock_reason": "manual"}
        if path == CHECK:
            self.answers[f"POST {CHECK}"] = {"allowed": not self.locked, "reason": "manual" if self.locked else "ok"}
        if guard and self.locked:
            raise GuardLocked("manual")
        reply = await super().ask(request)
        if path not in (STATUS, CHECK, ISSUE):
            self.done.append((path, self.locked))
        await asyncio.sleep(0)
        return reply


class Tools:
    """Some tools of the catalogue in their full chains."""

    def __init__(self, specs: Specs, backend: FakeBackend, *, asks: bool = True) -> None:
        self.specs = specs
        self.backend = backend
        self.metrics = Metrics()
        self.guard = GuardLayer(lambda call: backend)
        gated = {spec.name: spec for spec in specs.values() if spec.confirm}
        self.confirmation = Confirmation(gated, lambda call: asks)

    def __getitem__(self, name: str) -> Handler:
        spec = self.specs[name]
        return build_chain(
            spec,
            rest_handler(spec, lambda call: self.backend),
            metrics=self.metrics,
            guard=self.guard,
            confirmation=self.confirmation,
            travelling=rest_handler(spec, lambda call: self.backend, guard=True),
        )

    async def token(self) -> str:
        call = make_call("get_confirmation_token", action="create_trade", params_summary="x", arguments=TRADE)
        self.backend.answers[f"POST {ISSUE}"] = {"token": f"ctk_{len(self.backend.asked)}"}
        token: str = (await self.confirmation.issue(call, self.backend))["token"]
        return token


@pytest.mark.parametrize("inline", [False, True])
async def test_a_guarded_call_asks_the_guard_once(specs: Specs, inline: bool) -> None:
    backend = LockingBackend(inline=inline)
    await Tools(specs, backend)["list_trades"](make_call("list_trades"))
    assert [asked.path for asked in backend.asked] == (["/trades"] if inline else [CHECK, "/trades"])
    assert backend.asked[-1].guard is inline


@pytest.mark.parametrize("inline", [False, True])
async def test_a_gated_call_is_counted_once_before_the_question_and_looked_at_once_after(
    specs: Specs, inline: bool
) -> None:
    backend = LockingBackend(inline=inline)
    tools = Tools(specs, backend)
    call = make_call("create_trade", elicits=True, **TRADE)
    with pytest.raises(InputRequired) as asked:
        await tools["create_trade"](call)
    assert [each.path for each in backend.asked] == [CHECK]
    call.answers = {key: {"action": "accept", "content": TYPED} for key in asked.value.asks}
    await tools["create_trade"](call)
    assert [each.path for each in backend.asked[1:]] == [STATUS, "/trades"]
    assert tools.metrics.summary()["total_tool_calls"] == 1


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("given", [None, "unknown"])
async def test_every_call_that_the_gate_refuses_was_counted(specs: Specs, inline: bool, given: str | None) -> None:
    backend = LockingBackend(inline=inline)
    tools = Tools(specs, backend)
    token: dict[str, Any] = {} if given is None else {"confirmation_token": given}
    for counted in range(1, 9):
        with pytest.raises(ConfirmationRequired):
            await tools["create_trade"](make_call("create_trade", **TRADE, **token))
        assert [each.path for each in backend.asked] == [CHECK] * counted


@pytest.mark.parametrize("inline", [False, True])
async def test_a_gated_tool_for_a_client_that_is_not_asked_costs_no_request_of_its_own(
    specs: Specs, inline: bool
) -> None:
    backend = LockingBackend(inline=inline)
    await Tools(specs, backend, asks=False)["create_trade"](make_call("create_trade", **TRADE, confirmation_token="x"))
    assert [each.path for each in backend.asked] == (["/trades"] if inline else [CHECK, "/trades"])
    assert "confirmation_token" not in backend.asked[-1].body


@pytest.mark.parametrize("reason", ["manual", "rate_limit_exceeded"])
async def test_a_token_is_spent_only_by_a_call_that_the_guard_let_through(specs: Specs, reason: str) -> None:
    backend = FakeBackend()
    tools = Tools(specs, backend)
    token = await tools.token()
    call = {**TRADE, "confirmation_token": token}
    backend.answers[f"POST {CHECK}"] = {"allowed": False, "reason": reason}
    for _ in range(3):
        with pytest.raises(GuardLocked, match=reason):
            await tools["create_trade"](make_call("create_trade", **call))
    backend.answers[f"POST {CHECK}"] = {"allowed": True, "reason": "ok"}
    await tools["create_trade"](make_call("create_trade", **call))
    with pytest.raises(ConfirmationRequired, match="used"):
        await tools["create_trade"](make_call("create_trade", **call))
    assert backend.count("/trades") == 1


@pytest.mark.parametrize("inline", [False, True])
async def test_a_lock_refuses_before_a_token_is_spent(specs: Specs, inline: bool) -> None:
    backend = LockingBackend(inline=inline)
    tools = Tools(specs, backend)
    token = await tools.token()
    backend.locked = True
    with pytest.raises(GuardLocked):
        await tools["create_trade"](make_call("create_trade", **TRADE, confirmation_token=token))
    backend.locked = False
    await tools["create_trade"](make_call("create_trade", **TRADE, confirmation_token=token))
    assert backend.done == [("/trades", False)]


@pytest.mark.parametrize("inline", [False, True])
async def test_a_lock_that_comes_while_the_user_thinks_is_not_missed(specs: Specs, inline: bool) -> None:
    backend = LockingBackend(inline=inline)
    tools = Tools(specs, backend)
    call = make_call("create_trade", elicits=True, **TRADE)
    with pytest.raises(InputRequired) as asked:
        await tools["create_trade"](call)
    backend.locked = True
    call.answers = {key: {"action": "accept", "content": TYPED} for key in asked.value.asks}
    with pytest.raises(GuardLocked):
        await tools["create_trade"](call)
    assert backend.done == []


@pytest.mark.parametrize("locked_after", range(1, 40))
async def test_where_the_question_travels_no_call_is_done_once_the_guard_is_locked(
    specs: Specs, locked_after: int
) -> None:
    """The lock falls at every possible moment of many calls, gated and not."""
    backend = LockingBackend(inline=True)
    tools = Tools(specs, backend, asks=False)
    calls = [tools["list_trades"](make_call("list_trades")) for _ in range(5)]
    calls += [tools["create_trade"](make_call("create_trade", **TRADE)) for _ in range(5)]

    async def lock() -> None:
        for _ in range(locked_after):
            await asyncio.sleep(0)
        backend.locked = True

    await asyncio.gather(lock(), *calls, return_exceptions=True)
    assert not [path for path, locked in backend.done if locked]


async def test_two_calls_with_one_token_are_one_call(specs: Specs) -> None:
    backend = LockingBackend(inline=True)
    tools = Tools(specs, backend)
    token = await tools.token()
    calls = (tools["create_trade"](make_call("create_trade", **TRADE, confirmation_token=token)) for _ in range(5))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(result, ConfirmationRequired) for result in results) == 4
    assert len(backend.done) == 1


async def test_an_unguarded_tool_runs_while_everything_is_locked_or_away(specs: Specs) -> None:
    backend = FakeBackend({f"POST {CHECK}": BackendUnreachable("away"), f"GET {STATUS}": BackendUnreachable("away")})
    tools, ran = Tools(specs, backend, asks=False), Ran()
    for name in ("zorivest_diagnose", "zorivest_emergency_stop", "zorivest_emergency_unlock", "zorivest_launch_gui"):
        kept = {"metrics": tools.metrics, "guard": tools.guard, "confirmation": tools.confirmation}
        await build_chain(specs[name], ran, **kept)(make_call(name))  # type: ignore[arg-type]
    assert ran.times == 4
    assert tools.metrics.summary()["total_tool_calls"] == 4
    assert backend.asked == []


# --- as a client sees it


class Client:
    """One session with a server of two tools, by hand."""

    def __init__(self, tools: Tools, capabilities: dict[str, Any]) -> None:
        shelf = ToolShelf()
        for name in ("list_trades", "create_trade"):
            spec = tools.specs[name]
            shelf.add(Tool(name, spec.description.minimal, spec.input_schema), tools[name])
        self.memory = MemoryClient(Server(Offer("test", "1", tools=shelf)))
        self.capabilities = capabilities

    async def request(self, method: str, params: dict[str, Any], id: int = 1) -> dict[str, Any]:
        self.memory.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
        return await self.next()

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(5):
            frame: dict[str, Any] = json.loads(await self.memory.receive())
        return frame

    async def open(self) -> None:
        given = {"protocolVersion": "2025-06-18", "capabilities": self.capabilities}
        await self.request("initialize", {**given, "clientInfo": {"name": "t", "version": "1"}})
        self.memory.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = (await self.request("tools/call", {"name": name, "arguments": arguments}))["result"]
        return result


@pytest.fixture
def backend() -> LockingBackend:
    return LockingBackend(inline=True)


async def connected(specs: Specs, backend: FakeBackend, **capabilities: Any) -> tuple[Client, Tools]:
    tools = Tools(specs, backend)
    client = Client(tools, capabilities)
    await client.open()
    return client, tools


async def test_a_blocked_call_is_an_error_result_with_the_phrase(specs: Specs, backend: LockingBackend) -> None:
    client, tools = await connected(specs, backend)
    backend.locked = True
    result = await client.call("list_trades")
    assert result["isError"] is True
    assert "MCP guard blocked" in result["content"][0]["text"]
    assert result["_meta"]["com.zorivest/error"]["code"] == "guard_blocked"
    assert tools.metrics.summary()["overall_error_rate"] == 1


async def test_a_client_without_forms_goes_through_the_token(specs: Specs, backend: LockingBackend) -> None:
    client, tools = await connected(specs, backend)
    refused = await client.call("create_trade", **TRADE)
    assert (refused["isError"], refused["_meta"]["com.zorivest/error"]["code"]) == (True, "confirmation_missing")
    done = await client.call("create_trade", **TRADE, confirmation_token=await tools.token())
    assert "isError" not in done
    assert done["_meta"]["com.zorivest/receipt"]["changed"] == "POST /trades"


@pytest.mark.parametrize(("action", "runs"), [("accept", 1), ("decline", 0)])
async def test_a_client_with_forms_is_asked(specs: Specs, backend: LockingBackend, action: str, runs: int) -> None:
    client, tools = await connected(specs, backend, elicitation={})
    question = await client.request("tools/call", {"name": "create_trade", "arguments": TRADE}, 7)
    assert question["method"] == "elicitation/create"
    reply = {"action": action} | ({"content": TYPED} if action == "accept" else {})
    client.memory.send(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": reply}).encode())
    answer = await client.next()
    assert (answer["id"], answer["result"].get("isError", False)) == (7, not runs)
    assert len(backend.done) == runs
    assert tools.metrics.summary()["total_tool_calls"] == 1


MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}


async def test_a_client_of_the_modern_era_is_asked_and_its_yes_serves_one_call(
    specs: Specs, backend: LockingBackend
) -> None:
    tools = Tools(specs, backend)
    client = Client(tools, {})
    params: dict[str, Any] = {"name": "create_trade", "arguments": TRADE, "_meta": MODERN}
    asked = (await client.request("tools/call", params))["result"]
    assert (asked["resultType"], tools.metrics.summary()["total_tool_calls"]) == ("input_required", 0)
    yes = {key: {"action": "accept", "content": TYPED} for key in asked["inputRequests"]}
    params |= {"inputResponses": yes, "requestState": asked["requestState"]}
    done = (await client.request("tools/call", params, 2))["result"]
    assert done["structuredContent"] == {"ok": True}
    repeated = (await client.request("tools/call", params, 3))["result"]
    assert repeated["_meta"]["com.zorivest/error"]["code"] == "confirmation_used"
    assert len(backend.done) == 1
