"""All 68 tools, one after the other, over stdio against the real backend: on demo data and on an empty journal."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from zorivest_rpc.catalog.load import load
from zorivest_rpc.embedded.locate import find

ACCOUNT = "TOUR-1"
CSV = """Date,Action,Symbol,Quantity,Price,Commission
2026-03-02 10:00:00,BUY,MSFT,10,400.00,1.00
2026-03-05 11:00:00,SELL,MSFT,10,410.00,1.00
"""
STATEMENT = "Date,Description,Amount,Balance\n2026-03-01,Opening,100.00,100.00\n2026-03-02,Coffee,-3.50,96.50\n"


def png() -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([40 * row, 0, 0] * 4) for row in range(4))
    head = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(data).decode()


def pdf() -> bytes:
    """One page of text, small enough to write by hand."""
    text = b"BT /F1 10 Tf 40 700 Td (Date Action Symbol Quantity Price) Tj 0 -14 Td (2026-03-10 BUY AMD 5 100.00) Tj ET"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(text), text),
        b"<</Type/Font/Subtype/Type1/BaseFont/Courier>>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj%b endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    end = b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    return out + end % (len(objects) + 1, table, len(objects) + 1, len(out))


POLICY = {
    "schema_version": 1,
    "name": "tour",
    "trigger": {"cron_expression": "0 8 * * 1", "timezone": "UTC", "enabled": False},
    "steps": [
        {
            "id": "trades",
            "type": "query",
            "params": {"queries": [{"name": "count", "sql": "SELECT count(*) AS n FROM trades"}]},
        }
    ],
}


class Stdio:
    """A client of the installed command that keeps what it was told."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._next = 0
        self.called: dict[str, dict[str, Any]] = {}

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        async with asyncio.timeout(90):
            while True:
                answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
                if answer.get("id") == self._next:
                    return answer

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        answer = await self.request("tools/call", {"name": name, "arguments": arguments})
        assert "result" in answer, (name, answer)
        self.called[name] = answer["result"]
        return answer["result"]  # type: ignore[no-any-return]

    async def works(self, name: str, /, **arguments: Any) -> Any:
        """The structured result of a call that must succeed."""
        result = await self.call(name, **arguments)
        assert not result.get("isError"), (name, result["content"])
        return result.get("structuredContent")

    async def says(self, name: str, /, *words: str, **arguments: Any) -> str:
        """The text of an honest refusal: it is flagged, names one of these, and says what to do next."""
        result = await self.call(name, **arguments)
        text: str = result["content"][0]["text"]
        assert result.get("isError") is True, (name, result)
        assert any(word in text.lower() for word in words), (name, text)
        assert "_meta" in result, (name, result)
        return text


