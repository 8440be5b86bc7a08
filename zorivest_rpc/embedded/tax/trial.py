"""Sales tried out on the books: the lots are taken up by a book of their own, which goes on as if the sales were made.

The same code that books a sale says what it would come to, so a simulation cannot differ from what is booked later.
What is tried here is never written anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.book import LotBook
from zorivest_rpc.embedded.tax.dates import exchange_time
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import DOLLAR, Accounts, CostBasisMethod, Direction, TaxFill, WashPolicy
from zorivest_rpc.embedded.tax.wash import WINDOW
from zorivest_rpc.embedded.values.kinds import Side
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Replacement", "Sale", "SoldLot", "Trial", "try_sales"]

_CUT = re.compile(r"-\d+(?:~\d+)?$")
_TICK = timedelta(microseconds=1)


class Sale(msgspec.Struct, frozen=True, kw_only=True):
    """So many units of one account's position, sold (or covered, for a short one) at a price per share."""

    account_id: str
    ticker: str
    direction: Direction
    quantity: Decimal
    price: Decimal
    method: CostBasisMethod = CostBasisMethod.FIFO
    lot_ids: tuple[str, ...] = ()
    currency: str = DOLLAR


class SoldLot(msgspec.Struct, frozen=True):
    """A lot as it would be closed, and the id of the open lot it was cut from."""

    lot_id: str
    closed: Lot


class Replacement(msgspec.Struct, frozen=True):
    """An open lot bought so recently that a loss taken now moves into it: as much of it as `disallowed` says.

    A lot behind others, which take the whole loss over before it is reached, has nothing disallowed and still counts
    for how long to wait."""

    lot: Lot
    quantity: Decimal
    matched: Decimal
    disallowed: Decimal
    days_since: int

    @property
    def days_to_clear(self) -> int:
        """Days until a loss is safe from this purchase: the window covers 30 days, so day 31 is clear."""
        return max(0, WINDOW.days + 1 - self.days_since)

    @property
    def window_end(self) -> date:
        return self.lot.open_date + WINDOW


class Trial(msgspec.Struct, frozen=True):
    """What the sales would do; `replacements` has the latest purchase first."""

    sold: tuple[SoldLot, ...]
    replacements: tuple[Replacement, ...]
    warnings: tuple[str, ...]

    @property
    def recognized(self) -> Decimal:
        """What would count on the return."""
        return sum((row.closed.recognized for row in self.sold), ZERO)


def try_sales(
    lots: Sequence[Lot], sales: Iterable[Sale], accounts: Accounts, policy: WashPolicy, *, today: date
) -> Trial:
    """Try sales of `today`, one after the other; `lots` are all open lots of their underlying, in every account."""
    book = LotBook(accounts=accounts, policy=policy)
    book.restore(lots)
    held = {lot.lot_id: lot for lot in lots if not lot.is_closed}
    moment = _moment(lots, today)
    sold: dict[str, SoldLot] = {}
    warnings: list[str] = []
    for n, sale in enumerate(sales):
        fill = _fill(sale, held.values(), moment + n * _TICK, f"trial-{n}")
        step = book.advance(fill)
        warnings += step.warnings
        for lot in step.lots:
            if lot.is_closed:  # a sale closes lots and touches open ones; what was closed before stays as it was
                sold[lot.lot_id] = SoldLot(_origin(lot.lot_id, held), lot)
    rows = tuple(SoldLot(row.lot_id, book.lot(name)) for name, row in sold.items())
    return Trial(rows, tuple(_replacements(book, rows, held, moment)), tuple(warnings))


def _moment(lots: Iterable[Lot], today: date) -> datetime:
    """Noon of the day, or just after the last purchase: a book takes its events in order."""
    noon = exchange_time(today, time(12))
    return max(noon, max((lot.opened_at for lot in lots), default=noon) + _TICK)


def _fill(sale: Sale, held: Iterable[Lot], moment: datetime, name: str) -> TaxFill:
    where = (sale.account_id, sale.ticker, sale.currency)
    own = next(lot for lot in held if (lot.account_id, lot.ticker, lot.currency) == where)
    return TaxFill(
        exec_id=name,
        time=moment,
        account_id=sale.account_id,
        symbol=sale.ticker,
        side=Side.SLD if sale.direction is Direction.LONG else Side.BOT,
        quantity=sale.quantity,
        price=sale.price,
        multiplier=own.multiplier,
        asset_class=own.asset_class,
        method=sale.method,
        lot_ids=sale.lot_ids,
        currency=sale.currency,
    )


def _origin(lot_id: str, held: dict[str, Lot]) -> str:
    """The open lot that a piece was cut from: a cut adds a number to the id of the whole."""
    name = lot_id
    while name not in held and (shorter := _CUT.sub("", name)) != name:
        name = shorter
    return name if name in held else lot_id


def _replacements(book: LotBook, sold: Sequence[SoldLot], held: dict[str, Lot], moment: datetime) -> list[Replacement]:
    """Every purchase that takes over some of the losses, or would once the others are out of the way."""
    day = max((row.closed.close_date or moment.date() for row in sold), default=moment.date())
    matched: dict[str, Decimal] = {}
    moved: dict[str, Decimal] = {}
    for match in book.matches:
        name = _origin(match.replacement_lot_id, held)
        matched[name] = matched.get(name, ZERO) + match.matched_quantity
        moved[name] = moved.get(name, ZERO) + match.disallowed
    names = dict.fromkeys(matched)
    for row in sold:
        names.update((_origin(lot.lot_id, held), None) for lot in book.candidates(row.closed.lot_id))
    left: dict[str, Decimal] = {}
    for lot in book.open_lots:
        name = _origin(lot.lot_id, held)
        left[name] = left.get(name, ZERO) + lot.quantity
    rows = [
        Replacement(
            held[name],
            left.get(name, ZERO),
            matched.get(name, ZERO),
            moved.get(name, ZERO),
            (day - held[name].open_date).days,
        )
        for name in names
        if left.get(name)  # one that is sold in the same go replaces nothing in the end
    ]
    return sorted(rows, key=lambda row: (row.days_since, row.lot.lot_id))
