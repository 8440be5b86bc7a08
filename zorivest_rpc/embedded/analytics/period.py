"""The reporting window: a short text such as `ytd`, `30d` or `2026-Q1`, read as a half-open span of UTC time."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta

import msgspec

__all__ = ["Period", "PeriodError", "parse_period"]

_ROLLING = re.compile(r"(\d{1,4})([dwmy])")
_YEAR = re.compile(r"(\d{4})")
_MONTH = re.compile(r"(\d{4})-(\d{2})")
_QUARTER = re.compile(r"(\d{4})-q([1-4])")
_SPAN = re.compile(r"(\d{4}-\d{2}-\d{2})\.\.(\d{4}-\d{2}-\d{2})")


class PeriodError(ValueError):
    """A text that names no period."""


class Period(msgspec.Struct, frozen=True):
    """Days from `first` to `last`, both included; None leaves that side open."""

    text: str
    first: date | None = None
    last: date | None = None

    @property
    def start(self) -> datetime | None:
        """The first moment inside."""
        return None if self.first is None else datetime.combine(self.first, time(), UTC)

    @property
    def end(self) -> datetime | None:
        """The first moment after."""
        return None if self.last is None else datetime.combine(self.last + timedelta(days=1), time(), UTC)

    @property
    def days(self) -> int | None:
        """How many days it spans, or None if a side is open."""
        return None if self.first is None or self.last is None else (self.last - self.first).days + 1

    def holds(self, moment: datetime) -> bool:
        """Whether the moment lies inside."""
        return (self.start is None or moment >= self.start) and (self.end is None or moment < self.end)


def parse_period(text: str, today: date) -> Period:
    """The period that `text` means on the day `today`; rolling and to-date periods end with today."""
    name = text.strip().lower()
    to_date = {
        "ytd": today.replace(month=1, day=1),
        "qtd": today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1),
        "mtd": today.replace(day=1),
        "wtd": today - timedelta(days=today.weekday()),
        "today": today,
    }
    if name == "all":
        return Period(name)
    if name in to_date:
        return Period(name, to_date[name], today)
    try:
        span = _named_span(name) or _rolling_span(name, today)
    except (ValueError, OverflowError):
        span = None
    if span is None or span[0] > span[1] or span[1] == date.max:
        raise PeriodError(
            f'"{text}" is no period; use all, ytd, qtd, mtd, wtd, today, 30d, 4w, 6m, 1y, 2026, 2026-03, 2026-Q1 '
            "or 2026-01-01..2026-03-31"
        )
    return Period(name, *span)


def _named_span(name: str) -> tuple[date, date] | None:
    if found := _YEAR.fullmatch(name):
        year = int(found[1])
        return date(year, 1, 1), date(year, 12, 31)
    if found := _MONTH.fullmatch(name):
        return _months(int(found[1]), int(found[2]), 1)
    if found := _QUARTER.fullmatch(name):
        return _months(int(found[1]), 3 * int(found[2]) - 2, 3)
    if found := _SPAN.fullmatch(name):
        return date.fromisoformat(found[1]), date.fromisoformat(found[2])
    return None


def _months(year: int, month: int, count: int) -> tuple[date, date]:
    last = month + count - 1
    return date(year, month, 1), date(year, last, monthrange(year, last)[1])


def _rolling_span(name: str, today: date) -> tuple[date, date] | None:
    """`1d` is today alone, `1w` seven days, `1m` from the day after the same day a month ago."""
    found = _ROLLING.fullmatch(name)
    if found is None or int(found[1]) == 0:
        return None
    count, unit = int(found[1]), found[2]
    if unit in "dw":
        before = today - timedelta(days=count * (7 if unit == "w" else 1))
    else:
        month = today.year * 12 + today.month - 1 - count * (12 if unit == "y" else 1)
        year, month = divmod(month, 12)
        before = date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))
    return before + timedelta(days=1), today
