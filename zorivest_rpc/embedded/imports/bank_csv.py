"""Bank statements as CSV: a few banks by their header, any other by what its columns hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.drafts import BankDraft, ImportRefused
from zorivest_rpc.embedded.imports.rows import (
    BLANKS,
    DELIMITERS,
    Columns,
    Reading,
    Record,
    RowRefused,
    read_rows,
    split_line,
    squash,
    usable,
)
from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.statement import StatementCollector, category_of
from zorivest_rpc.embedded.imports.values import (
    BadValue,
    currency_code,
    decimal_mark,
    is_day_first,
    parse_date,
    parse_decimal,
    plain_text,
)

__all__ = ["BANKS", "BankLayout", "read_bank_csv"]

SAMPLE = 5000
SHARE = 0.9


class BankLayout(msgspec.Struct, frozen=True, kw_only=True):
    """One bank's CSV: its header (matched as a prefix) and the roles of its columns."""

    bank: str
    header: tuple[str, ...]
    columns: dict[str, str]


BANKS = (
    BankLayout(
        bank="fidelity",
        header=("date", "transaction", "name", "memo", "amount"),
        columns={"date": "date", "kind": "transaction", "description": "name", "memo": "memo", "amount": "amount"},
    ),
    BankLayout(
        bank="chase",
        header=("transactiondate", "postdate", "description", "category", "type", "amount"),
        columns={
            "date": "transactiondate",
            "post_date": "postdate",
            "description": "description",
            "category": "category",
            "kind": "type",
            "amount": "amount",
            "memo": "memo",
        },
    ),
    BankLayout(
        bank="chase",
        header=("details", "postingdate", "description", "amount", "type", "balance"),
        columns={
            "date": "postingdate",
            "description": "description",
            "amount": "amount",
            "kind": "type",
            "balance": "balance",
            "reference": "checkorslip#",
        },
    ),
    BankLayout(
        bank="schwab",
        header=("date", "type", "check#", "description", "withdrawal", "deposit", "runningbalance"),
        columns={
            "date": "date",
            "kind": "type",
            "reference": "check#",
            "description": "description",
            "debit": "withdrawal",
            "credit": "deposit",
            "balance": "runningbalance",
        },
    ),
    BankLayout(
        bank="schwab",
        header=("date", "status", "type", "checknumber", "description", "withdrawal", "deposit", "runningbalance"),
        columns={
            "date": "date",
            "kind": "type",
            "reference": "checknumber",
            "description": "description",
            "debit": "withdrawal",
            "credit": "deposit",
            "balance": "runningbalance",
        },
    ),
)
WORDS = {
    "date": "transactiondate|date|bookingdate|transdate|dateoftransaction|buchungstag|buchungsdatum|datum|fecha",
    "post_date": "postdate|postingdate|posteddate|dateposted|valuedate|valuta|wertstellung|settlementdate",
    "amount": "amount|transactionamount|betrag|importe|montant|value|amountusd",
    "debit": "debit|withdrawal|withdrawals|debitamount|paidout|moneyout|soll|outflow|withdrawalamount|debits",
    "credit": "credit|deposit|deposits|creditamount|paidin|moneyin|haben|inflow|depositamount|credits",
    "balance": "balance|runningbalance|runningbal|accountbalance|availablebalance|saldo|kontostand|endingbalance",
    "description": "description|payee|name|details|merchant|narrative|transactiondescription|verwendungszweck|"
    "originaldescription|counterparty|particulars|text",
    "memo": "memo|notes|extendeddetails|additionalinfo|reference/description",
    "reference": "reference|referencenumber|transactionid|checknumber|check#|checkno|refno|chequenumber|id",
    "category": "category|kategorie",
    "indicator": "debit/credit|credit/debit|dr/cr|cr/dr|drcr|creditdebitindicator|creditdebit|debitcredit|soll/haben",
    "kind": "type|transactiontype|transaction|buchungstext",
    "currency": "currency|währung|ccy",
}
OUT = frozenset({"debit", "dr", "d", "dbit", "s", "soll", "withdrawal"})
IN = frozenset({"credit", "cr", "c", "crdt", "h", "haben", "deposit"})


