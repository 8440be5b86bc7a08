"""The table of futures: its figures against published ones, its use by hand and by file, and roots that it lacks."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport
from zorivest_rpc.embedded.values.futures import contract_of, contracts, parse_fraction, parse_multipliers
from zorivest_rpc.embedded.values.symbols import parse_instrument

# Money per tick as the exchanges state it on the product pages (multiplier times tick, rounded to nothing).
TICK_VALUES = {
    "ES": "12.5", "MES": "1.25", "NQ": "5", "MNQ": "0.5", "RTY": "5", "M2K": "0.5", "YM": "5", "MYM": "0.5",
    "EMD": "10", "NKD": "25", "CL": "10", "QM": "12.5", "MCL": "1", "NG": "10", "QG": "12.5", "MNG": "1", "HO": "4.2",
    "RB": "4.2", "BZ": "10", "GC": "10", "MGC": "1", "QO": "12.5", "SI": "25", "SIL": "5", "QI": "31.25", "HG": "12.5",
    "MHG": "1.25", "PL": "5", "PA": "50", "ZC": "12.5", "ZS": "12.5", "ZW": "12.5", "KE": "12.5", "ZO": "12.5",
    "ZM": "10", "ZL": "6", "ZR": "10", "XC": "1.25", "MZC": "2.5", "ZN": "15.625", "ZB": "31.25", "ZF": "7.8125",
    "ZT": "7.8125", "TN": "15.625", "UB": "31.25", "10Y": "1", "6E": "6.25", "6B": "6.25", "6J": "6.25", "6A": "5",
    "6C": "5", "6S": "6.25", "6N": "5", "6M": "5", "M6E": "1.25", "M6B": "0.625", "M6A": "1", "MJY": "1.25",
    "LE": "10", "GF": "12.5", "HE": "10", "DC": "20", "BTC": "25", "MBT": "0.5", "ETH": "25", "MET": "0.05",
    "VX": "50", "DX": "5", "KC": "18.75", "CT": "5", "SB": "11.2", "CC": "10", "OJ": "7.5", "BRN": "10", "G": "25",
    "Z": "5", "R": "10", "FDAX": "25", "FDXM": "5", "FDXS": "1", "FESX": "10", "FSXE": "0.5", "FGBL": "10",
    "FGBM": "10", "FGBS": "5", "FGBX": "20", "FBTP": "10", "FOAT": "10", "FSMI": "10", "FVS": "5", "SR3": "6.25",
    "VXM": "1",
}  # fmt: skip

# QuantConnect/Lean, Data/symbol-properties/symbol-properties-database.csv of August 2026: contract_multiplier and
# minimum_price_variation by root. It quotes grains, livestock and softs in dollars, the market in cents.
LEAN = {
    "ES": ("50", "0.25"), "MES": ("5", "0.25"), "NQ": ("20", "0.25"), "MNQ": ("2", "0.25"), "RTY": ("50", "0.1"),
    "M2K": ("5", "0.1"), "EMD": ("100", "0.1"), "NKD": ("5", "5"), "NIY": ("500", "5"), "BTC": ("5", "5"),
    "MBT": ("0.1", "5"), "ETH": ("50", "0.5"), "MET": ("0.1", "0.5"), "6A": ("100000", "0.00005"),
    "6B": ("62500", "0.0001"), "6C": ("100000", "0.00005"), "6E": ("125000", "0.00005"),
    "6J": ("12500000", "0.0000005"), "6L": ("100000", "0.00005"), "6M": ("500000", "0.00001"),
    "6N": ("100000", "0.00005"), "6S": ("125000", "0.00005"), "6Z": ("500000", "0.000025"), "E7": ("62500", "0.0001"),
    "J7": ("6250000", "0.000001"), "M6A": ("10000", "0.0001"), "M6B": ("6250", "0.0001"), "M6E": ("12500", "0.0001"),
    "MCD": ("10000", "0.0001"), "MJY": ("1250000", "0.000001"), "MSF": ("12500", "0.0001"), "GE": ("2500", "0.0025"),
    "LE": ("40000", "0.00025"), "GF": ("50000", "0.00025"), "HE": ("40000", "0.00025"), "LBS": ("110", "0.1"),
    "LBR": ("27.5", "0.5"), "YM": ("5", "1"), "MYM": ("0.5", "1"), "ZT": ("2000", "0.00390625"),
    "ZF": ("1000", "0.0078125"), "ZN": ("1000", "0.015625"), "TN": ("1000", "0.015625"), "ZB": ("1000", "0.03125"),
    "UB": ("1000", "0.03125"), "2YY": ("1000", "0.001"), "5YY": ("1000", "0.001"), "10Y": ("1000", "0.001"),
    "30Y": ("1000", "0.001"), "ZC": ("5000", "0.0025"), "ZS": ("5000", "0.0025"), "ZW": ("5000", "0.0025"),
    "KE": ("5000", "0.0025"), "ZO": ("5000", "0.0025"), "ZM": ("100", "0.1"), "ZL": ("60000", "0.0001"),
    "CL": ("1000", "0.01"), "MCL": ("100", "0.01"), "BZ": ("1000", "0.01"), "NG": ("10000", "0.001"),
    "HO": ("42000", "0.0001"), "RB": ("42000", "0.0001"), "PL": ("50", "0.1"), "PA": ("100", "0.5"),
    "GC": ("100", "0.1"), "MGC": ("10", "0.1"), "SI": ("5000", "0.005"), "SIL": ("1000", "0.005"),
    "HG": ("25000", "0.0005"), "VX": ("1000", "0.05"), "VXM": ("100", "0.01"), "DX": ("1000", "0.005"),
    "KC": ("37500", "0.0005"), "CT": ("50000", "0.0001"), "SB": ("112000", "0.0001"), "CC": ("10", "1"),
    "OJ": ("15000", "0.0005"), "B": ("1000", "0.01"), "G": ("100", "0.25"), "FDAX": ("25", "1"), "FDXM": ("5", "1"),
    "FDXS": ("1", "25"), "FESX": ("10", "1"),
}  # fmt: skip


@pytest.mark.parametrize("root", TICK_VALUES)
def test_a_tick_is_worth_what_the_exchange_says(root: str) -> None:
    contract = contract_of(root)
    assert contract is not None
    assert contract.multiplier * contract.tick == Decimal(TICK_VALUES[root])


@pytest.mark.parametrize("root", LEAN)
def test_the_multipliers_and_ticks_are_those_of_a_public_table(root: str) -> None:
    contract = contracts()[root]
    multiplier, tick = map(Decimal, LEAN[root])
    scale = 100 if "in cents" in contract.source else 1
    assert contract.multiplier == multiplier / scale
    assert contract.quote.startswith("cents") or scale == 1
    if root == "FDXS":  # that table has the value of a DAX point where the tick of the micro belongs
        assert (tick, contract.tick) == (Decimal(25), Decimal(1))
    else:
        assert contract.tick == tick * scale


def test_a_source_claims_a_comparison_only_where_there_was_one() -> None:
    assert {root for root, one in contracts().items() if "QuantConnect Lean" in one.source} == set(LEAN)
    assert {one.source for root, one in contracts().items() if root not in LEAN} == {
        "published specification of the contract, not compared"
    }


def test_every_contract_names_its_exchange_source_currency_and_quote_unit() -> None:
    assert len(contracts()) >= 120
    assert {one.exchange for one in contracts().values()} >= {
        "CME", "CBOT", "NYMEX", "COMEX", "ICE US", "ICE EU", "Eurex",
    }  # fmt: skip
    for one in contracts().values():
        assert one.source
        assert one.quote
        assert one.multiplier > 0
        assert one.tick > 0
        assert one.currency in {"USD", "EUR", "GBP", "CHF", "JPY"}
        assert one.fraction in (0, 8, 32)
    assert contracts()["FDAX"].currency == "EUR"
    assert contracts()["NIY"].currency == "JPY"


@pytest.mark.parametrize(
    ("cell", "fraction", "price"),
    [
        ("110'16", 32, "110.5"),
        ("110'165", 32, "110.515625"),
        ("110'162", 32, "110.5078125"),
        ("110'167", 32, "110.5234375"),
        ("102'181", 32, "102.56640625"),
        ("117'31", 32, "117.96875"),
        ("450'2", 8, "450.25"),
        ("450'7", 8, "450.875"),
        ("450.25", 8, None),
        ("110'16", 0, None),
    ],
)
def test_fractions_are_read_as_the_contract_is_quoted(cell: str, fraction: int, price: str | None) -> None:
    assert parse_fraction(cell, fraction) == (None if price is None else Decimal(price))


@pytest.mark.parametrize(("cell", "fraction"), [("110'32", 32), ("110'164", 32), ("110'5", 32), ("450'8", 8)])
def test_a_fraction_that_cannot_be_is_refused(cell: str, fraction: int) -> None:
    with pytest.raises(ValueError, match="is no price in"):
        parse_fraction(cell, fraction)


@pytest.mark.parametrize("text", ["XYZ", "XYZ=", "XYZ=0", "XYZ=-5", "TOOLONG=5", "XYZ=1e5"])
def test_multipliers_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not ROOT=number"):
        parse_multipliers(text)


def test_multipliers_are_a_list_of_roots() -> None:
    assert parse_multipliers("") == {}
    assert parse_multipliers("xyz=25, ABC = 0.5;") == {"XYZ": Decimal(25), "ABC": Decimal("0.5")}


@pytest.mark.parametrize("text", ["MCLM26", "/MCLM26", "MCL 06-26", "MCL JUN26", "/MCL"])
def test_every_spelling_of_a_micro_has_its_multiplier(text: str) -> None:
    found = parse_instrument(text)
    assert found.asset_class == "FUTURE"
    assert (found.underlying, found.multiplier) == ("MCL", Decimal(100))


NINJA = (
    "Trade number,Instrument,Account,Strategy,Market pos.,Qty,Entry price,Exit price,Entry time,Exit time,Entry name,"
    "Exit name,Profit,Cum. net profit,Commission,Clearing Fee,Exchange Fee,IP Fee,NFA Fee,MAE,MFE,ETD,Bars\n"
)


def load(text: str, **hints: Any) -> BrokerImport:
    return import_broker_file(text.encode(), BrokerHints(account_id="A1", **hints))


def ninja(instrument: str, entry: str, leave: str, profit: str, side: str = "Long") -> str:
    times = "6/16/2026 9:45:59 AM,6/16/2026 9:46:00 AM"
    return f"1,{instrument},A1,,{side},2,{entry},{leave},{times},E,X,{profit},{profit},$3.98,$0,$0,$0,$0,$0,$0,$0,1\n"


def codes(result: BrokerImport) -> list[str]:
    return [note.code for note in result.warnings]


@pytest.mark.parametrize(
    ("instrument", "entry", "leave", "profit"),
    [
        ("MCL 07-26", "70.10", "70.60", "$100.00"),
        ("MGC 08-26", "2400.0", "2401.0", "$20.00"),
        ("M2K 09-26", "2100.0", "2101.0", "$10.00"),
        ("MYM 09-26", "40000", "40010", "$10.00"),
        ("ZN 09-26", "110.5", "111.0", "$1000.00"),
        ("ZB 09-26", "117.5", "118.0", "$1000.00"),
        ("ZC 09-26", "450.25", "451.25", "$100.00"),
        ("SI 09-26", "30.000", "30.100", "$1000.00"),
        ("HG 09-26", "4.5000", "4.5100", "$500.00"),
        ("NG 09-26", "2.500", "2.510", "$200.00"),
        ("6E 09-26", "1.08000", "1.08100", "$250.00"),
        ("6J 09-26", "0.0067000", "0.0067100", "$250.00"),
    ],
)
@pytest.mark.parametrize("net", [False, True])
def test_a_file_whose_profit_agrees_is_imported_in_silence(
    instrument: str, entry: str, leave: str, profit: str, net: bool
) -> None:
    stated = f"${Decimal(profit[1:]) - Decimal('3.98')}" if net else profit
    result = load(NINJA + ninja(instrument, entry, leave, stated))
    assert (len(result.trades), codes(result)) == (2, [])


def test_a_profit_that_contradicts_the_prices_is_told_with_both_figures() -> None:
    rows = ninja("CL 07-26", "70.10", "70.60", "$100.00") + ninja("CL 07-26", "70.10", "70.00", "-$20.00", "Long")
    result = load(NINJA + rows)
    (note,) = result.warnings
    assert (note.code, note.row_number, len(result.trades)) == ("profit_contradicts", 2, 4)
    assert "states a profit of 100 for CL 07-26, but its prices give 1000" in note.message
    assert "2 rows are like this" in note.message


def test_a_short_row_has_its_profit_the_other_way_round() -> None:
    assert codes(load(NINJA + ninja("MCL 07-26", "70.60", "70.10", "$100.00", "Short"))) == []
    assert codes(load(NINJA + ninja("MCL 07-26", "70.10", "70.60", "$100.00", "Short"))) == ["profit_contradicts"]


def test_an_unknown_root_is_refused_with_the_ways_to_give_a_multiplier() -> None:
    text = NINJA + ninja("XYZ 07-26", "10", "11", "$50.00")
    result = load(text)
    (error,) = result.errors
    assert (result.trades, error.field) == ((), "multiplier")
    assert "XYZ" in error.message
    assert "update_settings" in error.message
    assert "futures.multipliers" in error.message
    given = load(text, multipliers={"XYZ": Decimal(25)})
    assert [(trade.multiplier, trade.asset_class.value) for trade in given.trades] == [(Decimal(25), "FUTURE")] * 2
    assert codes(given) == []


def test_a_multiplier_column_of_the_file_decides() -> None:
    head = "Date,Time,Symbol,Side,Qty,Price,Multiplier,Asset Class\n"
    row = "03/09/2026,10:30:00,/XYZM26,Buy,1,10.5,{},Future\n"
    assert load(head + row.format("")).errors[0].field == "multiplier"
    (trade,) = load(head + row.format("12.5")).trades
    assert trade.multiplier == Decimal("12.5")


@pytest.mark.parametrize(
    ("symbol", "cell", "price"),
    [("/ZNM26", "110'165", "110.515625"), ("/ZCN26", "450'2", "450.25"), ("/ZBM26", "117'08", "117.25")],
)
def test_prices_in_fractions_are_not_read_as_thousands(symbol: str, cell: str, price: str) -> None:
    head = "Date,Time,Symbol,Side,Qty,Price\n"
    (trade,) = load(f"{head}03/09/2026,10:30:00,{symbol},Buy,1,{cell}\n").trades
    assert trade.price == Decimal(price)
    assert load(f"{head}03/09/2026,10:30:00,{symbol},Buy,1,110'99\n").errors[0].field == "price"


def test_a_price_in_another_unit_is_told() -> None:
    head = "Date,Time,Symbol,Side,Qty,Price\n"
    result = load(f"{head}03/19/2026,10:30:00,/ZCN26,Buy,1,4.5025\n")
    (note,) = result.warnings
    assert (note.code, note.row_number) == ("off_tick", 2)
    assert "cents per bushel" in note.message
    assert codes(load(f"{head}03/19/2026,10:30:00,/ZCN26,Buy,1,450.25\n")) == []


async def test_a_future_by_hand_has_the_tables_multiplier_or_needs_one(admin: Caller) -> None:
    body = {"exec_id": "F1", "instrument": "MCL 06-26", "action": "BOT", "quantity": 2, "price": 70, "account_id": "A1"}
    answer = await admin.expect(201, "POST", "/trades", body)
    assert answer["trade"]["multiplier"] == 100
    unknown = body | {"exec_id": "F2", "instrument": "XYZ 06-26"}
    refusal = await admin.expect(422, "POST", "/trades", unknown)
    (problem,) = refusal["detail"]["errors"]["instrument"]
    assert "the multiplier of the future XYZ is not known" in problem
    answer = await admin.expect(201, "POST", "/trades", unknown | {"multiplier": 25})
    assert answer["trade"]["multiplier"] == 25
    await admin.expect(200, "PUT", "/settings", {"futures.multipliers": "XYZ=12.5, 6J=1000"})
    answer = await admin.expect(201, "POST", "/trades", unknown | {"exec_id": "F3"})
    assert answer["trade"]["multiplier"] == 12.5
    yen = {"instrument": "6J 06-26", "price": 0.0067, "exec_id": "F4"}
    assert (await admin.expect(201, "POST", "/trades", body | yen))["trade"]["multiplier"] == 1000
    problem = await admin.expect(422, "PUT", "/settings", {"futures.multipliers": "XYZ"})
    assert "ROOT=number" in str(problem)


async def test_an_unknown_root_cannot_come_in_by_a_change(admin: Caller) -> None:
    body = {"exec_id": "F1", "instrument": "SPY", "action": "BOT", "quantity": 2, "price": 70, "account_id": "A1"}
    await admin.expect(201, "POST", "/trades", body)
    await admin.expect(422, "PUT", "/trades/F1", {"instrument": "XYZ 06-26"})
    changed = await admin.expect(200, "PUT", "/trades/F1", {"instrument": "MGC 06-26"})
    assert changed["multiplier"] == 10


async def test_the_year_of_a_future_by_hand_follows_the_day_of_the_trade(admin: Caller) -> None:
    body = {
        "exec_id": "F1",
        "instrument": "/MCLM5",
        "action": "BOT",
        "quantity": 1,
        "price": 60,
        "account_id": "A1",
        "time": "2025-05-05T15:00:00Z",
    }
    answer = await admin.expect(201, "POST", "/trades", body)
    assert (answer["trade"]["symbol"], answer["trade"]["multiplier"]) == ("MCL 06-25", 100)
