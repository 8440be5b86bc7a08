"""When a stream is told that its tool list is another one.

Rule 1: a change is told once it has been quiet for a moment, so that what appears and vanishes at once is not told.
Rule 2: each stream remembers the digest of what was last listed or announced on it; equal lists are never told.
Rule 3: two announcements on one stream are apart, but for one that the client's own call asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from zorivest_rpc.mcp.offer import TOOLS, Stream
from zorivest_rpc.mcp.protocol.session import Phase, Session

if TYPE_CHECKING:
    from typing import Protocol

    class Handle(Protocol):
        def cancel(self) -> None: ...

    class Clock(Protocol):
        def now(self) -> float: ...

        def later(self, delay: float, work: Callable[[], None]) -> Handle: ...


__all__ = ["LONGEST", "QUIET", "SPACING", "ChangeWatch", "LoopClock"]

QUIET: Final = 0.25  # seconds without a further change
LONGEST: Final = 1.0  # seconds after the first change, however many follow
SPACING: Final = 2.0  # seconds between two announcements on one stream


class LoopClock:
    """The time of the running loop."""

    def now(self) -> float:
        import asyncio

        return asyncio.get_running_loop().time()

    def later(self, delay: float, work: Callable[[], None]) -> Handle:
        import asyncio

        return asyncio.get_running_loop().call_later(delay, work)


class _Memory:
    """What one stream was last told, and when."""

    __slots__ = ("digest", "retry", "told")

    def __init__(self) -> None:
        self.digest: bytes | None = None
        self.told = float("-inf")
        self.retry: Handle | None = None


class ChangeWatch:
    """`digest_of` is the digest of the list, of this `kind`, that a session is shown now; where a list is read in two
    halves, each has one half of it."""

    def __init__(self, digest_of: Callable[[Session], bytes], clock: Clock | None = None, kind: str = TOOLS) -> None:
        self._digest_of = digest_of
        self._kind = kind
        self._clock = clock or LoopClock()
        self._streams: dict[Stream, _Memory] = {}
        self._first = self._last = 0.0
        self._timer: Handle | None = None

    # --- what a stream does

    def join(self, stream: Stream) -> None:
        memory = self._streams[stream] = _Memory()
        if stream.session.revision.modern and stream.session.phase is Phase.READY:
            memory.digest = self._digest_of(stream.session)  # the request that subscribes says nothing of a list

    def leave(self, stream: Stream) -> None:
        memory = self._streams.pop(stream, None)
        if memory is not None and memory.retry is not None:
            memory.retry.cancel()

    def opened(self, stream: Stream) -> None:
        """A channel is there again: what changed while there was none is told now. Of a client that was given no list
        so far, what is there now is what later changes are told against."""
        memory = self._streams.get(stream)
        if memory is None:
            return
        if memory.digest is not None:
            self._compare(stream, memory)
        elif stream.session.phase is Phase.READY:
            memory.digest = self._digest_of(stream.session)

    def listed(self, stream: Stream, half: int | None = None) -> None:
        memory = self._streams.get(stream)
        if memory is None:
            return
        digest, known = self._digest_of(stream.session), memory.digest
        if known is not None and half is not None:
            middle = len(digest) // 2
            digest = known[:middle] + digest[middle:] if half else digest[:middle] + known[middle:]
        memory.digest = digest

    # --- what changes

    def note_change(self, session: Session | None = None) -> None:
        """Something that lists depend on. Of one session: by its own call, so it is told at once."""
        if session is not None:
            self._tell_session(session)
        elif self._streams:
            self._last = self._clock.now()
            if self._timer is None:
                self._first = self._last
                self._timer = self._clock.later(QUIET, self._settle)

    def flush(self) -> None:
        """Tell now what there is to tell: the answer of the call that changed it is on the wire."""
        for stream, memory in list(self._streams.items()):
            self._compare(stream, memory)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for stream in list(self._streams):
            self.leave(stream)

    def _settle(self) -> None:
        due = min(self._last + QUIET, self._first + LONGEST)
        left = due - self._clock.now()
        if left > 1e-6:  # a clock may fire a hair early
            self._timer = self._clock.later(left, self._settle)
            return
        self._timer = None
        self.flush()

    def _tell_session(self, session: Session) -> None:
        for stream, memory in list(self._streams.items()):
            if stream.session is session and stream.is_open and session.phase is Phase.READY:
                self._tell(stream, memory, self._digest_of(session))

    def _compare(self, stream: Stream, memory: _Memory) -> None:
        if not stream.is_open or stream.session.phase is not Phase.READY:
            return
        digest = self._digest_of(stream.session)
        if digest == memory.digest:
            return
        wait = memory.told + SPACING - self._clock.now()
        if wait <= 1e-6:
            self._tell(stream, memory, digest)
        elif memory.retry is None:
            memory.retry = self._clock.later(wait, lambda: self._retry(stream, memory))

    def _retry(self, stream: Stream, memory: _Memory) -> None:
        memory.retry = None
        if self._streams.get(stream) is memory:
            self._compare(stream, memory)

    def _tell(self, stream: Stream, memory: _Memory, digest: bytes) -> None:
        memory.digest = digest
        memory.told = self._clock.now()
        stream.tell(self._kind)
