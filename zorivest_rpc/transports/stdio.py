"""One client on stdin and stdout: bytes, LF, and an end that always comes.

Rule 1: descriptor 1 belongs to us alone; whatever else prints, in Python, in C or in a child process, lands on stderr.
Rule 2: no threads on the way of a message: one read, all its answers in one write.
Rule 3: when the client is gone (end of input, broken output, dead parent) or a signal says so, the process ends within
two seconds, whatever the tools are doing. A watcher thread sees to it where the loop itself is held up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from typing import Final

from zorivest_rpc.connection import Connection
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.protocol.framing import DEFAULT_LIMIT, LineFramer
from zorivest_rpc.server import Server

__all__ = ["StdioTransport", "protect_stdout"]

_READ: Final = 256 * 1024
_PAUSE_READING: Final = 1 << 20  # bytes of unread answers at which no further request is taken
_DROP_EVENTS: Final = 8 << 20  # and at which what nobody asked for is dropped
_GRACE: Final = 1.0  # for running calls at the end of input
_BEAT: Final = 0.5
_HARD_END: Final = 1.8  # after the end was asked for


def protect_stdout() -> tuple[int, int]:
    """Take descriptors 0 and 1 for the protocol; leave stderr in place of 1 and nothing in place of 0."""
    read_fd, write_fd = os.dup(0), os.dup(1)  # not inherited by children
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return read_fd, write_fd


class StdioTransport:
    def __init__(self, server: Server, read_fd: int, write_fd: int, *, limit: int = DEFAULT_LIMIT) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._framer = LineFramer(limit)
        self._out: list[bytes] = []
        self._backlog = b""
        self._flush_due = False
        self._reading = False
        self._in_callback = False
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._drained: asyncio.Future[None] | None = None
        self._stop_asked = 0.0
        self._beat = time.monotonic()
        self._parent = os.getppid()
        self._nonblocking = stat.S_ISFIFO(os.fstat(write_fd).st_mode) or stat.S_ISSOCK(os.fstat(write_fd).st_mode)
        self.after_first: Callable[[], None] | None = None  # work that may start once the first answer is on the wire
        self._connection = Connection(server, self._write, write_event=self._write_event)

    async def run(self) -> int:
        """Until the client is gone; the exit code."""
        loop = self._loop
        if self._nonblocking:
            os.set_blocking(self._write_fd, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._start_reading()
        loop.call_later(_BEAT, self._tick)
        code = await self._ended
        self._stop_reading()
        await self._server.stop([self._connection.conversation], _GRACE if code == 0 and not self._stop_asked else 0.0)
        self._connection.close()
        await self._drain()
        return code

    # --- reading

    def _start_reading(self) -> None:
        if self._reading or self._ended.done():
            return
        try:
            self._loop.add_reader(self._read_fd, self._on_readable)
            self._reading = True
        except (PermissionError, NotImplementedError):  # a regular file, or a loop without readers
            self._reading = True
            self._read_by_thread()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._read_fd)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._read_fd, _READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._take(data)

    def _take(self, data: bytes) -> None:
        self._in_callback = True
        receive = self._connection.receive
        for line in self._framer.feed(data) if data else self._framer.finish():
            if type(line) is bytes:
                receive(line)
            elif isinstance(line, ProtocolError):
                self._connection.refuse(line)
        self._in_callback = False
        if self._out:
            self._flush()
        if not data:
            self._end(0)

    def _read_by_thread(self) -> None:
        """Blocking reads for what cannot be waited for; ordered, one at a time, and daemonic."""
        import threading

        def read() -> None:
            while not self._ended.done():
                try:
                    data = os.read(self._read_fd, _READ)
                except OSError:
                    data = b""
                taken = threading.Event()

                def take(data: bytes = data, taken: threading.Event = taken) -> None:
                    self._take(data)
                    self._when_writable(taken.set)

                try:
                    self._loop.call_soon_threadsafe(take)
                except RuntimeError:
                    return
                if not data:
                    return
                taken.wait()

        threading.Thread(target=read, daemon=True, name="stdin").start()

    def _when_writable(self, go_on: Callable[[], None]) -> None:
        if len(self._backlog) > _PAUSE_READING and not self._ended.done():
            self._loop.call_later(0.01, self._when_writable, go_on)
        else:
            go_on()

    # --- writing

    def _write(self, frame: bytes) -> None:
        self._out.append(frame)
        if not self._in_callback and not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _write_event(self, frame: bytes) -> None:
        if len(self._backlog) < _DROP_EVENTS:
            self._write(frame)

    def _flush(self) -> None:
        """Everything that one turn of the loop has produced, in one write."""
        self._flush_due = False
        out = self._out
        if not out:
            return
        out.append(b"")
        data = b"\n".join(out)
        out.clear()
        if self._backlog:
            self._backlog += data
            self._mind_backlog()
            return
        self._put(data)
        if self.after_first is not None:
            work, self.after_first = self.after_first, None
            self._loop.call_soon(work)
            self._start_watching()

    def _put(self, data: bytes) -> None:
        """Write what the pipe takes now; keep the rest and wait for room."""
        try:
            while data:
                written = os.write(self._write_fd, data)
                if written == len(data):
                    data = b""
                    break
                data = data[written:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._out.clear()
            self._backlog = b""
            self._end(0)  # nobody reads any more
            return
        if data:
            if not self._backlog:
                self._loop.add_writer(self._write_fd, self._on_writable)
            self._backlog = data
            self._mind_backlog()
        elif self._backlog:
            self._backlog = b""
            self._loop.remove_writer(self._write_fd)
            self._start_reading()
            if self._drained is not None and not self._drained.done():
                self._drained.set_result(None)

    def _on_writable(self) -> None:
        self._put(self._backlog)

    def _mind_backlog(self) -> None:
        if len(self._backlog) > _PAUSE_READING and self._reading:
            self._stop_reading()

    async def _drain(self) -> None:
        """The last answers, as far as somebody reads them."""
        self._flush()
        if self._backlog:
            self._drained = self._loop.create_future()
            await asyncio.wait([self._drained], timeout=0.5)

    # --- the end

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)
        self._stop_reading()

    def _on_signal(self, number: int, frame: object) -> None:
        """Runs between two bytecodes of the main thread, even while a tool holds the loop."""
        self._stop_asked = self._stop_asked or time.monotonic()
        self._start_watching()
        self._loop.call_soon_threadsafe(self._end, 130 if number == signal.SIGINT else 0)

    def _tick(self) -> None:
        self._beat = time.monotonic()
        if os.getppid() != self._parent:
            self._stop_asked = self._stop_asked or self._beat
            self._end(0)
        elif not self._ended.done():
            self._loop.call_later(_BEAT, self._tick)

    def _start_watching(self) -> None:
        import threading

        if not any(thread.name == "watcher" for thread in threading.enumerate()):
            threading.Thread(target=self._watch, daemon=True, name="watcher").start()

    def _watch(self) -> None:
        """The last resort: a loop that cannot see the end itself is ended from here."""
        import select

        poller = select.poll() if hasattr(select, "poll") else None
        if poller is not None:
            poller.register(self._read_fd, 0)
        gone = 0.0
        while True:
            time.sleep(0.2)
            now = time.monotonic()
            if not gone:
                hung_up = poller is not None and any(
                    state & (select.POLLHUP | select.POLLERR) for _, state in poller.poll(0)
                )
                if self._stop_asked or os.getppid() != self._parent or hung_up:
                    gone = self._stop_asked or now
            elif now - gone > _HARD_END and (self._stop_asked or now - self._beat > _HARD_END):
                os._exit(0)
