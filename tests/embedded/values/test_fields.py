"""Reading typed values out of requests, and JSON answers."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.errors import Invalid
from zorivest_rpc.embedded.rest.routing import reply
from zorivest_rpc.embedded.values.fields import Fields


def test_good_values_come_back_typed() -> None:
    fields = Fields(
        {
            "name": "x",
            "side": "bot",
            "on": "yes",
            "n": "7",
            "price": "1.50",
            "extra": object(),
            "at": "2026-01-02T03:04:05+01:00",
            "day": "2026-01-02",
            "tags": ["a"],
        }
    )
    assert fields.text("name", least=1) == "x"
    assert fields.choice("side", ["BOT", "SLD"]) == "BOT"
    assert fields.flag("on") is True
    assert fields.integer("n", least=1, most=9) == 7
    assert fields.decimal("price", above=0) == Decimal("1.50")
    assert fields.moment("at") == datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC)
    assert fields.day("day") == date(2026, 1, 2)
    assert fields.texts("tags") == ["a"]
    fields.done()


def test_a_moment_without_a_zone_is_utc() -> None:
    assert Fields({"at": "2026-01-02T03:04"}).moment("at") == datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def test_absent_and_null_fields_take_their_default() -> None:
    fields = Fields({"a": None})
    assert fields.text("a", "d") == "d"
    assert fields.integer("b", None) is None
    assert fields.flag("c", True) is True
    fields.done()


def test_everything_wrong_is_told_at_once() -> None:
    fields = Fields(
        {
            "short": "",
            "side": "UP",
            "on": "maybe",
            "n": 1.5,
            "big": 10,
            "price": "NaN",
            "fine": "0.0000001",
            "zero": 0,
            "at": "yesterday",
            "day": 5,
            "tags": "a",
            "yes": True,
            "nul": "a\x00b",
        }
    )
    fields.text("missing")
    fields.text("short", least=1)
    fields.text("nul")
    fields.choice("side", ["BOT", "SLD"])
    fields.flag("on")
    fields.integer("n")
    fields.integer("big", most=9)
    fields.integer("yes")
    fields.decimal("price")
    fields.decimal("fine", places=6)
    fields.decimal("zero", above=0)
    fields.moment("at")
    fields.day("day")
    fields.texts("tags")
    with pytest.raises(Invalid) as refused:
        fields.done()
    assert set(refused.value.detail["errors"]) == {
        *("missing", "short", "nul", "side", "on", "n", "big", "yes", "price", "fine", "zero", "at", "day", "tags"),
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(JSON)
@settings(deadline=None, max_examples=200)
def test_no_value_breaks_a_reader(value: Any) -> None:
    fields = Fields({"x": value})
    for read in (fields.text, fields.flag, fields.integer, fields.decimal, fields.moment, fields.day, fields.texts):
        read("x")
    fields.choice("x", ["a"])


def test_answers_hold_numbers_not_strings() -> None:
    body = reply({"price": Decimal("512.400000"), "n": Decimal("3.000000"), "t": datetime(2026, 1, 2, tzinfo=UTC)}).body
    assert isinstance(body, bytes)
    assert json.loads(body) == {"price": 512.4, "n": 3, "t": "2026-01-02T00:00:00+00:00"}


@pytest.mark.parametrize("text", ["1e999999999", "-1e999999999", "1e400", "1e-999999999", "1e31"])
def test_an_absurd_exponent_is_refused_at_once(text: str) -> None:
    fields = Fields({"a": Decimal(text), "b": Decimal(text), "c": text})
    fields.decimal("a")
    fields.integer("b")
    fields.decimal("c")
    assert set(fields.errors) == {"a", "b", "c"}
