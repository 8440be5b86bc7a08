"""Only a clear yes lets a guarded call through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.middleware.fake import FakeBackend, Ran, make_call
from zorivest_rpc.call import Call, Outcome, fail, say
from zorivest_rpc.catalog.spec import ToolSpec
from zorivest_rpc.errors import BackendError, BackendUnreachable, GuardLocked, OutcomeUnknown
from zorivest_rpc.middleware.guard import Guard

CHECK = "/mcp-guard/check"
STATUS = "/mcp-guard/status"
DOWN = BackendUnreachable("The backend cannot be reached.")
Specs = Mapping[str, ToolSpec]


def answering(verdict: Any, **options: Any) -> FakeBackend:
    return FakeBackend({f"POST {CHECK}": verdict}, **options)


async def run(backend: FakeBackend, spec: ToolSpec, ran: Ran) -> Outcome:
    return await Guard(lambda call: backend).layer(spec)(make_call(spec.name), ran)


@pytest.mark.parametrize("reason", ["ok", "guard_disabled"])
async def test_a_call_runs_when_the_guard_is_off_or_content(specs: Specs, reason: str) -> None:
    ran, backend = Ran(), answering({"allowed": True, "reason": reason})
    assert (await run(backend, specs["list_trades"], ran)).content == say("ok").content
    assert (ran.times, backend.count(CHECK)) == (1, 1)


@pytest.mark.parametrize("reason", ["manual", "rate_limit_exceeded"])
async def test_a_locked_guard_blocks_the_call(specs: Specs, reason: str) -> None:
    ran = Ran()
    with pytest.raises(GuardLocked) as blocked:
        await run(answering({"allowed": False, "reason": reason}), specs["create_trade"], ran)
    outcome = fail(blocked.value)
    assert outcome.is_error
    assert outcome.content[0]["text"] == (
        f"⛔ MCP guard blocked this call: {reason}. Unlock via GUI → Settings → MCP Guard, or via "
        "zorivest_emergency_unlock tool."
    )
    assert outcome.meta is not None
    assert outcome.meta["com.zorivest/error"]["code"] == "guard_blocked"
    assert ran.times == 0


@pytest.mark.parametrize("verdict", [None, {}, [], "yes", {"allowed": "true"}, {"allowed": 1}, {"allowed": None}])
async def test_an_answer_that_is_no_answer_is_no_permission(specs: Specs, verdict: Any) -> None:
    ran = Ran()
    with pytest.raises(GuardLocked, match="MCP guard blocked") as blocked:
        await run(answering(verdict), specs["list_trades"], ran)
    assert (blocked.value.code, ran.times) == ("guard_unavailable", 0)


@pytest.mark.parametrize("failure", [DOWN, OutcomeUnknown("No answer."), BackendError(500, "It failed.")])
async def test_a_guard_that_cannot_be_asked_fails_closed(specs: Specs, failure: Exception) -> None:
    ran = Ran()
    with pytest.raises(GuardLocked, match="MCP guard blocked this call: the guard could not be asked"):
        await run(answering(failure), specs["list_trades"], ran)
    assert ran.times == 0


async def test_exactly_two_tools_run_while_the_backend_is_away(specs: Specs) -> None:
    allowed = set()
    for spec in specs.values():
        if spec.guarded:
            try:
                await run(answering(DOWN), spec, Ran())
                allowed.add(spec.name)
            except GuardLocked:
                pass
    assert allowed == {"zorivest_service_status", "zorivest_service_logs"}


@pytest.mark.parametrize(
    "verdict", [{"allowed": False, "reason": "manual"}, {}, BackendError(403, "locked"), BackendError(401, "no key")]
)
async def test_even_those_two_do_not_overrule_a_guard_that_answers(specs: Specs, verdict: Any) -> None:
    with pytest.raises(GuardLocked):
        await run(answering(verdict), specs["zorivest_service_status"], Ran())


def test_eight_tools_are_not_given_the_layer(specs: Specs) -> None:
    assert {spec.name for spec in specs.values() if not spec.guarded} == {
        "zorivest_emergency_stop",
        "zorivest_emergency_unlock",
        "zorivest_diagnose",
        "zorivest_launch_gui",
        "list_available_toolsets",
        "describe_toolset",
        "enable_toolset",
        "get_confirmation_token",
    }


# --- the question travels along


async def test_where_the_backend_offers_it_no_request_of_its_own_is_made(specs: Specs) -> None:
    backend, plain, along = FakeBackend(inline=True), Ran(), Ran()
    layer = Guard(lambda call: backend).layer(specs["list_trades"], along)
    await layer(make_call("list_trades"), plain)
    assert (plain.times, along.times, backend.count(CHECK)) == (0, 1, 0)


async def test_where_it_does_not_the_question_is_put_first(specs: Specs) -> None:
    backend, plain, along = FakeBackend(), Ran(), Ran()
    layer = Guard(lambda call: backend).layer(specs["list_trades"], along)
    await layer(make_call("list_trades"), plain)
    assert (plain.times, along.times, backend.count(CHECK)) == (1, 0, 1)


@pytest.mark.parametrize("verdict", [{"allowed": True}, {"allowed": False, "reason": "manual"}])
async def test_an_offer_that_vanishes_on_the_way_does_not_open_a_gap(specs: Specs, verdict: Any) -> None:
    backend = answering(verdict, inline=True)
    backend.inline = False  # what is known here is out of date
    plain = Ran()

    async def along(call: Call) -> Outcome:
        await backend.ask("GET", "/trades", guard=True)
        return say("slipped through")

    layer = Guard(lambda call: backend).layer(specs["list_trades"], along)
    if verdict["allowed"]:
        assert (await layer(make_call("list_trades"), plain)).content == say("ok").content
    else:
        with pytest.raises(GuardLocked):
            await layer(make_call("list_trades"), plain)
    assert (backend.count(CHECK), backend.count("/trades")) == (1, 0)


async def test_a_question_does_not_travel_past_a_confirmation(specs: Specs) -> None:
    backend, confirming, along = FakeBackend(inline=True), Ran(), Ran()
    await Guard(lambda call: backend).layer(specs["create_trade"], along)(make_call("create_trade"), confirming)
    assert (confirming.times, along.times, backend.count(CHECK)) == (1, 0, 1)


# --- the look in front of a confirmation


async def looked(spec: ToolSpec, status: Any, ran: Ran) -> FakeBackend:
    backend = FakeBackend({f"GET {STATUS}": status})
    await Guard(lambda call: backend).look(spec)(make_call(spec.name), ran)
    return backend


@pytest.mark.parametrize("status", [{"is_locked": False}, {}, None, BackendError(404, "No such route.")])
async def test_a_look_lets_pass_what_is_not_locked_and_counts_nothing(specs: Specs, status: Any) -> None:
    ran = Ran()
    backend = await looked(specs["create_trade"], status, ran)
    assert (ran.times, backend.count(CHECK)) == (1, 0)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"is_locked": True, "lock_reason": "manual"}, "blocked this call: manual"),
        ({"is_locked": True, "lock_reason": None}, "blocked this call: locked"),
        (DOWN, "could not be asked"),
        (BackendError(500, "It failed."), "could not be asked"),
    ],
)
async def test_a_look_refuses_what_the_guard_would_refuse(specs: Specs, status: Any, words: str) -> None:
    ran = Ran()
    with pytest.raises(GuardLocked, match=words):
        await looked(specs["create_trade"], status, ran)
    assert ran.times == 0


async def test_every_call_is_asked_for_anew(specs: Specs) -> None:
    verdicts = [{"allowed": True}, {"allowed": False, "reason": "manual"}]
    backend, ran = answering(lambda: verdicts.pop(0)), Ran()
    await run(backend, specs["list_trades"], ran)
    with pytest.raises(GuardLocked):
        await run(backend, specs["list_trades"], ran)
    assert ran.times == 1
