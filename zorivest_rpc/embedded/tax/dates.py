"""The dates tax law counts by: trade dates, holding periods and legal holidays."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

__all__ = [
    "EXCHANGE_ZONE",
    "days_to_long_term",
    "exchange_time",
    "holding_start",
    "is_business_day",
    "is_long_term",
    "legal_holidays",
    "long_term_from",
    "next_business_day",
    "trade_date",
]

EXCHANGE_ZONE = "America/New_York"
"""The zone whose calendar days are trade dates."""
_DAY = timedelta(days=1)


@lru_cache(maxsize=1)
def _exchange() -> ZoneInfo:
    return ZoneInfo(EXCHANGE_ZONE)


def exchange_time(day: date, clock: time) -> datetime:
    """A time of day on a trade date, at the exchange."""
    return datetime.combine(day, clock, _exchange())


def trade_date(moment: datetime) -> date:
    """The day a trade belongs to: the exchange's calendar day, so that 31 December's late fills stay in December."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(_exchange()).date()


def holding_start(opened: date, tacked_days: int = 0) -> date:
    """The acquisition date as the holding period sees it: earlier by the days a washed loss was held (§1223(3))."""
    return opened - timedelta(days=tacked_days)


def long_term_from(start: date) -> date:
    """The first day a sale is long-term: held more than one year (§1222), counted from the day after acquisition.

    Years are calendar years (Rev. Rul. 66-7), not 366 days: across 29 February the two differ by a day."""
    first = start + _DAY
    try:
        return first.replace(year=first.year + 1)
    except ValueError:  # 29 February has no anniversary in a common year
        return date(first.year + 1, 3, 1)


def is_long_term(start: date, disposed: date) -> bool:
    return disposed >= long_term_from(start)


def days_to_long_term(start: date, today: date) -> int:
    return max(0, (long_term_from(start) - today).days)


def _nth_weekday(year: int, month: int, weekday: int, n: int) -> date:
    first = date(year, month, 1)
    return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (n - 1))


def _observe_holiday(day: date) -> date:
    """A holiday on a Saturday is kept on Friday, one on a Sunday on Monday."""
    return day + timedelta(days={5: -1, 6: 1}.get(day.weekday(), 0))


@lru_cache(maxsize=64)
def legal_holidays(year: int) -> frozenset[date]:
    """Legal holidays in the District of Columbia (§7503), as observed; Emancipation Day moves the April date."""
    last_of_may = date(year, 5, 31)
    fixed = [(1, 1), (4, 16), (6, 19), (7, 4), (11, 11), (12, 25)]
    return frozenset(
        [
            *(_observe_holiday(date(year, month, day)) for month, day in fixed),
            _nth_weekday(year, 1, 0, 3),  # Martin Luther King Jr.
            _nth_weekday(year, 2, 0, 3),  # Washington
            last_of_may - timedelta(days=last_of_may.weekday()),  # Memorial Day
            _nth_weekday(year, 9, 0, 1),  # Labor Day
            _nth_weekday(year, 10, 0, 2),  # Columbus Day
            _nth_weekday(year, 11, 3, 4),  # Thanksgiving
        ]
    )


def is_business_day(day: date) -> bool:
    return day.weekday() < 5 and day not in legal_holidays(day.year)


def next_business_day(day: date) -> date:
    """The day itself, or the first business day after it (§7503)."""
    while not is_business_day(day):
        day += _DAY
    return day
