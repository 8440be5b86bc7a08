"""A method's result and the one place that gives it its revision's form.

Both the JSON and the streaming path, and every transport, end in `Finisher.result`, so no path can forget a field.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import (
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    Id,
    Json,
    dumps,
    error_frame,
    result_frame,
)
from zorivest_rpc.mcp.protocol.revisions import Revision

__all__ = ["EMPTY", "Cache", "Finisher", "Result"]

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
Cache: TypeAlias = tuple[int, str]  # ttlMs, cacheScope


class Result(msgspec.Struct):
    """`members` is the inside of the result object without `_meta`, `resultType` and caching hints. `encoded_meta` is
    `meta` as bytes, where they are at hand."""

    members: bytes = b""
    meta: dict[str, Json] | None = None
    kind: str = "complete"
    cache: Cache | None = None
    encoded_meta: bytes = b""


EMPTY: Final = Result()


class Finisher:
    """Knows who we are; stamps results with it where the revision wants that."""

    __slots__ = ("_info", "_rest", "_stamp")

    def __init__(self, server_info: dict[str, Json]) -> None:
        self._info = server_info
        own = dumps({SERVER_INFO: server_info})
        self._stamp = b'"resultType":"complete","_meta":' + own
        self._rest = b"," + own[1:]  # of a `_meta` that has more

    def result(self, revision: Revision, id: Id, result: Result) -> bytes:
        if result.meta is None and not revision.modern:
            return result_frame(id, result.members)  # nothing to add, which is the common case
        return result_frame(id, self.members(revision, result))

    def members(self, revision: Revision, result: Result) -> bytes:
        """The inside of the result object, as this revision wants it."""
        members = result.members
        if not revision.modern:
            if result.meta:
                return _join(members, b'"_meta":' + (result.encoded_meta or dumps(result.meta)))
            return members
        if result.meta is None and result.kind == "complete":
            stamp = self._stamp
        elif result.encoded_meta:
            stamp = b'"resultType":%b,"_meta":%b%b' % (dumps(result.kind), result.encoded_meta[:-1], self._rest)
        else:
            meta = {**(result.meta or {}), SERVER_INFO: self._info}
            stamp = b'"resultType":%b,"_meta":%b' % (dumps(result.kind), dumps(meta))
        if result.cache is not None:
            stamp += b',"ttlMs":%d,"cacheScope":%b' % (result.cache[0], dumps(result.cache[1]))
        return _join(stamp, members)

    def error(self, revision: Revision, id: Id, error: ProtocolError) -> bytes:
        error.id = id
        if revision.modern and error.code == RESOURCE_NOT_FOUND:
            error.code = INVALID_PARAMS
        return error_frame(error)


def _join(first: bytes, second: bytes) -> bytes:
    return b"%b,%b" % (first, second) if first and second else first or second
