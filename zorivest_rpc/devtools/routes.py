"""The paths under `/devtools/` for pages: the collector, its WebSocket, the held requests in its place, the beacon.

Whatever serves HTTP checks the Host, so that a name that was pointed at us (DNS rebinding) gets nowhere, and hands the
rest here. Order of checks: loaded, path, method, Origin, key, size. Nothing here can be read without a key but the
accessibility engine, which is public.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec
from aiohttp import WSMsgType, web

from zorivest_rpc.devtools.frames import SUBPROTOCOL, Down, Post, Reply
from zorivest_rpc.devtools.visit import NoHello, Refused, Visit
from zorivest_rpc.devtools.watch import Watch, Watches

__all__ = ["Clockwork", "Routes", "is_loopback_origin"]

log: Final = logging.getLogger("zorivest_rpc")
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
STATIC: Final = Path(__file__).parent / "static"
BODY_LIMIT: Final = 5 << 20
_MOST_QUEUED: Final = 200  # frames for a page that does not read
_MOST_LINKS: Final = 100  # sockets, and pages that sync, of one tenant; more than the pages that may say hello
_MOST_IN_ALL: Final = 1_000  # of each, whatever the number of tenants
_SCRIPT: Final = "text/javascript; charset=utf-8"
_post: Final = msgspec.json.Decoder(Post)
_encode: Final = msgspec.json.Encoder().encode
_METHODS: Final = {
    "collector.js": ("GET", "HEAD"),
    "axe.min.js": ("GET", "HEAD"),
    "ws": ("GET",),
    "sync": ("POST", "OPTIONS"),
    "beacon": ("POST", "OPTIONS"),
}


class Clockwork(msgspec.Struct, frozen=True):
    """Times in seconds; tests have shorter ones."""

    ping: float = 15.0
    missed: int = 2  # pings without a sign of life after which a page is gone
    hold: float = 20.0  # of a sync that has nothing to answer
    sync_gone: float = 45.0  # since the last sync ended
    body: float = 30.0


class _Answered(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class _SocketLink:
    """Frames to one WebSocket, in order; a page that does not read them is dropped."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.frames: deque[Down] = deque()
        self.wake = asyncio.Event()
        self.closed = False

    def send(self, frame: Down) -> None:
        if len(self.frames) >= _MOST_QUEUED:
            self.close()
        else:
            self.frames.append(frame)
            self.wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake.set()


class _SyncLink:
    """Frames to a page that comes for them."""

    def __init__(self) -> None:
        self.frames: deque[Down] = deque(maxlen=_MOST_QUEUED)
        self.wake = asyncio.Event()
        self.closed = False
        self.visit: Visit | None = None
        self.turn = 0  # a newer sync ends the wait of the one before
        self.expiry: asyncio.TimerHandle | None = None

    def send(self, frame: Down) -> None:
        self.frames.append(frame)
        self.wake.set()

    def close(self) -> None:
        self.closed = True
        self.wake.set()


class _NoLink:
    """The way back to a page that only drops something off."""

    def send(self, frame: Down) -> None:
        return

    def close(self) -> None:
        return


