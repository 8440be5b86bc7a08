"""The lots of every position: kept in order, cut, closed and looked up; knows no tax rule.

Rule 1: a position's open lots are in first-in-first-out order at all times.
Rule 2: cutting a lot changes no total. The cut piece gets a new id, the rest keeps the old one, so that a lot somebody
named stays findable while any of it is open."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import CostBasisMethod, Direction
from zorivest_rpc.embedded.tax.money import share_of

__all__ = ["Closing", "Holdings"]


class Closing(msgspec.Struct, frozen=True):
    """The event that closes lots."""

    exec_id: str
    time: datetime
    day: date
    method: CostBasisMethod | None = None
    delivered: bool = False


class Holdings:
    """All lots by id; `touched` collects the ids that changed since it was last drained."""

    def __init__(self) -> None:
        self.lots: dict[str, Lot] = {}
        self.touched: dict[str, None] = {}
        self._open: dict[str, dict[str, deque[str]]] = {}

    def add(self, lot: Lot) -> None:
        self.put(lot)
        if not lot.is_closed:
            self._insert(lot)

    def put(self, lot: Lot) -> None:
        """Store a new state of a lot under its id."""
        self.lots[lot.lot_id] = lot
        self.touched[lot.lot_id] = None

    def drain(self) -> tuple[Lot, ...]:
        changed = tuple(self.lots[lot_id] for lot_id in self.touched)
        self.touched.clear()
        return changed

    def free_id(self, wanted: str) -> str:
        """`wanted`, or the first variant of it that no lot has: exec ids may themselves end like a cut piece's."""
        lot_id, n = wanted, 1
        while lot_id in self.lots:
            n += 1
            lot_id = f"{wanted}~{n}"
        return lot_id

    def position(self, account_id: str, ticker: str) -> Iterator[Lot]:
        """Open lots of one account, oldest first."""
        return (self.lots[lot_id] for lot_id in self._line(account_id, ticker))

    def newest_first(self, account_id: str, ticker: str) -> Iterator[Lot]:
        return (self.lots[lot_id] for lot_id in reversed(self._line(account_id, ticker)))

    def direction(self, account_id: str, ticker: str) -> Direction | None:
        line = self._line(account_id, ticker)
        return self.lots[line[0]].direction if line else None

    def open_of(self, ticker: str) -> list[Lot]:
        return [self.lots[lot_id] for line in self._open.get(ticker, {}).values() for lot_id in line]

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

    def scale(self, ticker: str, ratio: Decimal) -> None:
        """Multiply the units of every open lot; totals stay."""
        for lot in self.open_of(ticker):
            self.put(replace(lot, quantity=lot.quantity * ratio, replaced_units=lot.replaced_units * ratio))

    def _divide(self, whole: Lot, quantity: Decimal) -> tuple[Lot, Lot]:
        def part(total: Decimal) -> Decimal:
            return share_of(total, quantity, whole.quantity)

        cost = None if whole.cost is None else part(whole.cost)
        received = None if whole.received is None else part(whole.received)
        adjustment, replaced = part(whole.wash_sale_adjustment), part(whole.replaced_units)
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

    def _line(self, account_id: str, ticker: str) -> deque[str]:
        return self._open.get(ticker, {}).get(account_id) or _EMPTY

    def _insert(self, lot: Lot) -> None:
        line = self._open.setdefault(lot.ticker, {}).setdefault(lot.account_id, deque())
        at = len(line)
        for lot_id in reversed(line):
            if self.lots[lot_id].order < lot.order:
                break
            at -= 1
        line.insert(at, lot.lot_id)

    def _remove(self, lot: Lot) -> None:
        line = self._open[lot.ticker][lot.account_id]
        if line[0] == lot.lot_id:
            line.popleft()
        elif line[-1] == lot.lot_id:
            line.pop()
        else:
            line.remove(lot.lot_id)


_EMPTY: deque[str] = deque()
