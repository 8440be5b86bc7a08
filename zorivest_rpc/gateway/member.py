"""One upstream over time: it is connected, listed, listed again when it changes, and looked after when it fails.

Rule 1: what it last offered stays offered while a new list cannot be had; nothing of it delays another upstream.
Rule 2: a state is never silent: each has a reason that `list_available_toolsets` and the log show.
Rule 3: while the circuit is open no call is sent. The trial that may close it is a question of our own."""

from __future__ import annotations

import asyncio
import logging
import math
import random as system_random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.catalogue import Offered
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import (
    AuthEnvEmpty,
    AuthEnvMissing,
    AuthRejected,
    CircuitOpen,
    LoopFound,
    NoAnswer,
    RetryExhausted,
    StdioExited,
    ToolingError,
)
from zorivest_rpc.gateway.examine import read_ahead
from zorivest_rpc.gateway.extras import NOTHING, Extras, read_extras
from zorivest_rpc.gateway.link import Link, Make
from zorivest_rpc.gateway.pins import Verdict
from zorivest_rpc.gateway.retries import Purpose, is_transport_failure, may_be_repeated, pause_before, waits_for
from zorivest_rpc.gateway.telemetry import Telemetry
from zorivest_rpc.gateway.timing import USUAL, Timing, wait_for
from zorivest_rpc.gateway.upstream import Call, Ended, Happening, Result, Upstream
from zorivest_rpc.mcp.client.caller import Changed, Touched
from zorivest_rpc.mcp.client.lists import Listing
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.revisions import Era
from zorivest_rpc.serving.backend.breaker import Breaker, Share

__all__ = ["USUAL", "Judge", "Member", "Timing"]

Judge = Callable[[Server, Listing], Mapping[str, Verdict]]
JudgeExtras = Callable[[Server, Extras], Mapping[str, Mapping[str, Verdict]]]
_log: Final = logging.getLogger(__name__)


