"""Wash sales (§1091), found as trades arrive: a loss waits 30 days for a replacement, a purchase looks 30 days back.

Rule 1: losses are matched in the order of the sales, replacements in the order of acquisition (Reg. §1.1091-1(b)-(d)).
Rule 2: one share replaces one share once; a loss is disallowed for as many shares as were replaced, no more.
Rule 3: the disallowed amount moves whole: into the replacement's basis (§1091(d)), or nowhere when the replacement is
in an IRA (Rev. Rul. 2008-5). The replacement takes over the days the sold shares were held (§1223(3)).
Rule 4: what remains of the purchase a loss was sold from does not replace it (Rev. Rul. 56-602), nor do shares that
were gone when the loss was taken. Fills of one order are one purchase.
Rule 5: only stock and securities can be washed; futures, currency and crypto assets are neither."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, Decimal

import msgspec
from msgspec.structs import replace

from zorivest_rpc.embedded.tax.holdings import Holdings
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    OWN_TAXABLE,
    Accounts,
    AcquisitionSource,
    Direction,
    StockSplit,
    WashPolicy,
    WashSaleMethod,
)
from zorivest_rpc.embedded.tax.money import share_of
from zorivest_rpc.embedded.tax.ordered import Ordered
from zorivest_rpc.embedded.tax.symbols import is_section_1256, option_terms
from zorivest_rpc.embedded.values.kinds import AssetClass
from zorivest_rpc.embedded.values.money import ZERO

__all__ = ["WINDOW", "WashMatch", "WashRule", "can_be_washed", "closing_order", "is_candidate", "replaceable_symbols"]

WINDOW = timedelta(days=30)
_SECURITIES = {AssetClass.EQUITY, AssetClass.OPTION, AssetClass.BOND, AssetClass.MUTUAL_FUND}


class WashMatch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Part of one loss, disallowed because of part of one purchase."""

    chain_id: str
    ticker: str
    loss_lot_id: str
    replacement_lot_id: str
    loss_account_id: str
    replacement_account_id: str
    sell_trade: str
    buy_trade: str
    loss_date: date
    loss_open_date: date
    replacement_date: date
    matched_quantity: Decimal
    disallowed: Decimal
    adjusted_basis: Decimal
    tacked_days: int
    is_drip: bool
    is_permanent: bool


_ACQUIRED = {
    AcquisitionSource.PURCHASE,
    AcquisitionSource.DRIP,
    AcquisitionSource.EXERCISE,
    AcquisitionSource.ASSIGNMENT,
}  # §1091(a) speaks of purchases and taxable exchanges; gifts, inheritances and transfers are neither


_Line = tuple[str, Direction, bool]  # a symbol, a direction, and whose: only lots of one line can concern each other
_Order = tuple[datetime, str, int, str]  # `Lot.order`, which ends with the lot's id


class _Waiting(msgspec.Struct):
    lot_id: str
    closed_at: datetime
    day: date
    account_id: str
    to: Decimal  # so many units now
    of: Decimal  # for so many then, when the share was split since


def closing_order(lot: Lot) -> tuple[datetime, str, tuple[datetime, str, int, str]]:
    """The order of the sales; lots sold together in the order they were acquired."""
    return (lot.closed_at or lot.opened_at, lot.linked_trade_ids[-1], lot.order)


def is_candidate(loss: Lot, other: Lot, accounts: Accounts, policy: WashPolicy) -> bool:
    """Whether `other` may replace the shares of `loss`, dates and quantities aside."""
    if other.direction is not loss.direction or other.purchase == loss.purchase or other.source not in _ACQUIRED:
        return False
    if other.source is AcquisitionSource.DRIP and not policy.include_drip:
        return False
    if policy.include_spousal:
        return True
    return accounts.get(other.account_id, OWN_TAXABLE).spousal == accounts.get(loss.account_id, OWN_TAXABLE).spousal


def can_be_washed(lot: Lot, accounts: Accounts, policy: WashPolicy, sold: date) -> bool:
    """Whether §1091 reaches a loss on `lot` sold on a day: a security in a taxable account, not marked to market."""
    if lot.asset_class not in _SECURITIES or sold.year in policy.mark_to_market_years:
        return False
    if accounts.get(lot.account_id, OWN_TAXABLE).tax_advantaged:
        return False
    return not (policy.section_1256_eligible and is_section_1256(lot.ticker, lot.asset_class))


def replaceable_symbols(ticker: str, direction: Direction, policy: WashPolicy) -> tuple[str, ...]:
    """Whose losses an acquisition of `ticker` can wash: its own, and for a call bought also the share's (§1091(a))."""
    terms = option_terms(ticker)
    reaches_share = (
        policy.method is WashSaleMethod.CONSERVATIVE
        and terms is not None
        and terms.right == "C"
        and direction is Direction.LONG
    )
    return (ticker, terms.underlying) if reaches_share and terms is not None else (ticker,)


