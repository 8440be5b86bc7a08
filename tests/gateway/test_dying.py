"""A server that dies in the middle of each kind of message, and comes back: what is lost is told, what may be asked
again is asked again, and everything works afterwards."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import Fake, Seen
from tests.gateway.gate import Gate, faked, gate, in_front, words_of
from tests.gateway.test_failures import CHILD
from zorivest_rpc.gateway.config import Server

CAPABILITIES: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
ANSWERS: dict[str, dict[str, Any]] = {
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "resources/list": {"resources": [{"uri": "notes:///a", "name": "a"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "here"}}]},
    "resources/read": {"contents": [{"uri": "notes:///a", "text": "here"}]},
}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
OPENINGS = {"modern": "server/discover", "legacy": "initialize"}
SENT = [(era, method) for era in OPENINGS for method in (OPENINGS[era], *LISTS)]


class Mortal:
    """It cuts its first answer to one method after half of it, with the connection."""

    def __init__(self, era: str, dies_at: str) -> None:
        self.fake = Fake(era, CAPABILITIES)
        self.fake.handlers |= dict.fromkeys(ANSWERS, self.answer)
        self._then = self.fake.handlers.get(dies_at)
        self.fake.handlers[dies_at] = self.die

    async def answer(self, seen: Seen) -> web.StreamResponse:
        return seen.result(**ANSWERS[seen.method])

    async def die(self, seen: Seen) -> web.StreamResponse:
        if self._then is None:
            del self.fake.handlers[seen.method]
        else:
            self.fake.handlers[seen.method] = self._then
        body = json.dumps({"jsonrpc": "2.0", "id": seen.id, "result": {"tools": []}}).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        response = web.StreamResponse(headers=headers)
        await response.prepare(seen.request)
        await response.write(body[: len(body) // 2])
        assert seen.request.transport is not None
        seen.request.transport.abort()
        return response


async def works(between: Gate) -> None:
    assert between.member().offered.status == "ready"
    between.serve(None)
    async with in_front("memory", between) as client:
        assert words_of(await client.call("up__echo", {"text": "here"})) == "here"


@pytest.mark.parametrize(("era", "method"), SENT)
async def test_what_opens_and_lists_a_server_is_asked_again(tmp_path: Path, era: str, method: str) -> None:
    mortal = Mortal(era, method)
    key: dict[str, Any] = {"era": era} if era == "legacy" else {}
    async with faked(mortal.fake, **key) as server, gate(tmp_path, server) as between:
        await between.until("mcp.discovery.succeeded")
        await works(between)
        assert [piece.published for piece in between.gateway.library.pieces] == ["up__greet", "upstream:up:notes:///a"]
    assert len(mortal.fake.of(method)) == 2
    assert [each["code"] for each in between.events("mcp.discovery.failed")] == ["connect_failed"]


@pytest.mark.parametrize("era", OPENINGS)
async def test_a_call_is_told_as_lost_and_delivered_once(tmp_path: Path, era: str) -> None:
    mortal = Mortal(era, "tools/call")
    async with faked(mortal.fake) as server, gate(tmp_path, server) as between:
        async with in_front("memory", between) as client:
            lost = await client.call("up__echo", {"text": "here"})
            assert lost["_meta"]["com.zorivest/error"]["code"] == "connect_failed"
        assert len(mortal.fake.of("tools/call")) == 1
        await works(between)


@pytest.mark.parametrize("era", OPENINGS)
@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "up__greet"}), ("resources/read", {"uri": "upstream:up:notes:///a"})],
)
async def test_a_read_is_asked_again(tmp_path: Path, era: str, method: str, params: dict[str, Any]) -> None:
    mortal = Mortal(era, method)
    async with faked(mortal.fake) as server, gate(tmp_path, server) as between:
        async with in_front("memory", between) as client:
            assert "here" in json.dumps(await client.result(method, params))
        assert len(mortal.fake.of(method)) == 2
        await works(between)


@pytest.mark.parametrize(("era", "method"), [each for each in SENT if each[1] in (*OPENINGS.values(), "tools/list")])
async def test_a_child_that_dies_while_it_is_opened_or_listed_is_started_again(
    tmp_path: Path, era: str, method: str
) -> None:
    args = ("-I", CHILD, era, method, str(tmp_path / "mark"))
    child = Server(name="up", command=sys.executable, args=args, era=era, timeout_secs=60)
    async with gate(tmp_path, child) as between:
        await between.until("mcp.discovery.succeeded")
        await works(between)
        assert [each["code"] for each in between.events("mcp.discovery.failed")] == ["stdio_exited"]
