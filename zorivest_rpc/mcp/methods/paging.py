"""Sealed cursors: a page is asked for with a token of ours or refused; never silently answered with page one."""

from __future__ import annotations

from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.methods.core import Core
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json, dumps
from zorivest_rpc.mcp.protocol.seal import BadSeal
from zorivest_rpc.mcp.protocol.types import ListItems

__all__ = ["next_cursor", "start_of"]


def start_of(core: Core, method: str, params: ListItems, version: Json) -> int:
    """Where the page begins. A cursor belongs to one list in one version: a list that changed is begun again."""
    if params.cursor is UNSET:
        return 0
    try:
        start, of = core.seal.open("cursor", params.cursor, bound_to=method)
    except BadSeal:
        start, of = 0, None
    if of is None:
        raise ProtocolError(INVALID_PARAMS, "invalid cursor; begin the list again without one")
    if of != version:
        raise ProtocolError(INVALID_PARAMS, "the list changed since this cursor; begin it again without one")
    return int(start)


def next_cursor(core: Core, method: str, end: int, count: int, version: Json) -> bytes:
    """`,"nextCursor":…`, or nothing on the last page."""
    if end >= count:
        return b""
    return b',"nextCursor":' + dumps(core.seal.close("cursor", [end, version], bound_to=method))
