"""The currency of a trade that names none: of every class of asset, and what makes a code."""

from __future__ import annotations

import pytest

from zorivest_rpc.embedded.values.currencies import currency_of, fixed_currency, is_currency
from zorivest_rpc.embedded.values.kinds import AssetClass

# a symbol, and what it is fixed to in each class where it is; in every other class it is fixed to nothing
FIXED = {
    "EUR/JPY": {"FOREX": "JPY"},
    "EUR/USD": {"FOREX": "USD"},
    "EURUSD": {},
    "USD": {},
    "/USD": {"FOREX": "USD"},
    "EUR/us": {},
    "EUR/": {},
    "BTC-EUR": {"CRYPTO": "EUR"},
    "ETH-USDT": {"CRYPTO": "USDT"},
    "BTC-EUR-PERP": {"CRYPTO": "PERP"},
    "BTC": {"FUTURE": "USD"},
    "BTC-12": {},
    "BTC/EUR": {"FOREX": "EUR"},
    "ES 202612": {"FUTURE": "USD"},
    "ES": {"FUTURE": "USD"},
    "FDAX 202612": {"FUTURE": "EUR"},
    "QQQ9 202612": {},
    "AAPL": {},
    "SAP": {},
}


@pytest.mark.parametrize("asset_class", [kind.value for kind in AssetClass])
@pytest.mark.parametrize("symbol", FIXED)
def test_a_pair_and_a_known_future_are_fixed_to_a_currency_and_nothing_else_is(symbol: str, asset_class: str) -> None:
    expected = FIXED[symbol].get(asset_class)
    assert fixed_currency(asset_class, symbol) == expected
    assert currency_of(symbol, asset_class, symbol, "CHF") == (expected or "CHF")


@pytest.mark.parametrize(
    ("instrument", "asset_class", "symbol", "currency"),
    [
        ("SAP (EUR)", "EQUITY", "SAP", "EUR"),
        ("sap (eur) ", "EQUITY", "SAP", "EUR"),
        ("SAP (EUR) SE", "EQUITY", "SAP", "CHF"),  # not behind the symbol
        ("SAP (EURO)", "EQUITY", "SAP", "CHF"),
        ("SAP EUR", "EQUITY", "SAP", "CHF"),
        ("EUR/USD (JPY)", "FOREX", "EUR/USD", "USD"),  # what is fixed is stronger than what is written
        ("ES 202612 (EUR)", "FUTURE", "ES 202612", "USD"),
        ("ESTX (EUR)", "FUTURE", "QQQ9 202612", "EUR"),
    ],
)
def test_what_is_written_behind_a_symbol_counts_before_the_usual_currency(
    instrument: str, asset_class: str, symbol: str, currency: str
) -> None:
    assert currency_of(instrument, asset_class, symbol, "CHF") == currency


@pytest.mark.parametrize(
    ("code", "is_one"),
    [("EU", False), ("EUR", True), ("USDT", True), ("USDTX", True), ("USDTXX", False), ("eur", False), ("E1R", False)],
)
def test_a_code_has_three_to_five_capital_letters(code: str, is_one: bool) -> None:
    assert is_currency(code) is is_one
