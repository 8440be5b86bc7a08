"""One upstream over time, by a clock that the test moves: health, the circuit, credentials, restarts, lists, eras."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Seen, calling, serving
from tests.gateway.gate import QUICK, faked, gate
from tests.gateway.stdio_server import __file__ as CHILD
from tests.serving.middleware.fake import NoWire
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.eras import Eras
from zorivest_rpc.gateway.errors import CircuitOpen, ToolingError, Withdrawn
from zorivest_rpc.gateway.examine import judge_tools
from zorivest_rpc.gateway.member import Member, Timing
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.talk import Call as Forwarded
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.revisions import Era
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.backend.breaker import Breaker, Share

TIMING = Timing(merged=0.0, between_lists=0.0)


class Clock:
    """Time that stands still until it is moved; what waits by it is woken in its turn."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.waits: list[float] = []  # until when the member waits
        self.moved = asyncio.Event()
        self.idle = asyncio.Event()  # the member waits

    def __call__(self) -> float:
        return self.time

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        until = self.time + seconds
        self.waits.append(seconds)
        while not event.is_set() and self.time < until:
            self.moved.clear()
            self.idle.set()
            tasks = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.moved.wait())]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        self.idle.clear()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(0)

    async def settle(self) -> None:
        """The member has done what was due and waits."""
        async with asyncio.timeout(30):
            await self.idle.wait()

    async def move(self, seconds: float) -> None:
        await self.settle()
        self.time += seconds
        self.idle.clear()
        self.moved.set()
        await self.settle()


class Life:
    """A member, its clock, and what became of it."""

    def __init__(self, member: Member, clock: Clock, telemetry: Path, directory: Path) -> None:
        self.member = member
        self.clock = clock
        self.directory = directory
        self._telemetry = telemetry

    @property
    def state(self) -> tuple[str, bool]:
        return self.member.offered.status, self.member.offered.is_listed

    def events(self, prefix: str = "mcp.circuit") -> list[str]:
        lines = self._telemetry.read_text().splitlines()
        return [event["event"] for event in map(json.loads, lines) if event["event"].startswith(prefix)]

    async def fail(self, times: int) -> list[str]:
        codes = []
        for _ in range(times):
            with pytest.raises(ToolingError) as failed:
                await self.member.call(calling("x"), repeatable=False)
            codes.append(failed.value.code)
        return codes


@asynccontextmanager
async def life(
    directory: Path, server: Server, environ: dict[str, str] | None = None, timing: Timing = TIMING, **keys: Any
) -> AsyncIterator[Life]:
    profile = Profile(mcp_servers=(server,), **{"pin": "off", "tool_retry_attempts": 1, **keys})
    pins, clock, eras = Pins(str(directory)), Clock(), Eras(str(directory))
    member = Member(
        profile,
        server,
        make=lambda server, note: make_upstream(server, environ or {}, on_happening=note),
        judge=lambda server, listing: judge_tools(profile, server.name, listing, pins),
        changed=lambda: None,
        telemetry=Telemetry(str(directory / "telemetry.jsonl"), Redactor()),
        timing=timing,
        era=eras.known(profile, server),
        remember=lambda era: eras.remember(profile, server, era),
        random=lambda: 0.5,
        clock=clock,
        pause=clock.pause,
        wait=clock.wait,
    )
    member.start()
    try:
        await clock.settle()
        yield Life(member, clock, directory / "telemetry.jsonl", directory)
    finally:
        await member.close()


@asynccontextmanager
async def living(directory: Path, fake: Fake, **keys: Any) -> AsyncIterator[Life]:
    entry = {name.removeprefix("server_"): keys.pop(name) for name in list(keys) if name.startswith("server_")}
    async with serving(fake.handle) as url, life(directory, Server(name="ops", endpoint=url, **entry), **keys) as found:
        yield found


def broken(status: int = 503) -> Callable[[Seen], Awaitable[web.StreamResponse]]:
    async def answer(seen: Seen) -> web.StreamResponse:
        return web.Response(status=status)

    return answer


# --- health


