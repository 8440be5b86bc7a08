"""Details of broker files that cost money when they go wrong: pairs, shared fees, sections, refusals and counts."""

# ruff: noqa: E501 - the lines of exports are as long as they are

from __future__ import annotations

import datetime as dt
from decimal import Decimal as D
from typing import Any

import pytest

from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, Effect, ImportRefused
from zorivest_rpc.embedded.imports.tradovate import FINGERPRINT

HINTS = BrokerHints(account_id="A1")


def load(text: str, hints: BrokerHints = HINTS, **options: Any) -> BrokerImport:
    return import_broker_file(text.encode(), hints, **options)


def codes(result: BrokerImport) -> set[str]:
    return {note.code for note in result.warnings}


def note(result: BrokerImport, code: str) -> tuple[str, int | None]:
    (found,) = [one for one in result.warnings if one.code == code]
    return found.message, found.row_number


def refused(result: BrokerImport) -> list[tuple[int | None, str]]:
    return [(error.row_number, error.field) for error in result.errors]


class TestTradovate:
    HEAD = (
        "symbol,_priceFormat,buyFillId,sellFillId,qty,buyPrice,sellPrice,pnl,boughtTimestamp,soldTimestamp,duration\n"
    )
    LONG = "MESH4,-2,11,12,2,4700.25,4710.25,$100.00,03/04/2024 10:00:00,03/04/2024 10:05:00,5min\n"

    def test_a_row_is_two_fills_and_the_later_one_has_the_profit(self) -> None:
        result = load(self.HEAD + self.LONG)
        assert (result.broker, result.total_rows, result.parsed_rows, result.errors) == ("tradovate", 1, 1, ())
        assert [
            (t.symbol, t.side.value, t.quantity, t.price, t.multiplier, t.exec_id, t.realized_pnl, t.exec_time.minute)
            for t in result.trades
        ] == [
            ("MES 03-24", "BOT", D(2), D("4700.25"), D(5), "tv-11-12-BOT", None, 0),
            ("MES 03-24", "SLD", D(2), D("4710.25"), D(5), "tv-11-12-SLD", D(100), 5),
        ]
        assert codes(result) == set()

    def test_a_buy_later_than_its_sale_covers_a_short(self) -> None:
        row = "MESH4,-2,11,12,1,4700.25,4710.25,50.00,03/04/2024 10:05:00,03/04/2024 10:00:00,5min\n"
        result = load(self.HEAD + row)
        assert [(t.side.value, t.price, t.realized_pnl) for t in result.trades] == [
            ("SLD", D("4710.25"), None),
            ("BOT", D("4700.25"), 50),
        ]

    @pytest.mark.parametrize(("bought", "sold", "first"), [("9", "10", "BOT"), ("10", "9", "SLD")])
    def test_of_one_second_the_lower_fill_number_comes_first(self, bought: str, sold: str, first: str) -> None:
        same = "03/04/2024 10:00:00"
        result = load(f"{self.HEAD}MESH4,-2,{bought},{sold},1,4700.25,4710.25,50.00,{same},{same},0s\n")
        assert result.trades[0].side.value == first

    def test_a_file_that_runs_backwards_is_turned_by_rows_not_by_fills(self) -> None:
        def row(bought: str, sold: str, minute: int) -> str:
            second = f"03/04/2024 10:{minute:02d}:00"
            return f"MESH4,-2,{bought},{sold},1,4700.25,4710.25,50.00,{second},{second},0s\n"

        result = load(self.HEAD + row("22", "21", 2) + row("11", "12", 1) + row("2", "1", 0))
        assert [(trade.exec_time.minute, trade.side.value) for trade in result.trades] == [
            *((0, "SLD"), (0, "BOT"), (1, "BOT"), (1, "SLD"), (2, "SLD"), (2, "BOT"))
        ]

    @pytest.mark.parametrize(("buy", "sell"), [("", "12"), ("11", "")])
    def test_a_row_that_lacks_an_id_gets_made_ones(self, buy: str, sell: str) -> None:
        result = load(self.HEAD + self.LONG.replace("11,12", f"{buy},{sell}"))
        assert [trade.is_synthesised for trade in result.trades] == [True, True]

    @pytest.mark.parametrize(
        ("before", "after", "field"),
        [
            (",2,4700", ",0,4700", "quantity"),
            (",2,4700", ",-1,4700", "quantity"),
            ("MESH4", "QQZZH4", "multiplier"),
            ("MESH4", "", "symbol"),
            ("03/04/2024 10:05:00", "", "sold"),
            ("4710.25", "x", "sell_price"),
        ],
    )
    def test_a_row_with_an_unreadable_half_is_refused_whole(self, before: str, after: str, field: str) -> None:
        result = load(self.HEAD + self.LONG + self.LONG.replace(before, after))
        assert (refused(result), result.error_rows, result.parsed_rows, len(result.trades)) == ([(3, field)], 1, 1, 2)

    @pytest.mark.parametrize(("stated", "told"), [("100.01", 0), ("100.02", 1), ("99.98", 1), ("50", 1), ("", 0)])
    def test_a_profit_that_its_prices_do_not_give_is_told(self, stated: str, told: int) -> None:
        result = load(self.HEAD + self.LONG.replace("$100.00", stated))
        assert codes(result) == ({"profit_contradicts"} if told else set())
        if told:
            message, row = note(result, "profit_contradicts")
            assert (row, "prices give 100;" in message, "rows are like this" in message) == (2, True, False)

    def test_rows_that_repeat_a_warning_are_counted_in_it(self) -> None:
        bad = self.LONG.replace("4710.25", "4710.30")
        result = load(self.HEAD + self.LONG + bad.replace("11,12", "13,14") + bad.replace("11,12", "15,16"))
        message, row = note(result, "off_tick")
        assert (row, message.startswith("4710.3 is no price of MES 03-24, which moves by 0.25")) == (3, True)
        assert "(each whole one counts 5 USD)" in message
        assert message.endswith(" 2 rows are like this.")

    @pytest.mark.parametrize("name", FINGERPRINT)
    def test_a_file_without_one_of_the_columns_is_not_tradovates(self, name: str) -> None:
        cells = [cell for cell in self.HEAD.strip().split(",") if cell.lower() != name]
        try:
            broker = load(",".join(cells) + "\n").broker
        except ImportRefused as exc:
            broker = exc.code
        assert broker != "tradovate"


