"""One request and its answer, across one aiohttp session's pool of connections.

There are two ways, with the same outcome. The plain one is aiohttp's own, by its request and response objects. The
direct one takes a connection from the same pool, writes head and body in one piece and reads with aiohttp's parser: 61
to 73 µs of processor time a request instead of 131 to 158 (docs/benchmarks.md). It is for requests that are small and
ordinary, which nearly all are. What of `serving/` reaches below aiohttp's public interface stands here.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from functools import cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from zorivest_rpc.proof import PROOF_PATH, is_proof, new_challenge, place_of
from zorivest_rpc.serving.backend.failures import why
from zorivest_rpc.serving.backend.interface import Address
from zorivest_rpc.serving.backend.limits import BackendLimits

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.client_proto import ResponseHandler
    from yarl import URL

__all__ = [
    "SMALL",
    "Answer",
    "AnswerTooLarge",
    "DirectAnswer",
    "HttpWire",
    "Lost",
    "Unsent",
    "connector_class",
    "send_directly",
    "write_request",
]

# What aiohttp does not promise; `make canary` tries it on the newest release.
PRIVATE_MEMBERS: Final = (
    "aiohttp.client.ClientSession._retry_connection",
    "aiohttp.client_proto.ResponseHandler._payload",
    "aiohttp.connector.BaseConnector._acquired",
    "aiohttp.connector.BaseConnector._create_connection",
    "aiohttp.connector.BaseConnector._factory",
    "aiohttp.connector.BaseConnector._get",
    "aiohttp.connector.BaseConnector._loop",
    "aiohttp.connector.BaseConnector._release",
)

_DIRECT: Final = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE"))
_API: Final = "/api/v1"
_LONGEST_PROOF: Final = 1024
_MOST_AHEAD: Final = 32  # heads of answers that wait to be read on one connection
SMALL: Final = 64 * 1024  # what a connection takes at once; more is written piece by piece, as it drains
_TICK: Final = 0.001  # uvloop's timers count whole milliseconds, and may ring that much early


class Answer(msgspec.Struct, gc=False):
    """What came back, whatever it says; the names of the headers are found in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        """The media type alone."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()


class Unsent(Exception):
    """Nothing left this machine; the text says why."""


class Lost(Exception):
    """Sent, perhaps received, never answered in full; the text says why. `late`: its time was over."""

    def __init__(self, reason: str, late: bool) -> None:
        super().__init__(reason)
        self.late = late


class AnswerTooLarge(Exception):
    """An answer beyond the limit, of which nothing was kept."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Origin(NamedTuple):
    """One server: how the pool knows it, and the headers that aiohttp would add to each request."""

    scheme: str
    authority: str
    request: aiohttp.ClientRequest  # never sent
    headers: str


@cache
def connector_class() -> Any:  # noqa: C901 - two classes, which need aiohttp to be defined
    """On demand, because aiohttp is not imported before it is needed."""
    import aiohttp
    from aiohttp.client_exceptions import UnixClientConnectorError
    from aiohttp.client_proto import ResponseHandler

    class Handler(ResponseHandler):
        """Propagate connection loss to body readers; aiohttp tells only header readers."""

        def set_exception(self, exc: BaseException, *cause: Any) -> None:
            # From Python 3.12 on aiohttp writes eagerly, so a write may fail because the answer was not HTTP: that
            # answer is the reason to tell, whichever of the two is noticed first.
            if isinstance(self.exception(), aiohttp.http.HttpProcessingError):
                return
            self._tell(exc)
            super().set_exception(exc, *cause)

        def feed_data(self, data: Any, size: int = 0) -> None:
            """One answer at a time is asked for, and few interim ones come before it; aiohttp would keep all that come,
            and a server that sends nothing else would be read by nothing else."""
            if len(self) < _MOST_AHEAD:
                super().feed_data(data, size)
            elif self.exception() is None:
                self.set_exception(aiohttp.http.HttpProcessingError(message="more answers than were asked for"))
                if self.transport is not None:
                    self.transport.abort()

        def connection_lost(self, exc: BaseException | None) -> None:
            if exc is not None:  # of a body that says neither its length nor its end, what came may be a part
                self._tell(aiohttp.ClientOSError(*exc.args))
            super().connection_lost(exc)

        def close(self) -> None:
            self._tell(aiohttp.ClientConnectionError())
            super().close()

        def _tell(self, exc: BaseException) -> None:
            payload = self._payload
            if payload is not None and not payload.is_eof() and payload.exception() is None:
                payload.set_exception(exc)

    class Connector(aiohttp.TCPConnector):
        """Nothing that came while a connection was idle is taken for the answer to the next request, and nothing that
        waits to be written keeps a connection that was given up."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._factory = cast("partial[ResponseHandler]", partial(Handler, loop=self._loop))
            self.address: Address | None = None

        async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
            address = self.address
            if address is not None and address.socket:
                return await self._connect_socket(address.socket, req)
            protocol = cast(Any, await super()._create_connection(req, traces, timeout))
            if address is not None:
                try:
                    await _check_proof(protocol, req.url, address.secret)
                except OSError as exc:
                    raise aiohttp.ClientConnectorError(req.connection_key, exc) from None
            return protocol

        async def _connect_socket(self, path: str, req: Any) -> Any:
            """As aiohttp's UnixConnector does; this pool serves a backend that may come back on a port."""
            try:
                _, protocol = await self._loop.create_unix_connection(self._factory, path)
            except OSError as exc:
                raise UnixClientConnectorError(path, req.connection_key, exc) from None
            return protocol

        async def _get(self, *args: Any) -> Any:
            while (kept := await super()._get(*args)) is not None:
                if kept.protocol is None or not kept.protocol.should_close:
                    break
                kept.close()
            return kept

        def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
            if should_close and protocol.transport is not None:
                protocol.transport.abort()
            super()._release(key, protocol, should_close=should_close)

        def let_go(self) -> None:
            """Of what is half sent or half read; closing would wait until the other side has taken it."""
            for held in list(self._acquired):
                if held.transport is not None:
                    held.transport.abort()

    return Connector


