"""Wash sales (§1091): worked examples, one rule each."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.tax.fills import book_of, buy, dec, deliver, sell, split
from zorivest_rpc.embedded.tax import washes
from zorivest_rpc.embedded.tax.book import LotBook
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    AccountTraits,
    AcquisitionSource,
    Direction,
    WashPolicy,
    WashSaleMethod,
    WashSaleStatus,
)
from zorivest_rpc.embedded.tax.wash import WINDOW
from zorivest_rpc.embedded.values.kinds import AssetClass

IRA = {"IRA": AccountTraits(tax_advantaged=True)}
SPOUSE = {"S": AccountTraits(spousal=True)}
CALL = "ACME 260619 C 50"


def disallowed(book: LotBook) -> Decimal:
    return sum((match.disallowed for match in book.matches), Decimal(0))


def by_buy(book: LotBook, exec_id: str) -> list[Lot]:
    return sorted((lot for lot in book.lots if lot.linked_trade_ids[0] == exec_id), key=lambda lot: lot.lot_id)


def a_loss_of_1000(**rest: Any) -> list[Any]:
    """100 bought at 50, sold at 40."""
    return [buy("ACME", 100, 50, "2025-06-02", exec_id="old", **rest), sell("ACME", 100, 40, "2026-03-02", **rest)]


def report(book: LotBook, **rest: Any) -> washes.WashSaleReport:
    lots = {lot.lot_id: lot for lot in book.lots}
    waiting = frozenset(name for lot in book.open_lots for name in lot.chain_ids)
    ends = washes.ChainEnds(waiting, frozenset(match.chain_id for match in book.matches if match.is_permanent))
    rest = {"start": date(2026, 1, 1), "end": date(2026, 12, 31), **rest}
    return washes.find(book.matches, lots, ends, **rest)


def test_a_sale_at_cost_is_no_loss_and_uses_no_replacement_up() -> None:
    # The 100 sold at what they cost leave the 100 bought on 9 March to replace the loss of 11 March.
    book = book_of(
        buy("ACME", 200, 50, "2025-06-02", exec_id="old"),
        sell("ACME", 100, 50, "2026-03-02"),
        buy("ACME", 100, 41, "2026-03-09", exec_id="new"),
        sell("ACME", 100, 40, "2026-03-11"),
    )
    assert [(match.loss_date, match.disallowed) for match in book.matches] == [(date(2026, 3, 11), dec(1000))]
    even = [lot.lot_id for lot in book.closed_lots if lot.gain == 0]
    assert [book.candidates(name) for name in even] == [[]]


def test_a_restored_book_counts_a_waiting_loss_as_the_whole_book_does() -> None:
    # 30 of 100 bought back: 300 of 1000; after a split of two for one, 30 new shares are 15 old ones: 150.
    for splits, washed in (([], 300), ([split("ACME", 2, "2026-03-05")], 150)):
        before = book_of(*a_loss_of_1000())
        after = LotBook()
        after.restore(before.lots, splits)
        after.advance(buy("ACME", 30, 41, "2026-03-10"))
        assert disallowed(after) == washed


def test_a_partial_replacement_disallows_its_share_of_the_loss() -> None:
    # §1091(a), Reg. §1.1091-1(c): loss 1000 on 100 shares, 60 bought back 12 days later: 60 × 10 = 600 disallowed.
    book = book_of(*a_loss_of_1000(), buy("ACME", 60, 41, "2026-03-14", exec_id="new"))
    (loss,) = by_buy(book, "old")
    (new,) = by_buy(book, "new")
    assert (loss.gain, loss.disallowed, loss.recognized) == (dec(-1000), dec(600), dec(-400))
    # §1091(d): basis 60 × 41 + 600 = 3060, ten dollars a share more.
    assert (new.wash_sale_adjustment, new.total_basis) == (dec(600), dec(3060))
    (row,) = report(book).wash_sales
    assert (row.disallowed_loss, row.adjusted_basis, row.adjustment_per_share) == (dec(600), dec(3060), dec(10))
    assert (row.wash_window.start, row.wash_window.end) == (date(2026, 1, 31), date(2026, 4, 1))
    assert (row.sell_trade, row.buy_trade, row.status) == (
        loss.linked_trade_ids[1],
        "new",
        WashSaleStatus.ABSORBED,
    )


def test_only_the_replacing_shares_of_a_larger_purchase_take_over_the_loss() -> None:
    # 250 bought: 100 carry 1000 more basis and the tacked days, 150 stay as bought.
    book = book_of(*a_loss_of_1000(), buy("ACME", 250, 41, "2026-03-14", exec_id="new"))
    assert [(lot.quantity, lot.wash_sale_adjustment, lot.tacked_days > 0) for lot in by_buy(book, "new")] == [
        (dec(150), dec(0), False),
        (dec(100), dec(1000), True),
    ]
    assert sum(lot.cost or 0 for lot in by_buy(book, "new")) == 250 * 41


@pytest.mark.parametrize(
    ("day", "washed"),
    [("2026-04-01", True), ("2026-04-02", False)],  # 30 and 31 days after 2 March
)
def test_the_window_after_the_sale_is_thirty_days(day: str, washed: bool) -> None:
    book = book_of(*a_loss_of_1000(), buy("ACME", 100, 41, day))
    assert bool(book.matches) is washed


@pytest.mark.parametrize(
    ("day", "washed"),
    [("2026-01-31", True), ("2026-01-30", False)],  # 30 and 31 days before 2 March
)
def test_the_window_before_the_sale_is_thirty_days(day: str, washed: bool) -> None:
    book = book_of(*a_loss_of_1000(), buy("ACME", 100, 41, day))
    assert bool(book.matches) is washed


def test_a_purchase_before_the_sale_takes_over_the_loss_too() -> None:
    book = book_of(*a_loss_of_1000(), buy("ACME", 100, 42, "2026-02-20", exec_id="new"))
    (new,) = by_buy(book, "new")
    assert (new.wash_sale_adjustment, new.total_basis) == (dec(1000), dec(5200))


def test_the_holding_period_is_tacked_without_the_gap() -> None:
    # §1223(3): old shares held 2 June 2025 to 2 March 2026 = 273 days; new ones from 14 March: on 1 June, 79 days of
    # their own and 273 taken over = 352. Long-term when 14 March less 273 days (14 June 2025) is more than a year ago.
    book = book_of(*a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-14", exec_id="new"))
    (new,) = by_buy(book, "new")
    assert (new.tacked_days, new.holding_days(date(2026, 6, 1))) == (273, 352)
    assert not new.is_long_term(date(2026, 6, 14))
    assert new.is_long_term(date(2026, 6, 15))


def test_one_purchase_cannot_absorb_two_losses() -> None:
    # Two losses of 100 shares, one purchase of 100: only the first sale is washed (Reg. §1.1091-1(b)).
    book = book_of(
        buy("ACME", 200, 50, "2025-06-02"),
        sell("ACME", 100, 40, "2026-03-02"),
        sell("ACME", 100, 30, "2026-03-03"),
        buy("ACME", 100, 31, "2026-03-10"),
    )
    assert [match.loss_date for match in book.matches] == [date(2026, 3, 2)]
    assert disallowed(book) == 1000


def test_one_loss_can_be_replaced_by_several_purchases_in_order() -> None:
    # 100 shares lost 1000: 30 + 50 + 40 bought, of which 30, 50 and 20 replace: 300 + 500 + 200.
    book = book_of(
        *a_loss_of_1000(),
        buy("ACME", 30, 41, "2026-03-05"),
        buy("ACME", 50, 41, "2026-03-06"),
        buy("ACME", 40, 41, "2026-03-07"),
    )
    assert [match.disallowed for match in book.matches] == [dec(300), dec(500), dec(200)]


def test_a_chain_carries_the_loss_to_the_next_replacement() -> None:
    # Loss 1: 1000 → lot 2 (41 → basis 5100). Lot 2 sold at 38: 3800 − 5100 = −1300 → lot 3 (39 → 3900 + 1300 = 5200).
    book = book_of(
        *a_loss_of_1000(),
        buy("ACME", 100, 41, "2026-03-10", exec_id="two"),
        sell("ACME", 100, 38, "2026-03-20"),
        buy("ACME", 100, 39, "2026-03-30", exec_id="three"),
    )
    (two,), (three,) = by_buy(book, "two"), by_buy(book, "three")
    assert (two.gain, two.recognized, three.total_basis) == (dec(-1300), dec(0), dec(5200))
    # holding: 273 days + 10 days in lot 2
    assert (two.tacked_days, three.tacked_days) == (273, 283)
    assert len({match.chain_id for match in book.matches}) == 1
    assert [(row.status, row.disallowed_loss) for row in report(book).wash_sales] == [
        (WashSaleStatus.ABSORBED, dec(1000)),
        (WashSaleStatus.ABSORBED, dec(1300)),
    ]


def test_the_report_reads_in_the_order_of_the_losses_then_of_the_purchases() -> None:
    # The later loss comes from the lot whose name sorts first; the purchases of one loss come by day, then by name.
    book = book_of(
        buy("ACME", 100, 50, "2025-06-02", exec_id="z"),
        buy("ACME", 10, 50, "2025-06-03", exec_id="a"),
        sell("ACME", 100, 40, "2026-03-02"),
        sell("ACME", 10, 40, "2026-03-03"),
        buy("ACME", 30, 41, "2026-03-06", exec_id="y"),
        buy("ACME", 30, 41, "2026-03-09", exec_id="b"),
        buy("ACME", 50, 41, "2026-03-09", minute=1, exec_id="c"),
    )
    rows = [(row.loss_date.day, row.buy_trade, row.disallowed_loss) for row in report(book).wash_sales]
    assert rows == [(2, "y", dec(300)), (2, "b", dec(300)), (2, "c", dec(400)), (3, "c", dec(100))]
    assert report(book).total_disallowed == 1100


def test_selling_the_replacement_outside_the_window_releases_the_loss() -> None:
    # 100 × 60 − (4100 + 1000) = 900 gain instead of 1900.
    book = book_of(
        *a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-10", exec_id="two"), sell("ACME", 100, 60, "2026-08-03")
    )
    (two,) = by_buy(book, "two")
    assert two.recognized == 900
    (row,) = report(book).wash_sales
    assert row.status is WashSaleStatus.RELEASED


def test_a_replacement_in_an_ira_destroys_the_loss() -> None:
    # Rev. Rul. 2008-5: disallowed, and no basis anywhere goes up.
    book = book_of(*a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-10", account_id="IRA", exec_id="ira"), accounts=IRA)
    (ira,) = by_buy(book, "ira")
    assert (disallowed(book), ira.wash_sale_adjustment, ira.tacked_days) == (dec(1000), dec(0), 0)
    (row,) = report(book).wash_sales
    assert (row.status, row.is_ira_permanent) == (WashSaleStatus.DESTROYED, True)


def test_a_loss_inside_an_ira_is_no_wash_sale() -> None:
    book = book_of(
        *a_loss_of_1000(account_id="IRA"), buy("ACME", 100, 41, "2026-03-10", account_id="IRA"), accounts=IRA
    )
    assert book.matches == []


def test_a_purchase_in_another_account_washes_the_loss() -> None:
    book = book_of(*a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-10", account_id="B", exec_id="new"))
    (new,) = by_buy(book, "new")
    assert (new.account_id, new.wash_sale_adjustment) == ("B", dec(1000))


@pytest.mark.parametrize(("included", "washed"), [(False, 0), (True, 1000)])
def test_a_spouses_purchase_counts_when_the_profile_says_so(included: bool, washed: int) -> None:
    book = book_of(
        *a_loss_of_1000(),
        buy("ACME", 100, 41, "2026-03-10", account_id="S"),
        accounts=SPOUSE,
        policy=WashPolicy(include_spousal=included),
    )
    assert disallowed(book) == washed


@pytest.mark.parametrize(("included", "washed"), [(False, 0), (True, 20)])
def test_a_reinvested_dividend_counts_when_the_profile_says_so(included: bool, washed: int) -> None:
    book = book_of(
        *a_loss_of_1000(),
        buy("ACME", 2, 41, "2026-03-10", source=AcquisitionSource.DRIP),
        policy=WashPolicy(include_drip=included),
    )
    assert disallowed(book) == washed
    assert all(match.is_drip for match in book.matches)


@pytest.mark.parametrize(
    ("source", "washed"),
    [
        # §1091(a): "has acquired (by purchase or by an exchange …)"; a gift, an inheritance or a transfer is neither
        *((AcquisitionSource.PURCHASE, 1000), (AcquisitionSource.EXERCISE, 1000), (AcquisitionSource.ASSIGNMENT, 1000)),
        *((AcquisitionSource.GIFT, 0), (AcquisitionSource.INHERITANCE, 0), (AcquisitionSource.TRANSFER, 0)),
    ],
)
def test_shares_replace_a_loss_by_how_they_were_acquired(source: AcquisitionSource, washed: int) -> None:
    assert disallowed(book_of(*a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-10", source=source))) == washed


@pytest.mark.parametrize(
    ("method", "contracts", "washed"),
    [
        (WashSaleMethod.AGGRESSIVE, 1, 0),
        (WashSaleMethod.CONSERVATIVE, 1, 1000),  # §1091(a): an option to acquire; one contract stands for 100 shares
    ],
)
def test_a_call_bought_replaces_shares_under_the_conservative_reading(
    method: WashSaleMethod, contracts: int, washed: int
) -> None:
    book = book_of(
        *a_loss_of_1000(),
        buy(CALL, contracts, 2, "2026-03-10", asset_class=AssetClass.OPTION, exec_id="call"),
        policy=WashPolicy(method=method),
    )
    (call,) = by_buy(book, "call")
    assert disallowed(book) == call.wash_sale_adjustment == washed


def test_a_call_held_when_the_loss_is_taken_replaces_shares_too() -> None:
    book = book_of(
        buy("ACME", 60, 50, "2025-06-02"),
        buy(CALL, 3, 2, "2026-02-20", asset_class=AssetClass.OPTION, exec_id="call"),
        sell("ACME", 60, 40, "2026-03-02"),
    )
    # 60 shares need one whole contract of the three.
    assert [(lot.quantity, lot.wash_sale_adjustment, lot.replaced_units) for lot in by_buy(book, "call")] == [
        (dec(2), dec(0), dec(0)),
        (dec(1), dec(600), dec(60)),
    ]


def test_the_shares_a_contract_has_to_spare_replace_the_next_loss() -> None:
    # Three calls stand for 300 shares: 60 and 240 sold at a loss of 10 each, all of it disallowed.
    book = book_of(
        buy("ACME", 300, 50, "2025-06-02"),
        buy(CALL, 3, 2, "2026-02-20", asset_class=AssetClass.OPTION, exec_id="call"),
        sell("ACME", 60, 40, "2026-03-02"),
        sell("ACME", 240, 40, "2026-03-03"),
    )
    assert [match.disallowed for match in book.matches] == [dec(600), dec(2000), dec(400)]
    assert sum(lot.wash_sale_adjustment for lot in by_buy(book, "call")) == 3000


def test_a_put_bought_is_no_option_to_acquire() -> None:
    book = book_of(*a_loss_of_1000(), buy("ACME 260619 P 50", 1, 2, "2026-03-10", asset_class=AssetClass.OPTION))
    assert book.matches == []


def test_the_same_option_bought_back_is_washed_by_contract() -> None:
    # 2 contracts lost (5 − 3) × 200 = 400; one bought back: 200.
    option = AssetClass.OPTION
    book = book_of(
        buy(CALL, 2, 5, "2026-01-05", asset_class=option),
        sell(CALL, 2, 3, "2026-02-09", asset_class=option),
        buy(CALL, 1, 3, "2026-02-16", asset_class=option, exec_id="new"),
    )
    (new,) = by_buy(book, "new")
    assert (disallowed(book), new.total_basis, book.matches[0].matched_quantity) == (dec(200), dec(500), dec(1))
    (row,) = report(book).wash_sales
    assert row.adjustment_per_share == dec(2)  # 200 over the 100 shares behind the contract, as its price of 3 is


def test_the_rest_of_the_purchase_sold_from_is_no_replacement() -> None:
    # Rev. Rul. 56-602: selling part of one recent purchase only reduces the holding.
    book = book_of(buy("ACME", 100, 50, "2026-02-20"), sell("ACME", 40, 45, "2026-03-02"))
    assert book.matches == []


def test_fills_of_one_order_are_one_purchase() -> None:
    book = book_of(
        buy("ACME", 50, 50, "2026-02-20", order_id="o1"),
        buy("ACME", 50, 50, "2026-02-20", minute=1, order_id="o1"),
        sell("ACME", 50, 45, "2026-03-02"),
    )
    assert book.matches == []


def test_selling_everything_at_once_leaves_no_replacement() -> None:
    # The recent shares are gone with the old ones: losses 1000 and 100 both count.
    book = book_of(
        buy("ACME", 100, 50, "2025-06-02"), buy("ACME", 100, 41, "2026-02-20"), sell("ACME", 200, 40, "2026-03-02")
    )
    assert book.matches == []
    assert sum(lot.recognized for lot in book.closed_lots) == -1100


def test_a_short_sale_covered_at_a_loss_is_washed_by_a_new_short_sale() -> None:
    # §1091(e): short 100 at 20, covered at 25: loss 500; short again at 24 within 30 days: 2400 − 500 to start from.
    book = book_of(
        sell("ACME", 100, 20, "2026-01-05"),
        buy("ACME", 100, 25, "2026-02-02"),
        sell("ACME", 100, 24, "2026-02-09", exec_id="again"),
        buy("ACME", 100, 22, "2026-08-03"),
    )
    (again,) = by_buy(book, "again")
    assert (again.direction, again.wash_sale_adjustment, again.gain) == (Direction.SHORT, dec(500), dec(-300))
    assert book.matches[0].adjusted_basis == 1900


def test_covering_a_short_at_a_loss_is_not_washed_by_buying() -> None:
    book = book_of(
        sell("ACME", 100, 20, "2026-01-05"), buy("ACME", 100, 25, "2026-02-02"), buy("ACME", 100, 24, "2026-02-09")
    )
    assert book.matches == []


@pytest.mark.parametrize("asset_class", [AssetClass.CRYPTO, AssetClass.FOREX, AssetClass.FUTURE])
def test_what_is_no_security_is_never_washed(asset_class: AssetClass) -> None:
    book = book_of(
        buy("BTC", 1, 50, "2026-01-05", asset_class=asset_class),
        sell("BTC", 1, 40, "2026-01-06", asset_class=asset_class),
        buy("BTC", 1, 41, "2026-01-07", asset_class=asset_class),
    )
    assert book.matches == []


def test_a_trader_who_elected_mark_to_market_has_no_wash_sales_that_year() -> None:
    # §475(d)(1)
    events = [*a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-10")]
    assert book_of(*events, policy=WashPolicy(mark_to_market_years=frozenset({2026}))).matches == []
    assert book_of(*events, policy=WashPolicy(mark_to_market_years=frozenset({2025}))).matches != []


@pytest.mark.parametrize(("eligible", "washed"), [(True, 0), (False, 1)])
def test_index_options_are_left_out_where_section_1256_applies(eligible: bool, washed: int) -> None:
    # §1256(f)(5)
    option = AssetClass.OPTION
    book = book_of(
        buy("SPX 261218 C 6000", 1, 50, "2026-01-05", asset_class=option),
        sell("SPX 261218 C 6000", 1, 40, "2026-01-06", asset_class=option),
        buy("SPX 261218 C 6000", 1, 41, "2026-01-07", asset_class=option),
        policy=WashPolicy(section_1256_eligible=eligible),
    )
    assert len(book.matches) == washed


def test_shares_taken_by_assignment_replace_shares_sold_at_a_loss() -> None:
    put = "ACME 260320 P 40"
    book = book_of(
        *a_loss_of_1000(),
        sell(put, 1, 1, "2026-03-03", asset_class=AssetClass.OPTION),
        deliver(put, 1, "2026-03-20"),
    )
    (shares,) = [lot for lot in book.open_lots if lot.ticker == "ACME"]
    # 40 × 100 − 100 premium = 3900, and the washed 1000.
    assert shares.total_basis == 4900


def test_a_split_between_loss_and_purchase_is_counted_in_new_shares() -> None:
    # 100 old shares are 200 new ones; 50 new shares replace a quarter of the loss.
    book = book_of(*a_loss_of_1000(), split("ACME", "2", "2026-03-05"), buy("ACME", 50, 20, "2026-03-10"))
    assert disallowed(book) == 250
    assert book.matches[0].matched_quantity == 25


def test_a_part_of_the_replacement_sold_takes_its_part_of_the_adjustment() -> None:
    # 1000 on 100 shares; 30 sold carry 300: 30 × 45 − (30 × 41 + 300) = −180.
    book = book_of(
        *a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-10", exec_id="two"), sell("ACME", 30, 45, "2026-06-01")
    )
    rest, sold = by_buy(book, "two")
    assert (sold.recognized, rest.wash_sale_adjustment) == (dec(-180), dec(700))


def test_the_report_can_be_narrowed_to_dates_account_and_symbol() -> None:
    book = book_of(*a_loss_of_1000(), buy("ACME", 100, 41, "2026-03-10"))
    assert report(book).total_disallowed == 1000
    assert report(book).affected_tickers == ("ACME",)
    assert report(book, start=date(2026, 3, 3)).total_disallowed == 0
    assert report(book, account_id="B").wash_sales == ()
    assert report(book, ticker="ACME").disallowed_total == 1000
    assert report(book, ticker="OTHER").wash_sales == ()
    assert "not tax advice" in report(book).disclaimer.replace("\n", " ")


def test_a_contract_that_took_over_two_losses_holds_each_of_them_back_once() -> None:
    # 60 shares lose 60, then 40 lose 80; one call stands for 100 shares and takes both over: 140, not 280.
    book = book_of(
        buy("ACME", 60, 11, "2026-01-05"),
        buy("ACME", 40, 12, "2026-01-06"),
        sell("ACME", 60, 10, "2026-03-02"),
        sell("ACME", 40, 10, "2026-03-03"),
        buy("ACME 261218 C 50", 1, 2, "2026-03-10", asset_class=AssetClass.OPTION),
    )
    (call,) = book.open_lots
    assert call.wash_sale_adjustment == 140
    assert sorted(row.disallowed_loss for row in report(book).wash_sales) == [60, 80]


def test_a_book_keeps_a_loss_until_its_thirty_days_are_over() -> None:
    # sold on 2 March; 1 April is the thirtieth day after, and a purchase on it still replaces
    book = book_of(*a_loss_of_1000())
    put = buy("ACME 260619 P 40", 1, 1, "2026-04-01", asset_class=AssetClass.OPTION)
    book.advance(put)
    assert book.release(date(2026, 4, 1) - WINDOW) == []
    book.advance(buy("ACME", 100, 41, "2026-04-01", minute=5))
    assert disallowed(book) == 1000
    book.advance(sell("ACME 260619 P 40", 1, 1, "2026-04-02", asset_class=AssetClass.OPTION))
    (gone,) = book.release(date(2026, 4, 2) - WINDOW)
    assert (gone.linked_trade_ids[0], gone.disallowed) == ("old", Decimal(1000))
    assert book.has_made(gone.lot_id)
