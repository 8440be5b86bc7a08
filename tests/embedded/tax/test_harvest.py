"""Losses that could be taken now."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.tax.fills import book_of, buy, dec, decs, sell
from zorivest_rpc.embedded.tax.book import LotBook
from zorivest_rpc.embedded.tax.harvest import HarvestReport, scan_harvest
from zorivest_rpc.embedded.tax.model import DISCLAIMER, AccountTraits, Price, TaxProfile
from zorivest_rpc.embedded.values.kinds import AssetClass

TODAY = date(2026, 6, 1)
IRA = {"IRA": AccountTraits(tax_advantaged=True)}


def scan(book: LotBook, **rest: Any) -> HarvestReport:
    profile = TaxProfile(tax_year=2026, agi_estimate=dec(100000), state_tax_rate=dec("0.05"))
    prices = {
        "VTI": Price(price=dec(80), source="last_trade", stale=True),
        "ACME": Price(price=dec(40)),
        "UP": Price(price=dec(99)),
    }
    return scan_harvest(book.lots, rest.pop("prices", prices), profile, IRA, today=TODAY, **rest)


def portfolio() -> LotBook:
    return book_of(
        buy("ACME", 100, 50, "2024-01-08", exec_id="a1"),  # long-term loss 1000
        buy("ACME", 10, 70, "2026-03-02", exec_id="a2"),  # short-term loss 300
        buy("ACME", 10, 30, "2026-03-03", exec_id="a3"),  # a gain: not listed
        buy("VTI", 100, 100, "2026-01-05", exec_id="v1"),  # short-term loss 2000
        buy("VTI", 1, 70, "2026-05-20", exec_id="v2", account_id="IRA"),  # 12 days ago
        buy("UP", 10, 50, "2026-01-05"),
        buy("BLIND", 10, 50, "2026-01-05"),
        accounts=IRA,
    )


def test_losses_are_grouped_by_symbol_and_sorted_by_size() -> None:
    report = scan(portfolio())
    first, second = report.opportunities
    assert (first.ticker, first.unrealized_loss, first.holding_period) == ("VTI", dec(2000), "short_term")
    assert (second.ticker, second.unrealized_loss, second.holding_period) == ("ACME", dec(1300), "mixed")
    assert (second.short_term_loss, second.long_term_loss) == decs(300, 1000)
    rows = [(lot.lot_id, lot.quantity, lot.total_basis, lot.current_value, lot.unrealized_loss) for lot in second.lots]
    assert rows == [("lot-a1", *decs(100, 5000, 4000, 1000)), ("lot-a2", *decs(10, 700, 400, 300))]
    assert report.skipped_tickers == ("BLIND",)
    assert report.disclaimer == DISCLAIMER


def test_a_recent_purchase_anywhere_is_a_wash_risk() -> None:
    # Bought 20 May: window to 19 June, 31 − 12 = 19 days to clear.
    vti = scan(portfolio()).opportunities[0]
    assert (vti.wash_risk, vti.wash_window_end, vti.days_to_clear) == (True, date(2026, 6, 19), 19)
    assert vti.wash_reason is not None
    assert "IRA" in vti.wash_reason
    assert (vti.price_source, vti.stale) == ("last_trade", True)
    assert vti.replacements == ("ITOT", "SPTM", "SCHB")


def test_the_totals_leave_risky_losses_out_of_the_saving() -> None:
    # One share in the IRA takes over 20 of the 2000 on VTI: net 3280 × (22 % + 5 %) = 885.60.
    report = scan(portfolio())
    assert (report.total_harvestable, report.total_wash_risk, report.net_harvestable) == decs(3300, 20, 3280)
    assert report.estimated_tax_savings == dec("885.60")
    vti, acme = report.opportunities
    assert (vti.disallowed_loss, vti.allowed_loss) == decs(20, 1980)
    assert (acme.disallowed_loss, acme.allowed_loss) == decs(0, 1300)


def test_a_recent_purchase_of_half_the_shares_spoils_half_the_loss() -> None:
    book = book_of(buy("ACME", 100, 50, "2024-01-08"), buy("ACME", 50, 39, "2026-05-20", account_id="B"))
    (acme,) = scan(book, account_id="A").opportunities
    assert (acme.unrealized_loss, acme.disallowed_loss, acme.allowed_loss) == decs(1000, 500, 500)
    assert acme.wash_reason is not None
    assert "500" in acme.wash_reason


def test_fractions_of_a_cent_never_disallow_more_than_the_lots_show() -> None:
    # Each lot loses 0.014 and shows 0.01. The IRA takes over all 0.028, which is 0.03 in cents: 0.02 − 0.03 is no loss.
    book = book_of(
        buy("ACME", 1, "40.014", "2024-01-08"),
        buy("ACME", 1, "40.014", "2024-01-09"),
        buy("ACME", 2, 39, "2026-05-20", account_id="IRA"),
        accounts=IRA,
    )
    report = scan(book, min_loss=dec("0.01"))
    (acme,) = report.opportunities
    assert [lot.unrealized_loss for lot in acme.lots] == [*decs("0.01", "0.01")]
    assert (acme.unrealized_loss, acme.disallowed_loss, acme.allowed_loss) == decs("0.02", "0.02", 0)
    assert (report.net_harvestable, report.estimated_tax_savings) == decs(0, 0)
    assert acme.wash_reason is not None
    assert "take over 0.02 of the loss" in acme.wash_reason


def test_a_recent_lot_that_is_harvested_too_spoils_nothing() -> None:
    # Account A's loss moves into B's lot, which is sold in the same go: everything counts.
    book = book_of(buy("ACME", 100, 50, "2024-01-08"), buy("ACME", 50, 45, "2026-05-20", account_id="B"))
    (acme,) = scan(book).opportunities
    assert (acme.unrealized_loss, acme.disallowed_loss, acme.wash_risk) == (dec(1250), dec(0), False)
    (alone,) = scan(book, account_id="A").opportunities
    assert (alone.unrealized_loss, alone.disallowed_loss, alone.wash_risk) == (dec(1000), dec(500), True)


def test_what_cannot_be_washed_is_not_tried() -> None:
    book = book_of(
        buy("ES 12-26", 1, 50, "2026-01-05", asset_class=AssetClass.FUTURE, multiplier=dec(50)),
        buy("ES 12-26", 1, 39, "2026-05-20", asset_class=AssetClass.FUTURE, multiplier=dec(50), account_id="B"),
    )
    (future,) = scan(book, prices={"ES 12-26": Price(price=dec(40))}).opportunities
    assert (future.unrealized_loss, future.disallowed_loss, future.wash_risk) == (dec(500), dec(0), False)


def test_risky_positions_and_small_losses_can_be_left_out() -> None:
    assert [one.ticker for one in scan(portfolio(), exclude_wash_risk=True).opportunities] == ["ACME"]
    assert [one.ticker for one in scan(portfolio(), min_loss=Decimal("1300.01")).opportunities] == ["VTI"]
    assert [one.ticker for one in scan(portfolio(), min_loss=Decimal(1300)).opportunities] == ["VTI", "ACME"]
    assert scan(portfolio(), account_id="B").opportunities == ()


@pytest.mark.parametrize(("day", "risk"), [("2026-05-02", True), ("2026-05-01", False)])
def test_thirty_days_count_and_thirty_one_do_not(day: str, risk: bool) -> None:
    book = book_of(buy("ACME", 100, 50, "2024-01-08"), buy("ACME", 1, 39, day))
    assert scan(book).opportunities[0].wash_risk is risk


def test_a_recent_lot_is_no_risk_to_itself() -> None:
    book = book_of(buy("ACME", 100, 50, "2026-05-20"))
    assert not scan(book).opportunities[0].wash_risk


def test_a_purchase_already_used_up_as_a_replacement_is_no_risk() -> None:
    # The May purchase of 10 replaced the 10 sold on 25 May; it cannot replace more.
    book = book_of(
        buy("ACME", 110, 50, "2024-01-08"), buy("ACME", 10, 39, "2026-05-20"), sell("ACME", 10, 40, "2026-05-25")
    )
    assert len(book.matches) == 1
    assert not scan(book).opportunities[0].wash_risk


def test_a_lot_worth_what_it_cost_is_no_loss() -> None:
    book = book_of(buy("ACME", 10, 40, "2026-01-05", exec_id="even"), buy("ACME", 10, 41, "2026-01-06", exec_id="less"))
    (acme,) = scan(book, min_loss=dec(1)).opportunities
    assert [lot.lot_id for lot in acme.lots] == ["lot-less"]


def test_short_positions_are_not_scanned() -> None:
    assert scan(book_of(sell("ACME", 100, 30, "2026-01-05"))).opportunities == ()


def test_an_adjusted_basis_can_turn_a_gain_into_a_loss() -> None:
    # 100 at 38 plus 1000 taken over = 4800 against 4000.
    book = book_of(
        buy("ACME", 100, 50, "2025-06-02"), sell("ACME", 100, 40, "2026-03-02"), buy("ACME", 100, 38, "2026-03-10")
    )
    assert scan(book).opportunities[0].unrealized_loss == 800
