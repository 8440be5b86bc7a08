"""From what providers said or failed to say to an answer of the API: with its age, or the status that is true."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from ..errors import BadUpstream, NotFound, Refusal, TooMany, Unavailable
from .failures import Failure, Kind

__all__ = ["refusal", "render"]

PLACES = Decimal("0.000001")
_CONNECT = "zorivest-rpc connect provider NAME"
_UNASKED = frozenset({Kind.NO_KEY, Kind.DISABLED, Kind.UNSUPPORTED})
_NETWORK = frozenset({Kind.UNREACHABLE, Kind.TIMEOUT, Kind.OUT_OF_TIME})


def render(value: msgspec.Struct, *, stale: bool, age: float) -> dict[str, Any]:
    """A shape on the wire, with prices of at most six places and how old the statement is."""
    fields = {
        name: item.quantize(PLACES) if isinstance(item, Decimal) else item
        for name, item in msgspec.structs.asdict(value).items()
    }
    return {**fields, "stale": stale, "age_seconds": int(age)}


def refusal(what: str, failures: Sequence[Failure], *, subject: str = "") -> Refusal:
    """The status for a question without an answer, what was tried, and what would help.

    404 as soon as one provider says that there is no such symbol; 429 when only rate limits stood in the way; 502 when
    every provider that was asked answered badly; 503 for the rest."""
    tried = [
        {"provider": failure.provider, "reason": failure.kind.value, "detail": failure.detail} for failure in failures
    ]
    asked = [failure for failure in failures if failure.kind not in _UNASKED]
    kinds = {failure.kind for failure in asked}
    extra: dict[str, Any] = {"tried": tried, "hint": _hint(failures)}
    if Kind.OFFLINE in kinds:
        return Unavailable("offline", f"No {what} is stored, and market.offline forbids asking for one.", **extra)
    if not asked:
        return Unavailable("no_provider", f"No provider that has {what} is set up for this.", **extra)
    if Kind.UNKNOWN in kinds:
        missing = NotFound("symbol", subject, "search_ticker finds the right one.")
        missing.extra.update(tried=tried)
        return missing
    told = "; ".join(f"{failure.provider}: {failure.detail}" for failure in asked)
    if kinds == {Kind.RATE_LIMITED}:
        waits = [failure.retry_after for failure in asked if failure.retry_after is not None]
        if waits:
            extra["retry_after"] = int(min(waits)) + 1
        return TooMany("rate_limited", f"No {what} for now. {told}.", **extra)
    if not kinds - {Kind.BAD_ANSWER, Kind.BAD_KEY, Kind.FORBIDDEN}:
        return BadUpstream("bad_upstream", f"No {what}: every provider answered badly. {told}.", **extra)
    code = "offline" if kinds <= _NETWORK else "no_provider"
    return Unavailable(code, f"No {what} is stored and no provider gave one. {told}.", **extra)


def _hint(failures: Sequence[Failure]) -> str:
    kinds = {failure.kind for failure in failures}
    hints = []
    if Kind.OFFLINE in kinds:
        hints.append("Set market.offline to false to allow network requests.")
    if Kind.UNREACHABLE in kinds or Kind.TIMEOUT in kinds:
        hints.append("A network connection to a provider would answer this; test_market_provider checks one.")
    if Kind.BAD_KEY in kinds or Kind.FORBIDDEN in kinds:
        hints.append(f"A provider does not accept its key; a person enters a new one: {_CONNECT}.")
    if Kind.RATE_LIMITED in kinds:
        hints.append("Ask again later, or add another provider.")
    if keyless := [failure.provider for failure in failures if failure.kind is Kind.NO_KEY]:
        hints.append(f"An API key for one of {', '.join(keyless)} would add a source; a person enters it: {_CONNECT}.")
    if disabled := [failure.provider for failure in failures if failure.kind is Kind.DISABLED]:
        hints.append(f"Switched off: {', '.join(disabled)}.")
    return " ".join(hints)
