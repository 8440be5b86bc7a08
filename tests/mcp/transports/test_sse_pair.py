"""The HTTP+SSE pair of 2024-11-05: the stream is the session."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.transports.http_served import Reply, Served, Wire, call, hello, modern_call, serving, until
from zorivest_rpc.mcp.transports.http import bearer_keys


class Pair:
    def __init__(self, served: Served, wire: Wire, stream: Reply, endpoint: str, headers: dict[str, str]) -> None:
        self.served = served
        self.wire = wire
        self.stream = stream
        self.endpoint = endpoint
        self.headers = headers

    @classmethod
    async def open(cls, served: Served, **headers: str) -> Pair:
        wire = await served.wire()
        stream = await served.request("GET", "/sse", wire=wire, Accept="text/event-stream", **headers)
        assert stream.headers["content-type"] == "text/event-stream"
        first = await stream.event()
        assert first is not None
        assert first.kind == "endpoint"
        return cls(served, wire, stream, first.data, headers)

    async def post(self, message: Any, **headers: Any) -> Reply:
        given: dict[str, Any] = {**self.headers, **headers}
        return await self.served.request("POST", self.endpoint, message, **given)

    async def ask(self, message: Any) -> Any:
        assert (await self.post(message)).status == 202
        found = await self.stream.event()
        assert found is not None
        assert found.kind == "message"
        return found.json


async def test_the_stream_first_names_where_to_post_and_then_carries_the_answers(served: Served) -> None:
    pair = await Pair.open(served)
    assert re.fullmatch(r"/messages/?\?session_id=[0-9a-f]{32}", pair.endpoint)
    answer = await pair.ask(hello("2024-11-05"))
    assert answer["result"]["protocolVersion"] == "2024-11-05"
    assert (await pair.ask(call(2, "echo", text="over sse")))["result"]["content"][0]["text"] == "over sse"


async def test_endpoints_are_not_guessable_and_unknown_ones_are_404(served: Served) -> None:
    pairs = [await Pair.open(served) for _ in range(3)]
    assert len({pair.endpoint for pair in pairs}) == 3
    assert (await served.request("POST", "/messages?session_id=" + "0" * 32, hello())).status == 404
    assert (await served.request("POST", "/messages", hello())).status == 400
    assert (await pairs[0].post(b"{nonsense")).status == 400


async def test_an_endpoint_belongs_to_who_opened_it() -> None:
    async with serving(authenticate=bearer_keys({"a": "alice", "b": "bob"})) as served:
        pair = await Pair.open(served, Authorization="Bearer a")
        assert (await pair.post(hello(), Authorization="Bearer b")).status == 404
        assert (await pair.post(hello(), Authorization=None)).status == 401
        assert (await pair.ask(hello()))["result"]["serverInfo"]["name"] == "faults"


async def test_the_end_of_the_stream_cancels_everything(served: Served) -> None:
    pair = await Pair.open(served)
    await pair.ask(hello("2024-11-05"))
    for number in range(3):
        assert (await pair.post(call(number, "gate"))).status == 202
    await served.started(3)
    pair.wire.reset()
    await served.ended(3)
    assert served.work.cancelled == 3
    await until(lambda: not served.transport._sse.conversations and not served.server.conversations)
    assert (await pair.post(call(9, "echo"))).status == 404
    await until(lambda: served.transport.open_streams == 0)


async def test_a_large_answer_passes(served: Served) -> None:
    pair = await Pair.open(served)
    await pair.ask(hello("2024-11-05"))
    assert len((await pair.ask(call(2, "big", size=5_000_000)))["result"]["content"][0]["text"]) == 5_000_000


async def test_list_changes_arrive_and_modern_requests_do_not_exist_here(served: Served) -> None:
    pair = await Pair.open(served)
    await pair.ask(hello("2025-06-18"))
    assert (await pair.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
    served.work.offer.announce_change("tools")
    found = await pair.stream.event()
    assert found is not None
    assert found.json["method"] == "notifications/tools/list_changed"
    assert (await pair.ask(modern_call(3, "echo")))["error"]["code"] == -32600


async def test_shutdown_ends_the_stream_cleanly(writer: str) -> None:
    async with serving(plain_writer=writer == "plain") as served:
        pair = await Pair.open(served)
        stopping = asyncio.create_task(served.transport.stop())
        assert await pair.stream.event() is None
        await stopping


async def test_the_number_of_pairs_is_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from zorivest_rpc.mcp.transports import sse

    monkeypatch.setattr(sse, "_MOST", 2)
    await Pair.open(served)
    await Pair.open(served)
    reply = await served.request("GET", "/sse", Accept="text/event-stream")
    assert (reply.status, reply.headers["content-type"]) == (503, "application/json")


async def test_a_level_that_is_set_over_the_pair_counts_there_and_is_remembered_nowhere(tmp_path: Path) -> None:
    async with serving(journal=tmp_path / "journal") as served:
        one, other = await Pair.open(served), await Pair.open(served)
        for pair in (one, other):
            await pair.ask(hello("2024-11-05"))
        level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "error"}}
        assert await one.ask(level) == {"jsonrpc": "2.0", "id": 2, "result": {}}
        uri = {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "test://watched"}}
        assert await one.ask(uri) == {"jsonrpc": "2.0", "id": 3, "result": {}}
        sessions = [each.session for each in served.transport._sse.conversations]
        assert sorted(str(session.log_level) for session in sessions) == ["error", "info"]
        assert len({session.key for session in sessions} - {""}) == 2
    assert "test://watched" not in (tmp_path / "journal").read_text()
