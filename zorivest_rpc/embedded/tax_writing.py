"""Computed tax lots and wash sales on their way into the tables, those of many small underlyings in one statement.

What is stored under the same ids is looked up, compared and replaced for a whole portion at a time; each underlying
keeps its own counts, because one that turns out to need its whole history is made anew and counted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from .book_tables import tax_lots, tax_wash_matches
from .bulk import insert_into
from .columns import money
from .tax.book import Event, LotBook
from .tax.dates import trade_date
from .tax.lot import Lot
from .tax.sync import ConflictStrategy, StoredLot, SyncPlan, reconcile
from .tax.wash import WINDOW, WashMatch
from .tax_reading import parts

__all__ = ["Counts", "Making", "Writing"]

_ROWS = 2_000  # lots written at a time
_IN_MEMORY = 4_000  # lots of one underlying that a book may hold before it gives away what nothing can change
_lots = tax_lots.c
_LOT = (
    "lot_id", "account_id", "underlying", "ticker", "direction", "open_date", "close_date", "is_closed", "is_chained",
    "quantity", "cost_basis", "proceeds", "wash_sale_adjustment", "realized_gain_loss", "source_hash", "lot",
    "materialized_at",
)  # fmt: skip
_MATCH = ("underlying", "chain_id", "loss_lot_id", "loss_account_id", "loss_date", "disallowed", "match")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Lot).decode


class Counts:
    """What a sync did, added up over underlyings."""

    def __init__(self) -> None:
        self.numbers = dict.fromkeys(("created", "updated", "skipped", "conflicts", "orphaned", "closed"), 0)
        self.details: list[dict[str, Any]] = []

    def add(self, plan: SyncPlan) -> None:
        for name in self.numbers:
            self.numbers[name] += getattr(plan, name)
        self.details += [msgspec.structs.asdict(detail) for detail in plan.conflict_details]

    def merge(self, other: Counts) -> None:
        for name, number in other.numbers.items():
            self.numbers[name] += number
        self.details += other.details

    def answer(self) -> dict[str, Any]:
        return {**self.numbers, "conflict_details": self.details}


class Making:
    """One underlying whose lots are being made.

    `known` are the ids of the stored lots that its book went on from; None where the book has the whole history.
    `is_taken` once a new lot would get the id of an older one that the book does not know."""

    def __init__(self, group: str, book: LotBook, known: frozenset[str] | None = None) -> None:
        self.group = group
        self.book = book
        self.known = known
        self.is_taken = False
        self.counts = Counts()


class Writing:
    """Puts the lots of underlyings into the table as they become final, in portions, and counts what that changed.

    `is_first` where no lot of anything is stored, so that none has to be looked for."""

    def __init__(
        self,
        conn: Connection,
        now: datetime,
        strategy: ConflictStrategy = ConflictStrategy.FLAG,
        *,
        is_first: bool = False,
    ) -> None:
        self._conn = conn
        self._strategy = strategy
        self._now = now
        self._is_first = is_first
        self._waiting: list[tuple[Making, list[Lot], list[WashMatch]]] = []
        self._size = 0
        self._add_lots = insert_into(conn.dialect, tax_lots, _LOT)
        self._add_matches = insert_into(conn.dialect, tax_wash_matches, _MATCH)

    def follow(self, making: Making, events: Iterable[Event]) -> None:
        """Lead a book through events; only what can still change stays in memory."""
        book = making.book
        changed: dict[str, None] = {}
        most = _IN_MEMORY
        for event in events:
            for lot in book.advance(event).lots:
                changed[lot.lot_id] = None
            if book.size > most:
                final = book.release(trade_date(event.time) - WINDOW)
                self._put(making, [lot for lot in final if lot.lot_id in changed])
                for lot in final:
                    changed.pop(lot.lot_id, None)
                most = max(_IN_MEMORY, 2 * book.size)
        self._put(making, [book.lot(lot_id) for lot_id in changed])

    def _put(self, making: Making, lots: list[Lot]) -> None:
        matches, making.book.matches = making.book.matches, []
        self._waiting.append((making, lots, matches))
        self._size += len(lots)
        if self._size >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what was put so far."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        stored: dict[str, StoredLot] = {}
        if not self._is_first:
            stored = self._stored([lot.lot_id for _, lots, _ in waiting for lot in lots])
        write: list[tuple[str, Lot]] = []
        washed: list[tuple[str, WashMatch]] = []
        conflicted: list[str] = []
        for making, lots, matches in waiting:
            same = [stored[lot.lot_id] for lot in lots if lot.lot_id in stored] if stored else []
            if making.known is not None and any(entry.lot.lot_id not in making.known for entry in same):
                making.is_taken = True
            if making.is_taken:
                continue
            plan = reconcile(same, lots, self._strategy)
            making.counts.add(plan)
            conflicted += plan.conflicted
            write += [(making.group, lot) for lot in plan.write]
            washed += [(making.group, match) for match in matches]
        self._mark(conflicted, "conflict")
        self._drop([lot.lot_id for _, lot in write if lot.lot_id in stored])
        for at in range(0, len(write), _ROWS):
            self._add_lots(self._conn, (_lot_row(group, lot, self._now) for group, lot in write[at : at + _ROWS]))
        self._add_matches(self._conn, (_match_row(group, match) for group, match in washed))

    def abandon(self, made: Sequence[Making]) -> None:
        """What is stored of underlyings and was not made any more: dropped, or kept with a mark where a person
        changed it."""
        if self._is_first:
            return
        books = {making.group: making.book for making in made}
        left: dict[str, str] = {}
        for part in parts(books):
            query = select(_lots.lot_id, _lots.underlying).where(_lots.underlying.in_(part))
            left |= {name: group for name, group in self._conn.execute(query) if not books[group].has_made(name)}
        left = {name: group for name, group in left.items() if not any(book.has_made(name) for book in books.values())}
        stored = self._stored(list(left))
        by_group: dict[str, list[StoredLot]] = {}
        for name, group in left.items():
            by_group.setdefault(group, []).append(stored[name])
        dropped: list[str] = []
        kept: list[str] = []
        for making in made:
            entries = by_group.get(making.group, [])
            making.counts.add(reconcile(entries, (), self._strategy))
            for entry in entries:
                is_kept = entry.is_user_modified and self._strategy is not ConflictStrategy.AUTO_RESOLVE
                (kept if is_kept else dropped).append(entry.lot.lot_id)
        self._drop(dropped)
        self._mark(kept, "orphaned")

    def _stored(self, names: Sequence[str]) -> dict[str, StoredLot]:
        query = select(_lots.lot, _lots.is_user_modified)
        found = (
            StoredLot(_decode(row.lot), row.is_user_modified)
            for part in parts(names)
            for row in self._conn.execute(query.where(_lots.lot_id.in_(part)))
        )
        return {entry.lot.lot_id: entry for entry in found}

    def _drop(self, names: Iterable[str]) -> None:
        for part in parts(names):
            self._conn.execute(tax_lots.delete().where(_lots.lot_id.in_(part)))

    def _mark(self, names: Iterable[str], status: str) -> None:
        for part in parts(names):
            self._conn.execute(tax_lots.update().where(_lots.lot_id.in_(part)).values(sync_status=status))


def _lot_row(group: str, lot: Lot, now: datetime) -> list[Any]:
    is_closed = lot.is_closed
    return [
        lot.lot_id,
        lot.account_id,
        group,
        lot.ticker,
        lot.direction.value,
        lot.open_date,
        lot.close_date,
        is_closed,
        bool(lot.chain_ids),
        lot.quantity,
        lot.cost_basis,
        lot.proceeds,
        lot.wash_sale_adjustment,
        lot.recognized if is_closed else None,
        lot.source_hash,
        _encode(lot).decode(),
        now,
    ]


def _match_row(group: str, match: WashMatch) -> list[Any]:
    return [
        group,
        match.chain_id,
        match.loss_lot_id,
        match.loss_account_id,
        match.loss_date,
        money(match.disallowed),
        _encode(match).decode(),
    ]
