"""How a conversation with a server is opened: era, version, capabilities; as a generator that a shell drives.

It yields what to send (a `Request`, or a `Note` that nothing answers), is sent back what was seen, and returns a
`Welcome`. ProtocolError: the server cannot be talked to. Refused: it said no. TurnedAway: its HTTP status said no.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError, ZorivestError
from zorivest_rpc.mcp.client.caller import Answer, Caller, Note, Refused, Request
from zorivest_rpc.mcp.client.ladder import MODERN_ERRORS, SPOKEN_LEGACY, Sighting, Verdict, choose_version, conclude
from zorivest_rpc.mcp.client.rounds import check_complete
from zorivest_rpc.mcp.protocol.capabilities import Offered, read_offered
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST, UNSUPPORTED_VERSION, Json
from zorivest_rpc.mcp.protocol.replies import SERVER_INFO, Discovered, Initialized, read_reply
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, LATEST_LEGACY, MODERN, SUPPORTED_MODERN, Era, Revision

__all__ = ["Opening", "Seen", "TurnedAway", "Welcome", "open_server"]

_OLD: Final = "2024-11-05"
_MOST_NAMED: Final = 8  # versions in a message
_UNKNOWN: Final = Offered(tools=True)  # a server that would not say: its tools are asked for, and no more


class Seen(msgspec.Struct, frozen=True):
    """What came back: over HTTP the status, with or without a message; on a pipe a message or silence."""

    status: int | None = None
    answer: Answer | None = None
    is_silent: bool = False


class Welcome(msgspec.Struct, frozen=True):
    """What the opening settled."""

    revision: Revision
    offered: Offered
    name: str = ""
    version: str = ""
    instructions: str = ""
    ttl_ms: int | None = None


class TurnedAway(ZorivestError):
    """The status of the answer decides, and the shell knows the rest of it."""

    def __init__(self, verdict: Verdict, status: int) -> None:
        super().__init__(f"HTTP {status}: {verdict.value}")
        self.verdict = verdict
        self.status = status


Opening: TypeAlias = Generator[Request | Note, Seen, Welcome]


def open_server(caller: Caller, era: Era | None = None, known: Era | None = None, meta: bytes = b"") -> Opening:
    """`era` is configured and skips the detection; `known` is what was found before, and only saves the probe.

    `meta` are encoded members for `_meta` of the opening request."""
    if era is Era.LEGACY:
        return (yield from _initialize(caller, meta))
    if era is None and known is Era.LEGACY:
        try:
            return (yield from _initialize(caller, meta))
        except (ProtocolError, Refused):
            pass  # it may speak another era by now: look again
        except TurnedAway as away:
            if away.verdict in (Verdict.AUTH, Verdict.REDIRECT, Verdict.FAILED):
                raise
    return (yield from _detect(caller, era, meta))


def _detect(caller: Caller, era: Era | None, meta: bytes) -> Opening:
    for attempt in (1, 2):
        seen, sighting, found = yield from _discover(caller, meta)
        verdict = conclude(sighting)
        if verdict is Verdict.MODERN:
            assert found is not None
            check_complete(found.result_type, "server/discover")
            return _welcome_modern(caller, found)
        if verdict is Verdict.UNDISCOVERED:
            return Welcome(MODERN, _UNKNOWN)
        if verdict is Verdict.NO_COMMON:
            raise _no_common(list(sighting.versions or ()))
        if verdict is Verdict.OTHER_VERSION:
            supported = _read_supported(seen)
            version = choose_version(supported)
            if version is not None and not BY_NAME[version].modern and era is None:
                return (yield from _initialize(caller, meta))
            if version is None or attempt == 2 or version not in SUPPORTED_MODERN:
                raise _no_common(supported)
            caller.settle(BY_NAME[version])
            continue
        break
    if verdict in (Verdict.AUTH, Verdict.REDIRECT, Verdict.FAILED):
        raise TurnedAway(verdict, seen.status or 0)
    if verdict is Verdict.NO_MESSAGE or era is Era.MODERN:
        raise _unusable("server/discover", seen)
    return (yield from _initialize(caller, meta, is_unclear=verdict is Verdict.UNCLEAR))


def _discover(caller: Caller, meta: bytes) -> Generator[Request | Note, Seen, tuple[Seen, Sighting, Discovered | None]]:
    if not caller.revision.modern:
        caller.settle(MODERN)
    seen = yield caller.request("server/discover", meta=meta)
    answer, found, versions = seen.answer, None, None
    if answer is not None and answer.error is None:
        try:
            found = read_reply(answer.result, Discovered)
            assert isinstance(found, Discovered)
            versions = None if found.supported_versions is UNSET else tuple(found.supported_versions)
        except ProtocolError:
            found = None
    error = None if answer is None or answer.error is None else answer.error.code
    has_result = answer is not None and answer.error is None
    return seen, Sighting(seen.status, error, has_result, versions, seen.is_silent), found


def _welcome_modern(caller: Caller, found: Discovered) -> Welcome:
    meta = found.meta if isinstance(found.meta, dict) else {}
    name, version = _read_info(meta.get(SERVER_INFO))
    offered = read_offered(found.capabilities)
    return Welcome(caller.revision, offered, name, version, _text(found.instructions), read_ttl(found.ttl_ms))


def _initialize(caller: Caller, meta: bytes, *, is_unclear: bool = False) -> Opening:
    caller.settle(LATEST_LEGACY)
    seen = yield caller.initialize(LATEST_LEGACY.name, meta)
    answer, status = seen.answer, seen.status
    if status in (401, 403) or (status is not None and (300 <= status < 400 or status >= 500 or status == 429)):
        raise TurnedAway(conclude(Sighting(status)), status)
    if answer is None:
        raise _unusable("initialize", seen)
    if answer.error is not None:
        if is_unclear and answer.error.code in MODERN_ERRORS:
            caller.settle(MODERN)
            return Welcome(MODERN, _UNKNOWN)
        raise Refused(answer.error)
    found = read_reply(answer.result, Initialized)
    assert isinstance(found, Initialized)
    version = found.protocol_version
    if version not in SPOKEN_LEGACY:
        old = "; the HTTP+SSE transport and its revision are not supported" if version == _OLD else ""
        raise ProtocolError(
            INVALID_REQUEST, f"it answered initialize with protocol version {shorten(version, 40)!r}{old}"
        )
    caller.settle(BY_NAME[version])
    yield caller.notify("notifications/initialized")
    name, number = _read_info(found.server_info)
    return Welcome(BY_NAME[version], read_offered(found.capabilities), name, number, _text(found.instructions))


def _read_supported(seen: Seen) -> list[Json]:
    error = seen.answer.error if seen.answer is not None else None
    data = error.data if error is not None and error.code == UNSUPPORTED_VERSION else None
    supported = data.get("supported") if isinstance(data, dict) else None
    return supported if isinstance(supported, list) else []


def _no_common(offered: list[Json]) -> ProtocolError:
    names = ", ".join(shorten(item, 40) for item in offered[:_MOST_NAMED] if isinstance(item, str)) or "none"
    return ProtocolError(INVALID_REQUEST, f"no common protocol version (server offers {names})")


def _unusable(method: str, seen: Seen) -> ProtocolError:
    if seen.is_silent:
        return ProtocolError(INVALID_REQUEST, f"no answer to {method}")
    how = f"HTTP {seen.status} " if seen.status is not None else ""
    old = "; the HTTP+SSE transport of 2024-11-05 is not supported" if method == "initialize" and how else ""
    return ProtocolError(INVALID_REQUEST, f"{method} was answered {how}without a JSON-RPC message{old}")


def _read_info(info: Any) -> tuple[str, str]:
    if not isinstance(info, dict):
        return "", ""
    return _text(info.get("name"), 200), _text(info.get("version"), 80)


def _text(value: Any, most: int = 20_000) -> str:
    return value[:most] if isinstance(value, str) else ""


def read_ttl(value: Any) -> int | None:
    """A hint: what is no whole number of milliseconds is none."""
    return value if type(value) is int and value >= 0 else None
