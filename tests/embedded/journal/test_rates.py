"""Stored exchange rates: how old one may be, which of several is taken, and how much of what is missing is told."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.journal.exchange import OwnRate, own_rate
from zorivest_rpc.embedded.values.kinds import AssetClass

SHOWN = 20  # rows of a list of what is missing; its count is whole


async def give(journal: Journal, day: str, base: str, quote: str, rate: float) -> dict[str, Any]:
    body = {"day": day, "base": base, "quote": quote, "rate": rate}
    answer: dict[str, Any] = await journal.expect(201, "POST", "/exchange-rates", body)
    return answer


async def earn(journal: Journal, amount: int, currency: str, day: str, symbol: str = "SAP") -> None:
    """A round trip of one day that earned an amount."""
    paid = {"instrument": symbol, "currency": currency}
    await journal.buy(1, 100, time=f"{day}T15:00:00Z", **paid)
    await journal.sell(1, 100 + amount, time=f"{day}T15:30:00Z", **paid)


@pytest.mark.parametrize(
    ("day", "total"),
    [
        ("2026-03-02", 20),  # its own day
        ("2026-03-09", 20),  # seven days later
        ("2026-03-10", None),  # eight
        ("2026-03-01", None),  # the day before it was published
    ],
)
async def test_a_rate_serves_for_a_week_and_never_backwards(journal: Journal, day: str, total: int | None) -> None:
    await give(journal, "2026-03-02", "EUR", "USD", 2)
    await earn(journal, 10, "EUR", day)
    found = await journal.get("/analytics/expectancy", params={"period": "all"})
    if total is None:
        assert (found["total_pnl"], found["trade_count"]) == (0, 0)
        assert found["missing_rates"] == [{"from": "EUR", "to": "USD", "day": day}]
        assert f"on {day}" in found["currency_note"]
    else:
        assert (found["total_pnl"], "missing_rates" in found) == (total, False)


async def test_the_latest_rate_is_taken_and_a_cross_rate_goes_through_the_euro_first(journal: Journal) -> None:
    await give(journal, "2026-03-02", "EUR", "USD", 9)
    await give(journal, "2026-03-03", "EUR", "USD", 2)
    await give(journal, "2026-03-03", "EUR", "CHF", 4)
    await give(journal, "2026-03-03", "GBP", "CHF", 8)  # pounds would make a franc worth something else
    await give(journal, "2026-03-03", "GBP", "USD", 1)
    await earn(journal, 10, "EUR", "2026-03-04")
    await earn(journal, 40, "CHF", "2026-03-04", "NESN")
    # 10 euros are 20 dollars; 40 francs are 10 euros, 20 dollars
    found = await journal.get("/analytics/expectancy", params={"period": "all"})
    assert found["total_pnl"] == 40
    assert found["converted"] == [
        {"kind": "results", "currency": "CHF", "count": 1},
        {"kind": "results", "currency": "EUR", "count": 1},
    ]


async def test_a_rate_counts_as_added_changed_or_unchanged(journal: Journal) -> None:
    first, same, other = [await give(journal, "2026-03-02", "EUR", "USD", rate) for rate in (1.1, 1.1, 1.2)]
    assert [(one["added"], one["changed"], one["unchanged"]) for one in (first, same, other)] == [
        (1, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
    ]
    await give(journal, "2026-03-02", "GBP", "CHF", 3)
    await give(journal, "2026-03-03", "GBP", "USD", 1)
    for query, rates in (
        ({}, [1, 1.2, 3]),
        ({"currency": "USD"}, [1, 1.2]),
        ({"currency": "CHF"}, [3]),
        ({"day": "2026-03-02"}, [1.2, 3]),
    ):
        listed = await journal.get("/exchange-rates", params=query)
        assert ([row["rate"] for row in listed["items"]], listed["total"]) == (rates, len(rates))


async def test_a_list_of_missing_rates_is_short_and_its_count_is_whole(journal: Journal) -> None:
    days = [(date(2026, 3, 2) + timedelta(days=number)).isoformat() for number in range(SHOWN + 2)]
    for number, day in enumerate(days):
        await earn(journal, 1, "EUR", day, f"S{number:02d}")
    results = await journal.get("/analytics/expectancy", params={"period": "all"})
    taxes = await journal.get("/tax/lots", params={"status": "all"})
    for answer in (results, taxes):
        assert [row["day"] for row in answer["missing_rates"]] == days[:SHOWN]
        assert answer["missing_rate_count"] == SHOWN + 2
        assert f"between {days[0]} and {days[-1]}" in answer["currency_note"]
    assert len(taxes["unconverted"]) == SHOWN + 2
    for day in days:
        await give(journal, day, "EUR", "USD", 1)
    taxes = await journal.get("/tax/lots", params={"status": "all"})
    assert [(row["ticker"], row["count"]) for row in taxes["converted"]] == [(f"S{n:02d}", 2) for n in range(SHOWN)]
    assert "missing_rates" not in taxes


@pytest.mark.parametrize("asset_class", [kind.value for kind in AssetClass])
@pytest.mark.parametrize("price", ["-2", "0", "4"])
@pytest.mark.parametrize(("rate", "base"), [(None, None), (None, "EUR"), ("1.25", None), ("1.25", ""), ("1.25", "GBP")])
def test_a_trade_brings_the_rate_of_its_file_or_as_a_pair_its_price(
    asset_class: str, price: str, rate: str | None, base: str | None
) -> None:
    """A pair of 4 dollars a euro makes a dollar a quarter of a euro; other things at 4 dollars make no rate."""
    given = None if rate is None else Decimal(rate)
    row = SimpleNamespace(
        asset_class=asset_class, symbol="EUR/USD", currency="USD", price=Decimal(price), fx_rate=given, fx_base=base
    )
    if rate and base:
        expected: OwnRate | None = OwnRate("GBP", Decimal("1.25"))
    else:
        expected = OwnRate("EUR", Decimal("0.25")) if (asset_class, price) == ("FOREX", "4") else None
    assert own_rate(row) == expected


@pytest.mark.parametrize(
    ("symbol", "currency"), [("EUR/USD", "EUR"), ("EUR/USD", "JPY"), ("E1/USD", "USD"), ("EURUSD", "USD")]
)
def test_a_pair_that_is_not_paid_in_its_second_currency_has_no_rate(symbol: str, currency: str) -> None:
    row = SimpleNamespace(
        asset_class="FOREX", symbol=symbol, currency=currency, price=Decimal(4), fx_rate=None, fx_base=None
    )
    assert own_rate(row) is None
