"""Every tool that is a route: its arguments become one request, the reply becomes its outcome.

What can be known from the tool's file is worked out once, when the handler is made; a call only fills in its values.
A handler with `guard` sends the guard's question along and is used where the guard lets it travel."""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import date
from typing import Any, Final, TypeAlias
from urllib.parse import quote
from uuid import uuid4

from msgspec import UNSET

from zorivest_rpc.errors import (
    BackendError,
    BackendUnreachable,
    FileRefused,
    InvalidArguments,
    OutcomeUnknown,
    ToolError,
)
from zorivest_rpc.mcp.call import Call, Handler, Outcome, give
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.encode import as_text
from zorivest_rpc.serving.backend.interface import Backend, FilePart, MultipartBody, Reply, Request
from zorivest_rpc.serving.backend.refusals import unknown_route
from zorivest_rpc.serving.catalog.spec import DRY_RUN, RouteFile, ToolRoute, ToolSpec, defaults, pick, routes
from zorivest_rpc.serving.modes.present import fill, to_object
from zorivest_rpc.serving.tools.files import ImportRoots
from zorivest_rpc.serving.tools.preview import Confirms, Preview
from zorivest_rpc.serving.tools.receipt import RECEIPT_KEY, explain_lost, receipt

__all__ = ["BackendFor", "Shape", "rest_handler"]

BackendFor: TypeAlias = Callable[[Call], Backend]
Shape: TypeAlias = Callable[[Call, dict[str, Json]], dict[str, Json]]
"""What of a payload this call's client is shown."""

_GLANCE: Final = 0.2  # seconds between two looks at how far an import has come
_LOOK: Final = 2.0  # seconds for one such look
_PATIENT: Final = 120.0  # seconds, for what waits on others or sends a file
_LAST_WORD: Final = 1.0  # seconds, for a call that is over already
_IMPORTS: Final = "/import/progress/{key}"
_BASE64_LIMIT: Final = 10 * 1024 * 1024
_SMALLER: Final = "Send a smaller image."
_OCTETS: Final = "application/octet-stream"
_KINDS: Final = {"csv": "text/csv", "txt": "text/plain", "pdf": "application/pdf", "xml": "application/xml"}


def rest_handler(  # noqa: C901 - the whole of a call in the order in which it happens
    spec: ToolSpec,
    backend_for: BackendFor,
    *,
    guard: bool = False,
    shape: Shape | None = None,
    files: Callable[[Call], ImportRoots] | None = None,
    confirms: Confirms | None = None,
    tenant: Callable[[Call], str] | None = None,
    today: Callable[[], date] = date.today,
) -> Handler:
    """The handler of a tool that declares routes. Without `files` no file of this machine is read; `confirms` is asked
    about imports whose preview says that they write much."""
    plans = tuple(_Plan(route) for route in routes(spec))
    constant = defaults(spec)
    hints = spec.annotations
    writes = not hints.read_only_hint
    waits = hints.open_world_hint or any(plan.route.file is not None for plan in plans)
    timeout = _PATIENT if waits else None
    # A read that leaves this machine alone may be asked twice whatever its method; others only if they are a GET.
    repeatable = True if hints.read_only_hint and not hints.open_world_hint else None

    async def handler(call: Call) -> Outcome:
        arguments = {**constant, **call.arguments}
        for name in spec.dynamic_defaults:
            if name not in arguments:
                arguments[name] = today().year
        plan = plans[0] if len(plans) == 1 else _choose(plans, arguments)
        path = plan.path(spec, arguments)
        roots = None if files is None or plan.route.file is None else files(call)
        form = None if plan.route.file is None else await _form(plan, plan.route.file, arguments, roots)
        backend = backend_for(call)
        if plan.route.preview is not None and plan.route.file is not None and form is not None:
            preview = Preview(spec, plan.route.file, backend, plan.route.preview, form)
            if arguments.get(DRY_RUN):
                return await _show_preview(call, spec, preview, shape)
            if confirms is not None:
                await preview.confirm(call, confirms)
        key = uuid4().hex if writes or spec.progress is not None else None
        asking = backend.ask(
            Request(
                plan.route.method,
                path,
                query=plan.query(arguments),
                body=plan.body(arguments),
                form=form,
                guard=guard,
                repeatable=repeatable,
                timeout=timeout,
                key=key,
            )
        )
        try:
            watched = _IMPORTS if form is not None else spec.progress
            if watched is not None and key is not None and call.wire.progress_token is not None:
                asking = _ask_with_progress(call, backend, watched.format(key=key), asking)
            if spec.progress is not None and key is not None:
                asking = _withdrawn(backend, spec.progress.format(key=key), asking)
            reply = await asking
        except BackendError as error:
            raise _explain_missing(spec, arguments, error) from None
        except OutcomeUnknown as error:
            raise _explain_unknown(spec, error) from None
        payload = to_object(reply.value) if reply.body or reply.value is not None else {"done": True}
        shown = payload if shape is None else shape(call, payload)
        if spec.message is not None:
            shown = {**shown, "message": fill(spec.message, {**arguments, **payload})}
        outcome = give(shown)
        if writes:
            of = "" if tenant is None else tenant(call)
            outcome.meta = {RECEIPT_KEY: receipt(spec, plan.route.method, path, reply, backend, of, key)}
        return outcome

    return handler


