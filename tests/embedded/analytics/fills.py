"""Executions of the tests of round trips, one minute apart unless told otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from zorivest_rpc.embedded.analytics.positions import Execution, Sign, SplitRatio

START = datetime(2026, 3, 2, 14, 30, tzinfo=UTC)
D = Decimal


def fill(
    number: int,
    side: Sign,
    quantity: str | Decimal,
    price: str | Decimal,
    *,
    fee: str | Decimal = "0",
    minute: int | None = None,
    symbol: str = "SPY",
    account: str = "A1",
    multiplier: str = "1",
) -> Execution:
    moment = START + timedelta(minutes=number if minute is None else minute)
    return Execution(f"E{number:04d}", account, symbol, moment, side, D(quantity), D(price), D(multiplier), D(fee))


SPY = ("A1", "SPY")


def split(minute: int, to: str, of: str = "1") -> SplitRatio:
    return SplitRatio(START + timedelta(minutes=minute), D(to), D(of))
