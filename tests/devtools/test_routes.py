"""The paths for pages over real sockets: who is let in, what a WebSocket, a sync and a beacon do, what ends them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.devtools.stage import KEY, TAB, Desk, log
from zorivest_rpc.devtools.frames import SUBPROTOCOL
from zorivest_rpc.devtools.listener import Listener
from zorivest_rpc.devtools.observe import QueryArguments, query_dom
from zorivest_rpc.devtools.routes import Clockwork, Routes
from zorivest_rpc.devtools.watch import Watches

PAGE = "a" * 16
ALLOWED = "https://shop.example"
HELLO = {"frame": "hello", "v": 1, "page": PAGE, "tab": TAB, "url": "http://localhost/", "title": "", "visible": True}


class Served:
    """A listener, and what its pages send."""

    def __init__(self, clockwork: Clockwork) -> None:
        self.desk = Desk()
        self.loaded = True
        watches = Watches(lambda tenant: self.desk.counters, self.desk.clock, first="default", key=KEY)
        self.watch = self.desk.watch = watches.of("default")
        self.routes = Routes(watches, loaded=lambda: self.loaded, origins=(ALLOWED,), clockwork=clockwork)
        self.listener = Listener(self.routes.handle)
        self.http: aiohttp.ClientSession
        self.origin = ""
        self.sockets: list[aiohttp.ClientWebSocketResponse] = []

    async def open(self) -> None:
        self.origin = f"http://127.0.0.1:{await self.listener.start(0)}"
        self.http = aiohttp.ClientSession(self.origin, connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        for socket in self.sockets:
            await socket.close()
        await self.http.close()
        await self.routes.close()
        await self.listener.stop()

    async def socket(self, key: str = KEY, **headers: str) -> aiohttp.ClientWebSocketResponse:
        path = f"/devtools/ws?k={key}"
        opened = await self.http.ws_connect(path, protocols=(SUBPROTOCOL,), headers=headers, autoping=False)
        self.sockets.append(opened)
        return opened

    async def greet(self) -> aiohttp.ClientWebSocketResponse:
        socket = await self.socket()
        await socket.send_json(HELLO)
        assert (await socket.receive_json())["frame"] == "welcome"
        return socket

    async def post(self, path: str, *frames: Any, page: str = PAGE, key: str = KEY) -> tuple[int, Any]:
        body = {"page": page, "tab": TAB, "frames": list(frames)}
        async with self.http.post(f"/devtools/{path}?k={key}", json=body) as answer:
            return answer.status, await answer.json() if answer.status == 200 else None

    async def until(self, check: Any) -> None:
        async with asyncio.timeout(5):
            while not check():  # noqa: ASYNC110 - the server has no event for this test
                await asyncio.sleep(0.005)


@pytest.fixture
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    marker = getattr(request, "param", Clockwork(hold=0.05))
    found = Served(marker)
    await found.open()
    yield found
    await found.close()


def events(seq: int, *items: Any) -> Any:
    return {"frame": "events", "seq": seq, "dropped": 0, "items": list(items)}


PATHS = ("collector.js", "axe.min.js", "ws", "sync", "beacon")


# --- who is let in


async def test_before_the_toolset_is_loaded_there_is_nothing(served: Served) -> None:
    served.loaded = False
    for path in PATHS:
        for method in ("GET", "POST", "OPTIONS"):
            async with served.http.request(method, f"/devtools/{path}?k={KEY}") as answer:
                assert answer.status == 404


async def test_the_collector_and_the_engine_are_served(served: Served) -> None:
    async with served.http.get(f"/devtools/collector.js?k={KEY}") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert len(await answer.read()) <= 40 << 10
    async with served.http.get("/devtools/axe.min.js") as answer:
        assert answer.status == 200


@pytest.mark.parametrize("key", ["", "zdk_wrong", KEY[:-1], KEY + "x", "%00", "é"])
async def test_a_wrong_key_opens_nothing(served: Served, key: str) -> None:
    for method, path in (("GET", "collector.js"), ("POST", "sync"), ("POST", "beacon"), ("GET", "ws")):
        async with served.http.request(method, f"/devtools/{path}?k={key}") as answer:
            assert answer.status == 403
            assert KEY not in await answer.text()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await served.socket(key)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 204),
        ("https://127.0.0.1", 204),
        ("http://[::1]:8080", 204),
        (ALLOWED, 204),
        (ALLOWED.upper(), 204),
        ("https://shop.example.evil.test", 403),
        ("http://shop.example", 403),
        ("https://localhost.evil.test", 403),
        ("https://evil.test#localhost", 403),
        ("http://localhost@evil.test", 403),
        ("http://evil.test:80@localhost", 403),
        ("http://localhost:3000/", 403),
        ("http://localhost/evil.test", 403),
        ("http://localhost?evil.test", 403),
        ("http://localhost:99999", 403),
        ("null", 403),
        ("file://", 403),
        ("", 403),
    ],
)
async def test_a_foreign_origin_is_refused_and_gets_no_permission(served: Served, origin: str, status: int) -> None:
    for method, path in (("POST", "beacon"), ("OPTIONS", "sync")):
        body = f'{{"page":"{PAGE}","tab":"{TAB}","frames":[]}}'
        async with served.http.request(
            method, f"/devtools/{path}?k={KEY}", data=body, headers={"Origin": origin}
        ) as answer:
            assert answer.status == status
            assert answer.headers.get("Access-Control-Allow-Origin") == (origin if status == 204 else None)
    if status == 403:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.socket(Origin=origin)
        assert refused.value.status == 403


@pytest.mark.parametrize("host", ["evil.test", "localhost.evil.test", "127.0.0.1.nip.io:80", "evil@localhost", ""])
async def test_a_name_that_was_pointed_at_us_gets_nowhere(served: Served, host: str) -> None:
    async with served.http.get(f"/devtools/collector.js?k={KEY}", headers={"Host": host}) as answer:
        assert answer.status in (400, 403)
        assert "collector" not in await answer.text()


async def test_only_the_paths_and_methods_that_there_are(served: Served) -> None:
    for method, path, status in (
        ("GET", "sync", 405),
        ("DELETE", "beacon", 405),
        ("POST", "collector.js", 405),
        ("GET", "other", 404),
        ("GET", "../static/collector.js", 404),
        ("GET", "static/collector.js", 404),
    ):
        async with served.http.request(method, f"/devtools/{path}?k={KEY}") as answer:
            assert answer.status == status, path
    async with served.http.get("/mcp") as answer:
        assert answer.status == 404


async def test_a_socket_needs_the_subprotocol(served: Served) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await served.http.ws_connect(f"/devtools/ws?k={KEY}")
    assert refused.value.status == 400


# --- the WebSocket


async def test_what_a_page_sends_is_acknowledged_and_kept(served: Served) -> None:
    socket = await served.greet()
    await socket.send_json(events(1, log("one"), log("two")))
    assert await socket.receive_json() == {"frame": "ack", "seq": 1}
    assert [entry.item.message for entry in served.watch.buffers.logs] == ["one", "two"]
    await socket.close()
    await served.until(lambda: not served.watch.pages.connected())


async def test_a_page_is_asked_over_its_own_socket(served: Served) -> None:
    socket = await served.greet()
    task = asyncio.create_task(query_dom(served.watch, QueryArguments("h1")))
    query = await socket.receive_json()
    assert (query["frame"], query["type"], query["params"]["selector"]) == ("query", "dom", "h1")
    await socket.send_json({"frame": "result", "q": query["q"], "ok": True, "data": {"match_count": 3, "matches": []}})
    assert (await task)["match_count"] == 3


async def test_a_socket_that_breaks_fails_the_query_at_once(served: Served) -> None:
    socket = await served.greet()
    task = asyncio.create_task(query_dom(served.watch, QueryArguments("h1")))
    await socket.receive_json()
    await served.http.close()
    with pytest.raises(Exception, match="went away before it answered"):
        await task


@pytest.mark.parametrize("frame", ["{", '{"frame":"hello"}', '{"frame":"nonsense"}', "[]", "\u0000"])
async def test_a_frame_that_cannot_be_read_ends_the_socket(served: Served, frame: str) -> None:
    socket = await served.socket()
    await socket.send_str(frame)
    message = await socket.receive()
    assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1008)


async def test_binary_frames_are_none(served: Served) -> None:
    socket = await served.greet()
    await socket.send_bytes(b"\x00\xff")
    assert (await socket.receive()).data == 1003


async def test_a_frame_above_the_limit_ends_the_socket(served: Served) -> None:
    socket = await served.greet()
    await socket.send_json(events(1, log("x" * (1 << 20))))
    assert (await socket.receive()).data == 1009
    assert len(served.watch.buffers.logs) == 0


@pytest.mark.parametrize("served", [Clockwork(ping=0.02)], indirect=True)
async def test_a_page_that_answers_no_ping_is_gone(served: Served) -> None:
    socket = await served.greet()
    kinds = []
    async with asyncio.timeout(5):
        while (message := await socket.receive()).type is aiohttp.WSMsgType.PING:
            kinds.append(message.type)
    assert len(kinds) == 2
    await served.until(lambda: not served.watch.pages.connected())


@pytest.mark.parametrize("served", [Clockwork(ping=0.02)], indirect=True)
async def test_a_page_that_answers_pings_stays(served: Served) -> None:
    socket = await served.greet()
    for _ in range(8):
        message = await socket.receive()
        assert message.type is aiohttp.WSMsgType.PING
        await socket.pong(message.data)
    assert served.watch.pages.connected()


async def test_the_newer_connection_of_a_page_replaces_the_older(served: Served) -> None:
    older = await served.greet()
    newer = await served.greet()
    assert (await older.receive()).type is aiohttp.WSMsgType.CLOSE
    await newer.send_json(events(1, log()))
    assert (await newer.receive_json())["frame"] == "ack"
    assert len(served.watch.pages.connected()) == 1


async def test_fifty_pages_are_connected_and_no_more(served: Served) -> None:
    sockets = [await served.socket() for _ in range(51)]
    answers = []
    for number, socket in enumerate(sockets):
        await socket.send_json(HELLO | {"page": f"{number:016x}", "tab": f"{number:016x}"})
        answers.append((await socket.receive()).type)
    assert answers == [aiohttp.WSMsgType.TEXT] * 50 + [aiohttp.WSMsgType.CLOSE]


# --- without a WebSocket


async def test_a_sync_is_answered_at_once_where_there_is_something_to_say(served: Served) -> None:
    status, answer = await served.post("sync", HELLO, events(1, log()))
    assert status == 200
    assert [frame["frame"] for frame in answer["frames"]] == ["welcome", "ack"]
    assert len(served.watch.buffers.logs) == 1
    assert await served.post("sync", events(1, log())) == (200, {"frames": [{"frame": "ack", "seq": 1}]})
    assert len(served.watch.buffers.logs) == 1
    assert await served.post("sync") == (200, {"frames": []})


@pytest.mark.parametrize("served", [Clockwork(hold=5)], indirect=True)
async def test_a_held_sync_carries_the_question_and_the_next_one_the_answer(served: Served) -> None:
    await served.post("sync", HELLO)
    held = asyncio.create_task(served.post("sync"))
    task = asyncio.create_task(query_dom(served.watch, QueryArguments("h1")))
    status, answer = await held
    assert status == 200
    (query,) = answer["frames"]
    result = {"frame": "result", "q": query["q"], "ok": True, "data": {"match_count": 2, "matches": []}}
    waiting = asyncio.create_task(served.post("sync", result))
    assert (await task)["match_count"] == 2
    assert await served.post("sync", events(1, log())) == (200, {"frames": [{"frame": "ack", "seq": 1}]})
    assert await waiting == (200, {"frames": []})  # a newer one ended its wait


async def test_a_page_that_is_not_known_says_hello_again(served: Served) -> None:
    for frames in ((), (events(1, log()),), ({"frame": "state", "url": "http://x/"},)):
        status, _ = await served.post("sync", *frames)
        assert status == 410
    assert len(served.watch.buffers.logs) == 0
    assert (await served.post("sync", HELLO, events(1, log())))[0] == 200


@pytest.mark.parametrize("served", [Clockwork(hold=0.01, sync_gone=0.03)], indirect=True)
async def test_a_page_that_does_not_come_back_is_gone(served: Served) -> None:
    await served.post("sync", HELLO)
    assert served.watch.pages.connected()
    await served.until(lambda: not served.watch.pages.connected())


async def test_a_flood_by_sync_is_told_when_to_come_back(served: Served) -> None:
    served.watch.limiter.refuses = True
    served.watch.limiter._last_hot = served.desk.clock()
    body = {"page": PAGE, "tab": TAB, "frames": [HELLO, events(1, log())]}
    async with served.http.post(f"/devtools/sync?k={KEY}", json=body, headers={"Origin": ALLOWED}) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
        assert answer.headers["Access-Control-Expose-Headers"] == "Retry-After"
    async with served.http.post(f"/devtools/beacon?k={KEY}", json=body, headers={"Origin": ALLOWED}) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
    assert len(served.watch.buffers.logs) == 0


@pytest.mark.parametrize("kind", ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", ""])
async def test_a_beacon_of_any_type_leaves_the_last_batch(served: Served, kind: str) -> None:
    import json

    body = json.dumps({"page": PAGE, "tab": TAB, "frames": [HELLO, events(1, log("last words"))]})
    async with served.http.post(f"/devtools/beacon?k={KEY}", data=body, headers={"Content-Type": kind}) as answer:
        assert answer.status == 204
    assert [entry.item.message for entry in served.watch.buffers.logs] == ["last words"]
    assert not served.watch.pages.connected()


@pytest.mark.parametrize("body", [b"", b"{", b'{"page":7}', b"[" * 5_000, b"\xff"])
async def test_a_body_that_cannot_be_read_is_refused(served: Served, body: bytes) -> None:
    for path in ("sync", "beacon"):
        async with served.http.post(f"/devtools/{path}?k={KEY}", data=body) as answer:
            assert answer.status == 400


async def test_a_body_above_five_mebibytes_is_not_read(served: Served) -> None:
    async with served.http.post(f"/devtools/sync?k={KEY}", data=io.BytesIO(b" " * ((5 << 20) + 1))) as answer:
        assert answer.status == 413


async def test_connections_are_counted_whether_they_say_hello_or_not(served: Served) -> None:
    for _ in range(100):
        await served.socket()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await served.socket()
    assert refused.value.status == 503
    answers = [await served.post("sync", page=f"{number:016x}") for number in range(101)]
    assert [status for status, _ in answers] == [410] * 100 + [503]