async def _show_preview(call: Call, spec: ToolSpec, preview: Preview, shape: Shape | None) -> Outcome:
    try:
        payload = await preview.show()
    except BackendError as error:
        raise _explain_missing(spec, call.arguments, error) from None
    return give(payload if shape is None else shape(call, payload))


async def _ask_with_progress(call: Call, backend: Backend, where: str, asking: Coroutine[Any, Any, Reply]) -> Reply:
    """The reply to something long, with progress for the client while the backend is at it."""
    watching = asyncio.get_running_loop().create_task(_watch(call, backend, where))
    try:
        return await asking
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _watch(call: Call, backend: Backend, where: str) -> None:
    """A backend that does not tell, or has nothing to tell yet, is asked again; it is a courtesy and never an error."""
    while True:
        await asyncio.sleep(_GLANCE)
        try:
            state = (await backend.ask(Request("GET", where, timeout=_LOOK))).value
        except ToolError:
            continue
        if isinstance(state, dict) and isinstance(state.get("done"), int) and isinstance(state.get("total"), int):
            words = state.get("message")
            if not isinstance(words, str):
                words = f"{state['done']} of {state['total']} rows read"
            call.progress(state["done"], state["total"], words)


async def _withdrawn(backend: Backend, where: str, asking: Coroutine[Any, Any, Reply]) -> Reply:
    """The reply; a call that is cancelled meanwhile takes what it started with it."""
    try:
        return await asking
    except asyncio.CancelledError:
        with suppress(ToolError):  # the caller is gone; the run's own history says how it ended
            await backend.ask(Request("POST", f"{where}/cancel", timeout=_LAST_WORD))
        raise


class _Plan:
    """A route with everything settled that does not depend on the arguments."""

    def __init__(self, route: ToolRoute) -> None:
        self.route = route
        self._pieces = _pieces(route)
        self._query = tuple(route.query_params.items())
        self._fixed_query = route.fixed_params.get("query", {})
        self._body = tuple(route.body_params.items())
        self._fixed_body = route.fixed_params.get("body", {})
        self._has_body = route.file is None and bool(self._body or self._fixed_body or route.body_root)

    def path(self, spec: ToolSpec, arguments: Mapping[str, Json]) -> str:
        if len(self._pieces) == 1:
            return self.route.path
        return "".join(
            piece if number % 2 == 0 else _segment(spec, piece, arguments.get(piece))
            for number, piece in enumerate(self._pieces)
        )

    def query(self, arguments: Mapping[str, Json]) -> dict[str, Json] | None:
        if not self._query and not self._fixed_query:
            return None
        found = {wire: arguments[name] for wire, name in self._query if arguments.get(name) is not None}
        return {**found, **self._fixed_query}

    def body(self, arguments: Mapping[str, Json]) -> Json:
        if not self._has_body:
            return UNSET
        if self.route.body_root is not None:
            return arguments[self.route.body_root]
        return self.fields(arguments)

    def fields(self, arguments: Mapping[str, Json]) -> dict[str, Json]:
        found = {wire: arguments[name] for wire, name in self._body if name in arguments}
        return {**found, **self._fixed_body}