def read_bank_csv(lines: Sequence[str], budget: Budget, into: StatementCollector) -> None:
    """Every row becomes a line, a skip or an error; a table whose columns cannot be understood is refused."""
    delimiters = (into.hints.delimiter,) if into.hints.delimiter else DELIMITERS
    if into.hints.columns:
        first, delimiter, columns = _find_named_columns(lines, delimiters, into)
        bank = None
    else:
        first, delimiter, columns, bank = _find_known_table(lines, delimiters) or _infer_columns(lines, delimiters)
    into.bank = bank
    if lines[-1].strip():
        into.warn("no_final_newline", "The last line has no line end; check it if the file may have been cut short.")
    sample = [split_line(line, delimiter) for line in lines[first : first + SAMPLE] if line.strip()]
    reading = _reading(columns, sample, bank, into)
    signs = _find_direction(columns, sample, reading)
    for row in usable(read_rows(lines, delimiter, budget, first), columns, into.refuse):
        try:
            _take(Record(row, columns, reading), signs, into)
        except RowRefused as exc:
            into.refuse_row(row, exc)


def _find_known_table(lines: Sequence[str], delimiters: Sequence[str]) -> tuple[int, str, Columns, str] | None:
    leading = [(at, line) for at, line in enumerate(lines[:50]) if line.strip()][:5]
    for at, line in leading:
        for delimiter in delimiters:
            cells = split_line(line, delimiter)
            headers = tuple(squash(cell) for cell in cells)
            for layout in BANKS:
                if headers[: len(layout.header)] == layout.header:
                    return at + 1, delimiter, Columns.match(cells, layout.columns), layout.bank
    return None


def _find_named_columns(
    lines: Sequence[str], delimiters: Sequence[str], into: StatementCollector
) -> tuple[int, str, Columns]:
    """The columns that the caller named; every one of them must be there."""
    wanted = {role: squash(header) for role, header in into.hints.columns.items()}
    start = into.hints.skip_rows
    at = next((place for place in range(start, len(lines)) if lines[place].strip()), None)
    cells: list[str] = []
    if at is not None:
        for delimiter in delimiters:
            cells = max(cells, split_line(lines[at], delimiter), key=len)
            columns = Columns.match(split_line(lines[at], delimiter), wanted)
            if columns.roles.keys() == wanted.keys() and _is_enough(columns.roles):
                return at + 1, delimiter, columns
    raise _refuse_format(cells)


def _is_enough(roles: Mapping[str, int]) -> bool:
    return "date" in roles and ("amount" in roles or {"debit", "credit"} <= roles.keys())


def _infer_columns(lines: Sequence[str], delimiters: Sequence[str]) -> tuple[int, str, Columns, None]:
    """The table with the most columns, its header if it has one, and roles by name, else by content."""
    leading = [(at, line) for at, line in enumerate(lines[:200]) if line.strip()]
    best: tuple[int, str] = (1, ",")
    for delimiter in delimiters:
        widths = [len(split_line(line, delimiter)) for _, line in leading]
        usual = max(set(widths), key=lambda width: (widths.count(width) * (width > 1), width), default=1)
        if usual > best[0]:
            best = (usual, delimiter)
    width, delimiter = best
    table = [(at, cells) for at, line in leading if len(cells := split_line(line, delimiter)) >= max(width - 1, 2)]
    if not table:
        raise _refuse_format([])
    at, cells = table[0]
    has_header = not any(_is_date(cell) or _is_number(cell) for cell in cells)
    headers = cells if has_header else [f"column {place + 1}" for place in range(len(cells))]
    columns = Columns.match(headers, WORDS if has_header else {})
    body = [row for _, row in (table[1:] if has_header else table)]
    roles = _by_content(dict(columns.roles), body, len(headers))
    if not _is_enough(roles):
        raise _refuse_format(headers)
    return at + (1 if has_header else 0), delimiter, Columns(tuple(headers), roles), None


def _refuse_format(headers: Sequence[str]) -> ImportRefused:
    seen = tuple(plain_text(header, 40) for header in headers[:40] if header)
    return ImportRefused(
        "unknown_bank_format",
        "The columns are not those of a bank statement: a date and an amount (or debit and credit) are needed.",
        where=f"headers seen: {', '.join(seen) or 'none'}",
        next="Name the columns Date, Description and Amount; broker files go to import_broker_csv.",
        headers=seen,
    )


def _is_date(cell: str) -> bool:
    head = cell.strip()
    for day_first in (False, True):
        try:
            parse_date(head, day_first)
            return True
        except BadValue:
            continue
    return False


def _is_number(cell: str) -> bool:
    try:
        parse_decimal(cell)
        return any(char.isdigit() for char in cell)
    except BadValue:
        return False


