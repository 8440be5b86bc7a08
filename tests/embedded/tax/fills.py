"""Short ways to write executions in tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

from zorivest_rpc.embedded.tax.book import Event, LotBook, build
from zorivest_rpc.embedded.tax.model import OptionDelivery, StockSplit, TaxFill
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

_serial = count(1)


def at(day: str, minute: int = 0) -> datetime:
    """Noon in New York, more or less, on a day; `minute` orders fills of one day."""
    return datetime.fromisoformat(day).replace(hour=16, tzinfo=UTC) + timedelta(minutes=minute)


def dec(value: int | float | str | Decimal) -> Decimal:
    return Decimal(str(value))


def decs(*values: int | str) -> tuple[Decimal, ...]:
    return tuple(dec(value) for value in values)


def fill(
    side: Side, symbol: str, quantity: int | str, price: int | float | str, day: str, *, minute: int = 0, **rest: Any
) -> TaxFill:
    rest.setdefault("exec_id", f"e{next(_serial):06d}")
    rest.setdefault("account_id", "A")
    if "commission" in rest:
        rest["commission"] = dec(rest["commission"])
    if rest.get("asset_class") is AssetClass.OPTION:
        rest.setdefault("multiplier", Decimal(100))
    return TaxFill(time=at(day, minute), symbol=symbol, side=side, quantity=dec(quantity), price=dec(price), **rest)


def buy(symbol: str, quantity: int | str, price: int | float | str, day: str, minute: int = 0, **rest: Any) -> TaxFill:
    return fill(Side.BOT, symbol, quantity, price, day, minute=minute, **rest)


def sell(symbol: str, quantity: int | str, price: int | float | str, day: str, minute: int = 0, **rest: Any) -> TaxFill:
    return fill(Side.SLD, symbol, quantity, price, day, minute=minute, **rest)


def split(symbol: str, to: int | str, day: str, of: int | str = 1, account_id: str | None = None) -> StockSplit:
    name = f"s{next(_serial):06d}"
    return StockSplit(exec_id=name, time=at(day), symbol=symbol, to=dec(to), of=dec(of), account_id=account_id)


def deliver(symbol: str, contracts: int, day: str, account_id: str = "A", commission: str = "0") -> OptionDelivery:
    return OptionDelivery(
        exec_id=f"d{next(_serial):06d}",
        time=at(day),
        account_id=account_id,
        symbol=symbol,
        contracts=dec(contracts),
        commission=dec(commission),
    )


def book_of(*events: Event, **rest: Any) -> LotBook:
    return build(events, LotBook(**rest))
