"""Profits that files state for closing fills, against what the journal's own matching gives."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.driver import Journal

HEAD = "Date,Time,Symbol,Side,Quantity,Price,Commission,Profit\n"
FLEX = """<FlexQueryResponse queryName="q" type="AF"><FlexStatements count="1">
<FlexStatement accountId="U1" fromDate="20260301" toDate="20260331"><Trades>{trades}</Trades></FlexStatement>
</FlexStatements></FlexQueryResponse>"""
ACTIVITY = """Statement,Header,Field Name,Field Value
Statement,Data,BrokerName,Interactive Brokers
Statement,Data,Title,Activity Statement
Account Information,Data,Base Currency,USD
Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price,C. Price,Proceeds,Comm/Fee,Basis,Realized P/L,MTM P/L,Code
Trades,Data,Order,Stocks,USD,AAA,"2026-03-02, 10:00:00",100,10,10,-1000,-1,1001,0,0,O
Trades,Data,Order,Stocks,USD,AAA,"2026-03-03, 10:00:00",-100,12,12,1200,-1,-1001,{profit},0,C
"""  # noqa: E501  a statement's own line


def notes(answer: dict[str, Any]) -> list[tuple[int | None, str]]:
    found = [note for note in answer["warnings"] if note["code"] == "profit_contradicts"]
    return [(note.get("row_number"), note["message"]) for note in found]


def generic(profit: str, symbol: str = "AAA") -> bytes:
    return (
        f"{HEAD}03/02/2026,10:00:00,{symbol},Buy,100,10,1,0\n03/02/2026,11:00:00,{symbol},Buy,100,11,1,0\n"
        f"03/03/2026,10:00:00,{symbol},Sell,100,12,1,{profit}\n"
    ).encode()


# First in, first out: 100 × (12 − 10) = 200 before fees; the round trip's three fills cost 3.
@pytest.mark.parametrize(
    ("profit", "told"),
    [
        *(("200", 0), ("198", 0), ("199.00", 0), ("0", 0), ("", 0), ("100", 1), ("-200", 1), ("202", 1), ("2000", 1)),
        # after the exit's fee it is 198; the fees of all three fills and a cent are no difference
        *(("201.01", 0), ("201.02", 1), ("194.99", 0), ("194.98", 1)),
    ],
)
async def test_a_profit_of_a_table_is_compared_with_the_matched_one(journal: Journal, profit: str, told: int) -> None:
    answer = await journal.csv(generic(profit))
    assert (answer["imported"], len(notes(answer))) == (3, told)
    if told:
        ((row, message),) = notes(answer)
        assert (row, f"a profit of {profit} for AAA" in message, "give 198.00;" in message) == (4, True, True)


async def test_an_option_of_a_table_counts_its_multiplier(journal: Journal) -> None:
    assert notes(await journal.csv(generic("20000", "SPY 991217 C 540"))) == []
    ((_, message),) = notes(await journal.csv(generic("200", "SPY 991217 C 541")))
    assert "give 19998.00;" in message


@pytest.mark.parametrize(("profit", "told"), [("198", 0), ("200", 0), ("300", 1)])
async def test_the_profit_of_an_activity_statement_is_compared(journal: Journal, profit: str, told: int) -> None:
    answer = await journal.csv(ACTIVITY.format(profit=profit).encode())
    assert (answer["broker"], answer["imported"], len(notes(answer))) == ("ibkr", 2, told)


@pytest.mark.parametrize(("profit", "told"), [("98", 0), ("100", 0), ("-98", 1)])
async def test_the_profit_of_a_flex_file_is_compared(journal: Journal, profit: str, told: int) -> None:
    same = 'accountId="U1" currency="USD" assetCategory="STK" symbol="AAA" multiplier="1" levelOfDetail="EXECUTION"'
    fills = (
        f'<Trade {same} ibExecID="1" dateTime="20260302;100000" buySell="SELL" quantity="-10" tradePrice="30" '
        'ibCommission="-1" ibCommissionCurrency="USD" fifoPnlRealized="0" />'
        f'<Trade {same} ibExecID="2" dateTime="20260303;100000" buySell="BUY" quantity="10" tradePrice="20" '
        f'ibCommission="-1" ibCommissionCurrency="USD" fifoPnlRealized="{profit}" />'
    )
    answer = await journal.csv(FLEX.format(trades=fills).encode())
    assert (answer["imported"], len(notes(answer))) == (2, told)


async def test_a_sale_of_what_the_journal_never_saw_bought_is_not_judged(journal: Journal) -> None:
    answer = await journal.csv(f"{HEAD}03/03/2026,10:00:00,AAA,Sell,100,12,1,500\n".encode())
    assert (answer["imported"], notes(answer)) == (1, [])


async def test_many_rows_that_differ_are_one_note_with_their_count(journal: Journal) -> None:
    rows = "".join(
        f"03/02/2026,10:00:00,S{at},Buy,1,10,0,0\n03/03/2026,10:00:00,S{at},Sell,1,12,0,20\n" for at in range(3)
    )
    ((row, message),) = notes(await journal.csv((HEAD + rows).encode()))
    assert (row, "3 rows differ" in message) == (3, True)


NINJA = (
    "Trade number,Instrument,Account,Strategy,Market pos.,Qty,Entry price,Exit price,Entry time,Exit time,Profit,"
    "Commission,Exchange Fee,\n"
    "1,ES 03-26,A1,,Long,1,5000,5010,03/02/2026 10:00:00 AM,03/02/2026 10:20:00 AM,$500.00,$0.00,$0.00,\n"
    "2,ES 03-26,A1,,Long,1,5004,5006,03/02/2026 10:05:00 AM,03/02/2026 10:10:00 AM,{second},$0.00,$0.00,\n"
)
TRADOVATE = (
    "symbol,_priceFormat,buyFillId,sellFillId,qty,buyPrice,sellPrice,pnl,boughtTimestamp,soldTimestamp,duration\n"
    "ESH6,-2,11,14,1,5000,5010,$500.00,03/02/2026 10:00:00,03/02/2026 10:20:00,20min\n"
    "ESH6,-2,12,13,1,5004,5006,{second},03/02/2026 10:05:00,03/02/2026 10:10:00,5min\n"
)


@pytest.mark.parametrize(("text", "broker"), [(NINJA, "ninjatrader"), (TRADOVATE, "tradovate")])
async def test_a_row_with_both_fills_is_judged_by_them_and_not_first_in_first_out(
    journal: Journal, text: str, broker: str
) -> None:
    # the rows pair the second purchase with the first sale: 10 and 2 points, where first in, first out says 6 and 6
    answer = await journal.csv(text.format(second="$100.00").encode())
    assert (answer["broker"], answer["imported"], answer["error_rows"]) == (broker, 4, 0)
    assert [note["code"] for note in answer["warnings"]] == []
    assert sorted(one["realized_pnl"] for one in await journal.trades()) == [0, 0, 100, 500]
