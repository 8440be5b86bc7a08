"""Numbers, dates, texts and sides as files write them."""

from __future__ import annotations

import contextlib
import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.embedded.imports.values import (
    BadValue,
    currency_code,
    decimal_mark,
    is_day_first,
    parse_date,
    parse_decimal,
    parse_moment,
    parse_side,
    plain_text,
    zone,
)
from zorivest_rpc.embedded.values.kinds import Side

NEW_YORK = zone("America/New_York")


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("0", "0"),
        ("1234.5", "1234.5"),
        ("1,234.56", "1234.56"),
        ("1.234,56", "1234.56"),
        ("1 234,56", "1234.56"),
        ("1'234.56", "1234.56"),
        ("1\u00a0234.56", "1234.56"),
        ("12,34,567.5", "1234567.5"),
        ("1,234", "1234"),
        ("0,125", "0.125"),
        ("12,5", "12.5"),
        ("1.234.567", "1234567"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+100", "100"),
        ("-3.5", "-3.5"),
        ("−3.5", "-3.5"),
        ("3.5-", "-3.5"),
        ("(123.45)", "-123.45"),
        ("($1,234.50)", "-1234.50"),
        ("$(5.00)", "-5.00"),
        ("-$5.00", "-5.00"),
        ("$-5.00", "-5.00"),
        ("€12,50", "12.50"),
        ("12.50 USD", "12.50"),
        ("USD 12.50", "12.50"),
        ("12.50 DR", "-12.50"),
        ("12.50CR", "12.50"),
        ("1.5E-05", "0.000015"),
        ("-0", "0"),
    ],
)
def test_a_number_is_read_in_every_usual_dress(cell: str, value: str) -> None:
    assert parse_decimal(cell) == Decimal(value)
    assert not parse_decimal(cell).is_zero() or not parse_decimal(cell).is_signed()


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "1,2345.6",
        "5%",
        "",
        "x",
        "-",
        "()",
        "1.2.3,4,5",
        "--5",
        "NaN",
        "Infinity",
        "1e999",
        "12 34",
        "0x10",
        "1_000",
        "٣",
        "9" * 16,
        "1" * 65,
    ],
)
def test_what_is_no_number_is_refused(cell: str) -> None:
    with pytest.raises(BadValue):
        parse_decimal(cell)


def test_the_mark_of_a_file_decides_what_a_cell_alone_cannot() -> None:
    assert parse_decimal("1.234", ",") == 1234
    assert parse_decimal("1.234", ".") == Decimal("1.234")
    assert parse_decimal("1,234", ",") == Decimal("1.234")
    with pytest.raises(BadValue):
        parse_decimal("172.50", ",")


def test_the_mark_is_proven_by_cells_that_allow_one_reading_only() -> None:
    assert decimal_mark(["1.234", "5,90"]) == ","
    assert decimal_mark(["1,234", "5.90"]) == "."
    assert decimal_mark(["1.234", "1,234", "7"]) is None
    assert decimal_mark(["1.50", "1,50"]) is None


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4))
def test_grouped_numbers_read_back_in_both_conventions(value: Decimal) -> None:
    american = f"{value:,}"
    european = american.translate(str.maketrans(",.", ".,"))
    assert parse_decimal(american, ".") == parse_decimal(european, ",") == value


@given(st.text(max_size=70))
def test_any_text_is_a_number_or_refused(cell: str) -> None:
    with contextlib.suppress(BadValue):
        assert parse_decimal(cell).is_finite()


@pytest.mark.parametrize(
    ("cell", "day"),
    [
        ("2024-03-05", (2024, 3, 5)),
        ("2024/3/5", (2024, 3, 5)),
        ("20240305", (2024, 3, 5)),
        ("03/05/2024", (2024, 3, 5)),
        ("3/5/24", (2024, 3, 5)),
        ("3/5/99", (1999, 3, 5)),
        ("05.03.2024", (2024, 3, 5)),
        ("5 MAR 24", (2024, 3, 5)),
        ("05-Mar-2024", (2024, 3, 5)),
        ("05MAR24", (2024, 3, 5)),
        ("Mar 5, 2024", (2024, 3, 5)),
        ("March 5 2024", (2024, 3, 5)),
        ("Mar 05 '24", (2024, 3, 5)),
    ],
)
def test_a_day_is_read_in_every_usual_order(cell: str, day: tuple[int, int, int]) -> None:
    assert parse_date(cell) == dt.date(*day)