@pytest.mark.parametrize(("era", "probe"), [("modern", "server/discover"), ("legacy", "ping")])
async def test_health_is_asked_for_only_after_a_minute_of_silence(tmp_path: Path, era: str, probe: str) -> None:
    fake = Fake(era)

    async def pong(seen: Seen) -> web.StreamResponse:
        return seen.result()

    if era == "legacy":
        fake.handlers["ping"] = pong
    async with living(tmp_path, fake) as one:
        before = len(fake.of(probe))
        await one.clock.move(59.0)
        assert len(fake.of(probe)) == before
        await one.member.call(calling("x"), repeatable=False)
        await one.clock.move(2.0)
        assert len(fake.of(probe)) == before  # a call a moment ago is health enough
        await one.clock.move(58.0)
        assert len(fake.of(probe)) == before + 1
        assert len(fake.of("tools/list")) == 1
        assert one.state == ("ready", True)


@pytest.mark.parametrize(("random", "seconds"), [(0.0, 48.0), (1.0, 72.0)])
def test_probes_are_spread_by_a_fifth(random: float, seconds: float) -> None:
    server = Server(name="ops", endpoint="http://127.0.0.1:9/mcp")
    member = Member(
        Profile(mcp_servers=(server,)),
        server,
        make=lambda server, note: make_upstream(server, {}),
        judge=lambda server, listing: {},
        changed=lambda: None,
        telemetry=Telemetry(None, Redactor()),
        random=lambda: random,
    )
    assert member._idle == pytest.approx(seconds)


async def test_a_server_that_does_not_answer_the_probe_is_listed_anew_and_shown_as_degraded(tmp_path: Path) -> None:
    fake = Fake()
    async with living(tmp_path, fake) as one:
        fake.handlers["any"] = broken()
        fake.handlers |= {"server/discover": broken(), "tools/list": broken()}
        await one.clock.move(60.0)
        assert one.state == ("degraded", True)
        assert one.member.offered.listing.items
        fake.handlers.clear()
        await one.clock.move(60.0)
        assert one.state == ("ready", True)


# --- the circuit


async def test_five_failures_open_it_and_one_trial_that_succeeds_closes_it(tmp_path: Path) -> None:
    fake = Fake()
    async with living(tmp_path, fake) as one:
        fake.handlers |= {"tools/call": broken(), "server/discover": broken()}
        assert await one.fail(7) == ["connect_failed"] * 5 + ["circuit_open"] * 2
        assert len(fake.of("tools/call")) == 5
        assert one.member.circuit == "open"
        assert one.state == ("degraded", True)
        probes = len(fake.of("server/discover"))
        await one.clock.move(29.0)
        assert len(fake.of("server/discover")) == probes
        assert str(one.member.offered.error).startswith('MCP server "ops" is paused after repeated failures')
        del fake.handlers["server/discover"], fake.handlers["tools/call"]
        lists = len(fake.of("tools/list"))
        await one.clock.move(1.0)
        assert len(fake.of("server/discover")) > probes
        assert len(fake.of("tools/list")) == lists + 1
        assert one.member.circuit == "closed"
        assert one.state == ("ready", True)
        assert (await one.member.call(calling("x"), repeatable=False))[1] == 1
        assert one.events() == ["mcp.circuit.opened", "mcp.circuit.closed"]
        fake.handlers["tools/call"] = broken()
        assert await one.fail(6) == ["connect_failed"] * 5 + ["circuit_open"]  # it counts from nothing again


async def test_the_pause_doubles_up_to_five_minutes_and_is_short_again_after_a_success(tmp_path: Path) -> None:
    fake = Fake()
    async with living(tmp_path, fake) as one:
        fake.handlers |= {"tools/call": broken(), "server/discover": broken()}
        await one.fail(5)
        for seconds in (30.0, 60.0, 120.0, 240.0, 300.0, 300.0):
            probes = len(fake.of("server/discover"))
            await one.clock.move(seconds - 1.0)
            assert len(fake.of("server/discover")) == probes, seconds
            await one.clock.move(1.0)
            assert len(fake.of("server/discover")) == probes + 1, seconds
        del fake.handlers["server/discover"]
        await one.clock.move(300.0)
        assert one.member.circuit == "closed"
        await one.fail(5)
        with pytest.raises(CircuitOpen) as refused:
            await one.member.call(calling("x"), repeatable=False)
        assert refused.value.seconds == 30


async def test_tools_of_an_open_circuit_are_withdrawn_after_a_minute_and_come_back(tmp_path: Path) -> None:
    fake = Fake()
    async with living(tmp_path, fake) as one:
        fake.handlers |= {"tools/call": broken(), "server/discover": broken()}
        await one.fail(5)
        await one.clock.move(59.0)
        assert one.state == ("degraded", True)
        await one.clock.move(1.0)
        assert one.state == ("unavailable", False)
        assert await one.fail(1) == ["circuit_open"]
        fake.handlers.clear()
        await one.clock.move(300.0)
        assert one.state == ("ready", True)


async def test_a_trial_is_a_question_of_ours_and_never_a_call(tmp_path: Path) -> None:
    fake = Fake()
    async with living(tmp_path, fake) as one:
        fake.handlers |= {"tools/call": broken(), "server/discover": broken()}
        await one.fail(5)
        one.clock.time += 31.0  # the time of the trial has come, and the member has not moved yet
        assert await one.fail(3) == ["circuit_open"] * 3
        assert len(fake.of("tools/call")) == 5


@pytest.mark.parametrize("status", [401, 403])
async def test_refused_credentials_open_no_circuit_stop_calls_and_heal(tmp_path: Path, status: int) -> None:
    fake = Fake()
    async with living(tmp_path, fake) as one:
        fake.handlers["any"] = fake.handlers["tools/call"] = broken(status)
        assert await one.fail(1) == ["auth_rejected"]
        assert one.state == ("auth_failed", False)
        assert one.member.circuit == "closed"
        fake.handlers.clear()
        await one.clock.move(60.0)
        assert one.state == ("ready", True)
        assert one.events() == []


async def test_a_missing_variable_heals_when_it_is_set(tmp_path: Path) -> None:
    fake, environ = Fake(), {"OTHER": "x"}
    async with living(tmp_path, fake, environ=environ, server_auth_bearer_env="TOKEN") as one:
        assert one.state == ("auth_failed", False)
        assert fake.seen == []
        environ["TOKEN"] = "t0ken"
        await one.clock.move(60.0)
        assert one.state == ("ready", True)
        del environ["TOKEN"]
        assert (await one.member.call(calling("x"), repeatable=False))[1] == 1  # a connection keeps what it was given


def test_half_of_ten_attempts_within_a_minute_open_it_too() -> None:
    now = 0.0
    for failures, opens in ((4, False), (5, True)):
        breaker = Breaker(lambda: now, share=Share(), pause=30.0)
        for number in range(10):
            breaker.record_failure() if number % 2 and number < 2 * failures else breaker.record_answer()
        assert breaker.is_open is opens, failures
    breaker = Breaker(lambda: now, share=Share())
    for _ in range(4):  # fewer than ten attempts say nothing
        breaker.record_answer()
        breaker.record_failure()
    assert not breaker.is_open
    now = 61.0  # and what is older than a minute neither
    breaker.record_failure()
    breaker.record_failure()
    assert not breaker.is_open
    plain = Breaker(lambda: now)
    for _ in range(50):
        plain.record_answer()
        plain.record_failure()
    assert not plain.is_open


async def test_failures_that_were_under_way_when_it_opened_do_not_make_it_longer(tmp_path: Path) -> None:
    fake, release, arrived = Fake(), asyncio.Event(), asyncio.Semaphore(0)

    async def late(seen: Seen) -> web.StreamResponse:
        arrived.release()
        await release.wait()
        return web.Response(status=503)

    async with living(tmp_path, fake) as one:
        fake.handlers |= {"tools/call": late, "server/discover": broken()}
        calls = [asyncio.create_task(one.fail(1)) for _ in range(8)]
        for _ in range(8):
            await arrived.acquire()
        release.set()
        await asyncio.gather(*calls)
        with pytest.raises(CircuitOpen) as refused:
            await one.member.call(calling("x"), repeatable=False)
        assert refused.value.seconds == 30


