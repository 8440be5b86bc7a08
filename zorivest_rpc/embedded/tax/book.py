"""Executions in, tax lots and wash sales out: a state that moves on by one event at a time.

Rule 1: a book built event by event and a book built from the whole history are the same book; `build` is the fold.
Rule 2: everything the book needs to go on is in its lots, so a book is restored from stored lots (`LotBook.restore`).
Rule 3: events about one underlying arrive in the order of (time, exec_id), over all accounts, because a wash sale looks
across them. An event from the past is refused; the caller rebuilds that underlying."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax import selection
from zorivest_rpc.embedded.tax.dates import trade_date
from zorivest_rpc.embedded.tax.holdings import Closing, Holdings
from zorivest_rpc.embedded.tax.lot import Lot, source_hash
from zorivest_rpc.embedded.tax.model import (
    DOLLAR,
    Accounts,
    AcquisitionSource,
    CostBasisMethod,
    Direction,
    OptionDelivery,
    StockSplit,
    TaxError,
    TaxFill,
    WashPolicy,
)
from zorivest_rpc.embedded.tax.money import apportion, exact, share_of
from zorivest_rpc.embedded.tax.selection import Pick
from zorivest_rpc.embedded.tax.symbols import option_terms, underlying
from zorivest_rpc.embedded.tax.wash import WashMatch, WashRule
from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["Event", "LotBook", "Step", "build", "event_order"]

Event = TaxFill | StockSplit | OptionDelivery

_OPENS = {Side.BOT: Direction.LONG, Side.SLD: Direction.SHORT}
_CLOSES = {Side.BOT: Direction.SHORT, Side.SLD: Direction.LONG}


class Step(msgspec.Struct, frozen=True):
    """What one event changed: lots in their new state, wash sales it caused, remarks for the reader."""

    lots: tuple[Lot, ...] = ()
    matches: tuple[WashMatch, ...] = ()
    warnings: tuple[str, ...] = ()


class _Moved(msgspec.Struct, frozen=True):
    """What a delivered option brings into its shares: premium with its sign, and washed losses it carried, which make
    a purchase dearer or a sale smaller."""

    premium: Decimal = ZERO
    adjustment: Decimal = ZERO
    chain_ids: tuple[str, ...] = ()


def event_order(event: Event) -> tuple[datetime, str]:
    return (event.time, event.exec_id)


class LotBook:
    """All lots of a set of accounts."""

    def __init__(
        self,
        *,
        accounts: Accounts | None = None,
        policy: WashPolicy | None = None,
        method: CostBasisMethod = CostBasisMethod.FIFO,
    ) -> None:
        self._holdings = Holdings()
        self._wash = WashRule(self._holdings, accounts or {}, policy or WashPolicy())
        self._method = method
        self._last: dict[str, tuple[datetime, str]] = {}
        self.matches: list[WashMatch] = []

    @property
    def lots(self) -> list[Lot]:
        return list(self._holdings.lots.values())

    @property
    def open_lots(self) -> list[Lot]:
        return [lot for lot in self._holdings.lots.values() if not lot.is_closed]

    @property
    def closed_lots(self) -> list[Lot]:
        return [lot for lot in self._holdings.lots.values() if lot.is_closed]

    @property
    def size(self) -> int:
        """How many lots are in the book."""
        return len(self._holdings.lots)

    def has_made(self, lot_id: str) -> bool:
        return lot_id in self._holdings.lots or lot_id in self._holdings.released

    def release(self, before: date) -> list[Lot]:
        """Give away the lots closed before a day. Once their windows are over nothing can change them: a book that is
        at day d needs none that was closed before d less 30 days."""
        return self._holdings.release(before)

    def lot(self, lot_id: str) -> Lot:
        return self._holdings.lots[lot_id]

    def candidates(self, lot_id: str) -> list[Lot]:
        """Open lots bought recently enough to take over the loss of a closed lot."""
        return self._wash.candidates(self._holdings.lots[lot_id])

    def restore(self, lots: Iterable[Lot], splits: Iterable[StockSplit] = ()) -> None:
        """Take up stored lots: every open one, and the losses of the last 30 days before whatever comes next.

        More closed lots do no harm. `splits` are the share splits already worked into the open lots."""
        worked_in = sorted(splits, key=event_order)
        for split in worked_in:
            self._note(split.symbol, event_order(split))
        known = list(lots)
        for lot in known:
            self._holdings.add(lot)
            self._note(lot.ticker, (lot.opened_at, lot.linked_trade_ids[0]))
            if lot.closed_at is not None:
                self._note(lot.ticker, (lot.closed_at, lot.linked_trade_ids[-1]))
        self._wash.restore(known, worked_in)
        self._holdings.touched.clear()

    def advance(self, event: Event) -> Step:
        """Move on by one event and say what changed."""
        if event.time.tzinfo is None:
            raise TaxError("naive_time", f"Execution {event.exec_id} has a time without an offset.")
        group, key = underlying(event.symbol), event_order(event)
        last = self._last.get(group)
        if last is not None and key <= last:
            raise TaxError(
                "out_of_order", f"Execution {event.exec_id} is not after {last[1]}; rebuild {group} in order."
            )
        if isinstance(event, StockSplit):
            step = self._split(event)
        elif isinstance(event, OptionDelivery):
            step = self._deliver(event)
        else:
            step = self._trade(event)
        self._last[group] = key
        self.matches += step.matches
        return step

    def _note(self, symbol: str, key: tuple[datetime, str]) -> None:
        group = underlying(symbol)
        self._last[group] = max(key, self._last.get(group, key))

    def _trade(self, fill: TaxFill, moved: _Moved | None = None) -> Step:
        """A fill closes what stands against it and opens the rest; `moved` comes out of options into its shares."""
        is_below_zero = fill.price < 0 and fill.asset_class is not AssetClass.FUTURE  # CL on 20 April 2020
        if fill.quantity <= 0 or is_below_zero or fill.multiplier <= 0:
            raise TaxError(
                "invalid_execution", f"Execution {fill.exec_id} has no positive quantity or a negative price."
            )
        day = trade_date(fill.time)
        warnings: list[str] = []
        picks, rest = self._pick(fill, day, warnings)
        moved = moved or _Moved()
        gross = exact(fill.price * fill.quantity * fill.multiplier) + moved.premium
        net = gross + fill.commission if fill.side is Side.BOT else gross - fill.commission
        shares = [*(pick.quantity for pick in picks), rest]
        amounts, taken_over = apportion(exact(net), shares), apportion(moved.adjustment, shares)
        closing = Closing(fill.exec_id, fill.time, day, self._method_of(fill))
        closed = [
            self._burden(self._holdings.close(pick.lot.lot_id, pick.quantity, amount, closing), part, moved)
            for pick, amount, part in zip(picks, amounts, taken_over, strict=False)
        ]
        matches = self._wash.after_close(closed)
        if rest > 0:
            opened = self._open(fill, day, rest, amounts[-1])
            self._holdings.add(opened)
            matches += self._wash.after_open(self._burden(opened, taken_over[-1], moved))
        return Step(self._holdings.drain(), tuple(matches), tuple(warnings))

    def _burden(self, lot: Lot, adjustment: Decimal, moved: _Moved) -> Lot:
        """A lot of shares with the part that falls to it of the washed losses a delivered option had taken over."""
        if not adjustment:
            return lot
        changed = msgspec.structs.replace(
            lot,
            wash_sale_adjustment=lot.wash_sale_adjustment + adjustment,
            chain_ids=tuple(dict.fromkeys((*lot.chain_ids, *moved.chain_ids))),
        )
        self._holdings.put(changed)
        return changed

    def _method_of(self, fill: TaxFill) -> CostBasisMethod:
        return fill.method or self._method

    def _pick(self, fill: TaxFill, day: date, warnings: list[str]) -> tuple[list[Pick], Decimal]:
        """The lots a fill closes, by the account's method, and the quantity it opens."""
        where = (fill.account_id, fill.symbol, fill.currency)
        if self._holdings.direction(*where) is not _CLOSES[fill.side]:
            return [], fill.quantity
        method = self._method_of(fill)
        if method is CostBasisMethod.SPEC_ID and not fill.lot_ids:
            # Without an identification at the time of sale the oldest lots are sold (Reg. §1.1012-1(c)(1)).
            warnings.append(f"Execution {fill.exec_id} names no lots; the oldest were used.")
            method = CostBasisMethod.FIFO
        if method is CostBasisMethod.AVG_COST:
            method = self._average(fill, warnings)
        if method is CostBasisMethod.FIFO:
            return selection.take(self._holdings.position(*where), fill.quantity)
        if method is CostBasisMethod.LIFO:
            return selection.take(self._holdings.newest_first(*where), fill.quantity)
        if method is CostBasisMethod.HIFO:
            return selection.take(self._holdings.dearest_first(*where), fill.quantity)
        lots = list(self._holdings.position(*where))
        ordered = selection.order(lots, method, price=fill.price, today=day, lot_ids=fill.lot_ids)
        if method is CostBasisMethod.SPEC_ID:
            named = {lot.lot_id for lot in ordered}
            ordered += [lot for lot in lots if lot.lot_id not in named]
        return selection.take(ordered, fill.quantity)

    def _average(self, fill: TaxFill, warnings: list[str]) -> CostBasisMethod:
        lots = list(self._holdings.position(fill.account_id, fill.symbol, fill.currency))
        warning = selection.average_cost_warning(lots)
        if warning is not None:
            warnings.append(warning)
        if fill.side is Side.SLD:
            self._holdings.rewrite(selection.average(lots))
        return CostBasisMethod.FIFO

    def _open(self, fill: TaxFill, day: date, quantity: Decimal, amount: Decimal) -> Lot:
        is_long = fill.side is Side.BOT
        return Lot(
            lot_id=self._holdings.free_id(f"lot-{fill.exec_id}"),
            account_id=fill.account_id,
            ticker=fill.symbol,
            direction=_OPENS[fill.side],
            quantity=quantity,
            multiplier=fill.multiplier,
            asset_class=fill.asset_class,
            opened_at=fill.time,
            open_date=day,
            cost=amount if is_long else None,
            received=None if is_long else amount,
            purchase=fill.order_id or fill.exec_id,
            linked_trade_ids=(fill.exec_id,),
            source=fill.source,
            source_hash=source_hash(fill),
            currency=fill.currency,
        )

    def _split(self, split: StockSplit) -> Step:
        if split.to <= 0 or split.of <= 0:
            raise TaxError("invalid_split", f"Split {split.exec_id} has no positive ratio.")
        self._holdings.scale(split)
        self._wash.scale(split)
        return Step(self._holdings.drain())

    def _deliver(self, event: OptionDelivery) -> Step:
        """Exercise or assignment: the option closes without a gain and its premium moves into the shares.

        A call exercised or a put assigned buys the shares, a put exercised or a call assigned sells them; a premium
        paid makes the shares dearer or their sale smaller, a premium received the other way round (Pub. 550)."""
        terms = option_terms(event.symbol)
        where = (event.account_id, event.symbol, DOLLAR if event.closing is None else event.closing.currency)
        direction = self._holdings.direction(*where)
        day = trade_date(event.time)
        picks, missing = selection.take(self._holdings.position(*where), event.contracts)
        expected = None if event.closing is None else _CLOSES[event.closing.side]
        if terms is None or direction is None or missing > 0 or expected not in (None, direction):
            return self._handle_missing_contracts(event, missing)
        is_long = direction is Direction.LONG
        buys = (terms.right == "C") == is_long
        premium, adjustment, shares = ZERO, ZERO, ZERO
        chain_ids: dict[str, None] = {}
        for pick in picks:
            adjustment += share_of(pick.lot.wash_sale_adjustment, pick.quantity, pick.lot.quantity)
            chain_ids.update(dict.fromkeys(pick.lot.chain_ids))
            closed = self._close_delivered(pick, event, day)
            premium += (closed.cost if is_long else closed.received) or ZERO
            shares += closed.units
        source = AcquisitionSource.EXERCISE if is_long else AcquisitionSource.ASSIGNMENT
        fill = event.shares or TaxFill(
            exec_id=event.exec_id,
            time=event.time,
            account_id=event.account_id,
            symbol=terms.underlying,
            side=Side.BOT if buys else Side.SLD,
            quantity=shares,
            price=terms.strike,
            commission=event.commission,
            asset_class=AssetClass.EQUITY,
        )
        settled = msgspec.structs.replace(fill, time=event.time, source=source)
        return self._trade(settled, _Moved(premium if buys == is_long else -premium, adjustment, tuple(chain_ids)))

    def _handle_missing_contracts(self, event: OptionDelivery, missing: Decimal) -> Step:
        """The contracts are not there: fills of the journal count as they are, anything else is refused."""
        if event.closing is None or event.shares is None:
            if missing < event.contracts:
                raise TaxError("insufficient_quantity", f"{event.contracts} contracts of {event.symbol} are not open.")
            raise TaxError("no_open_lots", f"No open option {event.symbol} in account {event.account_id}.")
        steps = [self._trade(msgspec.structs.replace(fill, time=event.time)) for fill in (event.closing, event.shares)]
        warning = f"{event.symbol} was not open when it was delivered; its premium is not in the shares."
        return Step(
            tuple({lot.lot_id: lot for step in steps for lot in step.lots}.values()),
            tuple(match for step in steps for match in step.matches),
            (*(text for step in steps for text in step.warnings), warning),
        )

    def _close_delivered(self, pick: Pick, event: OptionDelivery, day: date) -> Lot:
        """Close an option at what makes its gain nil; a loss it had taken over goes on into the shares."""
        exec_id = event.exec_id if event.closing is None else event.closing.exec_id
        closing = Closing(exec_id, event.time, day, delivered=True)
        closed = self._holdings.close(pick.lot.lot_id, pick.quantity, ZERO, closing)
        if closed.direction is Direction.LONG:
            settled = msgspec.structs.replace(closed, received=closed.cost, wash_sale_adjustment=ZERO)
        else:
            settled = msgspec.structs.replace(closed, cost=closed.received, wash_sale_adjustment=ZERO)
        self._holdings.put(settled)
        return settled


def build(events: Iterable[Event], book: LotBook) -> LotBook:
    """Advance `book` through a whole history, in order whatever order it comes in."""
    for event in sorted(events, key=event_order):
        book.advance(event)
    return book
