"""Tradovate's performance report: each row pairs a buy fill with a sell fill and becomes these two fills.

The one with the earlier time opened the position; a row whose buy is later than its sale was short."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal

from zorivest_rpc.embedded.imports.collect import TradeCollector
from zorivest_rpc.embedded.imports.drafts import TradeDraft
from zorivest_rpc.embedded.imports.rows import BLANKS, Columns, Reading, Record, Row, RowRefused, usable
from zorivest_rpc.embedded.imports.symbols import parse_symbol
from zorivest_rpc.embedded.imports.values import BadValue, plain_text
from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["COLUMNS", "FINGERPRINT", "read_tradovate"]

FINGERPRINT = ("symbol", "buyfillid", "sellfillid", "qty", "buyprice", "sellprice", "boughttimestamp", "soldtimestamp")
COLUMNS = {
    "symbol": "symbol",
    "buy_id": "buyfillid",
    "sell_id": "sellfillid",
    "quantity": "qty",
    "buy_price": "buyprice",
    "sell_price": "sellprice",
    "profit": "pnl",
    "bought": "boughttimestamp",
    "sold": "soldtimestamp",
}


def read_tradovate(rows: Iterable[Row], columns: Columns, reading: Reading, into: TradeCollector) -> None:
    """Two fills per row, the earlier one first; a row of which either half is unreadable is refused whole."""
    for row in usable(rows, columns, into.refuse):
        try:
            into.add(*_pair(Record(row, columns, reading), into))
        except RowRefused as exc:
            into.refuse_row(row, exc)


def _pair(record: Record, into: TradeCollector) -> list[TradeDraft]:
    quantity = record.require_decimal("quantity")
    if quantity <= 0:
        raise RowRefused("quantity", "is not positive")
    bought, sold = record.moment_of("bought"), record.moment_of("sold")
    symbol = _symbol(record, bought.date())
    multiplier = into.multiplier(symbol)
    paid, got = record.price("buy_price", symbol), record.price("sell_price", symbol)
    into.check_profit(record, "profit", (got - paid) * quantity * multiplier, Decimal(0), symbol)
    ids = [plain_text(record.text(role), 40) for role in ("buy_id", "sell_id")]
    name = "-".join(ids) if not any(one.lower() in BLANKS for one in ids) else ""
    fills = [(bought, ids[0], Side.BOT, paid), (sold, ids[1], Side.SLD, got)]
    fills.sort(key=lambda fill: (fill[0], fill[1].zfill(40)))  # of equal seconds the lower fill number was first
    drafts: list[TradeDraft] = []
    for moment, _, side, price in fills:
        into.check_tick(symbol, price, multiplier, record.row.number)
        drafts.append(
            TradeDraft(
                row_number=record.row.number,
                broker="tradovate",
                account_id=into.hints.account_id,
                exec_time=moment,
                instrument=plain_text(record.text("symbol"), 80),
                symbol=symbol.symbol,
                asset_class=symbol.asset_class,
                side=side,
                quantity=quantity,
                price=price,
                multiplier=multiplier,
                currency=record.reading.currency,
                exec_id=name and f"tv-{name}-{side.value}",
                realized_pnl=record.decimal("profit") if drafts else None,  # of the exit, the later one
            )
        )
    return drafts


def _symbol(record: Record, day: dt.date) -> Instrument:
    try:
        return parse_symbol(record.require("symbol"), AssetClass.FUTURE, day)
    except BadValue as exc:
        raise RowRefused("symbol", str(exc)) from None