async def _check_proof(protocol: Any, url: URL, secret: str) -> None:
    """OSError unless the listener at the end of this connection knows the secret; the connection is given up then."""
    challenge, place = new_challenge(), place_of(url.port)
    head = f"GET {_API}{PROOF_PATH}?challenge={challenge} HTTP/1.1\r\nHost: {place}\r\n\r\n"
    try:
        protocol.set_response_params(read_until_eof=True)
        protocol.transport.write(head.encode())
        message, payload = await protocol.read()
        length = message.headers.get("Content-Length", "")
        if message.code != 200 or not length.isdecimal() or int(length) > _LONGEST_PROOF:
            raise ValueError("not an answer to a challenge")
        answer = msgspec.json.decode(await payload.read(), type=dict[str, str])
        if not is_proof(answer.get("proof"), secret, challenge, place) or protocol.should_close:
            raise ValueError("not a proof")
    except BaseException as exc:
        if protocol.transport is not None:
            protocol.transport.abort()
        if not isinstance(exc, Exception) or isinstance(exc, TimeoutError):
            raise
        raise ConnectionRefusedError(errno.ECONNREFUSED, "another program answers there") from None


class DirectAnswer:
    """The head of an answer on a connection of the pool, and its body as it comes; as much of aiohttp's response as is
    needed. Releasing it before the end of the body cuts the connection."""

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(self, connection: Any, message: Any, content: aiohttp.StreamReader) -> None:
        self._connection = connection
        self.status: int = message.code
        self.headers: Mapping[str, str] = message.headers
        self.content = content

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int | None:
        length = self.headers.get("Content-Length", "")
        return int(length) if length.isdecimal() else None

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self.content.is_eof():
            connection.release()
        else:
            connection.close()


async def send_directly(pool: Any, origin: aiohttp.ClientRequest, request: bytes) -> DirectAnswer:
    """Write a whole request on a connection of a pool of `connector_class`, and read the head of its answer. `origin`
    is a request to the same server, never sent. Unsent: there is no connection; what the server or the way to it does
    wrong is aiohttp's own error. Deadlines are the caller's."""
    import aiohttp

    try:
        connection = await pool.connect(origin, [], aiohttp.ClientTimeout(total=None))
    except (aiohttp.ClientError, OSError) as exc:
        raise Unsent(why(exc)) from None
    try:
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:  # the other side was faster
            raise Unsent("the connection was closed at once")
        protocol.set_response_params(read_until_eof=True)
        transport.write(request)
        while True:
            message, content = await protocol.read()
            if not 100 <= message.code < 200 or message.code == 101:
                return DirectAnswer(connection, message, content)
    except BaseException:
        connection.close()
        raise


