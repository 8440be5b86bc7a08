"""The lots of every position: kept in order, cut, closed and looked up; knows no tax rule.

Rule 1: a position is one account, one ticker and one currency; its open lots are in first-in-first-out order at all
times.
Rule 2: cutting a lot changes no total. The cut piece gets a new id, the rest keeps the old one, so that a lot that a
user named stays findable while any of it is open.
Rule 3: nothing here looks through a position or through the history to change one lot of it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import count

import msgspec
from msgspec.structs import replace

from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import DOLLAR, CostBasisMethod, Direction, StockSplit
from zorivest_rpc.embedded.tax.money import SMALLEST_UNIT, share_of, units
from zorivest_rpc.embedded.tax.ordered import Ordered
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Closing", "Holdings", "basis_per_unit"]

_Order = tuple[datetime, str, int, str]  # `Lot.order`, which ends with the lot's id


class Closing(msgspec.Struct, frozen=True):
    """The event that closes lots."""

    exec_id: str
    time: datetime
    day: date
    method: CostBasisMethod | None = None
    delivered: bool = False


def basis_per_unit(lot: Lot) -> Decimal:
    """High means little gain: the adjusted basis of a long lot; for a short one, what its sale did not bring in."""
    if lot.direction is Direction.LONG:
        return ((lot.cost or ZERO) + lot.wash_sale_adjustment) / lot.units
    return (lot.wash_sale_adjustment - (lot.received or ZERO)) / lot.units


class Holdings:
    """All lots by id; `touched` collects the ids that changed since it was last drained.

    `released` keeps the ids of lots that were given away because nothing can change them any more."""

    def __init__(self) -> None:
        self.lots: dict[str, Lot] = {}
        self.touched: dict[str, None] = {}
        self.released: set[str] = set()
        self._open: dict[str, dict[tuple[str, str], Ordered[_Order]]] = {}
        self._dearest: dict[tuple[str, str, str], list[tuple[Decimal, _Order, int, Lot]]] = {}
        self._serial = count()

    def add(self, lot: Lot) -> None:
        self.put(lot)
        if not lot.is_closed:
            self._insert(lot)

    def put(self, lot: Lot) -> None:
        """Store a new state of a lot under its id."""
        self.lots[lot.lot_id] = lot
        self.touched[lot.lot_id] = None
        if self._dearest and not lot.is_closed:
            ranking = self._dearest.get((lot.account_id, lot.ticker, lot.currency))
            if ranking is not None:
                heapq.heappush(ranking, self._rank(lot))

    def drain(self) -> tuple[Lot, ...]:
        changed = tuple(self.lots[lot_id] for lot_id in self.touched)
        self.touched.clear()
        return changed

    def free_id(self, wanted: str) -> str:
        """`wanted`, or the first variant of it that no lot has: exec ids may themselves end like a cut piece's."""
        lot_id, n = wanted, 1
        while lot_id in self.lots or lot_id in self.released:
            n += 1
            lot_id = f"{wanted}~{n}"
        return lot_id

    def position(self, account_id: str, ticker: str, currency: str = DOLLAR) -> Iterator[Lot]:
        """Open lots of one account, oldest first."""
        return (self.lots[order[-1]] for order in self._line(account_id, ticker, currency))

    def newest_first(self, account_id: str, ticker: str, currency: str = DOLLAR) -> Iterator[Lot]:
        return (self.lots[order[-1]] for order in reversed(self._line(account_id, ticker, currency)))

    def dearest_first(self, account_id: str, ticker: str, currency: str = DOLLAR) -> Iterator[Lot]:
        """Open lots of one account by adjusted basis, the highest first; every lot that is taken must be closed, in
        whole or in part, before the next one is asked for here.

        A ranking is made when it is first asked for; from then on every new state of a lot is ranked as it comes, and
        outdated states are passed over once."""
        where = (account_id, ticker, currency)
        ranking = self._dearest.get(where)
        if ranking is None:
            ranking = [self._rank(lot) for lot in self.position(*where)]
            heapq.heapify(ranking)
            self._dearest[where] = ranking
        while ranking:
            lot = ranking[0][-1]
            if self.lots.get(lot.lot_id) is lot:
                yield lot
            heapq.heappop(ranking)

    def _rank(self, lot: Lot) -> tuple[Decimal, _Order, int, Lot]:
        return (-basis_per_unit(lot), lot.order, next(self._serial), lot)

    def direction(self, account_id: str, ticker: str, currency: str = DOLLAR) -> Direction | None:
        line = self._line(account_id, ticker, currency)
        return self.lots[line.first[-1]].direction if line else None

    def open_of(self, ticker: str) -> list[Lot]:
        return [self.lots[order[-1]] for line in self._open.get(ticker, {}).values() for order in line]

    def release(self, before: date) -> list[Lot]:
        """Give away the lots closed before a day; only their ids are kept, so that no other lot gets one of them."""
        gone = [lot for lot in self.lots.values() if lot.close_date is not None and lot.close_date < before]
        for lot in gone:
            del self.lots[lot.lot_id]
            self.released.add(lot.lot_id)
        return gone

    def rewrite(self, lots: Sequence[Lot]) -> None:
        for lot in lots:
            self.put(lot)

    def cut(self, lot_id: str, quantity: Decimal) -> Lot:
        """Cut `quantity` units off an open lot; the piece is stored and stands in the position beside the rest."""
        whole = self.lots[lot_id]
        piece, rest = self._divide(whole, quantity)
        self.put(rest)
        self.add(piece)
        return piece

    def close(self, lot_id: str, quantity: Decimal, amount: Decimal, closing: Closing) -> Lot:
        """Close `quantity` units of a lot for `amount` in total; a partial close leaves the rest open."""
        whole = self.lots[lot_id]
        if quantity < whole.quantity:
            piece, rest = self._divide(whole, quantity)
            self.put(rest)
        else:
            piece = whole
            self._remove(whole)
        is_long = piece.direction is Direction.LONG
        closed = replace(
            piece,
            closed_at=closing.time,
            close_date=closing.day,
            cost=piece.cost if is_long else amount,
            received=amount if is_long else piece.received,
            linked_trade_ids=(*piece.linked_trade_ids, closing.exec_id),
            method=closing.method,
            delivered=closing.delivered,
        )
        self.put(closed)
        return closed

    def scale(self, split: StockSplit) -> None:
        """Count every open lot in new shares; totals stay. New shares are counted in hundred-millionths, all pieces of
        one purchase together, so that cutting a lot does not change what a split makes of it."""
        pieces: dict[tuple[str, str], list[Lot]] = {}
        for lot in self.open_of(split.symbol):
            if split.account_id in (None, lot.account_id):
                pieces.setdefault((lot.account_id, lot.linked_trade_ids[0]), []).append(lot)
        for lots in pieces.values():
            old, new = ZERO, ZERO
            for lot in lots:
                old += lot.quantity
                share = max(units(old * split.to / split.of) - new, SMALLEST_UNIT)
                new += share
                used = share * lot.multiplier
                if lot.replaced_units != lot.units:
                    used = min(used, units(lot.replaced_units * split.to / split.of))
                self.put(replace(lot, quantity=share, replaced_units=used))

    def _divide(self, whole: Lot, quantity: Decimal) -> tuple[Lot, Lot]:
        def part(total: Decimal) -> Decimal:
            return share_of(total, quantity, whole.quantity)

        cost = None if whole.cost is None else part(whole.cost)
        received = None if whole.received is None else part(whole.received)
        adjustment = part(whole.wash_sale_adjustment)
        # a rounded share must not replace more units than either part has: after splits quantities have fractions
        least = whole.replaced_units - replace(whole, quantity=whole.quantity - quantity).units
        replaced = min(max(part(whole.replaced_units), least), replace(whole, quantity=quantity).units)
        pieces = whole.pieces + 1
        piece = replace(
            whole,
            lot_id=self.free_id(f"{whole.lot_id}-{pieces}"),
            quantity=quantity,
            cost=cost,
            received=received,
            wash_sale_adjustment=adjustment,
            replaced_units=replaced,
            pieces=0,
        )
        rest = replace(
            whole,
            quantity=whole.quantity - quantity,
            cost=None if whole.cost is None or cost is None else whole.cost - cost,
            received=None if whole.received is None or received is None else whole.received - received,
            wash_sale_adjustment=whole.wash_sale_adjustment - adjustment,
            replaced_units=whole.replaced_units - replaced,
            pieces=pieces,
        )
        return piece, rest

    def _line(self, account_id: str, ticker: str, currency: str) -> Ordered[_Order]:
        return self._open.get(ticker, {}).get((account_id, currency)) or _EMPTY

    def _insert(self, lot: Lot) -> None:
        self._open.setdefault(lot.ticker, {}).setdefault((lot.account_id, lot.currency), Ordered()).add(lot.order)

    def _remove(self, lot: Lot) -> None:
        self._open[lot.ticker][lot.account_id, lot.currency].discard(lot.order)


_EMPTY: Ordered[_Order] = Ordered()
