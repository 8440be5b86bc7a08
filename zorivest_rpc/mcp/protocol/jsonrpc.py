"""JSON-RPC 2.0 as MCP uses it: bytes to messages, messages to bytes, ids and error codes.

Rule 1: `decode` returns a legal envelope or raises ProtocolError; nothing else ever leaves it.
Rule 2: `params`, `result` and `error` stay raw bytes here; the method's struct decodes them.
Rule 3: an error carries the id that was readable, or no id member at all; never null.
Rule 4: of duplicate keys the last one counts, in the envelope as in everything below it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.extent import MOST_ID, SHORT, check_extent, shorten

__all__ = [
    "HEADER_MISMATCH",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "MISSING_CAPABILITY",
    "PARSE_ERROR",
    "REQUEST_CANCELLED",
    "RESOURCE_NOT_FOUND",
    "SERVER_BUSY",
    "UNSUPPORTED_VERSION",
    "URL_ELICITATION_REQUIRED",
    "Batch",
    "Id",
    "Json",
    "Message",
    "Received",
    "decode",
    "decode_received",
    "dumps",
    "encode_id",
    "error_frame",
    "notification_frame",
    "raw_request_frame",
    "request_frame",
    "result_frame",
]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002  # revisions up to 2025-11-25
URL_ELICITATION_REQUIRED: Final = -32042  # 2025-11-25 alone
HEADER_MISMATCH: Final = -32020  # the next three: 2026-07-28
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
REQUEST_CANCELLED: Final = -32800  # ends the HTTP stream of a cancelled legacy request
SERVER_BUSY: Final = -31000  # ours, so outside the range that the specification reserves

Id: TypeAlias = int | str
Json: TypeAlias = Any


class Message(msgspec.Struct, gc=False):
    """A request (method and id), a notification (method alone) or a response (id alone)."""

    jsonrpc: Annotated[str, msgspec.Meta(max_length=3)]  # no Literal: of a wrong one msgspec repeats all 16 MB
    method: str | UnsetType = UNSET
    id: int | Annotated[str, msgspec.Meta(max_length=MOST_ID)] | UnsetType = UNSET
    params: msgspec.Raw | UnsetType = UNSET
    result: msgspec.Raw | UnsetType = UNSET
    error: msgspec.Raw | UnsetType = UNSET

    @property
    def is_response(self) -> bool:
        return self.method is UNSET


class Received(msgspec.Struct, gc=False):
    """What a server sent to us as its client. Unlike a client's, its error may have a null id, because both official
    SDKs send one where they could not read the request."""

    jsonrpc: Annotated[str, msgspec.Meta(max_length=3)] = ""
    method: str | UnsetType = UNSET
    id: int | Annotated[str, msgspec.Meta(max_length=MOST_ID)] | UnsetType | None = UNSET
    params: msgspec.Raw | UnsetType = UNSET
    result: msgspec.Raw | UnsetType = UNSET
    error: msgspec.Raw | UnsetType = UNSET


class Batch(msgspec.Struct):
    """A non-empty JSON array; whether it is welcome depends on the revision."""

    items: list[bytes]


_decode = msgspec.json.Decoder(Message).decode
_decode_received = msgspec.json.Decoder(Received).decode
_decode_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


def decode(data: bytes) -> Message | Batch:
    """One frame. The fast path checks shape while it parses; whatever it refuses gets a second look."""
    if len(data) > SHORT:
        _check_extent(data)
    try:
        message = _decode(data)
        if not data.isascii():
            data.decode()  # a Raw member is skipped, not read, so its UTF-8 has not been checked
        if message.jsonrpc == "2.0" and (
            message.method is not UNSET
            or (message.id is not UNSET and (message.result is UNSET) is not (message.error is UNSET))
        ):
            return message
    except _UNREADABLE:
        pass
    return _second_look(data)


def decode_received(data: bytes) -> Received:
    """One frame of a server. Nothing below the envelope is built here, so its size is bound and its extent is not: a
    long text with many commas is an ordinary result. What is deeper than can be passed over is no message."""
    try:
        message = _decode_received(data)
        if not data.isascii():
            data.decode()
    except _UNREADABLE as exc:
        raise ProtocolError(PARSE_ERROR, f"no JSON-RPC message: {shorten(str(exc), 120)}") from None
    has_result, has_error = message.result is not UNSET, message.error is not UNSET
    if message.jsonrpc != "2.0":
        raise ProtocolError(INVALID_REQUEST, '"jsonrpc" is not "2.0"')
    if message.method is UNSET and (has_result is has_error or (has_result and message.id in (UNSET, None))):
        raise ProtocolError(INVALID_REQUEST, "neither a request, a notification nor a response")
    return message


def _check_extent(data: bytes) -> None:
    """A client waits for the answer to its id, so a refusal that comes before reading still carries it."""
    try:
        check_extent(data)
    except ProtocolError as error:
        if error.code == INVALID_REQUEST:
            error.id = _readable_id(data)
        raise


def _readable_id(data: bytes) -> Id | None:
    try:
        id = _decode(data).id
    except _UNREADABLE:
        return None
    return id if type(id) in (str, int) else None  # type: ignore[return-value]


def _second_look(data: bytes) -> Message | Batch:
    """Off the hot path: not JSON at all, JSON of the wrong shape, or legal after all (duplicate keys)?"""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        try:
            data.decode()
        except UnicodeDecodeError as wrong:
            raise ProtocolError(PARSE_ERROR, f"not UTF-8: invalid byte at offset {wrong.start}") from None
        raise ProtocolError(PARSE_ERROR, f"not JSON: {exc}") from None
    if isinstance(value, list):
        if not value:
            raise ProtocolError(INVALID_REQUEST, "an empty batch is not a message")
        try:
            return Batch([bytes(item) for item in _decode_array(data)])
        except _UNREADABLE as exc:
            raise ProtocolError(PARSE_ERROR, f"not JSON that can be read: {exc}") from None
    if not isinstance(value, dict):
        raise ProtocolError(INVALID_REQUEST, f"a message is a JSON object, not {_kind(value)}")
    return _check(value)


def _check(value: dict[str, Json]) -> Message:
    id = value.get("id", UNSET)
    known = id if type(id) in (str, int) else None
    if isinstance(known, str) and len(known) > MOST_ID:
        raise ProtocolError(INVALID_REQUEST, f'"id" has {len(known)} characters; at most {MOST_ID} are taken')
    if value.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, '"jsonrpc" must be "2.0"', id=known)
    if id is not UNSET and known is None:
        raise ProtocolError(INVALID_REQUEST, f'"id" must be a string or an integer, not {_kind(id)}')
    if "method" in value:
        if not isinstance(value["method"], str):
            raise ProtocolError(INVALID_REQUEST, f'"method" must be a string, not {_kind(value["method"])}', id=known)
    elif id is UNSET or ("result" in value) is ("error" in value):
        raise ProtocolError(INVALID_REQUEST, "neither a request, a notification nor a response", id=known)
    try:  # every member is legal once the last of its duplicates is taken
        return _decode(msgspec.json.encode(value))
    except _UNREADABLE as exc:
        raise ProtocolError(INVALID_REQUEST, f"not a JSON-RPC 2.0 message: {exc}", id=known) from None


_KINDS: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _kind(value: Json) -> str:
    return _KINDS.get(type(value), "a number")


def dumps(value: Json) -> bytes:
    """Opaque JSON to compact bytes: one line, valid UTF-8, no NaN, whatever a handler put into it."""
    try:
        return orjson.dumps(value)
    except TypeError:  # integers above 64 bits, lone surrogates, keys that are not strings
        pass
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_scrub(value))


def _scrub(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(item) for item in value]
    return value


def encode_id(id: Id) -> bytes:
    return b"%d" % id if type(id) is int else dumps(id)


def result_frame(id: Id, members: bytes) -> bytes:
    """`members` is the inside of the result object, already encoded."""
    if type(id) is int:
        return b'{"jsonrpc":"2.0","id":%d,"result":{%b}}' % (id, members)
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (dumps(id), members)


def error_frame(error: ProtocolError) -> bytes:
    body: dict[str, Json] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    id = b"" if error.id is None else b',"id":' + encode_id(error.id)
    return b'{"jsonrpc":"2.0"%b,"error":%b}' % (id, dumps(body))


def notification_frame(method: str, params: bytes = b"") -> bytes:
    """`params` is an encoded object, or nothing."""
    if params:
        return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (dumps(method), params)
    return b'{"jsonrpc":"2.0","method":%b}' % dumps(method)


def request_frame(id: Id, method: str, params: Json) -> bytes:
    return raw_request_frame(id, method, dumps(params))


def raw_request_frame(id: Id, method: str, params: bytes) -> bytes:
    """`params` is an encoded object."""
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (encode_id(id), dumps(method), params)
