"""Questions of a legacy server that name no call: a child's, and one on the stream of an HTTP server that belongs to no
request. Each goes to the user of the only call that is under way, and else to no user at all."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.connect import Client, HttpWire
from tests.gateway.fake import Fake, Noted, Seen, event, note
from tests.gateway.gate import CLIENTS, Gate, accept, answered, faked, gate, in_front, words_of
from tests.gateway.test_failures import CHILD
from zorivest_rpc.gateway.config import Server

SCHEMA = {"type": "object", "properties": {"branch": {"type": "string", "default": "main"}}}
CANCEL = {"action": "cancel"}
WAYS = ("child", "stream")


class Streaming:
    """A server that asks on the stream that it has beside all requests, as `do` of a call says."""

    def __init__(self) -> None:
        self.stream: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.begun = Noted()
        self.fake = Fake("legacy", {"tools": {}, "prompts": {}, "logging": {}}, tools_call=self.call)
        self.fake.handlers |= {
            "GET": self.follow,
            "POST": self.hear,
            "prompts/list": self.list,
            "prompts/get": self.get,
        }

    async def follow(self, seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        while (message := await self.stream.get()) is not None:
            await response.write(event(message))
        return response

    async def hear(self, seen: Seen) -> web.StreamResponse:
        self.answers.put_nowait(seen.message["result"])
        return web.Response(status=202)

    async def list(self, seen: Seen) -> web.StreamResponse:
        return seen.result(prompts=[{"name": "slow"}])

    async def get(self, seen: Seen) -> web.StreamResponse:
        self.begun.append("prompts/get")
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async def ask(self) -> Any:
        """Ask, whatever is under way; the answer."""
        asked = {"message": "Which?", "requestedSchema": SCHEMA}
        self.stream.put_nowait({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": asked})
        return await self.answers.get()

    async def call(self, seen: Seen) -> web.StreamResponse:
        match seen.params["arguments"]["do"]:
            case "ask":
                return seen.result(content=[{"type": "text", "text": json.dumps(await self.ask())}])
            case "wait":
                response = await seen.stream()
                await response.write(event(note("message", level="info", data="waiting")))
                return await asyncio.Event().wait()  # type: ignore[return-value]
        return seen.result(content=[])


@asynccontextmanager
async def asking(way: str, directory: Path) -> AsyncIterator[tuple[Gate, Streaming | None]]:
    if way == "child":
        child = Server(name="up", command=sys.executable, args=("-I", CHILD, "legacy"), era="legacy", timeout_secs=60)
        async with gate(directory, child) as between:
            yield between, None
        return
    streaming = Streaming()
    async with faked(streaming.fake) as server, gate(directory, server) as between:
        yield between, streaming
        streaming.stream.put_nowait(None)


async def begin_to_wait(client: Client) -> Any:
    """A call that never ends, once the server works on it."""
    said = len(client.notes_of("notifications/message"))
    id = await client.start_call("up__echo", {"do": "wait"}, **log_level(client))
    await client.note("notifications/message", said + 1)
    return id


async def give_up(client: Client, id: Any) -> None:
    if client.modern and isinstance(client.wire, HttpWire):
        await client.wire.hang_up(id)
    else:
        await client.cancel(id)


def log_level(client: Client) -> dict[str, str]:
    return {"io.modelcontextprotocol/logLevel": "info"} if client.modern else {}


async def ask_alone(client: Client) -> Any:
    """What the server is told when it asks during a call that is the only one."""
    result, asked = await answered(client, "up__echo", {"do": "ask"}, accept(branch="dev"))
    assert [params["message"] for params in asked] == ["[up] Which?"]
    return json.loads(words_of(result))


async def ask_in_vain(client: Client) -> Any:
    before = len(client.questions)
    result = await client.call("up__echo", {"do": "ask"})
    assert len(client.questions) == before
    return json.loads(words_of(result))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("front", CLIENTS)
async def test_the_user_of_the_only_call_is_asked_and_of_two_calls_none(tmp_path: Path, front: str, way: str) -> None:
    async with asking(way, tmp_path) as (between, _), in_front(front, between) as client:
        assert await ask_alone(client) == accept(branch="dev")
        waiting = await begin_to_wait(client)
        assert await ask_in_vain(client) == CANCEL
        await give_up(client, waiting)
        await between.until("tool.failed")
        assert await ask_alone(client) == accept(branch="dev"), "the other call is over"
        assert sorted(between.ends()) == ["cancelled", *["tool.succeeded"] * 3]


@pytest.mark.parametrize("way", WAYS)
async def test_of_two_clients_neither_is_asked_for_the_other(tmp_path: Path, way: str) -> None:
    async with (
        asking(way, tmp_path) as (between, _),
        in_front("memory", between) as one,
        in_front("streamable-modern", between) as other,
    ):
        for first, second in ((one, other), (other, one)):
            waiting = await begin_to_wait(first)
            assert await ask_in_vain(second) == CANCEL
            assert first.questions == []
            await give_up(first, waiting)
            await between.until_over()


@pytest.mark.parametrize("way", WAYS)
async def test_a_caller_that_has_no_forms_is_not_asked_although_it_is_alone(tmp_path: Path, way: str) -> None:
    async with asking(way, tmp_path) as (between, _):
        async with in_front("memory", between) as able:  # the stream for questions is open from here on
            assert await ask_alone(able) == accept(branch="dev")
        async with in_front("memory", between, capabilities={"roots": {}}) as client:
            assert await ask_in_vain(client) == CANCEL


async def test_a_question_while_no_call_runs_is_cancelled(tmp_path: Path) -> None:
    async with asking("stream", tmp_path) as (between, server), in_front("memory", between) as client:
        assert server is not None
        assert await ask_alone(client) == accept(branch="dev")
        assert await server.ask() == CANCEL
        assert len(client.questions) == 1


async def test_a_prompt_that_is_read_counts_as_a_call(tmp_path: Path) -> None:
    async with asking("stream", tmp_path) as (between, server), in_front("memory", between) as client:
        assert server is not None
        reading = await client.start("prompts/get", {"name": "up__slow"})
        await server.begun.reach(1)
        assert await ask_in_vain(client) == CANCEL
        await client.cancel(reading)
