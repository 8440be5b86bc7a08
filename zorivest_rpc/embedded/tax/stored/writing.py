"""Computed tax lots and wash sales on their way into the tables, those of many small underlyings in one statement.

What is stored under the same ids is looked up, compared and replaced for a whole portion at a time; a lot that is
stored as it is stays untouched, because the time of its writing tells readers of past years that nothing changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from ...database.bulk import insert_into
from ...database.columns import money
from ...database.schema.books import tax_lots, tax_wash_matches
from ..book import Event, LotBook
from ..dates import trade_date
from ..lot import Lot
from ..wash import WINDOW, WashMatch
from .reading import parts

__all__ = ["Making", "Writing"]

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


class Making:
    """One underlying whose lots are being made.

    `known` are the ids of the stored lots that its book went on from; None where the book has the whole history.
    `is_taken` once a new lot would get the id of an older one that the book does not know."""

    def __init__(self, group: str, book: LotBook, known: frozenset[str] | None = None) -> None:
        self.group = group
        self.book = book
        self.known = known
        self.is_taken = False


class Writing:
    """Puts the lots of underlyings into the table as they become final, in portions.

    `is_first` where no lot of anything is stored, so that none has to be looked for."""

    def __init__(self, conn: Connection, now: datetime, *, is_first: bool = False) -> None:
        self._conn = conn
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
        stored: dict[str, Lot] = {}
        if not self._is_first:
            stored = self._read_lots([lot.lot_id for _, lots, _ in waiting for lot in lots])
        write: list[tuple[str, Lot]] = []
        washed: list[tuple[str, WashMatch]] = []
        for making, lots, matches in waiting:
            if making.known is not None and any(
                lot.lot_id in stored and lot.lot_id not in making.known for lot in lots
            ):
                making.is_taken = True
            if making.is_taken:
                continue
            write += [(making.group, lot) for lot in lots if stored.get(lot.lot_id) != lot]
            washed += [(making.group, match) for match in matches]
        self._drop([lot.lot_id for _, lot in write if lot.lot_id in stored])
        for at in range(0, len(write), _ROWS):
            self._add_lots(self._conn, (_lot_row(group, lot, self._now) for group, lot in write[at : at + _ROWS]))
        self._add_matches(self._conn, (_match_row(group, match) for group, match in washed))

    def abandon(self, made: Sequence[Making]) -> None:
        """Drop what is stored of underlyings and was not made any more."""
        if self._is_first:
            return
        books = {making.group: making.book for making in made}
        left: list[str] = []
        for part in parts(books):
            query = select(_lots.lot_id, _lots.underlying).where(_lots.underlying.in_(part))
            left += [name for name, group in self._conn.execute(query) if not books[group].has_made(name)]
        self._drop([name for name in left if not any(book.has_made(name) for book in books.values())])

    def _read_lots(self, names: Sequence[str]) -> dict[str, Lot]:
        lots = (
            _decode(text)
            for part in parts(names)
            for text in self._conn.execute(select(_lots.lot).where(_lots.lot_id.in_(part))).scalars()
        )
        return {lot.lot_id: lot for lot in lots}

    def _drop(self, names: Iterable[str]) -> None:
        for part in parts(names):
            self._conn.execute(tax_lots.delete().where(_lots.lot_id.in_(part)))


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
