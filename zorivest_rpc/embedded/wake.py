"""`due.json`: when a backend that may sleep has something to do next, for the server that starts it for that.

Written whenever the schedule moves, so that it is right after a crash too. Standard library only."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from .disk.paths import DataDir, write_private

__all__ = ["LEAD", "SOON", "Due", "publish_due", "read_due"]

LEAD = timedelta(seconds=60)  # so long before it is due a sleeping backend is started
SOON = timedelta(seconds=150)  # with less to wait a backend stays; more than LEAD and a start on a slow machine

log = logging.getLogger("zorivest.scheduler")


class Due(NamedTuple):
    """What the file says: the next moment, or None where nothing is scheduled."""

    next: datetime | None


def publish_due(directory: DataDir, next_due: Callable[[], datetime | None]) -> None:
    """Write down the next moment. A full disk hinders no schedule: then the file is older, and the start is early."""
    moment = next_due()
    try:
        write_private(directory.due, json.dumps({"next_due": moment and moment.isoformat()}).encode())
    except OSError as exc:
        log.warning("%s could not be written: %s", directory.due, exc.strerror)


def read_due(directory: DataDir) -> Due | None:
    """None where nothing was written down, as by a backend that was never told that it may sleep."""
    try:
        content: Any = json.loads(directory.due.read_bytes())
        moment = content["next_due"]
        return Due(None if moment is None else datetime.fromisoformat(moment).astimezone(UTC))
    except (OSError, ValueError, KeyError, TypeError):
        return None
