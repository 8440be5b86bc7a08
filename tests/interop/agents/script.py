"""What the scripted model says: one step per request of the agent, whatever API the agent speaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

Json = Any


class Say(NamedTuple):
    """End the turn with a sentence."""

    text: str


class Use(NamedTuple):
    """Call a tool of the journal, by the name that our list gives it; the agent may have put words around it."""

    tool: str
    arguments: Mapping[str, Json] = MappingProxyType({})
    own: bool = False
    """The tool is the agent's own, such as its tool search, and is called by its whole name."""


Step = Say | Use


class Offered(NamedTuple):
    """One request of the agent: the tools it offered the model, and the results it brought since the last one."""

    tools: tuple[str, ...]
    results: tuple[str, ...]


class Script:
    """The steps still to be said, and what was seen on the way."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()
        self.seen: list[Offered] = []
        self._told = 0

    def begin(self, steps: Iterable[Step]) -> None:
        """The steps of the next turn; what an agent left of the one before, which a user's no ends early, is gone."""
        self.steps = deque(steps)

    def next(self, tools: Iterable[str], results: Iterable[str]) -> Step:
        """The step that answers this request. `results` are all of the conversation's, oldest first."""
        brought = tuple(results)
        self.seen.append(Offered(tuple(tools), brought[self._told :]))
        self._told = max(self._told, len(brought))
        return self.steps.popleft() if self.steps else Say("Done.")

    def results(self) -> list[str]:
        return [result for offered in self.seen for result in offered.results]


def full_name(step: Use, offered: Iterable[str]) -> str:
    """The agent's name for the tool: the shortest of those offered that end with ours, else ours as it is."""
    if step.own:
        return step.tool
    candidates = [name for name in offered if name == step.tool or name.endswith(("_" + step.tool, "." + step.tool))]
    return min(candidates, key=len, default=step.tool)
