"""Whole exports, imitated from public samples: preambles, footers, fees in odd places, and rows that are no trades.

Seen in named public repositories: Robinhood's columns (acarlson98/rhParser, henry-md/robinhood-visualizer), TD
Ameritrade's (nicholasceliano/GnuCashImporter), an older tastytrade layout (AgileTrossDev/tasty_anaylzer). Seen in public
code whose repository the index does not name: Robinhood's OEXP rows; Fidelity's "YOU SOLD OPENING TRANSACTION" and
`-MU250201P100`; E*TRADE's columns behind a preamble; thinkorswim's sections, `=\\"ref\\"` and Misc Fees; tastytrade's
"Receive Deliver" expirations. As described, sample not seen: Robinhood's SPL and closing disclaimer, Fidelity's sweeps
and last lines, tastytrade's splits."""

# ruff: noqa: E501  the samples keep the line lengths of real exports

from __future__ import annotations

from typing import Any

from tests.embedded.driver import Journal

TOS = """Account Statement for DEMO-0001 (Day Trade) since 1/2/26 through 1/9/26

Cash Balance
DATE,TIME,TYPE,REF #,DESCRIPTION,Misc Fees,Commissions & Fees,AMOUNT,BALANCE
1/8/26,01:00:00,BAL,,Cash balance at the start of business day 08.01 CST,,,,"100,000.00"
1/8/26,09:33:05,TRD,="3001",BOT +200 NVDA @176.40,,-0.70,"-35,280.00","64,719.30"
1/8/26,10:02:19,TRD,="3002",SOLD -200 NVDA @177.35,-0.75,-1.05,"35,470.00","100,187.50"
1/8/26,10:10:00,TRD,="3003",SOLD -2 VERTICAL SPY 100 20 MAR 26 600/605 CALL @1.50,-0.08,-2.60,300.00,"100,484.82"
1/8/26,10:30:00,FND,="3004",ACH deposit,,,500.00,"100,984.82"

Futures Statements
Trade Date,Exec Date,Exec Time,Type,Ref #,Description,Misc Fees,Commissions & Fees,Amount,Balance
1/8/26,1/8/26,14:17:49,TRD,="1005",BOT +1 /MESH26:XCME @6900.25,-0.37,-2.25,--,"45,048.78"

Account Trade History
,Exec Time,Spread,Side,Qty,Pos Effect,Symbol,Exp,Strike,Type,Price,Net Price,Order Type
,1/8/26 14:17:49,FUTURE,BUY,+1,TO OPEN,/MESH26,,,FUTURE,6900.25,6900.25,LMT
,1/8/26 10:10:00,VERTICAL,SELL,-2,TO OPEN,SPY,20 MAR 26,600,CALL,3.50,1.50,LMT
,,,BUY,+2,TO OPEN,SPY,20 MAR 26,605,CALL,2.00,CREDIT,
,1/8/26 10:02:19,STOCK,SELL,-200,TO CLOSE,NVDA,,,STOCK,177.35,177.35,MKT
,1/8/26 09:33:05,STOCK,BUY,+200,TO OPEN,NVDA,,,STOCK,176.40,176.40,MKT

Profits and Losses
Symbol,Description,P/L Open,P/L %,P/L Day,P/L YTD,P/L Diff,Margin Req,Mark Value
"""

