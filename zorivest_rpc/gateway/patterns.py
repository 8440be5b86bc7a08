"""Names in which `*` matches any run of characters, and nothing else is special."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["is_literal", "matches", "matches_any"]


def is_literal(pattern: str) -> bool:
    return "*" not in pattern


def matches(pattern: str, name: str) -> bool:
    """Case counts; `?` and brackets are ordinary characters."""
    return pattern == name if is_literal(pattern) else _compile(pattern).fullmatch(name) is not None


def matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(matches(pattern, name) for pattern in patterns)


@lru_cache(maxsize=1024)
def _compile(pattern: str) -> re.Pattern[str]:
    # Runs of stars are one star: each further one would multiply the work on a name that does not match.
    parts = re.split(r"\*+", pattern)
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
