"""A report is asked for by an assistant, allowed by a person at a terminal, and arrives."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from tests.embedded.asking import ask_raw
from tests.embedded.scheduling.mailbox import Mailbox, serve
from tests.places import ROOT
from tests.serving.product.conftest import Connect, refusal_of, text_of
from zorivest_rpc.embedded.locate import Located, find, find_or_start, stored_key
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import routes

WEEKLY = {
    "name": "Weekly review",
    "metadata": {"description": "What the week brought, as a page and a PDF."},
    "trigger": {"cron_expression": "0 7 * * 1", "timezone": "America/New_York"},
    "steps": [
        {
            "id": "report",
            "type": "store_report",
            "params": {
                "report_name": "Weekly review",
                "spec": {
                    "title": "The week",
                    "sections": [
                        {"type": "metric_card", "title": "Trades", "query": "totals", "value": "n"},
                        {"type": "metric_card", "title": "Realised", "query": "totals", "value": "pnl"},
                        {"type": "chart", "title": "By ticker", "query": "by_ticker", "kind": "bar"},
                        {"type": "data_table", "title": "Closed", "query": "closed"},
                    ],
                },
                "data_queries": [
                    {
                        "name": "totals",
                        "sql": "SELECT count(*) AS n, sum(realized_pnl) AS pnl FROM round_trips "
                        "WHERE status = 'closed'",
                    },
                    {
                        "name": "by_ticker",
                        "sql": "SELECT instrument, sum(realized_pnl) AS pnl FROM round_trips GROUP BY instrument",
                    },
                    {
                        "name": "closed",
                        "sql": "SELECT instrument, closed_at, total_quantity, realized_pnl FROM round_trips "
                        "WHERE status = 'closed' ORDER BY closed_at",
                    },
                ],
            },
        },
        {"id": "page", "type": "render", "params": {"output_format": "both"}},
        {"id": "deliver", "type": "send", "params": {"channel": "local_file"}},
    ],
}
MAILED = {
    "trigger": {"cron_expression": "0 7 * * 1"},
    "steps": [
        {"id": "load", "type": "query", "params": {"queries": [{"name": "one", "sql": "SELECT 1 AS one"}]}},
        {
            "id": "deliver",
            "type": "send",
            "params": {
                "channel": "email",
                "recipients": ["me@example.org"],
                "body_template": "{{ ctx.load.counts.one }}",
            },
        },
    ],
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A journal of this module's own, because what others have in theirs would be in the reports."""
    data = tmp_path_factory.mktemp("scheduled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZORIVEST_KEYRING", "off")
        find_or_start(data)
        yield data
        if located := find(data):
            os.kill(located.pid, signal.SIGTERM)
            psutil.Process(located.pid).wait(30)


