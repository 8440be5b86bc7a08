"""The journal's prompts and resources, built with the first request that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zorivest_rpc.mcp.offer import Prompt, PromptShelf, Resource, ResourceShelf, Template
from zorivest_rpc.mcp.protocol.session import Session

if TYPE_CHECKING:
    from zorivest_rpc.serving.tools.resources import Shelf

__all__ = ["Prompts", "Resources"]


class Prompts(PromptShelf):
    """The journal's prompts, read with the first request."""

    def visible(self, session: Session) -> Sequence[Prompt]:
        return self._shelf().visible(session)

    def find(self, session: Session, name: str) -> Prompt | None:
        return self._shelf().find(session, name)

    def _shelf(self) -> PromptShelf:
        from zorivest_rpc.serving.tools.prompts import shelf

        return shelf()


class Resources(ResourceShelf):
    """The journal's resources, built with the first request."""

    def __init__(self, shelf: Callable[[], Shelf]) -> None:
        super().__init__()
        self._shelf = shelf

    def visible(self, session: Session) -> Sequence[Resource]:
        return self._shelf().visible(session)

    def templates(self, session: Session) -> Sequence[Template]:
        return self._shelf().templates(session)

    def find(self, session: Session, uri: str) -> tuple[Resource | Template, dict[str, str]] | None:
        return self._shelf().find(session, uri)
