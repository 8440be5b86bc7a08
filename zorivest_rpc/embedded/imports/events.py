"""Rows that are no fills: what kind each is, and those that change a position without a trade.

An option's end and a share split become `PositionEvent`s, which the journal keeps as corporate actions."""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

import msgspec

from zorivest_rpc.embedded.imports.drafts import PositionEvent
from zorivest_rpc.embedded.imports.rows import BLANKS, Record, RowRefused
from zorivest_rpc.embedded.imports.symbols import parse_symbol
from zorivest_rpc.embedded.imports.values import BadValue
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["SWEEPS", "is_sweep", "join_splits", "kind_of", "ratio_of", "read_event"]

SWEEPS = frozenset(
    {
        *("SPAXX", "FDRXX", "FZFXX", "FZDXX", "FDLXX", "SPRXX", "FTEXX", "FMPXX", "FCASH", "CORE", "QCERQ", "QPRMQ"),
        *("SWVXX", "SNVXX", "SNSXX", "SNAXX", "SWGXX", "SNOXX", "VMFXX", "VMRXX", "VMMXX", "VUSXX", "MMDA1", "MMDA10"),
        *("QACDS", "TDBDP", "BDPS", "ETSWEEP"),
    }
)
"""Funds and deposits that hold a broker's cash; moving money into them is no trade."""

_EVENTS = (
    ("expiry", re.compile(r"\bexpir|\boexp\b|due to expiration", re.IGNORECASE)),
    ("assignment", re.compile(r"\bassign|\boasgn\b|due to assignment", re.IGNORECASE)),
    ("exercise", re.compile(r"\bexercis|\boexcs\b|due to exercise", re.IGNORECASE)),
    ("split", re.compile(r"\b(?:stock|forward|reverse|share)? ?split\b|\bspl\b|\bspr\b", re.IGNORECASE)),
)
_KINDS = (
    ("sweep", re.compile(r"money market|sweep|redemption from core|purchase into core|cash sweep", re.IGNORECASE)),
    ("dividend", re.compile(r"divid|\bcdiv\b|\bmdiv\b|\bdiv\b|cap(?:ital)? gain|return of capital", re.IGNORECASE)),
    ("interest", re.compile(r"interest|\bint\b|coupon", re.IGNORECASE)),
    ("fee", re.compile(r"\bfees?\b|\bafee\b|\bdfee\b|commission|charge|\bgold\b", re.IGNORECASE)),
    ("tax", re.compile(r"\btax|withh|\bnrat?\b|\bdtax\b", re.IGNORECASE)),
    (
        "transfer",
        re.compile(r"transfer|moneylink|\bach\b|wire|deposit|withdraw|journal|\brtp\b|\beft\b", re.IGNORECASE),
    ),
    ("lending", re.compile(r"\bslip\b|lending|loan", re.IGNORECASE)),
)
_CONTRACTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"[A-Z.]{1,6} \d{1,2}/\d{1,2}/\d{2,4} (?:Call|Put) \$?[\d,.]+",
        r"[A-Z.]{1,6} [A-Z]{3} \d{1,2},? '?\d{2,4} \$?[\d,.]+ (?:Call|Put)",
        r"[A-Z.]{1,6} \d{1,2}/\d{1,2}/\d{2,4} [\d,.]+ [CP]\b",
    )
)
_RATIO = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)\s*(?:-?\s*for\s*-?|:)\s*(\d{1,4}(?:\.\d{1,6})?)", re.IGNORECASE)
_REVERSE = re.compile(r"\breverse\b|\bspr\b", re.IGNORECASE)
_REMOVED = re.compile(r"split: close\b|\bto[ _]close\b|\bremoval\b", re.IGNORECASE)
_BELOW_ZERO = re.compile(r"^[-(]|\ds$", re.IGNORECASE)
_LARGEST_PART = 10_000  # of a ratio that is told in whole numbers
_COUNT = re.compile(r"[\d,]+(?:\.\d+)?")


def is_sweep(symbol: Instrument, price: Decimal | None) -> bool:
    """Whether a row moves cash into or out of a money-market fund; such funds end in XX and stand at one."""
    if symbol.asset_class not in (AssetClass.EQUITY, AssetClass.MUTUAL_FUND):
        return False
    return symbol.symbol in SWEEPS or (len(symbol.symbol) == 5 and symbol.symbol.endswith("XX") and price == 1)


def kind_of(record: Record) -> str:
    """What a row that is no fill is about, for the count of what was left out."""
    words = " ".join(record.text(role) for role in ("side", "kind", "subtype", "notes"))[:400]
    kind = _event_kind(record)
    if kind is not None:
        return kind
    return next((name for name, pattern in _KINDS if pattern.search(words)), "other")


