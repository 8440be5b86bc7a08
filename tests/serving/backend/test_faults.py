"""A backend that is slow, breaks off, storms or floods: no call hangs, nothing leaks, no write happens twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from aioresponses import aioresponses

from tests.serving.backend.conftest import Clock, Make
from tests.serving.backend.misbehaving import (
    Behaviour,
    Misbehaving,
    Seen,
    Write,
    answer,
    endless,
    hang_up,
    never,
    raw,
    reset_mid_body,
)
from zorivest_rpc.errors import BackendError, BackendUnreachable, OutcomeUnknown, ToolError
from zorivest_rpc.serving.backend.breaker import Breaker
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.backend.limits import BackendLimits

URL = "http://backend.test:8765/api/v1"
SHORT = BackendLimits(total=0.2)
WRITES = ["POST", "PUT", "PATCH", "DELETE"]


# --- reads are repeated


@pytest.mark.parametrize("fault", [hang_up, reset_mid_body, answer(b"bad gateway", 502, "text/html")])
async def test_a_read_survives_faults_that_pass(
    server: Misbehaving, make: Make, clock: Clock, fault: asyncio.Future[bool]
) -> None:
    server.script = [fault, fault]  # type: ignore[list-item]
    assert (await make(server.url).ask(Request("GET", "/x"))).value == {"ok": True}
    assert len(server.seen) == 3
    assert clock.slept == [0.1, 0.2]


async def test_pauses_are_spread_and_have_a_limit(server: Misbehaving, make: Make, clock: Clock) -> None:
    server.otherwise = answer(b"", 503, "text/plain")
    limits = BackendLimits(attempts=6, backoff=1.0, longest_backoff=3.0)
    spread = iter([0.0, 1.0, 0.5, 0.0, 1.0])
    with pytest.raises(BackendError):
        await make(server.url, limits=limits, rng=lambda: next(spread)).ask(Request("GET", "/x"))
    assert clock.slept == [0.5, 2.0, 2.25, 1.5, 3.0]


async def test_a_read_is_given_up_after_three_attempts(server: Misbehaving, make: Make) -> None:
    server.otherwise = hang_up
    with pytest.raises(BackendUnreachable, match="did not answer GET /x"):
        await make(server.url).ask(Request("GET", "/x", query={"secret": "s"}))
    assert len(server.seen) == 3


async def test_a_refusal_of_the_backend_itself_is_final(server: Misbehaving, make: Make) -> None:
    server.otherwise = answer({"error": "no_provider", "detail": "none configured"}, 503)
    with pytest.raises(BackendError, match="none configured"):
        await make(server.url).ask(Request("GET", "/x"))
    assert len(server.seen) == 1


async def test_a_storm_of_500_is_not_fed(server: Misbehaving, make: Make) -> None:
    server.otherwise = answer(b"Internal Server Error", 500, "text/plain")
    backend = make(server.url)
    results = await asyncio.gather(*(backend.ask(Request("GET", "/x")) for _ in range(20)), return_exceptions=True)
    assert {type(result) for result in results} == {BackendError}
    assert len(server.seen) == 20


async def test_a_post_that_only_reads_may_be_repeated(server: Misbehaving, make: Make) -> None:
    server.script = [hang_up]
    assert (await make(server.url).ask(Request("POST", "/tax/simulate", body={}, repeatable=True))).value == {
        "ok": True
    }
    assert len(server.seen) == 2


# --- writes are not


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize("fault", [hang_up, reset_mid_body])
async def test_a_write_whose_answer_is_lost_is_unknown_and_not_sent_again(
    server: Misbehaving, make: Make, method: str, fault: asyncio.Future[bool]
) -> None:
    server.script = [fault]  # type: ignore[list-item]
    with pytest.raises(OutcomeUnknown, match=f"did not answer {method} /x .*unknown"):
        await make(server.url).ask(Request(method, "/x", body={"a": 1}))
    assert len(server.seen) == 1


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_on_a_kept_connection_that_breaks_is_not_sent_again(
    server: Misbehaving, make: Make, method: str
) -> None:
    backend = make(server.url)
    await backend.ask(Request("GET", "/warm"))
    server.script = [hang_up]
    with pytest.raises(OutcomeUnknown):
        await backend.ask(Request(method, "/x"))
    assert (server.count("/x"), server.open) == (1, 0)


@pytest.mark.parametrize("status", [500, 503])
async def test_a_write_that_was_answered_badly_is_not_sent_again(server: Misbehaving, make: Make, status: int) -> None:
    server.otherwise = answer(b"oops", status, "text/html")
    with pytest.raises(BackendError):
        await make(server.url).ask(Request("POST", "/x"))
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [502, 504])
async def test_a_write_that_only_a_gateway_answered_is_unknown(server: Misbehaving, make: Make, status: int) -> None:
    server.otherwise = answer(b"oops", status, "text/html")
    with pytest.raises(OutcomeUnknown, match=f"something in between says {status}"):
        await make(server.url).ask(Request("POST", "/x"))
    assert len(server.seen) == 1
    server.otherwise = answer({"error": "provider_failed", "detail": "No quote."}, status)
    with pytest.raises(BackendError, match="No quote"):
        await make(server.url).ask(Request("POST", "/x"))


@pytest.mark.parametrize(
    "behaviour", [answer(b"{", 200), answer(b"oops", 200, "text/html"), answer({"detail": "Oops."}, 500)]
)
async def test_who_wrote_and_got_nonsense_is_told_to_look_first(
    server: Misbehaving, make: Make, behaviour: Behaviour
) -> None:
    server.otherwise = behaviour
    with pytest.raises(BackendError, match=r"Whether it was done is unknown|Check whether it was done"):
        await make(server.url).ask(Request("POST", "/x"))
    with pytest.raises(BackendError) as told:
        await make(server.url).ask(Request("POST", "/x", repeatable=True))
    assert "done" not in told.value.text


@pytest.mark.parametrize("given", ["\xff\xfe", "a\x01b", "x" * 1000, "a b", ""])
async def test_an_id_that_is_none_is_not_passed_on(server: Misbehaving, make: Make, given: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nX-Request-ID: "
    server.otherwise = raw(head + given.encode("latin-1") + b"\r\n\r\n{}", stays=True)
    reply = await make(server.url).ask(Request("POST", "/x"))
    assert reply.request_id == server.seen[0].headers["x-request-id"]


async def test_words_that_cannot_be_written_down_are_not_repeated(server: Misbehaving, make: Make) -> None:
    server.otherwise = raw(b"HTTP/1.1 200 OK\r\nContent-Type: \xff/\xfe\r\nContent-Length: 2\r\n\r\n{}", stays=True)
    with pytest.raises(BackendError, match="an unknown type instead of JSON") as told:
        await make(server.url).ask(Request("GET", "/x"))
    assert told.value.text.encode()


async def test_a_redirection_brings_no_credentials_of_its_own(server: Misbehaving, make: Make) -> None:
    there = server.url.replace("://", "://somebody:else@") + "/api/v1/y"
    server.routes["/x"] = answer(None, 307, Location=there)
    server.routes["/auth/unlock"] = answer({"session_token": "tok_1", "expires_in": 3600})
    await make(server.url, "zrv_sk_mine").ask(Request("POST", "/x"))
    assert server.seen[-1].path == "/api/v1/y"
    assert server.seen[-1].headers["authorization"] == "Bearer tok_1"


async def test_a_write_that_takes_too_long_is_unknown(server: Misbehaving, make: Make) -> None:
    server.otherwise = never
    with pytest.raises(OutcomeUnknown, match=r"within 0\.2 s"):
        await make(server.url, limits=SHORT).ask(Request("POST", "/x"))
    async with asyncio.timeout(5):
        await server.all_gone.wait()
    assert len(server.seen) == 1


async def test_a_write_to_nobody_is_known_not_to_have_happened(make: Make) -> None:
    with pytest.raises(BackendUnreachable, match="nothing was sent"):
        await make("http://127.0.0.1:9").ask(Request("POST", "/x"))


# --- every wait ends


async def test_a_slow_read_ends_in_time_and_its_connection_is_closed(server: Misbehaving, make: Make) -> None:
    server.otherwise = never
    with pytest.raises(BackendUnreachable, match=r"within 0\.2 s") as failed:
        await make(server.url, limits=SHORT).ask(Request("GET", "/x"))
    assert failed.value.code == "backend_timeout"
    async with asyncio.timeout(5):
        await server.all_gone.wait()


async def test_a_question_asked_with_post_that_takes_too_long_may_be_asked_again(
    server: Misbehaving, make: Make
) -> None:
    server.otherwise = never
    with pytest.raises(BackendUnreachable, match=r"within 0\.2 s\)\. Try again") as failed:
        await make(server.url, limits=SHORT).ask(Request("POST", "/tax/wash-sales", repeatable=True))
    assert (failed.value.code, failed.value.next) == ("backend_timeout", "Try again.")
    async with asyncio.timeout(5):
        await server.all_gone.wait()


async def test_an_unlock_that_never_ends_does_not_hold_the_next_call(server: Misbehaving, make: Make) -> None:
    server.routes["/auth/unlock"] = never
    backend = make(server.url, "zrv_sk_a", limits=SHORT)
    with pytest.raises(BackendUnreachable):
        await backend.ask(Request("POST", "/x"))
    server.routes["/auth/unlock"] = answer({"session_token": "tok_1", "expires_in": 3600})
    async with asyncio.timeout(5):
        while True:  # the hanging exchange may still be the current one for a moment
            with suppress(BackendUnreachable):
                await backend.ask(Request("POST", "/x"))
                break
    assert server.count("/x") == 1


async def test_a_cancelled_call_closes_its_connection(server: Misbehaving, make: Make) -> None:
    server.otherwise = never
    backend = make(server.url)
    task = asyncio.create_task(backend.ask(Request("POST", "/x")))
    async with asyncio.timeout(5):
        await server.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.all_gone.wait()
    assert (len(server.seen), backend.in_flight) == (1, 0)


async def test_a_call_cancelled_while_it_reads_leaves_the_pool_usable(server: Misbehaving, make: Make) -> None:
    server.script = [endless]
    backend = make(server.url, limits=BackendLimits(connections=1, body=1 << 40))
    task = asyncio.create_task(backend.ask(Request("GET", "/x")))
    async with asyncio.timeout(5):
        await server.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await backend.ask(Request("GET", "/y"))).value == {"ok": True}


# --- floods


async def test_an_endless_body_is_cut_off(server: Misbehaving, make: Make) -> None:
    server.script = [endless]
    backend = make(server.url, limits=BackendLimits(body=200_000))
    with pytest.raises(BackendError, match="larger than 200000 bytes") as refused:
        await backend.ask(Request("GET", "/x"))
    assert refused.value.code == "answer_too_large"
    async with asyncio.timeout(5):
        await server.all_gone.wait()


async def test_a_body_that_announces_too_much_is_not_read(server: Misbehaving, make: Make) -> None:
    server.script = [answer(b"x" * 5000)]
    with pytest.raises(BackendError, match="said 200"):
        await make(server.url, limits=BackendLimits(body=1000)).ask(Request("POST", "/x"))


async def test_a_body_of_exactly_the_limit_is_read(server: Misbehaving, make: Make) -> None:
    server.script = [answer(b'"' + b"x" * 998 + b'"')]
    reply = await make(server.url, limits=BackendLimits(body=1000)).ask(Request("GET", "/x"))
    assert len(reply.body) == 1000


class Large:
    """Answers of `size` bytes; each tells how much of it was taken, and stops half-way while `held`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.taken: list[int] = []
        self.held = asyncio.Event()

    async def __call__(self, seen: Seen, write: Write) -> bool:
        number, half = len(self.taken), self.size // 2
        self.taken.append(0)
        write.write(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % self.size)
        piece = b"1" * 0x10000
        while self.taken[number] < self.size:
            if number == 0 and self.taken[number] >= half:
                await self.held.wait()
            write.write(piece)
            await write.drain()
            self.taken[number] += len(piece)
        return True


