"""What every command for people may use, also while packages are missing: its command line, and whether to colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence

from zorivest_rpc.config import is_switch
from zorivest_rpc.errors import ConfigError

__all__ = ["Words", "uses_colour"]


class Words:
    """A command line taken apart: the command's own words, flags and switches, and the options for `config.parse`."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        flags: Collection[str] = ("--as",),
        switches: Collection[str] = ("--json",),
        repeated: Collection[str] = (),
    ) -> None:
        self.words: list[str] = []
        self.flags: dict[str, str] = {}
        self.repeated: dict[str, list[str]] = {name: [] for name in repeated}
        self.switches: set[str] = set()
        self.options: list[str] = []
        waiting = list(argv)
        while waiting:
            word = waiting.pop(0)
            name, equals, value = word.partition("=")
            if word in switches:
                self.switches.add(word)
            elif name in flags or name in self.repeated:
                if not equals and not waiting:
                    raise ConfigError(name, "a value is missing")
                given = value if equals else waiting.pop(0)
                if name in flags:
                    self.flags[name] = given
                else:
                    self.repeated[name].append(given)
            elif word.startswith("--"):
                self.options.append(word)
                if not equals and waiting and not is_switch(name):
                    self.options.append(waiting.pop(0))
            else:
                self.words.append(word)

    @property
    def json(self) -> bool:
        return "--json" in self.switches


def uses_colour() -> bool:
    """Only for a person at a terminal who has not said otherwise (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
