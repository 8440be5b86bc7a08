"""What a backend is allowed: seconds, connections, bytes and attempts."""

from __future__ import annotations

import msgspec

__all__ = ["BackendLimits"]


class BackendLimits(msgspec.Struct, frozen=True):
    """The seconds are for one question, all its attempts together."""

    locate: float = 90.0
    connect: float = 5.0
    total: float = 30.0
    connections: int = 100
    keep_alive: float = 4.0  # below the 5 s of common servers, so that a connection is seldom closed under a request
    body: int = 64 * 1024 * 1024
    large: int = 1024 * 1024  # of larger bodies one is read at a time, so that not every connection holds one
    pace: float = 0.0  # bytes a second at which the rest of a large body is read, 0 for as it comes
    attempts: int = 3
    backoff: float = 0.1
    longest_backoff: float = 2.0
