"""A CSV of exchange rates: the European Central Bank's layout, or one rate a row.

The bank writes `Date,USD,JPY,...` and for each day how many of each currency one euro cost; `N/A` stands for a day
without that one. A file of one's own has the columns `date`, `base`, `quote` and `rate` (or `from` and `to`): one unit
of the base cost `rate` units of the quote."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.drafts import ImportLimits, ImportRefused, RateDraft, RowError
from zorivest_rpc.embedded.imports.rows import split_line
from zorivest_rpc.embedded.imports.source import decode, lines_of, read_source
from zorivest_rpc.embedded.imports.values import BadValue, parse_date, parse_decimal

__all__ = ["RatesImport", "is_rates_file", "read_rates"]

_EURO = "EUR"
_HEAD = 8192
_BLANK = frozenset({"", "n/a", "na", "-"})
_LARGEST = Decimal(10**9)
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
           "november", "december")  # fmt: skip
_BASES, _QUOTES = ("base", "from"), ("quote", "to")


class RatesImport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a file of rates said. `total_rows` = parsed + skipped + refused rows."""

    layout: str
    rates: tuple[RateDraft, ...]
    errors: tuple[RowError, ...]
    total_rows: int
    error_rows: int


def is_rates_file(data: bytes) -> bool:
    """Whether the first line is the header of a table of rates."""
    head = data[:_HEAD].decode("utf-8-sig", "replace").lstrip()
    return _layout(_cells(head.splitlines()[0])) is not None if head else False


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in split_line(line, ",")]


def _layout(header: Sequence[str]) -> str | None:
    names = [name for name in header if name]
    if len(names) < 2 or names[0].lower() != "date":
        return None
    if all(_is_code(name) for name in names[1:]):
        return "ecb_rates"
    known = {name.lower() for name in names}
    is_own = "rate" in known and known & set(_BASES) and known & set(_QUOTES)
    return "rates" if is_own else None


def _is_code(name: str) -> bool:
    return len(name) == 3 and name.isascii() and name.isalpha() and name.isupper()


def read_rates(data: bytes, limits: ImportLimits | None = None) -> RatesImport:
    """All rates of a file; a cell or row that is none is refused beside the others."""
    limits = limits or ImportLimits()
    lines = [line for line in lines_of(decode(read_source(data, limits)).value) if line.strip()]
    header = _cells(lines[0]) if lines else []
    layout = _layout(header)
    if layout is None:
        raise ImportRefused("unknown_rates_format", "The file is no table of exchange rates.", headers=tuple(header))
    rates: list[RateDraft] = []
    errors: list[RowError] = []
    refused = 0
    for number, line in enumerate(lines[1:], 2):
        if number > limits.max_rows:
            raise ImportRefused("too_many_rows", f"The file has more than {limits.max_rows} rows.")
        try:
            rates += _ecb(header, _cells(line)) if layout == "ecb_rates" else _own(header, _cells(line))
        except BadValue as exc:
            refused += 1
            if len(errors) < limits.max_errors:
                errors.append(RowError(row_number=number, field="rate", message=str(exc), raw_line=line[:200]))
    return RatesImport(
        layout=layout,
        rates=tuple(rates),
        errors=tuple(errors),
        total_rows=len(lines) - 1,
        error_rows=refused,
    )


def _ecb(header: Sequence[str], cells: Sequence[str]) -> Iterator[RateDraft]:
    day = _day(cells[0])
    found = []
    for code, cell in zip(header[1:], cells[1:], strict=False):
        if code and cell.lower() not in _BLANK:
            found.append(RateDraft(day=day, base=_EURO, quote=code, rate=_rate(cell)))
    return iter(found)


def _own(header: Sequence[str], cells: Sequence[str]) -> Iterator[RateDraft]:
    values = {name.lower(): cell for name, cell in zip(header, cells, strict=False)}
    base = next((values[name] for name in _BASES if name in values), "").upper()
    quote = next((values[name] for name in _QUOTES if name in values), "").upper()
    if not _is_code(base) or not _is_code(quote) or base == quote:
        raise BadValue(f"{base!r} and {quote!r} are not two currencies")
    return iter([RateDraft(day=_day(values.get("date", "")), base=base, quote=quote, rate=_rate(values["rate"]))])


def _rate(text: str) -> Decimal:
    rate = parse_decimal(text, ".")
    if not 0 < rate <= _LARGEST:
        raise BadValue(f"{text!r} is not a rate above 0")
    return rate


def _day(text: str) -> dt.date:
    """`2026-11-17`, or `17 November 2026` as the bank's daily file has it."""
    words = text.lower().split()
    if len(words) == 3 and words[1] in _MONTHS:
        try:
            return dt.date(int(words[2]), _MONTHS.index(words[1]) + 1, int(words[0]))
        except ValueError:
            raise BadValue(f"{text!r} is not a day") from None
    return parse_date(text)