class Routes:
    """`loaded` says whether the toolset was loaded yet; `origins` are those that the operator allows."""

    def __init__(
        self,
        watches: Watches,
        *,
        loaded: Callable[[], bool],
        origins: Collection[str] = (),
        clockwork: Clockwork | None = None,
    ) -> None:
        self._watches = watches
        self._loaded = loaded
        self._origins = frozenset(origin.strip().rstrip("/").lower() for origin in origins)
        self._times = clockwork or Clockwork()
        self._syncs: dict[tuple[str, str], _SyncLink] = {}
        self._sockets: dict[web.WebSocketResponse, _SocketLink] = {}
        self._files: dict[str, bytes | None] = {}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request for a path below `/devtools/`."""
        cors: dict[str, str] = {}
        try:
            name = request.raw_path.partition("?")[0].removeprefix("/devtools/")
            if not self._loaded() or name not in _METHODS:
                raise _Answered(404, "nothing is served at this path")
            if request.method not in _METHODS[name]:
                raise _Answered(405, f"{request.method} is not served at this path")
            cors = self._check_origin(request)
            if request.method == "OPTIONS":
                return web.Response(status=204, headers=cors | _preflight(request))
            if name == "axe.min.js":
                return self._file(name, cors)
            watch = self._watch_of(request)
            if name == "collector.js":
                return self._file(name, cors)
            if name == "ws":
                return await self._socket(request, watch)
            post = await self._read(request)
            if name == "sync":
                return await self._sync(watch, post, cors)
            self._beacon(watch, post)
            return web.Response(status=204, headers=cors)
        except _Answered as answered:
            return _tell(answered.status, str(answered), cors)
        except Refused as refused:
            status = {1009: 413, 1013: 429}.get(refused.code, 400)
            return _tell(status, refused.reason, cors | ({"Retry-After": "1"} if status == 429 else {}))

    async def close(self) -> None:
        """Hang up on every page."""
        for link in self._syncs.values():
            link.close()
            if link.expiry is not None:
                link.expiry.cancel()
        for link_of_socket in self._sockets.values():
            link_of_socket.close()
        await asyncio.sleep(0)

    # --- checks

    def _check_origin(self, request: web.BaseRequest) -> dict[str, str]:
        origin = request.headers.get("Origin")
        if origin is None:  # no page that another origin serves; it still needs the key
            return {}
        own = f"://{request.headers.get('Host', '')}".lower()
        low = origin.lower()
        is_ours = low in (f"http{own}", f"https{own}")
        if not (is_ours or is_loopback_origin(low) or low in self._origins):
            raise _Answered(403, "this Origin may not be observed; see --devtools-origins")
        return {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "Retry-After", "Vary": "Origin"}

    def _watch_of(self, request: web.BaseRequest) -> Watch:
        keys = parse_qs(request.raw_path.partition("?")[2], max_num_fields=10).get("k", [""])
        watch = self._watches.by_key(keys[0])
        if watch is None:
            raise _Answered(403, "this key opens nothing; `zorivest-rpc devtools snippet` prints the script tag")
        return watch

    async def _read(self, request: web.BaseRequest) -> Post:
        if (request.content_length or 0) > BODY_LIMIT:
            raise _Answered(413, f"the body is above the limit of {BODY_LIMIT} bytes")
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._times.body):
                async for part in request.content.iter_any():
                    parts.append(part)
                    size += len(part)
                    if size > BODY_LIMIT:
                        raise _Answered(413, f"the body is above the limit of {BODY_LIMIT} bytes")
        except TimeoutError:
            raise _Answered(408, "the body did not arrive in time") from None
        try:
            return _post.decode(b"".join(parts))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise _Answered(400, f"the body cannot be read: {str(exc)[:80]}") from None

    def _file(self, name: str, cors: dict[str, str]) -> web.Response:
        if name not in self._files:
            path = STATIC / name
            self._files[name] = path.read_bytes() if path.is_file() else None
        data = self._files[name]
        if data is None:
            raise _Answered(404, "the accessibility engine is not installed")
        headers = {
            "Content-Type": _SCRIPT,
            "Cache-Control": "no-cache",
            "Cross-Origin-Resource-Policy": "cross-origin",
            "X-Content-Type-Options": "nosniff",
        }
        return web.Response(body=data, headers=headers | cors)

    # --- the WebSocket

    async def _socket(self, request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        offered = [part.strip() for part in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        if SUBPROTOCOL not in offered:
            raise _Answered(400, f"the subprotocol {SUBPROTOCOL} is needed")
        if _is_full(link.tenant == watch.tenant for link in self._sockets.values()):
            raise _Answered(503, "too many pages are connected")
        socket = web.WebSocketResponse(
            protocols=(SUBPROTOCOL,), autoping=False, autoclose=True, max_msg_size=BODY_LIMIT, timeout=1.0
        )
        if not socket.can_prepare(request):
            raise _Answered(426, "this is a WebSocket")
        await socket.prepare(request)
        link = self._sockets[socket] = _SocketLink(watch.tenant)
        visit = Visit(watch, link, asyncio.get_running_loop().call_later)
        life = _Life()
        writer = asyncio.create_task(self._write(socket, link, life))
        try:
            await self._listen(socket, visit, life)
        finally:
            visit.end()
            del self._sockets[socket]
            link.close()
            writer.cancel()
        return socket

    async def _listen(self, socket: web.WebSocketResponse, visit: Visit, life: _Life) -> None:
        async for message in socket:
            life.missed = 0
            if message.type is WSMsgType.TEXT:
                try:
                    visit.receive(message.data.encode("utf-8", "replace"))
                except Refused as refused:
                    visit.end()
                    await socket.close(code=refused.code, message=refused.reason.encode()[:120])
                    return
            elif message.type is WSMsgType.PING:
                await socket.pong(message.data)
            elif message.type is not WSMsgType.PONG:
                visit.end()
                await socket.close(code=1003, message=b"frames are text")
                return

    async def _write(self, socket: web.WebSocketResponse, link: _SocketLink, life: _Life) -> None:
        """Send what is queued, and a ping where nothing came for a while."""
        try:
            while not link.closed:
                try:
                    async with asyncio.timeout(self._times.ping):
                        await link.wake.wait()
                except TimeoutError:
                    if life.missed >= self._times.missed:
                        break
                    life.missed += 1
                    await socket.ping()
                    continue
                link.wake.clear()
                while link.frames:
                    await socket.send_str(_encode(link.frames.popleft()).decode())
        except ConnectionError:  # the reader finds out as well
            return
        await socket.close(code=1001, message=b"closed by the server")

    # --- without a WebSocket

    async def _sync(self, watch: Watch, post: Post, cors: dict[str, str]) -> web.Response:
        link = self._take_turn(watch, post)
        turn, visit = link.turn, link.visit
        assert visit is not None
        try:
            for frame in post.frames:
                visit.receive(bytes(frame))
                if visit.slow:
                    link.frames.clear()
                    return _tell(429, "too many events", cors | {"Retry-After": "1"})
            if visit.page is None:
                raise NoHello
            await self._hold(link, turn)
        except NoHello:  # known before this server was started again
            raise _Answered(410, "this page is not known here; say hello") from None
        except Refused:
            visit.end()
            raise
        finally:
            if link.turn == turn:
                link.expiry = asyncio.get_running_loop().call_later(
                    self._times.sync_gone, self._expire, (watch.tenant, post.page)
                )
        if link.closed:
            raise _Answered(410, "this page has another connection")
        frames = list(link.frames) if link.turn == turn else []
        if link.turn == turn:
            link.frames.clear()
        return web.Response(body=_encode(Reply(frames)), headers=cors | {"Content-Type": "application/json"})

    def _take_turn(self, watch: Watch, post: Post) -> _SyncLink:
        """The link of this page, made anew where another connection has taken its place."""
        key = (watch.tenant, post.page)
        link = self._syncs.get(key)
        if link is None or link.closed:
            if link is None and _is_full(tenant == watch.tenant for tenant, _ in self._syncs):
                raise _Answered(503, "too many pages are connected")
            link = self._syncs[key] = _SyncLink()
            link.visit = Visit(watch, link, asyncio.get_running_loop().call_later)
        link.turn += 1
        link.wake.set()  # the older request answers
        if link.expiry is not None:
            link.expiry.cancel()
            link.expiry = None
        return link

    async def _hold(self, link: _SyncLink, turn: int) -> None:
        try:
            async with asyncio.timeout(self._times.hold):
                while not link.frames and link.turn == turn and not link.closed:
                    link.wake.clear()
                    await link.wake.wait()
        except TimeoutError:
            return

    def _expire(self, key: tuple[str, str]) -> None:
        link = self._syncs.pop(key, None)
        if link is not None:
            link.close()
            if link.visit is not None:
                link.visit.end()

    def _beacon(self, watch: Watch, post: Post) -> None:
        """The last words of a document; they connect nothing, and its hello is passed over."""
        page = watch.pages.meet(post.page, post.tab)
        visit = Visit(watch, _NoLink(), asyncio.get_running_loop().call_later, page)
        for frame in post.frames:
            if not _is_hello(bytes(frame)):
                visit.receive(bytes(frame))
            if visit.slow:
                raise Refused(1013, "too many events")


def _is_full(of_tenant: Iterable[bool]) -> bool:
    """Of all links, whether each is of this tenant: the pages of one leave room for those of the others."""
    all = list(of_tenant)
    return sum(all) >= _MOST_LINKS or len(all) >= _MOST_IN_ALL


class _Life:
    """Pings since the last sign of life."""

    missed = 0


def is_loopback_origin(origin: str) -> bool:
    """Of a page from this machine; an origin is a scheme, a host and a port, and what has more is none."""
    try:
        parts = urlsplit(origin)
        is_bare = origin == f"{parts.scheme}://{parts.netloc}" and "@" not in parts.netloc
        return is_bare and parts.scheme in ("http", "https") and parts.hostname in LOOPBACK and parts.port != 0
    except ValueError:  # of the port
        return False


def _is_hello(frame: bytes) -> bool:
    return b'"hello"' in frame[:30]


def _preflight(request: web.BaseRequest) -> dict[str, str]:
    headers = {
        "Access-Control-Allow-Methods": "POST",
        "Access-Control-Allow-Headers": "Content-Type",
        "Access-Control-Max-Age": "600",
    }
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def _tell(status: int, words: str, headers: dict[str, str]) -> web.Response:
    body = _encode({"error": words})
    return web.Response(status=status, body=body, headers=headers | {"Content-Type": "application/json"})
