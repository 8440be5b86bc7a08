"""The panic button and its release. Both stand outside the guard, and neither claims what the backend did not say.

What a person locked, the release leaves locked unless a person answers a form that the client shows. The backend keeps
that rule, too: this only asks first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec import UNSET

from zorivest_rpc.errors import BackendError, ConfirmationRequired, ToolError
from zorivest_rpc.mcp.call import Ask, Call, Handler, Outcome, Scope, form, give
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.modes.present import EVERY_CLIENT
from zorivest_rpc.serving.tools.kit import Kit, WriteResult, bad_answer, flag_error
from zorivest_rpc.serving.tools.receipt import RECEIPT_KEY

__all__ = ["Consent", "Emergency"]

Consent: TypeAlias = Callable[[Call, Ask, str], Mapping[str, Json]]
"""The user's answer to a question about exactly this; InputRequired where it has to be put first."""

_LOCK, _UNLOCK, _STATUS = "/mcp-guard/lock", "/mcp-guard/unlock", "/mcp-guard/status"
_AT_ONCE: Final = 64  # guards that are locked at the same time
_LONGEST_REASON: Final = 100  # characters that a backend stores with a lock
_IN_THE_APP: Final = "in the desktop app under Settings → MCP Guard"
_IN_A_TERMINAL: Final = 'with "zorivest-rpc unlock" in a terminal'
_WORD: Final = "UNLOCK"
log: Final = logging.getLogger("zorivest_rpc.tenants")


class Emergency:
    def __init__(
        self,
        kit: Kit,
        seen: Callable[[Call, bool], None] = lambda call, locked: None,
        *,
        consent: Consent,
        asks: bool = True,
        every: Callable[[Call], Sequence[Scope]] = lambda call: (),
        each: Handler | None = None,
    ) -> None:
        """`seen` is told what became of the lock. Without `asks` no user is asked before a lock is released that no
        person set. `every` are the clients of a call that is for all of them, and `each` stops one of these."""
        self._every = every
        self._each = each
        self._kit = kit
        self._seen = seen
        self._consent = consent
        self._asks = asks

    def handlers(self) -> dict[str, Handler]:
        return {"emergency_stop": self.stop, "emergency_unlock": self.unlock}

    async def stop(self, call: Call) -> Outcome:
        return await (self._stop_every(call) if call.scope.name == EVERY_CLIENT else self._stop_one(call))

    async def _stop_every(self, call: Call) -> Outcome:
        """One after the other would leave the last one open for the longest, so all are locked at once."""
        scopes = self._every(call)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def stop(scope: Scope) -> Outcome | str:
            async with gate:
                return await self._stop_in(call, scope)

        results = await asyncio.gather(*(stop(scope) for scope in scopes))
        locked = {scope.name: each for scope, each in zip(scopes, results, strict=True) if isinstance(each, Outcome)}
        told = [_describe(scope.name, each) for scope, each in zip(scopes, results, strict=True)]
        open_ones = [scope.name for scope in scopes if scope.name not in locked]
        if open_ones:
            next = "Stop the backends that could not be locked, or call again for each of them."
            named = f"Locked: {', '.join(locked) or 'none'}. Not locked: {', '.join(open_ones)}."
            words = f"NOT every guard is locked. {named} {next}"
            failed = ToolError(words, code="partly_locked", next=next)
            outcome = flag_error({"locked": False, "clients": told, "message": words}, failed)
        else:
            message = f"🔒 MCP guard locked for every client: {', '.join(locked)}."
            outcome = give({"locked": True, "clients": told, "message": message})
        receipts: list[Json] = [each.meta[RECEIPT_KEY] for each in locked.values() if each.meta]
        outcome.meta = {**(outcome.meta or {}), RECEIPT_KEY: {"tenant": call.scope.name, "clients": receipts}}
        return outcome

    async def _stop_in(self, call: Call, scope: Scope) -> Outcome | str:
        """What locking the guard of one client came to, or why it is not locked; no failure keeps another from it."""
        inner = call.dispatch(call.name, call.arguments)
        inner.scope, inner.context = scope, None
        try:
            return await (self.stop if self._each is None else self._each)(inner)
        except ToolError as error:
            return error.text
        except Exception:
            log.exception("tenant=%s: the guard could not be locked", scope.name)
            return "The server failed while it locked this guard; its log says how."

    async def _stop_one(self, call: Call) -> Outcome:
        """Locking a locked guard changes nothing, so it is tried again where it got no answer."""
        reason = self._kit.arguments(call)["reason"].strip()[:_LONGEST_REASON] or "agent_self_lock"
        written = await self._kit.write(call, "POST", _LOCK, {"reason": reason}, repeatable=True, urgent=True)
        if _is_locked(written, _LOCK) is not True:
            next = "Stop the backend" + (f", or lock it {_IN_THE_APP}." if self._kit.desktop(call) else ".")
            raise ToolError(
                f"The backend took the request and still reports an unlocked guard; the tools are NOT stopped. {next}",
                code="still_unlocked",
                next=next,
            )
        self._seen(call, True)
        status = written.reply.value
        persons = status.get("locked_by") == "person"
        message = (
            f"🔒 MCP guard locked (reason: {reason}). Every guarded tool is refused until it is unlocked: "
            f"{self._ways_for_a_person(call) if persons else self._ways(call)}."
        )
        if persons:
            message += " A person had locked it before, and only a person can release it."
        saved = status.get("is_saved")
        if saved is False:
            message += (
                " The disk takes no more data: the lock holds in memory and ends with the backend process. Tell the "
                "user to free some space."
            )
        shown = {"locked": True, "reason": reason} | ({"saved": saved} if isinstance(saved, bool) else {})
        return self._kit.give(call, shown, message=message, receipt=written.receipt)

    async def unlock(self, call: Call) -> Outcome:
        """Sent once: a repetition could lift a lock that was set in between."""
        status = await self._status(call)
        by_person = self._agree(call, status) if status.get("is_locked") is True else False
        body: Json = {"by": "person", "locked_at": status.get("locked_at")} if by_person else UNSET
        try:
            written = await self._kit.write(call, "POST", _UNLOCK, body, urgent=True)
        except BackendError as error:
            if error.reported == "locked_by_person":
                raise self._refuse(call) from None
            if error.reported == "lock_changed":
                raise ToolError(
                    "The guard was locked or unlocked again while the user was asked; nothing was done.",
                    code="lock_changed",
                    next="Call again, so that the user sees the present lock.",
                ) from None
            raise
        if _is_locked(written, _UNLOCK) is not False:
            way = f"Unlock it {_IN_THE_APP}" if self._kit.desktop(call) else "Try again"
            next = f"{way}; zorivest_diagnose shows its state."
            raise ToolError(
                f"The guard is still locked after the request to unlock it; guarded tools stay refused. {next}",
                code="still_locked",
                next=next,
            )
        self._seen(call, False)
        message = "🔓 MCP guard unlocked. Guarded tools work again; zorivest_emergency_stop locks them."
        return self._kit.give(call, {"locked": False}, message=message, receipt=written.receipt)

    async def _status(self, call: Call) -> Mapping[str, Json]:
        """What the guard says of its lock; nothing where it cannot be learnt, and then the backend's answer decides."""
        try:
            status = (await self._kit.backend_for(call).ask(Request("GET", _STATUS, urgent=True))).value
        except ToolError:
            return {}
        return status if isinstance(status, dict) else {}

    def _agree(self, call: Call, status: Mapping[str, Json]) -> bool:
        """Whether a person releases a person's lock; False where the tool may, after a yes if it can ask for one."""
        persons = status.get("locked_by") == "person"
        question = _question(status, persons)
        if not call.can_ask(question):
            if persons:
                raise self._refuse(call)
            return False
        if not persons and not self._asks:
            return False
        answer = self._consent(call, question, f"unlock {status.get('locked_at')}")
        content = answer.get("content")
        if answer.get("action") == "accept" and isinstance(content, dict) and _agrees(content, persons):
            return persons
        raise ConfirmationRequired(
            "The user did not release the lock; guarded tools stay refused. Repeat it only if the user asks for it.",
            code="confirmation_declined",
            next="Ask the user what to do instead.",
        )

    def _refuse(self, call: Call) -> ToolError:
        return ToolError(
            f"A person locked the guard, and only a person can unlock it: {self._ways_for_a_person(call)}. "
            "Guarded tools stay refused.",
            code="locked_by_person",
            next="Tell the user that a person stopped the tools, and wait for them.",
        )

    def _ways(self, call: Call) -> str:
        return (f"{_IN_THE_APP}, or " if self._kit.desktop(call) else "") + "with zorivest_emergency_unlock"

    def _ways_for_a_person(self, call: Call) -> str:
        return (f"{_IN_THE_APP}, or " if self._kit.desktop(call) else "") + _IN_A_TERMINAL


