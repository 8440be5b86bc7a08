"""Gathers the lines of a bank statement and closes them into one result: hashes, balances, counts and status."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from collections import Counter
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.collect import outcome
from zorivest_rpc.embedded.imports.dedup import bank_hash
from zorivest_rpc.embedded.imports.drafts import (
    BankCategory,
    BankDraft,
    BankHints,
    BankImport,
    ImportLimits,
    Note,
    RowError,
)
from zorivest_rpc.embedded.imports.rows import Row, RowRefused, render_line

__all__ = ["StatementCollector", "by_sign", "category_of"]

TOLERANCE = Decimal("0.01")
SOURCES = {"csv": "csv_import", "ofx": "ofx_import", "qif": "qif_import", "camt": "csv_import"}
_WORDS = (
    (BankCategory.INTEREST, r"interest|\bint\b|zinsen"),
    (BankCategory.DIVIDEND, r"dividend|\bdiv\b"),
    (BankCategory.FEE, r"\bfees?\b|service charge|srvchg|overdraft|\bcharges?\b"),
    (BankCategory.ATM, r"\batm\b|cash withdrawal"),
    (BankCategory.REFUND, r"refund|\breturn\b|reversal"),
    (BankCategory.CARD_PURCHASE, r"purchase|\bpos\b|\bcard\b|\bsale\b|visa|mastercard"),
)
_SIGNED_WORDS = (
    (r"\bwire", BankCategory.WIRE_IN, BankCategory.WIRE_OUT),
    (r"transfer|xfer|zelle|\btfr\b", BankCategory.TRANSFER_IN, BankCategory.TRANSFER_OUT),
    (
        r"\bach\b|direct ?dep|payroll|direct ?debit|bill ?pay|autopay|payment",
        BankCategory.ACH_CREDIT,
        BankCategory.ACH_DEBIT,
    ),
)
_CHECK = re.compile(r"\b(?:check|cheque|chk)\b(?! ?card)", re.IGNORECASE)


def by_sign(amount: Decimal, inflow: BankCategory, outflow: BankCategory) -> BankCategory:
    return inflow if amount > 0 else outflow


def category_of(text: str, amount: Decimal) -> BankCategory:
    """What a line was for, by the words the bank used and the direction of the money."""
    for pattern, inflow, outflow in _SIGNED_WORDS[:2]:
        if re.search(pattern, text, re.IGNORECASE):
            return by_sign(amount, inflow, outflow)
    if _CHECK.search(text):
        return BankCategory.CHECK
    for category, words in _WORDS:
        if re.search(words, text, re.IGNORECASE):
            return category
    pattern, inflow, outflow = _SIGNED_WORDS[2]
    if re.search(pattern, text, re.IGNORECASE):
        return by_sign(amount, inflow, outflow)
    if re.search(r"deposit", text, re.IGNORECASE) and amount > 0:
        return BankCategory.DEPOSIT
    if re.search(r"withdraw", text, re.IGNORECASE) and amount < 0:
        return BankCategory.WITHDRAWAL
    if re.fullmatch(r"\s*(?:credit|debit|dslip)\s*", text, re.IGNORECASE):
        return by_sign(amount, BankCategory.DEPOSIT, BankCategory.WITHDRAWAL)
    return BankCategory.OTHER


class StatementCollector:
    """Lines in file order go in; `finish` numbers equal ones, checks balances and counts."""

    def __init__(self, hints: BankHints, limits: ImportLimits) -> None:
        self.hints = hints
        self._limits = limits
        self._lines: list[BankDraft] = []
        self._errors: list[RowError] = []
        self._notes: dict[str, Note] = {}
        self.skipped = 0
        self.refused = 0
        self.bank: str | None = None
        self.closing: tuple[Decimal, dt.date | None] | None = None

    def add(self, draft: BankDraft) -> None:
        self._lines.append(draft)

    def skip(self) -> None:
        self.skipped += 1

    def refuse(self, row: Row, field: str, message: str) -> None:
        self.refused += 1
        if len(self._errors) < self._limits.max_errors:
            error = RowError(row_number=row.number, field=field, message=message, raw_line=render_line(row.raw))
            self._errors.append(error)

    def refuse_row(self, row: Row, exc: RowRefused) -> None:
        self.refuse(row, exc.field, exc.message)

    def warn(self, code: str, message: str, row_number: int | None = None) -> None:
        self._notes.setdefault(code, Note(code=code, message=message, row_number=row_number))

    def finish(self, format: str, *, data_sha256: str, size: int, encoding: str) -> BankImport:
        if not (self._lines or self.refused or self.skipped):
            self.warn("no_rows", "The statement has no transactions.")
        lines = self._in_order()
        drift, closing = self._balances(lines)
        total = len(lines) + self.skipped + self.refused
        if self.refused > len(self._errors):
            self.warn("more_errors", f"{self.refused - len(self._errors)} more rows were refused than are listed.")
        numbered = self._number(lines)
        return BankImport(
            status=outcome(len(lines), self.refused),
            format=format,
            bank=self.bank,
            account_id=self.hints.account_id,
            file_sha256=data_sha256,
            file_size=size,
            encoding=encoding,
            total_rows=total,
            parsed_rows=len(lines),
            skipped_rows=self.skipped,
            error_rows=self.refused,
            transactions=tuple(numbered),
            errors=tuple(self._errors),
            warnings=tuple(self._notes.values()),
            date_from=min((line.date for line in lines), default=None),
            date_to=max((line.date for line in lines), default=None),
            net_change=sum((line.amount for line in lines), Decimal(0)),
            closing_balance=closing[0] if closing else None,
            closing_date=closing[1] if closing else None,
            balance_source=SOURCES[format],
            balance_match=None if drift is None else drift <= TOLERANCE,
            balance_drift=drift,
        )

    def _in_order(self) -> list[BankDraft]:
        """Oldest first; a file that runs backwards is turned round, so that equal days keep their order."""
        lines = self._lines
        if len(lines) < 2:
            return lines
        if lines[0].date > lines[-1].date or (
            lines[0].date == lines[-1].date and _breaks(lines[::-1])[0] < _breaks(lines)[0]
        ):
            lines = lines[::-1]
        return sorted(lines, key=lambda line: line.date)

    def _balances(self, lines: list[BankDraft]) -> tuple[Decimal | None, tuple[Decimal, dt.date | None] | None]:
        """How far the running balance strays from the amounts, and the closing balance."""
        running = [line for line in lines if line.running_balance is not None]
        drift: Decimal | None = None
        if len(running) > 1 and len(running) == len(lines):
            breaks, drift, at = _breaks(lines)
            if drift > TOLERANCE:
                text = f"The running balance differs from the amounts in {breaks} places, by up to {drift}."
                self.warn("balance_drift", text, at)
        if self.closing:
            return drift, self.closing
        last = running[-1] if running else None
        return drift, (last.running_balance, last.date) if last and last.running_balance is not None else None

    def _number(self, lines: list[BankDraft]) -> list[BankDraft]:
        uses = Counter(line.reference_id for line in lines if line.reference_is_unique)
        contents = {(line.reference_id, line.date, line.description, line.amount) for line in lines}
        meanings = Counter(reference for reference, *_ in contents)
        twins: Counter[tuple[dt.date, str, Decimal]] = Counter()
        result: list[BankDraft] = []
        for line in lines:
            key = (line.date, " ".join(line.description.split()).casefold(), line.amount)
            twins[key] += 1
            unique = line.reference_is_unique
            if unique and uses[line.reference_id] > 1 and meanings[line.reference_id] > 1:
                unique = False
                text = f"The bank used the reference {line.reference_id!r} for different lines; it identifies neither."
                self.warn("reused_reference", text, line.row_number)
            result.append(
                msgspec.structs.replace(
                    line,
                    reference_is_unique=unique,
                    occurrence=twins[key],
                    dedup_hash=bank_hash(line.date, line.description, line.amount, twins[key]),
                )
            )
        return result


def _breaks(lines: list[BankDraft]) -> tuple[int, Decimal, int | None]:
    """How often the running balance does not follow from the line before, the largest gap, and where the first is."""
    count, largest, first = 0, Decimal(0), None
    for before, line in itertools.pairwise(lines):
        if before.running_balance is None or line.running_balance is None:
            continue
        gap = abs(before.running_balance + line.amount - line.running_balance)
        largest = max(largest, gap)
        if gap > TOLERANCE:
            count += 1
            first = first or line.row_number
    return count, largest, first
