"""The Trades section of an Interactive Brokers activity statement in CSV.

Every line begins with its section and `Header` or `Data`. Order rows may be followed by the Trade rows they consist of;
those replace the order when their quantities add up to it, so that nothing counts twice.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal

from zorivest_rpc.embedded.imports.collect import TradeCollector, costs
from zorivest_rpc.embedded.imports.drafts import Effect, RateDraft, TradeDraft
from zorivest_rpc.embedded.imports.layouts import ASSETS
from zorivest_rpc.embedded.imports.rows import (
    Columns,
    Reading,
    Record,
    RowRefused,
    read_rows,
    split_line,
    squash,
)
from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.symbols import parse_symbol
from zorivest_rpc.embedded.imports.values import (
    BadValue,
    currency_code,
    parse_decimal,
    parse_effect,
    plain_text,
)
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

__all__ = ["is_activity", "read_activity"]

COLUMNS = {
    "kind": "datadiscriminator",
    "asset": "assetcategory",
    "currency": "currency",
    "symbol": "symbol",
    "account": "account",
    "datetime": "date/time",
    "quantity": "quantity",
    "price": "tprice|tradeprice|price",
    "commission": "comm/fee|commission|comm",
    "profit": "realizedp/l",
    "code": "code",
}
START = "trades,header,"
_COMM_IN = re.compile(r"(?i)comm(?:/fee)? in ([a-z]{3})")


def is_activity(lines: Sequence[str]) -> bool:
    return any(line[:40].lower().replace('"', "").startswith(START) for line in lines)


def read_activity(lines: Sequence[str], reading: Reading, budget: Budget, into: TradeCollector) -> None:
    """All trades of the statement; other sections tell the account and the multipliers."""
    multipliers = _multipliers(lines)
    columns: Columns | None = None
    ending: dt.date | None = None
    orders = _Orders(into)
    for row in read_rows(lines, ",", budget):
        if row.broken and row.raw.lower().startswith("trades,"):
            into.refuse(row, "row", row.broken)
            continue
        section = [cell.lower() for cell in row.cells[:3]]
        if section == ["account information", "data", "account"] and len(row.cells) > 3:
            into.account(row.cells[3].split(" ")[0], row.number)
        elif section == ["account information", "data", "base currency"] and len(row.cells) > 3:
            into.base_currency = row.cells[3].strip().upper()[:8] or None
        elif section == ["statement", "data", "period"] and len(row.cells) > 3:
            ending = _last_day(row.cells[3])
        elif section[:2] == ["base currency exchange rate", "data"] and ending is not None:
            _take_rate(row.cells[2:], ending, into)
        elif section[:2] == ["trades", "header"]:
            columns = _columns(row.cells)
        elif section[:2] == ["trades", "data"] and columns is not None:
            if row.ends_file and len(row.cells) < len(columns.headers):
                into.refuse(row, "row", "is cut short at the end of the file")
                continue
            _take(Record(row, columns, reading), multipliers, orders, into)
    orders.close()


def _columns(cells: Sequence[str]) -> Columns:
    """The roles of a header; the commissions of currency pairs stand under the name of the account's currency."""
    named = [squash(cell) for cell in cells if _COMM_IN.search(cell)]
    return Columns.match(cells, {**COLUMNS, "commission": "|".join([*named, COLUMNS["commission"]])})


def _last_day(period: str) -> dt.date | None:
    """`January 2, 2026 - January 30, 2026`, or one day."""
    try:
        return dt.datetime.strptime(period.rsplit(" - ", maxsplit=1)[-1].strip(), "%B %d, %Y").date()
    except ValueError:
        return None


def _take_rate(cells: Sequence[str], day: dt.date, into: TradeCollector) -> None:
    """What one unit of a currency was worth in the account's own at the end of the statement."""
    try:
        code, rate = currency_code(cells[0], ""), parse_decimal(cells[1], ".")
    except (BadValue, IndexError):
        return
    if code and into.base_currency and code != into.base_currency and rate > 0:
        into.rates.append(RateDraft(day=day, base=code, quote=into.base_currency, rate=rate))


