"""One client's conversation with one server: requests out as bytes, frames in, and what each frame means.

Rule 1: nothing here waits or writes. A shell sends `Request.frame`, feeds what comes back, and acts on the events.
Rule 2: params and results stay the bytes that they are; a response costs one decoded envelope and one lookup.
Rule 3: a response to no open request is dropped and counted; it never counts as a sign of life.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError, ZorivestError
from zorivest_rpc.mcp.client.forms import Form, is_for_a_secret, read_form
from zorivest_rpc.mcp.protocol.headers import encode_value, is_named
from zorivest_rpc.mcp.protocol.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    Json,
    Received,
    decode_received,
    dumps,
    error_frame,
    notification_frame,
    raw_request_frame,
    result_frame,
)
from zorivest_rpc.mcp.protocol.replies import (
    Acknowledged,
    ErrorBody,
    Honoured,
    Progress,
    Told,
    Updated,
    read_reply,
)
from zorivest_rpc.mcp.protocol.revisions import MODERN, Revision
from zorivest_rpc.mcp.protocol.types import Cancelled, decode_params

__all__ = [
    "Acknowledgement",
    "Answer",
    "Caller",
    "Changed",
    "Event",
    "Identity",
    "Logged",
    "Note",
    "Progressed",
    "Question",
    "Refused",
    "Reply",
    "Request",
    "Touched",
]

_PREFIX: Final = "io.modelcontextprotocol/"
_ACCEPT: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_CHANGES: Final = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
_FORMS: Final[Json] = {"elicitation": {"form": {}}}
_CANCEL: Final = b'"action":"cancel"'
_MOST_IN_BATCH: Final = 1_000


class Identity(msgspec.Struct, frozen=True):
    """Who we say that we are."""

    name: str
    version: str


class Request(msgspec.Struct):
    """One request while it is open. `listener` belongs to the shell, and is handed back with what concerns it."""

    id: int
    method: str
    name: str
    frame: bytes
    headers: dict[str, str]
    listener: Any = None


class Note(msgspec.Struct, frozen=True):
    """What is sent without waiting for an answer: a notification, or an answer of ours."""

    frame: bytes
    headers: dict[str, str]


# --- what a frame means


class Answer(msgspec.Struct, frozen=True):
    """A response to one of our requests: `result` is the encoded object, or `error` is there."""

    request: Request
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: ErrorBody | None = None


class Reply(msgspec.Struct, frozen=True):
    """A request of the server that needs no person: the frame to answer it with."""

    frame: bytes


class Question(msgspec.Struct, frozen=True):
    """A form that the server wants filled in (legacy); `Caller.reply` makes the frame of its answer."""

    id: Id
    form: Form


class Progressed(msgspec.Struct, frozen=True):
    request: Request
    progress: Progress


class Logged(msgspec.Struct, frozen=True):
    told: Told


class Changed(msgspec.Struct, frozen=True):
    """A list of the server is another one: `tools`, `prompts` or `resources`."""

    kind: str


class Touched(msgspec.Struct, frozen=True):
    """A resource that was subscribed to has new contents."""

    uri: str


class Acknowledgement(msgspec.Struct, frozen=True):
    """The first word on a listen stream: what of the asked-for will be told."""

    honoured: Honoured


Event: TypeAlias = Answer | Reply | Question | Progressed | Logged | Changed | Touched | Acknowledgement


class Refused(ZorivestError):
    """The server answered with a JSON-RPC error."""

    def __init__(self, error: ErrorBody) -> None:
        super().__init__(error.message)
        self.error = error
        self.code = error.code


class Caller:
    """`revision` is what requests are written in; it is settled by the opening and may be settled anew."""

    __slots__ = ("_headers", "_identity", "_meta", "_next", "identity", "pending", "revision", "strays")

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.pending: dict[Id, Request] = {}
        self.strays = 0
        self._next = 0
        self._identity = dumps({"name": identity.name, "version": identity.version})
        self.settle(MODERN)

    def settle(self, revision: Revision) -> None:
        """Write everything from here on in this revision. What every request repeats is encoded once, here."""
        self.revision = revision
        self._headers = dict(_ACCEPT)
        if revision.version_header:
            self._headers["MCP-Protocol-Version"] = revision.name
        self._meta = (self._encode_meta({}), self._encode_meta(_FORMS)) if revision.modern else (b"", b"")

    def _encode_meta(self, capabilities: Json) -> bytes:
        parts = {"protocolVersion": dumps(self.revision.name), "clientInfo": self._identity}
        parts["clientCapabilities"] = dumps(capabilities)
        return b",".join(b'"%b%b":%b' % (_PREFIX.encode(), key.encode(), value) for key, value in parts.items())

    # --- out

    def request(
        self,
        method: str,
        params: bytes = b"{}",
        *,
        name: str = "",
        can_ask: bool = False,
        wants_progress: bool = False,
        log_level: str | None = None,
        meta: bytes = b"",
        mirrored: Mapping[str, str] | None = None,
        listener: Any = None,
    ) -> Request:
        """`params` is an encoded object without `_meta`; `meta` are encoded members that go into it. `can_ask` declares
        form elicitation for this request, which is how the modern era does it. The request is open from here on."""
        self._next = id = self._next + 1
        inside = self._meta[can_ask]
        if wants_progress:
            inside = b'%b%b"progressToken":%d' % (inside, b"," if inside else b"", id)
        if log_level and self.revision.modern:
            inside = b'%b,"%blogLevel":%b' % (inside, _PREFIX.encode(), dumps(log_level))
        if meta:
            inside = b"%b%b%b" % (inside, b"," if inside else b"", meta)
        if inside:
            members = params[1:-1].strip()
            params = b'{"_meta":{%b}%b%b}' % (inside, b"," if members else b"", members)
        request = Request(id, method, name, raw_request_frame(id, method, params), self._headers_for(method, name))
        if mirrored:
            request.headers.update(mirrored)
        request.listener = listener
        self.pending[id] = request
        return request

    def _headers_for(self, method: str, name: str = "") -> dict[str, str]:
        if not self.revision.modern:
            return self._headers.copy()
        headers = {**self._headers, "Mcp-Method": method}
        if name and is_named(method):
            headers["Mcp-Name"] = encode_value(name)
        return headers

    def initialize(self, version: str, meta: bytes = b"") -> Request:
        """Forms are declared here for all requests of the connection, because it serves many callers."""
        params = dumps(
            {
                "protocolVersion": version,
                "capabilities": _FORMS,
                "clientInfo": {"name": self.identity.name, "version": self.identity.version},
            }
        )
        request = self.request("initialize", params, meta=meta)
        request.headers.pop("MCP-Protocol-Version", None)  # nothing has been negotiated yet
        return request

    def notify(self, method: str, params: bytes = b"") -> Note:
        return Note(notification_frame(method, params), self._headers_for(method))

    def cancel(self, request: Request, reason: str = "") -> Note:
        """Close a request that no answer is waited for any more. `initialize` must not be cancelled, so it is not."""
        self.pending.pop(request.id, None)
        members: dict[str, Json] = {"requestId": request.id}
        if reason:
            members["reason"] = reason
        return self.notify("notifications/cancelled", dumps(members))

    def forget(self, request: Request) -> None:
        self.pending.pop(request.id, None)

    def reply(self, id: Id, result: Mapping[str, Json]) -> Note:
        """Our answer to a question of the server."""
        return self.answer(result_frame(id, dumps(dict(result))[1:-1]))

    def answer(self, frame: bytes) -> Note:
        return Note(frame, self._headers.copy())

    # --- in

    def receive(self, data: bytes) -> list[Event]:
        """What a frame of the server means; nothing, where no request waits for it. ProtocolError: it is no message."""
        if data[:1] == b"[":
            return self._receive_batch(data)
        message = decode_received(data)
        event: Event | None
        if message.method is UNSET:
            event = self._take_response(message)
        elif message.id is UNSET:
            event = self._take_notification(str(message.method), message)
        else:
            event = self._take_request(str(message.method), message)
        return [] if event is None else [event]

    def _receive_batch(self, data: bytes) -> list[Event]:
        """Revision 2025-03-26 lets a server send several messages at once."""
        try:
            items = msgspec.json.decode(data, type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
            raise ProtocolError(INVALID_PARAMS, "a batch that cannot be read") from None
        if not self.revision.batches or len(items) > _MOST_IN_BATCH:
            raise ProtocolError(INVALID_PARAMS, "a batch, which this revision does not have")
        return [event for item in items if bytes(item)[:1] != b"[" for event in self.receive(bytes(item))]

    def _take_response(self, message: Received) -> Answer | None:
        id = message.id
        # A boolean or a float cannot come here; 7 and "7" are different ids, and ours are numbers.
        request = self.pending.pop(id, None) if type(id) is int else None
        if request is None:
            self.strays += 1
            return None
        if message.error is UNSET:
            assert message.result is not UNSET
            if bytes(memoryview(message.result)[:1]) != b"{":
                self.pending[request.id] = request  # the error says whose answer it was
                raise ProtocolError(INVALID_PARAMS, f"the result of {request.method} is not an object", id=request.id)
            return Answer(request, message.result)
        return Answer(request, error=read_error(message.error))

    def _take_notification(self, method: str, message: Received) -> Event | None:
        try:
            if method in _CHANGES:
                return Changed(_CHANGES[method])
            match method:
                case "notifications/progress":
                    progress = read_reply(message.params, Progress)
                    request = self.pending.get(progress.progress_token)
                    return None if request is None else Progressed(request, progress)
                case "notifications/message":
                    return Logged(read_reply(message.params, Told))
                case "notifications/resources/updated":
                    return Touched(read_reply(message.params, Updated).uri)
                case "notifications/subscriptions/acknowledged":
                    return Acknowledgement(read_reply(message.params, Acknowledged).notifications)
                case "notifications/cancelled":  # the end of a listen stream on a pipe
                    cancelled = decode_params(method, message.params)
                    assert isinstance(cancelled, Cancelled)
                    request = self.pending.get(cancelled.request_id)
                    if request is not None and request.method == "subscriptions/listen":
                        return Answer(self.pending.pop(request.id))
        except ProtocolError:
            pass  # nothing is answered to a notification, whatever is wrong with it
        return None

    def _take_request(self, method: str, message: Received) -> Reply | Question | None:
        """In the modern era a server asks nothing; in the legacy one it may ask for what was declared."""
        id = message.id
        if self.revision.modern or type(id) not in (int, str):
            self.strays += 1
            return None
        assert isinstance(id, int | str)
        if method == "ping":
            return Reply(result_frame(id, b""))
        if method == "elicitation/create" and self.revision.elicitation:
            try:
                form = read_form(read_reply(message.params, dict[str, Any]))
            except ProtocolError as wrong:
                return Reply(error_frame(ProtocolError(INVALID_PARAMS, wrong.message, id=id)))
            if form is not None:
                return Reply(result_frame(id, _CANCEL)) if is_for_a_secret(form) else Question(id, form)
        return Reply(error_frame(ProtocolError(METHOD_NOT_FOUND, "this client does not do that", id=id)))


def read_error(raw: msgspec.Raw) -> ErrorBody:
    """An error whose members have other types is still an error."""
    try:
        body = read_reply(raw, ErrorBody)
    except ProtocolError:
        return ErrorBody(0, "an error that cannot be read")
    assert isinstance(body, ErrorBody)
    return body
