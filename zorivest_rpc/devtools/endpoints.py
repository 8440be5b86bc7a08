"""The interface behind a page, learnt from its traffic: one entry per method and path, with what identifies a thing in
the path replaced by what kind of identifier it is."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import orjson

from zorivest_rpc.devtools.entries import Entry
from zorivest_rpc.devtools.frames import Request
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["MOST_ENDPOINTS", "Endpoint", "Endpoints", "Shape", "merge", "shape_of", "template"]

MOST_ENDPOINTS: Final = 200
MOST_LATENCIES: Final = 100
MOST_SHAPES: Final = 10
_DEPTH: Final = 4
_MOST_MEMBERS: Final = 50  # of one object
_MOST_ELEMENTS: Final = 5  # of one list that are looked at
_MOST_PARAMETERS: Final = 50
_MOST_STATUSES: Final = 30
_LONGEST_PART: Final = 200
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
_HASH: Final = re.compile(r"[0-9a-f]{16,}", re.I)
Shape: TypeAlias = Json
"""A type's name, `[shape of the elements]`, or `{member: shape}`; "any" below the depth that is looked at."""


class Endpoint:
    __slots__ = (
        "first",
        "first_at",
        "latencies",
        "method",
        "origin",
        "parameters",
        "path",
        "seen",
        "shapes",
        "statuses",
    )

    def __init__(self, method: str, origin: str, path: str, first: int, first_at: float) -> None:
        self.method = method
        self.origin = origin
        self.path = path
        self.first = first  # number of the first entry
        self.first_at = first_at  # and when it arrived
        self.seen = 0
        self.statuses: Counter[int] = Counter()
        self.parameters: dict[str, int] = {}  # name to how often
        self.latencies: deque[float] = deque(maxlen=MOST_LATENCIES)
        self.shapes: deque[tuple[str, int, Shape]] = deque(maxlen=MOST_SHAPES)  # "request" | "response", status, shape

    def add(self, item: Request, query: str) -> None:
        self.seen += 1
        if item.status in self.statuses or len(self.statuses) < _MOST_STATUSES:
            self.statuses[item.status] += 1
        if item.status:
            self.latencies.append(max(0.0, item.duration_ms))
        if query:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=None)
            for name in dict.fromkeys(name[:_LONGEST_PART] for name, _ in pairs):  # once each, in the address's order
                if name in self.parameters or len(self.parameters) < _MOST_PARAMETERS:
                    self.parameters[name] = self.parameters.get(name, 0) + 1
        self._learn("request", 0, item.request_body, item.request_truncated)
        self._learn("response", item.status, item.response_body, item.response_truncated)

    def _learn(self, side: str, status: int, body: str | None, cut: bool) -> None:
        if not body or cut or body[0] not in '{["' or len(body) > 1 << 16:
            return
        try:
            shape = shape_of(orjson.loads(body))
        except orjson.JSONDecodeError:
            return
        known = (side, status, shape)
        if known not in self.shapes:
            self.shapes.append(known)

    def shape(self, side: str, status: int | None = None) -> Shape | None:
        """All that was seen of one side, in one shape; None where no body was JSON."""
        seen = [shape for of, code, shape in self.shapes if of == side and status in (None, code)]
        merged: Shape | None = None
        for shape in seen:
            merged = shape if merged is None else merge(merged, shape)
        return merged


class Endpoints:
    """Those seen last; `changed` is told the change of their number."""

    def __init__(self, changed: Callable[[int], None]) -> None:
        self._known: OrderedDict[tuple[str, str, str], Endpoint] = OrderedDict()
        self._changed = changed

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> list[Endpoint]:
        return list(self._known.values())

    def find(self, item: Request) -> Endpoint | None:
        key = _key(item)
        return None if key is None else self._known.get(key[:3])

    def add(self, entry: Entry[Request]) -> None:
        key = _key(entry.item)
        if key is None:
            return
        method, origin, path, query = key
        endpoint = self._known.get((method, origin, path))
        if endpoint is None:
            endpoint = self._known[method, origin, path] = Endpoint(method, origin, path, entry.number, entry.at)
            if len(self._known) > MOST_ENDPOINTS:
                self._known.popitem(last=False)
            else:
                self._changed(1)
        else:
            self._known.move_to_end((method, origin, path))
        endpoint.add(entry.item, query)

    def clear(self) -> int:
        count = len(self._known)
        self._known.clear()
        if count:
            self._changed(-count)
        return count


def _key(item: Request) -> tuple[str, str, str, str] | None:
    """Method, origin, path and query; None of what is no address."""
    try:
        parts = urlsplit(item.url)
    except ValueError:
        return None
    origin = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return item.method.upper(), origin, template(parts.path or "/"), parts.query


def template(path: str) -> str:
    """`/trades/17/legs` -> `/trades/{id}/legs`."""
    return "/".join(_part(part) for part in path.split("/"))


def _part(part: str) -> str:
    if part.isascii() and part.isdigit():
        return "{id}"
    if _UUID.fullmatch(part):
        return "{uuid}"
    if _HASH.fullmatch(part):
        return "{hash}"
    return part[:_LONGEST_PART]


def shape_of(value: Json, depth: int = 1) -> Shape:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if depth > _DEPTH:
        return "any"
    if isinstance(value, dict):
        return {name: shape_of(value[name], depth + 1) for name in list(value)[:_MOST_MEMBERS]}
    merged: Shape | None = None
    for element in value[:_MOST_ELEMENTS]:
        shape = shape_of(element, depth + 1)
        merged = shape if merged is None else merge(merged, shape)
    return [] if merged is None else [merged]


def merge(one: Shape, other: Shape) -> Shape:
    """What both fit; where they have nothing in common, "any"."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        names = dict.fromkeys((*one, *other))
        return {
            name: merge(one[name], other[name]) if name in one and name in other else one.get(name, other.get(name))
            for name in list(names)[:_MOST_MEMBERS]
        }
    if isinstance(one, list) and isinstance(other, list):
        return [merge(one[0], other[0])] if one and other else one or other
    if {str(one), str(other)} == {"integer", "number"}:
        return "number"
    if one == "null":
        return other
    if other == "null":
        return one
    return "any"
