"""A backend that answers from a table, and calls without a connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
from msgspec import UNSET, UnsetType

from zorivest_rpc.mcp.call import Call, Outcome, say
from zorivest_rpc.mcp.protocol.capabilities import Capabilities
from zorivest_rpc.mcp.protocol.jsonrpc import Id, dumps
from zorivest_rpc.mcp.protocol.session import Phase, Session
from zorivest_rpc.mcp.protocol.types import Meta
from zorivest_rpc.serving.backend.interface import NotInline, Reply, Request


class FakeBackend:
    """`answers` maps "METHOD /path" to a value, a Reply, an exception, or a function that gives one of them."""

    base_url = "http://backend.test/api/v1"

    def __init__(self, answers: Mapping[str, Any] | None = None, *, inline: bool = False) -> None:
        self.answers: dict[str, Any] = {"POST /mcp-guard/check": {"allowed": True, "reason": "ok"}, **(answers or {})}
        self.inline = self.inline_guard = inline
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Reply:
        if request.guard and not self.inline:
            raise NotInline
        self.asked.append(request)
        found = self.answers.get(f"{request.method} {request.path}", {"ok": True})
        if isinstance(found, Callable):  # type: ignore[arg-type]
            found = found()
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Reply) else Reply(200, found, dumps(found), "application/json", "r-1")

    def count(self, path: str) -> int:
        return sum(asked.path == path for asked in self.asked)


class NoWire:
    progress_token: Id | None = None
    cancelled = False
    meta: Meta | UnsetType = UNSET
    carries_questions = True

    def notify(self, method: str, params: bytes) -> None:
        raise AssertionError(method)

    def hang_up(self) -> None:
        raise AssertionError


class Notes(NoWire):
    """A wire that keeps what the client is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def notify(self, method: str, params: bytes) -> None:
        self.told.append((method, orjson.loads(params)))


def make_call(
    name: str = "test_tool",
    *,
    session: str = "",
    principal: str = "",
    elicits: bool = False,
    wire: NoWire | None = None,
    log_level: str = "info",
    **arguments: Any,
) -> Call:
    capabilities = Capabilities(elicitation_form=elicits)
    made = Session(phase=Phase.READY, key=session, principal=principal, capabilities=capabilities, log_level=log_level)
    return Call(name, arguments, made, wire or NoWire())


class Ran:
    """A handler that counts its calls and keeps the arguments of the last."""

    def __init__(self, outcome: Outcome | Exception | None = None) -> None:
        self.times = 0
        self.arguments: dict[str, Any] = {}
        self._outcome = say("ok") if outcome is None else outcome

    async def __call__(self, call: Call) -> Outcome:
        self.times += 1
        self.arguments = call.arguments
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome
