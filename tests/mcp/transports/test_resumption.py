"""Streams that outlive their connection: what was missed comes again, in order, once, and nothing else does."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable
from typing import Any, cast

import pytest
from aiohttp.web import BaseRequest

from tests.mcp.transports.http_served import Event, Reply, Served, call, serving, until
from zorivest_rpc.mcp.protocol.jsonrpc import encode_id
from zorivest_rpc.mcp.transports.answers import EventStream
from zorivest_rpc.mcp.transports.streams import Replay, Stream

EVENTS = "text/event-stream"
KEY = bytes(range(32))
OLDER = ["2025-03-26", "2025-06-18"]


async def first(reply: Reply) -> Event:
    found = await reply.event()
    assert found is not None
    return found


async def resume(served: Served, session: str, last: str | None, **more: Any) -> Reply:
    return await served.request("GET", Accept=EVENTS, Mcp_Session_Id=session, Last_Event_ID=last, **more)


def steps(events: list[Event]) -> list[Any]:
    """Progress numbers, and "answer" for the answer."""
    return [
        each.json["params"]["progress"] if "method" in each.json else "answer" if "result" in each.json else "error"
        for each in events
        if each.data
    ]


# --- priming


async def test_a_stream_of_the_newest_revision_opens_with_something_to_resume_from(served: Served) -> None:
    session = await served.open("2025-11-25")
    posted = await served.post(call(1, "say_then_gate", "t"), Mcp_Session_Id=session)
    standing = await resume(served, session, None)
    for reply in (posted, standing):
        primed = await first(reply)
        assert primed.data == ""
        assert primed.id
        assert primed.retry is not None
        assert int(primed.retry) > 0


@pytest.mark.parametrize("revision", OLDER)
async def test_older_clients_get_no_empty_event(served: Served, revision: str) -> None:
    session = await served.open(revision)
    posted = await served.post(call(1, "say_then_gate", "t"), Mcp_Session_Id=session)
    assert (await first(posted)).json["method"] == "notifications/progress"
    standing = await resume(served, session, None)
    served.work.offer.announce_change("tools")
    assert (await first(standing)).json["method"] == "notifications/tools/list_changed"


async def test_modern_streams_have_no_event_ids_and_resume_nothing(served: Served) -> None:
    session = await served.open()
    reply = await resume(served, session, None, MCP_Protocol_Version="2026-07-28")
    assert reply.status == 405


# --- replay


@pytest.mark.parametrize("revision", ["2025-11-25", "2025-06-18"])
@pytest.mark.parametrize("seed", range(8))
async def test_whatever_the_interruptions_every_event_arrives_once_and_in_order(
    served: Served, revision: str, seed: int
) -> None:
    chance = random.Random(seed)
    count = 30
    session = await served.open(revision)
    wire = await served.wire()
    served.work.steps.release()
    reply = await served.post(call("job", "stepping", "t", count=count), wire, Mcp_Session_Id=session)
    seen: list[Event] = []
    last: str | None = None
    allowed = 1
    while not (seen and seen[-1].data and "result" in seen[-1].json):
        ready = min(allowed, count) - len([each for each in seen if each.data]) + (allowed >= count)
        for _ in range(chance.randint(0 if last else 1, max(ready, 1 if last is None else 0))):
            event = await first(reply)
            seen.append(event)
            last = event.id or last
            if event.data and "result" in event.json:
                break
        more = chance.randint(0, 6) if allowed < count else 0
        allowed += more
        for _ in range(more):
            served.work.steps.release()
        if last is not None and chance.random() < 0.6:
            if chance.random() < 0.5:
                wire.reset()
            else:
                await wire.close()
            wire = await served.wire()
            reply = await resume(served, session, last, wire=wire)
    assert steps(seen) == [*range(1, count + 1), "answer"]
    assert len({each.id for each in seen}) == len(seen)
    assert await reply.event() is None, "the stream ends behind the answer"


async def test_a_resumed_stream_carries_its_own_events_alone(served: Served) -> None:
    session = await served.open()
    wires = [await served.wire() for _ in range(2)]
    replies = [await served.post(call(n, "say_then_gate", f"t{n}"), wires[n], Mcp_Session_Id=session) for n in (0, 1)]
    primed = [await first(reply) for reply in replies]
    for wire in wires:
        wire.reset()
    served.work.go.set()
    await served.ended(2)
    for number in (1, 0):
        events = await (await resume(served, session, primed[number].id)).events()
        assert events[0].json["params"]["progressToken"] == f"t{number}"
        assert [each.json.get("id") for each in events] == [None, number]
        assert {each.id.split(".")[1] for each in events if each.id} == {(primed[number].id or "").split(".")[1]}


async def test_a_finished_stream_can_be_resumed_from_any_of_its_events(served: Served) -> None:
    session = await served.open()
    for _ in range(5):
        served.work.steps.release()
    events = await (await served.post(call(1, "stepping", "t", count=5), Mcp_Session_Id=session)).events()
    for position, event in enumerate(events):
        again = await (await resume(served, session, event.id)).events()
        assert again == events[position + 1 :]


async def test_the_newest_connection_carries_the_stream(served: Served) -> None:
    session = await served.open()
    reply = await served.post(call(1, "say_then_gate", "t"), Mcp_Session_Id=session)
    primed = await first(reply)
    newer = await resume(served, session, primed.id)
    assert steps(await reply.events()) == [1], "the older connection ends without the answer"
    served.work.go.set()
    assert steps(await newer.events()) == [1, "answer"]


async def test_a_large_replay_reaches_a_reader_that_reads(served: Served) -> None:
    session = await served.open()
    wire = await served.wire()
    served.work.steps.release()
    reply = await served.post(call(1, "stepping", "t", count=30, size=100_000), wire, Mcp_Session_Id=session)
    primed = await first(reply)
    wire.reset()
    for _ in range(29):
        served.work.steps.release()
    await served.ended()
    events = await (await resume(served, session, primed.id)).events()
    assert steps(events) == [*range(1, 31), "answer"]


async def test_the_replay_is_bounded_and_the_answer_is_always_in_it(served: Served) -> None:
    session = await served.open()
    wire = await served.wire()
    served.work.steps.release()
    reply = await served.post(call(1, "stepping", "t", count=1_000), wire, Mcp_Session_Id=session)
    primed = await first(reply)
    wire.reset()
    for _ in range(999):
        served.work.steps.release()
    await served.ended()
    found = steps(await (await resume(served, session, primed.id)).events())
    assert len(found) == 256
    assert found == [*range(1_001 - 255, 1_001), "answer"]


async def test_the_replay_is_bounded_in_bytes(served: Served) -> None:
    session = await served.open()
    wire = await served.wire()
    served.work.steps.release()
    reply = await served.post(call(1, "stepping", "t", count=40, size=500_000), wire, Mcp_Session_Id=session)
    primed = await first(reply)
    wire.reset()
    await until(lambda: served.transport.open_streams == 0)
    for _ in range(39):
        served.work.steps.release()
    await served.ended()
    (live,) = served.transport.sessions.live
    await until(lambda: not live.conversation.running)
    assert live.streams._named is not None
    assert max(stream._bytes for stream in live.streams._named.values()) <= 4 << 20
    found = steps(await (await resume(served, session, primed.id)).events())
    assert found[-1] == "answer"
    assert found[:-1] == list(range(41 - len(found[:-1]), 41))


async def test_only_some_finished_streams_are_kept(served: Served) -> None:
    session = await served.open()
    wire = await served.wire()
    firsts = []
    for number in range(50):
        reply = await served.post(call(number, "big", "t", size=1, streams=True), wire, Mcp_Session_Id=session)
        events = await reply.events()
        firsts.append((number, events[0].id))
    (live,) = served.transport.sessions.live
    assert len(live.streams._named or ()) == 32
    number, last = firsts[0]
    lost = await (await resume(served, session, last)).events()
    assert [(each.json["id"], each.json["error"]["code"]) for each in lost] == [(number, -32603)]
    kept = await (await resume(served, session, firsts[-1][1])).events()
    assert steps(kept) == [1, "answer"]


# --- ids that are not known here


@pytest.mark.parametrize(
    "last", ["x", "1.2", "a.b.c", "a.1-zz.3", "a.1-31.x", "a.1-31.-1", "..", "a.1-31.3.4", "é.1-.1"]
)
async def test_garbage_is_refused(served: Served, last: str) -> None:
    session = await served.open()
    reply = await resume(served, session, last)
    assert reply.status == 400
    assert "error" in await reply.json()


@pytest.mark.parametrize("request_id", [7, "7", "a b", -1])
async def test_after_a_restart_the_request_itself_is_answered(writer: str, request_id: int | str) -> None:
    async with serving(key=KEY, plain_writer=writer == "plain") as served:
        session = await served.open()
        reply = await served.post(call(request_id, "say_then_gate", "t"), Mcp_Session_Id=session)
        last = (await first(reply)).id
    async with serving(key=KEY, plain_writer=writer == "plain") as served:
        events = await (await resume(served, session, last)).events()
        assert [each.json["id"] for each in events] == [request_id]
        assert type(events[0].json["id"]) is type(request_id)
        assert "outcome is unknown" in events[0].json["error"]["message"]


async def test_after_a_restart_a_standing_stream_just_goes_on(writer: str) -> None:
    async with serving(key=KEY, plain_writer=writer == "plain") as served:
        session = await served.open()
        last = (await first(await resume(served, session, None))).id
    async with serving(key=KEY, plain_writer=writer == "plain") as served:
        reply = await resume(served, session, last)
        assert (await first(reply)).data == ""
        served.work.offer.announce_change("tools")
        assert (await first(reply)).json["method"] == "notifications/tools/list_changed"


async def test_an_event_id_of_another_session_reveals_nothing(served: Served) -> None:
    mine, yours = await served.open(), await served.open()
    events = await (await served.post(call(1, "big", "t", size=9, streams=True), Mcp_Session_Id=yours)).events()
    own = await (await served.post(call(1, "big", "t", size=2, streams=True), Mcp_Session_Id=mine)).events()
    assert not {each.id for each in own} & {each.id for each in events}
    answer = await (await resume(served, mine, events[0].id)).events()
    assert not any("bbbbbbbbb" in each.data for each in answer)
    assert [each.json["id"] for each in answer] == [1]


async def test_an_id_from_before_the_session_was_forgotten_matches_no_new_stream(served: Served) -> None:
    session = await served.open()
    old = await (await served.post(call(1, "big", "t", size=1, streams=True), Mcp_Session_Id=session)).events()
    (live,) = served.transport.sessions.live
    served.transport.sessions._forget(live)
    new = await (await served.post(call(1, "big", "t", size=1, streams=True), Mcp_Session_Id=session)).events()
    assert not {each.id for each in old} & {each.id for each in new}
    assert steps(await (await resume(served, session, old[0].id)).events()) == ["error"]


# --- polling


async def test_a_server_may_hang_up_and_the_client_comes_back_for_the_rest(served: Served) -> None:
    session = await served.open()
    reply = await served.post(call(1, "polling", "t"), Mcp_Session_Id=session)
    before = await reply.events()
    assert steps(before) == [1]
    served.work.go.set()
    await served.ended()
    after = await (await resume(served, session, before[-1].id)).events()
    assert steps(after) == [2, "answer"]


async def test_a_poll_that_comes_early_waits_for_the_answer(served: Served) -> None:
    session = await served.open()
    before = await (await served.post(call(1, "polling", "t"), Mcp_Session_Id=session)).events()
    reply = await resume(served, session, before[-1].id)
    served.work.go.set()
    assert steps(await reply.events()) == [2, "answer"]


@pytest.mark.parametrize("revision", OLDER)
async def test_older_clients_are_not_hung_up_on(served: Served, revision: str) -> None:
    session = await served.open(revision)
    reply = await served.post(call(1, "polling", "t"), Mcp_Session_Id=session)
    served.work.go.set()
    assert steps(await reply.events()) == [1, 2, "answer"]


async def test_hanging_up_first_opens_the_stream_that_can_be_resumed(served: Served) -> None:
    session = await served.open()
    waiting = asyncio.create_task(served.post(call(1, "late_polling"), Mcp_Session_Id=session))
    await served.started()
    served.work.go.set()
    (primed,) = await (await waiting).events()
    assert primed.data == ""
    served.work.steps.release()
    assert steps(await (await resume(served, session, primed.id)).events()) == ["answer"]


async def test_hanging_up_on_a_client_that_is_gone_costs_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await served.open()
    wire = await served.wire()
    waiting = asyncio.create_task(served.post(call(1, "late_polling"), wire, Mcp_Session_Id=session))
    await served.started()
    tasks = len(asyncio.all_tasks())
    wire.reset()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await waiting
    await until(lambda: len(asyncio.all_tasks()) < tasks - 1)
    served.work.go.set()
    await served.started()
    loop, turns = asyncio.get_running_loop(), 0
    original = loop.call_soon

    def counting(*args: Any, **more: Any) -> asyncio.Handle:
        nonlocal turns
        turns += 1
        return original(*args, **more)

    monkeypatch.setattr(loop, "call_soon", counting)
    for _ in range(200):
        await asyncio.sleep(0)  # one turn of the loop, in which a server that spins would take part every time
    monkeypatch.undo()
    assert 200 <= turns < 300
    served.work.steps.release()
    await until(lambda: served.running == 0)


# --- standing streams


async def test_a_change_while_nobody_listened_is_told_once(served: Served) -> None:
    session = await served.open()
    for _ in range(5):
        served.work.offer.announce_change("tools")
    reply = await resume(served, session, None)
    assert (await first(reply)).data == ""
    assert (await first(reply)).json["method"] == "notifications/tools/list_changed"
    served.work.offer.announce_change("prompts")
    assert (await first(reply)).json["method"] == "notifications/prompts/list_changed"


async def test_each_message_goes_to_one_standing_stream(served: Served) -> None:
    session = await served.open()
    streams = [await resume(served, session, None) for _ in range(3)]
    for stream in streams:
        await first(stream)
    served.work.offer.announce_change("tools")
    assert (await first(streams[-1])).json["method"] == "notifications/tools/list_changed"
    served.transport._comment()  # what comes next on the others is the sign of life, not the message
    assert [await stream._piece() for stream in streams] == [b":\n\n"] * 3


async def test_too_many_standing_streams_are_refused_and_closed_ones_make_room(served: Served) -> None:
    session = await served.open()
    wires = [await served.wire() for _ in range(8)]
    for wire in wires:
        assert (await resume(served, session, None, wire=wire)).status == 200
    assert (await resume(served, session, None)).status == 409
    wires[3].reset()
    await until(lambda: served.transport.open_streams == 7)
    assert (await resume(served, session, None)).status == 200


def test_the_stream_name_in_an_event_id_is_the_request_id() -> None:
    from zorivest_rpc.mcp.transports.streams import read_event_id

    point = read_event_id(f"ep.3-{encode_id('x').hex()}.12")
    assert point is not None
    assert (point.epoch, point.number, point.request) == ("ep", 12, "x")


# --- what all streams of a server keep


async def _answered(served: Served, session: str, number: int, size: int) -> str:
    """The id of the first event of a finished stream."""
    reply = await served.post(call(number, "big", "t", size=size, streams=True), Mcp_Session_Id=session)
    events = await reply.events()
    found = events[0].id
    assert found
    return found


async def test_the_replay_of_a_whole_server_is_bounded_and_the_oldest_goes_first() -> None:
    async with serving(replay_bytes=1_000_000) as served:
        first_session = await served.open()
        old = await _answered(served, first_session, 1, 100_000)
        sessions = [await served.open() for _ in range(5)]
        last = ""
        for number in range(4):
            for session in sessions:
                last = await _answered(served, session, number, 100_000)
        replay = served.transport.sessions.replay
        assert 500_000 < replay.bytes <= 1_000_000
        told = await (await resume(served, first_session, old)).events()
        assert [(each.json["id"], each.json["error"]["code"]) for each in told] == [(1, -32603)]
        assert "no longer" in told[0].json["error"]["message"]
        kept = await (await resume(served, sessions[-1], last)).events()
        assert steps(kept)[-1] == "answer"
        for session in (first_session, *sessions):
            assert (await served.request("DELETE", Mcp_Session_Id=session)).status == 204
        assert replay.bytes == 0


async def test_a_standing_stream_that_lost_events_says_how_many() -> None:
    async with serving(replay_bytes=5_000) as served:
        session, other = await served.open(), await served.open()
        wire = await served.wire()
        standing = await resume(served, session, None, wire=wire)
        primed = await first(standing)
        for _ in range(3):
            served.work.offer.announce_change("tools")
            await first(standing)
        wire.reset()
        await until(lambda: served.transport.open_streams == 0)
        await _answered(served, other, 1, 100_000)
        again = await resume(served, session, primed.id)
        told = await first(again)
        assert told.json["method"] == "notifications/message"
        assert told.json["params"]["level"] == "warning"
        assert told.json["params"]["data"].startswith("3 events")
        served.work.offer.announce_change("tools")
        assert (await first(again)).json["method"] == "notifications/tools/list_changed"


async def test_forgotten_sessions_keep_nothing() -> None:
    async with serving(session_idle=-1.0) as served:
        for _ in range(3):
            await _answered(served, await served.open(), 1, 50_000)
        assert served.transport.sessions.replay.bytes > 150_000
        served.transport.sessions.sweep()
        assert served.transport.sessions.replay.bytes == 0


@pytest.mark.parametrize("revision", ["2025-11-25", "2025-06-18"])
async def test_a_closed_stream_gives_up_its_request_at_once(served: Served, revision: str) -> None:
    session = await served.open(revision)
    wire = await served.wire()
    gc.collect()
    gc.disable()
    try:
        for number in range(20):
            reply = await served.post(call(number, "big", "t", size=1, streams=True), wire, Mcp_Session_Id=session)
            await reply.events()
        alive = sum(isinstance(each, BaseRequest) for each in gc.get_objects())
    finally:
        gc.enable()
    assert alive <= 6  # the one at hand and what aiohttp itself has not let go yet


class Line:
    """A connection that a test closes."""

    def __init__(self) -> None:
        self.keeper: Callable[[EventStream], object] = lambda line: None

    def call_on_close(self, work: Callable[[EventStream], object]) -> None:
        self.keeper = work

    def end(self) -> None:
        self.keeper(cast(EventStream, self))


def test_a_stream_lets_go_of_a_closed_connection_and_of_none_other() -> None:
    stream, first, second = Stream("epoch", "1-", 8, Replay(1_000)), Line(), Line()
    stream.carry(cast(EventStream, first), prime=False)
    first.end()
    assert stream.connection is None
    stream.carry(cast(EventStream, first), prime=False)
    stream.carry(cast(EventStream, second), prime=False)
    first.end()
    assert stream.connection is cast(EventStream, second)
