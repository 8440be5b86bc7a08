"""QIF statements: one letter per field, `^` ends a record, `!Type:` begins a list."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence

import msgspec

from zorivest_rpc.embedded.imports.drafts import BankCategory, BankDraft, ImportRefused
from zorivest_rpc.embedded.imports.rows import Row, RowRefused
from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.statement import StatementCollector, by_sign, category_of
from zorivest_rpc.embedded.imports.values import (
    BadValue,
    decimal_mark,
    is_day_first,
    parse_date,
    parse_decimal,
    plain_text,
)

__all__ = ["read_qif"]

LEDGERS = frozenset({"bank", "ccard", "cash", "oth a", "oth l"})
SINGLE = frozenset("DTUPMNLC")


class _Entry(msgspec.Struct, frozen=True):
    """One record: its first line, its fields by letter, its text, and whether `^` closed it."""

    number: int
    fields: dict[str, str]
    raw: str
    is_closed: bool


def read_qif(lines: Sequence[str], budget: Budget, into: StatementCollector) -> None:
    """All records of the bank, card and cash lists."""
    entries, others, has_ledger = _entries(lines, budget)
    if not has_ledger:
        raise ImportRefused(
            "no_bank_transactions",
            "The file has no list of bank, card or cash transactions"
            + (f"; it holds {', '.join(sorted(others))}." if others else "."),
            next="Export a register of type Bank, CCard or Cash.",
        )
    if others:
        into.warn("sections_skipped", f"Lists of type {', '.join(sorted(others))} were left out.")
    days = [_tidy(entry.fields.get("D", "")) for entry in entries]
    day_first = into.hints.day_first
    if day_first is None:
        day_first = is_day_first(days)
        if day_first is None and any(_is_ambiguous(day) for day in days):
            into.warn("ambiguous_dates", "Days and months cannot be told apart; the month was read first.")
    mark = into.hints.decimal or decimal_mark(_amount(entry) for entry in entries)
    for entry in entries:
        row = Row(entry.number, [], entry.raw)
        if not entry.is_closed:
            into.refuse(row, "record", "is not closed by ^; the file may be cut short")
            continue
        try:
            _take(entry, mark, bool(day_first), into)
        except RowRefused as exc:
            into.refuse_row(row, exc)


def _entries(lines: Sequence[str], budget: Budget) -> tuple[list[_Entry], set[str], bool]:
    entries: list[_Entry] = []
    others: set[str] = set()
    reading, has_ledger = False, False
    for number, block, is_closed, title in _blocks(lines):
        if title is not None:
            kind = title.lower().removeprefix("type:").strip()
            reading = title.lower().startswith("type:") and kind in LEDGERS
            has_ledger |= reading
            if not reading and title.lower().startswith("type:"):
                others.add(plain_text(title[5:], 20))
            continue
        if not reading:
            continue
        budget.row(number, len(lines))
        fields: dict[str, str] = {}
        for line in block:
            if line[0] in SINGLE:
                fields.setdefault(line[0], line[1:].strip())
        entries.append(_Entry(number, fields, " ".join(block), is_closed))
    return entries, others, has_ledger


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, list[str], bool, str | None]]:
    """Records and list titles, in order."""
    block: list[str] = []
    first = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text:
            continue
        if text.startswith("!"):
            if block:
                yield first, block, False, None
            block = []
            yield number, [], True, text[1:]
        elif text.startswith("^"):
            if block:
                yield first, block, True, None
            block = []
        else:
            first = first if block else number
            block.append(text)
    if block:
        yield first, block, False, None


def _amount(entry: _Entry) -> str:
    return entry.fields.get("T") or entry.fields.get("U", "")


def _tidy(day: str) -> str:
    """`1/ 5'24` and `1/5' 4` as `1/5/24` and `1/5/04`; an apostrophe always begins a year of this century."""
    day = day.replace(" ", "") if "/" in day or "'" in day else day
    if match := re.fullmatch(r"(\d{1,2}[-/.]\d{1,2})'(\d{1,2}|\d{4})", day):
        year = match[2] if len(match[2]) == 4 else f"20{match[2]:0>2}"
        return f"{match[1]}/{year}".replace("-", "/") if "." not in day else f"{match[1]}.{year}"
    if match := re.fullmatch(r"(\d{1,2}/\d{1,2}/)(\d)", day):
        return f"{match[1]}0{match[2]}"
    return day


def _is_ambiguous(day: str) -> bool:
    try:
        return parse_date(day, True) != parse_date(day, False)
    except BadValue:
        return False


def _take(entry: _Entry, mark: str | None, day_first: bool, into: StatementCollector) -> None:
    fields = entry.fields
    if not fields.get("D"):
        raise RowRefused("date", "is missing")
    try:
        day: dt.date = parse_date(_tidy(fields["D"]), day_first)
    except BadValue as exc:
        raise RowRefused("date", str(exc)) from None
    try:
        amount = parse_decimal(_amount(entry), mark)
    except BadValue as exc:
        raise RowRefused("amount", str(exc) if _amount(entry) else "is missing") from None
    payee, memo, label = (plain_text(fields.get(letter, "")) for letter in "PML")
    if payee.casefold() == "opening balance":
        into.warn("opening_balance", f"The opening balance of {amount} is not a transaction and was left out.")
        into.skip()
        return
    if not amount:
        into.skip()
        return
    number = plain_text(fields.get("N", ""), 40)
    if label.startswith("[") and label.endswith("]"):
        kind = by_sign(amount, BankCategory.TRANSFER_IN, BankCategory.TRANSFER_OUT)
    elif number.isdigit():
        kind = BankCategory.CHECK if amount < 0 else BankCategory.DEPOSIT
    else:
        kind = category_of(f"{number} {label} {payee}", amount)
    into.add(
        BankDraft(
            row_number=entry.number,
            account_id=into.hints.account_id,
            date=day,
            description=payee or memo or label or "no description",
            amount=amount,
            category=kind,
            currency=into.hints.currency,
            reference_id=number or None,
            notes=" · ".join(part for part in (memo if payee else "", label) if part),
        )
    )