ROBINHOOD = """\
"Activity Date","Process Date","Settle Date","Instrument","Description","Trans Code","Quantity","Price","Amount"
"6/10/2024","6/10/2024","6/10/2024","NVDA","NVIDIA
CUSIP: 67066G104","SPL","90","",""
"5/20/2024","5/20/2024","5/21/2024","TSLA","Tesla
CUSIP: 88160R101
1 TSLA Option Assigned","Buy","100","$170.00","($17,000.00)"
"5/17/2024","5/20/2024","5/20/2024","TSLA","TSLA 5/17/2024 Put $170.00","OASGN","1S","",""
"5/17/2024","5/17/2024","5/17/2024","SPY","Option Expiration for SPY 5/17/2024 Call $540.00","OEXP","2","",""
"5/2/2024","5/2/2024","5/3/2024","SPY","SPY 5/17/2024 Call $540.00","BTO","2","$0.50","($100.08)"
"5/1/2024","5/1/2024","5/2/2024","TSLA","TSLA 5/17/2024 Put $170.00","STO","1","$2.00","$199.95"
"5/1/2024","5/1/2024","5/2/2024","NVDA","NVIDIA
CUSIP: 67066G104","Buy","10","$900.00","($9,000.00)"
"4/30/2024","4/30/2024","4/30/2024","MSFT","Cash Div: R/D 2024-04-15 P/D 2024-04-30","CDIV","","","$7.50"
"4/29/2024","4/29/2024","4/29/2024","","ACH Deposit","ACH","","","$20,000.00"
"4/28/2024","4/28/2024","4/28/2024","","Gold Subscription Fee","GOLD","","","($5.00)"
"The data provided is for informational purposes only. Robinhood Securities, LLC."
"""

ETRADE = """For Account:,####3525

TransactionDate,TransactionType,SecurityType,Symbol,Quantity,Amount,Price,Commission,Description

04/05/23,Sold,EQ,AMZN,-2,202.19,101.1,0,AMAZON.COM INC
04/05/23,Bought,EQ,SQQQ,9,-280.06,31.1176,0,PROSHARES TR                  PROSHARES ULTRAPRO SHORT QQQ
04/03/23,Bought,EQ,AMZN,2,-204.9,102.45,0,AMAZON.COM INC
04/03/23,Dividend,EQ,MSFT,0,12.34,0,0,MICROSOFT CORP
"""

FIDELITY = """

Run Date,Action,Symbol,Description,Type,Price ($),Quantity,Commission ($),Fees ($),Accrued Interest ($),Amount ($),Cash Balance ($),Settlement Date
07-13-2026,REINVESTMENT FIDELITY GOVERNMENT MONEY MARKET (SPAXX) (Cash),SPAXX,FIDELITY GOVERNMENT MONEY MARKET,Cash,1,12.5,"","","",-12.5,9000,""
07-11-2026,EXPIRED PUT (XLU) UTILITIES SELECT SECTOR SPDR JUL 10 26 $44.5 (100 SHS) as of Jul-10-2026 (Cash), -XLU260710P44.5,PUT (XLU) UTILITIES SELECT SECTOR SPDR JUL 10 26 $44.5 (100 SHS),Cash,"",1,"","","","",9000,""
06-10-2026,YOU SOLD OPENING TRANSACTION PUT (XLU) UTILITIES SELECT SECTOR SPDR JUL 10 26 $44.5 (100 SHS) (Cash), -XLU260710P44.5,PUT (XLU) UTILITIES SELECT SECTOR SPDR JUL 10 26 $44.5 (100 SHS),Cash,0.85,-1,0.65,0.02,"",84.33,50084.33,06-11-2026
06-01-2026,Electronic Funds Transfer Received (Cash),,No Description,Cash,"",0,"","","",50000,50000,""

"The data and information in this spreadsheet is provided to you solely for your use and is not for distribution."
Date downloaded 07/25/2026 9:41 am
"""


def skipped(answer: dict[str, Any]) -> dict[str, int]:
    return {one["kind"]: one["count"] for one in answer["skipped"]}


def codes(answer: dict[str, Any]) -> set[str]:
    return {note["code"] for note in answer["warnings"]}


