"""Holding periods and the calendar of the tax year."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from zorivest_rpc.embedded.tax.dates import (
    days_to_long_term,
    is_long_term,
    legal_holidays,
    long_term_from,
    next_business_day,
    trade_date,
)


@pytest.mark.parametrize(
    ("bought", "first_long_term"),
    [
        # §1222 and Rev. Rul. 66-7: count from the day after; more than one year.
        (date(2025, 1, 10), date(2026, 1, 11)),  # 366 days
        (date(2024, 1, 10), date(2025, 1, 11)),  # 367 days: 29 February 2024 lies between
        (date(2024, 2, 28), date(2025, 3, 1)),
        (date(2024, 2, 29), date(2025, 3, 1)),
        (date(2023, 2, 28), date(2024, 3, 1)),  # last day of a month: the year begins on 1 March (Rev. Rul. 70-598)
        (date(2025, 12, 31), date(2027, 1, 1)),
    ],
)
def test_long_term_begins_the_day_after_the_anniversary(bought: date, first_long_term: date) -> None:
    assert long_term_from(bought) == first_long_term
    assert is_long_term(bought, first_long_term)
    assert not is_long_term(bought, first_long_term.fromordinal(first_long_term.toordinal() - 1))


def test_the_days_to_wait_count_down_to_zero_and_stay_there() -> None:
    assert [days_to_long_term(date(2025, 1, 10), date(2026, 1, day)) for day in (9, 10, 11, 12)] == [2, 1, 0, 0]


@pytest.mark.parametrize(
    ("day", "moved"),
    [
        (date(2026, 4, 15), date(2026, 4, 15)),  # a Wednesday
        (date(2025, 6, 15), date(2025, 6, 16)),  # a Sunday
        (date(2022, 4, 15), date(2022, 4, 18)),  # Emancipation Day (16 April, Saturday) kept on Friday the 15th
        (date(2023, 4, 15), date(2023, 4, 18)),  # Saturday; Emancipation Day (Sunday) kept on Monday the 17th
        (date(2022, 1, 15), date(2022, 1, 18)),  # Saturday; Monday the 17th is Martin Luther King Day
        (date(2024, 1, 15), date(2024, 1, 16)),  # Martin Luther King Day itself
    ],
)
def test_a_day_that_is_no_business_day_moves_to_the_next_one(day: date, moved: date) -> None:
    # §7503
    assert next_business_day(day) == moved


def test_the_floating_holidays_of_2026_are_right() -> None:
    expected = [(1, 19), (2, 16), (5, 25), (9, 7), (10, 12), (11, 26), (7, 3), (6, 19), (1, 1), (12, 25), (11, 11)]
    assert {date(2026, month, day) for month, day in expected} < legal_holidays(2026)


def test_a_naive_time_is_read_as_utc() -> None:
    assert trade_date(datetime(2026, 1, 1, 3)) == trade_date(datetime(2026, 1, 1, 3, tzinfo=UTC)) == date(2025, 12, 31)
