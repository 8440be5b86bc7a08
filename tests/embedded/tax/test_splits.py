"""Share splits of every shape: shares are counted anew, money and age stay, and a washed share stays used up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from tests.embedded.tax.fills import book_of, buy, dec, sell, split
from zorivest_rpc.embedded.values.kinds import AssetClass

# each makes whole shares of 60
SHAPES = [(2, 1), (3, 2), (7, 3), (1, 10), (3, 20)]


def near(shown: Decimal | None, exact: Fraction) -> bool:
    """Shares are counted in hundred-millionths, money in millionths."""
    assert shown is not None
    return abs(Fraction(shown) - exact) <= Fraction(1, 1_000_000)


@pytest.mark.parametrize(("to", "of"), SHAPES)
def test_a_split_changes_shares_and_neither_money_nor_age(to: int, of: int) -> None:
    before = buy("ACME", 60, 30, "2025-01-06", commission="6")
    book = book_of(before, split("ACME", to, "2025-02-03", of), sell("ACME", 1, 500, "2025-03-03"))
    (sold,) = book.closed_lots
    (rest,) = book.open_lots
    new = Fraction(60 * to, of)
    # 60 shares for 1 806 became `new` ones; one of them is sold for 500
    assert near(rest.quantity, new - 1)
    assert near(rest.total_basis, 1806 * (new - 1) / new)
    assert near(sold.gain, 500 - 1806 / new)
    assert rest.open_date == sold.open_date == before.time.date()


@pytest.mark.parametrize(("to", "of"), SHAPES)
def test_a_share_that_replaced_a_loss_before_a_split_replaces_no_other_after_it(to: int, of: int) -> None:
    book = book_of(
        buy("ACME", 100, 10, "2025-01-06"),
        sell("ACME", 40, 5, "2025-02-03"),  # 200 lost on 40 shares
        buy("ACME", 60, 6, "2025-02-10"),  # 40 of them replace those
        split("ACME", to, "2025-02-11", of),
        sell("ACME", 60 * to // of, "0.6", "2025-02-12"),  # the other 60 of January
    )
    first, second = book.matches
    assert (first.disallowed, first.matched_quantity) == (dec(200), dec(40))
    # 60 old shares that cost 600 are sold; of the 60 bought on 10 February 20 old ones are still free
    loss = Fraction(600) - Fraction(60 * to, of) * Fraction(6, 10)
    assert near(second.disallowed, loss * 20 / 60)
    (kept,) = {lot.open_date for lot in book.open_lots}
    basis = sum((lot.total_basis or Decimal(0) for lot in book.open_lots), Decimal(0))
    assert near(basis, 60 * 6 + 200 + loss * 20 / 60)
    assert str(kept) == "2025-02-10"


def test_a_split_of_one_account_or_symbol_leaves_the_others_alone() -> None:
    book = book_of(
        buy("ACME", 10, 30, "2025-01-06"),
        buy("ACME", 10, 30, "2025-01-06", account_id="B"),
        buy("OTHER", 10, 30, "2025-01-06"),
        buy("ACME 261218 C 50", 10, 3, "2025-01-06", asset_class=AssetClass.OPTION),
        split("ACME", 3, "2025-02-03", 2, account_id="B"),
    )
    assert {(lot.ticker, lot.account_id): lot.quantity for lot in book.open_lots} == {
        ("ACME", "A"): dec(10),
        ("ACME", "B"): dec(15),
        ("OTHER", "A"): dec(10),
        ("ACME 261218 C 50", "A"): dec(10),
    }


def test_the_pieces_of_a_purchase_are_split_like_the_whole_of_it() -> None:
    # Of 10 shares, 3 take over a loss and stand as a lot of their own: 3 and 7, in new shares 4.5 and 10.5.
    book = book_of(
        buy("ACME", 3, 10, "2025-01-06"),
        sell("ACME", 3, 5, "2025-02-03"),
        buy("ACME", 10, 6, "2025-02-10", exec_id="new"),
        split("ACME", 3, "2025-02-11", 2),
    )
    pieces = sorted(lot.quantity for lot in book.open_lots)
    assert pieces == [dec("4.5"), dec("10.5")]
    # A thirtieth of a share each: both pieces are counted in hundred-millionths, and their sum as the whole would be
    book = book_of(
        buy("ACME", 3, 10, "2025-01-06"),
        sell("ACME", 3, 5, "2025-02-03"),
        buy("ACME", 10, 6, "2025-02-10", exec_id="new"),
        split("ACME", 1, "2025-02-11", 30),
    )
    assert len(book.open_lots) == 2
    assert sum(lot.quantity for lot in book.open_lots) == dec("0.33333333")


def test_what_a_split_leaves_free_of_a_lot_can_still_replace_a_loss() -> None:
    # 4 of the 10 bought back replace the first loss; doubled, 8 of 20 are used up and 12 are free for the second.
    book = book_of(
        buy("ACME", 4, 10, "2024-06-03"),
        buy("ACME", 20, 10, "2024-06-04"),
        sell("ACME", 4, 5, "2025-02-03"),
        buy("ACME", 10, 6, "2025-02-10", exec_id="new"),
        split("ACME", 2, "2025-02-11"),
        sell("ACME", 40, 2, "2025-02-12"),
    )
    assert [match.matched_quantity for match in book.matches] == [dec(4), dec(12)]
