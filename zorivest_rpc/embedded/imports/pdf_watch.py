"""Stops a parser that would never end.

A PDF can refer to itself in ways that keep its parser going round for ever, and no code of ours runs meanwhile. So the
interpreter tells us of every call on this thread, and when the deadline has passed, or a page has taken more calls than
any real page does, the parser is stopped from within.
"""

from __future__ import annotations

import sys
from types import FrameType, TracebackType
from typing import Any, Self

from zorivest_rpc.embedded.imports.drafts import ImportRefused
from zorivest_rpc.embedded.imports.source import Budget

__all__ = ["Watch"]

EVERY = 4096


class _Stopped(BaseException):
    """Not an `Exception`, because the parser swallows those."""


class Watch:
    """A block in which the parser may run; `again` begins a new page."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._left = budget.limits.max_page_steps
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._tick)
        return self

    def again(self) -> None:
        self._left = self._budget.limits.max_page_steps

    def _tick(self, frame: FrameType, event: str, arg: object) -> None:
        self._left -= 1
        if self._left % EVERY == 0 and (self._left <= 0 or self._budget.is_expired):
            raise _Stopped

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setprofile(self._before)
        if isinstance(error, _Stopped):
            self._budget.check()
            raise ImportRefused(
                "unsafe_pdf",
                "The PDF takes far longer to read than a statement does.",
                next="Print the statement to a new PDF, or export it as CSV.",
            ) from None
