"""A user who can be asked is asked with a form, and an import in the words of its handler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.serving.middleware.fake import make_call
from tests.serving.middleware.gate import GATED, ISSUE, TRADE, YES, Gate
from zorivest_rpc.errors import BackendError, ConfirmationRequired
from zorivest_rpc.mcp.call import Call, InputRequired
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.middleware.confirmation import Confirmation

# --- forms


async def answered(gate: Gate, reply: dict[str, Any], **arguments: Any) -> Call:
    call = make_call("create_trade", elicits=True, **arguments)
    with pytest.raises(InputRequired) as asked:
        await gate.layer(call, gate.ran)
    (key,) = asked.value.asks
    call.answers = {key: reply}
    await gate.layer(call, gate.ran)
    return call


async def test_a_user_who_can_be_asked_is_asked_what_exactly_will_be_done() -> None:
    gate = Gate()
    with pytest.raises(InputRequired) as asked:
        await gate.run(**TRADE, elicits=True)
    (ask,) = asked.value.asks.values()
    assert ask.method == "elicitation/create"
    assert all(words in ask.params["message"] for words in ("Create trade", "quantity: 25", "QQQ STK", "SLD"))
    assert ask.params["requestedSchema"]["properties"] == {
        name: {"type": type, "title": title, "description": f"Type the {name} of this call to confirm it."}
        for name, type, title in (("instrument", "string", "Instrument"), ("quantity", "number", "Quantity"))
    }
    assert "type its instrument and quantity" in ask.params["message"]
    assert gate.ran.times == 0


@pytest.mark.parametrize(("length", "shown"), [(200, "x" * 200), (201, "x" * 199 + "…"), (5_000, "x" * 199 + "…")])
async def test_a_long_argument_is_shown_in_part(length: int, shown: str) -> None:
    with pytest.raises(InputRequired) as asked:
        await Gate().run(**TRADE, notes="x" * length, elicits=True)
    (ask,) = asked.value.asks.values()
    assert f"notes: {shown}) " in ask.params["message"]


async def test_a_yes_lets_the_call_run() -> None:
    gate = Gate()
    await answered(gate, YES, **TRADE)
    assert (gate.ran.times, gate.ran.arguments) == (1, TRADE)


@pytest.mark.parametrize(
    "reply",
    [
        {"action": "accept", "content": {"instrument": "QQQ", "quantity": 250}},
        {"action": "accept", "content": {"instrument": "QQ", "quantity": 25}},
        {"action": "accept", "content": {"instrument": "", "quantity": 25}},
        {"action": "accept", "content": {"quantity": 25}},
        {"action": "accept", "content": {"instrument": "QQQ", "quantity": True}},
        {"action": "accept", "content": {"confirm": True}},
        {"action": "accept"},
        {"action": "decline"},
        {"action": "cancel"},
    ],
)
async def test_anything_else_does_not(reply: dict[str, Any]) -> None:
    gate = Gate()
    with pytest.raises(ConfirmationRequired) as refused:
        await answered(gate, reply, **TRADE)
    assert (refused.value.code, gate.ran.times) == ("confirmation_declined", 0)
    typed = "typed another instrument or quantity than the call has" if "content" in reply else "did not confirm"
    assert f"The user {typed}" in refused.value.text


@pytest.mark.parametrize("typed", ["QQQ STK", "qqq stk", " QQQ ", "qqq  STK"])
async def test_a_symbol_may_be_typed_in_any_case_and_without_its_kind(typed: str) -> None:
    gate = Gate()
    await answered(gate, {"action": "accept", "content": {"instrument": typed, "quantity": 25.0}}, **TRADE)
    assert gate.ran.times == 1


@pytest.mark.parametrize(
    ("content", "runs"), [({"confirm": True}, 1), ({"confirm": False}, 0), ({"confirm": "true"}, 0)]
)
async def test_where_nothing_is_to_be_typed_a_plain_yes_will_do(content: dict[str, Any], runs: int) -> None:
    gate = Gate()
    call = make_call("zorivest_emergency_stop", elicits=True, reason="x")
    with pytest.raises(InputRequired) as asked:
        await gate.layer(call, gate.ran)
    (key,) = asked.value.asks
    assert asked.value.asks[key].params["requestedSchema"]["properties"] == {
        "confirm": {
            "type": "boolean",
            "title": "Yes, do it",
            "description": "Run zorivest_emergency_stop now.",
        }
    }
    call.answers = {key: {"action": "accept", "content": content}}
    if runs:
        await gate.layer(call, gate.ran)
    else:
        with pytest.raises(ConfirmationRequired):
            await gate.layer(call, gate.ran)
    assert gate.ran.times == runs


async def test_a_yes_to_one_call_is_none_to_another() -> None:
    gate = Gate()
    call = await answered(gate, YES, **TRADE)
    other = make_call("create_trade", elicits=True, **{**TRADE, "quantity": 2500})
    other.answers = call.answers
    with pytest.raises(InputRequired):
        await gate.layer(other, gate.ran)
    assert gate.ran.times == 1


async def test_a_yes_is_good_once() -> None:
    gate = Gate()
    call = await answered(gate, YES, **TRADE)
    again = make_call("create_trade", elicits=True, **TRADE)
    again.answers = call.answers
    with pytest.raises(ConfirmationRequired) as refused:
        await gate.layer(again, gate.ran)
    assert (refused.value.code, gate.ran.times) == ("confirmation_used", 1)


@pytest.mark.parametrize("key", ["confirm-invented", "confirm", ""])
async def test_an_answer_to_a_question_that_was_not_asked_is_none(key: str) -> None:
    gate = Gate()
    call = make_call("create_trade", elicits=True, **TRADE)
    call.answers = {key: YES}
    with pytest.raises(InputRequired):
        await gate.layer(call, gate.ran)


async def test_a_yes_in_one_session_is_none_in_another() -> None:
    gate = Gate()
    call = make_call("create_trade", elicits=True, session="s1", **TRADE)
    with pytest.raises(InputRequired) as asked:
        await gate.layer(call, gate.ran)
    other = make_call("create_trade", elicits=True, session="s2", **TRADE)
    other.answers = dict.fromkeys(asked.value.asks, YES)
    with pytest.raises(InputRequired):
        await gate.layer(other, gate.ran)


async def test_the_name_of_a_question_is_no_token() -> None:
    gate = Gate()
    with pytest.raises(InputRequired) as asked:
        await gate.run(**TRADE, elicits=True)
    (key,) = asked.value.asks
    assert (await gate.refusal(**TRADE, confirmation_token=key)).code == "confirmation_unknown"


@pytest.mark.parametrize("name", sorted(GATED))
async def test_a_valid_token_comes_before_the_form(name: str) -> None:
    gate = Gate()
    arguments = TRADE if name == "create_trade" else {"reason": "x"}
    token = await gate.token(name, arguments=arguments)
    call = await gate.run(name, **arguments, elicits=True, confirmation_token=token)
    assert (gate.ran.times, call.arguments) == (1, arguments)


async def spoil(gate: Gate, how: str) -> str:
    """A token for this trade that is no good, in one of the ways there are."""
    match how:
        case "missing":
            return ""
        case "unknown":
            return "ctk_invented"
        case "other_arguments":
            return await gate.token(arguments={**TRADE, "quantity": 26})
        case "other_session":
            return await gate.token(session="another")
    token = await gate.token()
    if how == "used":
        await gate.run(**TRADE, confirmation_token=token)
    else:
        gate.clock.now += 60
    return token


@pytest.mark.parametrize("how", ["missing", "unknown", "expired", "used", "other_arguments", "other_session"])
async def test_a_token_that_is_no_good_opens_nothing_and_leaves_the_form(how: str) -> None:
    gate = Gate()
    token = await spoil(gate, how)
    before = gate.ran.times
    with pytest.raises(InputRequired):
        await gate.run(**TRADE, elicits=True, confirmation_token=token)
    with pytest.raises(ConfirmationRequired) as refused:  # whose user cannot be asked
        await gate.run(**TRADE, confirmation_token=token)
    assert (refused.value.code, gate.ran.times) == (f"confirmation_{how}", before)


# --- calls that turn out to need it


IMPORT = next(spec for spec in load().tools if spec.name == "import_broker_csv")
FILE = {"account_id": "A", "file_sha256": "00ff"}


class ImportGate(Gate):
    """A gate that also confirms imports, whose handler finds out what they would write."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Confirmation({**GATED, IMPORT.name: IMPORT}, lambda call: True, clock=self.clock)

    def require(self, call: Call, bound: Mapping[str, Any] = FILE) -> None:
        self.layer.require(call, IMPORT, bound, "Import 26 trades?")


