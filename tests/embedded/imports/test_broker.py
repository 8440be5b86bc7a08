"""Broker files as their documentation shows them."""

# ruff: noqa: E501 - the lines of exports are as long as they are

from __future__ import annotations

import datetime as dt
from decimal import Decimal as D
from pathlib import Path

import pytest

from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, FeeType, ImportRefused, Status
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

HINTS = BrokerHints(account_id="A1")


def load(text: str, hints: BrokerHints = HINTS) -> BrokerImport:
    return import_broker_file(text.encode(), hints)


def rows(result: BrokerImport) -> list[tuple[object, ...]]:
    return [
        (
            f"{trade.exec_time:%Y-%m-%d %H:%M:%S}",
            trade.symbol,
            trade.side.value,
            trade.quantity,
            trade.price,
            trade.commission,
        )
        for trade in result.trades
    ]


def codes(result: BrokerImport) -> set[str]:
    return {note.code for note in result.warnings}


FLEX = """<FlexQueryResponse queryName="Trades" type="AF"><FlexStatements count="1">
<FlexStatement accountId="U1234567" fromDate="20240101" toDate="20240131">
<AccountInformation accountId="U1234567" currency="EUR" />
<Trades>
<Trade accountId="U1234567" symbol="AAPL" assetCategory="STK" dateTime="20240105;103000" quantity="100" tradePrice="185.5"
 ibCommission="-1" taxes="-0.5" buySell="BUY" currency="USD" fxRateToBase="0.9" multiplier="1" ibExecID="0000e.1" tradeID="9"
 ibOrderID="44" fifoPnlRealized="0" levelOfDetail="EXECUTION" />
<Trade symbol="AAPL  260320C00200000" assetCategory="OPT" dateTime="20240105" quantity="-2" tradePrice="5.5"
 ibCommission="-1.3" buySell="SELL" currency="USD" multiplier="100" tradeID="10" />
<Trade symbol="ESH4" assetCategory="FUT" dateTime="2024-01-05;10:30:00" quantity="1" tradePrice="4700.25"
 ibCommission="0.2" buySell="BUY" currency="USD" multiplier="50" tradeID="11" />
<Trade symbol="AAPL" dateTime="20240105;103000" quantity="100" tradePrice="185.5" buySell="BUY" levelOfDetail="ORDER" />
<Trade symbol="AAPL" dateTime="20240105;103000" quantity="100" tradePrice="185.5" buySell="BUY (Ca.)" tradeID="12" />
<Trade symbol="AAPL" dateTime="20240105;103000" quantity="100" tradePrice="" buySell="BUY" tradeID="13" />
</Trades></FlexStatement></FlexStatements></FlexQueryResponse>"""


class TestFlex:
    def test_executions_are_read_with_ids_costs_and_base_amounts(self) -> None:
        result = load(FLEX)
        assert (result.status, result.broker, result.detected_format) == (Status.PARTIAL, "ibkr", "ibkr_flex_xml")
        share, option, future = (next(t for t in result.trades if t.exec_id == key) for key in ("0000e.1", "10", "11"))
        assert (share.is_synthesised, share.order_id, share.commission, share.fees) == (False, "44", D(1), D("0.5"))
        assert (share.base_currency, share.base_amount, share.realized_pnl) == ("EUR", D("16695.00"), D(0))
        assert [(fee.fee_type, fee.amount) for fee in share.ledger] == [
            (FeeType.COMMISSION, 1),
            (FeeType.REGULATORY, D("0.5")),
        ]
        assert (option.symbol, option.multiplier, option.time_known) == ("AAPL 260320 C 200", D(100), False)
        assert (future.symbol, future.asset_class, future.commission) == ("ES 03-24", AssetClass.FUTURE, D("-0.2"))

    def test_summaries_and_cancellations_are_skipped_and_bad_rows_have_their_line(self) -> None:
        result = load(FLEX)
        assert (result.total_rows, result.parsed_rows, result.skipped_rows, result.error_rows) == (6, 3, 2, 1)
        assert [(error.row_number, error.field, error.message) for error in result.errors] == [
            (14, "tradePrice", "is missing")
        ]
        assert codes(result) == {"account_mismatch", "cancelled_skipped", "date_only"}

    def test_the_brokers_own_refusal_is_passed_on(self) -> None:
        text = "<FlexStatementResponse><Status>Fail</Status><ErrorCode>1019</ErrorCode><ErrorMessage>Busy</ErrorMessage></FlexStatementResponse>"
        with pytest.raises(ImportRefused, match="Busy") as caught:
            load(text)
        assert caught.value.code == "flex_not_ready"

    def test_rows_that_repeat_an_id_count_once(self) -> None:
        start, end = FLEX.index("<Trade accountId"), FLEX.index("<Trade symbol")
        result = load(FLEX[:end] + FLEX[start:])
        assert (result.repeated_rows, len(result.trades)) == (1, 3)


