"""The one function that builds a catalogue: our own tools and those of other servers, each with its policy.

Rule 1: no other code makes `Definitions` with a tool of another server in them, so no tool escapes its policy.
Rule 2: nothing disappears in silence: what is not published stands in a report with its reason.
Rule 3: what is built depends on what the servers offer and on the configuration, never on the order of connecting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.naming import annotations_for, assign_names, describe
from zorivest_rpc.gateway.pins import Verdict
from zorivest_rpc.gateway.policy import Decision, Subject, classify, decide
from zorivest_rpc.gateway.scan import clean, scan
from zorivest_rpc.gateway.schemas import Unservable, check_schema, rename_arguments
from zorivest_rpc.gateway.toolsets import list_toolsets
from zorivest_rpc.mcp.client.lists import Drop, Item
from zorivest_rpc.serving.catalog.spec import Annotations, Definitions, Description, ToolSpec

__all__ = ["FORWARD", "Catalogue", "Offered", "Published", "Report", "build"]

FORWARD: Final = "forward"  # the handler of every tool of another server
TOKEN: Final = "confirmation_token"
_TOKEN_PROPERTY: Final = {
    "type": "string",
    "description": "From get_confirmation_token, where the client shows no form.",
}
_MINIMAL: Final = 100  # characters of a description where a client wants it short


class Offered(msgspec.Struct, frozen=True):
    """What one server is known to offer now."""

    server: Server
    status: str
    error: str | None = None
    tools: tuple[Item, ...] = ()
    drops: tuple[Drop, ...] = ()
    verdicts: Mapping[str, Verdict] = {}
    """What the pins make of each tool, by its name at the server."""


class Published(msgspec.Struct, frozen=True):
    """A tool of another server under its published name. `hash` is that of the definition it was built from."""

    server: Server
    upstream: str
    spec: ToolSpec
    schema: dict[str, Any]  # the server's own, before arguments were renamed
    hash: str
    decision: Decision
    repeatable: bool
    held: str | None = None


class Report(NamedTuple):
    """What became of one tool; `published` is None where it got no name."""

    server: str
    upstream: str
    published: str | None
    decision: Decision | None = None
    dropped: str | None = None  # the reason
    held: str | None = None
    detail: str = ""
    warnings: tuple[str, ...] = ()


class Catalogue(msgspec.Struct, frozen=True):
    """An immutable snapshot: what is listed, the table that calls are looked up in, and what became of every tool."""

    definitions: Definitions
    table: Mapping[str, Published]
    reports: tuple[Report, ...]


class _Fit(NamedTuple):
    """A tool that can be served, before it has a name."""

    item: Item
    schema: dict[str, Any]


def build(base: Definitions, profile: Profile, offered: Iterable[Offered]) -> Catalogue:
    """Allowlist, schema, name, scan and pin, policy: in this order for every tool of every server."""
    known = {each.server.name: each for each in offered}
    built_in = {spec.name for spec in (*base.tools, *base.meta_tools)}
    reports: list[Report] = []
    fits: dict[str, dict[str, _Fit]] = {}
    for each in known.values():
        reports += [
            Report(each.server.name, drop.name, None, None, drop.reason, None, drop.detail) for drop in each.drops
        ]
        fits[each.server.name] = {
            item.name: fit for item in each.tools if (fit := _fit(each.server, item, reports)) is not None
        }
    names = assign_names(profile, {name: list(fit) for name, fit in fits.items()}, built_in)
    reports += [
        Report(drop.server, drop.upstream, drop.published, None, drop.reason, None, drop.winner or "")
        for drop in names.dropped
    ]
    owners = dict.fromkeys(built_in, "") | {each.published: each.server for each in names.named}
    table: dict[str, Published] = {}
    for named in names.named:
        server, fit = known[named.server].server, fits[named.server][named.upstream]
        foreign = [name for name, owner in owners.items() if owner != server.name]
        published, warnings = _publish(
            profile, server, fit, named.published, known[server.name].verdicts[named.upstream], foreign
        )
        table[named.published] = published
        warnings = (*((named.warning,) if named.warning else ()), *warnings)
        reports.append(
            Report(server.name, named.upstream, named.published, published.decision, None, published.held, "", warnings)
        )
    return Catalogue(_join(base, profile, known, table), table, tuple(reports))


def _fit(server: Server, item: Item, reports: list[Report]) -> _Fit | None:
    problem: Unservable | None = None
    if not server.allows("tool", item.name):
        problem = Unservable("allowlist", "not in tool_allowlist")
    schema = item.definition["inputSchema"]
    problem = problem or check_schema(schema)
    output = item.definition.get("outputSchema")
    if problem is None and output is not None:
        problem = check_schema(output, is_output=True)
    if problem is None:
        renamed = rename_arguments(schema, server.argument_renames)
        if not isinstance(renamed, Unservable):
            return _Fit(item, renamed)
        problem = renamed
    reports.append(Report(server.name, item.name, None, None, problem.reason, None, problem.problem))
    return None


def _publish(
    profile: Profile,
    server: Server,
    fit: _Fit,
    name: str,
    verdict: Verdict,
    foreign: list[str],
) -> tuple[Published, tuple[str, ...]]:
    definition = fit.item.definition
    findings = scan(definition, foreign)
    held = verdict.held or ("scan" if findings.hold and not verdict.accepted else None)
    received = definition.get("annotations")
    trusted: Mapping[str, Any] = received if server.trust_annotations and isinstance(received, Mapping) else {}
    kind = classify("upstream", received if isinstance(received, Mapping) else None, trusted=server.trust_annotations)
    decision = decide(profile, Subject(name, "upstream", kind, verdict.changed))
    confirms = decision.verdict == "confirm"
    schema = _with_token(fit.schema) if confirms and profile.confirmation_channel in ("auto", "token") else fit.schema
    output = definition.get("outputSchema")
    title = definition.get("title")
    told = definition.get("description")
    words = describe(server, clean(told) if isinstance(told, str) else fit.item.name)
    spec = ToolSpec(
        name=name,
        title=clean(title) if isinstance(title, str) and title.strip() else fit.item.name,
        description=Description(words if len(words) <= _MINIMAL else words[: _MINIMAL - 1] + "…", words),
        input_schema=schema,
        output_schema=output,
        annotations=Annotations(
            trusted.get("readOnlyHint") is True,
            kind == "D" or trusted.get("destructiveHint") is not False,
            trusted.get("idempotentHint") is True,
            trusted.get("openWorldHint") is not False,
        ),
        hints=annotations_for(server, received),
        confirm=confirms,
        network_bound=True,
        python=FORWARD,
        toolset=server.toolset,
        upstream=server.name,
    )
    repeatable = trusted.get("readOnlyHint") is True or trusted.get("idempotentHint") is True
    published = Published(
        server, fit.item.name, spec, definition["inputSchema"], verdict.hash, decision, repeatable, held
    )
    return published, findings.warn


def _with_token(schema: dict[str, Any]) -> dict[str, Any]:
    """The token is the last property and optional (publish pipeline, step 3)."""
    return {**schema, "properties": {**schema.get("properties", {}), TOKEN: _TOKEN_PROPERTY}}


def _join(
    base: Definitions, profile: Profile, known: Mapping[str, Offered], table: Mapping[str, Published]
) -> Definitions:
    """Our own first, then servers in the order of the file, their tools by published name."""

    def look(server: Server) -> tuple[int, str, str | None]:
        each = known.get(server.name) or Offered(server, "connecting")
        count = sum(1 for tool in table.values() if tool.server.name == server.name and _is_offered(tool))
        return count, each.status, each.error

    return msgspec.structs.replace(
        base,
        toolsets=(*base.toolsets, *list_toolsets(profile, look)),
        tools=(*base.tools, *(tool.spec for tool in table.values() if _is_offered(tool))),
        withheld=tuple(tool.spec for tool in table.values() if not _is_offered(tool)),
    )


def _is_offered(tool: Published) -> bool:
    return tool.held is None and tool.decision.verdict != "deny"
