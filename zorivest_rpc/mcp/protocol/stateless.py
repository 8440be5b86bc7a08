"""Per-request metadata to a session born ready, or a refusal: the opening of the 2026-07-28 era.

Nothing is inferred from an earlier request, a connection or a process.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.capabilities import Capabilities, read_capabilities
from zorivest_rpc.mcp.protocol.extent import MOST_NAME, shorten
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, UNSUPPORTED_VERSION, Id, Json
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, SUPPORTED_MODERN, Revision
from zorivest_rpc.mcp.protocol.session import Phase, Session
from zorivest_rpc.mcp.protocol.types import LEVELS, Implementation, Meta

__all__ = ["check_meta", "claims_modern", "refuse_version", "session_for"]

_PREFIX = "io.modelcontextprotocol/"


def claims_modern(meta: Meta | UnsetType) -> bool:
    """A `_meta` with a protocol version claims the modern era, whatever the version is worth."""
    return meta is not UNSET and meta.protocol_version is not UNSET


def check_meta(meta: Meta | UnsetType, id: Id | None) -> Meta:
    """The required keys, before anything else is looked at."""
    if meta is UNSET:
        raise ProtocolError(INVALID_PARAMS, f'missing "_meta" with "{_PREFIX}protocolVersion"', id=id)
    if not isinstance(meta.protocol_version, str):
        raise ProtocolError(INVALID_PARAMS, f'"_meta" needs "{_PREFIX}protocolVersion", a string', id=id)
    if meta.capabilities is UNSET or bytes(meta.capabilities)[:1] != b"{":
        raise ProtocolError(INVALID_PARAMS, f'"_meta" needs "{_PREFIX}clientCapabilities", an object', id=id)
    return meta


def session_for(meta: Meta, principal: str, id: Id | None) -> Session:
    """`meta` has passed `check_meta`, and on HTTP the headers have been compared with it."""
    row = BY_NAME.get(meta.protocol_version)
    if row is None or not row.modern:
        raise refuse_version(meta.protocol_version, id)
    level = meta.log_level
    if level is not UNSET and (not isinstance(level, str) or level not in LEVELS):
        raise ProtocolError(INVALID_PARAMS, f'"{_PREFIX}logLevel" must be one of {", ".join(LEVELS)}', id=id)
    capabilities = b"{}" if meta.capabilities is UNSET else bytes(meta.capabilities)
    client = b"" if meta.client is UNSET else bytes(meta.client)
    key = (row.name, capabilities, client)
    known = _seen.get(key)
    if known is None:
        known = _read(row, capabilities, client, id)
        if len(capabilities) + len(client) < _LONGEST_REMEMBERED:
            if len(_seen) >= _MOST_REMEMBERED:
                _seen.clear()
            _seen[key] = known
    return Session(
        row,
        Phase.READY,
        client=known[1],
        capabilities=known[0],
        principal=principal,
        log_level=None if level is UNSET else level,
    )


_MOST_REMEMBERED, _LONGEST_REMEMBERED = 256, 4096
_seen: dict[tuple[str, bytes, bytes], tuple[Capabilities, Implementation | None]] = {}
"""What equal bytes meant before: a cache of readings, not of clients, so nothing is inferred from earlier requests."""


def _read(
    row: Revision, capabilities: bytes, client: bytes, id: Id | None
) -> tuple[Capabilities, Implementation | None]:
    try:
        declared = msgspec.json.decode(capabilities)
        info: Json = msgspec.json.decode(client) if client else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as exc:
        raise ProtocolError(INVALID_PARAMS, f'"_meta" cannot be read: {exc}', id=id) from None
    name = info.get("name") if isinstance(info, dict) else None
    named = None
    if isinstance(name, str):  # display only, so a long one is cut and never refused
        named = Implementation(name[:MOST_NAME], str(info.get("version", ""))[:MOST_NAME])
    return read_capabilities(declared, row), named


def refuse_version(requested: str, id: Id | None) -> ProtocolError:
    data = {"supported": list(SUPPORTED_MODERN), "requested": shorten(requested)}
    return ProtocolError(UNSUPPORTED_VERSION, f"protocol version {shorten(requested)!r} is not served", data, id)