async def test_thinkorswim_fees_come_from_the_cash_sections(journal: Journal) -> None:
    answer = await journal.csv(TOS.encode())
    assert (answer["imported"], answer["error_rows"]) == (5, 0)
    cost = {
        (one["symbol"], one["action"]): (round(one["commission"], 6), round(one["fees"], 6))
        for one in await journal.trades()
    }
    assert cost == {
        ("NVDA", "BOT"): (0.7, 0),
        ("NVDA", "SLD"): (1.05, 0.75),
        ("SPY 260320 C 600", "SLD"): (1.3, 0.04),
        ("SPY 260320 C 605", "BOT"): (1.3, 0.04),
        ("MES 03-26", "BOT"): (2.25, 0.37),
    }


async def test_fees_at_a_time_without_a_fill_are_told(journal: Journal) -> None:
    answer = await journal.csv(TOS.replace("10:02:19,TRD", "10:02:20,TRD").encode())
    assert "fees_without_fill" in codes(answer)


async def test_a_robinhood_year_keeps_options_splits_fees_and_counts(journal: Journal) -> None:
    answer = await journal.csv(ROBINHOOD.encode())
    assert (answer["imported"], answer["error_rows"], answer["corporate_actions"]) == (4, 0, 3)
    assert skipped(answer) == {"dividend": 1, "fee": 1, "transfer": 1}
    assert "fees_in_amount" in codes(answer)
    fees = {one["symbol"]: one["fees"] for one in await journal.trades() if one["source"] == "import"}
    assert (fees["SPY 240517 C 540"], fees["TSLA 240517 P 170"], fees["NVDA"]) == (0.08, 0.05, 0)
    trips = {one["instrument"]: one for one in (await journal.get("/round-trips"))["items"]}
    assert (trips["SPY 240517 C 540"]["status"], trips["SPY 240517 C 540"]["realized_pnl"]) == ("closed", -100.08)
    assert (trips["TSLA 240517 P 170"]["status"], trips["TSLA"]["open_quantity"]) == ("closed", 100)
    assert (trips["NVDA"]["open_quantity"], trips["NVDA"]["entry_avg_price"]) == (100, 90)
    actions = await journal.get("/corporate-actions")
    assert {one["kind"] for one in actions["items"]} == {"split", "expiry", "assignment"}
    again = await journal.csv(ROBINHOOD.encode())
    assert (again["imported"], again["corporate_actions"]) == (0, 0)
    assert (await journal.get("/corporate-actions"))["total"] == 3


async def test_etrade_amounts_hold_fees_that_no_column_has(journal: Journal) -> None:
    answer = await journal.csv(ETRADE.encode())
    assert (answer["imported"], skipped(answer)) == (3, {"dividend": 1})
    assert {one["symbol"]: one["fees"] for one in await journal.trades() if one["action"] == "SLD"} == {"AMZN": 0.01}
    assert [one["fees"] for one in await journal.trades() if one["action"] == "BOT"] == [0, 0]


async def test_fidelity_sweeps_are_no_trades_and_an_expired_option_is_no_open_lot(journal: Journal) -> None:
    answer = await journal.csv(FIDELITY.encode())
    assert (answer["broker"], answer["imported"], answer["error_rows"]) == ("fidelity", 1, 0)
    assert skipped(answer) == {"sweep": 1, "transfer": 1}
    assert answer["corporate_actions"] == 1
    (trip,) = (await journal.get("/round-trips"))["items"]
    assert (trip["direction"], trip["status"], trip["realized_pnl"]) == ("SLD", "closed", 84.33)
    assert (await journal.get("/tax/lots", params={"status": "open"}))["lots"] == []


async def test_an_option_past_its_day_is_not_listed_as_open(journal: Journal) -> None:
    await journal.trade("BOT", 1, 2, "2024-05-01", instrument="SPY 240517 C 540", exec_id="old")
    await journal.trade("BOT", 1, 2, "2024-05-01", instrument="SPY 991217 C 540", exec_id="far")
    answer = await journal.get("/tax/lots", params={"status": "open"})
    assert [lot["ticker"] for lot in answer["lots"]] == ["SPY 991217 C 540"]
    assert [lot["ticker"] for lot in answer["expired_unresolved"]["lots"]] == ["SPY 240517 C 540"]


