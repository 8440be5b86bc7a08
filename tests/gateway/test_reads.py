"""Prompts, resources and completions of a server in the telemetry: each request is told once, and ends once. What the
server says while it is read goes on to the client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import Fake, Seen, event, note
from tests.gateway.gate import CLIENTS, Gate, accept, faked, gate, in_front
from tests.gateway.test_forwarding import cut, hang, nonsense, refused, status
from zorivest_rpc.gateway.recorded import Recorder
from zorivest_rpc.mcp.call import Call, Outcome

CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}}
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
METHODS = ("prompts/get", "resources/read", "completion/complete")
LABELS = {"prompts/get": "up/prompts", "resources/read": "up/resources", "completion/complete": "up/completions"}
GOOD: dict[str, dict[str, Any]] = {
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]},
    "resources/read": {"contents": [{"uri": "notes:///a", "text": "Hi"}]},
    "completion/complete": {"completion": {"values": ["Hi"]}},
}
ODD: dict[str, dict[str, Any]] = {
    "prompts/get": {"messages": [{"role": "system", "content": {"type": "text", "text": "obey"}}]},
    "resources/read": {"contents": "words"},
    "completion/complete": {"completion": []},
}


def asked_of(seen: Seen) -> str:
    """What the client wants to happen, wherever its method lets it say so."""
    params = seen.params
    if seen.method == "prompts/get":
        return str(params["arguments"]["do"])
    return str(
        params["argument"]["value"] if seen.method == "completion/complete" else params["uri"].rpartition("/")[2]
    )


def params_for(method: str, kind: str) -> dict[str, Any]:
    if method == "prompts/get":
        return {"name": "up__greet", "arguments": {"do": kind}}
    if method == "resources/read":
        return {"uri": f"upstream:up:notes:///{kind}"}
    return {"ref": {"type": "ref/prompt", "name": "up__greet"}, "argument": {"name": "do", "value": kind}}


class Readable:
    """A legacy server that is read, and does what it is asked to."""

    def __init__(self) -> None:
        self.answers: dict[Any, asyncio.Queue[Any]] = {}
        self.kinds: dict[str, Callable[[Seen], Awaitable[web.StreamResponse]]] = {
            "cut": cut, "nonsense": nonsense, "refused": refused, "503": status(503), "hang": hang, "ask": self.ask,
            "odd": self.be_odd, "talk": self.talk,
        }  # fmt: skip
        self.fake = Fake("legacy", CAPABILITIES)
        self.fake.handlers |= dict.fromkeys(METHODS, self.read) | {"POST": self.hear}
        lists = {"prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "templates"}
        self.fake.handlers |= dict.fromkeys(lists, self.list)

    async def list(self, seen: Seen) -> web.StreamResponse:
        return seen.result(
            prompts=[{"name": "greet", "arguments": [{"name": "do"}]}],
            resources=[{"uri": "notes:///a", "name": "a"}],
            resourceTemplates=[],
        )

    async def read(self, seen: Seen) -> web.StreamResponse:
        kind = self.kinds.get(asked_of(seen))
        return seen.result(**GOOD[seen.method]) if kind is None else await kind(seen)

    async def be_odd(self, seen: Seen) -> web.StreamResponse:
        return seen.result(**ODD[seen.method])

    async def talk(self, seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        if token := seen.params.get("_meta", {}).get("progressToken"):
            await response.write(event(note("progress", progressToken=token, progress=1, total=2, message="half")))
        await response.write(event(note("message", level="warning", data="words", logger="deep")))
        await response.write(event({"jsonrpc": "2.0", "id": seen.id, "result": GOOD[seen.method]}))
        return response

    async def ask(self, seen: Seen) -> web.StreamResponse:
        mine = self.answers[f"q{seen.id}"] = asyncio.Queue()
        response = await seen.stream()
        question = {"jsonrpc": "2.0", "id": f"q{seen.id}", "method": "elicitation/create", "params": FORM}
        await response.write(event(question))
        await mine.get()
        await response.write(event({"jsonrpc": "2.0", "id": seen.id, "result": GOOD[seen.method]}))
        return response

    async def hear(self, seen: Seen) -> web.StreamResponse:
        self.answers[seen.message["id"]].put_nowait(seen.message)
        return web.Response(status=202)


def record(between: Gate) -> Recorder:
    """As the product does: the record begins around everything that a read passes."""
    recorder = Recorder(between.telemetry, between.seconds)

    async def behind(label: str, call: Call, work: Callable[[Call], Awaitable[Outcome]]) -> Outcome:
        return await recorder.wrap(label, lambda name: None, work)(call.dispatch(label, call.arguments))

    between.gateway.library.behind = behind
    return recorder


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("front", ["memory", "memory-modern"])
async def test_a_read_is_told_under_its_name_in_the_metrics(tmp_path: Path, front: str, recorded: bool) -> None:
    readable = Readable()
    async with faked(readable.fake) as server, gate(tmp_path, server) as between, in_front(front, between) as client:
        if recorded:
            record(between)
        for method in METHODS:
            await client.result(method, params_for(method, "good"))
        for method in METHODS[:2]:
            await client.error(method, params_for(method, "refused"))
        assert between.ends() == ["tool.succeeded"] * 3 + ["upstream_error"] * 2
        begun = [each for each in between.events() if each["event"] == "tool.requested"]
        assert [each["tool"] for each in begun] == [LABELS[method] for method in (*METHODS, *METHODS[:2])]
        assert {(each["provenance"], each["server"]) for each in begun} == {("upstream", "up")}
        done = [each for each in between.events() if each["event"] == "tool.succeeded"]
        assert [each["attempts"] for each in done] == [1, 1, 1]
        assert all(each["bytes"] > 10 for each in done)
        failed = [each for each in between.events() if each["event"] == "tool.failed"]
        assert {(each["class"], each["attempts"]) for each in failed} <= {("TOOLING", 0), ("TOOLING", 1)}
        assert "good" not in between.path.read_text(), "what was asked for is content"


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("front", CLIENTS)
async def test_what_a_server_says_while_it_is_read_goes_on(tmp_path: Path, front: str, method: str) -> None:
    readable = Readable()
    async with faked(readable.fake) as server, gate(tmp_path, server) as between, in_front(front, between) as client:
        meta: dict[str, Any] = {"progressToken": "p"}
        if client.modern:
            meta["io.modelcontextprotocol/logLevel"] = "info"
        id = await client.start(method, params_for(method, "talk"), **meta)
        assert "result" in await client.answer(id)
        progress = await client.note("notifications/progress")
        assert {key: progress["params"][key] for key in ("progressToken", "progress", "total", "message")} == {
            "progressToken": "p", "progress": 1, "total": 2, "message": "half",
        }  # fmt: skip
        said = (await client.note("notifications/message"))["params"]
        assert (said["level"], said["logger"], said["data"]) == ("warning", "up/deep", "words")


# long: the requests at random, the answers at random, and what became of them
@pytest.mark.parametrize("recorded", [True, False])
async def test_whatever_happens_each_read_that_was_requested_ends_once(tmp_path: Path, recorded: bool) -> None:
    dice, readable = random.Random(20_261_119), Readable()
    names = [
        *readable.kinds,
        *("refused", "odd") * 3,
        *("ask", "hang", "good", "talk") * 12,
    ]  # few enough failures for a closed circuit
    async with faked(readable.fake) as server, gate(tmp_path, server, seconds=0.5) as between:
        recorder = record(between) if recorded else None
        async with in_front("memory", between) as client, in_front("memory-modern", between) as modern:
            for _ in range(120):
                one, method, kind = dice.choice((client, modern)), dice.choice(METHODS), dice.choice(names)
                if method == "completion/complete" and kind in ("hang", "ask"):
                    kind = "good"  # a completion is waited for, and never asks
                id = await one.start(method, params_for(method, kind))
                if kind == "hang" or (kind == "ask" and dice.random() < 0.4):
                    await one.settle()
                    await one.cancel(id)
                elif kind == "ask" and one is modern:
                    await answer_at_times(one, id, method, params_for(method, kind), dice)
                elif kind != "ask":
                    await one.answer(id)
            for number in range(1, len(client.questions) + 1):
                if dice.random() < 0.7:
                    await client.reply(await client.question(number), dice.choice((accept(n=1), {"action": "cancel"})))
            await between.until_over()
        if recorder is not None:
            recorder.close()
        ends = between.ends()
    assert len(ends) - ends.count("input_lost") == 120, "an answer that is given again is another request"
    assert {"tool.succeeded", "cancelled", "upstream_error", "protocol", "input_timeout"} <= set(ends), set(ends)


async def answer_at_times(client: Any, id: Any, method: str, params: dict[str, Any], dice: random.Random) -> None:
    """The next round of a modern client, once, twice or never."""
    asked = (await client.answer(id)).get("result")
    if asked is None:  # an earlier round of the same second took all places, or the circuit is open
        return
    again = {
        **params, "requestState": asked["requestState"],
        "inputResponses": {key: accept(n=2) for key in asked["inputRequests"]},
    }  # fmt: skip
    for _ in range(dice.choice((0, 0, 1, 2))):
        await client.answer(await client.start(method, again))
