"""What becomes of each tool that the upstreams offer: published, held, or dropped, each with its reason.

In this order: the shape (judged where the list was read), the allowlist, the schema, the name, the scan and the pin.
Nothing disappears silently, and no tool is published that has not passed here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.naming import Dropped, assign_names
from zorivest_rpc.gateway.patterns import is_literal
from zorivest_rpc.gateway.pins import Identity, Kind, Verdict, identity_of
from zorivest_rpc.gateway.policy import Decision, Subject, classify, decide
from zorivest_rpc.gateway.scan import Findings, scan
from zorivest_rpc.gateway.schemas import Unservable, check_schema, rename_arguments
from zorivest_rpc.mcp.client.lists import Listing

__all__ = ["HELD", "Examined", "Judge", "drop_words", "examine_tools", "judge_tools"]

_NAMES: Final = {
    "name_too_long": "its name would be longer than 64 characters",
    "too_many": "above max_upstream_tools",
}
HELD: Final = {
    "changed": "its definition changed since it was approved",
    "new": "it is new since the server was pinned",
    "unpinned": "it was not pinned yet",
}


class Judge(Protocol):
    """What says how definitions stand to their pins: the pins themselves, or what they said before."""

    def judge(
        self,
        identity: Identity,
        mode: str,
        kind: Kind,
        offered: Mapping[str, Mapping[str, Any]],
        named: Collection[str] = (),
    ) -> Mapping[str, Verdict]: ...


class Examined(NamedTuple):
    """One tool. `reason` is a code, `detail` the words; `published` is the name it has or would have.

    `definition` is the server's own; `schema` its input schema as published, with arguments renamed."""

    server: str
    upstream: str
    state: Literal["published", "held", "dropped"]
    published: str | None = None
    reason: str | None = None
    detail: str = ""
    definition: Mapping[str, Any] = {}
    schema: Mapping[str, Any] = {}
    verdict: Verdict | None = None
    findings: Findings = Findings()
    decision: Decision | None = None
    warning: str | None = None


def examine_tools(
    profile: Profile, listings: Mapping[str, Listing], built_in: Collection[str], pins: Judge, *, confirm: str = "auto"
) -> tuple[Examined, ...]:
    """Every tool of every listing, servers in file order: the published ones first, then what is held or dropped."""
    rejected: list[Examined] = []
    candidates: dict[str, dict[str, Examined]] = {}
    for server in profile.mcp_servers:
        listing = listings.get(server.name)
        if listing is None:
            continue
        rejected += [
            Examined(server.name, drop.name, "dropped", None, drop.reason, drop.detail or drop.reason)
            for drop in listing.drops
        ]
        judged = [_examine_schema(server, item.name, item.definition) for item in listing.items]
        rejected += [each for each in judged if each.state == "dropped"]
        candidates[server.name] = {each.upstream: each for each in judged if each.state != "dropped"}
    names = assign_names(profile, candidates, built_in)
    rejected += [_drop_name(candidates[each.server][each.upstream], each) for each in names.dropped]
    verdicts = {name: judge_tools(profile, name, listing, pins) for name, listing in listings.items()}
    # What a text may not steer are the tools of others: ours, and those of every other server.
    owners = {each.published: each.server for each in names.named}
    accepted: list[Examined] = []
    for named in names.named:
        tool = candidates[named.server][named.upstream]._replace(published=named.published, warning=named.warning)
        foreign = {*built_in, *(name for name, owner in owners.items() if owner != named.server)}
        accepted.append(_finish(profile, tool, verdicts[named.server][named.upstream], foreign, confirm))
    return tuple(_in_file_order(profile, [*accepted, *sorted(rejected, key=lambda each: each.upstream)]))


def _in_file_order(profile: Profile, tools: list[Examined]) -> Iterable[Examined]:
    place = {server.name: number for number, server in enumerate(profile.mcp_servers)}
    ranks = {"published": 0, "held": 1, "dropped": 2}
    return sorted(tools, key=lambda each: (place[each.server], ranks[each.state]))


def _examine_schema(server: Server, name: str, definition: Mapping[str, Any]) -> Examined:
    dropped = Examined(server.name, name, "dropped", definition=definition)
    if not server.allows("tool", name):
        return dropped._replace(reason="not_allowed", detail="not in tool_allowlist")
    schema = definition.get("inputSchema")
    wrong = check_schema(schema)
    if wrong is None and definition.get("outputSchema") is not None:
        wrong = check_schema(definition["outputSchema"], is_output=True)
    shown = wrong or rename_arguments(dict(schema or {}), server.argument_renames)
    if isinstance(shown, Unservable):
        return dropped._replace(reason=shown.reason, detail=f"{shown.reason}: {shown.problem}")
    return dropped._replace(state="published", schema=shown)


def _drop_name(tool: Examined, dropped: Dropped) -> Examined:
    detail = drop_words(dropped)
    return tool._replace(state="dropped", published=dropped.published, reason=dropped.reason, detail=detail)


def drop_words(dropped: Dropped) -> str:
    return _NAMES.get(dropped.reason) or f"the name {dropped.published} is taken by {dropped.winner}"


def judge_tools(profile: Profile, name: str, listing: Listing, pins: Judge) -> Mapping[str, Verdict]:
    """All tools of the server are pinned, not only those that the allowlist lets through today."""
    server = profile.server(name)
    if server is None:
        return {}
    literal = [entry for entry in server.tool_allowlist or () if is_literal(entry)]
    offered = {item.name: item.definition for item in listing.items}
    return pins.judge(identity_of(profile, server), profile.pin, "tool", offered, literal)


def _finish(profile: Profile, tool: Examined, verdict: Verdict, foreign: Collection[str], confirm: str) -> Examined:
    assert tool.published is not None
    server = profile.server(tool.server)
    assert server is not None
    findings = scan(tool.definition, foreign)
    annotations = tool.definition.get("annotations")
    kind = classify(
        "upstream", annotations if isinstance(annotations, Mapping) else None, trusted=server.trust_annotations
    )
    subject = Subject(tool.published, "upstream", kind, verdict.changed)
    tool = tool._replace(verdict=verdict, findings=findings, decision=decide(profile, subject, confirm=confirm))
    if verdict.held is not None:
        return tool._replace(state="held", reason=verdict.held, detail=HELD[verdict.held])
    if findings.hold and not verdict.accepted:
        return tool._replace(state="held", reason="scan", detail="; ".join(findings.hold))
    return tool
