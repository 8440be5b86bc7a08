"""Keys become tokens: once, in time, for one principal, and never on paper."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.serving.backend.conftest import Clock, Make
from tests.serving.backend.misbehaving import Misbehaving, Seen, Write, answer
from zorivest_rpc.errors import BackendError
from zorivest_rpc.serving.backend.auth import Keyring, principal_of
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.backend.interface import NotInline, Request
from zorivest_rpc.serving.backend.limits import BackendLimits
from zorivest_rpc.serving.backend.pool import Backends

KEY = "zrv_sk_planted0123456789"


class Vault:
    """The unlocking side of a backend: every exchange gives another token, and some tokens are good."""

    def __init__(self, server: Misbehaving, **answers: object) -> None:
        self.given = 0
        self.good: set[str] = set()
        self.answers = answers
        self.refuse_all = False
        server.routes["/auth/unlock"] = self.unlock
        server.otherwise = self.serve

    async def unlock(self, seen: Seen, write: Write) -> bool:
        self.given += 1
        token = f"tok_{seen.json['api_key'][-1]}{self.given}"
        self.good = {*self.good, token}
        found = {"session_token": token, "role": "read-write", "expires_in": 3600, **self.answers}
        return await answer(found)(seen, write)

    async def serve(self, seen: Seen, write: Write) -> bool:
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.good or self.refuse_all:
            return await answer({"error": "session_unknown", "detail": "unlock again"}, 401)(seen, write)
        return await answer({"token": token})(seen, write)


async def test_a_key_is_exchanged_once_and_the_token_is_sent(server: Misbehaving, make: Make) -> None:
    Vault(server)
    backend = make(server.url, KEY)
    for _ in range(3):
        assert (await backend.ask(Request("GET", "/x"))).value == {"token": "tok_91"}
    assert server.count("/auth/unlock") == 1
    assert server.seen[0].json == {"api_key": KEY}
    assert server.seen[0].headers["content-type"] == "application/json"
    assert server.seen[0].headers["x-request-id"] != server.seen[1].headers["x-request-id"]


@pytest.mark.parametrize(("attempts", "sent"), [(1, 2), (2, 2), (4, 4)])
async def test_an_exchange_whose_answer_is_lost_is_tried_twice_at_least(
    server: Misbehaving, make: Make, attempts: int, sent: int
) -> None:
    server.routes["/auth/unlock"] = answer(b"<h1>bad gateway</h1>", 502, "text/html")
    backend = make(server.url, KEY, limits=BackendLimits(total=10.0, attempts=attempts))
    with pytest.raises(BackendError):
        await backend.ask(Request("GET", "/x"))
    assert server.count("/auth/unlock") == sent


async def test_open_routes_carry_no_token_and_need_none(server: Misbehaving, make: Make) -> None:
    server.routes["/health"] = answer({"status": "ok"})
    await make(server.url, KEY).ask(Request("GET", "/health", auth="none"))
    assert "authorization" not in server.seen[0].headers
    assert len(server.seen) == 1


async def test_where_a_token_is_optional_it_is_sent_if_there_is_one(server: Misbehaving, make: Make) -> None:
    Vault(server)
    server.routes["/mcp-guard/status"] = answer({})
    backend = make(server.url, KEY)
    await backend.ask(Request("GET", "/mcp-guard/status", auth="if_any"))
    await backend.ask(Request("GET", "/x"))
    await backend.ask(Request("GET", "/mcp-guard/status", auth="if_any"))
    assert ["authorization" in seen.headers for seen in server.seen if "status" in seen.path] == [False, True]


async def test_concurrent_calls_share_one_exchange(server: Misbehaving, make: Make) -> None:
    Vault(server)
    backend = make(server.url, KEY)
    await asyncio.gather(*(backend.ask(Request("GET", "/x")) for _ in range(30)))
    assert server.count("/auth/unlock") == 1


async def test_a_caller_that_leaves_does_not_take_the_exchange_along(server: Misbehaving, make: Make) -> None:
    vault = Vault(server)
    going = asyncio.Event()

    async def slowly(seen: Seen, write: Write) -> bool:
        await going.wait()
        return await vault.unlock(seen, write)

    server.routes["/auth/unlock"] = slowly
    backend = make(server.url, KEY)
    first, second = (asyncio.create_task(backend.ask(Request("GET", "/x"))) for _ in range(2))
    async with asyncio.timeout(5):
        await server.arrived.wait()
        first.cancel()
        going.set()
        assert (await second).status == 200
    assert server.count("/auth/unlock") == 1


async def test_a_token_is_renewed_before_it_ends(server: Misbehaving, make: Make, clock: Clock) -> None:
    Vault(server)
    backend = make(server.url, KEY)
    await backend.ask(Request("GET", "/x"))
    clock.now += 3569
    assert (await backend.ask(Request("GET", "/x"))).value == {"token": "tok_91"}
    clock.now += 2
    assert (await backend.ask(Request("GET", "/x"))).value == {"token": "tok_92"}


async def test_a_token_with_a_short_life_is_used_for_half_of_it(server: Misbehaving, make: Make, clock: Clock) -> None:
    vault = Vault(server, expires_in=10)
    backend = make(server.url, KEY)
    await backend.ask(Request("GET", "/x"))
    clock.now += 4
    await backend.ask(Request("GET", "/x"))
    assert vault.given == 1
    clock.now += 2
    await backend.ask(Request("GET", "/x"))
    assert vault.given == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unexpected_401_leads_to_one_silent_unlock(server: Misbehaving, make: Make, method: str) -> None:
    vault = Vault(server)
    backend = make(server.url, KEY)
    await backend.ask(Request("GET", "/warm"))
    vault.good = set()
    assert (await backend.ask(Request(method, "/x"))).value == {"token": "tok_92"}
    assert (server.count("/x"), vault.given) == (2, 2)


@pytest.mark.parametrize("code", ["no_session", "database_locked"])
async def test_a_restarted_backend_that_knows_no_session_is_unlocked_again(
    server: Misbehaving, make: Make, code: str
) -> None:
    Vault(server)
    server.script = [answer({"error": code, "detail": "unlock first"}, 403)]
    assert (await make(server.url, KEY).ask(Request("POST", "/x"))).value == {"token": "tok_92"}


async def test_a_403_about_the_role_does_not_unlock_again(server: Misbehaving, make: Make) -> None:
    Vault(server)
    server.script = [answer({"error": "role_too_low", "detail": "read-only key"}, 403)]
    with pytest.raises(BackendError, match="read-only key"):
        await make(server.url, KEY).ask(Request("POST", "/x"))
    assert server.count("/auth/unlock") == 1


async def test_a_storm_of_401_ends_and_costs_each_call_one_unlock_at_most(server: Misbehaving, make: Make) -> None:
    vault = Vault(server)
    vault.refuse_all = True
    backend = make(server.url, KEY)
    results = await asyncio.gather(*(backend.ask(Request("POST", "/x")) for _ in range(10)), return_exceptions=True)
    assert {(type(result), getattr(result, "status", 0)) for result in results} == {(BackendError, 401)}
    assert server.count("/x") == 20
    assert vault.given <= 11


async def test_many_calls_that_meet_an_ended_session_renew_it_together(server: Misbehaving, make: Make) -> None:
    vault = Vault(server)
    backend = make(server.url, KEY)
    await backend.ask(Request("GET", "/warm"))
    vault.good = set()
    await asyncio.gather(*(backend.ask(Request("GET", "/x")) for _ in range(20)))
    assert vault.given == 2


@pytest.mark.parametrize(
    ("status", "answered", "text"),
    [
        (401, {"detail": "invalid API key"}, "Auth failed (401): invalid API key. "),
        (403, {"error": "key_revoked", "detail": "The key was revoked."}, "Auth failed (403): The key was revoked. "),
        (423, {"detail": "held by another session"}, "Auth failed (423): held by another session. "),
        (500, b"oops", "Auth failed (500): unknown. "),
        (401, {"detail": f"no such key {KEY}"}, "Auth failed (401): no such key …. "),
    ],
)
async def test_a_refused_key_is_told_in_one_form(
    server: Misbehaving, make: Make, status: int, answered: object, text: str
) -> None:
    kind = "text/plain" if isinstance(answered, bytes) else "application/json"
    server.routes["/auth/unlock"] = answer(answered, status, kind)
    with pytest.raises(BackendError) as refused:
        await make(server.url, KEY).ask(Request("GET", "/x"))
    assert refused.value.text.startswith(text)
    assert (refused.value.status, refused.value.code) == (status, "auth_failed")
    assert server.count("/x") == 0


@pytest.mark.parametrize("why", ["key_revoked", "key_expired"])
async def test_a_key_that_ended_during_its_session_is_told_as_such_and_its_successor_is_used(
    server: Misbehaving, make: Make, clock: Clock, why: str
) -> None:
    Vault(server)
    keys = [KEY]
    backend = make(server.url, lambda: keys[-1])
    await backend.ask(Request("GET", "/warm"))
    ended = answer({"error": why, "detail": "The key has ended."}, 403)
    server.routes["/x"] = server.routes["/auth/unlock"] = ended
    with pytest.raises(BackendError) as refused:
        await backend.ask(Request("GET", "/x"))
    assert refused.value.text.startswith("Auth failed (403): The key has ended. ")
    assert "create another one" in refused.value.text
    assert (server.count("/x"), server.count("/auth/unlock")) == (1, 2)
    del server.routes["/x"]
    Vault(server)
    keys.append("zrv_sk_" + "n" * 32)
    assert (await backend.ask(Request("GET", "/x"))).status == 200, "a new key is tried at once"


async def test_a_refused_key_is_not_tried_again_at_once(server: Misbehaving, make: Make, clock: Clock) -> None:
    server.routes["/auth/unlock"] = answer({"detail": "no"}, 401)
    backend = make(server.url, KEY)
    for _ in range(5):
        with pytest.raises(BackendError, match="Auth failed"):
            await backend.ask(Request("GET", "/x"))
    assert server.count("/auth/unlock") == 1
    clock.now += 3
    Vault(server)
    assert (await backend.ask(Request("GET", "/x"))).status == 200


@pytest.mark.parametrize("answered", [{}, {"session_token": ""}, {"session_token": "a\r\nX: y"}, [], "tok"])
async def test_an_exchange_without_a_usable_token_is_refused(server: Misbehaving, make: Make, answered: object) -> None:
    server.routes["/auth/unlock"] = answer(answered)
    with pytest.raises(BackendError, match="no session_token"):
        await make(server.url, KEY).ask(Request("GET", "/x"))


async def test_without_a_key_nothing_is_asked(server: Misbehaving, make: Make) -> None:
    with pytest.raises(BackendError, match="ZORIVEST_API_KEY") as refused:
        await make(server.url, "").ask(Request("GET", "/x"))
    assert refused.value.code == "no_api_key"
    assert server.seen == []


async def test_forgetting_the_session_unlocks_before_the_next_call(server: Misbehaving, make: Make) -> None:
    vault = Vault(server)
    backend = make(server.url, KEY)
    grant = await backend.unlock()
    assert grant is not None
    assert grant.role == "read-write"
    backend.lock()
    await backend.ask(Request("GET", "/x"))
    assert vault.given == 2


async def test_a_backend_that_takes_the_guards_question_along_is_remembered(server: Misbehaving, make: Make) -> None:
    Vault(server, inline_guard=True)
    backend = make(server.url, KEY)
    assert not backend.inline_guard
    await backend.ask(Request("GET", "/x", guard=True))
    assert backend.inline_guard
    assert server.seen[-1].headers["x-mcp-guard"] == "check"


async def test_a_question_that_cannot_travel_is_not_lost_on_the_way(server: Misbehaving, make: Make) -> None:
    Vault(server)
    with pytest.raises(NotInline):
        await make(server.url, KEY).ask(Request("POST", "/x", guard=True))
    assert server.count("/x") == 0


async def test_an_offer_that_ends_with_the_session_is_not_relied_on(server: Misbehaving, make: Make) -> None:
    vault = Vault(server, inline_guard=True)
    backend = make(server.url, KEY)
    await backend.ask(Request("GET", "/warm", guard=True))
    vault.answers = {}
    vault.good = set()
    with pytest.raises(NotInline):
        await backend.ask(Request("POST", "/x", guard=True))
    assert server.count("/x") == 1  # refused with 401, so not done


async def test_keys_share_neither_token_nor_connection(server: Misbehaving, clock: Clock) -> None:
    Vault(server)
    ring = Keyring()

    def make(principal: str) -> HttpBackend:
        return HttpBackend(server.url, lambda: ring.key_of(principal), clock=clock)

    backends = Backends(make)
    try:
        with ring.holding("zrv_sk_a") as a, ring.holding("zrv_sk_b") as b:
            assert a != b
            assert backends.of(a) is backends.of(a)
            for principal, token in ((a, "tok_a1"), (b, "tok_b2"), (a, "tok_a1"), (b, "tok_b2")):
                assert (await backends.of(principal).ask(Request("GET", "/x"))).value == {"token": token}
        assert server.open == 2
    finally:
        await backends.close()


async def test_a_key_is_held_only_while_a_request_runs(server: Misbehaving, clock: Clock) -> None:
    vault = Vault(server)
    ring = Keyring()
    principal = principal_of(KEY)
    backend = HttpBackend(server.url, lambda: ring.key_of(principal), clock=clock)
    try:
        with ring.holding(KEY), ring.holding(KEY):
            await backend.ask(Request("GET", "/x"))
        assert ring.key_of(principal) is None
        await backend.ask(Request("GET", "/x"))  # the token is still good without the key
        clock.now += 4000
        with pytest.raises(BackendError, match="API key"):
            await backend.ask(Request("GET", "/x"))
        with ring.holding(KEY):
            await backend.ask(Request("GET", "/x"))
        assert vault.given == 2
        assert KEY not in principal
    finally:
        await backend.close()


async def test_the_pools_are_bounded_and_busy_ones_stay(server: Misbehaving, clock: Clock) -> None:
    gate = asyncio.Event()

    async def wait(seen: Seen, write: Write) -> bool:
        await gate.wait()
        return await answer({})(seen, write)

    server.routes["/slow"] = wait
    backends = Backends(lambda principal: HttpBackend(server.url, clock=clock), most=2)
    try:
        busy = asyncio.create_task(_wait_for_slow(backends.of("a")))
        async with asyncio.timeout(5):
            await server.arrived.wait()
            first = backends.of("a")
            for name in "bcdef":
                await backends.of(name).ask(Request("GET", "/x"))
            assert len(backends) == 2
            assert backends.of("a") is first
            gate.set()
            await busy
    finally:
        await backends.close()


async def test_a_stranger_leaves_no_pool_behind(server: Misbehaving, clock: Clock) -> None:
    backends = Backends(lambda principal: HttpBackend(server.url, clock=clock))
    try:
        first = backends.of("a")
        await first.ask(Request("GET", "/x"))
        assert not first.closed
        backends.drop("a")
        assert first.closed, "a call that carries it sees so at once"
        backends.drop("never seen")
        assert len(backends) == 0
    finally:
        await backends.close()
    async with asyncio.timeout(5):
        await server.all_gone.wait()


async def _wait_for_slow(backend: HttpBackend) -> None:
    await backend.ask(Request("GET", "/slow"))


async def test_no_secret_is_written_to_a_log(server: Misbehaving, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    vault = Vault(server)
    backend = make(server.url, KEY)
    await backend.ask(Request("GET", "/x"))
    vault.refuse_all = True
    with pytest.raises(BackendError) as refused:
        await backend.ask(Request("GET", "/x"))
    grant = await backend.unlock()
    told = caplog.text + refused.value.text + repr(refused.value) + repr(grant) + repr(backend)
    assert "planted" not in told
    assert "tok_9" not in told
