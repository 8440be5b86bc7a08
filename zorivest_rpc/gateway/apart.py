"""The gateways of a server that acts for several clients: one for what they have in common, and one for each client
that has connections of its own.

Rule 1: a call goes to the gateway of the client that it was resolved for, or to the common one, and to no other.
Rule 2: a tool is listed for a client only as that client's own server defines it. Where two clients' servers define one
        name differently the first keeps it, and the other client has no tool of that name: the log says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Final, Protocol

import msgspec

from zorivest_rpc.errors import ToolError
from zorivest_rpc.gateway.assembly import assemble, names_no_tool
from zorivest_rpc.gateway.assignment import UNASSIGNED, Assigned
from zorivest_rpc.gateway.catalogue import Catalogue
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import Quarantined, Withdrawn
from zorivest_rpc.gateway.libraries import Libraries
from zorivest_rpc.gateway.library import Library
from zorivest_rpc.gateway.member import Member
from zorivest_rpc.gateway.router import Gateway, Shelves
from zorivest_rpc.gateway.toolsets import describe_count
from zorivest_rpc.mcp.call import Call, Outcome, unknown_tool
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.catalog.spec import Definitions, ToolsetSpec, ToolSpec

__all__ = ["GatewaysApart", "Open"]

_log: Final = logging.getLogger(__name__)


class Open(Protocol):
    def __call__(
        self, profile: Profile, adopt: Callable[[Definitions], None], client: str, shelves: Shelves
    ) -> Gateway: ...


class GatewaysApart:
    """`open` makes the gateway of a part of the profile, of one client or (with an empty name) the common one. `shelve`
    makes a library of some servers, and `tell` is told that lists of prompts or resources may be other ones now."""

    def __init__(
        self,
        base: Definitions,
        assigned: Assigned,
        open: Open,
        adopt: Callable[[Definitions], None],
        *,
        shelve: Callable[[Profile, dict[str, Member]], Library],
        tell: Callable[[str], None],
    ) -> None:
        self._base = base
        self._tell = tell
        self._libraries = Libraries(shelve, self._connection_of, self._warn)
        self._watched: dict[str, tuple[str, str, Callable[[], bool]]] = {}
        self._assigned = assigned
        self._open = open
        self._adopt = adopt
        self._warned: set[str] = set()
        self._common = open(assigned.common, self._take, "", self)
        self._own = {id: open(profile, self._take, id, self) for id, profile in assigned.own.items()}
        self._winners: dict[str, str] = {}  # the server of each published name
        self.definitions = self._join()

    # --- life

    @property
    def members(self) -> dict[str, Member]:
        common = dict(self._common.members)
        return common | {f"{name} ({id})": each for id, own in self._own.items() for name, each in own.members.items()}

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.definitions, {}, tuple(each for one in self._all() for each in one.catalogue.examined))

    def _all(self) -> Iterator[Gateway]:
        yield self._common
        yield from self._own.values()

    def start(self) -> None:
        for each in self._all():
            each.start()

    async def settle(self, seconds: float) -> None:
        await asyncio.gather(*(each.settle(seconds) for each in self._all()))

    @property
    def is_settled(self) -> bool:
        return all(each.is_settled for each in self._all())

    async def replace(self, assigned: Assigned) -> None:
        """Other servers and lists, and other clients that they are for."""
        before, self._assigned = self._own, assigned
        kept = {id: before[id] for id in assigned.own if id in before}
        fresh = {
            id: self._open(profile, self._take, id, self) for id, profile in assigned.own.items() if id not in before
        }
        self._own = kept | fresh
        await self._common.replace(assigned.common)
        for id, gateway in kept.items():
            await gateway.replace(assigned.own[id])
        self._libraries.forget()
        self._take(self.definitions)
        self.note_offers()
        self._follow_anew()
        self.start()
        ended = [gateway for id, gateway in before.items() if id not in kept]
        await asyncio.gather(*(each.close() for each in ended), return_exceptions=True)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._all()), return_exceptions=True)

    # --- one catalogue of all

    def _take(self, definitions: Definitions) -> None:
        before, self.definitions = self.definitions, self._join()
        if self.is_settled:
            self._warn_of_unmatched()
        if self.definitions != before:
            self._adopt(self.definitions)

    def _join(self) -> Definitions:
        """Each tool once, with the clients that have it; servers in the order of the file."""
        self._winners = {}
        listed = self._gather(lambda gateway: gateway.catalogue.definitions.tools)
        place = {server.name: number for number, server in enumerate(self._assigned.whole.mcp_servers)}
        ordered = sorted(listed.values(), key=lambda spec: (place.get(spec.upstream, len(place)), spec.name))
        most = self._assigned.whole.max_upstream_tools
        for spec in ordered[most:]:
            self._warn(f"{spec.name} is not offered: above max_upstream_tools")
            del listed[spec.name]
        withheld = self._gather(lambda gateway: gateway.catalogue.definitions.withheld)
        rest = [spec for name, spec in withheld.items() if name not in listed]
        return assemble(self._base, self._assigned.whole, ordered[:most], rest, self._look)

    def _gather(self, read: Callable[[Gateway], Collection[ToolSpec]]) -> dict[str, ToolSpec]:
        found: dict[str, ToolSpec] = {}
        for spec in read(self._common):
            if spec.upstream:
                clients = self._assigned.clients.get(spec.upstream, frozenset())
                if clients is None or clients:
                    self._winners.setdefault(spec.name, spec.upstream)
                    found[spec.name] = msgspec.structs.replace(spec, clients=clients or frozenset())
        for id, gateway in sorted(self._own.items()):
            for spec in read(gateway):
                if not spec.upstream:
                    continue
                first = found.get(spec.name)
                if self._winners.setdefault(spec.name, spec.upstream) != spec.upstream:
                    self._warn(
                        f"{spec.name} of {spec.upstream} is not offered: {self._winners[spec.name]} has the name"
                    )
                elif first is None:
                    found[spec.name] = msgspec.structs.replace(spec, clients=frozenset((id,)))
                elif msgspec.structs.replace(first, clients=frozenset()) == spec:
                    found[spec.name] = msgspec.structs.replace(first, clients=first.clients | {id})
                else:
                    others = ", ".join(sorted(first.clients))
                    self._warn(f"{spec.name} is not offered to {id}: {others} has another definition of that name")
        return found

    def _warn(self, words: str) -> None:
        if words not in self._warned:
            self._warned.add(words)
            _log.warning("%s", words)

    def _look(self, server: Server) -> tuple[int | None, str, str | None]:
        """As no client in particular sees it: whether a server is well is told of each client's own connection."""
        clients = self._assigned.clients[server.name]
        if clients is not None and not clients:
            return 0, UNASSIGNED, None
        member = self._common.members.get(server.name)
        return (None, "ready", None) if member is None else (None, member.offered.status, member.offered.error)

    def _warn_of_unmatched(self) -> None:
        unknown = [
            each.server for each in self.members.values() if each.offered.status in ("connecting", "unavailable")
        ]
        names = {spec.name for spec in (*self._base.tools, *self._base.meta_tools)} | self._winners.keys()
        for words in names_no_tool(self._assigned.whole, names, unknown):
            self._warn(words)

    # --- prompts and resources

    def note_offers(self) -> None:
        self._libraries.note_change()
        for kind in (PROMPTS, RESOURCES):
            self._tell(kind)

    def library_of(self, client: str) -> Library:
        return self._libraries.of(client, self._assigned, self.definitions)

    def publish(self, server: Server, client: str, uri: str) -> str:
        return self.library_of(client).publish(server, client, uri)

    def _connection_of(self, client: str, server: str) -> Member | None:
        found = self.member_of(client, server)
        return None if found is None else found[1]

    def watch(self, client: str, bare: str, uri: str, wanted: Callable[[], bool]) -> None:
        """`uri` has its first subscriber: it names the client, and `bare` is what is left of it without."""
        self._watched[uri] = client, bare, wanted
        server, theirs = self.library_of(client).locate(bare)
        found = None if server is None else self.member_of(client, server.name)
        if server is None or found is None:
            return
        gateway, name = found[0], server.name

        def is_wanted() -> bool:
            now = self.member_of(client, name)  # another connection may be the client's by then, or none
            return wanted() and now is not None and now[0] is gateway

        gateway.followed.follow(name, theirs, uri, is_wanted)

    def unwatch(self, uri: str) -> None:
        self._watched.pop(uri, None)
        for gateway in self._all():
            gateway.followed.unwatch(uri)

    def _follow_anew(self) -> None:
        for uri, (client, bare, wanted) in list(self._watched.items()):
            self.unwatch(uri)
            if wanted():
                self.watch(client, bare, uri, wanted)

    # --- what one client has of it

    def hidden_from(self, client: str) -> frozenset[str]:
        return self._assigned.hidden_from(client)

    def member_of(self, client: str, server: str) -> tuple[Gateway, Member] | None:
        """The connection that a call of this client uses; None where the server is not for it."""
        clients = self._assigned.clients.get(server, frozenset())
        if clients is not None and client not in clients:
            return None
        for gateway in (self._own.get(client), self._common):
            if gateway is not None and server in gateway.members:
                return gateway, gateway.members[server]
        return None

    def toolset_of(self, client: str, toolset: ToolsetSpec, count: int) -> ToolsetSpec:
        """The entry of a server's toolset with the state of this client's own connection."""
        found = self.member_of(client, toolset.upstream)
        if found is None:
            return toolset
        gateway, member = found
        told = next(each for each in gateway.catalogue.definitions.toolsets if each.upstream == toolset.upstream)
        words = describe_count(member.server, count)
        return msgspec.structs.replace(toolset, description=words, status=told.status, error=told.error)

    def report(self, client: str) -> list[dict[str, Json]]:
        """One entry for each server that this client has, or that none has, in the order of the file."""
        told: dict[str, dict[str, Json]] = {}
        for gateway in (self._common, self._own.get(client)):
            told |= {} if gateway is None else {str(each["name"]): each for each in gateway.report()}
        found: list[dict[str, Json]] = []
        for name, clients in self._assigned.clients.items():
            if clients is not None and not clients:
                found.append({"name": name, "state": UNASSIGNED, "tools": 0})
            elif (clients is None or client in clients) and name in told:
                found.append(told[name])
        return found

    def refusal(self, client: str, tool: ToolSpec) -> ToolError | None:
        """Why a client's own server does not offer a tool that another client's does; None where it never did."""
        found = self.member_of(client, tool.upstream)
        known = None if found is None else found[0].catalogue.table.get(tool.name)
        if found is None or known is None or known.server.name != tool.upstream:
            return None
        if known.is_gone:
            return Withdrawn(tool.upstream, tool.name)
        if known.held is not None:
            return Quarantined(tool.upstream, tool.name)
        return found[1].failure if not known.is_listed else None

    async def forward(self, call: Call) -> Outcome:
        """The handler of every upstream tool; who may call it was decided before, and is looked at once more."""
        server = self._winners.get(call.name)
        found = None if server is None else self.member_of(call.scope.name, server)
        if found is None:
            raise unknown_tool(call.name)
        return await found[0].forward(call)