async def test_of_large_bodies_one_is_read_at_a_time_and_small_ones_pass_it(server: Misbehaving, make: Make) -> None:
    large = Large(32 * 1024 * 1024)
    server.routes["/large"] = large
    backend = make(server.url, limits=BackendLimits(total=20.0, large=0x10000))
    first = asyncio.create_task(backend.ask(Request("GET", "/large?1", raw=True)))
    async with asyncio.timeout(20):
        while not large.taken or large.taken[0] < large.size // 2:
            assert (await backend.ask(Request("GET", "/small"))).value == {"ok": True}
        second = asyncio.create_task(backend.ask(Request("GET", "/large?2", raw=True)))
        before, same = -1, 0
        while same < 200:  # until no more of it is taken
            assert (await backend.ask(Request("GET", "/small"))).value == {"ok": True}
            now = large.taken[1] if len(large.taken) > 1 else -1
            before, same = now, same + 1 if now == before and now >= 0 else 0
        assert large.taken[1] < large.size, "what waits for its turn is not read"
        assert not first.done()
        assert not second.done()
        large.held.set()
        for reply in (await first, await second):
            assert len(reply.body) == large.size


async def test_a_large_body_that_waits_for_its_turn_waits_no_longer_than_its_time(
    server: Misbehaving, make: Make
) -> None:
    large = Large(8 * 1024 * 1024)
    server.routes["/large"] = large
    backend = make(server.url, limits=BackendLimits(total=20.0, large=0x10000))
    first = asyncio.create_task(backend.ask(Request("GET", "/large", raw=True)))
    async with asyncio.timeout(20):
        while not large.taken or large.taken[0] < large.size // 2:
            await backend.ask(Request("GET", "/small"))
        with pytest.raises(BackendUnreachable, match=r"within 0\.2 s"):
            await backend.ask(Request("GET", "/large", timeout=0.2, raw=True))
        large.held.set()
        assert len((await first).body) == large.size


