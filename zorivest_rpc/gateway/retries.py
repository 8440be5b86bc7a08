"""Whether a request to an upstream is sent again: the table of failures, and the pause before the next attempt."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.errors import (
    CallTimeout,
    ConnectFailed,
    NoAnswer,
    StdioExited,
    StdioSpawn,
    ToolingError,
)

__all__ = [
    "LONGEST_PAUSE",
    "Purpose",
    "is_transport_failure",
    "may_be_repeated",
    "pause_before",
    "retry_after",
    "waits_for",
]

LONGEST_PAUSE = 30.0
_TOLD_TO_WAIT = (429, 503)


class Purpose(Enum):
    """What the request is for, as far as a second delivery could do harm."""

    LIST = "discovery, list"
    REPEATABLE = "call, repeatable"
    CALL = "call, other"


def is_transport_failure(error: ToolingError) -> bool:
    """Whether it tells something about the way to the server, and so counts for the circuit."""
    return isinstance(error, ConnectFailed | NoAnswer | CallTimeout | StdioExited | StdioSpawn)


def waits_for(error: ToolingError, purpose: Purpose, left: float) -> float | None:
    """None where the failure is the end; else the seconds that the server wants to be left alone, 0 where it said
    none. `left` are the seconds until the deadline."""
    if isinstance(error, NoAnswer):
        return 0.0 if purpose is Purpose.LIST else None
    if isinstance(error, StdioSpawn):
        return 0.0
    if isinstance(error, StdioExited):
        return None if error.sent and purpose is Purpose.CALL else 0.0
    if not isinstance(error, ConnectFailed):
        return None
    if not error.sent:
        return 0.0
    asked = retry_after(error)
    if asked is not None and getattr(error, "status", 0) in _TOLD_TO_WAIT:
        return asked if asked <= left else None
    status = getattr(error, "status", None)
    if status is not None and status not in (502, 503, 504):
        return None
    return None if purpose is Purpose.CALL else 0.0


def may_be_repeated(error: ToolingError, purpose: Purpose) -> bool:
    """Whether the same call again, made by our client, can do no harm twice: the tool may be repeated, nothing was
    delivered, or the server refused it before it did anything."""
    if purpose is not Purpose.CALL:
        return True
    if isinstance(error, StdioExited):
        return not error.sent
    if not isinstance(error, ConnectFailed) or not error.sent:
        return True
    status = getattr(error, "status", 0)
    return 400 <= status < 500 or (status == 503 and retry_after(error) is not None)


def retry_after(error: ToolingError) -> float | None:
    return getattr(error, "retry_after", None)


def pause_before(attempt: int, profile: Profile, random: Callable[[], float]) -> float:
    """Before the attempt of this number (the second is 2): doubled each time, at most 30 s, give or take a fifth."""
    plain = min(LONGEST_PAUSE, profile.tool_retry_delay_ms / 1000 * 2.0 ** (attempt - 2))
    return plain * (0.8 + 0.4 * random())
