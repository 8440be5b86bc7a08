"""The upstreams of a profile together: what they offer becomes one catalogue, and a call goes to the one it is for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec

from zorivest_rpc.gateway.assembly import names_no_tool
from zorivest_rpc.gateway.catalogue import TOKEN, Catalogue, Published, build, state_of
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.eras import Eras
from zorivest_rpc.gateway.errands import Errand
from zorivest_rpc.gateway.errors import (
    OutputInvalid,
    ProtocolBroken,
    Quarantined,
    Withdrawn,
)
from zorivest_rpc.gateway.examine import judge_tools
from zorivest_rpc.gateway.extras import NOTHING, judge_extras
from zorivest_rpc.gateway.followed import Followed
from zorivest_rpc.gateway.library import Library
from zorivest_rpc.gateway.link import Make
from zorivest_rpc.gateway.links import pass_block
from zorivest_rpc.gateway.loops import Passage
from zorivest_rpc.gateway.member import USUAL, Member, Timing
from zorivest_rpc.gateway.pins import Pins, Verdict
from zorivest_rpc.gateway.questions import Questions
from zorivest_rpc.gateway.relay import Relay
from zorivest_rpc.gateway.schemas import undo_renames
from zorivest_rpc.gateway.telemetry import CallRecord, Redactor, Telemetry
from zorivest_rpc.gateway.upstream import Call as Forwarded
from zorivest_rpc.mcp.call import Call, Outcome, unknown_tool
from zorivest_rpc.mcp.client.lists import Listing
from zorivest_rpc.mcp.offer import RESOURCES
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.serving.catalog.approval import block
from zorivest_rpc.serving.catalog.spec import Definitions

__all__ = ["AT_ONCE", "Gateway", "Shelves"]

_UNKNOWN: Final = "unknown_tool"
AT_ONCE: Final = 8  # servers that are discovered at the same time
_FIRST: Final = "connecting"  # the state of a server that nothing is known of
_MOST_GONE: Final = 512  # tools that a client may still call by an old list
_log: Final = logging.getLogger(__name__)


class _Answer(msgspec.Struct, rename="camel"):
    """A CallToolResult of any server; what else it holds is dropped, its `_meta` too."""

    content: list[dict[str, Json]] = []
    structured_content: Json = msgspec.UNSET
    is_error: bool = False


_read_answer: Final = msgspec.json.Decoder(_Answer).decode


class Shelves(Protocol):
    """The prompts and resources of servers that several clients have."""

    def note_offers(self) -> None:
        """A server offers something else now, or is in another state."""

    def publish(self, server: Server, client: str, uri: str) -> str:
        """The URI under which this client of ours can read what the server calls `uri`."""


class Gateway:
    """`adopt` is given every new catalogue; the first one, before any server has answered, is there at once. `tell` is
    told of a list of prompts or resources that is another one now, or of a resource (by its URI) that changed."""

    def __init__(
        self,
        base: Definitions,
        profile: Profile,
        *,
        pins: Pins,
        telemetry: Telemetry,
        make: Make,
        adopt: Callable[[Definitions], None] = lambda definitions: None,
        our_prompts: Collection[str] = (),
        tell: Callable[[str, str | None], None] = lambda kind, uri: None,
        timing: Timing = USUAL,
        input_seconds: float = 600.0,
        passage: Passage | None = None,
        eras: Eras | None = None,
        redactor: Callable[[Profile], Redactor] = lambda profile: Redactor(),
        warns: bool = True,
        gate: asyncio.Semaphore | None = None,
        shelves: Shelves | None = None,
    ) -> None:
        """`shelves` has the prompts and resources where they are not those of one client alone."""
        self._base = base
        self._profile = profile
        self._pins = pins
        self._telemetry = telemetry
        self._adopt = adopt
        self._gate = gate or asyncio.Semaphore(AT_ONCE)
        self._warned: set[str] = set()
        self._warns = warns  # of entries that name no tool; one of several gateways knows but a part of the tools
        self._gone: dict[str, Published] = {}
        self._states: dict[str, str] = {}  # of each server, as it was told last
        self._checks: dict[str, tuple[Callable[[Json], bool], int]] = {}
        self._passage = passage or Passage()
        self.questions = Questions(self._passage.id, input_seconds)
        self.members: dict[str, Member] = {}
        self.library = Library(profile, self.members, self._passage, self.questions, telemetry, our_prompts)
        self._shelves = shelves
        self.followed = Followed(self.members, self.library.locate, lambda uri: tell(RESOURCES, uri))
        self._make, self._timing, self._eras = make, timing, eras
        self._redactor = redactor
        self.members |= {server.name: self._member(server) for server in profile.enabled}
        self._tell = tell
        self.catalogue: Catalogue = build(base, profile, [member.offered for member in self.members.values()])

    def _member(self, server: Server) -> Member:
        eras, profile = self._eras, self._profile
        return Member(
            profile,
            server,
            make=self._make,
            judge=self._judge,
            judge_extras=lambda server, extras: judge_extras(self._profile, server, extras, self._pins),
            changed=self._rebuild,
            touched=self.followed.touched,
            telemetry=self._telemetry,
            timing=self._timing,
            gate=self._gate,
            era=None if eras is None else eras.known(profile, server),
            remember=(lambda era: None) if eras is None else partial(eras.remember, profile, server),
        )

    # --- life

    def start(self) -> None:
        for member in self.members.values():
            member.start()

    async def settle(self, seconds: float) -> None:
        """Wait until every server has answered or failed once, at most this long."""
        waits = [asyncio.ensure_future(member.settled.wait()) for member in self.members.values()]
        if waits:
            _, late = await asyncio.wait(waits, timeout=seconds)
            for each in late:
                each.cancel()

    @property
    def is_settled(self) -> bool:
        return all(member.settled.is_set() for member in self.members.values())

    async def replace(self, profile: Profile) -> None:
        """Other servers and lists: what stays the same stays connected, and what is gone is told as withdrawn."""
        before, self._profile = self.members.copy(), profile
        self._telemetry.redactor = self._redactor(profile)
        self.members.clear()
        for server in profile.enabled:
            member = before.get(server.name)
            if member is None or member.server != server:
                followed = set() if member is None else member.followed
                member = self._member(server)
                member.followed |= followed  # our clients follow these resources still
            member.profile = profile
            self.members[server.name] = member
        self._rebuild()
        self.start()
        ended = [member for name, member in before.items() if self.members.get(name) is not member]
        await asyncio.gather(*(member.close() for member in ended), return_exceptions=True)

    def report(self) -> list[dict[str, Json]]:
        """One entry for each server, in the order of the file; no URL and no token in it."""
        redact = self._telemetry.redactor.value
        return [redact(self._report(name, member)) for name, member in self.members.items()]

    def _report(self, name: str, member: Member) -> dict[str, Json]:
        return {**member.report(_count(self.catalogue, name)), "state": self._state(name, member)}

    def _state(self, name: str, member: Member) -> str:
        return state_of(member.offered.status, _of(self.catalogue, name).values())

    async def close(self) -> None:
        self.questions.close()
        await self.followed.close()
        await asyncio.gather(*(member.close() for member in self.members.values()), return_exceptions=True)

    def _judge(self, server: Server, listing: Listing) -> Mapping[str, Verdict]:
        return judge_tools(self._profile, server.name, listing, self._pins)

    def _rebuild(self) -> None:
        """The only place that replaces the catalogue."""
        before = self.catalogue
        offers = [member.offered for member in self.members.values()]
        self.catalogue = build(self._base, self._profile, offers, self._gone)
        self._remember_gone(before, self.catalogue)
        self._tell_states()
        self._tell_difference(before, self.catalogue)
        if self._warns:
            self._warn_of_unmatched()
        if self.catalogue.definitions != before.definitions:
            self._checks.clear()
            self._adopt(self.catalogue.definitions)
        if self._shelves is not None:
            self._shelves.note_offers()
            return
        owners = {spec.name: spec.upstream for spec in self.catalogue.definitions.tools}
        offered = {each.server.name: each.extras if each.is_listed else NOTHING for each in offers}
        for kind in self.library.update(self._profile, offered, owners):
            self._tell(kind, None)

    def _remember_gone(self, before: Catalogue, after: Catalogue) -> None:
        """A client may have an old list: what was in one is still known, and whose it was."""
        lost = {name: tool for name, tool in before.table.items() if name not in after.table}
        if lost:
            self._gone = dict(list((self._gone | lost).items())[-_MOST_GONE:])
            offers = [member.offered for member in self.members.values()]
            self.catalogue = build(self._base, self._profile, offers, self._gone)

    def _tell_states(self) -> None:
        before, self._states = self._states, {name: self._state(name, each) for name, each in self.members.items()}
        for server, state in self._states.items():
            previous = before.get(server, _FIRST)
            if state != previous:
                self._telemetry.emit("mcp.state", server=server, from_=previous, to=state)

    def _tell_difference(self, before: Catalogue, after: Catalogue) -> None:
        for server in self.members:
            old = _of(before, server)
            new = _of(after, server)
            added, removed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
            changed = sorted(name for name in new.keys() & old.keys() if new[name].hash != old[name].hash)
            if added or removed or changed:
                self._telemetry.emit("mcp.list_changed", server=server, added=added, removed=removed, changed=changed)
            for name, tool in new.items():
                if tool.held is not None and (name not in old or old[name].held != tool.held):
                    hash_old = old[name].hash if name in old else None
                    self._telemetry.emit(
                        "mcp.tool.held",
                        server=server,
                        tool=name,
                        reason=tool.held,
                        hash_old=hash_old,
                        hash_new=tool.hash,
                    )

    def _warn_of_unmatched(self) -> None:
        """Each entry of a list that names no tool is told once, when no server is left that might have it."""
        listed = ("ready", "degraded", "quarantined")
        unknown = [each.server for each in self.members.values() if each.offered.status not in listed]
        names = {spec.name for spec in (*self._base.tools, *self._base.meta_tools)} | self.catalogue.table.keys()
        for words in names_no_tool(self._profile, names, unknown):
            if words not in self._warned:
                self._warned.add(words)
                _log.warning("%s", words)

    # --- calls

    async def forward(self, call: Call) -> Outcome:
        """The handler of every upstream tool: it runs behind validation, metrics, guard and confirmation."""
        found = self.catalogue.table.get(call.name)
        errand = self.questions.errand_of(call)  # a call that asked something is one call, in however many rounds
        if not isinstance(errand, Errand):
            errand = Errand(self._record(call, found))
        with errand:
            member = self._admit(call, found, errand.record)
            assert found is not None
            send = partial(member.call, repeatable=found.repeatable)
            request = self._request(call, found)
            result, attempts = await self.questions.put_through(call, request, send, errand, modern=member.is_modern)
            errand.attempts += attempts
            outcome = self._read(found, call.scope.name, result.raw)
        errand.succeed(outcome, len(memoryview(result.raw)))
        return outcome

    def _record(self, call: Call, found: Published | None) -> CallRecord:
        """That of the layer around the whole call, which began it and ends what nothing else does."""
        if isinstance(call.record, CallRecord):
            return call.record
        return self._telemetry.call(
            tool=call.name,
            provenance="upstream",
            server=found.server.name if found else None,
            principal=call.session.principal or None,
            tenant=call.scope.name or None,
            arguments=call.arguments,
        )

    def _admit(self, call: Call, found: Published | None, record: CallRecord) -> Member:
        if found is None:
            record.record_failure(kind="INPUT", code=_UNKNOWN, duration_ms=0.0, attempts=0)
            raise unknown_tool(call.name)
        if found.is_gone:
            raise Withdrawn(found.server.name, call.name)
        if found.decision.verdict == "deny":  # what a list denies is refused before it comes here; a change may be new
            record.record_denial("deny_tool")
            raise block(call.name)
        if found.held is not None:
            raise Quarantined(found.server.name, call.name)
        member = self.members[found.server.name]
        if not found.is_listed and member.failure is not None:
            raise member.failure
        if not found.server.allows("tool", found.upstream):
            raise Withdrawn(found.server.name, call.name)
        return member

    def _request(self, call: Call, found: Published) -> Forwarded:
        server = found.server
        arguments = {name: value for name, value in call.arguments.items() if name != TOKEN}
        if server.argument_renames:
            arguments = undo_renames(arguments, found.schema, server.argument_renames)
        relay = Relay(call, server.name, self._telemetry.redactor)
        return Forwarded(
            "tools/call",
            dumps({"name": found.upstream, "arguments": arguments}),
            name=found.upstream,
            shown=call.name,
            seconds=float(server.call_seconds(found.upstream, self._profile)),
            max_bytes=server.max_result_bytes,
            meta=self._passage.onward(call.wire.meta),
            log_level=call.session.log_level,
            on_progress=relay.progress if call.wire.progress_token is not None else None,
            on_log=relay.log,
            server=server.name,
        )

    def _read(self, found: Published, client: str, raw: msgspec.Raw) -> Outcome:
        try:
            answer = _read_answer(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as wrong:
            raise ProtocolBroken(found.server.name, f"a result does not fit the protocol: {wrong}"[:200]) from None
        structured = answer.structured_content
        schema = found.spec.output_schema
        if (
            schema is not None
            and not answer.is_error
            and not self._fits(found, schema, structured, len(memoryview(raw)))
        ):
            raise OutputInvalid(found.server.name, found.spec.name)
        publish = partial((self._shelves or self.library).publish, found.server, client)
        return Outcome([pass_block(block, publish) for block in answer.content], structured, answer.is_error)

    def _fits(self, found: Published, schema: dict[str, Json], structured: Json, size: int) -> bool:
        """What could take too long to judge does not fit: schema and value are both the server's."""
        if structured is msgspec.UNSET:
            return False
        if found.hash not in self._checks:
            from zorivest_rpc.gateway.schemas import compile_output

            self._checks[found.hash] = compile_output(schema)
        check, most = self._checks[found.hash]
        return size <= most and check(structured)


def _count(catalogue: Catalogue, server: str) -> tuple[int, int]:
    """The tools that are listed, and those that are held."""
    tools = _of(catalogue, server).values()
    listed = {spec.name for spec in catalogue.definitions.tools}
    return sum(tool.spec.name in listed for tool in tools), sum(tool.held is not None for tool in tools)


def _of(catalogue: Catalogue, server: str) -> dict[str, Published]:
    return {name: tool for name, tool in catalogue.table.items() if tool.server.name == server and not tool.is_gone}
