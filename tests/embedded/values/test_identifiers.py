"""Identifiers are judged by their check digits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.embedded.values.identifiers import (
    IdentifierType,
    classify,
    cusip_to_isin,
    is_valid,
    isin_to_cusip,
    problem,
)

GOOD = {
    IdentifierType.CUSIP: ["037833100", "594918104", "17275R102", "38259P508", "68389X105"],
    IdentifierType.ISIN: ["US0378331005", "US5949181045", "GB0002634946", "DE000BAY0017", "AU0000XVGZA3"],
    IdentifierType.SEDOL: ["0263494", "B0YBKJ7", "7108899", "B000300", "4065663"],
    IdentifierType.FIGI: ["BBG000B9XRY4", "BBG000BLNNH6", "BBG000BPH459"],
}
CASES = [(kind, value) for kind, values in GOOD.items() for value in values]


@pytest.mark.parametrize(("kind", "value"), CASES)
def test_published_identifiers_are_good_and_recognised_by_their_shape(kind: IdentifierType, value: str) -> None:
    assert problem(kind, value) is None
    assert classify(value) is kind
    assert is_valid(kind.value, f" {value.lower()} ")


@pytest.mark.parametrize(("kind", "value"), CASES)
def test_every_wrong_check_digit_is_told_with_the_right_one(kind: IdentifierType, value: str) -> None:
    for digit in set("0123456789") - {value[-1]}:
        assert problem(kind, value[:-1] + digit) == f"the check digit is {digit}, but should be {value[-1]}"


@pytest.mark.parametrize(("kind", "value"), CASES)
def test_swapping_a_digit_elsewhere_is_noticed(kind: IdentifierType, value: str) -> None:
    for place, char in enumerate(value[:-1]):
        if char.isdigit():
            other = value[:place] + str((int(char) + 1) % 10) + value[place + 1 :]
            assert not is_valid(kind, other)


@pytest.mark.parametrize(
    "value", ["", "AAPL", "03783310", "0378331000", "US03783310055", "0263A94", "ĀB0002634946", "٠263494"]
)
def test_a_wrong_shape_is_told_as_such(value: str) -> None:
    assert classify(value) is None
    for kind in IdentifierType:
        assert "has" in (problem(kind, value) or "")


def test_sedol_and_figi_have_no_vowels() -> None:
    assert not is_valid("sedol", "A0YBKJ7")
    assert not is_valid("figi", "BBG000A9XRY4")


def test_a_figi_never_begins_like_a_country() -> None:
    assert problem("figi", "GBG000B9XRY4") == "a FIGI does not begin with GB"


def test_a_us_isin_holds_its_cusip_and_back() -> None:
    assert isin_to_cusip("US0378331005") == "037833100"
    assert cusip_to_isin("037833100") == "US0378331005"
    assert cusip_to_isin("136375102", "CA") == "CA1363751027"
    assert isin_to_cusip("CA1363751027") == "136375102"


def test_what_has_no_counterpart_gives_none() -> None:
    assert isin_to_cusip("GB0002634946") is None
    assert isin_to_cusip("US0378331006") is None
    assert cusip_to_isin("037833101") is None
    assert cusip_to_isin("037833100", "GB") is None


@given(st.text(alphabet="0123456789ABCDEFGHJKLMNPQRSTUVWXYZ", min_size=8, max_size=8))
def test_every_cusip_survives_the_way_to_isin_and_back(body: str) -> None:
    cusip = next(body + str(digit) for digit in range(10) if is_valid("cusip", body + str(digit)))
    isin = cusip_to_isin(cusip)
    assert isin is not None
    assert is_valid("isin", isin)
    assert isin_to_cusip(isin) == cusip
