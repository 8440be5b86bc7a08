"""Which firings of a schedule are due, which are merged, and which came too late: pure arithmetic on times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from .cron import firings

__all__ = ["MOST_COUNTED", "Due", "due"]

MOST_COUNTED = 1000


class Due(NamedTuple):
    """`run` is the firing to run now, standing also for `merged` earlier ones. `missed` firings between `first` and
    `last` are too late to run; `missed` counts to `MOST_COUNTED` and no further."""

    run: datetime | None
    merged: int
    missed: int
    first: datetime | None
    last: datetime | None


def due(trigger: Mapping[str, Any], handled_until: datetime, now: datetime) -> Due:
    """What happened between what was last dealt with and now."""
    cron, zone = trigger["cron_expression"], trigger["timezone"]
    oldest = now - timedelta(seconds=trigger["misfire_grace_time"])
    missed, first, last = 0, None, None
    for firing in islice(firings(cron, zone, handled_until), MOST_COUNTED):
        if firing >= oldest or firing > now:
            break
        missed, first, last = missed + 1, first or firing, firing
    start = max(handled_until, oldest - timedelta(microseconds=1))  # a firing exactly as old as allowed still runs
    runnable = []
    for firing in firings(cron, zone, start):
        if firing > now:
            break
        runnable.append(firing)
        if not trigger["coalesce"]:
            break
    run = runnable[-1] if runnable else None
    if missed == MOST_COUNTED:
        last = oldest
    return Due(run, max(0, len(runnable) - 1), missed, first, last)
