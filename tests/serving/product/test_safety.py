"""What stands between a model and the journal: guard, confirmation, and honest refusals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.docs.examples import stored
from tests.serving.product.conftest import Client, Connect, refusal_of, text_of
from zorivest_rpc.app import Journal
from zorivest_rpc.cli.admin import Admin
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find, stored_key
from zorivest_rpc.serving.catalog.load import load


async def test_a_locked_guard_refuses_every_guarded_tool_and_still_answers_diagnose(connect: Connect) -> None:
    client = await connect("claude-code")
    stopped = await client.call("zorivest_emergency_stop", reason="test")
    assert not stopped.get("isError"), stopped
    try:
        guarded = [spec.name for spec in load().tools if spec.guarded]
        assert guarded
        for name in guarded:
            refused = await client.call(name, **stored()[name]["arguments"])
            assert "MCP guard blocked" in text_of(refused), name
            assert refusal_of(refused)["code"] == "guard_blocked", name
        through = await client.call("call_tool", name="get_settings", arguments={})
        assert "MCP guard blocked" in text_of(through)
        diagnosed = (await client.call("zorivest_diagnose"))["structuredContent"]
        assert diagnosed["guard"]["locked"] is True
        assert not (await client.call("list_available_toolsets")).get("isError")
    finally:
        unlocked = await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
    assert not unlocked.get("isError"), unlocked
    assert not (await client.call("get_settings")).get("isError")


async def test_a_text_sends_nobody_to_a_desktop_application_that_the_embedded_backend_has_not(
    connect: Connect, data_dir: Path, api_url: str
) -> None:
    environ = {"ZORIVEST_API_KEY": stored_key(data_dir, {"ZORIVEST_KEYRING": "off"}) or ""}
    embedded = await connect("claude-code")
    remote = await connect("claude-code", "--api-url", api_url, environ=environ)
    locked = text_of(await embedded.call("zorivest_emergency_stop", reason="test"))
    try:
        for client, named in ((embedded, False), (remote, True)):
            for tool, arguments in (
                ("get_settings", {}),
                ("sync_broker", {"broker_id": "b"}),
            ):  # asked along, and before
                refused = await client.call(tool, **arguments)
                assert "MCP guard blocked" in text_of(refused)
                assert ("GUI → Settings → MCP Guard" in text_of(refused)) is named
                assert "zorivest_emergency_unlock" in text_of(refused)
        assert "desktop app" not in locked
        assert "desktop app" in text_of(await remote.call("zorivest_emergency_stop", reason="test"))
    finally:
        await embedded.call("zorivest_emergency_unlock", confirm="UNLOCK")


async def test_a_gated_client_without_forms_needs_a_token_and_a_token_works_once(connect: Connect) -> None:
    client = await connect("Roo Code")
    refused = await client.call("zorivest_emergency_stop", reason="x")
    assert refusal_of(refused)["code"] == "confirmation_missing"
    assert "get_confirmation_token" in text_of(refused)
    given = (
        await client.call(
            "get_confirmation_token",
            action="zorivest_emergency_stop",
            params_summary="stop",
            arguments={"reason": "other"},
        )
    )["structuredContent"]
    assert given["expires_in_seconds"] == 60
    wrong = await client.call("zorivest_emergency_stop", reason="x", confirmation_token=given["token"])
    assert refusal_of(wrong)["code"] == "confirmation_other_arguments"
    done = await client.call("zorivest_emergency_stop", reason="other", confirmation_token=given["token"])
    assert not done.get("isError"), done
    await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
    used = await client.call("zorivest_emergency_stop", reason="other", confirmation_token=given["token"])
    assert refusal_of(used)["code"] == "confirmation_used"


async def test_a_token_of_one_session_is_nothing_in_another(connect: Connect) -> None:
    one, other = await connect("Roo Code"), await connect("Roo Code")
    arguments = {"action": "zorivest_emergency_stop", "params_summary": "stop"}
    token = (await one.call("get_confirmation_token", **arguments))["structuredContent"]["token"]
    refused = await other.call("zorivest_emergency_stop", reason="x", confirmation_token=token)
    assert refusal_of(refused)["code"] in ("confirmation_other_session", "confirmation_unknown")


@pytest.mark.parametrize("agrees", [True, False])
async def test_a_gated_client_with_forms_is_asked_and_its_answer_counts(connect: Connect, agrees: bool) -> None:
    client = await connect("Cline", capabilities={"elicitation": {}})
    yes = {"action": "accept", "content": {"confirm": True}}
    client.answers = [yes if agrees else {"action": "decline"}]
    result = await client.call("zorivest_emergency_stop", reason="asked")
    assert len(client.asked) == 1
    if agrees:
        assert not result.get("isError"), result
        client.answers = [{"action": "decline"}, yes]
        refused = await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
        assert refusal_of(refused)["code"] == "confirmation_declined"
        assert not (await client.call("zorivest_emergency_unlock", confirm="UNLOCK")).get("isError")
    else:
        assert refusal_of(result)["code"] == "confirmation_declined"


async def test_in_the_modern_era_the_same_question_is_an_input_required_result(connect: Connect) -> None:
    client = await connect("Cline", capabilities={"elicitation": {}}, revision="2026-07-28")
    params = {"name": "zorivest_emergency_stop", "arguments": {"reason": "modern"}}
    first = (await client.request("tools/call", params))["result"]
    assert first["resultType"] == "input_required"
    key = next(iter(first["inputRequests"]))
    answers = {key: {"action": "accept", "content": {"confirm": True}}}
    again = {**params, "inputResponses": answers, "requestState": first["requestState"]}
    second = (await client.request("tools/call", again))["result"]
    assert not second.get("isError"), second
    released = {"name": "zorivest_emergency_unlock", "arguments": {"confirm": "UNLOCK"}}
    asked = (await client.request("tools/call", released))["result"]
    answers = {key: {"action": "accept", "content": {"confirm": True}} for key in asked["inputRequests"]}
    again = {**released, "inputResponses": answers, "requestState": asked["requestState"]}
    assert not (await client.request("tools/call", again))["result"].get("isError")


async def test_a_client_that_enforces_annotations_is_not_asked_twice_but_through_call_tool_it_is(
    connect: Connect,
) -> None:
    client = await connect("claude-code")
    assert not (await client.call("zorivest_emergency_stop", reason="direct")).get("isError")
    await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
    arguments = {"name": "zorivest_emergency_stop", "arguments": {"reason": "through"}}
    assert refusal_of(await client.call("call_tool", **arguments))["code"] == "confirmation_missing"


@pytest.mark.parametrize(("option", "code"), [("always", "confirmation_missing"), ("never", None)])
async def test_the_operator_decides_who_is_asked(connect: Connect, option: str, code: str | None) -> None:
    client = await connect("claude-code" if option == "always" else "Roo Code", "--confirm", option)
    result = await client.call("zorivest_emergency_stop", reason="x")
    if code is None:
        assert not result.get("isError")
        await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
    else:
        assert refusal_of(result)["code"] == code


async def test_a_persons_stop_is_released_by_a_person_alone(connect: Connect, data_dir: Path) -> None:
    """Set as the terminal sets it; a client without forms cannot lift it, and one with forms asks its user."""
    person = Admin(data_dir, environ={"ZORIVEST_KEYRING": "off"})
    person.ask("POST", "/mcp-guard/lock", {"by": "person", "reason": "enough"})
    try:
        plain = await connect("claude-code")
        for name, arguments in (("get_settings", {}), ("create_trade", TRADE), ("zorivest_service_logs", {})):
            blocked = await plain.call(name, **arguments)
            assert refusal_of(blocked)["code"] == "guard_blocked"
            assert "Only a person can unlock it" in text_of(blocked)
            assert "zorivest_emergency_unlock" not in str(blocked)
        refused = await plain.call("zorivest_emergency_unlock", confirm="UNLOCK")
        assert refusal_of(refused)["code"] == "locked_by_person"
        through = await plain.call("call_tool", name="zorivest_emergency_unlock", arguments={"confirm": "UNLOCK"})
        assert refusal_of(through)["code"] == "locked_by_person"
        forms = await connect("Cline", capabilities={"elicitation": {}})
        forms.answers = [
            {"action": "decline"},
            {"action": "accept", "content": {"release": "no"}},
            {"action": "accept", "content": {"release": "UNLOCK"}},
        ]
        for _ in range(2):
            refused = await forms.call("zorivest_emergency_unlock", confirm="UNLOCK")
            assert refusal_of(refused)["code"] == "confirmation_declined"
        assert person.ask("GET", "/mcp-guard/status")["locked_by"] == "person"
        assert not (await forms.call("zorivest_emergency_unlock", confirm="UNLOCK")).get("isError")
        assert person.ask("GET", "/mcp-guard/status")["is_locked"] is False
    finally:
        person.ask("POST", "/mcp-guard/unlock", {"by": "person"})


TRADE = {"exec_id": "G-1", "instrument": "SPY STK", "action": "BOT", "quantity": 2, "price": 5, "account_id": "GUARD"}
TYPED = {"action": "accept", "content": {"instrument": "SPY", "quantity": 2}}


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_gated_call_is_counted_once_whether_it_is_refused_declined_or_confirmed(
    connect: Connect, data_dir: Path, revision: str
) -> None:
    person = Admin(data_dir, environ={"ZORIVEST_KEYRING": "off"})

    def counted() -> int:
        return int(person.ask("GET", "/mcp-guard/status")["call_count"])

    plain = await connect("Roo Code", revision=revision)
    forms = await connect("Cline", capabilities={"elicitation": {}}, revision=revision)
    await plain.call("zorivest_diagnose")
    before = counted()
    for _ in range(8):
        assert refusal_of(await plain.call("create_trade", **TRADE))["code"] == "confirmation_missing"
    assert counted() - before == 8
    before = counted()
    for action, code in (({"action": "decline"}, "confirmation_declined"), (TYPED, None)):
        arguments = {**TRADE, "exec_id": f"G-{revision}"}
        if revision == "2026-07-28":
            params = {"name": "create_trade", "arguments": arguments}
            asked = (await forms.request("tools/call", params))["result"]
            answers = dict.fromkeys(asked["inputRequests"], action)
            params |= {"inputResponses": answers, "requestState": asked["requestState"]}
            result = (await forms.request("tools/call", params))["result"]
        else:
            forms.answers = [action]
            result = await forms.call("create_trade", **arguments)
        assert (refusal_of(result)["code"] if code else result.get("isError")) == code
    assert counted() - before == 2


async def test_a_write_leaves_a_receipt(connect: Connect) -> None:
    client = await connect("claude-code")
    result = await client.call("update_settings", settings={"ui.theme": "dark"})
    receipt = result["_meta"]["com.zorivest/receipt"]
    assert {"changed", "backend", "idempotency_key"} <= receipt.keys()


async def test_with_the_backend_away_a_guarded_call_is_refused_and_diagnose_says_so(connect: Connect) -> None:
    key = {"ZORIVEST_API_KEY": "zrv_sk_" + "x" * 32}
    client = await connect("claude-code", "--api-url", "http://127.0.0.1:9", environ=key)
    assert "MCP guard blocked" in text_of(await client.call("get_settings"))
    diagnosed = (await client.call("zorivest_diagnose"))["structuredContent"]
    assert diagnosed["backend"] == {**diagnosed["backend"], "reachable": False, "status": "unreachable"}
    assert not (await client.call("zorivest_service_logs")).get("isError")


async def test_the_first_call_on_a_fresh_machine_starts_a_backend_and_finds_its_key(tmp_path: Path) -> None:
    settings = parse("stdio", ["--data-dir", str(tmp_path / "fresh")], {"HOME": str(tmp_path)})
    client = Client(Journal(settings), "claude-code", {}, "2025-11-25")
    try:
        await client.open()
        assert not (await client.call("get_log_settings")).get("isError")
    finally:
        await client.close()
        located = find(tmp_path / "fresh")
        assert located is not None
        os.kill(located.pid, signal.SIGTERM)
