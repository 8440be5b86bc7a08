"""Which era a server speaks, concluded from its answer to a modern `server/discover`: a table, first match wins.

A pipe has no status, so its sightings have None there. Rows that name statuses do not match it unless they name None.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from zorivest_rpc.mcp.protocol.jsonrpc import HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from zorivest_rpc.mcp.protocol.revisions import SUPPORTED_MODERN

__all__ = ["LADDER", "MODERN_ERRORS", "SPOKEN_LEGACY", "Rung", "Sighting", "Verdict", "choose_version", "conclude"]

SPOKEN_LEGACY: Final = ("2025-03-26", "2025-06-18", "2025-11-25")  # 2024-11-05 has another HTTP transport
MODERN_ERRORS: Final = frozenset((HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION))
_LEGACY_STATUS: Final = frozenset((400, 404, 405, 406, 415))


class Verdict(Enum):
    MODERN = "modern"
    UNDISCOVERED = "modern, though it would not say what it has"
    OTHER_VERSION = "modern, but in another version than ours"
    LEGACY = "legacy: initialize"
    UNCLEAR = "initialize, which a modern server refuses with a modern error"
    NO_COMMON = "no common protocol version"
    AUTH = "the credentials were refused"
    REDIRECT = "a redirect"
    FAILED = "the server or the way to it failed"
    NO_MESSAGE = "an answer that is none"


class Sighting(msgspec.Struct, frozen=True):
    """An answer, as far as conclusions are drawn from it."""

    status: int | None = None  # of HTTP
    error: int | None = None  # code of a JSON-RPC error
    has_result: bool = False
    versions: tuple[str, ...] | None = None  # supportedVersions of the result, if there are any
    is_silent: bool = False  # a pipe on which nothing came in time

    @property
    def has_message(self) -> bool:
        return self.has_result or self.error is not None


class Rung(msgspec.Struct, frozen=True):
    matches: Callable[[Sighting], bool]
    verdict: Verdict
    reason: str


def _is(*statuses: int) -> Callable[[Sighting], bool]:
    return lambda seen: seen.status in statuses


LADDER: Final = (
    Rung(_is(401, 403), Verdict.AUTH, "never a reason to try the other era with the same credentials"),
    Rung(lambda seen: seen.status is not None and 300 <= seen.status < 400, Verdict.REDIRECT, "never followed"),
    Rung(lambda seen: seen.status is not None and seen.status >= 500, Verdict.FAILED, "says nothing of the era"),
    Rung(lambda seen: seen.error == UNSUPPORTED_VERSION, Verdict.OTHER_VERSION, "data.supported"),
    Rung(lambda seen: seen.error in MODERN_ERRORS, Verdict.UNDISCOVERED, "codes of this era"),
    Rung(
        lambda seen: seen.status in (200, None) and bool({*(seen.versions or ())} & {*SUPPORTED_MODERN}),
        Verdict.MODERN,
        "supportedVersions has ours",
    ),
    Rung(lambda seen: seen.versions is not None, Verdict.NO_COMMON, "supportedVersions has not ours"),
    Rung(
        lambda seen: seen.status == 404 and seen.error == METHOD_NOT_FOUND,
        Verdict.UNCLEAR,
        "modern servers must know this method, and must answer unknown ones in just this way",
    ),
    Rung(lambda seen: seen.status in _LEGACY_STATUS, Verdict.LEGACY, "a legacy server has no such method or session"),
    Rung(lambda seen: seen.is_silent, Verdict.LEGACY, "some legacy servers answer nothing before initialize"),
    Rung(
        lambda seen: seen.status in (200, None) and seen.has_message, Verdict.LEGACY, "another error, or no discovery"
    ),
    Rung(lambda seen: seen.status is not None and seen.status >= 400, Verdict.FAILED, "such as 429: ask again later"),
    Rung(lambda seen: True, Verdict.NO_MESSAGE, "success without a message is none"),
)


def conclude(seen: Sighting) -> Verdict:
    return next(rung.verdict for rung in LADDER if rung.matches(seen))


def choose_version(supported: object) -> str | None:
    """The newest of `data.supported` that we speak, of either era."""
    offered = {item for item in supported if isinstance(item, str)} if isinstance(supported, list) else set()
    return next((name for name in reversed((*SPOKEN_LEGACY, *SUPPORTED_MODERN)) if name in offered), None)
