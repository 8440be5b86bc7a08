"""What an inbound message is, which era it belongs to and what is wrong with it: decided once, for pipes and for HTTP.

Rule 1: a message is refused by the first row of ORDER that it fails, and the row names the clause behind the refusal.
Rule 2: nothing here waits, writes or runs a method; what only a transport knows (headers, a session) is passed in.
Rule 3: what cannot be read as a message, or has params that are no object, is refused while it is decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.headers import HeaderParams, check_params, check_standard, named_value
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND, Batch, Id, Message, decode
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, Era
from zorivest_rpc.mcp.protocol.session import Phase, RequestHeaders, Session
from zorivest_rpc.mcp.protocol.stateless import check_meta, claims_modern, refuse_version, session_for
from zorivest_rpc.mcp.protocol.types import CallTool, Initialize, InvalidParams, Meta, Params, decode_params

__all__ = [
    "ORDER",
    "Arrival",
    "Pipe",
    "Row",
    "Served",
    "Way",
    "climb",
    "has_legacy_header",
    "read_item",
    "read_post",
    "select_rows",
]

_MOST_IN_BATCH: Final = 1_000  # a short request can have a long answer, and all are held until the last is there
_LEGACY, _MODERN, _READY = Era.LEGACY, Era.MODERN, Phase.READY
_NO_PARAMS: Final = Params()


class Way(Flag):
    """How a message came, as far as its refusals depend on it."""

    PIPE_OPENING = auto()  # a request while the era of the pipe is open, without a claim to the modern one
    PIPE_LEGACY = auto()
    PIPE_MODERN = auto()
    PIPE_BATCH = auto()
    BATCH_ITEM = auto()  # of a pipe or a POST
    POST_OPENING = auto()  # `initialize`
    POST_LEGACY = auto()  # a request of a session, alone or in a batch
    POST_MODERN = auto()
    POST_BATCH = auto()
    MODERN_BATCH = auto()  # an array under a header that is not legacy
    MODERN_NOTE = auto()  # a notification or a response under a header that is not legacy
    IN_SESSION = auto()  # whatever needs a session over HTTP


class Served(msgspec.Struct, frozen=True):
    """The facts about a server that refusals depend on."""

    methods: frozenset[str]
    mirrored: Callable[[Session, str], HeaderParams]  # the arguments of a tool that headers repeat


class Arrival(msgspec.Struct):
    """One message while it is judged. It is left to the garbage collector: a refusal's traceback leads back to it."""

    served: Served | None = None
    method: str = ""
    id: Id | None = None
    params: Params = msgspec.field(default_factory=Params)
    meta: Meta | UnsetType = UNSET
    problem: InvalidParams | None = None
    session: Session | None = None  # the one it belongs to, as soon as that is known
    headers: RequestHeaders | None = None
    version: str | None = None  # MCP-Protocol-Version
    session_id: str | None = None
    principal: str = ""
    is_modern: bool = False
    carries_modern: bool = True  # whether the transport is younger than per-request metadata
    size: int = 0  # of a batch
    message: Message | Batch | None = None  # of a batch's item, a notification or a response


# --- one function per refusal


def _refuse_response(arrival: Arrival) -> None:
    if isinstance(arrival.message, Message) and arrival.message.is_response:
        raise ProtocolError(INVALID_REQUEST, "clients of this era send no responses")


def _refuse_unknown_revision(arrival: Arrival) -> None:
    if arrival.version not in BY_NAME:
        raise refuse_version(str(arrival.version), None)


def _refuse_modern_batch(arrival: Arrival) -> None:
    raise ProtocolError(INVALID_REQUEST, "there are no batches in this revision; post one message")


def _refuse_batch(arrival: Arrival) -> None:
    if arrival.session is None or not arrival.session.revision.batches:
        words = "batches exist in revision 2025-03-26 alone; send one message at a time"
        raise ProtocolError(INVALID_REQUEST, words)


def _refuse_long_batch(arrival: Arrival) -> None:
    if arrival.size > _MOST_IN_BATCH:
        raise ProtocolError(INVALID_REQUEST, f"a batch holds at most {_MOST_IN_BATCH} messages; send fewer at once")


def _refuse_nested_batch(arrival: Arrival) -> None:
    if isinstance(arrival.message, Batch):
        raise ProtocolError(INVALID_REQUEST, "a batch holds messages, not batches")


