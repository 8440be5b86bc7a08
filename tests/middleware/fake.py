"""A backend that answers from a table, and calls without a connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from zorivest_rpc.backend.interface import Auth, Form, NotInline, Reply
from zorivest_rpc.call import Call, Handler, Outcome, say
from zorivest_rpc.protocol.capabilities import Capabilities
from zorivest_rpc.protocol.jsonrpc import dumps
from zorivest_rpc.protocol.session import Phase, Session


class Asked(dict[str, Any]):
    """One question, its parts by name."""

    __getattr__ = dict.__getitem__


class FakeBackend:
    """`answers` maps "METHOD /path" to a value, a Reply, an exception, or a function that gives one of them."""

    base_url = "http://backend.test/api/v1"

    def __init__(self, answers: Mapping[str, Any] | None = None, *, inline: bool = False) -> None:
        self.answers: dict[str, Any] = {"POST /mcp-guard/check": {"allowed": True, "reason": "ok"}, **(answers or {})}
        self.inline = self.inline_guard = inline
        self.asked: list[Asked] = []

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = UNSET,
        form: Form | None = None,
        raw: bool = False,
        auth: Auth = "needed",
        guard: bool = False,
        repeatable: bool | None = None,
        timeout: float | None = None,
        key: str | None = None,
    ) -> Reply:
        if guard and not self.inline:
            raise NotInline
        self.asked.append(
            Asked(
                method=method,
                path=path,
                query=query,
                body=body,
                form=form,
                guard=guard,
                repeatable=repeatable,
                timeout=timeout,
                key=key,
            )
        )
        found = self.answers.get(f"{method} {path}", {"ok": True})
        if isinstance(found, Callable):  # type: ignore[arg-type]
            found = found()
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Reply) else Reply(200, found, dumps(found), "application/json", "r-1")

    def count(self, path: str) -> int:
        return sum(asked.path == path for asked in self.asked)


class NoWire:
    progress_token = None
    cancelled = False

    def notify(self, method: str, params: bytes) -> None:
        raise AssertionError(method)

    def hang_up(self) -> None:
        raise AssertionError


def make_call(
    name: str = "test_tool", *, key: str = "", principal: str = "", elicits: bool = False, **arguments: Any
) -> Call:
    capabilities = Capabilities(elicitation_form=elicits)
    session = Session(phase=Phase.READY, key=key, principal=principal, capabilities=capabilities)
    return Call(name, arguments, session, NoWire())


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


def handler(ran: Ran) -> Handler:
    return ran.__call__