# --- lists


async def test_a_list_with_a_time_is_read_again_at_its_end_but_not_within_half_a_minute(tmp_path: Path) -> None:
    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=10_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        await one.clock.move(29.0)
        assert len(fake.of("tools/list")) == 1
        fake.tools = [TOOL, {**TOOL, "name": "more"}]
        await one.clock.move(1.0)
        assert len(fake.of("tools/list")) == 2
        assert len(one.member.offered.listing.items) == 2


async def test_a_time_says_nothing_while_a_stream_tells_of_changes(tmp_path: Path) -> None:
    fake = Fake(capabilities={"tools": {"listChanged": True}})
    hold = asyncio.Event()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    async def listen(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        told = {"notifications": {"toolsListChanged": True}}
        note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told}
        await response.write(f"data: {json.dumps(note)}\n\n".encode())
        await hold.wait()
        return response

    fake.handlers |= {"tools/list": listed, "subscriptions/listen": listen}
    async with living(tmp_path, fake) as one:
        await one.clock.move(45.0)
        assert len(fake.of("tools/list")) == 1
        hold.set()


async def test_a_list_that_cannot_be_read_again_leaves_the_last_good_one(tmp_path: Path) -> None:
    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        fake.handlers["tools/list"] = broken(500)
        await one.clock.move(31.0)
        assert one.state == ("degraded", True)
        assert len(one.member.offered.listing.items) == 1
        assert (await one.member.call(calling("x"), repeatable=False))[1] == 1


# --- eras


async def test_the_era_is_remembered_in_the_state_file_and_probed_anew_when_it_fails(tmp_path: Path) -> None:
    fake = Fake("legacy")
    async with serving(fake.handle) as url:
        server = Server(name="ops", endpoint=url)
        async with life(tmp_path, server):
            assert fake.methods[:2] == ["server/discover", "initialize"]
        fake.seen.clear()
        async with life(tmp_path, server) as one:
            assert fake.methods[0] == "initialize"  # no probe
            assert one.member.link.era == "2025-11-25"
        fake.seen.clear()
        fake.era = "modern"
        async with life(tmp_path, server) as one:
            assert fake.methods[:2] == ["initialize", "server/discover"]
            assert one.state == ("ready", True)
        fake.seen.clear()
        async with life(tmp_path, server):
            assert "initialize" not in fake.methods
        profile = Profile(mcp_servers=(server,))
        assert Eras(str(tmp_path)).known(profile, server) is Era.MODERN
        elsewhere = Server(name="ops", endpoint=url + "/other")
        assert Eras(str(tmp_path)).known(Profile(mcp_servers=(elsewhere,)), elsewhere) is None


async def test_a_state_file_that_cannot_be_read_costs_a_probe_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "mcp-state.json").write_text('{"eras": {"x": 5}}')
    async with living(tmp_path, Fake("legacy")) as one:
        assert one.state == ("ready", True)
    assert (tmp_path / "mcp-state.json").stat().st_mode & 0o077 == 0


# --- children


def child(**keys: Any) -> Server:
    return Server(name="ops", command=sys.executable, args=("-I", CHILD, "modern"), timeout_secs=60, **keys)


async def end_child(one: Life) -> None:
    params = json.dumps({"name": "echo", "arguments": {"do": "exit", "kept": 0}}).encode()
    one.clock.idle.clear()  # it has something to do now
    with pytest.raises(ToolingError) as failed:
        await one.member.call(Forwarded("tools/call", params, "echo", shown="ops__echo"), repeatable=False)
    assert failed.value.code == "stdio_exited"


