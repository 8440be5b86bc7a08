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


HOLIDAYS = {
    # the federal holidays as the Office of Personnel Management lists them, and Emancipation Day (16 April) in the
    # District of Columbia; 2022 and 2023 have many that were kept on a Friday or a Monday
    2022: "2021-12-31 01-17 02-21 04-15 05-30 06-20 07-04 09-05 10-10 11-11 11-24 12-26",
    2023: "01-02 01-16 02-20 04-17 05-29 06-19 07-04 09-04 10-09 11-10 11-23 12-25",
    2025: "01-01 01-20 02-17 04-16 05-26 06-19 07-04 09-01 10-13 11-11 11-27 12-25",
    2026: "01-01 01-19 02-16 04-16 05-25 06-19 07-03 09-07 10-12 11-11 11-26 12-25",
}


@pytest.mark.parametrize("year", HOLIDAYS)
def test_every_legal_holiday_is_kept_on_its_day_and_no_other_day_is_one(year: int) -> None:
    days = {date.fromisoformat(text if len(text) == 10 else f"{year}-{text}") for text in HOLIDAYS[year].split()}
    assert legal_holidays(year) == days


def test_a_naive_time_is_read_as_utc() -> None:
    assert trade_date(datetime(2026, 1, 1, 3)) == trade_date(datetime(2026, 1, 1, 3, tzinfo=UTC)) == date(2025, 12, 31)
