"""A tenant's session token is renewed before it ends, and a key that was refused is left alone for a while; and what a
write that came too late may have done is not claimed to be known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.tenants.wall.stage import Backends, backends, config_of, environ_of, stage
from zorivest_rpc.errors import ToolError
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.tenants.config import build
from zorivest_rpc.tenants.context import Contexts
from zorivest_rpc.tenants.sources import read_variable

LIFE = 3600.0  # of a token, as these backends say
TRADES = Request("GET", "/trades")


class Office:
    """The contexts of two tenants, at a time that the test says."""

    def __init__(self, made: Backends) -> None:
        self.now = 1000.0
        self.backends = made
        config = config_of(made.port, ["acme", "sechpos"])
        self.contexts = Contexts(
            build("test", read_variable(json.dumps(config))), environ_of(config), clock=lambda: self.now
        )

    def unlocks(self, id: str) -> int:
        return sum(each.path == "/auth/unlock" for each in self.backends.seen[id])

    async def ask(self, id: str) -> str:
        """The text of the failure, or nothing."""
        try:
            await self.contexts.of(id).backend().ask(TRADES)
        except ToolError as error:
            return error.text
        return ""


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with backends() as made:
        found = Office(made)
        yield found
        await found.contexts.close()


async def test_a_token_is_renewed_at_four_fifths_of_its_life(office: Office) -> None:
    for id in ("acme", "sechpos"):
        assert await office.ask(id) == ""
    office.now += LIFE * 0.8 - 1
    assert await office.ask("acme") == ""
    assert office.unlocks("acme") == 1
    office.now += 1
    assert await asyncio.gather(*(office.ask("acme") for _ in range(20))) == [""] * 20
    assert (office.unlocks("acme"), office.unlocks("sechpos")) == (2, 1), "once for all who ask, for that tenant alone"
    tokens = [each.authorization for each in office.backends.seen["acme"] if each.path == "/trades"]
    assert (len(set(tokens[:2])), len(set(tokens[2:])), tokens[0] == tokens[2]) == (1, 1, False)
    office.now += LIFE * 0.8 - 1
    assert await office.ask("acme") == ""
    assert office.unlocks("acme") == 2, "the new token has a life of its own"


async def test_a_refused_key_is_tried_again_after_one_second_that_doubles_to_thirty(office: Office) -> None:
    office.backends.refused.add("acme")
    for number, pause in enumerate((1, 2, 4, 8, 16, 30, 30), 1):
        told = await office.ask("acme")
        assert told.startswith('Client "acme": Auth failed (401)')
        assert told.endswith("Ask the operator to check the credential of this client on the server.")
        assert "zrv_sk_" not in told, "a backend that repeats the key does not get it into a text"
        assert office.unlocks("acme") == number
        for early in (0.0, pause - 0.01):
            office.now += early
            assert await office.ask("acme") == told
            office.now -= early
        assert office.unlocks("acme") == number, "the backend is not asked before its time"
        assert await office.ask("sechpos") == "", "another tenant waits for nothing"
        office.now += pause
    office.backends.refused.clear()
    assert await office.ask("acme") == ""
    office.backends.refused.add("acme")
    office.contexts.of("acme").backend().inner.lock()
    assert "Auth failed" in await office.ask("acme")
    count = office.unlocks("acme")
    office.now += 1
    await office.ask("acme")
    assert office.unlocks("acme") == count + 1, "after a success it is one second again"


async def test_a_write_without_an_answer_in_time_is_said_to_be_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, Any] = {"acme": {"httpTimeoutMs": 300}}
    async with stage(monkeypatch, tmp_path, ["acme", "sechpos"], **limits) as place:
        client = await place.client()
        write: dict[str, Any] = {"settings": {"ui.theme": "dark"}}
        assert not (await client.call("update_settings", clientId="acme", **write)).get("isError")
        place.backends.late.add("acme")
        before = [each for each in place.backends.seen["acme"] if each.method == "PUT"]
        late = await client.call("update_settings", clientId="acme", **write)
        words = 'Client "acme": the backend gave no answer within 300 ms.'
        assert late["isError"] is True
        assert late["content"][0]["text"].startswith(words + " Whether it was done is unknown")
        assert late["_meta"]["com.zorivest/error"]["code"] == "outcome_unknown"
        assert late["_meta"]["com.zorivest/client"]["id"] == "acme"
        writes = [each for each in place.backends.seen["acme"] if each.method == "PUT"]
        assert len(writes) == len(before) + 1, "it is sent once"
        place.backends.slow["acme"] = 1.0
        read = await client.call("get_settings", clientId="acme")
        assert read["content"][0]["text"].startswith(words)
        assert "unknown" not in read["content"][0]["text"], "of a read there is nothing to know"
        assert not (await client.call("update_settings", clientId="sechpos", **write)).get("isError")
