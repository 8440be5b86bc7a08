"""A backend's refusal as an error that says what happened and what to do, without a secret in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from math import ceil

import orjson

from zorivest_rpc.errors import BackendError, GuardLocked, ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.retry_after import LONGEST_WAIT

__all__ = ["is_ours", "redact", "refusal", "session_is_gone", "unknown_route"]

_SECRET = re.compile(r"(zrv_sk_|tok_|apt_|Bearer\s+)[A-Za-z0-9._~+/=-]+")
_LONGEST = 500  # characters of what a backend says of a failure
_LOOKED_AT = 8192  # of which that is made, whole words, so that no secret is looked at in part
_LARGEST = 1024 * 1024  # bytes of a failure that are read at all; reading holds up whatever else this process does
_MOST_FIELDS = 12
_NO_ROUTE = frozenset(("route_not_found", "method_not_allowed"))
_GONE = frozenset(("no_session", "session_unknown", "session_expired", "database_locked", "key_revoked", "key_expired"))

_TEXTS: dict[int, tuple[str, str, str]] = {
    # status: our code, what happened, what to do
    400: ("bad_request", "The backend refused the request", "Correct the arguments and call again."),
    401: (
        "unauthorized",
        "The backend does not accept this session",
        "Check the API key; zorivest_diagnose shows the state of the backend.",
    ),
    402: ("budget_exceeded", "The spending cap is below the cost", "Raise the cap or leave it."),
    403: (
        "forbidden",
        "The backend does not allow this",
        "The key's role may be too low or the database locked; zorivest_diagnose shows the state.",
    ),
    404: ("not_found", "The backend knows no such thing", "Check the identifier with the matching list tool."),
    409: ("conflict", "It conflicts with what is stored already", "Read the existing entry before you change it."),
    413: ("too_large", "The backend takes nothing that large", "Send less or a smaller file."),
    422: ("invalid", "The backend found the values invalid", "Correct them and call again."),
    423: (
        "database_busy",
        "The database is held by another program",
        "Close the other program, or wait, and call again.",
    ),
    429: ("rate_limited", "The backend's rate limit is reached", "Wait before the next call."),
    502: (
        "bad_upstream",
        "A provider behind the backend answered badly",
        "Try later or use another provider (list_market_providers).",
    ),
    503: ("unavailable", "The backend cannot do this at the moment", "Its message says what is missing; try later."),
    504: ("timed_out", "A provider behind the backend did not answer in time", "Try later."),
}


def refusal(
    method: str,
    path: str,
    status: int,
    content_type: str,
    body: bytes,
    request_id: str,
    retry_after: float | None,
    write: bool = False,
    secrets: Collection[str] = (),
) -> ToolError:
    """The error for an answer that is not 2xx; `write` warns of repeating what may have been done.

    `secrets` were in the request, and are in no error."""
    answer = _conceal(_decode(content_type, body), secrets)
    reported, detail = _words(answer)
    if reported == "guard_blocked":
        about = detail if isinstance(detail, dict) else {}
        by = about.get("locked_by")
        return GuardLocked(str(about.get("reason") or "locked"), locked_by=by if isinstance(by, str) else None)
    known = _TEXTS.get(status)
    if known is None:
        what = "The backend failed" if status >= 500 else "The backend refused the request"
        again = "Try once more; if it fails again, zorivest_diagnose shows the state of the backend."
        if write and status >= 500:
            again = "Check whether it was done before you call again; zorivest_diagnose shows the state of the backend."
        known = ("backend_failed" if status >= 500 else "refused", what, again)
    code, what, advice = known
    if status == 429 and retry_after is not None and retry_after < LONGEST_WAIT:
        advice = f"Wait {ceil(retry_after)} s before the next call."
    if (answer is None and status in (404, 405)) or reported in _NO_ROUTE:
        code, what = "unknown_route", f"Nothing is served at {method} {path}"
        advice = "Check that the API URL names a Zorivest backend."
    said = said_by(detail)
    where = f", request {_conceal(request_id, secrets)}" if request_id and status >= 500 else ""
    problem = f"{what} ({status}{where})" + (f": {said.rstrip('.')}." if said else ".")
    text = f"{problem} {advice}"
    return BackendError(status, text, code=code, next=advice, problem=problem, reported=reported, detail=detail)


def is_ours(content_type: str, body: bytes) -> bool:
    """Whether an error was written by the backend itself and not by something in between; only then it is final."""
    answer = _decode(content_type, body)
    return isinstance(answer, dict) and ("detail" in answer or "error" in answer)


def session_is_gone(error: BackendError) -> bool:
    """Whether to unlock again: the session ended, or the backend was locked or restarted and knows none. The key itself
    may have ended, too; then another one may lie ready by now, and if not, the exchange says so best."""
    return error.status == 401 or (error.status == 403 and error.reported in _GONE)


def unknown_route(error: BackendError) -> bool:
    """A 404 about the path and not about the thing that was asked for."""
    return (
        error.code == "unknown_route"
        or error.reported in _NO_ROUTE
        or (error.reported is None and error.detail == "Not Found")
    )


def said_by(detail: Json) -> str:
    """A backend's detail, whatever its shape, as one line of bounded length."""
    if isinstance(detail, str):
        line = detail
    elif isinstance(detail, dict):
        errors = detail.get("errors") or detail.get("validation_errors") or detail
        line = "; ".join(_fields(errors)) if isinstance(errors, dict | list) else str(errors)
    elif isinstance(detail, list):
        line = "; ".join(_fields(detail))
    else:
        line = "" if detail is None else str(detail)
    line = line.lstrip()
    if len(line) > _LOOKED_AT:
        line = line[:_LOOKED_AT].rsplit(None, 1)[0]
    return redact(" ".join(line.split()))[:_LONGEST]


def redact(text: str) -> str:
    return _SECRET.sub(r"\1…", text)


def _conceal(value: Json, secrets: Collection[str]) -> Json:
    """What a backend says without what it was sent: one that shows its request in an error shows the headers, too."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "…")
        return value
    if isinstance(value, dict):
        return {str(_conceal(name, secrets)): _conceal(each, secrets) for name, each in value.items()}
    return [_conceal(each, secrets) for each in value] if isinstance(value, list) else value


def _fields(errors: Json) -> Iterator[str]:
    """`field: what is wrong`, from a map of messages, a list of them, or a list of {loc, msg}."""
    pairs = errors.items() if isinstance(errors, dict) else ((None, entry) for entry in errors)
    for number, (field, problem) in enumerate(pairs):
        if number == _MOST_FIELDS:
            yield "and more"
            return
        if isinstance(problem, dict):
            where = problem.get("loc") or problem.get("field") or field
            if isinstance(where, list):
                where = ".".join(str(step) for step in where if step not in ("body", "query", "path"))
            words = problem.get("msg") or problem.get("message") or orjson.dumps(problem).decode()
        elif isinstance(problem, list):
            where, words = field, ", ".join(str(entry) for entry in problem)
        else:
            where, words = field, problem
        yield f"{where}: {words}" if where else str(words)


def _decode(content_type: str, body: bytes) -> Json:
    if "json" not in content_type or len(body) > _LARGEST:
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _words(answer: Json) -> tuple[str | None, Json]:
    if not isinstance(answer, dict):
        return None, answer if isinstance(answer, (str, list)) else None
    code = answer.get("error")
    detail = answer.get("detail", answer.get("message"))
    return (code if isinstance(code, str) else None), (code if detail is None else detail)
