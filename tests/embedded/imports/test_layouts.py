"""Every column of every flat layout arrives where it belongs: one row with all of them, and what became of each."""

# ruff: noqa: E501 - the lines of exports are as long as they are

from __future__ import annotations

from decimal import Decimal as D
from typing import Any

import pytest

from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, Effect
from zorivest_rpc.embedded.imports.layouts import LAYOUTS

HINTS = BrokerHints(account_id="A1")
PUT = "SPY 240419 P 384"

# layout: its header, a row, the broker, and what the row must become; times are UTC
CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "ibkr_flex_csv": (
        "ClientAccountID,CurrencyPrimary,AssetClass,Symbol,Multiplier,Date/Time,Quantity,TradePrice,Taxes,IBCommission,Buy/Sell,IBOrderID,IBExecID",
        "U9,EUR,OPT,SPY   240419P00384000,10,20240315;103105,-2,1.5,-0.25,0.30,SELL,77,E1",
        "ibkr",
        {
            "symbol": PUT,
            "side": "SLD",
            "quantity": 2,
            "price": D("1.5"),
            "multiplier": 10,
            "currency": "EUR",
            "commission": D("-0.30"),
            "fees": D("0.25"),
            "ledger": "commission regulatory",
            "order_id": "77",
            "exec_id": "E1",
            "time": "2024-03-15 14:31:05",
            "codes": {"account_mismatch"},
        },
    ),
    "tastytrade": (
        "Date,Type,Sub Type,Action,Symbol,Instrument Type,Description,Value,Quantity,Average Price,Commissions,Fees,Multiplier,Order #,Currency",
        "2024-03-15T10:31:05-0400,Trade,Sell to Open,SELL_TO_OPEN,SPY   240419P00384000,Equity Option,Sold 2,300.00,2,15.00,-2.00,-0.28,10,123,CAD",
        "tastytrade",
        {
            "symbol": PUT,
            "side": "SLD",
            "quantity": 2,
            "price": D("1.5"),
            "multiplier": 10,
            "currency": "CAD",
            "commission": 2,
            "fees": D("0.28"),
            "ledger": "commission other",
            "order_id": "123",
            "notes": "Sold 2",
            "effect": Effect.OPEN,
            "time": "2024-03-15 14:31:05",
        },
    ),
    "etrade": (
        "TransactionDate,TransactionType,SecurityType,Symbol,Quantity,Amount,Price,Commission,Description",
        "03/15/24,Sold Short,EQ,AMZN,-2,199.00,100,1.00,AMAZON",
        "etrade",
        {
            "symbol": "AMZN",
            "side": "SLD",
            "quantity": 2,
            "price": 100,
            "commission": 1,
            "ledger": "commission",
            "effect": Effect.OPEN,
            "notes": "AMAZON",
            "time": "2024-03-15 16:00:00",
            "codes": {"date_only"},
        },
    ),
    "schwab": (
        "Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount",
        "03/15/2024,Sell,AMZN,AMAZON,2,$100.00,$1.00,$199.00",
        "schwab",
        {
            "symbol": "AMZN",
            "side": "SLD",
            "quantity": 2,
            "price": 100,
            "commission": 1,
            "ledger": "commission",
            "effect": Effect.CLOSE,
            "notes": "AMAZON",
            "time": "2024-03-15 16:00:00",
            "codes": {"date_only"},
        },
    ),
    "lightspeed": (
        "Date,Time,Symbol,B/S,Qty,Price,Route,Commission,ECN Fee,SEC Fee,TAF Fee,Clearing Fee,Account,Order ID",
        "03/15/2024,10:31:05,AAPL,SS,100,185.5,ARCA,0.45,-0.20,0.15,0.02,0.03,U9,77",
        "lightspeed",
        {
            "symbol": "AAPL",
            "side": "SLD",
            "quantity": 100,
            "price": D("185.5"),
            "commission": D("0.45"),
            "fees": D("0.00"),
            "ledger": "clearing commission ecn regulatory regulatory",
            "effect": Effect.OPEN,
            "order_id": "77",
            "time": "2024-03-15 14:31:05",
            "codes": {"account_mismatch"},
        },
    ),
    "webull": (
        "Date,Time,Symbol,Side,Qty,Price,Amount,Commission,Fee,Currency",
        "03/15/2024,10:31:05,AAPL,Buy,100,185.5,-18550,-1.00,-0.07,HKD",
        "webull",
        {
            "symbol": "AAPL",
            "side": "BOT",
            "quantity": 100,
            "price": D("185.5"),
            "commission": 1,
            "fees": D("0.07"),
            "ledger": "commission other",
            "currency": "HKD",
            "time": "2024-03-15 14:31:05",
        },
    ),
    "webull_orders": (
        "Name,Symbol,Side,Status,Filled,Total Qty,Price,Avg Price,Time-in-Force,Placed Time,Filled Time",
        "Apple,AAPL,Sell,Partially Filled,7,10,@185.00,185.01,DAY,03/15/2024 10:30:00 EDT,03/15/2024 10:31:05 EDT",
        "webull",
        {
            "symbol": "AAPL",
            "side": "SLD",
            "quantity": 7,
            "price": D("185.01"),
            "notes": "Apple",
            "time": "2024-03-15 14:31:05",
        },
    ),
    "alpaca_activities": (
        "Id,Activity Type,Transaction Time,Symbol,Side,Qty,Price,Order ID,Commission,Account",
        "2024::7,FILL,2024-03-15T14:31:05Z,AAPL,sell_short,7,185.01,77,0.35,U9",
        "alpaca",
        {
            "symbol": "AAPL",
            "side": "SLD",
            "quantity": 7,
            "price": D("185.01"),
            "commission": D("0.35"),
            "ledger": "commission",
            "exec_id": "2024::7",
            "order_id": "77",
            "effect": Effect.OPEN,
            "time": "2024-03-15 14:31:05",
            "codes": {"account_mismatch"},
        },
    ),
    "robinhood": (
        "Activity Date,Process Date,Settle Date,Instrument,Description,Trans Code,Quantity,Price,Amount",
        "3/15/2024,3/15/2024,3/18/2024,SPY,SPY 4/19/2024 Put $384.00,BTC,2,$1.50,($300.08)",
        "robinhood",
        {
            "symbol": PUT,
            "side": "BOT",
            "quantity": 2,
            "price": D("1.5"),
            "multiplier": 100,
            "fees": D("0.08"),
            "ledger": "other",
            "effect": Effect.CLOSE,
            "notes": "SPY 4/19/2024 Put $384.00",
            "time": "2024-03-15 16:00:00",
            "codes": {"date_only", "fees_in_amount"},
        },
    ),
    "tradier_history": (
        "Date,Type,Symbol,Quantity,Price,Commission,Trade Type,Description",
        "2024-03-15T14:31:05Z,trade,SPY240419P00384000,-2,1.5,0.70,Option,a put",
        "tradier",
        {
            "symbol": PUT,
            "side": "SLD",
            "quantity": 2,
            "price": D("1.5"),
            "multiplier": 100,
            "notes": "a put",
            "commission": D("0.70"),
            "ledger": "commission",
            "time": "2024-03-15 14:31:05",
        },
    ),
    "tdameritrade": (
        "DATE,TRANSACTION ID,DESCRIPTION,QUANTITY,SYMBOL,PRICE,COMMISSION,AMOUNT,REG FEE,SHORT-TERM RDM FEE,FUND REDEMPTION FEE,DEFERRED SALES CHARGE",
        "03/15/2024,T77,Sold 10 AAPL @ 185.5,10,AAPL,185.5,1.00,1847.00,0.50,0.40,0.60,5.50",
        "thinkorswim",
        {
            "symbol": "AAPL",
            "side": "SLD",
            "quantity": 10,
            "price": D("185.5"),
            "commission": 1,
            "fees": 7,
            "ledger": "commission other other other regulatory",
            "exec_id": "T77",
            "effect": Effect.CLOSE,
            "notes": "Sold 10 AAPL @ 185.5",
            "time": "2024-03-15 16:00:00",
            "codes": {"date_only"},
        },
    ),
    "fidelity": (
        "Run Date,Account Number,Action,Symbol,Description,Type,Price ($),Quantity,Commission ($),Fees ($),Amount ($),Currency,Settlement Date",
        "03/15/2024,X9,YOU SOLD CLOSING TRANSACTION,-SPY240419P384,PUT (SPY),Cash,1.50,-2,1.30,0.02,298.68,CAD,03/18/2024",
        "fidelity",
        {
            "symbol": PUT,
            "side": "SLD",
            "quantity": 2,
            "price": D("1.5"),
            "multiplier": 100,
            "currency": "CAD",
            "commission": D("1.30"),
            "fees": D("0.02"),
            "ledger": "commission regulatory",
            "notes": "PUT (SPY)",
            "effect": Effect.CLOSE,
            "time": "2024-03-15 16:00:00",
            "codes": {"account_mismatch", "date_only"},
        },
    ),
}
USUAL: dict[str, Any] = {
    "multiplier": 1,
    "currency": "USD",
    "commission": 0,
    "fees": 0,
    "ledger": "",
    "order_id": None,
    "notes": "",
    "effect": None,
    "exec_id": "",
    "codes": set(),
}


