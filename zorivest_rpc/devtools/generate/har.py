"""The recorded requests as an HTTP Archive 1.2, oldest first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import orjson

from zorivest_rpc.devtools.entries import Artefact, Recording
from zorivest_rpc.devtools.frames import Request
from zorivest_rpc.devtools.kit import iso, write_uri
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["make_har"]

MEDIA_TYPE: Final = "application/json"
_ABSOLUTE: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_CUT: Final = "Only the start of the body was kept."


def make_har(recording: Recording, arguments: Mapping[str, Json]) -> Artefact:
    fitting = [entry.item for entry in recording.network if _is_wanted(entry.item, arguments)]
    wanted = [item for item in fitting if _ABSOLUTE.match(item.url)]
    log = {
        "version": "1.2",
        "creator": {"name": "zorivest-rpc", "version": recording.version},
        "pages": [],
        "entries": [_entry(item) for item in sorted(wanted, key=lambda item: item.ts)],
    }
    notes = [] if fitting else ["No recorded request fits: the archive is empty."]
    if len(wanted) < len(fitting):
        notes.append(f"{len(fitting) - len(wanted)} requests have no absolute address, and are left out.")
    text = orjson.dumps({"log": log}, option=orjson.OPT_INDENT_2).decode()
    return Artefact(text, MEDIA_TYPE, tuple(notes))


def _is_wanted(item: Request, arguments: Mapping[str, Json]) -> bool:
    url, method = arguments.get("url"), arguments.get("method")
    return (
        (not url or url in item.url)
        and (not method or str(method).upper() == item.method.upper())
        and arguments.get("status_min", 0) <= item.status <= arguments.get("status_max", 999)
    )


def _entry(item: Request) -> dict[str, Json]:
    time = max(0.0, item.duration_ms)
    wait = min(max(0.0, item.wait_ms if item.wait_ms is not None else time), time)
    receive = time - wait
    entry: dict[str, Json] = {
        "startedDateTime": iso(item.ts),
        "time": wait + receive,  # the very sum: floats may differ from `time` in the last bit
        "request": _request(item),
        "response": _response(item),
        "cache": {},
        "timings": {"send": 0, "wait": wait, "receive": receive},
    }
    if item.error:
        entry["comment"] = item.error
    return entry


def _request(item: Request) -> dict[str, Json]:
    request: dict[str, Json] = {
        "method": item.method,
        "url": write_uri(item.url.partition("#")[0]),  # HAR 1.2, request: fragments are not included
        "httpVersion": "unknown",
        "cookies": [],
        "headers": _headers(item.request_headers),
        "queryString": [{"name": name, "value": value} for name, value in _query(item.url)],
        "headersSize": -1,
        "bodySize": _size(item.request_size),
    }
    if item.request_body is not None:
        # by the request's own type: the response's says nothing of what was sent
        post: dict[str, Json] = {"mimeType": item.request_content_type, "text": item.request_body}
        request["postData"] = post | ({"comment": _CUT} if item.request_truncated else {})
    return request


def _response(item: Request) -> dict[str, Json]:
    content: dict[str, Json] = {"size": _size(item.response_size), "mimeType": item.content_type}
    if item.response_body is not None:
        content["text"] = item.response_body
    if item.response_truncated:
        content["comment"] = _CUT
    return {
        "status": item.status,
        "statusText": "",
        "httpVersion": "unknown",
        "cookies": [],
        "headers": _headers(item.response_headers),
        "content": content,
        "redirectURL": item.response_headers.get("location", ""),
        "headersSize": -1,
        "bodySize": _size(item.response_size),
    }


def _headers(headers: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in headers.items()]


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query, keep_blank_values=True)
    except ValueError:
        return []


def _size(size: int | None) -> int:
    return -1 if size is None else size
