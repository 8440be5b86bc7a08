"""Rows that are no fills: their kinds, the events among them, and the funds that only hold cash."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as D
from fractions import Fraction

import pytest
from msgspec.structs import replace

from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, PositionEvent
from zorivest_rpc.embedded.imports.events import join_splits, ratio_of

SCHWAB = '"Date","Action","Symbol","Description","Quantity","Price","Fees & Comm","Amount"\n'
TASTY = "Date,Type,Sub Type,Action,Symbol,Instrument Type,Description,Value,Quantity,Average Price,Multiplier\n"


def load(text: str) -> BrokerImport:
    return import_broker_file(text.encode(), BrokerHints(account_id="A1"))


def schwab(action: str, symbol: str = "", notes: str = "", quantity: str = "", price: str = "") -> BrokerImport:
    row = f'"05/17/2024","{action}","{symbol}","{notes}","{quantity}","{price}","",""\n'
    return load(SCHWAB + row)


def events(result: BrokerImport) -> list[tuple[str, str, D | None, D | None, D | None]]:
    return [(one.kind, one.symbol, one.quantity, one.numerator, one.denominator) for one in result.events]


KINDS = {
    "sweep": "Money Market Fund|Cash Sweep|Redemption from core|Purchase into core account|Bank sweep",
    "dividend": "Cash Dividend|Qualified Dividend|CDIV|MDIV|Div|Long Term Cap Gain|Capital Gain|Return of Capital",
    "interest": "Bank Interest|Credit INT|Bond coupon",
    "fee": "ADR Mgmt Fee|Fees|AFEE|DFEE|Commission adj|Service Charge|Gold",
    "tax": "Foreign Tax Paid|Withholding|NRA|NRAT|DTAX",
    "transfer": "Internal Transfer|MoneyLink|ACH|Wire Sent|Deposit|Withdrawal|Journal|RTP|EFT",
    "lending": "SLIP|Stock Lending|Loan",
    "expiry": "Expired|Expiration|OEXP",
    "assignment": "Assigned|OASGN",
    "exercise": "Exchange or Exercise|Exercised|OEXCS",
    "split": "Stock Split|Reverse Split|Forward Split|Share Split|Split|SPL|SPR",
    "other": "Misc Entry|",
}


@pytest.mark.parametrize(("word", "kind"), [(word, kind) for kind, words in KINDS.items() for word in words.split("|")])
def test_a_row_that_is_no_fill_is_counted_by_its_kind(word: str, kind: str) -> None:
    """Without a symbol an event cannot be applied, so it is only counted."""
    result = schwab(word, notes="" if word else "a note")
    assert (result.skipped_kinds, result.skipped_rows, result.total_rows) == ({kind: 1}, 1, 1)
    assert (result.trades, result.events, result.errors) == ((), (), ())
    tallied = "option_events_skipped" in {note.code for note in result.warnings}
    assert tallied is (kind in ("expiry", "assignment", "exercise"))


@pytest.mark.parametrize("words", ["Deposit,,", ",Deposit,", ",,Deposit"])
def test_the_kind_is_told_by_any_of_the_columns_that_can(words: str) -> None:
    kind, subtype, notes = words.split(",")
    result = load(f"{TASTY}2024-05-17T10:00:00-0400,{kind or 'Money'},{subtype},,,,{notes},1,,,\n")
    assert result.skipped_kinds == {"transfer": 1}


@pytest.mark.parametrize(
    ("subtype", "notes", "kind"),
    [
        ("Expiration", "after an assignment", "expiry"),
        ("Assignment", "at expiration", "assignment"),
        ("Exercise", "at expiration", "exercise"),
        ("", "Removal of option due to expiration", "expiry"),
    ],
)
def test_the_action_tells_the_event_before_the_description_does(subtype: str, notes: str, kind: str) -> None:
    row = f"2024-05-18T02:00:00Z,Receive Deliver,{subtype},,SPY   240517C00540000,Equity Option,{notes},0,3,,100\n"
    result = load(TASTY + row)
    assert events(result) == [(kind, "SPY 240517 C 540", D(3), None, None)]
    assert (result.skipped_rows, result.skipped_kinds, result.events[0].row_number) == (1, {}, 2)
    assert result.events[0].day == dt.date(2024, 5, 17)  # in the zone of the file it was still that day


CONTRACTS = [
    "SPY 05/17/2024 540.00 C",
    "SPY 5/17/2024 Call $540.00",
    "SPY MAY 17 24 $540 CALL",
    "SPY May 17, '24 540 Call",
    "SPY 5/17/24 540 C",
]


@pytest.mark.parametrize("text", CONTRACTS)
def test_the_option_is_named_by_the_symbol_or_within_the_description(text: str) -> None:
    expected = [("expiry", "SPY 240517 C 540", D(2), None, None)]
    assert events(schwab("Expired", notes=f"the option {text} is gone", quantity="2")) == expected
    assert events(schwab("Expired", symbol=text, quantity="2")) == expected


@pytest.mark.parametrize(
    ("cell", "count"), [("2", D(2)), ("-2", D(2)), ("1S", D(1)), ("1,200", D(1200)), ("0.5", D("0.5")), ("", None)]
)
def test_the_count_of_an_event_has_no_sign_or_letter(cell: str, count: D | None) -> None:
    assert [one.quantity for one in schwab("Expired", "SPY 05/17/2024 540.00 C", quantity=cell).events] == [count]


@pytest.mark.parametrize("symbol", ["SPY", "", "@@"])
def test_an_end_of_what_is_no_option_is_only_counted(symbol: str) -> None:
    result = schwab("Expired", symbol=symbol, quantity="2")
    assert (result.events, result.skipped_kinds) == ((), {"expiry": 1})


@pytest.mark.parametrize(
    ("action", "notes", "quantity", "found"),
    [
        ("Stock Split", "NVIDIA 10 for 1", "90", (90, 10, 1)),
        ("Reverse Split", "1-for-20", "", (None, 1, 20)),
        ("Split", "3:2", "5", (5, 3, 2)),
        ("Stock Split 4:1", "", "", (None, 4, 1)),
        ("Stock Split", "1.5 for 1", "", (None, D("1.5"), 1)),
        ("Reverse Split", "10 for 1", "", (None, 1, 10)),  # said the wrong way round
        ("SPR", "10 for 1", "", (None, 1, 10)),
        ("Reverse Split", "1 for 1", "", (None, 1, 1)),
        ("Stock Split", "NVIDIA", "90", (90, None, None)),
        ("Stock Split", "NVIDIA", "-90", (-90, None, None)),
        ("Stock Split", "NVIDIA", "(90)", (-90, None, None)),
        ("Stock Split", "NVIDIA", "90S", (-90, None, None)),
        ("Stock Split", "Forward split: Close 90.0 NVDA", "90", (-90, None, None)),
        ("Stock Split", "Forward split: Open 90.0 NVDA", "90", (90, None, None)),
        ("Stock Split", "Removal of 90 NVDA", "90", (-90, None, None)),
        ("Stock Split", "NVIDIA", "", None),
        ("Stock Split", "NVIDIA", "0", None),
    ],
)
def test_a_split_has_a_ratio_or_the_shares_that_were_added(
    action: str, notes: str, quantity: str, found: tuple[object, ...] | None
) -> None:
    result = schwab(action, "NVDA", notes, quantity)
    assert events(result) == ([] if found is None else [("split", "NVDA", *found)])
    assert result.skipped_kinds == ({"split": 1} if found is None else {})


SPLIT = PositionEvent(row_number=2, kind="split", symbol="NVDA", day=dt.date(2024, 6, 10))
OTHERS = {
    "another symbol": replace(SPLIT, symbol="AMD", quantity=D(-5)),
    "another day": replace(SPLIT, day=dt.date(2024, 6, 11), quantity=D(-5)),
    "a stated ratio": replace(SPLIT, numerator=D(10), denominator=D(1), quantity=D(-5)),
    "no split": replace(SPLIT, kind="expiry", quantity=D(5)),
}


@pytest.mark.parametrize(
    ("moved", "joined"),
    [
        ((108, -54), (None, 2, 1)),
        ((-400, 20), (None, 1, 20)),
        ((15, -5, -5), (None, 3, 2)),
        ((D("0.5"), -1), (None, 1, 2)),
        ((60, 30), (90, None, None)),
        ((-60, -30), (-90, None, None)),
    ],
)
def test_rows_of_one_split_are_joined_and_others_stay(
    moved: tuple[D | int, ...], joined: tuple[D | None, D | None, D | None]
) -> None:
    rows = [replace(SPLIT, row_number=number, quantity=D(count)) for number, count in enumerate(moved)]
    for name, other in OTHERS.items():
        found = join_splits([rows[0], other, *rows[1:]])
        assert sorted(found, key=str) == sorted(
            [other, replace(rows[0], quantity=joined[0], numerator=joined[1], denominator=joined[2])], key=str
        ), name


@pytest.mark.parametrize(
    ("exact", "told"),
    [
        (Fraction(3, 2), (3, 2)),
        (Fraction(10_000), (10_000, 1)),
        (Fraction(1, 10_000), (1, 10_000)),
        (Fraction(10_001), (100_010_000, 10_000)),
        (Fraction(1, 10_001), (D("0.99990001"), 10_000)),
    ],
)
def test_a_ratio_is_told_in_whole_numbers_while_they_are_small(exact: Fraction, told: tuple[D, D]) -> None:
    new, old = ratio_of(exact)
    assert (new, old) == (round(D(told[0]), 6), told[1])


def test_a_split_of_an_option_is_no_split_of_shares_and_a_ratio_elsewhere_is_none() -> None:
    assert schwab("Stock Split", "SPY 05/17/2024 540.00 C", "2 for 1", "5").events == ()
    assert events(schwab("Expired", "SPY 05/17/2024 540.00 C", "2 for 1", "5")) == [
        ("expiry", "SPY 240517 C 540", D(5), None, None)
    ]


SWEEPS = (
    "SPAXX FDRXX FZFXX FZDXX FDLXX SPRXX FTEXX FMPXX FCASH CORE QCERQ QPRMQ SWVXX SNVXX SNSXX SNAXX SWGXX SNOXX VMFXX "
    "VMRXX VMMXX VUSXX MMDA1 MMDA10 QACDS TDBDP BDPS ETSWEEP"
)


@pytest.mark.parametrize("symbol", SWEEPS.split())
def test_moving_cash_into_a_fund_that_holds_it_is_no_trade(symbol: str) -> None:
    for price in ("1", "2.5"):
        result = schwab("Buy", symbol, "cash", "10", price)
        assert (result.trades, result.skipped_kinds, result.error_rows) == ((), {"sweep": 1}, 0)


@pytest.mark.parametrize(
    ("symbol", "price", "is_sweep"),
    [
        ("ZZZXX", "1", True),
        ("ZZZXX", "1.00", True),
        ("ZZZXX", "2", False),
        ("ZZXX", "1", False),
        ("ZZZZXX", "1", False),
        ("ZZZZZ", "1", False),
    ],
)
def test_another_fund_is_one_of_them_if_it_is_named_and_priced_so(symbol: str, price: str, is_sweep: bool) -> None:
    result = schwab("Buy", symbol, "cash", "10", price)
    assert (len(result.trades), result.skipped_kinds) == ((0, {"sweep": 1}) if is_sweep else (1, {}))