ACTIVITY = """Statement,Header,Field Name,Field Value
Statement,Data,Title,Activity Statement
Account Information,Header,Field Name,Field Value
Account Information,Data,Account,A1
Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,C. Price,Proceeds,Comm/Fee,Basis,Realized P/L,MTM P/L,Code
Trades,Data,Order,Stocks,USD,AAPL,"2024-01-05, 10:30:00","1,000",185.5,186,-185500,-1.5,0,12.5,0,O
Trades,Data,Trade,Stocks,USD,AAPL,"2024-01-05, 10:30:00",400,185.5,186,-74200,-1,0,0,0,O
Trades,Data,Trade,Stocks,USD,AAPL,"2024-01-05, 10:30:01",600,185.5,186,-111300,-.5,0,0,0,O
Trades,Data,Order,Stocks,USD,MSFT,"2024-01-05, 10:31:00",-10,400,401,4000,-1,0,0,0,C
Trades,Data,ClosedLot,Stocks,USD,MSFT,2023-01-05,10,300,,,,,,,
Trades,SubTotal,,Stocks,USD,AAPL,,1000,,,-185500,-1.5,,,,
Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,C. Price,Proceeds,Comm/Fee,Basis,Realized P/L,MTM P/L,Code
Trades,Data,Order,Equity and Index Options,USD,SPY 20MAR26 500 P,"2024-01-05, 11:00:00",-2,5.5,5,1100,-1.3,0,0,0,O
Trades,Data,Order,Stocks,USD,TSLA,"2024-01-05, 11:00:00",5,250,,,,,,,Ca
Financial Instrument Information,Header,Asset Category,Symbol,Description,Conid,Security ID,Multiplier
Financial Instrument Information,Data,Equity and Index Options,SPY 20MAR26 500 P,SPY,1,,10
"""


def test_an_ibkr_activity_statement_counts_executions_instead_of_their_order() -> None:
    result = load(ACTIVITY)
    assert (result.broker, result.detected_format, result.status) == ("ibkr", "ibkr_activity_csv", Status.SUCCESS)
    assert rows(result) == [
        ("2024-01-05 15:30:00", "AAPL", "BOT", 400, D("185.5"), 1),
        ("2024-01-05 15:30:01", "AAPL", "BOT", 600, D("185.5"), D("0.5")),
        ("2024-01-05 15:31:00", "MSFT", "SLD", 10, 400, 1),
        ("2024-01-05 16:00:00", "SPY 260320 P 500", "SLD", 2, D("5.5"), D("1.3")),
    ]
    assert result.trades[-1].multiplier == 10
    assert codes(result) == {"cancelled_skipped"}


THINKORSWIM = """Account Statement for 1234 since 3/1/24 through 3/31/24

Cash Balance
DATE,TIME,TYPE,REF #,DESCRIPTION,Misc Fees,Commissions & Fees,AMOUNT,BALANCE
3/15/24,01:00:00,BAL,,Cash balance,,,,1000

Account Trade History
,Exec Time,Spread,Side,Qty,Pos Effect,Symbol,Exp,Strike,Type,Price,Net Price,Order Type
,3/15/24 10:31:05,STOCK,BUY,+100,TO OPEN,AAPL,,,STOCK,172.50,172.51,LMT
,3/15/2024 10:32:05,VERTICAL,SELL,-1,TO OPEN,SPY,19 APR 24 (Weeklys),510,CALL,3.20,1.10,LMT
,,,BUY,+1,TO OPEN,SPY,19 APR 24,515,CALL,2.10,CREDIT,
,3/15/24 10:33:05,SINGLE,BUY,+2,TO OPEN,.F260320C12.5,,,CALL,1.00,1.0065,MKT
,3/15/24 10:34:05,FUTURE,SELL,-1,TO OPEN,/ESM24:XCME,,,FUTURE,5200.25,5200.25,MKT
,bad time,STOCK,BUY,+1,TO OPEN,AAPL,,,STOCK,1,1,LMT

Profits and Losses
Symbol,Description,P/L Open
AAPL,APPLE INC,$0.00
"""


