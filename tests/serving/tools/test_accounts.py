"""The review checklist: ages, scopes, and half a list where only half can be read."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.serving.tools.stage import DOWN, FakeBackend, Stage, Turn, fits, kit, make_call, payload, refused
from zorivest_rpc.errors import BackendUnreachable
from zorivest_rpc.serving.tools.accounts import AccountReview

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


def ago(**span: float) -> str:
    return (NOW - timedelta(**span)).isoformat()


BROKERS = [
    {"broker_id": "ibkr", "name": "Interactive Brokers", "last_sync": ago(days=10), "configured": True},
    {"broker_id": "alpaca", "name": "Alpaca", "last_sync": ago(hours=2), "configured": True},
    {"broker_id": "tos", "name": "ThinkorSwim", "last_sync": None, "configured": False},
]
BANKS = [
    {"account_id": "chk-1", "name": "Checking", "last_updated": ago(days=8), "balance": 5},
    {"account_id": "sav-1", "name": "Savings", "last_updated": ago(days=1), "balance": 7},
]
BOTH: dict[str, Any] = {"GET /brokers": BROKERS, "GET /banking/accounts": BANKS}


async def review(answers: dict[str, Any] = BOTH, **arguments: Any) -> dict[str, Any]:
    backend = FakeBackend(answers)
    outcome = await AccountReview(kit(backend), now=NOW.timestamp).checklist(
        make_call("get_account_review_checklist", **arguments)
    )
    assert backend.most_running == 2
    found = payload(outcome)
    fits("get_account_review_checklist", found)
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return [account["id"] for account in found["accounts"]]


async def test_by_default_only_stale_accounts_are_listed() -> None:
    found = await review()
    assert ids(found) == ["ibkr", "tos", "chk-1"]
    assert (found["review_scope"], found["stale_threshold_days"]) == ("stale_only", 7)
    assert (found["total_accounts"], found["accounts_needing_review"]) == (5, 3)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("all", ["ibkr", "alpaca", "tos", "chk-1", "sav-1"]),
        ("broker_only", ["ibkr", "alpaca", "tos"]),
        ("bank_only", ["chk-1", "sav-1"]),
        ("stale_only", ["ibkr", "tos", "chk-1"]),
    ],
)
async def test_only_the_stale_scope_filters_by_age(scope: str, expected: list[str]) -> None:
    found = await review(scope=scope)
    assert ids(found) == expected
    assert found["total_accounts"] == 5


async def test_each_entry_says_what_it_is_how_old_and_what_to_do() -> None:
    by_id = {account["id"]: account for account in (await review(scope="all"))["accounts"]}
    assert by_id["ibkr"] == {
        "type": "broker",
        "id": "ibkr",
        "name": "Interactive Brokers",
        "last_sync": ago(days=10),
        "is_stale": True,
        "suggested_action": 'Call sync_broker with broker_id "ibkr".',
    }
    assert by_id["alpaca"]["is_stale"] is False
    assert "not configured" in by_id["tos"]["suggested_action"]
    assert by_id["chk-1"]["type"] == "bank"
    assert by_id["chk-1"]["last_updated"] == ago(days=8)
    assert "import_bank_statement" in by_id["chk-1"]["suggested_action"]
    assert by_id["sav-1"]["suggested_action"].startswith("None")


@pytest.mark.parametrize(
    ("last_sync", "stale"),
    [
        (ago(days=7), False),  # exactly the threshold is not beyond it
        (ago(days=7, seconds=1), True),
        ("2026-03-20T11:59:59Z", False),
        ("2026-03-20T05:00:00", False),  # without an offset: UTC
        ("2026-04-01T00:00:00+00:00", False),
        (None, True),
        ("", True),
        ("last week", True),
        (1_700_000_000, True),
    ],
)
async def test_stale_means_strictly_older_and_no_date_is_stale(last_sync: Any, stale: bool) -> None:
    brokers = [{"broker_id": "b", "name": "B", "last_sync": last_sync}]
    (account,) = (await review({"GET /brokers": brokers, "GET /banking/accounts": []}, scope="all"))["accounts"]
    assert account["is_stale"] is stale


async def test_a_time_without_an_offset_is_utc_wherever_the_server_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = [{"broker_id": "b", "name": "B", "last_sync": "2026-03-19T12:00:00"}]
    answers = {"GET /brokers": brokers, "GET /banking/accounts": []}
    try:
        for zone in ("Asia/Tokyo", "America/New_York"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            for days, stale in ((0.99, True), (1.01, False)):
                (account,) = (await review(answers, scope="all", stale_threshold_days=days))["accounts"]
                assert account["is_stale"] is stale
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_the_threshold_is_the_callers() -> None:
    assert ids(await review(stale_threshold_days=9)) == ["ibkr", "tos"]
    assert ids(await review(stale_threshold_days=0)) == ["ibkr", "alpaca", "tos", "chk-1", "sav-1"]


async def test_no_accounts_is_an_empty_review() -> None:
    found = await review({"GET /brokers": [], "GET /banking/accounts": []})
    assert (found["total_accounts"], found["accounts"]) == (0, [])


@pytest.mark.parametrize("failure", [DOWN, refused(500, "It failed."), Turn({"strange": 1}), Turn("no")])
async def test_one_source_that_fails_leaves_the_other_half_with_a_note(failure: Any) -> None:
    found = await review({**BOTH, "GET /banking/accounts": failure})
    assert ids(found) == ["ibkr", "tos"]
    assert found["total_accounts"] == 3
    assert "bank accounts are missing" in found["message"]
    found = await review({**BOTH, "GET /brokers": failure})
    assert ids(found) == ["chk-1"]
    assert "brokers are missing" in found["message"]


async def test_both_sources_failing_is_an_error() -> None:
    with pytest.raises(BackendUnreachable):
        await review({})


async def test_wrapped_lists_and_entries_that_are_no_objects_are_understood() -> None:
    found = await review({"GET /brokers": {"items": BROKERS}, "GET /banking/accounts": [None, 3, *BANKS]}, scope="all")
    assert found["total_accounts"] == 5


async def test_a_client_gets_the_checklist() -> None:
    stage = Stage(FakeBackend({**BOTH, "POST /mcp-guard/check": {"allowed": True}}))
    answer = await (await stage.connect()).call("get_account_review_checklist", scope="all")
    assert answer["structuredContent"]["total_accounts"] == 5