async def test_the_rest_of_a_large_body_comes_at_its_pace_and_whole(server: Misbehaving, make: Make) -> None:
    body = b'"' + bytes(range(48, 58)) * 400_000 + b'"'
    server.otherwise = answer(body)
    slow = make(server.url, limits=BackendLimits(total=0.3, large=0x10000, pace=1.0))
    with pytest.raises(BackendUnreachable, match=r"within 0\.3 s"):
        await slow.ask(Request("GET", "/x"))
    quick = make(server.url, limits=BackendLimits(total=20.0, large=0x10000, pace=1e9))
    assert (await quick.ask(Request("GET", "/x"))).body == body
    small = make(server.url, limits=BackendLimits(total=20.0, pace=1.0))  # nothing of it is large
    server.otherwise = answer(body[:1] + body[-500_000:])
    assert len((await small.ask(Request("GET", "/x"))).body) == 500_001


async def test_no_more_connections_are_opened_than_allowed(server: Misbehaving, make: Make) -> None:
    backend = make(server.url, limits=BackendLimits(connections=4))
    await asyncio.gather(*(backend.ask(Request("GET", "/x")) for _ in range(50)))
    assert server.open <= 4


async def test_closing_closes_every_connection(server: Misbehaving, make: Make) -> None:
    backend = make(server.url)
    await asyncio.gather(*(backend.ask(Request("GET", "/x")) for _ in range(10)))
    await backend.close()
    async with asyncio.timeout(5):
        await server.all_gone.wait()


