"""All tools one after the other, as any client can call them: what is written is read back through another tool.

The walk is the same for our own plain client, for the official ones, and for the examples of the tool reference.
A tool that it does not name is called with the example in its own description."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import ToolSpec

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


class Caller(ABC):
    """A client that keeps what it asked and what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = []

    @abstractmethod
    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The result of `tools/call`, in its form on the wire."""

    @property
    def called(self) -> set[str]:
        return {name for name, _, _ in self.calls}

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.ask(name, arguments)
        self.calls.append((name, arguments, result))
        return result

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
        assert result["_meta"]["com.zorivest/error"]["code"], (name, result)
        return text


async def every_tool(client: Caller, place: Path, *, demo: bool) -> None:
    """`place` is a directory that the server may import from; `demo` says whether the demo data is loaded."""
    await _core(client)
    await _trades(client, demo)
    await _analytics(client, demo)
    await _planning_and_behaviour(client)
    await _accounts(client, place)
    await _market_data(client)
    await _tax(client, demo)
    await _scheduling(client)
    for spec in load().tools:
        if spec.name not in client.called and spec.name != "zorivest_service_restart":
            await client.call(spec.name, **own_example(spec))
    before = (await client.works("zorivest_service_status"))["pid"]
    await client.works("zorivest_service_restart", confirm="RESTART")  # at the very end the backend itself
    assert (await client.works("zorivest_service_status"))["pid"] != before
    assert "TOUR-2" in await _trade_ids(client)


def own_example(spec: ToolSpec) -> dict[str, Any]:
    """The arguments that a tool's own description gives as an example."""
    _, _, rest = spec.description.rich.partition("Example: ")
    try:
        arguments, _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}


async def _trade_ids(client: Caller) -> list[str]:
    return [trade["exec_id"] for trade in (await client.works("list_trades", limit=100))["items"]]


async def _core(client: Caller) -> None:
    works = client.works
    assert len((await works("list_available_toolsets"))["toolsets"]) == 9
    assert (await works("describe_toolset", toolset_name="tax"))["name"] == "tax"
    await works("enable_toolset", toolset_name="tax")
    token = await works("get_confirmation_token", action="create_trade", params_summary="Buy 10 TOUR at 100")
    assert token["expires_in_seconds"] == 60
    await works("update_settings", settings={"ui.theme": "dark"})
    assert (await works("get_settings", key="ui.theme"))["value"] == "dark"
    await works("update_log_level", feature="api", level="DEBUG")
    assert (await works("get_log_settings", prefix="logging.api"))["logging.api.level"] == "DEBUG"
    assert (await works("zorivest_diagnose"))["backend"]["reachable"] is True
    assert (await works("zorivest_launch_gui"))["gui_found"] is False
    assert (await works("zorivest_service_status"))["backend"]
    assert (await works("zorivest_service_logs"))["log_files"]
    await works("zorivest_emergency_stop", reason="tour")
    assert (await works("zorivest_diagnose"))["guard"]["locked"] is True
    await client.says("list_trades", "mcp guard blocked")
    await works("zorivest_emergency_unlock", confirm="UNLOCK")
    assert (await works("zorivest_diagnose"))["guard"]["locked"] is False


async def _trades(client: Caller, demo: bool) -> None:
    """A journal of our own beside whatever is there."""
    works = client.works
    there = len(await _trade_ids(client))
    assert (there > 0) == demo
    for number, (action, price) in enumerate((("BOT", 100.0), ("SLD", 110.0)), 1):
        trade = {"instrument": "TOUR", "action": action, "quantity": 10, "price": price, "account_id": ACCOUNT}
        await works("create_trade", exec_id=f"TOUR-{number}", **trade)
    assert set(await _trade_ids(client)) >= {"TOUR-1", "TOUR-2"}
    again = {"instrument": "TOUR", "action": "BOT", "quantity": 10, "price": 100.0, "account_id": ACCOUNT}
    await client.says("create_trade", "conflict", exec_id="TOUR-1", **again)
    image = await works("attach_screenshot", trade_id="TOUR-1", image_base64=png(), caption="entry")
    shots = await works("get_trade_screenshots", trade_id="TOUR-1")
    assert [shot["id"] for shot in shots["items"]] == [image["image_id"]]
    picture = await client.call("get_screenshot", image_id=image["image_id"])
    assert [block["type"] for block in picture["content"]] == ["text", "image"]
    assert "entry" in picture["content"][0]["text"]
    trips = await works("get_round_trips", account_id=ACCOUNT)
    assert len(trips["items"]) == 1
    await client.says("get_report_for_trade", "report", trade_id="TOUR-1")
    grades = {"setup_quality": "A", "execution_quality": "B", "followed_plan": True}
    await works("create_report", trade_id="TOUR-1", tags=["tour"], lessons_learned="Take the first exit.", **grades)
    report = await works("get_report_for_trade", trade_id="TOUR-1")
    assert (report["followed_plan"], report["setup_quality"]) == (True, "A")


