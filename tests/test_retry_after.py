"""How long a server asks to be left alone, in both forms of the header and in none."""

from __future__ import annotations

import pytest

from zorivest_rpc.retry_after import LONGEST_WAIT, read_retry_after

NOW = 1_773_154_800.0  # Tue, 10 Mar 2026 15:00:00 GMT


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [
        ("0", 0.0),
        (" 7 ", 7.0),
        ("0000000007", 7.0),
        ("9" * 5000, LONGEST_WAIT),
        ("Tue, 10 Mar 2026 15:02:00 GMT", 120.0),
        ("Tuesday, 10-Mar-26 15:02:00 GMT", 120.0),  # the obsolete forms that a recipient has to accept
        ("Tue Mar 10 15:02:00 2026", 120.0),
        ("Tue, 10 Mar 2026 17:02:00 +0200", 120.0),
        ("Tue, 10 Mar 2026 14:59:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT),
        *((text, None) for text in ("", "soon", "-5", "+5", "1.5", "1e3", "nan", "inf", "٧", "²", "5, 5", "0x10")),
        *(
            (text, None)
            for text in ("Fri, 99 Foo 9999999 99:99:99 GMT", "Tue, 10 Mar 2026 25:61:61 GMT", "Tue, 10 Mar")
        ),
        ("Tue, 10 Mar 2026 15:02:00 " + "(" * 5000, None),
        (None, None),
    ],
)
def test_a_time_to_wait_is_read_or_is_none(stated: str | None, seconds: float | None) -> None:
    assert read_retry_after(stated, now=lambda: NOW) == seconds


def test_a_date_is_compared_with_the_date_of_the_answer() -> None:
    stated, sent = "Mon, 01 Jan 2001 00:00:30 GMT", "Mon, 01 Jan 2001 00:00:00 GMT"
    assert read_retry_after(stated, sent, now=lambda: NOW) == 30.0
    assert read_retry_after(stated, "some day", now=lambda: NOW) == 0.0
    assert read_retry_after("7", sent, now=lambda: NOW) == 7.0