def _refuse_initialize_in_batch(arrival: Arrival) -> None:
    message = arrival.message
    if isinstance(message, Message) and message.method == "initialize":
        id = message.id if isinstance(message.id, int | str) else None
        raise ProtocolError(INVALID_REQUEST, '"initialize" does not go into a batch', id=id)


def _refuse_missing_session_id(arrival: Arrival) -> None:
    if arrival.session_id is None:
        raise ProtocolError(INVALID_REQUEST, "missing Mcp-Session-Id; open a session with initialize")


def _refuse_unknown_header(arrival: Arrival) -> None:
    if arrival.version is not None and arrival.version not in BY_NAME:
        raise ProtocolError(INVALID_REQUEST, f"unsupported MCP-Protocol-Version {arrival.version!r}")


def _refuse_unknown_session(arrival: Arrival) -> None:
    if arrival.session is None:
        raise ProtocolError(INVALID_REQUEST, "no such session; open one with initialize")


def _refuse_bad_opening(arrival: Arrival) -> None:
    if arrival.problem is not None and arrival.method == "initialize":
        raise arrival.problem


def _refuse_second_opening(arrival: Arrival) -> None:
    if arrival.session is not None:
        raise ProtocolError(INVALID_REQUEST, '"initialize" was already answered in this session', id=arrival.id)


def _refuse_other_era(arrival: Arrival) -> None:
    if claims_modern(arrival.meta):
        words = "this connection was opened with initialize; a request of another era needs one of its own"
        raise ProtocolError(INVALID_REQUEST, words, id=arrival.id)


def _refuse_old_transport(arrival: Arrival) -> None:
    if not arrival.carries_modern:
        raise ProtocolError(INVALID_REQUEST, "this transport is older than per-request metadata", id=arrival.id)


def _refuse_initialize(arrival: Arrival) -> None:
    if arrival.method == "initialize":
        params = arrival.params
        raise refuse_version(params.protocol_version if isinstance(params, Initialize) else "", arrival.id)


def _refuse_bad_meta(arrival: Arrival) -> None:
    check_meta(arrival.meta, arrival.id)


def _refuse_bad_headers(arrival: Arrival) -> None:
    meta, headers, method = arrival.meta, arrival.headers, arrival.method
    assert meta is not UNSET
    assert headers is not None
    row = BY_NAME.get(meta.protocol_version)
    name = named_value(method, arrival.params) if row is not None and method in row.methods else None
    check_standard(headers.getall, meta.protocol_version, method, name, arrival.id)


def _refuse_unserved_revision(arrival: Arrival) -> None:
    """What is served has a session from here on, because the rows below ask it for its revision."""
    assert arrival.meta is not UNSET
    arrival.session = session_for(arrival.meta, arrival.principal, arrival.id)
    arrival.session.headers = arrival.headers


def _refuse_wrong_phase(arrival: Arrival) -> None:
    assert arrival.session is not None
    arrival.session.check(arrival.method, arrival.id)


def _refuse_unknown_method(arrival: Arrival) -> None:
    method, session, served = arrival.method, arrival.session, arrival.served
    assert session is not None
    assert served is not None
    if method not in session.revision.methods or method not in served.methods:
        words = f"method {shorten(method)!r} does not exist here in revision {session.revision.name}"
        raise ProtocolError(METHOD_NOT_FOUND, words, id=arrival.id)


def _refuse_bad_params(arrival: Arrival) -> None:
    if arrival.problem is not None:
        raise arrival.problem


def _refuse_bad_mirror(arrival: Arrival) -> None:
    params = arrival.params
    if type(params) is not CallTool:
        return
    session, served, headers = arrival.session, arrival.served, arrival.headers
    assert session is not None
    assert served is not None
    assert headers is not None
    mirrored = served.mirrored(session, params.name)
    if mirrored:
        check_params(headers.getall, mirrored, params.arguments or {}, arrival.id)


# --- their order


class Row(msgspec.Struct, frozen=True):
    check: Callable[[Arrival], None]
    ways: Way
    status: int  # of the answer to a POST; 0 where the row is for pipes or for an item of a batch
    clause: str  # revision and page of the specification, or the reason where it is silent


