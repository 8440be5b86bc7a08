"""The period texts, read on a fixed day."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from zorivest_rpc.embedded.analytics.period import PeriodError, parse_period

TODAY = date(2026, 5, 31)  # a Sunday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("ytd", "2026-01-01", "2026-05-31"),
        ("QTD", "2026-04-01", "2026-05-31"),
        ("mtd", "2026-05-01", "2026-05-31"),
        ("wtd", "2026-05-25", "2026-05-31"),
        ("today", "2026-05-31", "2026-05-31"),
        ("1d", "2026-05-31", "2026-05-31"),
        ("30d", "2026-05-02", "2026-05-31"),
        ("2w", "2026-05-18", "2026-05-31"),
        ("1m", "2026-05-01", "2026-05-31"),  # a month ago is 30 April, the day after it 1 May
        ("3m", "2026-03-01", "2026-05-31"),  # three months ago is 28 February
        ("1y", "2025-06-01", "2026-05-31"),
        ("2025", "2025-01-01", "2025-12-31"),
        ("2024-02", "2024-02-01", "2024-02-29"),
        ("2026-Q1", "2026-01-01", "2026-03-31"),
        ("2026-q4", "2026-10-01", "2026-12-31"),
        ("2026-01-15..2026-02-03", "2026-01-15", "2026-02-03"),
    ],
)
def test_a_period_names_its_first_and_last_day(text: str, first: str, last: str) -> None:
    period = parse_period(text, TODAY)
    assert (period.first, period.last) == (date.fromisoformat(first), date.fromisoformat(last))


def test_all_is_open_on_both_sides() -> None:
    period = parse_period("all", TODAY)
    assert (period.start, period.end, period.days) == (None, None, None)
    assert period.holds(datetime(1970, 1, 1, tzinfo=UTC))


def test_a_period_holds_its_last_day_to_the_last_moment() -> None:
    period = parse_period("2026-Q1", TODAY)
    assert period.days == 31 + 28 + 31
    assert period.holds(datetime(2026, 1, 1, tzinfo=UTC))
    assert period.holds(datetime(2026, 3, 31, 23, 59, 59, 999999, tzinfo=UTC))
    assert not period.holds(datetime(2026, 4, 1, tzinfo=UTC))
    assert not period.holds(datetime(2025, 12, 31, 23, 59, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    ["", "never", "0d", "5", "13q", "2026-13", "2026-00", "2026-Q5", "2026-02-01..2026-01-01", "2026-02-30..2026-03-01",
     "9999y", "0000", "9999", "ytd; drop table trades"],
)  # fmt: skip
def test_anything_else_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(PeriodError, match="use all, ytd"):
        parse_period(text, TODAY)
