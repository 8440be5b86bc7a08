"""A listener on the port of an embedded backend is sent nothing secret before it has proven that it is that backend."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import uvloop

from tests.serving.backend.conftest import Make
from tests.serving.backend.misbehaving import (
    Behaviour,
    Misbehaving,
    Seen,
    Write,
    answer,
    endless,
    hang_up,
    raw,
)
from zorivest_rpc.errors import BackendUnreachable
from zorivest_rpc.proof import is_challenge, is_proof, new_challenge, new_secret, place_of, prove
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.backend.interface import Address, Request
from zorivest_rpc.serving.backend.limits import BackendLimits

KEY, SECRET = "zrv_sk_" + "k" * 32, new_secret()
GRANT: dict[str, Any] = {"session_token": "tok_" + "a" * 32, "role": "admin", "expires_in": 3600, "inline_guard": True}


def proving(secret: str, place: Callable[[], str]) -> Behaviour:
    """A listener that knows a secret and claims to be at a place."""

    async def behave(seen: Seen, write: Write) -> bool:
        challenge = parse_qs(urlsplit(seen.path).query)["challenge"][0]
        assert is_challenge(challenge)
        return await answer({"proof": prove(secret, challenge, place())})(seen, write)

    return behave


def port_of(server: Misbehaving) -> int:
    return int(server.url.rpartition(":")[2])


def at(server: Misbehaving) -> Address:
    return Address(server.url, secret=SECRET)


def prepare(server: Misbehaving) -> None:
    server.routes["/auth/proof"] = proving(SECRET, lambda: place_of(port_of(server)))
    server.routes["/auth/unlock"] = answer(GRANT)


def leaked(server: Misbehaving) -> bool:
    """Whether a key, a token or anything but a challenge reached the listener."""
    everything = [(seen.path, *seen.headers.values(), seen.body.decode()) for seen in server.seen]
    secret = any(KEY in text or GRANT["session_token"] in text for each in everything for text in each)
    return secret or any(not seen.path.startswith("/api/v1/auth/proof?challenge=") for seen in server.seen)


@pytest.fixture
async def relayed(server: Misbehaving) -> AsyncIterator[Misbehaving]:
    """The true backend, on another port than the one that was published."""
    true = Misbehaving()
    await true.start()
    prepare(true)
    yield true
    await true.stop()


async def test_every_connection_is_proven_once_and_then_used_like_any_other(server: Misbehaving, make: Make) -> None:
    prepare(server)
    backend = make(at(server), key=KEY)
    for _ in range(5):
        assert (await backend.ask(Request("POST", "/x", body={"a": 1}))).value == {"ok": True}
    assert (server.count("/auth/proof"), server.count("/x"), server.accepted) == (1, 5, 1)
    server.otherwise = answer({"ok": True}, Connection="close")
    for _ in range(3):
        await backend.ask(Request("POST", "/x"))
    assert server.count("/auth/proof") == server.accepted == 3
    challenges = [seen.path for seen in server.seen if "challenge" in seen.path]
    assert len(set(challenges)) == 3  # an answer that was overheard is worth nothing


NOT_PROOFS: dict[str, Behaviour] = {
    "another secret": proving(new_secret(), lambda: "127.0.0.1:1"),
    "no json": answer(b"welcome", kind="text/plain"),
    "no object": answer(["proof"]),
    "no text": answer({"proof": 7}),
    "empty": answer({"proof": ""}),
    "not ascii": answer({"proof": "é" * 64}),
    "the challenge itself": lambda seen, write: answer({"proof": seen.path[-64:]})(seen, write),
    "404": answer({"error": "route_not_found"}, 404),
    "a redirection": answer(None, 307, Location="/api/v1/elsewhere"),
    "long": answer({"proof": "0" * 5000}),
    "endless": endless,
    "no length": raw(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"proof": "0"}'),
    "not http": raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "silence, then the end": hang_up,
}


@pytest.mark.parametrize("behaviour", [pytest.param(value, id=name) for name, value in NOT_PROOFS.items()])
async def test_a_listener_that_cannot_prove_itself_gets_no_key(
    behaviour: Behaviour, server: Misbehaving, make: Make
) -> None:
    server.routes["/auth/proof"] = behaviour
    server.routes["/auth/unlock"] = answer(GRANT)
    backend = make(at(server), key=KEY)
    for method in ("GET", "POST"):
        with pytest.raises(BackendUnreachable, match=r"another program answers there.*nothing was sent"):
            await backend.ask(Request(method, "/x", body={"a": 1}))
    assert server.seen
    assert not leaked(server)


async def test_a_proof_that_is_relayed_from_the_true_port_is_none(
    server: Misbehaving, relayed: Misbehaving, make: Make
) -> None:
    async def relay(seen: Seen, write: Write) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(relayed))
        writer.write(f"GET {seen.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        write.write(head + await reader.readexactly(length))
        await write.drain()
        writer.close()
        return True

    server.routes["/auth/proof"] = relay
    with pytest.raises(BackendUnreachable, match="another program"):
        await make(at(server), key=KEY).ask(Request("GET", "/x"))
    assert relayed.count("/auth/proof") >= 1
    assert not leaked(server)


async def test_a_listener_that_says_nothing_costs_the_time_of_a_connection_and_no_key(
    server: Misbehaving, make: Make
) -> None:
    stay = asyncio.Event()

    async def wait(seen: Seen, write: Write) -> bool:
        await stay.wait()
        return False

    server.routes["/auth/proof"] = wait
    backend = make(at(server), key=KEY, limits=BackendLimits(total=10.0, connect=0.1))
    with pytest.raises(BackendUnreachable, match="timed out"):
        await backend.ask(Request("POST", "/x"))
    stay.set()
    assert not leaked(server)


async def test_a_port_that_another_program_took_between_two_calls_gets_no_token(make: Make) -> None:
    first = Misbehaving()
    await first.start()
    prepare(first)
    backend = make(at(first), key=KEY)
    assert (await backend.ask(Request("POST", "/x"))).value == {"ok": True}
    port = port_of(first)
    await first.stop()
    thief = Misbehaving()
    thief._server = await asyncio.start_server(thief._accept, "127.0.0.1", port)
    try:
        with pytest.raises(BackendUnreachable, match="nothing was sent"):
            await backend.ask(Request("POST", "/x", body={"a": 1}))
        assert thief.accepted
        assert not leaked(thief)
    finally:
        await thief.stop()


async def test_a_backend_that_moved_from_a_port_to_a_socket_is_followed(
    server: Misbehaving, make: Make, tmp_path: Path
) -> None:
    later = Misbehaving()
    await later.start(path=str(tmp_path / "b.sock"))
    prepare(server)
    places = [at(server), later.where]

    async def where() -> str | Address:
        return places.pop(0)

    backend = make(where)
    assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}
    assert backend.base_url == server.url + "/api/v1"
    await server.stop()
    assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}
    assert backend.base_url == f"unix:{tmp_path}/b.sock"
    assert later.count("/x") == 1
    await later.stop()
    await server.start()  # for the fixture's own end


async def _both_ways(plain: bool, tmp_path: Path) -> None:
    port, sock = Misbehaving(), Misbehaving()
    await port.start()
    await sock.start(path=str(tmp_path / "b.sock"))
    prepare(port)
    prepare(sock)
    for where in (at(port), sock.where):
        backend = HttpBackend(where, lambda: KEY, plain=plain)
        try:
            large = {"text": "x" * 200_000}
            assert (await backend.ask(Request("POST", "/x", body=large))).value == {"ok": True}
            answers = await asyncio.gather(*(backend.ask(Request("GET", f"/y{number}")) for number in range(50)))
            assert [reply.value for reply in answers] == [{"ok": True}] * 50
        finally:
            await backend.close()
    for server in (port, sock):
        assert json.loads(next(seen.body for seen in server.seen if seen.path.endswith("/x")))["text"][:1] == "x"
        await server.stop()


@pytest.mark.parametrize("plain", [False, True], ids=["direct", "plain"])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_both_wires_reach_a_port_and_a_socket_on_both_loops(
    run: Callable[[Coroutine[Any, Any, None]], None], plain: bool, tmp_path: Path
) -> None:
    run(_both_ways(plain, tmp_path))


def test_no_text_of_an_address_has_its_secret() -> None:
    for address in (Address("http://127.0.0.1:1", secret=SECRET), Address("http://localhost", "/d/b.sock", SECRET)):
        assert SECRET not in f"{address} {address!r}"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("0f" * 32, True),
        ("0f" * 31 + "0", False),
        ("0f" * 32 + "0", False),
        ("0f" * 33, False),
        ("0F" * 32, False),
        ("0g" * 32, False),
        ("f" * 62 + " f", False),
        ("", False),
    ],
)
def test_a_challenge_is_sixty_four_hexadecimal_digits(text: str, is_one: bool) -> None:
    assert is_challenge(text) is is_one
    assert is_challenge(new_challenge())
    assert len(new_secret()) == 64


def test_a_proof_has_a_form_that_two_releases_share() -> None:
    """The backend may be older or newer than the server that asks it."""
    assert prove("s" * 64, "0f" * 32, place_of(8765)) == (
        "4daf3233d8bba4f346637220c231fcb63476e714519e1a0ac4fcf2a9689e1af5"
    )
    assert prove("s" * 64, "0f" * 32, place_of(None)) != prove("s" * 64, "0f" * 32, place_of(8765))


@pytest.mark.parametrize("answer", [None, True, 7, b"x", [], {}, "", "é", "\ud800"])
def test_what_is_no_proof_is_none_whatever_its_type(answer: object) -> None:
    secret, challenge = new_secret(), new_challenge()
    assert is_proof(prove(secret, challenge, "socket"), secret, challenge, "socket")
    assert not is_proof(answer, secret, challenge, "socket")