@pytest.fixture
def backend(data_dir: Path) -> Callable[..., tuple[int, bytes]]:
    """Ask the backend as the server does: with the session of its admin key."""
    located = find(data_dir)
    assert isinstance(located, Located)

    def ask(method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        signed = {"Authorization": f"Bearer {session}"} if session else {}
        return ask_raw(located, method, path, body, {**signed, **(headers or {})})

    session = ""
    key = stored_key(data_dir, {"ZORIVEST_KEYRING": "off"})
    session = json.loads(ask("POST", "/auth/unlock", {"api_key": key})[1])["session_token"]
    return ask


def approve(data_dir: Path, policy: str) -> str:
    """What the command says to a person who types their consent at a terminal."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    environ |= {"ZORIVEST_KEYRING": "off", "PYTHONPATH": str(ROOT)}
    ours, theirs = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "zorivest_rpc", "approve", policy, "--data-dir", str(data_dir)],
            env=environ,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.write(ours, b"approve\n")
        said, _ = child.communicate(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert child.returncode == 0, said
    return said.decode()


# long: one story, step after step
async def test_a_weekly_report_is_made_approved_run_and_read(connect: Connect, data_dir: Path) -> None:
    client = await connect("claude-code")
    for number, (ticker, bought, sold) in enumerate([("AAPL", 100, 112.5), ("MSFT", 50, 47.25)]):
        for action, price in (("BOT", bought), ("SLD", sold)):
            made = await client.call(
                "create_trade",
                exec_id=f"W{number}-{action}",
                instrument=f"{ticker} STK",
                action=action,
                quantity=10,
                price=price,
                account_id="MAIN",
            )
            assert not made.get("isError"), text_of(made)

    made = await client.call("create_policy", policy_json=WEEKLY)
    policy = made["structuredContent"]
    assert (policy["approved"], policy["next_run"]) == (False, None)
    refused = await client.call("run_pipeline", policy_id=policy["id"])
    assert refused["isError"] is True
    assert f"waits for a person's approval: zorivest-rpc approve {policy['id']}" in text_of(refused)

    preview = (await client.call("preview_report", policy_id=policy["id"]))["structuredContent"]
    assert preview["status"] == "success"
    assert "<h1>The week</h1>" in preview["preview"]
    assert "<svg" in preview["preview"]
    assert list((data_dir / "reports").iterdir()) == []

    said = await asyncio.to_thread(approve, data_dir, "Weekly review")
    assert policy["content_hash"] in said
    (listed,) = (await client.call("list_policies"))["structuredContent"]["policies"]
    assert listed["approved"]
    assert listed["next_run"].endswith(("T11:00:00Z", "T12:00:00Z", "T11:00:00+00:00", "T12:00:00+00:00"))

    done = (await client.call("run_pipeline", policy_id=policy["id"]))["structuredContent"]
    assert (done["status"], done["error"]) == ("success", None)
    (past, _) = (await client.call("get_pipeline_history", policy_id=policy["id"]))["structuredContent"]["items"]
    assert [step["status"] for step in past["steps"]] == ["success"] * 3
    report, render, send = (step["summary"] for step in past["steps"])
    assert (report["version"], report["rows"]) == (1, {"totals": 1, "by_ticker": 2, "closed": 2})
    assert sorted(path.name for path in (data_dir / "reports").iterdir()) == sorted(send["files"])
    assert render["pdf"] in send["files"]
    (page,) = (data_dir / "reports" / name for name in send["files"] if name.endswith(".html"))
    text = page.read_text()
    assert "<b>97.5</b>" in text
    assert "<td>AAPL</td>" in text
    assert text.count("<rect") >= 3

    kept = {  # what was stored is read back by another report, through a tool
        "name": "Kept",
        "trigger": {"cron_expression": "0 0 1 1 *"},
        "steps": [
            {
                "id": "stored",
                "type": "query",
                "params": {
                    "queries": [
                        {
                            "name": "versions",
                            "sql": "SELECT r.name, v.version, json_extract(v.data_json, '$.totals.rows[0][1]') AS pnl "
                            "FROM reports r JOIN report_versions v ON v.report_id = r.id",
                        }
                    ]
                },
            },
            {
                "id": "page",
                "type": "render",
                "params": {"template_source": "{% for v in ctx.stored.results.versions %}{{ v }}{% endfor %}"},
            },
        ],
    }
    made = (await client.call("create_policy", policy_json=kept))["structuredContent"]
    seen = (await client.call("preview_report", policy_id=made["id"]))["structuredContent"]
    assert "&#39;name&#39;: &#39;Weekly review&#39;, &#39;version&#39;: 1, &#39;pnl&#39;: 97.5" in seen["preview"]


async def test_the_schema_that_is_served_is_the_one_that_is_applied(
    connect: Connect, backend: Callable[..., tuple[int, bytes]]
) -> None:
    client = await connect("claude-code")
    for uri, path in (
        ("pipeline://policies/schema", "/scheduling/policies/schema"),
        ("pipeline://step-types", "/scheduling/step-types"),
    ):
        answer = await client.request("resources/read", {"uri": uri})
        (content,) = answer["result"]["contents"]
        assert content["mimeType"] == "application/json"
        assert content["text"].encode() == backend("GET", path)[1]


async def test_no_tool_and_no_request_of_a_tool_approves(
    connect: Connect, data_dir: Path, backend: Callable[..., tuple[int, bytes]]
) -> None:
    tools = [spec for spec in load().tools if spec.rest is not None]
    assert len(tools) > 50
    assert not [spec.name for spec in tools for route in routes(spec) if "approve" in route.path]

    client = await connect("claude-code")
    sneaky = {**WEEKLY, "name": "Sneaky"}
    for extra in ({"approved": True}, {"approved_hash": "0" * 64}, {"approved_by": "me"}):
        assert (await client.call("create_policy", policy_json={**sneaky, **extra})).get("isError") is True
    policy = (await client.call("create_policy", policy_json=sneaky))["structuredContent"]
    path = f"/scheduling/policies/{policy['id']}"
    for name, arguments in (
        ("run_pipeline", {"policy_id": policy["id"]}),
        ("run_pipeline", {"policy_id": f"{policy['id']}/approve?"}),
        ("update_policy_schedule", {"policy_id": f"{policy['id']}/approve", "enabled": True}),
        ("call_tool", {"name": "approve", "arguments": {"policy_id": policy["id"]}}),
        ("get_confirmation_token", {"action": "approve_policy", "params_summary": "please"}),
    ):
        assert (await client.call(name, **arguments)).get("isError") is True, name
    await client.call("update_policy_schedule", policy_id=policy["id"], enabled=True)

    token = (data_dir / "approval.token").read_text().strip()
    for headers in ({}, {"X-Approval-Token": "apt_guess"}, {"X-MCP-Guard": "check", "X-Approval-Token": token}):
        status, answer = backend("POST", f"{path}/approve", {}, headers)
        assert status == 403, answer
        assert token.encode() not in answer
    for method, body in (
        ("PUT", {"policy_json": policy["policy_json"], "approved": True, "approved_hash": policy["content_hash"]}),
        ("GET", None),
    ):
        assert json.loads(backend(method, path, body)[1])["approved"] is False
    assert "waits for a person's approval" in text_of(await client.call("run_pipeline", policy_id=policy["id"]))


async def test_no_tool_reads_the_token_of_an_approval(connect: Connect, data_dir: Path) -> None:
    token = (data_dir / "approval.token").read_text().strip()
    for root in (data_dir, data_dir.parent):
        client = await connect("claude-code", "--import-root", str(root))
        await client.call("list_policies")  # the backend answers: what is refused below is refused by the server
        for tool in ("import_broker_csv", "import_bank_statement", "import_broker_pdf"):
            result = await client.call(tool, file_path=str(data_dir / "approval.token"), account_id="X")
            assert refusal_of(result)["code"] == "file_outside_roots"
            assert token[:16] not in str(result)


@pytest.fixture
async def mailed(
    request: pytest.FixtureRequest, connect: Connect, data_dir: Path, backend: Callable[..., tuple[int, bytes]]
) -> Any:
    """A client, an approved policy that sends a mail, and a mail server that takes its time."""
    client = await connect("claude-code")
    box = Mailbox()
    box.go = asyncio.Event()
    async with serve(box):
        server = {"host": "127.0.0.1", "port": box.port, "security": "none", "from_email": "j@example.org"}
        assert (await asyncio.to_thread(backend, "PUT", "/scheduling/email", server))[0] == 200
        name = f"Mailed for {request.node.name}"
        policy = (await client.call("create_policy", policy_json={**MAILED, "name": name}))["structuredContent"]
        await asyncio.to_thread(approve, data_dir, name)
        yield client, policy["id"], box


class Told(list[dict[str, Any]]):
    """The notifications of a client, and a way to wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self.more = asyncio.Event()

    def append(self, message: dict[str, Any]) -> None:
        super().append(message)
        self.more.set()

    async def first(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while not (found := [message["params"] for message in self if fits(message)]):
                self.more.clear()
                await self.more.wait()
        return found[0]  # type: ignore[no-any-return]


async def test_a_cancelled_call_ends_the_run_it_started(mailed: Any, backend: Callable[..., tuple[int, bytes]]) -> None:
    client, policy_id, box = mailed
    params = {"name": "run_pipeline", "arguments": {"policy_id": policy_id}}
    frame = {"jsonrpc": "2.0", "id": "to be cancelled", "method": "tools/call", "params": params}
    client.wire.send(orjson.dumps(frame))
    async with asyncio.timeout(30):
        await box.arrived.wait()
    cancelled = {"requestId": "to be cancelled", "reason": "changed my mind"}
    frame = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
    client.wire.send(orjson.dumps(frame))

    run: dict[str, Any] = {"status": "running"}
    async with asyncio.timeout(30):
        while run["status"] == "running":
            past = await client.call("get_pipeline_history", policy_id=policy_id, limit=1)
            (run,) = past["structuredContent"]["items"]
    assert (run["status"], [step["status"] for step in run["steps"]]) == ("cancelled", ["success", "cancelled"])
    assert re.match(r"The request that started it was cancelled by \S+\.$", run["error"])
    box.go.set()


async def test_progress_of_a_long_run_reaches_the_client(mailed: Any) -> None:
    client, policy_id, box = mailed
    arguments = {"policy_id": policy_id, "dry_run": False}
    params = {"name": "run_pipeline", "arguments": arguments, "_meta": {"progressToken": "run"}}

    told = client.notifications = Told()
    running = asyncio.create_task(client.request("tools/call", params))
    last = await told.first(lambda one: bool(one["params"].get("progress")))
    assert last == {"progressToken": "run", "progress": 1, "total": 2, "message": 'step "deliver"'}
    box.go.set()
    answer = (await running)["result"]["structuredContent"]
    assert (answer["status"], answer["error"]) == ("success", None)
    assert len(box.messages) == 1