_PIPES: Final = Way.PIPE_OPENING | Way.PIPE_LEGACY | Way.PIPE_MODERN
_TRANSPORTS: Final = "2026-07-28 basic/transports/streamable-http"

_BY_SESSION: Final = (  # what decides whose message it is
    Row(_refuse_modern_batch, Way.MODERN_BATCH, 400, "2025-06-18 changelog: batching was removed"),
    Row(_refuse_response, Way.MODERN_NOTE, 400, f"{_TRANSPORTS}#sending-messages: a request or a notification"),
    Row(_refuse_unknown_revision, Way.MODERN_NOTE, 400, f"{_TRANSPORTS}#protocol-version-header"),
    Row(_refuse_missing_session_id, Way.IN_SESSION, 400, "2025-11-25 basic/transports#session-management 2"),
    Row(_refuse_unknown_header, Way.IN_SESSION, 400, "2025-11-25 basic/transports#protocol-version-header"),
    Row(_refuse_unknown_session, Way.IN_SESSION, 404, "2025-11-25 basic/transports#session-management 3"),
    Row(_refuse_batch, Way.PIPE_BATCH | Way.POST_BATCH, 400, "2025-03-26 basic#batching: in that revision alone"),
    Row(_refuse_long_batch, Way.PIPE_BATCH | Way.POST_BATCH, 400, "none: a bound on what one message can cost"),
    Row(_refuse_nested_batch, Way.BATCH_ITEM, 0, "JSON-RPC 2.0, 6: an array of request objects"),
    Row(_refuse_initialize_in_batch, Way.BATCH_ITEM, 0, "2025-03-26 basic/lifecycle#initialization"),
    Row(
        _refuse_bad_opening,
        Way.PIPE_OPENING | Way.PIPE_LEGACY | Way.POST_OPENING,
        400,
        "2025-11-25 basic/lifecycle#initialization: version, capabilities and client are required",
    ),
    Row(_refuse_second_opening, Way.POST_OPENING, 400, "2025-11-25 basic/lifecycle#initialization: the first exchange"),
    Row(_refuse_other_era, Way.PIPE_LEGACY, 0, "2026-07-28 basic/transports/stdio#backward-compatibility"),
    Row(_refuse_old_transport, Way.PIPE_MODERN, 0, f"{_TRANSPORTS}#http+sse-transport-2024-11-05"),
    Row(
        _refuse_initialize,
        Way.PIPE_MODERN,
        0,
        "2026-07-28 basic/versioning#backward-compatibility-with-initialization-based-versions: name what is served",
    ),
    Row(_refuse_bad_meta, Way.PIPE_MODERN | Way.POST_MODERN, 400, "2026-07-28 basic#_meta: required fields, -32602"),
    Row(_refuse_bad_headers, Way.POST_MODERN, 400, f"{_TRANSPORTS}#server-validation: before the version, -32020"),
    Row(
        _refuse_unserved_revision,
        Way.PIPE_MODERN | Way.POST_MODERN,
        400,
        "2026-07-28 basic/versioning#protocol-version-negotiation: -32022",
    ),
    Row(
        _refuse_wrong_phase,
        Way.PIPE_OPENING | Way.PIPE_LEGACY | Way.POST_LEGACY,
        400,
        "2025-11-25 basic/lifecycle#initialization: only pings before it, and once",
    ),
)
_BY_METHOD: Final = (  # what is wrong with the request itself, once its era and its session are known
    Row(_refuse_unknown_method, Way.POST_MODERN, 404, f"{_TRANSPORTS}#protocol-version-header: 404 with -32601"),
    Row(_refuse_unknown_method, _PIPES | Way.POST_LEGACY, 200, "JSON-RPC 2.0, 5.1: -32601, before its params"),
    Row(_refuse_bad_params, _PIPES | Way.POST_LEGACY | Way.POST_MODERN, 200, "JSON-RPC 2.0, 5.1: -32602"),
    Row(_refuse_bad_mirror, Way.POST_MODERN, 400, f"{_TRANSPORTS}#server-behavior-for-custom-headers: -32020"),
)
ORDER: Final = _BY_SESSION + _BY_METHOD


def select_rows(way: Way, rows: tuple[Row, ...] = ORDER) -> tuple[Row, ...]:
    """The rows that a message of this way climbs, in their order."""
    return tuple(row for row in rows if way in row.ways)