def test_thinkorswim_legs_inherit_time_and_only_single_legs_have_commission() -> None:
    result = load(THINKORSWIM)
    assert (result.detected_format, result.status) == ("thinkorswim", Status.PARTIAL)
    assert rows(result) == [
        ("2024-03-15 14:31:05", "AAPL", "BOT", 100, D("172.50"), D("1.00")),
        ("2024-03-15 14:32:05", "SPY 240419 C 510", "SLD", 1, D("3.20"), 0),
        ("2024-03-15 14:32:05", "SPY 240419 C 515", "BOT", 1, D("2.10"), 0),
        ("2024-03-15 14:33:05", "F 260320 C 12.5", "BOT", 2, D("1.00"), D("1.30")),
        ("2024-03-15 14:34:05", "ES 06-24", "SLD", 1, D("5200.25"), 0),
    ]
    assert [(error.row_number, error.field) for error in result.errors] == [(14, "datetime")]


NINJA = """Trade-#,Instrument,Account,Strategy,Market pos.,Quantity,Entry price,Exit price,Entry time,Exit time,Profit,Commission,MAE,MFE
1,ES 03-26,Sim101,Breakout,Short,2,5000.25,4990.25,1/5/2026 9:31:00 AM,1/5/2026 9:45:10 AM,$1000.00,$4.10,$50.00,$1100.00
2,AAPL,Sim101,Breakout,Long,10,100,99,1/5/2026 10:00:00 AM,1/5/2026 9:00:00 AM,($10.00),$1.00,$10.00,$0.00
3,AAPL,Sim101,,Flat,10,100,99,1/5/2026 10:00:00 AM,1/5/2026 11:00:00 AM,($10.00),$1.00,$10.00,$0.00
"""


def test_a_ninjatrader_row_becomes_entry_and_exit() -> None:
    result = load(NINJA)
    assert rows(result) == [
        ("2026-01-05 14:31:00", "ES 03-26", "SLD", 2, D("5000.25"), D("2.05")),
        ("2026-01-05 14:45:10", "ES 03-26", "BOT", 2, D("4990.25"), D("2.05")),
    ]
    entry, leave = result.trades
    assert (entry.realized_pnl, leave.realized_pnl) == (None, D(1000))
    assert (leave.mae, leave.mfe, leave.strategy, leave.multiplier) == (D(50), D(1100), "Breakout", D(50))
    assert [(error.row_number, error.field) for error in result.errors] == [(3, "exit_time"), (4, "position")]
    assert (result.total_rows, result.parsed_rows) == (3, 1)


def test_a_ninjatrader_export_of_another_locale_is_read() -> None:
    text = NINJA.splitlines()[0].replace(",", ";") + (
        "\n1;ES 03-26;A1;B;Long;1;5000,25;5010,50;25.01.2026 15:31:00;25.01.2026 15:45:10;512,50;4,10;0,00;600,00\n"
    )
    result = load(text, BrokerHints(account_id="A1", timezone="Europe/Berlin"))
    assert rows(result)[0] == ("2026-01-25 14:31:00", "ES 03-26", "BOT", 1, D("5000.25"), D("2.05"))


def test_lightspeed_fees_go_to_their_ledgers_and_rebates_keep_their_sign() -> None:
    result = load(
        "Date,Time,Symbol,B/S,Qty,Price,Route,Commission,ECN Fee,SEC Fee\n"
        "01/05/2024,09:31:02,AAPL,SS,100,185.5,ARCA,0.45,-0.20,0.15\n"
    )
    (trade,) = result.trades
    assert (trade.side, trade.commission, trade.fees) == (Side.SLD, D("0.45"), D("-0.05"))
    assert [(fee.fee_type.value, fee.amount) for fee in trade.ledger] == [
        ("commission", D("0.45")),
        ("ecn", D("-0.20")),
        ("regulatory", D("0.15")),
    ]


