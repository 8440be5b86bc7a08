"""Finds the known name that a mistyped one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["LONGEST_COMPARED", "nearest"]

LONGEST_COMPARED: Final = 64  # characters; comparing is quadratic, and no known name is longer


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the known name most like `name`, or None if none is near or `name` is too long to compare."""
    from difflib import get_close_matches

    if len(name) > LONGEST_COMPARED:
        return None
    folded = {known.lower().replace("_", "-"): known for known in names}
    matches = get_close_matches(name.lower().replace("_", "-"), list(folded), n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None
