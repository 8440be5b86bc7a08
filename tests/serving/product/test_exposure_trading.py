"""Trading tools that follow the journal: a fresh one, the first trade, and a backend that is not there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.product.conftest import Client
from zorivest_rpc.app import Journal
from zorivest_rpc.cli.tools import run as run_tools
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find, find_or_start

CHANGED = "notifications/tools/list_changed"
TRADE = {
    "exec_id": "first",
    "instrument": "AAPL",
    "action": "BOT",
    "quantity": 10,
    "price": 100.0,
    "account_id": "A-1",
}
AFTER_ONE_TRADE = {
    *("attach_screenshot", "get_trade_screenshots", "get_screenshot", "create_report", "get_report_for_trade"),
    *("get_round_trips", "enrich_trade_excursion", "score_execution_quality", "get_fee_breakdown"),
    *("estimate_pfof_impact", "get_cost_of_free", "ai_review_trade", "track_mistake", "link_trade_journal"),
}
NEEDS = {
    **dict.fromkeys(AFTER_ONE_TRADE, "trades"),
    "detect_options_strategy": "two trades",
    **dict.fromkeys(("get_expectancy_metrics", "simulate_drawdown", "get_strategy_breakdown", "get_sqn"), "a result"),
    "get_mistake_summary": "mistakes",
    **dict.fromkeys(("simulate_tax_impact", "harvest_losses"), "open lots"),
    **dict.fromkeys(("get_tax_lots", "find_wash_sales", "get_ytd_tax_summary"), "lots"),
    **dict.fromkeys(("estimate_tax", "get_quarterly_estimate", "record_quarterly_tax_payment"), "lots or a profile"),
    **dict.fromkeys(("run_pipeline", "preview_report", "update_policy_schedule", "get_pipeline_history"), "policies"),
}
WITH_ACCOUNTS = {  # tools of the 68 that only read and take an account
    *("get_mistake_summary", "estimate_tax", "find_wash_sales", "get_tax_lots", "get_ytd_tax_summary"),
    *("harvest_losses", "simulate_tax_impact", "estimate_pfof_impact", "get_cost_of_free", "get_fee_breakdown"),
    *("get_expectancy_metrics", "get_round_trips", "get_sqn", "get_strategy_breakdown", "simulate_drawdown"),
}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """A journal of this test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZORIVEST_KEYRING", "off")
        find_or_start(tmp_path)
        yield tmp_path
    located = find(tmp_path)
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


Open = Callable[..., Awaitable[Client]]


@pytest.fixture
async def open_client() -> AsyncIterator[Open]:
    clients: list[Client] = []

    async def opened(data: Path, *options: str, revision: str = "2025-11-25") -> Client:
        environ = {"ZORIVEST_DATA_DIR": str(data), "ZORIVEST_KEYRING": "off", "HOME": str(data)}
        settings = parse("stdio", ["--confirm", "never", *options], environ)
        client = Client(Journal(settings), "cline", {}, revision)
        clients.append(client)
        await client.open()
        return client

    yield opened
    for client in clients:
        await client.close()


async def test_off_lists_the_complete_default_list_and_asks_nothing(open_client: Open, tmp_path: Path) -> None:
    client = await open_client(tmp_path)
    plain = await client.names()
    assert set(NEEDS) & set(plain) > {"get_sqn", "ai_review_trade"}
    assert client.journal.exposure is None
    assert client.journal.following is None
    assert find(tmp_path) is None


async def test_on_follows_the_journal_from_nothing_to_the_first_trade(open_client: Open, fresh: Path) -> None:
    client = await open_client(fresh, "--exposure-trading", "on", "--toolsets", "all")
    everything = await client.names()
    await client.hears(CHANGED)
    small = await client.names()
    assert [name for name in everything if name not in NEEDS] == small, "and in the order of the whole list"
    tools = {tool["name"]: tool for tool in await client.tools()}
    assert tools["list_trades"]["_meta"]["data_counts"] == {"trades": 0}
    assert all("data_counts" not in tool.get("_meta", {}) for name, tool in tools.items() if name != "list_trades")

    result = await client.call("create_trade", **TRADE)
    assert not result.get("isError"), result
    await client.hears(CHANGED)
    larger = set(await client.names())
    assert set(small) | AFTER_ONE_TRADE <= larger
    assert "detect_options_strategy" not in larger
    assert "get_sqn" not in larger

    listing = await client.call("list_available_toolsets")
    analytics = next(each for each in listing["structuredContent"]["toolsets"] if each["name"] == "trade-analytics")
    described = (await client.call("describe_toolset", toolset_name="trade-analytics"))["structuredContent"]["tools"]
    shown = {each["name"]: each["listed"] for each in described}
    assert shown["ai_review_trade"] is True
    assert shown["get_sqn"] is False
    assert analytics["tool_count"] == len(shown)
    assert analytics["listed_now"] == sum(shown.values())
    hidden = await client.call("get_sqn")
    assert not hidden.get("isError"), "hidden is not forbidden"