def climb(arrival: Arrival, rows: tuple[Row, ...]) -> None:
    """Look at the rows in turn; the first that the message fails raises, with the status of the row."""
    try:
        for row in rows:
            row.check(arrival)
    except ProtocolError as error:
        error.status = row.status
        raise


_PIPE_BATCH: Final = select_rows(Way.PIPE_BATCH)
_BATCH_ITEM: Final = select_rows(Way.BATCH_ITEM)
_PIPE_OPENING: Final = select_rows(Way.PIPE_OPENING, _BY_SESSION)
_PIPE_LEGACY: Final = select_rows(Way.PIPE_LEGACY, _BY_SESSION)
_PIPE_MODERN: Final = select_rows(Way.PIPE_MODERN, _BY_SESSION)
_PIPE_METHOD: Final = select_rows(Way.PIPE_LEGACY, _BY_METHOD)  # the same in every era


class Pipe:
    """A connection that carries all messages of one client. Its opening request decides the era of those that follow;
    a `server/discover` probe does not, so that a client may still fall back to `initialize`."""

    __slots__ = ("_carries_modern", "_served", "_settled", "era", "session")

    def __init__(self, served: Served, session: Session, carries_modern: bool) -> None:
        self._served = served
        self._settled: frozenset[str] = frozenset()  # methods that need no further look, once the era is decided
        self._carries_modern = carries_modern
        self.era: Era | None = None
        self.session = session

    def admit(self, method: str, raw: msgspec.Raw | UnsetType, id: Id) -> tuple[Session, Params]:
        """The session and the params of a request, or the ProtocolError of the first row that it fails."""
        try:
            params = decode_params(method, raw, id)
        except InvalidParams as problem:
            return self._judge(Arrival(self._served, method, id, _NO_PARAMS, problem.meta, problem))
        meta = params.meta
        if method in self._settled:  # the rows say the same; these lines are what nearly every request passes
            if self.era is _MODERN:
                session = session_for(check_meta(meta, id), self.session.principal, id)
                if method in session.revision.methods:
                    return session, params
            elif meta is UNSET or meta.protocol_version is UNSET:
                return self.session, params
        return self._judge(Arrival(self._served, method, id, params, meta))

    def _judge(self, arrival: Arrival) -> tuple[Session, Params]:
        era, session = self.era, self.session
        if era is None:
            era = _MODERN if claims_modern(arrival.meta) and arrival.method != "initialize" else _LEGACY
        if era is _MODERN:
            arrival.principal = session.principal
            arrival.carries_modern = self._carries_modern
            climb(arrival, _PIPE_MODERN)
        else:
            arrival.session = session
            climb(arrival, _PIPE_OPENING if self.era is None else _PIPE_LEGACY)
        if arrival.method != "server/discover":
            self.era = era
        climb(arrival, _PIPE_METHOD)
        admitted = arrival.session
        assert admitted is not None
        if self.era is not None and admitted.phase is _READY:  # neither of them changes any more
            self._settled = self._served.methods & admitted.revision.methods - {"initialize"}
        return admitted, arrival.params

    def admit_batch(self, batch: Batch) -> None:
        session = self.session if self.era is _LEGACY else None
        climb(Arrival(session=session, size=len(batch.items)), _PIPE_BATCH)


def read_item(frame: bytes) -> Message:
    """One message of a batch that was admitted."""
    message = decode(frame)
    climb(Arrival(message=message), _BATCH_ITEM)
    assert isinstance(message, Message)
    return message


def has_legacy_header(version: str | None) -> bool:
    """Whether a POST may belong to a session. An unknown revision is no reason to fall back to an old one."""
    if version is None:
        return True
    row = BY_NAME.get(version)
    return row is not None and not row.modern


def read_post(served: Served, message: Message, version: str | None = None) -> Arrival:
    """A request that was POSTed, with its era: a claim to be modern stands in its body or in its header."""
    method, id = message.method, message.id
    assert method is not UNSET
    assert id is not UNSET
    try:
        params = decode_params(method, message.params, id)
        arrival = Arrival(served, method, id, params, params.meta)
    except InvalidParams as problem:
        arrival = Arrival(served, method, id, _NO_PARAMS, problem.meta, problem)
    arrival.is_modern = claims_modern(arrival.meta) or not has_legacy_header(version)
    return arrival
