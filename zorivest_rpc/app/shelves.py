"""The prompts and resources that are offered: the journal's, built with the first request that asks for one, and after
them those of other servers: listed with the tools of their server, and read by name as far as the session's limits
let its toolset through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from zorivest_rpc.mcp.call import EVERYONE, Scope
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES, Prompt, PromptShelf, Resource, ResourceShelf, Template
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import Audience

if TYPE_CHECKING:
    from zorivest_rpc.gateway.library import Library
    from zorivest_rpc.serving.tools.resources import Shelf

__all__ = ["Prompts", "Resources", "admitted", "digest_of", "listed"]

Others: TypeAlias = "Callable[[], Library | None]"
"""What other servers have, once one of them is there."""


class Prompts(PromptShelf):
    """The journal's prompts are read with the first request."""

    def __init__(self, audience: Audience, others: Others) -> None:
        super().__init__()
        self._audience = audience
        self._others = others

    def visible(self, session: Session) -> Sequence[Prompt]:
        own = self._shelf().visible(session)
        others = self._others()
        return own if others is None else (*own, *others.prompts(listed(self._audience, session)))

    def find(self, session: Session, name: str) -> Prompt | None:
        found = self._shelf().find(session, name)
        if found is None and (others := self._others()) is not None:
            return others.find_prompt(name, admitted(self._audience, session))
        return found

    def digest(self, session: Session) -> bytes:
        """Of the part of the list that changes by itself."""
        others = self._others()
        return b"" if others is None else digest_of(others, PROMPTS, listed(self._audience, session))

    def _shelf(self) -> PromptShelf:
        from zorivest_rpc.serving.tools.prompts import shelf

        return shelf()


class Resources(ResourceShelf):
    """The journal's resources are built with the first request."""

    def __init__(self, shelf: Callable[[], Shelf], audience: Audience, others: Others) -> None:
        super().__init__()
        self._shelf = shelf
        self._audience = audience
        self._others = others

    def visible(self, session: Session) -> Sequence[Resource]:
        own = self._shelf().visible(session)
        others = self._others()
        return own if others is None else (*own, *others.resources(listed(self._audience, session)))

    def templates(self, session: Session) -> Sequence[Template]:
        own = self._shelf().templates(session)
        others = self._others()
        return own if others is None else (*own, *others.templates(listed(self._audience, session)))

    def find(
        self, session: Session, uri: str, scope: Scope = EVERYONE
    ) -> tuple[Resource | Template, dict[str, str]] | None:
        found = self._shelf().find(session, uri)
        if found is None and (others := self._others()) is not None:
            return others.find_resource(uri, admitted(self._audience, session))
        return found

    def digest(self, session: Session) -> bytes:
        """Of the part of the list that changes by itself."""
        others = self._others()
        if others is None:
            return b"\0" * 32
        servers = listed(self._audience, session)
        return digest_of(others, RESOURCES, servers) + digest_of(others, "templates", servers)


def digest_of(library: Library, kind: str, servers: Callable[[str], bool]) -> bytes:
    """Of what these servers have in one list of the library; 16 bytes."""
    from hashlib import blake2b

    found = (toolset.encode() + b"\0" + each for toolset, each in library.digests(kind).items() if servers(toolset))
    return blake2b(b"".join(found), digest_size=16).digest()


def admitted(audience: Audience, session: Session) -> Callable[[str], bool]:
    """Whether the limits of the session let a toolset through."""
    toolsets = audience.limits(session).toolsets
    return lambda name: toolsets is None or name in toolsets


def listed(audience: Audience, session: Session) -> Callable[[str], bool]:
    """Whether what a toolset has is in the session's lists. What is in none can be read by its name all the same."""
    return audience.listed_toolsets(session).__contains__