async def test_a_child_that_ends_is_started_again_later_and_later_and_five_times(tmp_path: Path) -> None:
    async with life(tmp_path, child()) as one:
        for _ in range(20):  # so that its ends are no half of its calls
            await one.member.call(calling("x"), repeatable=False)
        for seconds in (0.5, 1.0, 2.0, 4.0, 8.0):
            await end_child(one)
            await one.clock.settle()
            assert await one.fail(1) == ["stdio_exited"]  # not yet: nothing was sent
            await one.clock.move(seconds)
            assert one.state == ("ready", True)
            assert (await one.member.call(calling("x"), repeatable=False))[1] == 1
        await end_child(one)
        await one.clock.settle()
        assert one.state == ("unavailable", False)
        assert await one.fail(1) == ["stdio_exited"]
        await one.clock.move(300.0)
        assert one.state == ("ready", True)


# --- what is gone


async def test_a_tool_that_its_server_dropped_is_told_as_withdrawn_whatever_it_was_called(tmp_path: Path) -> None:
    fake = Fake()
    fake.tools = [TOOL, {**TOOL, "name": "old"}]
    async with faked(fake, prefix=False) as server, gate(tmp_path, server, timing=QUICK) as between:
        assert "old" in between.gateway.catalogue.table
        fake.tools = [TOOL]
        await between.member().discover()
        definitions = between.gateway.catalogue.definitions
        assert "old" not in [spec.name for spec in definitions.tools]
        assert "old" in [spec.name for spec in definitions.withheld]
        with pytest.raises(Withdrawn) as withdrawn:
            await between.gateway.forward(Call("old", {}, Session(), NoWire()))
        assert withdrawn.value.problem == '"old" is no longer offered by MCP server "up".'
        fake.tools = [TOOL, {**TOOL, "name": "old"}]
        await between.member().discover()
        assert not (await between.gateway.forward(Call("old", {}, Session(), NoWire()))).is_error


# --- one failure does not spread


async def test_a_list_that_fails_cuts_no_call_that_is_under_way(tmp_path: Path) -> None:
    fake, release, arrived = Fake(), asyncio.Event(), asyncio.Event()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    async def slow(seen: Seen) -> web.StreamResponse:
        arrived.set()
        await release.wait()
        return fake.answer(seen)

    fake.handlers |= {"tools/list": listed, "tools/call": slow}
    async with living(tmp_path, fake) as one:
        running = asyncio.create_task(one.member.call(calling("still here"), repeatable=False))
        await arrived.wait()
        fake.handlers["tools/list"] = broken(500)
        await one.clock.move(31.0)
        assert one.state == ("degraded", True)
        fake.handlers["tools/list"] = listed
        await one.clock.move(60.0)
        assert one.state == ("ready", True)  # over another connection
        release.set()
        assert b"still here" in bytes((await running)[0].raw)
        await one.clock.move(60.0)
        assert not one.member.link.has_retired


async def test_pins_that_cannot_be_written_are_told_and_tried_again(tmp_path: Path) -> None:
    def full(server: Server, listing: Any) -> Any:
        raise OSError(28, "No space left on device")

    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        judge, one.member._judge = one.member._judge, full
        await one.clock.move(31.0)
        assert one.state[0] == "unavailable"
        assert "No space left" in str(one.member.offered.error)
        one.member._judge = judge
        await one.clock.move(60.0)
        assert one.state == ("ready", True)


async def test_a_defect_is_shown_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        judge, one.member._judge = one.member._judge, lambda server, listing: {}[0]  # type: ignore[index,unused-ignore]
        await one.clock.move(31.0)
        assert one.state[0] == "unavailable"
        assert "internal error" in caplog.text
        one.member._judge = judge
        await one.clock.move(60.0)
        assert one.state == ("ready", True)


async def test_a_server_that_changes_its_era_while_it_is_connected_is_opened_anew(tmp_path: Path) -> None:
    fake = Fake("legacy")
    async with living(tmp_path, fake) as one:
        assert one.member.link.era == "2025-11-25"
        fake.era = "modern"

        async def unknown(seen: Seen) -> web.StreamResponse:
            return seen.error(-32600, "no _meta") if "Mcp-Session-Id" in seen.headers else fake.answer(seen)

        fake.handlers |= {"tools/list": unknown, "ping": unknown}
        with pytest.raises(ToolingError):
            await one.member.discover()
        await one.clock.move(60.0)
        assert one.member.link.era == "2026-07-28"
        assert one.state == ("ready", True)
