"""The prompts and resources that are offered: the journal's, built with the first request that asks for one, and after
them those of other servers, as far as the session's limits let their toolsets through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from zorivest_rpc.mcp.offer import Prompt, PromptShelf, Resource, ResourceShelf, Template
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import Audience

if TYPE_CHECKING:
    from zorivest_rpc.gateway.library import Library
    from zorivest_rpc.serving.tools.resources import Shelf

__all__ = ["Prompts", "Resources"]

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
        return own if others is None else (*own, *others.prompts(_admitted(self._audience, session)))

    def find(self, session: Session, name: str) -> Prompt | None:
        found = self._shelf().find(session, name)
        if found is None and (others := self._others()) is not None:
            return others.find_prompt(name, _admitted(self._audience, session))
        return found

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
        return own if others is None else (*own, *others.resources(_admitted(self._audience, session)))

    def templates(self, session: Session) -> Sequence[Template]:
        own = self._shelf().templates(session)
        others = self._others()
        return own if others is None else (*own, *others.templates(_admitted(self._audience, session)))

    def find(self, session: Session, uri: str) -> tuple[Resource | Template, dict[str, str]] | None:
        found = self._shelf().find(session, uri)
        if found is None and (others := self._others()) is not None:
            return others.find_resource(uri, _admitted(self._audience, session))
        return found


def _admitted(audience: Audience, session: Session) -> Callable[[str], bool]:
    """Whether the limits of the session let a toolset through."""
    toolsets = audience.limits(session).toolsets
    return lambda name: toolsets is None or name in toolsets