def _fee_currency(columns: Columns) -> str:
    """`Comm in USD` above the commissions of currency pairs says that they are not in the pair's currency."""
    place = columns.roles.get("commission")
    match = None if place is None else _COMM_IN.search(columns.headers[place])
    return match[1].upper() if match else ""


def _take(record: Record, multipliers: dict[str, Decimal], orders: _Orders, into: TradeCollector) -> None:
    kind = record.text("kind").lower()
    if kind not in ("order", "trade"):
        return
    if "Ca" in record.text("code").replace(" ", "").split(";"):
        into.skip("cancelled_skipped", "cancelled")
        return
    try:
        draft = _fill(record, multipliers, into)
    except RowRefused as exc:
        into.refuse_row(record.row, exc)
        return
    if kind == "order":
        orders.order(draft)
    else:
        orders.part(draft)


class _Orders:
    """Holds an order back until it is known whether its parts follow."""

    def __init__(self, into: TradeCollector) -> None:
        self._into = into
        self._order: TradeDraft | None = None
        self._parts: list[TradeDraft] = []

    def order(self, draft: TradeDraft) -> None:
        self.close()
        self._order = draft

    def part(self, draft: TradeDraft) -> None:
        if self._order and (self._order.symbol, self._order.side) != (draft.symbol, draft.side):
            self.close()
        self._parts.append(draft)

    def close(self) -> None:
        total = sum((part.quantity for part in self._parts), Decimal(0))
        if self._order and total != self._order.quantity:
            self._into.add(self._order)
        elif self._parts:
            self._into.add(*self._parts)
        self._order, self._parts = None, []


def _multipliers(lines: Sequence[str]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    columns: Columns | None = None
    for line in lines:
        if not line.startswith("Financial Instrument Information,"):
            continue
        cells = split_line(line, ",")
        if cells[1:2] == ["Header"]:
            columns = Columns.match(cells, {"symbol": "symbol", "multiplier": "multiplier"})
        elif columns and {"symbol", "multiplier"} <= columns.roles.keys() and len(cells) > max(columns.roles.values()):
            try:
                value = parse_decimal(cells[columns.roles["multiplier"]])
            except BadValue:
                continue
            if value > 0:
                found[cells[columns.roles["symbol"]]] = value
    return found


def _fill(record: Record, multipliers: dict[str, Decimal], into: TradeCollector) -> TradeDraft:
    quantity = record.require_decimal("quantity")
    if not quantity:
        raise RowRefused("quantity", "is zero")
    moment, known = record.moment()
    text = record.require("symbol")
    asset = ASSETS.get(record.text("asset").lower().split(" - ")[0].strip(), AssetClass.EQUITY)
    try:
        symbol = parse_symbol(text, asset, moment.date())
        currency = currency_code(record.text("currency"), record.reading.currency)
    except BadValue as exc:
        raise RowRefused("symbol", str(exc)) from None
    price = record.price("price", symbol)
    paid = -(record.decimal("commission") or Decimal(0)) or Decimal(0)
    commission, fees, ledger = costs(paid, [], currency)
    return TradeDraft(
        row_number=record.row.number,
        broker="ibkr",
        account_id=into.hints.account_id,
        exec_time=moment,
        time_known=known,
        instrument=plain_text(text, 80),
        symbol=symbol.symbol,
        asset_class=symbol.asset_class,
        side=Side.BOT if quantity > 0 else Side.SLD,
        quantity=abs(quantity),
        price=price,
        multiplier=into.multiplier(symbol, multipliers.get(text)),
        currency=currency,
        commission=commission,
        fees=fees,
        ledger=ledger,
        realized_pnl=record.decimal("profit"),
        fee_currency=_fee_currency(record.columns),
        base_currency=into.base_currency,
        effect=_effect(record),
    )


def _effect(record: Record) -> Effect | None:
    """The codes O and C; a fill with both closed one position and opened another."""
    codes = {parse_effect(code) for code in record.text("code").split(";")} - {None}
    return codes.pop() if len(codes) == 1 else None
