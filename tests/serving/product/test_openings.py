"""What a client is told first, and when it is told that something changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import orjson
import pytest

from tests.catalogue import DEFAULT, count
from tests.golden.record import opening
from tests.serving.product.conftest import Client, Connect, text_of
from tests.serving.product.http import make_key, revoke_key, serving
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.toolsets import members

HANDSHAKES = json.loads((Path(__file__).parents[1] / "modes" / "handshakes.json").read_text())
BEGINNINGS = {
    "claude-code": "Use tool_search to discover tools. Prefer sequential execution. For multi-metric analysis, use "
    "code_execution to batch calls.",
    "cline": "Available categories: ",
    "cursor": f"You have {DEFAULT} tools from core, discovery, trade-analytics, trade-planning categories. Other "
    "categories require server restart with different --toolsets flag.",
}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("name", list(BEGINNINGS))
async def test_the_instructions_begin_as_the_mode_says_and_name_the_categories(
    connect: Connect, name: str, revision: str
) -> None:
    told = (await connect(name, revision=revision)).opened["instructions"]
    assert told.startswith(BEGINNINGS[name])
    for toolset in ("core", "behavioral", "tax"):
        assert toolset in told
    assert "Backend: embedded." in told
    assert "call_tool" in told


@pytest.mark.parametrize(
    "options",
    [(), ("--toolsets", "all"), ("--read-only", "--api-url", "http://x" + "y" * 3000), ("--confirm", "always")],
)
async def test_the_instructions_of_every_family_fit_two_kilobytes(options: tuple[str, ...], tmp_path: Path) -> None:
    journal = Journal(parse("stdio", ["--data-dir", str(tmp_path), *options], {"HOME": str(tmp_path)}))
    for handshake in HANDSHAKES:
        client = MemoryClient(Server(journal.offer))
        told = opening(client, handshake["revision"], handshake.get("clientInfo"), handshake.get("capabilities") or {})
        assert 200 < len(told["instructions"].encode()) <= 2048, handshake["family"]


@pytest.mark.one_journal("the instructions name the one backend and its guard")
async def test_the_instructions_tell_whether_the_guard_is_locked_where_that_is_known(data_dir: Path) -> None:
    key_id, key = make_key(data_dir, "guard-state", "admin")
    header = {"Authorization": f"Bearer {key}"}
    try:
        async with serving(data_dir, "--confirm", "never", auth=True) as served:
            first = await served.open("claude-code", **header)
            assert "The guard is open." in first.opened["instructions"]
            assert not (await first.call("zorivest_emergency_stop", reason="told")).get("isError")
            try:
                second = await served.open("claude-code", **header)
                assert "The guard is LOCKED" in second.opened["instructions"]
            finally:
                await first.call("zorivest_emergency_unlock", confirm="UNLOCK")
            assert "The guard is open." in (await served.open("cursor", **header)).opened["instructions"]
    finally:
        revoke_key(data_dir, key_id)


async def test_nothing_is_announced_to_a_client_that_has_not_said_that_it_is_ready(data_dir: Path) -> None:
    settings = parse("stdio", ["--data-dir", str(data_dir)], {"HOME": str(data_dir), "ZORIVEST_KEYRING": "off"})
    client = Client(Journal(settings), "cline", {}, "2025-11-25")
    try:
        info = {"name": "cline", "version": "1"}
        await client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        assert "enabled" in text_of(await client.call("enable_toolset", toolset_name="tax"))
        await client.request("ping", {})
        assert client.notifications == []
        client.wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        await client.call("enable_toolset", toolset_name="behavioral")
        await client.request("ping", {})
        assert [each["method"] for each in client.notifications] == ["notifications/tools/list_changed"]
    finally:
        await client.close()


async def test_the_notification_follows_the_answer_on_the_wire(connect: Connect) -> None:
    client = await connect("cline")
    client._reader.cancel()
    request = {"name": "enable_toolset", "arguments": {"toolset_name": "tax"}}
    client.wire.send(orjson.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": request}))
    async with asyncio.timeout(10):
        frames = [orjson.loads(await client.wire.receive()) for _ in range(2)]
    assert frames[0]["id"] == 99
    assert frames[1]["method"] == "notifications/tools/list_changed"


async def test_describing_a_toolset_shows_names_texts_and_hints(connect: Connect) -> None:
    client = await connect("cline")
    described = (await client.call("describe_toolset", toolset_name="trade-analytics"))["structuredContent"]
    assert described["loaded"] is True
    assert len(described["tools"]) == count("trade-analytics")
    for toolset in load().toolsets:
        shown = (await client.call("describe_toolset", toolset_name=toolset.name))["structuredContent"]
        assert (shown["name"], shown["description"]) == (toolset.name, toolset.description)
        assert shown["tools"] == [
            {
                "name": spec.name,
                "description": spec.description.minimal,
                "annotations": {
                    "readOnlyHint": spec.annotations.read_only_hint,
                    "destructiveHint": spec.annotations.destructive_hint,
                    "idempotentHint": spec.annotations.idempotent_hint,
                },
            }
            for spec in members(load(), toolset.name)
        ]
    assert (await client.call("describe_toolset", toolset_name="tax"))["structuredContent"]["loaded"] is False
    await client.call("enable_toolset", toolset_name="tax")
    assert (await client.call("describe_toolset", toolset_name="tax"))["structuredContent"]["loaded"] is True
    listed = (await client.call("list_available_toolsets"))["structuredContent"]["toolsets"]
    assert {entry["name"] for entry in listed if entry["loaded"]} == {
        "core",
        "discovery",
        "trade-analytics",
        "trade-planning",
        "tax",
    }


async def test_a_client_that_loads_more_than_it_can_carry_is_warned(connect: Connect) -> None:
    client = await connect("Roo Code")
    for name in ("market-data", "accounts", "scheduling"):
        await client.call("enable_toolset", toolset_name=name)
    warned = (await client.call("enable_toolset", toolset_name="tax"))["structuredContent"]
    assert "works best with at most 60" in warned["warning"]
