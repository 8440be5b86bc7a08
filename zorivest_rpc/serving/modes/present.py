"""How a tool and its results look to one client: the wire definition, and a result in full or in brief.

A `Presentation` holds everything that makes two clients' definitions differ, so definitions can be made once per
presentation and kept. Nothing here knows a session, a transport or the backend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from zorivest_rpc.serving.catalog.spec import Json, Mode, ToolSpec, required_fields
from zorivest_rpc.serving.modes.detect import Profile

__all__ = [
    "CLIENT",
    "EVERY_CLIENT",
    "OBSERVERS",
    "REVISION_FIELDS",
    "STOPS_ALL",
    "Clients",
    "Presentation",
    "RevisionFields",
    "concise",
    "definition",
    "fill",
    "identifiers",
    "kept_fields",
    "present_input",
    "presentation",
    "shorten",
    "to_object",
]

Definition = dict[str, Json]
OBSERVERS: Final = "devtools"  # the toolset whose `_meta` tells what was observed, and nothing else
CLIENT: Final = "clientId"  # the argument that every tool has where the server acts for several clients
EVERY_CLIENT: Final = "*"
STOPS_ALL: Final = "zorivest_emergency_stop"  # the one tool that can be called for every client at once


class RevisionFields(msgspec.Struct, frozen=True):
    """Which members of a tool definition a protocol revision knows."""

    annotations: bool = True
    title: bool = True
    meta: bool = True
    output_schema: bool = True
    param_headers: bool = False


REVISION_FIELDS: Mapping[str, RevisionFields] = {
    "2024-11-05": RevisionFields(annotations=False, title=False, meta=False, output_schema=False),
    "2025-03-26": RevisionFields(title=False, meta=False, output_schema=False),
    "2025-06-18": RevisionFields(),
    "2025-11-25": RevisionFields(),
    "2026-07-28": RevisionFields(param_headers=True),
}


class Clients(msgspec.Struct, frozen=True, cache_hash=True):
    """The client ids that a definition asks for, where the server acts for several; too many are not enumerated."""

    ids: tuple[str, ...] = ()
    required: bool = True
    in_header: bool = False


class Presentation(msgspec.Struct, frozen=True):
    """What a definition depends on besides the tool; equal presentations give equal bytes."""

    tier: Literal["minimal", "rich"]
    anthropic_marks: bool
    annotations: bool
    title: bool
    meta: bool
    output_schemas: bool
    allowed_callers: tuple[str, ...] = ("code_execution",)
    clients: Clients | None = None


def presentation(
    profile: Profile,
    revision: str,
    allowed_callers: tuple[str, ...] = ("code_execution",),
    clients: Clients | None = None,
) -> Presentation:
    """How definitions look to this client in this revision."""
    fields = REVISION_FIELDS[revision]
    if clients is not None and clients.in_header and not fields.param_headers:
        clients = replace(clients, in_header=False)
    return Presentation(
        tier=profile.tier,
        anthropic_marks=profile.mode is Mode.ANTHROPIC,
        annotations=fields.annotations,
        title=fields.title,
        meta=fields.meta and profile.traits.tool_meta,
        output_schemas=fields.output_schema and profile.implied.output_schemas,
        allowed_callers=allowed_callers,
        clients=clients,
    )


def definition(tool: ToolSpec, how: Presentation, *, eager: bool) -> Definition:
    """The tool as `tools/list` shows it, members in a fixed order. The schemas are the tool's own: do not change them.

    `eager` tools are loaded at once by clients that search; the others are marked deferred for them."""
    wire: Definition = {"name": tool.name}
    if how.title:
        wire["title"] = tool.title
    wire["description"] = tool.description.rich if how.tier == "rich" else tool.description.minimal
    wire["inputSchema"] = present_input(tool, how.clients)
    if how.output_schemas and tool.output_schema is not None and tool.output_schema.get("type") == "object":
        wire["outputSchema"] = tool.output_schema  # an array is wrapped before it is sent, so its schema would not fit
    if how.annotations:
        wire["annotations"] = (
            {"title": tool.title, **msgspec.to_builtins(tool.annotations)} if tool.hints is None else tool.hints
        )
    if how.meta and (meta := _meta(tool, how, eager=eager)):
        wire["_meta"] = meta
    return wire


def present_input(tool: ToolSpec, clients: Clients | None) -> dict[str, Json]:
    """The input schema as a client is shown it."""
    return tool.input_schema if clients is None or tool.tenancy else _with_client(tool, clients)


def _with_client(tool: ToolSpec, clients: Clients) -> dict[str, Json]:
    """The input schema with the client's id as its first property, and as the first that is required."""
    about: Json = {"type": "string", "description": "Client to act for. Call list_clients for valid values."}
    if clients.ids:
        about["enum"] = [*clients.ids, *([EVERY_CLIENT] if tool.name == STOPS_ALL else [])]
    if clients.in_header:
        about["x-mcp-header"] = "Client-Id"
    schema = dict(tool.input_schema)
    required = [CLIENT, *schema.get("required", ())] if clients.required else schema.get("required")
    shown: dict[str, Json] = {}
    for name, value in (schema | {"properties": schema.get("properties", {})}).items():
        if name == "properties":
            shown[name] = {CLIENT: about, **value}
            if required and "required" not in schema:
                shown["required"] = required
        elif name == "required":
            shown[name] = required
        else:
            shown[name] = value
    return shown


