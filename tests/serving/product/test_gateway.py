"""A tool of another MCP server runs behind the same guard and the same confirmation as ours, in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.fake import TOOL, Fake, serving
from tests.serving.product.conftest import Client, Connect, refusal_of, text_of

SERVER = """\
[profiles.default]
{profile}

[[profiles.default.mcp_servers]]
name = "ops"
endpoint = "{url}"
"""
MODERN, LEGACY = "2026-07-28", "2025-11-25"
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}


@pytest.fixture
async def fake() -> AsyncIterator[tuple[Fake, str]]:
    upstream = Fake()
    async with serving(upstream.handle) as url:
        yield upstream, url


async def open_to(
    connect: Connect, place: Path, url: str, profile: str = "", *flags: str, name: str = "cline", **options: Any
) -> Client:
    config = place / "config.toml"
    config.write_text(SERVER.format(url=url, profile=profile))
    client: Client = await connect(name, "--config", str(config), *flags, **options)
    gateway = client.journal.gateway()
    assert gateway is not None
    gateway.start()
    await gateway.settle(60)
    return client


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_an_approved_tool_is_listed_and_runs(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str], revision: str
) -> None:
    upstream, url = fake
    client = await open_to(connect, tmp_path, url, 'approve_tool = ["ops__echo"]', revision=revision)
    assert "ops__echo" in await client.names()
    assert text_of(await client.call("ops__echo", text="hello")) == "hello"
    assert text_of(await client.call("call_tool", name="ops__echo", arguments={"text": "again"})) == "again"
    assert [seen.params["arguments"]["text"] for seen in upstream.of("tools/call")] == ["hello", "again"]


@pytest.mark.parametrize("name", ["cline", "claude-code"])
async def test_any_other_tool_is_confirmed_whatever_the_client_is_known_to_ask(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str], name: str
) -> None:
    upstream, url = fake
    client = await open_to(connect, tmp_path, url, name=name)
    refused = await client.call("ops__echo", text="x")
    assert refusal_of(refused)["code"] == "confirmation_missing"
    assert upstream.of("tools/call") == []
    issued = await client.call(
        "get_confirmation_token", action="ops__echo", params_summary="echo x", arguments={"text": "x"}
    )
    token = issued["structuredContent"]["token"]
    wrong = await client.call("ops__echo", text="another", confirmation_token=token)
    assert refusal_of(wrong)["code"] == "confirmation_other_arguments"
    assert text_of(await client.call("ops__echo", text="x", confirmation_token=token)) == "x"
    assert refusal_of(await client.call("ops__echo", text="x", confirmation_token=token))["code"] == "confirmation_used"
    assert len(upstream.of("tools/call")) == 1
    assert upstream.of("tools/call")[0].params["arguments"] == {"text": "x"}


async def test_a_client_that_can_be_asked_is_shown_a_form(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str]
) -> None:
    upstream, url = fake
    client = await open_to(connect, tmp_path, url, capabilities=FORMS)
    client.answers = [{"action": "decline"}, {"action": "accept", "content": {"confirm": True}}]
    assert refusal_of(await client.call("ops__echo", text="x"))["code"] == "confirmation_declined"
    assert text_of(await client.call("ops__echo", text="x")) == "x"
    assert len(upstream.of("tools/call")) == 1


async def test_arguments_that_say_they_are_approved_have_no_effect(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str]
) -> None:
    upstream, url = fake
    client = await open_to(connect, tmp_path, url)
    for name in ("approved", "confirmed", "force"):
        assert refusal_of(await client.call("ops__echo", text="x", **{name: True}))["code"] == "confirmation_missing"
    assert upstream.of("tools/call") == []


async def test_an_argument_that_does_not_fit_is_never_sent(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str]
) -> None:
    upstream, url = fake
    upstream.tools = [{**TOOL, "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
    client = await open_to(connect, tmp_path, url, 'approve_tool = ["ops__echo"]')
    refused = await client.call("ops__echo", n="many")
    assert refused["isError"]
    assert text_of(refused).startswith('Invalid arguments for "ops__echo":')
    assert upstream.of("tools/call") == []


async def test_the_emergency_stop_stops_other_servers_too(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str]
) -> None:
    upstream, url = fake
    client = await open_to(connect, tmp_path, url, 'approve_tool = ["ops__echo"]', "--confirm", "never")
    assert "isError" not in await client.call("zorivest_emergency_stop", reason="a drill")
    try:
        assert refusal_of(await client.call("ops__echo", text="x"))["code"] == "guard_blocked"
    finally:
        await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
    assert upstream.of("tools/call") == []
    assert text_of(await client.call("ops__echo", text="x")) == "x"


async def test_read_only_leaves_out_what_is_not_known_to_read(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str]
) -> None:
    _, url = fake
    client = await open_to(connect, tmp_path, url, "", "--read-only")
    assert "ops__echo" not in await client.names()
    assert refusal_of(await client.call("ops__echo", text="x"))["code"] == "read_only"


async def test_a_client_hears_when_the_tools_of_a_server_come(
    connect: Connect, tmp_path: Path, fake: tuple[Fake, str]
) -> None:
    _, url = fake
    client = await open_to(connect, tmp_path, url)
    await client.hears("notifications/tools/list_changed")


async def test_without_a_configured_server_there_is_no_gateway(connect: Connect, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[profiles.default]\ntool_confirmation_mode = "never"\n')
    client = await connect("cline", "--config", str(config))
    assert client.journal.gateway() is None
