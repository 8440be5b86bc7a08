"""The period grammar."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.errors import Invalid
from zorivest_rpc.embedded.values.period import parse_period

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)  # a Wednesday
SUNDAY = datetime(2026, 5, 31, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("today", "2026-03-18", "2026-03-18"),
        ("wtd", "2026-03-16", "2026-03-18"),
        ("mtd", "2026-03-01", "2026-03-18"),
        ("qtd", "2026-01-01", "2026-03-18"),
        (" YTD ", "2026-01-01", "2026-03-18"),
        ("1d", "2026-03-18", "2026-03-18"),
        ("7d", "2026-03-12", "2026-03-18"),
        ("1w", "2026-03-12", "2026-03-18"),
        ("1m", "2026-02-19", "2026-03-18"),
        ("2y", "2024-03-19", "2026-03-18"),
        ("2025", "2025-01-01", "2025-12-31"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2025-q4", "2025-10-01", "2025-12-31"),
        ("2025-Q1", "2025-01-01", "2025-03-31"),
        ("2025-01-05..2025-01-05", "2025-01-05", "2025-01-05"),
    ],
)
def test_a_period_is_whole_days(text: str, first: str, last: str) -> None:
    period = parse_period(text, NOW)
    assert period.start == datetime.fromisoformat(first + "T00:00:00+00:00")
    assert period.end == datetime.fromisoformat(last + "T00:00:00+00:00") + timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("QTD", "2026-04-01"),
        ("wtd", "2026-05-25"),
        ("30d", "2026-05-02"),
        ("2w", "2026-05-18"),
        ("1m", "2026-05-01"),  # a month ago is 30 April, the day after it 1 May
        ("3m", "2026-03-01"),  # three months ago is 28 February
        ("1y", "2025-06-01"),
    ],
)
def test_what_runs_to_today_ends_with_it(text: str, first: str) -> None:
    period = parse_period(text, SUNDAY)
    assert period.start == datetime.fromisoformat(first + "T00:00:00+00:00")
    assert period.end == datetime(2026, 6, 1, tzinfo=UTC)


def test_a_quarter_has_its_days() -> None:
    assert parse_period("2026-Q1", NOW).days == 31 + 28 + 31


def test_all_is_unbounded() -> None:
    period = parse_period("all", NOW)
    assert (period.start, period.end, period.days) == (None, None, None)
    assert period.contains(datetime.min.replace(tzinfo=UTC))
    assert period.contains(datetime.max.replace(tzinfo=UTC))


def test_the_end_is_outside_and_the_start_inside() -> None:
    period = parse_period("2025", NOW)
    assert period.start is not None
    assert period.end is not None
    assert period.contains(period.start)
    assert not period.contains(period.end)
    assert period.contains(period.end - timedelta(microseconds=1))


def test_the_last_day_of_a_longer_month_becomes_the_shorter_months_last() -> None:
    period = parse_period("1m", datetime(2026, 3, 31, tzinfo=UTC))
    assert period.start == datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("5", "13q", "2026-00", "9999", "9999y", "ytd; drop table trades"),
        *("", "ever", "0d", "-1d", "d", "1.5d", "99999y", "2025-13", "2025-Q5", "0000", "2025-02-30..2025-03-01"),
        *("2025-03-02..2025-03-01", "2025-1", "9999-12-01..9999-12-31", "1d; DROP TABLE trades", "١d"),
    ],
)
def test_anything_else_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_period(text, NOW)
    assert "YYYY-Q1..Q4" in refused.value.detail["errors"]["period"][0]


@given(st.text(max_size=30))
@settings(deadline=None, max_examples=300)
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        period = parse_period(text, NOW)
    except Invalid:
        return
    assert period.start is None or period.end is None or period.start < period.end


@given(st.integers(1, 3000), st.dates(date(2010, 1, 1), date(2100, 1, 1)))
@settings(deadline=None, max_examples=100)
def test_the_last_n_days_are_n_days(count: int, day: date) -> None:
    period = parse_period(f"{count}d", datetime.combine(day, datetime.min.time(), UTC))
    assert period.start is not None
    assert period.end is not None
    assert period.end - period.start == timedelta(days=count)


def test_days_begin_and_end_where_the_trader_lives() -> None:
    # 02:00 UTC on 1 April is still March in New York, and the clocks went forward on the 8th
    zone, now = ZoneInfo("America/New_York"), datetime(2026, 4, 1, 2, 0, tzinfo=UTC)
    period = parse_period("mtd", now, zone=zone)
    assert (period.start, period.end) == (datetime(2026, 3, 1, 5, tzinfo=UTC), datetime(2026, 4, 1, 4, tzinfo=UTC))
    assert period.days == 31
    assert parse_period("all", now, zone=zone).zone is zone


def test_a_first_year_that_begins_before_the_first_year_is_refused() -> None:
    assert parse_period("0001", NOW).days == 365
    with pytest.raises(Invalid):
        parse_period("0001", NOW, zone=ZoneInfo("Asia/Tokyo"))
