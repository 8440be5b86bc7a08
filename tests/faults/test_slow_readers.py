"""Readers that never read: they are dropped or held up, and everybody else gets everything."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest

from tests.faults.baseline import at_rest, back_to, held, let_go
from tests.faults.test_clients_vanish import posted
from tests.mcp.transports.http_served import (
    Reply,
    Served,
    call,
    head,
    listen,
    modern_call,
    modern_headers,
    until,
)

EVENTS = "text/event-stream"
LONG_URI = "test://long/".ljust(2048, "u")  # the longest there may be, so that events are large
ROUNDS = 60
BURST = 100  # events of a round: 12 MB in all, more than the kernel and the server hold for one reader


class Deaf:
    """A client with a small receive buffer that sends and never reads."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(request)

    def close(self) -> None:
        self.socket.close()


async def updates(reply: Reply) -> int:
    found = await reply.event()
    assert found is not None
    return 1 if found.json["method"] == "notifications/resources/updated" else 0


async def test_a_deaf_listener_is_dropped_and_the_others_get_every_event(served: Served) -> None:
    before = held(served)
    message = listen("deaf", LONG_URI)
    deaf = Deaf(served.transport.port, posted(message, **modern_headers(message)))
    good = [await served.modern(listen(n, LONG_URI)) for n in range(3)]
    for reply in good:
        assert await updates(reply) == 0  # the acknowledgement
    await until(lambda: held(served).listeners == 4)
    for _ in range(ROUNDS):
        for _ in range(BURST):
            served.work.offer.announce_update(LONG_URI)
        assert [sum([await updates(reply) for _ in range(BURST)]) for reply in good] == [BURST] * 3
    assert held(served).listeners == 3
    deaf.close()
    await let_go(served)
    await back_to(before, served)


async def test_a_deaf_standing_stream_is_dropped_and_the_others_get_every_event(served: Served) -> None:
    sessions = [await served.open("2025-06-18") for _ in range(3)]
    for session in sessions:
        subscribe = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": LONG_URI}}
        assert (await served.post(subscribe, Mcp_Session_Id=session)).status == 200
    before = await at_rest(served)
    deaf = Deaf(served.transport.port, head("GET", "/mcp", {"Accept": EVENTS, "Mcp-Session-Id": sessions[0]}))
    good = [await served.request("GET", Accept=EVENTS, Mcp_Session_Id=session) for session in sessions[1:]]
    await until(lambda: served.transport.open_streams == 3)
    for _ in range(ROUNDS):
        for _ in range(BURST):
            served.work.offer.announce_update(LONG_URI)
        assert [sum([await updates(reply) for _ in range(BURST)]) for reply in good] == [BURST] * 2
    await until(lambda: served.transport.open_streams == 2)
    deaf.close()
    again = await served.request("GET", Accept=EVENTS, Mcp_Session_Id=sessions[0])
    served.work.offer.announce_update(LONG_URI)
    assert await updates(again) == 1, "the session itself goes on"
    await let_go(served)
    await back_to(before, served)


@pytest.mark.parametrize("modern", [True, False])
async def test_a_deaf_caller_is_dropped_and_only_a_modern_call_is_cancelled_by_it(served: Served, modern: bool) -> None:
    session = await served.open("2025-06-18")
    before = await at_rest(served)
    arguments: dict[str, Any] = {"count": ROUNDS, "size": 200_000}
    if modern:
        message = modern_call(1, "stepping", "t", **arguments)
        request = posted(message, **modern_headers(message))
    else:
        request = posted(call(1, "stepping", "t", **arguments), Mcp_Session_Id=session)
    deaf = Deaf(served.transport.port, request)
    await served.started()
    for _ in range(ROUNDS):
        served.work.steps.release()
        await asyncio.sleep(0)
    if modern:
        await until(lambda: served.running == 0)
        assert served.work.ended.locked(), "it did not get to its end"
    else:
        await served.ended()
    await until(lambda: served.transport.open_streams == 0)
    deaf.close()
    await let_go(served)
    await back_to(before, served)


async def test_a_deaf_client_of_the_older_pair_is_dropped(served: Served) -> None:
    before = held(served)
    deaf = Deaf(served.transport.port, head("GET", "/sse", {"Accept": EVENTS}))
    await until(lambda: len(served.server.conversations) == 1)
    (endpoint,) = served.transport._sse._open
    wire = await served.wire()
    from tests.mcp.transports.http_served import hello

    for number in range(ROUNDS):
        message = hello("2024-11-05") if number == 0 else call(number, "big", size=200_000)
        reply = await served.request("POST", f"/messages?session_id={endpoint}", message, wire)
        await reply.body()
        if reply.status == 404:
            break
        assert reply.status == 202
    await until(lambda: not served.server.conversations)
    deaf.close()
    await let_go(served)
    await back_to(before, served)


async def test_pipelined_requests_whose_answers_are_not_read_wait_and_none_is_lost(served: Served) -> None:
    """Answered all at once they would be 40 MB in the server's memory."""
    count, peak = 200, 0
    message = modern_call(1, "big", size=200_000)
    request = posted(message, **modern_headers(message))
    wire = await served.wire()
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    wire.send(request * count)
    handled = -1

    async def settled() -> bool:
        """No request was handled in a few turns of the loop, so the server waits for us."""
        nonlocal handled, peak
        assert served.transport._aiohttp is not None
        for connection in served.transport._aiohttp.connections:
            if connection.transport is not None:
                peak = max(peak, connection.transport.get_write_buffer_size())
        before, handled = handled, served.transport._aiohttp.requests_count
        return before == handled

    quiet = 0
    async with asyncio.timeout(20):
        while quiet < 20:
            quiet = quiet + 1 if await settled() else 0
            await asyncio.sleep(0.001)
    assert 0 < handled < count
    assert peak < 2 << 20
    wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
    for _ in range(count):
        found = json.loads(await (await wire.reply()).body())
        assert len(found["result"]["content"][0]["text"]) == 200_000
