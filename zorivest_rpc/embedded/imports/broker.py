"""A broker's file in, drafts out: size, encoding, layout, rows, result."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Sequence

import msgspec

from zorivest_rpc.embedded.imports import ibkr_activity, ibkr_flex, ninjatrader, thinkorswim, tradovate
from zorivest_rpc.embedded.imports.collect import FileLayout, TradeCollector
from zorivest_rpc.embedded.imports.detect import Detection, broker_of, detect_broker, is_xml
from zorivest_rpc.embedded.imports.drafts import BrokerHints, BrokerImport, ImportLimits, ImportRefused
from zorivest_rpc.embedded.imports.flat import read_flat
from zorivest_rpc.embedded.imports.rows import Columns, Reading, read_rows, split_line
from zorivest_rpc.embedded.imports.sides import Signs
from zorivest_rpc.embedded.imports.source import Budget, Text, lines_of, open_text, sha256
from zorivest_rpc.embedded.imports.values import (
    BadValue,
    decimal_mark,
    is_day_first,
    parse_date,
    parse_moment,
    plain_text,
    zone,
)

__all__ = ["base_reading", "import_broker_file", "settle", "settle_times"]

SAMPLE = 5000
_COST = re.compile(r"fee|commission|charge|\btax(?:es)?\b", re.IGNORECASE)
NUMBER_ROLES = (
    "quantity",
    "price",
    "commission",
    "fee",
    "average",
    "entry_price",
    "exit_price",
    "profit",
    "buy_price",
    "sell_price",
)
DAY_ROLES = ("date", "datetime", "entry_time", "exit_time", "bought", "sold")


def import_broker_file(
    source: bytes | os.PathLike[str],
    hints: BrokerHints,
    *,
    limits: ImportLimits | None = None,
    expired: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> BrokerImport:
    """Read a broker's CSV or Flex XML. Raises `ImportRefused` when nothing of the file can be used."""
    limits = limits or ImportLimits()
    budget = Budget(limits, expired, progress)
    into = TradeCollector(hints, limits)
    data, text = open_text(source, hints, budget, into, instead_of_pdf="Use import_broker_pdf for it.")
    found = _read(data, text, hints, budget, into)
    budget.finish()
    return into.finish(found, data_sha256=sha256(data), size=len(data), encoding=text.encoding)


def _read(data: bytes, text: Text, hints: BrokerHints, budget: Budget, into: TradeCollector) -> FileLayout:
    reading = base_reading(hints)
    if is_xml(text.value):
        wanted = broker_of(hints.broker)
        if wanted not in (None, "ibkr"):
            into.warn("hint_ignored", f"The file is XML, which only ibkr exports; the hint {wanted} was not followed.")
        ibkr_flex.read_flex(data, reading, budget, into)
        by = "hint" if wanted == "ibkr" else "header"
        return FileLayout(broker="ibkr", layout="ibkr_flex_xml", detected_by=by)
    lines = lines_of(text.value)
    if lines[-1].strip():
        into.warn("no_final_newline", "The last line has no line end; check it if the file may have been cut short.")
    detection = detect_broker(lines, hints)
    if detection.kind == "ibkr_activity":
        ibkr_activity.read_activity(lines, reading, budget, into)
    elif detection.kind == "thinkorswim":
        thinkorswim.read_thinkorswim(lines, detection.header, detection.delimiter, reading, budget=budget, into=into)
    else:
        _read_table(lines, detection, hints, budget, into)
    return FileLayout(broker=detection.broker, layout=detection.name, detected_by=detection.detected_by)


def base_reading(hints: BrokerHints) -> Reading:
    try:
        where = zone(hints.timezone)
    except BadValue as exc:
        raise ImportRefused("unknown_timezone", str(exc), next="Use a name such as America/New_York.") from None
    return Reading(zone=where, currency=hints.currency, mark=hints.decimal, day_first=bool(hints.day_first))


def _read_table(
    lines: Sequence[str], detection: Detection, hints: BrokerHints, budget: Budget, into: TradeCollector
) -> None:
    columns = detection.columns
    assert columns is not None
    sample = [
        split_line(line, detection.delimiter)
        for line in lines[detection.header + 1 : detection.header + 1 + SAMPLE]
        if line.strip()
    ]
    if detection.name == "generic":
        columns = settle_times(columns, sample)
    reading = settle(base_reading(hints), columns, sample, day_first=hints.day_first, layout=detection.name, into=into)
    _tell_fee_columns(columns, into)
    rows = read_rows(lines, detection.delimiter, budget, detection.header + 1)
    if detection.kind == "ninjatrader":
        ninjatrader.read_ninjatrader(rows, columns, reading, into)
    elif detection.kind == "tradovate":
        tradovate.read_tradovate(rows, columns, reading, into)
    else:
        assert detection.layout is not None
        into.newest_first = None if detection.name == "generic" else detection.layout.newest_first
        signs = Signs.of(sample, columns, reading.mark)
        if detection.layout.signed_quantity:
            signs = msgspec.structs.replace(signs, quantity=True)
        read_flat(rows, columns, detection.layout, reading, broker=detection.broker, into=into, signs=signs)


def _tell_fee_columns(columns: Columns, into: TradeCollector) -> None:
    """A column that looks like a cost and is not read must not go unnoticed: every profit would be too high."""
    read = set(columns.roles.values())
    names = [name for at, name in enumerate(columns.headers) if at not in read and _COST.search(name)]
    if names:
        shown = ", ".join(plain_text(name, 40) for name in names[:5])
        into.warn("fee_columns_ignored", f"Columns that look like costs were not read: {shown}.")


def _cells(sample: Sequence[Sequence[str]], columns: Columns, roles: Sequence[str]) -> list[str]:
    places = [columns.roles[role] for role in roles if role in columns.roles]
    return [row[place] for row in sample for place in places if place < len(row)]


def settle(
    reading: Reading,
    columns: Columns,
    sample: Sequence[Sequence[str]],
    *,
    day_first: bool | None,
    layout: str,
    into: TradeCollector,
) -> Reading:
    """Decimal mark and day order for the whole table; brokers with a fixed layout write the month first."""
    mark = reading.mark or decimal_mark(_cells(sample, columns, NUMBER_ROLES))
    if day_first is None and layout in ("generic", "ninjatrader", "tradovate"):
        days = _cells(sample, columns, DAY_ROLES)
        day_first = is_day_first(days)
        if day_first is None and layout == "generic" and any(_is_ambiguous(cell) for cell in days):
            into.warn("ambiguous_dates", "Days and months cannot be told apart; the month was read first.")
    return msgspec.structs.replace(reading, mark=mark, day_first=bool(day_first))


def _is_ambiguous(cell: str) -> bool:
    head = cell.strip().split(" ")[0].split(",")[0]
    try:
        return parse_date(head, True) != parse_date(head, False)
    except BadValue:
        return False


def settle_times(columns: Columns, sample: Sequence[Sequence[str]]) -> Columns:
    """Where a table has a day and a "time" that could be either, the cells decide whether the time holds a day too."""
    roles = dict(columns.roles)
    if "date" in roles and "datetime" in roles:
        cells = [cell for cell in _cells(sample[:20], columns, ("datetime",)) if cell]
        if not any(_has_day(cell) for cell in cells):
            roles["time"] = roles.pop("datetime")
        else:
            del roles["date"]
    return Columns(columns.headers, roles)


def _has_day(cell: str) -> bool:
    try:
        parse_moment(cell, dt.UTC)
    except BadValue:
        return False
    return True
