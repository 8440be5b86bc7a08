"""Counts follow the limits, a restart loses nothing, brief results are brief, an answer that does not fit is shown."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue import count, toolsets
from tests.serving.product.conftest import Client, Connect, refusal_of, text_of
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.backend.interface import Reply, Request

# --- counts


@pytest.mark.parametrize(
    "options",
    [(), ("--read-only",), ("--exclude-tools", "get_sqn,create_trade"), ("--read-only", "--exclude-tools", "get_sqn")],
)
async def test_every_count_of_a_toolset_is_that_of_its_callable_tools(
    connect: Connect, options: tuple[str, ...]
) -> None:
    client = await connect("cline", "--toolsets", "all", *options)
    listed = [tool for tool in await client.tools() if tool.get("_meta", {}).get("com.zorivest/toolset")]
    told = (await client.call("list_available_toolsets"))["structuredContent"]
    for toolset in told["toolsets"]:
        described = (await client.call("describe_toolset", toolset_name=toolset["name"]))["structuredContent"]
        names = [tool["name"] for tool in described["tools"]]
        assert toolset["tool_count"] == described["tool_count"] == len(names), toolset
        assert set(names) <= {tool["name"] for tool in listed}
        assert not set(names) & {each["name"] for each in described.get("refused", [])}
        assert all(each["reason"] for each in described.get("refused", []))
    assert told["total_tools"] == sum(toolset["tool_count"] for toolset in told["toolsets"])
    twice = "create_trade" in {tool["name"] for tool in listed}
    assert told["total_tools"] == len(listed) + twice
    if "get_sqn,create_trade" in options:
        assert told["total_tools"] == sum(map(count, toolsets())) - 1 - 2, "create_trade counts in two toolsets"


# --- the restart line


@pytest.mark.parametrize(
    ("options", "restart"),
    [
        ((), "trade-analytics,trade-planning,tax"),
        (("--toolsets", "behavioral"), "tax,behavioral"),
        (("--toolsets", "market-data,accounts"), "market-data,accounts,tax"),
        (("--tools", "get_sqn"), "tax"),
    ],
)
async def test_following_the_restart_line_loses_no_tool(
    connect: Connect, options: tuple[str, ...], restart: str
) -> None:
    before = await connect("cursor", *options)
    said = text_of(await before.call("enable_toolset", toolset_name="tax"))
    assert f"Restart the MCP server with --toolsets {restart} to include this category." in said
    kept = options if options[:1] == ("--tools",) else ()
    after = await connect("cursor", *kept, "--toolsets", restart)
    assert set(await before.names()) < set(await after.names())
    assert "find_wash_sales" in await after.names()


# --- brief results


@pytest.fixture(scope="module")
def demo_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("demo")
    yield data
    located = find(data)
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


@pytest.fixture
async def pair(demo_dir: Path) -> AsyncIterator[tuple[Client, Client]]:
    """Two clients of the demo journal: one with room and one with little."""
    clients = []
    for name in ("claude-code", "cursor"):
        settings = parse("stdio", ["--data-dir", str(demo_dir)], {"HOME": str(demo_dir), "ZORIVEST_KEYRING": "off"})
        clients.append(Client(Journal(settings), name, {}, "2025-11-25"))
        await clients[-1].open()
    await clients[0].journal.callers.load_demo()
    yield clients[0], clients[1]
    for client in clients:
        await client.close()


NEEDED = ("account_id", "entry_exec_ids", "exit_exec_ids", "lot_id", "ticker", "instrument", "linked_trade_ids", "id")


def needed(value: Any) -> set[tuple[str, str]]:
    """Everything in a result that another call takes as its input."""
    if isinstance(value, list):
        return {found for entry in value for found in needed(entry)}
    if not isinstance(value, dict):
        return set()
    own = {(name, str(one)) for name, got in value.items() if name in NEEDED for one in as_list(got)}
    return own | {found for entry in value.values() for found in needed(entry)}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_round_trips", {}),
        ("get_round_trips", {"status": "open"}),
        ("get_round_trips", {"status": "closed"}),
        ("get_tax_lots", {"account_id": "DEMO-BROKER"}),
        ("get_tax_lots", {"account_id": "DEMO-BROKER", "status": "all"}),
        ("get_tax_lots", {"account_id": "DEMO-IRA"}),
        ("list_policies", {}),
    ],
)
async def test_a_brief_result_is_brief_and_has_all_that_a_next_call_needs(
    pair: tuple[Client, Client], tool: str, arguments: dict[str, Any]
) -> None:
    whole, brief = [await client.call(tool, **arguments) for client in pair]
    assert len(text_of(brief).encode()) <= 0.4 * len(text_of(whole).encode())
    full, less = whole["structuredContent"], brief["structuredContent"]
    keeps = needed(full)
    if tool == "get_round_trips":
        keeps -= {("id", entry["id"]) for entry in full["items"]}  # no tool takes the id of a round trip
        assert [each.get("open_quantity", 0) for each in less["items"]] == [
            each["open_quantity"] for each in full["items"]
        ]
    if tool == "list_policies":
        keeps = {each for each in keeps if each[0] == "id" and len(each[1]) == 36}
        assert [each["policy_json"]["trigger"]["cron_expression"] for each in less["policies"]] == [
            each["policy_json"]["trigger"]["cron_expression"] for each in full["policies"]
        ]
    assert keeps <= needed(less)
    for name, entries in less.items():
        if isinstance(entries, list):
            assert len(entries) == len(full[name])
            pairs = zip(entries, full[name], strict=True)
            assert tool == "list_policies" or all(entry.items() <= other.items() for entry, other in pairs)


# --- errors are measured


@pytest.mark.one_journal("numbers are kept for each client, and sizes count the words that name it")
async def test_results_that_are_errors_are_measured(connect: Connect) -> None:
    client = await connect()
    refused = await client.call("get_report_for_trade", trade_id="none")
    summary = (await client.call("zorivest_diagnose", verbose=True))["structuredContent"]["metrics"]
    numbers = summary["per_tool"]["get_report_for_trade"]
    assert (numbers["call_count"], numbers["error_count"], numbers["error_rate"]) == (1, 1, 1)
    assert numbers["avg_payload_bytes"] == len(text_of(refused).encode())
    assert summary["most_errored_tool"] == "get_report_for_trade"


# --- an answer that does not fit


ODD = {"toolset": "of another kind", "exec_id": 7, "lots": "none", "summary": {"total": 3}}
TRADE = {"instrument": "X", "action": "BOT", "quantity": 1, "price": 1, "account_id": "X"}


@pytest.fixture
def odd_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = HttpBackend.ask

    async def ask(self: HttpBackend, request: Request) -> Any:
        if request.path in ("/tax/lots", "/trades"):
            return Reply(200, ODD, json.dumps(ODD).encode(), "application/json", "r-1")
        return await plain(self, request)

    monkeypatch.setattr(HttpBackend, "ask", ask)


@pytest.mark.usefixtures("odd_answers")
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_an_answer_that_does_not_fit_is_shown_with_what_is_wrong(connect: Connect, revision: str) -> None:
    client = await connect("claude-code", "--confirm", "never", revision=revision)
    read = await client.call("get_tax_lots", account_id="X")
    assert refusal_of(read)["code"] == "bad_result"
    assert "structuredContent" not in read
    assert "lots" in read["content"][0]["text"]
    assert json.loads(read["content"][1]["text"]) == ODD
    assert "was done" not in text_of(read)
    written = await client.call("create_trade", exec_id="ODD", **TRADE)
    assert refusal_of(written)["code"] == "bad_result"
    assert "The call itself was done" in text_of(written)
    assert written["_meta"]["com.zorivest/receipt"]
    assert json.loads(written["content"][1]["text"]) == ODD


@pytest.mark.one_journal("numbers are kept for each client, and sizes count the words that name it")
@pytest.mark.usefixtures("odd_answers")
async def test_an_answer_that_does_not_fit_is_measured_as_it_is_shown(connect: Connect) -> None:
    client = await connect("claude-code", "--confirm", "never")
    written = await client.call("create_trade", exec_id="ODD", **TRADE)
    numbers = client.journal.pipeline().metrics.summary(True)["per_tool"]["create_trade"]
    assert (numbers["error_count"], numbers["avg_payload_bytes"]) == (
        1,
        sum(len(block["text"].encode()) for block in written["content"]),
    )
