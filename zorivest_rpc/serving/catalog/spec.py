"""The typed face of the files below `schemas/`: tools, toolsets and clients as frozen values.

It owns what a file may say and what a short form means; it reads nothing, and rules between files are not its own."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

__all__ = [
    "DRY_RUN",
    "Annotations",
    "Cause",
    "ClientSpec",
    "ClientTable",
    "Definitions",
    "Description",
    "Json",
    "Mode",
    "ModeSpec",
    "RestSpec",
    "RouteFile",
    "Ruling",
    "ToolRoute",
    "ToolSpec",
    "ToolsetSpec",
    "Traits",
    "TraitsPatch",
    "defaults",
    "pick",
    "placeholders",
    "required_fields",
    "routes",
    "spellings",
]

Json = Any  # opaque JSON that passes through

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
Cause = Literal["write", "destructive", "open_world", "marked"]
"""What about a tool makes a client ask its user: it writes, a hint says so, or `requiresUserInteraction` marks it."""
DRY_RUN: Final = "dry_run"  # chooses the preview's route, so it is not sent
_TOKEN = "confirmation_token"  # consumed by this server, so no route ever carries it


class Mode(enum.StrEnum):
    """How the server presents itself to a client."""

    ANTHROPIC = "anthropic"
    DYNAMIC = "dynamic"
    STATIC = "static"


class Description(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tool says of itself, in two lengths."""

    minimal: str
    rich: str


