"""When schedules fire: the calendar's odd days, and both changes of the clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

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


ZONES = (
    *("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Asia/Beirut"),
    *("Africa/Casablanca", "Antarctica/Troll", "America/St_Johns", "Asia/Kolkata", "Pacific/Apia", "Europe/Dublin"),
    *("Asia/Tehran", "America/Havana", "Pacific/Chatham", "UTC"),
)


def told_by_the_clock(minute: int, hour: int, zone: str, day: date) -> datetime:
    """When a job at a fixed time of a day has to run: at that time, the first time it comes, or when the gap that
    swallowed it ends; found by looking at every minute that passes and not by arithmetic on offsets."""
    moment = datetime.combine(day, time(), UTC) - timedelta(hours=16)
    for _ in range(60 * 60):
        local = moment.astimezone(ZoneInfo(zone))
        if (local.date(), local.hour, local.minute) >= (day, hour, minute):
            return moment
        moment += timedelta(minutes=1)
    raise AssertionError("the day never came")


@pytest.mark.parametrize("zone", ZONES)
def test_around_every_change_of_the_clocks_a_fixed_time_runs_once_a_day(zone: str) -> None:
    """The days before, of and after each change of one year, at times inside and beside it."""
    changes = []
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    while moment.year == 2026:
        following = moment + timedelta(hours=1)
        if moment.astimezone(ZoneInfo(zone)).utcoffset() != following.astimezone(ZoneInfo(zone)).utcoffset():
            changes.append(following.astimezone(ZoneInfo(zone)).date())
        moment = following
    for change in changes or [date(2026, 3, 29)]:
        for hour, minute in ((0, 0), (0, 30), (1, 0), (1, 30), (1, 59), (2, 0), (2, 15), (2, 30), (3, 0), (23, 45)):
            days = [change + timedelta(days=offset) for offset in (-1, 0, 1)]
            expected = [told_by_the_clock(minute, hour, zone, day) for day in days]
            start = expected[0] - timedelta(minutes=1)
            assert list(islice(firings(f"{minute} {hour} * * *", zone, start), 3)) == expected, (zone, change, hour)


def test_a_zone_of_half_an_hour_in_autumn_and_a_day_that_never_was() -> None:
    # Lord Howe Island, 2026-04-05: 02:00 (+11) is 01:30 (+10:30); 01:45 comes at 14:45 and at 15:15 UTC
    assert first("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", 2) == ["2026-04-04 14:45", "2026-04-05 15:15"]
    assert first("*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30", 5) == [
        *("2026-04-04 14:45", "2026-04-04 15:00", "2026-04-04 15:15", "2026-04-04 15:30", "2026-04-04 15:45"),
    ]
    # Samoa left out the 30th of December 2011; what was due on it runs when the 31st begins
    assert first("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00") == [
        *("2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"),
    ]