def make_import(**options: Any) -> Call:
    return make_call(IMPORT.name, account_id="A", file_path="/x.csv", **options)


def test_a_user_who_can_be_asked_confirms_an_import_in_the_words_of_its_handler() -> None:
    gate = ImportGate()
    call = make_import(elicits=True)
    with pytest.raises(InputRequired) as asked:
        gate.require(call)
    ((key, ask),) = asked.value.asks.items()
    assert ask.params["message"] == "Import 26 trades?"
    call.answers = {key: {"action": "accept", "content": {"confirm": True}}}
    with pytest.raises(InputRequired):
        gate.require(call, {**FILE, "file_sha256": "other"})
    gate.require(call)
    with pytest.raises(ConfirmationRequired, match="has been used"):
        gate.require(call)


async def test_any_other_client_is_told_what_to_fetch_a_token_with() -> None:
    gate = ImportGate()
    with pytest.raises(ConfirmationRequired) as refused:
        gate.require(make_import())
    wanted = (
        'get_confirmation_token with action "import_broker_csv" and arguments {"account_id":"A","file_sha256":"00ff"}'
    )
    assert f"call {wanted} and repeat" in refused.value.text
    assert refused.value.next == f"Call {wanted} and repeat the call with its token."
    # where the file lies says nothing about what is in it
    token = await gate.token(IMPORT.name, arguments={**FILE, "file_path": "/elsewhere.csv"})
    with pytest.raises(ConfirmationRequired, match="for other arguments"):
        gate.require(make_import(confirmation_token=token), {**FILE, "file_sha256": "other"})
    gate.require(make_import(confirmation_token=token))


async def test_a_token_for_an_import_is_ours_because_the_backend_knows_only_its_own_five_actions() -> None:
    gate = ImportGate()
    gate.backend.answers[ISSUE] = BackendError(422, "No such action.")
    token = await gate.token(IMPORT.name, arguments=FILE)
    assert re.fullmatch(r"ctk_[\w-]{43}", token)
    assert gate.backend.asked == []
    gate.require(make_import(confirmation_token=token))


@pytest.mark.parametrize("arguments", [None, {}, [], "x", {"account_id": "A"}, {"file_sha256": 7}])
async def test_a_token_for_a_file_needs_its_content(arguments: Any) -> None:
    gate = ImportGate()
    with pytest.raises(ConfirmationRequired, match="Call import_broker_csv and take the arguments") as refused:
        await gate.token(IMPORT.name, **({} if arguments is None else {"arguments": arguments}))
    assert refused.value.code == "confirmation_unbound"
    assert gate.backend.asked == []
