"""A locked guard lets nothing through, whatever is under way when it is locked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.serving.product.conftest import Connect, text_of


def trade(number: int, run: str) -> dict[str, Any]:
    return {
        "exec_id": f"RACE-{run}-{number}",
        "instrument": "QQQ STK",
        "action": "BOT",
        "quantity": number + 1,
        "price": 100 + number / 8,
        "account_id": f"RACE-{run}",
    }


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_once_the_stop_is_answered_no_write_is_done_and_what_was_refused_was_not_done(
    connect: Connect, revision: str
) -> None:
    client = await connect("claude-code", "--confirm", "never", revision=revision)
    run = revision[:4]
    await client.call("get_settings")  # the connection is there, so that the calls really overlap
    under_way = [asyncio.ensure_future(client.call("create_trade", **trade(number, run))) for number in range(20)]
    stopped = await client.call("zorivest_emergency_stop", reason="race")
    assert not stopped.get("isError"), stopped
    try:
        late = await asyncio.gather(*(client.call("create_trade", **trade(number, run)) for number in range(20, 40)))
        early = await asyncio.gather(*under_way)
        assert all("MCP guard blocked" in text_of(result) for result in late)
    finally:
        await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
    done = {result["structuredContent"]["exec_id"] for result in (*early, *late) if not result.get("isError")}
    refused = [result for result in early if result.get("isError")]
    assert all("MCP guard blocked" in text_of(result) for result in refused), refused
    listed = (await client.call("list_trades", limit=500))["structuredContent"]["items"]
    assert {each["exec_id"] for each in listed if each["account_id"] == f"RACE-{run}"} == done
