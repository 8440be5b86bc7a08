"""The event streams of one legacy session: ids, a bounded replay of each, and which connection carries it now.

An event id is `epoch.stream.number`; the stream's name holds the JSON-RPC id of the request it answers, so that even
after a restart a client that resumes can be told what became of *that* request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from zorivest_rpc.mcp.protocol.framing import sse_event
from zorivest_rpc.mcp.protocol.jsonrpc import Id, encode_id
from zorivest_rpc.mcp.transports.answers import EventStream

__all__ = ["REPLAY_BYTES", "RETRY_MS", "Replay", "ResumePoint", "SessionStreams", "Stream", "read_event_id"]

RETRY_MS: Final = 1_000
_MOST_BYTES: Final = 4 << 20  # of one stream's replay
REPLAY_BYTES: Final = 64 << 20  # of all streams of a server
_EVENT_OVERHEAD: Final = 200  # bytes of memory for an event, beside its text
_MOST_FINISHED: Final = 32  # streams kept after their answer
_MOST_STANDING: Final = 8


class ResumePoint(msgspec.Struct, frozen=True):
    """What a Last-Event-ID says. `request` is None for a standing stream."""

    epoch: str
    stream: str
    number: int
    request: Id | None


def read_event_id(text: str) -> ResumePoint | None:
    parts = text.split(".")
    if len(parts) != 3 or not text.isascii():
        return None
    epoch, stream, number = parts
    counter, dash, request = stream.partition("-")
    if not dash or not counter or not number.isascii() or not number.isdigit() or len(number) > 12:
        return None
    try:
        id = msgspec.json.decode(bytes.fromhex(request), type=int | str) if request else None
    except (ValueError, msgspec.DecodeError):
        return None
    return ResumePoint(epoch, stream, int(number), id)


class Replay:
    """What all streams of a server keep for clients that come back: bounded in bytes, the longest unused goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._streams: dict[Stream, int] = {}  # the bytes of each, in the order in which they last kept something
        self.bytes = 0

    def note(self, stream: Stream, kept: int) -> None:
        """It keeps this many bytes now; others make room where that is too much."""
        self.bytes += kept - self._streams.pop(stream, 0)
        if kept:
            self._streams[stream] = kept
        while self.bytes > self._most and len(self._streams) > 1:
            oldest = next(iter(self._streams))
            self.bytes -= self._streams.pop(oldest)
            oldest.discard()


