"""A confirmed call whose handler asks something itself: the next round is the same call, and any other is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.middleware.fake import make_call
from tests.serving.middleware.gate import TRADE, YES, Gate
from zorivest_rpc.errors import ConfirmationRequired
from zorivest_rpc.mcp.call import BecomeTask, Call, InputRequired, Outcome, form, say

NAME = form("Which name?", {"name": {"type": "string"}})
JACK = {"name": {"action": "accept", "content": {"name": "Jack"}}}


async def asks_for_a_name(call: Call) -> Outcome:
    return say(call.need("name", NAME)["content"]["name"])


async def run(gate: Gate, answers: dict[str, Any], **arguments: Any) -> Outcome:
    call = make_call("create_trade", **arguments)
    call.answers = answers
    return await gate.layer(call, asks_for_a_name)


async def confirmed(gate: Gate) -> dict[str, Any]:
    """The answers of a call that was confirmed by a form and is now asked for the name."""
    with pytest.raises(InputRequired) as asked:
        await run(gate, {}, elicits=True, **TRADE)
    (key,) = asked.value.asks
    with pytest.raises(InputRequired) as named:
        await run(gate, {key: YES}, elicits=True, **TRADE)
    assert list(named.value.asks) == ["name"]
    return {key: YES}


async def test_a_question_of_the_handler_needs_no_second_confirmation() -> None:
    gate = Gate()
    answers = await confirmed(gate)
    assert (await run(gate, answers | JACK, elicits=True, **TRADE)).content[0]["text"] == "Jack"


async def test_one_round_is_paid_for_and_no_more() -> None:
    gate = Gate()
    answers = await confirmed(gate)
    await run(gate, answers | JACK, elicits=True, **TRADE)
    with pytest.raises(ConfirmationRequired) as refused:
        await run(gate, answers | JACK, elicits=True, **TRADE)
    assert refused.value.code == "confirmation_used"


async def test_the_round_of_one_call_does_not_confirm_another() -> None:
    gate = Gate()
    await confirmed(gate)
    with pytest.raises(InputRequired) as asked:
        await run(gate, JACK, elicits=True, **{**TRADE, "quantity": 26})
    assert "name" not in asked.value.asks, "the user is asked about the other quantity"


async def test_an_unasked_answer_confirms_nothing() -> None:
    with pytest.raises(InputRequired) as asked:
        await run(Gate(), JACK, elicits=True, **TRADE)
    assert "name" not in asked.value.asks


async def test_a_call_that_goes_on_as_a_task_was_confirmed() -> None:
    gate = Gate()
    token = await gate.token()

    async def become(call: Call) -> Outcome:
        if not call.in_task:
            raise BecomeTask
        return say("done")

    with pytest.raises(BecomeTask):
        await gate.layer(make_call("create_trade", **TRADE, confirmation_token=token), become)
    inside = make_call("create_trade", **TRADE, confirmation_token=token)
    inside.in_task = True
    assert (await gate.layer(inside, become)).content[0]["text"] == "done"
    with pytest.raises(ConfirmationRequired):
        await gate.layer(inside, become)
