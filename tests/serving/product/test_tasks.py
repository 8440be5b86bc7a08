"""The long tools of the journal as tasks, in the design of 2025-11-25 and in that of 2026-07-28."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.serving.product.conftest import Client, Connect, text_of
from tests.serving.product.everything import CSV, POLICY, STATEMENT, pdf

EXTENSION = "io.modelcontextprotocol/tasks"
LONG = (
    "import_bank_statement",
    "import_broker_csv",
    "import_broker_pdf",
    "run_pipeline",
    "simulate_drawdown",
    "sync_broker",
)
DESIGNS: dict[str, dict[str, Any]] = {"2025-11-25": {}, "2026-07-28": {"extensions": {EXTENSION: {}}}}


async def arguments_of(client: Client, tool: str, place: Path) -> dict[str, Any]:
    """Arguments with which the tool has something to do."""
    account = f"TASK-{client.revision}"
    files = {"import_bank_statement": "bank.csv", "import_broker_csv": "trades.csv", "import_broker_pdf": "trades.pdf"}
    if tool in files:
        (place / "bank.csv").write_text(STATEMENT)
        (place / "trades.csv").write_text(CSV)
        (place / "trades.pdf").write_bytes(pdf())
        return {"file_path": str(place / files[tool]), "account_id": account}
    if tool == "run_pipeline":
        named = {**POLICY, "name": f"task {client.revision} {place.name}"}
        made = await client.call("create_policy", policy_json=named)
        return {"policy_id": made["structuredContent"]["id"], "dry_run": True}
    return {"simulations": 200} if tool == "simulate_drawdown" else {"broker_id": "local_folder"}


async def run_as_task(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call that became a task."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if client.revision == "2025-11-25":
        params["task"] = {"ttl": 60_000}
        task = (await client.request("tools/call", params))["result"]["task"]
        assert task["status"] == "working"
        answer = await client.request("tasks/result", {"taskId": task["taskId"]})
        assert answer["result"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
        return answer["result"]  # type: ignore[no-any-return]
    made = (await client.request("tools/call", params))["result"]
    assert (made["resultType"], made["status"]) == ("task", "working")
    async with asyncio.timeout(30):
        while (task := await seen(client, made["taskId"]))["status"] == "working":
            pass
    assert task["status"] == "completed", task
    return task["result"]  # type: ignore[no-any-return]


async def seen(client: Client, task_id: str) -> dict[str, Any]:
    return (await client.request("tasks/get", {"taskId": task_id}))["result"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("revision", DESIGNS)
async def test_tasks_are_advertised(connect: Connect, revision: str) -> None:
    opened = (await connect(revision=revision)).opened
    able = opened["capabilities"]
    if revision == "2025-11-25":
        assert able["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    else:
        assert able["extensions"] == {EXTENSION: {}}


async def test_exactly_the_long_tools_are_listed_with_task_support(connect: Connect) -> None:
    client = await connect("cline", "--toolsets", "all")
    listed = await client.tools()
    assert {tool["name"] for tool in listed if "execution" in tool} == set(LONG)
    assert all(tool["execution"] == {"taskSupport": "optional"} for tool in listed if "execution" in tool)
    modern = await connect("cline", "--toolsets", "all", revision="2026-07-28")
    assert not any("execution" in tool for tool in await modern.tools())


@pytest.mark.parametrize("revision", DESIGNS)
@pytest.mark.parametrize("tool", LONG)
async def test_a_long_tool_runs_as_a_task(connect: Connect, tmp_path: Path, tool: str, revision: str) -> None:
    options = ("--confirm", "never", "--import-root", str(tmp_path))
    client = await connect("cline", *options, capabilities=DESIGNS[revision], revision=revision)
    result = await run_as_task(client, tool, await arguments_of(client, tool, tmp_path))
    assert not result.get("isError"), text_of(result)
    assert result["structuredContent"]
    assert ("com.zorivest/receipt" in result["_meta"]) == (tool != "simulate_drawdown")


@pytest.mark.parametrize("tool", LONG)
async def test_a_client_without_tasks_is_answered_as_ever(connect: Connect, tmp_path: Path, tool: str) -> None:
    options = ("--confirm", "never", "--import-root", str(tmp_path))
    client = await connect("cline", *options, revision="2026-07-28")
    result = await client.call(tool, **await arguments_of(client, tool, tmp_path))
    assert result["resultType"] == "complete"
    assert not result.get("isError"), text_of(result)


@pytest.mark.parametrize("revision", DESIGNS)
@pytest.mark.parametrize("agrees", [True, False], ids=["agrees", "declines"])
async def test_a_gated_task_asks_before_it_runs(connect: Connect, revision: str, agrees: bool) -> None:
    client = await connect(
        "cline", "--confirm", "always", capabilities={"elicitation": {}, **DESIGNS[revision]}, revision=revision
    )
    params: dict[str, Any] = {"name": "sync_broker", "arguments": {"broker_id": "local_folder"}}
    reply: dict[str, Any] = {"action": "accept", "content": {"confirm": True}} if agrees else {"action": "decline"}
    if revision == "2025-11-25":
        client.answers.append(reply)
        task_id = (await client.request("tools/call", {**params, "task": {}}))["result"]["task"]["taskId"]
        result = (await client.request("tasks/result", {"taskId": task_id}))["result"]
    else:
        task_id = (await client.request("tools/call", params))["result"]["taskId"]
        async with asyncio.timeout(30):
            while (task := await seen(client, task_id))["status"] == "working":
                pass
            (key,) = task["inputRequests"]
            await client.request("tasks/update", {"taskId": task_id, "inputResponses": {key: reply}})
            while (task := await seen(client, task_id))["status"] in ("working", "input_required"):
                pass
        result = task["result"]
    if agrees:
        assert result["structuredContent"]["status"] == "success"
    else:
        assert result["_meta"]["com.zorivest/error"]["code"] == "confirmation_declined"


async def test_a_long_tool_reached_through_call_tool_becomes_a_task_as_well(connect: Connect) -> None:
    client = await connect(capabilities=DESIGNS["2026-07-28"], revision="2026-07-28")
    long = {"name": "simulate_drawdown", "arguments": {"simulations": 200}}
    result = await run_as_task(client, "call_tool", long)
    assert "median_max_drawdown" in result["structuredContent"] or result["structuredContent"]
    short = await client.call("call_tool", name="list_brokers")
    assert short["resultType"] == "complete"


@pytest.mark.parametrize("revision", DESIGNS)
async def test_a_task_that_fails_is_completed_with_the_error(connect: Connect, revision: str) -> None:
    client = await connect(capabilities=DESIGNS[revision], revision=revision)
    result = await run_as_task(client, "run_pipeline", {"policy_id": "none"})
    assert result["isError"] is True
    assert "list_policies" in text_of(result)


@pytest.mark.parametrize("revision", DESIGNS)
async def test_a_cancelled_import_is_cancelled_and_stays_so(connect: Connect, tmp_path: Path, revision: str) -> None:
    rows = [f"2026-03-02 10:{n // 60 % 60:02}:{n % 60:02},BUY,C{n:05},1,{10 + n % 7}.00,0.00" for n in range(12_000)]
    (tmp_path / "many.csv").write_text("Date,Action,Symbol,Quantity,Price,Commission\n" + "\n".join(rows) + "\n")
    client = await connect(
        "cline", "--confirm", "never", "--import-root", str(tmp_path), capabilities=DESIGNS[revision], revision=revision
    )
    arguments = {"file_path": str(tmp_path / "many.csv"), "account_id": f"CANCEL-{revision}"}
    params: dict[str, Any] = {"name": "import_broker_csv", "arguments": arguments}
    if revision == "2025-11-25":
        made = (await client.request("tools/call", {**params, "task": {}}))["result"]["task"]
    else:
        made = (await client.request("tools/call", params))["result"]
    await client.request("tasks/cancel", {"taskId": made["taskId"]})
    assert (await seen(client, made["taskId"]))["status"] == "cancelled"
