"""Results as JSON: one reading of numbers and times, whichever part of the backend answers."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.embedded.rest.routing import reply
from zorivest_rpc.embedded.values.answers import number, to_json


class Side(Enum):
    LONG = "long"


class Row(msgspec.Struct):
    money: Decimal
    at: datetime
    day: date = date(2026, 3, 20)
    side: Side = Side.LONG
    by_year: dict[int, Decimal] = {}
    hint: str | msgspec.UnsetType = msgspec.UNSET


AT = datetime(2026, 3, 20, 14, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0", "0"),
        ("-0.00", "0"),
        ("12.00", "12"),
        ("12.34", "12.34"),
        ("-3", "-3"),
        ("9007199254740991", "9007199254740991"),
        ("-9007199254740991", "-9007199254740991"),
        ("9007199254740992", "9007199254740992.0"),
        ("-9007199254740992", "-9007199254740992.0"),
        ("1E+20", "1e20"),
        ("0.000001", "1e-6"),
    ],
)
def test_a_number_is_whole_where_every_reader_keeps_it_and_a_double_elsewhere(value: str, shown: str) -> None:
    """Python's own json reads and writes them, the other encoder beside orjson."""
    expected = json.loads(shown)
    for found in (number(Decimal(value)), to_json(Row(Decimal(value), AT))["money"]):
        assert (type(found), found) == (type(expected), expected)
    assert json.loads(bytes(reply({"money": Decimal(value)}).body or b"")) == {"money": expected}  # type: ignore[arg-type]


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30))
def test_no_amount_is_too_large_for_an_answer(value: Decimal) -> None:
    answer = to_json(Row(value, AT))
    sent = json.loads(bytes(reply(answer).body or b""))  # type: ignore[arg-type]
    assert sent == answer
    assert float(sent["money"]) == float(value)


def test_times_have_an_offset_and_the_rest_is_plain() -> None:
    row = Row(Decimal("1.5"), AT, by_year={2026: Decimal("2.50")})
    assert to_json(row) == {
        "money": 1.5,
        "at": "2026-03-20T14:30:00+00:00",
        "day": "2026-03-20",
        "side": "long",
        "by_year": {"2026": 2.5},
    }
    east = AT.astimezone(timezone(timedelta(hours=2)))
    assert to_json(Row(Decimal(1), east))["at"] == "2026-03-20T16:30:00+02:00"
    for moment in (AT, east, AT.replace(microsecond=250)):
        shown = to_json(Row(Decimal(1), moment))["at"]
        assert json.loads(bytes(reply({"at": moment}).body or b"")) == {"at": shown}  # type: ignore[arg-type]
