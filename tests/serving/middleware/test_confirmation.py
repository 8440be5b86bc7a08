"""A token stands for one yes to exactly this call: issuing it, spending it, and what it is bound to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.catalog.test_contract import PROMISED
from tests.serving.middleware.fake import Ran, make_call
from tests.serving.middleware.gate import GATED, ISSUE, TRADE, Gate
from zorivest_rpc.errors import BackendError, BackendUnreachable, ToolError
from zorivest_rpc.mcp.call import fail
from zorivest_rpc.serving.catalog.spec import ToolSpec
from zorivest_rpc.serving.middleware.confirmation import digest

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
