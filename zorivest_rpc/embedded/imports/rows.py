"""Delimited text as numbered rows, and one row read by the roles of its columns.

A broken row is one broken row: an unclosed quote spends the line it stands on, never the rest of the file.
"""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.values import BadValue, parse_date, parse_decimal, parse_moment, plain_text
from zorivest_rpc.embedded.values.futures import contract_of, parse_fraction
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = [
    "Columns",
    "Reading",
    "Record",
    "Row",
    "RowRefused",
    "read_rows",
    "render_line",
    "split_line",
    "squash",
    "usable",
]

DELIMITERS = (",", ";", "\t", "|")
MAX_LINES_PER_ROW = 20
MAX_LINE = 64 * 1024
BLANKS = frozenset({"", "-", "--", "---", "n/a", "na", "nan", "null", "none", "...", "—"})


class RowRefused(ValueError):
    """One row that cannot be used, by the field that spoils it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field} {message}")
        self.field = field
        self.message = message


class Row(msgspec.Struct, frozen=True, gc=False):
    """One record: the line it begins on, its cells, and its text for messages.

    `broken` says why it is unusable; `ends_file` that the file ended without ending its line."""

    number: int
    cells: list[str]
    raw: str
    broken: str = ""
    ends_file: bool = False

    @property
    def is_blank(self) -> bool:
        return not any(self.cells)


def squash(header: str) -> str:
    """A header for comparison: lower case letters, digits and `# / &`, without what stands in brackets."""
    return re.sub(r"[^\w#/&]|_", "", re.sub(r"\([^)]*\)", "", header[:200].lower()))


def render_line(raw: str) -> str:
    """A raw line as an error message may show it."""
    return plain_text(raw, 200)


def _clean(cell: str) -> str:
    cell = cell.replace("\u00a0", " ").strip()
    if cell.startswith('="') and cell.endswith('"') and len(cell) >= 3:  # a text cell as spreadsheets export it
        cell = cell[2:-1].strip()
    return cell


def split_line(line: str, delimiter: str) -> list[str]:
    """The cells of one line that stands alone, such as a candidate for the header."""
    if len(line) > MAX_LINE:
        return []
    if '"' not in line:
        return [_clean(cell) for cell in line.split(delimiter)]
    try:
        return [_clean(cell) for cell in next(csv.reader([line], delimiter=delimiter), [])]
    except csv.Error:
        return []


def read_rows(
    lines: Sequence[str], delimiter: str, budget: Budget, first: int = 0, end: int | None = None
) -> Iterator[Row]:
    """The rows from line index `first` up to `end`; row numbers are line numbers of the file."""
    at, total = first, len(lines)
    end = total if end is None else end
    while at < end:
        line = lines[at]
        if not line.strip():
            at += 1
            continue
        budget.row(at, total)
        if len(line) > MAX_LINE:
            yield Row(at + 1, [], line[:1000], "is too long")
            at += 1
            continue
        if '"' not in line:
            yield Row(at + 1, [_clean(cell) for cell in line.split(delimiter)], line, "", at + 1 == total)
            at += 1
            continue
        used, row = _read_quoted(lines, at, delimiter)
        yield row
        at += used


def _read_quoted(lines: Sequence[str], at: int, delimiter: str) -> tuple[int, Row]:
    text = ""
    for used in range(1, MAX_LINES_PER_ROW + 1):
        if at + used > len(lines):
            break
        text = f"{text}\n{lines[at + used - 1]}" if text else lines[at]
        if len(text) > MAX_LINE:
            break
        try:
            cells = next(csv.reader([text], delimiter=delimiter, strict=True))
            return used, Row(at + 1, [_clean(cell) for cell in cells], text, "", at + used == len(lines))
        except csv.Error as exc:
            if "unexpected end" in str(exc):
                continue
            if "field larger" in str(exc):
                return 1, Row(at + 1, [], lines[at], "has a cell that is too long")
            cells = next(csv.reader([lines[at]], delimiter=delimiter), [])
            return 1, Row(at + 1, [_clean(cell) for cell in cells], lines[at])
    return 1, Row(at + 1, [], lines[at], "has a quotation mark that is never closed")


def usable(rows: Iterable[Row], columns: Columns, refuse: Callable[[Row, str, str], None]) -> Iterator[Row]:
    """The rows of a table without blank ones, repeated headers, broken ones and a last one that was cut short."""
    for row in rows:
        if row.broken:
            refuse(row, "row", row.broken)
        elif row.is_blank or columns.repeats(row):
            continue
        elif row.ends_file and len(row.cells) < len(columns.headers):
            refuse(row, "row", "is cut short at the end of the file")
        else:
            yield row


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How the values of one file are to be read."""

    zone: dt.tzinfo
    currency: str
    mark: str | None = None
    day_first: bool = False


