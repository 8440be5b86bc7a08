"""Recognises a file by its content: which broker layout, which delimiter, which bank format."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from zorivest_rpc.embedded.imports import ninjatrader, thinkorswim, tradovate
from zorivest_rpc.embedded.imports.drafts import BankHints, BrokerHints, ImportRefused
from zorivest_rpc.embedded.imports.ibkr_activity import is_activity
from zorivest_rpc.embedded.imports.layouts import BROKERS, GENERIC, LAYOUTS, Layout
from zorivest_rpc.embedded.imports.rows import DELIMITERS, Columns, split_line, squash
from zorivest_rpc.embedded.imports.values import plain_text

__all__ = ["BANK_FORMATS", "Detection", "broker_of", "detect_bank_format", "detect_broker", "is_xml"]

LEADING = 12
BANK_FORMATS = ("csv", "ofx", "qif", "camt")
ALIASES = {
    "interactivebrokers": "ibkr",
    "ib": "ibkr",
    "tos": "thinkorswim",
    "tdameritrade": "thinkorswim",
    "das": "lightspeed",
    "dastrader": "lightspeed",
    "tastyworks": "tastytrade",
    "charlesschwab": "schwab",
    "other": "generic",
}
NEEDED = {
    "symbol": ("symbol",),
    "quantity": ("quantity",),
    "price": ("price",),
    "date": ("datetime", "date", "time"),
}


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """A recognised text layout; `kind` names the module that reads it, `layout` is set for flat tables."""

    kind: str
    broker: str
    name: str
    detected_by: str
    header: int = 0
    delimiter: str = ","
    layout: Layout | None = None
    columns: Columns | None = None


def is_xml(text: str) -> bool:
    return text[:512].lstrip("\ufeff \t\r\n").startswith("<")


def broker_of(hint: str) -> str | None:
    """The broker a hint means, None for auto; ids such as `ibkr_pro` and `tradier_live` count for their broker."""
    word = squash(hint)
    if word in ("", "auto", "localfolder"):
        return None
    word = ALIASES.get(word, word)
    for broker in BROKERS:
        if word == broker or (word.startswith(broker) and hint.lower().startswith(f"{broker}_")):
            return broker
    raise ImportRefused(
        "unknown_broker_hint",
        f"No importer is called {plain_text(hint, 40)!r}.",
        next=f"Leave broker_hint at auto or use one of {', '.join(BROKERS)}.",
    )


def detect_broker(lines: Sequence[str], hints: BrokerHints) -> Detection:
    """The layout of a delimited broker file; a refusal lists the headers that were seen."""
    wanted = broker_of(hints.broker)
    by = "hint" if wanted else "header"
    delimiters = (hints.delimiter,) if hints.delimiter else DELIMITERS
    if wanted in (None, "ibkr") and is_activity(lines):
        return Detection(kind="ibkr_activity", broker="ibkr", name="ibkr_activity_csv", detected_by=by)
    if wanted in (None, "thinkorswim"):
        for delimiter in delimiters:
            header = thinkorswim.find_header(lines, delimiter, LEADING)
            if header is not None:
                name = "thinkorswim"
                return Detection(kind=name, broker=name, name=name, detected_by=by, header=header, delimiter=delimiter)
    candidates = [(at, line) for at, line in enumerate(lines[:200]) if line.strip()][:LEADING]
    for at, line in candidates:
        for delimiter in delimiters:
            cells = split_line(line, delimiter)
            if len(cells) > 3 and (found := _match_layout(cells, wanted, at, delimiter, by)):
                return found
    if found := _generic(candidates, delimiters, wanted):
        return found
    raise _refuse_format(candidates, delimiters)


def _match_layout(cells: list[str], wanted: str | None, at: int, delimiter: str, by: str) -> Detection | None:
    headers = frozenset(squash(cell) for cell in cells)
    if wanted in (None, "ninjatrader") and _has(headers, ninjatrader.FINGERPRINT):
        return Detection(
            kind="ninjatrader",
            broker="ninjatrader",
            name="ninjatrader",
            detected_by=by,
            header=at,
            delimiter=delimiter,
            columns=Columns.match(cells, ninjatrader.COLUMNS),
        )
    if wanted in (None, "tradovate") and _has(headers, tradovate.FINGERPRINT):
        return Detection(
            kind="tradovate",
            broker="tradovate",
            name="tradovate",
            detected_by=by,
            header=at,
            delimiter=delimiter,
            columns=Columns.match(cells, tradovate.COLUMNS),
        )
    for layout in LAYOUTS:
        if wanted in (None, layout.broker) and layout.fits(headers):
            return Detection(
                kind="flat",
                broker=layout.broker,
                name=layout.name,
                detected_by=by,
                header=at,
                delimiter=delimiter,
                layout=layout,
                columns=Columns.match(cells, layout.columns),
            )
    return None


def _has(headers: frozenset[str], parts: tuple[str, ...]) -> bool:
    return all(any(name in headers for name in part.split("|")) for part in parts)


def _generic(candidates: Sequence[tuple[int, str]], delimiters: Sequence[str], wanted: str | None) -> Detection | None:
    """The leading line in which most roles are found, if the needed ones are among them."""
    best: Detection | None = None
    for at, line in candidates:
        for delimiter in delimiters:
            columns = Columns.match(split_line(line, delimiter), GENERIC.columns)
            if "date" not in columns.roles and "datetime" not in columns.roles and "time" in columns.roles:
                columns.roles["datetime"] = columns.roles.pop("time")
            enough = all(any(role in columns.roles for role in roles) for roles in NEEDED.values())
            if enough and (best is None or best.columns is None or len(columns.roles) > len(best.columns.roles)):
                best = Detection(
                    kind="flat",
                    broker=wanted or "generic",
                    name="generic",
                    detected_by="hint" if wanted else "generic",
                    header=at,
                    delimiter=delimiter,
                    layout=GENERIC,
                    columns=columns,
                )
    return best


def _refuse_format(candidates: Sequence[tuple[int, str]], delimiters: Sequence[str]) -> ImportRefused:
    """Tells the headers of the widest leading line, and which needed columns were not found there."""
    widest: list[str] = []
    for _, line in candidates:
        for delimiter in delimiters:
            cells = split_line(line, delimiter)
            widest = cells if len(cells) > len(widest) else widest
    roles = Columns.match(widest, GENERIC.columns).roles
    missing = [name for name, any_of in NEEDED.items() if not any(role in roles for role in any_of)]
    headers = tuple(plain_text(cell, 40) for cell in widest[:40] if cell)
    return ImportRefused(
        "unknown_broker_format",
        f"The columns are not those of a broker we know; no column for {', '.join(missing) or 'trades'}.",
        where=f"headers seen: {', '.join(headers) or 'none'}",
        next="Name the columns Date, Symbol, Side, Quantity and Price, or pass broker_hint.",
        headers=headers,
    )


def detect_bank_format(text: str, hints: BankHints) -> str:
    """csv, ofx, qif or camt: the hint, else the content, else the extension."""
    hint = hints.format.lower().strip().lstrip(".")
    hint = {"qfx": "ofx", "txt": "csv", "camt.053": "camt", "camt053": "camt", "xml": "auto"}.get(hint, hint)
    if hint not in ("", "auto", *BANK_FORMATS):
        raise ImportRefused(
            "unknown_format_hint",
            f"No bank format is called {plain_text(hints.format, 40)!r}.",
            next="Leave format_hint at auto or use csv, ofx or qif.",
        )
    if hint in BANK_FORMATS:
        return hint
    head = text[:4096].lstrip("\ufeff \t\r\n").upper()
    if head.startswith("OFXHEADER") or "<OFX>" in head or "<?OFX" in head:
        return "ofx"
    if "BKTOCSTMRSTMT" in head:
        return "camt"
    if head.startswith("!"):
        return "qif"
    extension = hints.file_name.lower().rpartition(".")[2]
    return {"ofx": "ofx", "qfx": "ofx", "qif": "qif"}.get(extension, "csv")