async def test_the_first_trade_is_told_once(open_client: Open, fresh: Path) -> None:
    client = await open_client(fresh, "--exposure-trading", "on")
    await client.names()
    await client.hears(CHANGED)
    before = await client.names()
    assert not (await client.call("create_trade", **TRADE)).get("isError")
    await client.hears(CHANGED)
    after = await client.names()
    assert set(after) - set(before) == AFTER_ONE_TRADE & set(after)
    assert len(after) > len(before)
    await settled(client)
    assert await client.names() == after, "what the journal itself says adds nothing to these toolsets"
    assert [note["method"] for note in client.notifications if note["method"] == CHANGED] == []


async def test_a_list_that_nothing_changes_is_good_for_five_minutes(open_client: Open, tmp_path: Path) -> None:
    client = await open_client(tmp_path, revision="2026-07-28")
    answer = (await client.request("tools/list", {}))["result"]
    assert (answer["ttlMs"], answer["cacheScope"]) == (300_000, "private")


async def settled(client: Client) -> dict[str, Any]:
    """The list once the journal was looked at."""
    following = client.journal.following
    assert following is not None
    await client.tools()
    async with asyncio.timeout(60):
        await following.look(client.wire.connection.conversation.session)
    return {tool["name"]: tool for tool in await client.tools()}


def accounts_offered(tool: dict[str, Any]) -> list[str] | None:
    return tool["inputSchema"]["properties"].get("account_id", {}).get("enum")  # type: ignore[no-any-return]


async def test_accounts_are_offered_as_values_where_a_tool_only_reads(open_client: Open, fresh: Path) -> None:
    client = await open_client(fresh, "--exposure-trading", "on", "--toolsets", "all")
    for number, account in enumerate(("A-1", "B-2")):
        result = await client.call("create_trade", **{**TRADE, "exec_id": f"t{number}", "account_id": account})
        assert not result.get("isError"), result
    tools = await settled(client)
    offered = {name: values for name, tool in tools.items() if (values := accounts_offered(tool)) is not None}
    assert offered == {name: ["A-1", "B-2"] for name in WITH_ACCOUNTS & tools.keys()}
    assert len(offered) > 5
    new = await client.call("create_trade", **{**TRADE, "exec_id": "t9", "account_id": "C-3"})
    assert not new.get("isError"), new


async def test_modern_lists_follow_too_and_say_for_how_long(open_client: Open, fresh: Path) -> None:
    client = await open_client(fresh, "--exposure-trading", "on", revision="2026-07-28")
    await settled(client)
    answer = (await client.request("tools/list", {}))["result"]
    assert (answer["ttlMs"], answer["cacheScope"]) == (5000, "private")
    assert "ai_review_trade" not in {tool["name"] for tool in answer["tools"]}


async def test_a_backend_that_is_not_there_hides_nothing(open_client: Open, tmp_path: Path) -> None:
    client = await open_client(tmp_path, "--exposure-trading", "on", "--api-url", "http://127.0.0.1:9")
    plain = await open_client(tmp_path, "--api-url", "http://127.0.0.1:9")
    tools = await settled(client)
    assert list(tools) == await plain.names()
    assert not any("data_counts" in tool.get("_meta", {}) and tool["_meta"]["data_counts"] for tool in tools.values())


def test_why_explains_an_absence_from_the_rule(
    fresh: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(fresh))
    given = ["get_sqn", "--exposure-trading", "on", "--as", "cline", "--data-dir", str(fresh)]
    assert run_tools(["why", *given]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "get_sqn is not listed and can be called." in words
    assert "it is listed when backend.round_trips_closed >= 1; backend.round_trips_closed is 0." in words
    assert run_tools(["why", *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exposure"] == {
        "listed": False,
        "when": "backend.round_trips_closed >= 1",
        "unknown": "show",
        "hidden_modes": {},
        "state": {"backend.round_trips_closed": [0]},
    }
    assert run_tools(["list", *given[1:], "--json"]) == 0
    listed = {tool["name"]: tool for tool in json.loads(capsys.readouterr().out)}
    assert "get_sqn" not in listed
    assert listed["list_trades"]["_meta"]["data_counts"] == {"trades": 0}