def _by_content(roles: dict[str, int], body: list[list[str]], width: int) -> dict[str, int]:
    """Fill the roles that no header named: the first column of days, the first of signed numbers, the longest text."""
    free = [place for place in range(width) if place not in roles.values()]

    def share(place: int, test: Callable[[str], bool]) -> float:
        cells = [row[place] for row in body if place < len(row) and row[place]]
        return sum(test(cell) for cell in cells) / len(cells) if cells and len(cells) > len(body) / 2 else 0.0

    if "date" not in roles and "post_date" in roles:
        roles["date"] = roles.pop("post_date")
    if "date" not in roles and (found := next((p for p in free if share(p, _is_date) > SHARE), None)) is not None:
        roles["date"] = found
        free.remove(found)
    if "amount" not in roles and not {"debit", "credit"} <= roles.keys():
        numbers = [p for p in free if share(p, _is_number) > SHARE and share(p, _is_date) <= SHARE]
        signed = [p for p in numbers if any(p < len(row) and _is_negative(row[p]) for row in body)]
        if chosen := signed or numbers:
            roles["amount"] = chosen[0]
            free.remove(chosen[0])
    if "description" not in roles:
        texts = {p: sum(len(row[p]) for row in body if p < len(row) and not _is_number(row[p])) for p in free}
        if texts and max(texts.values()):
            roles["description"] = max(texts, key=lambda p: texts[p])
    return roles


def _is_negative(cell: str) -> bool:
    return _is_number(cell) and parse_decimal(cell) < 0


def _reading(columns: Columns, sample: list[list[str]], bank: str | None, into: StatementCollector) -> Reading:
    def cells(*roles: str) -> list[str]:
        places = [columns.roles[role] for role in roles if role in columns.roles]
        return [row[place] for row in sample for place in places if place < len(row)]

    mark = into.hints.decimal or decimal_mark(cells("amount", "debit", "credit", "balance"))
    day_first = into.hints.day_first
    if day_first is None and bank is None:
        days = cells("date", "post_date")
        day_first = is_day_first(days)
        if day_first is None and any(_is_ambiguous(day) for day in days):
            into.warn("ambiguous_dates", "Days and months cannot be told apart; the month was read first.")
    return Reading(zone=dt.UTC, currency=into.hints.currency, mark=mark, day_first=bool(day_first))


def _is_ambiguous(cell: str) -> bool:
    try:
        return parse_date(cell, True) != parse_date(cell, False)
    except BadValue:
        return False


def _find_direction(columns: Columns, sample: list[list[str]], reading: Reading) -> str | None:
    """The role that tells direction where amounts carry no sign: a debit/credit indicator or type."""
    if "amount" not in columns.roles:
        return None
    place = columns.roles["amount"]
    if any(place < len(row) and _is_negative(row[place]) for row in sample):
        return None
    for role in ("indicator", "kind"):
        if role in columns.roles:
            words = {row[columns.roles[role]].lower() for row in sample if columns.roles[role] < len(row)} - BLANKS
            if words and words <= OUT | IN:
                return role
    return None


def _take(record: Record, signs: str | None, into: StatementCollector) -> None:
    amount = _amount(record, signs)
    balance = record.decimal("balance")
    day = record.date("date")
    if amount is None and (balance is not None or day is None):  # an opening balance, a total, a footer
        into.skip()
        return
    if amount is None:
        raise RowRefused("amount", "is missing")
    if day is None:
        raise RowRefused("date", "is missing")
    if not amount:
        into.skip()
        return
    amount = -amount if into.hints.invert_sign else amount
    text = plain_text(record.text("description"))
    memo = plain_text(record.text("memo"))
    try:
        currency = currency_code(record.text("currency"), into.hints.currency)
    except BadValue as exc:
        raise RowRefused("currency", str(exc)) from None
    words = " ".join((record.text("kind"), record.text("category"), text))
    into.add(
        BankDraft(
            row_number=record.row.number,
            account_id=into.hints.account_id,
            date=day,
            post_date=record.date("post_date"),
            description=text or memo or plain_text(record.text("kind")) or "no description",
            amount=amount,
            category=category_of(words, amount),
            currency=currency,
            reference_id=plain_text(record.text("reference"), 80) or None,
            running_balance=balance,
            notes=memo if text else "",
        )
    )


def _amount(record: Record, signs: str | None) -> Decimal | None:
    if "amount" in record.columns.roles:
        amount = record.decimal("amount")
        if amount is not None and signs:
            return -abs(amount) if record.text(signs).lower() in OUT else abs(amount)
        return amount
    debit, credit = record.decimal("debit"), record.decimal("credit")
    if debit is None and credit is None:
        return None
    return abs(credit or Decimal(0)) - abs(debit or Decimal(0))
