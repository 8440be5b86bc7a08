"""What every backend offers, be it across HTTP, in another form, or a fake: one question, one reply.

A caller knows REST paths and values. Tokens, connections, retries and the texts of failures are the backend's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import UNSET

from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["Address", "Auth", "Backend", "FilePart", "MultipartBody", "NotInline", "Reply", "Request"]

Auth: TypeAlias = Literal["needed", "if_any", "none"]
"""Whether a request carries the session token: always, only if there happens to be one, or never."""


class FilePart(msgspec.Struct, frozen=True):
    """The file part of a form."""

    field: str
    filename: str
    content_type: str
    data: bytes


class MultipartBody(msgspec.Struct, frozen=True):
    """A multipart body: text fields and one file."""

    fields: dict[str, str]
    upload: FilePart


class Address(msgspec.Struct, frozen=True):
    """Where a backend of this machine listens, and what a connection to it begins with.

    `socket` is the path of a Unix socket in a private directory; that needs no proof, and the host of `url` is only a
    name. With `secret` the listener on the port of `url` proves itself before anything else is sent (`proof.py`)."""

    url: str
    socket: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        return f"Address({self.socket or self.url})"


class Request(msgspec.Struct, frozen=True):
    """One request; `path` is percent-encoded and relative to the API's root.

    `guard` puts the guard's question into the request; a backend that does not take it raises NotInline.
    `repeatable` says that asking twice changes nothing more than asking once; by default only GET is so.
    `key` names a write, so that both sides can tell a repetition from a second write.
    `urgent` goes out even where the backend is taken to be down; it may be back."""

    method: str
    path: str
    query: Mapping[str, Json] | None = None
    body: Json = UNSET
    form: MultipartBody | None = None
    raw: bool = False
    auth: Auth = "needed"
    guard: bool = False
    repeatable: bool | None = None
    timeout: float | None = None
    key: str | None = None
    urgent: bool = False

    @property
    def may_repeat(self) -> bool:
        return self.method == "GET" if self.repeatable is None else self.repeatable


class Reply(msgspec.Struct, frozen=True):
    """A successful answer. `value` is its JSON, None where it was empty or asked for as raw bytes."""

    status: int
    value: Json = None
    body: bytes = b""
    content_type: str = ""
    request_id: str = ""


class NotInline(Exception):
    """The guard's question was to travel along, but this backend does not take it; nothing was sent."""


class Backend(Protocol):
    """The Zorivest REST API as one principal sees it."""

    @property
    def base_url(self) -> str:
        """Where it is, for people to read."""
        ...

    @property
    def inline_guard(self) -> bool:
        """Whether a request may carry the guard's question along, as far as is known now."""
        ...

    async def ask(self, request: Request) -> Reply:
        """Raises BackendError, BackendUnreachable, OutcomeUnknown, GuardLocked or NotInline."""
        ...
