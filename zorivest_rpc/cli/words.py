"""What every command may use, also while packages are missing: a flag of its own, and whether to colour."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from zorivest_rpc.errors import ConfigError

__all__ = ["coloured", "own_flag"]


def own_flag(name: str, argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of a flag that is the command's own, if it is given, and the other words."""
    value, rest = None, []
    waiting = list(argv)
    while waiting:
        word = waiting.pop(0)
        flag, equals, given = word.partition("=")
        if flag != name:
            rest.append(word)
            continue
        if not equals and not waiting:
            raise ConfigError(name, "a value is missing")
        value = given if equals else waiting.pop(0)
    return value, rest


def coloured() -> bool:
    """Only for a person at a terminal who has not said otherwise (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
