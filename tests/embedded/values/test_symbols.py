"""Symbol normalisation, options, futures, multipliers."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.values.symbols import parse_contract, parse_instrument


@pytest.mark.parametrize(
    ("text", "symbol", "asset_class", "multiplier"),
    [
        ("SPY STK (USD)", "SPY", "EQUITY", 1),
        ("  spy ", "SPY", "EQUITY", 1),
        ("QQQ ETF", "QQQ", "EQUITY", 1),
        ("SAP (EUR)", "SAP", "EQUITY", 1),
        ("BRK.B", "BRK.B", "EQUITY", 1),
        ("AAPL  260320C00200000", "AAPL 260320 C 200", "OPTION", 100),
        ("AAPL260320P00197500", "AAPL 260320 P 197.5", "OPTION", 100),
        (".AAPL260320C200", "AAPL 260320 C 200", "OPTION", 100),
        (".SPY260320P512.5", "SPY 260320 P 512.5", "OPTION", 100),
        ("aapl 260320 c 0200.50", "AAPL 260320 C 200.5", "OPTION", 100),
        ("AAPL 260320C200", "AAPL 260320 C 200", "OPTION", 100),
        ("SPXW  260320C05000000", "SPXW 260320 C 5000", "OPTION", 100),
        ("ES 03-26", "ES 03-26", "FUTURE", 50),
        ("/ESH26", "ES 03-26", "FUTURE", 50),
        ("MNQZ25", "MNQ 12-25", "FUTURE", 2),
        ("CL JUN26", "CL 06-26", "FUTURE", 1000),
        ("/ZBM26", "ZB 06-26", "FUTURE", 1000),
        ("EUR.USD", "EUR/USD", "FOREX", 1),
        ("eurusd", "EUR/USD", "FOREX", 1),
        ("BTC/USD", "BTC-USD", "CRYPTO", 1),
        ("ETHUSDT", "ETH-USDT", "CRYPTO", 1),
        ("BTC-USD", "BTC-USD", "CRYPTO", 1),
        ("BRK.B (USD)", "BRK.B", "EQUITY", 1),
        ("F     260320P00012500", "F 260320 P 12.5", "OPTION", 100),
        (".SPXW260320P5912.5", "SPXW 260320 P 5912.5", "OPTION", 100),
        ("GC 06-26", "GC 06-26", "FUTURE", 100),
        ("ZZ 12-26", "ZZ 12-26", "FUTURE", 1),
        ("ETF", "ETF", "EQUITY", 1),
        ("AAPL 20MAR26 200 C", "AAPL 260320 C 200", "OPTION", 100),
        ("AAPL 3/20/2026 Call $1,200.50", "AAPL 260320 C 1200.5", "OPTION", 100),
        ("AAPL Mar 20, '26 200 Put", "AAPL 260320 P 200", "OPTION", 100),
        ("PUT AAPL 03/20/26 200", "AAPL 260320 P 200", "OPTION", 100),
        ("ES 03-26 CME", "ES 03-26", "FUTURE", 50),
        ("ES JUN-26", "ES 06-26", "FUTURE", 50),
        ("/ESH2026:XCME", "ES 03-26", "FUTURE", 50),
    ],
)
def test_free_text_becomes_one_symbol(text: str, symbol: str, asset_class: str, multiplier: int) -> None:
    found = parse_instrument(text)
    assert (found.symbol, found.asset_class, found.multiplier) == (symbol, asset_class, Decimal(multiplier))
    assert parse_instrument(symbol) == found


def test_what_a_source_states_decides_how_a_text_is_read() -> None:
    near = date(2026, 1, 5)
    assert parse_instrument("ESH6", "FUTURE", near).symbol == "ES 03-26"
    assert parse_instrument("ESH6").asset_class == "EQUITY"
    assert parse_instrument("ZBM26", "FUTURE").symbol == "ZB 06-26"
    assert parse_instrument("EURUSD", "EQUITY")[:5] == ("EURUSD", "EQUITY", "EURUSD", Decimal(1), None)
    assert parse_instrument("T 4.25 11/15/34", "BOND").asset_class == "BOND"
    assert parse_instrument("XYZ", "OPTION").multiplier == 100


def test_an_option_has_its_parts() -> None:
    found = parse_instrument("AAPL  260320C00200500").contract
    assert found is not None
    assert (found.underlying, found.expiry, found.right, found.strike) == (
        *("AAPL", date(2026, 3, 20), "C"),
        Decimal("200.5"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "AAPL 261320 C 200",
        "AAPL  260230P00100000",
        "AAPL 260320 C 0",
        "ES 13-26",
        "AAPL 260320 C 10.",
        "X 40XYZ26 5 C",
    ],
)
def test_what_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_instrument(text)


def test_a_date_that_does_not_exist_makes_no_option() -> None:
    assert parse_contract("AAPL 261320 C 200") is None
    assert parse_contract("SPY") is None


@given(st.text(alphabet="ABCPZ/. -()0123456789", max_size=24))
@settings(deadline=None, max_examples=400)
def test_normalising_twice_changes_nothing(text: str) -> None:
    try:
        once = parse_instrument(text)
    except ValueError:
        return
    assert parse_instrument(once.symbol) == once


@given(
    st.from_regex(r"[A-Z]{1,5}", fullmatch=True),
    st.dates(date(2020, 1, 1), date(2040, 12, 31)),
    st.sampled_from("CP"),
    st.integers(1, 99_999_999),
)
@settings(deadline=None, max_examples=150)
def test_all_spellings_of_an_option_are_one_symbol(root: str, expiry: date, right: str, thousandths: int) -> None:
    strike = Decimal(thousandths) / 1000
    day = expiry.strftime("%y%m%d")
    spellings = [
        f"{root:<6}{day}{right}{thousandths:08}",
        f".{root}{day}{right}{strike}",
        f"{root} {day} {right} {strike}",
    ]
    found = {parse_contract(spelling) for spelling in spellings}
    assert len(found) == 1
    contract = found.pop()
    assert contract is not None
    assert contract.strike == strike