class Stream:
    """One stream of events. It outlives the connection that carries it."""

    __slots__ = ("_bytes", "_epoch", "_kept", "_most", "_number", "_replay", "connection", "finished", "name")

    def __init__(self, epoch: str, name: str, most: int, replay: Replay) -> None:
        self._epoch = epoch
        self._kept: list[bytes] | None = None  # the last events, without a gap; made at the first one
        self._most = most
        self._replay = replay
        self._bytes = 0
        self._number = 0
        self.name = name
        self.connection: EventStream | None = None
        self.finished = False

    def carry(self, connection: EventStream, *, prime: bool) -> None:
        """From now on over this connection; a priming event gives the client something to resume from."""
        self._attach(connection)
        if prime:
            connection.write(b"id: %b\nretry: %d\ndata: \n\n" % (self._id(self._number), RETRY_MS))

    def _attach(self, connection: EventStream) -> None:
        self.connection = connection
        connection.call_on_close(self._detach)

    def _detach(self, connection: EventStream) -> None:
        """A closed connection is of no use, and holds what aiohttp knows of its request."""
        if self.connection is connection:
            self.connection = None

    def send(self, frame: bytes) -> None:
        self._number = number = self._number + 1
        event = sse_event(frame, self._id(number))
        self._keep(event)
        connection = self.connection
        if connection is not None:
            connection.write(event)

    def finish(self) -> None:
        """Nothing follows; the connection ends when it has carried what was sent."""
        self.finished = True
        self.hang_up()

    def hang_up(self) -> None:
        """End the connection, not the stream: the client comes back for the rest."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    @property
    def is_spent(self) -> bool:
        """Its answer was sent and is no longer kept."""
        return self.finished and not self._kept

    def missing(self, after: int) -> int:
        """How many of the events behind that one are no longer kept."""
        return max(0, self._number - len(self._kept or ()) - after)

    def replay(self, after: int, connection: EventStream) -> None:
        """What followed that event, over the new connection, which carries the stream from here on."""
        old = self.connection
        self._attach(connection)
        if old is not None and old is not connection:
            old.close()
        kept = self._kept or ()
        missed = b"".join(kept[max(0, after - (self._number - len(kept))) :])
        if missed:  # in one write, so that it is not taken for what a slow reader left unread
            connection.write(missed)
        if self.finished:
            connection.close()

    def discard(self) -> None:
        """Give up what is kept; `missing` tells who asks for it."""
        self._kept, self._bytes = None, 0

    def _id(self, number: int) -> bytes:
        return f"{self._epoch}.{self.name}.{number}".encode()

    def _keep(self, event: bytes) -> None:
        kept = self._kept
        if kept is None:  # no deque, and no numbers beside the events: thousands of streams keep a few each
            kept = self._kept = []
        kept.append(event)
        self._bytes += len(event) + _EVENT_OVERHEAD
        while len(kept) > self._most or (self._bytes > _MOST_BYTES and len(kept) > 1):
            self._bytes -= len(kept.pop(0)) + _EVENT_OVERHEAD
        self._replay.note(self, self._bytes)


class SessionStreams:
    """All streams of a session; the finished ones are kept for a while, the oldest go first."""

    __slots__ = ("_counter", "_epoch", "_finished", "_most", "_named", "_replay", "_standing")

    def __init__(self, epoch: str, most: int, counter: Iterator[int], replay: Replay) -> None:
        """`counter` is shared by all sessions: no two streams of a process have one name, not even of one session
        that was forgotten in between."""
        self._epoch = epoch
        self._most = most
        self._counter = counter
        self._replay = replay
        self._named: dict[str, Stream] | None = None
        self._finished: deque[str] | None = None
        self._standing: list[Stream] | None = None

    @property
    def open_count(self) -> int:
        streams = [*(self._named or {}).values(), *(self._standing or ())]
        return sum(1 for stream in streams if stream.connection is not None and stream.connection.is_open)

    def for_request(self, id: Id) -> Stream:
        stream = self._new(encode_id(id).hex())
        if self._named is None:
            self._named, self._finished = {}, deque()
        self._named[stream.name] = stream
        return stream

    def finish(self, stream: Stream) -> None:
        assert self._named is not None
        assert self._finished is not None
        self._finished.append(stream.name)
        while len(self._finished) > _MOST_FINISHED:
            oldest = self._named.pop(self._finished.popleft(), None)
            if oldest is not None:
                self._release(oldest)

    def find(self, name: str) -> Stream | None:
        for stream in self._standing or ():
            if stream.name == name:
                return stream
        return (self._named or {}).get(name)

    def open_standing(self) -> Stream | None:
        """One more standing stream, or None if there are too many; messages go to the newest that is open."""
        known = self._standing or []
        if len(known) >= _MOST_STANDING:
            closed = next((each for each in known if each.connection is None or not each.connection.is_open), None)
            if closed is None:
                return None
            known.remove(closed)  # the oldest that could still have been resumed
            self._release(closed)
        stream = self._new("")
        self._standing = [*known, stream]
        return stream

    def standing(self) -> Stream | None:
        for stream in reversed(self._standing or ()):
            if stream.connection is not None and stream.connection.is_open:
                return stream
        return None

    def tell(self, frame: bytes) -> None:
        """One message that belongs to no request, where a stream for it is open."""
        stream = self.standing()
        if stream is not None:
            stream.send(frame)

    def close(self) -> None:
        """The session ended or is forgotten: nothing is kept for it any more."""
        for stream in (*(self._named or {}).values(), *(self._standing or ())):
            stream.hang_up()
            self._release(stream)

    def _release(self, stream: Stream) -> None:
        stream.discard()
        self._replay.note(stream, 0)

    def _new(self, request: str) -> Stream:
        return Stream(self._epoch, f"{next(self._counter):x}-{request}", self._most, self._replay)
