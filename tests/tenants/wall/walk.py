"""Random walks along the wall: many callers, tenants, eras and kinds of request at once, and a look at every answer.

`python -m tests.tenants.wall.walk 100000` takes that many steps; the tests take some thousand, on the wall as it is and
on walls from which one brick was taken."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.tenants.wall.stage import LEGACY, MODERN, Backends, Client, Desk, Served, access_rule, served
from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.server import Server

TENANTS = [f"tenant-{number:02}" for number in range(20)]
BOUNDED = "tenant-03"
KEYS = {
    "key-one": TENANTS[:4],
    "key-two": TENANTS[2:9],
    "key-three": TENANTS[8:12],
    "key-four": [TENANTS[15]],
    "key-all": TENANTS,
}
READS = ("list_trades", "get_settings", "list_bank_accounts", "get_round_trips", "list_brokers", "get_fee_breakdown")
SYNC = {"broker_id": "b"}
TASKS = "io.modelcontextprotocol/tasks"
ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}
DOES_TASKS: dict[str, Any] = {"extensions": {TASKS: {}}}
_NAME, _MARK = re.compile(r"tenant-\d\d"), re.compile(r"book-of-(tenant-\d\d)")


class Leak(AssertionError):
    """Something of one tenant where only another one's may be."""


class Expected:
    """What was asked for, by which the figures are judged at the end."""

    def __init__(self) -> None:
        self.steps = 0
        self.calls: Counter[str] = Counter()