def _describe(id: str, result: Outcome | str) -> dict[str, Json]:
    """What became of one client, among all that were to be stopped."""
    if isinstance(result, str):
        return {"id": id, "locked": False, "error": result}
    return {"id": id, **{name: value for name, value in result.structured.items() if name != "message"}}


def _question(status: Mapping[str, Json], persons: bool) -> Ask:
    reason, since = str(status.get("lock_reason") or "none given")[:_LONGEST_REASON], status.get("locked_at")
    setter = {"person": "A person", "rate": "The rate limit"}.get(str(status.get("locked_by")), "A tool")
    words = f"{setter} locked every guarded tool (reason: {reason}; since {since or 'an unknown time'}). "
    if not persons:
        field: Json = {"type": "boolean", "title": "Yes, unlock", "description": "Let guarded tools run again."}
        return form(words + "Let them run again?", {"confirm": field})
    field = {"type": "string", "title": "Release", "description": f"Type {_WORD} to let guarded tools run again."}
    return form(f"{words}To release this stop, type {_WORD}.", {"release": field})


def _agrees(content: Mapping[str, Json], persons: bool) -> bool:
    if not persons:
        return content.get("confirm") is True
    typed = content.get("release")
    return isinstance(typed, str) and typed.strip().upper() == _WORD


def _is_locked(written: WriteResult, path: str) -> bool:
    answer = written.reply.value
    locked = answer.get("is_locked") if isinstance(answer, dict) else None
    if not isinstance(locked, bool):
        raise bad_answer(path, written.reply, "saying whether the guard is locked")
    return locked