async def test_a_closed_backend_opens_no_pool_again(server: Misbehaving, make: Make) -> None:
    backend = make(server.url)
    await backend.close()
    with pytest.raises(BackendUnreachable) as failed:
        await backend.ask(Request("GET", "/x"))
    assert failed.value.code == "stopping"
    assert server.open == 0


# --- the breaker


async def test_while_a_backend_is_down_calls_fail_at_once(replies: aioresponses, make: Make, clock: Clock) -> None:
    replies.get(f"{URL}/x", exception=aiohttp.ServerDisconnectedError(), repeat=True)
    backend = make(URL, breaker=Breaker(clock, failures=3, pause=1.0))
    with pytest.raises(BackendUnreachable):
        await backend.ask(Request("GET", "/x"))
    sent = sum(map(len, replies.requests.values()))
    with pytest.raises(BackendUnreachable, match="tried again in 1 s") as failed:
        await backend.ask(Request("GET", "/x"))
    assert failed.value.code == "backend_down"
    assert sum(map(len, replies.requests.values())) == sent == 3


async def test_what_is_urgent_has_a_look_and_ends_the_wait(server: Misbehaving, make: Make, clock: Clock) -> None:
    server.script = [hang_up] * 4
    backend = make(server.url, breaker=Breaker(clock, failures=3, pause=1.0))
    with pytest.raises(BackendUnreachable):
        await backend.ask(Request("GET", "/x"))
    with pytest.raises(BackendUnreachable, match="tried again"):
        await backend.ask(Request("GET", "/x"))
    with pytest.raises(BackendUnreachable, match="the connection was lost"):
        await backend.ask(Request("POST", "/x", repeatable=True, urgent=True))
    assert len(server.seen) == 4
    assert (await backend.ask(Request("POST", "/x", repeatable=True, urgent=True))).value == {"ok": True}
    assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}


