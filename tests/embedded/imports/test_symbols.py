"""Symbols of every broker meet in one normal form."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from zorivest_rpc.embedded.imports.symbols import parse_symbol
from zorivest_rpc.embedded.imports.values import BadValue
from zorivest_rpc.embedded.values.kinds import AssetClass


@pytest.mark.parametrize(
    "cell",
    [
        "AAPL 260320 C 200",
        "AAPL  260320C00200000",
        "AAPL260320C00200000",
        ".AAPL260320C200",
        "-AAPL260320C200",
        "AAPL 20MAR26 200 C",
        "AAPL 03/20/2026 200.00 C",
        "AAPL 3/20/2026 Call $200.00",
        "AAPL Mar 20 '26 $200 Call",
        "CALL AAPL 03/20/26 200",
        " aapl 260320 c 200.000 ",
    ],
)
def test_an_option_is_the_same_however_it_is_written(cell: str) -> None:
    symbol = parse_symbol(cell)
    assert symbol.symbol == "AAPL 260320 C 200"
    assert (symbol.asset_class, symbol.multiplier, symbol.underlying) == (AssetClass.OPTION, Decimal(100), "AAPL")
    assert symbol.contract == ("AAPL", dt.date(2026, 3, 20), "C", Decimal(200))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("SPXW  260320P05500500", "SPXW 260320 P 5500.5"),
        (".F260320P12.5", "F 260320 P 12.5"),
        ("AAPL 260320 C 1,250", "AAPL 260320 C 1250"),
    ],
)
def test_strikes_lose_their_padding_and_keep_their_cents(cell: str, text: str) -> None:
    assert parse_symbol(cell).symbol == text


@pytest.mark.parametrize(
    ("cell", "text"), [("SPY STK (USD)", "SPY"), ("spy etf", "SPY"), (" brk.b ", "BRK.B"), ("GOOG(USD)", "GOOG")]
)
def test_shares_lose_their_decoration(cell: str, text: str) -> None:
    symbol = parse_symbol(cell)
    assert (symbol.symbol, symbol.asset_class, symbol.multiplier) == (text, AssetClass.EQUITY, Decimal(1))


@pytest.mark.parametrize("asset", [None, AssetClass.FOREX])
def test_a_pair_is_spelled_as_the_journal_spells_it(asset: AssetClass | None) -> None:
    symbol = parse_symbol("EUR.USD", asset)
    assert (symbol.symbol, symbol.asset_class, symbol.underlying) == ("EUR/USD", AssetClass.FOREX, "EUR")


@pytest.mark.parametrize("cell", ["ES 03-26", "/ESH26", "/ESH26:XCME"])
def test_a_future_is_root_and_month(cell: str) -> None:
    symbol = parse_symbol(cell)
    assert (symbol.symbol, symbol.asset_class, symbol.multiplier) == ("ES 03-26", AssetClass.FUTURE, Decimal(50))


def test_a_one_digit_year_takes_its_decade_from_the_trade() -> None:
    future = AssetClass.FUTURE
    assert parse_symbol("ESH6", future, dt.date(2026, 1, 5)).symbol == "ES 03-26"
    assert parse_symbol("MNQZ9", future, dt.date(2019, 10, 1)).symbol == "MNQ 12-19"
    assert parse_symbol("ESH0", future, dt.date(2029, 12, 1)).symbol == "ES 03-30"
    assert parse_symbol("ZZH6", future, dt.date(2026, 1, 5)).multiplier == 1


@pytest.mark.parametrize(
    "cell", ["", "=1+1", "@X", "<b>", "A" * 50, "A" * 90, "AAPL 260320 C 10.", "AAPL 261399 C 10", "-"]
)
def test_what_is_no_symbol_is_refused(cell: str) -> None:
    with pytest.raises(BadValue):
        parse_symbol(cell)
