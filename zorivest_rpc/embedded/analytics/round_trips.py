"""Round trips by FIFO: which entry each exit closed, and what it earned.

Rule 1: a position is one account, one symbol and one currency; an episode of it runs from flat to flat and is one
round trip. Its money is in that currency.
Rule 2: executions are taken in the order of (time, exec_id), so equal timestamps have one order however they came.
Rule 3: no cent is lost. A fee that is split by quantity is split in millionths and the last part takes the rest.
Rule 4: a share split changes what is open when it takes effect: more shares, each at less, for the same money. An
episode counts in the shares of its end; one that was closed before keeps the shares of its time.

`advance` is the kernel: it takes the open episode, its open lots (oldest first, read only as far as the execution
closes them) and one more execution, and says what changes. Its cost is that of the lots it closes, never of the past,
so a store may keep episodes, lots and fills in tables and hand over a cursor. `match` runs it over a whole history.
An execution that lands in the past (or is changed, or deleted) rewrites the episodes from `resume_point` on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from zorivest_rpc.embedded.analytics.positions import (
    Episode,
    Execution,
    Fill,
    Key,
    LotUse,
    OpenPart,
    SplitRatio,
    Status,
)
from zorivest_rpc.embedded.values.money import ZERO, cents, divide, exactly, price

__all__ = [
    "Change",
    "Matching",
    "ReplayPoint",
    "RoundTrip",
    "advance",
    "match",
    "remainder",
    "replay",
    "resume_point",
    "round_trip",
]

_FEE_STEP = Decimal("0.000001")
_QUANTITY_STEP = Decimal("0.00000001")
Splits = Sequence[SplitRatio]


class Change(msgspec.Struct, frozen=True):
    """What one execution did: one episode, or two after a flip; the lots it used and the lot it left."""

    episodes: tuple[Episode, ...]
    fills: tuple[Fill, ...]
    used: tuple[LotUse, ...] = ()
    added: OpenPart | None = None


class ReplayPoint(msgspec.Struct, frozen=True):
    """Where to start again: replay the executions from `key` on, without the first `skip` of the one at `key`."""

    key: Key
    skip: Decimal = ZERO


class Matching(NamedTuple):
    """A whole history matched: round trips in the order they opened, the open lots, the fills."""

    episodes: tuple[Episode, ...]
    lots: dict[str, tuple[OpenPart, ...]]
    fills: tuple[Fill, ...]


class RoundTrip(msgspec.Struct, frozen=True):
    """A round trip as an answer shows it."""

    id: str
    account_id: str
    instrument: str
    direction: Literal["BOT", "SLD"]
    entry_exec_ids: tuple[str, ...]
    exit_exec_ids: tuple[str, ...]
    entry_avg_price: Decimal
    exit_avg_price: Decimal | None
    total_quantity: Decimal
    open_quantity: Decimal
    realized_pnl: Decimal | None
    total_commission: Decimal
    opened_at: datetime
    closed_at: datetime | None
    status: Status
    holding_period_seconds: int | None
    currency: str = "USD"
    flags: tuple[str, ...] = ()


@exactly
def advance(episode: Episode | None, lots: Iterable[OpenPart], execution: Execution) -> Change:
    """The changes that one more execution makes to a position.

    `episode` is the open one (None when flat) and `lots` its open lots, oldest first; they are read lazily."""
    if execution.quantity <= 0:
        raise ValueError(f"execution {execution.exec_id} has no positive quantity")
    if episode is None or not episode.open_quantity:
        return _enter(_open_episode(execution, ZERO), execution)
    of_episode = (episode.account_id, episode.symbol, episode.currency)
    if of_episode != (execution.account_id, execution.symbol, execution.currency):
        raise ValueError(f"execution {execution.exec_id} belongs to another position than {episode.id}")
    if execution.key <= episode.last_key:
        raise ValueError(f"execution {execution.exec_id} is not later than {episode.last_by}; replay from resume_point")
    if execution.side == episode.direction:
        return _enter(episode, execution)
    return _exit(episode, iter(lots), execution)


def _open_episode(execution: Execution, skip: Decimal) -> Episode:
    return Episode(
        id=f"rt-{execution.exec_id}",
        account_id=execution.account_id,
        symbol=execution.symbol,
        direction=execution.side,
        multiplier=execution.multiplier,
        opened_at=execution.time,
        opened_by=execution.exec_id,
        opened_skip=skip,
        last_at=execution.time,
        last_by=execution.exec_id,
        currency=execution.currency,
    )


def _enter(episode: Episode, execution: Execution) -> Change:
    after = msgspec.structs.replace(
        episode,
        last_at=execution.time,
        last_by=execution.exec_id,
        entry_quantity=episode.entry_quantity + execution.quantity,
        entry_value=episode.entry_value + execution.price * execution.quantity,
        fees=episode.fees + execution.fee,
        slippage=_slippage(episode, execution, execution.quantity),
    )
    lot = OpenPart(
        execution.exec_id, execution.time, execution.quantity, execution.price, execution.multiplier, execution.fee
    )
    fill = _fill(after, execution, "entry", quantity=execution.quantity, fee=execution.fee)
    return Change(episodes=(after,), fills=(fill,), added=lot)


def _exit(episode: Episode, lots: Iterator[OpenPart], execution: Execution) -> Change:
    closing = min(execution.quantity, episode.open_quantity)
    exit_fee = _fee_part(execution.fee, closing, execution.quantity)
    used: list[LotUse] = []
    gross, entry_fees, left = ZERO, ZERO, closing
    while left:
        lot = next(lots, None)
        if lot is None:
            raise ValueError(f"the open lots of {episode.id} hold less than its open quantity")
        taken = min(left, lot.quantity)
        fee = _fee_part(lot.fee, taken, lot.quantity)
        gross += episode.direction * taken * (execution.price * execution.multiplier - lot.price * lot.multiplier)
        entry_fees += fee
        left -= taken
        used.append(LotUse(lot.exec_id, lot.quantity - taken, lot.fee - fee))
    after = msgspec.structs.replace(
        episode,
        last_at=execution.time,
        last_by=execution.exec_id,
        exit_quantity=episode.exit_quantity + closing,
        exit_value=episode.exit_value + execution.price * closing,
        gross=episode.gross + gross,
        matched_fees=episode.matched_fees + entry_fees + exit_fee,
        fees=episode.fees + exit_fee,
        slippage=_slippage(episode, execution, closing),
    )
    fill = _fill(after, execution, "exit", quantity=closing, fee=exit_fee, realized=gross - entry_fees - exit_fee)
    if closing == execution.quantity:
        return Change(episodes=(after,), fills=(fill,), used=tuple(used))
    rest = remainder(execution, closing)
    flipped = _enter(_open_episode(rest, closing), rest)
    return Change((after, *flipped.episodes), (fill, *flipped.fills), tuple(used), flipped.added)


def _slippage(episode: Episode, execution: Execution, quantity: Decimal) -> Decimal | None:
    if execution.slip is None:
        return episode.slippage
    return (episode.slippage or ZERO) + (execution.slip * quantity * execution.multiplier).quantize(_FEE_STEP)


def _fee_part(fee: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    """The share of a fee that goes with a part of the quantity; the whole quantity takes the whole fee."""
    return fee if part == whole else (fee * part / whole).quantize(_FEE_STEP)


def _fill(
    episode: Episode,
    execution: Execution,
    role: Literal["entry", "exit"],
    *,
    quantity: Decimal,
    fee: Decimal,
    realized: Decimal = ZERO,
) -> Fill:
    return Fill(episode.id, execution.exec_id, execution.time, role, quantity, execution.price, fee, realized)


@exactly
def remainder(execution: Execution, skip: Decimal) -> Execution:
    """What is left of an execution once its first `skip` units have closed an earlier episode."""
    if not skip:
        return execution
    return msgspec.structs.replace(
        execution,
        quantity=execution.quantity - skip,
        fee=execution.fee - _fee_part(execution.fee, skip, execution.quantity),
    )


def _split_lot(lot: OpenPart, split: SplitRatio) -> OpenPart:
    """The lot in new shares; their number is rounded, so their price is whatever keeps the money."""
    shares = max((lot.quantity * split.to / split.of).quantize(_QUANTITY_STEP), _QUANTITY_STEP)
    return msgspec.structs.replace(lot, quantity=shares, price=lot.price * lot.quantity / shares)


class _Book:
    """One position while a history runs through it; `splits` are those of its symbol."""

    def __init__(self, splits: Splits = ()) -> None:
        self._splits = deque(sorted(splits, key=lambda split: split.effective))
        self.open: Episode | None = None
        self.lots: deque[OpenPart] = deque()
        self.done: list[Episode] = []
        self.fills: list[Fill] = []

    def take(self, execution: Execution, skip: Decimal = ZERO) -> None:
        while self._splits and self._splits[0].effective <= execution.time:
            self._split(self._splits.popleft())
        if skip:
            rest = remainder(execution, skip)
            change = _enter(_open_episode(rest, skip), rest)
        else:
            change = advance(self.open, self.lots, execution)
        for use in change.used:
            lot = self.lots.popleft()
            if use.quantity_left:
                left = msgspec.structs.replace(lot, quantity=use.quantity_left, fee=use.fee_left)
                self.lots.appendleft(left)
        if change.added is not None:
            self.lots.append(change.added)
        self.fills.extend(change.fills)
        self.done.extend(episode for episode in change.episodes if not episode.open_quantity)
        last = change.episodes[-1]
        self.open = last if last.open_quantity else None

    def finish(self) -> _Book:
        """Nothing more will come: work in the splits that are left."""
        while self._splits:
            self._split(self._splits.popleft())
        return self

    def _split(self, split: SplitRatio) -> None:
        if self.open is None:
            return
        self.lots = deque(_split_lot(lot, split) for lot in self.lots)
        gone = (self.open.exit_quantity * split.to / split.of).quantize(_QUANTITY_STEP)
        held = sum((lot.quantity for lot in self.lots), ZERO)
        self.open = msgspec.structs.replace(self.open, entry_quantity=gone + held, exit_quantity=gone)

    @property
    def episodes(self) -> list[Episode]:
        return self.done if self.open is None else [*self.done, self.open]


@exactly
def match(executions: Iterable[Execution], splits: Mapping[tuple[str, str], Splits] | None = None) -> Matching:
    """All round trips of a history, of any number of accounts and symbols, in whatever order it is given.

    `splits` are by account and symbol."""
    books: dict[tuple[str, str, str], _Book] = {}
    seen: set[str] = set()
    for execution in sorted(executions, key=lambda item: item.key):
        if execution.exec_id in seen:
            raise ValueError(f"execution {execution.exec_id} is given twice")
        seen.add(execution.exec_id)
        position = (execution.account_id, execution.symbol, execution.currency)
        if position not in books:
            books[position] = _Book(splits.get(position[:2], ()) if splits else ())
        books[position].take(execution)
    return _matching(books.values())


@exactly
def replay(executions: Iterable[Execution], skip: Decimal = ZERO, splits: Splits = ()) -> Matching:
    """The round trips of one position from a resume point on: its executions from that key on, and the point's skip."""
    book = _Book(splits)
    for index, execution in enumerate(sorted(executions, key=lambda item: item.key)):
        book.take(execution, skip if index == 0 else ZERO)
    return _matching([book])


