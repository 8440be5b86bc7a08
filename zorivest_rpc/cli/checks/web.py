"""A question to a server that may be absent, slow or something else entirely; the answer, or nothing."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from zorivest_rpc.embedded.link import LocalAddress

__all__ = ["PATIENCE", "PageAnswer", "Place", "ask", "render_url"]

Place: TypeAlias = Union[str, "LocalAddress"]
"""The root of an API: a URL, or the address of the embedded backend."""

PATIENCE = 5.0  # seconds
_LIMIT = 1024 * 1024


class PageAnswer(NamedTuple):
    """`body` is None where it was no JSON; `date` the server's own clock, where it told."""

    status: int
    body: Any
    date: float | None


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A key is shown to the server it was meant for and to no other."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def ask(
    place: Place,
    path: str = "",
    body: Any = None,
    *,
    token: str = "",
    timeout: float | None = None,
    more: Mapping[str, str] | None = None,
) -> PageAnswer | None:
    """GET, or POST where there is a body; None if nothing answered in time, or not as what it claims to be."""
    headers = {"Content-Type": "application/json", **(more or {})}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    seconds = timeout or PATIENCE
    try:
        if isinstance(place, str):
            return _ask_url(place + path, body, headers, seconds)
        return _ask_embedded(place, path, body, headers, seconds)
    except (OSError, http.client.HTTPException, ValueError):
        return None


def _ask_url(url: str, body: Any, headers: dict[str, str], timeout: float) -> PageAnswer:
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirects())
    try:
        with opener.open(request, timeout=timeout) as response:
            return _answer(response.status, response.read(_LIMIT), response.headers.get("Date"))
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error.read(_LIMIT), error.headers.get("Date"))


def _ask_embedded(address: LocalAddress, path: str, body: Any, headers: dict[str, str], timeout: float) -> PageAnswer:
    """The backend proves itself before it is shown a key."""
    from zorivest_rpc.embedded.link import BackendConnection

    with closing(BackendConnection(address, timeout)) as connection:
        return _answer(*connection.ask("GET" if body is None else "POST", path, body, headers))


def _answer(status: int, data: bytes, date: str | None) -> PageAnswer:
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    try:
        moment = parsedate_to_datetime(date).timestamp() if date else None
    except ValueError:
        moment = None
    return PageAnswer(status, body, moment)


def render_url(url: str) -> str:
    """A URL as it may be printed: without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "the URL"
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