def test_webull_order_history_is_read_too() -> None:
    result = load(
        "Name,Symbol,Side,Status,Filled,Total Qty,Price,Avg Price,Time-in-Force,Placed Time,Filled Time\n"
        "Apple,AAPL,Buy,Filled,10,10,@185.00,185.01,DAY,01/05/2024 09:30:00 EST,01/05/2024 09:31:00 EST\n"
        "Ford,F,Buy,Cancelled,0,10,@12.00,,DAY,07/05/2024 09:30:00 EDT,\n"
    )
    assert result.detected_format == "webull_orders"
    assert rows(result) == [("2024-01-05 14:31:00", "AAPL", "BOT", 10, D("185.01"), 0)]
    assert (result.skipped_rows, codes(result)) == (1, {"not_filled_skipped"})


def test_etrade_skips_what_is_no_trade_and_reports_securities_named_by_cusip() -> None:
    result = load(
        "For Account:,#####1234\n\n"
        "TransactionDate,TransactionType,SecurityType,Symbol,Quantity,Amount,Price,Commission,Description\n"
        "01/08/24,Sold,EQ,AAPL,-10,1850,185,0,APPLE\n"
        "01/05/24,Bought,BOND,912828YV6,1000,-990,0.99,1,US TREASURY\n"
        "01/04/24,Dividend,EQ,AAPL,0,2.4,0,0,APPLE\n"
        "01/03/24,Option Expired,OPTN,AAPL Jan 05 '24 $200 Call,1,0,0,0,X\n"
    )
    assert result.detected_format == "etrade"
    assert [trade.symbol for trade in result.trades] == ["912828YV6", "AAPL"]
    assert result.trades[0].identifier == ("cusip", "912828YV6")
    assert result.trades[0].asset_class is AssetClass.BOND
    assert (result.skipped_rows, result.status) == (2, Status.SUCCESS)
    assert codes(result) == {"date_only", "unresolved_identifiers"}
    assert [(event.kind, event.symbol) for event in result.events] == [("expiry", "AAPL 240105 C 200")]
    assert result.skipped_kinds == {"dividend": 1}


def test_schwab_counts_the_day_a_row_is_as_of_and_keeps_the_order_of_a_single_day() -> None:
    result = load(
        '"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"\n'
        '"01/05/2024 as of 01/04/2024","Sell","AAPL","APPLE","1,000","$1,185.50","$0.01","$1854.99"\n'
        '"01/04/2024","Buy","AAPL","APPLE","1,000","$1,184.50","","-$1845"\n'
        '"01/04/2024","Cash Dividend","AAPL","APPLE","","","","$24"\n'
        '"Transactions Total","","","","","","","$1"\n'
    )
    assert rows(result) == [
        ("2024-01-04 17:00:00", "AAPL", "BOT", 1000, D("1184.50"), 0),
        ("2024-01-04 17:00:00", "AAPL", "SLD", 1000, D("1185.50"), D("0.01")),
    ]


def test_tastytrade_prices_per_contract_become_prices_per_share() -> None:
    result = load(
        "Date,Type,Sub Type,Action,Symbol,Instrument Type,Description,Value,Quantity,Average Price,Commissions,Fees,"
        "Multiplier,Order #\n"
        "2024-03-15T10:39:37-0500,Trade,Sell to Open,SELL_TO_OPEN,SPY   240419P00384000,Equity Option,Sold,300.00,2,"
        "150.00,-2.00,-0.28,100,123\n"
        "2024-03-15T10:39:37-0500,Money Movement,Deposit,,,,Wire,100,,,--,0,,\n"
        "2024-04-20T16:00:00-0500,Receive Deliver,Expiration,,SPY   240419P00384000,Equity Option,Expired,0,2,,,,100,\n"
    )
    (trade,) = result.trades
    assert (trade.price, trade.commission, trade.fees, trade.order_id) == (D("1.5"), D(2), D("0.28"), "123")
    assert (result.skipped_rows, codes(result)) == (2, set())
    assert [(event.kind, event.symbol) for event in result.events] == [("expiry", "SPY 240419 P 384")]
    assert result.skipped_kinds == {"transfer": 1}


