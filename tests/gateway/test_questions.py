"""Forms of an upstream in front of the user of our client: every pairing of eras, and everything that can go wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import Fake, Noted, Seen, done, event
from tests.gateway.gate import (
    CLIENTS,
    UPSTREAMS,
    accept,
    answered,
    asked_for,
    faked,
    gate,
    in_front,
    upstream,
    words_of,
)
from zorivest_rpc.gateway.questions import MOST_PARKED

FIELDS = {"branch": {"type": "string", "default": "main"}, "count": {"type": "integer"}}


def form(message: str = "Which?", **fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields or FIELDS, "required": list(fields or FIELDS)}
    return {"message": message, "requestedSchema": schema}


@pytest.mark.parametrize("behind", UPSTREAMS)
@pytest.mark.parametrize("front", CLIENTS)
async def test_a_form_reaches_the_user_and_the_answer_the_server(tmp_path: Path, front: str, behind: str) -> None:
    async with upstream(behind, tmp_path) as server, gate(tmp_path, server) as between:
        async with in_front(front, between) as client:
            result, asked = await answered(client, "up__ask_name", {}, accept(name="Ada"))
            assert words_of(result) == "hello Ada"
            assert [params["message"].startswith("[up] ") for params in asked] == [True]
            declined, _ = await answered(client, "up__ask_name", {}, {"action": "decline"})
            assert "Ada" not in words_of(declined)
        assert between.ends() == ["tool.succeeded"] * 2


@pytest.mark.parametrize("behind", ["http-legacy", "http-modern"])
@pytest.mark.parametrize("front", ["memory", "memory-modern"])
async def test_who_cannot_be_asked_is_not(tmp_path: Path, front: str, behind: str) -> None:
    async with upstream(behind, tmp_path) as server, gate(tmp_path, server) as between:
        async with in_front(front, between, capabilities={"roots": {}}) as client:
            result = await client.call("up__ask_name")
            assert client.questions == []
        if behind == "http-modern":
            assert result["isError"]
            assert "asks for interactive input" in words_of(result)


async def test_a_client_that_takes_no_stream_of_events_is_not_asked(tmp_path: Path) -> None:
    asking = Asking(form())
    async with (
        faked(asking.fake) as server,
        gate(tmp_path, server) as between,
        in_front("streamable", between) as client,
    ):
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "up__echo", "arguments": {}}}
        await client.send(message, {"Accept": "application/json"})
        result = (await client.answer(7))["result"]
    assert json.loads(words_of(result)) == [{"action": "cancel"}]
    assert client.questions == []


# --- legacy upstreams: the call waits


class Asking:
    """A legacy server that asks while it works, and gives back what it was answered."""

    def __init__(self, *questions: Any) -> None:
        self.questions = questions
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.heard = Noted()
        self.fake = Fake("legacy", tools_call=self.call)
        self.fake.handlers["POST"] = self.hear
        self.fake.handlers["notifications/cancelled"] = self.hear

    async def hear(self, seen: Seen) -> web.StreamResponse:
        self.heard.append(seen.message)
        if "result" in seen.message:
            self.answers.put_nowait(seen.message["result"])
        return web.Response(status=202)

    async def call(self, seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        got = []
        for number, params in enumerate(self.questions):
            question = {"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create", "params": params}
            await response.write(event(question))
            got.append(await self.answers.get())
        await response.write(event(done(json.dumps(got))(seen)))
        return response


@pytest.mark.parametrize("front", ["memory", "memory-modern"])
async def test_each_question_of_a_call_is_asked_in_its_turn_and_defaults_are_filled_in(
    tmp_path: Path, front: str
) -> None:
    asking = Asking(form("One?"), form("Two?", ok={"type": "boolean"}))
    async with faked(asking.fake) as server, gate(tmp_path, server) as between, in_front(front, between) as client:
        result, asked = await answered(client, "up__echo", {}, accept(count=2), accept(ok=True))
    assert [params["message"] for params in asked] == ["[up] One?", "[up] Two?"]
    assert json.loads(words_of(result)) == [accept(count=2, branch="main"), accept(ok=True)]
    assert len(asking.fake.of("tools/call")) == 1
    assert between.ends() == ["tool.succeeded"]


@pytest.mark.parametrize("front", ["memory", "memory-modern"])
async def test_a_form_for_a_secret_is_never_shown(tmp_path: Path, front: str) -> None:
    asking = Asking(form("Log in", password={"type": "string"}), form("Next", card={"type": "string"}))
    async with faked(asking.fake) as server, gate(tmp_path, server) as between, in_front(front, between) as client:
        result, asked = await answered(client, "up__echo", {})
    assert asked == []
    assert json.loads(words_of(result)) == [{"action": "cancel"}] * 2


async def test_a_cancelled_call_withdraws_the_form_and_the_call(tmp_path: Path) -> None:
    asking = Asking(form())
    async with faked(asking.fake) as server, gate(tmp_path, server) as between:
        async with in_front("memory", between) as client:
            id = await client.start_call("up__echo")
            question = await client.question()
            await client.cancel(id)
            withdrawn = await client.note("notifications/cancelled")
            assert withdrawn["params"]["requestId"] == question["id"]
            await asking.heard.reach(2)
        told = {message.get("method", "answer"): message for message in asking.heard}
        assert told["answer"]["result"] == {"action": "cancel"}
        assert told["notifications/cancelled"]["params"]["requestId"] == asking.fake.of("tools/call")[0].id
        assert between.ends() == ["cancelled"]


async def test_a_client_that_refuses_to_ask_ends_the_call(tmp_path: Path) -> None:
    asking = Asking(form())
    async with faked(asking.fake) as server, gate(tmp_path, server) as between, in_front("memory", between) as client:
        id = await client.start_call("up__echo")
        await client.reply(await client.question(), error={"code": -1, "message": "not now"})
        result = (await client.answer(id))["result"]
        assert result["isError"]
        assert "refused to ask: not now" in words_of(result)
        await asking.heard.reach(2)
        assert between.ends() == ["cancelled"]


# --- legacy upstreams and modern clients: the parked call


async def ask_once(client: Any, **arguments: Any) -> tuple[dict[str, Any], str]:
    """The params of the next round, without its answer, and the name of the question."""
    params = {"name": "up__echo", "arguments": arguments}
    first = await client.result("tools/call", params)
    assert first["resultType"] == "input_required"
    [name] = first["inputRequests"]
    return {**params, "requestState": first["requestState"]}, name


async def test_a_parked_call_is_found_by_its_state_alone_and_only_once(tmp_path: Path) -> None:
    asking = Asking(form())
    async with faked(asking.fake) as server, gate(tmp_path, server) as between:
        async with in_front("memory-modern", between) as client:
            again, name = await ask_once(client, text="x")
            responses = {name: accept(count=1)}
            for wrong in (
                {**again, "requestState": again["requestState"][:-2] + "00"},
                {**again, "arguments": {"text": "y"}},
            ):
                error = await client.error("tools/call", {**wrong, "inputResponses": responses})
                assert error["code"] == -32602
            unfit = await client.error("tools/call", {**again, "inputResponses": {name: accept(count="many")}})
            assert "does not fit the form" in unfit["message"]
            result = await client.result("tools/call", {**again, "inputResponses": responses})
            assert json.loads(words_of(result)) == [accept(count=1, branch="main")]
            lost = await client.result("tools/call", {**again, "inputResponses": responses})
        assert lost["isError"]
        assert "may still have taken effect" in words_of(lost)
        assert len(asking.fake.of("tools/call")) == 1
        assert between.ends() == ["tool.succeeded", "input_lost"]


async def test_a_parked_call_that_nobody_answers_is_withdrawn(tmp_path: Path) -> None:
    asking = Asking(form())
    async with faked(asking.fake) as server, gate(tmp_path, server, seconds=0.05) as between:
        async with in_front("memory-modern", between) as client:
            await ask_once(client)
            await asking.heard.reach(2)
        assert {message.get("method", "answer") for message in asking.heard} == {"answer", "notifications/cancelled"}
        assert between.ends() == ["input_timeout"]


async def test_a_parked_call_whose_next_round_is_cancelled_is_withdrawn(tmp_path: Path) -> None:
    asking = Asking(form("One?"), form("Password?", password={"type": "string"}))
    hold = asyncio.Event()
    answer = asking.hear

    async def slow(seen: Seen) -> web.StreamResponse:
        if seen.message.get("id") == "q1":
            await hold.wait()
        return await answer(seen)

    asking.fake.handlers["POST"] = slow
    async with faked(asking.fake) as server, gate(tmp_path, server) as between:
        async with in_front("memory-modern", between) as client:
            again, name = await ask_once(client)
            id = await client.start("tools/call", {**again, "inputResponses": {name: accept(count=1)}})
            await asking.heard.reach(1)
            await client.cancel(id)
            await between.until("tool.failed")
        hold.set()
        assert between.ends() == ["cancelled"]


async def test_a_parked_call_of_another_process_is_lost(tmp_path: Path) -> None:
    asking, key = Asking(form()), b"what survives a restart"
    async with faked(asking.fake) as server:
        async with gate(tmp_path, server, key=key) as between, in_front("memory-modern", between) as client:
            again, name = await ask_once(client)
        async with gate(tmp_path, server, key=key) as later, in_front("memory-modern", later) as client:
            lost = await client.result("tools/call", {**again, "inputResponses": {name: accept(count=1)}})
    assert "may still have taken effect" in words_of(lost)
    assert len(asking.fake.of("tools/call")) == 1
    assert later.ends() == ["cancelled", "input_lost"]


async def test_the_seventeenth_parked_call_goes_on_unasked(tmp_path: Path) -> None:
    asking = Asking(form())
    replies: dict[Any, asyncio.Queue[Any]] = {}

    async def call(seen: Seen) -> web.StreamResponse:
        mine = replies[f"q{seen.id}"] = asyncio.Queue()
        response = await seen.stream()
        await response.write(
            event({"jsonrpc": "2.0", "id": f"q{seen.id}", "method": "elicitation/create", "params": form()})
        )
        await response.write(event(done(json.dumps(await mine.get()))(seen)))
        return response

    async def hear(seen: Seen) -> web.StreamResponse:
        replies[seen.message["id"]].put_nowait(seen.message["result"])
        return web.Response(status=202)

    asking.fake.handlers |= {"tools/call": call, "POST": hear}
    async with faked(asking.fake) as server, gate(tmp_path, server) as between:
        async with in_front("memory-modern", between) as client:
            waiting = [await ask_once(client, text=str(number)) for number in range(MOST_PARKED)]
            unasked = await client.call("up__echo")
            assert json.loads(words_of(unasked)) == {"action": "cancel"}
            for again, name in waiting:
                result = await client.result("tools/call", {**again, "inputResponses": {name: accept(count=1)}})
                assert json.loads(words_of(result)) == accept(count=1, branch="main")
        assert between.ends() == ["tool.succeeded"] * (MOST_PARKED + 1)


# --- modern upstreams: the question is the answer


class Rounds:
    """A modern server that asks as often as it has questions, and gives back what it was answered and sent."""

    def __init__(self, *rounds: dict[str, Any]) -> None:
        self.rounds = rounds
        self.fake = Fake(tools_call=self.call)
        self.given: list[Any] = []

    async def call(self, seen: Seen) -> web.StreamResponse:
        state = seen.params.get("requestState")
        number = int(state.rpartition(" ")[2]) if state else 0
        if number:
            self.given.append(seen.params["inputResponses"])
        if number >= len(self.rounds):
            return seen.result(content=[{"type": "text", "text": json.dumps(self.given)}])
        requests = {
            key: {"method": "elicitation/create", "params": params} for key, params in self.rounds[number].items()
        }
        return seen.result(
            resultType="input_required", inputRequests=requests, requestState=f'the "state" {number + 1}'
        )


@pytest.mark.parametrize("front", ["memory", "memory-modern", "streamable", "streamable-modern"])
async def test_rounds_of_a_modern_server_keep_its_state_inside_ours(tmp_path: Path, front: str) -> None:
    rounds = Rounds({"a": form("A?"), "b": form("Token?", token={"type": "string"})}, {"c": form("C?")})
    async with faked(rounds.fake) as server, gate(tmp_path, server) as between, in_front(front, between) as client:
        result, asked = await answered(client, "up__echo", {"text": "x"}, accept(count=1), {"action": "decline"})
    assert [params["message"] for params in asked] == ["[up] A?", "[up] C?"]
    first = {"a": accept(count=1, branch="main"), "b": {"action": "cancel"}}
    assert json.loads(words_of(result)) == [first, {"c": {"action": "decline"}}]
    declared = [
        seen.params["_meta"]["io.modelcontextprotocol/clientCapabilities"] for seen in rounds.fake.of("tools/call")
    ]
    assert declared == [{"elicitation": {"form": {}}}] * 3
    assert between.ends() == ["tool.succeeded"]


async def test_a_round_of_a_modern_server_outlives_a_restart(tmp_path: Path) -> None:
    rounds, key = Rounds({"a": form()}), b"what survives a restart"
    async with faked(rounds.fake) as server:
        async with gate(tmp_path, server, key=key) as between, in_front("memory-modern", between) as client:
            again, name = await ask_once(client)
        async with gate(tmp_path, server, key=key) as later, in_front("memory-modern", later) as client:
            result = await client.result("tools/call", {**again, "inputResponses": {name: accept(count=3)}})
    assert json.loads(words_of(result)) == [{"a": accept(count=3, branch="main")}]


async def test_a_round_that_was_answered_cannot_be_answered_again(tmp_path: Path) -> None:
    rounds = Rounds({"a": form()})
    async with faked(rounds.fake) as server, gate(tmp_path, server) as between:
        async with in_front("memory-modern", between) as client:
            again, name = await ask_once(client)
            params = {**again, "inputResponses": {name: accept(count=1)}}
            await client.result("tools/call", params)
            twice = await client.result("tools/call", params)
        assert twice["isError"]
        assert len(rounds.fake.of("tools/call")) == 2
        assert between.ends() == ["tool.succeeded", "input_lost"]


@pytest.mark.parametrize("front", ["memory", "memory-modern"])
async def test_a_server_that_asks_without_end_is_stopped(tmp_path: Path, front: str) -> None:
    rounds = Rounds(*({"a": form()} for _ in range(40)))
    async with faked(rounds.fake) as server, gate(tmp_path, server) as between, in_front(front, between) as client:
        result, asked = await answered(client, "up__echo", {}, *([accept(count=1)] * 16))
    assert result["isError"]
    assert len(asked) == 16
    assert len(rounds.fake.of("tools/call")) == 17
    assert len(between.ends()) == 1


@pytest.mark.parametrize(
    "request_",
    [
        {"method": "sampling/createMessage", "params": {}},
        {"method": "roots/list"},
        {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://a.example"}},
    ],
)
async def test_what_was_never_declared_is_refused_as_such(tmp_path: Path, request_: Any) -> None:
    async def call(seen: Seen) -> web.StreamResponse:
        return seen.result(resultType="input_required", inputRequests={"a": request_}, requestState="s")

    async with faked(Fake(tools_call=call)) as server, gate(tmp_path, server) as between:
        async with in_front("memory-modern", between) as client:
            result = await client.call("up__echo")
        assert words_of(result).startswith('"up__echo" asks for interactive input, which is not supported.')
        assert between.ends() == ["input_required_unsupported"]


# --- prompts and resources ask too

READS: dict[str, Any] = {
    "prompts/get": (
        {"name": "up__greet", "arguments": {}},
        {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]},
    ),
    "resources/read": ({"uri": "upstream:up:notes:///a"}, {"contents": [{"uri": "notes:///a", "text": "Hi"}]}),
}


async def lists(seen: Seen) -> web.StreamResponse:
    listed: dict[str, Any] = {
        "prompts/list": {"prompts": [{"name": "greet", "description": "Greet"}]},
        "resources/list": {"resources": [{"uri": "notes:///a", "name": "a"}]},
        "resources/templates/list": {"resourceTemplates": []},
    }
    return seen.result(**listed[seen.method])


@pytest.mark.parametrize("method", READS)
@pytest.mark.parametrize("behind", ["legacy", "modern"])
@pytest.mark.parametrize("front", ["memory", "memory-modern"])
async def test_a_prompt_or_resource_that_needs_an_answer_gets_it(
    tmp_path: Path, front: str, behind: str, method: str
) -> None:
    params, result = READS[method]
    given: list[Any] = []
    asking = Asking(form())

    async def legacy(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        question = {"jsonrpc": "2.0", "id": "q0", "method": "elicitation/create", "params": form()}
        await response.write(event(question))
        given.append(await asking.answers.get())
        await response.write(event({"jsonrpc": "2.0", "id": seen.id, "result": result}))
        return response

    async def modern(seen: Seen) -> web.StreamResponse:
        if "requestState" in seen.params:
            given.append(seen.params["inputResponses"]["a"])
            return seen.result(**result)
        requests = {"a": {"method": "elicitation/create", "params": form()}}
        return seen.result(resultType="input_required", inputRequests=requests, requestState="s")

    fake = Fake(behind, {"tools": {}, "prompts": {}, "resources": {}})
    fake.handlers |= dict.fromkeys(("prompts/list", "resources/list", "resources/templates/list"), lists)
    fake.handlers |= {method: legacy if behind == "legacy" else modern, "POST": asking.hear}
    async with faked(fake) as server, gate(tmp_path, server) as between, in_front(front, between) as client:
        found, asked = await asked_for(client, method, params, accept(count=4))
    assert "Hi" in json.dumps(found)
    assert [params["message"] for params in asked] == ["[up] Which?"]
    assert given == [accept(count=4, branch="main")]


# --- questions and confirmations


@pytest.mark.parametrize("behind", ["http-legacy", "http-modern"])
@pytest.mark.parametrize("front", ["memory", "memory-modern"])
async def test_a_confirmed_call_is_confirmed_once_however_often_its_server_asks(
    tmp_path: Path, front: str, behind: str
) -> None:
    asking = (
        Asking(form("One?"), form("Two?"))
        if behind == "http-legacy"
        else Rounds({"a": form("One?")}, {"b": form("Two?")})
    )
    async with (
        faked(asking.fake) as server,
        gate(tmp_path, server, confirms=True) as between,
        in_front(front, between) as client,
    ):
        yes = {"action": "accept", "content": {"confirm": True}}
        result, asked = await answered(client, "up__echo", {}, yes, accept(count=1), accept(count=2))
        assert [params["message"].startswith("[up]") for params in asked] == [False, True, True]
        assert not result.get("isError"), result
        if client.modern:  # what was confirmed for one call confirms no other
            params = {"name": "up__echo", "arguments": {}}
            asked_first = await client.result("tools/call", params)
            state = asked_first["requestState"]
            [confirm] = asked_first["inputRequests"]
            second = await client.result(
                "tools/call", {**params, "inputResponses": {confirm: yes}, "requestState": state}
            )
            [name] = second["inputRequests"]
            other = {**params, "arguments": {"text": "other"}, "inputResponses": {name: accept(count=1)}}
            refused = await client.result("tools/call", other)
            assert refused["resultType"] == "input_required"
            assert all(key.startswith("confirm-") for key in refused["inputRequests"])
