"""What is due after a while: run, merge, or tell as missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from zorivest_rpc.embedded.scheduling.due import MOST_COUNTED, due

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def trigger(cron: str, **changes: Any) -> dict[str, Any]:
    usual = {"cron_expression": cron, "timezone": "UTC", "misfire_grace_time": 3600, "coalesce": True}
    return {**usual, **changes}


def test_nothing_is_due_before_the_first_firing() -> None:
    assert due(trigger("0 13 * * *"), NOW - timedelta(hours=1), NOW) == (None, 0, 0, None, None)


def test_a_firing_at_this_very_moment_is_due_and_one_that_was_handled_is_not() -> None:
    assert due(trigger("0 12 * * *"), NOW - timedelta(hours=1), NOW).run == NOW
    assert due(trigger("0 12 * * *"), NOW, NOW).run is None


def test_several_firings_within_the_grace_time_become_one() -> None:
    found = due(trigger("*/15 * * * *"), NOW - timedelta(minutes=50), NOW)
    assert (found.run, found.merged, found.missed) == (NOW, 3, 0)


def test_without_coalescing_they_run_one_after_the_other() -> None:
    found = due(trigger("*/15 * * * *", coalesce=False), NOW - timedelta(minutes=50), NOW)
    assert (found.run, found.merged) == (NOW - timedelta(minutes=45), 0)


def test_a_firing_exactly_as_late_as_allowed_still_runs() -> None:
    on_time = due(trigger("0 11 * * *"), NOW - timedelta(days=1), NOW)
    assert (on_time.run, on_time.missed) == (NOW - timedelta(hours=1), 0)
    too_late = due(trigger("0 11 * * *"), NOW - timedelta(days=1), NOW + timedelta(microseconds=1))
    assert (too_late.run, too_late.missed) == (None, 1)


def test_firings_beyond_the_grace_time_are_counted_with_their_span() -> None:
    found = due(trigger("0 * * * *"), NOW - timedelta(hours=5), NOW + timedelta(minutes=30))
    assert found.missed == 4
    assert (found.first, found.last) == (NOW - timedelta(hours=4), NOW - timedelta(hours=1))
    assert found.run == NOW


def test_a_year_of_missed_minutes_is_counted_to_a_limit() -> None:
    found = due(trigger("* * * * *"), NOW - timedelta(days=365), NOW)
    assert found.missed == MOST_COUNTED
    assert found.last is not None
    assert found.last > NOW - timedelta(hours=2)  # dealt with in one go all the same
    assert found.run == NOW
