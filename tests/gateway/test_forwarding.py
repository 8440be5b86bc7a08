"""What is sent again and what is not, cell by cell, counted where it arrives; and what goes through beside answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Seen, calling, event, note
from tests.gateway.gate import CLIENTS, UPSTREAMS, faked, gate, in_front, upstream, words_of
from tests.gateway.lives import Life, life
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import ToolingError

# --- the table of failures

Answer = Callable[[Seen], Awaitable[web.StreamResponse]]


class Port:
    """A server that can be away and come back where it was."""

    def __init__(self, fake: Fake) -> None:
        self._fake = fake
        self._runner: web.ServerRunner | None = None
        self.port = 0

    async def start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self._fake.handle, handler_cancellation=True), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def status(number: int, **headers: str) -> Answer:
    async def answer(seen: Seen) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=number, headers=named)

    return answer


async def cut(seen: Seen) -> web.StreamResponse:
    assert seen.request.transport is not None
    seen.request.transport.abort()
    return web.Response()


async def hang(seen: Seen) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def nonsense(seen: Seen) -> web.StreamResponse:
    return web.Response(text="nonsense", content_type="application/json")


async def refused(seen: Seen) -> web.StreamResponse:
    return seen.error(-32000, "not today")


DATES = tuple(f"Mon, 02 Jan 2023 10:00:{second} GMT" for second in ("00", "01", "59"))

# what fails once, and whether a list, a call that may be repeated, and another call are sent again
TABLE: dict[str, tuple[Answer | None, tuple[bool, bool, bool]]] = {
    "refused": (None, (True, True, True)),
    "session lost": (status(404), (True, True, True)),
    "429 with Retry-After": (status(429, Retry_After="1"), (True, True, True)),
    "503 with Retry-After": (status(503, Retry_After="1"), (True, True, True)),
    "429 with a date": (status(429, Date=DATES[0], Retry_After=DATES[1]), (True, True, True)),
    "503 with a date": (status(503, Date=DATES[0], Retry_After=DATES[1]), (True, True, True)),
    "503 with a late date": (status(503, Date=DATES[0], Retry_After=DATES[2]), (False, False, False)),
    "503 with no time at all": (status(503, Retry_After="soon"), (True, True, False)),
    "429 with a late Retry-After": (status(429, Retry_After="4000"), (False, False, False)),
    "503": (status(503), (True, True, False)),
    "502": (status(502), (True, True, False)),
    "504": (status(504), (True, True, False)),
    "cut after sending": (cut, (True, True, False)),
    "timeout": (hang, (True, False, False)),
    "401": (status(401), (False, False, False)),
    "403": (status(403), (False, False, False)),
    "302": (status(302, Location="http://127.0.0.1:9/"), (False, False, False)),
    "protocol": (nonsense, (False, False, False)),
    "JSON-RPC error": (refused, (False, False, False)),
}


@asynccontextmanager
async def failing(
    directory: Path, row: str, method: str
) -> AsyncIterator[tuple[Life, Fake, Callable[[], Awaitable[None]]]]:
    """A member whose server fails the next request of this method once; what is called last brings it back."""
    fake = Fake("legacy" if row == "session lost" else "modern")
    listed = fake.serve

    def serve(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000) if seen.method == "tools/list" else listed(seen)

    fake.serve = serve  # type: ignore[method-assign]
    port = Port(fake)
    await port.start()
    timeout: Any = 0.3 if row == "timeout" else 15
    server = Server(name="ops", endpoint=f"http://127.0.0.1:{port.port}/mcp", timeout_secs=timeout)
    try:
        async with life(directory, server, tool_retry_attempts=2, tool_retry_delay_ms=500) as one:
            fake.seen.clear()
            answer = TABLE[row][0]
            if answer is None:
                await port.stop()
                with pytest.raises(ToolingError):  # what was open is known to be closed now
                    await (await one.member.link.connect()).check_health()
            else:
                left = [answer]

                async def once(seen: Seen) -> web.StreamResponse:
                    return await left.pop()(seen) if left else fake.answer(seen)

                fake.handlers[method] = once

            async def bring_back() -> None:
                if answer is None:
                    await port.start()

            yield one, fake, bring_back
    finally:
        await port.stop()


@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize("column", [1, 2], ids=["repeatable", "other"])
async def test_a_call_is_sent_again_as_the_table_says(tmp_path: Path, row: str, column: int) -> None:
    is_sent_again = TABLE[row][1][column]
    async with failing(tmp_path, row, "tools/call") as (one, fake, bring_back):
        paused: list[float] = []

        async def pause(seconds: float) -> None:
            paused.append(seconds)
            await bring_back()

        one.member._pause = pause
        seconds = 0.3 if row == "timeout" else 45.0
        call = one.member.call(calling("x", seconds=seconds), repeatable=column == 1)
        if is_sent_again:
            _, attempts = await call
            assert attempts == (1 if row == "session lost" else 2)
        else:
            with pytest.raises(ToolingError) as failed:
                await call
            assert failed.value.code != "retry_exhausted"
        arrived = {"refused": 1}.get(row, 2 if is_sent_again else 1)
        assert len(fake.of("tools/call")) == arrived
        if row.endswith(("with Retry-After", "with a date")) and is_sent_again:
            assert paused == [1.0]


@pytest.mark.parametrize("row", TABLE)
async def test_a_list_is_asked_for_again_as_the_table_says(tmp_path: Path, row: str) -> None:
    is_sent_again = TABLE[row][1][0]
    async with failing(tmp_path, row, "tools/list") as (one, fake, bring_back):
        await one.clock.move(31.0)  # the list has expired
        await bring_back()
        await one.clock.move(2.0)  # more than the pause before another attempt, less than a minute
        assert len(fake.of("tools/list")) == {"refused": 1}.get(row, 2 if is_sent_again else 1)
        assert one.member.offered.listing.items
        if is_sent_again:
            assert one.state == ("ready", True)


async def test_attempts_share_one_deadline(tmp_path: Path) -> None:
    async with failing(tmp_path, "503", "tools/call") as (one, fake, _):
        fake.handlers["tools/call"] = status(503, Retry_After="40")
        with pytest.raises(ToolingError) as failed:
            await one.member.call(calling("x", seconds=30.0), repeatable=True)
        assert failed.value.code == "connect_failed"
        assert len(fake.of("tools/call")) == 1
        fake.handlers["tools/call"] = status(503)
        one.clock.time += 60.0
        call = calling("x", seconds=30.0)
        with pytest.raises(ToolingError) as failed:
            await one.member.call(call, repeatable=True)
        assert failed.value.code == "retry_exhausted"
        assert "failed 2 times in a row" in failed.value.problem
        assert call.deadline is not None
        assert call.deadline <= asyncio.get_running_loop().time() + 30.0


async def test_a_pause_that_outlives_the_deadline_ends_the_attempts_that_were_made(tmp_path: Path) -> None:
    async with failing(tmp_path, "503", "tools/call") as (one, fake, _):
        left = [status(503)]

        async def worse(seen: Seen) -> web.StreamResponse:
            return await (left.pop() if left else status(503, Retry_After="40"))(seen)

        fake.handlers["tools/call"] = worse
        one.member.profile = Profile(tool_retry_attempts=3, tool_retry_delay_ms=0)
        with pytest.raises(ToolingError) as failed:
            await one.member.call(calling("x", seconds=30.0), repeatable=True)
        assert failed.value.code == "retry_exhausted"
        assert "failed 2 times in a row" in failed.value.problem
        assert len(fake.of("tools/call")) == 2


async def test_an_error_that_the_tool_itself_reports_is_a_result(tmp_path: Path) -> None:
    async def answer(seen: Seen) -> web.StreamResponse:
        return seen.result(content=[{"type": "text", "text": "no such incident"}], isError=True)

    fake = Fake(tools_call=answer)
    async with faked(fake) as server, gate(tmp_path, server) as between, in_front("memory", between) as client:
        result = await client.call("up__echo")
    assert result["isError"]
    assert words_of(result) == "no such incident"
    assert len(fake.of("tools/call")) == 1


# --- beside the answer


@pytest.mark.parametrize("behind", UPSTREAMS)
@pytest.mark.parametrize("front", CLIENTS)
async def test_progress_log_and_cancellation_go_through(tmp_path: Path, front: str, behind: str) -> None:
    async with upstream(behind, tmp_path) as server, gate(tmp_path, server) as between:
        async with in_front(front, between) as client:
            level = {"io.modelcontextprotocol/logLevel": "info"} if client.modern else {}
            params = {"name": "up__count", "arguments": {"to": 3}}
            result = await client.result("tools/call", params, progressToken="mine", **level)
            assert not result.get("isError"), result
            steps = [each["params"] for each in client.notes_of("notifications/progress")]
            assert [(step["progressToken"], step["progress"]) for step in steps] == [("mine", n) for n in (1, 2, 3)]
            logged = {"name": "up__log", "arguments": {"message": "hello", "level": "warning"}}
            await client.result("tools/call", logged, **level)
            told = await client.note("notifications/message")
            assert (told["params"]["level"], told["params"]["data"]) == ("warning", "hello")
            assert told["params"]["logger"].startswith("up")
            quiet = {"name": "up__log", "arguments": {"message": "details", "level": "debug"}}
            await client.result("tools/call", quiet, **level)
            assert len(client.notes_of("notifications/message")) == 1

            id = await client.start_call("up__wait", {"seconds": 3600})
            while "1" not in words_of(await client.call("up__running")):
                continue
            if front == "streamable-modern":
                await client.wire.hang_up(id)  # type: ignore[attr-defined]
            else:
                await client.cancel(id)
            while "0" not in words_of(await client.call("up__running")):
                continue
        ends = between.ends()
        assert ends.count("cancelled") == 1
        assert set(ends) == {"tool.succeeded", "cancelled"}


async def test_a_legacy_server_hears_the_finest_level_that_a_caller_wants(tmp_path: Path) -> None:
    async def set_level(seen: Seen) -> web.StreamResponse:
        return seen.result()

    fake = Fake("legacy", {"tools": {}, "logging": {}})
    fake.handlers["logging/setLevel"] = set_level
    async with faked(fake) as server, gate(tmp_path, server) as between, in_front("memory", between) as client:
        await client.call("up__echo")
        await client.result("logging/setLevel", {"level": "error"})
        await client.call("up__echo")
        await client.result("logging/setLevel", {"level": "debug"})
        await client.call("up__echo")
        await client.call("up__echo")
    assert [seen.params["level"] for seen in fake.of("logging/setLevel")] == ["info", "debug"]


async def test_a_server_that_does_not_answer_for_the_level_of_its_log_is_called_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zorivest_rpc.gateway.upstream._LEVEL_SECONDS", 0.05)
    fake = Fake("legacy", {"tools": {}, "logging": {}})
    fake.handlers["logging/setLevel"] = hang
    async with faked(fake) as server, gate(tmp_path, server) as between, in_front("memory", between) as client:
        assert words_of(await client.call("up__echo", {"text": "here"})) == "here"
    assert len(fake.of("logging/setLevel")) == 1


async def test_progress_extends_no_deadline_and_is_told_to_its_own_call(tmp_path: Path) -> None:
    async def forever(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        number = 0
        while True:
            number += 1
            token = seen.params["_meta"]["progressToken"]
            await response.write(event(note("progress", progressToken=token, progress=number)))
            await asyncio.sleep(0.005)

    server_of = faked(Fake(tools_call=forever), call_timeout_secs=1)
    async with server_of as server, gate(tmp_path, server) as between, in_front("memory", between) as client:
        ids = [await client.start_call("up__echo", {}, progressToken=token) for token in ("a", "b")]
        results = [(await client.answer(id))["result"] for id in ids]
        assert all(words_of(result).startswith('"up__echo" did not finish within 1 s') for result in results)
        steps = [each["params"] for each in client.notes_of("notifications/progress")]
        for token in ("a", "b"):
            mine = [step["progress"] for step in steps if step["progressToken"] == token]
            assert mine == sorted(mine)
            assert mine


# --- every request has exactly one end


# long: the servers of every kind, the calls at random, and what became of them
async def test_whatever_happens_each_call_that_was_requested_ends_once(tmp_path: Path) -> None:
    """A hundred calls at random: failures of every kind, questions answered, refused and left alone, cancellations."""
    seed = 20_261_118
    dice, asked = random.Random(seed), 0
    answers: dict[Any, asyncio.Queue[Any]] = {}

    async def ask(seen: Seen) -> web.StreamResponse:
        mine = answers[f"q{seen.id}"] = asyncio.Queue()
        response = await seen.stream()
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
        question = {"jsonrpc": "2.0", "id": f"q{seen.id}", "method": "elicitation/create", "params": form}
        await response.write(event(question))
        await mine.get()
        await response.write(event({"jsonrpc": "2.0", "id": seen.id, "result": {"content": []}}))
        return response

    async def hear(seen: Seen) -> web.StreamResponse:
        answers[seen.message["id"]].put_nowait(seen.message)
        return web.Response(status=202)

    kinds: dict[str, Answer] = {
        **{name: row[0] for name, row in TABLE.items() if row[0] is not None and name not in ("timeout", "401", "403")},
        "ask": ask,
        "hang": hang,
    }

    async def any_of(seen: Seen) -> web.StreamResponse:
        kind = kinds.get(seen.params["arguments"]["text"])
        return fake.answer(seen) if kind is None else await kind(seen)

    fake = Fake("legacy", tools_call=any_of)
    fake.tools = [TOOL]
    fake.handlers["POST"] = hear
    names = [*kinds, *("ask", "hang", "good") * len(kinds)]  # few enough failures for a closed circuit
    async with faked(fake) as server, gate(tmp_path, server, seconds=0.5) as between:
        async with in_front("memory", between) as client, in_front("memory-modern", between) as modern:
            for _ in range(100):
                one = dice.choice((client, modern))
                kind = dice.choice(names)
                id = await one.start_call("up__echo", {"text": kind})
                if kind == "hang" or (kind == "ask" and dice.random() < 0.5):
                    await one.settle()
                    await one.cancel(id)
                elif kind != "ask":
                    await one.answer(id)
            for number in range(1, len(client.questions) + 1):
                if dice.random() < 0.7:
                    asked += 1
                    await client.reply(
                        await client.question(number), {"action": dice.choice(("accept", "cancel")), "content": {}}
                    )
            await between.until_over()
        ends = between.ends()
    assert len(ends) > 50
    assert {"tool.succeeded", "cancelled", "upstream_error", "protocol"} <= set(ends), set(ends)
