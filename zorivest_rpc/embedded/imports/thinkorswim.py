"""The trade history section of a ThinkorSwim account statement.

The first leg of an order names time and spread; the following legs leave both blank and inherit them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.collect import TradeCollector, costs
from zorivest_rpc.embedded.imports.drafts import TradeDraft
from zorivest_rpc.embedded.imports.layouts import ASSETS
from zorivest_rpc.embedded.imports.rows import (
    BLANKS,
    Columns,
    Reading,
    Record,
    Row,
    RowRefused,
    read_rows,
    split_line,
    squash,
    usable,
)
from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.symbols import option, parse_symbol
from zorivest_rpc.embedded.imports.thinkorswim_cash import charge, read_charges
from zorivest_rpc.embedded.imports.values import BadValue, parse_date, parse_effect, parse_side, plain_text
from zorivest_rpc.embedded.values.kinds import Side
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["FINGERPRINT", "find_header", "read_thinkorswim"]

FINGERPRINT = frozenset({"exectime", "spread", "side", "qty"})
COLUMNS = {
    "datetime": "exectime",
    "spread": "spread",
    "side": "side",
    "quantity": "qty|quantity",
    "effect": "poseffect",
    "symbol": "symbol",
    "expiry": "exp|expiration",
    "strike": "strike",
    "type": "type",
    "price": "price",
    "net": "netprice",
    "order_id": "orderid",
}
SINGLE = frozenset({"single", "stock", "etf", "future", "futures", "forex", "crypto", ""})


def find_header(lines: Sequence[str], delimiter: str = ",", leading: int = 0) -> int | None:
    """The line of the header: under the title "Trade History" wherever that stands, else among the `leading` lines."""
    for at, line in enumerate(lines):
        if "trade history" in line.lower() and line.count(delimiter) < 2:
            below = (i for i in range(at + 1, min(at + 5, len(lines))) if lines[i].strip())
            header = next(below, None)
            if header is not None and _is_header(lines[header], delimiter):
                return header
    return next((at for at, line in enumerate(lines[:leading]) if _is_header(line, delimiter)), None)


def _is_header(line: str, delimiter: str) -> bool:
    return {squash(cell) for cell in split_line(line, delimiter)} >= FINGERPRINT


def read_thinkorswim(
    lines: Sequence[str], header: int, delimiter: str, reading: Reading, *, budget: Budget, into: TradeCollector
) -> None:
    """The rows of the section, up to the first line that has no delimiter."""
    columns = Columns.match(split_line(lines[header], delimiter), COLUMNS)
    end = next((at for at in range(header + 1, len(lines)) if delimiter not in lines[at]), len(lines))
    carried: tuple[str, str] = ("", "")
    charges = read_charges(lines, delimiter, reading)
    drafts: list[TradeDraft] = []
    for row in usable(read_rows(lines, delimiter, budget, header + 1, end), columns, into.refuse):
        record = Record(row, columns, reading)
        is_first = record.text("datetime").lower() not in BLANKS
        if is_first:
            carried = (record.text("datetime"), record.text("spread"))
        try:
            drafts.append(_fill(_inherit(record, carried), is_first, into))
        except RowRefused as exc:
            into.refuse_row(row, exc)
    for draft in charge(drafts, charges, into):
        into.add(draft)


def _inherit(record: Record, carried: tuple[str, str]) -> Record:
    cells = list(record.row.cells)
    for role, value in zip(("datetime", "spread"), carried, strict=True):
        place = record.columns.roles[role]
        if place < len(cells) and cells[place].lower() in BLANKS:
            cells[place] = value
    row: Row = msgspec.structs.replace(record.row, cells=cells)
    return Record(row, record.columns, record.reading)


def _fill(record: Record, is_first: bool, into: TradeCollector) -> TradeDraft:
    quantity = record.require_decimal("quantity")
    if not quantity:
        raise RowRefused("quantity", "is zero")
    word = record.text("side")
    side = parse_side(word) if word else (Side.BOT if quantity > 0 else Side.SLD)
    if side is None:
        raise RowRefused("side", f"{plain_text(word, 40)!r} is neither a buy nor a sale")
    if quantity < 0 and side is Side.BOT:
        raise RowRefused("side", f"{plain_text(word, 40)!r} contradicts the sign of the quantity {quantity:f}")
    moment, known = record.moment()
    symbol = _symbol(record, moment.date())
    price = record.price("price", symbol)
    multiplier = into.multiplier(symbol)
    into.check_tick(symbol, price, multiplier, record.row.number)
    paid = Decimal(0)
    spread = record.text("spread").lower()
    if is_first and spread in SINGLE and (net := _net(record, symbol)) is not None:
        paid = abs(price - net) * abs(quantity) * multiplier
    commission, fees, ledger = costs(paid, [], record.reading.currency)
    return TradeDraft(
        row_number=record.row.number,
        broker="thinkorswim",
        account_id=into.hints.account_id,
        exec_time=moment,
        time_known=known,
        instrument=plain_text(record.text("symbol"), 80),
        symbol=symbol.symbol,
        asset_class=symbol.asset_class,
        side=side,
        quantity=abs(quantity),
        price=price,
        multiplier=multiplier,
        currency=record.reading.currency,
        commission=commission,
        fees=fees,
        ledger=ledger,
        order_id=plain_text(record.text("order_id"), 80) or None,
        effect=parse_effect(record.text("effect")),
        notes=plain_text(" ".join(filter(None, (record.text("spread"), record.text("effect"))))),
    )


def _net(record: Record, symbol: Instrument) -> Decimal | None:
    """The net price; later legs of a spread say DEBIT or CREDIT there."""
    text = record.text("net")
    return None if re.search(r"[A-Za-z]", text) or text.lower() in BLANKS else record.price("net", symbol)


def _symbol(record: Record, day: dt.date) -> Instrument:
    text, kind = record.require("symbol"), record.text("type").lower()
    try:
        if kind in ("call", "put") and not text.startswith("."):
            strike = record.require_decimal("strike")
            expiry = parse_date(record.require("expiry").partition("(")[0], record.reading.day_first)
            return option(text, expiry, kind, strike)
        return parse_symbol(text, ASSETS.get(kind), day)
    except BadValue as exc:
        raise RowRefused("symbol", str(exc)) from None
