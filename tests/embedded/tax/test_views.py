"""Lots as a reader sees them."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tests.embedded.tax.fills import book_of, buy, dec, sell
from zorivest_rpc.embedded.tax.model import DISCLAIMER, Direction, Price, TaxError
from zorivest_rpc.embedded.tax.views import LotList, list_lots

TODAY = date(2026, 6, 1)
PRICES = {"ACME": Price(price=dec(60)), "SHRT": Price(price=dec(15), source="last_trade")}


def show(**rest: Any) -> LotList:
    book = book_of(
        buy("ACME", 100, 50, "2024-01-08", commission=5, exec_id="old"),
        buy("ACME", 10, 55, "2026-03-02", exec_id="new"),
        sell("ACME", 40, 58, "2026-05-01", exec_id="out"),
        sell("SHRT", 10, 20, "2026-05-04", exec_id="short"),
        buy("BLIND", 1, 9, "2026-05-05", account_id="B", exec_id="blind"),
    )
    return list_lots(book.lots, PRICES, today=TODAY, **rest)


def test_open_lots_are_shown_with_value_and_age() -> None:
    # 60 of 100 left: 5005 × 60 % = 3003; 60 × 60 = 3600; 597 up.
    lot = show().lots[0]
    assert (lot.lot_id, lot.quantity, lot.cost_basis, lot.total_basis) == ("lot-old", dec(60), dec("50.05"), dec(3003))
    assert (lot.current_value, lot.unrealized_gain_loss, lot.realized_gain_loss) == (dec(3600), dec(597), None)
    assert (lot.holding_period_days, lot.is_long_term, lot.days_to_long_term) == (875, True, 0)


def test_closed_lots_show_what_was_realised() -> None:
    # 40 × 58 − 5005 × 40 % = 2320 − 2002.
    (lot,) = show(status="closed").lots
    assert (lot.lot_id, lot.proceeds, lot.realized_gain_loss) == ("lot-old-1", dec(58), dec(318))
    assert (lot.current_value, lot.unrealized_gain_loss, lot.close_date) == (None, None, date(2026, 5, 1))
    assert lot.linked_trade_ids == ("old", "out")


def test_a_short_lot_shows_its_proceeds_and_a_debt() -> None:
    (lot,) = (lot for lot in show().lots if lot.ticker == "SHRT")
    assert (lot.direction, lot.cost_basis, lot.current_value) == (Direction.SHORT, dec(20), dec(-150))
    assert (lot.unrealized_gain_loss, lot.days_to_long_term, lot.price_source) == (dec(50), None, "last_trade")


def test_the_summary_adds_up_and_names_what_has_no_price() -> None:
    # 3003 + 550 + 200 + 9; 597 + 50 + 50.
    report = show()
    assert (report.summary.total_lots, report.summary.total_basis) == (4, dec(3762))
    assert (report.summary.total_unrealized, report.summary.unpriced_tickers) == (dec(697), ("BLIND",))
    assert report.total_count == 4
    assert report.disclaimer == DISCLAIMER


@pytest.mark.parametrize(
    ("sort_by", "first"),
    [
        ("date_acquired", "lot-old"),
        ("acquired_date", "lot-old"),
        ("cost_basis", "lot-old"),
        ("gain_loss", "lot-old"),
        ("holding_period", "lot-old"),
    ],
)
def test_every_sort_puts_the_right_lot_first(sort_by: str, first: str) -> None:
    assert show(sort_by=sort_by).lots[0].lot_id == first


def test_sorting_by_basis_is_largest_first_and_by_date_oldest_first() -> None:
    assert [lot.lot_id for lot in show(sort_by="cost_basis").lots] == ["lot-old", "lot-new", "lot-short", "lot-blind"]
    assert [lot.lot_id for lot in show(sort_by="holding_period").lots][-1] == "lot-blind"


def test_every_status_is_shown_and_wrong_words_are_refused() -> None:
    assert len(show(status="ALL").lots) == 5
    for wrong in ({"status": "half"}, {"sort_by": "colour"}):
        with pytest.raises(TaxError) as refused:
            show(**wrong)
        assert refused.value.code == "unknown_value"
