"""OFX and QFX statements, versions 1 (SGML) and 2 (XML), through ofxtools' tree builder.

Each transaction is parsed by itself, so that a bad one spoils itself alone, has its line number, and memory does not
grow with the file; what stands around them is a small tree of its own.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, unescape

import msgspec

from zorivest_rpc.embedded.imports.drafts import BankCategory, BankDraft, ImportRefused
from zorivest_rpc.embedded.imports.rows import Row, RowRefused
from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.statement import StatementCollector, by_sign
from zorivest_rpc.embedded.imports.values import (
    BadValue,
    currency_code,
    decimal_mark,
    parse_date,
    parse_decimal,
    plain_text,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

__all__ = ["category", "read_ofx"]

_PLAIN = {
    "CREDIT": BankCategory.DEPOSIT,
    "DEP": BankCategory.DEPOSIT,
    "DEBIT": BankCategory.WITHDRAWAL,
    "CASH": BankCategory.WITHDRAWAL,
    "INT": BankCategory.INTEREST,
    "DIV": BankCategory.DIVIDEND,
    "FEE": BankCategory.FEE,
    "SRVCHG": BankCategory.FEE,
    "CHECK": BankCategory.CHECK,
    "PAYMENT": BankCategory.ACH_DEBIT,
    "DIRECTDEBIT": BankCategory.ACH_DEBIT,
    "REPEATPMT": BankCategory.ACH_DEBIT,
    "DIRECTDEP": BankCategory.ACH_CREDIT,
    "ATM": BankCategory.ATM,
    "POS": BankCategory.CARD_PURCHASE,
}
_ENTITIES = {"&quot;": '"', "&apos;": "'", "&nbsp;": " ", "&#39;": "'"}
_LEAVES = ("NAME", "MEMO", "CHECKNUM", "REFNUM", "SIC", "PAYEEID", "DTUSER", "DTAVAIL", "SRVRTID")
_EMPTY_LEAF = re.compile(rf"<({'|'.join(_LEAVES)})>[ \t\r\n]*(?=<(?!/\1>))")
_OPEN, _CLOSE = "<STMTTRN>", "</STMTTRN>"
_TAG = re.compile(r"<[A-Z]")
_TREE_ERRORS = (SyntaxError, IndexError, AssertionError, TypeError, ValueError)
BITE = 64 * 1024


def category(kind: str, amount: Decimal) -> BankCategory:
    """The category of a TRNTYPE."""
    kind = kind.strip().upper()
    if kind == "XFER":
        return by_sign(amount, BankCategory.TRANSFER_IN, BankCategory.TRANSFER_OUT)
    return _PLAIN.get(kind, BankCategory.OTHER)


def read_ofx(text: str, budget: Budget, into: StatementCollector) -> None:
    """All bank and card transactions of the file, and its ledger balance."""
    start = re.search(r"<OFX>", text, re.IGNORECASE)
    if start is None:
        raise _broken("The file has no <OFX> element.", 1)
    if re.search(r"<!(?:DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise ImportRefused(
            "unsafe_xml",
            "The file declares a document type or entities, which statements do not need.",
            next="Download the statement again from the bank.",
        )
    body = text[start.start() :]
    if not body.rstrip()[-6:].upper() == "</OFX>":
        raise ImportRefused(
            "truncated_file",
            "The file ends before </OFX>, so it was cut short.",
            where=f"line {text.count(chr(10)) + 1}",
            next="Download the statement again; nothing of this file was used.",
        )
    body = _without_cdata(body)
    reading = _reading(body, into)
    frame = _Frame(text[: start.start()].count("\n") + 1)
    for piece in _pieces(body):
        if piece.startswith(_OPEN):
            budget.row(frame.done, len(body))
            _take(piece, frame.line, reading, into)
            frame.skip(piece)
        else:
            budget.check()
            frame.feed(piece)
    root = frame.close()
    _check_accounts(root, budget.rows > 0, into)
    into.bank = plain_text(next((org.text or "" for org in root.iter("ORG")), ""), 80) or None
    _balance(root, reading.mark, into)


class _Reading(msgspec.Struct, frozen=True):
    """The decimal mark and the currency of the statement."""

    mark: str | None
    currency: str


def _reading(body: str, into: StatementCollector) -> _Reading:
    hints = into.hints
    mark = hints.decimal or decimal_mark(match[1] for match in re.finditer(r"<TRNAMT>([^<\r\n]{1,64})", body))
    stated = re.search(r"<CURDEF>\s*([^<\s]{1,10})", body)
    try:
        return _Reading(mark, currency_code(stated[1] if stated else "", hints.currency))
    except BadValue:
        into.warn("unknown_currency", f"The statement's currency is not a code; {hints.currency} was used.")
        return _Reading(mark, hints.currency)


def _broken(what: str, line: int) -> ImportRefused:
    return ImportRefused(
        "broken_ofx", what, where=f"line {line}", next="Download the statement again; nothing of this file was used."
    )


def _without_cdata(body: str) -> str:
    """CDATA as escaped text, which the tree builder reads right even when several stand on one line."""
    parts: list[str] = []
    at = 0
    while (start := body.find("<![CDATA[", at)) >= 0:
        end = body.find("]]>", start)
        if end < 0:
            raise _broken("A CDATA section is never closed.", body[:start].count("\n") + 1)
        parts += (body[at:start], escape(body[start + 9 : end]))
        at = end + 3
    return "".join([*parts, body[at:]])


def _pieces(body: str) -> Iterator[str]:
    """Each transaction by itself, and what stands between them in bites, cut only before an opening tag."""
    at, close = 0, -1
    while at < len(body):
        found = body.find(_OPEN, at)
        end = found if found >= 0 else len(body)
        while at < end:
            cut = _TAG.search(body, at + BITE, end) if end - at > BITE else None
            stop = cut.start() if cut else end
            yield body[at:stop]
            at = stop
        if found >= 0:
            following = body.find(_OPEN, at + 1)
            following = following if following >= 0 else len(body)
            if close < at:  # looked for once and remembered, so that a file without any is not searched again and again
                close = body.find(_CLOSE, at)
                close = close if close >= 0 else len(body)
            at = close + len(_CLOSE) if close < following else following
            yield body[found:at]


class _Frame:
    """The statement without its transactions, as a tree; knows the line that is reached."""

    def __init__(self, line: int) -> None:
        from ofxtools.Parser import TreeBuilder

        self.line = line
        self.done = 0
        self._builder = TreeBuilder()

    def feed(self, piece: str) -> None:
        try:
            self._builder.feed(_EMPTY_LEAF.sub("", piece))
        except _TREE_ERRORS:
            raise _broken("The tags do not fit together.", self.line) from None
        self.skip(piece)

    def skip(self, piece: str) -> None:
        self.line += piece.count("\n")
        self.done += len(piece)

    def close(self) -> Element:
        try:
            root: Element | None = self._builder.close()
        except _TREE_ERRORS:
            root = None
        if root is None:
            raise _broken("The file has no statement.", self.line)
        return root


def _take(piece: str, line: int, reading: _Reading, into: StatementCollector) -> None:
    """One transaction; whatever is wrong with it spoils itself alone."""
    from ofxtools.Parser import TreeBuilder

    row = Row(line, [], piece[:1000])
    if not piece.endswith(_CLOSE) or len(piece) > BITE:
        into.refuse(row, "STMTTRN", "is not closed")
        return
    builder = TreeBuilder()
    try:
        builder.feed(_EMPTY_LEAF.sub("", piece))
        values = _values(builder.close())
    except _TREE_ERRORS:
        into.refuse(row, "STMTTRN", "has tags that do not fit together")
        return
    try:
        draft = _line(values, line, reading, into)
        if draft.amount:
            into.add(draft)
        else:
            into.skip()
    except RowRefused as exc:
        into.refuse_row(row, exc)


def _check_accounts(root: Element, has_lines: bool, into: StatementCollector) -> None:
    statements = any(node.tag in ("STMTRS", "CCSTMTRS") for node in root.iter())
    accounts = {node.text or "" for node in root.iter("ACCTID")}
    if len(accounts) > 1:
        tails = ", ".join(sorted(f"…{account[-4:]}" for account in accounts))
        into.warn("several_accounts", f"The file holds {len(accounts)} accounts ({tails}); all lines go to one.")
    if has_lines or statements:
        return
    failures = [_text(node, "CODE") for node in root.iter("STATUS")]
    bad = next((code for code in failures if code not in ("0", "")), None)
    investment = next(root.iter("INVSTMTRS"), None) is not None
    raise ImportRefused(
        "no_bank_transactions",
        f"The bank answered with error {plain_text(bad, 20)}."
        if bad
        else "The file has no bank or card statement" + (", only an investment account." if investment else "."),
        next="Download the statement again; broker files go to import_broker_csv.",
    )


def _text(node: Element, tag: str) -> str:
    return _values(node).get(tag, "")


def _values(node: Element) -> dict[str, str]:
    """The texts below a node by tag; the first of a tag counts."""
    found: dict[str, str] = {}
    for leaf in node.iter():
        if leaf.text and leaf.tag not in found:
            text = leaf.text.strip()
            found[leaf.tag] = unescape(text, _ENTITIES).strip() if "&" in text else text
    return found


def _day(values: dict[str, str], tag: str) -> dt.date | None:
    """The calendar day as the bank wrote it; the time and zone behind it say when the bank's computer booked it."""
    value = values.get(tag, "")
    if not value:
        return None
    try:
        if not re.match(r"\d{8}(?:\D|\d{4}|$)", value):
            raise BadValue(f"{plain_text(value, 40)!r} is not a date")
        return parse_date(value[:8])
    except BadValue as exc:
        raise RowRefused(tag, str(exc)) from None


