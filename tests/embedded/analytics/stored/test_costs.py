"""Costs in the journal's own lines: every kind of fee, foreign charges at the rate of their day, and routed volume."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.embedded.driver import Journal

KINDS = ("commission", "exchange", "regulatory", "ecn", "clearing", "platform", "other")


async def open_account(journal: Journal, name: str, **more: Any) -> None:
    await journal.expect(201, "POST", "/accounts", {"account_id": name, "name": name, "account_type": "broker", **more})


async def give_rate(journal: Journal, day: str, rate: float) -> None:
    body = {"day": day, "base": "EUR", "quote": "USD", "rate": rate}
    await journal.expect(201, "POST", "/exchange-rates", body)


def amounts(lines: list[dict[str, Any]], name: str) -> dict[tuple[str | None, bool], float]:
    return {(line[name], line.get("is_estimated", False)): line["amount"] for line in lines}


async def test_every_kind_of_fee_is_kept_listed_and_added(journal: Journal) -> None:
    lines = [
        {"fee_type": kind, "amount": 2**number, "description": f"for {kind}", "is_estimated": number % 2 == 0}
        for number, kind in enumerate(KINDS)
    ]
    await journal.buy(10, 100, commission=1, fees=126, ledger=lines)
    shown = await journal.get("/trades/E0001/fees")
    assert shown == {"items": [{**line, "currency": "USD"} for line in lines], "total_fees": 127, "currency": "USD"}
    found = await journal.get("/fees/summary", params={"period": "2026-03"})
    assert amounts(found["by_type"], "fee_type") == {
        (line["fee_type"], line["is_estimated"]): line["amount"] for line in lines
    }
    await journal.refused(422, "POST", "/trades", {"instrument": "SPY", "ledger": [{"fee_type": "bribe", "amount": 1}]})


async def test_a_trade_without_lines_shows_its_commission_and_its_fees(journal: Journal) -> None:
    await journal.buy(10, 100, commission=2, fees=0.25, currency="EUR")
    await journal.sell(10, 100, currency="EUR")
    line = {"currency": "EUR", "description": "", "is_estimated": False}
    assert await journal.get("/trades/E0001/fees") == {
        "items": [{"fee_type": "commission", "amount": 2, **line}, {"fee_type": "other", "amount": 0.25, **line}],
        "total_fees": 2.25,
        "currency": "EUR",
    }
    assert await journal.get("/trades/E0002/fees") == {"items": [], "total_fees": 0, "currency": None}


async def test_a_fee_of_a_month_is_answered_whole_and_in_the_money_of_its_account(journal: Journal) -> None:
    await open_account(journal, "E1", currency="EUR")
    body = {"fee_type": "platform", "amount": 7.5, "period_month": "2026-03", "description": "feed"}
    expected = {**body, "account_id": None, "source": "manual", "currency": "USD"}
    first = await journal.expect(201, "POST", "/fees/periodic", body)
    assert first == {"id": first["id"], **expected}
    second = await journal.expect(201, "POST", "/fees/periodic", {**body, "account_id": "E1"})
    assert second == {"id": second["id"], **expected, "account_id": "E1", "currency": "EUR"}
    third = await journal.expect(201, "POST", "/fees/periodic", {**body, "account_id": "E1", "currency": "GBP"})
    assert third["currency"] == "GBP"
    listed = await journal.get("/fees/periodic")
    assert (listed["total"], [row["id"] for row in listed["items"]]) == (3, [third["id"], second["id"], first["id"]])
    found = await journal.get("/fees/summary", params={"period": "2026-03"})
    assert [(line["fee_type"], line["amount"]) for line in found["by_type"]] == [("platform", 7.5)]
    assert found["unconverted"] == [
        {"kind": "fees", "currency": "EUR", "count": 1, "amount": 7.5},
        {"kind": "fees", "currency": "GBP", "count": 1, "amount": 7.5},
    ]
    for month in ("2026-02", "2026-04"):
        assert (await journal.get("/fees/summary", params={"period": month}))["total_fees"] == 0


async def test_a_fee_of_a_month_may_be_of_every_kind(journal: Journal) -> None:
    for number, kind in enumerate(KINDS):
        body = {"fee_type": kind, "amount": 2**number, "period_month": "2026-03"}
        assert (await journal.expect(201, "POST", "/fees/periodic", body))["fee_type"] == kind
    found = await journal.get("/fees/summary", params={"period": "2026-03"})
    assert amounts(found["by_type"], "fee_type") == {(kind, False): 2**number for number, kind in enumerate(KINDS)}


async def test_foreign_charges_count_at_the_rate_of_their_day(journal: Journal) -> None:
    await open_account(journal, "A1", broker_id="webull")
    await open_account(journal, "E1", currency="EUR", broker_id="ibkr_pro")
    await give_rate(journal, "2026-03-01", 4)  # of the month, for what is paid by the month
    await give_rate(journal, "2026-03-03", 2)
    await give_rate(journal, "2026-03-04", 3)
    lines = [{"fee_type": "exchange", "amount": 1}, {"fee_type": "ecn", "amount": 0.5, "is_estimated": True}]
    euro: dict[str, Any] = {"instrument": "SAP", "currency": "EUR"}
    await journal.buy(1, 100, "2026-03-03", commission=1.5, fees=0.5, **euro)  # 3 and 1 dollars
    await journal.sell(1, 110, "2026-03-04", fees=1.5, ledger=lines, broker="lightspeed", **euro)  # 3 and 1.5 dollars
    await journal.buy(1, 100, "2026-03-03", commission=8, instrument="TM", currency="JPY")  # without a rate
    await journal.buy(1, 100, "2026-03-03", commission=0.25)
    month = {"fee_type": "platform", "amount": 5, "period_month": "2026-03", "account_id": "E1"}
    await journal.expect(201, "POST", "/fees/periodic", month)  # 20 dollars
    found = await journal.get("/fees/summary", params={"period": "2026-03"})
    assert amounts(found["by_type"], "fee_type") == {
        ("commission", False): 3.25,
        ("other", False): 1,
        ("exchange", False): 3,
        ("ecn", True): 1.5,
        ("platform", False): 20,
    }
    assert amounts(found["by_broker"], "broker_id") == {
        ("webull", False): 4.25,
        ("lightspeed", False): 4.5,
        ("ibkr_pro", False): 20,
    }
    assert (found["total_fees"], found["trade_count"], found["currency"]) == (28.75, 3, "USD")
    # earned 10 euros before fees, at the rate of the day it was closed: 30 dollars
    assert found["pnl_pct"] == pytest.approx(100 * 28.75 / 30, abs=0.01)
    assert found["converted"] == [
        {"kind": "fees", "currency": "EUR", "count": 5},
        {"kind": "results", "currency": "EUR", "count": 1},
    ]
    assert found["unconverted"] == [{"kind": "fees", "currency": "JPY", "count": 1, "amount": 8}]
    of_account = await journal.get("/fees/summary", params={"period": "2026-03", "account_id": "E1"})
    assert (of_account["currency"], of_account["total_fees"], of_account["trade_count"]) == ("EUR", 5, 0)


async def test_routed_volume_leaves_futures_out_and_takes_foreign_fills_at_their_rate(journal: Journal) -> None:
    await open_account(journal, "A1", broker_id="webull")
    await give_rate(journal, "2026-03-03", 2)
    await journal.buy(10, 100, "2026-03-03")  # 1 000
    await journal.buy(2, 5, "2026-03-03", instrument="SPY 261218 C 500")  # 2 × 5 × 100: 1 000
    await journal.buy(10, 100, "2026-03-03", instrument="SAP", currency="EUR")  # 2 000
    await journal.buy(10, 100, "2026-03-03", instrument="TM", currency="JPY")  # without a rate
    await journal.buy(1, 5000, "2026-03-03", instrument="ESZ6")
    await journal.buy(1, 20000, "2026-03-03", instrument="FDAX 12-26")  # in euros
    await journal.buy(5, 100, "2026-03-03", broker="lightspeed")
    await journal.buy(1, 5000, "2026-03-03", broker="schwab", instrument="ESZ6")
    found = await journal.get("/analytics/pfof-report", params={"account_id": "A1", "period": "2026-03"})
    assert [(line["routing"], line["trades"], line["notional"], line["cost"]) for line in found["by_routing"]] == [
        ("dma", 1, 500, 0),
        ("pfof", 3, 4000, 1.44),  # 3.8 basis points less 0.2 of 4 000
    ]
    assert (found["trades_analyzed"], found["estimated_cost"], found["routing_type"]) == (4, 1.44, "mixed")
    assert found["annualized"] == pytest.approx(1.44 * 365 / 31, abs=0.005)
    assert found["converted"] == [{"kind": "volume", "currency": "EUR", "count": 1}]
    assert found["unconverted"] == [{"kind": "volume", "currency": "JPY", "count": 1, "amount": 1000}]
    both = await journal.get("/analytics/cost-of-free", params={"period": "2026-03"})
    assert both["converted"] == [{"kind": "volume", "currency": "EUR", "count": 1}]
    always = await journal.get("/analytics/pfof-report", params={"account_id": "A1", "period": "all"})
    days = (datetime.now(UTC) - datetime(2026, 3, 3, 15, tzinfo=UTC)).days + 1  # the first day counts as well
    assert always["annualized"] == pytest.approx(1.44 * 365 / days, abs=0.02)


async def test_slippage_is_measured_per_broker_and_not_on_futures(journal: Journal) -> None:
    await open_account(journal, "A1", broker_id="webull")
    quoted = {"nbbo_bid": 99, "nbbo_ask": 100}
    for number in range(20):  # bought at 101 over an offer of 100: 1 / 101; sold at 98 under a bid of 99: 1 / 98
        if number % 2:
            await journal.buy(1, 101, **(quoted | {"nbbo_bid": 100} if number == 1 else quoted))  # one quote is locked
        else:
            await journal.sell(1, 98, **quoted)
    await journal.buy(1, 200, instrument="ESZ6", **quoted)
    await journal.buy(1, 200, nbbo_bid=101, nbbo_ask=100)  # crossed
    found = await journal.get("/analytics/pfof-report", params={"account_id": "A1", "period": "all"})
    (line,) = found["by_routing"]
    assert (line["trades"], line["notional"], line["basis"]) == (21, 10 * 101 + 10 * 98 + 200, "measured")
    assert line["avg_slippage_bps"] == pytest.approx((1 / 101 + 1 / 98) / 2 * 10_000, abs=0.006)


async def test_slippage_of_fills_without_a_rate_stays_out_of_the_measure(journal: Journal) -> None:
    await open_account(journal, "A1", broker_id="webull")
    quoted = {"nbbo_bid": 99, "nbbo_ask": 100}
    for _ in range(19):  # 1 / 101 over the offer
        await journal.buy(1, 101, **quoted)
    await journal.buy(1, 200, instrument="TM", currency="JPY", **quoted)  # one half of its price over the offer
    await journal.buy(1, 200, instrument="TM", currency="JPY", nbbo_bid=101, nbbo_ask=100)  # crossed: measures nothing
    await journal.buy(1, 0, instrument="TM", currency="JPY", **quoted)  # for nothing: of no price is there a part
    await journal.buy(1, 200, instrument="FDAX 12-26", **quoted)  # in euros, without a rate either, and a future
    query = {"account_id": "A1", "period": "all"}
    found = await journal.get("/analytics/pfof-report", params=query)
    (line,) = found["by_routing"]
    assert (line["trades"], line["notional"], line["basis"], line["cost"]) == (19, 1919, "assumed", 0.69)
    assert "19 of 19 fills have quotes" in found["assumptions"][0]
    assert found["unconverted"] == [{"kind": "volume", "currency": "JPY", "count": 3, "amount": 400}]
    rate = {"day": "2026-03-02", "base": "USD", "quote": "JPY", "rate": 100}
    await journal.expect(201, "POST", "/exchange-rates", rate)
    found = await journal.get("/analytics/pfof-report", params=query)
    (line,) = found["by_routing"]
    assert (line["trades"], line["notional"], line["basis"]) == (22, 1923, "measured")
    assert line["avg_slippage_bps"] == pytest.approx((19 / 101 + 1 / 2) / 20 * 10_000, abs=0.006)
