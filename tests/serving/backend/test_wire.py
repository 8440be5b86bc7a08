"""The direct wire beside the plain one: whatever a server sends, both end alike, and neither mixes up two answers."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ipaddress
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from yarl import URL

from tests.serving.backend.conftest import Make
from tests.serving.backend.misbehaving import Misbehaving, Seen, Write, answer, endless, never, raw
from zorivest_rpc.errors import BackendUnreachable, OutcomeUnknown
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.backend.limits import BackendLimits
from zorivest_rpc.serving.backend.wire import Answer, AnswerTooLarge, HttpWire, Lost, Unsent

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n" + b'{"ok":true}'


@pytest.fixture(params=["port", "socket"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Misbehaving]:
    """Both ways to a backend of this machine."""
    server = Misbehaving()
    await server.start(path=str(tmp_path / "b.sock") if request.param == "socket" else None)
    yield server
    await server.stop()


# --- connections


async def test_a_connection_serves_one_request_after_the_other(server: Misbehaving, make: Make) -> None:
    backend = make(server.where)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        assert (await backend.ask(Request(method, "/x", body={"a": 1}))).value == {"ok": True}
    assert (len(server.seen), server.accepted) == (5, 1)


async def test_an_answer_nobody_asked_for_is_not_the_answer_to_the_next_request(
    server: Misbehaving, make: Make
) -> None:
    sent = asyncio.Event()

    async def twice(seen: Seen, write: Write) -> bool:
        write.write(OK)
        await write.drain()
        for _ in range(20):  # the first one has been taken and its connection is idle
            await asyncio.sleep(0)
        write.write(OK.replace(b"true", b"null"))
        await write.drain()
        sent.set()
        return await never(seen, write)

    server.script = [twice]
    backend = make(server.where)
    assert (await backend.ask(Request("POST", "/x"))).value == {"ok": True}
    async with asyncio.timeout(5):
        await sent.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (await backend.ask(Request("POST", "/y"))).value == {"ok": True}
    assert (server.count("/y"), server.accepted) == (1, 2)


async def test_a_server_that_closes_after_an_answer_is_met_anew(server: Misbehaving, make: Make) -> None:
    server.otherwise = answer({"ok": True}, Connection="close")
    backend = make(server.where)
    for _ in range(3):
        assert (await backend.ask(Request("POST", "/x"))).value == {"ok": True}
    assert (len(server.seen), server.accepted) == (3, 3)


async def test_who_finds_no_free_connection_in_time_has_sent_nothing(server: Misbehaving, make: Make) -> None:
    server.routes["/slow"] = never
    backend = make(server.where, limits=BackendLimits(connections=1, connect=0.1))
    first = asyncio.create_task(backend.ask(Request("POST", "/slow")))
    async with asyncio.timeout(5):
        await server.arrived.wait()
    with pytest.raises(BackendUnreachable, match=r"timed out.*nothing was sent"):
        await backend.ask(Request("POST", "/x"))
    first.cancel()
    await asyncio.wait([first])
    assert server.count("/x") == 0


async def test_a_body_that_never_ends_ends_with_the_time(server: Misbehaving, make: Make) -> None:
    server.otherwise = endless
    with pytest.raises(OutcomeUnknown, match=r"within 0\.5 s"):
        await make(server.where, limits=BackendLimits(total=0.5, body=1 << 40)).ask(Request("POST", "/x"))
    async with asyncio.timeout(5):
        await server.all_gone.wait()


@pytest.mark.parametrize("part", [b"", b"[1]"])
async def test_a_body_without_a_length_that_stops_is_no_answer(server: Misbehaving, make: Make, part: bytes) -> None:
    async def stalls(seen: Seen, write: Write) -> bool:
        write.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + part)
        return await never(seen, write)

    server.otherwise = stalls
    backend = make(server.where, limits=BackendLimits(total=0.5))
    with pytest.raises(OutcomeUnknown, match=r"within 0\.5 s"):
        await backend.ask(Request("POST", "/x"))
    with pytest.raises(BackendUnreachable, match=r"within 0\.5 s"):
        await backend.ask(Request("GET", "/x"))


@pytest.mark.parametrize("server", ["port"], indirect=True)  # a Unix socket knows an end and no reset
async def test_a_body_without_a_length_that_breaks_is_no_answer(server: Misbehaving, make: Make) -> None:
    read = asyncio.Event()

    async def breaks(seen: Seen, write: Write) -> bool:
        write.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[1]")
        await write.drain()
        await read.wait()
        write.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        write.transport.abort()
        return False

    server.otherwise = breaks
    backend = make(server.where)
    asking = asyncio.create_task(backend.ask(Request("POST", "/x")))
    async with asyncio.timeout(5):
        await server.arrived.wait()
        await _until(lambda: _bodies(backend))
    read.set()
    with pytest.raises(OutcomeUnknown, match="reset"):
        await asking


@pytest.mark.parametrize("framing", ["Content-Length: 9", "Transfer-Encoding: chunked", "X: y"])
async def test_who_waits_for_a_body_when_all_ends_is_told(server: Misbehaving, make: Make, framing: str) -> None:
    async def half(seen: Seen, write: Write) -> bool:
        write.write(f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{framing}\r\n\r\n1\r\n0\r\n".encode())
        return await never(seen, write)

    server.otherwise = half
    backend = make(server.where)
    asking = asyncio.create_task(backend.ask(Request("POST", "/x")))
    async with asyncio.timeout(5):
        await _until(lambda: _bodies(backend))
        await backend.close()
        with pytest.raises(OutcomeUnknown):
            await asking


async def _until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)


def _bodies(backend: HttpBackend) -> list[Any]:
    """What has begun to arrive."""
    held = () if backend._wire is None else backend._wire._pool._acquired
    return [each for each in held if getattr(each, "_payload", None) is not None]


async def test_a_body_that_turns_into_nonsense_is_given_up_at_once(server: Misbehaving, make: Make) -> None:
    async def breaks(seen: Seen, write: Write) -> bool:
        write.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n")
        await write.drain()
        await _until(lambda: _bodies(backend))
        write.write(b"zz\r\n")
        return await never(seen, write)

    server.otherwise = breaks
    backend = make(server.where, limits=BackendLimits(total=3600.0))
    async with asyncio.timeout(20):
        with pytest.raises(OutcomeUnknown, match="not HTTP"):
            await backend.ask(Request("POST", "/x"))
        await server.all_gone.wait()


async def test_an_upload_nobody_takes_leaves_no_connection(wire: str) -> None:
    accepted = asyncio.Event()
    ends: list[asyncio.Transport] = []

    class Deaf(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()
            ends.append(transport)
            accepted.set()

    server = await asyncio.get_running_loop().create_server(Deaf, "127.0.0.1", 0)
    url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    sender = HttpWire(BackendLimits(), plain=wire == "plain")

    def stuck_or_done(sending: asyncio.Task[Answer]) -> bool:
        return sending.done() or any(getattr(one, "_paused", False) for one in sender._pool._acquired)

    for ends_by in ("time", "cancellation", "closing"):
        accepted.clear()
        seconds = 0.2 if ends_by == "time" else 30.0
        sending = asyncio.create_task(sender.send("POST", url, {}, bytes(50_000_000), seconds))
        async with asyncio.timeout(5):
            await accepted.wait()
            # on a busy machine the time may be over before anybody looked
            await _until(partial(stuck_or_done, sending))
            closed = [one.closed for one in sender._pool._acquired]
            assert len(closed) == (not sending.done())
            if ends_by == "cancellation":
                sending.cancel()
            elif ends_by == "closing":
                await sender.close()
            await asyncio.wait([sending])
            await asyncio.gather(*closed)
        assert not sender._pool._acquired
        if ends_by == "cancellation":
            assert sending.cancelled()
        else:
            assert isinstance(sending.exception(), Lost)
    for end in ends:
        end.abort()
    server.close()


# --- what goes out


async def test_large_and_small_bodies_arrive_whole(server: Misbehaving, make: Make) -> None:
    backend = make(server.where)
    for size in (0, 1, 65_000, 65_536, 65_537, 3_000_000):
        await backend.ask(Request("POST", "/x", body="x" * size))
        assert server.seen[-1].json == "x" * size


async def test_both_wires_send_the_same_headers() -> None:
    seen = {}
    for plain in (False, True):
        server = Misbehaving()
        await server.start()
        wire = HttpWire(BackendLimits(), plain=plain)
        for method, data in (("GET", None), ("POST", b"{}"), ("POST", None), ("DELETE", None)):
            await wire.send(method, URL(server.url + "/x?q=1"), {"X-Request-ID": "1"}, data, 5.0)
        seen[plain] = [each._replace(headers={**each.headers, "host": ""}) for each in server.seen]
        await wire.close()
        await server.stop()
    assert [each.headers.get("content-length") for each in seen[False]] == [None, "2", "0", "0"]
    assert {"accept", "accept-encoding", "user-agent", "x-request-id"} <= seen[False][0].headers.keys()
    for directly, plainly in zip(seen[False], seen[True], strict=True):
        assert directly._replace(headers={}) == plainly._replace(headers={})
        # aiohttp names a type for a body that is not there; nobody reads it
        assert directly.headers == {k: v for k, v in plainly.headers.items() if (k, v) != ("content-type", _NO_TYPE)}


_NO_TYPE = "application/octet-stream"


@pytest.mark.parametrize(
    ("path", "key"), [("/x\r\nX-Role: admin", None), ("/x y", None), ("/é", None), ("/x", "k\r\nX: y")]
)
async def test_nothing_breaks_out_of_its_line(server: Misbehaving, make: Make, path: str, key: str | None) -> None:
    with pytest.raises(ValueError, match=r"encode|control character"):
        await make(server.where).ask(Request("POST", path, key=key))
    assert not server.seen


# --- what comes back


async def test_answers_before_the_answer_are_passed_over(server: Misbehaving, make: Make) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    server.script = [raw(b"HTTP/1.1 100 Continue\r\n\r\n", early, OK, stays=True)]
    backend = make(server.where)
    assert (await backend.ask(Request("POST", "/x"))).value == {"ok": True}
    assert (await backend.ask(Request("GET", "/y"))).value == {"ok": True}


async def test_answers_without_end_before_the_answer_are_not_kept(server: Misbehaving, make: Make) -> None:
    """aiohttp keeps them all, and while they come nothing else runs: 130 MB and six seconds for one call."""
    server.otherwise = raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000, stays=True)
    with pytest.raises(OutcomeUnknown, match="not HTTP"):
        await make(server.where).ask(Request("POST", "/x"))
    async with asyncio.timeout(5):
        await server.all_gone.wait()


@pytest.mark.parametrize(
    "words", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x01\x00\x02\x02\x16", b"HTTP/1.1 200\r\nA B\r\n\r\n"]
)
async def test_what_is_not_http_is_called_so(server: Misbehaving, make: Make, words: bytes) -> None:
    server.otherwise = raw(words)
    with pytest.raises(OutcomeUnknown, match="not HTTP"):
        await make(server.where).ask(Request("POST", "/x"))
    with pytest.raises(BackendUnreachable, match="not HTTP"):
        await make(server.where).ask(Request("GET", "/x"))
    async with asyncio.timeout(5):
        await server.all_gone.wait()


_BODIES = st.one_of(st.binary(max_size=40), st.integers(0, 150_000).map(lambda size: b"x" * size))


@st.composite
def _answers(draw: st.DrawFn) -> tuple[bytes, bool]:
    """Bytes that are mostly an HTTP answer, and whether the server keeps the connection."""
    body, status = draw(_BODIES), draw(st.sampled_from([200, 201, 204, 302, 304, 404, 500, 503]))
    head = [f"HTTP/1.{draw(st.sampled_from('01'))} {status} Word".encode()]
    if draw(st.booleans()):
        head.append(b"Content-Type: application/json")
    if draw(st.booleans()) and draw(st.booleans()):
        body = gzip.compress(body)
        head.append(b"Content-Encoding: gzip")
    framing = draw(st.sampled_from(["length", "length", "short", "long", "chunked", "broken chunks", "end", "both"]))
    if framing in ("length", "short", "long", "both"):
        head.append(b"Content-Length: %d" % max(0, len(body) + {"short": -3, "long": 3}.get(framing, 0)))
    if framing in ("chunked", "broken chunks", "both"):
        head.append(b"Transfer-Encoding: chunked")
        size = b"%x" % len(body) if framing != "broken chunks" else b"zz"
        body = (size + b"\r\n" + body + b"\r\n" if body else b"") + b"0\r\n\r\n"
    ends_itself = framing in ("length", "chunked") and (status not in (204, 304) or not body)
    stays = ends_itself and draw(st.booleans())
    if not stays:  # said aloud: who closes in silence races with the next request, which may or may not get through
        head.append(b"Connection: close")
    early = draw(st.sampled_from([b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n"]))
    whole = early + b"\r\n".join(head) + b"\r\n\r\n" + body
    if draw(st.integers(0, 9)) == 0:
        return whole[: draw(st.integers(0, len(whole) - 1))], False
    return whole, stays


async def _outcome(script: list[tuple[bytes, bool]], cuts: list[int], method: str, plain: bool) -> list[object]:
    """What a wire makes of the answers to a few requests, one after the other."""
    server = Misbehaving()
    await server.start()
    wire = HttpWire(BackendLimits(body=100_000), plain=plain)
    outcome: list[object] = []
    for whole, stays in script:
        at = sorted({0, *(cut % (len(whole) + 1) for cut in cuts), len(whole)})
        server.script = [raw(*(whole[a:b] for a, b in pairwise(at)), stays=stays)]
        try:
            got = await wire.send(method, URL(server.url), {}, b"{}" if method == "POST" else None, 5.0)
            outcome.append((got.status, got.kind, got.body))
        except AnswerTooLarge as failure:
            outcome.append(("too large", failure.status))
        except (Lost, Unsent) as failure:
            outcome.append((type(failure).__name__, getattr(failure, "late", None)))
    outcome.append(len(server.seen))
    await wire.close()
    async with asyncio.timeout(5):
        if server.open:
            await server.all_gone.wait()
    await server.stop()
    return outcome


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.mark.parametrize("loop", LOOPS)
@settings(max_examples=60, deadline=None)
@given(
    script=st.lists(_answers(), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 200_000), max_size=4),
    method=st.sampled_from(["GET", "POST"]),
)
def test_both_wires_end_alike(loop: str, script: list[tuple[bytes, bool]], cuts: list[int], method: str) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        directly = runner.run(_outcome(script, cuts, method, plain=False))
        plainly = runner.run(_outcome(script, cuts, method, plain=True))
    assert directly == plainly


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("plain", [False, True])
def test_a_server_that_speaks_first_is_not_called_again_and_again(loop: str, plain: bool) -> None:
    calls = 0

    async def greets(reader: asyncio.StreamReader, writer: Write) -> None:
        nonlocal calls
        calls += 1
        writer.write(b"220 mail.example ready\r\n")
        await reader.read()
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(greets, "127.0.0.1", 0)
        wire = HttpWire(BackendLimits(), plain=plain)
        try:  # a transport that is left open makes uvloop's close wait for ever where warnings are errors
            async with asyncio.timeout(5):
                url = URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
                with pytest.raises(Lost, match="not HTTP"):
                    await wire.send("POST", url, {}, b"{}", 30.0)
        finally:
            await wire.close()
            server.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(ask())
    assert calls == 1


# --- TLS


def _certificate(directory: Path) -> Path:
    """A certificate for 127.0.0.1, signed by itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    file = directory / "certificate.pem"
    plain = serialization.PrivateFormat.PKCS8
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, plain, serialization.NoEncryption())
    )
    return file


_ASK = """
import asyncio, sys
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.backend.interface import Request

async def ask(url, plain):
    backend = HttpBackend(url, plain=plain)
    answers = [(await backend.ask(Request("POST", "/x", body=number))).value for number in range(3)]
    await backend.close()
    print(answers)

asyncio.run(ask(sys.argv[1], sys.argv[2] == "plain"))
"""


async def test_a_backend_behind_tls(make: Make, tmp_path: Path, wire: str) -> None:
    file = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = Misbehaving()
    await server.start(context)
    with pytest.raises(BackendUnreachable, match=r"TLS failed.*nothing was sent"):
        await make(server.where).ask(Request("POST", "/x"))  # nobody vouches for the certificate
    assert not server.seen
    trusting = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _ASK,
        server.url,
        wire,
        env={"SSL_CERT_FILE": str(file)},
        stdout=subprocess.PIPE,
    )
    told, _ = await trusting.communicate()
    assert told.decode().strip() == str([{"ok": True}] * 3)
    assert [seen.json for seen in server.seen] == [0, 1, 2]
    await server.stop()