def test_tastytrade_with_a_plain_price_column_is_read_as_written() -> None:
    result = load(
        "Date,Type,Sub Type,Action,Symbol,Instrument Type,Description,Quantity,Price,Commission,Fees,Value\n"
        "2024-03-15T10:39:37-0500,Trade,x,BUY_TO_OPEN,SPY   240419P00384000,Equity Option,t,2,1.50,1.00,0.28,-300\n"
    )
    assert (result.trades[0].price, result.trades[0].multiplier) == (D("1.50"), D(100))


class TestGeneric:
    def test_a_signed_quantity_stands_for_the_side(self) -> None:
        result = load(
            "Execution Time,Ticker,Shares,Price\n2024-01-05T10:00:00Z,AAPL,-5,185\n2024-01-05T11:00:00Z,F,5,12\n"
        )
        assert result.detected_by == "generic"
        assert [trade.side.value for trade in result.trades] == ["SLD", "BOT"]

    def test_phrases_and_option_columns_are_understood(self) -> None:
        result = load(
            "Run Date,Action,Symbol,Quantity,Price ($),Commission ($),Fees ($),Expiration Date,Strike,Call/Put\n"
            "01/25/2024,YOU BOUGHT APPLE INC (AAPL) (Cash),AAPL,5,185.1,,0.01,,,\n"
            "01/25/2024,YOU SOLD OPENING TRANSACTION,AAPL,-1,5.5,0.65,0.02,03/20/2026,200,Call\n"
            "01/25/2024,DIVIDEND RECEIVED,AAPL,,,,,,,\n"
        )
        assert [(trade.symbol, trade.side.value) for trade in result.trades] == [
            ("AAPL", "BOT"),
            ("AAPL 260320 C 200", "SLD"),
        ]
        assert result.skipped_rows == 1

    def test_a_day_and_a_column_of_times_are_put_together_whatever_their_names(self) -> None:
        result = load("Date,Exec Time,Symbol,Side,Qty,Price\n2024-01-05,10:30:00,F,Buy,1,12\n")
        assert rows(result)[0][0] == "2024-01-05 15:30:00"
        result = load("Settle,Date,Exec Time,Symbol,Side,Qty,Price\nx,2024-01-08,2024-01-05 10:30:00,F,Buy,1,12\n")
        assert rows(result)[0][0] == "2024-01-05 15:30:00"

    def test_days_before_months_are_noticed_or_the_doubt_is_told(self) -> None:
        head = "Date,Symbol,Side,Qty,Price\n"
        assert rows(load(f"{head}05/01/2024,F,Buy,1,12\n25/01/2024,F,Sell,1,12\n"))[0][0] == "2024-01-05 17:00:00"
        doubtful = load(f"{head}05/01/2024,F,Buy,1,12\n")
        assert rows(doubtful)[0][0] == "2024-05-01 16:00:00"
        assert "ambiguous_dates" in codes(doubtful)
        settled = load(f"{head}05/01/2024,F,Buy,1,12\n", BrokerHints(account_id="A1", day_first=True))
        assert rows(settled)[0][0] == "2024-01-05 17:00:00"
        assert "ambiguous_dates" not in codes(settled)

    def test_a_header_below_a_preamble_is_found(self) -> None:
        text = "My broker\nAccount 1\n\nperiod,2024\nDate,Symbol,Side,Qty,Price\n2024-01-25,F,Buy,1,12\n"
        result = load(text)
        assert len(result.trades) == 1
        assert result.trades[0].row_number == 6

    def test_an_order_and_its_fill_number_are_an_id(self) -> None:
        result = load(
            "Date,Symbol,Side,Qty,Price,Order ID,Fill #\n2024-01-25,F,Buy,1,12,77,1\n2024-01-25,F,Buy,1,12,77,2\n"
        )
        assert [(trade.exec_id, trade.is_synthesised) for trade in result.trades] == [("77-1", False), ("77-2", False)]

    def test_an_id_that_names_two_different_fills_names_neither_twice(self) -> None:
        result = load(
            "Date,Symbol,Side,Qty,Price,Exec ID\n2024-01-05,F,Buy,1,12,X\n2024-01-06,F,Buy,2,12,X\n2024-01-07,F,Buy,2,12,Y\n"
        )
        assert [trade.exec_id for trade in result.trades if not trade.is_synthesised] == ["X", "Y"]
        assert len({trade.exec_id for trade in result.trades}) == 3


