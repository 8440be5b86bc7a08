"""One client on stdin and stdout: bytes, LF, and an end that always comes.

Rule 1: descriptor 1 belongs to us alone; whatever else prints, in Python, in C or in a child process, lands on stderr.
Rule 2: no threads on the way of a message: one read, all its answers in one write.
Rule 3: what a client does not read is bounded: above a limit no further request is looked at until it reads again.
Rule 4: when the client is gone (end of input, broken output, dead parent) or a signal says so, the process ends within
two seconds, whatever the tools are doing. A watcher thread sees to it where the loop itself is held up.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from typing import Final

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.connection import Connection
from zorivest_rpc.mcp.protocol.framing import DEFAULT_LIMIT, LineFramer
from zorivest_rpc.mcp.server import Server

__all__ = ["StdioTransport", "protect_stdout"]

_READ: Final = 64 * 1024  # what a pipe holds; a larger buffer costs an mmap, an mremap and a munmap for every read
_FLUSH: Final = 256 * 1024  # bytes of answers that are written before the next line is looked at
_PAUSE: Final = 1 << 20  # bytes of unread answers at which no further line is looked at
_DROP_EVENTS: Final = 8 << 20  # and at which notifications are dropped
_GRACE: Final = 1.0  # for running calls at the end of input
_STUCK: Final = 0.3  # without a byte taken, after which the last answers are given up
_UNREAD: Final = 1.0  # the same for a client that has hung up and left requests unread
_LOOK: Final = 0.3  # how often the watcher looks for the parent
_HARD_END: Final = 1.4  # a loop that is held up this long after the end was asked for is not waited for


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
        self._held: list[bytes | ProtocolError] = []  # lines that wait until there is room for their answers
        self._at_end = False
        self._out: list[bytes] = []
        self._out_size = 0
        self._backlog: list[bytes] = []
        self._backlog_size = 0
        self._sent = 0
        self._sent_at = 0.0
        self._flush_due = False
        self._reading = False
        self._let_thread_read: Callable[[], None] | None = None  # where stdin cannot be waited for
        self._in_callback = False
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._drained: asyncio.Future[None] | None = None
        self._watching = False
        self._stop_asked = 0.0
        self._code = 0
        self._beat = 0.0
        self._parent = os.getppid()
        self._nonblocking = stat.S_ISFIFO(os.fstat(write_fd).st_mode) or stat.S_ISSOCK(os.fstat(write_fd).st_mode)
        self.after_first: Callable[[], None] | None = None  # work that may start once the first answer is on the wire
        self._connection = Connection(server, self._write, write_event=self._write_event)

    async def run(self) -> int:
        """Until the client is gone; the exit code."""
        if self._nonblocking:
            os.set_blocking(self._write_fd, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._start_reading()
        self._loop.call_later(_LOOK, self._start_watching)
        code = await self._ended
        self._stop_reading()
        await self._server.stop([self._connection.conversation], 0.0 if self._stop_asked else _GRACE)
        self._connection.close()
        await self._drain()
        return code

    # --- reading

    def _start_reading(self) -> None:
        if self._reading or self._ended.done():
            return
        self._reading = True
        if self._let_thread_read is not None:
            self._let_thread_read()
            return
        try:
            self._loop.add_reader(self._read_fd, self._on_readable)
        except (PermissionError, NotImplementedError):  # a regular file, or a loop without readers
            self._let_thread_read = self._start_thread()

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            if self._let_thread_read is None:
                self._loop.remove_reader(self._read_fd)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._read_fd, _READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        self._take(data)

    def _start_thread(self) -> Callable[[], None]:
        """One thread that makes blocking reads, each when the loop asks for it."""
        import threading

        wanted = threading.Event()

        def taken(data: bytes) -> None:
            self._take(data)
            if self._reading:
                wanted.set()

        def read() -> None:
            data = b"-"
            while data:
                wanted.wait()
                wanted.clear()
                try:
                    data = os.read(self._read_fd, _READ)
                except OSError:
                    data = b""
                try:
                    self._loop.call_soon_threadsafe(taken, data)
                except RuntimeError:
                    return

        threading.Thread(target=read, daemon=True, name="stdin").start()
        wanted.set()
        return wanted.set

    def _take(self, data: bytes) -> None:
        if not self._watching:
            self._start_watching()  # before the first request, as that may be one that holds up the loop
        if data:
            lines = self._framer.feed(data)
        else:
            self._at_end = True
            self._stop_reading()
            lines = self._framer.finish()
        if self._held:
            self._held += lines
        else:
            self._work(lines)

    def _work(self, lines: list[bytes | ProtocolError]) -> None:
        """Look at these lines, in order, as far as there is room for their answers."""
        self._in_callback = True
        receive = self._connection.receive
        for index, line in enumerate(lines):
            if type(line) is bytes:
                receive(line)
            elif isinstance(line, ProtocolError):
                self._connection.refuse(line)
            if self._out_size > _FLUSH:
                self._flush()
                if self._backlog_size > _PAUSE:
                    self._held = lines[index + 1 :]
                    break
        self._in_callback = False
        if self._out:
            self._flush()
        if self._at_end and not self._held:
            self._end(0)

    # --- writing

    def _write(self, frame: bytes) -> None:
        self._out.append(frame)
        self._out_size += len(frame)
        if not self._in_callback and not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _write_event(self, frame: bytes) -> None:
        if self._backlog_size + self._out_size < _DROP_EVENTS:
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
        self._out_size = 0
        if self._backlog:
            self._backlog.append(data)
            self._backlog_size += len(data)
        else:
            self._put(data)
        if self._backlog_size > _PAUSE:
            self._stop_reading()
        if self.after_first is not None:
            work, self.after_first = self.after_first, None
            self._loop.call_soon(work)

    def _put(self, data: bytes) -> bool:
        """Write what the pipe takes now; the rest is the backlog. False: it is not empty."""
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._write_fd, view)
                self._sent += written
                view = view[written:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._nobody_reads()
            return False
        if not view:
            return True
        self._backlog.append(bytes(view))
        self._backlog_size = len(view)
        self._loop.add_writer(self._write_fd, self._on_writable)
        return False

    def _on_writable(self) -> None:
        data = self._backlog[0] if len(self._backlog) == 1 else b"".join(self._backlog)
        self._backlog = []
        self._backlog_size = 0
        self._sent_at = time.monotonic()
        if not self._put(data):
            return
        self._loop.remove_writer(self._write_fd)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self._held:
            held, self._held = self._held, []
            self._work(held)
        if self._backlog_size <= _PAUSE and not self._at_end:
            self._start_reading()

    def _nobody_reads(self) -> None:
        self._out.clear()
        self._held.clear()
        self._out_size = 0
        if self._backlog:
            self._backlog = []
            self._backlog_size = 0
        self._loop.remove_writer(self._write_fd)
        self._stop_asked = self._stop_asked or time.monotonic()
        self._end(0)

    async def _drain(self) -> None:
        """The last answers, as long as the client reads them."""
        self._flush()
        before = -1
        while self._backlog and self._sent != before:
            before = self._sent
            self._drained = self._loop.create_future()
            await asyncio.wait([self._drained], timeout=_STUCK)

    # --- the end

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)
        self._stop_reading()

    def _on_signal(self, number: int, frame: object) -> None:
        """Runs between two bytecodes of the main thread, even while a tool holds the loop."""
        if not self._stop_asked:
            self._stop_asked = time.monotonic()
            self._code = 130 if number == signal.SIGINT else 0
        self._start_watching()
        self._loop.call_soon_threadsafe(self._end, self._code)

    def _start_watching(self) -> None:
        if not self._watching:
            self._watching = True
            _thread.start_new_thread(self._watch, ())

    def _watch(self) -> None:
        """Notice the end from outside the loop, tell the loop, and end the process where the loop does not hear."""
        gone = self._await_end()
        self._beat = gone
        while True:
            try:
                self._loop.call_soon_threadsafe(self._pulse, gone)
            except RuntimeError:
                return
            time.sleep(0.1)
            if time.monotonic() - (self._stop_asked or self._beat) > _HARD_END:
                os._exit(self._code)

    def _await_end(self) -> float:
        """When a signal came, the parent died, or either end of the client was closed."""
        import select

        poller = select.poll() if hasattr(select, "poll") else None
        if poller is not None:
            poller.register(self._read_fd, getattr(select, "POLLRDHUP", 0))
            poller.register(self._write_fd, 0)
        while not self._stop_asked:
            events: list[tuple[int, int]] = []
            if poller is None:
                time.sleep(_LOOK)
            else:
                events = poller.poll(_LOOK * 1000)
            now = time.monotonic()
            if os.getppid() != self._parent:
                self._stop_asked = self._stop_asked or now
            for fd, state in events:
                if fd == self._write_fd and state & (select.POLLERR | select.POLLHUP):
                    self._stop_asked = self._stop_asked or now
                elif state & ~select.POLLNVAL:
                    return now
        return self._stop_asked

    def _pulse(self, gone: float) -> None:
        """In the loop, again and again once the end is in sight."""
        self._beat = time.monotonic()
        unread = bool(self._backlog) and not self._at_end
        if unread and self._beat - max(gone, self._sent_at) > _UNREAD:
            self._stop_asked = self._stop_asked or self._beat  # the client hung up and reads no answers
        if self._stop_asked:
            self._end(self._code)
