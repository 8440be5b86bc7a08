"""Wash risk ahead of a sale: recent purchases that would replace what is sold at a loss today."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

import msgspec

from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import Accounts, WashPolicy
from zorivest_rpc.embedded.tax.wash import WINDOW, can_be_washed, is_candidate, replaceable_symbols

__all__ = ["Threat", "threats"]


class Threat(msgspec.Struct, frozen=True):
    """An open lot bought so recently that a loss taken now would move into it."""

    lot: Lot
    days_since: int

    @property
    def days_to_clear(self) -> int:
        """Days until a loss is safe from this purchase: the window covers 30 days, so day 31 is clear."""
        return max(0, WINDOW.days + 1 - self.days_since)

    @property
    def window_end(self) -> date:
        return self.lot.open_date + WINDOW


def threats(
    losses: Iterable[Lot], held_after: Sequence[Lot], accounts: Accounts, policy: WashPolicy, today: date
) -> list[Threat]:
    """The lots among `held_after` that would replace any of `losses`, the latest purchase first."""
    found: dict[str, Threat] = {}
    recent = [lot for lot in held_after if today - WINDOW <= lot.open_date <= today]
    for loss in losses:
        if not can_be_washed(loss, accounts, policy, today):
            continue
        for lot in recent:
            if (
                lot.units > lot.replaced_units
                and loss.ticker in replaceable_symbols(lot.ticker, lot.direction, policy)
                and is_candidate(loss, lot, accounts, policy)
            ):
                found[lot.lot_id] = Threat(lot, (today - lot.open_date) // timedelta(days=1))
    return sorted(found.values(), key=lambda threat: (threat.days_since, threat.lot.lot_id))
