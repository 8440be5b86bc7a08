"""The prompts, resources and templates of the upstreams: asked for, and what becomes of each, with its reason.

The rules are those of tools: allowlist, name, scan and pin, in this order. What a person accepted with a pin is
accepted for good; what is held is neither listed nor read."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import ProtocolBroken, UpstreamError
from zorivest_rpc.gateway.examine import HELD, drop_words, note_texts
from zorivest_rpc.gateway.naming import assign_names, published_uri
from zorivest_rpc.gateway.patterns import is_literal
from zorivest_rpc.gateway.pins import Kind, Pins, Verdict, identity_of
from zorivest_rpc.gateway.scan import Findings, Reading, settle
from zorivest_rpc.gateway.schemas import RESERVED_PROPERTY
from zorivest_rpc.gateway.upstream import Upstream
from zorivest_rpc.mcp.client.lists import Listing

__all__ = [
    "KINDS",
    "NOTHING",
    "Extras",
    "Judge",
    "Part",
    "Piece",
    "examine_extras",
    "judge_extras",
    "names_upstream",
    "prompt_arguments",
    "read_extras",
]

Part: TypeAlias = Literal["prompt", "resource", "template"]
Judge: TypeAlias = Callable[["Extras"], Mapping[str, Mapping[str, Verdict]]]
KINDS: Final[Mapping[Part, Kind]] = {"prompt": "prompt", "resource": "resource", "template": "resource"}
_log: Final = logging.getLogger(__name__)


class Extras(msgspec.Struct, frozen=True):
    """What one server offers besides tools. `verdicts` are those of the pins, by kind and name."""

    prompts: Listing = Listing(())
    resources: Listing = Listing(())
    templates: Listing = Listing(())
    verdicts: Mapping[str, Mapping[str, Verdict]] = {}
    has_resources: bool = False
    can_complete: bool = False
    can_follow: bool = False

    def listing(self, part: Part) -> Listing:
        return {"prompt": self.prompts, "resource": self.resources, "template": self.templates}[part]

    def verdict(self, part: Part, name: str) -> Verdict | None:
        return self.verdicts.get(KINDS[part], {}).get(name)


NOTHING: Final = Extras()


class Piece(NamedTuple):
    """One prompt, resource or template; `upstream` is its name or URI at the server."""

    part: Part
    server: str
    upstream: str
    state: Literal["published", "held", "dropped"]
    published: str | None = None
    reason: str | None = None
    detail: str = ""
    definition: Mapping[str, Any] = {}
    reading: Reading | None = None
    findings: Findings = Findings()


async def read_extras(upstream: Upstream, server: Server) -> Extras:
    """Every list that the server has and an allowlist lets through. One that cannot be read is empty, and told."""
    if upstream.welcome is None:
        return NOTHING
    offered = upstream.welcome.offered
    has_prompts = offered.prompts and _may_offer(server, "prompt")
    has_resources = offered.resources and _may_offer(server, "resource")
    return Extras(
        prompts=await _read(server, upstream.list_prompts) if has_prompts else Listing(()),
        resources=await _read(server, upstream.list_resources) if has_resources else Listing(()),
        templates=await _read(server, upstream.list_templates) if has_resources else Listing(()),
        has_resources=has_resources,
        can_complete=offered.completions,
        can_follow=has_resources and offered.resources_subscribe,
    )


def _may_offer(server: Server, kind: str) -> bool:
    allowed = {"prompt": server.prompt_allowlist, "resource": server.resource_allowlist}[kind]
    return server.tool_allowlist is None if allowed is None else bool(allowed)


async def _read(server: Server, ask: Callable[[], Awaitable[Listing]]) -> Listing:
    """A server that has no templates may not know their method; its tools are none the worse for it."""
    try:
        return await ask()
    except (UpstreamError, ProtocolBroken) as error:
        _log.info('MCP server "%s": a list of prompts or resources cannot be read: %s', server.name, error.problem)
        return Listing(())


def judge_extras(profile: Profile, server: Server, extras: Extras, pins: Pins) -> Mapping[str, Mapping[str, Verdict]]:
    """Resources and templates are pinned together: they share a kind, and the first discovery pins all of it."""
    offered: dict[Kind, dict[str, Mapping[str, Any]]] = {}
    for part, kind in KINDS.items():
        listing = extras.listing(part)
        if listing.items:
            offered.setdefault(kind, {}).update({item.name: item.definition for item in listing.items})
    lists = {"prompt": server.prompt_allowlist, "resource": server.resource_allowlist}
    return {
        kind: pins.judge(
            identity_of(profile, server),
            profile.pin,
            kind,
            definitions,
            [entry for entry in lists[kind] or () if is_literal(entry)],
        )
        for kind, definitions in offered.items()
    }


def examine_extras(
    profile: Profile,
    offers: Mapping[str, Extras],
    our_prompts: Collection[str],
    tool_owners: Mapping[str, str],
    reserved: Collection[str] = (),
) -> tuple[Piece, ...]:
    """All of every server, in file order. `tool_owners` are the published tools with the server that has each, ours
    with none: what a text may not steer are the tools of others. No prompt may have an argument that is `reserved`."""
    pieces: list[Piece] = []
    taken: set[str] = set()
    allowed: dict[str, dict[str, Piece]] = {}
    for server in profile.mcp_servers:
        extras = offers.get(server.name)
        if extras is None:
            continue
        foreign = {name for name, owner in tool_owners.items() if owner != server.name}
        prompts: dict[str, Piece] = {}
        for piece in _pieces(server, extras, reserved):
            if piece.state == "dropped":
                pieces.append(piece)
            elif piece.part == "prompt":
                prompts[piece.upstream] = piece
            else:
                published = published_uri(server, piece.upstream, taken)
                taken.add(published)
                pieces.append(_judge(piece._replace(published=published), extras, foreign))
        allowed[server.name] = prompts
    names = assign_names(profile, allowed, our_prompts, kind="prompt")
    for dropped in names.dropped:
        piece = allowed[dropped.server][dropped.upstream]
        words = drop_words(dropped)
        pieces.append(piece._replace(state="dropped", published=dropped.published, reason=dropped.reason, detail=words))
    for named in names.named:
        piece = allowed[named.server][named.upstream]._replace(published=named.published)
        foreign = {name for name, owner in tool_owners.items() if owner != named.server}
        pieces.append(_judge(piece, offers[named.server], foreign))
    place = {server.name: number for number, server in enumerate(profile.mcp_servers)}
    return tuple(sorted(pieces, key=lambda piece: (place[piece.server], piece.part, piece.published or "~")))


def _pieces(server: Server, extras: Extras, reserved: Collection[str]) -> Iterator[Piece]:
    for part, kind in KINDS.items():
        listing = extras.listing(part)
        for drop in listing.drops:
            yield Piece(part, server.name, drop.name, "dropped", None, drop.reason, drop.detail or drop.reason)
        for item in listing.items:
            piece = Piece(part, server.name, item.name, "published", definition=item.definition)
            if not server.allows(kind, item.name):
                piece = piece._replace(state="dropped", reason="not_allowed", detail=f"not in {kind}_allowlist")
            elif part == "prompt" and (ours := _clashing(server, item.definition, reserved)):
                detail = f'its argument "{ours}" is one of ours; name another in argument_renames'
                piece = piece._replace(state="dropped", reason=RESERVED_PROPERTY, detail=detail)
            else:
                piece = piece._replace(reading=note_texts(item))
            yield piece


def prompt_arguments(server: Server, definition: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The arguments of a prompt under the names that our clients give them."""
    listed = definition.get("arguments")
    renames = server.argument_renames
    return [
        {**each, "name": renames.get(each["name"], each["name"])}
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    ]


def names_upstream(server: Server, definition: Mapping[str, Any]) -> Mapping[str, str]:
    """What the server calls each argument of a prompt that it knows by another name than our clients."""
    listed = definition.get("arguments")
    own = [each.get("name") for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict)]
    return {published: name for name, published in server.argument_renames.items() if name in own}


def _clashing(server: Server, definition: Mapping[str, Any], reserved: Collection[str]) -> str | None:
    return next((each["name"] for each in prompt_arguments(server, definition) if each["name"] in reserved), None)


def _judge(piece: Piece, extras: Extras, foreign: Collection[str]) -> Piece:
    verdict = extras.verdict(piece.part, piece.upstream)
    assert piece.reading is not None
    findings = settle(piece.reading, foreign)
    piece = piece._replace(findings=findings)
    if verdict is None:  # never judged: nothing is published that the pins have not seen
        return piece._replace(state="held", reason="unpinned", detail=HELD["unpinned"])
    if verdict.held is not None:
        return piece._replace(state="held", reason=verdict.held, detail=HELD[verdict.held])
    if findings.hold and not verdict.accepted:
        return piece._replace(state="held", reason="scan", detail="; ".join(findings.hold))
    return piece
