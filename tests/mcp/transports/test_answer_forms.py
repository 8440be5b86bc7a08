"""JSON when nothing streams, events when something does, and mandated statuses however late they are known."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.mcp.transports.http_served import META, Served, call, hello, listen, modern_call, until
from zorivest_rpc.mcp.transports import streamable

JSON, EVENTS = "application/json", "text/event-stream"


async def test_an_answer_alone_is_json(served: Served) -> None:
    reply = await served.modern(modern_call(1, "echo", text="x"))
    assert reply.headers["content-type"] == JSON
    assert "mcp-session-id" not in reply.headers
    assert (await reply.json())["result"]["resultType"] == "complete"


async def test_an_answer_with_progress_is_events(served: Served) -> None:
    reply = await served.modern(modern_call(1, "big", "t", size=3, streams=True))
    assert reply.headers["content-type"] == EVENTS
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-accel-buffering"] == "no"
    progress, answer = await reply.events()
    assert progress.json["params"]["progressToken"] == "t"
    assert answer.json["result"]["resultType"] == "complete"
    assert progress.id is None
    assert answer.id is None


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        (JSON, JSON),
        ("Application/JSON;q=0.9", JSON),
        (EVENTS, EVENTS),
        ("text/*", EVENTS),
        (f"{EVENTS}, {JSON}", JSON),
    ],
)
@pytest.mark.parametrize("modern", [True, False])
async def test_the_form_follows_what_the_client_takes(
    served: Served, accept: str | None, kind: str, modern: bool
) -> None:
    if modern:
        reply = await served.modern(modern_call(1, "echo", text="x"), Accept=accept)
    else:
        reply = await served.post(call(1, "echo", text="x"), Accept=accept, Mcp_Session_Id=await served.open())
    assert reply.headers["content-type"] == kind
    if kind == JSON:
        found = await reply.json()
    else:
        found = (await reply.events())[-1].json
    assert found["result"]["content"][0]["text"] == "x"


async def test_a_client_that_takes_json_alone_gets_the_answer_and_nothing_besides(served: Served) -> None:
    reply = await served.modern(modern_call(1, "big", "t", size=3, streams=True), Accept=JSON)
    assert (await reply.json())["result"]["content"][0]["text"] == "bbb"


@pytest.mark.parametrize("accept", [JSON, f"{JSON}, {EVENTS}"])
async def test_a_mandated_status_is_kept_when_the_handler_ran_a_while(served: Served, accept: str) -> None:
    waiting = asyncio.create_task(served.modern(modern_call(1, "late_capability"), Accept=accept))
    await served.started()
    served.work.go.set()
    reply = await waiting
    assert reply.status == 400
    found = await reply.json()
    assert (found["id"], found["error"]["code"]) == (1, -32021)


async def test_mandated_statuses_at_once(served: Served) -> None:
    unknown = {"jsonrpc": "2.0", "id": 7, "method": "no/such", "params": {"_meta": META}}
    reply = await served.modern(unknown)
    assert (reply.status, (await reply.json())["error"]["code"]) == (404, -32601)
    reply = await served.modern(modern_call(8, "echo"), Mcp_Method="tools/list")
    assert (reply.status, (await reply.json())["error"]["code"]) == (400, -32020)
    reply = await served.modern(modern_call(9, "nobody"))
    assert (reply.status, (await reply.json())["error"]["code"]) == (200, -32602)


async def test_a_failure_of_ours_tells_nothing_of_its_inside(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.work.go.set()
    found = await (await served.modern(modern_call(1, "late_failure"))).json()
    assert found["error"]["code"] == -32603
    assert "secret" not in str(found)
    assert [record.exc_info is not None for record in caplog.records if record.levelno >= logging.ERROR] == [True]


async def test_a_silent_call_becomes_a_stream_so_that_it_can_be_kept_alive(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamable, "_QUIET", 0.01)
    reply = await served.modern(modern_call(1, "gate"))
    assert reply.headers["content-type"] == EVENTS
    served.transport._comment()
    served.work.go.set()
    assert [event.json["id"] for event in await reply.events()] == [1]


async def test_open_streams_get_a_sign_of_life(served: Served) -> None:
    reply = await served.modern(listen(3))
    acknowledged = await reply.event()
    assert acknowledged is not None
    assert acknowledged.json["method"] == "notifications/subscriptions/acknowledged"
    served.transport._comment()
    served.work.offer.announce_change("tools")
    async with asyncio.timeout(5):
        piece = reply._held
        while b":\n\n" not in piece:
            piece += await reply._piece()
    assert piece.startswith(b":\n\n")


async def test_an_answer_of_ten_megabytes_passes_on_a_stream(served: Served) -> None:
    """The bound on what a reader may leave unread is not a bound on one answer."""
    reply = await served.modern(modern_call(1, "big", "t", size=10_000_000, streams=True))
    events = await reply.events()
    assert len(events[-1].json["result"]["content"][0]["text"]) == 10_000_000


async def test_notifications_are_acknowledged_without_a_body(served: Served) -> None:
    session = await served.open()
    done = {"jsonrpc": "2.0", "method": "notifications/whatever"}
    legacy = await served.post(done, Mcp_Session_Id=session)
    modern = await served.post({**done, "params": {"_meta": META}}, MCP_Protocol_Version="2026-07-28")
    assert [(each.status, await each.body()) for each in (legacy, modern)] == [(202, b""), (202, b"")]


async def test_a_question_travels_on_the_stream_of_its_call(served: Served) -> None:
    session = await served.open(capabilities={"elicitation": {}})
    reply = await served.post(call(5, "ask"), Mcp_Session_Id=session)
    events = [await reply.event(), await reply.event()]
    question = next(event.json for event in events if event is not None and event.data)
    assert question["method"] == "elicitation/create"
    answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
    assert (await served.post(answer, Mcp_Session_Id=session)).status == 202
    assert (await reply.events())[-1].json["result"]["content"][0]["text"] == "hello Ada"


async def test_a_cancelled_legacy_call_ends_its_post(served: Served) -> None:
    session = await served.open()
    waiting = asyncio.create_task(served.post(call(5, "gate"), Mcp_Session_Id=session))
    await served.started()
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    assert (await served.post(notice, Mcp_Session_Id=session)).status == 202
    assert (await (await waiting).json())["error"]["code"] == -32800
    assert served.work.cancelled == 1
    await until(lambda: served.running == 0)


async def test_a_posted_cancellation_of_a_modern_client_cancels_nothing(served: Served) -> None:
    waiting = asyncio.create_task(served.modern(modern_call(5, "gate")))
    await served.started()
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5, "_meta": META}}
    assert (await served.post(notice, MCP_Protocol_Version="2026-07-28")).status == 202
    served.work.go.set()
    assert (await (await waiting).json())["result"]["content"][0]["text"] == "gone through"


async def test_busy_is_said_clearly_over_http() -> None:
    from tests.mcp.transports.http_served import serving
    from zorivest_rpc.mcp.dispatcher import Limits

    async with serving(limits=Limits(per_client=2)) as served:
        waiting = [asyncio.create_task(served.modern(modern_call(n, "gate"))) for n in range(2)]
        await served.started(2)
        reply = await served.modern(modern_call(9, "gate"))
        assert reply.headers["retry-after"] == "1"
        assert (await reply.json())["error"]["data"] == {"limit": 2, "scope": "client"}
        served.work.go.set()
        assert [(await task).status for task in waiting] == [200, 200]


async def test_pings_and_lists_are_answered_while_two_hundred_calls_wait(served: Served) -> None:
    session = await served.open()
    waiting = [asyncio.create_task(served.post(call(n, "gate"), Mcp_Session_Id=session)) for n in range(200)]
    await served.started(200)
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    assert (await (await served.post(ping, Mcp_Session_Id=session)).json())["result"] == {}
    served.work.go.set()
    assert {(await task).status for task in waiting} == {200}


async def test_initialize_with_a_modern_header_or_a_live_session_is_handled(served: Served) -> None:
    session = await served.open()
    assert (await served.post(hello(), Mcp_Session_Id=session)).status == 400
    assert (await served.post(hello(), MCP_Protocol_Version="2025-06-18")).status == 200