class HttpWire:
    """Made within a running loop; closed once, for good."""

    def __init__(self, limits: BackendLimits, *, plain: bool = False, address: Address | None = None) -> None:
        import aiohttp

        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._unsent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
        # a time-out of the socket is an OSError; an answer that is not HTTP ends as the parser's own error
        self._foreign = (aiohttp.ClientError, aiohttp.http.HttpProcessingError, OSError)
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}
        self._large = asyncio.Semaphore(1)
        self._pool = connector_class()(
            limit=limits.connections, keepalive_timeout=limits.keep_alive, ttl_dns_cache=60, force_close=False
        )
        self._pool.address = address
        self._http = aiohttp.ClientSession(
            connector=self._pool,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": "application/json, */*;q=0.5", "User-Agent": "zorivest-rpc"},
            trust_env=False,
            auto_decompress=True,
        )
        # aiohttp would send a PUT or DELETE again when a kept connection breaks; what is repeated is not said here
        self._http._retry_connection = False
        self._is_plain = plain
        self._origin: _Origin | None = None

    def move(self, address: Address | None) -> None:
        """From now on connections are made to another address; None: to the one that a URL names."""
        self._pool.address = address

    async def close(self) -> None:
        """Fail every waiting caller at once."""
        self._pool.let_go()
        await self._http.close()

    async def send(
        self, method: str, url: URL, headers: Mapping[str, str], data: bytes | None, seconds: float
    ) -> Answer:
        """One answer; a redirection is one too. `seconds` are for all of it."""
        timeout = self._timeouts.get(seconds) or self._timeout(seconds)
        deadline = self._loop.time() + seconds
        try:
            if not self._is_plain and method in _DIRECT and (data is None or len(data) <= SMALL):
                origin = self._origin
                if origin is None or origin.authority != url.raw_authority or origin.scheme != url.scheme:
                    origin = self._meet(url)
                request = write_request(method, url.raw_path_qs, origin.headers, headers, data)
                if request is not None:
                    return await self._directly(origin, request, timeout, deadline)
            return await self._plainly(method, url, headers, data, timeout, deadline)
        except self._unsent as exc:
            raise Unsent(why(exc)) from None
        except self._foreign as exc:
            raise Lost(why(exc), self._loop.time() >= deadline - _TICK) from None

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        """The usual ones are made once."""
        import aiohttp

        made = aiohttp.ClientTimeout(total=seconds, connect=min(self._limits.connect, seconds))
        if len(self._timeouts) < 16:
            self._timeouts[seconds] = made
        return made

    # --- by aiohttp's request and response

    async def _plainly(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        data: bytes | None,
        timeout: aiohttp.ClientTimeout,
        deadline: float,
    ) -> Answer:
        body_sent = BytesIO(data) if data and len(data) > SMALL else data  # as a file it is written piece by piece
        answer = await self._http.request(
            method, url, data=body_sent, headers=headers, allow_redirects=False, timeout=timeout
        )
        try:
            body = await self._body(answer.status, answer.headers, answer.content, deadline)
        except BaseException:
            answer.close()
            raise
        answer.release()
        return Answer(answer.status, answer.headers, body)

    # --- on the connection itself

    def _meet(self, url: URL) -> _Origin:
        import aiohttp

        request = aiohttp.ClientRequest("GET", url, headers=self._http.headers, loop=self._loop)
        common = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        self._origin = _Origin(url.scheme, url.raw_authority, request, common)
        return self._origin

    async def _directly(
        self, origin: _Origin, request: bytes, timeout: aiohttp.ClientTimeout, deadline: float
    ) -> Answer:
        try:
            connection = await self._pool.connect(origin.request, [], timeout)
        except self._foreign as exc:
            raise Unsent(why(exc)) from None
        protocol, transport = connection.protocol, connection.transport
        assert protocol is not None
        if transport is None:  # the other side was faster
            connection.close()
            raise Unsent("the connection was closed at once")
        protocol.set_response_params(read_until_eof=True)
        alarm = self._loop.call_at(deadline, self._ring, protocol, transport)
        try:
            transport.write(request)
            while True:
                message, payload = await protocol.read()
                if not 100 <= message.code < 200 or message.code == 101:
                    break
            body = await self._body(message.code, message.headers, payload, deadline)
            connection.release()
        except BaseException:
            connection.close()
            raise
        finally:
            alarm.cancel()
        return Answer(message.code, message.headers, body)

    def _ring(self, protocol: ResponseHandler, transport: asyncio.Transport) -> None:
        """Time out: fail the waiting caller with the reason."""
        protocol.set_exception(TimeoutError())
        transport.abort()

    # --- the body of either

    async def _body(
        self, status: int, headers: Mapping[str, str], content: aiohttp.StreamReader, deadline: float
    ) -> bytes:
        """Up to the limit: at once if it is small, says its length and does not grow by unpacking, else in pieces."""
        length = headers.get("Content-Length", "")
        said = int(length) if length.isdecimal() else 0
        if said > self._limits.body:
            raise AnswerTooLarge(status)
        if length and said <= self._limits.large and "Content-Encoding" not in headers:
            return content.read_nowait() if content.is_eof() else await content.read()
        pieces: list[bytes] = []
        if await self._read(status, content, pieces, 0, self._limits.large):
            async with asyncio.timeout_at(deadline), self._large:
                await self._read(status, content, pieces, sum(map(len, pieces)), None)
        return b"".join(pieces)

    async def _read(
        self, status: int, content: aiohttp.StreamReader, pieces: list[bytes], size: int, until: int | None
    ) -> bool:
        """Add pieces; True if there may be more, because `until` was passed. The rest of a large body takes its time,
        because the loop that reads it serves others too."""
        limits, began, large = self._limits, self._loop.time(), size
        async for piece in content.iter_any():
            size += len(piece)
            if size > limits.body:
                raise AnswerTooLarge(status)
            pieces.append(piece)
            if until is not None and size > until:
                return True
            if until is None and limits.pace:
                await asyncio.sleep(began + (size - large) / limits.pace - self._loop.time())
        return False


def write_request(
    method: str, target: str, common: str, headers: Mapping[str, str], data: bytes | None
) -> bytes | None:
    """The bytes of a whole request; None if a value is not for a line of its own, which aiohttp may judge."""
    if not "".join(headers.values()).isprintable():
        return None
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    size = f"Content-Length: {len(data or b'')}\r\n" if data is not None or method != "GET" else ""
    head = f"{method} {target} HTTP/1.1\r\n{common}{lines}{size}\r\n".encode()
    return head + data if data else head
