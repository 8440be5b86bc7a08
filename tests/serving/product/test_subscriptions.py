"""Subscribers of the guard hear of a lock and an unlock, whoever caused it; subscribers of the toolsets of a load."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from tests.serving.product.conftest import Client, Connect
from tests.serving.product.http import serving
from zorivest_rpc.serving.backend.interface import Request

GUARD = "zorivest://guard"
UPDATED = "notifications/resources/updated"
ERAS = ("2024-11-05", "2025-11-25", "2026-07-28")
CAUSES = ("the same session", "another session", "another server", "the terminal")
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


async def subscribe(client: Client, *uris: str) -> None:
    if client.revision == "2026-07-28":
        filter = {"notifications": {"resourceSubscriptions": list(uris)}}
        listening = asyncio.ensure_future(client.request("subscriptions/listen", filter))
        listening.add_done_callback(lambda done: done.cancelled() or done.exception())
        acknowledged = await client.hears("notifications/subscriptions/acknowledged")
        assert acknowledged["notifications"] == {"resourceSubscriptions": list(uris)}
        return
    for uri in uris:
        assert "result" in await client.request("resources/subscribe", {"uri": uri})


async def is_locked(client: Client) -> bool:
    contents = (await client.request("resources/read", {"uri": GUARD}))["result"]["contents"]
    return json.loads(contents[0]["text"])["locked"]  # type: ignore[no-any-return]


async def hears_of_the_guard(client: Client) -> None:
    params = await client.hears(UPDATED)
    assert params["uri"] == GUARD
    assert (SUBSCRIPTION in params.get("_meta", {})) == (client.revision == "2026-07-28")


@pytest.fixture
async def open_guard(connect: Connect) -> AsyncIterator[Client]:
    """A client of its own server, with which the guard is opened again whatever happened."""
    client: Client = await connect("cline", "--confirm", "never")
    yield client
    await client.call("zorivest_emergency_unlock", confirm="UNLOCK")


def at_the_terminal(data_dir: Path, tool: str, *arguments: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    environ = {**kept, "HOME": str(data_dir), "ZORIVEST_KEYRING": "off", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "zorivest_rpc", "tools", "call", tool, *arguments]
    options = ["--data-dir", str(data_dir), "--confirm", "never"]
    subprocess.run([*command, *options], env=environ, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("cause", CAUSES)
async def test_a_lock_and_an_unlock_are_heard(
    connect: Connect, open_guard: Client, data_dir: Path, revision: str, cause: str
) -> None:
    client = await connect("cline", "--confirm", "never", revision=revision)
    await subscribe(client, GUARD)
    assert await is_locked(client) is False
    other = {"the same session": client, "another server": open_guard}.get(cause)
    if cause == "another session":
        other = await connect(beside=client)
    for tool, word, locked in (("stop", "reason=test", True), ("unlock", "confirm=UNLOCK", False)):
        name, (key, _, value) = f"zorivest_emergency_{tool}", word.partition("=")
        if other is None:
            await asyncio.to_thread(at_the_terminal, data_dir, name, word)
        else:
            assert not (await other.call(name, **{key: value})).get("isError")
        await hears_of_the_guard(client)
        assert await is_locked(client) is locked
    assert not [each for each in client.notifications if each["method"] == UPDATED], "once each, and no more"


async def test_the_rate_breaker_is_heard(connect: Connect, open_guard: Client) -> None:
    client = await connect(revision="2026-07-28")
    await subscribe(client, GUARD)
    assert await is_locked(client) is False  # what it was shown is what the next state differs from
    backend = open_guard.journal.backends().of("")
    await backend.ask(Request("PUT", "/mcp-guard/config", body={"is_enabled": True, "calls_per_minute_limit": 1}))
    try:
        await hears_of_the_guard(client)  # the switch and the limits are part of what it shows
        while not (await open_guard.call("get_settings")).get("isError"):
            pass
        await hears_of_the_guard(client)
        assert await is_locked(client) is True
    finally:
        calm = {"is_enabled": False, "calls_per_minute_limit": 60}
        await backend.ask(Request("PUT", "/mcp-guard/config", body=calm))


async def test_calls_that_are_only_counted_are_no_news(connect: Connect, open_guard: Client) -> None:
    client = await connect()
    await subscribe(client, GUARD)
    for _ in range(3):
        await open_guard.call("list_brokers")
    await open_guard.call("zorivest_emergency_stop", reason="after")
    await hears_of_the_guard(client)
    assert not [each for each in client.notifications if each["method"] == UPDATED]


async def test_who_unsubscribed_hears_nothing_more(connect: Connect, open_guard: Client) -> None:
    client, other = await connect(), await connect()
    await subscribe(client, GUARD)
    await subscribe(other, GUARD)
    await client.request("resources/unsubscribe", {"uri": GUARD})
    await open_guard.call("zorivest_emergency_stop", reason="gone")
    await hears_of_the_guard(other)
    await client.request("ping", {})
    assert not [each for each in client.notifications if each["method"] == UPDATED]


async def test_loading_a_toolset_is_heard_by_the_session_that_loaded_it(connect: Connect) -> None:
    client = await connect("cline")
    other = await connect("cline", beside=client)
    uris = ("zorivest://toolsets", "zorivest://toolsets/tax")
    for each in (client, other):
        await subscribe(each, *uris)
    await client.call("enable_toolset", toolset_name="tax")
    assert {(await client.hears(UPDATED))["uri"], (await client.hears(UPDATED))["uri"]} == set(uris)
    await other.request("ping", {})
    assert other.notifications == []


async def test_a_client_whose_stream_was_closed_is_told_when_it_opens(
    data_dir: Path, tmp_path: Path, open_guard: Client
) -> None:
    async with serving(data_dir, "--confirm", "never", state=tmp_path) as served:
        session = await served.open()
        await session.request("resources/subscribe", {"uri": GUARD})
        listening = await served.open()
        await listening.request("resources/subscribe", {"uri": GUARD})
        async with standing(served, listening) as heard:
            await open_guard.call("zorivest_emergency_stop", reason="away")
            assert await heard() == {"uri": GUARD}
        async with standing(served, session) as heard:
            assert await heard() == {"uri": GUARD}


async def test_a_subscription_outlives_the_server(data_dir: Path, tmp_path: Path, open_guard: Client) -> None:
    async with serving(data_dir, state=tmp_path) as served:
        session = await served.open()
        await session.request("resources/subscribe", {"uri": GUARD})
    async with serving(data_dir, state=tmp_path) as served, standing(served, session.on(served)) as heard:
        await open_guard.call("zorivest_emergency_stop", reason="restarted")
        assert await heard() == {"uri": GUARD}


def standing(served: Any, session: Any) -> Any:
    """The standing stream of a session; `await heard()` is the next update on it."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        headers = {name.replace("_", "-"): value for name, value in session.headers.items()}
        headers |= {"Accept": "text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        async with served.http.get(served.url + "/mcp", headers=headers) as answer:
            assert answer.status == 200, await answer.text()

            async def heard() -> Any:
                async with asyncio.timeout(30):
                    async for line in answer.content:
                        if line.startswith(b"data:") and line[5:].strip():
                            message: Any = json.loads(line[5:])
                            if message.get("method") == UPDATED:
                                return message["params"]
                return None

            yield heard

    return opened()
