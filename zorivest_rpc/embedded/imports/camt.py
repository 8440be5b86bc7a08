"""ISO 20022 bank statements (CAMT.053): entries and the closing booked balance."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from zorivest_rpc.embedded.imports.drafts import BankDraft, ImportRefused
from zorivest_rpc.embedded.imports.rows import Row, RowRefused
from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.statement import StatementCollector, category_of
from zorivest_rpc.embedded.imports.values import BadValue, currency_code, parse_date, parse_decimal, plain_text
from zorivest_rpc.embedded.imports.xml_feed import feed_safely

__all__ = ["read_camt"]

LONGEST = 2000
TEXTS = ("Ustrd", "AddtlNtryInf", "AddtlTxInf")


class _Statement:
    """Takes the elements as they come; an entry or balance is a small map from its leaf paths to their texts."""

    def __init__(self, budget: Budget, into: StatementCollector) -> None:
        self.line: Any = lambda: 0
        self.is_statement = False
        self._budget = budget
        self._into = into
        self._path: list[str] = []
        self._root = 0
        self._first_line = 0
        self._leaves: dict[str, str] = {}
        self._currency = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.rpartition("}")[2]
        self._path.append(name)
        self.is_statement |= name == "BkToCstmrStmt"
        if name in ("Ntry", "Bal") and not self._root:
            self._root, self._first_line = len(self._path), self.line()
            self._leaves, self._currency = {}, ""
        if name == "Amt" and self._root and len(self._path) == self._root + 1:
            self._currency = attributes.get("Ccy", "")

    def data(self, text: str) -> None:
        if self._root:
            key = "/".join(self._path[self._root :])
            if len(self._leaves.get(key, "")) < LONGEST:
                self._leaves[key] = self._leaves.get(key, "") + text

    def end(self, tag: str) -> None:
        if self._root and len(self._path) == self._root:
            self._root = 0
            if self._path[-1] == "Ntry":
                self._entry()
            else:
                self._balance()
        if self._path:
            self._path.pop()

    def close(self) -> None:
        """Nothing is left to do at the end."""

    def _text(self, *ends: str) -> str:
        found = (value for end in ends for key, value in self._leaves.items() if key.endswith(end) and value.strip())
        return next(found, "").strip()

    def _amount(self) -> Decimal:
        try:
            amount = parse_decimal(self._leaves.get("Amt", "").strip(), ".")
        except BadValue as exc:
            raise RowRefused("Amt", str(exc)) from None
        direction = self._leaves.get("CdtDbtInd", "").strip()
        if direction not in ("CRDT", "DBIT"):
            raise RowRefused("CdtDbtInd", "is neither CRDT nor DBIT")
        return -amount if direction == "DBIT" else amount

    def _day(self, *paths: str) -> dt.date | None:
        value = next((self._leaves[path].strip() for path in paths if self._leaves.get(path, "").strip()), "")
        if not value:
            return None
        try:
            return parse_date(value[:10])
        except BadValue as exc:
            raise RowRefused(paths[0], str(exc)) from None

    def _entry(self) -> None:
        self._budget.count()
        row = Row(self._first_line, [], " ".join(f"{key}={value.strip()}" for key, value in self._leaves.items()))
        try:
            amount = self._amount()
            day = self._day("BookgDt/Dt", "BookgDt/DtTm", "ValDt/Dt", "ValDt/DtTm")
            if day is None:
                raise RowRefused("BookgDt", "is missing")
            currency = currency_code(self._currency, self._into.hints.currency)
            posted = self._day("ValDt/Dt", "ValDt/DtTm")
        except BadValue as exc:
            self._into.refuse(row, "Amt", str(exc))
            return
        except RowRefused as exc:
            self._into.refuse_row(row, exc)
            return
        if not amount:
            self._into.skip()
            return
        party = self._text("Cdtr/Nm" if amount < 0 else "Dbtr/Nm", "Cdtr/Pty/Nm" if amount < 0 else "Dbtr/Pty/Nm")
        text = self._text(*TEXTS)
        reference = plain_text(self._leaves.get("AcctSvcrRef", ""), 255)
        self._into.add(
            BankDraft(
                row_number=self._first_line,
                account_id=self._into.hints.account_id,
                date=day,
                post_date=posted,
                description=plain_text(party or text) or "no description",
                amount=amount,
                category=category_of(f"{party} {text}", amount),
                currency=currency,
                reference_id=reference or None,
                reference_is_unique=bool(reference),
                notes=plain_text(text) if party else "",
            )
        )

    def _balance(self) -> None:
        if self._text("CdOrPrtry/Cd") != "CLBD":
            return
        try:
            self._into.closing = (self._amount(), self._day("Dt/Dt", "Dt/DtTm"))
        except RowRefused:
            self._into.warn("no_closing_balance", "The statement's closing balance cannot be read.")


def read_camt(data: bytes, budget: Budget, into: StatementCollector) -> None:
    """All booked entries of the statement."""
    target = _Statement(budget, into)
    feed_safely(data, target, budget)
    if not target.is_statement:
        raise ImportRefused(
            "no_bank_transactions",
            "The XML is no bank statement: it has no BkToCstmrStmt element.",
            next="Download the statement as CAMT.053, OFX, QIF or CSV.",
        )
