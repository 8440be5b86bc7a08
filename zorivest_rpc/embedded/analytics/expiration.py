"""How an option stands after its last day when no trade closed it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.analytics.positions import Episode, Execution
from zorivest_rpc.embedded.values.money import ZERO
from zorivest_rpc.embedded.values.symbols import Contract

__all__ = ["Settlement", "settle_expired"]


class Settlement(msgspec.Struct, frozen=True):
    """How an open option stands after its last day: a closing execution at zero, or a flag "unknown"."""

    execution: Execution | None = None
    flag: Literal["expired_unresolved"] | None = None


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
