"""What servers answer and send, as the structs that a client reads; members that no client acts on are passed over."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.extent import MOST_NAME, shorten
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json

__all__ = [
    "Acknowledged",
    "Discovered",
    "ErrorBody",
    "Initialized",
    "InputRequired",
    "Page",
    "Progress",
    "Sent",
    "Told",
    "Updated",
    "read_reply",
]

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"


class ErrorBody(msgspec.Struct, frozen=True):
    code: int
    message: str = ""
    data: Any = None


class Initialized(msgspec.Struct, rename="camel"):
    protocol_version: Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
    capabilities: dict[str, Any] = {}
    server_info: Any = None
    instructions: Any = None
    meta: Any = msgspec.field(name="_meta", default=None)


class Discovered(msgspec.Struct, rename="camel"):
    """An answer to `server/discover`. One without `supportedVersions` is none, whatever else it holds."""

    supported_versions: list[str] | UnsetType = UNSET
    capabilities: dict[str, Any] = {}
    instructions: Any = None
    ttl_ms: Any = None
    result_type: Any = UNSET
    meta: Any = msgspec.field(name="_meta", default=None)


class Page(msgspec.Struct, rename="camel"):
    """One page of any list; the items stay raw until one by one is looked at."""

    tools: list[msgspec.Raw] | UnsetType = UNSET
    prompts: list[msgspec.Raw] | UnsetType = UNSET
    resources: list[msgspec.Raw] | UnsetType = UNSET
    resource_templates: list[msgspec.Raw] | UnsetType = UNSET
    next_cursor: str | None = None
    ttl_ms: Any = None
    result_type: Any = UNSET


class InputRequired(msgspec.Struct, rename="camel"):
    """The members of a modern result that decide whether it is one; the others are passed over."""

    result_type: Any = UNSET
    input_requests: msgspec.Raw | UnsetType = UNSET
    request_state: msgspec.Raw | UnsetType = UNSET


class Sent(msgspec.Struct):
    """A request of a server, as it stands in `inputRequests`."""

    method: str
    params: dict[str, Any] = {}


class Progress(msgspec.Struct, rename="camel"):
    progress_token: int | str
    progress: float
    total: float | None = None
    message: str | None = None


class Told(msgspec.Struct):
    """`notifications/message`; `data` is any JSON."""

    level: str
    data: msgspec.Raw
    logger: str | None = None


class Updated(msgspec.Struct):
    uri: str


class Honoured(msgspec.Struct, rename="camel"):
    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = []


class Acknowledged(msgspec.Struct):
    notifications: Honoured
    meta: dict[str, Any] = msgspec.field(name="_meta", default_factory=dict)


_decoders: Final = {
    struct: msgspec.json.Decoder(struct)
    for struct in (
        *(ErrorBody, Initialized, Discovered, Page, InputRequired, Progress, Told, Updated, Acknowledged),
        *(dict[str, Sent], dict[str, Any]),
    )
}


def read_reply(raw: bytes | msgspec.Raw | UnsetType, kind: Any) -> Json:
    """One of the structs above; ProtocolError says what does not fit, never more than a line of it."""
    try:
        return _decoders[kind].decode(b"{}" if raw is UNSET else raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as exc:
        raise ProtocolError(INVALID_PARAMS, shorten(str(exc), 120)) from None
