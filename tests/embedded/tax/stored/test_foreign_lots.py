"""Tax lots in foreign money: which classes are translated, each fill at its own day, and what an answer says of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.driver import Journal

# paid in euros: an instrument of each class that can be written down, and how many units one of it is
CLASSES = {
    "EQUITY": ("SAP STK", 1),
    "OPTION": ("SAP 271217 C 50", 100),
    "CRYPTO": ("BTC-EUR", 1),
    "FUTURE": ("FDAX 12-26", 25),
    "FOREX": ("GBP/EUR", 1),
}
UNTRANSLATED = {"FUTURE", "FOREX"}  # §988 and §1256 have rules of their own


async def give(journal: Journal, day: str, rate: float) -> None:
    body = {"day": day, "base": "EUR", "quote": "USD", "rate": rate}
    await journal.expect(201, "POST", "/exchange-rates", body)


async def closed(journal: Journal) -> dict[str, Any]:
    answer: dict[str, Any] = await journal.get("/tax/lots", params={"status": "closed"})
    return answer


@pytest.mark.parametrize("kind", CLASSES)
async def test_every_class_is_translated_fill_by_fill_or_said_to_be_left_out(journal: Journal, kind: str) -> None:
    instrument, units = CLASSES[kind]
    await give(journal, "2026-03-02", 2)
    await give(journal, "2026-03-03", 4)
    paid: dict[str, Any] = {"instrument": instrument, "currency": "EUR"}
    bought = await journal.buy(2, 10, "2026-03-02", commission=1, **paid)
    await journal.sell(2, 12, "2026-03-03", commission=1, **paid)
    assert (bought["currency"], bought["asset_class"]) == ("EUR", kind)
    answer = await closed(journal)
    position = {"kind": "positions", "account_id": "A1", "currency": "EUR", "count": 2}
    if kind in UNTRANSLATED:
        assert answer["lots"] == []
        (told,) = answer["unconverted"]
        assert {name: told[name] for name in position} == position
        assert (told["reason"], answer["missing_rates"], answer["missing_rate_count"]) == ("not_translated", [], 0)
        assert "take their gain from the broker" in answer["currency_note"]
        assert "There is no rate" not in answer["currency_note"]
        return
    (lot,) = answer["lots"]
    # (2 × 10 × units + 1) at 2 dollars, (2 × 12 × units − 1) at 4
    assert lot["realized_gain_loss"] == (24 * units - 1) * 4 - (20 * units + 1) * 2
    (told,) = answer["converted"]
    assert {name: told[name] for name in position} == position
    assert {"unconverted", "missing_rates", "currency_note"}.isdisjoint(answer)


async def test_positions_without_a_rate_are_told_by_account_and_symbol_with_the_days_that_lack_one(
    journal: Journal,
) -> None:
    await give(journal, "2026-03-02", 2)
    for account in ("B2", "A1"):
        for name, currency in (("SAP", "EUR"), ("TM", "JPY"), ("VOD", "GBP")):
            more: dict[str, Any] = {"instrument": name, "currency": currency, "account_id": account}
            await journal.buy(2, 10, "2026-03-02", **more)
            await journal.sell(2, 12, "2026-03-04", **more)
    await journal.buy(1, 18_000, "2026-03-03", instrument="FDAX 12-26")
    await journal.buy(1, 10, "2026-03-02")
    await journal.sell(1, 11, "2026-03-04")
    answer = await closed(journal)
    # 2 × (12 − 10) euros at 2 dollars, in each account, and one dollar
    assert sorted((lot["ticker"], lot["account_id"], lot["realized_gain_loss"]) for lot in answer["lots"]) == [
        ("SAP", "A1", 8),
        ("SAP", "B2", 8),
        ("SPY", "A1", 1),
    ]
    assert answer["currency"] == "USD"
    assert [(one["account_id"], one["ticker"], one["currency"], one["count"]) for one in answer["converted"]] == [
        ("A1", "SAP", "EUR", 2),
        ("B2", "SAP", "EUR", 2),
    ]
    left = [(one["account_id"], one["ticker"], one["currency"], one["count"]) for one in answer["unconverted"]]
    expected = [("TM", "JPY", 2), ("VOD", "GBP", 2)]
    assert left == [("A1", "FDAX", "EUR", 1), *(("A1", *one) for one in expected), *(("B2", *one) for one in expected)]
    assert [one["reason"] for one in answer["unconverted"]] == ["not_translated", *["no_rate"] * 4]
    assert answer["missing_rates"] == [
        {"from": currency, "to": "USD", "day": day}
        for day in ("2026-03-02", "2026-03-04")
        for currency in ("GBP", "JPY")
    ]
    assert answer["missing_rate_count"] == 4
    note = answer["currency_note"]
    assert "There is no rate of GBP, JPY between 2026-03-02 and 2026-03-04." in note
    assert "take their gain from the broker" in note
