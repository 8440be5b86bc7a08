"""Tokens that this server issues itself: how many one caller may have outstanding, and what counts as that."""

from __future__ import annotations

import msgspec
import pytest

from tests.serving.middleware.conftest import Clock
from tests.serving.middleware.fake import FakeBackend, Ran, make_call
from tests.serving.middleware.gate import GATED
from zorivest_rpc.errors import ConfirmationRequired
from zorivest_rpc.serving.catalog.spec import Ruling
from zorivest_rpc.serving.middleware.confirmation import TOKEN_SECONDS, Confirmation

NAME = "sync_broker"
RULED = msgspec.structs.replace(GATED[NAME], ruling=Ruling("confirm", "upstream tool", mints=True))


class Mint:
    def __init__(self) -> None:
        self.clock = Clock()
        self.backend = FakeBackend()
        self.layer = Confirmation({NAME: RULED}, lambda call: True, clock=self.clock)

    async def issue(self, principal: str = "a") -> str:
        call = make_call("get_confirmation_token", action=NAME, params_summary="s")
        call.session.principal = principal
        return str((await self.layer.issue(call, self.backend))["token"])

    async def spend(self, token: str, principal: str = "a") -> None:
        call = make_call(NAME, broker_id="b", confirmation_token=token)
        call.session.principal = principal
        await self.layer(call, Ran())


async def test_a_hundred_are_outstanding_at_most_and_the_backend_is_not_asked() -> None:
    mint = Mint()
    tokens = {await mint.issue() for _ in range(100)}
    assert len(tokens) == 100
    with pytest.raises(ConfirmationRequired) as refused:
        await mint.issue()
    assert refused.value.code == "confirmation_busy"
    assert mint.backend.asked == []


async def test_those_of_another_caller_do_not_count() -> None:
    mint = Mint()
    for _ in range(100):
        await mint.issue("b")
    await mint.issue("a")


async def test_one_that_was_used_makes_room_for_one() -> None:
    mint = Mint()
    tokens = [await mint.issue() for _ in range(100)]
    await mint.spend(tokens[50])
    await mint.issue()
    with pytest.raises(ConfirmationRequired):
        await mint.issue()


async def test_those_that_are_too_old_make_room() -> None:
    mint = Mint()
    for _ in range(60):
        await mint.issue()
    mint.clock.now += TOKEN_SECONDS - 1
    for _ in range(40):
        await mint.issue()
    with pytest.raises(ConfirmationRequired):
        await mint.issue()
    mint.clock.now += 1
    for _ in range(60):
        await mint.issue()
    with pytest.raises(ConfirmationRequired):
        await mint.issue()


async def test_a_question_to_the_user_is_no_token() -> None:
    mint = Mint()
    for _ in range(100):
        call = make_call(NAME, elicits=True, broker_id="b")
        call.session.principal = "a"
        with pytest.raises(Exception, match="confirm-"):
            await mint.layer(call, Ran())
    await mint.issue()