class TestThinkorswimFees:
    """Fees of a second are shared by its fills of the same underlying, by quantity, to the last millionth."""

    TEXT = """Cash Balance
DATE,TIME,TYPE,REF #,DESCRIPTION,Misc Fees,Commissions & Fees,AMOUNT,BALANCE
1/8/26,10:00:00,TRD,="1",SOLD -1 VERTICAL SPY 100 20 MAR 26 600/605 CALL @1.50,-0.10,-1.00,1,1
1/8/26,10:00:00,TRD,="2",BOT +7 NVDA @176.40,-0.07,-0.70,1,1
1/8/26,10:00:00,BAL,="3",BOT +7 NVDA @176.40,-9,-9,1,1
1/8/26,10:00:01,TRD,="4",BOT +7 NVDA @176.40,-0.25,-0.50,1,1
1/8/26,10:00:02,TRD,="5",BOT +1 /MESH26:XCME @6900.25,0.05,-2.25,1,1

Account Trade History
,Exec Time,Spread,Side,Qty,Pos Effect,Symbol,Exp,Strike,Type,Price,Net Price,Order Type
,1/8/26 10:00:00,VERTICAL,SELL,-1,TO OPEN,SPY,20 MAR 26,600,CALL,3.50,1.50,LMT
,,,BUY,+2,TO OPEN,SPY,20 MAR 26,605,CALL,2.00,CREDIT,
,1/8/26 10:00:00,STOCK,BUY,+7,TO OPEN,NVDA,,,STOCK,176.40,176.90,MKT
,1/8/26 10:00:02,FUTURE,BUY,+1,TO OPEN,/MESH26,,,FUTURE,6900.25,6900.25,LMT
"""

    def test_they_are_shared_and_none_is_lost(self) -> None:
        result = load(self.TEXT)
        found = {
            trade.symbol: (trade.commission, trade.fees, [fee.fee_type.value for fee in trade.ledger])
            for trade in result.trades
        }
        both = ["commission", "regulatory"]
        assert found == {
            "SPY 260320 C 600": (D("0.333333"), D("0.033333"), both),
            "SPY 260320 C 605": (D("0.666667"), D("0.066667"), both),
            "NVDA": (D("0.70"), D("0.07"), both),
            "MES 03-26": (D("2.25"), D("-0.05"), both),
        }
        message, row = note(result, "fees_without_fill")
        assert (message, row) == ("Fees of 0.75 stand at times without a fill in the trade history.", None)

    def test_without_a_cash_section_the_net_price_tells_them(self) -> None:
        result = load(self.TEXT[self.TEXT.index("Account Trade") :])
        assert {trade.symbol: trade.commission for trade in result.trades if trade.commission} == {"NVDA": D("3.50")}
        assert codes(result) == set()

    @pytest.mark.parametrize("name", ["TYPE", "DESCRIPTION", "Misc Fees", "Commissions & Fees", "AMOUNT", "BALANCE"])
    def test_a_section_with_other_columns_is_no_cash_section(self, name: str) -> None:
        head, rest = self.TEXT.split("\n", 2)[1], self.TEXT
        result = load(rest.replace(head, head.replace(name, "Other")))
        assert {trade.symbol for trade in result.trades if trade.commission} == {"NVDA"}

    def test_fees_that_name_no_fill_of_their_second_are_shared_by_all_of_it(self) -> None:
        text = self.TEXT.replace("VERTICAL SPY 100", "VERTICAL QQQ 100")
        found = {trade.symbol: trade.commission for trade in load(text).trades}
        assert (found["SPY 260320 C 600"], found["SPY 260320 C 605"], found["NVDA"]) == (D("0.1"), D("0.2"), D("1.40"))


