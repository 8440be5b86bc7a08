"""An upstream over Streamable HTTP: event streams, resumption, sessions and cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import (
    IDENTITY,
    Fake,
    Noted,
    Pauses,
    Seen,
    answering,
    attempt,
    calling,
    connected,
    done,
    event,
    note,
    serving,
    streaming,
    text_of,
)
from zorivest_rpc.gateway.errors import (
    CallTimeout,
    ConnectFailed,
    NoAnswer,
    ProtocolBroken,
    TooLarge,
)
from zorivest_rpc.gateway.http_client import HttpUpstream, StatusFailed
from zorivest_rpc.gateway.net import CONNECTIONS
from zorivest_rpc.gateway.upstream import FRAME_LIMIT, Happening
from zorivest_rpc.mcp.client.caller import Changed

# --- event streams


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_stream_gives_progress_and_log_messages_and_then_the_answer(era: str) -> None:
    fake = Fake(
        era,
        tools_call=streaming(
            b": keep-alive\n\n",
            lambda seen: note("progress", progressToken=seen.id, progress=1, total=2, message="half"),
            note("progress", progressToken="other", progress=9),
            note("message", level="info", data="words"),
            note("tools/list_changed"),
            {"jsonrpc": "2.0", "id": 999, "result": {}},
            done(),
        ),
    )
    progress: list[Any] = []
    logs: list[Any] = []
    happenings: list[Happening] = []
    async with connected(fake, happenings) as client:
        call = calling(on_progress=lambda p: progress.append((p.progress, p.total, p.message)), on_log=logs.append)
        assert text_of(await client.call(call)) == "done"
        assert client.caller.strays == 1
    assert progress == [(1, 2, "half")]
    assert [(told.level, bytes(told.data)) for told in logs] == [("info", b'"words"')]
    assert happenings == [Changed("tools")]


async def test_a_modern_stream_that_ends_without_an_answer_is_lost_and_not_taken_up() -> None:
    for cut in (False, True):
        fake = Fake(tools_call=streaming(event(note("message", level="info", data=1), "7"), cut=cut))
        async with connected(fake) as client:
            with pytest.raises(ConnectFailed) as failed:
                await client.call(calling())
        assert failed.value.sent
        assert fake.methods == ["server/discover", "tools/call"]


async def test_an_event_above_the_limit_ends_the_call() -> None:
    fake = Fake(tools_call=streaming(b"data: " + b"x" * FRAME_LIMIT, b"x\n\n", done()))
    async with connected(fake) as client:
        with pytest.raises(TooLarge):
            await client.call(calling())


@pytest.mark.parametrize(("retry", "waits"), [(None, 1.0), (250, 0.25), (0, 0.0)])
@pytest.mark.parametrize("cut", [False, True])
async def test_a_legacy_stream_that_ends_early_is_taken_up_after_its_time(
    retry: int | None, waits: float, cut: bool
) -> None:
    async def resume(seen: Seen) -> web.StreamResponse:
        if "Last-Event-ID" not in seen.headers:
            return web.Response(status=405)
        response = await seen.stream()
        if len(fake.of("GET")) == 1:
            await response.write(event(note("message", level="info", data=2), "e2"))
        else:
            called = fake.of("tools/call")[0]
            await response.write(event(done()(called), "e3"))
        return response

    first = event(note("message", level="info", data=1), "e1", retry)
    fake = Fake("legacy", tools_call=streaming(first, cut=cut), GET=resume)
    pauses = Pauses()
    async with connected(fake, pause=pauses) as client:
        assert text_of(await client.call(calling())) == "done"
    assert pauses.seconds == [waits, waits]
    assert [seen.headers["Last-Event-ID"] for seen in fake.of("GET")] == ["e1", "e2"]
    assert {seen.headers["Mcp-Session-Id"] for seen in fake.of("GET")} == {"session-0"}
    assert len(fake.of("tools/call")) == 1


async def test_a_stream_that_ends_at_once_and_wants_no_pause_is_given_one() -> None:
    async def resume(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        number = len(fake.of("GET"))
        if number > 8:
            await response.write(event(done()(fake.of("tools/call")[0]), "last"))
        else:
            await response.write(event(note("message", level="info", data=1), f"e{number}", 0))
        return response

    fake = Fake("legacy", tools_call=streaming(event(note("message", level="info", data=1), "e0", 0)), GET=resume)
    pauses = Pauses()
    async with connected(fake, pause=pauses) as client:
        assert text_of(await client.call(calling())) == "done"
    assert pauses.seconds == [0.0] * 3 + [0.1] * 6


async def test_a_legacy_stream_without_ids_or_that_cannot_be_taken_up_is_lost() -> None:
    fake = Fake("legacy", tools_call=streaming(note("message", level="info", data=1)))
    async with connected(fake) as client:
        with pytest.raises(ConnectFailed):
            await client.call(calling())
    assert fake.of("GET") == []
    fake = Fake("legacy", tools_call=streaming(event(note("message", level="info", data=1), "e1")))
    pauses = Pauses()
    async with connected(fake, pause=pauses) as client:
        with pytest.raises(ConnectFailed) as failed:
            await client.call(calling())
    assert failed.value.sent
    assert len(fake.of("GET")) == 4
    assert len(fake.of("tools/call")) == 1


async def test_the_deadline_bounds_a_resumption() -> None:
    async def never(seconds: float) -> None:
        await asyncio.Event().wait()

    fake = Fake("legacy", tools_call=streaming(event(note("message", level="info", data=1), "e1")))
    async with connected(fake, pause=never) as client:
        with pytest.raises(CallTimeout):
            await client.call(calling(seconds=0.2))


# --- sessions


async def test_a_session_is_kept_and_ended() -> None:
    fake = Fake("legacy")
    async with connected(fake) as client:
        await client.call(calling())
    later = [seen for seen in fake.seen if seen.method not in ("server/discover", "initialize")]
    assert {seen.headers.get("Mcp-Session-Id") for seen in later} == {"session-0"}
    assert {seen.headers.get("MCP-Protocol-Version") for seen in later} == {"2025-11-25"}
    assert fake.methods[-1] == "DELETE"
    assert all("Mcp-Session-Id" not in seen.headers for seen in fake.of("initialize"))


async def test_a_lost_session_is_opened_anew_once_and_the_calls_are_posted_again() -> None:
    lost = {"session-0"}

    async def judge(seen: Seen) -> web.StreamResponse:
        if seen.headers["Mcp-Session-Id"] in lost:
            return web.Response(status=404)
        return fake.answer(seen)

    fake = Fake("legacy", tools_call=judge)
    async with connected(fake) as client:
        results = await asyncio.gather(*(client.call(calling(str(number))) for number in range(6)))
        assert [text_of(result) for result in results] == [str(number) for number in range(6)]
        assert len(fake.of("initialize")) == 2
        assert fake.methods.count("server/discover") == 1
        lost.add("session-1")
        lost.add("session-2")
        with pytest.raises(StatusFailed):
            await client.call(calling())
    assert len(fake.of("initialize")) == 3


async def test_a_session_that_is_lost_with_400_is_opened_anew_and_its_stream_too() -> None:
    """As servers do that were written after the examples of the TypeScript SDK."""
    following = Noted()
    unknown = {"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}
    lost: set[str] = set()

    async def judge(seen: Seen) -> web.StreamResponse:
        if seen.headers["Mcp-Session-Id"] in lost:
            return web.json_response(unknown, status=400)
        return fake.answer(seen)

    async def follow(seen: Seen) -> web.StreamResponse:
        if seen.headers["Mcp-Session-Id"] in lost:
            return web.json_response(unknown, status=400)
        following.append(seen.headers["Mcp-Session-Id"])
        response = await seen.stream()
        if len(following) > 1:
            await asyncio.Event().wait()
        return response

    fake = Fake("legacy", {"tools": {"listChanged": True}}, tools_call=judge, GET=follow)
    async with connected(fake, pause=Pauses()) as client:
        await following.reach(1)
        lost.add("session-0")
        assert text_of(await client.call(calling("again"))) == "again"
        await following.reach(2)
        assert following == ["session-0", "session-1"]
        assert len(fake.of("tools/call")) == 2  # refused, and delivered
        lost.add("session-1")
        lost.add("session-2")
        with pytest.raises(StatusFailed):
            await client.call(calling())
    assert len(fake.of("initialize")) == 3


async def test_404_without_a_session_is_no_lost_session() -> None:
    fake = Fake(tools_call=answering(404))
    async with connected(fake) as client:
        with pytest.raises(StatusFailed):
            await client.call(calling())
    assert fake.methods == ["server/discover", "tools/call"]


@pytest.mark.parametrize("id", ["a b", "ü", "x" * 5000])
async def test_a_session_id_that_is_none_is_refused(id: str) -> None:
    async def open_(seen: Seen) -> web.StreamResponse:
        return seen.result(headers={"Mcp-Session-Id": id}, protocolVersion="2025-11-25", capabilities={})

    error = await attempt(Fake("legacy", initialize=open_))
    assert isinstance(error, ProtocolBroken)


async def test_closing_a_session_whose_server_is_gone_is_quiet() -> None:
    fake = Fake("legacy")
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY)
        await client.connect()
    await client.close()
    with pytest.raises(ConnectFailed):
        await client.call(calling())


# --- cancellation


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_withdrawn_call_is_closed_or_told(era: str, is_streaming: bool) -> None:
    began, ended, told = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hang(seen: Seen) -> web.StreamResponse:
        try:
            response = await seen.stream() if is_streaming else web.StreamResponse()
            began.set()
            await asyncio.Event().wait()
            return response
        finally:
            ended.set()

    async def hear(seen: Seen) -> web.StreamResponse:
        told.set()
        return web.Response(status=202)

    fake = Fake(era, tools_call=hang, notifications_cancelled=hear)
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY)
        await client.connect()
        task = asyncio.create_task(client.call(calling()))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            await ended.wait()
            if era == "legacy":
                await told.wait()
        assert client.caller.pending == {}
        await client.close()
    cancelled = fake.of("notifications/cancelled")
    assert [seen.params["requestId"] for seen in cancelled] == (
        [fake.of("tools/call")[0].id] if era == "legacy" else []
    )


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_that_never_got_its_turn_was_not_sent_and_is_not_withdrawn(era: str) -> None:
    busy = asyncio.Semaphore(0)

    async def hang(seen: Seen) -> web.StreamResponse:
        busy.release()
        await asyncio.Event().wait()
        raise AssertionError

    fake = Fake(era, tools_call=hang)
    async with connected(fake) as client:
        working = [asyncio.create_task(client.call(calling())) for _ in range(CONNECTIONS)]
        for _ in working:
            await busy.acquire()
        with pytest.raises(NoAnswer):  # it says nothing of what may have taken effect
            await client.call(calling("waits", seconds=0.05))
        waiting = asyncio.create_task(client.call(calling("waits")))
        await asyncio.sleep(0)
        for task in (waiting, *working):
            task.cancel()
        await asyncio.gather(waiting, *working, return_exceptions=True)
    sent = [seen.id for seen in fake.of("tools/call")]
    assert len(sent) == CONNECTIONS
    assert {seen.params["requestId"] for seen in fake.of("notifications/cancelled")} <= set(sent)


async def test_a_call_ends_at_its_deadline_whatever_comes_meanwhile() -> None:
    async def babble(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        for number in range(1, 10_000):
            await response.write(event(note("progress", progressToken=seen.id, progress=number)))
            await asyncio.sleep(0.02)
        return response

    async with connected(Fake(tools_call=babble)) as client:
        with pytest.raises(CallTimeout) as failed:
            await client.call(calling(seconds=0.3, on_progress=lambda _: None))
    assert failed.value.retryable is False
    assert "ops__echo" in failed.value.problem