def test_the_day_comes_first_where_the_file_says_so() -> None:
    assert parse_date("03/05/2024", day_first=True) == dt.date(2024, 5, 3)
    assert is_day_first(["03/05/2024", "25/12/2024"]) is True
    assert is_day_first(["03/05/2024", "12/25/2024"]) is False
    assert is_day_first(["03/05/2024", "2024-25-12"]) is None
    assert is_day_first(["13/05/2024", "12/25/2024"]) is None


@pytest.mark.parametrize(
    "cell", ["", "x", "2024-13-01", "02/30/2024", "0000-01-01", "5 FOO 24", "45123", "1/2", "9999-01-01"]
)
def test_what_is_no_day_is_refused(cell: str) -> None:
    with pytest.raises(BadValue):
        parse_date(cell)


@pytest.mark.parametrize(
    ("cell", "utc"),
    [
        ("2024-03-05 10:31:05", "2024-03-05T15:31:05"),
        ("2024-03-05T10:31:05Z", "2024-03-05T10:31:05"),
        ("2024-03-05T10:31:05.123456789Z", "2024-03-05T10:31:05.123456"),
        ("2024-03-05T10:31:05-0500", "2024-03-05T15:31:05"),
        ("2024-03-05T10:31:05+05:30", "2024-03-05T05:01:05"),
        ("20240305;103105", "2024-03-05T15:31:05"),
        ("20240305;103105 EST", "2024-03-05T15:31:05"),
        ("2024-03-05, 10:31:05", "2024-03-05T15:31:05"),
        ("03/05/2024 10:31:05 PM", "2024-03-06T03:31:05"),
        ("3/5/24 12:00:00 AM", "2024-03-05T05:00:00"),
        ("07/05/2024 09:30:00 EDT", "2024-07-05T13:30:00"),
        ("07/05/2024 09:30:00", "2024-07-05T13:30:00"),
        ("07/05/2024 09:30 PT", "2024-07-05T16:30:00"),
    ],
)
def test_a_moment_is_read_into_utc(cell: str, utc: str) -> None:
    moment, known = parse_moment(cell, NEW_YORK)
    assert (moment.replace(tzinfo=None).isoformat(), moment.tzinfo, known) == (utc, dt.UTC, True)


def test_a_day_without_a_time_is_noon_of_its_zone_and_says_so() -> None:
    assert parse_moment("2024-03-05", NEW_YORK) == (dt.datetime(2024, 3, 5, 17, tzinfo=dt.UTC), False)


@pytest.mark.parametrize(
    "cell", ["2024-03-05 25:00", "2024-03-05 13:00 PM", "2024-03-05 10:61", "2024-03-05 10:00 QQQ", "10:00"]
)
def test_what_is_no_moment_is_refused(cell: str) -> None:
    with pytest.raises(BadValue):
        parse_moment(cell, NEW_YORK)


def test_sides_are_known_by_many_words() -> None:
    for word in ("BUY", "b", "Bot", "Bought To Open", "BUY_TO_CLOSE", "Buy to Cover", "YOU BOUGHT"):
        assert parse_side(word) is Side.BOT
    for word in ("SELL", "s", "SLD", "Sold Short", "SELL_TO_OPEN", "SS", "Sell Short"):
        assert parse_side(word) is Side.SLD
    for word in ("", "Dividend", "Interest", "ACH"):
        assert parse_side(word) is None


def test_currencies_are_codes_or_signs() -> None:
    assert [currency_code(cell, "CHF") for cell in ("usd", "€", "")] == ["USD", "EUR", "CHF"]
    with pytest.raises(BadValue):
        currency_code("dollars", "USD")


def test_zones_that_do_not_exist_are_refused() -> None:
    for name in ("Mars/Base", "../etc/passwd", "", "/etc/localtime"):
        with pytest.raises(BadValue):
            zone(name)


@given(st.text(max_size=40))
def test_no_text_can_be_computed_by_a_spreadsheet(text: str) -> None:
    safe = plain_text(text)
    assert not safe.startswith(("=", "@", "\t", "\r"))
    assert plain_text(safe) == safe
