"""Clients that go away in the middle of something: the right calls are cancelled, and nothing is left of them."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.baseline import at_rest, back_to, connections, held, let_go
from tests.mcp.transports.http_served import (
    BOTH,
    Served,
    Wire,
    call,
    encoded,
    head,
    hello,
    listen,
    modern_call,
    modern_headers,
    serving,
    until,
)
from zorivest_rpc.mcp.transports.sessions import LiveSession

EVENTS = "text/event-stream"


def posted(message: Any, **headers: str) -> bytes:
    body = encoded(message)
    given: dict[str, str | None] = {"Content-Type": "application/json", "Accept": BOTH}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return head("POST", "/mcp", given, len(body)) + body


def go_silently(wire: Wire) -> None:
    wire.writer.close()


GOODBYES: list[Callable[[Wire], None]] = [Wire.reset, go_silently]


@pytest.mark.parametrize("goodbye", GOODBYES)
@pytest.mark.parametrize("tool", ["gate", "say_then_gate"])
async def test_a_modern_client_that_goes_cancels_its_call(
    served: Served, tool: str, goodbye: Callable[[Wire], None]
) -> None:
    """Before the form of the answer is known, and in the middle of a stream."""
    before = held(served)
    wire = await served.wire()
    message = modern_call(1, tool, "t")
    wire.send(posted(message, **modern_headers(message)))
    await served.started()
    if tool == "say_then_gate":
        event = await (await wire.reply()).event()
        assert event is not None
    goodbye(wire)
    await served.ended()
    assert served.work.cancelled == 1
    await let_go(served)
    await back_to(before, served)


@pytest.mark.parametrize("goodbye", GOODBYES)
@pytest.mark.parametrize("tool", ["gate", "say_then_gate"])
async def test_a_legacy_client_that_goes_does_not(served: Served, tool: str, goodbye: Callable[[Wire], None]) -> None:
    session = await served.open()
    before = await at_rest(served)
    wire = await served.wire()
    wire.send(posted(call(1, tool, "t"), Mcp_Session_Id=session))
    await served.started()
    last = None
    if tool == "say_then_gate":
        event = await (await wire.reply()).event()
        assert event is not None
        last = event.id
    goodbye(wire)
    await until(lambda: connections(served) == before.connections)
    assert served.running == 1
    served.work.go.set()
    await served.ended()
    assert served.work.cancelled == 0
    if last is not None:
        again = await served.request("GET", Accept=EVENTS, Mcp_Session_Id=session, Last_Event_ID=last)
        assert (await again.events())[-1].json["result"]["content"][0]["text"] == "gone through"
    await let_go(served)
    await back_to(before, served)


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"PO",
        b"POST /mcp HTTP/1.1\r\nHost: loc",
        head("POST", "/mcp", {"Content-Type": "application/json"}, 5000),
        head("POST", "/mcp", {"Content-Type": "application/json"}, 5000) + b'{"jsonrpc":"2.0","id":1',
        head("POST", "/mcp", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}) + b"ff\r\nabc",
        head("POST", "/messages?session_id=0", {"Content-Type": "application/json"}, 5000) + b"{",
    ],
)
@pytest.mark.parametrize("goodbye", GOODBYES)
async def test_an_upload_that_breaks_off_leaves_nothing(
    served: Served, part: bytes, goodbye: Callable[[Wire], None], caplog: pytest.LogCaptureFixture
) -> None:
    before = held(served)
    for _ in range(3):
        wire = await served.wire()
        wire.send(part)
        await wire.writer.drain()
        await until(lambda: connections(served) == before.connections + 1)
        goodbye(wire)
        await let_go(served)
        await until(lambda: connections(served) == before.connections)
    await back_to(before, served)
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")]


async def test_silent_connections_disturb_nobody_and_go_when_reset(served: Served) -> None:
    before = held(served)
    for number in range(100):
        wire = await served.wire()
        wire.send(b"POST /mcp HTTP/1.1\r\n" if number % 2 else b"")
    reply = await served.modern(modern_call(1, "echo", text="still here"))
    assert (await reply.json())["result"]["content"][0]["text"] == "still here"
    await let_go(served)
    await back_to(before, served)


async def test_a_silent_connection_is_closed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from zorivest_rpc.mcp.transports import http

    monkeypatch.setattr(http, "_IDLE", 0.05)
    async with serving() as served:
        silent, half, used = [await served.wire() for _ in range(3)]
        half.send(b"POST /mcp HTTP/1.1\r\nHost: local")
        reply = await served.modern(modern_call(1, "echo"), used)
        await reply.body()
        for wire in (silent, half, used):
            assert await wire.closed() == b""


async def test_a_thousand_sessions_opened_and_abandoned_cost_nothing_in_the_end() -> None:
    clock = [1_000_000.0]
    async with serving(now=lambda: clock[0]) as served:
        before = held(served)
        wire = await served.wire()
        started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for number in range(1_000):
            reply = await served.post(hello(), wire)
            id = reply.headers["mcp-session-id"]
            await reply.body()
            if number % 2:  # the others are not heard of again at all
                assert (await served.post(started, wire, Mcp_Session_Id=id)).status == 202
        assert len(served.transport.sessions) == 500
        clock[0] += 3_600
        served.transport._comment()
        await let_go(served)
        await back_to(before, served)
        assert not [each for each in gc.get_objects() if isinstance(each, LiveSession)]


async def test_streams_of_abandoned_sessions_are_noticed(served: Served) -> None:
    session = await served.open()
    before = await at_rest(served)
    for _ in range(30):
        wire = await served.wire()
        reply = await served.request("GET", wire=wire, Accept=EVENTS, Mcp_Session_Id=session)
        assert reply.status == 200
        wire.reset()
        await let_go(served)
    await back_to(before, served)
    (live,) = served.transport.sessions.live
    assert live.standing.write is None


async def test_two_hundred_listeners_that_drop_are_gone(served: Served) -> None:
    before = held(served)
    wires = [await served.wire() for _ in range(200)]
    for number, wire in enumerate(wires):
        message = listen(number)
        wire.send(posted(message, **modern_headers(message)))
    for number, wire in enumerate(wires):
        event = await (await wire.reply()).event()
        assert event is not None
        assert event.json["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == number
    assert held(served).listeners == 200
    for wire in wires:
        wire.reset()
    served.work.offer.announce_change("tools")
    await let_go(served)
    await back_to(before, served)


async def test_a_session_that_ends_while_a_question_is_open_leaves_nothing(served: Served) -> None:
    before = held(served)
    session = await served.open(capabilities={"elicitation": {}})
    wire = await served.wire()
    reply = await served.post(call(1, "ask"), wire, Mcp_Session_Id=session)
    assert await reply.event() is not None
    wire.reset()
    (live,) = served.transport.sessions.live
    assert len(live.conversation.asked) == 1
    assert (await served.request("DELETE", Mcp_Session_Id=session)).status == 204
    await until(lambda: not live.conversation.asked and not live.conversation.running)
    await let_go(served)
    await back_to(before, served)


async def test_many_calls_of_many_kinds_that_are_all_abandoned(served: Served) -> None:
    before = held(served)
    session = await served.open("2025-06-18")
    for number in range(60):
        wire = await served.wire()
        kind = number % 4
        if kind == 0:
            message = modern_call(number, "gate")
            wire.send(posted(message, **modern_headers(message)))
        elif kind == 1:
            message = modern_call(number, "say_then_gate", "t")
            wire.send(posted(message, **modern_headers(message)))
        elif kind == 2:
            wire.send(posted(call(number, "say_then_gate", "t"), Mcp_Session_Id=session))
        else:
            wire.send(posted(call(number, "gate"), Mcp_Session_Id=session))
    await served.started(60)
    await let_go(served)
    await until(lambda: served.running == 30)
    assert served.work.cancelled == 30
    assert (await served.request("DELETE", Mcp_Session_Id=session)).status == 204
    await until(lambda: served.work.cancelled == 60)
    await let_go(served)
    await back_to(before, served)


async def test_garbage_between_good_requests_leaves_nothing(served: Served) -> None:
    before = held(served)
    for number in range(50):
        wire = await served.wire()
        wire.send(bytes((number * 37 + n * 91) % 256 for n in range(300)) + b"\r\n\r\n")
        await let_go(served)
        reply = await served.modern(modern_call(number, "echo", text="good"))
        assert json.loads(await reply.body())["id"] == number
        await let_go(served)
    await back_to(before, served)


async def test_stopping_leaves_no_task_behind(writer: str) -> None:
    before = len(asyncio.all_tasks())
    async with serving(plain_writer=writer == "plain") as served:
        session = await served.open()
        await served.request("GET", Accept=EVENTS, Mcp_Session_Id=session)
        await served.modern(listen(1))
        waiting = asyncio.create_task(served.modern(modern_call(1, "gate")))
        await served.started()
        await served.transport.stop()
        assert (await (await waiting).json())["error"]["code"] == -32603
        await let_go(served)
    await until(lambda: len(asyncio.all_tasks()) == before)
