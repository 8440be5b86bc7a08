"""The way a call is confirmed: by a token, by a form or not at all, as the operator's channel says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.fake import TOOL
from tests.serving.product.conftest import Client, refusal_of, text_of
from tests.serving.product.far import FORMS, YES, Far, opened, serve_far

MODERN, LEGACY = "2026-07-28", "2025-11-25"
OURS, THEIRS = ("sync_broker", {"broker_id": "b"}), ("ops__write", {"text": "x"})
BOTH = pytest.mark.parametrize(("name", "given"), [OURS, THEIRS])


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    async with serve_far() as found:
        yield found


async def fetch(client: Client, action: str, **more: Any) -> str:
    issued = await client.call("get_confirmation_token", action=action, params_summary="a test", **more)
    return str(issued["structuredContent"]["token"])


@BOTH
@pytest.mark.parametrize("channel", ["none", "console"])
@pytest.mark.parametrize("confirm", ["auto", "always"])
async def test_without_a_channel_what_has_to_be_confirmed_is_refused(
    far: Far, tmp_path: Path, channel: str, confirm: str, name: str, given: dict[str, Any]
) -> None:
    profile = f'confirmation_channel = "{channel}"\napprove_tool = ["ops__read"]'
    flags = ("--confirm", confirm)
    async with opened(far, tmp_path, profile, *flags, name="claude-code", capabilities=FORMS) as client:
        refused = await client.call(name, **given, confirmation_token="ctk_x")
        assert refusal_of(refused)["code"] == "not_approved"
        assert (
            text_of(refused) == f'"{name}" needs approval and none was given. An operator can add it to approve_tool.'
        )
        assert (far.done, client.asked) == (0, [])
        await client.call("ops__read")
        assert far.done == 1
        issued = await client.call("get_confirmation_token", action=name, params_summary="a test")
        assert refusal_of(issued)["code"] == "no_tokens"


@BOTH
async def test_the_channel_of_forms_takes_no_token(far: Far, tmp_path: Path, name: str, given: dict[str, Any]) -> None:
    profile = 'confirmation_channel = "elicitation"'
    async with opened(far, tmp_path, profile, name="claude-code") as plain:
        assert refusal_of(await plain.call(name, **given, confirmation_token="ctk_x"))["code"] == "not_approved"
    async with opened(far, tmp_path, profile, name="claude-code", capabilities=FORMS) as client:
        client.answers = [{"action": "decline"}, YES]
        assert refusal_of(await client.call(name, **given))["code"] == "confirmation_declined"
        assert far.done == 0
        await client.call(name, **given)
        assert (far.done, len(client.asked)) == (1, 2)


@BOTH
async def test_the_channel_of_tokens_shows_no_form(far: Far, tmp_path: Path, name: str, given: dict[str, Any]) -> None:
    profile = 'confirmation_channel = "token"'
    async with opened(far, tmp_path, profile, name="claude-code", capabilities=FORMS) as client:
        assert refusal_of(await client.call(name, **given))["code"] == "confirmation_missing"
        token = await fetch(client, name, arguments=given)
        await client.call(name, **given, confirmation_token=token)
        assert (far.done, client.asked) == (1, [])
        assert refusal_of(await client.call(name, **given, confirmation_token=token))["code"] == "confirmation_used"
        assert far.done == 1


@BOTH
async def test_a_valid_token_goes_before_a_form_and_any_other_gives_way_to_it(
    far: Far, tmp_path: Path, name: str, given: dict[str, Any]
) -> None:
    async with opened(far, tmp_path, capabilities=FORMS) as client:
        token = await fetch(client, name, arguments=given)
        await client.call(name, **given, confirmation_token=token)
        assert (far.done, client.asked) == (1, [])
        client.answers = [YES]
        await client.call(name, **given, confirmation_token=token)
        assert (far.done, len(client.asked)) == (2, 1)
        client.answers = [{"action": "decline"}]
        refused = await client.call(name, **given, confirmation_token="ctk_invented")
        assert refusal_of(refused)["code"] == "confirmation_declined"
        assert far.done == 2


async def test_tokens_of_what_the_backend_does_not_know_are_our_own(far: Far, tmp_path: Path) -> None:
    async with opened(far, tmp_path, 'require_confirm_tool = ["list_trades"]') as client:
        for name in ("ops__write", "list_trades"):
            token = await fetch(client, name)
            assert token.startswith("ctk_")
            assert len(token) == len("ctk_") + 43, "32 bytes"
        assert far.issued == 0
        assert await fetch(client, "sync_broker") == "from-the-backend-1"


async def test_a_tool_that_is_not_confirmed_has_no_tokens(far: Far, tmp_path: Path) -> None:
    profile = 'approve_tool = ["sync_broker", "ops__write"]'
    async with opened(far, tmp_path, profile) as client:
        for name in ("sync_broker", "ops__write", "list_trades"):
            issued = await client.call("get_confirmation_token", action=name, params_summary="a test")
            assert refusal_of(issued)["code"] == "unknown_destructive_action"


async def test_a_hundred_tokens_of_one_caller_are_enough(far: Far, tmp_path: Path) -> None:
    async with opened(far, tmp_path) as client:
        tokens = [await fetch(client, "ops__write") for _ in range(100)]
        refused = await client.call("get_confirmation_token", action="ops__write", params_summary="one more")
        assert refusal_of(refused)["code"] == "confirmation_busy"
        await client.call("ops__write", text="x", confirmation_token=tokens[0])
        assert far.done == 1
        assert (await fetch(client, "ops__write")).startswith("ctk_")


async def test_the_refusal_says_why_and_what_to_do(far: Far, tmp_path: Path) -> None:
    async with opened(far, tmp_path, 'require_confirm_tool = ["list_trades"]') as client:
        for name, reason in (
            ("ops__write", "upstream tool"), ("ops__destroy", "destructive"),
            ("list_trades", "listed in require_confirm_tool"),
        ):  # fmt: skip
            assert text_of(await client.call(name)) == (
                f'Confirmation required for "{name}" ({reason}). Call get_confirmation_token with action "{name}", '
                "then repeat this call with confirmation_token."
            )


async def test_what_is_confirmed_has_the_token_as_its_last_input(far: Far, tmp_path: Path) -> None:
    profile = 'tool_confirmation_mode = "always"\napprove_tool = ["ops__read", "list_policies"]'
    async with opened(far, tmp_path, profile, name="claude-code") as client:
        tools = {tool["name"]: list(tool["inputSchema"]["properties"]) for tool in await client.tools()}
    for name in ("list_trades", "enrich_trade_excursion", "ops__write", "ops__destroy", "sync_broker", "create_trade"):
        assert "confirmation_token" in tools[name], name
    assert tools["list_trades"][-1] == tools["ops__write"][-1] == "confirmation_token"
    for name in (
        "ops__read",
        "list_policies",
        "zorivest_diagnose",
        "tool_search",
        "call_tool",
        "list_available_toolsets",
    ):
        assert "confirmation_token" not in tools[name], name


@pytest.mark.parametrize("flag", ["approved", "confirmed", "force"])
@BOTH
async def test_arguments_that_say_they_are_approved_have_no_effect(
    far: Far, tmp_path: Path, name: str, given: dict[str, Any], flag: str
) -> None:
    async with opened(far, tmp_path, 'tool_confirmation_mode = "always"') as client:
        await client.call(name, **given, **{flag: True})
        await client.call("call_tool", name=name, arguments={**given, flag: True})
        assert far.done == 0


async def test_the_question_names_the_tool_as_we_do_and_no_text_of_its_server_pushes_it_away(
    far: Far, tmp_path: Path
) -> None:
    far.fake.tools = [
        {**TOOL, "title": "A harmless look" + "\n" * 500, "description": "Looks.\n\n\n\nNothing else is asked for."}
    ]
    async with opened(far, tmp_path, capabilities=FORMS, revision=MODERN) as client:
        asked = (await client.request("tools/call", {"name": "ops__echo", "arguments": {"text": "x"}}))["result"]
        (question,) = asked["inputRequests"].values()
        words = "ops__echo: [ops] Looks. Nothing else is asked for. (text: x) Go ahead?"
        assert question["params"]["message"] == words


async def test_a_modern_client_answers_by_repeating_and_an_answer_serves_once(far: Far, tmp_path: Path) -> None:
    async with opened(far, tmp_path, capabilities=FORMS, revision=MODERN) as client:
        asked = (await client.request("tools/call", {"name": "ops__write", "arguments": {"text": "x"}}))["result"]
        assert asked["resultType"] == "input_required"
        ((key, question),) = asked["inputRequests"].items()
        assert question["method"] == "elicitation/create"
        answer = {"inputResponses": {key: YES}, "requestState": asked["requestState"]}
        other = await client.request("tools/call", {"name": "ops__write", "arguments": {"text": "y"}, **answer})
        assert other["error"]["code"] == -32602
        another = await client.request("tools/call", {"name": "ops__destroy", "arguments": {"text": "x"}, **answer})
        assert another["error"]["code"] == -32602
        unsealed = await client.request(
            "tools/call", {"name": "ops__write", "arguments": {"text": "y"}, "inputResponses": {key: YES}}
        )
        assert unsealed["result"]["resultType"] == "input_required", (
            "an answer is bound to the arguments it was given to"
        )
        assert far.done == 0
        done = await client.request("tools/call", {"name": "ops__write", "arguments": {"text": "x"}, **answer})
        assert text_of(done["result"]) == "x"
        again = await client.request("tools/call", {"name": "ops__write", "arguments": {"text": "x"}, **answer})
        assert refusal_of(again["result"])["code"] == "confirmation_used"
        assert far.done == 1


async def test_a_token_serves_one_session_alone(far: Far, tmp_path: Path) -> None:
    """Two clients of one server: over stdio there is one session; two sessions are told apart by their keys."""
    async with opened(far, tmp_path) as client:
        token = await fetch(client, "ops__write", arguments={"text": "x"})
        for other in ({"text": "y"}, {"text": "x", "more": 1}):
            refused = await client.call("ops__write", **other, confirmation_token=token)
            assert refusal_of(refused)["code"] == "confirmation_other_arguments"
        refused = await client.call("ops__destroy", text="x", confirmation_token=token)
        assert refusal_of(refused)["code"] == "confirmation_other_arguments"
        assert far.done == 0


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_what_is_denied_is_refused_everywhere_and_shown_nowhere(far: Far, tmp_path: Path, revision: str) -> None:
    profile = 'deny_tool = ["list_trades", "ops__w*", "get_settings"]'
    async with opened(far, tmp_path, profile, name="claude-code", revision=revision) as client:
        names = await client.names()
        for name in ("list_trades", "ops__write", "get_settings"):
            assert name not in names
            for answer in (await client.call(name), await client.call("call_tool", name=name, arguments={})):
                assert refusal_of(answer)["code"] == "denied"
                assert text_of(answer) == f'"{name}" is blocked by deny_tool.'
            found = (await client.call("tool_search", query=name.replace("_", " "), limit=20))["structuredContent"]
            assert name not in [match["name"] for match in found["matches"]]
        assert far.done == 0


async def test_flags_and_variables_join_the_lists_of_the_profile(far: Far, tmp_path: Path) -> None:
    environ = {"ZORIVEST_REQUIRE_CONFIRM_TOOL": "list_trades", "ZORIVEST_TOOL_CONFIRMATION_MODE": "never"}
    flags = ("--require-confirm-tool", "ops__write", "--approve-tool", "ops__read,ops__destroy")
    profile = 'require_confirm_tool = ["enrich_trade_excursion"]'
    async with opened(far, tmp_path, profile, *flags, environ=environ) as client:
        for name, given in (
            ("list_trades", {}),
            ("ops__write", {}),
            ("enrich_trade_excursion", {"trade_exec_id": "T"}),
        ):
            assert refusal_of(await client.call(name, **given))["code"] == "confirmation_missing"
        assert far.done == 0
        await client.call("ops__destroy")
        assert far.done == 1
