"""One finding of the doctor."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Line", "fail", "ok", "warn"]

Status = Literal["ok", "warn", "fail"]


class Line(NamedTuple):
    """What was looked at, how it is, and for all that is not well the next step."""

    status: Status
    area: str
    text: str
    next: str = ""


def ok(area: str, text: str) -> Line:
    return Line("ok", area, text)


def warn(area: str, text: str, next: str) -> Line:
    return Line("warn", area, text, next)


def fail(area: str, text: str, next: str) -> Line:
    return Line("fail", area, text, next)
