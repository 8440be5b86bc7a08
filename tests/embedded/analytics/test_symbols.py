"""One spelling for what a fill was in."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from zorivest_rpc.embedded.analytics.symbols import parse_contract, parse_instrument


@pytest.mark.parametrize(
    ("written", "symbol"),
    [
        ("spy", "SPY"),
        (" SPY STK (USD) ", "SPY"),
        ("SPY ETF", "SPY"),
        ("BRK.B (USD)", "BRK.B"),
        ("AAPL 260320 C 200", "AAPL 260320 C 200"),
        ("aapl  260320  c  200.50", "AAPL 260320 C 200.5"),
        ("AAPL  260320C00200000", "AAPL 260320 C 200"),
        ("F     260320P00012500", "F 260320 P 12.5"),
        (".AAPL260320C200", "AAPL 260320 C 200"),
        (".SPXW260320P5912.5", "SPXW 260320 P 5912.5"),
        ("ES 03-26", "ES 03-26"),
        ("EUR/USD", "EUR/USD"),
    ],
)
def test_every_accepted_spelling_becomes_one_symbol(written: str, symbol: str) -> None:
    assert parse_instrument(written).symbol == symbol
    assert parse_instrument(symbol).symbol == symbol


@pytest.mark.parametrize(
    ("symbol", "asset_class", "multiplier"),
    [
        ("SPY", "EQUITY", 1),
        ("BRK.B", "EQUITY", 1),
        ("AAPL 260320 C 200", "OPTION", 100),
        ("ES 03-26", "FUTURE", 50),
        ("MNQ 12-26", "FUTURE", 2),
        ("CL 06-26", "FUTURE", 1000),
        ("GC 06-26", "FUTURE", 100),
        ("ZZ 12-26", "FUTURE", 1),
        ("EUR.USD", "FOREX", 1),
        ("BTC-USD", "CRYPTO", 1),
    ],
)
def test_the_asset_class_decides_the_multiplier(symbol: str, asset_class: str, multiplier: int) -> None:
    found = parse_instrument(symbol)
    assert (found.asset_class, found.multiplier) == (asset_class, Decimal(multiplier))


def test_an_option_carries_its_terms() -> None:
    contract = parse_instrument(".AAPL260320P187.5").contract
    assert contract is not None
    assert (contract.underlying, contract.expiry, contract.right, contract.strike) == (
        "AAPL", date(2026, 3, 20), "P", Decimal("187.5"),
    )  # fmt: skip


def test_a_date_that_does_not_exist_makes_no_option() -> None:
    assert parse_contract("AAPL 261320 C 200") is None
    assert parse_instrument("AAPL 261320 C 200").asset_class == "EQUITY"


def test_a_suffix_alone_stays_a_symbol() -> None:
    assert parse_instrument("ETF").symbol == "ETF"
