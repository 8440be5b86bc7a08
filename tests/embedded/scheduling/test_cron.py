"""When schedules fire: the calendar's odd days, and both changes of the clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.scheduling.cron import check_cron, check_zone, firings, next_firing

NEW_YORK = "America/New_York"


def first(expression: str, zone: str, after: str, count: int = 3) -> list[str]:
    start = datetime.fromisoformat(after).replace(tzinfo=UTC)
    return [f"{moment:%Y-%m-%d %H:%M}" for moment in islice(firings(expression, zone, start), count)]


def test_a_time_in_the_gap_runs_right_after_it_and_only_once() -> None:
    # 2026-03-08 in New York: 02:00 EST is 03:00 EDT, which is 07:00 UTC
    assert first("30 2 * * *", NEW_YORK, "2026-03-07T08:00") == [
        "2026-03-08 07:00",
        "2026-03-09 06:30",
        "2026-03-10 06:30",
    ]
    assert first("0 2,3 * * *", NEW_YORK, "2026-03-08T00:00") == [
        "2026-03-08 07:00",
        "2026-03-09 06:00",
        "2026-03-09 07:00",
    ]


def test_a_time_in_the_repeated_hour_runs_the_first_time_only() -> None:
    # 2026-11-01 in New York: 01:30 comes at 05:30 UTC (EDT) and at 06:30 UTC (EST)
    assert first("30 1 * * *", NEW_YORK, "2026-10-31T12:00") == [
        "2026-11-01 05:30",
        "2026-11-02 06:30",
        "2026-11-03 06:30",
    ]


def test_asking_within_the_second_pass_of_the_repeated_hour_finds_no_time_in_the_past() -> None:
    assert first("45 1 * * *", NEW_YORK, "2026-11-01T06:30", 1) == ["2026-11-02 06:45"]


def test_every_hour_means_every_hour_that_passes() -> None:
    assert first("30 * * * *", NEW_YORK, "2026-11-01T04:00", 4) == [
        "2026-11-01 04:30",
        "2026-11-01 05:30",
        "2026-11-01 06:30",
        "2026-11-01 07:30",
    ]
    assert first("30 * * * *", NEW_YORK, "2026-03-08T06:00", 2) == ["2026-03-08 06:30", "2026-03-08 07:30"]


def test_a_zone_with_a_change_of_half_an_hour() -> None:
    # Lord Howe Island, 2026-10-04: 02:00 (+10:30) is 02:30 (+11)
    assert first("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00", 2) == ["2026-10-03 15:30", "2026-10-04 15:15"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 8 31 * *", ["2026-03-31 08:00", "2026-05-31 08:00"]),
        ("0 8 L * *", ["2026-02-28 08:00", "2026-03-31 08:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 12 * * 0", ["2026-02-01 12:00", "2026-02-08 12:00"]),
        ("0 12 * * 7", ["2026-02-01 12:00", "2026-02-08 12:00"]),
        ("0 12 * * MON-FRI", ["2026-02-02 12:00", "2026-02-03 12:00"]),
    ],
)
def test_month_ends_leap_days_and_weekdays(expression: str, expected: list[str]) -> None:
    assert first(expression, "UTC", "2026-01-31T12:30", 2) == expected


@pytest.mark.parametrize(
    "expression", ["", "@daily", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "x * * * *", "* " * 200]
)
def test_expressions_that_cannot_fire_are_wrong(expression: str) -> None:
    assert check_cron(expression) is not None


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../../etc/passwd", "Europe", "/etc/localtime"])
def test_zones_that_do_not_exist_are_wrong(zone: str) -> None:
    assert check_zone(zone) is not None


def test_what_is_right_has_no_problem() -> None:
    assert check_cron("*/15 9-16 * * 1-5") is None
    assert check_zone("Asia/Kathmandu") is None


@settings(deadline=None, max_examples=40)
@given(
    expression=st.sampled_from(
        ["0 2 * * *", "30 1,2,3 * * *", "*/20 * * * *", "15 */2 * * *", "0 0 L * *", "5 3 * * 1"]
    ),
    zone=st.sampled_from([NEW_YORK, "Europe/Zurich", "Australia/Lord_Howe", "America/Sao_Paulo", "UTC"]),
    after=st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1)).map(lambda value: value.replace(tzinfo=UTC)),
)
def test_firings_are_later_than_asked_and_strictly_in_order(expression: str, zone: str, after: datetime) -> None:
    found = [after, *islice(firings(expression, zone, after), 12)]
    assert all(earlier < later for earlier, later in pairwise(found))
    # asking again from any point between two firings gives the same next one
    between = found[5] + (found[6] - found[5]) / 2
    assert next_firing(expression, zone, between - timedelta(microseconds=between.microsecond)) == found[6]
