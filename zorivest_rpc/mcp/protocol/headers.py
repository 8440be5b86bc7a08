"""The request headers of 2026-07-28 and the `x-mcp-header` annotation: checked by a server, written by a client."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import HEADER_MISMATCH, Id, Json

__all__ = [
    "HeaderParams",
    "check_params",
    "check_standard",
    "decode_value",
    "drop_annotations",
    "encode_value",
    "header_params",
    "is_named",
    "may_annotate",
    "mirror_params",
    "named_value",
]

Getter: TypeAlias = Callable[[str, list[str]], list[str]]  # every value of a header by name in any case, or a default
HeaderParams: TypeAlias = Mapping[str, tuple[str, ...]]  # header name -> path of property names

_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "task_id",
    "tasks/update": "task_id",
    "tasks/cancel": "task_id",
}
_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_PLAIN: Final = re.compile(r"[!-~]([ -~]*[!-~])?\Z")  # visible ASCII, with spaces inside alone
_SENTINEL, _END = "=?base64?", "?="
_SAFE: Final = 2**53 - 1
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_ANNOTATION: Final = "x-mcp-header"
_MAPS: Final = ("$defs", "definitions", "patternProperties", "dependentSchemas")  # of schemas by name
_BELOW: Final = (
    *("items", "prefixItems", "contains", "oneOf", "anyOf", "allOf", "not", "if", "then", "else"),
    *("additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"),
    *_MAPS,
)


def named_value(method: str, params: Json) -> str | None:
    """What `Mcp-Name` has to repeat, or None where the method has no name."""
    field = _NAMED.get(method)
    value = getattr(params, field, None) if field is not None else None
    return value if isinstance(value, str) else None


def check_standard(get: Getter, version: str, method: str, name: str | None, id: Id | None) -> None:
    """Version, method and name, in this order; missing, repeated or different is one error."""
    if (
        get("MCP-Protocol-Version", []) == [version]
        and get("Mcp-Method", []) == [method]
        and (name is None or (get("Mcp-Name", []) == [name] and not name.startswith(_SENTINEL)))
    ):
        return  # all equal to the letter, as they are in nearly every request
    _equal(get, "MCP-Protocol-Version", version, id, decoded=False)
    _equal(get, "Mcp-Method", method, id, decoded=False)
    if name is not None:
        _equal(get, "Mcp-Name", name, id, decoded=True)


def _equal(get: Getter, header: str, expected: str, id: Id | None, *, decoded: bool) -> None:
    value = _single(get, header, id)
    if value is None:
        raise _mismatch(f"header {header} is missing; it repeats the body's value", id)
    if (decode_value(value, header, id) if decoded else value) != expected:
        raise _mismatch(f"header {header} differs from the body", id)


def _single(get: Getter, header: str, id: Id | None) -> str | None:
    values = get(header, [])
    if len(values) > 1:
        raise _mismatch(f"header {header} is repeated", id)
    return values[0].strip(" \t") if values else None


def decode_value(value: str, header: str, id: Id | None) -> str:
    """Literal text, or text in the base64 sentinel; what only looks like the sentinel is literal."""
    if not (value.startswith(_SENTINEL) and value.endswith(_END) and len(value) >= len(_SENTINEL) + len(_END)):
        return value
    encoded = value[len(_SENTINEL) : -len(_END)]
    try:
        raw = b64decode(encoded, validate=True)
        if b64encode(raw).decode() != encoded:  # the decoder tolerates stray trailing bits
            raise ValueError("not canonical")
        return raw.decode()
    except ValueError:
        raise _mismatch(f"header {header} is not valid base64 of UTF-8 text", id) from None


def is_named(method: str) -> bool:
    """Whether requests of this method carry `Mcp-Name`."""
    return method in _NAMED


def encode_value(text: str) -> str:
    """Text as a header may carry it: itself where it is plain, else in the base64 sentinel. A tab goes into the
    sentinel too, although one inside a text is allowed: a proxy may make a space of it."""
    if (not text or _PLAIN.match(text)) and not text.startswith(_SENTINEL):
        return text
    return f"{_SENTINEL}{b64encode(text.encode('utf-8', 'replace')).decode()}{_END}"


def mirror_params(mirrored: HeaderParams, arguments: Mapping[str, Json]) -> dict[str, str]:
    """The `Mcp-Param-*` headers of a call; an argument that is absent or null has none."""
    headers = {}
    for header, path in mirrored.items():
        value: Json = arguments
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        text = _as_text(value)
        if text is not None:
            headers[f"Mcp-Param-{header}"] = encode_value(text)
    return headers


def _as_text(value: Json) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():  # 42.0 is an integer of JSON Schema
        return str(int(value))
    return str(value) if isinstance(value, str | int) else None


def check_params(get: Getter, mirrored: HeaderParams, arguments: Mapping[str, Json], id: Id | None) -> None:
    """Each annotated argument that the body holds has to be repeated in its header."""
    for header, path in mirrored.items():
        value: Json = arguments
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        name = f"Mcp-Param-{header}"
        found = _single(get, name, id)
        if value is None:
            continue
        if found is None:
            raise _mismatch(f"header {name} is missing; it repeats argument {'.'.join(path)}", id)
        if not _same(decode_value(found, name, id), value):
            raise _mismatch(f"header {name} differs from argument {'.'.join(path)}", id)


def _same(text: str, value: Json) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        return bool(_NUMBER.match(text)) and float(text) == value and abs(value) <= _SAFE
    return isinstance(value, str) and text == value


def _mismatch(text: str, id: Id | None) -> ProtocolError:
    return ProtocolError(HEADER_MISMATCH, text, id=id)


def header_params(schema: Mapping[str, Json]) -> HeaderParams:
    """The annotations of an input schema; ValueError names the first that a client would drop the tool for."""
    found: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()

    def visit(node: Json, path: tuple[str, ...], reachable: bool) -> None:
        if not isinstance(node, dict):
            return
        if _ANNOTATION in node:
            header, where = node[_ANNOTATION], ".".join(path) or "the root"
            if not isinstance(header, str) or not _TOKEN.match(header):
                raise ValueError(f"x-mcp-header of {where} is not a header token")
            if not reachable or not path:
                raise ValueError(f"x-mcp-header of {where} is not reachable through properties alone")
            if node.get("type") not in ("string", "integer", "boolean"):
                raise ValueError(f"x-mcp-header of {where} needs type string, integer or boolean")
            if header.lower() in seen:
                raise ValueError(f"x-mcp-header {header!r} is used twice")
            seen.add(header.lower())
            found[header] = path
        properties = node.get("properties")
        for name, child in properties.items() if isinstance(properties, dict) else ():
            visit(child, (*path, name), reachable and "$ref" not in node)
        for keyword in _BELOW:
            below = node.get(keyword)
            children = below.values() if keyword in _MAPS and isinstance(below, dict) else [below]
            for child in children:
                for part in child if isinstance(child, list) else [child]:
                    visit(part, (*path, keyword), False)

    visit(schema, (), True)
    return found


def may_annotate(definition: bytes) -> bool:
    """Whether it is worth a look: JSON may write the keyword with escapes."""
    return b"x-mcp-header" in definition or b"\\u" in definition


def drop_annotations(node: Json) -> Json:
    """The same schema without `x-mcp-header`, which is between a server and its own clients. Values that look like a
    schema (`default`, `enum`) and an argument of this name stay."""
    if not isinstance(node, dict):
        return node
    plain = {key: value for key, value in node.items() if key != _ANNOTATION}
    for keyword in ("properties", *_BELOW):
        below = plain.get(keyword)
        if keyword in ("properties", *_MAPS):
            if isinstance(below, dict):
                plain[keyword] = {name: drop_annotations(child) for name, child in below.items()}
        elif isinstance(below, list):
            plain[keyword] = [drop_annotations(child) for child in below]
        elif isinstance(below, dict):
            plain[keyword] = drop_annotations(below)
    return plain