def _matching(books: Iterable[_Book]) -> Matching:
    held = [book.finish() for book in books]
    episodes = sorted((episode for book in held for episode in book.episodes), key=lambda item: item.opened_key)
    fills = sorted(
        (fill for book in held for fill in book.fills), key=lambda item: (item.time, item.exec_id, item.role == "entry")
    )
    lots = {book.open.id: tuple(book.lots) for book in held if book.open is not None}
    return Matching(tuple(episodes), lots, tuple(fills))


def resume_point(episodes: Sequence[Episode], key: Key) -> ReplayPoint | None:
    """Where a position must be replayed from when the execution at `key` is added, changed or removed.

    `episodes` are the position's, oldest first; enough are those whose `last_key` is not before `key`. None means
    that `key` is later than all of them: nothing is touched and `advance` does. Otherwise every episode that opened
    at the point's key or later is replaced by what `replay` gives. (For a changed time take the earlier of the two.)"""
    touched = next((episode for episode in episodes if episode.last_key >= key), None)
    if touched is None:
        return None
    if key < touched.opened_key:
        return ReplayPoint(key)
    return ReplayPoint(touched.opened_key, touched.opened_skip)


def round_trip(
    episode: Episode, entry_exec_ids: Iterable[str], exit_exec_ids: Iterable[str], flags: Iterable[str] = ()
) -> RoundTrip:
    """The episode as an answer shows it; money to the cent, prices to six decimals."""
    status = episode.status
    closed_at = episode.last_at if status == "closed" else None
    entry = divide(episode.entry_value, episode.entry_quantity)
    leave = divide(episode.exit_value, episode.exit_quantity)
    return RoundTrip(
        id=episode.id,
        account_id=episode.account_id,
        instrument=episode.symbol,
        direction="BOT" if episode.direction == 1 else "SLD",
        entry_exec_ids=tuple(entry_exec_ids),
        exit_exec_ids=tuple(exit_exec_ids),
        entry_avg_price=price(entry or ZERO),
        exit_avg_price=None if leave is None else price(leave),
        total_quantity=episode.entry_quantity,
        open_quantity=episode.open_quantity,
        realized_pnl=None if status == "open" else cents(episode.realized),
        total_commission=cents(episode.fees),
        opened_at=episode.opened_at,
        closed_at=closed_at,
        status=status,
        holding_period_seconds=None if closed_at is None else int((closed_at - episode.opened_at).total_seconds()),
        currency=episode.currency,
        flags=tuple(flags),
    )
