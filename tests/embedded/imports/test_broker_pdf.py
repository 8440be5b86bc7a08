"""Trades in text PDFs."""

from __future__ import annotations

from decimal import Decimal as D

import pytest

from tests.embedded.imports import pdf
from zorivest_rpc.embedded.imports.broker_pdf import import_broker_pdf
from zorivest_rpc.embedded.imports.drafts import BrokerHints, ImportRefused, Status

HINTS = BrokerHints(account_id="A1")
HEADER = ["Trade Date", "Symbol", "Action", "Quantity", "Price", "Commission"]


def test_tables_are_read_page_by_page_with_and_without_a_repeated_header() -> None:
    data = pdf.document(
        [
            pdf.table_page([HEADER, ["01/15/2024", "AAPL", "Buy", "1,000", "$1,185.50", "1.00"]], "Trades"),
            pdf.table_page([HEADER, ["01/16/2024", "AAPL", "Sell", "(500)", "1,186.25", "1.00"]]),
            pdf.table_page([["01/17/2024", "AAPL 260320 C 200", "Sell", "1", "5.50", "0.65"]]),
        ]
    )
    result = import_broker_pdf(data, HINTS)
    assert (result.status, result.detected_format, result.confidence) == (Status.SUCCESS, "pdf_table", 0.9)
    assert [(trade.symbol, trade.side.value, trade.quantity, trade.price) for trade in result.trades] == [
        ("AAPL", "BOT", D(1000), D("1185.50")),
        ("AAPL", "SLD", D(500), D("1186.25")),
        ("AAPL 260320 C 200", "SLD", D(1), D("5.50")),
    ]


def test_a_missing_price_is_an_error_and_lowers_the_confidence() -> None:
    rows = [HEADER, ["01/15/2024", "AAPL", "Buy", "10", "", "1"], ["01/16/2024", "AAPL", "Buy", "10", "5", "1"]]
    result = import_broker_pdf(pdf.document([pdf.table_page(rows)]), HINTS)
    assert (result.status, result.confidence, len(result.trades)) == (Status.PARTIAL, 0.45, 1)
    (error,) = result.errors
    assert (error.field, error.message) == ("price", "is missing")
    assert error.raw_line.startswith("page 1: 01/15/2024")


def test_numbers_with_decimal_commas_are_read() -> None:
    rows = [["Datum", "Ticker", "Side", "Qty", "Preis"], ["15.01.2024", "SAP", "Buy", "1.000", "1.234,56"]]
    result = import_broker_pdf(pdf.document([pdf.table_page(rows)]), HINTS)
    assert (result.trades[0].quantity, result.trades[0].price) == (D(1000), D("1234.56"))


def test_lines_of_text_are_read_where_there_is_no_table() -> None:
    lines = [
        "Monthly statement of account 1",
        "01/15/2024 AAPL Buy 100 185.50 18,550.00",
        "01/16/2024 10:30:00 Sold MSFT 5 $400.00 $2,000.00",
        "01/17/2024 Dividend AAPL 24.00",
    ]
    result = import_broker_pdf(pdf.document([pdf.lines_page(lines)]), HINTS)
    assert (result.detected_format, result.confidence) == ("pdf_lines", 0.6)
    assert [(trade.symbol, trade.side.value, trade.quantity, trade.price) for trade in result.trades] == [
        ("AAPL", "BOT", D(100), D("185.50")),
        ("MSFT", "SLD", D(5), D("400.00")),
    ]
    assert [trade.time_known for trade in result.trades] == [False, True]


def test_a_hint_names_the_broker() -> None:
    data = pdf.document([pdf.lines_page(["01/15/2024 AAPL Buy 100 185.50"])])
    result = import_broker_pdf(data, BrokerHints(account_id="A1", broker="schwab"))
    assert (result.broker, result.detected_by) == ("schwab", "hint")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (pdf.document([b"0 0 m 10 10 l S"]), "no_extractable_text"),
        (pdf.document([pdf.lines_page(["Dear customer"])]), "no_trades_found"),
        (b"%PDF-1.7\nnothing", "broken_pdf"),
    ],
)
def test_what_holds_no_trades_is_refused_with_the_reason(data: bytes, code: str) -> None:
    with pytest.raises(ImportRefused) as caught:
        import_broker_pdf(data, HINTS)
    assert caught.value.code == code