class WashRule:
    """Watches the closes and openings of one set of holdings and moves disallowed losses between their lots."""

    def __init__(self, holdings: Holdings, accounts: Accounts, policy: WashPolicy) -> None:
        self._holdings = holdings
        self._accounts = accounts
        self._policy = policy
        self._waiting: dict[_Line, deque[_Waiting]] = {}
        self._recent: dict[_Line, Ordered[_Order]] = {}

    def concerns(self, lot: Lot) -> bool:
        """Whether the result of a closed lot can be disallowed at all."""
        return (
            lot.close_date is not None
            and not lot.delivered
            and can_be_washed(lot, self._accounts, self._policy, lot.close_date)
        )

    def after_close(self, closed: Iterable[Lot]) -> list[WashMatch]:
        """Match losses just taken against purchases of the last 30 days that are still held."""
        matches: list[WashMatch] = []
        for loss in sorted(closed, key=closing_order):
            if loss.gain < 0 and self.concerns(loss) and loss.closed_at and loss.close_date:
                entry = _Waiting(loss.lot_id, loss.closed_at, loss.close_date, loss.account_id, Decimal(1), Decimal(1))
                matches += self._look_back(entry)
                self._wait(entry)
        return matches

    def _line(self, lot: Lot, symbol: str) -> _Line:
        """The line of a symbol that a lot belongs to; a couple that looks at its accounts together has one for both."""
        is_spouses = self._accounts.get(lot.account_id, OWN_TAXABLE).spousal and not self._policy.include_spousal
        return (symbol, lot.direction, is_spouses)

    def _wait(self, entry: _Waiting) -> None:
        """Let what is left of a loss wait for purchases of the next 30 days."""
        loss = self._holdings.lots[entry.lot_id]
        if _is_left(loss):
            self._waiting.setdefault(self._line(loss, loss.ticker), deque()).append(entry)

    def after_open(self, opened: Lot) -> list[WashMatch]:
        """Match a purchase against the losses of the last 30 days, the oldest loss first; what is left of it is kept
        in mind for losses to come."""
        matches: list[WashMatch] = []
        for symbol in replaceable_symbols(opened.ticker, opened.direction, self._policy):
            line = self._waiting.get(self._line(opened, symbol))
            if not line:
                continue
            self._forget(line, opened.open_date - WINDOW)
            for entry in line:
                lot = self._holdings.lots[opened.lot_id]
                if _free_units(lot) <= 0:
                    break
                loss = self._holdings.lots[entry.lot_id]
                if _is_left(loss) and is_candidate(loss, lot, self._accounts, self._policy):
                    matches.append(self._match(entry, loss, lot))
            self._forget(line, opened.open_date - WINDOW)
        self._keep_in_mind(self._holdings.lots[opened.lot_id])
        return matches

    def candidates(self, loss: Lot) -> list[Lot]:
        """Open lots that could still replace units of a loss just taken, whether or not any are left to replace."""
        if loss.close_date is None or loss.gain >= 0 or not self.concerns(loss):
            return []
        usable = self._usable(self._line(loss, loss.ticker), loss.close_date - WINDOW)
        return [lot for lot in usable if is_candidate(loss, lot, self._accounts, self._policy)]

    def restore(self, lots: Iterable[Lot], splits: Iterable[StockSplit]) -> None:
        """Take up stored lots: open ones as possible replacements, losses as waiting for one."""
        for lot in sorted(lots, key=lambda lot: lot.order):
            self._keep_in_mind(lot)
        for lot in sorted(lots, key=closing_order):
            if lot.closed_at and lot.close_date and lot.gain < 0 and self.concerns(lot):
                self._wait(_Waiting(lot.lot_id, lot.closed_at, lot.close_date, lot.account_id, Decimal(1), Decimal(1)))
        for split in splits:
            self.scale(split)

    def _keep_in_mind(self, lot: Lot) -> None:
        if lot.is_closed or _free_units(lot) <= 0 or lot.source not in _ACQUIRED:
            return
        for symbol in replaceable_symbols(lot.ticker, lot.direction, self._policy):
            self._recent.setdefault(self._line(lot, symbol), Ordered()).add(lot.order)

    def scale(self, split: StockSplit) -> None:
        """A split: losses that were taken before it and still wait are counted in new shares from here on."""
        for (symbol, _, _), line in self._waiting.items():
            for entry in line if symbol == split.symbol else ():
                if entry.closed_at < split.time and split.account_id in (None, entry.account_id):
                    entry.to, entry.of = entry.to * split.to, entry.of * split.of

    def _forget(self, line: deque[_Waiting], since: date) -> None:
        while line and (line[0].day < since or not _is_left(self._holdings.lots[line[0].lot_id])):
            line.popleft()

    def _look_back(self, entry: _Waiting) -> list[WashMatch]:
        loss = self._holdings.lots[entry.lot_id]
        matches: list[WashMatch] = []
        for lot in self._usable(self._line(loss, loss.ticker), entry.day - WINDOW):
            if is_candidate(loss, lot, self._accounts, self._policy):
                matches.append(self._match(entry, loss, lot))
                loss = self._holdings.lots[entry.lot_id]
                if not _is_left(loss):
                    break
        return matches

    def _usable(self, name: _Line, since: date) -> Iterator[Lot]:
        """Open lots of every account bought on or after a day, oldest first, with shares not yet used to replace.

        What turns out closed, used up or too old is dropped on the way, so no lot is passed over twice in vain."""
        line = self._recent.get(name)
        order = line.after(None) if line else None
        while line and order is not None:
            lot = self._holdings.lots.get(order[-1])
            if lot is None or lot.is_closed or _free_units(lot) <= 0 or lot.open_date < since:
                line.discard(order)
            else:
                yield lot
            order = line.after(order)

    def _match(self, entry: _Waiting, loss: Lot, candidate: Lot) -> WashMatch:
        """Disallow what `candidate` replaces of `loss`, and move it into the replacing shares."""
        left = loss.quantity - loss.washed_quantity
        left_units = left * loss.multiplier * entry.to / entry.of
        matched = min(left_units, _free_units(candidate))
        used = left if matched == left_units else matched * entry.of / (loss.multiplier * entry.to)
        amount = share_of(-loss.gain - loss.disallowed, matched, left_units)
        permanent = self._accounts.get(candidate.account_id, OWN_TAXABLE).tax_advantaged
        held = loss.holding_days(entry.day)
        chain = loss.chain_ids[:1] or (f"wash-{loss.lot_id}",)
        target = self._set_apart(candidate, matched)
        changed = replace(target, replaced_units=target.replaced_units + matched)
        if not permanent:
            changed = replace(
                changed,
                wash_sale_adjustment=target.wash_sale_adjustment + amount,
                tacked_days=max(target.tacked_days, held) if target.replaced_units else target.tacked_days + held,
                chain_ids=tuple(dict.fromkeys((*target.chain_ids, *chain))),
            )
        self._holdings.put(changed)
        if changed.lot_id != candidate.lot_id:
            self._keep_in_mind(changed)  # a contract may have shares to spare
        self._holdings.put(
            replace(loss, disallowed=loss.disallowed + amount, washed_quantity=loss.washed_quantity + used)
        )
        opening = changed.cost if changed.direction is Direction.LONG else changed.received
        return WashMatch(
            chain_id=chain[0],
            ticker=loss.ticker,
            loss_lot_id=loss.lot_id,
            replacement_lot_id=changed.lot_id,
            loss_account_id=loss.account_id,
            replacement_account_id=changed.account_id,
            sell_trade=loss.linked_trade_ids[-1],
            buy_trade=changed.linked_trade_ids[0],
            loss_date=entry.day,
            loss_open_date=loss.open_date,
            replacement_date=changed.open_date,
            matched_quantity=used,
            disallowed=amount,
            adjusted_basis=_adjust_basis(opening or ZERO, changed),
            tacked_days=0 if permanent else held,
            is_drip=changed.source is AcquisitionSource.DRIP,
            is_permanent=permanent,
        )

    def _set_apart(self, candidate: Lot, matched: Decimal) -> Lot:
        """The part of a lot that replaces `matched` units: the lot itself, or a piece cut off it (whole contracts)."""
        quantity = matched / candidate.multiplier
        if candidate.asset_class is AssetClass.OPTION:
            quantity = quantity.to_integral_value(ROUND_CEILING)
        if candidate.replaced_units or quantity >= candidate.quantity:
            return candidate
        return self._holdings.cut(candidate.lot_id, quantity)


def _free_units(lot: Lot) -> Decimal:
    return lot.units - lot.replaced_units


def _is_left(loss: Lot) -> bool:
    return loss.washed_quantity < loss.quantity


def _adjust_basis(opening: Decimal, lot: Lot) -> Decimal:
    """Basis of the replacing lot after the move; for a short lot the proceeds are what is lowered."""
    sign = 1 if lot.direction is Direction.LONG else -1
    return opening + sign * lot.wash_sale_adjustment
