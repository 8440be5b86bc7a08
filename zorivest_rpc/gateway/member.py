"""One upstream over time: it is connected, listed, listed again when it changes, and looked after when it fails.

Rule 1: what it last offered stays offered while a new list cannot be had; nothing of it delays another upstream.
Rule 2: a state is never silent: each has a reason that `list_available_toolsets` and the log show."""

from __future__ import annotations

import asyncio
import logging
import math
import random as system_random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from zorivest_rpc.errors import ConfigError
from zorivest_rpc.gateway.catalogue import Offered
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import (
    AuthEnvEmpty,
    AuthEnvMissing,
    AuthRejected,
    CircuitOpen,
    RetryExhausted,
    ToolingError,
)
from zorivest_rpc.gateway.extras import NOTHING, Extras, read_extras
from zorivest_rpc.gateway.pins import Verdict
from zorivest_rpc.gateway.retries import Purpose, is_transport_failure, pause_before, waits_for
from zorivest_rpc.gateway.telemetry import Telemetry
from zorivest_rpc.gateway.upstream import Call, Ended, Happening, Result, Upstream
from zorivest_rpc.mcp.client.caller import Changed, Touched
from zorivest_rpc.mcp.client.lists import Listing
from zorivest_rpc.serving.backend.breaker import Breaker

__all__ = ["USUAL", "Judge", "Member", "Timing"]

Judge = Callable[[Server, Listing], Mapping[str, Verdict]]
JudgeExtras = Callable[[Server, Extras], Mapping[str, Mapping[str, Verdict]]]
_log: Final = logging.getLogger(__name__)


class Timing(NamedTuple):
    """Seconds; a test has others."""

    merged: float = 0.5  # changes that come together are one
    between_lists: float = 5.0
    retried: float = 60.0  # a server that failed all attempts
    idle: float = 60.0  # before its health is asked for
    shortest_ttl: float = 30.0
    withdrawn: float = 60.0  # tools of an open circuit stay listed that long
    circuit: float = 30.0
    longest_circuit: float = 300.0


USUAL: Final = Timing()