async def test_it_recovers_by_itself(server: Misbehaving, make: Make, clock: Clock) -> None:
    server.script = [hang_up] * 3
    backend = make(server.url, breaker=Breaker(clock, failures=3, pause=1.0))
    with pytest.raises(BackendUnreachable):
        await backend.ask(Request("GET", "/x"))
    clock.now += 1.1
    assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}
    assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}


def test_only_one_call_has_a_look_and_the_pause_grows(clock: Clock) -> None:
    breaker = Breaker(clock, failures=2, pause=1.0, longest=3.0)
    assert breaker.wait() == 0
    breaker.record_failure()
    assert breaker.wait() == 0
    breaker.record_failure()
    assert breaker.wait() == 1.0
    pauses = []
    for _ in range(4):
        clock.now += 10
        assert breaker.wait() == 0
        assert breaker.wait() > 0  # the second one waits for the first one's answer
        breaker.record_failure()
        pauses.append(breaker.wait())
    assert pauses == [2.0, 3.0, 3.0, 3.0]
    clock.now += 10
    assert breaker.wait() == 0
    breaker.gave_up()
    assert breaker.wait() == 0
    breaker.record_answer()
    breaker.record_failure()
    assert breaker.wait() == 0


def test_five_failures_in_a_row_open_it_for_half_a_second_at_first(clock: Clock) -> None:
    breaker, pauses = Breaker(clock), []
    for _ in range(12):
        breaker.record_failure()
        pauses.append(breaker.wait())
        clock.now += pauses[-1]
    assert pauses == [0, 0, 0, 0, 0.5, 1, 2, 4, 8, 15, 15, 15]


def test_when_the_pause_is_over_to_the_moment_one_call_has_a_look_and_no_other(clock: Clock) -> None:
    breaker = Breaker(clock, failures=1, pause=1.0)
    breaker.record_failure()
    clock.now += 1.0
    assert (breaker.wait(), breaker.wait()) == (0.0, 1.0)


async def test_an_answer_of_any_kind_means_that_the_backend_is_up(server: Misbehaving, make: Make) -> None:
    server.otherwise = answer({"detail": "x"}, 500)
    backend = make(server.url)
    for _ in range(20):
        with pytest.raises(BackendError):
            await backend.ask(Request("GET", "/x"))


@pytest.mark.parametrize("fault", [hang_up, reset_mid_body, answer(b"<html>", 200, "text/html"), answer(b"{", 500)])
async def test_only_our_own_errors_come_out(server: Misbehaving, make: Make, fault: asyncio.Future[bool]) -> None:
    server.otherwise = fault  # type: ignore[assignment]
    for method in ("GET", "POST"):
        with pytest.raises(ToolError) as failed:
            await make(server.url).ask(Request(method, "/x"))
        assert "Traceback" not in failed.value.text
        assert failed.value.text.endswith(".")


# --- one failure of one process