class Member:
    """`make` gives the transport, `judge` what the pins say, `changed` is told that the offer is another one.

    `gate` bounds how many servers are discovered at once. `era` is what an earlier run found, `remember` is told what
    this one finds. A test has its own `clock`, `pause` and `wait`."""

    # long: whom it asks and tells, one line each, and what it knows, one line each
    def __init__(
        self,
        profile: Profile,
        server: Server,
        *,
        make: Make,
        judge: Judge,
        judge_extras: JudgeExtras = lambda server, extras: {},
        changed: Callable[[], None],
        touched: Callable[[str, str], None] = lambda server, uri: None,
        telemetry: Telemetry,
        timing: Timing = USUAL,
        gate: asyncio.Semaphore | None = None,
        era: Era | None = None,
        remember: Callable[[Era], None] = lambda era: None,
        random: Callable[[], float] = system_random.random,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        wait: Callable[[asyncio.Event, float], Awaitable[None]] = wait_for,
    ) -> None:
        self.server = server
        self.offered = Offered(server, "connecting")
        self.failure: ToolingError | None = None
        self.settled = asyncio.Event()  # once the first discovery has ended, however
        self.latency_ms: float | None = None
        self.last_ok: float | None = None
        self.followed: set[str] = set()  # URIs of resources that our clients follow, across reconnections
        self.profile = profile
        self._judge = judge
        self._judge_extras = judge_extras
        self._touched = touched
        self._changed = changed
        self._telemetry = telemetry
        self._timing = timing
        self._gate = gate or asyncio.Semaphore(1)
        self._random = random
        self._clock = clock
        self._pause = pause
        self._wait = wait
        self.link = Link(
            server,
            make,
            hear=self._on_happening,
            opened=self._follow_again,
            era=era,
            remember=remember,
            clock=clock,
        )
        self._wake = asyncio.Event()
        self._breaker = Breaker(clock, failures=5, pause=timing.circuit, longest=timing.longest_circuit, share=Share())
        self._opened = 0.0  # when the circuit did
        self._is_trying = False
        self._ttl: float | None = None
        self._is_due = True  # a list
        self._attempt = 0
        self._listed = -math.inf  # again: the first list is no reason to wait with the second
        self._read_at = 0.0
        self._idle = self._spread(timing.idle)
        self._task: asyncio.Task[None] | None = None

    # --- life

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._live())

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.link.close()

    async def _live(self) -> None:
        while True:
            try:
                seconds = await self._do_what_is_due()
            except Exception as broken:  # noqa: BLE001 - a defect costs this server, is seen, and is tried again
                _log.error("%s%s: internal error", self._whose, self.server.name, exc_info=broken)
                self._publish(Offered(self.server, "unavailable", "Internal error; the server's log has the details."))
                self.settled.set()
                seconds = self._spread(self._timing.retried)
            await self._wait(self._wake, seconds)
            if self._wake.is_set():
                if self._is_due:  # changes that follow each other are one
                    since = self._listed + self._timing.between_lists - self._clock()
                    await self._pause(max(self._timing.merged, since))
                self._wake.clear()

    async def _do_what_is_due(self) -> float:
        """One step, and the seconds until the next one; what happens meanwhile comes earlier."""
        await self.link.close_retired()
        restart = self.link.restart_left if self.link.current is None else 0.0
        if restart > 0 and self.link.ends_too_often:  # there is nothing that a trial of the circuit could ask
            self._show_restarts()
            return restart
        if self._breaker.is_open:
            seconds = await self._try_circuit()
            if seconds is not None:
                return seconds
        elif restart > 0:
            return restart
        if self._is_due or self._ttl_left() <= 0:
            return await self._list()
        if self._idle_left() <= 0:
            await self._probe()
            if self._is_due or self._breaker.is_open:
                return 0.0
        return min(self._idle_left(), self._ttl_left())

    async def _list(self) -> float:
        try:
            await self.discover()
        except ToolingError as error:
            self._attempt += 1
            again = waits_for(error, Purpose.LIST, self._timing.retried)
            if again is not None and self._attempt < self.profile.tool_retry_attempts:
                return max(again, pause_before(self._attempt + 1, self.profile, self._random))
            self._attempt = 0
            return self._spread(self._timing.retried)
        except (ConfigError, OSError) as error:  # pins that cannot be kept: nothing is published that was not judged
            _log.error("%s%s", self._whose, error)
            self._is_due = True
            self._publish(Offered(self.server, "unavailable", str(error)))
            return self._spread(self._timing.retried)
        finally:
            self.settled.set()
        self._attempt = 0
        return min(self._idle_left(), self._ttl_left())

    def _spread(self, seconds: float) -> float:
        """Servers that failed together are not asked together."""
        return seconds * (0.8 + 0.4 * self._random())

    def _idle_left(self) -> float:
        return (self.last_ok or 0.0) + self._idle - self._clock()

    def _ttl_left(self) -> float:
        """Until the list is too old, where no stream tells of its changes."""
        if self._ttl is None or self.link.is_told_of_tools:
            return math.inf
        return self._read_at + max(self._timing.shortest_ttl, self._ttl) - self._clock()

    async def _probe(self) -> None:
        """One cheap question to a server that nothing was heard of for a while."""
        self._idle = self._spread(self._timing.idle)
        period = self._breaker.period
        try:
            upstream = await self.link.connect()
            await upstream.check_health()
        except ToolingError as error:
            self._is_due = True  # what became of it is found out by listing it
            await self._note_failure(error, period)
        else:
            self._note_answer()

    # --- the circuit

    async def _try_circuit(self) -> float | None:
        """Seconds until the next step of an open circuit; None once it is closed."""
        now, shown = self._clock(), self.offered.is_listed
        until_withdrawn = self._opened + self._timing.withdrawn - now
        if shown and until_withdrawn <= 0:
            self._show_circuit("unavailable", is_listed=False)
            shown = False
        left = self._breaker.left
        if left > 0:
            return min(left, until_withdrawn) if shown else left
        self._is_trying = True
        try:
            upstream = await self.link.connect()
            await upstream.check_health()
        except ToolingError as error:
            self._telemetry.redactor.error(error)
            if not _stops_calls(error):
                self._breaker.record_failure()
                self.link.retire()
                return 0.0
            self._close_circuit()  # it is there, and does not want us
            await self._stop_calls(error)
            return self._spread(self._timing.retried)
        finally:
            self._is_trying = False
        self._close_circuit()
        return None

    def _close_circuit(self) -> None:
        self._note_answer()
        self._is_due = True
        self._telemetry.emit("mcp.circuit.closed", server=self.server.name)

    def _show_circuit(self, status: str, *, is_listed: bool) -> None:
        words = CircuitOpen(self.server.name, max(1, round(self._breaker.left))).text
        self._publish(msgspec.structs.replace(self.offered, status=status, error=words, is_listed=is_listed))

    @property
    def circuit(self) -> str:
        if self._is_trying:
            return "half_open"
        return "open" if self._breaker.is_open else "closed"

    # --- discovery

    async def discover(self) -> None:
        """Connect where that is needed, list, and publish. ToolingError after the state was set."""
        began, period = self._clock(), self._breaker.period
        self._is_due = False
        self._telemetry.emit("mcp.discovery.started", server=self.server.name)
        try:
            async with self._gate:
                upstream = await self.link.connect()
                has_tools = upstream.welcome is None or upstream.welcome.offered.tools
                listing = await upstream.list_tools() if has_tools else Listing(())
                extras = await read_extras(upstream, self.server)
        except ToolingError as error:
            self._is_due = True
            await self._fail(error, period)
            raise
        self.latency_ms = (self._clock() - began) * 1000
        if self.last_ok is not None:
            self._listed = self._clock()
        self._ttl = None if listing.ttl_ms is None else listing.ttl_ms / 1000
        self._read_at = self._clock()
        await read_ahead(listing, extras.prompts, extras.resources, extras.templates)
        verdicts = await asyncio.to_thread(self._judge, self.server, listing)
        if extras != NOTHING:
            judged = await asyncio.to_thread(self._judge_extras, self.server, extras)
            extras = msgspec.structs.replace(extras, verdicts=judged)
        held = sum(1 for verdict in verdicts.values() if verdict.held)
        self.failure = None
        self._note_answer()
        self._publish(Offered(self.server, "ready", None, listing, verdicts, extras))
        welcome = upstream.welcome
        self._telemetry.emit(
            "mcp.discovery.succeeded",
            server=self.server.name,
            tools=len(listing.items),
            held=held,
            era=welcome.revision.era.value if welcome else None,
            latency_ms=round(self.latency_ms),
        )

    async def _follow_again(self, upstream: Upstream) -> None:
        """What our clients follow is followed on the new connection too; what changed meanwhile is not known."""
        for uri in sorted(self.followed):
            with suppress(ToolingError):
                await upstream.subscribe(uri)
            self._touched(self.server.name, uri)

    async def follow(self, uri: str, is_wanted: bool) -> None:
        """Subscribe to a resource, or no longer; while the server is away that is only remembered."""
        (self.followed.add if is_wanted else self.followed.discard)(uri)
        upstream = self.link.current
        if upstream is not None and self.offered.extras.can_follow:
            await (upstream.subscribe(uri) if is_wanted else upstream.unsubscribe(uri))

    @property
    def _whose(self) -> str:
        """How a line of the log begins: several clients may have a connection of their own to one server."""
        return f"tenant={self.server.tenant} " if self.server.tenant else ""

    async def _fail(self, error: ToolingError, period: int) -> None:
        """A discovery failed: say so, and keep what may be kept."""
        self._telemetry.redactor.error(error)
        self._telemetry.emit("mcp.discovery.failed", server=self.server.name, code=error.code)
        _log.warning("%s%s", self._whose, error.problem)
        had_list = bool(self.offered.listing.items)
        self.failure = error
        if _stops_calls(error):
            await self._stop_calls(error)
        elif self.server.endpoint is not None and not is_transport_failure(error):
            self.link.retire()  # another server may answer there now, of another era
        elif is_transport_failure(error):
            self.link.retire()
            if had_list:  # of one that was never there nothing can be called: it is looked for every minute
                self._record_failure(error, period)
        if not _stops_calls(error) and not self._breaker.is_open:
            status = "degraded" if had_list and self.offered.is_listed else "unavailable"
            self._publish(msgspec.structs.replace(self.offered, status=status, error=error.text))

    async def _stop_calls(self, error: ToolingError) -> None:
        """Refused credentials, or a circle: what was offered is no longer listed, and a call of it says why."""
        self.link.retire()
        self._is_due = True
        self.failure = error
        status = "unavailable" if isinstance(error, LoopFound) else "auth_failed"
        self._publish(msgspec.structs.replace(self.offered, status=status, error=error.text, is_listed=False))

    def _show_restarts(self) -> None:
        exit = self.link.exit
        if exit is not None:
            self.failure = exit
            self._publish(msgspec.structs.replace(self.offered, status="unavailable", error=exit.text, is_listed=False))
            self.settled.set()

    def _publish(self, offered: Offered) -> None:
        before, self.offered = self.offered, offered
        if before != offered:
            self._changed()

    def _on_happening(self, happening: Happening) -> None:
        if isinstance(happening, Touched):
            self._touched(self.server.name, happening.uri)
        elif isinstance(happening, Ended | Changed):
            self._is_due = True
            self._wake.set()

    # --- calls

    @property
    def is_modern(self) -> bool | None:
        return self.link.is_modern

    def report(self, count: tuple[int, int]) -> dict[str, Json]:
        """For a diagnosis; `count` are its listed and its held tools."""
        ago = None if self.last_ok is None else self._clock() - self.last_ok
        at = None if ago is None else datetime.fromtimestamp(time.time() - ago, UTC).isoformat(timespec="seconds")
        return {
            "name": self.server.name,
            "state": self.offered.status,
            "era": self.link.era,
            "tools": count[0],
            "held": count[1],
            "last_ok": at,
            "latency_ms": None if self.latency_ms is None else round(self.latency_ms),
            "circuit": self.circuit,
            "error": self.offered.error,
        }

    async def call(self, call: Call, *, repeatable: bool) -> tuple[Result, int]:
        """Forward a call, again where that cannot deliver it twice; the result and the number of attempts."""
        loop = asyncio.get_running_loop()
        deadline = call.deadline if call.deadline is not None else loop.time() + call.seconds
        call.deadline = deadline
        purpose = Purpose.REPEATABLE if repeatable else Purpose.CALL
        attempt = 0
        while True:
            if self._breaker.is_open:
                raise CircuitOpen(self.server.name, max(1, round(self._breaker.left)))
            restart = self.link.restart_left
            if self.link.current is None and 0 < restart < deadline - loop.time():
                await self._pause(restart)  # a child that is about to come back has not failed this call
            attempt += 1
            period = self._breaker.period
            try:
                upstream = self.link.current or await self._connect_by(deadline, call.seconds)
                result = await upstream.call(call)
            except ToolingError as error:
                await self._note_failure(error, period)
                left = deadline - loop.time()
                pause = self._pause_before_next(attempt, waits_for(error, purpose, left))
                if pause is None or pause >= left:
                    failure = RetryExhausted(self.server.name, attempt, error) if attempt > 1 else error
                    failure.retryable = failure.retryable and may_be_repeated(error, purpose)
                    raise failure from None
                await self._pause(pause)
            else:
                self._note_answer()
                return result, attempt

    def _pause_before_next(self, attempt: int, asked: float | None) -> float | None:
        """`asked` are the seconds that the failure leaves the server alone for; None where there is no next attempt."""
        if asked is None or attempt >= self.profile.tool_retry_attempts or self._breaker.is_open:
            return None
        return max(asked, pause_before(attempt + 1, self.profile, self._random), self.link.restart_left)

    async def _connect_by(self, deadline: float, seconds: float) -> Upstream:
        """Nothing has been sent when this fails."""
        try:
            async with asyncio.timeout_at(deadline):
                return await self.link.connect()
        except TimeoutError:
            raise NoAnswer(self.server.name, round(seconds)) from None

    def _note_answer(self) -> None:
        self._breaker.record_answer()
        self.last_ok = self._clock()

    async def _note_failure(self, error: ToolingError, period: int) -> None:
        """`period` is that of the circuit when the request was sent."""
        self._telemetry.redactor.error(error)
        if _stops_calls(error):
            await self._stop_calls(error)
        elif is_transport_failure(error):
            self._record_failure(error, period)
        else:
            self._breaker.record_answer()  # it refused this, and is there

    def _record_failure(self, error: ToolingError, period: int) -> None:
        """What was under way when the circuit opened says nothing new. The end of a child is one failure, however many
        requests it cut off: it is about to be started again."""
        if self._breaker.is_open:
            return
        self._breaker.record_failure(period if isinstance(error, StdioExited) else None)
        if self._breaker.is_open:
            self._opened = self._clock()
            self._telemetry.emit("mcp.circuit.opened", server=self.server.name)
            self._show_circuit("degraded", is_listed=True)
            self._wake.set()


def _stops_calls(error: ToolingError) -> bool:
    return isinstance(error, AuthEnvMissing | AuthEnvEmpty | AuthRejected | LoopFound)
