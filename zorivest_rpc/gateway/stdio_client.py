"""An upstream that is a child process of ours: one JSON message per line, in both eras.

Every message of the child comes on one pipe, so an answer is found by its id alone, and a question belongs to a call
only while there is just one. Restarting is the business of who uses this: an end is told as `Ended`, and open requests
fail.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.gateway.child import KILL, Ring, Watchdog, describe, end_group, tie_to_parent, wait_for
from zorivest_rpc.gateway.errors import ProtocolBroken, StdioExited, StdioSpawn, ToolingError
from zorivest_rpc.gateway.following import Follower
from zorivest_rpc.gateway.timing import Pace
from zorivest_rpc.gateway.upstream import FRAME_LIMIT, Ended, Happening, Talk, Upstream
from zorivest_rpc.gateway.withheld import NOTHING_WITHHELD, Withheld
from zorivest_rpc.mcp.client.caller import Answer, Identity, Note, Request
from zorivest_rpc.mcp.client.opening import Seen, TurnedAway, Welcome
from zorivest_rpc.mcp.protocol.framing import LineFramer
from zorivest_rpc.mcp.protocol.revisions import Era

__all__ = ["GRACE", "StdioUpstream"]

GRACE: Final = 3.0  # seconds between two steps of ending a child
_OUT: Final = 1
_LISTEN: Final = "subscriptions/listen"
_LAST_WORDS: Final = 1.0  # seconds for what is still in the pipe of a child that has ended


class _Child(asyncio.SubprocessProtocol):
    """One run of the child. asyncio calls it; it tells the upstream."""

    def __init__(self, owner: StdioUpstream) -> None:
        self._owner = owner
        self.framer = LineFramer(FRAME_LIMIT)
        self.stderr = Ring()
        self.exited = asyncio.Event()
        self.ended = asyncio.Event()  # it has exited and its last words are read
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: asyncio.SubprocessTransport | None = None
        self.pipe: asyncio.WriteTransport | None = None
        self.watchdog: Watchdog | None = None
        self._outbox: list[bytes] = []
        self._pace = Pace()
        self.group = 0
        self.is_over = False  # nothing more comes from it, and its requests have failed
        self.is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)
        self.group = self.transport.get_pid()
        self.pipe = cast("asyncio.WriteTransport | None", self.transport.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != _OUT:
            self.stderr.write(data)
            return
        began, pending = time.perf_counter(), self._owner.caller.pending
        awaited = len(pending)
        for line in self.framer.feed(data):
            self._owner.take_line(self, line)
        if len(pending) >= awaited:  # none of it was an answer
            ended = time.perf_counter()
            self._look_away(self._pace.charge(ended - began, ended))

    def _look_away(self, seconds: float) -> None:
        """Leave what it writes in the pipe for a while, which stops the child once that is full."""
        pipe = self.transport.get_pipe_transport(_OUT) if seconds and self.transport is not None else None
        if pipe is not None:
            reader = cast(asyncio.ReadTransport, pipe)
            with suppress(RuntimeError, AttributeError):  # it is being closed
                reader.pause_reading()
                asyncio.get_running_loop().call_later(seconds, _look_again, reader)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """A child that can hear or say nothing any more is about to end, or has to."""
        if fd == 0:
            self.writable.set()
        if fd in (0, _OUT) and not self.exited.is_set() and not self.is_closing:
            asyncio.get_running_loop().call_later(_LAST_WORDS, self._end_mute)

    def _end_mute(self) -> None:
        if not self.exited.is_set() and not self.is_closing:
            end_group(self.group, KILL)

    def process_exited(self) -> None:
        self.exited.set()
        self.writable.set()
        # What it wrote last may still be in its pipe, and a grandchild may hold that open without an end.
        asyncio.get_running_loop().call_later(_LAST_WORDS, self._owner.take_end, self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The pipes are closed and the process has ended."""
        self._owner.take_end(self)

    def write(self, frame: bytes) -> None:
        """All lines of one turn of the loop go in one write, which is most of what a call costs here."""
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self.flush)
        self._outbox.append(frame)

    def flush(self) -> None:
        if self._outbox and self.pipe is not None and not self.pipe.is_closing():
            self._outbox.append(b"")
            self.pipe.write(b"\n".join(self._outbox))
        self._outbox.clear()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    @property
    def status(self) -> int:
        code = self.transport.get_returncode() if self.transport is not None else None
        return -1 if code is None else code