@pytest.fixture
async def stdio(tmp_path: Path) -> AsyncIterator[Stdio]:
    data = tmp_path / "data"
    environment = {**os.environ, "ZORIVEST_KEYRING": "off", "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "zorivest_rpc",
        "stdio",
        "--data-dir",
        str(data),
        "--toolsets",
        "all",
        "--import-root",
        str(tmp_path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
        env=environment,
    )
    client = Stdio(process)
    info = {"name": "claude-code", "version": "2.1.280"}
    await client.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
    yield client
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(10):
        assert await process.wait() == 0
    located = find(data)
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["demo", "empty"])
async def test_every_tool_does_real_work_or_says_honestly_why_not(stdio: Stdio, journal: str, tmp_path: Path) -> None:
    call, works, says = stdio.call, stdio.works, stdio.says
    if journal == "demo":
        environment = {**os.environ, "ZORIVEST_KEYRING": "off"}
        loader = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "zorivest_rpc", "demo", "load", "--data-dir", str(tmp_path / "data"), env=environment
        )
        assert await loader.wait() == 0

    # discovery and core
    assert len((await works("list_available_toolsets"))["toolsets"]) == 9
    assert (await works("describe_toolset", toolset_name="tax"))["name"] == "tax"
    await works("enable_toolset", toolset_name="tax")
    token = await works("get_confirmation_token", action="create_trade", params_summary="tour")
    assert token["expires_in_seconds"] == 60
    await works("update_settings", settings={"ui.theme": "dark"})
    assert (await works("get_settings", key="ui.theme"))["value"] == "dark"
    await works("update_log_level", feature="api", level="DEBUG")
    await works("get_log_settings")
    assert (await works("zorivest_diagnose"))["backend"]["reachable"] is True
    assert (await works("zorivest_launch_gui"))["gui_found"] is False
    assert (await works("zorivest_service_status"))["backend"]
    assert (await works("zorivest_service_logs"))["log_files"]
    await works("zorivest_emergency_stop", reason="tour")
    await says("list_trades", "mcp guard blocked")
    await works("zorivest_emergency_unlock", confirm="UNLOCK")

    # a journal of our own beside whatever is there
    for number, (action, price) in enumerate((("BOT", 100.0), ("SLD", 110.0)), 1):
        trade = {"instrument": "TOUR", "action": action, "quantity": 10, "price": price, "account_id": ACCOUNT}
        await works("create_trade", exec_id=f"TOUR-{number}", **trade)
    assert "TOUR-2" in [trade["exec_id"] for trade in (await works("list_trades"))["items"]]
    image = await works("attach_screenshot", trade_id="TOUR-1", image_base64=png(), caption="entry")
    shots = await works("get_trade_screenshots", trade_id="TOUR-1")
    assert len(shots["items"]) == 1
    assert shots["items"][0]["id"] == image["image_id"]
    picture = await call("get_screenshot", image_id=image["image_id"])
    assert [block["type"] for block in picture["content"]] == ["text", "image"]
    trips = await works("get_round_trips", account_id=ACCOUNT)
    assert len(trips["items"]) == 1
    grades = {"setup_quality": "A", "execution_quality": "B", "followed_plan": True}
    await works("create_report", trade_id="TOUR-1", tags=["tour"], lessons_learned="none", **grades)
    assert (await works("get_report_for_trade", trade_id="TOUR-1"))["followed_plan"] is True
    await says("enrich_trade_excursion", "bar", "price", trade_exec_id="TOUR-1")
    await works("get_fee_breakdown", period="all")
    await works("score_execution_quality", trade_exec_id="TOUR-1")
    await works("estimate_pfof_impact", account_id=ACCOUNT)
    assert (await works("get_expectancy_metrics"))["trade_count"] >= 1
    await works("simulate_drawdown", simulations=200)
    await works("get_strategy_breakdown")
    await works("get_sqn")
    await works("get_cost_of_free")
    await works("ai_review_trade", trade_exec_id="TOUR-1")
    legs = ("C 100", "C 110")
    for number, (leg, action) in enumerate(zip(legs, ("BOT", "SLD"), strict=True), 1):
        option = {"instrument": f"TOUR 270115 {leg}", "action": action, "quantity": 1, "price": 4.0 - number}
        await works("create_trade", exec_id=f"LEG-{number}", account_id=ACCOUNT, **option)
    strategy = await works("detect_options_strategy", leg_exec_ids=["LEG-1", "LEG-2"])
    assert (strategy["strategy_type"], strategy["name"]) == ("vertical", "bull call spread")

    # planning and behaviour
    levels = {"entry": 100, "stop": 95, "target": 115}
    assert (await works("calculate_position_size", balance=10_000, **levels))["share_size"] == 20
    await works("create_trade_plan", ticker="TOUR", direction="LONG", strategy_name="tour", conviction="HIGH", **levels)
    await works("track_mistake", trade_exec_id="TOUR-1", category="early_exit", estimated_cost=12.5)
    assert (await works("get_mistake_summary", period="all"))["total_mistakes"] >= 1
    await says("link_trade_journal", "journal", "entry", trade_exec_id="TOUR-1", journal_entry_id="none")

    # accounts
    (tmp_path / "trades.csv").write_text(CSV)
    (tmp_path / "bank.csv").write_text(STATEMENT)
    (tmp_path / "trades.pdf").write_bytes(pdf())
    assert (await works("import_broker_csv", file_path=str(tmp_path / "trades.csv"), account_id=ACCOUNT))[
        "status"
    ] == "SUCCESS"
    assert (await works("import_broker_pdf", file_path=str(tmp_path / "trades.pdf"), account_id=ACCOUNT))[
        "status"
    ] == "SUCCESS"
    await works("import_bank_statement", file_path=str(tmp_path / "bank.csv"), account_id="BANK-1")
    await works("list_bank_accounts")
    brokers = await works("list_brokers")
    assert brokers["items"]
    await works("get_account_review_checklist")
    assert (await works("sync_broker", broker_id="local_folder"))["status"] == "success"
    await works("resolve_identifiers", identifiers=[{"id_type": "isin", "id_value": "US0378331005"}])

    # market data: no key and no network here, and it says so
    providers = (await works("list_market_providers"))["items"]
    assert len(providers) == 14
    name = providers[0]["provider_name"]
    assert (await works("test_market_provider", provider_name=name))["success"] is False
    await works("disconnect_market_provider", provider_name=name, confirm_destructive=True)
    await says("get_stock_quote", "provider", ticker="TOUR")
    await says("get_market_news", "provider")
    await says("get_sec_filings", "provider", ticker="TOUR")
    assert (await works("search_ticker", query="TOUR"))["items"][0]["symbol"] == "TOUR"

    # tax
    held = {"instrument": "TOUR", "action": "BOT", "quantity": 5, "price": 100.0, "account_id": ACCOUNT}
    await works("create_trade", exec_id="TOUR-3", **held)
    sale = {"ticker": "TOUR", "action": "SELL", "quantity": 1, "price": 120.0, "account_id": ACCOUNT}
    assert "disclaimer" in await works("simulate_tax_impact", **sale)
    await works("estimate_tax", tax_year=2026, filing_status="single")
    await works("find_wash_sales")
    await works("get_tax_lots", account_id=ACCOUNT, status="all")
    await works("get_quarterly_estimate", quarter="Q1", tax_year=2026)
    await works("record_quarterly_tax_payment", quarter="Q1", tax_year=2026, payment_amount=100, confirm=True)
    await works("harvest_losses")
    await works("get_ytd_tax_summary", tax_year=2026)

    # scheduling
    policy = await works("create_policy", policy_json=POLICY)
    policy_id = policy["id"]
    assert policy_id in [each["id"] for each in (await works("list_policies"))["policies"]]
    await says("run_pipeline", "zorivest-rpc approve", policy_id=policy_id)
    assert (await works("preview_report", policy_id=policy_id))["dry_run"] is True
    await works("update_policy_schedule", policy_id=policy_id, cron_expression="0 9 * * 1")
    assert len((await works("get_pipeline_history"))["items"]) == 1

    # and at the very end the backend itself
    await works("zorivest_service_restart", confirm="RESTART")
    await works("list_trades")
    assert set(stdio.called) == {spec.name for spec in load().tools}
