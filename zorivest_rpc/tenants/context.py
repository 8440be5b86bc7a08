"""What the server holds for one tenant, made with the first call for it and handed to whatever works for that call.

Rule 1: a context is an argument. Nothing here or elsewhere knows a "current" tenant, so that no task can inherit one.
Rule 2: one tenant's pool, token, breaker and limits are its own; a tenant that hangs costs no other one anything.
Rule 3: what is idle for a quarter of an hour closes its pool and forgets its token; the next call begins anew."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from zorivest_rpc.errors import BackendError, BackendUnreachable, OutcomeUnknown, ToolError, ZorivestError
from zorivest_rpc.mcp.call import Scope
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.tenants.config import Tenant, Tenants
from zorivest_rpc.tenants.refusals import NOTICE, name_client, timed_out

if TYPE_CHECKING:
    from zorivest_rpc.serving.backend.auth import Grant
    from zorivest_rpc.serving.backend.http import HttpBackend, Where
    from zorivest_rpc.serving.backend.interface import Address, Reply, Request

__all__ = ["ARGUMENT", "CLIENT_KEY", "Contexts", "Place", "TenantBackend", "TenantContext", "scope_of"]

ARGUMENT: Final = "clientId"
CLIENT_KEY: Final = "com.zorivest/client"
NOTICE_KEY: Final = "com.zorivest/notice"
IDLE: Final = 900.0
_LOOK: Final = 60.0
_CLOSING: Final = 5.0
_LAST_HOLD_OFF: Final = 30.0
_SHARE: Final = 0.8  # of a session token's life
_LARGE_PACE: Final = 16.0 * 1024 * 1024  # bytes a second of a body that is large, so that few calls of others meet one
_KEY_ADVICE: Final = "Ask the operator to check the credential of this client on the server."
_CLOSED_ROLE: Final = "read-only"


class Place(NamedTuple):
    """Where the backend of an embedded tenant is: how to find it, its key, and what keeps it running meanwhile."""

    where: Callable[[], Awaitable[str | Address]]
    key: Callable[[], str | None]
    use: Callable[[float], AbstractAsyncContextManager[None]]


def scope_of(tenant: Tenant, own: TenantContext, *, by_header: bool = False) -> Scope:
    """What every key, result and question of a call for this tenant carries."""
    meta: dict[str, Json] = {CLIENT_KEY: {"id": tenant.id, "name": tenant.name}}
    if by_header:
        meta[NOTICE_KEY] = NOTICE
    taken = None if by_header else {ARGUMENT: tenant.id}
    return Scope(tenant.id, meta, f"For client {tenant.title}: ", own, taken, dumps(meta))


class TenantBackend:
    """The backend of one tenant as the tools use it: bounded in time and number, and named in each of its failures."""

    def __init__(
        self,
        tenant: Tenant,
        inner: HttpBackend,
        use: Callable[[float], AbstractAsyncContextManager[None]] | None = None,
    ) -> None:
        self.tenant = tenant
        self.inner = inner
        self._use = use
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._running = 0
        self._most = 0 if use is not None else tenant.max_concurrency  # requests at once that wait for nothing
        self._seconds = tenant.http_timeout_ms / 1000
        self.in_flight = 0
        self.used = time.monotonic()
        self.closed = False

    @property
    def base_url(self) -> str:
        return self.inner.base_url

    @property
    def inline_guard(self) -> bool:
        return self.inner.inline_guard

    async def close(self) -> None:
        """At once for a call that still carries it, which asks for another one."""
        self.closed = self.inner.closed = True
        await self.inner.close()

    def lock(self) -> None:
        self.inner.lock()

    async def ask(self, request: Request) -> Reply:
        self.used = began = time.monotonic()
        waits = self._running >= self._most
        self._running += not waits
        self.in_flight += 1
        try:
            if waits:
                return await self._wait_and_ask(request, began)
            if request.timeout is not None and request.timeout > self._seconds:
                request = replace(request, timeout=self._seconds)
            return await self.inner.ask(request)
        except TimeoutError:
            raise timed_out(self.tenant.id, self.tenant.http_timeout_ms) from None
        except (BackendUnreachable, OutcomeUnknown) as error:
            raise self._name_lost(error, began) from None
        except BackendError as error:
            raise name_client(error, self.tenant.id) from None
        finally:
            self.in_flight -= 1
            if not waits:
                self._leave()

    def _name_lost(self, error: BackendUnreachable | OutcomeUnknown, began: float) -> ToolError:
        if time.monotonic() - began < self._seconds * 0.98:
            return name_client(error, self.tenant.id)
        late = timed_out(self.tenant.id, self.tenant.http_timeout_ms)
        if isinstance(error, BackendUnreachable):
            return late
        words = f"{late.text} Whether it was done is unknown; it was not sent again."
        return OutcomeUnknown(words, next=error.next, problem=late.text)

    async def unlock(self) -> Grant | None:
        """A session at hand, in the time that a request may take."""
        try:
            async with asyncio.timeout(self._seconds), AsyncExitStack() as held:
                await self._hold(held, self._seconds)
                return await self.inner.unlock()
        except TimeoutError:
            raise timed_out(self.tenant.id, self.tenant.http_timeout_ms) from None
        except (BackendError, BackendUnreachable) as error:
            raise name_client(error, self.tenant.id) from None

    async def _wait_and_ask(self, request: Request, began: float) -> Reply:
        """The reply, after a wait for one of the places where all are taken."""
        if self._running >= self.tenant.max_concurrency:
            await self._wait()
        else:
            self._running += 1
        try:
            async with AsyncExitStack() as held:
                await self._hold(held, self._left(began))
                return await self._send(request, began)
        finally:
            self._leave()

    async def _wait(self) -> None:
        """In the order in which they came; who is let in has its place already."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._seconds):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._leave()  # it was let in just as it gave up
            raise

    def _leave(self) -> None:
        """Hand the place on to the one that waits longest, or free it."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._running -= 1

    async def _hold(self, held: AsyncExitStack, seconds: float) -> None:
        """Keep an embedded backend from being ended for another; TimeoutError where none became free for this one."""
        if self._use is not None:
            try:
                await held.enter_async_context(self._use(seconds))
            except ZorivestError:
                raise TimeoutError from None

    async def _send(self, request: Request, began: float) -> Reply:
        left = self._left(began)
        if request.timeout is None or request.timeout > left:
            request = replace(request, timeout=left)
        return await self.inner.ask(request)

    def _left(self, began: float) -> float:
        return max(0.001, self._seconds - (time.monotonic() - began))


class TenantContext:
    """One tenant while the server runs. Its backend is made with the first request and again after an idle time."""

    def __init__(
        self,
        tenant: Tenant,
        environ: Mapping[str, str],
        place: Callable[[Tenant], Place] | None,
        *,
        plain: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tenant = tenant
        self.scope = scope_of(tenant, self)
        self.scope_by_header = scope_of(tenant, self, by_header=True)
        self._environ = environ
        self._place = place
        self._plain = plain
        self._clock = clock
        self._backend: TenantBackend | None = None
        self._calls: deque[float] = deque()
        self._role = ""
        self.calls = 0  # that are being done, also between two of their requests
        self._ended: asyncio.Event | None = None  # where the end of the last call is waited for

    @property
    def id(self) -> str:
        return self.tenant.id

    @property
    def is_open(self) -> bool:
        return self._backend is not None

    @property
    def is_configured(self) -> bool:
        return self.tenant.is_configured(self._environ)

    @property
    def is_read_only(self) -> bool:
        """By its settings, or by the role of its key, as far as that is known."""
        return self.tenant.read_only or self._role == _CLOSED_ROLE

    def backend(self) -> TenantBackend:
        backend = self._backend
        if backend is None or backend.closed:
            backend = self._backend = self._connect()
        return backend

    async def settle_role(self) -> None:
        """Learn what the tenant's key may do, before something is changed with it."""
        if self.tenant.read_only or self.tenant.authorization is not None:
            return
        grant = await self.backend().unlock()
        if grant is not None:
            self._role = grant.role

    def take_call(self) -> int:
        """Count one call; 0, or the seconds to wait where the minute is full already."""
        limit = self.tenant.calls_per_minute
        if limit is None:
            return 0
        calls, now = self._calls, self._clock()
        while calls and now - calls[0] >= 60.0:
            calls.popleft()
        if len(calls) >= limit:
            return max(1, ceil(60.0 - (now - calls[0])))
        calls.append(now)
        return 0

    def is_idle(self, now: float) -> bool:
        backend = self._backend
        return backend is not None and not backend.in_flight and now - backend.used >= IDLE

    async def rest(self) -> None:
        """Close the pool and forget the token; counters stay."""
        backend, self._backend, self._role = self._backend, None, ""
        if backend is not None:
            await backend.close()

    async def retire(self) -> None:
        """For good, once the last of its calls has ended."""
        self._ended = asyncio.Event()
        if self.calls:
            await self._ended.wait()
        await self.rest()

    def end_call(self) -> None:
        self.calls -= 1
        if self._ended is not None and not self.calls:
            self._ended.set()

    def _connect(self) -> TenantBackend:
        from zorivest_rpc.serving.backend.auth import BackendLogins, FixedLogin
        from zorivest_rpc.serving.backend.http import HttpBackend
        from zorivest_rpc.serving.backend.limits import BackendLimits

        tenant = self.tenant
        limits = BackendLimits(
            total=tenant.http_timeout_ms / 1000, connections=tenant.max_concurrency, pace=_LARGE_PACE
        )
        headers = {} if tenant.client_header is None else {"client": tenant.client_header}
        place = self._place(tenant) if tenant.embedded and self._place is not None else None
        where: Where = place.where if place is not None else tenant.api_base_url or ""
        fixed = None if tenant.authorization is None else FixedLogin(tenant.authorization)
        inner = HttpBackend(
            where,
            limits=limits,
            plain=self._plain,
            headers=headers,
            redirects=False,
            sessions=fixed,
        )
        if fixed is None:
            key = place.key if place is not None else lambda: tenant.key_of(self._environ)
            inner.use_sessions(
                BackendLogins(
                    inner.exchange_key,
                    key,
                    clock=self._clock,
                    margin=0.0,
                    share=_SHARE,
                    hold_off=1.0,
                    longest_hold_off=_LAST_HOLD_OFF,
                    advice=_KEY_ADVICE,
                )
            )
        return TenantBackend(tenant, inner, None if place is None else place.use)


