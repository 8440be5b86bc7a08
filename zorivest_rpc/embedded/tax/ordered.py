"""A list that stays sorted while values come and go anywhere in it, at nearly the same cost however long it is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

__all__ = ["Ordered"]

T = TypeVar("T", bound=Any)

_MOST = 512  # values in one block: moving so many pointers costs less than looking at one lot


class Ordered(Generic[T]):
    """Distinct values in ascending order, kept in short blocks; a block is never empty."""

    def __init__(self) -> None:
        self._blocks: list[list[T]] = []
        self._lasts: list[T] = []  # the last value of each block

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[T]:
        return (value for block in self._blocks for value in block)

    def __reversed__(self) -> Iterator[T]:
        return (value for block in reversed(self._blocks) for value in reversed(block))

    @property
    def first(self) -> T:
        return self._blocks[0][0]

    def after(self, value: T | None) -> T | None:
        """The next value in order, present or not; the first one after nothing."""
        if value is None:
            return self._blocks[0][0] if self._blocks else None
        at = bisect_left(self._lasts, value)
        if at == len(self._blocks):
            return None
        block = self._blocks[at]
        place = bisect_left(block, value)
        if block[place] == value:
            place += 1
        if place < len(block):
            return block[place]
        return self._blocks[at + 1][0] if at + 1 < len(self._blocks) else None

    def add(self, value: T) -> None:
        """Put a value where it belongs; one that is there already stays once."""
        if not self._blocks:
            self._blocks.append([value])
            self._lasts.append(value)
            return
        at = min(bisect_left(self._lasts, value), len(self._blocks) - 1)
        block = self._blocks[at]
        place = bisect_left(block, value)
        if place < len(block) and block[place] == value:
            return
        block.insert(place, value)
        if len(block) > _MOST:
            self._blocks[at : at + 1] = [block[: _MOST // 2], block[_MOST // 2 :]]
            self._lasts[at : at + 1] = [block[_MOST // 2 - 1], block[-1]]
        else:
            self._lasts[at] = block[-1]

    def discard(self, value: T) -> None:
        """Take a value out, if it is there."""
        at = bisect_left(self._lasts, value)
        if at == len(self._blocks):
            return
        block = self._blocks[at]
        place = bisect_left(block, value)
        if block[place] != value:
            return
        del block[place]
        if block:
            self._lasts[at] = block[-1]
        else:
            del self._blocks[at], self._lasts[at]
