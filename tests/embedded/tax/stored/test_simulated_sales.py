"""Sales that were not made: simulated, proposed for harvesting, and priced for the open gains beside an estimate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.driver import Journal
from tests.embedded.tax.stored.asking import Satisfies, ago, lots, today
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.errors import Refusal
from zorivest_rpc.embedded.market.cache import remember
from zorivest_rpc.embedded.market.market import Market
from zorivest_rpc.embedded.market.shapes import ProviderQuote


async def test_a_simulated_sale_changes_nothing_and_tells_everything(journal: Journal, satisfies: Satisfies) -> None:
    await journal.buy(10, 100, ago(500))
    await journal.buy(10, 120, ago(60))
    await journal.expect(
        200, "PUT", "/settings", {"tax.agi_estimate": 100_000, "tax.state_tax_rate": 0.1, "tax.filing_status": "SINGLE"}
    )
    before = await lots(journal, "all")
    ask = {"ticker": "spy", "action": "SELL", "quantity": 15, "price": 130, "account_id": "A1"}
    answer = await journal.expect(200, "POST", "/tax/simulate", ask)
    satisfies("simulate_tax_impact", answer)
    # first in, first out: 10 long-term at a gain of 300, 5 short-term at a gain of 50
    assert (answer["summary"]["lt_gain"], answer["summary"]["st_gain"]) == (300, 50)
    # a single with 100000 a year is in the 22 % bracket, long-term gains at 15 %, the state takes 10 % of 350
    tax = answer["estimated_tax"]
    assert (tax["federal_st"], tax["federal_lt"], tax["state"], tax["total"]) == (11, 45, 35, 91)
    assert answer["lots"] == answer["lots_to_close"]
    (saving,) = answer["hold_savings"]
    assert saving["saving"] == 3.5  # 50 at 15 % instead of 22 %
    assert answer["profile_source"] == "profile"
    newest = await journal.expect(200, "POST", "/tax/simulate", {**ask, "quantity": 10, "cost_basis_method": "lifo"})
    assert newest["summary"]["realized_gain"] == 100
    lot_id = before[-1]["lot_id"]
    named = {**ask, "quantity": 4, "cost_basis_method": "specific_id", "lot_ids": [lot_id]}
    chosen = await journal.expect(200, "POST", "/tax/simulate", named)
    assert [lot["lot_id"] for lot in chosen["lots"]] == [lot_id]
    assert await lots(journal, "all") == before


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"ticker": "QQQ"}, 404, "no_open_lots"),
        ({"account_id": "A2"}, 404, "no_open_lots"),
        ({"quantity": 0}, 422, "validation_error"),
        ({"price": -1}, 422, "validation_error"),
        ({"action": "hold"}, 422, "validation_error"),
        ({"lot_ids": ["lot-E0001"]}, 422, "validation_error"),
        ({"cost_basis_method": "SPEC_ID", "lot_ids": ["lot-none"]}, 422, "unknown_lot"),
        ({"cost_basis_method": "random"}, 422, "validation_error"),
        ({"ticker": ""}, 422, "validation_error"),
        ({"account_id": None}, 422, "validation_error"),
    ],
)
async def test_a_sale_that_cannot_be_simulated(
    journal: Journal, change: dict[str, Any], status: int, code: str
) -> None:
    await journal.buy(10, 100, "2025-01-06")
    ask = {"ticker": "SPY", "action": "sell", "quantity": 5, "price": 130, "account_id": "A1", **change}
    refused = await journal.refused(status, "POST", "/tax/simulate", ask)
    assert refused["error"] == code


async def test_a_sale_is_booked_as_it_was_simulated(journal: Journal) -> None:
    # 20 shares lose 12 each; 10 were bought a week ago in another account: 240 lost, 120 disallowed
    await journal.buy(20, 52, ago(300))
    await journal.buy(10, 41, ago(7), account_id="A2")
    ask = {"ticker": "SPY", "action": "SELL", "quantity": 20, "price": 40, "account_id": "A1"}
    simulated = await journal.expect(200, "POST", "/tax/simulate", ask)
    summary = simulated["summary"]
    assert (summary["economic_gain"], summary["disallowed_loss"], summary["realized_gain"]) == (-240, 120, -120)
    (affected,) = simulated["wash_sale_risk"]["affected_lots"]
    assert (affected["account_id"], affected["matched_quantity"], affected["disallowed_loss"]) == ("A2", 10, 120)
    await journal.sell(20, 40, ago(0))
    (booked,) = await lots(journal, "closed")
    assert booked["realized_gain_loss"] == -120


async def test_a_fraction_of_a_named_lot_can_be_simulated(journal: Journal) -> None:
    await journal.buy(10, 100, ago(300))
    second = (await journal.buy(1.5, 120, ago(200)))["exec_id"]
    ask = {"ticker": "SPY", "action": "SELL", "quantity": 0.75, "price": 130, "account_id": "A1"}
    named = {**ask, "cost_basis_method": "SPEC_ID", "lot_ids": [f"lot-{second}"]}
    answer = await journal.expect(200, "POST", "/tax/simulate", named)
    (row,) = answer["lots"]
    assert (row["lot_id"], row["quantity"], row["gain_loss"]) == (f"lot-{second}", 0.75, 7.5)
    too_much = await journal.refused(422, "POST", "/tax/simulate", {**named, "quantity": 1.75})
    assert too_much["error"] == "insufficient_quantity"


async def test_losses_to_harvest_with_what_would_spoil_them(journal: Journal, satisfies: Satisfies) -> None:
    await journal.buy(100, 50, ago(200), instrument="VTI")
    await journal.sell(1, 40, ago(60), instrument="VTI")  # the last known price
    answer = await journal.get("/tax/harvest")
    satisfies("harvest_losses", answer)
    (found,) = answer["opportunities"]
    # 99 shares lost 10 each
    assert (found["ticker"], found["unrealized_loss"], found["wash_risk"]) == ("VTI", 990, False)
    assert (found["price"], found["price_source"], found["stale"]) == (40, "last_trade", True)
    assert "ITOT" in found["replacements"]
    assert (answer["total_harvestable"], answer["net_harvestable"]) == (990, 990)
    assert (await journal.get("/tax/harvest", params={"min_loss_threshold": "1000"}))["opportunities"] == []
    await journal.buy(1, 39, ago(3), instrument="VTI", account_id="A2")
    risky = await journal.get("/tax/harvest", params={"account_id": "A1"})
    (found,) = risky["opportunities"]
    # at 39 now: 99 * 11; the purchase of three days ago is in the way for 28 more
    assert (found["unrealized_loss"], found["wash_risk"], found["days_to_clear"]) == (1089, True, 28)
    # one share replaces one: 11 of the loss move into it, the rest can be taken
    assert (found["disallowed_loss"], found["allowed_loss"]) == (11, 1078)
    assert (risky["total_wash_risk"], risky["net_harvestable"]) == (11, 1078)
    clean = await journal.get("/tax/harvest", params={"exclude_wash_risk": "true", "account_id": "A1"})
    assert clean["opportunities"] == []


async def test_a_stored_bar_prices_what_is_held(journal: Journal) -> None:
    await journal.buy(10, 100, ago(40))
    bar = {"time": f"{ago(1)}T00:00:00+00:00", "open": 1, "high": 91, "low": 1, "close": 90, "volume": 1}
    body = {"symbol": "SPY", "resolution": "1d", "bars": [bar], "source": "test"}
    await journal.expect(201, "POST", "/market-data/bars", body)
    (lot,) = await lots(journal)
    assert (lot["current_price"], lot["price_source"], lot["unrealized_gain_loss"]) == (90, "bar", -100)


async def test_a_quote_asked_for_before_prices_what_is_held(journal: Journal, backend: Embedded) -> None:
    await journal.buy(10, 100, ago(40))
    now = datetime.now(UTC)
    quote = ProviderQuote(ticker="SPY", price=Decimal("80.5"), provider="x", timestamp=now)
    await backend.database().write(lambda conn: remember(conn, "quote", "SPY", "x", quote, now))
    (found,) = (await journal.get("/tax/harvest"))["opportunities"]
    # ten shares at a loss of 19.50 each
    assert (found["unrealized_loss"], found["price_source"], found["stale"]) == (195, "quote", False)
    old = now - timedelta(days=2)
    quote = ProviderQuote(ticker="SPY", price=Decimal(81), provider="x", timestamp=old)
    await backend.database().write(lambda conn: remember(conn, "quote", "SPY", "x", quote, old))
    (found,) = (await journal.get("/tax/harvest"))["opportunities"]
    assert (found["price"], found["price_source"], found["stale"]) == (81, "cached_quote", True)


async def test_open_gains_are_shown_beside_the_estimate(journal: Journal) -> None:
    await journal.buy(10, 100, ago(20))
    await journal.sell(1, 150, ago(10))
    answer = await journal.expect(200, "POST", "/tax/estimate", {"include_unrealized": True, "tax_year": today().year})
    assert answer["unrealized"]["short_term"] == 450
    assert "unrealized" not in await journal.expect(200, "POST", "/tax/estimate", {})


@pytest.mark.parametrize("kind", ["ira", "broker"])
@pytest.mark.parametrize("only", [None, "A1"])
async def test_open_losses_are_estimated_as_they_would_be_booked(journal: Journal, kind: str, only: str | None) -> None:
    """Ten shares 20 below their price, four of them replaced last week: in an IRA the loss of four is gone, and so it
    is in an own account that is not sold with them; sold with them it counts there."""
    await journal.buy(10, 100, ago(200))
    await journal.buy(4, 80, ago(5), account_id="R1")
    await journal.expect(200, "PUT", "/accounts/R1", {"account_type": kind, "is_tax_advantaged": kind == "ira"})
    ask = {"include_unrealized": True, "tax_year": today().year, **({} if only is None else {"account_id": only})}
    told = (await journal.expect(200, "POST", "/tax/estimate", ask))["unrealized"]
    is_replaced = kind == "ira" or only is not None
    assert (told["net"], told["disallowed_loss"]) == ((-120, 80) if is_replaced else (-200, 0))
    sale = {"ticker": "SPY", "account_id": "A1", "quantity": 10, "price": 80, "action": "sell"}
    simulated = (await journal.expect(200, "POST", "/tax/simulate", sale))["summary"]
    assert (simulated["realized_gain"], simulated["disallowed_loss"]) == (-120, 80)  # sold alone


async def test_positions_are_priced_anew_where_a_provider_has_a_key(
    journal: Journal, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def quote(market: Market, ticker: str) -> dict[str, Any]:
        asked.append(ticker)
        if ticker == "QQQ":
            raise Refusal("market_unavailable", "No provider answers.")
        now = datetime.now(UTC)
        told = ProviderQuote(ticker=ticker, price=Decimal(80), provider="x", timestamp=now)
        await backend.database().write(lambda conn: remember(conn, "quote", ticker, "x", told, now))
        return {}

    monkeypatch.setattr(Market, "quote", quote)
    await journal.buy(10, 100, ago(40))
    await journal.buy(10, 50, ago(40), instrument="QQQ")
    await journal.buy(1, 2, ago(40), instrument="SPY 301220 C 500")  # options have no provider here
    (unasked, *_) = await lots(journal)
    assert (unasked["current_price"], unasked["price_source"], unasked["price_stale"]) == (100, "last_trade", True)
    assert asked == []  # no provider is connected
    await journal.expect(200, "PUT", "/market-data/providers/finnhub", {"api_key": "k" * 20, "is_enabled": True})
    answer = await journal.get("/tax/lots")
    assert asked == ["SPY", "QQQ"]  # the largest first
    found = {lot["ticker"]: lot for lot in answer["lots"]}
    fresh = found["SPY"]
    assert (fresh["current_price"], fresh["price_source"], fresh["price_stale"]) == (80, "quote", False)
    assert (fresh["unrealized_gain_loss"], fresh["price_as_of"]) == (-200, today().isoformat())
    assert (found["QQQ"]["price_source"], found["QQQ"]["price_as_of"]) == ("last_trade", ago(40))
    assert answer["summary"]["stale_tickers"] == ["QQQ", "SPY 301220 C 500"]
    estimate = await journal.expect(200, "POST", "/tax/estimate", {"include_unrealized": True})
    assert asked == ["SPY", "QQQ", "QQQ"]  # a fresh quote is not asked for again
    told = estimate["unrealized"]
    assert told["prices"]["SPY"] == {"price": 80, "source": "quote", "stale": False, "as_of": today().isoformat()}
    assert told["stale_tickers"] == ["QQQ", "SPY 301220 C 500"]
    ask = {"ticker": "SPY", "action": "sell", "quantity": 5, "price": 130, "account_id": "A1"}
    simulated = await journal.expect(200, "POST", "/tax/simulate", ask)
    assert (simulated["market_price"]["price"], simulated["market_price"]["source"]) == (80, "quote")