def _meta(tool: ToolSpec, how: Presentation, *, eager: bool) -> dict[str, Json]:
    meta: dict[str, Json] = {"com.zorivest/toolset": tool.toolset} if tool.toolset not in ("", OBSERVERS) else {}
    if not how.anthropic_marks:
        return meta
    meta["anthropic/alwaysLoad" if eager else "defer_loading"] = True
    if tool.keywords and not eager:
        meta["anthropic/searchHint"] = f"{tool.description.minimal} {', '.join(tool.keywords)}"
    if tool.confirm:
        meta["anthropic/requiresUserInteraction"] = True
    if tool.max_result_chars is not None:
        meta["anthropic/maxResultSizeChars"] = tool.max_result_chars
    if tool.ptc:
        meta["allowed_callers"] = list(how.allowed_callers)
    return meta


def to_object(payload: Json) -> dict[str, Json]:
    """A payload as the object that `structuredContent` must be: an array becomes `items`, a bare value `value`."""
    if isinstance(payload, dict):
        return payload
    return {"items": payload} if isinstance(payload, list) else {"value": payload}


def fill(template: str, values: Mapping[str, Json]) -> str:
    """A sentence of a tool file with `{name}` filled in; a name without a value stays visible as `?`."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1])
        if isinstance(found, bool):
            return "true" if found else "false"
        return "?" if found is None else str(found)

    return _FIELD.sub(value, template)


_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_UUID = re.compile(r"(?:urn:uuid:)?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\Z", re.IGNORECASE)
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")
_AUDIT_SUFFIXES = ("_at", "_hash", "_timestamp", "_datetime")
_AUDIT_NAMES = frozenset(
    ("timestamp", "created_by", "updated_by", "approved_by", "request_id", "batch_id", "import_batch_id", "etag")
)
_EVERYTHING = "*"


def identifiers(tools: Iterable[ToolSpec]) -> frozenset[str]:
    """Every identifier that some tool takes as input; a brief result keeps them, or the next call could not be made."""
    names = {name for tool in tools for name in tool.input_schema.get("properties", {})}
    return frozenset(name.removesuffix("s") for name in names if name.endswith(("_id", "_ids")))


def kept_fields(tool: ToolSpec, known_identifiers: frozenset[str]) -> frozenset[str] | None:
    """What a brief result of this tool never loses; None if it is to be left whole."""
    if _EVERYTHING in tool.keep:
        return None
    shown = {field.removesuffix("?").rpartition(".")[2] for fields in tool.brief.values() for field in fields}
    return frozenset(tool.keep) | shown | required_fields(tool.output_schema) | known_identifiers


def shorten(payload: dict[str, Json], brief: Mapping[str, Sequence[str]]) -> dict[str, Json]:
    """The payload with nothing but what the tool's file calls brief; null and "" say no more than nothing does."""
    members = brief.get("")
    return {
        name: [_shorten(entry, brief[name]) for entry in value] if name in brief and isinstance(value, list) else value
        for name, value in payload.items()
        if members is None or name in members
    }


def _shorten(entry: Json, fields: Sequence[str]) -> Json:
    if not isinstance(entry, dict):
        return entry
    shown: dict[str, Json] = {}
    for field in fields:
        *above, last = field.removesuffix("?").split(".")
        value: Json = entry
        for step in (*above, last):
            value = value.get(step) if isinstance(value, dict) else None
        if value is None or value == "" or (field.endswith("?") and not value):
            continue
        place = shown
        for step in above:
            place = place.setdefault(step, {})
        place[last] = value
    return shown


def concise(payload: Json, kept: frozenset[str] | None) -> Json:
    """The payload without UUIDs, timestamps and audit fields, at every depth, but with every kept field."""
    if kept is None:
        return payload
    if isinstance(payload, list):
        return [concise(entry, kept) for entry in payload]
    if not isinstance(payload, dict):
        return payload
    return {
        name: concise(value, kept)
        for name, value in payload.items()
        if _is_kept(name, kept) or not (_is_audit(name) or _is_noise(value))
    }


def _is_kept(name: str, kept: frozenset[str]) -> bool:
    """Also in the plural, and with a word in front: `entry_exec_ids` holds what `exec_id` means."""
    if name in kept:
        return True
    single = name.removesuffix("s")
    if not single.endswith("_id"):
        return False
    return any(single == known or single.endswith("_" + known) for known in kept)


def _is_audit(name: str) -> bool:
    return name in _AUDIT_NAMES or name.endswith(_AUDIT_SUFFIXES)


def _is_noise(value: Json) -> bool:
    if isinstance(value, str):
        return bool(_UUID.match(value) or _INSTANT.match(value))
    return (
        isinstance(value, list) and bool(value) and all(isinstance(entry, str) and _is_noise(entry) for entry in value)
    )
