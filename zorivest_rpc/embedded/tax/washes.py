"""Wash sales as a reader sees them: one row per match, with what became of the loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import DISCLAIMER, WashSaleStatus
from zorivest_rpc.embedded.tax.money import per_unit
from zorivest_rpc.embedded.tax.symbols import underlying
from zorivest_rpc.embedded.tax.wash import WINDOW, WashMatch
from zorivest_rpc.embedded.values.money import ZERO, cents

__all__ = [
    "ChainEnds",
    "WashSaleReport",
    "WashSaleRow",
    "WashWindow",
    "find",
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


class ChainEnds(msgspec.Struct, frozen=True):
    """What became of chains: those that lead to an open lot, and those that lost something to an IRA."""

    waiting: frozenset[str]
    lost: frozenset[str]

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