def load(text: str) -> BrokerImport:
    return import_broker_file(text.encode(), HINTS)


def shown(result: BrokerImport) -> dict[str, Any]:
    (trade,) = result.trades
    names = (
        "symbol",
        "quantity",
        "price",
        "multiplier",
        "currency",
        "commission",
        "fees",
        "order_id",
        "notes",
        "effect",
    )
    return {
        **{name: getattr(trade, name) for name in names},
        "side": trade.side.value,
        "ledger": " ".join(sorted(fee.fee_type.value for fee in trade.ledger)),
        "exec_id": "" if trade.is_synthesised else trade.exec_id,
        "time": f"{trade.exec_time:%Y-%m-%d %H:%M:%S}",
        "codes": {note.code for note in result.warnings},
    }


def test_every_layout_has_a_row_here() -> None:
    assert set(CASES) == {layout.name for layout in LAYOUTS}


@pytest.mark.parametrize("name", CASES)
def test_every_column_of_a_layout_arrives(name: str) -> None:
    header, row, broker, expected = CASES[name]
    result = load(f"{header}\n{row}\n")
    assert (result.detected_format, result.broker, result.errors) == (name, broker, ())
    assert shown(result) == {**USUAL, **expected}


@pytest.mark.parametrize("name", CASES)
def test_a_layout_without_one_of_its_signs_is_not_recognised_as_itself(name: str) -> None:
    (layout,) = [one for one in LAYOUTS if one.name == name]
    for part in layout.fingerprint:
        headers = frozenset(word for other in layout.fingerprint if other != part for word in other.split("|"))
        assert not layout.fits(headers), part
    assert layout.fits(frozenset(word for part in layout.fingerprint for word in part.split("|")))


