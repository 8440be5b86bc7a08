"""The interface behind a page: each endpoint in numbers, or all of them as an OpenAPI 3.1 document."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Final

from zorivest_rpc.devtools.endpoints import Endpoint, Shape
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["describe_api", "write_openapi"]

_PLACEHOLDER: Final = re.compile(r"\{(id|uuid|hash)\}")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_/-]*\Z")
_YAML_WORDS: Final = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_METHODS: Final = ("GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE")
_PARAMETER: Final[dict[str, dict[str, Json]]] = {
    "id": {"type": "integer"},
    "uuid": {"type": "string", "format": "uuid"},
    "hash": {"type": "string"},
}


def describe_api(endpoints: Sequence[Endpoint]) -> dict[str, Json]:
    return {
        "endpoints": [_describe(endpoint) for endpoint in endpoints],
        "hint": None if endpoints else "No request was seen yet, or none that fits.",
    }


def _describe(endpoint: Endpoint) -> dict[str, Json]:
    told: dict[str, Json] = {
        "method": endpoint.method,
        "origin": endpoint.origin,
        "path": endpoint.path,
        "observations": endpoint.seen,
        "statuses": {str(status): count for status, count in sorted(endpoint.statuses.items())},
        "query_parameters": dict(endpoint.parameters),
        "latency_ms": _latency(endpoint.latencies),
    }
    if (request := endpoint.shape("request")) is not None:
        told["request_shape"] = request
    shapes = {
        str(status): shape for status in endpoint.statuses if (shape := endpoint.shape("response", status)) is not None
    }
    if shapes:
        told["response_shapes"] = shapes
    return told


def _latency(values: Iterable[float]) -> dict[str, float] | None:
    ordered = sorted(values)
    if not ordered:
        return None

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)

    return {
        "avg": round(sum(ordered) / len(ordered), 1),
        "p50": at(0.5),
        "p95": at(0.95),
        "max": round(ordered[-1], 1),
    }


def write_openapi(endpoints: Sequence[Endpoint]) -> dict[str, Json]:
    """A document to begin with: what was seen, and nothing that was not."""
    paths: dict[str, dict[str, Json]] = {}
    origins = Counter(endpoint.origin for endpoint in endpoints if endpoint.origin)
    skipped = 0
    for endpoint in endpoints:
        if endpoint.method not in _METHODS:
            skipped += 1
            continue
        path, parameters = _name_parameters(endpoint.path)
        operation = paths.setdefault(path, {}).setdefault(endpoint.method.lower(), {"responses": {}})
        known = {(each["in"], each["name"]) for each in operation.get("parameters", ())}
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
            for name in endpoint.parameters
        ]
        new = [each for each in parameters if (each["in"], each["name"]) not in known]
        if new:
            operation["parameters"] = [*operation.get("parameters", ()), *new]
        if (request := endpoint.shape("request")) is not None:
            operation["requestBody"] = {"content": _content(request)}
        for status in sorted(endpoint.statuses):
            if 100 <= status <= 599:
                operation["responses"].setdefault(str(status), _response(endpoint, status))
        if not operation["responses"]:
            operation["responses"] = {"default": {"description": "No answer was seen."}}
    document: dict[str, Json] = {
        "openapi": "3.1.0",
        "info": {"title": "Learnt from traffic", "version": "0.0.0"},
        "servers": [{"url": origin} for origin, _ in origins.most_common()] or [{"url": "/"}],
        "paths": paths,
    }
    hint = None if paths else "No request was seen yet, or none that fits."
    if skipped:
        hint = f"{skipped} endpoints have a method that OpenAPI does not know, and are left out."
    return {"openapi": "\n".join(_yaml(document, 0)) + "\n", "media_type": "application/yaml", "hint": hint}


def _name_parameters(path: str) -> tuple[str, list[dict[str, Json]]]:
    """`/a/{id}/b/{id}` -> `/a/{id}/b/{id2}`, as names of one path differ; other braces are encoded."""
    parameters: list[dict[str, Json]] = []
    counts: Counter[str] = Counter()
    parts: list[str] = []
    for part in path.split("/"):
        match = _PLACEHOLDER.fullmatch(part)
        if match is None:
            parts.append(part.replace("{", "%7B").replace("}", "%7D"))
            continue
        kind = match[1]
        counts[kind] += 1
        name = kind if counts[kind] == 1 else f"{kind}{counts[kind]}"
        parts.append("{" + name + "}")
        parameters.append({"name": name, "in": "path", "required": True, "schema": _PARAMETER[kind]})
    return "/".join(parts) or "/", parameters


def _response(endpoint: Endpoint, status: int) -> dict[str, Json]:
    try:
        description = HTTPStatus(status).phrase
    except ValueError:
        description = "Seen in traffic"
    shape = endpoint.shape("response", status)
    return {"description": description, **({} if shape is None else {"content": _content(shape)})}


def _content(shape: Shape) -> dict[str, Json]:
    return {"application/json": {"schema": _schema(shape)}}


def _schema(shape: Shape) -> dict[str, Json]:
    if isinstance(shape, dict):
        return {"type": "object", "properties": {name: _schema(member) for name, member in shape.items()}}
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0]) if shape else {}}
    return {} if shape == "any" else {"type": shape}


def _yaml(value: Json, depth: int) -> Iterator[str]:
    """Block style; every text is a JSON string, which is one in YAML, too."""
    pad = "  " * depth
    if isinstance(value, dict):
        for name, member in value.items():
            key = name if _PLAIN_KEY.match(name) and name.lower() not in _YAML_WORDS else _text(name)
            if isinstance(member, dict | list) and member:
                yield f"{pad}{key}:"
                yield from _yaml(member, depth + 1)
            else:
                yield f"{pad}{key}: {_text(member)}"
    else:
        for member in value:
            if isinstance(member, dict | list) and member:
                first, *others = _yaml(member, depth + 1)
                yield f"{pad}- {first.lstrip()}"
                yield from others
            else:
                yield f"{pad}- {_text(member)}"


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=True)
