"""What a route is: a method, a path, who may call it, how large its body may be, and the function that answers.

A REST area is one module in `routes/` with a table `ROUTES`; `routes/__init__.py` lists the areas. A handler takes one
`Ask` and returns a response, usually `reply(value)`; it raises a `Refusal` for everything else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson
from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from ..errors import Forbidden, Invalid, Refusal, TooLarge
from ..values.answers import number
from ..vault.sessions import Login

if TYPE_CHECKING:
    from ..backend import Embedded
    from ..database.engine import Database

__all__ = [
    "ADMIN",
    "DEFAULT_BODY",
    "OPEN",
    "READ",
    "WRITE",
    "Access",
    "Form",
    "Handler",
    "RestCall",
    "Route",
    "Upload",
    "bearer",
    "no_content",
    "reply",
]

DEFAULT_BODY = 1024 * 1024
_FIELD_LIMIT = 64 * 1024
_MOST_PARTS = 32


class Access(IntEnum):
    """Who may call a route; above OPEN it is the lowest sufficient role."""

    OPEN = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


OPEN, READ, WRITE, ADMIN = Access.OPEN, Access.READ, Access.WRITE, Access.ADMIN

_json: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=Decimal)  # an amount is exact from the wire on


class Upload(NamedTuple):
    """A file of a multipart body; name and type are the caller's claims."""

    filename: str
    content_type: str
    data: bytes


class Form(NamedTuple):
    """A multipart body, by field name."""

    fields: dict[str, str]
    files: dict[str, Upload]


class RestCall:
    """One request on its way to a handler."""

    def __init__(self, request: web.Request, backend: Embedded, session: Login | None, max_body: int) -> None:
        self.request = request
        self.backend = backend
        self._session = session
        self._max_body = max_body

    @property
    def session(self) -> Login:
        """The caller's session; routes above OPEN always have one."""
        if self._session is None:
            raise Forbidden("no_session", "Unlock first: POST /auth/unlock, then send the token as a Bearer token.")
        return self._session

    def optional_session(self) -> Login | None:
        """On an open route: the session of a caller that sent a valid token, else None."""
        token = bearer(self.request)
        if token is None or self.backend.locked:
            return None
        try:
            return self.backend.sessions.find(token)
        except Refusal:
            return None

    @property
    def db(self) -> Database:
        """The open database; 403 while it is locked."""
        return self.backend.database()

    @property
    def path(self) -> Mapping[str, str]:
        """The values of the path's placeholders, decoded."""
        return self.request.match_info

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    async def body(self) -> bytes:
        """The whole body; 413 above the route's limit, however it was sent."""
        if (self.request.content_length or 0) > self._max_body:
            raise TooLarge(self._max_body)
        data = bytearray()
        async for chunk in self.request.content.iter_any():
            data += chunk
            if len(data) > self._max_body:
                raise TooLarge(self._max_body)
        return bytes(data)

    async def any_json(self) -> Any:
        """The body as JSON of any shape, with fractions as Decimal."""
        data = await self.body()
        try:
            return _json.decode(data) if data else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError, ArithmeticError):
            raise Invalid("The body is not JSON.", "invalid_json") from None

    async def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty body is an empty object."""
        value = await self.any_json()
        if not isinstance(value, dict):
            raise Invalid("The body must be a JSON object.")
        return value

    async def form(self, file_limit: int) -> Form:
        """A multipart body: text fields, and files of at most `file_limit` bytes each, in memory; 413 above."""
        if (self.request.content_length or 0) > self._max_body:
            raise TooLarge(self._max_body)
        if not self.request.content_type.startswith("multipart/"):
            raise Invalid("The body must be multipart/form-data.")
        form = Form({}, {})
        rest = self._max_body
        try:
            async for part in await self.request.multipart():
                if not isinstance(part, BodyPartReader) or part.name is None:
                    raise Invalid("Every part of the body needs a name of its own.")
                limit = min(rest, _FIELD_LIMIT if part.filename is None else file_limit)
                data = await _read_part(part, limit)
                rest -= len(data)
                if part.filename is None:
                    form.fields[part.name] = data.decode()
                else:
                    form.files[part.name] = Upload(part.filename, part.headers.get("Content-Type", ""), data)
                if len(form.fields) + len(form.files) > _MOST_PARTS:
                    raise Invalid(f"The body has more than {_MOST_PARTS} parts.")
        except (ValueError, AssertionError, RuntimeError, HttpProcessingError):
            raise Invalid("The body is not well-formed multipart/form-data.", "invalid_multipart") from None
        return form


async def _read_part(part: BodyPartReader, limit: int) -> bytes:
    """The part as it was sent: form data is never packed, so nothing is unpacked."""
    if part.headers.get("Content-Transfer-Encoding", "binary").lower() not in ("binary", "7bit", "8bit"):
        raise Invalid("The parts of a form must be sent as they are.", "invalid_multipart")
    data = bytearray()
    while chunk := await part.read_chunk(65_536):
        data += chunk
        if len(data) > limit:
            raise TooLarge(limit, "file" if part.filename is not None else "field")
    return bytes(data)


Handler = Callable[[RestCall], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Route:
    """`Route("GET", "/trades/{exec_id}", READ, show_trade)`; the path stands below `/api/v1`."""

    method: str
    path: str
    access: Access
    handler: Handler
    max_body: int = DEFAULT_BODY


def reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON response: Decimals are numbers, datetimes ISO 8601 with offset."""
    body = orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    return web.Response(body=body, status=status, headers=headers, content_type="application/json", charset="utf-8")


def bearer(request: web.Request) -> str | None:
    """The token of the Authorization header."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def no_content() -> web.Response:
    return web.Response(status=204)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return number(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
