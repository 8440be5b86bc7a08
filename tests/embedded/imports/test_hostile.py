"""Files made to hurt: each ends in a clean result or in one typed refusal, and never in anything else."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import io
import os
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded.imports import pdf, writers
from tests.embedded.imports.writers import Contract, Fill, Line
from tests.places import ROOT
from zorivest_rpc.embedded.imports.bank import import_bank_file
from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.broker_pdf import import_broker_pdf
from zorivest_rpc.embedded.imports.drafts import BankHints, BrokerHints, ImportLimits, ImportRefused, Status

HINTS = BrokerHints(account_id="A1")
BANK = BankHints(account_id="C1")
AT = dt.datetime(2024, 3, 15, 10, 31, 5, tzinfo=writers.NEW_YORK)
BOOK = [
    Fill(AT, Contract("AAPL"), True, 100, Decimal("172.5"), Decimal("1.00"), Decimal("0.02")),
    Fill(AT, Contract("SPY", dt.date(2027, 1, 15), "P", Decimal("384.5")), False, 2, Decimal("3.25"), Decimal("1.30")),
]
STATEMENT = [
    Line(dt.date(2024, 1, 5), "Coffee & Co", Decimal("-12.50")),
    Line(dt.date(2024, 1, 31), "Pay", Decimal("1000")),
]
NINJA = (
    b"Trade-#,Instrument,Account,Strategy,Market pos.,Quantity,Entry price,Exit price,Entry time,Exit time,Profit,"
    b"Commission,MAE,MFE\n1,ES 03-26,A1,Break,Long,2,5000.25,5010.25,1/5/2026 9:31:00 AM,1/5/2026 9:45:10 AM,$1000.00,"
    b"$4.10,$50.00,$1100.00\n"
)
BROKER_FILES = {
    "flex": writers.flex_xml(BOOK),
    "activity": writers.activity_csv(BOOK),
    "thinkorswim": writers.thinkorswim(BOOK),
    "ninjatrader": NINJA,
    "webull": writers.webull(BOOK),
    "webull orders": writers.webull_orders(BOOK),
    "robinhood": writers.robinhood(BOOK),
    "flex csv": writers.flex_csv(BOOK),
    "lightspeed": writers.lightspeed(BOOK),
    "etrade": writers.etrade(BOOK),
    "schwab": writers.schwab(BOOK),
    "tastytrade": writers.tastytrade(BOOK),
    "alpaca": writers.alpaca(BOOK),
    "tradier": writers.tradier(BOOK),
    "generic": writers.generic(BOOK),
    "generic utf-16": writers.generic(BOOK, encoding="utf-16"),
}
BANK_FILES = {
    "ofx 1": writers.ofx(STATEMENT, balance=Decimal(5)),
    "ofx 2": writers.ofx2(STATEMENT),
    "qif": writers.qif(STATEMENT),
    "chase": writers.chase(STATEMENT),
    "schwab": writers.schwab_bank(STATEMENT),
    "unknown": writers.unknown_bank(STATEMENT),
    "camt": writers.camt(STATEMENT),
}


def refusal(run: Callable[[], object]) -> ImportRefused:
    with pytest.raises(ImportRefused) as caught:
        run()
    _complete(caught.value)
    return caught.value


def _complete(exc: ImportRefused) -> None:
    assert all((exc.code, exc.what, exc.next))


def clean(run: Callable[[], object]) -> None:
    try:
        run()
    except ImportRefused as exc:
        _complete(exc)


@pytest.mark.parametrize("name", BROKER_FILES)
def test_a_broker_file_cut_at_any_byte_is_read_or_refused(name: str) -> None:
    data = BROKER_FILES[name]
    whole = {trade.dedup_hash for trade in import_broker_file(data, HINTS).trades}
    codes: set[str] = set()
    for end in range(len(data)):
        try:
            result = import_broker_file(data[:end], HINTS)
        except ImportRefused as exc:
            codes.add(exc.code)
            continue
        rows = {trade.row_number for trade in result.trades if trade.dedup_hash not in whole}
        assert len(rows) <= 1, "only the row that was cut can differ"
    assert codes <= {"empty_file", "unknown_broker_format", "broken_xml", "binary_file"}


@pytest.mark.parametrize("name", ["flex", "ofx 1", "ofx 2", "camt"])
def test_markup_that_was_cut_gives_nothing_at_all(name: str) -> None:
    if name == "flex":
        data = BROKER_FILES[name]
        for end in range(len(data) - 1):
            refusal(lambda end=end: import_broker_file(data[:end], HINTS))  # type: ignore[misc]
        return
    data = BANK_FILES[name].rstrip()
    for end in range(200, len(data) - 1):
        refusal(lambda end=end: import_bank_file(data[:end], BANK))  # type: ignore[misc]


@pytest.mark.parametrize("name", BANK_FILES)
def test_a_bank_file_cut_at_any_byte_is_read_or_refused(name: str) -> None:
    data = BANK_FILES[name]
    for end in range(len(data)):
        clean(lambda end=end: import_bank_file(data[:end], BANK))  # type: ignore[misc]


def test_a_pdf_cut_at_any_byte_is_read_or_refused() -> None:
    data = pdf.document(
        [pdf.table_page([["Date", "Symbol", "Side", "Qty", "Price"], ["1/15/2024", "F", "Buy", "1", "2"]])]
    )
    for end in range(0, len(data), len(data) // 20):  # each one starts a process
        clean(lambda end=end: import_broker_pdf(data[:end], HINTS))  # type: ignore[misc]


@pytest.mark.parametrize("name", BROKER_FILES)
@given(place=st.integers(0, 10_000), junk=st.binary(min_size=1, max_size=12))
@settings(deadline=None, max_examples=40)
def test_a_broker_file_with_junk_anywhere_is_read_or_refused(name: str, place: int, junk: bytes) -> None:
    data = BROKER_FILES[name]
    at = place % len(data)
    clean(lambda: import_broker_file(data[:at] + junk + data[at + 1 :], HINTS))


@pytest.mark.parametrize("name", BANK_FILES)
@given(place=st.integers(0, 10_000), junk=st.binary(min_size=1, max_size=12))
@settings(deadline=None, max_examples=40)
def test_a_bank_file_with_junk_anywhere_is_read_or_refused(name: str, place: int, junk: bytes) -> None:
    data = BANK_FILES[name]
    at = place % len(data)
    clean(lambda: import_bank_file(data[:at] + junk + data[at + 1 :], BANK))


@given(data=st.one_of(st.binary(max_size=300), st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace"))))
@settings(deadline=None, max_examples=150)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    clean(lambda: import_broker_file(data, HINTS))
    for format in ("auto", "csv", "ofx", "qif", "camt"):
        clean(lambda format=format: import_bank_file(data, BankHints(account_id="C1", format=format)))  # type: ignore[misc]


@given(data=st.binary(max_size=300))
@settings(deadline=None, max_examples=12)
def test_any_bytes_behind_the_mark_of_a_pdf_are_refused(data: bytes) -> None:
    clean(lambda: import_broker_pdf(b"%PDF-1.4\n" + data, HINTS))


@given(cells=st.lists(st.lists(st.text(max_size=12), min_size=5, max_size=5), max_size=5))
@settings(deadline=None, max_examples=100)
def test_any_cells_under_a_known_header_are_read_skipped_or_errors(cells: list[list[str]]) -> None:
    data = writers.table([["Date", "Symbol", "Side", "Qty", "Price"], *cells]).encode("utf-8", "replace")
    clean(lambda: import_broker_file(data, HINTS))
    data = writers.table([["Date", "Description", "Amount", "Balance", "Type"], *cells]).encode("utf-8", "replace")
    clean(lambda: import_bank_file(data, BANK))


class TestSize:
    def test_a_sparse_gigabyte_is_refused_without_being_read(self, tmp_path: Path) -> None:
        path = tmp_path / "big.csv"
        with path.open("wb") as file:
            file.truncate(1 << 30)
        for run in (import_broker_file, import_broker_pdf):
            exc = refusal(lambda run=run: run(path, HINTS))  # type: ignore[misc]
            assert (exc.code, exc.status) == ("file_too_large", 413)
        assert refusal(lambda: import_bank_file(path, BANK)).code == "file_too_large"

    def test_bytes_above_the_limit_are_refused(self) -> None:
        limits = ImportLimits(max_bytes=10)
        assert refusal(lambda: import_broker_file(b"x" * 11, HINTS, limits=limits)).code == "file_too_large"

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_or_device_or_directory_is_not_opened(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        for path in (pipe, tmp_path, Path("/dev/zero")):
            assert refusal(lambda path=path: import_broker_file(path, HINTS)).code == "not_a_file"  # type: ignore[misc]

    def test_a_missing_file_says_why(self, tmp_path: Path) -> None:
        exc = refusal(lambda: import_broker_file(tmp_path / "none.csv", HINTS))
        assert exc.code == "unreadable_file"
        assert "No such file" in exc.what

    def test_too_many_rows_are_refused(self) -> None:
        limits = ImportLimits(max_rows=1)
        assert refusal(lambda: import_broker_file(writers.webull(BOOK), HINTS, limits=limits)).code == "too_many_rows"
        assert refusal(lambda: import_broker_file(writers.flex_xml(BOOK), HINTS, limits=limits)).code == "too_many_rows"
        for data in BANK_FILES.values():
            exc = refusal(lambda data=data: import_bank_file(data, BANK, limits=limits))  # type: ignore[misc]
            assert exc.code == "too_many_rows"

    def test_too_many_pages_are_refused(self) -> None:
        data = pdf.document([pdf.lines_page(["x"])] * 3)
        assert (
            refusal(lambda: import_broker_pdf(data, HINTS, limits=ImportLimits(max_pages=2))).code == "too_many_pages"
        )

    def test_errors_are_listed_up_to_a_limit_and_counted_beyond(self) -> None:
        rows = [["Date", "Symbol", "Side", "Qty", "Price"], *[["x", "AAPL", "Buy", "1", "2"]] * 50]
        result = import_broker_file(writers.table(rows).encode(), HINTS, limits=ImportLimits(max_errors=3))
        assert (result.status, len(result.errors), result.error_rows) == (Status.FAILED, 3, 50)
        assert "more_errors" in {note.code for note in result.warnings}


class TestTime:
    @pytest.mark.parametrize("data", [writers.webull(BOOK), writers.flex_xml(BOOK)])
    def test_a_deadline_that_passed_refuses_the_file(self, data: bytes) -> None:
        assert refusal(lambda: import_broker_file(data, HINTS, expired=lambda: True)).code == "deadline_exceeded"

    def test_a_deadline_that_passes_midway_refuses_the_file(self) -> None:
        calls = iter([False] * 3 + [True] * 100)
        data = writers.webull(BOOK * 2000)
        exc = refusal(lambda: import_broker_file(data, HINTS, expired=lambda: next(calls)))
        assert exc.code == "deadline_exceeded"

    def test_banks_and_pdfs_keep_the_deadline_too(self) -> None:
        for data in BANK_FILES.values():
            exc = refusal(lambda data=data: import_bank_file(data, BANK, expired=lambda: True))  # type: ignore[misc]
            assert exc.code == "deadline_exceeded"
        data = pdf.document([pdf.lines_page(["x"])])
        assert refusal(lambda: import_broker_pdf(data, HINTS, expired=lambda: True)).code == "deadline_exceeded"

    @pytest.mark.parametrize("write", [writers.webull, writers.flex_xml])
    def test_progress_rises_to_the_total(self, write: Callable[[list[Fill]], bytes]) -> None:
        seen: list[tuple[int, int]] = []
        import_broker_file(write(BOOK * 1500), HINTS, progress=lambda done, total: seen.append((done, total)))
        assert len(seen) > 5
        assert seen[-1][0] == seen[-1][1] > 0
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert all(done <= total for done, total in seen)


class TestMarkup:
    BOMB = (
        b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">'
        b'<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><FlexQueryResponse><Trade symbol="&c;"/></FlexQueryResponse>'
    )

    def test_an_entity_bomb_is_refused(self) -> None:
        assert refusal(lambda: import_broker_file(self.BOMB, HINTS)).code == "unsafe_xml"
        camt = self.BOMB.replace(b"FlexQueryResponse", b"BkToCstmrStmt")
        assert refusal(lambda: import_bank_file(camt, BANK)).code == "unsafe_xml"

    @pytest.mark.parametrize("kind", ["SYSTEM", 'PUBLIC "x"'])
    def test_an_external_entity_is_refused_and_its_file_never_shown(self, kind: str, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("TOPSECRET")
        data = f'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x {kind} "file://{secret}">]><r><Trade symbol="A"/>&x;</r>'
        exc = refusal(lambda: import_broker_file(data.encode(), HINTS))
        assert exc.code == "unsafe_xml"
        assert "TOPSECRET" not in str(exc)

    def test_broken_tags_inside_one_ofx_transaction_spoil_it_alone(self) -> None:
        data = writers.ofx2(STATEMENT).replace(b"<FITID>F0</FITID>", b"</X></X></X>")
        result = import_bank_file(data, BANK)
        assert [(error.field, len(result.transactions)) for error in result.errors] == [("STMTTRN", 1)]

    def test_a_document_type_alone_is_refused(self) -> None:
        data = b'<!DOCTYPE FlexQueryResponse SYSTEM "http://127.0.0.1:9/x.dtd"><FlexQueryResponse/>'
        assert refusal(lambda: import_broker_file(data, HINTS)).code == "unsafe_xml"

    def test_ofx_with_entities_is_refused(self) -> None:
        data = writers.ofx2(STATEMENT).replace(b"<OFX>", b'<!DOCTYPE x [<!ENTITY a "b">]><OFX>', 1)
        assert refusal(lambda: import_bank_file(data, BANK)).code == "unsafe_xml"

    def test_ten_thousand_nested_elements_do_no_harm(self) -> None:
        deep = b"<FlexQueryResponse>" + b"<a>" * 10_000 + b"</a>" * 10_000 + b"</FlexQueryResponse>"
        assert import_broker_file(deep, HINTS).trades == ()
        clean(lambda: import_bank_file(b"OFXHEADER:100\n\n<OFX>" + b"<A>" * 10_000 + b"</OFX>", BANK))

    def test_transactions_that_are_never_closed_are_errors_in_linear_time(self) -> None:
        data = b"OFXHEADER:100\n\n<OFX><STMTRS>" + b"<STMTTRN>" * 100_000 + b"</STMTRS></OFX>"
        result = import_bank_file(data, BANK)
        assert (result.status, result.error_rows) == (Status.FAILED, 100_000)

    def test_unclosed_cdata_in_ofx_is_refused_in_linear_time(self) -> None:
        data = b"OFXHEADER:100\n\n<OFX>" + b"<NAME><![CDATA[" * 100_000 + b"</OFX>"
        assert refusal(lambda: import_bank_file(data, BANK)).code == "broken_ofx"

    def test_xml_of_another_kind_is_refused(self) -> None:
        assert refusal(lambda: import_broker_file(b"<html><body/></html>", HINTS)).code == "unknown_broker_format"

    def test_an_unknown_encoding_is_refused(self) -> None:
        for name in (b"nonsense", b"base64", b"utf-7", b"idna"):
            data = b'<?xml version="1.0" encoding="' + name + b'"?><FlexQueryResponse><Trade/></FlexQueryResponse>'
            clean(lambda data=data: import_broker_file(data, HINTS))  # type: ignore[misc]


class TestText:
    def test_nul_bytes_are_refused_with_their_place(self) -> None:
        data = writers.webull(BOOK)
        exc = refusal(lambda: import_broker_file(data[:50] + b"\x00" + data[50:], HINTS))
        assert (exc.code, exc.where) == ("binary_file", "character 51")

    def test_archives_and_workbooks_are_refused_unopened(self) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a.csv", b"0" * 10_000_000)
        for data in (packed.getvalue(), gzip.compress(b"0" * 10_000_000), b"\xd0\xcf\x11\xe0rest"):
            assert refusal(lambda data=data: import_broker_file(data, HINTS)).code == "not_text"  # type: ignore[misc]
            assert refusal(lambda data=data: import_bank_file(data, BANK)).code == "not_text"  # type: ignore[misc]

    def test_lines_in_two_encodings_are_each_read_as_what_they_are(self) -> None:
        head = "Date,Symbol,Side,Qty,Price,Notes\n"
        data = head.encode() + "2024-01-02,F,Buy,1,2,café\n".encode() + "2024-01-03,F,Buy,1,2,Zürich\n".encode("cp1252")
        result = import_broker_file(data, HINTS)
        assert [trade.notes for trade in result.trades] == ["café", "Zürich"]
        assert "mixed_encodings" in {note.code for note in result.warnings}

    def test_a_wrong_encoding_hint_is_refused(self) -> None:
        for encoding, code in (
            ("utf-8", "wrong_encoding"),
            ("klingon", "unknown_encoding"),
            ("base64", "unknown_encoding"),
        ):
            hints = BrokerHints(account_id="A1", encoding=encoding)
            data = "Date,Symbol\nü".encode("cp1252")
            assert refusal(lambda hints=hints, data=data: import_broker_file(data, hints)).code == code  # type: ignore[misc]

    @pytest.mark.parametrize(
        "cell", ["=cmd|' /C calc'!A0", "+SUM(A1)", "@SUM(A1)", "-2+3+cmd|x", '=HYPERLINK("http://x")']
    )
    def test_a_formula_is_kept_as_text_behind_an_apostrophe(self, cell: str) -> None:
        rows = [["Date", "Symbol", "Side", "Qty", "Price", "Notes"], ["2024-01-02", "F", "Buy", "1", "2", cell]]
        (trade,) = import_broker_file(writers.table(rows).encode(), HINTS).trades
        assert trade.notes.startswith("'" + cell[0])
        rows = [["Date", "Description", "Amount"], ["2024-01-02", cell, "-5.00"]]
        (line,) = import_bank_file(writers.table(rows).encode(), BANK).transactions
        assert line.description.startswith("'" + cell[0])

    def test_a_formula_in_place_of_a_symbol_or_number_is_a_row_error(self) -> None:
        rows = [
            ["Date", "Symbol", "Side", "Qty", "Price"],
            ["2024-01-02", "=1+1", "Buy", "1", "2"],
            ["2024-01-02", "F", "Buy", "=1+1", "2"],
            ["2024-01-02", "F", "Buy", "1", "2"],
        ]
        result = import_broker_file(writers.table(rows).encode(), HINTS)
        assert [(error.row_number, error.field) for error in result.errors] == [(2, "symbol"), (3, "quantity")]
        assert all(not error.raw_line.startswith("=") for error in result.errors)
        assert (result.status, len(result.trades)) == (Status.PARTIAL, 1)

    def test_text_cells_that_spreadsheets_wrap_in_a_formula_are_unwrapped(self) -> None:
        data = b'Date,Symbol,Side,Qty,Price\n2024-01-02,="AAPL",Buy,="10",="1.5"\n'
        (trade,) = import_broker_file(data, HINTS).trades
        assert (trade.symbol, trade.quantity, trade.price) == ("AAPL", Decimal(10), Decimal("1.5"))

    def test_a_last_row_that_was_cut_is_an_error_or_a_warning(self) -> None:
        head = "Date,Symbol,Side,Qty,Price\n2024-01-02,F,Buy,1,2\n"
        result = import_broker_file(f"{head}2024-01-03,F,Buy,1".encode(), HINTS)
        assert [(error.row_number, error.message) for error in result.errors] == [
            (3, "is cut short at the end of the file")
        ]
        result = import_broker_file(f"{head}2024-01-03,F,Buy,1,1".encode(), HINTS)
        assert "no_final_newline" in {note.code for note in result.warnings}
        result = import_broker_file(f"{head}2024-01-03,F,Buy,1,1\n".encode(), HINTS)
        assert "no_final_newline" not in {note.code for note in result.warnings}

    def test_an_unclosed_quote_spends_one_line_and_not_the_file(self) -> None:
        good = "2024-01-02,F,Buy,1,2\n"
        data = "Date,Symbol,Side,Qty,Price\n" + good + '2024-01-02,"F,Buy,1,2\n' + good * 30
        result = import_broker_file(data.encode(), HINTS)
        assert [(error.row_number, error.field) for error in result.errors] == [(3, "row")]
        assert len(result.trades) == 31

    def test_a_cell_of_a_megabyte_is_one_bad_row(self) -> None:
        data = 'Date,Symbol,Side,Qty,Price\n2024-01-02,"' + "A" * 1_000_000 + '",Buy,1,2\n2024-01-02,F,Buy,1,2\n'
        result = import_broker_file(data.encode(), HINTS)
        assert (len(result.trades), result.errors[0].row_number) == (1, 2)
        assert len(result.errors[0].raw_line) <= 200

    def test_a_line_of_ten_million_delimiters_is_refused_or_one_bad_row(self) -> None:
        assert refusal(lambda: import_broker_file(b"," * 10_000_000, HINTS)).code == "unknown_broker_format"
        assert refusal(lambda: import_bank_file(b";" * 10_000_000, BANK)).code == "unknown_bank_format"
        data = b"Date,Symbol,Side,Qty,Price\n" + b"," * 10_000_000 + b"\n2024-01-02,F,Buy,1,2\n"
        result = import_broker_file(data, HINTS)
        assert [(error.row_number, error.message) for error in result.errors] == [(2, "is too long")]
        assert len(result.trades) == 1

    def test_brackets_and_quotes_without_end_take_no_time(self) -> None:
        for data in (b"(" * 60_000 + b",b,c,d\n", b'"a\n' * 20_000, b"Date,Symbol,Side,Qty,Price\n" + b'"a\n' * 3000):
            clean(lambda data=data: import_broker_file(data, HINTS))  # type: ignore[misc]
            clean(lambda data=data: import_bank_file(data, BANK))  # type: ignore[misc]

    def test_control_and_direction_marks_do_not_reach_the_journal(self) -> None:
        data = "Date,Symbol,Side,Qty,Price,Notes\n2024-01-02,F,Buy,1,2,a\x07b\u202ec\n".encode()
        (trade,) = import_broker_file(data, HINTS).trades
        assert trade.notes == "a b c"


class TestHints:
    @pytest.mark.parametrize("delimiter", ["ab", '"', "\n", "a", "7"])
    def test_a_delimiter_that_cannot_be_one_is_refused(self, delimiter: str) -> None:
        data = writers.webull(BOOK)
        hints = BrokerHints(account_id="A1", delimiter=delimiter)
        assert refusal(lambda: import_broker_file(data, hints)).code == "unknown_delimiter"
        bank = BankHints(account_id="C1", delimiter=delimiter)
        assert refusal(lambda: import_bank_file(data, bank)).code == "unknown_delimiter"

    def test_a_decimal_mark_that_cannot_be_one_is_refused(self) -> None:
        hints = BrokerHints(account_id="A1", decimal="x")
        assert refusal(lambda: import_broker_file(writers.webull(BOOK), hints)).code == "unknown_decimal"
        assert refusal(lambda: import_broker_pdf(b"%PDF-1.4", hints)).code == "unknown_decimal"

    def test_a_delimiter_and_a_mark_that_are_given_are_followed(self) -> None:
        data = writers.generic(BOOK, "~", ",")
        result = import_broker_file(data, BrokerHints(account_id="A1", delimiter="~", decimal=","))
        assert [trade.price for trade in result.trades] == [Decimal("172.5"), Decimal("3.25")]


def endless_pdf() -> bytes:
    """A PDF whose tree of pages refers to itself: its parser never ends."""
    data = pdf.document([pdf.lines_page(["x"])])
    start, end = data.index(b"<< /Type /Pages"), data.index(b"endobj\n3 0 obj")
    return data[:start] + b"2 0 R".ljust(end - start - 1) + b"\n" + data[end:]


class TestPdf:
    def test_a_stream_that_unpacks_to_a_hundred_megabytes_is_refused(self) -> None:
        assert refusal(lambda: import_broker_pdf(pdf.document([b" " * 100_000_000]), HINTS)).code == "unsafe_pdf"

    def test_a_stream_packed_twice_is_refused(self) -> None:
        data = pdf.document([zlib.compress(b" " * 10_000_000)], filters="[/FlateDecode /FlateDecode]")
        assert refusal(lambda: import_broker_pdf(data, HINTS)).code == "unsafe_pdf"

    def test_a_bomb_behind_ascii_armour_is_refused(self) -> None:
        body = base64.a85encode(zlib.compress(b" " * 50_000_000)) + b"~>"
        data = pdf.document([b"x"]).replace(b"/Filter /FlateDecode", b"/Filter [/ASCII85Decode /FlateDecode]")
        start = data.index(b"stream\n") + 7
        data = data[:start] + body + data[data.index(b"\nendstream") :]
        assert refusal(lambda: import_broker_pdf(data, HINTS)).code == "unsafe_pdf"

    @pytest.mark.parametrize("filters", ["/LZWDecode", "/RunLengthDecode", "7 0 R", "/Flate#44ecode"])
    def test_packing_that_cannot_be_bounded_is_refused(self, filters: str) -> None:
        assert refusal(lambda: import_broker_pdf(pdf.document([b"x"], filters=filters), HINTS)).code == "unsafe_pdf"

    def test_a_pdf_that_refers_to_itself_for_ever_is_stopped(self) -> None:
        exc = refusal(lambda: import_broker_pdf(endless_pdf(), HINTS, limits=ImportLimits(max_page_seconds=1)))
        assert (exc.code, exc.what) == ("unsafe_pdf", "The PDF takes far longer to read than a statement does.")
        checks = iter([False] * 5)
        exc = refusal(lambda: import_broker_pdf(endless_pdf(), HINTS, expired=lambda: next(checks, True)))
        assert exc.code == "deadline_exceeded"

    # short of the parser, of one of its libraries, in it, and late in it
    @pytest.mark.parametrize("megabytes", [60, 105, 110, 115, 140, 160, 200])
    def test_a_pdf_that_would_fill_the_memory_is_stopped(self, megabytes: int) -> None:
        page = b"BT /F1 8 Tf " + b"(xxxxxxxxxxxxxxxx) Tj " * 100_000 + b"ET"
        limits = ImportLimits(max_pdf_memory=megabytes << 20)
        exc = refusal(lambda: import_broker_pdf(pdf.document([page]), HINTS, limits=limits))
        assert (exc.code, exc.what) == ("unsafe_pdf", "The PDF takes far more memory to read than a statement does.")

    def test_a_parser_does_not_outlive_the_process_that_started_it(self) -> None:
        program = (
            "from tests.embedded.imports.test_hostile import HINTS, endless_pdf, import_broker_pdf\n"
            "import_broker_pdf(endless_pdf(), HINTS)"
        )
        with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as process:
            parent = psutil.Process(process.pid)
            while not (children := parent.children()):
                assert process.poll() is None
                os.sched_yield()
            process.kill()
        assert psutil.wait_procs(children, timeout=30)[1] == []

    def test_an_encrypted_pdf_is_refused_as_such(self) -> None:
        data = pdf.document([pdf.lines_page(["x"])], trailer="/Encrypt 9 0 R")
        assert refusal(lambda: import_broker_pdf(data, HINTS)).code == "encrypted_pdf"

    def test_a_pdf_given_to_the_wrong_importer_is_sent_to_the_right_one(self) -> None:
        data = pdf.document([pdf.lines_page(["x"])])
        assert "import_broker_pdf" in refusal(lambda: import_broker_file(data, HINTS)).next
        assert refusal(lambda: import_bank_file(data, BANK)).code == "is_pdf"
        assert refusal(lambda: import_broker_pdf(b"Date,Symbol\n", HINTS)).code == "not_a_pdf"