async def test_an_option_past_its_day_is_neither_sold_in_a_trial_nor_harvested(journal: Journal) -> None:
    old, far = "SPY 240517 C 540", "SPY 991217 C 540"
    for name in (old, far):
        await journal.trade("BOT", 1, 9, "2024-05-01", instrument=name)
    sale = {"account_id": "A1", "quantity": 1, "price": 2, "action": "sell", "cost_basis_method": "FIFO"}
    refusal = await journal.refused(404, "POST", "/tax/simulate", sale | {"ticker": old})
    assert (refusal["error"], "past its last day" in str(refusal)) == ("no_open_lots", True)
    answer = await journal.expect(200, "POST", "/tax/simulate", sale | {"ticker": far})
    assert len(answer["lots_to_close"]) == 1
    for name in (old, far):
        bar = {"time": "2024-05-16T00:00:00Z", **dict.fromkeys(("open", "high", "low", "close"), 2)}
        body = {"symbol": name, "resolution": "1d", "bars": [bar], "source": "test"}
        await journal.expect(201, "POST", "/market-data/bars", body)
    found = await journal.get("/tax/harvest")
    assert old not in str(found)
    assert far in str(found)
    estimate = await journal.expect(200, "POST", "/tax/estimate", {"include_unrealized": True})
    assert old not in str(estimate)


async def test_an_end_of_an_option_that_was_never_open_is_told_and_leaves_nothing(journal: Journal) -> None:
    rows = ROBINHOOD.splitlines(keepends=True)
    text = rows[0] + next(row for row in rows if "OEXP" in row)
    answer = await journal.csv(text.encode())
    assert (answer["corporate_actions"], answer["imported"]) == (0, 0)
    (note,) = [note for note in answer["warnings"] if note["code"] == "event_not_applied"]
    assert "SPY 240517 C 540" in note["message"]
    assert (await journal.get("/corporate-actions"))["total"] == 0


async def test_cost_columns_under_any_name_are_read_or_told(journal: Journal) -> None:
    head = "Date,Time,Symbol,Side,Quantity,Price,Commission,SEC Fee,TAF,Exchange Fee,NFA Fee,Wizard Charge\n"
    answer = await journal.csv((head + "03/19/2026,10:00:00,AAPL,Sell,10,5,1.00,0.10,0.02,0.30,0.04,9.00\n").encode())
    (trade,) = await journal.trades()
    assert (trade["commission"], trade["fees"]) == (1, 0.46)
    (note,) = [note for note in answer["warnings"] if note["code"] == "fee_columns_ignored"]
    assert "Wizard Charge" in note["message"]


async def test_tastytrade_deliveries_and_splits_become_actions(journal: Journal) -> None:
    head = (
        "Date,Type,Sub Type,Action,Symbol,Instrument Type,Description,Value,Quantity,Average Price,Commissions,Fees,"
        "Multiplier,Root Symbol,Order #,Currency\n"
    )
    rows = (
        "2024-05-17T15:00:00-0500,Receive Deliver,Expiration,,SPY   240517C00540000,Equity Option,"
        "Removal of 1.0 SPY 05/17/24 Call 540.00 due to expiration.,0.00,1,0.00,--,0.00,100,SPY,,USD\n"
        "2024-05-02T10:00:00-0500,Trade,Buy to Open,BUY_TO_OPEN,SPY   240517C00540000,Equity Option,Bought 1 SPY,"
        "-50.00,1,-50.00,-1.00,-0.12,100,SPY,1,USD\n"
    )
    answer = await journal.csv((head + rows).encode())
    assert (answer["imported"], answer["corporate_actions"], answer["error_rows"]) == (1, 1, 0)
    (trip,) = (await journal.get("/round-trips"))["items"]
    assert trip["status"] == "closed"