@pytest.mark.parametrize("callers", [1, 5, 32])
async def test_many_requests_that_one_failure_takes_with_it_are_one_failure(
    server: Misbehaving, make: Make, clock: Clock, callers: int
) -> None:
    """All are under way when the backend dies; the breaker would open at two failures."""
    dies, arrived = asyncio.Event(), asyncio.Semaphore(0)

    async def killed(request: Any, writer: asyncio.StreamWriter) -> bool:
        arrived.release()
        await dies.wait()
        return await hang_up(request, writer)

    server.script = [killed] * callers
    backend = make(server.url, breaker=Breaker(clock, failures=2, pause=1.0))
    asking = [asyncio.create_task(backend.ask(Request("POST", f"/x{number}"))) for number in range(callers)]
    async with asyncio.timeout(5):
        for _ in range(callers):
            await arrived.acquire()
    dies.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(result) for result in results} == {OutcomeUnknown}
    assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}


def test_a_failure_counts_if_its_request_was_sent_after_the_last_one_that_counted(clock: Clock) -> None:
    breaker = Breaker(clock, failures=2, pause=1.0)
    first = breaker.period
    for _ in range(10):
        breaker.record_failure(first)
    assert breaker.wait() == 0
    breaker.record_failure(breaker.period)
    assert breaker.wait() == 1.0


def test_what_failed_at_the_last_process_does_not_count_against_the_next(clock: Clock) -> None:
    breaker = Breaker(clock, failures=2, pause=1.0)
    breaker.record_failure()
    before = breaker.period
    breaker.record_failure()
    assert breaker.wait() > 0
    breaker.close()
    assert breaker.wait() == 0
    for _ in range(10):
        breaker.record_failure(before)
    breaker.record_failure(breaker.period)
    assert breaker.wait() == 0
    breaker.record_failure(breaker.period)
    assert breaker.wait() > 0


async def test_a_backend_found_anew_starts_with_a_closed_breaker_and_gets_what_waited(
    server: Misbehaving, make: Make, clock: Clock
) -> None:
    """The old place refuses connections; every caller, reading or writing, is served by the new one."""
    looks, looking, found = 0, asyncio.Event(), asyncio.Event()

    async def where() -> str:
        nonlocal looks
        looks += 1
        if looks == 1:
            return "http://127.0.0.1:9"
        looking.set()
        await found.wait()
        return server.url

    backend = make(where, breaker=Breaker(clock, failures=1, pause=1000.0))
    asking = [
        asyncio.create_task(backend.ask(Request("POST" if number % 2 else "GET", f"/x{number}", body={"n": number})))
        for number in range(32)
    ]
    async with asyncio.timeout(5):
        await looking.wait()
        found.set()
        answers = await asyncio.gather(*asking)
    assert [answer.value for answer in answers] == [{"ok": True}] * 32
    assert (looks, len(server.seen)) == (2, 32)


async def test_a_place_where_nothing_ever_listens_is_given_up(make: Make) -> None:
    looks = 0

    async def where() -> str:
        nonlocal looks
        looks += 1
        return "http://127.0.0.1:9"

    for method in ("GET", "POST"):
        with pytest.raises(BackendUnreachable, match="started by itself") as failed:
            await make(where).ask(Request(method, "/x"))
        assert "tart the backend" not in f"{failed.value.text} {failed.value.next}"
        assert "API URL" not in f"{failed.value.text} {failed.value.next}"
    assert looks <= 12


async def test_a_found_backend_that_hangs_is_waited_for_in_words_that_fit_it(
    server: Misbehaving, make: Make, clock: Clock
) -> None:
    async def where() -> str:
        return server.url

    server.otherwise = hang_up
    backend = make(where, breaker=Breaker(clock, failures=3, pause=2.0))
    with pytest.raises(BackendUnreachable):
        await backend.ask(Request("GET", "/x"))
    with pytest.raises(BackendUnreachable, match="tried again in 2 s") as failed:
        await backend.ask(Request("GET", "/x"))
    assert (failed.value.code, failed.value.next) == ("backend_down", "Wait 2 s and call again.")
