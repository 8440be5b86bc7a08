"""The demo data: the same every time, something for every tool, gone without a trace."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import text

from tests.embedded.conftest import Caller
from tests.embedded.driver import Journal
from zorivest_rpc.cli.welcome import ASK
from zorivest_rpc.embedded.analytics.positions import Execution
from zorivest_rpc.embedded.analytics.round_trips import match
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import metadata
from zorivest_rpc.embedded.demo.books import bank_lines
from zorivest_rpc.embedded.demo.load import main
from zorivest_rpc.embedded.demo.story import SYNTHETIC, tell
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.locate import find

DAY = date(2026, 3, 18)


def executions(day: date) -> list[Execution]:
    return [
        Execution(
            draft.exec_id,
            draft.account_id,
            draft.what.symbol,
            draft.time,
            1 if draft.action == "BOT" else -1,
            draft.quantity,
            draft.price,
            draft.what.multiplier,
            draft.commission + draft.fees,
        )
        for draft in tell(day).drafts
    ]


def test_the_same_day_tells_the_same_story() -> None:
    assert tell(DAY) == tell(DAY)


@pytest.mark.parametrize("day", [DAY + timedelta(days=offset) for offset in range(0, 40, 3)])
def test_the_story_holds_what_it_promises_on_any_day(day: date) -> None:
    story = tell(day)
    assert 55 <= len(story.drafts) <= 65
    assert len({draft.exec_id for draft in story.drafts}) == len(story.drafts)
    assert (story.days[-1] - story.days[0]).days >= 20 * 30
    for draft in story.drafts:
        if draft.what.asset_class == "EQUITY":
            bar = story.bars[draft.what.symbol][story.days.index(draft.time.date())]
            assert bar.low <= draft.price <= bar.high
    trips = match(executions(day)).episodes
    closed = [trip for trip in trips if trip.status == "closed"]
    assert len(closed) >= 18
    assert min(sum(trip.realized > 0 for trip in closed), sum(trip.realized < 0 for trip in closed)) >= 5
    assert any(trip.direction == -1 for trip in closed)
    assert any(trip.opened_skip for trip in trips)  # the flip
    assert any(trip.last_at - trip.opened_at > timedelta(days=366) for trip in closed)
    (lot,) = [
        trip for trip in trips if trip.symbol == "XLE" and trip.open_quantity and trip.account_id == "DEMO-BROKER"
    ]
    assert story.bars["XLE"][-1].close < lot.entry_value / lot.entry_quantity
    (sold,) = [trip for trip in closed if trip.symbol == "AAPL" and trip.realized < 0]
    again = [trip for trip in trips if trip.symbol == "AAPL" and trip.opened_at > sold.last_at]
    assert (again[0].opened_at.date() - sold.last_at.date()).days == 12


async def test_every_tool_has_something_to_show(journal: Journal) -> None:
    answer = await journal.expect(201, "POST", "/demo")
    assert (answer["status"], answer["accounts"]) == ("loaded", 4)
    counters = (await journal.get("/mcp/state-summary"))["counters"]
    assert counters["accounts"] == 4
    assert (counters["reports"], counters["plans"], counters["mistakes"], counters["images"]) == (3, 1, 3, 1)
    assert counters["trades"] == answer["trades"]
    trades = (await journal.get("/trades", params={"limit": "200"}))["items"]
    assert {trade["source"] for trade in trades} == {"demo"}
    (pictured,) = [trade for trade in trades if trade["image_count"]]
    assert pictured["has_report"]
    expectancy = await journal.get("/analytics/expectancy")
    assert expectancy["wins"] >= 5
    assert expectancy["losses"] >= 5
    assert (await journal.get("/analytics/sqn"))["r_unit"] == "mixed"  # one of them had a plan
    lines = {line["strategy"] for line in (await journal.get("/analytics/strategy-breakdown"))["strategies"]}
    assert lines == {"breakout", "momentum", "mean_reversion", "trend_follow", "(untagged)"}
    assert (await journal.get("/analytics/drawdown", params={"simulations": "200"}))["simulations_run"] == 200
    moved = await journal.expect(200, "POST", f"/analytics/excursion/{pictured['exec_id']}")
    assert (moved["data_source"], moved["holding_bars"] > 50) == (SYNTHETIC, True)
    fees = await journal.get("/fees/summary", params={"period": "all"})
    assert {line["fee_type"] for line in fees["by_type"]} == {"commission", "exchange", "regulatory", "platform"}
    routed = await journal.get("/analytics/pfof-report", params={"account_id": "DEMO-ZERO", "period": "all"})
    assert (routed["routing_type"], routed["estimated_cost"] > 0) == ("pfof", True)
    assert (await journal.get("/analytics/cost-of-free", params={"period": "all"}))["total_hidden_cost"] > 0
    score = await journal.get("/analytics/execution-quality", params={"trade_id": pictured["exec_id"]})
    assert score["grade"] in "ABCDF"
    review = await journal.expect(200, "POST", "/analytics/ai-review", {"trade_exec_id": pictured["exec_id"]})
    assert all(persona["score"] is not None for persona in review["personas"])
    mistakes = await journal.get("/mistakes/summary", params={"period": "all"})
    assert (mistakes["total_mistakes"], mistakes["total_cost"] >= 750) == (3, True)
    story = tell(date.fromisoformat((await journal.get("/health"))["started_at"][:10]))
    condor = await journal.expect(200, "POST", "/analytics/options-strategy", {"leg_exec_ids": list(story.condor)})
    assert (condor["strategy_type"], condor["net_debit_credit"]) == ("iron_condor", 185)
    vertical = await journal.expect(200, "POST", "/analytics/options-strategy", {"leg_exec_ids": list(story.vertical)})
    assert (vertical["name"], vertical["max_loss"]) == ("bull call spread", 330)
    assert not [trip for trip in await journal.trips(status="open") if trip["flags"]]  # the condor was settled


async def test_the_bank_and_the_schedule_have_something_to_show_too(journal: Journal) -> None:
    answer = await journal.expect(201, "POST", "/demo")
    assert (answer["bank_lines"], answer["policies"], answer["run"]) == (40, 2, "success")
    (bank,) = await journal.get("/banking/accounts")
    assert (bank["account_id"], bank["balance"], bank["transaction_count"]) == ("DEMO-BANK", 14350, 40)
    lines = await journal.get("/banking/accounts/DEMO-BANK/transactions", params={"limit": "100"})
    assert (lines["total"], lines["net_change"]) == (40, 14350 - 12000)
    assert lines["items"][0]["running_balance"] == bank["balance"]
    assert len({line["category"] for line in lines["items"]}) >= 5
    (batch,) = (await journal.get("/import/batches"))["items"]
    assert (batch["imported"], batch["kind"]) == (40, "bank")
    found = (await journal.get("/scheduling/policies"))["policies"]
    assert [(policy["approved"], policy["next_run"]) for policy in found] == [(False, None)] * 2
    tried, other = sorted(found, key=lambda policy: "results" not in policy["name"])
    (run,) = await journal.get(f"/scheduling/policies/{tried['id']}/runs")
    assert (run["status"], run["trigger_type"], run["dry_run"]) == ("success", "manual", True)
    for policy in found:
        await journal.refused(400, "POST", f"/scheduling/policies/{policy['id']}/run")
    preview = await journal.expect(200, "POST", f"/scheduling/policies/{other['id']}/run", {"dry_run": True})
    assert "revenge_trade" in preview["preview"]
    assert (await journal.get("/health"))["scheduler"]["active_policies"] == 0  # the demo keeps no process alive
    lots = await journal.get("/tax/lots", params={"status": "all"})
    assert lots["total_count"] >= 30
    washed = await journal.expect(200, "POST", "/tax/wash-sales", {"date_range_start": "2020-01-01"})
    assert {"AAPL", "XLE"} <= set(re.findall(r'"ticker": "(\w+)"', json.dumps(washed)))


async def test_what_the_welcome_suggests_to_ask_has_an_answer(journal: Journal) -> None:
    await journal.expect(201, "POST", "/demo")
    month, mistakes, sale = ASK
    assert "last month" in month
    assert (await journal.get("/analytics/expectancy", params={"period": "30d"}))["trade_count"] >= 3
    assert (await journal.get("/fees/summary", params={"period": "30d"}))["total_fees"] > 0
    assert "mistakes" in mistakes
    assert (await journal.get("/mistakes/summary", params={"period": "1y"}))["total_mistakes"] >= 2
    found = re.search(r"sold (\d+) ([A-Z]+)", sale)
    assert found is not None
    wanted = {"ticker": found[2], "action": "sell", "quantity": int(found[1]), "price": 80, "account_id": "DEMO-BROKER"}
    simulated = await journal.expect(200, "POST", "/tax/simulate", wanted)
    assert len(simulated["lots"]) >= 1


async def test_a_policy_of_the_users_with_such_a_name_is_left_alone(journal: Journal, backend: Embedded) -> None:
    step = {"id": "load", "type": "query", "params": {"queries": [{"name": "rows", "sql": "SELECT 1 AS one"}]}}
    own = {"name": "Demo: what my mistakes cost", "trigger": {"cron_expression": "0 8 * * *"}, "steps": [step]}
    await journal.expect(201, "POST", "/scheduling/policies", {"policy_json": own})
    assert (await journal.expect(201, "POST", "/demo"))["policies"] == 1
    await journal.expect(200, "DELETE", "/demo")
    (left,) = (await journal.get("/scheduling/policies"))["policies"]
    assert left["name"] == own["name"]


def test_the_bank_lines_add_up_on_any_day() -> None:
    for offset in range(0, 40, 7):
        lines = bank_lines(tell(DAY + timedelta(days=offset)).days)
        assert lines == bank_lines(tell(DAY + timedelta(days=offset)).days)
        assert len(lines) == 40
        assert lines[-1].balance == 14350
        assert all(line.balance > 0 and line.amount for line in lines)
        assert [line.day for line in lines] == sorted(line.day for line in lines)


async def test_what_was_derived_from_the_demo_goes_with_it(
    journal: Journal, backend: Embedded, directory: DataDir
) -> None:
    """Every table, after every part of the backend has looked at the demo and kept something of it."""
    before = await rows(backend, everything=True)
    await journal.expect(201, "POST", "/demo")
    story = tell(date.fromisoformat((await journal.get("/health"))["started_at"][:10]))
    await journal.get("/tax/lots", params={"status": "all"})
    await journal.expect(200, "POST", "/analytics/options-strategy", {"leg_exec_ids": list(story.condor)})
    await journal.expect(200, "POST", f"/analytics/excursion/{story.drafts[3].exec_id}")
    await journal.expect(200, "POST", "/analytics/ai-review", {"trade_exec_id": story.drafts[3].exec_id})
    for policy in (await journal.get("/scheduling/policies"))["policies"]:
        path, token = f"/scheduling/policies/{policy['id']}", (directory.root / "approval.token").read_text().strip()
        await journal.caller.expect(200, "POST", f"{path}/approve", headers={"X-Approval-Token": token})
        await journal.expect(200, "POST", f"{path}/run")
    assert {name for name, found in (await rows(backend, everything=True)).items() if found != before[name]} >= {
        *("trades", "tax_lots", "tax_wash_matches", "excursion_metrics", "bank_transactions"),
        *("import_batches", "policies", "pipeline_runs", "pipeline_steps", "reports", "report_versions"),
        *("round_trips", "price_bars", "images", "trade_plans", "trade_reports", "journal_entries", "entity_links"),
    }
    await journal.expect(200, "DELETE", "/demo")
    after = await rows(backend, everything=True)
    assert {name: found for name, found in after.items() if found != before[name]} == {}


async def test_loading_twice_is_loading_once(journal: Journal) -> None:
    first = await journal.expect(201, "POST", "/demo")
    again = await journal.expect(201, "POST", "/demo")
    assert (again["status"], again["trades"]) == ("already_loaded", first["trades"])
    assert await journal.get("/demo") == {"loaded": True, "trades": first["trades"]}


async def rows(backend: Embedded, *, everything: bool = False) -> dict[str, list[Any]]:
    # not what was done, nor what is to be derived again
    hidden = {"audit_log", "schema_migrations"} | (set() if everything else {"tax_stale"})
    tables = [name for name in metadata.tables if name not in hidden]
    return await backend.database().read(
        lambda conn: {name: [tuple(row) for row in conn.execute(text(f"SELECT * FROM {name}"))] for name in tables}
    )


async def test_removing_leaves_the_journal_as_it_was(journal: Journal, backend: Embedded) -> None:
    await journal.buy(10, 500, instrument="SPY")
    await journal.expect(201, "POST", "/accounts", {"account_id": "own", "name": "own", "account_type": "bank"})
    bar = {"time": "2026-03-02T00:00:00Z", "open": 1, "high": 2, "low": 1, "close": 2}
    await journal.expect(201, "POST", "/market-data/bars", {"symbol": "SPY", "bars": [bar]})
    before = await rows(backend)
    await journal.expect(201, "POST", "/demo")
    assert await rows(backend) != before
    removed = await journal.expect(200, "DELETE", "/demo")
    assert (removed["status"], removed["accounts_kept"]) == ("removed", [])
    assert await rows(backend) == before
    assert (await journal.expect(200, "DELETE", "/demo"))["status"] == "nothing_to_remove"


async def test_what_the_user_put_into_a_demo_account_stays(journal: Journal) -> None:
    await journal.expect(201, "POST", "/demo")
    await journal.buy(10, 500, account_id="DEMO-BROKER", exec_id="mine", instrument="TLT")
    removed = await journal.expect(200, "DELETE", "/demo")
    assert removed["accounts_kept"] == ["DEMO-BROKER"]
    assert [trade["exec_id"] for trade in (await journal.get("/trades"))["items"]] == ["mine"]
    assert [trip["entry_exec_ids"] for trip in await journal.trips()] == [["mine"]]


async def test_only_an_admin_loads_and_removes(journal: Journal, with_role: Callable[[str], Awaitable[Caller]]) -> None:
    writer = Journal(await with_role("read-write"))
    await writer.refused(403, "POST", "/demo")
    await writer.refused(403, "DELETE", "/demo")
    assert (await writer.get("/demo"))["loaded"] is False


def test_synthetic_prices_never_end_in_thin_air() -> None:
    for bars in tell(DAY).bars.values():
        assert all(Decimal(0) < bar.low <= min(bar.open, bar.close) <= bar.high for bar in bars)


def test_the_command_speaks_to_a_backend_that_started_with_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {**os.environ, "ZORIVEST_KEYRING": "off", "ZORIVEST_DEMO": "1"}
    folder = tmp_path / "data"
    try:
        for verb, told in (("load", "already loaded: "), ("remove", "removed: "), ("load", "loaded: ")):
            assert main([verb, "--data-dir", str(folder)], env) == 0
            assert capsys.readouterr().out.startswith(told)
    finally:
        if (found := find(folder)) is not None:
            process = psutil.Process(found.pid)
            process.terminate()
            process.wait(30)
