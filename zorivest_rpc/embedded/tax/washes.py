"""Wash sales as a reader sees them: one row per match, and chains that follow a loss until it counts or is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.money import ZERO, cents
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import DISCLAIMER, WashSaleStatus
from zorivest_rpc.embedded.tax.money import apportion, per_unit
from zorivest_rpc.embedded.tax.symbols import underlying
from zorivest_rpc.embedded.tax.wash import WINDOW, WashMatch

__all__ = [
    "ChainEnds",
    "WashChain",
    "WashEntry",
    "WashSaleReport",
    "WashSaleRow",
    "WashScan",
    "WashWindow",
    "chains",
    "find",
    "scan",
]


class WashWindow(msgspec.Struct, frozen=True, gc=False):
    start: date
    end: date


class WashSaleRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One loss and one purchase that replaced it, in whole or in part."""

    chain_id: str
    ticker: str
    sell_trade: str
    buy_trade: str
    loss_lot_id: str
    replacement_lot_id: str
    account_id: str
    replacement_account_id: str
    loss_date: date
    replacement_date: date
    matched_quantity: Decimal
    disallowed_loss: Decimal
    adjusted_basis: Decimal
    adjustment_per_share: Decimal
    tacked_days: int
    wash_window: WashWindow
    status: WashSaleStatus
    is_drip: bool
    is_ira_permanent: bool


class WashSaleReport(msgspec.Struct, frozen=True, kw_only=True):
    wash_sales: tuple[WashSaleRow, ...]
    total_disallowed: Decimal
    disallowed_total: Decimal
    affected_tickers: tuple[str, ...]
    disclaimer: str = DISCLAIMER


class WashEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened to a chain."""

    entry_id: str
    chain_id: str
    event_type: WashSaleStatus
    lot_id: str
    amount: Decimal
    event_date: date
    account_id: str


class WashChain(msgspec.Struct, frozen=True, kw_only=True):
    """A loss, everything that became of it, and the amount that still waits in open lots."""

    chain_id: str
    ticker: str
    loss_lot_id: str
    loss_date: date
    loss_open_date: date
    loss_amount: Decimal
    disallowed_amount: Decimal
    trapped_amount: Decimal
    status: WashSaleStatus
    entries: tuple[WashEntry, ...]


class WashScan(msgspec.Struct, frozen=True, kw_only=True):
    active_chains: tuple[WashChain, ...]
    trapped_amount: Decimal
    alerts: tuple[str, ...]
    disclaimer: str = DISCLAIMER


class ChainEnds(msgspec.Struct, frozen=True):
    """What became of chains: those that lead to an open lot, and those that lost something to an IRA."""

    waiting: frozenset[str]
    lost: frozenset[str]

    @classmethod
    def of(cls, links: Iterable[WashMatch], lots: Iterable[Lot]) -> ChainEnds:
        waiting = {name for lot in lots if not lot.is_closed for name in lot.chain_ids}
        return cls(frozenset(waiting), frozenset(link.chain_id for link in links if link.is_permanent))

    def status(self, chain_id: str) -> WashSaleStatus:
        if chain_id in self.waiting:
            return WashSaleStatus.ABSORBED
        return WashSaleStatus.DESTROYED if chain_id in self.lost else WashSaleStatus.RELEASED


def find(
    matches: Iterable[WashMatch],
    lots: Mapping[str, Lot],
    ends: ChainEnds,
    *,
    start: date,
    end: date,
    account_id: str | None = None,
    ticker: str | None = None,
) -> WashSaleReport:
    """Wash sales whose loss was taken from `start` to `end`, in one account or for one symbol where asked; `lots` has
    the lots that made the losses."""
    wanted = [
        match
        for match in matches
        if start <= match.loss_date <= end
        and account_id in (None, match.loss_account_id)
        and ticker in (None, match.ticker, underlying(match.ticker))
    ]
    rows = tuple(_row(match, lots, ends.status(match.chain_id)) for match in sorted(wanted, key=_reading_order))
    total = sum((row.disallowed_loss for row in rows), ZERO)
    return WashSaleReport(
        wash_sales=rows,
        total_disallowed=total,
        disallowed_total=total,
        affected_tickers=tuple(sorted({row.ticker for row in rows})),
    )


def chains(matches: Iterable[WashMatch], lots: Mapping[str, Lot]) -> tuple[WashChain, ...]:
    """Every chain, in the order of the first losses."""
    grouped: dict[str, list[WashMatch]] = {}
    links = sorted(matches, key=_reading_order)
    ends = ChainEnds.of(links, lots.values())
    for match in links:
        grouped.setdefault(match.chain_id, []).append(match)
    taken: dict[tuple[str, str], Decimal] = {}
    for link in links:
        if not link.is_permanent:
            place = (link.buy_trade, link.chain_id)
            taken[place] = taken.get(place, ZERO) + link.disallowed
    carriers: dict[str, list[Lot]] = {}
    for lot in lots.values():
        for chain_id in lot.chain_ids:
            carriers.setdefault(chain_id, []).append(lot)
    return tuple(
        _chain(own, carriers.get(chain_id, []), lots, taken, ends.status(chain_id)) for chain_id, own in grouped.items()
    )


def scan(matches: Iterable[WashMatch], lots: Mapping[str, Lot], tax_year: int | None = None) -> WashScan:
    """Chains that still hold back a loss; with a year, those whose loss was taken in it."""
    active = [
        chain
        for chain in chains(matches, lots)
        if chain.status is WashSaleStatus.ABSORBED and tax_year in (None, chain.loss_date.year)
    ]
    alerts = tuple(
        f"{chain.trapped_amount} of {chain.ticker} losses wait in open lots: they count when those lots are sold and "
        f"nothing identical is bought within 30 days of that sale."
        for chain in active
    )
    return WashScan(
        active_chains=tuple(active),
        trapped_amount=sum((chain.trapped_amount for chain in active), ZERO),
        alerts=alerts,
    )


def _reading_order(match: WashMatch) -> tuple[date, str, date, str, str]:
    return (match.loss_date, match.loss_lot_id, match.replacement_date, match.buy_trade, match.replacement_lot_id)


def _row(match: WashMatch, lots: Mapping[str, Lot], chain_status: WashSaleStatus) -> WashSaleRow:
    status = WashSaleStatus.DESTROYED if match.is_permanent else chain_status
    if status is WashSaleStatus.DESTROYED and not match.is_permanent:
        status = WashSaleStatus.ABSORBED  # this link moved the loss on; a later one lost it
    loss = lots[match.loss_lot_id]
    units = match.matched_quantity * loss.multiplier
    return WashSaleRow(
        chain_id=match.chain_id,
        ticker=match.ticker,
        sell_trade=match.sell_trade,
        buy_trade=match.buy_trade,
        loss_lot_id=match.loss_lot_id,
        replacement_lot_id=match.replacement_lot_id,
        account_id=match.loss_account_id,
        replacement_account_id=match.replacement_account_id,
        loss_date=match.loss_date,
        replacement_date=match.replacement_date,
        matched_quantity=match.matched_quantity,
        disallowed_loss=cents(match.disallowed),
        adjusted_basis=cents(match.adjusted_basis),
        adjustment_per_share=ZERO if match.is_permanent else per_unit(match.disallowed, units),
        tacked_days=match.tacked_days,
        wash_window=WashWindow(match.loss_date - WINDOW, match.loss_date + WINDOW),
        status=status,
        is_drip=match.is_drip,
        is_ira_permanent=match.is_permanent,
    )


def _part(lot: Lot, chain_id: str, taken: Mapping[tuple[str, str], Decimal]) -> Decimal:
    """What a lot carries for one chain; a contract can have taken over several losses."""
    if len(lot.chain_ids) == 1:
        return lot.wash_sale_adjustment
    amounts = [taken.get((lot.linked_trade_ids[0], name), ZERO) for name in lot.chain_ids]
    weights = amounts if any(amounts) else [Decimal(1)] * len(amounts)
    return apportion(lot.wash_sale_adjustment, weights)[lot.chain_ids.index(chain_id)]


def _chain(
    links: list[WashMatch],
    carriers: list[Lot],
    lots: Mapping[str, Lot],
    taken: Mapping[tuple[str, str], Decimal],
    status: WashSaleStatus,
) -> WashChain:
    first = links[0]
    origin = lots[first.loss_lot_id]
    trapped = sum((_part(lot, first.chain_id, taken) for lot in carriers if not lot.is_closed), ZERO)
    return WashChain(
        chain_id=first.chain_id,
        ticker=first.ticker,
        loss_lot_id=first.loss_lot_id,
        loss_date=first.loss_date,
        loss_open_date=first.loss_open_date,
        loss_amount=cents(-origin.gain),
        disallowed_amount=cents(origin.disallowed),
        trapped_amount=cents(trapped),
        status=status,
        entries=_entries(links, carriers),
    )


def _entries(links: list[WashMatch], carriers: list[Lot]) -> tuple[WashEntry, ...]:
    events: list[tuple[date, WashSaleStatus, str, Decimal, str]] = []
    for link in links:
        disallowed_on = max(link.loss_date, link.replacement_date)
        end = WashSaleStatus.DESTROYED if link.is_permanent else WashSaleStatus.ABSORBED
        events += [
            (disallowed_on, WashSaleStatus.DISALLOWED, link.loss_lot_id, link.disallowed, link.loss_account_id),
            (disallowed_on, end, link.replacement_lot_id, link.disallowed, link.replacement_account_id),
        ]
    for lot in carriers:
        freed = lot.wash_sale_adjustment - lot.disallowed
        if lot.close_date is not None and not lot.delivered and freed > 0:
            events.append((lot.close_date, WashSaleStatus.RELEASED, lot.lot_id, freed, lot.account_id))
    events.sort(key=lambda event: event[0])
    return tuple(
        WashEntry(
            entry_id=f"{links[0].chain_id}:{n}",
            chain_id=links[0].chain_id,
            event_type=kind,
            lot_id=lot_id,
            amount=cents(amount),
            event_date=day,
            account_id=account_id,
        )
        for n, (day, kind, lot_id, amount, account_id) in enumerate(events, 1)
    )
