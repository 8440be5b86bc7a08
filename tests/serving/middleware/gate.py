"""A confirmation layer with a backend behind it, and the calls that the tests of it make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.serving.middleware.conftest import Clock
from tests.serving.middleware.fake import FakeBackend, Ran, make_call
from zorivest_rpc.errors import BackendError, ConfirmationRequired
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.middleware.confirmation import Confirmation

GATED = {spec.name: spec for spec in load().tools if spec.confirm}
ISSUE = "POST /confirmation-tokens"
TRADE: dict[str, Any] = {
    "exec_id": "T1",
    "instrument": "QQQ STK",
    "action": "SLD",
    "quantity": 25,
    "price": 5,
    "account_id": "A",
}
YES = {"action": "accept", "content": {"instrument": "qqq", "quantity": 25}}
NO_ROUTE = BackendError(404, "Nothing is served there.")


class Gate:
    """A confirmation layer with a backend behind it and a clock beside it."""

    def __init__(self, *, asks: bool = True, answers: Mapping[str, Any] | None = None) -> None:
        self.clock = Clock()
        self.tenant = ""
        self.ran = Ran()
        self.backend = FakeBackend({ISSUE: NO_ROUTE} if answers is None else answers)
        self.layer = Confirmation(GATED, lambda call: asks, tenant=lambda call: self.tenant, clock=self.clock)

    async def token(self, action: str = "create_trade", **options: Any) -> str:
        call = make_call("get_confirmation_token", action=action, params_summary="Sell 25 QQQ", **options)
        token: str = (await self.layer.issue(call, self.backend))["token"]
        return token

    async def run(self, name: str = "create_trade", **arguments: Any) -> Call:
        call = make_call(name, **arguments)
        await self.layer(call, self.ran)
        return call

    async def refusal(self, name: str = "create_trade", **arguments: Any) -> ConfirmationRequired:
        with pytest.raises(ConfirmationRequired) as refused:
            await self.run(name, **arguments)
        assert self.ran.times == 0
        return refused.value
