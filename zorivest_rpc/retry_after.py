"""How long a server asks to be left alone: the header `Retry-After`, as seconds or as a date (RFC 9110, 10.2.3).

A date is compared with the `Date` of the same answer where there is one, so that two clocks may disagree."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["LONGEST_WAIT", "read_retry_after"]

LONGEST_WAIT = 999_999_999.0  # whatever number of digits a server sends
_LONGEST_DATE = 64


def read_retry_after(
    stated: str | None, sent: str | None = None, *, now: Callable[[], float] = time.time
) -> float | None:
    """Seconds from now on; 0 for a date that is past, None where nothing usable is stated. `sent` is the header
    `Date` of the same answer, `now` our own clock in its place."""
    text = (stated or "").strip()
    if text.isascii() and text.isdecimal():
        return min(float(text), LONGEST_WAIT)
    until = _read_date(text)
    if until is None:
        return None
    start = _read_date(sent or "")
    return min(max(0.0, until - (now() if start is None else start)), LONGEST_WAIT)


def _read_date(text: str) -> float | None:
    if not text or len(text) > _LONGEST_DATE:
        return None
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):  # what it raises depends on what is wrong, and on Python
        return None
