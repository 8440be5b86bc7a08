"""Whatever was traded or booked, written in any layout, is read back as what it was."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.embedded.imports import writers
from tests.embedded.imports.writers import Contract, Fill, Line
from zorivest_rpc.embedded.imports.bank import import_bank_file
from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.broker_pdf import import_broker_pdf
from zorivest_rpc.embedded.imports.drafts import BankHints, BrokerHints, BrokerImport, Status

HINTS = BrokerHints(account_id="A1")
TIMED: dict[str, Callable[[Sequence[Fill]], bytes]] = {
    "ibkr_flex_xml": writers.flex_xml,
    "ibkr_flex_csv": writers.flex_csv,
    "ibkr_activity_csv": writers.activity_csv,
    "thinkorswim": writers.thinkorswim,
    "webull": writers.webull,
    "webull_orders": writers.webull_orders,
    "lightspeed": writers.lightspeed,
    "tastytrade": writers.tastytrade,
    "alpaca_activities": writers.alpaca,
    "tradier_history": writers.tradier,
    "generic": writers.generic,
}
DATED: dict[str, Callable[[Sequence[Fill]], bytes]] = {
    "etrade": writers.etrade,
    "schwab": writers.schwab,
    "robinhood": writers.robinhood,
}
WITHOUT_COSTS = {"webull_orders", "robinhood"}
WITH_FEES = {"ibkr_flex_xml", "ibkr_flex_csv", "webull", "lightspeed", "tastytrade", "generic"}
BANKS: dict[str, Callable[[Sequence[Line]], bytes]] = {
    "ofx 1": writers.ofx,
    "ofx 2": writers.ofx2,
    "qif": writers.qif,
    "chase": writers.chase,
    "fidelity": writers.fidelity,
    "schwab": writers.schwab_bank,
    "unknown": writers.unknown_bank,
    "camt": writers.camt,
}

roots = st.sampled_from(["AAPL", "SPY", "F", "BRK.B", "MSFT", "NVDA"])
days = st.dates(dt.date(2021, 1, 4), dt.date(2026, 12, 30))
options = st.builds(
    Contract,
    st.sampled_from(["AAPL", "SPY", "F"]),
    st.dates(dt.date(2027, 1, 1), dt.date(2029, 12, 31)),
    st.sampled_from(["C", "P"]),
    st.decimals("0.5", "9999.5", places=1),
)
moments = st.builds(
    lambda day, second: dt.datetime.combine(day, dt.time(9, 30), writers.NEW_YORK) + dt.timedelta(seconds=second),
    days,
    st.integers(0, 6 * 3600),
)
cents = st.decimals("0", "20", places=2)
fills = st.builds(
    Fill,
    moments,
    st.one_of(st.builds(Contract, roots), options),
    st.booleans(),
    st.sampled_from([1, 2, 4, 5, 10, 100, 1000, 12500]),
    st.decimals("0.01", "6000", places=4),
    cents,
    cents,
)
books = st.lists(fills, min_size=1, max_size=8).map(lambda found: sorted(found, key=lambda fill: fill.at))
words = st.text(st.sampled_from("abcdefghij klmnop&'ZÜé"), min_size=1, max_size=20).map(
    lambda text: f"To {text.strip()}x"
)
lines = st.builds(Line, days, words, st.decimals("-9999", "9999", places=2).filter(bool))
statements = st.lists(lines, min_size=1, max_size=8).map(lambda found: sorted(found, key=lambda line: line.day))


def core(fill: Fill) -> tuple[object, ...]:
    return fill.at.astimezone(dt.UTC), fill.contract.normal, fill.side, fill.quantity, fill.price, fill.multiplier


def read(result: BrokerImport) -> list[tuple[object, ...]]:
    return [
        (trade.exec_time, trade.symbol, trade.side.value, trade.quantity, trade.price, trade.multiplier)
        for trade in result.trades
    ]


@pytest.mark.parametrize("layout", TIMED)
@given(book=books)
@settings(deadline=None, max_examples=25)
def test_fills_survive_every_layout_that_has_times(layout: str, book: list[Fill]) -> None:
    result = import_broker_file(TIMED[layout](book), HINTS)
    assert (result.status, result.detected_format, result.errors) == (Status.SUCCESS, layout, ())
    assert Counter(read(result)) == Counter(core(fill) for fill in book)
    if layout not in WITHOUT_COSTS:
        assert sum(trade.commission for trade in result.trades) == sum(fill.commission for fill in book)
    if layout in WITH_FEES:
        assert sum(trade.fees for trade in result.trades) == sum(fill.fee for fill in book)
    for trade in result.trades:
        assert sum(cost.amount for cost in trade.ledger) == trade.commission + trade.fees


@pytest.mark.parametrize("layout", DATED)
@given(book=books)
@settings(deadline=None, max_examples=25)
def test_fills_survive_layouts_that_have_days_alone_and_keep_their_order(layout: str, book: list[Fill]) -> None:
    result = import_broker_file(DATED[layout](book), HINTS)
    assert (result.status, result.detected_format) == (Status.SUCCESS, layout)
    expected = [(fill.at.date(), *core(fill)[1:]) for fill in book]
    found = [(row[0].astimezone(writers.NEW_YORK).date(), *row[1:]) for row in read(result)]  # type: ignore[attr-defined]
    assert found == expected
    if layout not in WITHOUT_COSTS:
        assert [trade.commission for trade in result.trades] == [fill.commission for fill in book]


trips = st.builds(
    lambda entered, seconds, **more: writers.RoundTrip(entered, entered + dt.timedelta(seconds=seconds), **more),
    moments,
    st.integers(0, 3600),
    root=st.sampled_from(["ES", "MNQ", "CL", "6E"]),
    month=st.integers(1, 12),
    year=st.integers(2021, 2027),
    is_long=st.booleans(),
    quantity=st.integers(1, 50),
    entry=st.decimals("1", "6000", places=2),
    exit=st.decimals("1", "6000", places=2),
    commission=cents,
    exchange_fee=cents,
)


@given(book=st.lists(trips, min_size=1, max_size=6))
@settings(deadline=None, max_examples=25)
def test_whole_round_trips_become_their_entries_and_exits(book: list[writers.RoundTrip]) -> None:
    result = import_broker_file(writers.ninjatrader(book), BrokerHints(account_id="A1", day_first=False))
    assert (result.status, result.detected_format, result.errors) == (Status.SUCCESS, "ninjatrader", ())
    expected = Counter(
        (moment.astimezone(dt.UTC), f"{trip.root} {trip.month:02d}-{trip.year % 100:02d}", side, trip.quantity, price)
        for trip in book
        for moment, side, price in (
            (trip.entered, "BOT" if trip.is_long else "SLD", trip.entry),
            (trip.left, "SLD" if trip.is_long else "BOT", trip.exit),
        )
    )
    assert Counter(row[:5] for row in read(result)) == expected
    assert sum(trade.commission for trade in result.trades) == sum(trip.commission for trip in book)
    assert sum(trade.fees for trade in result.trades) == sum(trip.exchange_fee for trip in book)
    assert {trade.asset_class.value for trade in result.trades} == {"FUTURE"}


@given(book=books)
@settings(deadline=None, max_examples=15)
def test_one_book_has_the_same_keys_in_every_layout_that_has_times(book: list[Fill]) -> None:
    keys = {
        tuple(sorted((trade.dedup_hash, trade.occurrence) for trade in import_broker_file(write(book), HINTS).trades))
        for write in TIMED.values()
    }
    assert len(keys) == 1


@given(book=books, order=st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25)
def test_ids_do_not_depend_on_the_order_of_rows(book: list[Fill], order: object) -> None:
    shuffled = list(book)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    first = import_broker_file(writers.webull(book), HINTS)
    second = import_broker_file(writers.webull(shuffled), HINTS)
    assert sorted(trade.exec_id for trade in first.trades) == sorted(trade.exec_id for trade in second.trades)
    assert len({trade.exec_id for trade in first.trades}) == len(book)


@given(
    book=books,
    dialect=st.sampled_from([(",", "."), (";", ","), (";", "."), ("\t", "."), ("\t", ","), ("|", ",")]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "cp1252", "utf-16"]),
)
@settings(deadline=None, max_examples=60)
def test_fills_survive_every_dialect(book: list[Fill], dialect: tuple[str, str], encoding: str) -> None:
    result = import_broker_file(writers.generic(book, *dialect, encoding), HINTS)
    assert result.status is Status.SUCCESS
    assert Counter(read(result)) == Counter(core(fill) for fill in book)
    assert {trade.notes for trade in result.trades} == {"café"}


@given(book=books)
@settings(deadline=None, max_examples=8, phases=[Phase.explicit, Phase.generate])  # shrinking PDFs takes minutes
def test_fills_survive_a_pdf_table(book: list[Fill]) -> None:
    result = import_broker_pdf(writers.pdf_table(book), HINTS)
    assert (result.status, result.detected_format, result.confidence) == (Status.SUCCESS, "pdf_table", 0.9)
    assert Counter(read(result)) == Counter(core(fill) for fill in book)


@given(book=books, zone=st.sampled_from(["UTC", "Europe/Berlin", "Asia/Tokyo", "America/Los_Angeles"]))
@settings(deadline=None, max_examples=15)
def test_times_without_a_zone_are_read_in_the_import_zone(book: list[Fill], zone: str) -> None:
    import zoneinfo

    moved = [
        Fill(fill.at.replace(tzinfo=zoneinfo.ZoneInfo(zone)), fill.contract, fill.is_buy, fill.quantity, fill.price)
        for fill in book
    ]
    result = import_broker_file(writers.webull(moved), BrokerHints(account_id="A1", timezone=zone))
    assert Counter(read(result)) == Counter(core(fill) for fill in moved)


@pytest.mark.parametrize("layout", BANKS)
@given(statement=statements)
@settings(deadline=None, max_examples=25)
def test_statement_lines_survive_every_bank_format(layout: str, statement: list[Line]) -> None:
    result = import_bank_file(BANKS[layout](statement), BankHints(account_id="C1"))
    assert (result.status, result.errors) == (Status.SUCCESS, ())
    found = Counter((line.date, line.description, line.amount) for line in result.transactions)
    assert found == Counter((line.day, " ".join(line.text.split()), line.amount) for line in statement)
    assert result.net_change == sum((line.amount for line in statement), Decimal(0))
    assert result.balance_match in (None, True)


@given(statement=statements)
@settings(deadline=None, max_examples=15)
def test_one_statement_has_the_same_hashes_in_every_bank_format(statement: list[Line]) -> None:
    results = [import_bank_file(write(statement), BankHints(account_id="C1")) for write in BANKS.values()]
    assert len({tuple(sorted(line.dedup_hash for line in result.transactions)) for result in results}) == 1
