"""What changes a position without a fill: share splits, and options that expired without a closing trade."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.analytics.money import ZERO, exactly
from zorivest_rpc.embedded.analytics.round_trips import Episode, Execution
from zorivest_rpc.embedded.symbols import Contract

__all__ = ["Settlement", "Split", "adjust_for_splits", "settle_expired"]


class Split(msgspec.Struct, frozen=True):
    """From `effective` on one old share is `ratio` new ones: 4 for a four-for-one, 0.1 for a one-for-ten."""

    symbol: str
    effective: datetime
    ratio: Decimal


class Settlement(msgspec.Struct, frozen=True):
    """How an open option stands after its last day: a closing execution at zero, or a flag that nobody knows."""

    execution: Execution | None = None
    flag: Literal["expired_unresolved"] | None = None


@exactly
def adjust_for_splits(executions: Iterable[Execution], splits: Iterable[Split]) -> list[Execution]:
    """Executions before a split in the shares that trade after it: more of them, each at less, the same money."""
    known = list(splits)
    adjusted = []
    for execution in executions:
        ratio = Decimal(1)
        for split in known:
            if split.symbol == execution.symbol and execution.time < split.effective:
                ratio *= split.ratio
        if ratio == 1:
            adjusted.append(execution)
        else:
            adjusted.append(
                msgspec.structs.replace(execution, quantity=execution.quantity * ratio, price=execution.price / ratio)
            )
    return adjusted


def settle_expired(episode: Episode, contract: Contract, underlying: Decimal | None, today: date) -> Settlement:
    """The fate of an open option episode on `today`, given the last known price of the underlying.

    Out of (or exactly at) the money it ended worthless: a close at zero on the day after expiry. In the money it was
    exercised, assigned or cash-settled, which only the broker knows; so it stays open, with a flag. Without a price of
    the underlying it stays open too."""
    if not episode.open_quantity or today <= contract.expiry:
        return Settlement()
    if underlying is None:
        return Settlement(flag="expired_unresolved")
    worthless = underlying <= contract.strike if contract.right == "C" else underlying >= contract.strike
    if not worthless:
        return Settlement(flag="expired_unresolved")
    return Settlement(
        Execution(
            exec_id=f"{episode.id}-expired",
            account_id=episode.account_id,
            symbol=episode.symbol,
            time=datetime.combine(contract.expiry + timedelta(days=1), time(), UTC),
            side=-1 if episode.direction == 1 else 1,
            quantity=episode.open_quantity,
            price=ZERO,
            multiplier=episode.multiplier,
        )
    )
