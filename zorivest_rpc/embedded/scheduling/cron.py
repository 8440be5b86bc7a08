"""When a cron expression fires in a time zone, also where the clocks change.

Five fields, weekday 0 and 7 are Sunday. The rules at a change of the clocks are those of Debian's cron: a job at a
fixed hour that falls into the gap runs right after it and one in the repeated hour runs once, the first time; a job
with `*` in the minute or hour field follows elapsed time, so it neither stops in the repeated hour nor fires twice
at one instant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

__all__ = ["check_cron", "check_zone", "firings", "next_firing"]

_FIELDS = 5
_LONGEST = 200


def check_zone(name: str) -> str | None:
    """What is wrong with a zone name, or None."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f'"{name}" is not an IANA time zone'
    return None


def check_cron(expression: str) -> str | None:
    """What is wrong with an expression, or None; one that never fires is wrong too."""
    if len(expression) > _LONGEST or len(expression.split()) != _FIELDS:
        return "must have five fields: minute hour day month weekday"
    try:
        next(CronSim(expression, datetime(2024, 1, 1, tzinfo=UTC)))
    except CronSimError as exc:
        return str(exc)
    except StopIteration:
        return "never fires"
    return None


def firings(expression: str, zone: str, after: datetime) -> Iterator[datetime]:
    """Every firing strictly after an instant, in UTC, each instant once and in order."""
    last = after.astimezone(UTC)
    source: Any = CronSim(expression, last.astimezone(ZoneInfo(zone)))
    for local in source:
        moment = local.astimezone(UTC)
        # Wall-clock arithmetic can land before the start (repeated hour) or twice on one instant (end of the gap).
        if moment > last:
            last = moment
            yield moment


def next_firing(expression: str, zone: str, after: datetime) -> datetime | None:
    return next(firings(expression, zone, after), None)
