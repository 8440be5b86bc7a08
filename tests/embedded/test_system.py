"""Health, version, service, state summary."""

from __future__ import annotations

import io
import os
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
from PIL import Image

from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import accounts, trades

from .conftest import Caller, Clock

NOW = datetime(2026, 1, 2, tzinfo=UTC)
COUNTERS = {
    *("trades", "round_trips_closed", "accounts", "lots_open", "lots", "tax_profiles", "mistakes", "policies"),
    *("brokers_configured", "providers_configured", "images", "plans", "reports"),
}


async def test_health_tells_the_state_of_process_and_database(admin: Caller, anybody: Caller, clock: Clock) -> None:
    clock.now += 12.5
    health = await anybody.get("/health")
    assert (health["status"], health["uptime_seconds"]) == ("ok", 12.5)
    assert health["database"] == {"unlocked": True, "encrypted": True, "key_source": "file"}
    assert health["database_unlocked"] is True
    assert health["scheduler"] == {"active_policies": 0, "next_run": None}
    assert "instance_id" not in health  # nothing here identifies the backend to a caller
    assert datetime.fromisoformat(health["started_at"]).tzinfo is not None
    assert (await anybody.get("/version/"))["version"] == health["version"]


async def test_the_service_status_is_measured(admin: Caller) -> None:
    status = await admin.get("/service/status")
    assert status["pid"] == os.getpid()
    assert status["memory_mb"] > 1
    assert {"uptime_seconds", "cpu_percent", "python_version"} <= set(status)


async def test_without_psutil_the_service_status_says_what_it_cannot_tell(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    status = await admin.get("/service/status")
    assert status["metrics_limited"] is True
    assert status["memory_mb"] > 1


async def test_a_shutdown_is_answered_before_it_happens(admin: Caller, backend: Embedded) -> None:
    answer = await admin.expect(200, "POST", "/service/graceful-shutdown")
    assert answer["status"] == "shutting_down"
    assert not backend.stop_requested.is_set()
    await backend.stop_requested.wait()


def account(name: str) -> dict[str, object]:
    return {"account_id": name, "name": name, "account_type": "broker", "created_at": NOW}


async def test_an_empty_journal_counts_nothing(admin: Caller) -> None:
    summary = await admin.get("/mcp/state-summary")
    assert set(summary["counters"]) == COUNTERS
    there = {name: count for name, count in summary["counters"].items() if count}
    # the system's own account is not the user's; the imports folder and three providers work without a key
    assert there == {"brokers_configured": 1, "providers_configured": 3}
    assert summary["sets"] == {"account_ids": []}


async def test_the_version_changes_exactly_when_the_counts_do(admin: Caller, backend: Embedded) -> None:
    first = await admin.ask("GET", "/mcp/state-summary")
    empty = await first.json()
    await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    assert await admin.get("/mcp/state-summary") == empty
    await backend.database().write(lambda conn: conn.execute(accounts.insert().values(**account("A-1"))))
    trade = {
        "exec_id": "e",
        "time": NOW,
        "instrument": "SPY",
        "symbol": "SPY",
        "underlying": "SPY",
        "asset_class": "EQUITY",
        "action": "BOT",
        "quantity": Decimal(1),
        "price": Decimal("1.5"),
        "multiplier": Decimal(1),
        "notional": Decimal("1.5"),
        "account_id": "A-1",
        "dedup_hash": "h",
        "created_at": NOW,
    }
    await backend.database().write(lambda conn: conn.execute(trades.insert().values(**trade)))
    full = await admin.get("/mcp/state-summary")
    assert full["version"] != empty["version"]
    assert (full["counters"]["accounts"], full["counters"]["trades"]) == (1, 1)
    assert full["sets"] == {"account_ids": ["A-1"]}


async def test_an_unchanged_summary_is_not_sent_again(admin: Caller, backend: Embedded) -> None:
    tag = (await admin.ask("GET", "/mcp/state-summary")).headers["ETag"]
    response = await admin.ask("GET", "/mcp/state-summary", headers={"If-None-Match": tag})
    assert (response.status, await response.read()) == (304, b"")
    assert response.headers["ETag"] == tag
    await backend.database().write(lambda conn: conn.execute(accounts.insert().values(**account("A-1"))))
    again = await admin.ask("GET", "/mcp/state-summary", headers={"If-None-Match": tag})
    assert again.status == 200


async def test_the_summary_names_at_most_fifty_accounts_and_counts_all(admin: Caller, backend: Embedded) -> None:
    rows = [account(f"A-{number:03}") for number in range(60)]
    await backend.database().write(lambda conn: conn.execute(accounts.insert(), rows))
    summary = await admin.get("/mcp/state-summary")
    assert summary["counters"]["accounts"] == 60
    assert summary["sets"]["account_ids"] == [f"A-{number:03}" for number in range(50)]


async def test_images_plans_reports_and_all_the_rest_change_the_version_both_ways(admin: Caller) -> None:
    """Through the routes, one thing after the other: each is counted at once, and each changes the version."""
    picture = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(picture, "PNG")
    form = aiohttp.FormData()
    form.add_field("file", picture.getvalue(), filename="a.png", content_type="image/png")
    trade = {"exec_id": "E-1", "instrument": "SPY", "action": "BOT", "quantity": 1, "price": 5, "account_id": "A"}
    plan: dict[str, Any] = {"ticker": "SPY", "direction": "BOT", "strategy_name": "s", "conditions": "none"}
    plan |= {"entry": 5, "stop": 4, "target": 7}
    report = {"setup_quality": "A", "execution_quality": "B", "followed_plan": True}
    step = {"id": "load", "type": "query", "params": {"queries": [{"name": "rows", "sql": "SELECT 1 AS one"}]}}
    policy = {"name": "Daily", "trigger": {"cron_expression": "0 8 * * *"}, "steps": [step]}
    seen = [await admin.get("/mcp/state-summary")]

    async def counts(**wanted: int) -> None:
        seen.append(await admin.get("/mcp/state-summary"))
        assert seen[-1]["version"] not in {summary["version"] for summary in seen[:-1]}
        assert {name: seen[-1]["counters"][name] for name in wanted} == wanted

    await admin.expect(201, "POST", "/trades", trade)
    await counts(trades=1, accounts=1, lots=1, lots_open=1, round_trips_closed=0)
    await admin.expect(201, "POST", "/trades/E-1/images", None, data=form)
    await counts(images=1)
    await admin.expect(201, "POST", "/trades/E-1/report", report)
    await counts(reports=1)
    made = await admin.expect(201, "POST", "/trade-plans", plan)
    await counts(plans=1)
    await admin.expect(201, "POST", "/mistakes", {"trade_exec_id": "E-1", "category": "chasing"})
    await counts(mistakes=1)
    await admin.expect(201, "POST", "/scheduling/policies", {"policy_json": policy})
    await counts(policies=1)
    await admin.expect(200, "PUT", "/tax/profiles/2026", {"filing_status": "SINGLE"})
    await counts(tax_profiles=1)
    await admin.expect(201, "POST", "/trades", {**trade, "exec_id": "E-2", "action": "SLD"})
    await counts(trades=2, round_trips_closed=1, lots_open=0)
    await admin.expect(204, "DELETE", f"/trade-plans/{made['id']}")
    await counts(plans=0)
    await admin.expect(204, "DELETE", "/trades/E-1/report")
    await counts(reports=0)