# What stands for the day and the time in the layouts that know two forms, and the rows of one day, newest first.
def test_the_day_and_time_of_a_flex_csv_may_stand_apart() -> None:
    result = load(
        "Symbol,TradeDate,TradeTime,Quantity,TradePrice,IBCommission,Buy/Sell\nAAPL,20240315,103105,5,10,-1,BUY\n"
    )
    assert (result.detected_format, shown(result)["time"]) == ("ibkr_flex_csv", "2024-03-15 14:31:05")


ONE_DAY = {
    "etrade": ("Sold", "Bought", True),
    "schwab": ("Sell", "Buy", True),
    "robinhood": ("Sell", "Buy", True),
    "fidelity": ("YOU SOLD", "YOU BOUGHT", True),
    "tdameritrade": ("Bought 1", "Sold 1", False),
}


@pytest.mark.parametrize(("name", "first", "second", "is_newest_first"), [(n, *w) for n, w in ONE_DAY.items()])
def test_the_rows_of_a_single_day_are_in_the_order_of_the_layout(
    name: str, first: str, second: str, is_newest_first: bool
) -> None:
    """By the words alone the other order would be possible as well: what is sold first was held before."""
    heads = {
        "etrade": "TransactionDate,TransactionType,SecurityType,Symbol,Quantity,Price\n{day},{word},EQ,F,1,10\n",
        "schwab": "Date,Action,Symbol,Description,Quantity,Price,Fees & Comm,Amount\n{day},{word},F,x,1,10,,\n",
        "robinhood": "Activity Date,Instrument,Description,Trans Code,Quantity,Price,Amount\n{day},F,x,{word},1,10,\n",
        "fidelity": "Run Date,Action,Symbol,Quantity,Price,Commission,Fees,Amount\n{day},{word},F,1,10,,,\n",
        "tdameritrade": "DATE,TRANSACTION ID,DESCRIPTION,QUANTITY,SYMBOL,PRICE,COMMISSION,AMOUNT\n{day},,{word},1,F,10,,\n",
    }
    head, row = heads[name].splitlines(keepends=True)
    text = head + row.format(day="03/15/2024", word=first) + row.format(day="03/15/2024", word=second)
    result = load(text)
    assert (result.detected_format, result.errors) == (name, ())
    lines = [trade.row_number for trade in result.trades]
    assert lines == ([3, 2] if is_newest_first else [2, 3])