class Columns(msgspec.Struct, frozen=True):
    """A header and which of its columns plays which role."""

    headers: tuple[str, ...]
    roles: dict[str, int]

    @classmethod
    def match(cls, headers: Sequence[str], wanted: Mapping[str, str]) -> Columns:
        """Roles filled from alternatives such as `qty|quantity`; an earlier role takes a column before a later one."""
        squashed = [squash(header) for header in headers]
        roles: dict[str, int] = {}
        taken: set[int] = set()
        for role, names in wanted.items():
            for name in names.split("|"):
                place = next((i for i, header in enumerate(squashed) if header == name and i not in taken), None)
                if place is not None:
                    roles[role] = place
                    taken.add(place)
                    break
        return cls(tuple(headers), roles)

    def repeats(self, row: Row) -> bool:
        """Whether a row is the header again."""
        return tuple(row.cells[: len(self.headers)]) == self.headers


class Record:
    """One row, read by role; every reader raises `RowRefused` naming the role."""

    def __init__(self, row: Row, columns: Columns, reading: Reading) -> None:
        self.row = row
        self.columns = columns
        self.reading = reading

    def text(self, role: str) -> str:
        place = self.columns.roles.get(role)
        return self.row.cells[place] if place is not None and place < len(self.row.cells) else ""

    def require(self, role: str) -> str:
        value = self.text(role)
        if value.lower() in BLANKS:
            raise RowRefused(role, "is missing")
        return value

    def decimal(self, role: str) -> Decimal | None:
        value = self.text(role)
        if value.lower() in BLANKS:
            return None
        try:
            return parse_decimal(value, self.reading.mark)
        except BadValue as exc:
            raise RowRefused(role, str(exc)) from None

    def require_decimal(self, role: str) -> Decimal:
        self.require(role)
        value = self.decimal(role)
        assert value is not None
        return value

    def price(self, role: str, symbol: Instrument) -> Decimal:
        """What one unit of a symbol traded at, never below zero but for a future."""
        value = self._fraction(role, symbol)
        if value is None:
            value = self.require_decimal(role)
        if value < 0 and symbol.asset_class is not AssetClass.FUTURE:  # CL traded at -37.63 on 2020-04-20
            raise RowRefused(role, "is negative, which only a future's can be")
        return value

    def _fraction(self, role: str, symbol: Instrument) -> Decimal | None:
        """Bonds and grains quoted as 110'165 or 450'2; the apostrophe would otherwise pass for a thousands mark."""
        contract = contract_of(symbol.underlying) if symbol.asset_class is AssetClass.FUTURE else None
        if contract is None:
            return None
        try:
            return parse_fraction(self.require(role), contract.fraction)
        except ValueError as exc:
            raise RowRefused(role, str(exc)) from None

    def date(self, role: str) -> dt.date | None:
        value = self.text(role)
        if value.lower() in BLANKS:
            return None
        try:
            return parse_date(value, self.reading.day_first)
        except BadValue as exc:
            raise RowRefused(role, str(exc)) from None

    def moment(self) -> tuple[dt.datetime, bool]:
        """When it happened, from one column or from a day and a time."""
        if value := self.text("datetime"):
            role = "datetime"
        else:
            role, value = "date", self.require("date")
            if " as of " in value.lower():  # the day it counts for, not the day it was booked
                value = value.lower().split(" as of ")[-1]
            clock = self.text("time")
            if clock.lower() not in BLANKS:
                value = f"{value} {clock}"
        return self._moment(role, value)

    def moment_of(self, role: str) -> dt.datetime:
        return self._moment(role, self.require(role))[0]

    def _moment(self, role: str, value: str) -> tuple[dt.datetime, bool]:
        try:
            return parse_moment(value, self.reading.zone, self.reading.day_first)
        except (BadValue, OverflowError) as exc:
            raise RowRefused(role, str(exc)) from None
