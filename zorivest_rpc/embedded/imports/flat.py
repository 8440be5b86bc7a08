"""Reads a flat broker table, one fill per row, by a layout's roles."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from decimal import Decimal

from zorivest_rpc.embedded.imports.collect import TradeCollector, costs
from zorivest_rpc.embedded.imports.drafts import Effect, FeeType, TradeDraft
from zorivest_rpc.embedded.imports.events import is_sweep, kind_of, read_event
from zorivest_rpc.embedded.imports.layouts import ASSETS, Layout
from zorivest_rpc.embedded.imports.rows import (
    BLANKS,
    Columns,
    Reading,
    Record,
    Row,
    RowRefused,
    squash,
    usable,
)
from zorivest_rpc.embedded.imports.sides import (
    Signs,
    Stated,
    check_amount,
    decide_side,
    hidden_cost,
    read_words,
)
from zorivest_rpc.embedded.imports.symbols import option, parse_symbol
from zorivest_rpc.embedded.imports.values import BadValue, currency_code, plain_text
from zorivest_rpc.embedded.values.identifiers import classify, normalise
from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["read_flat", "read_record"]

_SENTENCE = 3  # blanks
_PRICE = re.compile(r"@ *\$?(\d[\d,]*(?:\.\d+)?)")
_FOOTER = re.compile(r"(?:transactions? |grand )?total\b|date downloaded|disclosure|\*\*\*", re.IGNORECASE)


def read_flat(
    rows: Iterable[Row],
    columns: Columns,
    layout: Layout,
    reading: Reading,
    *,
    broker: str,
    into: TradeCollector,
    signs: Signs | None = None,
) -> None:
    """Every row of a flat table becomes a fill, a skip or an error."""
    signs = signs or Signs(quantity=layout.signed_quantity)
    for row in usable(rows, columns, into.refuse):
        if _is_footer(row):
            continue
        record = Record(row, columns, reading)
        try:
            draft = read_record(record, layout, broker, into, signs)
        except RowRefused as exc:
            into.refuse_row(row, exc)
            continue
        if draft:
            into.add(draft)


def _is_footer(row: Row) -> bool:
    """A total, or a sentence that stands alone in its row."""
    first, *others = [cell for cell in row.cells if cell]
    return _FOOTER.match(first) is not None or (not others and first.count(" ") >= _SENTENCE)


# long: the first thing that is wrong with a row is the one that is told, so the order of the checks is one text
def read_record(record: Record, layout: Layout, broker: str, into: TradeCollector, signs: Signs) -> TradeDraft | None:
    """One fill, or None after telling `into` that the row is no trade."""
    if layout.keep and squash(record.text(layout.keep[0])) not in layout.keep[1]:
        _leave_out(record, into, "not_filled" if layout.keep[0] == "status" else None)
        return None
    stated = read_words(record, phrases=layout.phrases)
    if stated.side is None and _is_no_trade(record, layout, into):
        return None
    quantity = record.require_decimal("quantity")
    if not quantity:
        raise RowRefused("quantity", "is zero")
    side = decide_side(record, stated, quantity, signs)
    moment, time_known = record.moment()
    symbol = _symbol(record, layout, moment.date())
    if symbol.asset_class is not AssetClass.FUTURE and is_sweep(symbol, record.decimal("price")):
        into.skip("", "sweep")
        return None
    multiplier = into.multiplier(symbol, record.decimal("multiplier"))
    price = _price(record, layout, symbol, multiplier)
    into.check_tick(symbol, price, multiplier, record.row.number)
    check_amount(record, stated, side, price * quantity * multiplier, symbol.asset_class, signs)
    currency = _currency(record)
    paid = _commission(record, layout)
    extras = [(kind, _cost(record, role, layout), role.replace("_", " ")) for role, kind in layout.fees.items()]
    hidden = hidden_cost(record, side, symbol, price * abs(quantity) * multiplier, signs)
    if hidden is not None:
        hidden -= paid + sum((amount for _, amount, _ in extras), Decimal(0))
        if hidden and into.take_hidden(hidden, price * abs(quantity) * multiplier, abs(quantity), symbol):
            extras.append((FeeType.OTHER, hidden, "inside the amount"))
    commission, fees, ledger = costs(paid, extras, currency)
    into.account(record.text("account"), record.row.number)
    return TradeDraft(
        row_number=record.row.number,
        broker=broker,
        account_id=into.hints.account_id,
        exec_time=moment,
        time_known=time_known,
        instrument=plain_text(record.text("symbol"), 80),
        symbol=symbol.symbol,
        asset_class=symbol.asset_class,
        side=side,
        quantity=abs(quantity),
        price=price,
        multiplier=multiplier,
        currency=currency,
        commission=commission,
        fees=fees,
        ledger=ledger,
        exec_id=_exec_id(record),
        order_id=_id(record, "order_id") or None,
        realized_pnl=record.decimal("profit"),
        notes=plain_text(record.text("notes")),
        identifier=_identifier(record),
        effect=stated.effect or _usual_effect(layout, stated),
    )


def _is_no_trade(record: Record, layout: Layout, into: TradeCollector) -> bool:
    """Whether a row without a side is something else than a fill; it is counted then."""
    word = record.text("side")
    is_blank = word.lower() in BLANKS
    if is_blank:
        is_trade = not layout.phrases if layout.skip_unknown_side else True
        if is_trade and (record.decimal("quantity") is not None or not layout.skip_unknown_side):
            return False
    elif not (layout.skip_unknown_side or _has_no_fill(record)):
        raise RowRefused("side", f"{plain_text(word, 40)!r} is neither a buy nor a sale")
    _leave_out(record, into)
    return True


def _leave_out(record: Record, into: TradeCollector, kind: str | None = None) -> None:
    """A row that is no fill: an event of a position, or counted by its kind."""
    event = None if kind else read_event(record)
    if event is not None:
        into.add_event(event)
        return
    kind = kind or kind_of(record)
    tally = "not_filled_skipped" if kind == "not_filled" else ""
    into.skip("option_events_skipped" if kind in ("expiry", "assignment", "exercise") else tally, kind)


def _usual_effect(layout: Layout, stated: Stated) -> Effect | None:
    """At brokers that call a short sale by that name, a plain Sell closes and a plain Buy opens."""
    if not layout.names_shorts or stated.side is None:
        return None
    return Effect.OPEN if stated.side is Side.BOT else Effect.CLOSE


def _has_no_fill(record: Record) -> bool:
    return not (record.decimal("quantity") and record.decimal("price") is not None)


def _symbol(record: Record, layout: Layout, near: dt.date) -> Instrument:
    asset = _asset(record)
    text = record.require("symbol")
    try:
        if squash(record.text("side")) in layout.option_sides:
            stated = parse_symbol(record.text(layout.contract), AssetClass.OPTION, near)
            if stated.contract is None:
                raise BadValue("is an option, but the row does not say which")
            return stated
        strike, expiry, right = record.decimal("strike"), record.date("expiry"), record.text("right")
        if strike is not None and expiry and right.lower() not in BLANKS:
            return option(text, expiry, right, strike)
        return parse_symbol(text, asset, near)
    except BadValue as exc:
        raise RowRefused("symbol", str(exc)) from None


def _asset(record: Record) -> AssetClass | None:
    return ASSETS.get(" ".join(record.text("asset").lower().split()))


def _price(record: Record, layout: Layout, symbol: Instrument, multiplier: Decimal) -> Decimal:
    if layout.price_times_multiplier and record.text("price").lower() in BLANKS and record.text("average"):
        average = record.require_decimal("average")  # money per contract, signed by the cash flow
        if not average and (stated := _PRICE.search(record.text("notes"))):  # no money flows for a future
            return Decimal(stated[1].replace(",", ""))
        if not average and symbol.asset_class is AssetClass.FUTURE:
            raise RowRefused("price", "is missing")
        return abs(average) / multiplier
    return record.price("price", symbol)


def _commission(record: Record, layout: Layout) -> Decimal:
    if layout.broker == "ibkr":  # charges are negative there, so a positive amount is a rebate
        return -(record.decimal("commission") or Decimal(0)) or Decimal(0)
    return _cost(record, "commission", layout)


def _cost(record: Record, role: str, layout: Layout) -> Decimal:
    amount = record.decimal(role) or Decimal(0)
    return amount if role in layout.signed else abs(amount)


def _currency(record: Record) -> str:
    try:
        return currency_code(record.text("currency"), record.reading.currency)
    except BadValue as exc:
        raise RowRefused("currency", str(exc)) from None


def _exec_id(record: Record) -> str:
    """The broker's id of the fill, or its order's with the number of the fill."""
    order, fill = _id(record, "order_id"), _id(record, "fill")
    return _id(record, "exec_id") or (f"{order}-{fill}" if order and fill else "")


def _id(record: Record, role: str) -> str:
    value = record.text(role)
    return "" if value.lower() in BLANKS else plain_text(value.lstrip("#"), 80)


def _identifier(record: Record) -> tuple[str, str] | None:
    """A security named by number: nine or more signs with a right check digit, which no ticker has."""
    text = normalise(record.text("symbol"))
    if len(text) < 9 or not any(char.isdigit() for char in text):
        return None
    kind = classify(text)
    return (kind.value, text) if kind else None