def _look_again(reader: asyncio.ReadTransport) -> None:
    with suppress(RuntimeError, AttributeError):
        if not reader.is_closing():
            reader.resume_reading()


class StdioUpstream(Upstream):
    """`environment` is all that the child gets: see `child.choose_environment`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        identity: Identity,
        *,
        environment: Mapping[str, str],
        cwd: str | None = None,
        era: Era | None = None,
        seconds: float = 15.0,
        meta: Callable[[], bytes] = bytes,
        on_happening: Callable[[Happening], None] | None = None,
        withheld: Withheld = NOTHING_WITHHELD,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        grace: float = GRACE,
    ) -> None:
        super().__init__(
            name, identity, era=era, seconds=seconds, meta=meta, on_happening=on_happening, withheld=withheld
        )
        self.target = command[0]
        self._command = tuple(command)
        self._environment = dict(environment)
        self._cwd = cwd
        self._grace = grace
        self._child: _Child | None = None
        self._probe_until = 0.0
        self._follower = Follower(self._listen, self._tell_reopened, pause)

    @property
    def pid(self) -> int | None:
        """Of the running child."""
        child = self._child
        return None if child is None or child.is_over or child.exited.is_set() else child.group

    @property
    def stderr(self) -> str:
        """The last 64 KiB that the child wrote there; it stays after its end."""
        return self._child.stderr.text if self._child is not None else ""

    # --- the child

    async def _start(self) -> None:
        await self._end_child()
        loop = asyncio.get_running_loop()
        self._probe_until = loop.time() + self._seconds / 2
        child = _Child(self)
        try:
            await loop.subprocess_exec(
                lambda: child,
                *self._command,
                env=self._environment,
                cwd=self._cwd,
                start_new_session=True,
                preexec_fn=tie_to_parent(),
            )
        except OSError as exc:
            raise StdioSpawn(self.name, describe(exc, self._command[0], self._cwd)) from None
        except ValueError as exc:  # a null byte in an argument
            raise StdioSpawn(self.name, str(exc)) from None
        self._child = child
        child.watchdog = Watchdog(child.group)

    async def connect(self, deadline: float | None = None) -> Welcome:
        """A child that could not be opened is ended at once; its stderr is all that is left of it."""
        try:
            return await super().connect(deadline)
        except BaseException:
            if self._child is not None:
                self._drop(self._child)
            raise

    def _drop(self, child: _Child) -> None:
        child.is_closing = True
        end_group(child.group, KILL)
        self.take_end(child)
        if child.transport is not None:
            child.transport.close()

    async def close(self) -> None:
        await self._follower.stop()
        await self._end_tasks()
        await self._end_child()

    async def _end_child(self) -> None:
        """Close its stdin; after a while ask its group to end; after another while end it."""
        child = self._child
        if child is None or child.transport is None:
            return
        child.is_closing = True
        try:
            child.flush()
            if child.pipe is not None:
                child.pipe.close()
            if not await wait_for(child.exited, self._grace):
                end_group(child.group, signal.SIGTERM)
                if not await wait_for(child.exited, self._grace):
                    end_group(child.group, KILL)
                    await wait_for(child.exited, _LAST_WORDS)
        finally:
            end_group(child.group, KILL)  # also what it left behind
            self.take_end(child)
            child.transport.close()

    def take_end(self, child: _Child) -> None:
        """The child can say nothing more: its open requests fail, once."""
        if child.is_over or not (child.exited.is_set() or child.is_closing):
            return
        child.is_over = True
        child.ended.set()
        if child.exited.is_set():
            end_group(child.group, KILL)
        if child.watchdog is not None:
            child.watchdog.dismiss()
        if child is not self._child:
            return
        for request in list(self.caller.pending.values()):
            self.caller.forget(request)
            self._fail(request, StdioExited(self.name, child.status))
        if not child.is_closing:
            self._happen(Ended(child.status))

    # --- lines

    def take_line(self, child: _Child, line: bytes | ProtocolError) -> None:
        if child is not self._child:
            return
        if isinstance(line, ProtocolError):
            self._take_oversize()
            return
        try:
            events = self.caller.receive(line)
        except ProtocolError as wrong:
            request = self.caller.pending.pop(wrong.id, None) if wrong.id is not None else None
            if request is not None:
                self._fail(request, ProtocolBroken(self.name, wrong.message))
            self.caller.strays += 1  # what a child prints beside its messages is no reason to give it up
            return
        for event in events:
            if isinstance(event, Answer):
                self._settle(event)
            else:
                self._take([event], None, self._only_call())

    def _settle(self, answer: Answer) -> None:
        talk = answer.request.listener
        if isinstance(talk, Talk) and talk.future is not None and not talk.future.done():
            talk.future.set_result(answer)

    def _fail(self, request: Request, error: ToolingError) -> None:
        talk = request.listener
        if isinstance(talk, Talk) and talk.future is not None and not talk.future.done():
            talk.future.set_exception(error)

    def _take_oversize(self) -> None:
        """Whose answer it was stood in what was dropped; with one open request that is no question. The one that
        stays open to hear of changes is not answered with anything large."""
        self.caller.strays += 1
        open_requests = [each for each in self.caller.pending.values() if each.method != _LISTEN]
        if len(open_requests) == 1:
            (request,) = open_requests
            self.caller.forget(request)
            talk = request.listener
            self._fail(request, self._too_large(talk if isinstance(talk, Talk) else Talk(), FRAME_LIMIT))

    async def _write(self, frame: bytes) -> None:
        child = self._child
        if child is None:
            raise StdioExited(self.name, -1, sent=False)
        if child.is_over or child.exited.is_set() or child.pipe is None or child.pipe.is_closing():
            # A pipe breaks a moment before the status and the last words are known.
            await wait_for(child.ended, 2 * _LAST_WORDS)
            raise StdioExited(self.name, child.status, sent=False)
        if not child.writable.is_set():
            await child.writable.wait()
            if child.exited.is_set():
                await wait_for(child.ended, 2 * _LAST_WORDS)
                raise StdioExited(self.name, child.status, sent=False)
        child.write(frame)

    # --- the shell's duties

    async def _exchange(self, request: Request, talk: Talk) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        talk.future = future
        request.listener = talk
        try:
            await self._write(request.frame)
            talk.is_sent = True
            return await future
        except asyncio.CancelledError:
            if talk.is_sent:
                self._withdraw(request)
            raise
        finally:
            self.caller.forget(request)

    async def _open(self, step: Request) -> Seen:
        """Silence for half of the time means that the child knows nothing but `initialize`."""
        if step.method != "server/discover" or self._era is not None:
            return Seen(answer=await self._exchange(step, Talk()))
        try:
            async with asyncio.timeout_at(self._probe_until) as scope:
                return Seen(answer=await self._exchange(step, Talk()))
        except TimeoutError:
            if not scope.expired():
                raise
            return Seen(is_silent=True)

    async def _tell(self, note: Note) -> None:
        await self._write(note.frame)

    def _withdraw(self, request: Request) -> None:
        if request.method in ("initialize", "server/discover"):
            return
        child = self._child
        if child is not None and child.pipe is not None and not child.exited.is_set() and child.writable.is_set():
            child.write(self.caller.cancel(request, "the caller withdrew it").frame)

    def _turned_away(self, away: TurnedAway) -> ToolingError:
        raise AssertionError("a pipe has no status")

    # --- changes between calls

    async def _watch(self) -> None:
        if not self.caller.revision.modern:
            self.watched = self._promises()
            await self._follower.stop()
        elif self._wants_changes():
            await self._follower.start()

    @property
    def is_following(self) -> bool:
        """Whether changes are told; `watched` says which were promised."""
        return self._follower.is_open or (self.pid is not None and not self.caller.revision.modern)

    async def _listen(self, opened: Callable[[], None]) -> bool:
        self._on_acknowledged = opened
        try:
            answer = await self._exchange(self.caller.request(_LISTEN, self._filter()), Talk())
        except StdioExited:
            return False  # the next child is asked anew
        return answer.error is None