def look(answer: Any, granted: list[str], about: str | None, what: str) -> str:
    """The whole of an answer: no name that was not granted, and no value of another tenant than the one named."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    strangers = set(_NAME.findall(text)) - set(granted)
    if strangers:
        raise Leak(f"{what}: {sorted(strangers)} were not granted: {text[:400]}")
    values = set(_MARK.findall(text)) - {about}
    if values:
        raise Leak(f"{what} for {about} carries {sorted(values)}: {text[:400]}")
    return text


def check(condition: object, what: str, answer: Any) -> None:
    if not condition:
        raise Leak(f"{what}: {json.dumps(answer)[:600]}")


def part(answer: Any, *path: str | int) -> Any:
    """What stands there in an answer; one without it is not the answer that its tenant would have got."""
    found = answer
    for step in path:
        there = step in found if isinstance(found, dict) else isinstance(step, int) and len(found) > step
        check(there, f"an answer without {step}", answer)
        found = found[step]
    return found


class Walker:
    """One caller; how its requests travel is its subclass's."""

    def __init__(self, granted: list[str], rng: random.Random, expected: Expected) -> None:
        self.granted = granted
        self.rng = rng
        self.expected = expected
        self.tokens: list[tuple[str, str]] = []
        self.states: list[tuple[str, dict[str, Any], str]] = []
        self.followed: set[str] = set()

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def pick(self) -> str:
        return self.rng.choice(self.granted)

    async def call(self, tool: str, tenant: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask("tools/call", {"name": tool, "arguments": {"clientId": tenant, **arguments}})
        look(answer, self.granted, tenant, tool)
        if "result" in answer and tenant in self.granted:
            given = answer["result"].get("_meta", {})
            check(given.get("com.zorivest/client", {}).get("id") == tenant, f"{tool} names another client", answer)
            receipt = given.get("com.zorivest/receipt")
            check(receipt is None or receipt.get("tenant") == tenant, f"{tool} has another's receipt", answer)
        return answer

    async def step(self) -> None:
        self.expected.steps += 1
        act = self.rng.choices(self._acts, self._weights)[0]
        await getattr(self, act)()

    _acts: tuple[str, ...] = (
        "read",
        "stranger",
        "token",
        "listing",
        "resource",
        "prompt",
        "completion",
        "sealed",
        "toolsets",
        "inner",
    )
    _weights: tuple[int, ...] = (30, 8, 8, 6, 10, 6, 8, 10, 6, 8)

    async def read(self) -> None:
        tenant = self.pick()
        tool = self.rng.choice(READS)
        answer = await self.call(tool, tenant)
        if tenant == BOUNDED:
            return
        self.expected.calls[tenant] += 1
        check(f"book-of-{tenant}." in json.dumps(answer), f"{tool} did not reach {tenant}", answer)

    async def stranger(self) -> None:
        others = [each for each in TENANTS if each not in self.granted] or ["nobody"]
        tenant = self.rng.choice(others)
        answer = await self.ask("tools/call", {"name": "list_trades", "arguments": {"clientId": tenant}})
        text = json.dumps(answer)
        look(text.replace(f'ID: \\"{tenant}\\"', ""), self.granted, None, "a stranger's name")
        code = part(answer, "result", "_meta", "com.zorivest/error", "code")
        check(code == "client_unknown", "a stranger is known", answer)

    async def token(self) -> None:
        if self.tokens and self.rng.random() < 0.6:
            owner, token = self.tokens.pop()
            tenant = self.pick()
            answer = await self.call("sync_broker", tenant, **SYNC, confirmation_token=token)
            result = part(answer, "result")
            code = result.get("_meta", {}).get("com.zorivest/error", {}).get("code", "")
            asked_first = result.get("resultType") == "input_required"
            refused = asked_first or code == "guard_blocked" or code.startswith("confirmation_")
            if tenant != owner:
                check(refused or BOUNDED in (tenant, owner), f"a token of {owner} opened {tenant}", answer)
            return
        tenant = self.pick()
        asked = {"action": "sync_broker", "params_summary": "x"}
        answer = await self.call("get_confirmation_token", tenant, **asked)
        if not part(answer, "result").get("isError"):
            self.tokens.append((tenant, part(answer, "result", "structuredContent", "token")))
            told = part(answer, "result", "structuredContent", "instruction")
            check(tenant in told, "the instruction is another's", answer)

    async def listing(self) -> None:
        method = self.rng.choice(("tools/list", "resources/list", "resources/templates/list", "prompts/list"))
        answer = await self.ask(method, {})
        look(answer, self.granted, None, method)
        if method == "tools/list":
            enum = part(answer, "result", "tools", 0, "inputSchema", "properties", "clientId", "enum")
            check(enum == self.granted, "a list of another caller", answer)

    async def resource(self) -> None:
        tenant = self.rng.choice(TENANTS)
        kind = self.rng.choice(("zorivest://guard", "pipeline://policies/schema", "zorivest://toolsets"))
        uri = f"{kind}?clientId={tenant}"
        answer = await self.ask("resources/read", {"uri": uri})
        if tenant in self.granted:
            look(answer, self.granted, tenant, uri)
            if kind.startswith("pipeline") and tenant != BOUNDED:
                check(f"book-of-{tenant}." in json.dumps(answer), f"{uri} did not reach {tenant}", answer)
        else:
            check(answer.get("error", {}).get("code") == -32602, f"{uri} was read", answer)
            look(json.dumps(answer).replace(f'ID: \\"{tenant}\\"', ""), self.granted, None, uri)

    async def prompt(self) -> None:
        tenant = self.pick()
        answer = await self.ask("prompts/get", {"name": "weekly_review", "arguments": {"clientId": tenant}})
        look(answer, self.granted, tenant, "a prompt")
        check(
            _NAME.findall(json.dumps(part(answer, "result", "messages"))) == [tenant], "a prompt names another", answer
        )

    async def completion(self) -> None:
        tenant = self.rng.choice(TENANTS)
        ref = {"type": "ref/prompt", "name": "trade_post_mortem"}
        name = self.rng.choice(("exec_id", "clientId"))
        context = {"arguments": {"clientId": tenant}}
        params = {"ref": ref, "argument": {"name": name, "value": ""}, "context": context}
        answer = await self.ask("completion/complete", params)
        look(answer, self.granted, tenant if tenant in self.granted else None, "a completion")

    async def toolsets(self) -> None:
        tenant = self.pick()
        answer = await self.call("list_available_toolsets", tenant)
        names = [entry["name"] for entry in part(answer, "result", "structuredContent", "toolsets")]
        check((names == ["core", "discovery", "tax"]) is (tenant == BOUNDED), "another's toolsets", answer)

    async def inner(self) -> None:
        outer, inside = self.pick(), self.pick()
        wanted = {"name": "list_trades", "arguments": {"clientId": inside}}
        answer = await self.call("call_tool", outer, **wanted)
        if inside != outer:
            code = part(answer, "result", "_meta").get("com.zorivest/error", {}).get("code")
            check(code == "client_conflict", f"a call for {outer} went on for {inside}", answer)
        elif outer != BOUNDED:
            self.expected.calls[outer] += 1

    async def sealed(self) -> None:
        """Only the modern era seals what a client brings back."""


class OverMemory(Walker):
    """As over stdio, where every tenant is granted; in the modern era with questions and sealed answers."""

    _acts = (*Walker._acts, "cancelled", "subscription", "brake", "task")
    _weights = (*Walker._weights, 8, 4, 2, 6)

    def __init__(self, client: Client, rng: random.Random, expected: Expected, backends: Backends) -> None:
        super().__init__(TENANTS, rng, expected)
        self.client = client
        self.backends = backends

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self.client.request(method, params)
        notes, self.client.notes = self.client.notes, []
        for note in notes:
            look(note, self.granted, None, "a notification")
            if note["method"] == "notifications/resources/updated":
                check(note["params"]["uri"] in self.followed, "an update of what is not followed", note)
        if answer.get("result", {}).get("resultType") == "task":
            return await self._finish(answer["result"]["taskId"])
        return answer

    async def _finish(self, id: str) -> dict[str, Any]:
        """The answer of a task, which has outlived its request: a result, or the error with which it failed."""
        for _ in range(10_000):
            now = part(await self.client.request("tasks/get", {"taskId": id}), "result")
            if now["status"] != "working":
                return {name: now[name] for name in ("result", "error") if name in now}
        raise AssertionError("a task does not end")

    async def listing(self) -> None:
        answer = await self.ask("tools/list", {})
        check(part(answer, "result", "tools"), "an empty list", answer)

    async def cancelled(self) -> None:
        params = {"name": self.rng.choice(READS), "arguments": {"clientId": self.pick()}}
        id, waiting = self.client.start("tools/call", params)
        await asyncio.sleep(0)
        self.client.cancel(id)
        waiting.cancel()

    async def subscription(self) -> None:
        if self.client.revision == MODERN:
            return
        uri = f"zorivest://guard?clientId={self.pick()}"
        method = "resources/unsubscribe" if uri in self.followed else "resources/subscribe"
        self.followed.add(uri)  # what is on its way when it ends may still come
        answer = await self.ask(method, {"uri": uri})
        check("result" in answer, method, answer)

    async def task(self) -> None:
        """Work that outlives its request is still its tenant's."""
        if TASKS not in self.client.able.get("extensions", {}):
            return
        tenant = self.pick()
        answer = await self.call("simulate_drawdown", tenant)
        if tenant != BOUNDED:
            check(f"book-of-{tenant}." in json.dumps(answer), f"a task did not reach {tenant}", answer)

    async def brake(self) -> None:
        """A lock that nobody waits for: the guard's subscribers may hear of it, and of no other."""
        tenant = self.pick()
        self.backends.locked.add(tenant)
        answer = await self.call("list_trades", tenant)
        self.backends.locked.discard(tenant)
        if not part(answer, "result").get("isError"):  # another walker released it meanwhile
            self.expected.calls[tenant] += 1

    async def sealed(self) -> None:
        if self.client.revision != MODERN:
            return
        if self.states and self.rng.random() < 0.6:
            owner, answers, state = self.states.pop()
            tenant = self.pick()
            arguments = {"clientId": tenant, **SYNC}
            params = {"name": "sync_broker", "arguments": arguments, "inputResponses": answers, "requestState": state}
            answer = await self.ask("tools/call", params)
            look(answer, self.granted, tenant, "a sealed answer")
            if tenant != owner:
                held = "error" in answer or BOUNDED in (tenant, owner)
                check(held, f"an answer given for {owner} was taken for {tenant}", answer)
            return
        tenant = self.pick()
        answer = await self.call("sync_broker", tenant, **SYNC)
        result = answer.get("result", {})
        if result.get("resultType") == "input_required":
            ((key, question),) = result["inputRequests"].items()
            check(tenant in question["params"]["message"], "a question names another client", answer)
            yes = {key: {"action": "accept", "content": {"confirm": True}}}
            self.states.append((tenant, yes, result["requestState"]))


class OverHttp(Walker):
    """An access key, in both eras by turns, with a session that is its own."""

    _acts = (*Walker._acts, "session", "figures", "header")
    _weights = (*Walker._weights, 5, 2, 8)

    def __init__(
        self, desk: Desk, granted: list[str], others: list[Desk], rng: random.Random, expected: Expected
    ) -> None:
        super().__init__(granted, rng, expected)
        self.desk = desk
        self.others = others
        self.id = ""

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if self.rng.random() < 0.5:
            return (await self.desk.modern(method, params))[1]  # type: ignore[no-any-return]
        if not self.id:
            self.id = await self.desk.open()
        headers = {"Mcp_Session_Id": self.id, "MCP_Protocol_Version": LEGACY}
        return (await self.desk.post(method, params, **headers))[1]  # type: ignore[no-any-return]

    async def listing(self) -> None:
        if len(self.granted) == len(TENANTS):
            return
        await super().listing()

    async def token(self) -> None:
        """A token belongs to a session where there is one, so its call is made in the same era."""
        state = self.rng
        self.rng = _Always(state, 0.0)
        try:
            await super().token()
        finally:
            self.rng = state

    async def session(self) -> None:
        if not self.id:
            return
        other = self.rng.choice(self.others)
        status, answer, _ = await other.post("tools/list", {}, Mcp_Session_Id=self.id, MCP_Protocol_Version=LEGACY)
        check(status == 404 or other.key == self.desk.key, "a session served another key", answer)

    async def figures(self) -> None:
        url = self.desk.url.replace("/mcp", "/metrics")
        async with self.desk.http.get(url, headers={"Authorization": f"Bearer {self.desk.key}"}) as answer:
            look(await answer.text(), self.granted, None, "/metrics")

    async def header(self) -> None:
        tenant = self.pick()
        result = await self.desk.call("list_trades", {}, X_Client_ID=tenant)
        look(result, self.granted, tenant, "a call by header")
        if tenant != BOUNDED:
            self.expected.calls[tenant] += 1


class _Always(random.Random):
    """The choices of another generator, but for `random`, which decides the era."""

    def __init__(self, other: random.Random, value: float) -> None:
        super().__init__(other.random())
        self._value = value

    def random(self) -> float:
        return self._value


def check_figures(place: Served, expected: Expected) -> None:
    """As many calls are counted for each tenant as were made for it."""
    text = place.journal.pipeline().metrics.prometheus(TENANTS)
    counted = Counter[str]()
    for tenant, number in re.findall(r'calls_total\{tool="[^"]+",tenant="([^"]+)"\} (\d+)', text):
        counted[tenant] += int(number)
    for tenant, number in expected.calls.items():
        check(counted[tenant] >= number, f"{counted[tenant]} calls of {tenant} counted", number)
    for tenant in TENANTS:
        own = place.backends.seen[tenant]
        check({each.client for each in own} <= {f"header-{tenant}"}, "another's header", tenant)


async def walk(patch: pytest.MonkeyPatch, data: str, steps: int, seed: int) -> Expected:
    rules = [access_rule(key, "*" if key == "key-all" else ids, key) for key, ids in KEYS.items()]
    expected, rng = Expected(), random.Random(seed)
    limits: dict[str, Any] = {BOUNDED: {"toolsets": ["tax"]}}
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(served(patch, data, TENANTS, access=rules, **limits))
        tenancy = place.journal.tenancy
        assert tenancy is not None
        # the same journal as a process over stdio has it: a caller without a key, to whom all is granted
        tenancy.resolver._grants[""] = tenancy.resolver.grants(tenancy.resolver.find_principal("key-all") or "")
        server = Server(place.journal.offer, limits=Limits(per_client=10_000, per_server=10_000))
        walkers: list[Walker] = []
        for revision, able in ((LEGACY, {}), (MODERN, ELICITS), (LEGACY, {}), (MODERN, DOES_TASKS)):
            client = Client(server, revision, able)
            await client.open()
            stack.push_async_callback(client.close)
            walkers.append(OverMemory(client, random.Random(rng.random()), expected, place.backends))
        desks = [place.desk(key) for key in KEYS]
        for key, ids in KEYS.items():
            walkers += [OverHttp(place.desk(key), ids, desks, random.Random(rng.random()), expected) for _ in range(2)]
        each = steps // len(walkers) + 1

        async def go(walker: Walker) -> None:
            for _ in range(each):
                await walker.step()

        async with asyncio.TaskGroup() as group:
            for walker in walkers:
                group.create_task(go(walker))
        check_figures(place, expected)
        await server.stop(list(server.conversations), 0)
    return expected


def main() -> None:
    logging.disable(logging.CRITICAL)  # the answers of these backends fit no schema, and each says so
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)
    began = time.perf_counter()
    print(f"{steps} steps along the wall between {len(TENANTS)} tenants, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as data, pytest.MonkeyPatch.context() as patch:
        done = asyncio.run(walk(patch, data, steps, seed))
    print(f"{done.steps} steps in {time.perf_counter() - began:.0f} s: nothing of one tenant reached another")


if __name__ == "__main__":
    main()
