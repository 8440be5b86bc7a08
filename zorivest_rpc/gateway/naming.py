"""The names under which other servers' tools, prompts and resources are published.

A name depends on the configuration and on the name at the server, never on which server answered first: nothing is
cut short and no number is appended. A call finds its tool in a table; no published name is ever taken apart."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from zorivest_rpc.gateway.config import Profile, Server

__all__ = [
    "DESCRIPTION_LIMIT",
    "LONGEST_NAME",
    "LONG_NAME",
    "OUR_SCHEMES",
    "UNTRUSTED_ANNOTATIONS",
    "Dropped",
    "Named",
    "Names",
    "annotations_for",
    "assign_names",
    "describe",
    "published_name",
    "published_uri",
]

LONGEST_NAME: Final = 64
LONG_NAME: Final = 40  # some clients put a prefix of their own in front, and then reach their limit
DESCRIPTION_LIMIT: Final = 1024
OUR_SCHEMES: Final = ("zorivest", "pipeline", "ui", "upstream")
# What a server says of its own tools is not believed, so that clients ask.
UNTRUSTED_ANNOTATIONS: Final = {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True}
_REPLACED: Final = re.compile(r"[^A-Za-z0-9_-]")


class Named(NamedTuple):
    """A tool that gets its name; `warning` says what may become of it in some clients."""

    server: str
    upstream: str
    published: str
    warning: str | None = None


class Dropped(NamedTuple):
    """A tool that is not published, and why; `winner` is who has the name, or whom else it would have meant."""

    server: str
    upstream: str
    published: str
    reason: str  # name_too_long, name_taken
    winner: str | None = None


class Names(NamedTuple):
    """In the order of publishing: servers as in the file, their tools by published name."""

    named: tuple[Named, ...]
    dropped: tuple[Dropped, ...]


def published_name(server: Server, upstream: str, *, kind: str = "tool") -> str:
    """The alias if there is one; else the server's name in front of the tool's, in the characters models accept."""
    alias = server.tool_aliases.get(upstream) if kind == "tool" else None
    if alias is not None:
        return alias
    plain = _REPLACED.sub("_", upstream)
    return f"{server.name}__{plain}" if server.prefix else plain


def assign_names(
    profile: Profile,
    offered: Mapping[str, Iterable[str]],
    built_in: Collection[str],
    *,
    kind: str = "tool",
) -> Names:
    """Names for what each server (by its name) offers. Ours win, then the server earlier in the file; two that would
    share a name inside one server both lose it, because neither has the better claim."""
    named: list[Named] = []
    dropped: list[Dropped] = []
    owners: dict[str, str] = dict.fromkeys(built_in, "built-in")
    for server in profile.mcp_servers:
        claims: dict[str, list[str]] = {}
        for upstream in dict.fromkeys(offered.get(server.name, ())):
            claims.setdefault(published_name(server, upstream, kind=kind), []).append(upstream)
        for published in sorted(claims):
            kept, lost = _settle(server, published, claims[published], owners)
            named += kept
            dropped += lost
        owners.update(
            {each.published: f"{server.name}/{each.upstream}" for each in named if each.server == server.name}
        )
    return Names(tuple(named), tuple(sorted(dropped)))


def _settle(
    server: Server, published: str, claimants: Sequence[str], owners: Mapping[str, str]
) -> tuple[list[Named], list[Dropped]]:
    if len(published) > LONGEST_NAME:
        return [], [Dropped(server.name, upstream, published, "name_too_long") for upstream in claimants]
    if published in owners:
        winner = owners[published]
        return [], [Dropped(server.name, upstream, published, "name_taken", winner) for upstream in claimants]
    if len(claimants) > 1:
        return [], [
            Dropped(server.name, upstream, published, "name_taken", _others(server, claimants, upstream))
            for upstream in claimants
        ]
    warning = None
    if len(published) > LONG_NAME:
        warning = (
            f"{published} has {len(published)} characters; some clients take fewer than {LONGEST_NAME} with theirs"
        )
    return [Named(server.name, claimants[0], published, warning)], []


def _others(server: Server, claimants: Sequence[str], upstream: str) -> str:
    return ", ".join(f"{server.name}/{other}" for other in sorted(claimants) if other != upstream)


def published_uri(server: Server, uri: str, taken: Collection[str] = ()) -> str:
    """The URI of a resource or a template as clients see it; its own where the server has no prefix and it is free."""
    scheme = uri.partition(":")[0].lower()
    if not server.prefix and scheme not in OUR_SCHEMES and uri not in taken:
        return uri
    return f"upstream:{server.name}:{uri}"


def describe(server: Server, cleaned: str) -> str:
    """A description with its origin in front, at most 1024 characters of it. `cleaned` went through `scan.clean`."""
    told = f"[{server.name}] {cleaned}"
    return told if len(told) <= DESCRIPTION_LIMIT else told[:DESCRIPTION_LIMIT] + "…"


def annotations_for(server: Server, received: Any) -> dict[str, Any]:
    """The hints that are published: the server's own where they are trusted."""
    if server.trust_annotations and isinstance(received, Mapping):
        return dict(received)
    return dict(UNTRUSTED_ANNOTATIONS)
