"""Per-request metadata to a session born ready, or a refusal: the opening of the 2026-07-28 era.

Nothing is inferred from an earlier request, a connection or a process.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.protocol.capabilities import read_capabilities
from zorivest_rpc.protocol.jsonrpc import INVALID_PARAMS, UNSUPPORTED_VERSION, Id
from zorivest_rpc.protocol.revisions import BY_NAME, SUPPORTED_MODERN
from zorivest_rpc.protocol.session import Phase, Session
from zorivest_rpc.protocol.types import LEVELS, Implementation, Meta

__all__ = ["check_meta", "claims_modern", "session_for", "unsupported"]

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
    if not isinstance(meta.capabilities, dict):
        raise ProtocolError(INVALID_PARAMS, f'"_meta" needs "{_PREFIX}clientCapabilities", an object', id=id)
    return meta


def session_for(meta: Meta, principal: str, id: Id | None) -> Session:
    """`meta` has passed `check_meta`, and on HTTP the headers have been compared with it."""
    row = BY_NAME.get(meta.protocol_version)
    if row is None or not row.modern:
        raise unsupported(meta.protocol_version, id)
    level = meta.log_level
    if level is not UNSET and (not isinstance(level, str) or level not in LEVELS):
        raise ProtocolError(INVALID_PARAMS, f'"{_PREFIX}logLevel" must be one of {", ".join(LEVELS)}', id=id)
    client = meta.client
    name = client.get("name") if isinstance(client, dict) else None
    return Session(
        row,
        Phase.READY,
        client=Implementation(name, str(client.get("version", ""))) if isinstance(name, str) else None,
        capabilities=read_capabilities(meta.capabilities, row),
        principal=principal,
        log_level=None if level is UNSET else level,
    )


def unsupported(requested: str, id: Id | None) -> ProtocolError:
    data = {"supported": list(SUPPORTED_MODERN), "requested": requested}
    return ProtocolError(UNSUPPORTED_VERSION, f"protocol version {requested!r} is not served", data, id)
