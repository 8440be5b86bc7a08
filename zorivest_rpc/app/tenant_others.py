"""The prompts and resources of other servers as a caller with several clients finds them.

Each client has its own library of them. Here they are put together for a caller, each client's within what that
client's entry and the limits of the session let through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from zorivest_rpc.app.shelves import admitted, digest_of, listed
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.call import EVERYONE, Scope
from zorivest_rpc.mcp.offer import Completion, Messages, Prompt, Resource, Template
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.tenants.refusals import out_of_bounds
from zorivest_rpc.tenants.uris import name_client_in, template_for

if TYPE_CHECKING:
    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.gateway.apart import GatewaysApart
    from zorivest_rpc.gateway.library import Library

__all__ = ["TenantOthers"]


class _Own(NamedTuple):
    """What one client has, and which of it the session may have."""

    library: Library
    servers: Callable[[str], bool]
    lists: Callable[[str], bool]
    """Whether what a server has is in the session's lists, and not only found by name."""


class TenantOthers:
    """`apart` gives the servers of all clients once they are there."""

    def __init__(self, audience: Audience, served: ServedTenants, apart: Callable[[], GatewaysApart | None]) -> None:
        self._audience = audience
        self._served = served
        self._apart = apart

    def _of(self, session: Session, id: str) -> _Own | None:
        apart = self._apart()
        if apart is None:
            return None
        bound, admits = self._served.bound_of(self._served.contexts.of(id)), admitted(self._audience, session)
        lists = listed(self._audience, session)
        return _Own(
            apart.library_of(id),
            lambda toolset: bound.has_toolset(toolset) and admits(toolset),
            lambda toolset: bound.has_toolset(toolset) and lists(toolset),
        )

    def _each(self, session: Session) -> Iterator[tuple[str, _Own]]:
        for id in self._served.resolver.grants(session.principal).ids:
            if (own := self._of(session, id)) is not None:
                yield id, own

    def _each_kind(self, session: Session) -> Iterator[_Own]:
        """Clients that have the same of the same servers count once."""
        seen = set()
        for id, own in self._each(session):
            key = own.library, self._served.bound_of(self._served.contexts.of(id))
            if key not in seen:
                seen.add(key)
                yield own

    # --- prompts

    def prompts(self, session: Session) -> list[Prompt]:
        """Each name once, as the first client that has it has it."""
        found: dict[str, Prompt] = {}
        for library, _, lists in self._each_kind(session):
            for prompt in library.prompts(lists):
                found.setdefault(prompt.name, prompt)
        return list(found.values())

    def find_prompt(self, session: Session, name: str) -> Prompt | None:
        """Of any of the clients. Where a server may have it that is away, which client asks has to be known first."""
        stand_in = None
        for library, servers, _ in self._each_kind(session):
            try:
                found = library.find_prompt(name, servers)
            except ProtocolError:
                stand_in = Prompt(name, "", _get_nothing)
            else:
                if found is not None:
                    return found
        return stand_in

    def find_prompt_for(self, session: Session, name: str, scope: Scope) -> Prompt:
        """As this client has it; ToolError where it has none."""
        own = self._of(session, scope.name)
        found = None if own is None else own.library.find_prompt(name, own.servers)
        if found is None:
            raise out_of_bounds(scope.name, name)
        if (refusal := self._served.refuse_read(session, scope)) is not None:
            raise refusal
        return found

    # --- resources

    def resources(self, session: Session) -> list[Resource]:
        return [
            replace(resource, uri=name_client_in(resource.uri, id), name=f"{resource.name}-{id}")
            for id, own in self._each(session)
            for resource in own.library.resources(own.lists)
        ]

    def templates(self, session: Session, *, instead: bool) -> list[Template]:
        """Each text once; with `instead` the single resources too, which are not listed then."""
        found: dict[str, Template] = {}
        for library, _, lists in self._each_kind(session):
            if instead:
                for each in library.resources(lists):
                    text = template_for(each.uri)
                    found.setdefault(text, Template(text, each.name, each.read, each.extra))
            for template in library.templates(lists):
                text = template_for(template.uri_template)
                found.setdefault(text, replace(template, uri_template=text))
        return list(found.values())

    def find_resource(
        self, session: Session, bare: str, scope: Scope
    ) -> tuple[Resource | Template, dict[str, str]] | None:
        own = None if scope is EVERYONE else self._of(session, scope.name)
        return None if own is None else own.library.find_resource(bare, own.servers)

    def has_resource(self, session: Session, bare: str, id: str) -> bool:
        """Whether a server that this client has may have it."""
        own = self._of(session, id)
        server = None if own is None else own.library.locate(bare)[0]
        return own is not None and server is not None and own.servers(server.toolset)

    # --- what completes, and what changes

    def has(self, session: Session, kind: str, name: str) -> bool:
        return any(_has(own, kind, name) for own in self._each_kind(session))

    async def complete(
        self,
        session: Session,
        kind: str,
        name: str,
        argument: str,
        value: str,
        others: dict[str, str],
        scope: Scope,
    ) -> Completion | None:
        own = self._of(session, scope.name)
        if own is None or not _has(own, kind, name):
            return None
        return await own.library.complete(session, kind, name, argument, value, others, scope)

    def digest(self, session: Session, kind: str, ids: Sequence[str]) -> bytes:
        """Of what the session lists: what is there, and (where they stand in the list) for which clients."""
        whole = blake2b("\0".join(ids).encode(), digest_size=16)
        told = set()
        for id, own in self._each(session):
            part = (id if ids else "", digest_of(own.library, kind, own.lists))
            if part not in told:
                told.add(part)
                whole.update(b"\1" + part[0].encode() + b"\0" + part[1])
        return whole.digest()


def _has(own: _Own, kind: str, name: str) -> bool:
    toolset = own.library.toolset_of(kind, name)
    return toolset is not None and own.servers(toolset)


async def _get_nothing(call: object) -> Messages:
    raise KeyError("of no client")
