"""Reports, journal entries, links, plans, accounts, balances, mistakes: what a person writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.embedded.driver import Journal

REPORT = {"setup_quality": "A", "execution_quality": "c", "followed_plan": True, "tags": ["gap", " gap ", "orb"]}
PLAN = {
    "ticker": "spy stk",
    "direction": "long",
    "strategy_name": "breakout",
    "entry": 100,
    "stop": 95,
    "target": 110,
    "conditions": ["above the high", "volume"],
}


async def test_a_report_speaks_letters_and_writes_an_entry(journal: Journal) -> None:
    await journal.buy(1, 1)
    report = await journal.expect(201, "POST", "/trades/E0001/report", {**REPORT, "lessons_learned": "wait"})
    assert (report["setup_quality"], report["execution_quality"], report["tags"]) == ("A", "C", ["gap", "orb"])
    assert (report["emotional_state"], report["trade_id"]) == ("neutral", "E0001")
    assert await journal.get("/trades/E0001/report") == report
    entry = await journal.get(f"/journal/{report['journal_entry_id']}")
    assert (entry["body"], entry["linked_exec_ids"]) == ("wait", ["E0001"])
    assert (await journal.get("/trades/E0001"))["has_report"] is True


async def test_one_report_per_trade(journal: Journal) -> None:
    await journal.buy(1, 1)
    await journal.expect(201, "POST", "/trades/E0001/report", REPORT)
    assert (await journal.refused(409, "POST", "/trades/E0001/report", REPORT))["error"] == "duplicate_report"
    await journal.refused(404, "POST", "/trades/none/report", REPORT)
    await journal.refused(404, "GET", "/trades/none/report")


async def test_a_report_changes_and_goes(journal: Journal) -> None:
    await journal.buy(1, 1)
    await journal.refused(404, "PUT", "/trades/E0001/report", {"setup_quality": "B"})
    report = await journal.expect(201, "POST", "/trades/E0001/report", {**REPORT, "setup_quality": 2})
    assert report["setup_quality"] == "D"
    changed = await journal.expect(
        200, "PUT", "/trades/E0001/report", {"setup_quality": "B", "tags": ["x"], "lessons_learned": "later"}
    )
    assert changed == {**report, "setup_quality": "B", "tags": ["x"], "lessons_learned": "later"}
    assert (await journal.get(f"/journal/{report['journal_entry_id']}"))["body"] == "later"
    await journal.expect(204, "DELETE", "/trades/E0001/report")
    await journal.refused(404, "GET", "/trades/E0001/report")
    await journal.expect(201, "POST", "/trades/E0001/report", REPORT)


async def test_a_wrong_report_is_refused(journal: Journal) -> None:
    await journal.buy(1, 1)
    for change in (
        *({"setup_quality": "E"}, {"setup_quality": 6}, {"execution_quality": None}, {"followed_plan": "maybe"}),
        *({"tags": "gap"}, {"tags": [1]}),
    ):
        refused = await journal.refused(422, "POST", "/trades/E0001/report", {**REPORT, **change})
        assert set(refused["detail"]["errors"]) == set(change)


async def test_a_link_is_seen_from_both_ends_and_made_once(journal: Journal) -> None:
    await journal.buy(1, 1)
    entry = await journal.expect(201, "POST", "/journal", {"entry_id": "week-9", "title": "Week 9", "body": "…"})
    assert (entry["entry_id"], entry["linked_exec_ids"]) == ("week-9", [])
    body = {"journal_entry_id": "week-9", "trade_exec_id": "E0001"}
    first = await journal.expect(200, "POST", "/trades/E0001/journal-link", body)
    again = await journal.expect(200, "POST", "/trades/E0001/journal-link", body)
    assert (first["status"], first["already_linked"], again["already_linked"]) == ("linked", False, True)
    assert first["link_id"] == again["link_id"]
    assert (await journal.get("/journal/week-9"))["linked_exec_ids"] == ["E0001"]
    await journal.refused(404, "POST", "/trades/none/journal-link", body)
    await journal.refused(404, "POST", "/trades/E0001/journal-link", {"journal_entry_id": "none"})
    await journal.refused(422, "POST", "/trades/E0001/journal-link", {})


async def test_entries_have_ids_of_their_own(journal: Journal) -> None:
    body = {"title": "t", "body": "b"}
    made = await journal.expect(201, "POST", "/journal", body)
    assert (await journal.get(f"/journal/{made['entry_id']}"))["title"] == "t"
    await journal.refused(409, "POST", "/journal", {**body, "entry_id": made["entry_id"]})
    await journal.refused(422, "POST", "/journal", {"title": ""})
    await journal.refused(404, "GET", "/journal/none")


async def test_a_plan_is_measured_and_warned_about(journal: Journal, satisfies: Callable[[str, Any], None]) -> None:
    plan = await journal.expect(201, "POST", "/trade-plans", PLAN)
    satisfies("create_trade_plan", plan)
    assert (plan["ticker"], plan["direction"], plan["conviction"], plan["status"]) == ("SPY", "BOT", "medium", "draft")
    assert (plan["risk_reward_ratio"], plan["entry_conditions"], plan["warnings"]) == (2, "above the high\nvolume", [])
    wrong = await journal.expect(201, "POST", "/trade-plans", {**PLAN, "direction": "SHORT", "conviction": "HIGH"})
    assert (wrong["direction"], wrong["conviction"], len(wrong["warnings"])) == ("SLD", "high", 2)
    flat = await journal.expect(201, "POST", "/trade-plans", {**PLAN, "ticker": "QQQ", "stop": 100})
    assert flat["risk_reward_ratio"] == 0


async def test_one_plan_in_progress_per_ticker_and_direction(journal: Journal) -> None:
    first = await journal.expect(201, "POST", "/trade-plans", PLAN)
    refused = await journal.refused(409, "POST", "/trade-plans", {**PLAN, "ticker": "SPY"})
    assert refused["plan_id"] == first["id"]
    await journal.expect(200, "PUT", f"/trade-plans/{first['id']}", {"status": "cancelled"})
    second = await journal.expect(201, "POST", "/trade-plans", PLAN)
    await journal.refused(409, "PUT", f"/trade-plans/{first['id']}", {"status": "active"})
    assert [item["id"] for item in (await journal.get("/trade-plans"))["items"]] == [second["id"], first["id"]]


async def test_a_plan_is_executed_by_its_trade(journal: Journal) -> None:
    plan = await journal.expect(201, "POST", "/trade-plans", PLAN)
    path = f"/trade-plans/{plan['id']}"
    await journal.refused(422, "PUT", path, {"status": "executed", "linked_trade_id": "none"})
    await journal.buy(10, 100)
    done = await journal.expect(200, "PUT", path, {"status": "EXECUTED", "linked_trade_id": "E0001"})
    assert (done["status"], done["linked_trade_id"], done["executed_at"] is None) == ("executed", "E0001", False)
    changed = await journal.expect(200, "PUT", path, {"target": 105, "conditions": "one"})
    assert (changed["risk_reward_ratio"], changed["entry_conditions"], changed["status"]) == (1, "one", "executed")
    await journal.expect(204, "DELETE", "/trades/E0001")
    assert (await journal.get(path))["linked_trade_id"] is None
    await journal.expect(204, "DELETE", path)
    await journal.refused(404, "GET", path)
    assert (await journal.get("/mcp/state-summary"))["counters"]["images"] == 0


async def test_a_wrong_plan_is_refused(journal: Journal) -> None:
    for change in (
        *({"entry": 0}, {"stop": -1}, {"target": None}, {"direction": "up"}, {"conviction": "some"}, {"ticker": ""}),
        *({"account_id": "none"}, {"conditions": [1]}),
    ):
        await journal.refused(422, "POST", "/trade-plans", {**PLAN, **change})
    assert (await journal.get("/trade-plans"))["total"] == 0


async def test_an_account_gets_an_id_unless_it_brings_one_that_is_free(journal: Journal) -> None:
    ira = await journal.expect(201, "POST", "/accounts", {"name": "Later", "account_type": "IRA"})
    assert (ira["account_type"], len(ira["account_id"])) == ("ira", 36)
    await journal.expect(201, "POST", "/accounts", {"account_id": "A1", "name": "Main", "account_type": "BROKER"})
    await journal.refused(409, "POST", "/accounts", {"account_id": "A1", "name": "x", "account_type": "bank"})
    await journal.refused(422, "POST", "/accounts", {"name": "x", "account_type": "sock"})
    await journal.refused(404, "GET", "/accounts/none")


async def test_an_account_changes_but_not_the_system_one(journal: Journal) -> None:
    await journal.expect(201, "POST", "/accounts", {"account_id": "A1", "name": "Main", "account_type": "bank"})
    changed = await journal.expect(200, "PUT", "/accounts/A1", {"is_archived": True, "name": "Old"})
    assert (changed["name"], changed["is_archived"]) == ("Old", True)
    assert await journal.get("/accounts") == []
    assert [row["account_id"] for row in await journal.get("/accounts", params={"include_archived": "yes"})] == ["A1"]
    listed = await journal.get("/accounts", params={"include_system": "1"})
    assert [row["account_id"] for row in listed] == ["SYSTEM_DEFAULT"]
    await journal.refused(403, "PUT", "/accounts/SYSTEM_DEFAULT", {"name": "mine"})
    await journal.refused(403, "POST", "/accounts/SYSTEM_DEFAULT/balances", {"balance": 1})
    await journal.refused(404, "PUT", "/accounts/none", {"name": "x"})


async def test_the_calculator_answers_anybody(journal: Journal, satisfies: Callable[[str, Any], None]) -> None:
    from tests.embedded.conftest import Caller

    anybody = Caller(journal.caller.client)
    body = {"balance": 437903.03, "risk_pct": 1, "entry": 619.61, "stop": 618.61, "target": 620.61}
    size = await anybody.expect(200, "POST", "/calculator/position-size", body)
    satisfies("calculate_position_size", size)
    assert (size["account_risk_1r"], size["share_size"], size["position_size"]) == (4379.03, 4379, 2713273)
    assert (size["position_to_account_pct"], size["reward_risk_ratio"], size["potential_profit"]) == (619.6, 1, 4379)
    body = {"balance": 10000, "entry_price": 100, "stop_loss": 95, "target_price": 110}
    size = await anybody.expect(200, "POST", "/calculator/position-size", body)
    assert (size["shares"], size["risk_amount"], size["reward_risk_ratio"]) == (20, 100, 2)
    sides = await anybody.expect(422, "POST", "/calculator/position-size", {**body, "target_price": 99})
    assert "99 is below the entry 100, on the side of the stop 95" in str(sides["detail"])
    await anybody.expect(422, "POST", "/calculator/position-size", {**body, "balance": "x"})
