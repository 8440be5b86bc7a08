"""What an import would write: shown for a dry run, and counted to decide whether the user has to confirm it.

The preview is a route of its own, never an option of the import's: a backend that does not know an option would ignore
it and write. A confirmation is bound to the bytes of the file, because a file can be exchanged under its name."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, Protocol

from zorivest_rpc.errors import BackendError, ToolError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Backend, MultipartBody, Request
from zorivest_rpc.serving.backend.refusals import unknown_route
from zorivest_rpc.serving.catalog.spec import DRY_RUN, RouteFile, ToolSpec
from zorivest_rpc.serving.middleware.confirmation import ARGUMENT, CONTENT
from zorivest_rpc.serving.modes.present import to_object

__all__ = ["Confirms", "Preview"]

_SECONDS: Final = 120.0
_SYMBOLS: Final = 6  # named in the question


class Confirms(Protocol):
    """Whether this call's client has to confirm, and the confirmation of exactly `bound`, with `words` for the user."""

    def asks(self, call: Call) -> bool: ...

    def require(self, call: Call, spec: ToolSpec, bound: Mapping[str, Json], words: str) -> None: ...


class Preview:
    """The preview of one request with a file."""

    def __init__(self, spec: ToolSpec, file: RouteFile, backend: Backend, path: str, form: MultipartBody) -> None:
        self._spec = spec
        self._file = file
        self._backend = backend
        self._path = path
        self._form = form

    async def show(self) -> dict[str, Json]:
        """What a dry run answers. ToolError where the backend has no previews."""
        payload = await self._fetch()
        if payload is None:
            raise ToolError(
                f"This backend cannot preview {self._spec.name}; nothing was written. Call it without {DRY_RUN} once "
                "the user agrees.",
                code="no_preview",
                next=f"Call it without {DRY_RUN} once the user agrees.",
            )
        return {**payload, DRY_RUN: True, CONTENT: self._digest()}

    async def confirm(self, call: Call, confirms: Confirms) -> None:
        """Have the user confirm an import that would write many entries, or one of which nothing is known before."""
        most = self._spec.confirm_above
        if most is None or not confirms.asks(call):
            return
        payload = await self._fetch()
        count = None if payload is None else payload.get("imported")
        if isinstance(count, int) and count <= most:
            return
        confirms.require(call, self._spec, self._bind(call.arguments), self._words(call, payload, count))

    def _bind(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        left_out = (self._file.param, DRY_RUN, ARGUMENT)
        return {**{name: arguments[name] for name in arguments if name not in left_out}, CONTENT: self._digest()}

    def _words(self, call: Call, payload: Mapping[str, Json] | None, count: Json) -> str:
        what = f"{count} trades" if isinstance(count, int) else "an unknown number of trades"
        words = f"Import {what} from {self._name()} into account {call.arguments.get('account_id')}"
        symbols = payload.get("symbols") if payload is not None else None
        if isinstance(symbols, list) and symbols:
            more = f" and {len(symbols) - _SYMBOLS} more" if len(symbols) > _SYMBOLS else ""
            words += f" ({', '.join(map(str, symbols[:_SYMBOLS]))}{more})"
        return f"{words}?"

    def _name(self) -> str:
        return self._form.upload.filename

    def _digest(self) -> str:
        return sha256(self._form.upload.data).hexdigest()

    async def _fetch(self) -> dict[str, Json] | None:
        """The backend's preview; None where it has no such route."""
        try:
            reply = await self._backend.ask(
                Request("POST", self._path, form=self._form, repeatable=True, timeout=_SECONDS)
            )
        except BackendError as error:
            if error.status in (404, 405) and unknown_route(error):
                return None
            raise
        return to_object(reply.value)
