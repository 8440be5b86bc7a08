"""Stored lots against computed ones: what to write, what to keep because a person changed it, what no trade backs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import TaxError

__all__ = ["ConflictDetail", "ConflictStrategy", "StoredLot", "SyncPlan", "reconcile"]


class ConflictStrategy(Enum):
    """What to do with a lot that a person changed and the trades contradict."""

    FLAG = "flag"
    BLOCK = "block"
    AUTO_RESOLVE = "auto_resolve"


class StoredLot(msgspec.Struct, frozen=True):
    lot: Lot
    is_user_modified: bool = False


class ConflictDetail(msgspec.Struct, frozen=True, kw_only=True):
    lot_id: str
    ticker: str
    reason: str


class SyncPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`write` holds lots to insert or overwrite; conflicted and orphaned lots keep what is stored, with that status."""

    write: tuple[Lot, ...]
    conflicted: tuple[str, ...]
    orphaned_ids: tuple[str, ...]
    created: int
    updated: int
    skipped: int
    conflicts: int
    orphaned: int
    closed: int
    conflict_details: tuple[ConflictDetail, ...]


def reconcile(
    stored: Iterable[StoredLot], computed: Iterable[Lot], strategy: ConflictStrategy = ConflictStrategy.FLAG
) -> SyncPlan:
    """Plan a sync; `block` refuses as soon as there is a conflict."""
    known = {entry.lot.lot_id: entry for entry in stored}
    write: list[Lot] = []
    details: list[ConflictDetail] = []
    created = updated = skipped = closed = 0
    for lot in computed:
        entry = known.pop(lot.lot_id, None)
        if entry is None:
            created += 1
        elif entry.lot == lot:
            skipped += 1
            continue
        elif entry.is_user_modified and strategy is not ConflictStrategy.AUTO_RESOLVE:
            details.append(_conflict(lot, "changed by hand, and its trades say something else"))
            continue
        else:
            updated += 1
        closed += lot.is_closed and (entry is None or not entry.lot.is_closed)
        write.append(lot)
    details += [
        _conflict(entry.lot, "changed by hand, and no trade backs it any more")
        for entry in known.values()
        if entry.is_user_modified
    ]
    if details and strategy is ConflictStrategy.BLOCK:
        first = details[0]
        raise TaxError("lot_conflict", f"Lot {first.lot_id} ({first.ticker}): {first.reason}; nothing was written.")
    return SyncPlan(
        write=tuple(write),
        conflicted=tuple(detail.lot_id for detail in details if detail.lot_id not in known),
        orphaned_ids=tuple(known),
        created=created,
        updated=updated,
        skipped=skipped,
        conflicts=len(details),
        orphaned=len(known),
        closed=closed,
        conflict_details=tuple(details),
    )


def _conflict(lot: Lot, reason: str) -> ConflictDetail:
    return ConflictDetail(lot_id=lot.lot_id, ticker=lot.ticker, reason=reason)
