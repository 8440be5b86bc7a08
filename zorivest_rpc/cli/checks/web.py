"""A question to a server that may be absent, slow or something else entirely; the answer, or nothing."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

__all__ = ["PATIENCE", "Answer", "ask", "shown"]

PATIENCE = 5.0  # seconds
_LIMIT = 1024 * 1024


class Answer(NamedTuple):
    """`body` is None where it was no JSON; `date` the server's own clock, where it told."""

    status: int
    body: Any
    date: float | None


class _Stay(urllib.request.HTTPRedirectHandler):
    """A key is shown to the server it was meant for and to no other."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def ask(url: str, body: Any = None, *, token: str = "", timeout: float | None = None) -> Answer | None:
    """GET, or POST where there is a body; None if nobody answered in time."""
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
    try:
        try:
            with opener.open(request, timeout=timeout or PATIENCE) as response:
                return _answer(response.status, response.read(_LIMIT), response.headers.get("Date"))
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.read(_LIMIT), error.headers.get("Date"))
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _answer(status: int, data: bytes, date: str | None) -> Answer:
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    try:
        moment = parsedate_to_datetime(date).timestamp() if date else None
    except ValueError:
        moment = None
    return Answer(status, body, moment)


def shown(url: str) -> str:
    """A URL as it may be printed: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "the URL"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