def _event_kind(record: Record) -> str | None:
    """By the words of the action first; a description may mention another event in passing."""
    for roles in (("side", "kind", "subtype"), ("notes",)):
        words = " ".join(record.text(role) for role in roles)[:400]
        for kind, pattern in _EVENTS:
            if pattern.search(words):
                return kind
    return None


def read_event(record: Record) -> PositionEvent | None:
    """The event of a row, or None where it is none or does not say enough; what is missing is then only counted."""
    kind = _event_kind(record)
    if kind is None:
        return None
    try:
        moment, _ = record.moment()
        symbol = _share(record, moment.date()) if kind == "split" else _contract(record, moment.date())
    except RowRefused:
        return None
    if symbol is None:
        return None
    event = PositionEvent(
        row_number=record.row.number,
        kind=kind,
        symbol=symbol.symbol,
        day=moment.astimezone(record.reading.zone).date(),
        quantity=_count(record),
    )
    return _split(record, event) if kind == "split" else event


def _split(record: Record, event: PositionEvent) -> PositionEvent | None:
    """With the ratio that a row states, else with the sign of the shares that it moves."""
    words = " ".join(record.text(role) for role in ("side", "kind", "subtype", "notes"))[:400]
    is_reverse = _REVERSE.search(words) is not None
    ratio = _RATIO.search(f"{record.text('side')} {record.text('notes')}")
    if ratio is not None:
        new, old = Decimal(ratio[1]), Decimal(ratio[2])
        if is_reverse and new > old:  # "10 for 1 reverse split"
            new, old = old, new
        return msgspec.structs.replace(event, numerator=new, denominator=old, is_reverse=is_reverse)
    if not event.quantity:
        return None
    is_removed = _REMOVED.search(words) or _BELOW_ZERO.search(record.text("quantity"))
    quantity = -event.quantity if is_removed else event.quantity
    return msgspec.structs.replace(event, quantity=quantity, is_reverse=is_reverse)


def join_splits(events: Iterable[PositionEvent]) -> list[PositionEvent]:
    """Rows that are one split together: tastytrade closes the old shares in one row and opens the new in another."""
    parts: defaultdict[tuple[str, dt.date], list[PositionEvent]] = defaultdict(list)
    joined: list[PositionEvent] = []
    for event in events:
        if event.kind == "split" and event.numerator is None:
            parts[event.symbol, event.day].append(event)
        else:
            joined.append(event)
    for rows in parts.values():
        moved = [row.quantity or Decimal(0) for row in rows]
        added, removed = sum((one for one in moved if one > 0), Decimal(0)), -sum(one for one in moved if one < 0)
        if added and removed:
            new, old = ratio_of(Fraction(added) / Fraction(removed))
            joined.append(msgspec.structs.replace(rows[0], quantity=None, numerator=new, denominator=old))
        else:
            joined.append(msgspec.structs.replace(rows[0], quantity=added - removed))
    return joined


def ratio_of(exact: Fraction) -> tuple[Decimal, Decimal]:
    """New shares for old ones in whole numbers; where fractions of shares leave none, for ten thousand."""
    if exact.numerator <= _LARGEST_PART and exact.denominator <= _LARGEST_PART:
        return Decimal(exact.numerator), Decimal(exact.denominator)
    return round(Decimal(exact.numerator) / exact.denominator * _LARGEST_PART, 6), Decimal(_LARGEST_PART)


def _count(record: Record) -> Decimal | None:
    """How many, without the sign or letter that some brokers add (Robinhood writes 1S for one that was short)."""
    match = _COUNT.search(record.text("quantity"))
    return Decimal(match[0].replace(",", "")) if match else None


def _contract(record: Record, day: dt.date) -> Instrument | None:
    """The option that a row names, in its symbol or within its description."""
    texts = [record.text("symbol")]
    notes = record.text("notes")
    texts += [match[0] for pattern in _CONTRACTS for match in pattern.finditer(f"{notes} {record.text('side')}")]
    for text in texts:
        if text.lower() in BLANKS:
            continue
        try:
            symbol = parse_symbol(text.strip("()").lstrip("-").strip(), None, day)
        except BadValue:
            continue
        if symbol.contract is not None:
            return symbol
    return None


def _share(record: Record, day: dt.date) -> Instrument | None:
    try:
        symbol = parse_symbol(record.require("symbol"), None, day)
    except BadValue:
        return None
    return symbol if symbol.contract is None else None
