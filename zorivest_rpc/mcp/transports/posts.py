"""The way back of one POST: JSON or events, whichever its first frame decides."""

from __future__ import annotations

import asyncio

from zorivest_rpc.mcp.protocol.framing import sse_event
from zorivest_rpc.mcp.transports.answers import EventStream
from zorivest_rpc.mcp.transports.sessions import LiveSession
from zorivest_rpc.mcp.transports.streams import Stream

__all__ = ["PostChannel"]


class PostChannel:
    """The way back of one POST: held until it is known whether it streams."""

    __slots__ = ("_changed", "_live", "_streams", "answer", "code", "done", "hangs_up", "stream", "wants_stream")

    def __init__(self, live: LiveSession | None, streams: bool) -> None:
        """`streams`: whether the client takes events; if not, it gets the answer and nothing besides."""
        self._changed: asyncio.Future[None] | None = None
        self._live = live
        self._streams = streams
        self.answer: bytes | None = None
        self.code = 0
        self.done = False
        self.wants_stream = False
        self.hangs_up = False  # as soon as the stream is open
        self.stream: Stream | EventStream | list[bytes] | None = None

    @property
    def carries_questions(self) -> bool:
        return self._streams

    def ask(self, frame: bytes) -> None:
        self._send(frame)

    def notify(self, frame: bytes) -> None:
        self._send(frame)

    def carry(self, stream: Stream | EventStream) -> None:
        """From now on over this stream, beginning with what waited for it."""
        waiting, self.stream = self.stream, stream
        for frame in waiting if isinstance(waiting, list) else ():
            self._send(frame)

    def _send(self, frame: bytes) -> None:
        stream = self.stream
        if stream is None:
            if not self._streams:
                return
            stream = self.stream = []
        if isinstance(stream, list):
            stream.append(frame)
            self.wants_stream = True
            self._wake()
        elif isinstance(stream, Stream):
            stream.send(frame)
        else:
            stream.write(sse_event(frame))

    def finish(self, frame: bytes | None, code: int) -> None:
        self.answer, self.code, self.done = frame, code, True
        stream = self.stream
        if isinstance(stream, Stream):
            if frame is not None:
                stream.send(frame)
            stream.finish()
            if self._live is not None:
                self._live.streams.finish(stream)
        elif isinstance(stream, EventStream):
            if frame is not None:
                stream.write(sse_event(frame))
            stream.close()
        self._wake()

    def hang_up(self) -> None:
        if isinstance(self.stream, Stream):
            self.stream.hang_up()
        elif self._live is not None and self._streams and self._live.session.revision.priming:
            self.wants_stream = self.hangs_up = True
            self.stream = self.stream or []
            self._wake()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def wait(self, seconds: float | None) -> None:
        """Until the answer is there, something streams, or the time is over."""
        if self.done or self.wants_stream:
            return
        loop = asyncio.get_running_loop()
        self._changed = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self._wake)
        try:
            await self._changed
        finally:
            self._changed = None
            if timer is not None:
                timer.cancel()
