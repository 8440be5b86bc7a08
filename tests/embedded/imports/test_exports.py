"""Details of exports as brokers write them, which a regular table does not have."""

from __future__ import annotations

import pytest

from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, Status

TASTY = (
    "Date,Type,Sub Type,Action,Symbol,Instrument Type,Description,Value,Quantity,Average Price,Commissions,Fees,"
    "Multiplier,Root Symbol,Order #,Currency\n"
)
ROBINHOOD = (
    '"Activity Date","Process Date","Settle Date","Instrument","Description","Trans Code","Quantity","Price","Amount"\n'
)
FIDELITY = "\n\nRun Date,Action,Symbol,Description,Type,Quantity,Price ($),Commission ($),Fees ($),Amount ($),Settled\n"


def load(text: str) -> BrokerImport:
    return import_broker_file(text.encode(), BrokerHints(account_id="A1"))


def test_the_price_of_a_future_is_read_from_its_description_because_no_money_flows() -> None:
    start = "2024-03-15T10:32:05-0400,Trade,Buy,BUY_TO_OPEN,/ESM4,Future"
    row = f"{start},Bought 1 /ESM4 @ 5180.25,0.00,1,0.00,-1.25,-1.7,,,1,USD\n"
    (trade,) = load(TASTY + row).trades
    assert (trade.symbol, float(trade.price), int(trade.multiplier)) == ("ES 06-24", 5180.25, 50)
    result = load(TASTY + row.replace(" @ 5180.25", ""))
    assert [(error.field, error.message) for error in result.errors] == [("price", "is missing")]


def test_an_option_that_robinhood_names_in_the_description_is_that_option_and_not_its_share() -> None:
    sold = '"3/14/2024","3/14/2024","3/15/2024","SPY","SPY 4/19/2024 Call $520.00","STO","1","$3.25","$324.97"\n'
    (trade,) = load(ROBINHOOD + sold).trades
    assert (trade.symbol, trade.side.value, int(trade.multiplier)) == ("SPY 240419 C 520", "SLD", 100)
    result = load(ROBINHOOD + sold.replace("SPY 4/19/2024 Call $520.00", "a call"))
    assert (result.status, result.errors[0].field) == (Status.FAILED, "symbol")


def test_what_robinhood_lists_besides_trades_is_skipped() -> None:
    rows = "".join(
        f'"3/12/2024","3/12/2024","3/12/2024","AAPL","some text","{code}","{quantity}","","$1.00"\n'
        for code, quantity in (("CDIV", ""), ("ACH", ""), ("OEXP", "1S"), ("SPL", "9"))
    )
    result = load(ROBINHOOD + rows)
    assert (result.status, result.skipped_rows, result.trades) == (Status.SUCCESS, 4, ())


@pytest.mark.parametrize(
    "footer",
    [
        '"The data and information in this spreadsheet is provided to you solely for your use"',
        "Date downloaded 03/15/2024",
    ],
)
def test_a_sentence_below_the_table_is_no_bad_row(footer: str) -> None:
    row = ' 03/15/2024,"YOU BOUGHT APPLE INC (AAPL) (Cash)", AAPL,"APPLE INC",Cash,10,172.5,,,-1725,03/19/2024\n'
    result = load(f"{FIDELITY}{row}{footer}\n")
    assert (result.status, len(result.trades), result.error_rows) == (Status.SUCCESS, 1, 0)


def test_a_lone_short_cell_is_still_a_bad_row() -> None:
    result = load("Date,Symbol,Side,Qty,Price\n2024-01-02,F,Buy,1,2\n2024-01-03\n")
    assert [(error.row_number, error.field) for error in result.errors] == [(3, "quantity")]