GENERIC = {
    "Commission": ("1.25", "commission", D("1.25")),
    "Fee": ("1.25", "other", D("1.25")),
    "SEC Fee": ("-1.25", "regulatory", D("1.25")),
    "TAF Fee": ("1.25", "regulatory", D("1.25")),
    "Exchange Fee": ("1.25", "exchange", D("1.25")),
    "Clearing Fee": ("-1.25", "clearing", D("1.25")),
    "NFA Fee": ("1.25", "regulatory", D("1.25")),
    "ECN Fee": ("-1.25", "ecn", D("-1.25")),
    "Misc Fee": ("-1.25", "other", D("1.25")),
}


@pytest.mark.parametrize(("column", "cell", "kind", "cost"), [(name, *case) for name, case in GENERIC.items()])
def test_every_cost_column_of_a_table_goes_to_its_ledger(column: str, cell: str, kind: str, cost: D) -> None:
    result = load(f"Date,Symbol,Side,Qty,Price,{column}\n2024-01-25,F,Buy,1,12,{cell}\n")
    (trade,) = result.trades
    assert [(fee.fee_type.value, fee.amount) for fee in trade.ledger] == [(kind, cost)]
    assert trade.commission + trade.fees == cost


def test_every_other_column_of_a_table_arrives_too() -> None:
    result = load(
        "Trade Date,Time,Ticker,Action,Units,Unit Price,Ccy,Sec Type,Expiry,Strike,Right,Exec ID,Order ID,Account,Notes,Multiplier,O/C,Net Amount,P&L\n"
        "2024-03-15,10:31:05,SPY,Sell,2,1.5,CAD,Option,2024-04-19,384,Put,E1,77,U9,a put,10,C,28.00,9.5\n"
    )
    (trade,) = result.trades
    assert shown(result) == {
        **USUAL,
        "symbol": PUT,
        "side": "SLD",
        "quantity": 2,
        "price": D("1.5"),
        "multiplier": 10,
        "currency": "CAD",
        "exec_id": "E1",
        "order_id": "77",
        "notes": "a put",
        "effect": Effect.CLOSE,
        "time": "2024-03-15 14:31:05",
        "codes": {"account_mismatch"},
    }
    assert trade.realized_pnl == D("9.5")
    result = load(
        "Exec Time,Symbol,Qty,Price,Amount\n2024-03-15 10:31:05,F,2,1.5,-3.10\n2024-03-15 10:31:06,F,2,1.5,2.90\n"
    )
    assert [(trade.side.value, trade.fees) for trade in result.trades] == [("BOT", D("0.10")), ("SLD", D("0.10"))]
