"""The rules a catalogue must keep, applied to the bytes of its files; every breach is one `CatalogError`.

The shape of a tool file is judged by `tool.schema.json`. Here are the rules that a schema cannot say: names that must
agree between files, inputs that must reach the backend, and everything on which two JSON Schema validators, or a client
that drops a whole tool for one bad annotation, could differ from us. Not imported while all is well."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from jsonschema import Draft202012Validator, SchemaError

from zorivest_rpc.errors import CatalogError
from zorivest_rpc.exposure.rules import check as exposure_problems
from zorivest_rpc.exposure.state import StateNames
from zorivest_rpc.serving.catalog.spec import (
    DRY_RUN,
    ClientTable,
    Json,
    RestSpec,
    ToolsetSpec,
    ToolSpec,
    Traits,
    placeholders,
)

__all__ = ["ToolFile", "header_problems", "problems"]

# `\d`, `\w`, `\s`, `\b` and their opposites differ beyond ASCII, `$` before a final newline; groups with `(?` and
# back references do not exist in every engine.
_DIVIDING_PATTERN = re.compile(r"\\[dwsbDWSBpPzZA1-9]|(?<!\\)\$|\(\?")
_NESTING = frozenset(
    ("items", "prefixItems", "additionalProperties", "not", "anyOf", "oneOf", "allOf", "contains", "if", "then", "else")
)
_HTTP_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_LONGEST_OF_OPT_IN = 200  # characters of the short description; of other toolsets tool.schema.json allows 100
_FIELD = re.compile(r"\{([^{}]*)\}")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*\Z")
_CLIENT_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class ToolFile(msgspec.Struct, frozen=True):
    """The bytes of one tool file and where they lay; `toolset` is None for a meta-tool."""

    path: str
    toolset: str | None
    stem: str
    data: bytes


class _Toolsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    toolsets: tuple[ToolsetSpec, ...]


Found = Iterator[tuple[str, str]]  # JSON pointer, problem


def problems(
    shape: bytes | None, toolsets: bytes | None, clients: bytes | None, tools: list[ToolFile], state: bytes | None
) -> list[CatalogError]:
    """All problems of all files. A file that could not be read is None and has been reported by the reader."""
    report: list[CatalogError] = []

    def add(file: str, found: Found) -> None:
        report.extend(CatalogError(file, pointer, problem) for pointer, problem in found)

    known: list[str] = []
    opt_in: set[str | None] = set()
    if toolsets is not None:
        value, found = _convert(toolsets, _Toolsets)
        add("toolsets.json", iter(found))
        if isinstance(value, _Toolsets):
            add("toolsets.json", _toolset_problems(value.toolsets, tools))
            known = [toolset.name for toolset in value.toolsets]
            opt_in = {toolset.name for toolset in value.toolsets if toolset.opt_in}
    if clients is not None:
        table, found = _convert(clients, ClientTable)
        add("clients.json", iter(found))
        if isinstance(table, ClientTable):
            add("clients.json", _client_problems(table))
    judge = None
    if shape is not None:
        try:
            Draft202012Validator.check_schema(schema := json.loads(shape))
            judge = Draft202012Validator(schema)
        except (ValueError, SchemaError) as exc:
            report.append(CatalogError("tool.schema.json", "", _first_line(exc)))
    names: StateNames | None = None
    if state is not None:
        names, found = _convert(state, StateNames)
        add("exposure/state.json", iter(found))
    homes: dict[str, str] = {}
    for file in tools:
        add(file.path, _tool_problems(file, judge, known, homes, may_say_more=file.toolset in opt_in))
        if names is not None:
            add(f"schemas/{file.path}", _exposure_problems(file, names))
    for file in tools:
        add(file.path, _reference_problems(file, homes))
    return report


def _convert(data: bytes, kind: type[Any]) -> tuple[Any, list[tuple[str, str]]]:
    """The value as `kind`, or every way in which it is not one (msgspec alone would stop at the first)."""
    value, found = _parse(data)
    if found:
        return None, found
    judge = Draft202012Validator(msgspec.json.schema(kind))
    found = [(_pointer(error.absolute_path), error.message) for error in judge.iter_errors(value)]
    if not found:
        try:
            return msgspec.json.decode(data, type=kind), []
        except msgspec.MsgspecError as exc:
            found = [("", str(exc))]
    return None, found


def _parse(data: bytes) -> tuple[Json, list[tuple[str, str]]]:
    repeated: list[str] = []

    def once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        names = [name for name, _ in pairs]
        repeated.extend({name for name in names if names.count(name) > 1})
        return dict(pairs)

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as exc:
        return None, [("", f"not JSON: {exc}")]
    return value, [("", f"key {name!r} appears twice in one object") for name in sorted(repeated)]


def _toolset_problems(toolsets: tuple[ToolsetSpec, ...], tools: list[ToolFile]) -> Found:
    inhabited = {file.toolset for file in tools}
    names = [toolset.name for toolset in toolsets]
    for index, toolset in enumerate(toolsets):
        here = f"/toolsets/{index}"
        if toolset.name in names[:index]:
            yield f"{here}/name", f"a second toolset {toolset.name!r}"
        if toolset.name in ("all", "default") or not _CLIENT_NAME.match(toolset.name):
            yield f"{here}/name", f"{toolset.name!r} cannot name a toolset"
        if toolset.opt_in and (toolset.default or toolset.always_loaded):
            yield f"{here}/opt_in", "a toolset that exists only where it is named is not loaded by default"
        if toolset.always_loaded and not toolset.default:
            yield f"{here}/default", "a toolset that is always loaded is loaded by default"
        if toolset.name not in inhabited:
            yield f"{here}/name", f"no tool file in tools/{toolset.name}"


def _client_problems(table: ClientTable) -> Found:
    owners: dict[str, str] = {}
    if len(table.modes) != 3:
        yield "/modes", "each of the three modes needs its profile"
    for index, client in enumerate(table.clients):
        here = f"/clients/{index}"
        if not client.names and not client.prefixes:
            yield here, f"client {client.id!r} has neither a name nor a prefix"
        for name in (*client.names, *client.prefixes):
            if not _CLIENT_NAME.match(name):
                yield here, f"{name!r} is not in its normalised form (lower-case words joined by -)"
        for name in client.names:
            if owners.setdefault(name, client.id) != client.id:
                yield here, f"name {name!r} belongs to {owners[name]!r}"
        for place, patch in enumerate(client.before):
            if not _VERSION.match(patch.version):
                yield f"{here}/before/{place}/version", f"{patch.version!r} is not a version"
            try:
                msgspec.convert({**msgspec.to_builtins(client.traits), **patch.traits}, Traits)
            except msgspec.ValidationError as exc:
                yield f"{here}/before/{place}/traits", str(exc)


def _tool_problems(
    file: ToolFile,
    judge: Draft202012Validator | None,
    known: list[str],
    homes: dict[str, str],
    *,
    may_say_more: bool = False,
) -> Found:
    """`may_say_more`: the short text of a tool that has to be named may be longer, as no client loads it unasked."""
    value, found = _parse(file.data)
    yield from found
    if value is None:
        return
    if file.toolset is not None and file.toolset not in known:
        yield "", f"no toolset {file.toolset!r} in toolsets.json"
    broken = False
    if judge is not None:
        for error in judge.iter_errors(value):
            if may_say_more and _is_long_text(error):
                continue
            broken = True
            yield _pointer(error.absolute_path), _readable(error)
    if isinstance(value, dict):
        yield from _name_problems(file, value.get("name"), homes)
        for key in ("inputSchema", "outputSchema"):
            if isinstance(schema := value.get(key), dict):
                yield from _schema_problems(schema, f"/{key}")
                yield from ((f"/{key}{pointer}", problem) for pointer, problem in header_problems(schema))
    if not broken:
        try:
            yield from _consistency_problems(msgspec.json.decode(file.data, type=ToolSpec), file.toolset, known)
        except msgspec.MsgspecError as exc:
            yield "", str(exc)


def _is_long_text(error: Any) -> bool:
    return (
        list(error.absolute_path) == ["description", "minimal"]
        and error.validator == "maxLength"
        and len(error.instance) <= _LONGEST_OF_OPT_IN
    )


def _exposure_problems(file: ToolFile, names: StateNames) -> Found:
    value, _ = _parse(file.data)
    if isinstance(value, dict) and "exposure" in value:
        schema = value.get("inputSchema")
        for where, problem in exposure_problems(value["exposure"], schema if isinstance(schema, dict) else {}, names):
            yield "", f"{where}: {problem}"


def _name_problems(file: ToolFile, name: Json, homes: dict[str, str]) -> Found:
    if not isinstance(name, str):
        return
    if name != file.stem:
        yield "/name", f"{name!r} in a file called {file.stem}.json"
    if (home := homes.setdefault(name, file.path)) != file.path:
        yield "/name", f"a second tool {name!r}; the first is {home}"


def _schema_problems(schema: dict[str, Json], here: str) -> Found:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as exc:
        yield here + _pointer(exc.absolute_path), exc.message
        return
    for pointer, node in _subschemas(schema, here):
        pattern = node.get("pattern")
        if isinstance(pattern, str) and _DIVIDING_PATTERN.search(pattern):
            yield f"{pointer}/pattern", f"{pattern!r} means different things to different validators"
        step = node.get("multipleOf")
        if isinstance(step, float) and not step.is_integer():
            yield f"{pointer}/multipleOf", "a fraction is judged differently by different validators"
        for name in ("$ref", "$dynamicRef"):
            if name in node:
                yield f"{pointer}/{name}", "references are not allowed in a tool's schemas"
        for name in node.get("required", ()):
            if "properties" in node and name not in node["properties"]:
                yield f"{pointer}/required", f"{name!r} is required and not described"
        for name in ("default", "examples"):
            values = node.get(name, []) if name == "examples" else [node[name]] if name in node else []
            for example in values:
                if not Draft202012Validator(node).is_valid(example):
                    yield f"{pointer}/{name}", f"{example!r} does not fit the property it belongs to"


def _subschemas(node: Json, here: str) -> Iterator[tuple[str, dict[str, Json]]]:
    if isinstance(node, list):
        for index, entry in enumerate(node):
            yield from _subschemas(entry, f"{here}/{index}")
    elif isinstance(node, dict):
        yield here, node
        for key, value in node.items():
            if key in ("properties", "patternProperties", "$defs") and isinstance(value, dict):
                for name, entry in value.items():
                    yield from _subschemas(entry, f"{here}/{key}/{_escape(name)}")
            elif key in _NESTING:
                yield from _subschemas(value, f"{here}/{key}")


def header_problems(schema: dict[str, Json]) -> Found:
    """What is wrong with the `x-mcp-header` annotations; clients drop a tool that has a single bad one."""
    seen: set[str] = set()
    for pointer, node in _subschemas(schema, ""):
        if "x-mcp-header" not in node:
            continue
        name, here = node["x-mcp-header"], f"{pointer}/x-mcp-header"
        if not isinstance(name, str) or not _HTTP_TOKEN.match(name):
            yield here, f"{name!r} is not a header token"
        elif name.lower() in seen:
            yield here, f"header {name!r} is used twice"
        else:
            seen.add(name.lower())
        if node.get("type") not in ("string", "integer", "boolean"):
            yield here, "only a string, an integer or a boolean can travel in a header"
        if pointer.split("/")[1::2] != ["properties"] * (pointer.count("/") // 2) or pointer.count("/") % 2:
            yield here, "a header must be reachable through properties alone"


def _confirm_problems(tool: ToolSpec, inputs: dict[str, Json], required: set[str]) -> Found:
    if "clientId" in inputs:
        yield "/inputSchema/properties/clientId", "clientId is added where the server acts for several clients"
    if tool.is_gated != ("confirmation_token" in inputs) or "confirmation_token" in required:
        yield "/inputSchema", "confirm or confirm_above and an optional input confirmation_token belong together"
    entries = tool.rest if isinstance(tool.rest, tuple) else (tool.rest,)
    has_preview = any(isinstance(entry, RestSpec) and entry.preview is not None for entry in entries)
    if tool.confirm_above is not None and (tool.confirm or not has_preview):
        yield "/confirm_above", "needs a route with a preview, and stands instead of confirm"
    if has_preview and inputs.get(DRY_RUN, {}).get("type") != "boolean":
        yield "/rest", f"a preview needs a boolean input {DRY_RUN} that asks for it"
    for name in tool.confirm_typed:
        if not tool.confirm or name not in required or inputs[name].get("type") not in ("string", "number", "integer"):
            yield "/confirm_typed", f"{name!r} must be a required text or number of a tool with confirm"


def _consistency_problems(tool: ToolSpec, toolset: str | None, known: list[str]) -> Found:
    inputs: dict[str, Json] = tool.input_schema.get("properties", {})
    required = set(tool.input_schema.get("required", ()))
    hints = tool.annotations
    for other in tool.also_in:
        if other not in known or other == toolset:
            yield "/also_in", f"no other toolset {other!r} in toolsets.json"
    if hints.read_only_hint and hints.destructive_hint:
        yield "/annotations", "a tool that only reads cannot be destructive"
    if tool.ptc and not hints.read_only_hint:
        yield "/ptc", "only a tool that only reads may be called from code"
    if not tool.guarded and tool.guard_offline == "allow":
        yield "/guard_offline", "says nothing for a tool that is not guarded"
    yield from _confirm_problems(tool, inputs, required)
    for name in tool.dynamic_defaults:
        if name not in inputs or name in required or "default" in inputs[name]:
            yield f"/dynamic_defaults/{name}", "must name an optional input without a constant default"
    for name in _FIELD.findall(tool.not_found.problem if tool.not_found else ""):
        if name not in inputs:
            yield "/not_found/problem", f"no input {name!r}"
    entries = tool.rest if isinstance(tool.rest, tuple) else () if tool.rest is None else (tool.rest,)
    for index, entry in enumerate(entries):
        here = f"/rest/{index}" if isinstance(tool.rest, tuple) else "/rest"
        rest = entry if isinstance(entry, RestSpec) else RestSpec(entry)
        for problem in _rest_problems(rest, inputs, required, last=index == len(entries) - 1):
            yield here, problem


def _rest_problems(rest: RestSpec, inputs: dict[str, Json], required: set[str], *, last: bool) -> Iterator[str]:
    wires = placeholders(rest.route)
    method = rest.route.partition(" ")[0]
    used = [rest.path_params.get(wire, wire) for wire in wires]
    for wire in rest.path_params:
        if wire not in wires:
            yield f"path_params names {wire!r}, the path does not"
    for name in used:
        if name in inputs and last and name not in required:
            yield f"placeholder {name!r} of the last route must be a required input"
    used += [*rest.query_params.values(), *rest.body_params.values(), *rest.not_forwarded, *rest.value_aliases]
    if rest.body_root is not None:
        used.append(rest.body_root)
    if rest.file is not None:
        used += [rest.file.param, rest.file.content_type_param or rest.file.param]
    for name in dict.fromkeys(used):
        if name not in inputs:
            yield f"no input {name!r}"
    if method in ("GET", "DELETE") and (rest.body_params or rest.body_root or rest.file or "body" in rest.fixed_params):
        yield f"a {method} has no body"
    if rest.body_root is not None and (rest.body_params or rest.file or "body" in rest.fixed_params):
        yield "body_root is the whole body; nothing can be added to it"


def _reference_problems(file: ToolFile, homes: dict[str, str]) -> Found:
    value, _ = _parse(file.data)
    other = value.get("check_with") if isinstance(value, dict) else None
    if isinstance(other, str) and (other not in homes or other == value.get("name")):
        yield "/check_with", f"no other tool {other!r}"


def _readable(error: Any) -> str:
    """A message that names the branch that was meant, not every branch that failed."""
    if error.validator == "oneOf" and not error.absolute_path:
        return "needs either rest or python, and not both"
    if error.validator in ("minLength", "maxLength") and isinstance(error.instance, str):
        low, high = error.schema.get("minLength", 0), error.schema.get("maxLength", "any")
        return f"{len(error.instance)} characters; allowed are {low} to {high}"
    message: str = error.message
    return message if len(message) <= 300 else message[:297] + "..."


def _first_line(exc: Exception) -> str:
    return str(exc).partition("\n")[0]


def _pointer(path: Any) -> str:
    return "".join(f"/{_escape(str(part))}" for part in path)


def _escape(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