async def _analytics(client: Caller, demo: bool) -> None:
    works = client.works
    account = "DEMO-BROKER" if demo else ACCOUNT
    if demo:
        trades = (await works("list_trades", limit=100))["items"]
        trade_id = next(each["exec_id"] for each in trades if each["instrument"] == "SPY" and each["action"] == "BOT")
        stored = await works("enrich_trade_excursion", trade_exec_id=trade_id)
        assert stored["mfe_dollars"] > 0
    else:
        trade_id = "TOUR-1"
        await client.says("enrich_trade_excursion", "bar", "price", trade_exec_id=trade_id)
    await works("get_fee_breakdown", period="all")
    await works("score_execution_quality", trade_exec_id=trade_id)
    await works("estimate_pfof_impact", account_id=account)
    assert (await works("get_expectancy_metrics"))["trade_count"] >= 1
    await works("simulate_drawdown", simulations=200)
    strategies = (await works("get_strategy_breakdown"))["strategies"]
    assert "tour" in [each["strategy"] for each in strategies]  # the tag of the report above
    await works("get_sqn")
    await works("get_cost_of_free")
    await works("ai_review_trade", trade_exec_id=trade_id)
    for number, (leg, action) in enumerate(zip(("C 100", "C 110"), ("BOT", "SLD"), strict=True), 1):
        option = {"instrument": f"TOUR 270115 {leg}", "action": action, "quantity": 1, "price": 4.0 - number}
        await works("create_trade", exec_id=f"LEG-{number}", account_id=ACCOUNT, **option)
    strategy = await works("detect_options_strategy", leg_exec_ids=["LEG-1", "LEG-2"])
    assert (strategy["strategy_type"], strategy["name"]) == ("vertical", "bull call spread")


async def _planning_and_behaviour(client: Caller) -> None:
    works = client.works
    levels = {"entry": 100, "stop": 95, "target": 115}
    assert (await works("calculate_position_size", balance=10_000, **levels))["share_size"] == 20
    plan = {"ticker": "TOUR", "direction": "LONG", "strategy_name": "tour", "conviction": "HIGH", **levels}
    assert (await works("create_trade_plan", **plan))["status"] == "draft"
    await client.says("create_trade_plan", "conflict", **plan)  # the first is there: a second active one is refused
    before = (await works("get_mistake_summary", period="all"))["total_mistakes"]
    await works("track_mistake", trade_exec_id="TOUR-1", category="EARLY_EXIT", estimated_cost=12.5)
    summary = await works("get_mistake_summary", period="all")
    assert summary["total_mistakes"] == before + 1
    await client.says("link_trade_journal", "journal", "entry", trade_exec_id="TOUR-1", journal_entry_id="none")
    entry = (await works("get_report_for_trade", trade_id="TOUR-1"))["journal_entry_id"]
    linked = {"trade_exec_id": "TOUR-2", "journal_entry_id": entry}
    first = await works("link_trade_journal", **linked)
    assert first["journal_entry_id"] == entry
    again = await works("link_trade_journal", **linked)
    assert (first["already_linked"], again["already_linked"]) == (False, True)
    assert again["link_id"] == first["link_id"]