def _line(values: dict[str, str], number: int, reading: _Reading, into: StatementCollector) -> BankDraft:
    try:
        amount = parse_decimal(values.get("TRNAMT", ""), reading.mark)
        currency = currency_code(values.get("CURSYM", ""), reading.currency)
    except BadValue as exc:
        raise RowRefused("TRNAMT", str(exc)) from None
    day = _day(values, "DTPOSTED")
    if day is None:
        raise RowRefused("DTPOSTED", "is missing")
    name, memo = plain_text(values.get("NAME", "")), plain_text(values.get("MEMO", ""))
    fitid, check = plain_text(values.get("FITID", ""), 255), plain_text(values.get("CHECKNUM", ""), 40)
    return BankDraft(
        row_number=number,
        account_id=into.hints.account_id,
        date=day,
        post_date=_day(values, "DTAVAIL"),
        description=name or memo or plain_text(values.get("TRNTYPE", "")),
        amount=amount,
        category=category(values.get("TRNTYPE", ""), amount),
        currency=currency,
        reference_id=fitid or check or None,
        reference_is_unique=bool(fitid),
        notes=memo if name and memo != name else "",
    )


def _balance(root: Element, mark: str | None, into: StatementCollector) -> None:
    for node in root.iter("LEDGERBAL"):
        try:
            values = _values(node)
            into.closing = (parse_decimal(values.get("BALAMT", ""), mark), _day(values, "DTASOF"))
        except (BadValue, RowRefused):
            into.warn("no_closing_balance", "The statement's closing balance cannot be read.")
