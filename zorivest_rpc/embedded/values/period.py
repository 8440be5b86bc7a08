"""The period grammar: `all`, `ytd`, `30d`, `2025-Q3`, `2025-01-01..2025-03-31` and their like, as days of a time zone.

Periods that end "now" end with the current day, and `<n>d|w|m|y` are the last n units with today included. Weeks begin
on Monday. A period is half open: `start <= moment < end`, either side may be missing."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from ..errors import Invalid

__all__ = ["EVER", "GRAMMAR", "Period", "parse_period"]

GRAMMAR = "all, ytd, qtd, mtd, wtd, today, <n>d|w|m|y, YYYY, YYYY-MM, YYYY-Q1..Q4 or YYYY-MM-DD..YYYY-MM-DD"

_LAST = re.compile(r"([1-9][0-9]{0,4})([dwmy])")
_YEAR = re.compile(r"([0-9]{4})")
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_QUARTER = re.compile(r"([0-9]{4})-q([1-4])")
_RANGE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.\.([0-9]{4}-[0-9]{2}-[0-9]{2})")


class Period(NamedTuple):
    """`start` is included, `end` is not; None is unbounded. Days begin and end in `zone`."""

    text: str
    start: datetime | None
    end: datetime | None
    zone: tzinfo = UTC

    @property
    def days(self) -> int | None:
        """How many days it spans, by the calendar, or None if a side is open."""
        return None if self.start is None or self.end is None else (self.end - self.start).days

    def contains(self, moment: datetime) -> bool:
        return (self.start is None or self.start <= moment) and (self.end is None or moment < self.end)


EVER = Period("all", None, None)


def parse_period(text: str, now: datetime | None = None, field: str = "period", zone: tzinfo = UTC) -> Period:
    """Read a period relative to `now` in the days of `zone`; anything outside the grammar is a 422 that names it."""
    word = text.strip().lower()
    if word == EVER.text:
        return EVER._replace(zone=zone)
    try:
        first, last = _days(word, (now or datetime.now(UTC)).astimezone(zone).date())
        if first > last:
            raise ValueError("it ends before it begins")
        return Period(word, _midnight(first, zone), _midnight(last + timedelta(days=1), zone), zone)
    except (ValueError, OverflowError) as exc:
        raise Invalid({field: [f'"{text}" is not a period ({exc}); use {GRAMMAR}']}) from None


def _midnight(day: date, zone: tzinfo) -> datetime:
    midnight = datetime.combine(day, time(), zone)
    midnight.astimezone(UTC)  # overflows here, not in the database, where the first year begins before the first year
    return midnight


def _days(word: str, today: date) -> tuple[date, date]:
    """First and last day."""
    named = {
        "today": today,
        "wtd": today - timedelta(days=today.weekday()),
        "mtd": today.replace(day=1),
        "qtd": date(today.year, (today.month - 1) // 3 * 3 + 1, 1),
        "ytd": date(today.year, 1, 1),
    }
    if word in named:
        return named[word], today
    if match := _LAST.fullmatch(word):
        return _back(today, int(match[1]), match[2]) + timedelta(days=1), today
    if match := _YEAR.fullmatch(word):
        return date(int(match[1]), 1, 1), date(int(match[1]), 12, 31)
    if match := _MONTH.fullmatch(word):
        return _months(int(match[1]), int(match[2]), 1)
    if match := _QUARTER.fullmatch(word):
        return _months(int(match[1]), int(match[2]) * 3 - 2, 3)
    if match := _RANGE.fullmatch(word):
        return date.fromisoformat(match[1]), date.fromisoformat(match[2])
    raise ValueError("not in the grammar")


def _months(year: int, month: int, count: int) -> tuple[date, date]:
    first = date(year, month, 1)
    last_month = month + count - 1
    return first, date(year, last_month, calendar.monthrange(year, last_month)[1])


def _back(day: date, count: int, unit: str) -> date:
    """The same day `count` units earlier; the 31st becomes a shorter month's last day."""
    if unit in "dw":
        return day - timedelta(days=count * (7 if unit == "w" else 1))
    months = day.year * 12 + day.month - 1 - count * (12 if unit == "y" else 1)
    year, month = divmod(months, 12)
    if year < 1:
        raise ValueError("it begins before the first year")
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))
