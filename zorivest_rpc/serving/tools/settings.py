"""Log settings: the part of the settings below `logging.`, read with a prefix and written one level at a time."""

from __future__ import annotations

from typing import Final

from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.tools.kit import Kit, bad_answer

__all__ = ["LogSettings"]

_NAMESPACE: Final = "logging."


class LogSettings:
    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def handlers(self) -> dict[str, Handler]:
        return {"get_log_settings": self.read, "update_log_level": self.write_level}

    async def read(self, call: Call) -> Outcome:
        """A caller's prefix narrows the namespace and never leaves it."""
        prefix = self._kit.arguments(call)["prefix"]
        reply = await self._kit.backend_for(call).ask(Request("GET", "/settings"))
        if not isinstance(reply.value, dict):
            raise bad_answer("/settings", reply, "an object of settings")
        return self._kit.give(
            call,
            {
                key: _as_text(value)
                for key, value in reply.value.items()
                if key.startswith(_NAMESPACE) and key.startswith(prefix)
            },
        )

    async def write_level(self, call: Call) -> Outcome:
        feature, level = call.arguments["feature"], call.arguments["level"]
        key = f"{_NAMESPACE}{feature}.level"
        written = await self._kit.write(call, "PUT", "/settings", {key: level})
        return self._kit.give(
            call, {"updated": key, "level": level, "result": written.reply.value}, receipt=written.receipt
        )


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value).decode()
