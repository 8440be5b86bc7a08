"""What becomes of each tool that the upstreams offer: published, held, or dropped, each with its reason.

In this order: the shape (judged where the list was read), the allowlist, the schema, the name, the scan and the pin.
Nothing disappears silently, and no tool is published that has not passed here."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.naming import Dropped, assign_names
from zorivest_rpc.gateway.patterns import is_literal
from zorivest_rpc.gateway.pins import Identity, Kind, Verdict, identity_of
from zorivest_rpc.gateway.policy import Decision, Subject, classify, decide
from zorivest_rpc.gateway.scan import Findings, Reading, read_texts, settle
from zorivest_rpc.gateway.schemas import Unservable, check_schema, rename_arguments
from zorivest_rpc.mcp.client.lists import Item, Listing
from zorivest_rpc.mcp.protocol.headers import drop_annotations, may_annotate

__all__ = ["HELD", "Examined", "Judge", "drop_words", "examine_tools", "judge_tools", "note_texts", "read_ahead"]

_NAMES: Final = {
    "name_too_long": "its name would be longer than 64 characters",
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
    reading: Reading | None = None
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
        judged = [_examine_item(server, item) for item in listing.items]
        rejected += [each for each in judged if each.state == "dropped"]
        candidates[server.name] = {each.upstream: each for each in judged if each.state != "dropped"}
    names = assign_names(profile, candidates, built_in)
    rejected += [_drop_name(candidates[each.server][each.upstream], each) for each in names.dropped]
    verdicts = {name: judge_tools(profile, name, listing, pins) for name, listing in listings.items()}
    # What a text may not steer are the tools of others: ours, and those of every other server.
    owners = {each.published: each.server for each in names.named}
    foreign = {server: {*built_in, *(name for name in owners if owners[name] != server)} for server in candidates}
    accepted: list[Examined] = []
    for named in names.named:
        tool = candidates[named.server][named.upstream]._replace(published=named.published, warning=named.warning)
        verdict = verdicts[named.server][named.upstream]
        accepted.append(_finish(profile, tool, verdict, foreign[named.server], confirm))
    accepted = list(_drop_excess(accepted, profile.max_upstream_tools))
    return tuple(_in_file_order(profile, [*accepted, *sorted(rejected, key=lambda each: each.upstream)]))


def _drop_excess(tools: Iterable[Examined], most: int) -> Iterator[Examined]:
    """What is held or denied is in no list and takes no other tool's place."""
    for tool in tools:
        if tool.state == "published" and tool.decision is not None and tool.decision.verdict != "deny":
            if most == 0:
                yield tool._replace(state="dropped", reason="too_many", detail="above max_upstream_tools")
                continue
            most -= 1
        yield tool


def _in_file_order(profile: Profile, tools: list[Examined]) -> Iterable[Examined]:
    place = {server.name: number for number, server in enumerate(profile.mcp_servers)}
    ranks = {"published": 0, "held": 1, "dropped": 2}
    return sorted(tools, key=lambda each: (place[each.server], ranks[each.state]))


def _examine_item(server: Server, item: Item) -> Examined:
    definition = item.definition
    dropped = Examined(server.name, item.name, "dropped", definition=definition)
    if not server.allows("tool", item.name):
        return dropped._replace(reason="not_allowed", detail="not in tool_allowlist")
    shown = note_schemas(item) or rename_arguments(_own_schema(item), server.argument_renames)
    if isinstance(shown, Unservable):
        return dropped._replace(reason=shown.reason, detail=f"{shown.reason}: {shown.problem}")
    return dropped._replace(state="published", schema=shown, reading=note_texts(item))


def _own_schema(item: Item) -> dict[str, Any]:
    """The input schema for clients of ours. Headers are for the way to the server: what our clients would repeat in
    them is for us to repeat, and an annotation that is wrong would cost them the tool."""
    if "own" not in item.notes:
        schema = item.definition["inputSchema"]
        item.notes["own"] = drop_annotations(schema) if may_annotate(item.raw) else schema
    return dict(item.notes["own"])


async def read_ahead(*listings: Listing) -> None:
    """Find out, one definition at a time, what else would be found out of all of them in one piece: a hostile one takes
    long to read, and calls to other servers go on meanwhile."""
    for listing in listings:
        for item in listing.items:
            if "inputSchema" in item.definition:
                note_schemas(item)
            note_texts(item)
            await asyncio.sleep(0)


def note_schemas(item: Item) -> Unservable | None:
    """What is wrong with the schemas of a tool, checked once: every change of any server has all tools of all servers
    examined anew."""
    if "schemas" not in item.notes:
        item.notes["schemas"] = _check_schemas(item.definition)
    found: Unservable | None = item.notes["schemas"]
    return found


def _check_schemas(definition: Mapping[str, Any]) -> Unservable | None:
    wrong = check_schema(definition.get("inputSchema"))
    if wrong is None and definition.get("outputSchema") is not None:
        wrong = check_schema(definition["outputSchema"], is_output=True)
    return wrong


def note_texts(item: Item) -> Reading:
    """What the texts of a definition say, read once."""
    if "texts" not in item.notes:
        item.notes["texts"] = read_texts(item.definition)
    found: Reading = item.notes["texts"]
    return found


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
    assert tool.reading is not None
    findings = settle(tool.reading, foreign)
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
