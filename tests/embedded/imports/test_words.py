"""Every word of the tables by which files name sides, effects, zones, months, currencies and kinds of assets."""

from __future__ import annotations

import datetime as dt

import pytest

from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, Effect
from zorivest_rpc.embedded.imports.values import (
    currency_code,
    parse_date,
    parse_effect,
    parse_moment,
    parse_side,
)
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

BUYS_THAT_OPEN = "BTO|Buy to Open|Buy Open|Bought to Open"
BUYS_THAT_CLOSE = "BTC|Cover|Buy to Close|Buy to Cover|Buy Close|Bought to Cover|Bought to Close"
OTHER_BUYS = "B|Buy|BOT|Bought|Long|Purchase|Purchased|You Bought|Reinvest Shares|Reinvestment"
SALES_THAT_OPEN = (
    "STO|SS|Short|SSHRT|Sell to Open|Sell Short|Short Sell|Short Sale|Sell Open|Sold Short|Sold to Open|SELL_SHORT"
)
SALES_THAT_CLOSE = "STC|Sell to Close|Sell Close|Sold to Close"
OTHER_SALES = "S|Sell|SLD|Sold|Sale|You Sold"
WORDS = [
    (word, side, effect)
    for words, side, effect in (
        (BUYS_THAT_OPEN, Side.BOT, Effect.OPEN),
        (BUYS_THAT_CLOSE, Side.BOT, Effect.CLOSE),
        (OTHER_BUYS, Side.BOT, None),
        (SALES_THAT_OPEN, Side.SLD, Effect.OPEN),
        (SALES_THAT_CLOSE, Side.SLD, Effect.CLOSE),
        (OTHER_SALES, Side.SLD, None),
        ("To Open|Open|O|Opening", None, Effect.OPEN),
        ("To Close|Close|C|Closing", None, Effect.CLOSE),
        ("Dividend|Hold||Buyer", None, None),
    )
    for word in words.split("|")
]


@pytest.mark.parametrize(("word", "side", "effect"), WORDS)
def test_a_word_names_its_side_and_what_it_does_to_the_position(
    word: str, side: Side | None, effect: Effect | None
) -> None:
    for spelling in (word, word.upper(), word.lower().replace(" ", "_")):
        assert (parse_side(spelling), parse_effect(spelling)) == (side, effect)


# Offsets of the abbreviations at noon of a winter day; each is its own, whatever the season says.
ZONES = {
    "UTC": 12,
    "GMT": 12,
    "Z": 12,
    "EST": 17,
    "EDT": 16,
    "CST": 18,
    "CDT": 17,
    "MST": 19,
    "MDT": 18,
    "PST": 20,
    "PDT": 19,
    "BST": 11,
    "CET": 11,
    "CEST": 10,
    "JST": 3,
    "HKT": 4,
    "SGT": 4,
    "ET": 17,
    "CT": 18,
    "MT": 19,
    "PT": 20,
    "+01:00": 11,
    "-0330": 15.5,
    "UTC+02:00": 10,
    "GMT-14:59": 26 + 59 / 60,
}


@pytest.mark.parametrize(("name", "hour"), ZONES.items())
def test_a_stated_zone_moves_the_time(name: str, hour: float) -> None:
    found, known = parse_moment(f"2026-01-05 12:00:00 {name}", dt.UTC)
    assert (found, known) == (dt.datetime(2026, 1, 5, tzinfo=dt.UTC) + dt.timedelta(hours=hour), True)


@pytest.mark.parametrize(("name", "hour"), [("ET", 16), ("CT", 17), ("MT", 18), ("PT", 19), ("EST", 17)])
def test_zones_with_a_summer_follow_it(name: str, hour: int) -> None:
    assert parse_moment(f"2026-07-06 12:00 {name}", dt.UTC)[0].hour == hour


MONTHS = [
    "Jan January",
    "Feb February",
    "Mar March",
    "Apr April",
    "May",
    "Jun June",
    "Jul July",
    "Aug August",
    "Sep Sept September",
    "Oct October",
    "Nov November",
    "Dec December",
]


@pytest.mark.parametrize(("number", "names"), list(enumerate(MONTHS, start=1)))
def test_every_name_of_a_month_is_read(number: int, names: str) -> None:
    for name in names.split():
        for text in (f"9 {name} 2026", f"{name} 9, 2026", f"09{name.upper()}26"):
            assert parse_date(text) == dt.date(2026, number, 9)


CURRENCIES = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "C$": "CAD", "A$": "AUD", "₹": "INR"}


@pytest.mark.parametrize(("text", "code"), [*CURRENCIES.items(), ("chf", "CHF"), (" ", "SEK")])
def test_a_sign_or_a_code_names_a_currency(text: str, code: str) -> None:
    assert currency_code(text, "SEK") == code


ASSETS = {
    AssetClass.EQUITY: "STK|Stock|Stocks|Equity|EQ|ETF|us_equity|Common Stock",
    AssetClass.OPTION: "OPT|OPTN|Option|Options|Equity Option|us_option|Equity and Index Options|Call|Put",
    AssetClass.FUTURE: "FUT|Future|Futures",
    AssetClass.FOREX: "Cash|Forex|FX",
    AssetClass.BOND: "Bond|Bonds|BND",
    AssetClass.MUTUAL_FUND: "Fund|MF|Mutual Fund|Mutual Funds|MMF",
    AssetClass.CRYPTO: "Crypto|Cryptocurrency",
}
SYMBOLS = {
    AssetClass.OPTION: "SPY   240419P00384000",
    AssetClass.FUTURE: "ESM4",
    AssetClass.FOREX: "EUR/USD",
    AssetClass.CRYPTO: "BTC/USD",
}


@pytest.mark.parametrize(
    ("word", "asset"), [(word, asset) for asset, words in ASSETS.items() for word in words.split("|")]
)
def test_a_column_names_the_kind_of_asset(word: str, asset: AssetClass) -> None:
    text = f"Date,Symbol,Side,Qty,Price,Asset Class\n2024-01-25,{SYMBOLS.get(asset, 'QQQQ')},Buy,1,12,{word}\n"
    result = import_broker_file(text.encode(), BrokerHints(account_id="A1"))
    assert [trade.asset_class for trade in result.trades] == [asset], result.errors