class Contexts:
    """The contexts of all tenants, each made when it is first asked for."""

    def __init__(
        self,
        tenants: Tenants,
        environ: Mapping[str, str],
        *,
        place: Callable[[Tenant], Place] | None = None,
        plain: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tenants = tenants
        self._environ = environ
        self._place = place
        self._plain = plain
        self._clock = clock
        self._known: dict[str, TenantContext] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._resting: set[asyncio.Task[None]] = set()

    def of(self, id: str) -> TenantContext:
        found = self._known.get(id)
        if found is None:
            tenant = self.tenants.tenants[id]
            found = self._known[id] = TenantContext(
                tenant, self._environ, self._place, plain=self._plain, clock=self._clock
            )
        return found

    def __len__(self) -> int:
        return len(self._known)

    def change(self, tenants: Tenants) -> list[TenantContext]:
        """Other tenants; those that are as they were keep their contexts, and the rest of the contexts is returned."""
        kept = {id: known for id, known in self._known.items() if tenants.tenants.get(id) == known.tenant}
        left = [known for id, known in self._known.items() if id not in kept]
        self.tenants, self._known = tenants, kept
        return left

    def state_of(self, id: str) -> str:
        """In one word, for a report: nothing of a credential."""
        context = self.of(id)
        if not context.tenant.enabled:
            return "disabled"
        if not context.is_configured:
            return "not configured"
        return "in use" if context.is_open else "idle"

    def watch_idle(self) -> None:
        """Begin to look for what is idle; once a minute while something is open, and not at all otherwise."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK, self._look)

    def _look(self) -> None:
        self._timer = None
        now = time.monotonic()
        for context in self._known.values():
            if context.is_idle(now):
                self._rest(context)
        if any(context.is_open for context in self._known.values()):
            self.watch_idle()

    def _rest(self, context: TenantContext) -> None:
        task = asyncio.get_running_loop().create_task(context.rest())
        self._resting.add(task)
        task.add_done_callback(self._resting.discard)

    async def close(self) -> None:
        """All at once, and not for long."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        open_ones = [asyncio.ensure_future(context.rest()) for context in self._known.values() if context.is_open]
        if left := [*open_ones, *self._resting]:
            await asyncio.wait(left, timeout=_CLOSING)