class TestActivityStatement:
    HEAD = "Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,C. Price,Proceeds,Comm/Fee,Basis,Realized P/L,MTM P/L,Code\n"
    START = (
        "Statement,Header,Field Name,Field Value\n"
        'Statement,Data,Period,"January 2, 2026 - January 30, 2026"\n'
        "Account Information,Header,Field Name,Field Value\n"
        "Account Information,Data,Account,U77 (Individual)\n"
        "Account Information,Data,Base Currency,EUR\n"
    )

    def row(self, quantity: str, *, kind: str = "Order", symbol: str = "AAA", fee: str = "-1", code: str = "O") -> str:
        return f'Trades,Data,{kind},Stocks,USD,{symbol},"2026-01-05, 10:00:00",{quantity},10,10,0,{fee},0,0,0,{code}\n'

    def test_rates_are_those_of_the_last_day_in_the_accounts_currency(self) -> None:
        rates = (
            "Base Currency Exchange Rate,Header,Currency,Exchange Rate\n"
            "Base Currency Exchange Rate,Data,USD,0.85\nBase Currency Exchange Rate,Data,EUR,1\n"
            "Base Currency Exchange Rate,Data,GBP,0\nBase Currency Exchange Rate,Data,CHF,x\n"
            "Base Currency Exchange Rate,Data,JPY\nBase Currency Exchange Rate,Data,dollars,2\n"
        )
        result = load(self.START + self.HEAD + self.row("5") + rates)
        assert [(one.day, one.base, one.quote, one.rate) for one in result.rates] == [
            (dt.date(2026, 1, 30), "USD", "EUR", D("0.85"))
        ]
        assert (result.base_currency, result.trades[0].base_currency) == ("EUR", "EUR")
        assert "'U77'" in note(result, "account_mismatch")[0]
        undated = load(self.START.replace("Period", "Other") + self.HEAD + self.row("5") + rates)
        assert undated.rates == ()
        one_day = self.START.replace("January 2, 2026 - January 30, 2026", "January 9, 2026")
        assert [one.day.day for one in load(one_day + self.HEAD + self.row("5") + rates).rates] == [9]
        assert load(self.START.replace("EUR", "") + self.HEAD + self.row("5") + rates).rates == ()

    def test_a_file_cut_inside_a_short_row_of_another_section_is_read(self) -> None:
        short = "Account Information,Data,Account\nAccount Information,Data,Base Currency\nStatement,Data,Period\n"
        result = load(short + self.HEAD + self.row("5"))
        assert (len(result.trades), result.base_currency, result.errors) == (1, None, ())

    @pytest.mark.parametrize(
        ("rows", "found"),
        [
            ([("Order", "10"), ("Trade", "4"), ("Trade", "6")], ["4", "6"]),
            ([("Order", "10"), ("Trade", "4"), ("Trade", "5")], ["10"]),
            ([("Order", "10"), ("Trade", "4"), ("Trade", "7")], ["10"]),
            ([("Order", "10"), ("Order", "4")], ["10", "4"]),
            ([("Trade", "4"), ("Trade", "6")], ["4", "6"]),
            ([("Order", "10"), ("Trade", "-10")], ["10", "10"]),
            ([("ClosedLot", "10"), ("Order", "4")], ["4"]),
        ],
    )
    def test_parts_replace_their_order_when_they_add_up_to_it(
        self, rows: list[tuple[str, str]], found: list[str]
    ) -> None:
        result = load(self.HEAD + "".join(self.row(quantity, kind=kind) for kind, quantity in rows))
        assert [str(trade.quantity) for trade in result.trades] == found

    def test_parts_of_another_symbol_do_not_replace_the_order(self) -> None:
        result = load(self.HEAD + self.row("10") + self.row("10", kind="Trade", symbol="BBB"))
        assert [trade.symbol for trade in result.trades] == ["AAA", "BBB"]

    @pytest.mark.parametrize(
        ("code", "effect"), [("O", Effect.OPEN), ("C;P", Effect.CLOSE), ("C;O", None), ("P", None), ("", None)]
    )
    def test_codes_say_what_a_fill_did(self, code: str, effect: Effect | None) -> None:
        assert [trade.effect for trade in load(self.HEAD + self.row("5", code=code)).trades] == [effect]

    @pytest.mark.parametrize(("fee", "cost"), [("-1.25", D("1.25")), ("0.20", D("-0.20")), ("0", D(0)), ("", D(0))])
    def test_charges_are_negative_there(self, fee: str, cost: D) -> None:
        (trade,) = load(self.HEAD + self.row("5", fee=fee)).trades
        assert (trade.commission, [row.amount for row in trade.ledger]) == (cost, [cost] if cost else [])

    @pytest.mark.parametrize(
        ("before", "after", "field"),
        [
            (",5,10,", ",0,10,", "quantity"),
            (",5,10,", ",5,-10,", "price"),
            ("USD", "dollars", "symbol"),
            ("AAA", "", "symbol"),
        ],
    )
    def test_bad_rows_are_refused_with_their_field(self, before: str, after: str, field: str) -> None:
        result = load(self.HEAD + self.row("5").replace(before, after) + self.row("7"))
        assert (refused(result), [trade.quantity for trade in result.trades]) == ([(2, field)], [D(7)])

    def test_a_cancelled_row_is_counted_and_a_cut_one_refused(self) -> None:
        result = load(self.HEAD + self.row("5", code="O; Ca") + self.row("7").removesuffix(",0,O\n"))
        assert (result.trades, result.skipped_kinds, refused(result)) == ((), {"cancelled": 1}, [(3, "row")])
        assert note(result, "cancelled_skipped")[0] == "1 cancelled rows were left out."

    def test_commissions_of_pairs_are_in_the_currency_of_their_column(self) -> None:
        head = self.HEAD.replace("Comm/Fee", "Comm in GBP")
        result = load(head + self.row("5", symbol="EUR.USD").replace("Stocks", "Forex"))
        assert [(trade.symbol, trade.fee_currency, trade.commission) for trade in result.trades] == [
            ("EUR/USD", "GBP", D(1))
        ]
        assert [trade.fee_currency for trade in load(self.HEAD + self.row("5")).trades] == [""]

    def test_multipliers_come_from_their_section(self) -> None:
        info = (
            "Financial Instrument Information,Data,Stocks,AAA,3\n"  # before its header it means nothing
            "Financial Instrument Information,Header,Asset Category,Symbol,Multiplier\n"
            "Financial Instrument Information,Data,Stocks,AAA,x\nFinancial Instrument Information,Data,Stocks,BBB,0\n"
            "Financial Instrument Information,Data,Stocks,CCC\nFinancial Instrument Information,Data,Stocks,DDD,7\n"
        )
        rows = "".join(self.row("5", symbol=name) for name in ("AAA", "BBB", "CCC", "DDD"))
        found = {trade.symbol: trade.multiplier for trade in load(self.HEAD + rows + info).trades}
        assert found == {"AAA": 1, "BBB": 1, "CCC": 1, "DDD": 7}


