"""Who is asked before a gated tool runs: every client of the table, by its tool's hints, transport and `--confirm`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue import gated_tools
from tests.serving.product.conftest import Client, Connect, refusal_of, text_of
from tests.serving.product.http import Conversation, Served, serving
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.serving.catalog.load import load_clients

CALLS: dict[str, dict[str, Any]] = {  # a plain write; destructive; destructive and open to the world
    "create_trade": {
        "exec_id": "gate-1",
        "instrument": "QQQ STK",
        "action": "BOT",
        "quantity": 7,
        "price": 512.5,
        "account_id": "GATE",
    },
    "disconnect_market_provider": {"provider_name": "finnhub", "confirm_destructive": True},
    "sync_broker": {"broker_id": "no-such-broker"},
}
PLAIN_WRITE, DESTRUCTIVE, OPEN_WORLD = CALLS
UNASKED_BY_CODEX = gated_tools("destructiveHint", "openWorldHint")  # it asks its user where one of the two is set

# Written down by hand from what was seen and documented, not derived from the table: the calls that a client asks its
# user for by itself. A family that is not here asks for nothing.
ASKS_ITSELF = {
    "claude-code": {PLAIN_WRITE, DESTRUCTIVE, OPEN_WORLD},
    "claude-desktop": {PLAIN_WRITE, DESTRUCTIVE, OPEN_WORLD},
    "claude-agent-mode": {PLAIN_WRITE, DESTRUCTIVE, OPEN_WORLD},
    "claude-web": {PLAIN_WRITE, DESTRUCTIVE, OPEN_WORLD},
    "chatgpt": {PLAIN_WRITE, DESTRUCTIVE, OPEN_WORLD},
    "codex": {DESTRUCTIVE, OPEN_WORLD},
}
STRANGERS = ("somebody", "", "mcp", "zedd", "my-claude", "claude-ai (via mcp-remote 0.1.37)", "codex (via a-gateway)")


def names(*, every: bool = True) -> Iterator[tuple[str, str]]:
    """Every name of every family, or the first of each, and some that belong to none."""
    for client in load_clients().clients:
        for name in (*client.names, *client.prefixes)[: None if every else 1]:
            yield client.id, name
    yield from (("-", name) for name in STRANGERS)


def is_gated(confirm: str, *, trusted: bool, family: str, tool: str) -> bool:
    if confirm != "auto":
        return confirm == "always"
    return not (trusted and tool in ASKS_ITSELF.get(family, ()))


def wants_token(result: dict[str, Any]) -> bool:
    code = refusal_of(result)["code"] if result.get("isError") else ""
    assert code != "invalid_arguments", result  # or nothing was learnt about the gate
    return code == "confirmation_missing"


def test_the_oracle_knows_a_client_for_every_kind_of_hint() -> None:
    families = {client.id for client in load_clients().clients}
    assert set(ASKS_ITSELF) <= families
    assert {"vscode", "roo-code", "gemini-cli", "opencode", "cline", "cursor"} <= families - set(ASKS_ITSELF)


@pytest.mark.parametrize("confirm", ["auto", "always", "never"])
async def test_over_stdio_a_client_is_gated_by_the_hints_it_does_not_ask_for(connect: Connect, confirm: str) -> None:
    first: Client = await connect("first", "--confirm", confirm)
    seen, expected = {}, {}
    for family, name in names():
        client: Client = await connect(name, beside=first)
        for tool, arguments in CALLS.items():
            seen[name, tool] = wants_token(await client.call(tool, **arguments))
            expected[name, tool] = is_gated(confirm, trusted=True, family=family, tool=tool)
    assert seen == expected
    assert len(seen) > 150


@pytest.mark.parametrize("confirm", ["auto", "always", "never"])
@pytest.mark.parametrize("trusted", [False, True])
async def test_over_http_a_name_counts_only_where_the_operator_trusts_names(
    data_dir: Path, confirm: str, trusted: bool
) -> None:
    options = ["--confirm", confirm, *(["--trust-client-names"] if trusted else [])]
    seen, expected = {}, {}
    async with serving(data_dir, *options) as served:
        for family, name in names(every=False):
            client: Conversation = await served.open(name)
            for tool, arguments in CALLS.items():
                seen[name, tool] = wants_token(await client.call(tool, **arguments))
                expected[name, tool] = is_gated(confirm, trusted=trusted, family=family, tool=tool)
    assert seen == expected


@pytest.mark.parametrize("trusted", [False, True])
async def test_in_the_modern_era_a_request_is_gated_by_the_name_that_it_carries(data_dir: Path, trusted: bool) -> None:
    options = ["--trust-client-names"] if trusted else []
    async with serving(data_dir, *options) as served:

        async def gated(name: str) -> list[bool]:
            return [await _modern_call(served, name, tool) for tool in CALLS]

        assert await gated("claude-code") == [not trusted] * 3
        assert await gated("codex-mcp-client") == [True, not trusted, not trusted]
        assert await gated("Visual Studio Code") == [True] * 3


async def _modern_call(served: Served, name: str, tool: str) -> bool:
    return wants_token(await served.modern("tools/call", {"name": tool, "arguments": CALLS[tool]}, name))


async def test_a_client_with_forms_is_asked_by_form_exactly_where_it_is_gated(connect: Connect) -> None:
    first: Client = await connect("first")
    for family, name in names(every=False):
        client: Client = await connect(name, beside=first, capabilities={"elicitation": {}})
        for tool, arguments in CALLS.items():
            gated = is_gated("auto", trusted=True, family=family, tool=tool)
            client.answers = [{"action": "decline"}] if gated else []
            before = len(client.asked)
            result = await client.call(tool, **arguments)
            assert len(client.asked) - before == gated, (name, tool)
            if gated:
                assert refusal_of(result)["code"] == "confirmation_declined", (name, tool)


async def test_codex_is_asked_by_form_before_it_writes_a_trade(connect: Connect) -> None:
    client: Client = await connect("codex-mcp-client", capabilities={"elicitation": {"form": {}}})
    client.answers = [
        {"action": "decline"},
        {"action": "accept", "content": {"instrument": "QQQ", "quantity": 8}},
        {"action": "accept", "content": {"instrument": "QQQ", "quantity": 7}},
    ]
    arguments = CALLS[PLAIN_WRITE] | {"exec_id": "gate-codex"}

    async def written() -> bool:
        return "gate-codex" in text_of(await client.call("list_trades", limit=200))

    assert refusal_of(await client.call("create_trade", **arguments))["code"] == "confirmation_declined"
    assert refusal_of(await client.call("create_trade", **arguments))["code"] == "confirmation_declined"
    assert not await written()
    assert not (await client.call("create_trade", **arguments)).get("isError")
    assert await written()
    assert [question["method"] for question in client.asked] == ["elicitation/create"] * 3
    assert "QQQ STK" in client.asked[0]["params"]["message"]


@pytest.mark.parametrize("name", ["claude-code", "claude-ai", "openai-mcp", "codex-mcp-client"])
async def test_what_comes_through_call_tool_is_gated_whatever_the_client_asks_for(connect: Connect, name: str) -> None:
    client: Client = await connect(name)
    for tool, arguments in CALLS.items():
        assert wants_token(await client.call("call_tool", name=tool, arguments=arguments)), tool


@pytest.mark.parametrize(
    ("revision", "gated"), [("2024-11-05", True), ("2025-03-26", False), ("2025-06-18", False), ("2026-07-28", False)]
)
async def test_a_hint_that_the_revision_does_not_show_makes_nobody_ask(
    connect: Connect, revision: str, gated: bool
) -> None:
    codex: Client = await connect("codex-mcp-client", revision=revision)
    assert wants_token(await codex.call(OPEN_WORLD, **CALLS[OPEN_WORLD])) is gated
    claude: Client = await connect("claude-code", revision=revision)
    assert not wants_token(await claude.call(OPEN_WORLD, **CALLS[OPEN_WORLD]))  # it asks where a hint is missing


async def test_the_instructions_count_what_is_gated_and_say_how(connect: Connect) -> None:
    async def told(name: str, *options: str, forms: bool = False) -> str:
        client: Client = await connect(name, *options, capabilities={"elicitation": {}} if forms else {})
        return str(client.opened["instructions"])  # type: ignore[attr-defined]

    gated, of_codex = len(gated_tools()), len(UNASKED_BY_CODEX)
    assert f"{gated} tools need a token from get_confirmation_token" in await told("Roo Code")
    form = "the user is asked to confirm with a form."
    assert f"Before {gated} tools {form}" in await told("Visual Studio Code", forms=True)
    assert f"Before {of_codex} tool{'s' * (of_codex > 1)} {form}" in await told("codex", forms=True)
    assert "1 tool needs a token" in await told("Roo Code", "--read-only")
    assert "token from" not in await told("claude-code")
    assert f"{gated} tools need a token" in await told("claude-code", "--confirm", "always")


async def test_the_diagnosis_tells_what_the_client_asks_for_and_what_the_server_does(connect: Connect) -> None:
    client: Client = await connect("codex")
    told = (await client.call("zorivest_diagnose"))["structuredContent"]["client"]
    assert told["asks_for"] == ["destructive", "open_world"]
    assert "create_trade" in told["confirmed_by_server"]
    assert sorted(told["confirmed_by_server"]) == UNASKED_BY_CODEX


async def test_a_person_who_names_a_client_at_the_terminal_is_not_that_client(data_dir: Path) -> None:
    """`tools call --as claude-code` is answered in full, but there is no Claude Code that would ask."""
    command = ["-m", "zorivest_rpc", "tools", "call", "create_trade", "--as", "claude-code", "--json"]
    command += [f"{key}={value}" for key, value in CALLS[PLAIN_WRITE].items()]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        "--data-dir",
        str(data_dir),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate()
    assert child.returncode == 1
    assert b"confirmation_missing" in out
    assert b"--confirm never" in err


def test_trusting_names_is_an_option_of_serve_with_a_variable() -> None:
    assert parse("serve", ["--trust-client-names"], {}).trust_client_names
    assert parse("serve", [], {"ZORIVEST_TRUST_CLIENT_NAMES": "yes"}).trust_client_names
    assert not parse("serve", [], {}).trust_client_names
    for command, trusted in (("stdio", True), ("serve", False)):
        journal = Journal(parse(command, [], {"HOME": "/nonexistent"}))
        assert journal.audience.policy.trusts_names is trusted
