"""Points in time that `analyze(changes)` compares with: the last call, and those that were given a name."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from typing import Final

import msgspec

from zorivest_rpc.errors import ToolError

__all__ = ["MOST_MARKS", "Mark", "Marks"]

MOST_MARKS: Final = 20


class Mark(msgspec.Struct, frozen=True):
    """Entries with a higher number, or that arrived later, are changes."""

    number: int = 0
    at: float = 0.0  # milliseconds since 1970


class Marks:
    def __init__(self) -> None:
        self._named: OrderedDict[str, Mark] = OrderedDict()
        self.last = Mark()  # moves with each call

    def set(self, name: str, mark: Mark) -> None:
        """The least recently used goes when there are too many."""
        self._named[name] = mark
        self._named.move_to_end(name)
        if len(self._named) > MOST_MARKS:
            self._named.popitem(last=False)

    def find(self, name: str | None) -> Mark:
        """The automatic mark, a named one, or a time."""
        if not name:
            return self.last
        if name in self._named:
            self._named.move_to_end(name)
            return self._named[name]
        at = _read_time(name)
        if at is None:
            known = ", ".join(self._named) or "none"
            words = f'Unknown checkpoint "{name}". Marks: {known}. An ISO 8601 time works too.'
            raise ToolError(words, code="unknown_checkpoint", next="Name one of the marks, or leave it out.")
        return Mark(0, at)

    def describe(self) -> dict[str, float]:
        return {name: mark.at for name, mark in self._named.items()}


def _read_time(text: str) -> float | None:
    """Milliseconds since 1970; a time without a zone is taken as UTC."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000.0
