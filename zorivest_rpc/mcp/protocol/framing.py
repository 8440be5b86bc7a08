"""Newline and server-sent-event framing, as feed/drain objects that never touch a file.

A line ends at byte 0x0A and nowhere else; one carriage return before it is dropped. A frame above the limit
is reported once, where it ends, and the stream goes on behind it.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Final, NamedTuple

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST

__all__ = ["DEFAULT_LIMIT", "SSE_COMMENT", "EventReader", "LineFramer", "SseEvent", "sse_event"]

DEFAULT_LIMIT: Final = 16 * 1024 * 1024
SSE_COMMENT: Final = b":\n\n"
_LONGEST_ID: Final = 4_096  # of an event; it goes back in a header


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
    if id and not event:  # a change, which is told to thousands of streams
        return b"id: %b\ndata: %b\n\n" % (id, data)
    return b"%b%bdata: %b\n\n" % (b"event: %b\n" % event if event else b"", b"id: %b\n" % id if id else b"", data)


class SseEvent(NamedTuple):
    """One event as a client reads it. `id` is the last that the stream has named, in this event or before."""

    data: bytes
    id: str = ""
    event: str = ""


class EventReader:
    """Bytes of an event stream in, events out, however the bytes were cut. A line ends at LF, CR or CRLF.

    An event above the limit raises ProtocolError: the answer that was waited for may be the one that is lost, so there
    is nothing to go on with."""

    __slots__ = ("_data", "_event", "_held", "_is_first", "_limit", "_rest", "_size", "_was_cr", "last_id", "retry")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._rest: list[bytes] = []  # of a line whose end has not come
        self._held = 0  # its bytes
        self._data: list[bytes] = []
        self._size = 0  # of the event's fields so far
        self._event = ""
        self._was_cr = False
        self._is_first = True
        self.last_id = ""
        self.retry: int | None = None  # milliseconds

    def feed(self, data: bytes) -> list[SseEvent]:
        if self._was_cr and data[:1] == b"\n":  # the second half of a line end that was cut
            data = data[1:]
            self._was_cr = False
        if not data:
            return []
        self._was_cr = data[-1] == 13
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        out: list[SseEvent] = []
        if lines:
            if self._rest:
                lines[0] = b"".join((*self._rest, lines[0]))
                self._rest.clear()
                self._held = 0
            for line in lines:
                if line:
                    self._take(line)
                else:
                    self._end(out)
        if rest:
            self._rest.append(rest)
            self._held += len(rest)
            self._check(self._size + self._held)
        return out

    def _take(self, line: bytes) -> None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(BOM_UTF8)  # a stream may begin with one
        name, _, value = line.partition(b":")
        if not name:
            return  # a comment
        self._size += len(value)
        self._check(self._size)
        if value[:1] == b" ":
            value = value[1:]
        match name:
            case b"data":
                self._data.append(value)
            case b"id":
                if b"\0" not in value and len(value) <= _LONGEST_ID:
                    self.last_id = value.decode("utf-8", "replace")
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"retry":
                if value.isdigit():
                    self.retry = int(value[:9])

    def _end(self, out: list[SseEvent]) -> None:
        """A blank line. What had no data was no event; an id or a retry time of it counts all the same."""
        if self._data:
            whole = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            if whole:
                out.append(SseEvent(whole, self.last_id, self._event))
            self._data.clear()
        self._event = ""
        self._size = 0

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise ProtocolError(INVALID_REQUEST, f"an event above the limit of {self._limit} bytes")
