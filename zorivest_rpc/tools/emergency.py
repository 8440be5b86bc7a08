"""The panic button and its release. Both stand outside the guard, and neither claims what the backend did not say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zorivest_rpc.call import Call, Handler, Outcome
from zorivest_rpc.errors import ToolError
from zorivest_rpc.tools.kit import Kit, Written, bad_answer

__all__ = ["Emergency"]

_LONGEST_REASON: Final = 100  # characters that a backend stores with a lock
_IN_THE_APP: Final = "in the desktop app under Settings → MCP Guard"


class Emergency:
    def __init__(self, kit: Kit, seen: Callable[[Call, bool], None] = lambda call, locked: None) -> None:
        """`seen` is told what became of the lock."""
        self._kit = kit
        self._seen = seen

    def handlers(self) -> dict[str, Handler]:
        return {"emergency_stop": self.stop, "emergency_unlock": self.unlock}

    async def stop(self, call: Call) -> Outcome:
        """Locking a locked guard changes nothing, so it is tried again where it got no answer."""
        reason = self._kit.arguments(call)["reason"].strip()[:_LONGEST_REASON] or "agent_self_lock"
        body = {"reason": reason}
        written = await self._kit.write(call, "POST", "/mcp-guard/lock", body, repeatable=True, urgent=True)
        if _locked(written, "/mcp-guard/lock") is not True:
            next = "Stop the backend" + (f", or lock it {_IN_THE_APP}." if self._kit.desktop else ".")
            raise ToolError(
                f"The backend took the request and still reports an unlocked guard; the tools are NOT stopped. {next}",
                code="still_unlocked",
                next=next,
            )
        self._seen(call, True)
        ways = f"{_IN_THE_APP}, or with" if self._kit.desktop else "with"
        message = (
            f"🔒 MCP guard locked (reason: {reason}). Every guarded tool is refused until somebody unlocks it: "
            f"{ways} zorivest_emergency_unlock."
        )
        return self._kit.give(call, {"locked": True, "reason": reason}, message=message, receipt=written.receipt)

    async def unlock(self, call: Call) -> Outcome:
        """Sent once: a repetition could lift a lock that somebody set in between."""
        written = await self._kit.write(call, "POST", "/mcp-guard/unlock", urgent=True)
        if _locked(written, "/mcp-guard/unlock") is not False:
            way = f"Unlock it {_IN_THE_APP}" if self._kit.desktop else "Try again"
            next = f"{way}; zorivest_diagnose shows its state."
            raise ToolError(
                f"The guard is still locked after the request to unlock it; guarded tools stay refused. {next}",
                code="still_locked",
                next=next,
            )
        self._seen(call, False)
        message = "🔓 MCP guard unlocked. Guarded tools work again; zorivest_emergency_stop locks them."
        return self._kit.give(call, {"locked": False}, message=message, receipt=written.receipt)


def _locked(written: Written, path: str) -> bool:
    answer = written.reply.value
    locked = answer.get("is_locked") if isinstance(answer, dict) else None
    if not isinstance(locked, bool):
        raise bad_answer(path, written.reply, "saying whether the guard is locked")
    return locked