FLEX_ROW = {
    "symbol": "AAA",
    "assetCategory": "STK",
    "dateTime": "20260105;100000",
    "quantity": "5",
    "tradePrice": "10",
    "buySell": "BUY",
    "currency": "USD",
    "tradeID": "1",
}


class TestFlexRows:
    def load(self, *rows: dict[str, str], extra: str = "") -> BrokerImport:
        trades = "".join(
            "<Trade " + " ".join(f'{name}="{value}"' for name, value in {**FLEX_ROW, **row}.items()) + " />\n"
            for row in rows
        )
        return load(f"<FlexQueryResponse>\n{extra}{trades}</FlexQueryResponse>\n")

    @pytest.mark.parametrize(
        ("row", "field", "message"),
        [
            ({"quantity": "0"}, "quantity", "is zero"),
            ({"quantity": ""}, "quantity", "is missing"),
            ({"quantity": "x"}, "quantity", "'x' is not a number"),
            ({"tradePrice": ""}, "tradePrice", "is missing"),
            ({"tradePrice": "-1"}, "tradePrice", "is negative, which only a future's can be"),
            ({"buySell": "HOLD"}, "buySell", "'HOLD' is neither BUY nor SELL"),
            ({"quantity": "-5"}, "buySell", "'BUY' contradicts the sign of the quantity -5"),
            ({"dateTime": ""}, "dateTime", "is missing"),
            ({"dateTime": "soon"}, "dateTime", "'soon' is not a date"),
            ({"symbol": ""}, "symbol", "is missing"),
            ({"currency": "dollars"}, "symbol", "'dollars' is not a currency code"),
        ],
    )
    def test_a_bad_row_is_refused_with_its_field_and_reason(
        self, row: dict[str, str], field: str, message: str
    ) -> None:
        result = self.load(row, {"tradeID": "2"})
        assert [(error.row_number, error.field, error.message) for error in result.errors] == [(2, field, message)]
        assert ([trade.exec_id for trade in result.trades], result.error_rows) == (["2"], 1)

    @pytest.mark.parametrize(
        ("row", "side", "quantity"),
        [
            ({"buySell": "SELL", "quantity": "5"}, "SLD", 5),
            ({"buySell": "SELL", "quantity": "-5"}, "SLD", 5),
            ({"buySell": "", "quantity": "-5"}, "SLD", 5),
            ({"buySell": ""}, "BOT", 5),
        ],
    )
    def test_the_side_is_the_word_or_else_the_sign(self, row: dict[str, str], side: str, quantity: int) -> None:
        assert [(trade.side.value, trade.quantity) for trade in self.load(row).trades] == [(side, D(quantity))]

    def test_a_future_may_trade_below_zero(self) -> None:
        result = self.load({"symbol": "CLK0", "assetCategory": "FUT", "tradePrice": "-37.63", "multiplier": "1000"})
        assert [(trade.price, trade.multiplier) for trade in result.trades] == [(D("-37.63"), D(1000))]

    def test_an_option_is_named_by_its_attributes(self) -> None:
        named = {"assetCategory": "OPT", "symbol": "XYZ1", "strike": "384", "putCall": "P", "expiry": "20260320"}
        (trade,) = self.load({**named, "underlyingSymbol": "SPY", "multiplier": "10"}).trades
        assert (trade.symbol, trade.multiplier) == ("SPY 260320 P 384", D(10))
        assert [trade.symbol for trade in self.load(named).trades] == ["XYZ1 260320 P 384"]
        occ = {"assetCategory": "OPT", "symbol": "SPY   260320P00384000"}
        for missing in ("strike", "putCall", "expiry"):
            row = {name: value for name, value in {**named, **occ}.items() if name != missing}
            assert [trade.symbol for trade in self.load(row).trades] == ["SPY 260320 P 384"]

    def test_ids_orders_days_and_effects_have_their_order_of_preference(self) -> None:
        full = {"ibExecID": "X", "ibOrderID": "7", "ibOrderRef": "mine", "openCloseIndicator": "C", "dateTime": ""}
        (trade,) = self.load({**full, "tradeDate": "20260105", "tradeTime": "100000"}).trades
        assert (trade.exec_id, trade.order_id, trade.notes, trade.effect) == ("X", "7", "mine", Effect.CLOSE)
        assert (trade.exec_time, trade.time_known) == (dt.datetime(2026, 1, 5, 15, tzinfo=dt.UTC), True)
        (trade,) = self.load({"ibOrderRef": "mine", "dateTime": "", "tradeDate": "20260105"}).trades
        assert (trade.exec_id, trade.order_id, trade.time_known, trade.effect) == ("1", "mine", False, None)

    @pytest.mark.parametrize(
        ("row", "kind"),
        [
            ({"levelOfDetail": "ORDER"}, "summary"),
            ({"levelOfDetail": "EXECUTION"}, None),
            ({"transactionType": "TradeCancel"}, "cancelled"),
            ({"transactionType": "ExchTrade"}, None),
            ({"buySell": "SELL (Ca.)"}, "cancelled"),
        ],
    )
    def test_summaries_and_cancellations_are_no_fills(self, row: dict[str, str], kind: str | None) -> None:
        result = self.load(row)
        assert (result.skipped_kinds, len(result.trades)) == ({kind: 1} if kind else {}, 0 if kind else 1)
        assert codes(result) == ({"cancelled_skipped"} if kind == "cancelled" else set())

    @pytest.mark.parametrize(("rate", "kept"), [("0.5", D("0.5")), ("0", None), ("-1", None), ("", None)])
    def test_a_rate_to_the_accounts_currency_is_above_zero(self, rate: str, kept: D | None) -> None:
        (trade,) = self.load({"fxRateToBase": rate, "multiplier": "3", "ibCommissionCurrency": "eur"}).trades
        assert (trade.fx_rate, trade.fee_currency) == (kept, "EUR")
        assert trade.base_amount == (None if not rate or rate == "0" else 5 * 10 * 3 * D(rate))

    def test_the_table_of_rates_is_read_and_its_bad_rows_are_not(self) -> None:
        def rate(day: str = "20260105", base: str = "USD", quote: str = "EUR", value: str = "0.5") -> str:
            return f'<ConversionRate reportDate="{day}" fromCurrency="{base}" toCurrency="{quote}" rate="{value}" />'

        bad = (rate(day="x"), rate(base=""), rate(quote=""), rate(base="EUR"), rate(value="0"), rate(value="x"))
        result = self.load({}, extra=rate() + "".join(bad))
        assert [(one.day, one.base, one.quote, one.rate) for one in result.rates] == [
            (dt.date(2026, 1, 5), "USD", "EUR", D("0.5"))
        ]
