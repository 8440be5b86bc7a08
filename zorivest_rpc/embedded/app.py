"""The aiohttp application of the backend: the routes, and what surrounds every one of them.

In this order, each with one reason to refuse: the name the server was called by (Host, Origin) → the session and its
role → the guard, when the caller asked for it → the handler. Refusals leave as the error envelope; every response
carries `X-Request-ID`. A caller without a session learns nothing but the open routes, not even which others exist."""

from __future__ import annotations

import errno
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from sqlalchemy.exc import DBAPIError

from .backend import Embedded
from .errors import Busy, Corrupt, Forbidden, MethodNotAllowed, Refusal, TooLarge, Unavailable
from .errors import NotFound as Missing
from .rest.routes import AREAS
from .rest.routing import Access, Handler, RestCall, Route, bearer, reply
from .vault.sessions import Login

__all__ = ["API_PREFIX", "BACKEND", "create_app"]

API_PREFIX = "/api/v1"
BACKEND: web.AppKey[Embedded] = web.AppKey("backend", Embedded)
LARGEST_BODY = 64 * 1024 * 1024  # for aiohttp; each route's own limit is checked while its body is read

log = logging.getLogger("zorivest.api")

_Plain = Callable[[web.Request], Awaitable[web.StreamResponse]]
_PLACEHOLDER = re.compile(r"\{(\w+)\}")  # by itself it would not match a name with a brace in it
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def create_app(backend: Embedded, areas: Iterable[Iterable[Route]] = AREAS) -> web.Application:
    """The application; routes answer with and without a trailing slash."""
    app = web.Application(middlewares=[_surround], client_max_size=LARGEST_BODY)
    app[BACKEND] = backend
    for area in areas:
        for route in area:
            endpoint = _endpoint(route)
            whole = API_PREFIX + _PLACEHOLDER.sub(r"{\1:[^/]+}", route.path)
            for path in (whole, whole + "/"):
                app.router.add_route(route.method, path, endpoint)
    return app


def _endpoint(route: Route) -> _Plain:
    """The route as aiohttp calls it."""
    handler: Handler = route.handler

    async def endpoint(request: web.Request) -> web.StreamResponse:
        backend = request.app[BACKEND]
        session = _session(request, backend, route.access)
        if request.headers.get("X-MCP-Guard") == "check":
            await _check_guard(request, backend, session)
        return await handler(RestCall(request, backend, session, route.max_body))

    return endpoint


@web.middleware
async def _surround(request: web.Request, handler: _Plain) -> web.StreamResponse:
    request_id = str(uuid.uuid4())
    backend = request.app[BACKEND]
    backend.running_requests += 1
    try:
        response = await _answer(request, handler, request_id)
    finally:
        backend.running_requests -= 1
    if not response.prepared:
        response.headers["X-Request-ID"] = request_id
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers["X-Content-Type-Options"] = "nosniff"
    log.debug("%s %s %s", request.method, request.path, response.status, extra={"request_id": request_id})
    return response


async def _answer(request: web.Request, inner: _Plain, request_id: str) -> web.StreamResponse:
    """The response, or the envelope of what went wrong: the only place that turns exceptions into statuses."""
    try:
        _check_origin(request)
        if request.match_info.http_exception is not None:
            _session(request, request.app[BACKEND], Access.READ)
        return await inner(request)
    except Refusal as refusal:
        return _refuse(refusal, request_id)
    except web.HTTPMethodNotAllowed as exc:
        allowed = ", ".join(sorted(exc.allowed_methods))
        problem = f"{request.method} is not possible here; use {allowed}."
        response = _refuse(MethodNotAllowed("method_not_allowed", problem), request_id)
        response.headers[hdrs.ALLOW] = allowed
        return response
    except web.HTTPNotFound:
        return _refuse(Missing("route", f"{request.method} {request.path}"), request_id)
    except web.HTTPRequestEntityTooLarge:
        return _refuse(TooLarge(LARGEST_BODY), request_id)
    except web.HTTPException as exc:
        return reply({"error": "http_error", "detail": exc.reason, "request_id": request_id}, exc.status)
    except DBAPIError as exc:
        log.error("database: %s", exc.orig, exc_info=exc, extra={"request_id": request_id})
        return _refuse(_database_refusal(str(exc.orig)), request_id)
    except ConnectionResetError:
        raise  # the caller is gone, an answer would reach no one
    except Exception as exc:
        if isinstance(exc, OSError) and exc.errno in _NO_ROOM:
            log.error("the disk: %s", exc.strerror, extra={"request_id": request_id})
            return _refuse(_database_refusal("disk is full"), request_id)
        log.error("unexpected: %s", type(exc).__name__, exc_info=exc, extra={"request_id": request_id})
        return reply({"error": "internal_error", "detail": "Unexpected error.", "request_id": request_id}, 500)


def _refuse(refusal: Refusal, request_id: str) -> web.Response:
    return reply(refusal.envelope(request_id), refusal.status)


def _database_refusal(problem: str) -> Refusal:
    if "locked" in problem or "busy" in problem:
        return Busy("database_busy", "Another process holds the database file; try again.")
    if "disk is full" in problem or "readonly" in problem:
        return Unavailable("disk_unwritable", "Nothing can be written: the disk is full or read-only.")
    return Corrupt("database_error", "The database refused the operation; the log has the details.")


def _check_origin(request: web.Request) -> None:
    """Only programs on this machine: a web page must not reach the journal through a name that resolves to loopback."""
    if _hostname(f"//{request.host}") not in _LOOPBACK:
        raise Forbidden("bad_host", "This backend answers to loopback names only.")
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None and _hostname(origin) not in _LOOPBACK:
        raise Forbidden("bad_origin", "This backend does not answer web pages.")


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _session(request: web.Request, backend: Embedded, access: Access) -> Login | None:
    """The caller's session if the route needs one; 403 none or too weak, 401 over."""
    token = bearer(request)
    if access is Access.OPEN and request.headers.get("X-MCP-Guard") != "check":
        return None
    if token is None:
        raise Forbidden("no_session", "Unlock first: POST /auth/unlock, then send the token as a Bearer token.")
    if backend.locked:
        raise Forbidden("database_locked", "The database is locked; unlock it with POST /auth/unlock.")
    session = backend.sessions.find(token)
    if session.role < access:
        needed = Access(access).name.lower()
        raise Forbidden("role_too_low", f"This needs the scope {needed}; the key's role is {session.role.label}.")
    backend.last_used = backend.clock()
    return session


async def _check_guard(request: web.Request, backend: Embedded, session: Login | None) -> None:
    """The guard's question, asked and answered with the call itself."""
    actor = session.actor if session is not None else "nobody"
    verdict = await backend.guard.check(backend.database(), actor)
    if not verdict.allowed:
        raise Forbidden("guard_blocked", {"reason": verdict.reason, "locked_by": verdict.locked_by})
