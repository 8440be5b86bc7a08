"""The guard: before a guarded tool runs, the backend is asked whether it may.

Rule 1: only a clear yes lets a call through. No answer, a strange one or a refusal ends it, except that a tool whose
        file says so may run while the backend is away; a guard that said no is never overruled.
Rule 2: the decision is the backend's own, and it counts calls; nothing is remembered here between two calls.
Rule 3: where the backend offers it, the question travels with the call's own first request, which saves a round trip
        and leaves no moment between the answer and the deed. If the offer is gone by then, nothing was sent, and the
        question is put by itself.
Rule 4: before somebody is asked to confirm a call, a look that counts nothing makes sure that the guard is not locked;
        the question itself is put when the call is confirmed, so that no lock set meanwhile is missed.
A tool that is exempt is given no layer of this kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from zorivest_rpc.backend.interface import Backend, NotInline
from zorivest_rpc.call import Call, Handler, Middleware, Outcome
from zorivest_rpc.catalog.spec import ToolSpec
from zorivest_rpc.errors import BackendError, BackendUnreachable, GuardLocked, OutcomeUnknown

__all__ = ["BackendFor", "Guard"]

BackendFor: TypeAlias = Callable[[Call], Backend]
_SECONDS = 10.0


class Guard:
    def __init__(
        self,
        backend_for: BackendFor,
        seen: Callable[[Call, bool], None] = lambda call, locked: None,
        *,
        desktop: bool = True,
    ) -> None:
        """`seen` is told whether the guard was found locked; nothing here depends on it. `desktop` says whether the
        backend is one that can be unlocked in a desktop application."""
        self._backend_for = backend_for
        self._seen = seen
        self._desktop = desktop

    def layer(self, spec: ToolSpec, travelling: Handler | None = None) -> Middleware:
        """The layer of one guarded tool; `travelling` is its handler in the form that carries the question along.

        A travelling question skips whatever stands between this layer and the handler. So for a tool that is to be
        confirmed it stays at home, unless the layer is `innermost`."""
        return self._asks(spec) if spec.confirm else self.innermost(spec, travelling)

    def innermost(self, spec: ToolSpec, travelling: Handler | None = None) -> Middleware:
        """The same for a place right at the handler, with no other layer between them."""
        asks, backend_for = self._asks(spec), self._backend_for
        if travelling is None:
            return asks

        async def sends_along(call: Call, inner: Handler) -> Outcome:
            if backend_for(call).inline_guard:
                try:
                    return await travelling(call)
                except NotInline:
                    pass
                except GuardLocked as refused:
                    if refused.code != "guard_blocked":
                        raise
                    raise self._locked(call, refused.reason) from None
            return await asks(call, inner)

        return sends_along

    def _asks(self, spec: ToolSpec) -> Middleware:
        runs_offline = spec.guard_offline == "allow"

        async def asks(call: Call, inner: Handler) -> Outcome:
            await self.check(call, runs_offline=runs_offline)
            return await inner(call)

        return asks

    def look(self, spec: ToolSpec) -> Middleware:
        """The layer in front of a confirmation: a lock refuses before anybody is asked or a token is spent."""
        runs_offline = spec.guard_offline == "allow"

        async def looks(call: Call, inner: Handler) -> Outcome:
            try:
                status = (await self._backend_for(call).ask("GET", "/mcp-guard/status", timeout=_SECONDS)).value
            except BackendError as error:
                if error.status != 404:  # a guard that cannot be looked at can still be asked
                    raise GuardLocked.unasked(error.text) from None
                status = None
            except BackendUnreachable as error:
                if not runs_offline:
                    raise GuardLocked.unasked(error.text) from None
                status = None
            if isinstance(status, dict) and status.get("is_locked"):
                raise self._locked(call, status.get("lock_reason"))
            return await inner(call)

        return looks

    def _locked(self, call: Call, reason: object) -> GuardLocked:
        self._seen(call, True)
        return GuardLocked(str(reason or "locked"), desktop=self._desktop)

    async def check(self, call: Call, *, runs_offline: bool = False) -> None:
        """Ask by itself, and raise GuardLocked unless the answer is yes."""
        try:
            reply = await self._backend_for(call).ask(
                "POST",
                "/mcp-guard/check",
                repeatable=True,
                timeout=_SECONDS,  # asking twice counts twice, no more
            )
        except (BackendUnreachable, OutcomeUnknown) as error:
            if runs_offline:
                return
            raise GuardLocked.unasked(error.text) from None
        except BackendError as error:
            raise GuardLocked.unasked(error.text) from None
        verdict = reply.value
        if isinstance(verdict, dict) and verdict.get("allowed") is True:
            self._seen(call, False)
            return
        if isinstance(verdict, dict) and verdict.get("allowed") is False:
            raise self._locked(call, verdict.get("reason"))
        raise GuardLocked.unasked("Its answer could not be understood.")
