"""Somebody said yes, once, to exactly this call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.catalog.test_contract import PROMISED
from tests.serving.middleware.conftest import Clock
from tests.serving.middleware.fake import FakeBackend, Ran, make_call
from zorivest_rpc.errors import BackendError, BackendUnreachable, ConfirmationRequired, ToolError
from zorivest_rpc.mcp.call import Call, InputRequired, fail
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.middleware.confirmation import Confirmation, digest

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


# --- issuing


async def test_a_token_comes_from_the_backend_with_action_and_summary() -> None:
    gate = Gate(answers={ISSUE: {"token": "ctk_test123", "expires_in_seconds": 60}})
    call = make_call(
        "get_confirmation_token",
        action="zorivest_emergency_stop",
        params_summary="Lock all tools due to suspected loop",
    )
    assert await gate.layer.issue(call, gate.backend) == {
        "token": "ctk_test123",
        "action": "zorivest_emergency_stop",
        "params_summary": "Lock all tools due to suspected loop",
        "expires_in_seconds": 60,
        "instruction": "Pass this token as the confirmation_token parameter when calling zorivest_emergency_stop.",
    }
    (asked,) = gate.backend.asked
    # a token more than needed does no harm, so that a broken exchange is repeated
    assert (asked.method, asked.path, asked.repeatable) == ("POST", "/confirmation-tokens", True)
    assert asked.body == {"action": "zorivest_emergency_stop", "params_summary": "Lock all tools due to suspected loop"}
    await gate.run("zorivest_emergency_stop", confirmation_token="ctk_test123")
    assert gate.ran.times == 1


async def test_a_token_for_known_arguments_sends_their_hash_only() -> None:
    gate = Gate(answers={ISSUE: {"token": "ctk_1"}})
    await gate.token(arguments=TRADE)
    assert gate.backend.asked[0].body["params_hash"] == digest(GATED["create_trade"], TRADE)
    assert "QQQ STK" not in str(gate.backend.asked[0].body["params_hash"])


async def test_a_backend_without_the_route_leaves_the_issue_to_us() -> None:
    tokens = {await Gate().token() for _ in range(20)}
    assert len(tokens) == 20
    assert all(token.startswith("ctk_") and len(token) > 20 for token in tokens)


@pytest.mark.parametrize("failure", [BackendError(500, "It failed."), BackendUnreachable("It is away.")])
async def test_any_other_failure_issues_nothing(failure: ToolError) -> None:
    with pytest.raises(type(failure)):
        await Gate(answers={ISSUE: failure}).token()


@pytest.mark.parametrize("answer", [{"token": ""}, {"token": 7}, {"token": None}, {}, [], "ctk_1", None])
async def test_an_answer_without_a_token_is_told_and_issues_nothing(answer: Any) -> None:
    gate = Gate(answers={ISSUE: answer})
    with pytest.raises(BackendError, match="issued no confirmation token") as refused:
        await gate.token()
    assert (refused.value.code, refused.value.status) == ("bad_answer", 200)
    for token in ("", "7", "None", "ctk_1"):
        await gate.refusal(**TRADE, confirmation_token=token)


@pytest.mark.parametrize("action", ["list_trades", "no_such_tool", ""])
async def test_a_tool_that_is_not_gated_gets_no_token(action: str) -> None:
    gate = Gate()
    with pytest.raises(ToolError, match="needs no confirmation token") as refused:
        await gate.token(action)
    assert refused.value.code == "unknown_destructive_action"
    assert gate.backend.asked == []


def test_five_required_tools_are_gated() -> None:
    assert set(GATED) & PROMISED == {
        "zorivest_emergency_stop",
        "create_trade",
        "sync_broker",
        "disconnect_market_provider",
        "zorivest_service_restart",
    }


# --- spending


async def test_a_token_opens_the_gate_and_does_not_go_on() -> None:
    gate = Gate()
    call = await gate.run(**TRADE, confirmation_token=await gate.token(arguments=TRADE))
    assert (gate.ran.times, gate.ran.arguments, call.arguments) == (1, TRADE, TRADE)


async def test_without_a_token_the_next_step_is_named() -> None:
    refused = await Gate().refusal(**TRADE)
    assert refused.code == "confirmation_missing"
    assert 'get_confirmation_token with action "create_trade"' in refused.text
    outcome = fail(refused)
    assert outcome.is_error
    assert outcome.meta is not None
    assert outcome.meta["com.zorivest/error"]["class"] == "confirmation"


async def test_a_token_is_good_for_less_than_a_minute() -> None:
    gate = Gate()
    token = await gate.token()
    gate.clock.now += 59.9
    await gate.run(**TRADE, confirmation_token=token)
    gate = Gate()
    token = await gate.token()
    gate.clock.now += 60
    assert (await gate.refusal(**TRADE, confirmation_token=token)).code == "confirmation_expired"


@pytest.mark.parametrize(("later", "code"), [(599.9, "confirmation_expired"), (600.0, "confirmation_unknown")])
async def test_an_old_token_is_called_expired_for_ten_minutes(later: float, code: str) -> None:
    gate = Gate()
    old = await gate.token()
    gate.clock.now += later
    await gate.token()
    assert (await gate.refusal(**TRADE, confirmation_token=old)).code == code


async def test_a_token_is_good_once() -> None:
    gate = Gate()
    token = await gate.token()
    await gate.run(**TRADE, confirmation_token=token)
    gate.ran.times = 0
    assert (await gate.refusal(**TRADE, confirmation_token=token)).code == "confirmation_used"
    gate.clock.now += 120
    assert (await gate.refusal(**TRADE, confirmation_token=token)).code == "confirmation_used"


async def test_a_call_that_fails_has_spent_its_token() -> None:
    gate = Gate()
    token = await gate.token()
    gate.ran = Ran(BackendError(500, "It failed."))
    with pytest.raises(BackendError):
        await gate.run(**TRADE, confirmation_token=token)
    gate.ran = Ran()
    assert (await gate.refusal(**TRADE, confirmation_token=token)).code == "confirmation_used"


@pytest.mark.parametrize("changed", [{"quantity": 26}, {"action": "BOT"}, {"account_id": "B"}])
async def test_a_token_for_other_arguments_is_refused_and_stays_good(changed: dict[str, Any]) -> None:
    gate = Gate()
    token = await gate.token(arguments=TRADE)
    refused = await gate.refusal(**{**TRADE, **changed}, confirmation_token=token)
    assert refused.code == "confirmation_other_arguments"
    await gate.run(**TRADE, confirmation_token=token)


async def test_a_token_for_another_tool_is_refused() -> None:
    gate = Gate()
    token = await gate.token("sync_broker")
    refused = await gate.refusal(**TRADE, confirmation_token=token)
    assert (refused.code, "sync_broker" in refused.text) == ("confirmation_other_arguments", True)


@pytest.mark.parametrize(
    ("issued", "used"),
    [
        ({"session": "s1"}, {"session": "s2"}),
        ({"principal": "p1"}, {"principal": "p2"}),
        ({"session": "s1", "principal": "p"}, {"session": "s2", "principal": "p"}),
    ],
)
async def test_a_token_of_another_session_is_refused(issued: dict[str, str], used: dict[str, str]) -> None:
    gate = Gate()
    token = await gate.token(**issued)
    assert (await gate.refusal(**TRADE, **used, confirmation_token=token)).code == "confirmation_other_session"
    await gate.run(**TRADE, **issued, confirmation_token=token)


async def test_a_token_of_another_tenant_is_refused() -> None:
    gate = Gate()
    gate.tenant = "acme"
    token = await gate.token()
    gate.tenant = "umbrella"
    assert (await gate.refusal(**TRADE, confirmation_token=token)).code == "confirmation_other_session"


async def test_an_invented_token_is_refused() -> None:
    refused = await Gate().refusal(**TRADE, confirmation_token="ctk_\ud800made up")
    assert refused.code == "confirmation_unknown"


async def test_refusals_can_be_told_apart_and_share_one_shape() -> None:
    gate = Gate()
    spent, old, bound, foreign = [await gate.token() for _ in range(2)] + [
        await gate.token(arguments={}),
        await gate.token(session="elsewhere"),
    ]
    await gate.run(**TRADE, confirmation_token=spent)
    gate.ran.times = 0
    told = [
        await gate.refusal(**TRADE),
        await gate.refusal(**TRADE, confirmation_token=spent),
        await gate.refusal(**TRADE, confirmation_token=bound),
        await gate.refusal(**TRADE, confirmation_token=foreign),
    ]
    gate.clock.now += 61
    told.append(await gate.refusal(**TRADE, confirmation_token=old))
    assert len({refused.code for refused in told}) == len({refused.text for refused in told}) == 5
    assert all(refused.next and "get_confirmation_token" in refused.next for refused in told)


@pytest.mark.parametrize(("others", "runs"), [(9_999, 1), (10_000, 0)])
async def test_of_more_than_ten_thousand_tokens_the_oldest_goes(others: int, runs: int) -> None:
    gate = Gate()
    first = await gate.token()
    bound = gate.layer._tokens[next(iter(gate.layer._tokens))]
    for number in range(others):
        gate.layer._remember(f"t{number}", bound)
    assert len(gate.layer._tokens) == 10_000
    if runs:
        await gate.run(**TRADE, confirmation_token=first)
    else:
        assert (await gate.refusal(**TRADE, confirmation_token=first)).code == "confirmation_unknown"
    assert gate.ran.times == runs


# --- clients that are not asked by us


async def test_a_client_that_asks_its_user_itself_is_not_asked_again() -> None:
    gate = Gate(asks=False)
    await gate.run(**TRADE, elicits=True)
    await gate.run(**TRADE, confirmation_token="anything")
    assert (gate.ran.times, gate.ran.arguments) == (2, TRADE)


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


async def test_a_token_does_not_replace_a_user_who_can_be_asked() -> None:
    gate = Gate()
    token = await gate.token()
    with pytest.raises(InputRequired):
        await gate.run(**TRADE, elicits=True, confirmation_token=token)


# --- canonical arguments

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def spelled_otherwise(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: spelled_otherwise(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [spelled_otherwise(entry) for entry in value]
    return float(value) if type(value) is int and abs(value) < 2**53 else value


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_the_spelling_of_arguments_makes_no_difference(arguments: dict[str, Any]) -> None:
    spec = GATED["create_trade"]
    assert digest(spec, arguments) == digest(spec, spelled_otherwise(arguments))
    assert digest(spec, arguments) == digest(spec, {**arguments, "confirmation_token": "ctk"})


@settings(deadline=None, max_examples=60)
@given(values, values)
def test_different_arguments_have_different_digests(one: Any, other: Any) -> None:
    spec = GATED["create_trade"]
    if repr(one) != repr(other) and one != other:
        assert digest(spec, {"a": one}) != digest(spec, {"a": other})


def test_a_default_given_and_a_default_left_out_are_the_same() -> None:
    spec: ToolSpec = GATED["zorivest_emergency_stop"]
    assert digest(spec, {}) == digest(spec, {"reason": "agent_self_lock"})


def test_a_whole_number_is_one_value_in_both_spellings_while_a_float_holds_it_exactly() -> None:
    def of(quantity: Any) -> str:
        return digest(GATED["create_trade"], {**TRADE, "quantity": quantity})

    assert of(2.0**53 - 1) == of(2**53 - 1)
    assert of(2.0**53) != of(2**53)
    assert of(-(2.0**53)) != of(-(2**53))
    assert of(25.5) != of(25)


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


@pytest.mark.parametrize("arguments", [None, {}, [], "x", {"account_id": "A"}, {"file_sha256": 7}])
async def test_a_token_for_a_file_needs_its_content(arguments: Any) -> None:
    gate = ImportGate()
    with pytest.raises(ConfirmationRequired, match="Call import_broker_csv and take the arguments") as refused:
        await gate.token(IMPORT.name, **({} if arguments is None else {"arguments": arguments}))
    assert refused.value.code == "confirmation_unbound"
    assert gate.backend.asked == []
