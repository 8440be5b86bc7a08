"""Completions offer what is there, quickly or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.serving.tools.stage import DOWN, FakeBackend, Stage, Turn, never, refused
from zorivest_rpc.serving.audience import Policy

OPEN = {"is_enabled": False, "is_locked": False}
TRADES = {
    "items": [
        {"exec_id": "T-003", "instrument": "AAPL STK (USD)", "symbol": "AAPL"},
        {"exec_id": "T-002", "instrument": "SPY STK (USD)"},
        {"exec_id": "T-001", "instrument": "AAPL STK (USD)", "symbol": "AAPL"},
        {"exec_id": 5, "instrument": None},
    ]
}
FULL: dict[str, Any] = {
    "GET /mcp-guard/status": OPEN,
    "GET /trades": TRADES,
    "GET /trade-plans": {"items": [{"ticker": "amd"}, {"ticker": "SPY"}]},
    "GET /accounts": [{"account_id": "acc-1", "name": "IBKR margin"}, {"account_id": "acc-2", "name": "Roth IRA"}],
    "GET /banking/accounts": [
        {"account_id": "chk-1", "name": "Checking"},
        {"account_id": "acc-1", "name": "IBKR margin"},
    ],
}


async def completed(ref: str, argument: str, value: str = "", answers: dict[str, Any] = FULL, **options: Any) -> Any:
    client = await Stage(FakeBackend(answers), **options).connect()
    kind = {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
    found = await client.request("completion/complete", ref=kind, argument={"name": argument, "value": value})
    return found["completion"]["values"] if "completion" in found else found["error"]


async def test_toolset_names_need_no_backend() -> None:
    assert await completed("zorivest://toolsets/{toolset}", "toolset", "tr", {}) == [
        "trade-analytics",
        "trade-planning",
    ]
    assert len(await completed("zorivest://toolsets/{toolset}", "toolset", "", {})) == 9


@pytest.mark.parametrize(("typed", "values"), [("", ["AAPL", "SPY", "AMD"]), ("a", ["AAPL", "AMD"]), ("zz", [])])
async def test_tickers_are_those_of_trades_and_plans_each_once(typed: str, values: list[str]) -> None:
    assert await completed("pre_trade_check", "ticker", typed) == values


@pytest.mark.parametrize(
    ("typed", "values"),
    [("", ["acc-1", "acc-2", "chk-1"]), ("ACC", ["acc-1", "acc-2"]), ("roth", ["acc-2"]), ("chk-1", ["chk-1"])],
)
async def test_accounts_are_found_by_id_and_by_name(typed: str, values: list[str]) -> None:
    for prompt in ("weekly_review", "pre_trade_check", "tax_year_end"):
        assert await completed(prompt, "account_id", typed) == values


async def test_a_trade_is_found_by_its_id_or_its_instrument() -> None:
    assert await completed("trade_post_mortem", "exec_id", "T-00") == ["T-003", "T-002", "T-001"]
    assert await completed("trade_post_mortem", "exec_id", "spy") == ["T-002"]


async def test_a_direction_is_one_of_two() -> None:
    assert await completed("pre_trade_check", "direction", "s", {}) == ["SHORT"]


async def test_one_source_that_fails_leaves_the_other() -> None:
    assert await completed("pre_trade_check", "ticker", "", {**FULL, "GET /trade-plans": DOWN}) == ["AAPL", "SPY"]
    assert await completed("weekly_review", "account_id", "", {**FULL, "GET /accounts": refused(404)}) == [
        "chk-1",
        "acc-1",
    ]


@pytest.mark.parametrize("guard", [DOWN, refused(403), Turn(None), Turn({"is_locked": True}), Turn({"is_locked": 0})])
async def test_nothing_is_offered_unless_the_guard_is_known_to_be_open(guard: Any) -> None:
    assert await completed("pre_trade_check", "ticker", "", {**FULL, "GET /mcp-guard/status": guard}) == []


async def test_completing_does_not_count_as_a_call() -> None:
    stage = Stage(FakeBackend(FULL))
    client = await stage.connect()
    ref = {"type": "ref/prompt", "name": "pre_trade_check"}
    await client.request("completion/complete", ref=ref, argument={"name": "ticker", "value": ""})
    assert {asked.method for asked in stage.backend.asked} == {"GET"}


@pytest.mark.parametrize("answers", [{}, {**FULL, "GET /trades": never}, dict.fromkeys(FULL, Turn("nonsense"))])
async def test_a_backend_that_is_away_slow_or_strange_offers_nothing(answers: dict[str, Any]) -> None:
    async with asyncio.timeout(5):
        assert await completed("trade_post_mortem", "exec_id", "", answers) == []


async def test_what_a_session_may_not_call_it_is_not_offered_either() -> None:
    policy = Policy(excluded=frozenset(("list_trades", "list_bank_accounts")))
    assert await completed("pre_trade_check", "ticker", policy=policy) == []
    assert await completed("pre_trade_check", "account_id", policy=policy) == []


async def test_unknown_arguments_offer_nothing_and_unknown_names_are_errors() -> None:
    assert await completed("pre_trade_check", "entry") == []
    assert await completed("pre_trade_check", "colour") == []
    assert await completed("zorivest://images/{image_id}", "image_id") == []
    assert "unknown prompt" in (await completed("no_such_prompt", "ticker"))["message"]
