"""The guard: before a guarded tool runs, the backend is asked whether it may.

Rule 1: only a clear yes lets a call through. No answer, a strange one or a refusal ends it, except that a tool whose
        file says so may run while the backend is away; a guard that said no is never overruled.
Rule 2: the decision is the backend's own, and it counts calls; nothing is remembered here between two calls.
Rule 3: where the backend offers it, the question travels with the call's own first request, which saves a round trip
        and leaves no moment between the answer and the deed. If the offer is gone by then, nothing was sent, and the
        question is put by itself.
Rule 4: a call is counted once, before its user is asked anything or a token is spent. Each further round, which brings
        an answer, only looks at the lock, so that one set while the user thought is not missed.
Rule 5: a key that the backend does not take is told as such; no guard was asked, and none blocked anything.
A tool that is exempt is given no layer of this kind."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from zorivest_rpc.errors import BackendError, BackendUnreachable, GuardLocked, OutcomeUnknown, ToolError
from zorivest_rpc.mcp.call import BecomeTask, Call, Handler, InputRequired, Middleware, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Backend, NotInline, Request
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.middleware.rounds import AS_TASK, CountedRounds

__all__ = ["BackendFor", "GuardLayer"]

BackendFor: TypeAlias = Callable[[Call], Backend]
_SECONDS = 10.0
_KEY_REFUSED = ("auth_failed", "no_api_key")


class GuardLayer:
    def __init__(
        self,
        backend_for: BackendFor,
        seen: Callable[[Call, bool], None] = lambda call, locked: None,
        *,
        desktop: Callable[[Call], bool] = lambda call: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seen` is told whether the guard was found locked; nothing here depends on it. `desktop` says whether the
        backend of a call is one that can be unlocked in a desktop application."""
        self._backend_for = backend_for
        self._seen = seen
        self._desktop = desktop
        self._rounds = CountedRounds(clock)

    def innermost(self, spec: ToolSpec, travelling: Handler | None = None) -> Middleware:
        """The layer for a place right at the handler; `travelling` is that handler in the form that carries the
        question along, which skips whatever else would stand between."""
        asks, backend_for = self.layer(spec), self._backend_for
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
                    raise self._lock_refusal(call, refused.reason, refused.locked_by) from None
            return await asks(call, inner)

        return sends_along

    def layer(self, spec: ToolSpec) -> Middleware:
        """The layer that asks by itself, before whatever follows."""
        return self._asking(spec.guard_offline == "allow")

    def strict(self) -> Middleware:
        """The layer of what is no tool of ours: without the guard's answer it does not run."""
        return self._asking(False)

    def _asking(self, runs_offline: bool) -> Middleware:
        async def asks(call: Call, inner: Handler) -> Outcome:
            permit = self.look if self._rounds.take(call) else self.check
            await permit(call, runs_offline=runs_offline)
            try:
                return await inner(call)
            except InputRequired as asked:
                self._rounds.remember(call, asked.asks)
                raise
            except BecomeTask:
                self._rounds.remember(call, (AS_TASK,))
                raise

        return asks

    async def look(self, call: Call, *, runs_offline: bool = False) -> None:
        """Raise GuardLocked unless the guard is open, without counting; a guard that cannot be looked at is asked."""
        try:
            status = (await self._backend_for(call).ask(Request("GET", "/mcp-guard/status", timeout=_SECONDS))).value
        except BackendError as error:
            if error.status == 404:
                await self.check(call, runs_offline=runs_offline)
                return
            raise _refusal(error) from None
        except BackendUnreachable as error:
            if runs_offline:
                return
            raise _refusal(error) from None
        locked = status.get("is_locked") if isinstance(status, dict) else None
        if locked is True:
            raise self._lock_refusal(call, status.get("lock_reason"), status.get("locked_by"))
        if locked is not False:
            raise GuardLocked.without_answer("Its answer could not be understood.")

    async def check(self, call: Call, *, runs_offline: bool = False) -> None:
        """Ask by itself, which counts the call, and raise GuardLocked unless the answer is yes."""
        try:
            reply = await self._backend_for(call).ask(
                Request(
                    "POST",
                    "/mcp-guard/check",
                    repeatable=True,
                    timeout=_SECONDS,  # asking twice counts twice, no more
                )
            )
        except (BackendUnreachable, OutcomeUnknown) as error:
            if runs_offline:
                return
            raise _refusal(error) from None
        except BackendError as error:
            raise _refusal(error) from None
        verdict = reply.value
        allowed = verdict.get("allowed") if isinstance(verdict, dict) else None
        if allowed is True:
            self._seen(call, False)
        elif allowed is False:
            raise self._lock_refusal(call, verdict.get("reason"), verdict.get("locked_by"))
        else:
            raise GuardLocked.without_answer("Its answer could not be understood.")

    def _lock_refusal(self, call: Call, reason: Json, locked_by: Json) -> GuardLocked:
        self._seen(call, True)
        by = locked_by if isinstance(locked_by, str) else None
        return GuardLocked(str(reason or "locked"), desktop=self._desktop(call), locked_by=by)


def _refusal(error: BackendError | BackendUnreachable | OutcomeUnknown) -> ToolError:
    """The guard could not be asked; why, and what would help, is the failed request's own word."""
    if error.code == "client_timeout":  # the whole time of the call is over, and its own words say so
        return error
    if isinstance(error, BackendError) and error.code in _KEY_REFUSED and error.status < 500:
        return error
    return GuardLocked.without_answer(error.problem, error.next)
