"""NinjaTrader's trade list: each row is a whole round trip and becomes two fills, the entry and the exit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal

from zorivest_rpc.embedded.imports.collect import TradeCollector, costs
from zorivest_rpc.embedded.imports.drafts import FeeType, TradeDraft
from zorivest_rpc.embedded.imports.rows import Columns, Reading, Record, Row, RowRefused, usable
from zorivest_rpc.embedded.imports.symbols import parse_symbol
from zorivest_rpc.embedded.imports.values import BadValue, parse_side, plain_text
from zorivest_rpc.embedded.values.kinds import Side
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["COLUMNS", "FINGERPRINT", "read_ninjatrader"]

FINGERPRINT = ("trade#|tradenumber", "instrument", "account", "strategy", "entryprice", "exitprice")
COLUMNS = {
    "number": "trade#|tradenumber",
    "instrument": "instrument",
    "account": "account",
    "strategy": "strategy",
    "position": "marketpos|marketposition|direction",
    "quantity": "quantity|qty",
    "entry_price": "entryprice",
    "exit_price": "exitprice",
    "entry_time": "entrytime",
    "exit_time": "exittime",
    "profit": "profit",
    "commission": "commission",
    "clearing_fee": "clearingfee",
    "exchange_fee": "exchangefee",
    "ip_fee": "ipfee",
    "nfa_fee": "nfafee",
    "mae": "mae",
    "mfe": "mfe",
}


FEES = {
    "clearing_fee": FeeType.CLEARING,
    "exchange_fee": FeeType.EXCHANGE,
    "ip_fee": FeeType.PLATFORM,
    "nfa_fee": FeeType.REGULATORY,
}


def read_ninjatrader(rows: Iterable[Row], columns: Columns, reading: Reading, into: TradeCollector) -> None:
    """Two fills per row; a row of which either half is unreadable is refused whole."""
    for row in usable(rows, columns, into.refuse):
        try:
            into.add(*_round_trip(Record(row, columns, reading), into))
        except RowRefused as exc:
            into.refuse_row(row, exc)


def _round_trip(record: Record, into: TradeCollector) -> tuple[TradeDraft, TradeDraft]:
    word = record.require("position")
    opening = parse_side(word)
    if opening is None:
        raise RowRefused("position", f"{plain_text(word, 40)!r} is neither long nor short")
    quantity = record.require_decimal("quantity")
    if quantity <= 0:
        raise RowRefused("quantity", "is not positive")
    paid = {role: abs(record.decimal(role) or Decimal(0)) for role in ("commission", *FEES)}
    half = {role: amount / 2 for role, amount in paid.items()}
    rest = {role: amount - half[role] for role, amount in paid.items()}
    entered, left = record.moment_of("entry_time"), record.moment_of("exit_time")
    if left < entered:
        raise RowRefused("exit_time", "is before the entry")
    symbol = _symbol(record, entered.date())
    into.account(record.text("account"), record.row.number)
    entry = _fill(
        record, into, symbol, side=opening, moment=entered, price_role="entry_price", quantity=quantity, paid=half
    )
    leave = _fill(
        record,
        into,
        symbol,
        side=opening.opposite,
        moment=left,
        price_role="exit_price",
        quantity=quantity,
        paid=rest,
    )
    direction = 1 if opening is Side.BOT else -1
    gross = direction * (leave.price - entry.price) * quantity * leave.multiplier
    into.check_profit(record, "profit", gross, sum(paid.values(), Decimal(0)), symbol)
    return entry, leave


def _fill(
    record: Record,
    into: TradeCollector,
    symbol: Instrument,
    *,
    side: Side,
    moment: dt.datetime,
    price_role: str,
    quantity: Decimal,
    paid: dict[str, Decimal],
) -> TradeDraft:
    is_exit = price_role == "exit_price"
    price = record.price(price_role, symbol)
    multiplier = into.multiplier(symbol)
    into.check_tick(symbol, price, multiplier, record.row.number)
    extras = [(kind, paid[role], role.replace("_", " ")) for role, kind in FEES.items()]
    commission, fees, ledger = costs(paid["commission"], extras, record.reading.currency)
    number = plain_text(record.text("number"), 20)
    return TradeDraft(
        row_number=record.row.number,
        broker="ninjatrader",
        account_id=into.hints.account_id,
        exec_time=moment,
        instrument=plain_text(record.text("instrument"), 80),
        symbol=symbol.symbol,
        asset_class=symbol.asset_class,
        side=side,
        quantity=quantity,
        price=price,
        multiplier=multiplier,
        currency=record.reading.currency,
        commission=commission,
        fees=fees,
        ledger=ledger,
        realized_pnl=record.decimal("profit") if is_exit else None,
        notes=f"{'exit' if is_exit else 'entry'} of trade {number}" if number else "",
        strategy=plain_text(record.text("strategy"), 80),
        mae=record.decimal("mae") if is_exit else None,
        mfe=record.decimal("mfe") if is_exit else None,
    )


def _symbol(record: Record, day: dt.date) -> Instrument:
    try:
        return parse_symbol(record.require("instrument"), None, day)
    except BadValue as exc:
        raise RowRefused("instrument", str(exc)) from None