class Annotations(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The four hints; a tool file states all of them, because the protocol's own defaults are the dangerous values."""

    read_only_hint: bool
    destructive_hint: bool
    idempotent_hint: bool
    open_world_hint: bool


class RouteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file part of a multipart upload: its bytes come from base64 text or from a path on this machine."""

    field: str
    source: Literal["base64", "local_path"]
    param: str
    filename: str | None = None
    """Stem of the part's file name for base64 text; a local path brings its own base name."""
    content_type_param: str | None = None
    """The input that states the part's media type; it is not sent as a field of its own."""


class RestSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A route with what a string cannot say; the maps go from wire name to input name and list exceptions only."""

    route: str
    path_params: dict[str, str] = {}
    query_params: dict[str, str] = {}
    body_params: dict[str, str] = {}
    body_root: str | None = None
    fixed_params: dict[Literal["query", "body"], dict[str, Json]] = {}
    file: RouteFile | None = None
    preview: str | None = None
    """The route that takes the same request and answers what it would do; an input `dry_run` asks for it."""
    not_forwarded: tuple[str, ...] = ()
    value_aliases: dict[str, dict[str, str | None]] = {}


class Missing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is told where the backend does not know the thing that was named: `problem; next`."""

    problem: str
    """Without a full stop; `{input}` is filled with that input."""
    next: str


class Ruling(msgspec.Struct, frozen=True):
    """What the operator's policy says of a tool, where that is more than what the tool's own file says."""

    verdict: Literal["allow", "confirm", "deny"]
    reason: str | None = None
    """Why each call is confirmed, whichever client makes it."""
    is_spared: bool = False
    """A list spares a confirmation."""
    mints: bool = False
    """This server issues the tokens for it, since the backend does not know it as one that is confirmed."""


class ToolSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One tool file, or a tool of another MCP server in the same form.

    `toolset` is the directory the file lies in. What is spelt with a `$` is filled in by code; a file may not have it.
    """

    name: str
    title: str
    order: int = 1000
    also_in: tuple[str, ...] = ()
    description: Description
    keywords: tuple[str, ...] = ()
    input_schema: dict[str, Json] = msgspec.field(name="inputSchema")
    output_schema: dict[str, Json] | None = msgspec.field(name="outputSchema", default=None)
    annotations: Annotations
    guarded: bool = True
    guard_offline: Literal["deny", "allow"] = "deny"
    confirm: bool = False
    confirm_typed: tuple[str, ...] = ()
    confirm_above: int | None = None
    """Confirmed only where its preview says that it would write more than this many entries."""
    network_bound: bool = False
    task: Literal["forbidden", "optional", "required"] = "forbidden"
    ptc: bool = False
    rest: str | tuple[str | RestSpec, ...] | RestSpec | None = None
    python: str | None = None
    dynamic_defaults: dict[str, Literal["current_year"]] = {}
    message: str | None = None
    not_found: Missing | None = None
    check_with: str | None = None
    progress: str | None = None
    keep: tuple[str, ...] = ()
    brief: dict[str, tuple[str, ...]] = {}
    max_result_chars: int | None = None
    tenancy: bool = False
    """There only where the server acts for several clients, and not itself a call for one of them."""
    exposure: dict[str, Json] | None = None
    """When the tool and its modes are listed, in the rule language of `exposure/rules.py`."""
    toolset: str = msgspec.field(name="$toolset", default="")
    upstream: str = msgspec.field(name="$upstream", default="")
    """The MCP server that it comes from; empty for a tool of our own."""
    hints: dict[str, Json] | None = msgspec.field(name="$hints", default=None)
    """The annotations that are published where they are not the four of a tool file."""
    upstream_name: str = msgspec.field(name="$upstream_name", default="")
    """What the server calls the tool."""
    is_pinned: bool = msgspec.field(name="$is_pinned", default=False)
    clients: frozenset[str] = msgspec.field(name="$clients", default=frozenset())
    """The clients that have it, where not every one does."""
    ruling: Ruling | None = msgspec.field(name="$ruling", default=None)
    """None where the tool's own file decides."""

    @property
    def toolsets(self) -> tuple[str, ...]:
        """Every toolset the tool is a member of, its home first."""
        return (self.toolset, *self.also_in)

    @property
    def is_gated(self) -> bool:
        """Whether a call can need a confirmation."""
        return self.confirm or self.confirm_above is not None

    @property
    def is_denied(self) -> bool:
        return self.ruling is not None and self.ruling.verdict == "deny"

    @property
    def verdict(self) -> Literal["allow", "confirm", "deny"]:
        """What becomes of a call whose client is not known to ask its user by itself."""
        return self.ruling.verdict if self.ruling is not None else "confirm" if self.is_gated else "allow"

    @property
    def reads_only(self) -> bool:
        return self.annotations.read_only_hint


class ToolsetSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A named group of tools; which tools is said by the tools' own files."""

    name: str
    description: str
    always_loaded: bool = False
    default: bool = False
    opt_in: bool = False
    """It exists only where it is named, and `all` does not name it."""
    upstream: str = msgspec.field(name="$upstream", default="")
    """The MCP server whose tools these are; empty for a toolset of our own."""
    status: str = msgspec.field(name="$status", default="")
    error: str | None = msgspec.field(name="$error", default=None)
    """Why the server's tools cannot be had now."""


class Traits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client honours, apart from the mode it gets."""

    list_changed: Literal["yes", "next-turn", "no", "unknown"] = "unknown"
    asks_for: tuple[Cause, ...] = ()
    """What makes the client ask its user before a call; empty unless it was seen or documented."""
    tool_limit: int | None = None
    structured: Literal["preferred", "ignored", "unknown"] = "unknown"
    instructions_limit: int = 2048
    compression: Literal["detailed", "concise"] = "detailed"
    tool_meta: bool = True
    """False where a client has refused a list because its tools carried `_meta`."""


class TraitsPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Traits of the versions of a client before `version`."""

    version: str
    traits: dict[str, Json]


class ClientSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client family: the names it really sends (normalised), its mode and its traits."""

    id: str
    title: str
    mode: Mode
    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    traits: Traits = Traits()
    before: tuple[TraitsPatch, ...] = ()
    confidence: Literal["A", "B", "C"] = "C"


class ModeSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a mode implies for every client in it."""

    tier: Literal["minimal", "rich"]
    results: Literal["detailed", "concise", "by-client"]
    output_schemas: bool
    lists_all: bool
    """Without a request every toolset is listed, all but the eager ones marked deferred."""


class ClientTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`clients.json`: observed facts about clients, as of a date."""

    date: str
    modes: dict[Mode, ModeSpec]
    clients: tuple[ClientSpec, ...]
    unknown: ClientSpec
    vendor_words: tuple[str, ...] = ()
    generic_names: tuple[str, ...] = ()


class Definitions(msgspec.Struct, frozen=True):
    """The catalogue: everything below `schemas/`, and what other servers add to it, in the order of listing."""

    toolsets: tuple[ToolsetSpec, ...]
    tools: tuple[ToolSpec, ...]
    meta_tools: tuple[ToolSpec, ...]
    clients: ClientTable
    state_names: dict[str, dict[str, str]] = {}
    """`exposure/state.json`: the counters, flags and sets that the tools' exposure may name."""
    withheld: tuple[ToolSpec, ...] = ()
    """Tools that exist and are not offered: a call of one is told why."""
    of_tenancy: tuple[ToolSpec, ...] = ()
    """What joins the tools where the server acts for several clients."""


class ToolRoute(msgspec.Struct, frozen=True):
    """A route with nothing left implicit: where each input of the tool goes."""

    method: str
    path: str
    path_params: dict[str, str]
    query_params: dict[str, str]
    body_params: dict[str, str]
    body_root: str | None
    fixed_params: dict[Literal["query", "body"], dict[str, Json]]
    file: RouteFile | None
    preview: str | None
    value_aliases: dict[str, dict[str, str | None]]

    @property
    def multipart(self) -> bool:
        return self.file is not None


def routes(spec: ToolSpec) -> tuple[ToolRoute, ...]:
    """The routes of a tool, the preferred one first; empty for a tool with logic of its own.

    An input named in a path goes there; what no map, file or body root names goes under its own name to the query of
    a GET or DELETE and to the body of anything else. Where a tool has several routes, an input that only chooses
    between them (a placeholder of a sibling) is not sent a second time."""
    if spec.rest is None:
        return ()
    entries = spec.rest if isinstance(spec.rest, tuple) else (spec.rest,)
    full = [entry if isinstance(entry, RestSpec) else RestSpec(entry) for entry in entries]
    choosers = {rest.path_params.get(wire, wire) for rest in full for wire in placeholders(rest.route)}
    inputs = spec.input_schema.get("properties", {})
    return tuple(_expand(rest, inputs, choosers) for rest in full)


def _expand(rest: RestSpec, inputs: Iterable[str], choosers: set[str]) -> ToolRoute:
    method, _, path = rest.route.partition(" ")
    path_params = {wire: rest.path_params.get(wire, wire) for wire in placeholders(path)}
    query, body = dict(rest.query_params), dict(rest.body_params)
    spoken_for = choosers | {*query.values(), *body.values(), *rest.not_forwarded, _TOKEN}
    if rest.body_root is not None:
        spoken_for.add(rest.body_root)
    if rest.preview is not None:
        spoken_for.add(DRY_RUN)
    if rest.file is not None:
        spoken_for |= {rest.file.param, rest.file.content_type_param or rest.file.param}
    target = query if method in ("GET", "DELETE") else body
    target.update({name: name for name in inputs if name not in spoken_for})
    return ToolRoute(
        method=method,
        path=path,
        path_params=path_params,
        query_params=query,
        body_params=body,
        body_root=rest.body_root,
        fixed_params=rest.fixed_params,
        file=rest.file,
        preview=rest.preview and rest.preview.partition(" ")[2],
        value_aliases=rest.value_aliases,
    )


def placeholders(path: str) -> list[str]:
    """The names in braces, in order."""
    return _PLACEHOLDER.findall(path)


def pick(choices: Sequence[ToolRoute], arguments: Mapping[str, Json]) -> ToolRoute:
    """The first route whose placeholders are all given and not empty; else the last, which needs the fewest."""
    for route in choices:
        if all(arguments.get(name) not in (None, "") for name in route.path_params.values()):
            return route
    return choices[-1]


def defaults(spec: ToolSpec) -> dict[str, Json]:
    """The constant defaults of the inputs; those that depend on the date are in `dynamic_defaults`."""
    properties: dict[str, Json] = spec.input_schema.get("properties", {})
    return {name: each["default"] for name, each in properties.items() if isinstance(each, dict) and "default" in each}


def spellings(spec: ToolSpec) -> dict[str, dict[str, str]]:
    """By input: the spellings of a backend that are no values of the tool's enumeration, and the values they stand for.

    Other entries of `value_aliases` say how a value of the enumeration is spelt elsewhere; clients never send those."""
    found: dict[str, dict[str, str]] = {}
    for rest in spec.rest if isinstance(spec.rest, tuple) else (spec.rest,):
        for name, known in rest.value_aliases.items() if isinstance(rest, RestSpec) else ():
            values = spec.input_schema["properties"][name].get("enum", ())
            extra = {alias: value for alias, value in known.items() if value in values and alias not in values}
            if extra:
                found[name] = extra  # type: ignore[assignment]
    return found


def required_fields(schema: Json) -> frozenset[str]:
    """Every field name that a schema requires somewhere, at any depth."""
    found: set[str] = set()
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            required = node.get("required")
            if isinstance(required, list):
                found.update(name for name in required if isinstance(name, str))
            pending.extend(node.values())
        elif isinstance(node, list):
            pending.extend(node)
    return frozenset(found)
