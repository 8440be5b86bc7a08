"""Wash sales that the Treasury publishes: each sale as a row of Form 8949, and the basis that is left."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

import pytest

from tests.embedded.tax.fills import book_of, buy, decs, sell
from zorivest_rpc.embedded.tax.book import Event


class Row(NamedTuple):
    """Columns (d), (e), (g) and (h) of Form 8949; (f) is code W wherever (g) is not empty."""

    proceeds: Decimal
    basis: Decimal
    adjustment: Decimal
    gain: Decimal


def row(proceeds: int, basis: int, adjustment: int, gain: int) -> Row:
    return Row(*decs(proceeds, basis, adjustment, gain))


class Example(NamedTuple):
    """What was done; the rows of the form by day of purchase, and what is held afterwards: basis by day of purchase."""

    events: tuple[Event, ...]
    rows: dict[str, Row]
    held: dict[str, int]


EXAMPLES = {
    # Pub. 550 (2025), "Wash Sales", "More or less stock bought than sold", Example 1: of a loss of 1,000 on 100 shares
    # 750 is not deductible, 250 is; 50 shares for 2,750 come to 3,250 and 25 for 1,125 to 1,375. The publication
    # follows Reg. §1.1091-1(h), Example 2, with days of its own.
    "fewer bought than sold": Example(
        (
            buy("M", 100, 50, "2024-09-20"),
            buy("M", 50, 55, "2024-12-13"),
            buy("M", 25, 45, "2024-12-20"),
            sell("M", 100, 40, "2025-01-03"),
        ),
        {"2024-09-20": row(4000, 5000, 750, -250)},
        {"2024-12-13": 3250, "2024-12-20": 1375},
    ),
    # The same heading, Example 2: a loss of 1,000 on 100 shares, 50 bought on each of the four days from 3 February:
    # half the loss goes to the shares of the first day, half to those of the second. The publication gives no prices;
    # 5,000, 4,000, and 2,000 for each 50 are after the pattern of Reg. §1.1091-1(h), Example 3, not checked with it.
    "more bought than sold": Example(
        (
            buy("M", 100, 50, "2024-09-16"),
            sell("M", 100, 40, "2025-01-29"),
            *(buy("M", 50, 40, f"2025-02-0{day}") for day in (3, 4, 5, 6)),
        ),
        {"2024-09-16": row(4000, 5000, 1000, 0)},
        {"2025-02-03": 2500, "2025-02-04": 2500, "2025-02-05": 2000, "2025-02-06": 2000},
    ),
    # Pub. 550 (2012), "Wash Sales", "Loss and gain on same day": three blocks of 100 shares for 158, 100 and 95 are
    # sold together for 125, and 250 bought 13 days later. The loss of 33 a share is not deductible, and does not reduce
    # the gains of 25 and 30 a share either. The days of 2007 and the price of the last purchase are not published.
    "loss and gain on the same day": Example(
        (
            buy("X", 100, 158, "2007-02-05"),
            buy("X", 100, 100, "2007-05-07"),
            buy("X", 100, 95, "2007-08-06"),
            sell("X", 300, 125, "2012-12-27"),
            buy("X", 250, 120, "2013-01-09"),
        ),
        {
            "2007-02-05": row(12500, 15800, 3300, 0),
            "2007-05-07": row(12500, 10000, 0, 2500),
            "2007-08-06": row(12500, 9500, 0, 3000),
        },
        {"2013-01-09": 250 * 120 + 3300},
    ),
    # After the pattern of Reg. §1.1091-1(h), Example 1: the days are its own; the amounts were not checked with it.
    # 100 shares for 10,000 and 100 for 9,000 a fortnight later; on 3 January the first are sold for 9,000. No loss is
    # allowed, because of the purchase 19 days before the sale. The basis follows from §1091(d).
    "bought before the sale": Example(
        (buy("M", 100, 100, "1954-12-01"), buy("M", 100, 90, "1954-12-15"), sell("M", 100, 90, "1955-01-03")),
        {"1954-12-01": row(9000, 10000, 1000, 0)},
        {"1954-12-15": 10000},
    ),
    # Reg. §1.1091-2(a), Example 1: a share of 1935 for 100, sold for 80, another bought for 90: its basis is 110.
    "bought back for more": Example(
        (buy("X", 1, 100, "1935-03-01"), sell("X", 1, 80, "1955-01-15"), buy("X", 1, 90, "1955-02-01")),
        {"1935-03-01": row(80, 100, 20, 0)},
        {"1955-02-01": 110},
    ),
    # Reg. §1.1091-2(a), Example 2: bought back for 70, its basis is 90.
    "bought back for less": Example(
        (buy("Y", 1, 100, "1935-03-01"), sell("Y", 1, 80, "1955-01-15"), buy("Y", 1, 70, "1955-02-01")),
        {"1935-03-01": row(80, 100, 20, 0)},
        {"1955-02-01": 90},
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_published_wash_sale_has_its_published_figures(name: str) -> None:
    example = EXAMPLES[name]
    book = book_of(*example.events)
    rows: dict[str, Row] = {}
    for lot in book.closed_lots:  # a sale that is washed in part may be kept in pieces; the form adds them up
        assert lot.received is not None
        assert lot.total_basis is not None
        piece = Row(lot.received, lot.total_basis, lot.disallowed, lot.recognized)
        before = rows.get(str(lot.open_date), row(0, 0, 0, 0))
        rows[str(lot.open_date)] = Row(*(one + other for one, other in zip(before, piece, strict=True)))
    assert rows == example.rows
    for each in rows.values():  # Form 8949, column (h): (d) less (e), combined with (g)
        assert each.gain == each.proceeds - each.basis + each.adjustment
    held: dict[str, Decimal] = {}
    for lot in book.open_lots:
        assert lot.total_basis is not None
        held[str(lot.open_date)] = held.get(str(lot.open_date), Decimal(0)) + lot.total_basis
    assert held == example.held


def test_replacements_are_held_for_as_long_as_the_shares_they_replace() -> None:
    # §1223(3), as Reg. §1.1091-1(h), Example 3, applies it, on the days of the publication: the time from 16 September
    # 2024 to 29 January 2025, 135 days, counts for the first 100 of the shares bought back and for no more of them.
    book = book_of(*EXAMPLES["more bought than sold"].events)
    before = (date(2025, 1, 29) - date(2024, 9, 16)).days
    starts = {lot.open_date: lot.holding_start for lot in book.open_lots}
    assert starts == {
        date(2025, 2, day): date(2025, 2, day) - timedelta(days=before if day < 5 else 0) for day in (3, 4, 5, 6)
    }
