"""Broker statements as text PDFs: ruled tables page by page, else one trade per line of text.

Prices are never derived: a row without one is an error. Scanned pages have no text and are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from zorivest_rpc.embedded.imports.broker import base_reading, settle, settle_times
from zorivest_rpc.embedded.imports.collect import FileLayout, TradeCollector
from zorivest_rpc.embedded.imports.detect import NEEDED, broker_of
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, ImportLimits, ImportRefused
from zorivest_rpc.embedded.imports.flat import read_flat
from zorivest_rpc.embedded.imports.layouts import GENERIC
from zorivest_rpc.embedded.imports.pdf_pages import PdfPage, extract_pages, refuse_encrypted
from zorivest_rpc.embedded.imports.pdf_safety import check_streams, is_encrypted
from zorivest_rpc.embedded.imports.rows import Columns, Row
from zorivest_rpc.embedded.imports.sides import Signs
from zorivest_rpc.embedded.imports.source import Budget, check_dialect, read_source, sha256

__all__ = ["import_broker_pdf"]

TABLE_TRUST = 0.9
LINE_TRUST = 0.6

_DAY = (
    r"(?P<date>\d{4}-\d\d-\d\d|\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}|\d{1,2} [A-Za-z]{3} \d{2,4}|[A-Za-z]{3} \d{1,2},? \d{4})"
)
_CLOCK = r"(?:,? (?P<time>\d{1,2}:\d\d(?::\d\d)?(?: ?[AaPp][Mm])?))?"
_SYMBOL = r"(?P<symbol>[A-Z][A-Z0-9./]{0,9}(?: \d{6} [CP] [\d.]+)?|[A-Z]{1,6} ?\d{6}[CP]\d{8})"
_SIDE = (
    r"(?P<side>(?i:buy|sell|bought|sold|bot|sld|you bought|you sold|sell short|buy to (?:open|close|cover)|"
    r"sell to (?:open|close)))"
)
_NUMBERS = r"(?P<quantity>[(+-]?[\d.,]+\)?)\s+[$€£]?(?P<price>[\d.,]+)(?:\s+[($€£+-]*(?P<amount>[\d.,]+)\)?)?"
_LINES = (
    re.compile(rf"\s*{_DAY}{_CLOCK}\s+{_SYMBOL}\s+{_SIDE}\s+{_NUMBERS}(?:\s.*)?"),
    re.compile(rf"\s*{_DAY}{_CLOCK}\s+{_SIDE}\s+{_SYMBOL}\s+{_NUMBERS}(?:\s.*)?"),
)
_LINE_HEADERS = ("date", "time", "symbol", "side", "quantity", "price")


def import_broker_pdf(
    source: bytes | os.PathLike[str],
    hints: BrokerHints,
    *,
    limits: ImportLimits | None = None,
    expired: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> BrokerImport:
    """Read the trades of a text PDF. Raises `ImportRefused` when nothing of the file can be used."""
    limits = limits or ImportLimits()
    budget = Budget(limits, expired, progress)
    broker = broker_of(hints.broker) or "generic"
    check_dialect(None, hints.decimal)
    data = read_source(source, limits)
    if b"%PDF-" not in data[:1024]:
        raise ImportRefused("not_a_pdf", "The file is no PDF.", next="Use import_broker_csv for CSV and XML files.")
    if is_encrypted(data):
        raise refuse_encrypted()
    check_streams(data, budget)
    pages = extract_pages(data, budget)
    if not any(page.text.strip() for page in pages):
        raise ImportRefused(
            "no_extractable_text",
            "The PDF holds pictures of text, not text.",
            next="Download the statement as a text PDF or as CSV; scans are not read.",
        )
    into = TradeCollector(hints, limits)
    layout, trust = "pdf_table", TABLE_TRUST
    if not _read_tables(pages, broker, budget, into):
        layout, trust = "pdf_lines", LINE_TRUST
        _read_lines(pages, broker, budget, into)
    if not into.parsed and not into.refused:
        raise ImportRefused(
            "no_trades_found",
            "No table and no line of the PDF looks like a trade.",
            where=f"{len(pages)} pages",
            next="Export the trades as CSV and use import_broker_csv.",
        )
    budget.finish()
    share = into.parsed / (into.parsed + into.refused)
    by = "hint" if broker != "generic" else "generic"
    return into.finish(
        FileLayout(broker=broker, layout=layout, detected_by=by),
        data_sha256=sha256(data),
        size=len(data),
        encoding="pdf",
        confidence=round(trust * share, 2),
    )


def _read_tables(pages: list[PdfPage], broker: str, budget: Budget, into: TradeCollector) -> bool:
    """Rows under a header that names symbol, quantity, price and day; a table going on without one keeps the last."""
    columns: Columns | None = None
    number = 0
    groups: list[tuple[Columns, list[Row]]] = []
    for page in pages:
        for table in page.tables:
            for cells in table:
                number += 1
                budget.count()
                if found := _header(cells):
                    if columns is None or found.headers != columns.headers:
                        columns = found
                        groups.append((found, []))
                elif columns is not None and len(cells) == len(columns.headers):
                    groups[-1][1].append(Row(number, cells, f"page {page.number}: {' | '.join(cells)}"))
    for found, rows in groups:
        sample = [row.cells for row in rows]
        settled = settle_times(found, sample)
        hints = into.hints
        reading = settle(base_reading(hints), settled, sample, day_first=hints.day_first, layout="generic", into=into)
        read_flat(
            rows, settled, GENERIC, reading, broker=broker, into=into, signs=Signs.of(sample, settled, reading.mark)
        )
    return bool(into.parsed or into.refused)


def _header(cells: list[str]) -> Columns | None:
    columns = Columns.match(cells, GENERIC.columns)
    if "date" not in columns.roles and "datetime" not in columns.roles and "time" in columns.roles:
        columns.roles["datetime"] = columns.roles.pop("time")
    enough = all(any(role in columns.roles for role in roles) for roles in NEEDED.values())
    return columns if enough else None


def _read_lines(pages: list[PdfPage], broker: str, budget: Budget, into: TradeCollector) -> None:
    rows: list[Row] = []
    number = 0
    for page in pages:
        for line in page.text.splitlines():
            number += 1
            if len(line) > 400:
                continue
            budget.count()
            if match := next((found for pattern in _LINES if (found := pattern.fullmatch(line))), None):
                cells = [match[name] or "" for name in _LINE_HEADERS]
                rows.append(Row(number, cells, f"page {page.number}: {line}"))
    columns = Columns.match(_LINE_HEADERS, GENERIC.columns)
    sample = [row.cells for row in rows]
    hints = into.hints
    reading = settle(base_reading(hints), columns, sample, day_first=hints.day_first, layout="generic", into=into)
    read_flat(rows, columns, GENERIC, reading, broker=broker, into=into, signs=Signs.of(sample, columns, reading.mark))
