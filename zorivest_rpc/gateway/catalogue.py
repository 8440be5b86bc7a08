"""What the servers offer, made tools of ours: examined, named, judged, and handed to the function that assembles.

Rule 1: `assembly.assemble` alone makes a catalogue, so no tool escapes its policy.
Rule 2: nothing disappears in silence: what is not published stands among the examined with its reason.
Rule 3: what is built depends on what the servers offer and on the configuration, never on the order of connecting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from zorivest_rpc.gateway.assembly import assemble, ruling_of, with_token
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.examine import Examined, examine_tools
from zorivest_rpc.gateway.extras import NOTHING, Extras
from zorivest_rpc.gateway.naming import annotations_for, describe
from zorivest_rpc.gateway.pins import Identity, Kind, Verdict
from zorivest_rpc.gateway.policy import Decision
from zorivest_rpc.gateway.scan import clean, clean_within
from zorivest_rpc.mcp.client.lists import Listing
from zorivest_rpc.serving.catalog.approval import TOKEN, takes_tokens
from zorivest_rpc.serving.catalog.spec import Annotations, Definitions, Description, ToolSpec

__all__ = ["FORWARD", "TOKEN", "Catalogue", "Offered", "Published", "build", "state_of"]

FORWARD: Final = "forward"  # the handler of every tool of another server
_MINIMAL: Final = 100  # characters of a description where a client wants it short
_LOOKED_AT: Final = 8_192  # characters of a description, of which at most 1024 are published


class Offered(msgspec.Struct, frozen=True):
    """What one server is known to offer now."""

    server: Server
    status: str
    error: str | None = None
    listing: Listing = Listing(())
    verdicts: Mapping[str, Verdict] = {}
    """What the pins make of each tool, by its name at the server."""
    extras: Extras = NOTHING
    is_listed: bool = True
    """Whether clients see the tools. Where they do not, a call of one says why."""


class Published(msgspec.Struct, frozen=True):
    """A tool of another server under its published name. `hash` is that of the definition it was built from."""

    server: Server
    upstream: str
    spec: ToolSpec
    schema: Mapping[str, Any]  # the server's own, before arguments were renamed
    hash: str
    decision: Decision
    repeatable: bool
    held: str | None = None
    is_listed: bool = True
    is_gone: bool = False  # its server offers it no longer


class Catalogue(msgspec.Struct, frozen=True):
    """An immutable snapshot: what is listed, the table that calls are looked up in, and what became of every tool."""

    definitions: Definitions
    table: Mapping[str, Published]
    examined: tuple[Examined, ...]


class _Judged:
    """What the pins said when each server was listed: building a catalogue reads no file."""

    def __init__(self, offers: Mapping[str, Offered]) -> None:
        self._offers = offers

    def judge(
        self,
        identity: Identity,
        mode: str,
        kind: Kind,
        offered: Mapping[str, Mapping[str, Any]],
        named: Collection[str] = (),
    ) -> Mapping[str, Verdict]:
        return self._offers[identity.server].verdicts


def build(
    base: Definitions, profile: Profile, offered: Iterable[Offered], gone: Mapping[str, Published] = {}
) -> Catalogue:
    """What the servers offer, examined, and joined with our own. A client may still call what is `gone`."""
    known = {each.server.name: each for each in offered}
    built_in = {spec.name for spec in (*base.tools, *base.meta_tools)}
    listings = {name: each.listing for name, each in known.items()}
    examined = examine_tools(profile, listings, built_in, _Judged(known))
    table = {
        each.published: _publish(profile, known[each.server], each)
        for each in examined
        if each.state != "dropped" and each.published is not None
    }
    ordered = {name: table[name] for name in _order(profile, table)}
    withdrawn = {name: tool for name, tool in gone.items() if name not in ordered and name not in built_in}
    ordered |= {name: _withdraw(tool) for name, tool in withdrawn.items()}
    return Catalogue(_join(base, profile, known, ordered), ordered, examined)


def _withdraw(tool: Published) -> Published:
    """It is refused before anything is asked."""
    return msgspec.structs.replace(tool, spec=msgspec.structs.replace(tool.spec, confirm=False), is_gone=True)


def _order(profile: Profile, table: Mapping[str, Published]) -> list[str]:
    place = {server.name: number for number, server in enumerate(profile.mcp_servers)}
    return sorted(table, key=lambda name: (place[table[name].server.name], name))


def _publish(profile: Profile, offered: Offered, tool: Examined) -> Published:
    server, is_listed = offered.server, offered.is_listed
    definition, decision, verdict = tool.definition, tool.decision, tool.verdict
    assert tool.published is not None
    assert decision is not None
    assert verdict is not None
    received = definition.get("annotations")
    trusted: Mapping[str, Any] = received if server.trust_annotations and isinstance(received, Mapping) else {}
    confirms = decision.verdict == "confirm"
    held = tool.reason if tool.state == "held" else None
    # A person may have accepted what the scan found; what cannot be seen is taken out all the same.
    readable: Callable[[Any], Any] = clean_within if tool.findings.hold else _as_it_is
    schema = readable(dict(tool.schema))
    title, told = definition.get("title"), definition.get("description")
    words = describe(server, clean(told[:_LOOKED_AT]) if isinstance(told, str) else tool.upstream)
    spec = ToolSpec(
        name=tool.published,
        title=clean(title) if isinstance(title, str) and title.strip() else tool.upstream,
        description=Description(words if len(words) <= _MINIMAL else words[: _MINIMAL - 1] + "…", words),
        input_schema=with_token(schema) if confirms and takes_tokens(profile.confirmation_channel) else schema,
        output_schema=readable(definition.get("outputSchema")),
        annotations=Annotations(
            trusted.get("readOnlyHint") is True,
            trusted.get("destructiveHint") is not False,
            trusted.get("idempotentHint") is True,
            trusted.get("openWorldHint") is not False,
        ),
        hints=readable(annotations_for(server, received)),
        confirm=confirms and held is None and is_listed,  # else it is refused before anything is asked
        network_bound=True,
        python=FORWARD,
        toolset=server.toolset,
        upstream=server.name,
        upstream_name=tool.upstream,
        is_pinned=verdict.held is None and not verdict.changed and profile.pin != "off",
        ruling=ruling_of(decision, mints=True),
    )
    repeatable = trusted.get("readOnlyHint") is True or trusted.get("idempotentHint") is True
    schema_of_server, hash = definition["inputSchema"], verdict.hash
    return Published(server, tool.upstream, spec, schema_of_server, hash, decision, repeatable, held, is_listed)


def _as_it_is(value: Any) -> Any:
    return value


def _join(
    base: Definitions, profile: Profile, known: Mapping[str, Offered], table: Mapping[str, Published]
) -> Definitions:
    """Our own first, then servers in the order of the file, their tools by published name."""

    def look(server: Server) -> tuple[int, str, str | None]:
        each = known.get(server.name) or Offered(server, "connecting")
        own = [tool for tool in table.values() if tool.server.name == server.name]
        return sum(map(_is_offered, own)), state_of(each.status, own), each.error

    return assemble(
        base,
        profile,
        [tool.spec for tool in table.values() if _is_offered(tool)],
        [tool.spec for tool in table.values() if not _is_offered(tool)],
        look,
    )


def state_of(status: str, tools: Iterable[Published]) -> str:
    """The state of a server with these tools; that all are held, by their pins or by the scan, is one of its own."""
    present = [tool for tool in tools if not tool.is_gone]
    return "quarantined" if status == "ready" and present and all(tool.held for tool in present) else status


def _is_offered(tool: Published) -> bool:
    return tool.held is None and tool.is_listed and not tool.is_gone and tool.decision.verdict != "deny"