def _pieces(route: ToolRoute) -> tuple[str, ...]:
    """The path in turns: literal text, the input that fills a placeholder, literal text, …"""
    pieces, rest = [], route.path
    for wire, name in route.path_params.items():
        before, _, rest = rest.partition("{" + wire + "}")
        pieces += [before, name]
    return (*pieces, rest)


def _segment(spec: ToolSpec, name: str, value: Json) -> str:
    """One segment of a path. Dots alone would climb to another route, whatever their encoding."""
    words = "" if value is None else as_text(value)
    if words in ("", ".", ".."):
        raise InvalidArguments(
            f'Invalid arguments for "{spec.name}": {name}: "{words}" is not an identifier. Give the exact one.',
            next="Give the exact one.",
        )
    try:
        return quote(words, safe="")
    except UnicodeEncodeError:
        broken = f'Invalid arguments for "{spec.name}": {name}: it is not valid Unicode.'
        raise InvalidArguments(broken, next="Give the exact identifier.") from None


def _choose(plans: tuple[_Plan, ...], arguments: Mapping[str, Json]) -> _Plan:
    route = pick([plan.route for plan in plans], arguments)
    return next(plan for plan in plans if plan.route is route)


async def _form(
    plan: _Plan, file: RouteFile, arguments: Mapping[str, Json], files: ImportRoots | None
) -> MultipartBody:
    fields = {name: as_text(value) for name, value in plan.fields(arguments).items() if value is not None}
    given: str = arguments[file.param]
    if file.source == "base64":
        kind = str(arguments.get(file.content_type_param or "") or _OCTETS)
        data = _from_base64(file.param, given)
        return MultipartBody(fields, FilePart(file.field, f"{file.filename or 'upload'}.{_ending(kind)}", kind, data))
    if files is None:
        raise FileRefused(
            "This server reads no files. Start it with --import-root and the directory that holds them.",
            code="files_not_allowed",
            next="Start the server with --import-root.",
        )
    local = await asyncio.get_running_loop().run_in_executor(None, files.read, given)
    kind = _KINDS.get(local.name.rpartition(".")[2].lower(), _OCTETS)
    return MultipartBody(fields, FilePart(file.field, local.name, kind, local.data))


def _ending(content_type: str) -> str:
    """`png` of `image/png`, `svg` of `image/svg+xml`; letters and digits only, as it becomes part of a file name."""
    subtype = content_type.partition(";")[0].partition("/")[2].partition("+")[0]
    return "".join(character for character in subtype.lower() if character.isalnum()) or "bin"


def _from_base64(name: str, given: str) -> bytes:
    """Also with line breaks and as a data URL, as models like to give it."""
    words = given.partition(",")[2] if given.startswith("data:") else given
    if len(words) > _BASE64_LIMIT * 3 // 2:
        raise InvalidArguments(f"{name}: more than {_BASE64_LIMIT} bytes. {_SMALLER}", next=_SMALLER)
    try:
        data = b64decode("".join(words.split()), validate=True)
    except (binascii.Error, ValueError):
        next = "Encode the bytes of the file with standard base64."
        raise InvalidArguments(f"{name}: not base64. {next}", next=next) from None
    if not data or len(data) > _BASE64_LIMIT:
        next = _SMALLER if data else "Send the bytes of an image."
        raise InvalidArguments(f"{name}: {len(data)} bytes; 1 to {_BASE64_LIMIT} are taken. {next}", next=next)
    return data


def _explain_missing(spec: ToolSpec, arguments: Mapping[str, Json], error: BackendError) -> BackendError:
    """A 404 about the thing that was named, in the tool's own words."""
    if error.status != 404 or spec.not_found is None or unknown_route(error):
        return error
    problem = fill(spec.not_found.problem, arguments)
    return BackendError(
        404,
        f"{problem}; {spec.not_found.next}",
        code="not_found",
        next=spec.not_found.next,
        problem=f"{problem}.",
        reported=error.reported,
        detail=error.detail,
    )


def _explain_unknown(spec: ToolSpec, error: OutcomeUnknown) -> OutcomeUnknown | BackendUnreachable:
    if spec.reads_only:
        next = "Nothing was changed; it may be called again."
        return BackendUnreachable(f"{error.problem} {next}", next=next, problem=error.problem)
    return explain_lost(spec, error)