class TestDetection:
    HEADER = "Date,Time,Symbol,Side,Qty,Price,Amount,Commission,Fee\n"
    ROW = "01/05/2024,10:30:00,F,Buy,1,12,12,0,0\n"

    def test_a_hint_names_the_broker_and_is_told_as_the_reason(self) -> None:
        result = load(self.HEADER + self.ROW, BrokerHints(account_id="A1", broker="Webull"))
        assert (result.broker, result.detected_by) == ("webull", "hint")

    def test_a_hint_for_a_layout_that_does_not_fit_reads_the_columns_by_name(self) -> None:
        result = load(self.HEADER + self.ROW, BrokerHints(account_id="A1", broker="alpaca_live"))
        assert (result.broker, result.detected_format, result.detected_by) == ("alpaca", "generic", "hint")

    def test_an_unknown_hint_lists_the_known_ones(self) -> None:
        with pytest.raises(ImportRefused, match="thinkorswim") as caught:
            load(self.HEADER, BrokerHints(account_id="A1", broker="acme"))
        assert caught.value.code == "unknown_broker_hint"

    def test_unknown_columns_are_refused_with_the_headers_seen(self) -> None:
        with pytest.raises(ImportRefused) as caught:
            load("Foo,Bar,Price,Baz\n1,2,3,4\n")
        refused = caught.value
        assert (refused.code, refused.headers) == ("unknown_broker_format", ("Foo", "Bar", "Price", "Baz"))
        assert "symbol, quantity, date" in refused.what

    def test_a_header_alone_is_a_success_without_rows(self) -> None:
        result = load(self.HEADER)
        assert (result.status, result.total_rows, codes(result)) == (Status.SUCCESS, 0, {"no_rows"})

    def test_a_file_can_be_given_by_path(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_bytes((self.HEADER + self.ROW).encode())
        assert import_broker_file(path, HINTS) == load(self.HEADER + self.ROW)

    def test_a_zone_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(ImportRefused) as caught:
            load(self.HEADER + self.ROW, BrokerHints(account_id="A1", timezone="Mars/Base"))
        assert caught.value.code == "unknown_timezone"


def test_bad_rows_are_listed_with_line_field_and_text_and_the_rest_is_read() -> None:
    result = load(
        TestDetection.HEADER
        + TestDetection.ROW
        + "01/05/2024,10:30:00,F,Hold,1,12,12,0,0\n"
        + '"01/05/2024",10:30:00,F,Buy,0,12,12,0,0\n'
        + "13/45/2024,10:30:00,F,Buy,1,12,12,0,0\n\n"
        + "01/05/2024,10:30:00,F,Buy,1,-12,12,0,0\n"
        + "01/05/2024,10:30:00,,Buy,1,12,12,0,0\n"
    )
    assert (result.status, result.total_rows, result.parsed_rows, result.error_rows) == (Status.PARTIAL, 6, 1, 5)
    assert [(error.row_number, error.field) for error in result.errors] == [
        (3, "side"),
        (4, "quantity"),
        (5, "date"),
        (7, "price"),
        (8, "symbol"),
    ]
    assert result.errors[0].raw_line == "01/05/2024,10:30:00,F,Hold,1,12,12,0,0"


def test_facts_of_the_batch_are_told() -> None:
    result = load(TestDetection.HEADER + "01/08/2024,10:30:00,MSFT,Sell,1,12,12,0,0\n" + TestDetection.ROW)
    assert result.date_from == dt.datetime(2024, 1, 5, 15, 30, tzinfo=dt.UTC)
    assert result.date_to == dt.datetime(2024, 1, 8, 15, 30, tzinfo=dt.UTC)
    assert result.symbols == ("F", "MSFT")
    assert [trade.symbol for trade in result.preview(1)] == ["F"]
    assert (len(result.file_sha256), result.encoding) == (64, "utf-8")
