"""The health of one upstream, its circuit and its credentials, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from tests.gateway.fake import Fake, Seen, calling
from tests.gateway.lives import broken, living
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import CircuitOpen
from zorivest_rpc.gateway.member import Member
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry
from zorivest_rpc.serving.backend.breaker import Breaker, Share

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