async def _accounts(client: Caller, place: Path) -> None:
    works = client.works
    (place / "trades.csv").write_text(CSV)
    (place / "bank.csv").write_text(STATEMENT)
    (place / "trades.pdf").write_bytes(pdf())
    for tool, file, symbol in (("import_broker_csv", "trades.csv", "MSFT"), ("import_broker_pdf", "trades.pdf", "AMD")):
        done = await works(tool, file_path=str(place / file), account_id=ACCOUNT)
        assert done["status"] == "SUCCESS"
        trades = (await works("list_trades", limit=100))["items"]
        assert symbol in [trade["instrument"] for trade in trades]
    await works("import_bank_statement", file_path=str(place / "bank.csv"), account_id="BANK-1")
    banks = (await works("list_bank_accounts"))["items"]
    assert [float(bank["balance"]) for bank in banks if bank["account_id"] == "BANK-1"] == [96.5]
    assert (await works("sync_broker", broker_id="local_folder"))["status"] == "success"
    brokers = {broker["broker_id"]: broker for broker in (await works("list_brokers"))["items"]}
    assert brokers["local_folder"]["last_sync"]
    assert "BANK-1" in str(await works("get_account_review_checklist"))
    await works("resolve_identifiers", identifiers=[{"id_type": "isin", "id_value": "US0378331005"}])


async def _market_data(client: Caller) -> None:
    """No key and no network here, and it says so."""
    works = client.works
    providers = (await works("list_market_providers"))["items"]
    assert len(providers) == 14
    name = providers[0]["provider_name"]
    assert (await works("test_market_provider", provider_name=name))["success"] is False
    await works("disconnect_market_provider", provider_name=name, confirm_destructive=True)
    left = {each["provider_name"]: each for each in (await works("list_market_providers"))["items"]}
    assert (left[name]["is_enabled"], left[name]["has_api_key"]) == (False, False)
    await client.says("get_stock_quote", "provider", ticker="TOUR")
    await client.says("get_market_news", "provider")
    await client.says("get_sec_filings", "provider", ticker="TOUR")
    assert (await works("search_ticker", query="TOUR"))["items"][0]["symbol"] == "TOUR"


async def _tax(client: Caller, demo: bool) -> None:
    works = client.works
    held = {"instrument": "TOUR", "action": "BOT", "quantity": 5, "price": 100.0, "account_id": ACCOUNT}
    await works("create_trade", exec_id="TOUR-3", **held)
    sale = {"ticker": "TOUR", "action": "SELL", "quantity": 1, "price": 120.0, "account_id": ACCOUNT}
    assert "disclaimer" in await works("simulate_tax_impact", **sale)
    await works("estimate_tax", tax_year=2026, filing_status="single")
    await works("find_wash_sales")
    assert (await works("get_tax_lots", account_id="DEMO-BROKER" if demo else ACCOUNT, status="all"))["lots"]
    bought = (await works("get_tax_lots", account_id=ACCOUNT, ticker="TOUR"))["lots"]
    assert [lot["linked_trade_ids"] for lot in bought] == [["TOUR-3"]]
    quarter: dict[str, Any] = {"quarter": "Q1", "tax_year": 2026}
    before = (await works("get_quarterly_estimate", **quarter))["paid"]
    await works("record_quarterly_tax_payment", payment_amount=100, confirm=True, **quarter)
    assert float((await works("get_quarterly_estimate", **quarter))["paid"]) == float(before) + 100
    await works("harvest_losses")
    await works("get_ytd_tax_summary", tax_year=2026)


async def _scheduling(client: Caller) -> None:
    works = client.works
    policies = (await works("list_policies"))["policies"]
    there = [each["id"] for each in policies]
    runs = len((await works("get_pipeline_history"))["items"])  # the demo has tried one
    policy_id = (await works("create_policy", policy_json=POLICY))["id"]
    assert [each["id"] for each in (await works("list_policies"))["policies"]] == [*there, policy_id]
    await client.says("run_pipeline", "zorivest-rpc approve", policy_id=policy_id)
    assert (await works("preview_report", policy_id=policy_id))["dry_run"] is True
    await works("update_policy_schedule", policy_id=policy_id, cron_expression="0 9 * * 1")
    assert "0 9 * * 1" in str(await works("list_policies"))
    assert not any(each["approved"] for each in policies)  # only a person at the terminal approves
    tried = await works("run_pipeline", policy_id=policy_id, dry_run=True)
    assert (tried["status"], tried["dry_run"]) == ("success", True)
    assert len((await works("get_pipeline_history"))["items"]) == runs + 2