class Member:
    """`make` gives the transport, `judge` what the pins say, `changed` is told that the offer is another one.

    `gate` bounds how many servers are discovered at once."""

    def __init__(
        self,
        profile: Profile,
        server: Server,
        *,
        make: Callable[[Server, Callable[[Happening], None]], Upstream],
        judge: Judge,
        judge_extras: JudgeExtras = lambda server, extras: {},
        changed: Callable[[], None],
        touched: Callable[[str, str], None] = lambda server, uri: None,
        telemetry: Telemetry,
        timing: Timing = USUAL,
        gate: asyncio.Semaphore | None = None,
        random: Callable[[], float] = system_random.random,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.server = server
        self.offered = Offered(server, "connecting")
        self.failure: ToolingError | None = None
        self.settled = asyncio.Event()  # once the first discovery has ended, however
        self.latency_ms: float | None = None
        self.last_ok: float | None = None
        self.followed: set[str] = set()  # URIs of resources that our clients follow, across reconnections
        self._profile = profile
        self._make = make
        self._judge = judge
        self._judge_extras = judge_extras
        self._touched = touched
        self._changed = changed
        self._telemetry = telemetry
        self._timing = timing
        self._gate = gate or asyncio.Semaphore(1)
        self._random = random
        self._pause = pause
        self._upstream: Upstream | None = None
        self._wake = asyncio.Event()
        self._connecting = asyncio.Lock()
        self._breaker = Breaker(failures=5, pause=timing.circuit, longest=timing.longest_circuit)
        self._ttl: float | None = None
        self._listed = -math.inf  # again: the first list is no reason to wait with the second
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
        await self._drop()

    async def _live(self) -> None:
        attempt = 0
        while True:
            try:
                await self.discover()
                attempt = 0
                wait = self._next_look()
            except ToolingError as error:
                attempt += 1
                again = waits_for(error, Purpose.LIST, self._timing.retried)
                if again is None or attempt >= self._profile.tool_retry_attempts:
                    attempt = 0
                    wait = self._timing.retried * (0.8 + 0.4 * self._random())
                else:
                    wait = max(again, pause_before(attempt + 1, self._profile, self._random))
            except ConfigError as error:  # pins that cannot be read: nothing is published that was not judged
                _log.error("%s", error)
                self._publish(Offered(self.server, "unavailable", str(error)))
                wait = self._timing.retried * (0.8 + 0.4 * self._random())
            finally:
                self.settled.set()
            await self._sleep(wait)

    async def _sleep(self, seconds: float) -> None:
        """Until the time has come or something happened; changes that follow each other are one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        if self._wake.is_set():
            now = asyncio.get_running_loop().time()
            await self._pause(max(self._timing.merged, self._listed + self._timing.between_lists - now))
            self._wake.clear()

    def _next_look(self) -> float:
        """When the list is asked for again unasked: at the end of its time, where no stream tells of changes."""
        watched = self._upstream is not None and self._upstream.watched.tools_list_changed
        if self._ttl is not None and not watched:
            return max(self._timing.shortest_ttl, self._ttl)
        return self._timing.idle * (0.8 + 0.4 * self._random())

    # --- discovery

    async def discover(self) -> None:
        """Connect where that is needed, list, and publish. ToolingError after the state was set."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._telemetry.emit("mcp.discovery.started", server=self.server.name)
        try:
            async with self._gate:
                upstream = await self._connect()
                has_tools = upstream.welcome is None or upstream.welcome.offered.tools
                listing = await upstream.list_tools() if has_tools else Listing(())
                extras = await read_extras(upstream, self.server)
        except ToolingError as error:
            await self._fail(error)
            raise
        self.latency_ms = (loop.time() - began) * 1000
        if self.last_ok is not None:
            self._listed = loop.time()
        self.last_ok = loop.time()
        self._ttl = None if listing.ttl_ms is None else listing.ttl_ms / 1000
        verdicts = await asyncio.to_thread(self._judge, self.server, listing)
        if extras != NOTHING:
            judged = await asyncio.to_thread(self._judge_extras, self.server, extras)
            extras = msgspec.structs.replace(extras, verdicts=judged)
        held = sum(1 for verdict in verdicts.values() if verdict.held)
        self.failure = None
        self._breaker.record_answer()
        self._publish(Offered(self.server, "ready", None, listing, verdicts, extras))
        welcome = upstream.welcome
        self._telemetry.emit(
            "mcp.discovery.succeeded",
            server=self.server.name,
            tools=len(listing.items),
            held=held,
            era=welcome.revision.name if welcome else None,
            latency_ms=round(self.latency_ms),
        )

    async def _connect(self) -> Upstream:
        found = self._upstream
        if found is None:
            async with self._connecting:  # a call and a discovery may want it at the same time
                found = self._upstream
                if found is None:
                    found = self._make(self.server, self._on_happening)
                    try:
                        await found.connect()
                    except BaseException:
                        await found.close()
                        raise
                    self._upstream = found
                    await self._follow_again(found)
        return found

    async def _follow_again(self, upstream: Upstream) -> None:
        """What our clients follow is followed on the new connection too; what changed meanwhile is not known."""
        for uri in sorted(self.followed):
            with suppress(ToolingError):
                await upstream.subscribe(uri)
            self._touched(self.server.name, uri)

    async def follow(self, uri: str, is_wanted: bool) -> None:
        """Subscribe to a resource, or no longer; while the server is away that is only remembered."""
        (self.followed.add if is_wanted else self.followed.discard)(uri)
        upstream = self._upstream
        if upstream is not None and self.offered.extras.can_follow:
            await (upstream.subscribe(uri) if is_wanted else upstream.unsubscribe(uri))

    async def _fail(self, error: ToolingError) -> None:
        self._telemetry.redactor.error(error)
        self.failure = error
        self._telemetry.emit("mcp.discovery.failed", server=self.server.name, code=error.code)
        _log.warning("%s", error.problem)
        if is_transport_failure(error):
            await self._drop()
        if isinstance(error, AuthEnvMissing | AuthEnvEmpty | AuthRejected):
            await self._drop()
            state = "auth_failed"
        else:
            state = "degraded" if self.offered.listing.items else "unavailable"
        if state == "degraded":
            self._publish(msgspec.structs.replace(self.offered, status=state, error=error.text))
        else:
            self._publish(Offered(self.server, state, error.text))

    def _publish(self, offered: Offered) -> None:
        before, self.offered = self.offered, offered
        if before.status != offered.status:
            self._telemetry.emit("mcp.state", server=self.server.name, from_=before.status, to=offered.status)
        if before != offered:
            self._changed()

    async def _drop(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            await upstream.close()

    def _on_happening(self, happening: Happening) -> None:
        if isinstance(happening, Touched):
            self._touched(self.server.name, happening.uri)
        elif isinstance(happening, Ended | Changed):
            if isinstance(happening, Ended):
                self._upstream = None
            self._wake.set()

    # --- calls

    @property
    def is_modern(self) -> bool | None:
        """Of the server as it is connected; None where it is not."""
        welcome = self._upstream.welcome if self._upstream is not None else None
        return None if welcome is None else welcome.revision.modern

    async def call(self, call: Call, *, repeatable: bool) -> tuple[Result, int]:
        """Forward a call, again where that cannot deliver it twice; the result and the number of attempts."""
        loop = asyncio.get_running_loop()
        deadline = call.deadline if call.deadline is not None else loop.time() + call.seconds
        call.deadline = deadline
        purpose = Purpose.REPEATABLE if repeatable else Purpose.CALL
        attempt = 0
        while True:
            attempt += 1
            wait = self._breaker.wait()
            if wait > 0:
                raise CircuitOpen(self.server.name, max(1, round(wait)))
            try:
                upstream = await self._connect()
                result = await upstream.call(call)
            except ToolingError as error:
                self._note_failure(error)
                again = waits_for(error, purpose, deadline - loop.time())
                if again is None or attempt >= self._profile.tool_retry_attempts:
                    raise (RetryExhausted(self.server.name, attempt, error) if attempt > 1 else error) from None
                pause = max(again, pause_before(attempt + 1, self._profile, self._random))
                if loop.time() + pause >= deadline:
                    raise
                await self._pause(pause)
            except BaseException:
                self._breaker.gave_up()
                raise
            else:
                self._breaker.record_answer()
                self.last_ok = loop.time()
                return result, attempt

    def _note_failure(self, error: ToolingError) -> None:
        self._telemetry.redactor.error(error)
        if is_transport_failure(error):
            self._breaker.record_failure()
        else:
            self._breaker.gave_up()
        if isinstance(error, AuthEnvMissing | AuthEnvEmpty | AuthRejected):
            self.failure = error
            self._publish(Offered(self.server, "auth_failed", error.text))
