"""The params of every method as msgspec structs, and the one function that decodes them.

Unknown members are tolerated. The keys of `_meta` that decide the era are kept as plain JSON, because a wrong
type there is still a claim to be modern and has to be refused as one.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.extent import MOST_ID, MOST_NAME, MOST_SUBSCRIPTIONS, MOST_TOKEN, MOST_URI, shorten
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Id, Json

__all__ = [
    "LEVELS",
    "CallTool",
    "Cancelled",
    "Complete",
    "GetPrompt",
    "Implementation",
    "Initialize",
    "ListItems",
    "Listen",
    "Meta",
    "Params",
    "ReadResource",
    "SetLevel",
    "TaskRef",
    "UpdateTask",
    "decode_params",
]

LEVELS: Final = {
    name: rank
    for rank, name in enumerate(("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"))
}

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
Uri: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_URI)]
Token: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_TOKEN)]
ShortId: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_ID)]


class Meta(msgspec.Struct, gc=False):
    """Capabilities and client stay raw: a client sends the same bytes each time, and they are read once."""

    protocol_version: Any = msgspec.field(name="io.modelcontextprotocol/protocolVersion", default=UNSET)
    capabilities: msgspec.Raw | UnsetType = msgspec.field(
        name="io.modelcontextprotocol/clientCapabilities", default=UNSET
    )
    client: msgspec.Raw | UnsetType = msgspec.field(name="io.modelcontextprotocol/clientInfo", default=UNSET)
    log_level: Any = msgspec.field(name="io.modelcontextprotocol/logLevel", default=UNSET)
    progress_token: int | ShortId | UnsetType = msgspec.field(name="progressToken", default=UNSET)
    traceparent: msgspec.Raw | UnsetType = UNSET
    via: msgspec.Raw | UnsetType = msgspec.field(name="com.zorivest/via", default=UNSET)  # gateways passed so far


class Params(msgspec.Struct, kw_only=True, rename="camel"):
    """What every method may carry; also the params of a method without any of its own."""

    meta: Meta | UnsetType = msgspec.field(name="_meta", default=UNSET)


class Implementation(msgspec.Struct, frozen=True, rename="camel"):
    """Who speaks; every further member (title, icons, …) is for display and not kept."""

    name: Name
    version: Name = ""
    title: str | None = None


class Initialize(Params, kw_only=True):
    protocol_version: Name
    capabilities: dict[str, Any]
    client_info: Implementation


class ListItems(Params, kw_only=True):
    cursor: Token | UnsetType = UNSET


class CallTool(Params, kw_only=True):
    name: Name
    arguments: dict[str, Any] | UnsetType | None = UNSET  # null, as some clients send it, means none
    input_responses: Any = UNSET
    request_state: Any = UNSET
    task: Any = UNSET


class GetPrompt(Params, kw_only=True):
    name: Name
    arguments: dict[str, str | None] | UnsetType | None = UNSET
    input_responses: Any = UNSET
    request_state: Any = UNSET


class ReadResource(Params, kw_only=True):
    """Also subscribe and unsubscribe, which name a resource and nothing else."""

    uri: Uri
    input_responses: Any = UNSET
    request_state: Any = UNSET


class Reference(msgspec.Struct):
    type: Name  # no Literal: of a wrong one msgspec repeats the whole, which takes 90 ms for 16 MB
    name: Name | UnsetType = UNSET
    uri: Uri | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.type not in ("ref/prompt", "ref/resource"):
            raise ValueError(f'type must be "ref/prompt" or "ref/resource", not {shorten(self.type)!r}')


class Argument(msgspec.Struct):
    name: Name
    value: Token


class CompletionContext(msgspec.Struct):
    arguments: dict[str, str] | UnsetType = UNSET


class Complete(Params, kw_only=True):
    ref: Reference
    argument: Argument
    context: CompletionContext | UnsetType = UNSET


class SetLevel(Params, kw_only=True):
    level: Name


class Cancelled(Params, kw_only=True):
    request_id: int | str
    reason: str | UnsetType = UNSET


class Filter(msgspec.Struct, rename="camel"):
    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: Annotated[list[Uri], msgspec.Meta(max_length=MOST_SUBSCRIPTIONS)] = []
    task_ids: Annotated[list[Token], msgspec.Meta(max_length=MOST_SUBSCRIPTIONS)] = []  # of the tasks extension


class Listen(Params, kw_only=True):
    notifications: Filter


class TaskRef(Params, kw_only=True):
    task_id: Token


class UpdateTask(TaskRef, kw_only=True):
    input_responses: dict[str, Any]


STRUCTS: Final[dict[str, type[Params]]] = {
    "initialize": Initialize,
    "tools/list": ListItems,
    "tools/call": CallTool,
    "resources/list": ListItems,
    "resources/templates/list": ListItems,
    "resources/read": ReadResource,
    "resources/subscribe": ReadResource,
    "resources/unsubscribe": ReadResource,
    "prompts/list": ListItems,
    "prompts/get": GetPrompt,
    "completion/complete": Complete,
    "logging/setLevel": SetLevel,
    "notifications/cancelled": Cancelled,
    "subscriptions/listen": Listen,
    "tasks/get": TaskRef,
    "tasks/result": TaskRef,
    "tasks/cancel": TaskRef,
    "tasks/list": ListItems,
    "tasks/update": UpdateTask,
}
_decoders: Final = {method: msgspec.json.Decoder(struct).decode for method, struct in STRUCTS.items()}
_decode_any: Final = msgspec.json.Decoder(Params).decode
_MOST_WORDS: Final = 300  # of a decoder's message


def decode_params(method: str, raw: msgspec.Raw | UnsetType, id: Id | None = None) -> Params:
    """The method's params; an unknown method still has its `_meta` read, because that decides the era.

    Raises ProtocolError. `error.data` never repeats what was sent. Where the params are wrong but `_meta` is readable,
    the error carries it as `meta`, so that the checks that come first can be made first."""
    try:
        return _decoders.get(method, _decode_any)(b"{}" if raw is UNSET else raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as exc:
        raise _explain(b"{}" if raw is UNSET else bytes(raw), exc, id) from None


class InvalidParams(ProtocolError):
    """Params that do not fit their method, with the `_meta` that could still be read."""

    def __init__(self, message: str, meta: Meta | UnsetType, id: Id | None) -> None:
        super().__init__(INVALID_PARAMS, message, id=id)
        self.meta = meta


def _explain(raw: bytes, problem: Exception, id: Id | None) -> ProtocolError:
    words = str(problem)
    try:
        meta: Meta | UnsetType = _decode_any(raw).meta
    except (msgspec.DecodeError, ValueError, RecursionError):
        meta = UNSET
    else:
        # Readable and too long, or read to its end and of characters that cannot be wrong: up to 16 MB are not worth
        # building once more for a refusal.
        if " of length " in words or len(words) > _MOST_WORDS or not _may_be_misspelt(raw):
            return InvalidParams(f"invalid params: {_keep_ends(words)}", meta, id)
    try:
        value: Json = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        return ProtocolError(PARSE_ERROR, f"not JSON: {exc}")
    if not isinstance(value, dict):
        return ProtocolError(INVALID_REQUEST, '"params" must be an object', id=id)
    if meta is UNSET and isinstance(value.get("_meta"), dict):  # a wrong type of one key must not hide another's claim
        given = value["_meta"]
        declared = given.get("io.modelcontextprotocol/clientCapabilities", UNSET)
        kind = b"{}" if isinstance(declared, dict) else b"null"  # the request is refused: only the kind matters
        meta = Meta(
            given.get("io.modelcontextprotocol/protocolVersion", UNSET),
            UNSET if declared is UNSET else msgspec.Raw(kind),
        )
    return InvalidParams(f"invalid params: {_keep_ends(words)}", meta, id)


def _may_be_misspelt(raw: bytes) -> bool:
    """msgspec passes over a value without looking at its UTF-8 nor at halves of surrogate pairs."""
    return not raw.isascii() or b"\\ud" in raw or b"\\uD" in raw


def _keep_ends(words: str) -> str:
    """msgspec repeats a wrong value, which may have 16 MB, and says after it where it stands."""
    return words if len(words) <= _MOST_WORDS else f"{words[:80]}…{words[-80:]}"
