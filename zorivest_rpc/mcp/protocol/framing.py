"""Newline and server-sent-event framing, as feed/drain objects that never touch a file.

A line ends at byte 0x0A and nowhere else; one carriage return before it is dropped. A frame above the limit
is reported once, where it ends, and the stream goes on behind it.
"""

from __future__ import annotations

from typing import Final

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST

__all__ = ["DEFAULT_LIMIT", "SSE_COMMENT", "LineFramer", "sse_event"]

DEFAULT_LIMIT: Final = 16 * 1024 * 1024
SSE_COMMENT: Final = b":\n\n"


class LineFramer:
    """Bytes in, whole lines out; blank lines are dropped, an oversize line comes out as the error to answer
    it with."""

    __slots__ = ("_held", "_limit", "_parts", "_skipping")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0
        self._skipping = False

    def feed(self, data: bytes) -> list[bytes | ProtocolError]:
        lines = data.split(b"\n")
        rest = lines.pop()
        out: list[bytes | ProtocolError] = []
        if lines:
            lines[0] = self._join(lines[0])
            for line in lines:
                if self._skipping or len(line) > self._limit:
                    self._skipping = False
                    out.append(self._oversize())
                elif line and not line.isspace():
                    out.append(line[:-1] if line[-1] == 13 else line)
        if rest:
            self._hold(rest)
        return out

    def finish(self) -> list[bytes | ProtocolError]:
        """End of input: what was held back is a last line without its end."""
        if self._skipping:
            self._skipping = False
            return [self._oversize()]
        line = self._join(b"")
        return [line] if line.strip() else []

    def _join(self, tail: bytes) -> bytes:
        if self._parts:
            self._parts.append(tail)
            tail = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
        return tail

    def _hold(self, rest: bytes) -> None:
        self._held += len(rest)
        if self._held > self._limit:
            self._skipping = True
        if self._skipping:
            self._parts.clear()
            self._held = 0
        else:
            self._parts.append(rest)

    def _oversize(self) -> ProtocolError:
        return ProtocolError(
            INVALID_REQUEST, f"message above the limit of {self._limit} bytes; send less at once or raise the limit"
        )


def sse_event(data: bytes, id: bytes = b"", event: bytes = b"") -> bytes:
    """One event; `data` is compact JSON or a URI, so it holds no line end."""
    return b"%b%bdata: %b\n\n" % (b"event: %b\n" % event if event else b"", b"id: %b\n" % id if id else b"", data)
