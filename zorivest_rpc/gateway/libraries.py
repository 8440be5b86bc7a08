"""What each client has of the servers' prompts and resources, where one server of ours acts for several.

Rule 1: a client's library is made of the servers that are for it, each by the connection that its calls use, and of
        nothing else: no name, order or held definition in it depends on what another client has.
Rule 2: it is made when it is first asked for, and again when a server of it offers something else. Clients that have
        the same servers by the same connections share one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from zorivest_rpc.gateway.assignment import Assigned
from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.extras import NOTHING, Extras
from zorivest_rpc.gateway.library import Library
from zorivest_rpc.gateway.member import Member
from zorivest_rpc.gateway.schemas import RESERVED_PROPERTY
from zorivest_rpc.serving.catalog.spec import Definitions

__all__ = ["RESERVED", "Libraries", "Seen"]

RESERVED: Final = ("clientId",)
Key: TypeAlias = "str | frozenset[str]"
"""A client with connections of its own, or the servers of those that have none."""


class Seen(NamedTuple):
    """What a library is made of."""

    members: Mapping[str, Member]  # in the order of the file
    offers: Mapping[str, Extras]
    owners: Mapping[str, str]  # the servers of tools, by the published name; ours have none


class _Kept:
    """A library, and what it was made of when it was last looked after."""

    def __init__(self, library: Library, members: dict[str, Member]) -> None:
        self.library = library
        self.members = members
        self.version = -1
        self.seen: Seen | None = None


class Libraries:
    """`make` gives an empty library that reads through these members; `member_of` says by which connection a client
    has a server, None where it has none; `warn` is told what is not offered for want of a name."""

    def __init__(
        self,
        make: Callable[[Profile, dict[str, Member]], Library],
        member_of: Callable[[str, str], Member | None],
        warn: Callable[[str], None],
    ) -> None:
        self._warn = warn
        self._make = make
        self._member_of = member_of
        self._kept: dict[Key, _Kept] = {}
        self._keys: dict[str, Key] = {}
        self._version = 0

    def note_change(self) -> None:
        """A server offers something else now."""
        self._version += 1

    def forget(self) -> None:
        """Servers may be for other clients now. A read that is under way keeps the library it began with."""
        self._kept.clear()
        self._keys.clear()

    def of(self, client: str, assigned: Assigned, definitions: Definitions) -> Library:
        key = self._keys.get(client)
        if key is None:
            key = self._keys[client] = _key_of(client, assigned)
        kept = self._kept.get(key)
        if kept is None:
            members: dict[str, Member] = {}
            kept = self._kept[key] = _Kept(self._make(assigned.whole, members), members)
        if kept.version != self._version:
            kept.version = self._version
            self._look_after(kept, self._see(client, assigned, definitions), assigned)
        return kept.library

    def _see(self, client: str, assigned: Assigned, definitions: Definitions) -> Seen:
        members = {
            server.name: member
            for server in assigned.whole.enabled
            if (member := self._member_of(client, server.name)) is not None
        }
        offered = {name: member.offered for name, member in members.items()}
        owners = {spec.name: spec.upstream for spec in definitions.tools if not spec.clients or client in spec.clients}
        return Seen(
            members, {name: each.extras if each.is_listed else NOTHING for name, each in offered.items()}, owners
        )

    def _look_after(self, kept: _Kept, seen: Seen, assigned: Assigned) -> None:
        if kept.seen == seen:  # most of what happens to a server changes none of its lists
            return
        kept.seen = seen
        kept.members.clear()
        kept.members.update(seen.members)
        servers = tuple(member.server for member in seen.members.values())
        kept.library.update(replace(assigned.whole, mcp_servers=servers), seen.offers, seen.owners)
        for piece in kept.library.pieces:
            if piece.reason == RESERVED_PROPERTY:
                self._warn(f"{piece.server}: the {piece.part} {piece.upstream} is not offered: {piece.detail}")


def _key_of(client: str, assigned: Assigned) -> Key:
    if client in assigned.own:
        return client
    return frozenset(name for name, clients in assigned.clients.items() if clients is None or client in clients)
